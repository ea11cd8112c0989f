//! Reductions beyond counts and sums, and selections by rank, against arrow's kernels or loops on the host.

use std::{cmp::Ordering, collections::HashSet, sync::Arc};

use arrow::{
    array::*,
    compute::{self, SortOptions, cast, concat, filter, is_not_null, sort, take},
    datatypes::*,
    util::display::array_value_to_string,
};
use whitewater::{
    Error,
    aggregate::{Aggregate, Aggregation, Function, reduce},
    expr::{Expr, Literal, Op},
    groupby::{count_distinct, group},
    sort::{Interpolation, quantiles, values_at},
};

use crate::{
    device,
    sort::{columns, numbered},
    upload,
};

const SIZES: [usize; 5] = [0, 1, 31, 257, 5000];

fn aggregate(function: Function, state: &[DataType]) -> Aggregate {
    let fields = state.iter().enumerate();
    Aggregate {
        function,
        argument: Some(Expr::column(0)),
        filter: None,
        order: Vec::new(),
        state: fields
            .map(|(i, t)| Field::new(format!("s{i}"), t.clone(), true))
            .collect(),
    }
}

/// The columns of state of each of `aggregates` over `values`.
fn reduced(values: &ArrayRef, aggregates: Vec<Aggregate>) -> Result<Vec<ArrayRef>, Error> {
    let aggregation = Aggregation {
        predicate: None,
        keys: vec![],
        aggregates,
    };
    let batch = upload(&numbered(std::slice::from_ref(values), 0));
    Ok(reduce(device(), &batch, &aggregation)?.columns().to_vec())
}

/// The columns of state of one aggregate.
fn state(
    values: &ArrayRef,
    function: Function,
    state: &[DataType],
) -> Result<Vec<ArrayRef>, Error> {
    reduced(values, vec![aggregate(function, state)])
}

fn text(array: &dyn Array) -> Option<String> {
    let known = array.is_valid(0);
    known.then(|| array_value_to_string(array, 0).expect("a value"))
}

/// Whether each is what is expected of columns of one type, as text.
fn check(values: &ArrayRef, expected: &[(Function, Option<String>)]) {
    let data_type = values.data_type();
    let aggregates = expected
        .iter()
        .map(|(function, _)| aggregate(*function, std::slice::from_ref(data_type)));
    let states = reduced(values, aggregates.collect()).expect("states");
    for ((function, expected), state) in expected.iter().zip(states) {
        let rows = values.len();
        assert_eq!(
            text(&state),
            *expected,
            "{function:?} of {rows} {data_type}"
        );
    }
}

/// Columns of every type, with and without nulls, and of nulls alone.
fn every_column() -> impl Iterator<Item = ArrayRef> {
    let some = SIZES.iter().flat_map(|rows| {
        let seed = *rows as u64;
        [false, true].map(|nulls| columns(*rows, seed, nulls))
    });
    let none = columns(40, 1, false);
    let none = none.iter().map(|c| new_null_array(c.data_type(), 40));
    some.flatten().chain(none.collect::<Vec<_>>())
}

