//! Batches of one schema behind each other.

use arrow::datatypes::DataType;
use whitewater_gpu::{Buffer, Device, Shader};

use crate::{
    Batch, Column, Error, Storage,
    column::{MAX_ROWS, bit_words_bytes},
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    ragged::has_long_offsets,
    select::wide_decimals,
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    words: u32,
    bit: u32,
    word: u32,
    last_bits: u32,
    base_low: u32,
    base_high: u32,
}

/// The rows of `batches`, which have one schema, behind each other; a single batch is itself.
///
/// Moves every byte once. Errors: [`Error::Unsupported`] without a batch, for more rows than row numbers reach,
/// and where 32-bit offsets of strings do not reach the end.
pub fn concat(device: &Device, batches: &[Batch]) -> Result<Batch, Error> {
    let Some(first) = batches.first() else {
        return Err(Error::unsupported("a concatenation of nothing"));
    };
    // Empty batches say nothing of how the others store their decimals.
    let filled: Vec<Batch> = batches.iter().filter(|b| b.rows > 0).cloned().collect();
    if let [] | [_] = filled.as_slice() {
        return Ok(filled.first().unwrap_or(first).clone());
    }
    let rows: usize = filled.iter().map(|batch| batch.rows).sum();
    if rows > MAX_ROWS {
        return Err(Error::unsupported(format!("a batch of {rows} rows")));
    }
    let columns = (0..first.columns.len())
        .map(|index| {
            let parts = same_storage(device, &filled, index)?;
            join(device, &parts, rows)
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(Batch {
        schema: first.schema.clone(),
        columns,
        rows,
    })
}

/// Column `index` of every batch; decimals of 64 bits are widened where others have 128.
fn same_storage(device: &Device, batches: &[Batch], index: usize) -> Result<Vec<Column>, Error> {
    let column = |batch: &Batch| batch.columns[index].clone();
    let narrow = |batch: &Batch| matches!(batch.columns[index].data, Storage::Narrow { .. });
    if batches.iter().all(narrow) || !batches.iter().any(narrow) {
        return Ok(batches.iter().map(column).collect());
    }
    batches
        .iter()
        .map(|batch| match narrow(batch) {
            true => wide_decimals(device, batch, index),
            false => Ok(column(batch)),
        })
        .collect()
}

/// A buffer that parts are appended to, bit by bit.
struct Joined<'a> {
    device: &'a Device,
    buffer: Buffer,
    bits: u64,
}

impl<'a> Joined<'a> {
    fn new(device: &'a Device, bytes: u64) -> Result<Self, Error> {
        Ok(Self {
            device,
            buffer: device.alloc(bytes)?,
            bits: 0,
        })
    }

    /// Appends the first `bits` bits of `part`, or as many set bits.
    fn append(&mut self, part: Option<&Buffer>, bits: u64) -> Result<(), Error> {
        if bits == 0 {
            return Ok(());
        }
        let shader = Shader::new(&LIBRARY, "package::gather::concat")
            .alias("Offset", "u32")
            .feature("ONES", part.is_none());
        let words = bits.div_ceil(32);
        let kernel = self.device.kernel(&shader, "copy_bits")?;
        kernel
            .launch()
            .bind(0, 2, part.unwrap_or(&self.buffer))
            .bind(0, 3, &self.buffer)
            .params(&Params {
                words: words as u32,
                bit: (self.bits % 32) as u32,
                word: (self.bits / 32) as u32,
                last_bits: ((bits - 1) % 32 + 1) as u32,
                base_low: 0,
                base_high: 0,
            })
            .moves(words * 8)
            .run(grid(self.device, words + 1, WORKGROUP.into()))?;
        self.bits += bits;
        Ok(())
    }
}

/// Columns of one type and storage, behind each other.
fn join(device: &Device, parts: &[Column], rows: usize) -> Result<Column, Error> {
    let data_type = parts[0].data_type.clone();
    let validity = match parts.iter().any(|part| part.validity.is_some()) {
        true => {
            let mut joined = Joined::new(device, bit_words_bytes(rows))?;
            for part in parts {
                joined.append(part.validity.as_ref(), part.len as u64)?;
            }
            Some(joined.buffer)
        }
        false => None,
    };
    // Bits of a value in the parts' buffers.
    let joined = |width: u64| -> Result<Buffer, Error> {
        let mut joined = Joined::new(device, (rows as u64 * width).div_ceil(8))?;
        for part in parts {
            let data = match &part.data {
                Storage::Fixed(data)
                | Storage::Bits(data)
                | Storage::Narrow { values: data, .. } => data,
                _ => return Err(Error::unsupported(format!("a mixture of {data_type}"))),
            };
            joined.append(Some(data), part.len as u64 * width)?;
        }
        Ok(joined.buffer)
    };
    let data = match &parts[0].data {
        Storage::None => Storage::None,
        Storage::Bits(_) => Storage::Bits(joined(1)?),
        Storage::Narrow { .. } => {
            let bits = parts.iter().map(|part| match part.data {
                Storage::Narrow { bits, .. } => bits,
                _ => 64,
            });
            Storage::Narrow {
                bits: bits.max().unwrap_or(64),
                values: joined(64)?,
            }
        }
        Storage::Fixed(_) => {
            let width = data_type.primitive_width().unwrap_or(0) as u64 * 8;
            Storage::Fixed(joined(width)?)
        }
        Storage::Bytes { .. } => join_bytes(device, &data_type, parts, rows)?,
    };
    Ok(Column {
        data_type,
        len: rows,
        validity,
        data,
    })
}

fn join_bytes(
    device: &Device,
    data_type: &DataType,
    parts: &[Column],
    rows: usize,
) -> Result<Storage, Error> {
    let mut pieces = Vec::new();
    for part in parts {
        let Storage::Bytes {
            offsets,
            bytes,
            longest,
        } = &part.data
        else {
            return Err(Error::unsupported(format!("a mixture of {data_type}")));
        };
        pieces.push((part.len, offsets, bytes, *longest));
    }
    let large = has_long_offsets(data_type);
    let total: u64 = pieces.iter().map(|(_, _, bytes, _)| bytes.len()).sum();
    if !large && total > i32::MAX as u64 {
        return Err(Error::unsupported(format!(
            "{total} bytes in one {data_type} column"
        )));
    }
    let mut bytes = Joined::new(device, total)?;
    let offsets = device.alloc((rows as u64 + 1) * if large { 8 } else { 4 })?;
    let shader = Shader::new(&LIBRARY, "package::gather::concat")
        .alias("Offset", if large { "u64" } else { "u32" });
    let mut first = 0;
    for (len, part_offsets, part_bytes, _) in &pieces {
        let base = bytes.bits / 8;
        bytes.append(Some(part_bytes), part_bytes.len() * 8)?;
        // The last offset of a part is the first one of the next.
        let kernel = device.kernel(&shader, "shift_offsets")?;
        kernel
            .launch()
            .bind(0, 4, part_offsets)
            .bind(0, 5, &offsets)
            .params(&Params {
                words: *len as u32 + 1,
                bit: 0,
                word: first,
                last_bits: 32,
                base_low: base as u32,
                base_high: (base >> 32) as u32,
            })
            .moves(2 * part_offsets.len())
            .run(grid(device, *len as u64 + 1, WORKGROUP.into()))?;
        first += *len as u32;
    }
    Ok(Storage::Bytes {
        offsets,
        bytes: bytes.buffer,
        longest: pieces.iter().map(|piece| piece.3).max().unwrap_or(0),
    })
}
