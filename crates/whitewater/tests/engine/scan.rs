//! Scans against a loop on the host.

use std::sync::Arc;

use arrow::array::*;
use proptest::prelude::*;
use whitewater::{
    Column,
    scan::{Bound, Total, scan},
};

use crate::{device, devices};

const TOTALS: [Total; 3] = [Total::Sum, Total::Min, Total::Max];
const BOUNDS: [Bound; 2] = [Bound::Inclusive, Bound::Exclusive];

/// The scan of `values`, as a loop does it.
fn expected<T: Copy>(
    values: &[Option<T>],
    heads: Option<&[bool]>,
    bound: Bound,
    identity: T,
    add: impl Fn(T, T) -> T,
) -> Vec<Option<T>> {
    let mut total = identity;
    let mut row = 0;
    let step = |value: &Option<T>| {
        if heads.is_some_and(|heads| heads[row]) {
            total = identity;
        }
        row += 1;
        let before = total;
        let value = (*value)?;
        total = add(total, value);
        Some(if bound == Bound::Inclusive {
            total
        } else {
            before
        })
    };
    values.iter().map(step).collect()
}

fn bits(heads: &[bool]) -> Vec<u8> {
    let mut words = vec![0u32; heads.len().div_ceil(32)];
    for (i, head) in heads.iter().enumerate() {
        words[i / 32] |= u32::from(*head) << (i % 32);
    }
    bytemuck::cast_slice(&words).to_vec()
}

fn run(values: ArrayRef, total: Total, bound: Bound, heads: Option<&[bool]>) -> ArrayRef {
    let column = Column::upload(device(), &values).expect("upload");
    let heads = heads.map(|heads| device().upload(&bits(heads)).expect("upload"));
    let results = devices().into_iter().map(|device| {
        scan(&device, &column, total, bound, heads.as_ref())
            .expect("a scan")
            .download()
            .expect("download")
    });
    results
        .reduce(|one, other| {
            assert_eq!(&one, &other, "with look-back and without");
            one
        })
        .expect("a device")
}

macro_rules! check {
    ($array:ty, $native:ty, $values:expr, $heads:expr, $order:expr, $sum:expr) => {{
        let values: Vec<Option<$native>> = $values;
        let heads: Option<&[bool]> = $heads;
        for total in TOTALS {
            for bound in BOUNDS {
                let order = $order;
                let expected = match total {
                    Total::Sum => expected(&values, heads, bound, 0 as $native, $sum),
                    Total::Min => expected(&values, heads, bound, greatest::<$native>(), |a, b| {
                        if order(&b, &a).is_lt() { b } else { a }
                    }),
                    Total::Max => expected(&values, heads, bound, least::<$native>(), |a, b| {
                        if order(&b, &a).is_gt() { b } else { a }
                    }),
                };
                let actual = run(
                    Arc::new(<$array>::from(values.clone())),
                    total,
                    bound,
                    heads,
                );
                let expected: ArrayRef = Arc::new(<$array>::from(expected));
                assert_eq!(
                    &actual,
                    &expected,
                    "{total:?} {bound:?} of {} rows",
                    values.len()
                );
            }
        }
    }};
}

trait Ends {
    const GREATEST: Self;
    const LEAST: Self;
}

macro_rules! ends {
    ($($native:ty),*) => {$(
        impl Ends for $native {
            const GREATEST: Self = <$native>::MAX;
            const LEAST: Self = <$native>::MIN;
        }
    )*};
}

ends!(u32, u64, i64);

impl Ends for f64 {
    const GREATEST: Self = f64::from_bits(0x7fff_ffff_ffff_ffff);
    const LEAST: Self = f64::from_bits(0xffff_ffff_ffff_ffff);
}

fn greatest<T: Ends>() -> T {
    T::GREATEST
}

fn least<T: Ends>() -> T {
    T::LEAST
}

