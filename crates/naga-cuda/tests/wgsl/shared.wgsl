override SIZE: u32 = 256u;
@group(0) @binding(0) var<storage, read> values: array<u64>;
@group(0) @binding(1) var<storage, read_write> totals: array<atomic<u64>>;
@group(0) @binding(2) var<storage, read_write> small: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> signed: array<atomic<i64>>;
var<workgroup> sums: array<u64, SIZE>;
var<workgroup> slots: array<atomic<u64>, 8192>;
var<workgroup> flag: atomic<u32>;

fn reduce(local: u32) -> u64 {
    for (var half = SIZE / 2u; half > 0u; half = half / 2u) {
        if (local < half) { sums[local] += sums[local + half]; }
        workgroupBarrier();
    }
    return sums[0];
}

@compute @workgroup_size(256)
fn shared_memory(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) group: vec3<u32>) {
    sums[local] = values[group.x * SIZE + local];
    atomicStore(&slots[local], 0xfffffffffffffffflu);
    workgroupBarrier();
    let total = reduce(local);
    let taken = atomicCompareExchangeWeak(&slots[local], 0xfffffffffffffffflu, total);
    if (taken.exchanged && taken.old_value != 3lu) { atomicMax(&totals[0], total); }
    atomicAdd(&totals[1], total);
    atomicMin(&signed[0], bitcast<i64>(total));
    atomicAdd(&signed[1], -1li);
    atomicSub(&small[0], 1u);
    atomicAnd(&small[1], 6u);
    atomicXor(&small[2], 6u);
    let old = atomicExchange(&small[3], 6u);
    atomicOr(&flag, old);
    storageBarrier();
    let all = workgroupUniformLoad(&flag);
    if (local == 0u) { atomicAdd(&small[4], all + atomicLoad(&small[5])); }
}
