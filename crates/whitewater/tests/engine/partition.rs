//! Hashes of rows by the documented formula, and partitions by them and by ranges.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::*,
    compute::{SortOptions, concat_batches, take_record_batch},
    datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, UInt64Type},
};
use whitewater::{
    expr::Expr,
    partition::{Partitioned, hash_rows, partition_by_hash, partition_by_range},
    sort::SortKey,
};

use crate::{
    device, devices,
    sort::{ORDERS, columns, numbered},
    upload,
};

fn mix(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

fn combine(h: u64, x: u64) -> u64 {
    mix(x ^ h
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x632b_e59b_d9b4_e019))
}

/// Both halves of a value.
fn halves(column: &ArrayRef, row: usize) -> (u64, u64) {
    let bytes = |bytes: &[u8]| {
        let mut h = 0;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            h = combine(h, u64::from_le_bytes(word));
        }
        if bytes.len().is_multiple_of(8) {
            h = combine(h, 0);
        }
        (h, bytes.len() as u64)
    };
    match column.data_type() {
        DataType::Boolean => (u64::from(column.as_boolean().value(row)), 0),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            (u64::from(if value == 0.0 { 0 } else { value.to_bits() }), 0)
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            (if value == 0.0 { 0 } else { value.to_bits() }, 0)
        }
        DataType::Decimal128(_, _) => {
            let value = column.as_primitive::<Decimal128Type>().value(row) as u128;
            (value as u64, (value >> 64) as u64)
        }
        DataType::Utf8 => bytes(column.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => bytes(column.as_string::<i64>().value(row).as_bytes()),
        DataType::Binary => bytes(column.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(column.as_binary::<i64>().value(row)),
        other => {
            let width = other.primitive_width().expect("a width");
            let data = column.to_data();
            let at = (data.offset() + row) * width;
            let value = &data.buffers()[0].as_slice()[at..at + width];
            let mut word = [0; 8];
            word[..width].copy_from_slice(value);
            // Narrow signed values are extended to 32 bits before these are taken as they are.
            let negative = value[width - 1] >= 0x80;
            if width < 4 && other.is_signed_integer() && negative {
                word[width..4].fill(0xff);
            }
            (u64::from_le_bytes(word), 0)
        }
    }
}

fn hash(columns: &[ArrayRef], row: usize) -> u64 {
    columns.iter().fold(0, |h, column| {
        if column.is_null(row) {
            return combine(h, 0x5bd1_e995_5bd1_e995);
        }
        let (low, high) = halves(column, row);
        combine(combine(h, low), high)
    })
}

/// Rows and offsets, if row `i` goes to part `part(i)`.
fn check(found: Partitioned, host: &RecordBatch, parts: usize, part: impl Fn(usize) -> usize) {
    let mut rows: Vec<u32> = (0..host.num_rows() as u32).collect();
    rows.sort_by_key(|row| part(*row as usize));
    let offsets: Vec<usize> = (0..=parts)
        .map(|bound| {
            rows.iter()
                .filter(|row| part(**row as usize) < bound)
                .count()
        })
        .collect();
    let expected = take_record_batch(host, &UInt32Array::from(rows)).expect("rows");
    assert_eq!(found.offsets, offsets);
    assert_eq!(found.batch.download().expect("download"), expected);
}

#[test]
fn hashes_are_as_documented() {
    for (nulls, rows) in [(false, 700), (true, 700), (true, 33), (false, 0)] {
        let mut all = columns(rows, 31, nulls);
        all.push(Arc::new(Float64Array::from_iter_values(
            (0..rows).map(|i| [0.0, -0.0, f64::NAN, 1.5][i % 4]),
        )));
        for (i, column) in all.iter().enumerate() {
            let pair = [column.clone(), all[(i + 3) % all.len()].clone()];
            for columns in [&pair[..1], &pair[..]] {
                let keys: Vec<Expr> = (0..columns.len()).map(Expr::column).collect();
                let found = hash_rows(device(), &upload(&numbered(columns, 0)), &keys);
                let found = found.expect("hashes").download().expect("download");
                let expected: Vec<u64> = (0..rows).map(|row| hash(columns, row)).collect();
                let found = found.as_primitive::<UInt64Type>().values().to_vec();
                assert_eq!(found, expected, "{}", column.data_type());
            }
        }
    }
}

