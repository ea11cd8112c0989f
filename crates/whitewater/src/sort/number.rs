//! Rows in the order of a number that each has: of its slot, or of its group.

use whitewater_gpu::{Buffer, Device, Shader};

use super::radix::{DIGIT_BITS, Sorted, Values, Words, sort_words};
use crate::{
    Error,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
};

/// The `rows` numbers (u32, up to `most`) of `numbers` in order, and the rows that have them; rows of one number keep
/// their order. `numbers` are used up.
///
/// Moves 4 bytes a row, and 16 more for every 8 bits of `most`. Extra device memory: 12 bytes a row.
pub(crate) fn order_by_number(
    device: &Device,
    numbers: Buffer,
    rows: usize,
    most: u32,
) -> Result<Sorted, Error> {
    let bits = (u32::BITS - most.leading_zeros()).max(1);
    let passes = bits.div_ceil(DIGIT_BITS);
    let bins = device.alloc_filled(u64::from(passes << DIGIT_BITS) * 4, 0)?;
    let shader = Shader::new(&LIBRARY, "package::sort::number")
        .constant("SIZE", "u32", WORKGROUP)
        .constant("PASSES", "u32", passes);
    device
        .kernel(&shader, "count_numbers")?
        .launch()
        .bind(0, 3, &numbers)
        .bind(0, 5, &bins)
        .params(&[rows as u32])
        .moves(rows as u64 * 4)
        .run(grid(device, rows as u64, u64::from(WORKGROUP) * 8))?;
    let words = Words {
        keys: numbers,
        bits,
        wide: false,
        bins,
    };
    sort_words(device, words, 0, Values::Numbers, rows)
}