/// A pseudo-random word of row `i`.
fn noise(i: usize, seed: u64) -> u64 {
    let z = (i as u64 ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (z >> 31)
}

fn columns(rows: usize, nulls: bool, heads: Option<&[bool]>) {
    let valid = |i: usize| !nulls || !noise(i, 9).is_multiple_of(3);
    let words = |seed: u64| (0..rows).map(move |i| valid(i).then(|| noise(i, seed)));
    check!(
        UInt32Array,
        u32,
        words(1).map(|v| v.map(|v| v as u32)).collect(),
        heads,
        Ord::cmp,
        u32::wrapping_add
    );
    check!(
        UInt64Array,
        u64,
        words(2).collect(),
        heads,
        Ord::cmp,
        u64::wrapping_add
    );
    check!(
        Int64Array,
        i64,
        words(3).map(|v| v.map(|v| v as i64)).collect(),
        heads,
        Ord::cmp,
        i64::wrapping_add
    );
    // Eighths of small integers: every order of additions gives the same sum.
    check!(
        Float64Array,
        f64,
        words(4)
            .map(|v| v.map(|v| ((v % 4096) as f64 - 2048.0) / 8.0))
            .collect(),
        heads,
        f64::total_cmp,
        |a, b| a + b
    );
}

#[test]
fn scans_of_every_type_and_size() {
    for rows in [0, 1, 7, 8, 31, 33, 511, 512, 513, 1024, 5000] {
        columns(rows, rows % 2 == 1, None);
    }
}

#[test]
fn segmented_scans_start_at_heads() {
    for (rows, every) in [
        (1, 1),
        (33, 2),
        (512, 3),
        (513, 700),
        (5000, 40),
        (5000, 1 << 30),
    ] {
        let heads: Vec<bool> = (0..rows)
            .map(|i| noise(i, 5).is_multiple_of(every))
            .collect();
        columns(rows, rows % 2 == 1, Some(&heads));
    }
}

#[test]
fn extremes_of_floats_follow_total_order() {
    let specials = [
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-310,
        f64::MAX,
    ];
    let values: Vec<Option<f64>> = (0..600)
        .map(|i| Some(specials[noise(i, 7) as usize % specials.len()]))
        .collect();
    for total in [Total::Min, Total::Max] {
        let wanted = |b: &f64, a: &f64| match total {
            Total::Min => b.total_cmp(a).is_lt(),
            _ => b.total_cmp(a).is_gt(),
        };
        let identity = if total == Total::Min {
            greatest()
        } else {
            least()
        };
        let expected = expected(&values, None, Bound::Inclusive, identity, |a, b| {
            if wanted(&b, &a) { b } else { a }
        });
        let actual = run(
            Arc::new(Float64Array::from(values.clone())),
            total,
            Bound::Inclusive,
            None,
        );
        let actual: Vec<u64> = actual
            .as_primitive::<arrow::datatypes::Float64Type>()
            .values()
            .iter()
            .map(|v| v.to_bits())
            .collect();
        let expected: Vec<u64> = expected.iter().flatten().map(|v| v.to_bits()).collect();
        assert_eq!(actual, expected);
    }
}

#[test]
fn other_types_are_refused_by_name() {
    let column = Column::upload(
        device(),
        &(Arc::new(StringArray::from(vec!["a"])) as ArrayRef),
    );
    let refused = scan(
        device(),
        &column.expect("upload"),
        Total::Sum,
        Bound::Inclusive,
        None,
    );
    assert_eq!(
        refused.expect_err("an error").to_string(),
        "a scan of Utf8 is not on the GPU"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sums_of_random_rows(
        values in prop::collection::vec(prop::option::weighted(0.8, any::<i64>()), 0..2000),
        every in 1u64..100,
        segmented: bool,
    ) {
        let heads: Vec<bool> = (0..values.len()).map(|i| noise(i, 6).is_multiple_of(every)).collect();
        let heads = segmented.then_some(heads.as_slice());
        check!(Int64Array, i64, values.clone(), heads, Ord::cmp, i64::wrapping_add);
    }
}
