@group(0) @binding(0) var<storage, read> a: array<i32>;
@group(0) @binding(1) var<storage, read> b: array<i64>;
@group(0) @binding(2) var<storage, read> c: array<f64>;
@group(0) @binding(3) var<storage, read_write> ints: array<i32>;
@group(0) @binding(4) var<storage, read_write> longs: array<i64>;
@group(0) @binding(5) var<storage, read_write> doubles: array<f64>;
@group(0) @binding(6) var<storage, read_write> words: array<u32>;
@group(0) @binding(7) var<storage, read_write> floats: array<f32>;

@compute @workgroup_size(64)
fn every_operator(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    let x = a[i];
    let y = b[i];
    let z = c[i];
    ints[i] = ((x + 1) * -x - x / 3) % 7 + (x << 3u) + (x >> (u32(x) + 33u)) + (x & 5) + (x | 6) + (x ^ ~x);
    longs[i] = ((y + 1li) * -y - y / i64(x)) % 7li + (y << u32(x)) + (y >> 2u) + abs(y) + sign(y) + min(y, 3li) + max(y, -9223372036854775807li) + clamp(y, 0li, 9li);
    doubles[i] = z * z + 1.5lf / z - z % 2.0lf + sqrt(z) + floor(z) + ceil(z) + round(z) + trunc(z) + fract(z) + f64(y) + f64(x) + min(z, 1.0lf) + abs(-z);
    words[i] = u32(z) + u32(y) + bitcast<u32>(x) + countOneBits(u32(x)) + firstLeadingBit(u32(x)) + countTrailingZeros(u32(x)) + countLeadingZeros(u32(x)) + reverseBits(u32(x)) + extractBits(u32(x), 3u, 5u) + insertBits(u32(x), 7u, 2u, 3u) + select(1u, 2u, x < 3 && y >= 4li || z != 0.0lf);
    floats[i] = f32(z) + pow(f32(x), 2.0) + exp(f32(x)) + log(f32(x)) + sin(f32(x)) + fma(f32(x), 2.0, 3.0) + bitcast<f32>(words[i]);
    let big = bitcast<u64>(y);
    longs[i] += bitcast<i64>(big >> 3u) + i64(c[i]) + i64(bitcast<f64>(big) > 0.0lf) + bitcast<i64>(u64(z));
}
