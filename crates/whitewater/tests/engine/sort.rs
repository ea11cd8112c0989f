//! Sorts against arrow's own.

use std::sync::Arc;

use arrow::{
    array::*,
    compute::{SortColumn, SortOptions, cast, lexsort_to_indices, take, take_record_batch},
    datatypes::{DataType, TimeUnit, UInt32Type},
};
use proptest::prelude::*;
use whitewater::{
    Batch,
    expr::Expr,
    sort::{SortKey, sort},
};

use crate::{device, devices};

pub const ORDERS: [SortOptions; 4] = [
    SortOptions {
        descending: false,
        nulls_first: false,
    },
    SortOptions {
        descending: false,
        nulls_first: true,
    },
    SortOptions {
        descending: true,
        nulls_first: false,
    },
    SortOptions {
        descending: true,
        nulls_first: true,
    },
];

/// A pseudo-random word of row `i`.
fn noise(i: usize, seed: u64) -> u64 {
    let z = (i as u64 ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (z >> 31)
}

/// The columns, with a last one that numbers the rows from `first`: where it comes back in another order among equal keys,
/// the sort was not stable.
pub fn numbered(columns: &[ArrayRef], first: u32) -> RecordBatch {
    let rows = columns[0].len() as u32;
    let number: ArrayRef = Arc::new(UInt32Array::from_iter_values(first..first + rows));
    let columns = columns.iter().cloned().chain([number]).enumerate();
    RecordBatch::try_from_iter_with_nullable(columns.map(|(i, c)| (format!("c{i}"), c, true)))
        .expect("a batch")
}

/// Sorts by all columns and compares with arrow, which is given the row's number as a last key: only a stable
/// sort has that order.
fn check(columns: &[ArrayRef], orders: &[SortOptions], fetch: Option<usize>) {
    let host = numbered(columns, 0);
    let mut keys: Vec<SortColumn> = columns
        .iter()
        .zip(orders)
        .map(|(values, options)| SortColumn {
            values: values.clone(),
            options: Some(*options),
        })
        .collect();
    keys.push(SortColumn {
        values: host.column(columns.len()).clone(),
        options: None,
    });
    let order = lexsort_to_indices(&keys, fetch).expect("an order");
    let expected = take_record_batch(&host, &order).expect("rows");
    let keys: Vec<SortKey> = orders
        .iter()
        .enumerate()
        .map(|(i, options)| SortKey {
            expr: Expr::column(i),
            descending: options.descending,
            nulls_first: options.nulls_first,
        })
        .collect();
    let batch = Batch::upload(device(), &host).expect("upload");
    for device in devices() {
        let sorted = sort(&device, &batch, &keys, fetch).expect("a sort");
        let sorted = sorted.download().expect("download");
        let numbers = |batch: &RecordBatch| -> Vec<u32> {
            let column = batch.column(columns.len());
            column.as_primitive::<UInt32Type>().values().to_vec()
        };
        let (actual, expected) = (numbers(&sorted), numbers(&expected));
        let wrong = actual.iter().zip(&expected).position(|(a, e)| a != e);
        assert!(
            wrong.is_none(),
            "{orders:?} of {} rows, {}: from place {wrong:?} on rows {:?}, not {:?}, by {:?}",
            columns[0].len(),
            columns[0].data_type(),
            &actual[wrong.unwrap_or(0)..]
                .iter()
                .take(8)
                .collect::<Vec<_>>(),
            &expected[wrong.unwrap_or(0)..]
                .iter()
                .take(8)
                .collect::<Vec<_>>(),
            take(&columns[0], &UInt32Array::from(actual.clone()), None)
                .expect("keys")
                .slice(wrong.unwrap_or(0), 4),
        );
        assert_eq!(sorted.num_rows(), order.len());
    }
}

/// A column of every type that can be sorted by, of a few values often and of others; every seventh null.
pub fn columns(rows: usize, seed: u64, nulls: bool) -> Vec<ArrayRef> {
    let valid = |i: usize| !nulls || !noise(i, seed + 100).is_multiple_of(7);
    let words = || {
        (0..rows).map(move |i| {
            let word = noise(i, seed);
            valid(i).then(|| {
                if word.is_multiple_of(3) {
                    word % 5
                } else {
                    word
                }
            })
        })
    };
    let wide: ArrayRef = Arc::new(Int64Array::from_iter(words().map(|w| w.map(|w| w as i64))));
    let cast_to = |data_type: DataType| -> ArrayRef {
        let bits = data_type.primitive_width().expect("a width") as u32 * 8;
        let narrow = words().map(|w| w.map(|w| (w as i64) << (64 - bits) >> (64 - bits)));
        let integer = match bits {
            8 => DataType::Int8,
            16 => DataType::Int16,
            32 => DataType::Int32,
            _ => DataType::Int64,
        };
        let narrow: ArrayRef = Arc::new(Int64Array::from_iter(narrow));
        let narrow = cast(&narrow, &integer).expect("a cast");
        let data = narrow.to_data().into_builder().data_type(data_type);
        make_array(data.build().expect("data"))
    };
    let mut all: Vec<ArrayRef> = [
        DataType::Int8,
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        // Random bits are floats of all kinds, NaNs too.
        DataType::Float32,
        DataType::Float64,
    ]
    .map(cast_to)
    .into();
    all.push(wide);
    all.push(Arc::new(BooleanArray::from_iter(
        words().map(|w| w.map(|w| w % 2 == 0)),
    )));
    let decimals = |shift: u32| -> ArrayRef {
        let values = words().map(|w| w.map(|w| i128::from(w as i64) << shift));
        Arc::new(
            Decimal128Array::from_iter(values)
                .with_precision_and_scale(38, 2)
                .expect("a precision"),
        )
    };
    all.push(decimals(0));
    all.push(decimals(40));
    let text = |w: u64| match w % 4 {
        0 => "".to_string(),
        1 => format!("{}", w % 50),
        2 => format!("a common beginning {}", w % 50),
        _ => format!("żółw\u{0}{}", "z".repeat((w % 30) as usize)),
    };
    all.push(Arc::new(StringArray::from_iter(
        words().map(|w| w.map(text)),
    )));
    all.push(Arc::new(LargeStringArray::from_iter(
        words().map(|w| w.map(text)),
    )));
    all.push(Arc::new(StringArray::from_iter(
        words().map(|w| w.map(|w| (w % 300).to_string())),
    )));
    all.push(Arc::new(BinaryArray::from_iter(
        words().map(|w| w.map(|w| w.to_le_bytes())),
    )));
    all
}

#[test]
fn every_type_in_every_order() {
    for nulls in [false, true] {
        for column in columns(700, 1, nulls) {
            for order in ORDERS {
                check(std::slice::from_ref(&column), &[order], None);
            }
        }
    }
}

#[test]
fn every_size() {
    for rows in [0, 1, 2, 31, 33, 511, 512, 513, 1025, 3000] {
        let all = columns(rows, 2, rows % 2 == 0);
        for column in [&all[4], &all[11], &all[15]] {
            check(std::slice::from_ref(column), &[ORDERS[0]], None);
        }
    }
}

#[test]
fn equal_and_sorted_and_reversed_keys() {
    let rows = 1500;
    let keys: [fn(i64) -> Option<i64>; 6] = [
        |_| Some(7),
        |_| None,
        Some,
        |i| Some(-i),
        |i| (i % 2 == 0).then_some(i64::MIN),
        |i| Some(if i % 2 == 0 { i64::MIN } else { i64::MAX }),
    ];
    for key in keys {
        let column: ArrayRef = Arc::new(Int64Array::from_iter((0..rows).map(key)));
        for order in ORDERS {
            check(std::slice::from_ref(&column), &[order], None);
        }
    }
}

#[test]
fn several_columns_narrow_and_wide() {
    let all = columns(900, 3, true);
    // Within 64 bits; past them; with strings first, in the middle and last.
    for by in [
        vec![0, 2, 12],
        vec![4, 11],
        vec![11, 6, 10, 14],
        vec![12, 15, 0],
        vec![15, 16],
        vec![17, 15, 4, 18],
    ] {
        let keys: Vec<ArrayRef> = by.iter().map(|i| all[*i].clone()).collect();
        for first in 0..4 {
            let orders: Vec<SortOptions> = (0..by.len()).map(|i| ORDERS[(first + i) % 4]).collect();
            check(&keys, &orders, None);
        }
    }
}

#[test]
fn strings_that_differ_late_or_only_in_length() {
    let texts = [
        "",
        "\u{0}",
        "\u{0}\u{0}",
        "aaaaaaa",
        "aaaaaaab",
        "aaaaaaa\u{0}",
        "aaaaaaaaaaaaaa",
        "aaaaaaaaaaaaaab",
        "aaaaaa",
        "b",
        "ą",
        "\u{10ffff}",
    ];
    let rows = (0..800).map(|i| (i % 13 != 5).then(|| texts[noise(i, 4) as usize % texts.len()]));
    let column: ArrayRef = Arc::new(StringArray::from_iter(rows));
    let second: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..800).map(|i| noise(i, 5) as i32 % 3),
    ));
    for order in ORDERS {
        check(std::slice::from_ref(&column), &[order], None);
        check(&[column.clone(), second.clone()], &[order, ORDERS[2]], None);
    }
}

