var<private> seen: u32;
var<private> weights: array<f32, 3> = array<f32, 3>(1.0, 2.0, 3.0);
@group(0) @binding(0) var<storage, read_write> out: array<f32>;

fn note(v: u32) { seen |= v; }

@compute @workgroup_size(32)
fn private_variables(@builtin(local_invocation_index) i: u32) {
    note(i);
    weights[i % 3u] *= 2.0;
    out[i] = weights[0] + f32(seen);
}
