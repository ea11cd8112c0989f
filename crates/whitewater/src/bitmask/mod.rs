//! Validity bitmaps and boolean columns: and, or, not, count, to and from one word a row.
//!
//! A mask of `bits` rows is `ceil(bits / 32)` u32 words; bits past the last row are undefined and
//! never counted. Each operation moves its words once.

use whitewater_gpu::{Buffer, Device, Kernel, Shader};

use crate::{
    Error,
    column::bit_words_bytes,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    words: u32,
    bits: u32,
}

impl Params {
    fn new(bits: usize) -> Self {
        Self {
            words: bits.div_ceil(32) as u32,
            bits: bits as u32,
        }
    }
}

fn kernel(device: &Device, entry: &str) -> Result<Kernel, Error> {
    Ok(device.kernel(&Shader::new(&LIBRARY, "package::bitmask::bitmask"), entry)?)
}

fn binary(entry: &str, left: &Buffer, right: &Buffer, bits: usize) -> Result<Buffer, Error> {
    let device = left.device();
    let result = device.alloc(bit_words_bytes(bits))?;
    // `a op a` binds one buffer twice, which is fine: both are only read.
    kernel(device, entry)?
        .launch()
        .bind(0, 1, left)
        .bind(0, 2, right)
        .bind(0, 3, &result)
        .params(&Params::new(bits))
        .moves(3 * bit_words_bytes(bits))
        .run(grid(device, bits.div_ceil(32) as u64, WORKGROUP.into()))?;
    Ok(result)
}

fn unary(entry: &str, mask: &Buffer, bits: usize, bytes: u64, items: u64) -> Result<Buffer, Error> {
    let device = mask.device();
    let result = device.alloc(bytes)?;
    kernel(device, entry)?
        .launch()
        .bind(0, 1, mask)
        .bind(0, 3, &result)
        .params(&Params::new(bits))
        .moves(mask.len() + bytes)
        .run(grid(device, items, WORKGROUP.into()))?;
    Ok(result)
}

/// Bits set in both masks: the validity of an operation that is null if either operand is.
pub fn and(left: &Buffer, right: &Buffer, bits: usize) -> Result<Buffer, Error> {
    binary("mask_and", left, right, bits)
}

/// Bits set in either mask.
pub fn or(left: &Buffer, right: &Buffer, bits: usize) -> Result<Buffer, Error> {
    binary("mask_or", left, right, bits)
}

/// Bits that are not set.
pub fn not(mask: &Buffer, bits: usize) -> Result<Buffer, Error> {
    unary(
        "mask_not",
        mask,
        bits,
        bit_words_bytes(bits),
        bits.div_ceil(32) as u64,
    )
}

/// The number of set bits among the first `bits`. Waits for the device.
pub fn count(mask: &Buffer, bits: usize) -> Result<u64, Error> {
    let device = mask.device();
    let total = device.alloc_filled(8, 0)?;
    kernel(device, "count")?
        .launch()
        .bind(0, 1, mask)
        .bind(0, 4, &total)
        .params(&Params::new(bits))
        .moves(mask.len())
        .run(grid(device, bits.div_ceil(32) as u64, WORKGROUP.into()))?;
    Ok(total.download_as::<u64>()?[0])
}

/// One u32 a row, 0 or 1.
pub fn to_booleans(mask: &Buffer, bits: usize) -> Result<Buffer, Error> {
    unary("expand", mask, bits, bits as u64 * 4, bits as u64)
}

/// A mask from one u32 a row: a word that is not 0 is true. Bits past the last row are clear.
pub fn from_booleans(words: &Buffer, bits: usize) -> Result<Buffer, Error> {
    unary(
        "pack",
        words,
        bits,
        bit_words_bytes(bits),
        bits.div_ceil(32) as u64,
    )
}
