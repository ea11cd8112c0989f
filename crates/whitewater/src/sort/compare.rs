//! What follows from comparing rows: whether they are sorted, which repeat the one before, merged runs, ranks.

use arrow::datatypes::DataType;
use whitewater_gpu::{Buffer, Device, Shader};

use super::{
    Sort, SortKey,
    keys::{self, Stage},
    sorted_order,
};
use crate::{
    Batch, Column, Error, Storage,
    bitmask::to_booleans,
    column::bit_words_bytes,
    gather::{concat, gather, numbers},
    kernels::LIBRARY,
    params::grid,
    scan::inclusive_sums,
    select::map_of_mask,
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    runs: u32,
}

/// How rows with equal keys rank; all methods count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// In the order that they have: no two ranks are equal.
    First,
    /// By how many different keys are before.
    Dense,
    /// All as the first of them.
    Min,
    /// All as the last of them.
    Max,
    /// The mean of the first's and the last's.
    Average,
}

/// Kernels that compare rows of one batch by its keys.
pub(crate) struct Comparison<'a> {
    sort: Sort<'a>,
    stage: Stage,
}

/// `keys` of `batch`, to compare its rows by.
pub(crate) fn comparison<'a>(
    device: &'a Device,
    batch: &'a Batch,
    keys: &[SortKey],
) -> Result<Comparison<'a>, Error> {
    Ok(Comparison {
        sort: Sort { device, batch },
        stage: keys::whole(keys, batch)?,
    })
}

impl Comparison<'_> {
    /// Launches an entry of a kernel that imports `package::sort_keys::compare`, its buffers from binding 2 on.
    pub(crate) fn launch<T: bytemuck::NoUninit>(
        &self,
        (shader, entry): (&Shader, &str),
        params: T,
        buffers: &[&Buffer],
        workgroups: u32,
    ) -> Result<(), Error> {
        let bound = self.sort.bind(&self.stage)?;
        let shader = bound.specialise(shader.clone());
        self.sort
            .launch(&bound, (&shader, entry), params, buffers, workgroups)?;
        bound.compiled.check()
    }

    /// Launches `entry` of `compare.wesl`.
    fn run(
        &self,
        entry: &str,
        runs: usize,
        mapped: bool,
        buffers: &[&Buffer],
    ) -> Result<(), Error> {
        let Sort { device, batch } = self.sort;
        let shader = Shader::new(&LIBRARY, "package::sort::compare")
            .constant("SIZE", "u32", self.sort.size())
            .feature("MAPPED", mapped);
        let params = Params {
            rows: batch.rows as u32,
            runs: runs as u32,
        };
        let workgroups = grid(device, batch.rows as u64, self.sort.size().into());
        self.launch((&shader, entry), params, buffers, workgroups)
    }

    /// A bit for every place of `order` (of the rows as they are without one) whose row differs from the one ahead.
    fn heads(&self, order: Option<&Buffer>) -> Result<Buffer, Error> {
        let Sort { device, batch } = self.sort;
        let heads = device.alloc(bit_words_bytes(batch.rows))?;
        let buffers = [&heads, &heads, order.unwrap_or(&heads)];
        self.run("heads", 0, order.is_some(), &buffers)?;
        Ok(heads)
    }
}

/// Runs of neighbouring rows with equal keys.
#[derive(Clone)]
pub(crate) struct Runs {
    /// A bit a row where one begins.
    pub(crate) heads: Buffer,
    /// The run of each row (u32), from 1.
    pub(crate) of_rows: Buffer,
    /// The first row of each run (u32).
    pub(crate) starts: Buffer,
    pub(crate) count: usize,
}

impl Runs {
    /// Those of `batch`, which has rows, by `keys`; without keys all rows are one. Null equals null. Waits for how many
    /// there are.
    pub(crate) fn of(device: &Device, batch: &Batch, keys: &[SortKey]) -> Result<Self, Error> {
        let heads = match keys.is_empty() {
            true => {
                let heads = device.alloc_filled(bit_words_bytes(batch.rows), 0)?;
                device.write(&heads, 0, &1u32.to_le_bytes())?;
                heads
            }
            false => comparison(device, batch, keys)?.heads(None)?,
        };
        Self::from_heads(device, heads, batch.rows)
    }

