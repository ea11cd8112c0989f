//! CUDA C++ to cubins of the device's own architecture, through NVRTC, cached on disk.

use std::{
    collections::HashMap,
    ffi::{CString, c_char, c_int},
    sync::Arc,
};

use cudarc::{
    driver::{result, sys},
    nvrtc,
};

use super::{lost, unavailable};
use crate::{
    DeviceInfo, Error, Result,
    backend::RawModule,
    cache::{self, DiskCache},
    shader::Linked,
};

/// A loaded module: its functions by the entry points' WGSL names.
pub(super) struct CudaModule {
    pub(super) functions: HashMap<String, CudaFunction>,
}

pub(super) struct CudaFunction {
    pub(super) handle: sys::CUfunction,
    pub(super) entry: naga_cuda::EntryPoint,
}

// SAFETY: function handles belong to the context and are never unloaded.
unsafe impl Send for CudaFunction {}
unsafe impl Sync for CudaFunction {}

/// NVRTC's version, after loading it.
pub(super) fn nvrtc_version() -> Result<(c_int, c_int)> {
    // SAFETY: only asks the loader whether the library can be opened.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        return Err(unavailable(
            "libnvrtc is not installed (CUDA toolkit, or PyPI's nvidia-cuda-nvrtc with its \
             folder on LD_LIBRARY_PATH)",
        ));
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: NVRTC writes two ints.
    unsafe { nvrtc::sys::nvrtcVersion(&mut major, &mut minor) }
        .result()
        .map_err(unavailable)?;
    Ok((major, minor))
}

pub(super) fn compile(
    linked: &Linked,
    cache: &DiskCache,
    info: &DeviceInfo,
    toolchain: &str,
) -> Result<RawModule> {
    let name = format!(
        "{}.cubin",
        cache::key(&[linked.key.as_bytes(), toolchain.as_bytes()])
    );
    let architecture = info.architecture.as_deref().unwrap_or("sm_70");
    let translation = linked.cuda()?;
    let load = |cubin: &[u8]| load(cubin, &translation.entry_points);
    if let Some(module) = cache.get(&name).and_then(|cubin| load(&cubin).ok()) {
        return Ok(RawModule {
            module: Arc::new(module),
            compiled: false,
        });
    }
    let cubin = cubin(&linked.name, &translation.source, architecture)?;
    let module = load(&cubin)?;
    cache.put(&name, &cubin);
    Ok(RawModule {
        module: Arc::new(module),
        compiled: true,
    })
}

/// Compiles `linked` for the architectures that we promise, without a GPU; false where NVRTC is not
/// installed.
pub(crate) fn check(linked: &Linked) -> Result<bool> {
    if nvrtc_version().is_err() {
        return Ok(false);
    }
    let translation = linked.cuda()?;
    for architecture in ["sm_80", "sm_90"] {
        cubin(&linked.name, &translation.source, architecture)?;
    }
    Ok(true)
}

/// Machine code of `source` for `architecture`.
fn cubin(kernel: &str, source: &str, architecture: &str) -> Result<Vec<u8>> {
    let fail = |log: String| Error::Compile {
        kernel: kernel.into(),
        log,
    };
    let text = CString::new(source).map_err(|e| fail(e.to_string()))?;
    let program = nvrtc::result::create_program(&text, None).map_err(|e| fail(format!("{e:?}")))?;
    // Contraction is off so that a*b+c equals the CPU's.
    let options = [
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".into(),
        "--fmad=false".into(),
        "--device-as-default-execution-space".into(),
    ];
    // SAFETY: the program handle is valid until it is destroyed below; buffers are sized by
    // NVRTC's own answers.
    unsafe {
        let built = nvrtc::result::compile_program(program, &options);
        let outcome = match built {
            Ok(()) => {
                let mut bytes = 0;
                nvrtc::sys::nvrtcGetCUBINSize(program, &mut bytes)
                    .result()
                    .and_then(|()| {
                        let mut cubin = vec![0u8; bytes];
                        nvrtc::sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast::<c_char>())
                            .result()
                            .map(|()| cubin)
                    })
                    .map_err(|e| fail(format!("{e:?}")))
            }
            Err(_) => {
                let log = nvrtc::result::get_program_log(program).unwrap_or_default();
                let log: Vec<u8> = log.iter().map(|c| *c as u8).collect();
                Err(fail(String::from_utf8_lossy(&log).into_owned()))
            }
        };
        if let Err(error) = nvrtc::result::destroy_program(program) {
            tracing::warn!("nvrtcDestroyProgram: {error:?}");
        }
        outcome
    }
}

fn load(cubin: &[u8], entries: &[naga_cuda::EntryPoint]) -> Result<CudaModule> {
    // SAFETY: the image is a whole cubin; a damaged one is refused by the driver.
    let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.map_err(lost)?;
    let mut functions = HashMap::new();
    for entry in entries {
        let symbol = CString::new(entry.symbol.as_str()).map_err(|e| Error::Compile {
            kernel: entry.name.clone(),
            log: e.to_string(),
        })?;
        // SAFETY: the module was just loaded and is never unloaded.
        let handle = unsafe { result::module::get_function(module, symbol) }.map_err(lost)?;
        if entry.dynamic_shared_bytes > 0 {
            // SAFETY: the function handle is valid.
            unsafe {
                result::function::set_function_attribute(
                    handle,
                    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    entry.dynamic_shared_bytes as c_int,
                )
            }
            .map_err(|error| Error::Compile {
                kernel: entry.name.clone(),
                log: format!(
                    "{} bytes of workgroup memory: {error}",
                    entry.dynamic_shared_bytes
                ),
            })?;
        }
        functions.insert(
            entry.name.clone(),
            CudaFunction {
                handle,
                entry: entry.clone(),
            },
        );
    }
    Ok(CudaModule { functions })
}
