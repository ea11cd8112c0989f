//! Rows in other places: by numbers that may be out of range, scattered, chosen, reversed, shifted. A small kernel
//! makes the map that says which row each output is, and a gather does the rest, for columns of every type.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use whitewater_gpu::{Buffer, Device, Shader};

use super::{concat, gather, slice};
use crate::{
    Batch, Column, Error, Storage, bitmask,
    column::bit_words_bytes,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    ragged::{has_long_offsets, is_ragged},
};

#[repr(C)]
#[derive(Clone, Copy, Default, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    source_rows: u32,
    first: u32,
    step: u32,
}

/// Launches `entry` of `maps.wesl` over `rows` rows.
fn launch(
    device: &Device,
    entry: &str,
    params: Params,
    [numbers, map, mask]: [&Buffer; 3],
) -> Result<(), Error> {
    let shader = Shader::new(&LIBRARY, "package::gather::maps").constant("SIZE", "u32", WORKGROUP);
    if params.rows > 0 {
        device
            .kernel(&shader, entry)?
            .launch()
            .bind(0, 2, numbers)
            .bind(0, 3, map)
            .bind(0, 4, mask)
            .bind(0, 5, map)
            .params(&params)
            .moves(u64::from(params.rows) * 8)
            .run(grid(device, params.rows.into(), WORKGROUP.into()))?;
    }
    Ok(())
}

/// The `rows` numbers (u32) `first`, `first + step`, …, which wrap.
fn linear(device: &Device, first: u32, step: u32, rows: usize) -> Result<Buffer, Error> {
    let map = device.alloc(rows as u64 * 4)?;
    let params = Params {
        rows: rows as u32,
        first,
        step,
        ..Params::default()
    };
    launch(device, "linear", params, [&map; 3])?;
    Ok(map)
}

/// The `rows` numbers (u32) from `first`.
pub(crate) fn numbers(device: &Device, first: usize, rows: usize) -> Result<Buffer, Error> {
    linear(device, first as u32, 1, rows)
}

/// The numbers in `map`, those out of range as the last row, and a bit a number for being in range.
fn clamp(
    device: &Device,
    source_rows: usize,
    map: &Buffer,
    rows: usize,
) -> Result<(Buffer, Buffer), Error> {
    let clamped = device.alloc(rows as u64 * 4)?;
    let mask = device.alloc(bit_words_bytes(rows))?;
    let params = Params {
        rows: rows as u32,
        source_rows: source_rows as u32,
        ..Params::default()
    };
    launch(device, "clamp_rows", params, [map, &clamped, &mask])?;
    Ok((clamped, mask))
}

/// As [`gather`] for any row numbers: those out of range give rows of nulls.
///
/// Extra device memory: 4 bytes a row of the result, and a bit, 2 for columns with nulls.
pub fn gather_or_null(
    device: &Device,
    batch: &Batch,
    map: &Buffer,
    rows: usize,
) -> Result<Batch, Error> {
    let nullable = batch.schema.fields().iter().map(|field| {
        let field: &Field = field;
        field.clone().with_nullable(true)
    });
    let schema = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
    if rows == 0 {
        return gather(device, batch, map, 0);
    }
    if batch.rows == 0 {
        return nulls(device, &schema, rows);
    }
    let (clamped, inside) = clamp(device, batch.rows, map, rows)?;
    let mut gathered = gather(device, batch, &clamped, rows)?;
    for column in &mut gathered.columns {
        column.validity = Some(match &column.validity {
            Some(validity) => bitmask::and(validity, &inside, rows)?,
            None => inside.clone(),
        });
    }
    gathered.schema = schema;
    Ok(gathered)
}

/// `rows` rows of nulls.
pub(crate) fn nulls(device: &Device, schema: &SchemaRef, rows: usize) -> Result<Batch, Error> {
    let mut columns = Vec::new();
    for field in schema.fields() {
        let data_type = field.data_type();
        let words = |bytes: u64| device.alloc_filled(bytes, 0);
        let data = match data_type {
            DataType::Null => Storage::None,
            DataType::Boolean => Storage::Bits(words(bit_words_bytes(rows))?),
            _ if is_ragged(data_type) => Storage::Bytes {
                offsets: words(
                    (rows as u64 + 1) * if has_long_offsets(data_type) { 8 } else { 4 },
                )?,
                bytes: device.alloc(0)?,
                longest: 0,
            },
            other => {
                let width = other
                    .primitive_width()
                    .ok_or_else(|| Error::unsupported(format!("a column of type {other}")))?;
                Storage::Fixed(words((rows * width) as u64)?)
            }
        };
        columns.push(Column {
            data_type: data_type.clone(),
            len: rows,
            validity: match data_type {
                DataType::Null => None,
                _ => Some(words(bit_words_bytes(rows))?),
            },
            data,
        });
    }
    Ok(Batch {
        schema: schema.clone(),
        columns,
        rows,
    })
}

