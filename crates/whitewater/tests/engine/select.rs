//! Filter and projection against arrow's own kernels.

use std::sync::Arc;

use crate::{device, devices};
use arrow::{
    array::*,
    compute::{filter_record_batch, kernels::cmp, kernels::numeric},
    datatypes::{DataType, Field, Int64Type},
};
use whitewater::{
    Batch,
    expr::{Expr, Literal, Op},
    groupby::distinct,
    select::{drop_nulls, filter_project},
};

/// A row of every kind of storage; every fifth value is null if `nulls`.
pub fn table(rows: usize, nulls: bool) -> RecordBatch {
    let ok = |i: usize, by: usize| !nulls || !(i + by).is_multiple_of(5);
    let value = |i: usize| {
        (i as i64)
            .wrapping_mul(2862933555777941757)
            .wrapping_add(3037000493)
            >> 40
    };
    let longs = Int64Array::from_iter((0..rows).map(|i| ok(i, 0).then(|| value(i))));
    let shorts = Int16Array::from_iter((0..rows).map(|i| ok(i, 1).then(|| value(i) as i16)));
    let bytes = UInt8Array::from_iter((0..rows).map(|i| ok(i, 2).then(|| value(i) as u8)));
    let flags = BooleanArray::from_iter((0..rows).map(|i| ok(i, 3).then(|| value(i) % 3 == 0)));
    let doubles =
        Float64Array::from_iter((0..rows).map(|i| ok(i, 4).then(|| value(i) as f64 / 7.0)));
    let decimals =
        Decimal128Array::from_iter((0..rows).map(|i| ok(i, 1).then(|| i128::from(value(i)))))
            .with_precision_and_scale(20, 2)
            .expect("precision");
    let words = StringArray::from_iter((0..rows).map(|i| ok(i, 2).then(|| "aé".repeat(i % 7))));
    let large = LargeStringArray::from_iter((0..rows).map(|i| ok(i, 3).then(|| i.to_string())));
    RecordBatch::try_from_iter_with_nullable([
        ("i", Arc::new(longs) as ArrayRef, true),
        ("h", Arc::new(shorts), true),
        ("b", Arc::new(bytes), true),
        ("m", Arc::new(flags), true),
        ("f", Arc::new(doubles), true),
        ("d", Arc::new(decimals), true),
        ("s", Arc::new(words), true),
        ("l", Arc::new(large), true),
    ])
    .expect("a batch")
}

fn columns(batch: &RecordBatch, indices: impl IntoIterator<Item = usize>) -> Vec<(Expr, Field)> {
    indices
        .into_iter()
        .map(|i| (Expr::column(i), batch.schema().field(i).clone()))
        .collect()
}

fn run(host: &RecordBatch, predicate: Option<&Expr>, outputs: &[(Expr, Field)]) -> RecordBatch {
    let batch = Batch::upload(device(), host).expect("upload");
    let results = devices().into_iter().map(|device| {
        let result = filter_project(&device, &batch, predicate, outputs).expect("a result");
        result.download().expect("download")
    });
    results
        .reduce(|one, other| {
            assert_eq!(one, other, "with look-back and without");
            one
        })
        .expect("a device")
}

#[test]
fn every_column_passes_a_filter_in_order() {
    for nulls in [false, true] {
        for rows in [0, 1, 31, 511, 512, 513, 5000] {
            let host = table(rows, nulls);
            let outputs = columns(&host, 0..8);
            let by_mask = Expr::column(3);
            assert_eq!(
                run(&host, Some(&by_mask), &outputs),
                filter_record_batch(&host, host.column(3).as_boolean()).expect("filter"),
                "{rows} {nulls}"
            );
            for limit in [i64::MIN, 0, i64::MAX] {
                let predicate =
                    Expr::column(0).binary(Op::Lt, Expr::Literal(Literal::Int64(limit)));
                let mask = cmp::lt(host.column(0), &Int64Array::new_scalar(limit)).expect("mask");
                let expected = filter_record_batch(&host, &mask).expect("filter");
                assert_eq!(
                    run(&host, Some(&predicate), &outputs),
                    expected,
                    "{rows} {limit}"
                );
                // Only columns of fixed width: where they hold no nulls, the single pass.
                let fixed = [0, 1, 2, 3, 4, 5];
                assert_eq!(
                    run(&host, Some(&predicate), &columns(&host, fixed)),
                    expected.project(&fixed).expect("project"),
                    "{rows} {limit}"
                );
            }
        }
    }
}

