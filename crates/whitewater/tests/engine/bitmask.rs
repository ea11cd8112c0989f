//! Bitmask kernels against arrow's own.

use crate::device;
use arrow::array::{Array, ArrayRef};
use arrow::{array::BooleanArray, compute::kernels::boolean};
use std::sync::Arc;
use whitewater::gpu::Buffer;
use whitewater::{Column, Storage, bitmask};

const SIZES: [usize; 9] = [1, 31, 32, 33, 63, 64, 255, 257, 20_000];

fn mask(bits: usize, seed: u64) -> BooleanArray {
    let mut state = seed;
    (0..bits)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            Some(state >> 63 == 1)
        })
        .collect()
}

fn upload(array: &BooleanArray) -> Buffer {
    let array: ArrayRef = Arc::new(array.clone());
    match Column::upload(device(), &array).expect("upload").data {
        Storage::Bits(words) => words,
        other => panic!("{other:?}"),
    }
}

fn download(words: Buffer, len: usize) -> BooleanArray {
    let column = Column {
        data_type: arrow::datatypes::DataType::Boolean,
        len,
        validity: None,
        data: Storage::Bits(words),
    };
    BooleanArray::from(column.download().expect("download").to_data())
}

#[test]
fn masks_combine_as_arrow_does() {
    for bits in SIZES {
        let (a, b) = (mask(bits, 1), mask(bits, 2));
        let (x, y) = (upload(&a), upload(&b));
        let and = bitmask::and(&x, &y, bits).expect("and");
        assert_eq!(
            download(and, bits),
            boolean::and(&a, &b).expect("and"),
            "{bits}"
        );
        let or = bitmask::or(&x, &y, bits).expect("or");
        assert_eq!(
            download(or, bits),
            boolean::or(&a, &b).expect("or"),
            "{bits}"
        );
        let not = bitmask::not(&x, bits).expect("not");
        assert_eq!(
            bitmask::count(&not, bits).expect("count"),
            (bits - a.true_count()) as u64
        );
        assert_eq!(
            download(not, bits),
            boolean::not(&a).expect("not"),
            "{bits}"
        );
        assert_eq!(
            bitmask::and(&x, &x, bits)
                .map(|m| download(m, bits))
                .expect("and"),
            a
        );
    }
}

#[test]
fn counts_and_expansions() {
    for bits in SIZES {
        let a = mask(bits, 3);
        let words = upload(&a);
        assert_eq!(
            bitmask::count(&words, bits).expect("count"),
            a.true_count() as u64,
            "{bits}"
        );
        let expanded = bitmask::to_booleans(&words, bits).expect("expand");
        let host: Vec<bool> = expanded
            .download_as::<u32>()
            .expect("download")
            .iter()
            .map(|w| *w != 0)
            .collect();
        assert_eq!(host, a.values().iter().collect::<Vec<bool>>(), "{bits}");
        let packed = bitmask::from_booleans(&expanded, bits).expect("pack");
        assert_eq!(download(packed, bits), a, "{bits}");
    }
    assert_eq!(
        bitmask::count(&device().alloc(0).expect("alloc"), 0).expect("count"),
        0
    );
}
