//! A large build side apart by regions of its table, before it goes there: slots that are far from each other in memory
//! cost a touch each, slots of one region are found in the cache.

use whitewater_gpu::{Buffer, Device, Shader};

use super::table::Sides;
use crate::{
    Error,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    sort::Split,
};

/// From so many rows on, a build side is split: of sizes that were tried on an H200 (10M, 100M) the one where it pays.
const FROM_ROWS: usize = 1 << 25;
/// On the software driver nothing is gained; so few that tests see it.
const FROM_ROWS_SOFTWARE: usize = 64;
const PARTS: usize = 256;

pub(super) fn split_from(device: &Device) -> usize {
    match device.info().software {
        true => FROM_ROWS_SOFTWARE,
        false => std::env::var("WW_SPLIT")
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(FROM_ROWS),
    }
}

/// The build side's rows in the order of parts.
pub(super) struct Apart {
    /// The packed key of each.
    pub(super) words: Buffer,
    pub(super) rows: Buffer,
    /// Where each part begins.
    pub(super) starts: Buffer,
}

impl Sides {
    /// The `rows` rows of the build side, whose keys are packed, by regions of the table.
    pub(super) fn split(&self, device: &Device, rows: usize) -> Result<Apart, Error> {
        let words = device.alloc(rows as u64 * 8)?;
        let parts_of = device.alloc(rows as u64 * 4)?;
        let starts = device.alloc_filled(PARTS as u64 * 4, 0)?;
        let shader = self
            .specialise(Shader::new(&LIBRARY, "package::join::split"))
            .constant("SIZE", "u32", WORKGROUP)
            .constant("PASSES", "u32", 1);
        let kernel = device.kernel(&shader, "number_rows")?;
        let bound = self.bound();
        let launch = bound
            .iter()
            .fold(kernel.launch(), |launch, (group, binding, buffer)| {
                launch.bind(*group, *binding, buffer)
            });
        launch
            .bind(0, 2, &words)
            .bind(0, 3, &parts_of)
            .bind(0, 5, &starts)
            .params(&[rows as u32])
            .moves(self.compiled.bytes() + rows as u64 * 12)
            .run(grid(device, rows as u64, u64::from(WORKGROUP) * 8))?;
        let split = Split::new(device, &parts_of, &starts, rows)?;
        let mut carried = split.carry(&[(Some(&words), 8), (None, 4)])?.into_iter();
        let mut next = || {
            carried
                .next()
                .ok_or_else(|| Error::unsupported("a column that was not carried"))
        };
        Ok(Apart {
            words: next()?,
            rows: next()?,
            starts,
        })
    }
}
