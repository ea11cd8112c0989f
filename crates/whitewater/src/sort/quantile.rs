//! Values by their rank, by selection instead of a sort: medians and quantiles.
//!
//! ```text
//! all values ──span──▶ a range ──spread──▶ how many each part of it holds ──▶ the part with the rank: a range again,
//!                                                                              until it holds few
//! all values ──collect──▶ those of the range ──▶ sorted
//! ```
//!
//! Radix selection (Alabi, Blanchard, Gordon and Steinbach, "Fast k-selection algorithms for graphics processing
//! units", 2012), by equal parts of the range that values have instead of by the digits of their type.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, new_empty_array},
    compute::{cast, concat},
    datatypes::{DataType, Field, Float64Type, Schema},
};
use whitewater_gpu::{Buffer, Device};

use super::{Bound, Sort, SortKey, keys, sort};
use crate::{
    Batch, Column, Error, Storage, aggregate::StateColumn, expr::Expr, params::grid,
    pipeline::describe,
};

/// Parts of a range that are told apart at a time: their counts fit any workgroup's memory.
const BINS: u32 = 2048;

/// What a quantile is that lies between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// On the line between them.
    Linear,
    Lower,
    Higher,
    /// The nearer one; of equally near ones that with the even rank.
    Nearest,
    /// Their mean.
    Midpoint,
}

/// The `quantiles` (each from 0 to 1) of the values of `expr` over `batch`, nulls aside, as f64; nulls if there is
/// no value. Floats order by IEEE 754's total order.
///
/// Costs and errors are those of [`values_at`]; also [`Error::Unsupported`] for a quantile outside of 0 to 1.
pub fn quantiles(
    device: &Device,
    batch: &Batch,
    expr: &Expr,
    quantiles: &[f64],
    interpolation: Interpolation,
) -> Result<ArrayRef, Error> {
    if let Some(outside) = quantiles.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        return Err(Error::unsupported(format!("the quantile {outside}")));
    }
    let mut places = Vec::new();
    let values = values_at(device, batch, expr, |count| {
        if let Some(last) = count.checked_sub(1) {
            places = quantiles.iter().map(|q| q * last as f64).collect();
        }
        places
            .iter()
            .flat_map(|place| [place.floor() as usize, place.ceil() as usize])
            .collect()
    })?;
    let values = cast(&values, &DataType::Float64)?;
    let values = values.as_primitive::<Float64Type>().values();
    let between = places.iter().zip(values.chunks_exact(2));
    let found = between.map(|(place, ends)| {
        let (low, high, share) = (ends[0], ends[1], place.fract());
        match interpolation {
            _ if share == 0.0 => low,
            Interpolation::Linear => low + (high - low) * share,
            Interpolation::Lower => low,
            Interpolation::Higher => high,
            Interpolation::Nearest if place.round_ties_even() > *place => high,
            Interpolation::Nearest => low,
            Interpolation::Midpoint => low + (high - low) / 2.0,
        }
    });
    let found: Vec<Option<f64>> = found.map(Some).collect();
    Ok(match found.is_empty() {
        true => Arc::new(Float64Array::new_null(quantiles.len())),
        false => Arc::new(Float64Array::from(found)),
    })
}

/// The values of `expr` over `batch` that stand at certain ranks (from 0) in ascending order, nulls aside. `ranks` is
/// told how many values there are, and gives ranks below that; the answer is in its order.
///
/// Reads the columns of `expr` once for their range, once more for every factor of 2048 between the range and the
/// values around a rank, and once to take these. Extra device memory: 16 KiB, and 48 bytes for each of at most 65536
/// values around a rank, or a 64th of all.
/// Errors: [`Error::Unsupported`] for what is not a number, a date or a boolean of at most 64 bits, and for a rank
/// that no value has; [`Error::Arithmetic`] for what a row's expression raises.
pub fn values_at(
    device: &Device,
    batch: &Batch,
    expr: &Expr,
    ranks: impl FnOnce(usize) -> Vec<usize>,
) -> Result<ArrayRef, Error> {
    let value = describe(expr, batch)?;
    let ascending = SortKey {
        expr: expr.clone(),
        descending: false,
        nulls_first: false,
    };
    let stages = keys::stages(&[ascending], batch)?;
    let one_part = stages.first().filter(|stage| stage.parts().len() == 1);
    let Some(stage) = one_part else {
        return Err(Error::unsupported(format!(
            "a quantile of {}",
            value.data_type
        )));
    };
    let decoded = StateColumn::ordered(Field::new("value", value.data_type.clone(), true));
    let ranked = Ranked {
        sort: Sort { device, batch },
        bound: Sort { device, batch }.bind(stage)?,
    };
    let mut values = Vec::new();
    let mut first = None;
    if batch.rows > 0 {
        first = ranked.first()?;
    }
    ranked.bound.compiled.check()?;
    let count = first.as_ref().map_or(0, |(range, _)| range.count);
    let mut near: Option<Near> = None;
    for rank in ranks(count) {
        let (range, bins) = first
            .as_ref()
            .filter(|(range, _)| rank < range.count)
            .ok_or_else(|| Error::unsupported(format!("rank {rank} of {count} values")))?;
        let known = near.take().filter(|near| near.range.holds(rank));
        let found = match known {
            Some(near) => near,
            None => ranked.near(range, bins, rank)?,
        };
        let word = found.value(rank)?;
        values.push(decoded.row(&[word])?);
        near = Some(found);
    }
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    Ok(match values.is_empty() {
        true => new_empty_array(&value.data_type),
        false => concat(&values)?,
    })
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    low: u64,
    high: u64,
    rows: u32,
    shift: u32,
}

