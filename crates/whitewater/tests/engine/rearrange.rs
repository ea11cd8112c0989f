//! Rows put in other places, against arrow's kernels.

use arrow::{
    array::*,
    compute::{kernels::window, kernels::zip::zip, take_record_batch},
};
use whitewater::{
    Batch, Error,
    gather::{copy_if_else, gather_checked, gather_or_null, reverse, scatter, shift},
    gpu::Buffer,
};

use crate::{device, devices, select::table, upload};

const SIZES: [usize; 6] = [1, 31, 32, 33, 257, 1000];

fn numbers(map: &[u32]) -> Buffer {
    device().upload(bytemuck::cast_slice(map)).expect("upload")
}

fn columns_of(batch: &Batch) -> Vec<ArrayRef> {
    batch.download().expect("download").columns().to_vec()
}

/// A number for each of `rows` rows, among `of` rows and some past them.
fn scattered(rows: usize, of: usize) -> Vec<u32> {
    let number = |i: usize| (i as u32).wrapping_mul(2_654_435_761) % (of as u32 + 3);
    (0..rows).map(number).collect()
}

#[test]
fn numbers_out_of_range_are_null_or_an_error() {
    let devices = devices();
    for nulls in [false, true] {
        for rows in SIZES {
            let host = table(rows, nulls);
            let batch = upload(&host);
            let mut map = scattered(rows + 5, rows);
            map[0] = u32::MAX;
            let known = map.iter().map(|n| (*n < rows as u32).then_some(*n));
            let expected = take_record_batch(&host, &UInt32Array::from_iter(known)).expect("rows");
            for device in &devices {
                let map_buffer = numbers(&map);
                let rows_out = map.len();
                let result = gather_or_null(device, &batch, &map_buffer, rows_out).expect("rows");
                assert_eq!(columns_of(&result), expected.columns());
                let outside = map.iter().filter(|n| **n >= rows as u32).count();
                match gather_checked(device, &batch, &map_buffer, rows_out) {
                    Err(Error::OutOfRange {
                        outside: found,
                        rows: of,
                    }) => {
                        assert_eq!((found, of), (outside, rows));
                    }
                    other => panic!("{:?} instead of an error", other.map(|batch| batch.rows)),
                }
                let inside: Vec<u32> = map.iter().map(|n| n % rows as u32).collect();
                let expected =
                    take_record_batch(&host, &UInt32Array::from(inside.clone())).expect("rows");
                let result = gather_checked(device, &batch, &numbers(&inside), rows_out);
                assert_eq!(columns_of(&result.expect("rows")), expected.columns());
            }
        }
    }
}

#[test]
fn nothing_to_gather_from() {
    let empty = upload(&table(0, false));
    let result = gather_or_null(device(), &empty, &numbers(&[0, 7, 9]), 3).expect("rows");
    for column in columns_of(&result) {
        assert_eq!((column.len(), column.null_count()), (3, 3));
    }
    let result = gather_or_null(device(), &upload(&table(9, true)), &numbers(&[]), 0);
    assert_eq!(result.expect("rows").rows, 0);
    assert!(gather_checked(device(), &empty, &numbers(&[0]), 1).is_err());
}

#[test]
fn rows_replaced_by_number() {
    let devices = devices();
    for nulls in [false, true] {
        for rows in SIZES {
            let (target, source) = (table(rows, nulls), table(rows / 2 + 3, !nulls));
            let map: Vec<u32> = scattered(source.num_rows(), rows)
                .iter()
                .map(|n| n % rows as u32)
                .collect();
            // Rows of the source are behind those of the target.
            let mut picked: Vec<u32> = (0..rows as u32).collect();
            for (i, to) in map.iter().enumerate() {
                picked[*to as usize] = (rows + i) as u32;
            }
            let both = arrow::compute::concat_batches(&target.schema(), [&target, &source]);
            let expected =
                take_record_batch(&both.expect("rows"), &UInt32Array::from(picked)).expect("rows");
            let (target, source) = (upload(&target), upload(&source));
            for device in &devices {
                let result = scatter(device, &source, &numbers(&map), &target).expect("rows");
                assert_eq!(columns_of(&result), expected.columns());
            }
            let mut outside = map.clone();
            outside[0] = rows as u32;
            let result = scatter(device(), &source, &numbers(&outside), &target);
            assert!(matches!(result, Err(Error::OutOfRange { outside: 1, .. })));
        }
    }
}

#[test]
fn rows_chosen_by_a_mask() {
    let devices = devices();
    for rows in SIZES {
        let (yes, no) = (table(rows, true), table(rows + 7, false).slice(7, rows));
        let mask = BooleanArray::from_iter((0..rows).map(|i| Some(i % 3 == 1)));
        let words: Vec<u32> = (0..rows.div_ceil(32))
            .map(|word| {
                let ones = (0..32).filter(|bit| (word * 32 + bit) % 3 == 1);
                ones.fold(0, |bits, bit| bits | 1 << bit)
            })
            .collect();
        let expected: Vec<ArrayRef> = yes
            .columns()
            .iter()
            .zip(no.columns())
            .map(|(yes, no)| zip(&mask, yes, no).expect("a choice"))
            .collect();
        let (yes, no) = (upload(&yes), upload(&no));
        for device in &devices {
            let result = copy_if_else(device, &numbers(&words), &yes, &no).expect("rows");
            assert_eq!(columns_of(&result), expected);
        }
    }
    let (one, two) = (upload(&table(1, false)), upload(&table(2, false)));
    assert!(copy_if_else(device(), &numbers(&[0]), &one, &two).is_err());
}

#[test]
fn rows_reversed_and_shifted() {
    for nulls in [false, true] {
        for rows in [0, 1, 32, 33, 500] {
            let host = table(rows, nulls);
            let batch = upload(&host);
            let map = UInt32Array::from_iter_values((0..rows as u32).rev());
            let expected = take_record_batch(&host, &map).expect("rows");
            let result = reverse(device(), &batch).expect("rows");
            assert_eq!(columns_of(&result), expected.columns());
            let far = rows as i64;
            for by in [0, 1, -1, 31, -40, far, -far, far + 9, i64::MAX, i64::MIN] {
                let bounded = by.clamp(-far, far);
                let expected: Vec<ArrayRef> = host
                    .columns()
                    .iter()
                    .map(|column| window::shift(column, bounded).expect("a shift"))
                    .collect();
                let result = shift(device(), &batch, by).expect("rows");
                assert_eq!(columns_of(&result), expected, "{rows} rows by {by}");
            }
        }
    }
}