/// As [`gather`] for row numbers that nobody has checked: [`Error::OutOfRange`] if one is. Waits for that.
pub fn gather_checked(
    device: &Device,
    batch: &Batch,
    map: &Buffer,
    rows: usize,
) -> Result<Batch, Error> {
    check(device, batch.rows, map, rows)?;
    gather(device, batch, map, rows)
}

fn check(device: &Device, source_rows: usize, map: &Buffer, rows: usize) -> Result<(), Error> {
    let out = |outside| Error::OutOfRange {
        outside,
        rows: source_rows,
    };
    if rows == 0 {
        return Ok(());
    }
    if source_rows == 0 {
        return Err(out(rows));
    }
    let (_, inside) = clamp(device, source_rows, map, rows)?;
    match rows - bitmask::count(&inside, rows)? as usize {
        0 => Ok(()),
        outside => Err(out(outside)),
    }
}

/// `target` with row `map[i]` replaced by row `i` of `source`, for each of its rows; of several, by the last.
///
/// Both have one schema; `map` has a row number (u32) for each row of `source`. Moves the rows of both twice.
/// Extra device memory: a copy of both, and 4 bytes a row of `target`.
/// Errors: [`Error::OutOfRange`] for a number that is no row of `target`.
pub fn scatter(
    device: &Device,
    source: &Batch,
    map: &Buffer,
    target: &Batch,
) -> Result<Batch, Error> {
    check(device, target.rows, map, source.rows)?;
    if source.rows == 0 {
        return Ok(target.clone());
    }
    let picked = device.alloc_filled(target.rows as u64 * 4, 0)?;
    let params = Params {
        rows: source.rows as u32,
        source_rows: target.rows as u32,
        ..Params::default()
    };
    launch(device, "invert", params, [map, &picked, &picked])?;
    let params = Params {
        rows: target.rows as u32,
        ..params
    };
    launch(device, "overlay", params, [map, &picked, &picked])?;
    let both = concat(device, &[target.clone(), source.clone()])?;
    gather(device, &both, &picked, target.rows)
}

/// Row `i` of `yes` where bit `i` of `mask` is set, else row `i` of `no`; all of one length and schema.
///
/// A mask of booleans that may be null is first made one of those that are true, by
/// [`bitmask::and`]. Moves the rows of both twice. Extra device memory: a copy of both, and 4 bytes a row.
/// Errors: [`Error::OutOfRange`] for batches of different lengths.
pub fn copy_if_else(
    device: &Device,
    mask: &Buffer,
    yes: &Batch,
    no: &Batch,
) -> Result<Batch, Error> {
    if yes.rows != no.rows {
        return Err(Error::OutOfRange {
            outside: yes.rows.abs_diff(no.rows),
            rows: yes.rows.min(no.rows),
        });
    }
    let map = device.alloc(yes.rows as u64 * 4)?;
    let params = Params {
        rows: yes.rows as u32,
        ..Params::default()
    };
    launch(device, "choose", params, [mask, &map, mask])?;
    let both = concat(device, &[yes.clone(), no.clone()])?;
    gather(device, &both, &map, yes.rows)
}

/// The rows of `batch`, last first. Extra device memory: 4 bytes a row.
pub fn reverse(device: &Device, batch: &Batch) -> Result<Batch, Error> {
    let last = (batch.rows as u32).wrapping_sub(1);
    let map = linear(device, last, u32::MAX, batch.rows)?;
    gather(device, batch, &map, batch.rows)
}

/// Row `i` becomes row `i + by`; rows that none becomes are null, and those past an end are gone.
///
/// Extra device memory: 8 bytes and a bit a row.
pub fn shift(device: &Device, batch: &Batch, by: i64) -> Result<Batch, Error> {
    if by == 0 {
        return slice(device, batch, 0, batch.rows);
    }
    // Farther than all rows is as far as all rows; below zero wraps to what is out of range.
    let most = batch.rows as i64;
    let first = -by.clamp(-most, most);
    let map = linear(device, first as u32, 1, batch.rows)?;
    gather_or_null(device, batch, &map, batch.rows)
}
