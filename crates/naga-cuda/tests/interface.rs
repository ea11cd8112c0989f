//! What a translation says about its kernels, and what options do.

mod support;

use naga_cuda::{Argument, ArgumentKind, Options};

#[test]
fn arguments_are_those_used_in_order_of_bindings() {
    let translation = support::translate(
        "struct Params { rows: u32, scale: f32 }
         @group(1) @binding(0) var<uniform> params: Params;
         @group(0) @binding(3) var<storage, read_write> out: array<u32>;
         @group(0) @binding(1) var<storage, read> values: array<u32>;
         @group(0) @binding(2) var<storage, read> unused: array<u32>;
         fn size() -> u32 { return arrayLength(&values) + params.rows; }
         @compute @workgroup_size(4, 2) fn run() { out[0] = size() + values[0]; }
         @compute @workgroup_size(1) fn other() { out[0] = 1u; }",
    );
    let [run, other] = &translation.entry_points[..] else {
        panic!("two entry points")
    };
    assert_eq!(
        run.arguments,
        [
            Argument {
                group: 0,
                binding: 1,
                kind: ArgumentKind::Storage {
                    writable: false,
                    needs_length: true
                }
            },
            Argument {
                group: 0,
                binding: 3,
                kind: ArgumentKind::Storage {
                    writable: true,
                    needs_length: false
                }
            },
            Argument {
                group: 1,
                binding: 0,
                kind: ArgumentKind::Uniform { bytes: 8 }
            },
        ]
    );
    assert_eq!((run.name.as_str(), run.workgroup_size), ("run", [4, 2, 1]));
    assert_eq!(other.arguments.len(), 1);
}

#[test]
fn entry_points_can_be_chosen() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        fn only_first() -> u32 { return 1u; }
        @compute @workgroup_size(1) fn first() { out[0] = only_first(); }
        @compute @workgroup_size(1) fn second() { out[0] = 2u; }";
    let options = Options {
        entry_points: Some(vec!["second".into()]),
        ..Options::default()
    };
    let translation = support::translate_with(source, &options).expect("a translation");
    assert_eq!(translation.entry_points.len(), 1);
    assert_eq!(translation.entry_points[0].name, "second");
    assert!(!support::body(&translation).contains("only_first"));
}

#[test]
fn workgroup_memory_over_48_kib_is_dynamic() {
    let source = |length: u32| {
        support::translate(&format!(
            "var<workgroup> flag: u32;
             var<workgroup> big: array<vec4<u32>, {length}>;
             @group(0) @binding(0) var<storage, read_write> out: array<u32>;
             @compute @workgroup_size(32) fn run(@builtin(local_invocation_index) i: u32) {{
                 big[i].x = i; flag = i; workgroupBarrier(); out[i] = big[31u - i].x + flag;
             }}"
        ))
    };
    let small = source(16);
    assert_eq!(small.entry_points[0].static_shared_bytes, 16 + 256);
    assert_eq!(small.entry_points[0].dynamic_shared_bytes, 0);
    let large = source(4096);
    assert_eq!(large.entry_points[0].static_shared_bytes, 0);
    assert_eq!(large.entry_points[0].dynamic_shared_bytes, 16 + 65536);
    assert!(
        support::body(&large).contains("workgroup_memory + 16"),
        "{}",
        support::body(&large)
    );
    if support::nvrtc_is_there() {
        support::compile(&large.source, "sm_80");
    }
}

#[test]
fn intrinsics_replace_bodies() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> package_data: array<atomic<u64>>;
        fn package_add_double(at: u32, v: f64) { atomicAdd(&package_data[at], bitcast<u64>(v)); }
        @compute @workgroup_size(32) fn run(@builtin(local_invocation_index) i: u32) {
            package_add_double(i, 1.0lf);
        }";
    let mut options = Options::default();
    options
        .intrinsics
        .add_prelude("FN double twice(double v) { return v + v; }");
    options.intrinsics.insert(
        "add_double",
        "if ({1} != 0.0) { atomicAdd((double*)&{global:data}[{0}], twice({1})); }",
    );
    let translation = support::translate_with(source, &options).expect("a translation");
    let body = support::body(&translation);
    assert!(
        body.contains("{ if (v != 0.0) { atomicAdd((double*)&package_data[at], twice(v)); } }"),
        "{body}"
    );
    if support::nvrtc_is_there() {
        support::compile(&translation.source, "sm_80");
    }
}
