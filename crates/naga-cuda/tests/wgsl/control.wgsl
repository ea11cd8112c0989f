const TABLE = array<u32, 4>(3u, 1u, 4u, 1u);
override LIMIT: u32 = 10u;
@group(0) @binding(0) var<storage, read_write> out: array<u32>;

fn classify(x: u32) -> u32 {
    switch (x % 5u) {
        case 0u, 1u: { return 7u; }
        case 2u: { if (x > 100u) { break; } return 9u; }
        default: { }
    }
    return 11u;
}

@compute @workgroup_size(32)
fn control(@builtin(global_invocation_id) id: vec3<u32>) {
    var table = TABLE;
    var sum = 0u;
    for (var i = 0u; i < LIMIT; i++) {
        if (i == 3u) { continue; }
        if (sum > 1000u) { break; }
        sum += table[i & 3u] * classify(i + id.x);
        switch (i) { case 4u: { continue; } default: { sum ^= i; } }
        let after = sum + 1u;
        sum = after;
    }
    var n = 0u;
    loop {
        n += 1u;
        if (n == 5u) { continue; }
        continuing {
            sum += n;
            break if n >= 9u;
        }
    }
    while (sum > 5000u) { sum = sum / 2u; }
    if (id.x == 0u) { return; }
    out[id.x] = sum;
}
