struct Pair { low: u64, high: u64 }
struct Params { rows: u32, flag: u32, offset: vec2<u32>, base: i64 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> quads: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> wides: array<vec2<u64>>;
@group(0) @binding(3) var<storage, read_write> pairs: array<Pair>;
@group(0) @binding(4) var<storage, read_write> out_quads: array<vec4<u32>>;
struct Tail { count: atomic<u32>, first: u32, items: array<vec2<f32>> }
@group(1) @binding(0) var<storage, read_write> tail: Tail;
@group(1) @binding(1) var<storage, read_write> single: u32;

fn swap(p: ptr<function, vec2<u32>>) { let t = (*p).x; (*p).x = (*p).y; (*p).y = t; }

@compute @workgroup_size(8, 4, 2)
fn vectors(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32, @builtin(local_invocation_id) within: vec3<u32>) {
    let i = id.x + id.y * 3u + id.z;
    if (i >= params.rows) { return; }
    var q = quads[i] + vec4<u32>(1u, 2u, 3u, 4u) * 2u;
    q[local & 3u] = q.w;
    let lo = q.xy + params.offset;
    var both = lo;
    swap(&both);
    let v = wides[i];
    pairs[i] = Pair(v.x, v.y + u64(params.base));
    out_quads[i] = select(q.wzyx, vec4<u32>(both, lo), vec4<bool>(true, q.x > 3u, any(q == vec4<u32>(1u)), false));
    tail.items[i] = vec2<f32>(f32(dot(lo, both)), 0.5) * 2.0;
    single = arrayLength(&tail.items) + arrayLength(&quads) + atomicAdd(&tail.count, 1u) + within.y;
}
