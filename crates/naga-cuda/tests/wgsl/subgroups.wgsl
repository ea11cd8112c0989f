@group(0) @binding(0) var<storage, read> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@group(0) @binding(2) var<storage, read_write> doubles: array<f64>;

fn helper(v: u32) -> u32 { return subgroupAdd(v); }

@compute @workgroup_size(64)
fn subgroups(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
) {
    let v = values[id.x];
    var r = subgroupAdd(v) + subgroupMin(v) + subgroupMax(v) + subgroupAnd(v) + subgroupOr(v) + subgroupXor(v) + subgroupMul(v);
    r += subgroupInclusiveAdd(v) + subgroupExclusiveAdd(v) + subgroupExclusiveMul(v);
    r += subgroupBallot(v > 3u).x + select(0u, 1u, subgroupAny(v > 3u)) + select(0u, 1u, subgroupAll(v > 3u));
    r += subgroupBroadcast(v, 3u) + subgroupBroadcastFirst(v) + subgroupShuffle(v, lane ^ 1u) + subgroupShuffleUp(v, 1u) + subgroupShuffleDown(v, 1u) + subgroupShuffleXor(v, 2u);
    doubles[id.x] = subgroupAdd(f64(v)) + subgroupInclusiveAdd(1.0lf) + subgroupMax(f64(lane));
    for (var i = 0u; i < groups.x; i++) { r += subgroupAdd(i); }
    if (v > 10u) { r += subgroupAdd(7u) + helper(v); }
    var alive = v > 2u;
    while (subgroupAny(alive)) {
        r += subgroupExclusiveAdd(1u);
        alive = false;
    }
    if (subgroup == subgroups + size) { r += subgroupAdd(3u); }
    subgroupBarrier();
    out[id.x] = r;
}

// Lanes that part in one turn of a loop are apart in the next: the analysis must come to an end.
@compute @workgroup_size(64)
fn parting(@builtin(subgroup_invocation_id) lane: u32) {
    var r = 0u;
    loop {
        let all = subgroupAdd(lane);
        r += all;
        if (lane + all > r) { break; }
        loop {
            let any = subgroupMin(r);
            if (any < 7u) { break; }
            r -= any;
        }
    }
    out[lane] = r;
}
