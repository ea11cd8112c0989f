//! Gathers, slices and concatenations against arrow's.

use arrow::{
    array::*,
    compute::{concat_batches, take_record_batch},
};
use proptest::prelude::*;
use whitewater::{
    Batch,
    gather::{concat, gather, slice},
};

use crate::{device, devices, select::table, upload};

/// The table with what it lacks: decimals of more than 64 bits in every third row if `wide`.
fn rows_of(rows: usize, nulls: bool, wide: bool) -> RecordBatch {
    let host = table(rows, nulls);
    let decimals = host
        .column(5)
        .as_primitive::<arrow::datatypes::Decimal128Type>();
    let values = decimals.iter().enumerate().map(|(i, value)| {
        let far = i128::from(i64::MAX) * if wide && i % 3 == 0 { 3 } else { 0 };
        value.map(|value| value + far)
    });
    let decimals = Decimal128Array::from_iter(values)
        .with_precision_and_scale(20, 2)
        .expect("a precision");
    let mut columns = host.columns().to_vec();
    columns[5] = std::sync::Arc::new(decimals);
    RecordBatch::try_new(host.schema(), columns).expect("a batch")
}

fn download(batch: Batch) -> RecordBatch {
    batch.download().expect("download")
}

fn check_gather(host: &RecordBatch, map: &[u32]) {
    let batch = upload(host);
    let numbers = device().upload(bytemuck::cast_slice(map)).expect("upload");
    let expected = take_record_batch(host, &UInt32Array::from(map.to_vec())).expect("rows");
    for device in devices() {
        let gathered = gather(&device, &batch, &numbers, map.len()).expect("a gather");
        assert_eq!(download(gathered), expected);
    }
}

#[test]
fn rows_by_number() {
    for nulls in [false, true] {
        for rows in [1usize, 31, 512, 1500] {
            let host = rows_of(rows, nulls, rows == 31);
            let last = rows as u32 - 1;
            check_gather(&host, &[]);
            check_gather(&host, &[last]);
            check_gather(&host, &(0..rows as u32).rev().collect::<Vec<_>>());
            check_gather(&host, &vec![last / 2; 700]);
        }
    }
}

#[test]
fn slices_at_every_offset() {
    let host = rows_of(1000, true, false);
    let batch = upload(&host);
    for (first, rows) in [
        (0, 1000),
        (0, 0),
        (0, 1),
        (1, 999),
        (31, 33),
        (511, 2),
        (999, 1),
    ] {
        let part = slice(device(), &batch, first, rows).expect("a slice");
        assert_eq!(download(part), host.slice(first, rows), "{first} {rows}");
    }
    // What is past the end is not there.
    for (first, rows, left) in [
        (990, 20, 10),
        (1000, 5, 0),
        (5000, 5, 0),
        (0, usize::MAX, 1000),
    ] {
        let part = slice(device(), &batch, first, rows).expect("a slice");
        assert_eq!(part.rows, left);
        assert_eq!(download(part), host.slice(first.min(1000), left));
    }
}

fn check_concat(parts: &[RecordBatch]) {
    let expected = concat_batches(&parts[0].schema(), parts).expect("a batch");
    let batches: Vec<Batch> = parts.iter().map(upload).collect();
    assert_eq!(
        download(concat(device(), &batches).expect("a batch")),
        expected
    );
}

#[test]
fn batches_behind_each_other() {
    for sizes in [
        vec![5],
        vec![0, 0],
        vec![1, 1, 1],
        vec![31, 1, 33],
        vec![0, 7],
        vec![100, 0, 7, 513, 2],
    ] {
        for nulls in [0, 1, 2] {
            let parts: Vec<RecordBatch> = sizes
                .iter()
                .enumerate()
                // No nulls, nulls everywhere, nulls in every other part.
                .map(|(i, rows)| {
                    rows_of(
                        *rows,
                        nulls == 1 || (nulls == 2 && i % 2 == 0),
                        nulls == 2 && i == 1,
                    )
                })
                .collect();
            check_concat(&parts);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn random_rows_and_parts(
        sizes in prop::collection::vec((0usize..300, any::<bool>(), any::<bool>()), 1..6),
        map in prop::collection::vec(any::<prop::sample::Index>(), 0..500),
    ) {
        let parts: Vec<RecordBatch> = sizes.iter().map(|(rows, nulls, wide)| rows_of(*rows, *nulls, *wide)).collect();
        check_concat(&parts);
        let rows = parts[0].num_rows();
        if rows > 0 {
            let map: Vec<u32> = map.iter().map(|index| index.index(rows) as u32).collect();
            check_gather(&parts[0], &map);
        }
    }
}