#[test]
fn slices_and_the_first_rows() {
    let all = columns(1000, 6, true);
    for column in [&all[9], &all[12], &all[14], &all[16]] {
        for (offset, rows) in [(1, 900), (33, 67), (999, 1)] {
            check(&[column.slice(offset, rows)], &[ORDERS[1]], None);
        }
        for fetch in [0, 1, 10, 999, 5000] {
            check(std::slice::from_ref(column), &[ORDERS[3]], Some(fetch));
        }
    }
}

/// The first digits of a key seem to tell all rows apart, and tell few.
#[test]
fn digits_that_repeat_each_other() {
    let repeated = |i: usize| (noise(i, 10) & 0xff) * 0x0101_0101_0101_0101;
    for low in [0, 1, 0xffff] {
        let keys = (0..2000).map(|i| (repeated(i) ^ (noise(i, 11) & low)) as i64);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
        for order in ORDERS {
            check(std::slice::from_ref(&column), &[order], None);
        }
    }
}

/// Rows that the leading digits of a key leave equal, few or many at a time.
#[test]
fn keys_that_differ_late() {
    for alike in [2, 3, 31, 32, 33, 100] {
        let high = |i: usize| noise(i / alike, 12) << 24;
        let keys = (0..2000).map(|i| (high(i) | noise(i, 13) & 0xff_ffff) as i64);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
        let equal: ArrayRef = Arc::new(UInt64Array::from_iter_values((0..2000).map(high)));
        for order in [ORDERS[0], ORDERS[2]] {
            for column in [&column, &equal] {
                check(std::slice::from_ref(column), &[order], None);
                check_alone(column, order);
            }
        }
    }
}

