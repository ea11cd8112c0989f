//! The first rows of an order without the order of all: a bound from a sample, then the rows within it.
//!
//! ```text
//! sample ──▶ a bound that a few times as many rows are within as are asked for
//! all rows ──▶ those within the bound (one read of the first key) ──▶ sorted
//! ```
//!
//! A sample that misleads costs time, never rows: fewer rows than asked for, or most of all, and all are
//! sorted.

use whitewater_gpu::Buffer;

use super::{Bound, Sort};
use crate::{
    Batch, Error, column::bit_words_bytes, gather::gather, params::grid, select::map_of_mask,
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    stride: u32,
}

/// Workgroups that look at a sample.
const SAMPLES: u32 = 1024;
/// The bound's rank in the sample's order is the one asked for and as many more, so that too few rows within
/// it are as good as impossible where rows are in no order.
const MARGIN: usize = 16;

impl Sort<'_> {
    /// The rows of the batch that can be among the first `fetch` in the order of `bound`, a first stage, in the
    /// batch's order; none if these would not be few. Waits for the bound and for their number.
    pub(super) fn candidates(
        &self,
        bound: &Bound<'_>,
        fetch: usize,
    ) -> Result<Option<Batch>, Error> {
        let rows = self.batch.rows;
        let software = self.device.info().software;
        let samples = if software { 32 } else { SAMPLES };
        let sampled = (samples * self.size()) as usize;
        if rows < 4 * sampled || fetch > rows / 64 {
            return Ok(None);
        }
        let stride = rows / sampled;
        // Each sampled row stands for `stride` rows.
        let rank = fetch.div_ceil(stride) + MARGIN;
        if rank > samples as usize / 4 {
            return Ok(None);
        }
        let params = Params {
            rows: rows as u32,
            stride: stride as u32,
        };
        let least = self.device.alloc(u64::from(samples) * 16)?;
        let mask = self.device.alloc(bit_words_bytes(rows))?;
        self.run_top(bound, "sample", params, [&least, &mask, &least], samples)?;
        let mut found = least.download_as::<[u64; 2]>()?;
        let (_, last, _) = found.select_nth_unstable(rank);
        let last = self.device.upload(bytemuck::bytes_of(last))?;
        let workgroups = grid(self.device, rows as u64, u64::from(self.size()) * 8);
        self.run_top(bound, "below", params, [&least, &mask, &last], workgroups)?;
        let (map, within) = map_of_mask(self.device, &mask, rows)?;
        if within < fetch || within > rows / 4 {
            return Ok(None);
        }
        gather(self.device, self.batch, &map, within).map(Some)
    }

    fn run_top(
        &self,
        bound: &Bound<'_>,
        entry: &str,
        params: Params,
        buffers: [&Buffer; 3],
        workgroups: u32,
    ) -> Result<(), Error> {
        let nulls_first = bound
            .stage
            .parts()
            .first()
            .is_some_and(|part| part.nulls_first);
        let shader =
            self.shader(bound, "package::sort::top")
                .constant("NULLS_FIRST", "bool", nulls_first);
        self.launch(bound, (&shader, entry), params, &buffers, workgroups)
    }
}
