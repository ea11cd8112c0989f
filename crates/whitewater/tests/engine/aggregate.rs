//! Reductions and group-by against sums worked out on the host, row by row.

use std::{collections::BTreeMap, sync::Arc};

use crate::device;
use arrow::{
    array::*,
    compute::concat_batches,
    datatypes::{DataType, Field, Float64Type, Int64Type, UInt64Type},
};
use whitewater::{
    Batch,
    aggregate::{Aggregate, Aggregation, Function, reduce},
    expr::{Expr, Literal, Op},
    groupby::group,
};

fn aggregate(function: Function, argument: Option<Expr>, state: &[DataType]) -> Aggregate {
    let fields = state.iter().enumerate();
    Aggregate {
        function,
        argument,
        filter: None,
        order: Vec::new(),
        state: fields
            .map(|(i, t)| Field::new(format!("s{i}"), t.clone(), true))
            .collect(),
    }
}

/// Key, long, double and decimal columns of `rows` rows; every seventh value is null if `nulls`.
fn table(rows: usize, groups: u64, nulls: bool) -> RecordBatch {
    let mut state = 42u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state >> 33
    };
    let draws: Vec<(u64, u64)> = (0..rows).map(|_| (next(), next())).collect();
    let present = |i: usize, by: usize| !nulls || !(i + by).is_multiple_of(7);
    let keys = Int64Array::from_iter(
        draws
            .iter()
            .enumerate()
            .map(|(i, d)| present(i, 1).then_some((d.0 % groups) as i64 - 3)),
    );
    let longs = Int64Array::from_iter(
        draws
            .iter()
            .enumerate()
            .map(|(i, d)| present(i, 2).then_some(d.1 as i64 - (1 << 30))),
    );
    let doubles = Float64Array::from_iter(
        draws
            .iter()
            .enumerate()
            .map(|(i, d)| present(i, 3).then_some(d.1 as f64 / 1e6 - 900.0)),
    );
    let decimals = Decimal128Array::from_iter(
        draws
            .iter()
            .enumerate()
            .map(|(i, d)| present(i, 4).then_some(i128::from(d.1) - (1 << 30))),
    )
    .with_precision_and_scale(15, 2)
    .expect("precision");
    let words = StringArray::from_iter(draws.iter().enumerate().map(|(i, d)| {
        present(i, 5)
            .then(|| "wörd".repeat((d.0 % groups % 5) as usize) + &(d.0 % groups).to_string())
    }));
    RecordBatch::try_from_iter_with_nullable([
        ("k", Arc::new(keys) as ArrayRef, true),
        ("i", Arc::new(longs), true),
        ("f", Arc::new(doubles), true),
        ("d", Arc::new(decimals), true),
        ("s", Arc::new(words), true),
    ])
    .expect("a batch")
}

fn all() -> Vec<Aggregate> {
    let column = |i| Some(Expr::column(i));
    vec![
        aggregate(Function::Count, None, &[DataType::Int64]),
        aggregate(Function::Count, column(1), &[DataType::Int64]),
        aggregate(Function::Sum, column(1), &[DataType::Int64]),
        aggregate(Function::Sum, column(2), &[DataType::Float64]),
        aggregate(
            Function::Avg,
            column(2),
            &[DataType::UInt64, DataType::Float64],
        ),
        aggregate(Function::Sum, column(3), &[DataType::Decimal128(25, 2)]),
        aggregate(Function::Min, column(1), &[DataType::Int64]),
        aggregate(Function::Max, column(2), &[DataType::Float64]),
        aggregate(Function::Min, column(3), &[DataType::Decimal128(15, 2)]),
    ]
}

/// The state of `all` for some rows.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    rows: i64,
    longs: Vec<i64>,
    doubles: Vec<f64>,
    decimals: Vec<i128>,
}

impl Expected {
    fn add(&mut self, batch: &RecordBatch, row: usize) {
        self.rows += 1;
        let longs = batch.column(1).as_primitive::<Int64Type>();
        let doubles = batch.column(2).as_primitive::<Float64Type>();
        let decimals = batch
            .column(3)
            .as_primitive::<arrow::datatypes::Decimal128Type>();
        self.longs
            .extend(longs.is_valid(row).then(|| longs.value(row)));
        self.doubles
            .extend(doubles.is_valid(row).then(|| doubles.value(row)));
        self.decimals
            .extend(decimals.is_valid(row).then(|| decimals.value(row)));
    }

