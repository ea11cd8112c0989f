//! Columns and batches go to the device and come back unchanged: every type, sliced or not.

use std::sync::Arc;

use crate::device;
use arrow::{array::*, buffer::NullBuffer, compute::cast, datatypes::*};
use whitewater::{Batch, Column, Error};

/// One array of every type, `rows` long, with nulls by `valid`.
fn arrays(rows: usize, valid: impl Fn(usize) -> bool) -> Vec<ArrayRef> {
    let nulls = NullBuffer::from((0..rows).map(&valid).collect::<Vec<bool>>());
    let longs: Int64Array =
        Int64Array::from_iter_values((0..rows).map(|i| (i as i64 * 7919) % 100 - 50));
    let longs = Int64Array::new(longs.values().clone(), Some(nulls.clone()));
    let mut all: Vec<ArrayRef> = Vec::new();
    for to in [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Boolean,
        DataType::Date32,
        DataType::Date64,
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Second, Some("UTC".into())),
        DataType::Duration(TimeUnit::Millisecond),
        DataType::Decimal128(20, 3),
        DataType::Utf8,
        DataType::LargeUtf8,
    ] {
        let small = cast(&longs, &DataType::Int32).expect("cast");
        let from: &ArrayRef = if to == DataType::Date32 {
            &small
        } else {
            &(Arc::new(longs.clone()) as ArrayRef)
        };
        all.push(cast(from, &to).expect("cast"));
    }
    for to in [
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
    ] {
        let positive = Int64Array::from_iter((0..rows).map(|i| valid(i).then_some(i as i64 % 200)));
        all.push(cast(&positive, &to).expect("cast"));
    }
    let wide = Decimal128Array::from_iter(
        (0..rows).map(|i| valid(i).then_some(i as i128 * 10i128.pow(30) - 5)),
    );
    all.push(Arc::new(
        wide.with_precision_and_scale(38, 2).expect("precision"),
    ));
    all.push(Arc::new(StringArray::from_iter(
        (0..rows).map(|i| valid(i).then(|| "é😀x".repeat(i % 5))),
    )));
    all.push(Arc::new(NullArray::new(rows)));
    all
}

#[test]
fn every_type_round_trips_at_every_size_and_offset() {
    let patterns: [fn(usize) -> bool; 3] = [|_| true, |i| i % 3 != 0, |_| false];
    for valid in patterns {
        for rows in [0, 1, 31, 32, 33, 257] {
            for array in arrays(rows + 9, valid) {
                for offset in [0, 1, 7] {
                    let slice = array.slice(offset, rows);
                    let column = Column::upload(device(), &slice).expect("upload");
                    let back = column.download().expect("download");
                    back.to_data().validate_full().expect("valid arrow data");
                    assert_eq!(
                        &back,
                        &slice,
                        "{} rows {rows} offset {offset}",
                        array.data_type()
                    );
                }
            }
        }
    }
}

#[test]
fn batches_keep_their_schema_and_views_become_plain() {
    let views: ArrayRef = Arc::new(StringViewArray::from(vec![
        Some("a"),
        None,
        Some("long enough to be out of line"),
    ]));
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("v", views), ("i", ints)]).expect("batch");
    let back = Batch::upload(device(), &batch)
        .expect("upload")
        .download()
        .expect("download");
    assert_eq!(back.schema().field(0).data_type(), &DataType::Utf8);
    let strings: Vec<Option<&str>> = back.column(0).as_string::<i32>().iter().collect();
    assert_eq!(
        strings,
        [Some("a"), None, Some("long enough to be out of line")]
    );
    assert_eq!(back.column(1), batch.column(1));
}

#[test]
fn nested_types_are_refused_by_name() {
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([
        Some(1),
    ])]));
    let Err(Error::Unsupported { what }) = Column::upload(device(), &list) else {
        panic!("a list was taken");
    };
    assert!(what.contains("List"), "{what}");
}
