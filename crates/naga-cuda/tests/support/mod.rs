//! What the test files share: WGSL in, CUDA C++ out, and NVRTC where it is installed.
#![allow(dead_code, reason = "each test file uses its part")]

use std::{ffi::CString, fs, path::PathBuf};

use cudarc::nvrtc;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga_cuda::{Error, Options, Translation};

pub const PRELUDE: &str = include_str!("../../src/prelude.cuh");

/// The golden files' sources, by name.
pub fn sources() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wgsl");
    let mut sources: Vec<_> = fs::read_dir(folder)
        .expect("the folder of sources")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, fs::read_to_string(path).expect("a source"))
        })
        .collect();
    sources.sort();
    sources
}

pub fn translate_with(source: &str, options: &Options) -> Result<Translation, Error> {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    naga_cuda::write(&module, &info, options)
}

pub fn translate(source: &str) -> Translation {
    translate_with(source, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The text of the error that translating `source` must give.
pub fn refusal(source: &str) -> String {
    match translate_with(source, &Options::default()) {
        Ok(translation) => panic!("no error, but\n{}", body(&translation)),
        Err(error) => error.to_string(),
    }
}

/// The source after the prelude, which is the same for all.
pub fn body(translation: &Translation) -> &str {
    translation
        .source
        .strip_prefix(PRELUDE)
        .expect("the prelude")
}

/// Whether NVRTC can be loaded; a test command that installs it says that it must.
pub fn nvrtc_is_there() -> bool {
    // SAFETY: only asks the loader whether the library can be opened.
    let present = unsafe { nvrtc::sys::is_culib_present() };
    assert!(
        present || std::env::var_os("WHITEWATER_REQUIRE_NVRTC").is_none(),
        "NVRTC is required and cannot be loaded"
    );
    if !present {
        eprintln!("skipped: NVRTC is not installed");
    }
    present
}

/// What NVRTC makes of `source`: a cubin for `sm_…`, PTX for `compute_…`.
pub fn compile(source: &str, architecture: &str) -> Vec<u8> {
    let text = CString::new(source).expect("a source without NUL");
    let program = nvrtc::result::create_program(&text, None).expect("a program");
    let options = [
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".into(),
        "--fmad=false".into(),
        "--device-as-default-execution-space".into(),
    ];
    // SAFETY: the program is valid until it is destroyed; buffers have the sizes NVRTC asks for.
    unsafe {
        if nvrtc::result::compile_program(program, &options).is_err() {
            let log = nvrtc::result::get_program_log(program).expect("a log");
            let log: Vec<u8> = log.iter().map(|c| *c as u8).collect();
            let body = source.strip_prefix(PRELUDE).unwrap_or(source);
            panic!("{}\n{body}", String::from_utf8_lossy(&log));
        }
        let mut bytes = 0;
        let is_cubin = architecture.starts_with("sm_");
        match is_cubin {
            true => nvrtc::sys::nvrtcGetCUBINSize(program, &mut bytes),
            false => nvrtc::sys::nvrtcGetPTXSize(program, &mut bytes),
        }
        .result()
        .expect("a size");
        let mut image = vec![0u8; bytes];
        match is_cubin {
            true => nvrtc::sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()),
            false => nvrtc::sys::nvrtcGetPTX(program, image.as_mut_ptr().cast()),
        }
        .result()
        .expect("an image");
        nvrtc::result::destroy_program(program).expect("no program left");
        image
    }
}

/// The PTX of a whole WGSL source.
pub fn ptx(source: &str) -> String {
    String::from_utf8(compile(&translate(source).source, "compute_90")).expect("text")
}