/// The row that stands first in the order of `options`, of equal ones the first; floats in total order.
fn first_row(values: &ArrayRef, descending: bool) -> Option<usize> {
    let options = SortOptions {
        descending: false,
        nulls_first: false,
    };
    let compare = make_comparator(values, values, options).expect("a comparator");
    let rows = (0..values.len()).filter(|row| values.is_valid(*row));
    rows.reduce(|best, row| {
        let further = if descending {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        match compare(row, best) == further {
            true => row,
            false => best,
        }
    })
}

#[test]
fn flags_equal_arrows() {
    for flags in every_column() {
        let Some(host) = flags.as_boolean_opt() else {
            continue;
        };
        let text = |flag: Option<bool>| flag.map(|flag| flag.to_string());
        let any = text(compute::bool_or(host));
        let all = text(compute::bool_and(host));
        check(&flags, &[(Function::Any, any), (Function::All, all)]);
        for flag in [false, true] {
            let same: ArrayRef = Arc::new(BooleanArray::from(vec![flag; 300]));
            let flag = text(Some(flag));
            check(
                &same,
                &[(Function::Any, flag.clone()), (Function::All, flag)],
            );
        }
    }
}

#[test]
fn bits_equal_arrows() {
    fn of<T: ArrowPrimitiveType>(values: &ArrayRef)
    where
        T::Native: std::fmt::Display
            + std::ops::BitAnd<Output = T::Native>
            + std::ops::BitOr<Output = T::Native>
            + std::ops::BitXor<Output = T::Native>,
    {
        // Bits that all have in common, too.
        for shift in [0, 1] {
            let host: PrimitiveArray<T> = values.as_primitive::<T>().unary(|value| match shift {
                0 => value,
                _ => value | T::Native::usize_as(5),
            });
            let text = |value: Option<T::Native>| value.map(|value| value.to_string());
            let expected = [
                (Function::BitAnd, text(compute::bit_and(&host))),
                (Function::BitOr, text(compute::bit_or(&host))),
                (Function::BitXor, text(compute::bit_xor(&host))),
            ];
            check(&(Arc::new(host) as ArrayRef), &expected);
        }
    }
    macro_rules! of_type {
        ($t:ty, $values:ident) => {
            of::<$t>(&$values)
        };
    }
    for values in every_column() {
        downcast_integer! {
            values.data_type() => (of_type, values),
            _ => {}
        }
    }
}

#[test]
fn extremes_and_their_rows_equal_the_hosts() {
    for values in every_column() {
        let data_type = values.data_type().clone();
        if !data_type.is_primitive() && data_type != DataType::Boolean {
            continue;
        }
        let row = |descending| first_row(&values, descending);
        let value = |descending| {
            row(descending).map(|row| array_value_to_string(&values, row).expect("a value"))
        };
        check(
            &values,
            &[(Function::Min, value(false)), (Function::Max, value(true))],
        );
        let wide = values.as_primitive_opt::<Decimal128Type>();
        let wide = wide.is_some_and(|w| w.iter().flatten().any(|v| i64::try_from(v).is_err()));
        if wide {
            let refused = state(&values, Function::ArgMin, &[DataType::UInt64]);
            assert!(matches!(refused, Err(Error::Unsupported { .. })));
            continue;
        }
        for (function, descending) in [(Function::ArgMin, false), (Function::ArgMax, true)] {
            let found = state(&values, function, &[DataType::UInt64]).expect("a state");
            let expected = row(descending).map(|row| row.to_string());
            assert_eq!(text(&found[0]), expected, "{function:?} of {data_type}");
        }
    }
}

#[test]
fn products_equal_the_hosts() {
    for rows in SIZES {
        for nulls in [false, true] {
            let valid = |i: usize| !nulls || !i.is_multiple_of(3);
            let longs =
                Int64Array::from_iter((0..rows).map(|i| valid(i).then_some(2 * i as i64 - 7777)));
            let known = rows > longs.null_count();
            let product = longs.iter().flatten().fold(1i64, i64::wrapping_mul);
            let expected = known.then(|| product.to_string());
            check(
                &(Arc::new(longs) as ArrayRef),
                &[(Function::Product, expected)],
            );

            let doubles = Float64Array::from_iter(
                (0..rows).map(|i| valid(i).then_some(1.0 + (i % 9) as f64 / 1e4 - 4e-4)),
            );
            let product: f64 = doubles.iter().flatten().product();
            let doubles: ArrayRef = Arc::new(doubles);
            let found = state(&doubles, Function::Product, &[DataType::Float64]);
            let found = found.expect("a state");
            let found = found[0].as_primitive::<Float64Type>();
            assert_eq!(found.is_valid(0), known);
            if known {
                let bound = product.abs() * rows as f64 * f64::EPSILON;
                assert!((found.value(0) - product).abs() <= bound);
            }
        }
    }
}

#[test]
fn checked_sums_are_right_or_an_error() {
    fn sum(values: ArrayRef, state_type: DataType) -> Result<Option<String>, Error> {
        let state = state(&values, Function::CheckedSum, &[state_type])?;
        Ok(text(&state[0]))
    }
    // Partial sums that leave the type and come back, wherever the rows are cut.
    let mut longs = vec![i64::MAX; 700];
    longs.extend(vec![-i64::MAX; 700]);
    longs.push(41);
    let back: ArrayRef = Arc::new(Int64Array::from(longs.clone()));
    assert_eq!(
        sum(back, DataType::Int64).expect("a sum"),
        Some("41".into())
    );
    for (extra, fits) in [(i64::MAX - 41, true), (i64::MAX - 40, false)] {
        let all = longs.iter().copied().chain([extra]);
        let all: ArrayRef = Arc::new(Int64Array::from_iter_values(all));
        match sum(all, DataType::Int64) {
            Ok(sum) => assert!(fits && sum == Some(i64::MAX.to_string())),
            Err(error) => assert!(!fits && matches!(error, Error::Arithmetic(_)), "{error}"),
        }
    }
    for (last, fits) in [(i64::MIN, true), (-1, false)] {
        let rest: [i64; 2] = if fits { [last, 0] } else { [i64::MIN, last] };
        let values: ArrayRef = Arc::new(Int64Array::from(rest.to_vec()));
        assert_eq!(sum(values, DataType::Int64).is_ok(), fits);
    }
    for (last, fits) in [(u64::MAX - 5, true), (u64::MAX - 4, false)] {
        let values: ArrayRef =
            Arc::new(UInt64Array::from(vec![Some(2), None, Some(3), Some(last)]));
        let sum = sum(values, DataType::UInt64);
        assert_eq!(sum.ok(), fits.then(|| Some(u64::MAX.to_string())));
    }
    // Decimals: what does not fit 128 bits on the way, and what the precision does not hold.
    let wide = |values: Vec<i128>| -> ArrayRef {
        let values = Decimal128Array::from(values);
        Arc::new(values.with_precision_and_scale(38, 2).expect("decimals"))
    };
    let most = 10i128.pow(38) - 1;
    let mut values = vec![most; 300];
    values.extend(vec![-most; 300]);
    values.push(-12345);
    let state_type = DataType::Decimal128(38, 2);
    let total = sum(wide(values.clone()), state_type.clone()).expect("a sum");
    assert_eq!(total, Some("-123.45".into()));
    values.push(-most);
    assert!(matches!(
        sum(wide(values), state_type.clone()),
        Err(Error::Arithmetic(_))
    ));
    for sign in [1, -1] {
        let held = sum(wide(vec![sign * most, -sign, sign]), state_type.clone());
        assert!(held.is_ok());
        let not_held = sum(wide(vec![sign * most, sign]), state_type.clone());
        assert!(matches!(not_held, Err(Error::Arithmetic(_))));
    }
    for empty in [vec![], vec![None; 9]] {
        let empty: ArrayRef = Arc::new(Int64Array::from(empty));
        assert_eq!(sum(empty, DataType::Int64).expect("a sum"), None);
    }
}

#[test]
fn variances_are_those_of_two_passes() {
    let moments = [DataType::UInt64, DataType::Float64, DataType::Float64];
    for rows in SIZES {
        for (scale, offset, every) in [
            (1.0, 0.0, 1),
            (1e-3, 1e9, 1),
            (1e200, -1e201, 3),
            (0.0, 7.5, 2),
        ] {
            let values = Float64Array::from_iter((0..rows).map(|i| {
                let noise = (i * 7919 % 1013) as f64 / 1013.0;
                i.is_multiple_of(every)
                    .then_some(noise * scale * 1e-60 + offset * 1e-60)
            }));
            let known: Vec<f64> = values.iter().flatten().collect();
            let values: ArrayRef = Arc::new(values);
            let found = state(&values, Function::Variance, &moments).expect("a state");
            let number = |i: usize| found[i].as_primitive::<Float64Type>().value(0);
            let count = found[0].as_primitive::<UInt64Type>().value(0);
            assert_eq!(count, known.len() as u64);
            if known.is_empty() {
                assert_eq!((number(1), number(2)), (0.0, 0.0));
                continue;
            }
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            let squares: f64 = known.iter().map(|v| (v - mean) * (v - mean)).sum();
            let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
            // The host sums the deviations from a mean that is rounded itself.
            let floor = mean.abs() * f64::EPSILON * known.len() as f64;
            assert!(near(number(1), mean, floor), "{mean}");
            let case = format!("{} of {rows} rows around {offset}: {squares}", number(2));
            assert!(
                near(
                    number(2),
                    squares,
                    squares * 1e-12 + floor * floor * count as f64
                ),
                "{case}"
            );
        }
    }
    for special in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        for rows in [1, 300] {
            let mut values = vec![1.0; rows];
            values[rows / 2] = special;
            let values: ArrayRef = Arc::new(Float64Array::from(values));
            let found = state(&values, Function::Variance, &moments).expect("a state");
            assert!(found[2].as_primitive::<Float64Type>().value(0).is_nan());
        }
    }
}