#[test]
fn parts_by_hash() {
    let devices = devices();
    for (rows, parts) in [
        (0, 5),
        (1, 2),
        (700, 2),
        (1500, 64),
        (900, 256),
        (1500, 257),
        (2000, 4096),
    ] {
        let all = columns(rows, 32, true);
        for columns in [&all[9..10], &all[14..16], &all[4..8]] {
            let host = numbered(columns, 0);
            let keys: Vec<Expr> = (0..columns.len()).map(Expr::column).collect();
            let part = |row: usize| ((hash(columns, row) >> 32) as usize * parts) >> 32;
            for device in &devices {
                let found = partition_by_hash(device, &upload(&host), &keys, parts);
                check(found.expect("parts"), &host, parts, part);
            }
        }
    }
    let host = upload(&numbered(&columns(5, 1, false)[..1], 0));
    assert!(partition_by_hash(device(), &host, &[Expr::column(0)], 4097).is_err());
    assert!(partition_by_hash(device(), &host, &[Expr::column(0)], 0).is_err());
}

#[test]
fn parts_by_range() {
    let devices = devices();
    for (rows, bounds) in [(0, 3), (1, 1), (700, 1), (900, 63), (600, 300), (40, 0)] {
        let (all, others) = (columns(rows, 33, true), columns(bounds, 34, true));
        for (i, order) in ORDERS.into_iter().enumerate() {
            let by = [9 + i, 14, 4 + i];
            for by in [&by[..1], &by[..]] {
                let columns: Vec<ArrayRef> = by.iter().map(|i| all[*i].clone()).collect();
                let orders: Vec<SortOptions> = vec![order; by.len()];
                let named = by
                    .iter()
                    .map(|i| (format!("b{i}"), others[*i].clone(), true));
                let limits = RecordBatch::try_from_iter_with_nullable(named).expect("a batch");
                let options: Vec<arrow::compute::SortColumn> = limits
                    .columns()
                    .iter()
                    .map(|values| arrow::compute::SortColumn {
                        values: values.clone(),
                        options: Some(order),
                    })
                    .collect();
                let sorted = arrow::compute::lexsort_to_indices(&options, None).expect("an order");
                let limits = take_record_batch(&limits, &sorted).expect("rows");
                let host = numbered(&columns, 0);
                let numbers: Vec<usize> = (0..bounds).collect();
                // Rows of the batch, then the bounds, in one comparison.
                let keys_alone = RecordBatch::try_new(limits.schema(), columns.clone());
                let both = concat_batches(&limits.schema(), [&keys_alone.expect("keys"), &limits]);
                let both = both.expect("rows");
                let compare: Vec<_> = orders
                    .iter()
                    .zip(both.columns())
                    .map(|(order, c)| make_comparator(c, c, *order).expect("a comparison"))
                    .collect();
                let part = |row: usize| {
                    let at_most = |bound: &usize| {
                        let found = compare.iter().map(|by| by(rows + bound, row));
                        found.fold(Ordering::Equal, Ordering::then) != Ordering::Greater
                    };
                    numbers.partition_point(at_most)
                };
                let keys: Vec<SortKey> = (0..by.len())
                    .map(|i| SortKey {
                        expr: Expr::column(i),
                        descending: order.descending,
                        nulls_first: order.nulls_first,
                    })
                    .collect();
                for device in &devices {
                    let limits = upload(&limits);
                    let found = partition_by_range(device, &upload(&host), &keys, &limits);
                    check(found.expect("parts"), &host, bounds + 1, part);
                }
            }
        }
    }
}
