//! What cannot be written is an error that names it.

mod support;

use naga_cuda::{Error, Options};

/// A kernel around `statement` with `items` before it.
fn kernel(items: &str, statement: &str) -> String {
    format!(
        "{items}
         @group(9) @binding(0) var<storage, read_write> out: array<f32>;
         @compute @workgroup_size(1) fn run() {{ {statement} }}"
    )
}

#[test]
fn constructs_are_named() {
    let texture = "@group(0) @binding(0) var t: texture_2d<f32>;
                   @group(0) @binding(1) var s: sampler;";
    let matrices = "@group(0) @binding(0) var<storage, read_write> m: array<mat2x2<f32>>;";
    for (items, statement, construct) in [
        (
            texture,
            "out[0] = textureLoad(t, vec2<i32>(0, 0), 0).x;",
            "image type",
        ),
        (
            texture,
            "out[0] = textureSampleLevel(t, s, vec2<f32>(), 0.0).x;",
            "image type",
        ),
        (matrices, "m[0] = m[1];", "matrix type"),
        ("", "var m = mat3x3<f32>(); out[0] = m[0].x;", "matrix type"),
        ("enable f16;", "out[0] = f32(f16(out[1]));", "f16"),
        (
            "",
            "out[0] = refract(vec2<f32>(1.0, 0.0), vec2(out[1]), 0.5).x;",
            "function Refract",
        ),
        ("", "out[0] = quadBroadcast(out[1], 1u);", "quad operation"),
    ] {
        let error = support::refusal(&kernel(items, statement));
        assert!(error.contains(construct), "{error}");
        assert!(error.contains("not supported"), "{error}");
    }
}

#[test]
fn unused_types_are_no_error() {
    support::translate(&kernel("struct Unused { m: mat4x4<f32> }", "out[0] = 1.0;"));
}

#[test]
fn entry_points_must_exist() {
    let options = Options {
        entry_points: Some(vec!["missing".into()]),
        ..Options::default()
    };
    assert_eq!(
        support::translate_with(&kernel("", "out[0] = 1.0;"), &options).map(|_| ()),
        Err(Error::EntryPoint("missing".into()))
    );
}

#[test]
fn overrides_need_values() {
    let source = kernel("override scale: f32;", "out[0] = scale;");
    let error = support::refusal(&source);
    assert!(error.contains("scale"), "{error}");
    let mut options = Options::default();
    options.pipeline_constants.insert("scale".into(), 2.5);
    let translation = support::translate_with(&source, &options).expect("a translation");
    assert!(support::body(&translation).contains("2.5f"));
}

#[test]
fn intrinsics_name_what_is_there() {
    let source = kernel(
        "fn helper(v: f32) -> f32 { return v; }",
        "out[0] = helper(1.0);",
    );
    for (body, placeholder) in [
        ("return {global:missing};", "{global:missing}"),
        ("return {1};", "{1}"),
    ] {
        let mut options = Options::default();
        options.intrinsics.insert("helper", body);
        assert_eq!(
            support::translate_with(&source, &options).map(|_| ()),
            Err(Error::Intrinsic {
                function: "helper".into(),
                placeholder: placeholder.into()
            })
        );
    }
}