#[test]
fn projections_compute() {
    for nulls in [false, true] {
        let host = table(700, nulls);
        let sum = Expr::column(0).binary(Op::Add, Expr::column(0));
        let outputs = [(sum, Field::new("x", DataType::Int64, true))];
        let out = run(&host, None, &outputs);
        let expected = numeric::add_wrapping(host.column(0), host.column(0)).expect("add");
        assert_eq!(out.column(0), &expected);
        assert_eq!(out.column(0).as_primitive::<Int64Type>().len(), 700);
    }
}

#[test]
fn a_filter_without_outputs_counts() {
    let host = table(100, true);
    assert_eq!(run(&host, None, &[]).num_rows(), 100);
}

/// Rows that the predicate's own column gives, few or many of them, evenly or all in one place.
#[test]
fn rows_of_the_column_that_is_looked_at() {
    let takes: [fn(usize) -> bool; 6] = [
        |_| false,
        |_| true,
        |i| i % 100 == 7,
        |i| i % 3 == 1,
        |i| i % 2 == 0,
        |i| (600..900).contains(&i),
    ];
    for rows in [1, 255, 256, 257, 511, 1000, 5000] {
        for take in takes {
            let longs: ArrayRef = Arc::new(Int64Array::from_iter_values(
                (0..rows).map(|i| if take(i) { i as i64 } else { -1 }),
            ));
            let shorts: ArrayRef = Arc::new(Float32Array::from_iter_values(
                (0..rows).map(|i| if take(i) { i as f32 } else { -1.0 }),
            ));
            for (column, zero) in [(longs, Literal::Int64(0)), (shorts, Literal::Float32(0.0))] {
                let host = RecordBatch::try_from_iter([("c", column)]).expect("a batch");
                let predicate = Expr::column(0).binary(Op::Ge, Expr::Literal(zero));
                let mask = BooleanArray::from_iter((0..rows).map(|i| Some(take(i))));
                let expected = filter_record_batch(&host, &mask).expect("rows");
                let outputs = columns(&host, [0]);
                assert_eq!(run(&host, Some(&predicate), &outputs), expected, "{rows}");
            }
        }
    }
}

#[test]
fn rows_without_nulls() {
    for rows in [0, 1, 33, 700] {
        let host = table(rows, true);
        let batch = Batch::upload(device(), &host).expect("upload");
        for by in [vec![0], vec![6, 3], (0..8).collect(), Vec::new()] {
            let whole = |row: usize| by.iter().all(|i: &usize| host.column(*i).is_valid(row));
            let mask = BooleanArray::from_iter((0..rows).map(|row| Some(whole(row))));
            let expected = filter_record_batch(&host, &mask).expect("rows");
            let result = drop_nulls(device(), &batch, &by).expect("rows");
            assert_eq!(result.download().expect("download"), expected, "{by:?}");
        }
    }
}

#[test]
fn rows_once_each() {
    let words = |batch: &RecordBatch| -> Vec<String> {
        let text = arrow::util::pretty::pretty_format_batches(std::slice::from_ref(batch));
        let text = text.expect("text").to_string();
        text.lines().skip(3).map(str::to_string).collect()
    };
    for rows in [0, 1, 40, 900] {
        let all = table(rows / 3 + 1, true);
        let repeated =
            UInt32Array::from_iter_values((0..rows as u32).map(|i| i % (rows as u32 / 3 + 1)));
        let host = arrow::compute::take_record_batch(&all, &repeated).expect("rows");
        for by in [vec![0], vec![1, 6], vec![7, 5, 3], vec![4]] {
            let host = host.project(&by).expect("columns");
            let batch = Batch::upload(device(), &host).expect("upload");
            let result = distinct(device(), &batch).expect("rows");
            let mut found = words(&result.download().expect("download"));
            let mut expected = words(&host);
            found.sort();
            expected.sort();
            expected.dedup();
            assert_eq!(found, expected, "{by:?}");
        }
    }
}
