//! Scans: the running sum, minimum or maximum of a column, or of each segment of it.
//!
//! ```text
//! values    3  1  null  4  |  2  2          | = the head of a segment
//! inclusive 3  4  null  8  |  2  4
//! exclusive 0  3  null  4  |  0  2
//! ```
//!
//! Where a workgroup's progress is sure, one pass over memory (decoupled look-back: Merrill and Garland,
//! 2016); else, and for sums of floats, whose order must not depend on time, a reduction of tiles first.

use arrow::datatypes::DataType;
use whitewater_gpu::{Buffer, Device, Shader};

use crate::{Column, Error, Storage, kernels::LIBRARY, params::grid};

/// What a scan keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// The sum; integers wrap.
    Sum,
    /// The least value; floats in IEEE 754's total order.
    Min,
    /// The greatest value; floats in IEEE 754's total order.
    Max,
}

/// Whether a row's total covers the row itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Inclusive,
    /// The first row's total is 0, or of a minimum the greatest value of the type, of a maximum the least.
    Exclusive,
}

/// Rows of an invocation; a divisor of 32.
const ITEMS: u32 = 16;
/// Invocations of a workgroup, and of a multiprocessor, on hardware; of those tried on an H200 the fastest.
const SIZE: u32 = 256;
const RESIDENT: u32 = 1024;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    tiles: u32,
}

/// The running `total` of `column` (`UInt32`, `UInt64`, `Int64` or `Float64`), a value a row. Null rows add
/// nothing and stay null. With `heads` (a bit a row), totals start anew in every row whose bit is set.
///
/// Moves the column and the result once; sums of floats, and devices without forward progress, read the
/// column twice. Extra device memory: 16 bytes for every 1024 rows or more.
/// Errors: [`Error::Unsupported`] for other types.
pub fn scan(
    device: &Device,
    column: &Column,
    total: Total,
    bound: Bound,
    heads: Option<&Buffer>,
) -> Result<Column, Error> {
    let data_type = &column.data_type;
    let (Some(plan), Storage::Fixed(input)) = (Plan::of(data_type, total), &column.data) else {
        return Err(Error::unsupported(format!("a scan of {data_type}")));
    };
    let output = device.alloc(input.len())?;
    let validity = column.validity.as_ref();
    plan.run(device, bound, [input, &output], validity, heads, column.len)?;
    Ok(Column {
        data_type: data_type.clone(),
        len: column.len,
        validity: column.validity.clone(),
        data: Storage::Fixed(output),
    })
}

/// The exclusive sums of `len` u32 words, which wrap.
pub(crate) fn exclusive_sums(device: &Device, words: &Buffer, len: usize) -> Result<Buffer, Error> {
    sums(device, words, len, &DataType::UInt32, Bound::Exclusive)
}

/// As [`exclusive_sums`], of u64 words.
pub(crate) fn exclusive_sums_u64(
    device: &Device,
    words: &Buffer,
    len: usize,
) -> Result<Buffer, Error> {
    sums(device, words, len, &DataType::UInt64, Bound::Exclusive)
}

/// The inclusive sums of `len` u32 words, which wrap.
pub(crate) fn inclusive_sums(device: &Device, words: &Buffer, len: usize) -> Result<Buffer, Error> {
    sums(device, words, len, &DataType::UInt32, Bound::Inclusive)
}

fn sums(
    device: &Device,
    words: &Buffer,
    len: usize,
    data_type: &DataType,
    bound: Bound,
) -> Result<Buffer, Error> {
    let sums = device.alloc(words.len())?;
    let plan = Plan::of(data_type, Total::Sum)
        .ok_or_else(|| Error::unsupported(format!("sums of {data_type}")))?;
    plan.run(device, bound, [words, &sums], None, None, len)?;
    Ok(sums)
}

/// A scan of one type.
struct Plan {
    /// The type in which totals are kept.
    running: &'static str,
    wide: bool,
    /// Its identity, as WGSL.
    identity: String,
    total: Total,
    /// Whether values are floats that are mapped to integers in their total order, and back.
    ordered: bool,
}

impl Plan {
    fn of(data_type: &DataType, total: Total) -> Option<Self> {
        let ordered = *data_type == DataType::Float64 && total != Total::Sum;
        let running = match data_type {
            DataType::UInt32 => "u32",
            DataType::UInt64 => "u64",
            DataType::Int64 => "i64",
            DataType::Float64 if ordered => "i64",
            DataType::Float64 => "f64",
            _ => return None,
        };
        let identity = match (total, running) {
            (Total::Sum, "f64") => "0.0lf".into(),
            (Total::Min, "u32") => format!("{}u", u32::MAX),
            (Total::Min, "u64") => format!("{}lu", u64::MAX),
            (Total::Min, _) => format!("{}li", i64::MAX),
            (_, "u32") => "0u".into(),
            (_, "u64") => "0lu".into(),
            _ => "0li".into(),
        };
        Some(Self {
            running,
            wide: running != "u32",
            identity,
            total,
            ordered,
        })
    }

    fn run(
        &self,
        device: &Device,
        bound: Bound,
        [input, output]: [&Buffer; 2],
        validity: Option<&Buffer>,
        heads: Option<&Buffer>,
        rows: usize,
    ) -> Result<(), Error> {
        let info = device.info();
        let size = if info.software { 64 } else { SIZE };
        let params = Params {
            rows: rows as u32,
            tiles: (rows as u32).div_ceil(size * ITEMS),
        };
        let tiles = u64::from(params.tiles);
        let look_back = device.has_forward_progress() && self.running != "f64";
        let width = if self.wide { 8 } else { 4 };
        let progress = match look_back {
            true => device.alloc_filled(tiles * 2 * width, 0)?,
            false => device.alloc(tiles * width)?,
        };
        let tile_heads = match heads {
            Some(_) if !look_back => device.alloc(tiles * 4)?,
            _ => progress.clone(),
        };
        let shader = Shader::new(&LIBRARY, "package::scan::scan")
            .alias("Running", self.running)
            .constant("IDENTITY", self.running, &self.identity)
            .constant("SIZE", "u32", size)
            .constant("ITEMS", "u32", ITEMS)
            .resident(RESIDENT)
            .feature("WIDE", self.wide)
            .feature("MIN", self.total == Total::Min)
            .feature("MAX", self.total == Total::Max)
            .feature(
                "FROM_LEAST",
                self.total == Total::Max && self.running == "i64",
            )
            .feature("ORDERED", self.ordered)
            .feature("INCLUSIVE", bound == Bound::Inclusive)
            .feature("NULLS", validity.is_some())
            .feature("SEGMENTED", heads.is_some())
            .feature("LOOKBACK", look_back);
        let some = grid(device, tiles, 1);
        let steps: &[(&str, u32, u64)] = match look_back {
            true => &[("write", params.tiles, 2)],
            false => &[("reduce", some, 1), ("tiles", 1, 0), ("write", some, 2)],
        };
        for (entry, workgroups, passes) in steps {
            if rows == 0 {
                break;
            }
            let kernel = device.kernel(&shader, entry)?;
            kernel
                .launch()
                .bind(0, 2, input)
                .bind(0, 3, output)
                .bind(0, 4, &progress)
                .bind(0, 5, &progress)
                .bind(0, 6, &tile_heads)
                .bind(0, 7, validity.unwrap_or(input))
                .bind(0, 8, heads.unwrap_or(input))
                .params(&params)
                .moves(passes * input.len())
                .run(*workgroups)?;
        }
        Ok(())
    }
}
