//! The CUDA backend: the driver and NVRTC, both loaded at run time.

pub(crate) mod compile;
mod driver;
mod launch;
mod transfer;

use std::{ffi::c_int, panic::AssertUnwindSafe};

use cudarc::driver::{
    result,
    sys::{self, CUdevice_attribute},
};
use parking_lot::Mutex;

use crate::{
    Backend, DeviceInfo, Error, Features, Result,
    backend::{DeviceBackend, RawBuffer, RawLaunch, RawModule, Timing},
    cache::DiskCache,
    shader::Linked,
};

/// A context on one GPU with one ordered stream.
pub(crate) struct Cuda {
    info: DeviceInfo,
    context: Context,
    stream: Stream,
    staging: Mutex<transfer::Staging>,
    events: Mutex<launch::Events>,
    /// Everything that a cubin depends on besides its source.
    toolchain: String,
}

struct Context(sys::CUcontext);
// SAFETY: the driver's handles may be used from any thread that makes the context current.
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

struct Stream(sys::CUstream);
// SAFETY: as for the context; the driver locks a stream itself.
unsafe impl Send for Stream {}
unsafe impl Sync for Stream {}

fn unavailable(reason: impl std::fmt::Display) -> Error {
    Error::NoDevice {
        selection: "cuda".into(),
        reason: reason.to_string(),
    }
}

/// Runs `f`, turning a panic of the loader (a symbol that an old library lacks) into an error.
fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|_| Err(unavailable("the CUDA libraries lack a function we call")))
}

/// Looks for usable GPUs.
pub(crate) fn enumerate() -> Result<Vec<DeviceInfo>, String> {
    guarded(|| {
        let count = driver::device_count()?;
        (0..count)
            .map(|ordinal| describe(result::device::get(ordinal).map_err(unavailable)?))
            .collect()
    })
    .map_err(|error| match error {
        Error::NoDevice { reason, .. } => reason,
        other => other.to_string(),
    })
}

fn attribute(device: sys::CUdevice, which: CUdevice_attribute) -> Result<c_int> {
    // SAFETY: the device handle came from the driver.
    unsafe { result::device::get_attribute(device, which) }.map_err(unavailable)
}

fn describe(device: sys::CUdevice) -> Result<DeviceInfo> {
    use CUdevice_attribute::*;
    let major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    if major < 7 {
        return Err(unavailable(format!(
            "compute capability {major}.{minor} is older than 7.0"
        )));
    }
    let version = driver::version()?;
    Ok(DeviceInfo {
        name: result::device::get_name(device).map_err(unavailable)?,
        backend: Backend::Cuda,
        driver: format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
        architecture: Some(format!("sm_{major}{minor}")),
        software: false,
        // SAFETY: the device handle came from the driver.
        memory_bytes: unsafe { result::device::total_mem(device) }.map_err(unavailable)? as u64,
        max_binding_bytes: u64::MAX,
        max_storage_buffers: 256,
        workgroup_memory: attribute(
            device,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )? as u32,
        max_workgroup_size: 1024,
        max_workgroups: i32::MAX as u32,
        subgroup_size: (32, 32),
        multiprocessors: attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        features: Features {
            int64: true,
            int64_atomics: true,
            float64: true,
            subgroups: true,
            forward_progress: true,
            // The call that reads an event's time came with CUDA 12.8.
            timestamps: version >= 12080,
        },
    })
}

impl Cuda {
    /// Opens the first GPU.
    pub(crate) fn open() -> Result<Self> {
        guarded(|| {
            if driver::device_count()? == 0 {
                return Err(unavailable("the driver sees no GPU"));
            }
            let device = result::device::get(0).map_err(unavailable)?;
            let info = describe(device)?;
            let nvrtc = compile::nvrtc_version()?;
            let (context, stream) = driver::open(device)?;
            let toolchain = format!(
                "{} nvrtc {}.{} {}",
                info.architecture.as_deref().unwrap_or_default(),
                nvrtc.0,
                nvrtc.1,
                info.driver
            );
            Ok(Self {
                info,
                context: Context(context),
                stream: Stream(stream),
                staging: Mutex::new(transfer::Staging::new()?),
                events: Mutex::default(),
                toolchain,
            })
        })
    }

