//! Choosing and computing rows: filter and projection in fused kernels, gathering of ragged values.

mod filter;
pub(crate) mod output;

use arrow::datatypes::DataType;
use whitewater_gpu::{Buffer, Device, Shader};

pub(crate) use filter::map_of_mask;
pub use filter::{check, filter_project, gather};

use crate::{
    Error, Storage,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    words: u32,
}

/// The ragged values at the `rows` row numbers in `map`. Waits for the lengths, since the size of the
/// result follows from them.
pub(crate) fn gather_bytes(
    device: &Device,
    data_type: &DataType,
    source: &Storage,
    map: &Buffer,
    rows: usize,
) -> Result<Storage, Error> {
    let Storage::Bytes { offsets, bytes, .. } = source else {
        return Err(Error::unsupported(format!(
            "gathering bytes of {data_type}"
        )));
    };
    let large = matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary);
    let shader = Shader::new(&LIBRARY, "package::select::gather_bytes")
        .alias("Offset", if large { "u64" } else { "u32" });
    let lengths = device.alloc(rows as u64 * 4)?;
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
            .params(&Params {
                rows: rows as u32,
                words,
            })
            .run(grid(device, items, WORKGROUP.into()))?;
        Ok(())
    };
    launch("measure", 0, rows as u64, [offsets, &lengths])?;
    let lengths_host = lengths.download_as::<u32>()?;
    let longest = lengths_host.iter().copied().max().unwrap_or(0);
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0u64);
    let mut total = 0u64;
    for length in lengths_host {
        total += u64::from(length);
        ends.push(total);
    }
    let out_offsets = if large {
        device.upload(bytemuck::cast_slice(&ends))?
    } else if total <= i32::MAX as u64 {
        let ends: Vec<u32> = ends.iter().map(|end| *end as u32).collect();
        device.upload(bytemuck::cast_slice(&ends))?
    } else {
        return Err(Error::unsupported(format!(
            "{total} bytes in one {data_type} column"
        )));
    };
    let out_bytes = device.alloc(total)?;
    let words = total.div_ceil(4);
    launch("copy", words as u32, words, [&out_offsets, &out_bytes])?;
    Ok(Storage::Bytes {
        offsets: out_offsets,
        bytes: out_bytes,
        longest: longest.into(),
    })
}