/// Groups have the states of a table of their rows alone: states that atomics merge, and those that need the rows in
/// the order of groups.
#[test]
fn groups_are_reduced_as_their_rows_alone() {
    let numbers = [DataType::UInt64, DataType::Float64, DataType::Float64];
    for values in every_column().filter(|values| values.len() > 31) {
        let data_type = values.data_type().clone();
        let same = std::slice::from_ref(&data_type);
        let shown = [data_type.clone(), DataType::Boolean];
        let candidates = [
            (Function::Count, &[DataType::Int64][..]),
            (Function::Min, same),
            (Function::Max, same),
            (Function::Any, same),
            (Function::BitAnd, same),
            (Function::BitOr, same),
            (Function::BitXor, same),
            (Function::Product, same),
            (Function::Variance, &numbers),
            (Function::First { skip_nulls: false }, &shown),
            (Function::First { skip_nulls: true }, &shown),
            (Function::Last { skip_nulls: false }, &shown),
            (Function::Last { skip_nulls: true }, &shown),
        ];
        let one_row = values.slice(0, 1);
        let known = candidates.iter().filter(|(function, types)| {
            let exact = *function != Function::Product || data_type != DataType::Float64;
            exact && state(&one_row, *function, types).is_ok()
        });
        let aggregates: Vec<Aggregate> = known.map(|(f, types)| aggregate(*f, types)).collect();
        let batch = upload(&numbered(std::slice::from_ref(&values), 0));
        let rows = values.len();
        for groups in [1, 3, 40, rows] {
            // Half the rows in one group, the others spread; the first few rows are left out.
            let group_of = |row: usize| {
                if row.is_multiple_of(2) {
                    0
                } else {
                    row % groups
                }
            };
            let number = || Expr::column(1);
            let literal = |n: usize| Expr::Literal(Literal::UInt32(n as u32));
            let odd = number().binary(Op::Rem, literal(2));
            let key = number()
                .binary(Op::Rem, literal(groups))
                .binary(Op::Mul, odd);
            let aggregation = Aggregation {
                predicate: Some(number().binary(Op::Ge, literal(5))),
                keys: vec![(key, Field::new("key", DataType::UInt32, false))],
                aggregates: aggregates.clone(),
            };
            let found = group(device(), &batch, &aggregation).expect("groups");
            let found = found.download().expect("groups");
            let keys = found.column(0).as_primitive::<UInt32Type>();
            let taken: HashSet<usize> = (5..rows).map(group_of).collect();
            assert_eq!(found.num_rows(), taken.len(), "{data_type} in {groups}");
            for at in (0..found.num_rows()).step_by(found.num_rows().div_ceil(12)) {
                let key = keys.value(at) as usize;
                let of_group: Vec<u32> = (5..rows)
                    .filter(|row| group_of(*row) == key)
                    .map(|row| row as u32)
                    .collect();
                let alone = take(&values, &UInt32Array::from(of_group), None).expect("rows");
                let expected = reduced(&alone, aggregates.clone()).expect("states");
                for (i, expected) in expected.iter().enumerate() {
                    let state = found.column(i + 1).slice(at, 1);
                    let case = format!("column {i} of {data_type}, group {key} of {groups}");
                    let float = |array: &ArrayRef| {
                        let floats = array.as_primitive_opt::<Float64Type>();
                        floats.filter(|f| f.is_valid(0)).map(|f| f.value(0))
                    };
                    match (float(&state), float(expected)) {
                        (Some(a), Some(b)) => {
                            let near = (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
                            assert!(
                                near || a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                                "{case}: {a} {b}"
                            );
                        }
                        _ => assert_eq!(text(&state), text(expected), "{case}"),
                    }
                }
            }
        }
    }
}

#[test]
fn medians_of_groups_are_their_middle_values() {
    for values in every_column().filter(|values| values.len() > 31) {
        let data_type = values.data_type().clone();
        let list = DataType::new_list(data_type.clone(), true);
        let median = aggregate(Function::Median, &[list]);
        let batch = upload(&numbered(std::slice::from_ref(&values), 0));
        let rows = values.len();
        for groups in [1, 4, rows / 2 + 1] {
            let literal = Expr::Literal(Literal::UInt32(groups as u32));
            let key = Expr::column(1).binary(Op::Rem, literal);
            let aggregation = Aggregation {
                predicate: None,
                keys: vec![(key, Field::new("key", DataType::UInt32, false))],
                aggregates: vec![median.clone()],
            };
            let Ok(found) = group(device(), &batch, &aggregation) else {
                // Of numbers of up to 64 bits.
                let wide = matches!(data_type, DataType::Decimal128(_, _));
                assert!(wide || !data_type.is_numeric(), "{data_type}");
                continue;
            };
            let found = found.download().expect("groups");
            assert_eq!(found.num_rows(), groups, "{data_type}");
            for at in (0..groups).step_by(groups.div_ceil(40)) {
                let key = found.column(0).as_primitive::<UInt32Type>().value(at);
                let own: Vec<u32> = (key..rows as u32).step_by(groups).collect();
                let own = take(&values, &UInt32Array::from(own), None).expect("rows");
                let known = filter(&own, &is_not_null(&own).expect("bits")).expect("values");
                let known = sorted(&known);
                let n = known.len();
                let value = |row: usize| text(&known.slice(row, 1));
                let lower = (n > 0).then(|| value((n - 1) / 2)).flatten();
                let upper = (n > 0 && n.is_multiple_of(2))
                    .then(|| value(n / 2))
                    .flatten();
                for (column, expected) in [(1, lower), (2, upper)] {
                    let found = text(&found.column(column).slice(at, 1));
                    assert_eq!(
                        found, expected,
                        "{n} values of {data_type}, {groups} groups"
                    );
                }
            }
        }
    }
}

/// The rows of the least and greatest values of groups, as numbers of the whole batch.
#[test]
fn rows_of_the_extremes_of_groups_are_the_hosts() {
    for values in every_column().filter(|values| values.len() > 31) {
        if state(&values.slice(0, 1), Function::ArgMin, &[DataType::UInt64]).is_err() {
            continue;
        }
        let data_type = values.data_type().clone();
        let ends = [Function::ArgMin, Function::ArgMax];
        let batch = upload(&numbered(std::slice::from_ref(&values), 0));
        let key = Expr::column(1).binary(Op::Rem, Expr::Literal(Literal::UInt32(6)));
        let aggregation = Aggregation {
            predicate: None,
            keys: vec![(key, Field::new("key", DataType::UInt32, false))],
            aggregates: ends.map(|f| aggregate(f, &[DataType::UInt64])).to_vec(),
        };
        let Ok(found) = group(device(), &batch, &aggregation) else {
            // Decimals beyond 64 bits further down.
            assert!(matches!(data_type, DataType::Decimal128(_, _)));
            continue;
        };
        let found = found.download().expect("groups");
        for at in 0..found.num_rows() {
            let key = found.column(0).as_primitive::<UInt32Type>().value(at);
            let rows: Vec<u32> = (key..values.len() as u32).step_by(6).collect();
            let alone = take(&values, &UInt32Array::from(rows.clone()), None).expect("rows");
            for (i, descending) in [false, true].into_iter().enumerate() {
                let expected = first_row(&alone, descending).map(|row| rows[row].to_string());
                let state = found.column(i + 1).slice(at, 1);
                assert_eq!(text(&state), expected, "{:?} of {data_type}", ends[i]);
            }
        }
    }
}

#[test]
fn first_and_last_values_are_the_rows_own() {
    for values in every_column() {
        let data_type = values.data_type().clone();
        let rows = values.len();
        let number = || Expr::column(1);
        let above = |limit: u32| number().binary(Op::Gt, Expr::Literal(Literal::UInt32(limit)));
        let below = |limit: u32| number().binary(Op::Lt, Expr::Literal(Literal::UInt32(limit)));
        let third = rows as u32 / 3;
        let batch = upload(&numbered(std::slice::from_ref(&values), 0));
        for (predicate, filter, taken) in [
            (None, None, 0..rows),
            (Some(above(third)), None, third as usize + 1..rows),
            (
                Some(above(third)),
                Some(below(2 * third)),
                third as usize + 1..2 * third as usize,
            ),
        ] {
            for skip_nulls in [false, true] {
                let mut rows = taken
                    .clone()
                    .filter(|row| !skip_nulls || values.is_valid(*row));
                let (first, last) = (rows.next(), rows.next_back());
                let last = last.or(first);
                let functions = [
                    (Function::First { skip_nulls }, first),
                    (Function::Last { skip_nulls }, last),
                ];
                let aggregates = functions.iter().map(|(function, _)| Aggregate {
                    filter: filter.clone(),
                    ..aggregate(*function, &[data_type.clone(), DataType::Boolean])
                });
                let aggregation = Aggregation {
                    predicate: predicate.clone(),
                    keys: vec![],
                    aggregates: aggregates.collect(),
                };
                let found = reduce(device(), &batch, &aggregation).expect("a state");
                for (i, (function, row)) in functions.into_iter().enumerate() {
                    let (value, is_set) = (found.column(2 * i), found.column(2 * i + 1));
                    assert_eq!(is_set.as_boolean().value(0), row.is_some());
                    let expected = row.map(|row| values.slice(row, 1));
                    let expected = expected.and_then(|value| text(&value));
                    assert_eq!(
                        text(value),
                        expected,
                        "{function:?} of {data_type} {taken:?}"
                    );
                }
            }
        }
    }
}

/// Numbers of one sort: evenly spread, skewed, all the same, few distinct, negative, extreme.
fn spreads(rows: usize) -> Vec<ArrayRef> {
    let noise = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
    let valid = |i: usize| !i.is_multiple_of(5);
    let long = |of: &dyn Fn(usize) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter(
            (0..rows).map(|i| valid(i).then(|| of(i))),
        ))
    };
    let double = |of: &dyn Fn(usize) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..rows).map(of)))
    };
    vec![
        long(&|i| noise(i) as i64 - (1 << 56)),
        long(&|i| 1 << (noise(i) % 63)),
        long(&|_| -3),
        long(&|i| (noise(i) % 3) as i64),
        long(&|i| [i64::MIN, i64::MAX, 0, -1][i % 4]),
        double(&|i| (noise(i) as f64).sqrt() - 1e8),
        double(&|i| [f64::NAN, -0.0, 0.0, f64::INFINITY, -1.5, f64::NEG_INFINITY][i % 6]),
        double(&|i| 2f64.powi((noise(i) % 2000) as i32 - 1000)),
    ]
}