    /// Makes the context current on this thread.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context is the one this struct retained.
        unsafe { result::ctx::set_current(self.context.0) }.map_err(lost)
    }
}

/// The device can no longer be used: CUDA's errors after a failed kernel are sticky.
fn lost(error: result::DriverError) -> Error {
    Error::Lost {
        reason: error.to_string(),
    }
}

fn pointer(raw: &RawBuffer) -> Result<u64> {
    match raw {
        RawBuffer::Cuda(pointer) => Ok(*pointer),
        RawBuffer::Wgpu(_) => Err(Error::Launch {
            kernel: "cuda".into(),
            reason: "a buffer of another device".into(),
        }),
    }
}

impl DeviceBackend for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&self) -> Option<u64> {
        self.enter().ok()?;
        result::mem_get_info().ok().map(|(free, _)| free as u64)
    }

    fn addressable(&self) -> bool {
        true
    }

    fn alloc(&self, bytes: u64) -> Result<RawBuffer> {
        self.enter()?;
        // SAFETY: the context is current; the pool frees the block once.
        match unsafe { result::malloc_sync(bytes as usize) } {
            Ok(pointer) => Ok(RawBuffer::Cuda(pointer)),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Err(Error::OutOfMemory {
                    asked: bytes,
                    in_use: 0,
                    budget: 0,
                })
            }
            Err(error) => Err(lost(error)),
        }
    }

    fn free(&self, raw: RawBuffer) {
        if let (Ok(()), RawBuffer::Cuda(pointer)) = (self.enter(), raw) {
            // SAFETY: the pool hands each block back once; the driver waits for its last use.
            if let Err(error) = unsafe { result::free_sync(pointer) } {
                tracing::warn!("cuMemFree: {error}");
            }
        }
    }

    fn write(&self, to: &RawBuffer, offset: u64, bytes: &[u8]) -> Result<()> {
        self.enter()?;
        let mut staging = self.staging.lock();
        staging.upload(self.stream.0, pointer(to)? + offset, bytes)
    }

    fn read(&self, from: &RawBuffer, offset: u64, into: &mut [u8]) -> Result<()> {
        self.enter()?;
        let mut staging = self.staging.lock();
        staging.download(self.stream.0, pointer(from)? + offset, into)
    }

    fn copy(&self, from: &RawBuffer, to: &RawBuffer, bytes: u64) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller keeps `bytes` within both buffers.
        unsafe {
            result::memcpy_dtod_async(pointer(to)?, pointer(from)?, bytes as usize, self.stream.0)
        }
        .map_err(lost)
    }

    fn fill(&self, buffer: &RawBuffer, bytes: u64, byte: u8) -> Result<()> {
        self.enter()?;
        // SAFETY: the pool's blocks are multiples of 512 bytes, so `bytes` is within the block.
        unsafe { result::memset_d8_async(pointer(buffer)?, byte, bytes as usize, self.stream.0) }
            .map_err(lost)
    }

    fn compile(&self, linked: &Linked, cache: &DiskCache) -> Result<RawModule> {
        self.enter()?;
        compile::compile(linked, cache, &self.info, &self.toolchain)
    }

    fn launch(&self, launch: &RawLaunch<'_>) -> Result<()> {
        self.enter()?;
        launch::launch(self.stream.0, &self.events, launch)
    }

    fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream lives as long as this struct.
        unsafe { result::stream::synchronize(self.stream.0) }.map_err(lost)
    }

    fn timings(&self) -> Result<Vec<Timing>> {
        if self.events.lock().is_empty() {
            return Ok(Vec::new());
        }
        self.synchronize()?;
        self.events.lock().collect()
    }

    fn persist(&self, _cache: &DiskCache) {}
}
