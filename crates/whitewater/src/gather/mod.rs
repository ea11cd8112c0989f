//! Rows put together anew: gathered by number, scattered, sliced, concatenated. Columns of every type.

mod concat;
mod rearrange;

use arrow::datatypes::DataType;
use whitewater_gpu::{Buffer, Device, Shader};

pub use concat::concat;
pub use rearrange::{copy_if_else, gather_checked, gather_or_null, reverse, scatter, shift};
pub(crate) use rearrange::{nulls, numbers};

use crate::{
    Batch, Error, Storage,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    ragged::has_long_offsets,
    scan::{exclusive_sums, exclusive_sums_u64},
    select::{Rows, copy_rows},
};

/// The rows of `batch` at the `rows` row numbers (u32) in `map`, which are in range.
///
/// Moves 4 bytes a row and the columns' bytes of the rows, once each. Waits for the sizes of strings. Extra device
/// memory: 4 bytes a row for a column of strings at a time.
pub fn gather(device: &Device, batch: &Batch, map: &Buffer, rows: usize) -> Result<Batch, Error> {
    copy_rows(device, batch, Rows::At(map), rows)
}

/// At most `rows` rows of `batch` from row `first`, as a copy; all rows are the batch itself.
///
/// Moves the columns' bytes of the rows, once each. Waits for the sizes of strings.
pub fn slice(device: &Device, batch: &Batch, first: usize, rows: usize) -> Result<Batch, Error> {
    let first = first.min(batch.rows);
    let rows = rows.min(batch.rows - first);
    if rows == batch.rows {
        return Ok(batch.clone());
    }
    copy_rows(device, batch, Rows::From(first), rows)
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    words: u32,
}

/// The ragged values at the `rows` row numbers in `map`. Waits for their total length, since the size of the
/// result follows from it.
///
/// Errors: [`Error::Unsupported`] where 32-bit offsets do not reach the end of the result.
pub(crate) fn gather_bytes(
    device: &Device,
    data_type: &DataType,
    source: &Storage,
    map: &Buffer,
    rows: usize,
) -> Result<Storage, Error> {
    let Storage::Bytes {
        offsets,
        bytes,
        longest,
    } = source
    else {
        return Err(Error::unsupported(format!(
            "gathering bytes of {data_type}"
        )));
    };
    let large = has_long_offsets(data_type);
    let shader = Shader::new(&LIBRARY, "package::gather::bytes")
        .alias("Offset", if large { "u64" } else { "u32" });
    let lengths = device.alloc((rows as u64 + 1) * if large { 8 } else { 4 })?;
    let total = device.alloc_filled(8, 0)?;
    let launch = |entry: &str, words: u32, items: u64, out: [&Buffer; 2]| -> Result<(), Error> {
        device
            .kernel(&shader, entry)?
            .launch()
            .bind(0, 1, map)
            .bind(0, 2, offsets)
            .bind(0, 3, bytes)
            .bind(0, 4, &lengths)
            .bind(0, 5, out[0])
            .bind(0, 6, out[1])
            .bind(0, 7, &total)
            .params(&Params {
                rows: rows as u32,
                words,
            })
            .run(grid(device, items, WORKGROUP.into()))?;
        Ok(())
    };
    launch("measure", 0, rows as u64 + 1, [offsets, &lengths])?;
    let out_offsets = match large {
        true => exclusive_sums_u64(device, &lengths, rows + 1)?,
        false => exclusive_sums(device, &lengths, rows + 1)?,
    };
    let total = total.download_as::<u64>()?[0];
    if !large && total > i32::MAX as u64 {
        return Err(Error::unsupported(format!(
            "{total} bytes in one {data_type} column"
        )));
    }
    let out_bytes = device.alloc(total)?;
    let words = total.div_ceil(4);
    launch("copy", words as u32, words, [&out_offsets, &out_bytes])?;
    Ok(Storage::Bytes {
        offsets: out_offsets,
        bytes: out_bytes,
        longest: *longest,
    })
}
