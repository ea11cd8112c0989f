//! Every construct's translation as a golden file, and all of them through NVRTC.

use std::{fs, path::PathBuf};

use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga_cuda::{ArgumentKind, Options, Translation, write};

fn sources() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wgsl");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the folder of sources")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn translate(source: &str, options: &Options) -> Result<Translation, naga_cuda::Error> {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    write(&module, &info, options)
}

/// The part of the source after the prelude, which is the same for all.
fn body(translation: &Translation) -> String {
    let (_, body) = translation
        .source
        .split_once("FN Vec<u32, 4> s_ballot")
        .expect("the prelude");
    let (_, body) = body
        .split_once("FN T s_broadcast_first")
        .expect("the prelude");
    let (_, body) = body.split_once('\n').expect("the prelude");
    format!("{body}\n{:#?}\n", translation.entry_points)
}

#[test]
fn translations_are_as_recorded() {
    for path in sources() {
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let source = fs::read_to_string(&path).expect("a source");
        let translation = translate(&source, &Options::default()).expect("a translation");
        insta::assert_snapshot!(name, body(&translation));
    }
}

#[test]
fn resident_invocations_bound_the_launch() {
    let source = "@compute @workgroup_size(64, 2) fn main() {}";
    for (resident, bounds) in [(None, "128"), (Some(1024), "128, 8"), (Some(64), "128, 1")] {
        let options = Options {
            resident_invocations: resident,
            ..Options::default()
        };
        let text = translate(source, &options).expect("a translation").source;
        assert!(
            text.contains(&format!("__launch_bounds__({bounds})")),
            "{text}"
        );
    }
}

/// Whether NVRTC can be loaded; a test command that installs it says that it must.
fn nvrtc() -> bool {
    // SAFETY: only asks the loader whether the library can be opened.
    let present = unsafe { cudarc::nvrtc::sys::is_culib_present() };
    assert!(
        present || std::env::var_os("WHITEWATER_REQUIRE_NVRTC").is_none(),
        "NVRTC is required and cannot be loaded"
    );
    if !present {
        eprintln!("skipped: NVRTC is not installed");
    }
    present
}

fn ptx(source: &str, architecture: &'static str) -> String {
    let options = cudarc::nvrtc::CompileOptions {
        arch: Some(architecture),
        options: vec![
            "--std=c++17".into(),
            "--fmad=false".into(),
            "--device-as-default-execution-space".into(),
        ],
        ..Default::default()
    };
    match cudarc::nvrtc::compile_ptx_with_opts(source, options) {
        Ok(ptx) => ptx.to_src(),
        Err(cudarc::nvrtc::CompileError::CompileError { log, .. }) => {
            panic!("{}", log.to_string_lossy())
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn nvrtc_compiles_every_translation() {
    if !nvrtc() {
        return;
    }
    for path in sources() {
        let source = fs::read_to_string(&path).expect("a source");
        let translation = translate(&source, &Options::default()).expect("a translation");
        for architecture in ["compute_80", "compute_90"] {
            ptx(&translation.source, architecture);
        }
    }
}

#[test]
fn sixteen_byte_vectors_load_at_once() {
    if !nvrtc() {
        return;
    }
    let source = fs::read_to_string(
        sources()
            .into_iter()
            .find(|p| p.ends_with("vectors.wgsl"))
            .expect("a source"),
    )
    .expect("a source");
    let text = ptx(
        &translate(&source, &Options::default())
            .expect("a translation")
            .source,
        "compute_90",
    );
    assert!(
        text.contains("ld.global.nc.v4.u32") || text.contains("ld.global.nc.v4.b32"),
        "{text}"
    );
    assert!(
        text.contains("ld.global.nc.v2.u64") || text.contains("ld.global.nc.v2.b64"),
        "{text}"
    );
}

#[test]
fn intrinsics_replace_bodies() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> data: array<atomic<u64>>;
        fn package_add_double(at: u32, v: f64) { atomicAdd(&data[at], bitcast<u64>(v)); }
        @compute @workgroup_size(32) fn main(@builtin(local_invocation_index) i: u32) { package_add_double(i, 1.0lf); }";
    let mut options = Options::default();
    options.intrinsics.insert(
        "add_double",
        "atomicAdd((double*)&{global:data}[{0}], {1});",
    );
    let translation = translate(source, &options).expect("a translation");
    assert!(
        translation
            .source
            .contains("{ atomicAdd((double*)&data_g0[at_a0], v_a1); }"),
        "{}",
        body(&translation)
    );
    assert_eq!(
        translation.entry_points[0].arguments[0].kind,
        ArgumentKind::Storage {
            writable: true,
            needs_length: false
        }
    );
}

#[test]
fn workgroup_memory_over_48_kib_is_dynamic() {
    let source = "
        var<workgroup> big: array<u32, 16384>;
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(32) fn main(@builtin(local_invocation_index) i: u32) { big[i] = i; workgroupBarrier(); out[i] = big[31u - i]; }";
    let translation = translate(source, &Options::default()).expect("a translation");
    assert_eq!(translation.entry_points[0].dynamic_shared_bytes, 65536);
    assert_eq!(translation.entry_points[0].static_shared_bytes, 0);
}

#[test]
fn what_cannot_be_written_is_named() {
    for (source, construct) in [
        (
            "@group(0) @binding(0) var t: texture_2d<f32>;
             @group(0) @binding(1) var<storage, read_write> out: array<f32>;
             @compute @workgroup_size(1) fn main() { out[0] = textureLoad(t, vec2<i32>(0, 0), 0).x; }",
            "image",
        ),
        (
            "@group(0) @binding(0) var<storage, read_write> out: array<mat2x2<f32>>;
             @compute @workgroup_size(1) fn main() { out[0] = out[1]; }",
            "matrix",
        ),
    ] {
        let error = translate(source, &Options::default()).expect_err("an error").to_string();
        assert!(error.contains(construct), "{error}");
    }
}
