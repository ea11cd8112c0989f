//! Device functions of `int128.wesl`, `float.wesl` and `bits.wesl` against Rust's own arithmetic, on operands
//! of all magnitudes.

use std::sync::OnceLock;

use whitewater_gpu::{Device, Selection, Shader};

use super::LIBRARY;

const ROWS: usize = 4096;

/// The device that `WHITEWATER_TEST_DEVICE` names; the software driver unless told otherwise.
pub(crate) fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| {
        let name = std::env::var("WHITEWATER_TEST_DEVICE").unwrap_or_else(|_| "software".into());
        let selection: Selection = name.parse().expect("a device's name");
        Device::open(selection).expect("a device")
    })
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Pairs of 128-bit numbers: of every bit length, near powers of two and of ten, extreme.
fn operands() -> Vec<[u128; 2]> {
    let mut state = 7;
    let number = |state: &mut u64| -> u128 {
        let wide = u128::from(next(state)) << 64 | u128::from(next(state));
        let bits = next(state) % 129;
        match next(state) % 8 {
            0 => 10u128
                .pow((bits % 39) as u32)
                .wrapping_sub(u128::from(next(state) % 3)),
            1 => (1u128 << (bits % 128)).wrapping_sub(u128::from(next(state) % 2)),
            2 => u128::MAX - u128::from(next(state) % 3),
            _ => wide.checked_shr(128 - bits as u32).unwrap_or(0),
        }
    };
    (0..ROWS)
        .map(|_| [number(&mut state), number(&mut state)])
        .collect()
}

/// Runs `expression` (an `I128`) of `a` and `b` on every pair.
fn run(imports: &str, expression: &str, pairs: &[[u128; 2]]) -> Vec<u128> {
    let input = device()
        .upload(bytemuck::cast_slice(pairs))
        .expect("upload");
    let output = device().alloc(pairs.len() as u64 * 16).expect("alloc");
    let text = format!(
        "import package::kernels::pack::Spot;\n{imports}\n\
         @group(2) @binding(0) var<storage, read> input: array<u64>;\n\
         @group(2) @binding(1) var<storage, read_write> output: array<u64>;\n\
         struct Row {{ row: u32 }}\n\
         fn load_row(row: u32) -> Row {{ return Row(row); }}\n\
         fn store_row(v: Row, at: u32, live: bool, spot: Spot) {{\n    \
         let row = v.row;\n    \
         let a = I128(input[4u * row], input[4u * row + 1u]);\n    \
         let b = I128(input[4u * row + 2u], input[4u * row + 3u]);\n    \
         let result = {expression};\n    \
         if (live) {{ output[2u * at] = result.lo; output[2u * at + 1u] = result.hi; }}\n}}\n\
         fn store_words(word: u32, lane: u32) {{}}\n"
    );
    let shader = Shader::new(&LIBRARY, "package::select::evaluate")
        .feature("MAPPED", false)
        .constant("SIZE", "u32", 64)
        .generated("package::output", text);
    device()
        .kernel(&shader, "evaluate")
        .expect("a kernel")
        .launch()
        .bind(2, 0, &input)
        .bind(2, 1, &output)
        .params(&[pairs.len() as u32, 0])
        .run(4)
        .expect("a launch");
    output.download_as::<u128>().expect("download")
}

/// Asserts that `expression` is what `oracle` gives, for the pairs for which it gives something.
fn check(imports: &str, expression: &str, oracle: impl Fn(u128, u128) -> Option<u128>) {
    let pairs = operands();
    let results = run(imports, expression, &pairs);
    let mut wrong = Vec::new();
    for ([a, b], result) in pairs.iter().zip(results) {
        if let Some(expected) = oracle(*a, *b).filter(|expected| *expected != result) {
            wrong.push(format!(
                "{a:#x} {b:#x}: expected {expected:#x}, got {result:#x}"
            ));
        }
    }
    let few = wrong.iter().take(5).cloned().collect::<Vec<_>>();
    assert!(
        wrong.is_empty(),
        "{expression}: {} wrong\n{}",
        wrong.len(),
        few.join("\n")
    );
}

const INT128: &str = "import package::kernels::int128::{I128, I128Division, U64Division, div_2by1, i128_add, i128_div, \
    i128_div_round, i128_from_i64, i128_mul, i128_rem, i128_sub, i128_to_f64, i64_div_round, mul_hi_u64, mul_wide_i64, u128_div};\n\
    import package::kernels::bits::leading_zeros_u64;\n\
    import package::kernels::float::{add_f32, div_f32, div_f64, mul_f32, narrow_f64, rem_f64, sub_f32, widen_f32};";

fn check_int(expression: &str, oracle: impl Fn(u128, u128) -> Option<u128>) {
    check(INT128, expression, oracle);
}

fn bits(x: f64) -> Option<u128> {
    (!x.is_nan()).then(|| x.to_bits().into())
}

fn low(x: u128) -> u64 {
    x as u64
}

fn double(x: u128) -> f64 {
    f64::from_bits(low(x))
}

