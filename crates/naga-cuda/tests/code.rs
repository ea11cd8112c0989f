//! Properties of the code that NVRTC makes.

mod support;

/// Lines of `ptx` with `word` in them.
fn count(ptx: &str, word: &str) -> usize {
    ptx.lines().filter(|line| line.contains(word)).count()
}

#[test]
fn sixteen_byte_vectors_load_at_once() {
    if !support::nvrtc_is_there() {
        return;
    }
    let ptx = support::ptx(
        "@group(0) @binding(0) var<storage, read> quads: array<vec4<u32>>;
         @group(0) @binding(1) var<storage, read> wides: array<vec2<u64>>;
         @group(0) @binding(2) var<storage, read_write> out: array<vec4<u32>>;
         @group(0) @binding(3) var<storage, read_write> out_wides: array<vec2<u64>>;
         @compute @workgroup_size(64) fn run(@builtin(global_invocation_id) id: vec3<u32>) {
             out[id.x] = quads[id.x] + 1u;
             out_wides[id.x] = wides[id.x] + 1lu;
         }",
    );
    assert!(
        ptx.contains("ld.global.nc.v4.b32") || ptx.contains("ld.global.nc.v4.u32"),
        "{ptx}"
    );
    assert!(
        ptx.contains("ld.global.nc.v2.b64") || ptx.contains("ld.global.nc.v2.u64"),
        "{ptx}"
    );
    assert_eq!(count(&ptx, "ld.global"), 2, "{ptx}");
    assert_eq!(count(&ptx, "st.global"), 2, "{ptx}");
}

#[test]
fn nothing_is_contracted_but_fma() {
    if !support::nvrtc_is_there() {
        return;
    }
    let ptx = support::ptx(
        "@group(0) @binding(0) var<storage, read_write> data: array<f64>;
         @compute @workgroup_size(64) fn run(@builtin(global_invocation_id) id: vec3<u32>) {
             data[id.x] = data[id.x] * 3.0lf + 1.0lf;
         }",
    );
    assert_eq!(count(&ptx, "fma"), 0, "{ptx}");
}

#[test]
fn atomic_loads_and_stores_are_never_cached() {
    if !support::nvrtc_is_there() {
        return;
    }
    let ptx = support::ptx(
        "@group(0) @binding(0) var<storage, read_write> data: array<atomic<u64>>;
         @compute @workgroup_size(64) fn run(@builtin(global_invocation_id) id: vec3<u32>) {
             while (atomicLoad(&data[0]) == 0lu) { }
             atomicStore(&data[id.x], 1lu);
         }",
    );
    assert_eq!(count(&ptx, "ld.volatile.global"), 1, "{ptx}");
    assert_eq!(count(&ptx, "st.volatile.global"), 1, "{ptx}");
}

#[test]
fn uniform_flow_votes_with_all_lanes() {
    if !support::nvrtc_is_there() {
        return;
    }
    let ptx = support::ptx(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
         @compute @workgroup_size(64) fn run(@builtin(global_invocation_id) id: vec3<u32>) {
             data[id.x] = subgroupAdd(data[id.x]);
         }",
    );
    assert_eq!(count(&ptx, "redux.sync.add"), 1, "{ptx}");
    assert_eq!(count(&ptx, "activemask"), 0, "{ptx}");
}