/// The values that are not null, in ascending order.
fn sorted(values: &ArrayRef) -> ArrayRef {
    let known = filter(values, &is_not_null(values).expect("flags")).expect("values");
    sort(&known, None).expect("sorted")
}

#[test]
fn values_stand_at_their_ranks() {
    let mut all: Vec<ArrayRef> = SIZES.iter().flat_map(|rows| spreads(*rows)).collect();
    all.extend(every_column());
    for values in all {
        let data_type = values.data_type().clone();
        let narrow = match data_type {
            DataType::Decimal128(precision, _) => precision <= 18,
            _ => data_type.is_primitive() || data_type == DataType::Boolean,
        };
        if !narrow {
            continue;
        }
        let sorted = sorted(&values);
        let batch = upload(&numbered(std::slice::from_ref(&values), 0));
        let mut ranks = Vec::new();
        let found = values_at(device(), &batch, &Expr::column(0), |count| {
            assert_eq!(count, sorted.len());
            if count > 0 {
                ranks = vec![0, count / 2, count - 1, count / 3, count / 3, count / 2];
            }
            ranks.clone()
        });
        let ranks = UInt64Array::from_iter_values(ranks.iter().map(|rank| *rank as u64));
        let expected = take(&sorted, &ranks, None).expect("values");
        let found = found.expect("values");
        assert_eq!(&found, &expected, "{data_type} {}", values.len());
    }
}