    /// Compares with row `row` of state columns that start at column `at`.
    fn check(&self, state: &RecordBatch, at: usize, row: usize) {
        let long = |i: usize| {
            let column = state.column(at + i).as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        let double = |i: usize| {
            let column = state.column(at + i).as_primitive::<Float64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        let decimal = |i: usize| {
            let column = state
                .column(at + i)
                .as_primitive::<arrow::datatypes::Decimal128Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        assert_eq!(long(0), Some(self.rows));
        assert_eq!(long(1), Some(self.longs.len() as i64));
        let wrapped = self.longs.iter().fold(0i64, |a, b| a.wrapping_add(*b));
        assert_eq!(long(2), (!self.longs.is_empty()).then_some(wrapped));
        let sum: f64 = self.doubles.iter().sum();
        let magnitude: f64 = self.doubles.iter().map(|v| v.abs()).sum();
        let bound = magnitude * self.doubles.len() as f64 * f64::EPSILON;
        for i in [3, 5] {
            match double(i) {
                None => assert!(self.doubles.is_empty()),
                Some(v) => assert!((v - sum).abs() <= bound, "{v} {sum}"),
            }
        }
        let count = state.column(at + 4).as_primitive::<UInt64Type>().value(row);
        assert_eq!(count, self.doubles.len() as u64);
        assert_eq!(
            decimal(6),
            (!self.decimals.is_empty()).then(|| self.decimals.iter().sum())
        );
        assert_eq!(long(7), self.longs.iter().min().copied());
        assert_eq!(double(8), self.doubles.iter().copied().reduce(f64::max));
        assert_eq!(decimal(9), self.decimals.iter().min().copied());
    }
}

#[test]
fn reductions_equal_the_hosts() {
    for nulls in [false, true] {
        for rows in [0, 1, 31, 257, 5000] {
            let host = table(rows, 10, nulls);
            let batch = Batch::upload(device(), &host).expect("upload");
            for limit in [None, Some(0i64)] {
                let predicate = limit.map(|limit| {
                    Expr::column(1).binary(Op::Gt, Expr::Literal(Literal::Int64(limit)))
                });
                let aggregation = Aggregation {
                    predicate,
                    keys: vec![],
                    aggregates: all(),
                };
                let state = reduce(device(), &batch, &aggregation).expect("a state");
                let mut expected = Expected::default();
                let longs = host.column(1).as_primitive::<Int64Type>();
                for row in 0..rows {
                    if limit.is_none_or(|limit| longs.is_valid(row) && longs.value(row) > limit) {
                        expected.add(&host, row);
                    }
                }
                expected.check(&state, 0, 0);
            }
        }
    }
}

/// Groups by column `key` and compares every group.
fn grouped(host: &RecordBatch, key: usize) {
    let batch = Batch::upload(device(), host).expect("upload");
    let field = host.schema().field(key).clone();
    let aggregation = Aggregation {
        predicate: None,
        keys: vec![(Expr::column(key), field)],
        aggregates: all(),
    };
    let state = group(device(), &batch, &aggregation)
        .expect("groups")
        .download()
        .expect("download");
    let name = |batch: &RecordBatch, column: usize, row: usize| {
        let column = batch.column(column);
        column
            .is_valid(row)
            .then(|| arrow::util::display::array_value_to_string(column, row).expect("a value"))
    };
    let mut expected: BTreeMap<Option<String>, Expected> = BTreeMap::new();
    for row in 0..host.num_rows() {
        expected
            .entry(name(host, key, row))
            .or_default()
            .add(host, row);
    }
    assert_eq!(state.num_rows(), expected.len());
    for row in 0..state.num_rows() {
        expected[&name(&state, 0, row)].check(&state, 1, row);
    }
}

#[test]
fn groups_equal_the_hosts() {
    for nulls in [false, true] {
        for (rows, groups) in [
            (0, 1),
            (1, 1),
            (33, 4),
            (3000, 3),
            (3000, 700),
            (6000, 1 << 40),
        ] {
            let host = table(rows, groups, nulls);
            // Integers, decimals, strings; the doubles are distinct nearly everywhere.
            for key in [0, 3, 4, 2] {
                grouped(&host, key);
            }
        }
    }
}

/// The groups by column 0, by key: the state columns as text.
fn states(batch: &Batch, aggregates: &[Aggregate]) -> BTreeMap<String, Vec<String>> {
    let aggregation = Aggregation {
        predicate: None,
        keys: vec![(Expr::column(0), batch.schema.field(0).clone())],
        aggregates: aggregates.to_vec(),
    };
    let groups = group(device(), batch, &aggregation).expect("groups");
    let groups = groups.download().expect("download");
    let text = |column: usize, row: usize| {
        arrow::util::display::array_value_to_string(groups.column(column), row).expect("a value")
    };
    let columns = groups.num_columns();
    (0..groups.num_rows())
        .map(|row| (text(0, row), (1..columns).map(|c| text(c, row)).collect()))
        .collect()
}

#[test]
fn aggregates_alone_are_what_they_are_together() {
    // Which accumulators a kernel has depends on the aggregates and on what can be null.
    for nulls in [false, true] {
        let batch = Batch::upload(device(), &table(500, 5, nulls)).expect("upload");
        let together = states(&batch, &all());
        assert!(states(&batch, &[]).keys().eq(together.keys()));
        let mut at = 0;
        for aggregate in all() {
            let width = aggregate.state.len();
            for (key, alone) in states(&batch, std::slice::from_ref(&aggregate)) {
                assert_eq!(alone, together[&key][at..at + width], "{aggregate:?} {key}");
            }
            at += width;
        }
    }
}

#[test]
fn float_sums_are_the_same_on_every_run() {
    let host = table(4000, 3, false);
    let batch = Batch::upload(device(), &host).expect("upload");
    let aggregation = Aggregation {
        predicate: None,
        keys: vec![(Expr::column(0), Field::new("k", DataType::Int64, true))],
        aggregates: vec![aggregate(
            Function::Sum,
            Some(Expr::column(2)),
            &[DataType::Float64],
        )],
    };
    let run = || {
        let state = group(device(), &batch, &aggregation)
            .expect("groups")
            .download()
            .expect("download");
        let keys = state
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec();
        let sums = state
            .column(1)
            .as_primitive::<Float64Type>()
            .values()
            .to_vec();
        keys.into_iter()
            .zip(sums.into_iter().map(f64::to_bits))
            .collect::<BTreeMap<_, _>>()
    };
    let first = run();
    for _ in 0..3 {
        assert_eq!(run(), first);
    }
}

#[test]
fn sums_span_wide_exponents_and_specials() {
    let values = vec![
        1e300,
        1.0,
        1e-300,
        -1e300,
        5e-324,
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NAN,
        f64::NEG_INFINITY,
    ];
    let keys = vec![0, 1, 2, 0, 2, 3, 3, 4, 5, 6];
    let host = RecordBatch::try_from_iter([
        ("k", Arc::new(Int64Array::from(keys)) as ArrayRef),
        ("f", Arc::new(Float64Array::from(values)) as ArrayRef),
    ])
    .expect("a batch");
    let host = concat_batches(&host.schema(), [&host, &host]).expect("concat");
    let batch = Batch::upload(device(), &host).expect("upload");
    let aggregation = Aggregation {
        predicate: None,
        keys: vec![(Expr::column(0), Field::new("k", DataType::Int64, false))],
        aggregates: vec![aggregate(
            Function::Sum,
            Some(Expr::column(1)),
            &[DataType::Float64],
        )],
    };
    let state = group(device(), &batch, &aggregation)
        .expect("groups")
        .download()
        .expect("download");
    let keys = state.column(0).as_primitive::<Int64Type>();
    let sums = state.column(1).as_primitive::<Float64Type>();
    assert_eq!(keys.len(), 7);
    for row in 0..7 {
        let sum = sums.value(row);
        match keys.value(row) {
            0 | 3 => assert_eq!(sum, 0.0),
            1 => assert_eq!(sum, 2.0),
            2 => assert_eq!(sum, 2.0 * (1e-300 + 5e-324)),
            4 => assert_eq!(sum, f64::INFINITY),
            5 => assert!(sum.is_nan()),
            6 => assert_eq!(sum, f64::NEG_INFINITY),
            other => panic!("{other}"),
        }
    }
}
