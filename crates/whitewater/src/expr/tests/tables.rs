//! Edge values of every type, with a null each.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
        Int32Array, Int64Array, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    },
    compute::cast,
    datatypes::DataType,
};

macro_rules! integers {
    ($array:ident, $native:ident) => {
        Arc::new($array::from_iter(
            [
                0,
                1,
                2,
                3,
                7,
                100,
                $native::MAX,
                $native::MAX - 1,
                $native::MIN,
                $native::MIN + 1,
            ]
            .into_iter()
            .chain([0 as $native, 1, 5].map(|v| v.wrapping_neg()))
            .map(Some)
            .chain([None]),
        )) as ArrayRef
    };
}

/// Integers of a type: zero, small ones of both signs, and both ends.
pub(super) fn integers(data_type: &DataType) -> ArrayRef {
    match data_type {
        DataType::Int8 => integers!(Int8Array, i8),
        DataType::Int16 => integers!(Int16Array, i16),
        DataType::Int32 => integers!(Int32Array, i32),
        DataType::Int64 => integers!(Int64Array, i64),
        DataType::UInt8 => integers!(UInt8Array, u8),
        DataType::UInt16 => integers!(UInt16Array, u16),
        DataType::UInt32 => integers!(UInt32Array, u32),
        _ => integers!(UInt64Array, u64),
    }
}

pub(super) const INTEGERS: [DataType; 8] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
];

/// The edges of i32 or i64 as a temporal type.
pub(super) fn temporal(data_type: &DataType) -> ArrayRef {
    let storage = match data_type.primitive_width() {
        Some(4) => DataType::Int32,
        _ => DataType::Int64,
    };
    let values: Vec<Option<i64>> = [
        0,
        1,
        -1,
        59,
        999,
        1_000,
        -1_000,
        -1_001,
        86_399,
        86_400,
        -86_400,
        -86_401,
        86_400_000,
        -86_400_001,
        1_700_000_000,
        2_147_483_647,
        -2_147_483_648,
    ]
    .into_iter()
    .map(Some)
    .chain([None])
    .collect();
    let mut values = values;
    if storage == DataType::Int64 {
        values.extend(
            [
                i64::MAX,
                i64::MIN,
                i64::MAX / 1000,
                1_700_000_000_000_000_000,
            ]
            .map(Some),
        );
    }
    let wide: ArrayRef = Arc::new(Int64Array::from(values));
    cast(&cast(&wide, &storage).unwrap(), data_type).unwrap()
}

pub(super) fn doubles() -> ArrayRef {
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        3.0,
        -7.25,
        0.1,
        1e-310,
        -1e-310,
        1e18,
        1e19,
        -1e19,
        1e300,
        127.5,
        -128.9,
        255.9,
        -0.9,
        2_147_483_647.5,
        -2_147_483_648.5,
        4_294_967_295.5,
        9_223_372_036_854_775_807.0,
        -9_223_372_036_854_775_808.0,
        18_446_744_073_709_551_615.0,
        f64::MAX,
        f64::MIN_POSITIVE,
        // Subnormal as f32, and halfway between two of these.
        1e-45,
        -1.1e-38,
        1.5 * f64::from(f32::from_bits(1)),
        2.5 * f64::from(f32::from_bits(1)),
        // 0 as f32, and the first that is not.
        0.5 * f64::from(f32::from_bits(1)),
        0.500_000_1 * f64::from(f32::from_bits(1)),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_2000_0001),
        f64::from_bits(0xfff8_0000_4000_0002),
    ];
    Arc::new(Float64Array::from_iter(
        values.map(Some).into_iter().chain([None]),
    ))
}

pub(super) fn singles() -> ArrayRef {
    let values = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        3.0,
        -7.25,
        0.1,
        127.5,
        -128.9,
        -0.9,
        1e19,
        2_147_483_648.0,
        -2_147_483_648.0,
        f32::MAX,
        f32::MIN_POSITIVE,
        // Subnormals, and what is near them.
        -1.5 * f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::from_bits(0x8000_0003),
        f32::from_bits(0x0040_0001),
        f32::from_bits(0x807f_ffff),
        1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        f32::from_bits(0x7f80_0001),
        f32::from_bits(0xffc0_0002),
    ];
    Arc::new(Float32Array::from_iter(
        values.map(Some).into_iter().chain([None]),
    ))
}

pub(super) fn booleans() -> ArrayRef {
    Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))
}

pub(super) fn decimals(values: &[i128], precision: u8, scale: i8) -> ArrayRef {
    let values = values.iter().copied().map(Some).chain([None]);
    let array = Decimal128Array::from_iter(values);
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

/// Unscaled values that fit an i64.
pub(super) const NARROW: [i128; 14] = [
    0,
    1,
    -1,
    5,
    -5,
    49,
    50,
    -50,
    150,
    99_999,
    -1_234_567,
    999_999_999_999_999,
    i64::MAX as i128,
    i64::MIN as i128,
];

/// Unscaled values of all magnitudes.
pub(super) const WIDE: [i128; 17] = [
    0,
    1,
    -1,
    15,
    -50,
    12_345_678_901_234_567_890,
    -12_345_678_901_234_567_895,
    1 << 64,
    -(1 << 64),
    (1 << 64) - 1,
    10i128.pow(37),
    -(10i128.pow(38) - 1),
    10i128.pow(38),
    i128::MAX,
    i128::MIN,
    i128::MIN + 1,
    0x0000_0001_ffff_ffff_ffff_ffff_0000_0001,
];