#[test]
fn quantiles_are_those_of_the_sorted_values() {
    use Interpolation::*;
    let qs = [0.0, 0.25, 0.5, 0.9, 1.0];
    for rows in SIZES {
        for values in spreads(rows) {
            let sorted = cast(&sorted(&values), &DataType::Float64).expect("floats");
            let sorted = sorted.as_primitive::<Float64Type>().values();
            let batch = upload(&numbered(std::slice::from_ref(&values), 0));
            for interpolation in [Linear, Lower, Higher, Nearest, Midpoint] {
                let found = quantiles(device(), &batch, &Expr::column(0), &qs, interpolation);
                let found = found.expect("quantiles");
                let found = found.as_primitive::<Float64Type>();
                assert_eq!(found.len(), qs.len());
                for (i, q) in qs.iter().enumerate() {
                    if sorted.is_empty() {
                        assert!(found.is_null(i));
                        continue;
                    }
                    let place = q * (sorted.len() - 1) as f64;
                    let (low, high) = (
                        sorted[place.floor() as usize],
                        sorted[place.ceil() as usize],
                    );
                    let expected = match interpolation {
                        Lower => low,
                        Higher => high,
                        Nearest => sorted[place.round_ties_even() as usize],
                        _ if place.fract() == 0.0 => low,
                        Linear => low + (high - low) * place.fract(),
                        Midpoint => low + (high - low) / 2.0,
                    };
                    assert_eq!(
                        found.value(i).to_bits(),
                        expected.to_bits(),
                        "{interpolation:?} {q}"
                    );
                }
            }
        }
    }
    let batch = upload(&numbered(&spreads(9)[..1], 0));
    for outside in [-0.1, 1.1, f64::NAN] {
        assert!(quantiles(device(), &batch, &Expr::column(0), &[outside], Linear).is_err());
    }
    let none = values_at(device(), &batch, &Expr::column(0), |count| vec![count]);
    assert!(matches!(none, Err(Error::Unsupported { .. })), "{none:?}");
}

