//! Rows apart by the hash of their keys, ahead of a table that outgrows the cache: then rows that follow each other meet in
//! one region of it, which the cache holds. Leis et al., "Morsel-driven parallelism", 2014, and many others do so on
//! CPUs; here the table stays one, since its slots follow the hash as the parts do.

use whitewater_gpu::Device;

use crate::{Batch, Error, aggregate::Aggregation, partition::partition_by_groups};

/// Parts of the rows: as many as one pass makes.
const PARTS: usize = 256;
const SOFTWARE_PARTS: usize = 8;
/// Copies of the rows may take this share of the memory that is free.
const MEMORY_SHARE: u64 = 2;

/// The rows of `batch` that `aggregation` gathers, part by part, with its columns alone, and the same aggregation over
/// them; none where there is no room for copies.
///
/// Moves the columns twice, three times with a predicate, and 12 bytes a row.
pub(super) fn by_keys(
    device: &Device,
    batch: &Batch,
    aggregation: &Aggregation,
) -> Result<Option<(Batch, Aggregation)>, Error> {
    let needed = batch.project(&aggregation.columns())?;
    let memory = device.memory();
    let room = memory.budget.saturating_sub(memory.in_use) / MEMORY_SHARE;
    let copies = if aggregation.predicate.is_some() {
        2
    } else {
        1
    };
    if needed.columns.is_empty() || copies * needed.device_bytes() + 12 * batch.rows as u64 > room {
        return Ok(None);
    }
    let (taken, over) = aggregation.taken(device, batch)?;
    let parts = match device.info().software {
        true => SOFTWARE_PARTS,
        false => PARTS,
    };
    let parted = partition_by_groups(device, &taken, &over.keys, parts)?;
    Ok(Some((parted.batch, over)))
}