/// The values from `low` to `high`, both included.
#[derive(Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    /// Values below.
    before: usize,
    count: usize,
}

impl Range {
    fn holds(&self, rank: usize) -> bool {
        (self.before..self.before + self.count).contains(&rank)
    }

    /// How many of its values' low bits a part of the range has for its own.
    fn shift(&self) -> u32 {
        let bits = u64::BITS - (self.high - self.low).leading_zeros();
        bits.saturating_sub(BINS.trailing_zeros())
    }

    /// The part that holds `rank`, of parts that hold as many values as `bins` tells.
    fn part(&self, bins: &[u32], rank: usize) -> Self {
        let shift = self.shift();
        let mut part = Self { count: 0, ..*self };
        for (bin, count) in bins.iter().enumerate() {
            part.before += part.count;
            part.count = *count as usize;
            if part.holds(rank) {
                part.low = self.low + ((bin as u64) << shift);
                part.high = self.high.min(part.low.saturating_add((1 << shift) - 1));
                return part;
            }
        }
        part
    }
}

/// The values of a range, sorted, where they differ.
struct Near {
    range: Range,
    sorted: Option<Buffer>,
}

impl Near {
    fn value(&self, rank: usize) -> Result<u64, Error> {
        let Some(sorted) = &self.sorted else {
            return Ok(self.range.low);
        };
        let at = (rank - self.range.before) as u64 * 8;
        let bytes = sorted.download_range(at, 8)?;
        Ok(bytemuck::pod_read_unaligned(&bytes))
    }
}

struct Ranked<'a> {
    sort: Sort<'a>,
    bound: Bound<'a>,
}

impl Ranked<'_> {
    /// The range of all values, and how many each part of it holds; none if there are no values.
    fn first(&self) -> Result<Option<(Range, Vec<u32>)>, Error> {
        let spans = self
            .sort
            .spans(&self.bound, 0, None, self.sort.batch.rows)?;
        let Some((low, high)) = spans.first().copied().filter(|(low, high)| low <= high) else {
            return Ok(None);
        };
        let mut range = Range {
            low,
            high,
            before: 0,
            count: 0,
        };
        let bins = self.spread(&range)?;
        range.count = bins.iter().map(|count| *count as usize).sum();
        Ok(Some((range, bins)))
    }

    /// The values around `rank`, which lies in `range`.
    fn near(&self, range: &Range, bins: &[u32], rank: usize) -> Result<Near, Error> {
        let most = match self.sort.device.info().software {
            true => 16,
            false => 1 << 16,
        };
        let few = most.max(self.sort.batch.rows / 64);
        let mut range = range.part(bins, rank);
        while range.count > few && range.low < range.high {
            range = range.part(&self.spread(&range)?, rank);
        }
        let sorted = match range.low == range.high {
            true => None,
            false => Some(self.collect(&range)?),
        };
        Ok(Near { range, sorted })
    }

    fn spread(&self, range: &Range) -> Result<Vec<u32>, Error> {
        let bins = self.sort.device.alloc_filled(u64::from(BINS) * 4, 0)?;
        self.run("spread", range, [&bins, &bins, &bins])?;
        Ok(bins.download_as()?)
    }

    fn collect(&self, range: &Range) -> Result<Buffer, Error> {
        let device = self.sort.device;
        let found = device.alloc(range.count as u64 * 8)?;
        let cursor = device.alloc_filled(4, 0)?;
        self.run("collect", range, [&cursor, &found, &cursor])?;
        let values = Batch {
            schema: Arc::new(Schema::new(vec![Field::new(
                "value",
                DataType::UInt64,
                false,
            )])),
            columns: vec![Column {
                data_type: DataType::UInt64,
                len: range.count,
                validity: None,
                data: Storage::Fixed(found),
            }],
            rows: range.count,
        };
        let ascending = SortKey {
            expr: Expr::column(0),
            descending: false,
            nulls_first: false,
        };
        let sorted = sort(device, &values, &[ascending], None)?;
        match &sorted.columns[0].data {
            Storage::Fixed(sorted) => Ok(sorted.clone()),
            _ => Err(Error::unsupported("values that are not words")),
        }
    }

    fn run(&self, entry: &str, range: &Range, buffers: [&Buffer; 3]) -> Result<(), Error> {
        let rows = self.sort.batch.rows;
        let params = Params {
            low: range.low,
            high: range.high,
            rows: rows as u32,
            shift: range.shift(),
        };
        let shader = self.sort.shader(&self.bound, "package::sort::quantile");
        let shader = shader.constant("BINS", "u32", BINS);
        let rows_each = u64::from(self.sort.size()) * 32;
        let workgroups = grid(self.sort.device, rows as u64, rows_each);
        self.sort
            .launch(&self.bound, (&shader, entry), params, &buffers, workgroups)
    }
}