#[test]
fn medians_are_the_middle_values() {
    for rows in [0, 1, 2, 31, 257, 258] {
        for values in spreads(rows) {
            let data_type = values.data_type().clone();
            let item = Arc::new(Field::new_list_field(data_type.clone(), true));
            let found = state(&values, Function::Median, &[DataType::List(item)]);
            let found = found.expect("a state");
            let sorted = sorted(&values);
            let count = sorted.len();
            let middle = match count {
                0 => sorted.clone(),
                _ if count % 2 == 1 => sorted.slice(count / 2, 1),
                _ => sorted.slice(count / 2 - 1, 2),
            };
            assert_eq!(found[0].as_list::<i32>().value(0).as_ref(), middle.as_ref());
        }
    }
}

/// The value as something to compare by: zeros are equal, NaNs by their bits.
fn told_apart(values: &ArrayRef, row: usize) -> String {
    let wide = match values.data_type() {
        DataType::Float16 => {
            u64::from(values.as_primitive::<Float16Type>().value(row).to_bits()) << 48
        }
        DataType::Float32 => {
            u64::from(values.as_primitive::<Float32Type>().value(row).to_bits()) << 32
        }
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row).to_bits(),
        _ => return array_value_to_string(values, row).expect("a value"),
    };
    match wide << 1 {
        0 => "0".into(),
        _ => wide.to_string(),
    }
}

#[test]
fn distinct_values_are_counted() {
    for values in every_column() {
        let distinct: HashSet<String> = (0..values.len())
            .filter(|row| values.is_valid(*row))
            .map(|row| told_apart(&values, row))
            .collect();
        let twice = concat(&[&values, &values]).expect("concat");
        let batch = upload(&numbered(&[twice], 0));
        let found = count_distinct(device(), &batch, &Expr::column(0)).expect("a count");
        assert_eq!(found, distinct.len(), "{}", values.data_type());
    }
}