#[test]
fn words() {
    check_int("I128(a.lo / max(b.lo, 1lu), 0lu)", |a, b| {
        Some((low(a) / low(b).max(1)).into())
    });
    check_int("I128(a.lo % max(b.lo, 1lu), 0lu)", |a, b| {
        Some((low(a) % low(b).max(1)).into())
    });
    check_int(
        "I128(a.lo << (u32(b.lo) & 63u), a.lo >> (u32(b.lo) & 63u))",
        |a, b| {
            let by = low(b) & 63;
            Some(u128::from(low(a) << by) | u128::from(low(a) >> by) << 64)
        },
    );
    check_int("I128(u64(leading_zeros_u64(a.lo)), 0lu)", |a, _| {
        (low(a) != 0).then(|| low(a).leading_zeros().into())
    });
    check_int("I128(mul_hi_u64(a.lo, b.lo), 0lu)", |a, b| {
        Some((u128::from(low(a)) * u128::from(low(b))) >> 64)
    });
    check_int(
        "mul_wide_i64(bitcast<i64>(a.lo), bitcast<i64>(b.lo))",
        |a, b| Some((i128::from(low(a) as i64) * i128::from(low(b) as i64)) as u128),
    );
    check_int(
        "i128_from_i64(i64_div_round(bitcast<i64>(a.lo) >> 2u, 1000li))",
        |a, _| {
            let a = i128::from(low(a) as i64 >> 2);
            Some(((a + 500 * a.signum()) / 1000) as u128)
        },
    );
}

#[test]
fn sums_and_products() {
    check_int("i128_add(a, b)", |a, b| Some(a.wrapping_add(b)));
    check_int("i128_sub(a, b)", |a, b| Some(a.wrapping_sub(b)));
    check_int("i128_mul(a, b)", |a, b| Some(a.wrapping_mul(b)));
}

#[test]
fn long_division_by_a_word() {
    let parts = |a: u128, b: u128| {
        let d = (b >> 64) as u64;
        (((a >> 64) as u64) < d).then(|| (a / u128::from(d), a % u128::from(d)))
    };
    check_int(
        "I128(div_2by1(a.hi % max(b.hi, 1lu), a.lo, max(b.hi, 1lu)).quotient, 0lu)",
        |a, b| parts(a, b).map(|(q, _)| q),
    );
    check_int(
        "I128(div_2by1(a.hi % max(b.hi, 1lu), a.lo, max(b.hi, 1lu)).remainder, 0lu)",
        |a, b| parts(a, b).map(|(_, r)| r),
    );
}

#[test]
fn division() {
    let divided = |a: u128, b: u128, f: fn(i128, i128) -> Option<i128>| {
        f(a as i128, b as i128).map(|x| x as u128)
    };
    check_int("u128_div(a, b).quotient", |a, b| a.checked_div(b));
    check_int("u128_div(a, b).remainder", |a, b| a.checked_rem(b));
    check_int("i128_div(a, b)", |a, b| divided(a, b, i128::checked_div));
    check_int("i128_rem(a, b)", |a, b| divided(a, b, i128::checked_rem));
}

#[test]
fn floats() {
    check_int("I128(bitcast<u64>(f64(a.lo)), 0lu)", |a, _| {
        bits(low(a) as f64)
    });
    check_int("I128(bitcast<u64>(i128_to_f64(a)), 0lu)", |a, _| {
        bits(a as i128 as f64)
    });
    check_int(
        "I128(bitcast<u64>(div_f64(bitcast<f64>(a.lo), bitcast<f64>(b.lo))), 0lu)",
        |a, b| bits(double(a) / double(b)),
    );
    // Whole numbers and fractions, which random bits hardly ever are.
    check_int(
        "I128(bitcast<u64>(div_f64(f64(a.lo), f64(b.lo))), 0lu)",
        |a, b| bits(low(a) as f64 / low(b) as f64),
    );
    check_int(
        "I128(bitcast<u64>(rem_f64(bitcast<f64>(a.lo), bitcast<f64>(b.lo))), 0lu)",
        |a, b| bits(double(a) % double(b)),
    );
}

#[test]
fn singles() {
    let single = |x: u128| f32::from_bits(x as u32);
    // Small ones too, so that sums and products fall below the normal numbers.
    let small = |x: u128| f32::from_bits(x as u32 & 0x8fff_ffff);
    let low_bits = |x: f32| (!x.is_nan()).then(|| x.to_bits().into());
    type Operation = fn(f32, f32) -> f32;
    let operations: [(&str, Operation); 4] = [
        ("add", |a, b| a + b),
        ("sub", |a, b| a - b),
        ("mul", |a, b| a * b),
        ("div", |a, b| a / b),
    ];
    for (name, oracle) in operations {
        let call = |mask: &str| {
            let side = |side: &str| format!("bitcast<f32>(u32({side}.lo & {mask}))");
            format!(
                "I128(u64(bitcast<u32>({name}_f32({}, {}))), 0lu)",
                side("a"),
                side("b")
            )
        };
        // Where an operand is NaN, the caller settles the result.
        let finite = |a: f32, b: f32| !a.is_nan() && !b.is_nan();
        check_int(&call("0xfffffffflu"), |a, b| {
            let (a, b) = (single(a), single(b));
            low_bits(oracle(a, b)).filter(|_| finite(a, b))
        });
        check_int(&call("0x8ffffffflu"), |a, b| {
            low_bits(oracle(small(a), small(b)))
        });
    }
    check_int(
        "I128(bitcast<u64>(widen_f32(bitcast<f32>(u32(a.lo & 0x8ffffffflu)))), 0lu)",
        |a, _| bits(small(a).into()),
    );
    check_int(
        "I128(u64(bitcast<u32>(narrow_f64(bitcast<f64>(a.lo & 0xbffffffffffffffflu)))), 0lu)",
        |a, _| low_bits(double(a & 0xbfff_ffff_ffff_ffff) as f32),
    );
    // Every exponent at which an f64 becomes a subnormal f32.
    check_int(
        "I128(u64(bitcast<u32>(narrow_f64(bitcast<f64>((a.lo & 0x801ffffffffffffflu) | (((b.lo & 31lu) + 866lu) << 52u))))), 0lu)",
        |a, b| {
            let exponent = ((low(b) & 31) + 866) << 52;
            low_bits(f64::from_bits((low(a) & 0x801f_ffff_ffff_ffff) | exponent) as f32)
        },
    );
}