    fn from_heads(device: &Device, heads: Buffer, rows: usize) -> Result<Self, Error> {
        let of_rows = inclusive_sums(device, &to_booleans(&heads, rows)?, rows)?;
        let (starts, count) = map_of_mask(device, &heads, rows)?;
        Ok(Self {
            heads,
            of_rows,
            starts,
            count,
        })
    }
}

/// Whether the rows of `batch` are in the order of `keys`. Waits for the answer.
///
/// Moves the key columns once. Errors are those of [`sorted_order`].
pub fn is_sorted(device: &Device, batch: &Batch, keys: &[SortKey]) -> Result<bool, Error> {
    if batch.rows < 2 {
        return Ok(true);
    }
    let trouble = device.alloc_filled(4, 0)?;
    comparison(device, batch, keys)?.run("descents", 0, false, &[&trouble])?;
    Ok(trouble.download_as::<u32>()?[0] == 0)
}

/// The rows of `batch` whose `keys` differ from those of the row ahead of them; the first is one. Null equals
/// null. Of rows that are sorted, or at least stand together, these are the distinct ones.
///
/// Moves the key columns once and the rows once. Extra device memory: 4 bytes and a bit a row. Errors are those of
/// [`sorted_order`].
pub fn unique(device: &Device, batch: &Batch, keys: &[SortKey]) -> Result<Batch, Error> {
    if batch.rows == 0 {
        return Ok(batch.clone());
    }
    let heads = comparison(device, batch, keys)?.heads(None)?;
    let (map, rows) = map_of_mask(device, &heads, batch.rows)?;
    gather(device, batch, &map, rows)
}

/// The rows of `batches`, each of which is in the order of `keys`, in that order; of equal rows those of an
/// earlier batch first.
///
/// Each row is looked up in every other batch: for `k` batches of `n` rows `k * log2(n)` touches a row. Moves the
/// rows twice besides. Extra device memory: a copy of all batches, and 4 bytes a row. Errors are those of [`concat`] and [`sorted_order`]; what is not sorted is merged wrongly.
pub fn merge(device: &Device, batches: &[Batch], keys: &[SortKey]) -> Result<Batch, Error> {
    let all = concat(device, batches)?;
    if all.rows == 0 {
        return Ok(all);
    }
    let mut bounds = vec![0u32];
    for batch in batches {
        bounds.push(bounds[bounds.len() - 1] + batch.rows as u32);
    }
    let bounds = device.upload(bytemuck::cast_slice(&bounds))?;
    // Rows of batches that are not sorted may share a place: then no other is left without a row.
    let order = numbers(device, 0, all.rows)?;
    let buffers = [&order, &order, &order, &bounds];
    comparison(device, &all, keys)?.run("merge", batches.len(), false, &buffers)?;
    gather(device, &all, &order, all.rows)
}

/// The rank of each row of `batch` by `keys`: `UInt32`, or `Float64` for [`Rank::Average`], never null.
///
/// Extra device memory: 28 bytes a row. Costs and errors are those of [`sorted_order`], and 24 bytes a row.
pub fn rank(
    device: &Device,
    batch: &Batch,
    keys: &[SortKey],
    method: Rank,
) -> Result<Column, Error> {
    let (data_type, width) = match method {
        Rank::Average => (DataType::Float64, 8),
        _ => (DataType::UInt32, 4),
    };
    let rows = batch.rows;
    let ranks = device.alloc(rows as u64 * width)?;
    let column = Column {
        data_type,
        len: rows,
        validity: None,
        data: Storage::Fixed(ranks.clone()),
    };
    if rows == 0 {
        return Ok(column);
    }
    let order = sorted_order(device, batch, keys)?;
    let compared = comparison(device, batch, keys)?;
    let groups = Runs::from_heads(device, compared.heads(Some(&order))?, rows)?;
    let shader = Shader::new(&LIBRARY, "package::sort::rank")
        .constant("SIZE", "u32", compared.sort.size())
        .feature("AVERAGE", method == Rank::Average);
    device
        .kernel(&shader, "rank")?
        .launch()
        .bind(0, 2, &order)
        .bind(0, 3, &groups.of_rows)
        .bind(0, 4, &groups.starts)
        .bind(0, 5, &ranks)
        .params(&[rows as u32, groups.count as u32, method as u32])
        .moves(rows as u64 * (8 + width))
        .run(grid(device, rows as u64, compared.sort.size().into()))?;
    Ok(column)
}