/// Sorts a batch of nothing but the key.
fn check_alone(column: &ArrayRef, order: SortOptions) {
    let host = RecordBatch::try_from_iter([("key", column.clone())]).expect("a batch");
    let key = SortKey {
        expr: Expr::column(0),
        descending: order.descending,
        nulls_first: order.nulls_first,
    };
    let expected = arrow::compute::sort(column, Some(order)).expect("a sort");
    let batch = Batch::upload(device(), &host).expect("upload");
    for device in devices() {
        let sorted = sort(&device, &batch, std::slice::from_ref(&key), None).expect("a sort");
        let sorted = sorted.download().expect("download");
        assert_eq!(sorted.column(0), &expected, "{order:?}");
    }
}

#[test]
fn keys_alone() {
    for rows in [0, 1, 33, 700] {
        for nulls in [false, true] {
            for column in columns(rows, 14, nulls) {
                for order in ORDERS {
                    check_alone(&column, order);
                }
            }
        }
    }
}

/// Enough rows for a bound from a sample: in no order, in order, in reverse, few values, nulls in the way.
#[test]
fn the_first_of_many_rows() {
    let rows = 20_000;
    let mut keys: Vec<ArrayRef> = Vec::new();
    let longs: [fn(i64) -> Option<i64>; 6] = [
        |i| Some(noise(i as usize, 8) as i64),
        Some,
        |i| Some(-i),
        |i| Some(i % 3),
        |i| (i % 1000 == 7).then_some(i),
        |_| None,
    ];
    for long in longs {
        keys.push(Arc::new(Int64Array::from_iter((0..rows).map(long))));
    }
    let all = columns(rows as usize, 9, true);
    keys.extend([&all[9], &all[12], &all[14], &all[15]].map(|column| column.clone()));
    for key in &keys {
        for (order, fetch) in ORDERS.into_iter().zip([1, 10, 100, 310]) {
            check(std::slice::from_ref(key), &[order], Some(fetch));
            check(
                &[key.clone(), all[4].clone()],
                &[order, ORDERS[2]],
                Some(fetch),
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_rows_by_random_keys(
        rows in 0usize..1200,
        seed in 0u64..1 << 20,
        by in prop::collection::vec((0usize..19, 0usize..4), 1..4),
        nulls: bool,
        fetch in prop::option::of(0usize..100),
    ) {
        let all = columns(rows, seed, nulls);
        let keys: Vec<ArrayRef> = by.iter().map(|(i, _)| all[*i].clone()).collect();
        let orders: Vec<SortOptions> = by.iter().map(|(_, o)| ORDERS[*o]).collect();
        check(&keys, &orders, fetch);
    }
}
