//! Joins without keys: every probe row with every build row, and which of these pairs pass the condition.

use whitewater_gpu::Shader;

use super::{Joiner, Kind, Side, candidates::Candidates, emit::Taker, table::side_by_side};
use crate::{
    Batch, Error,
    column::bit_words_bytes,
    expr::Pipeline,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    pipeline::Compiled,
    select::map_of_mask,
};

/// Words of build rows that a workgroup walks.
const STRIP: u32 = 16;
/// Bits that one pass tests, unless a single row has more.
const MOST_BITS: usize = 1 << 30;
/// The most build rows: those of one probe row are numbered by u32, with room for a grid's stride.
const MOST_BUILD_ROWS: usize = 1 << 31;

impl Joiner {
    /// Joins every row of `probe` with every build row.
    pub(super) fn probe_nested(
        &mut self,
        probe: &Batch,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        if self.table.batch.rows > MOST_BUILD_ROWS {
            return Err(Error::unsupported(format!(
                "a join of every row with each of {}",
                self.table.batch.rows
            )));
        }
        match self.join.condition.is_some() {
            true if self.probe_by_range(probe, taker)? => Ok(()),
            true => self.probe_by_condition(probe, taker),
            false => self.probe_crosswise(probe, taker),
        }
    }

    /// All pairs, in chunks of probe rows.
    fn probe_crosswise(&self, probe: &Batch, taker: &mut Taker<'_, '_>) -> Result<(), Error> {
        let device = &self.table.device;
        let build_rows = self.table.batch.rows;
        match self.join.kind.one_side() {
            // There are build rows, and so every probe row matches.
            Some(Side::Probe) => {
                let all = device.alloc_filled(bit_words_bytes(probe.rows), 0xff)?;
                return self.give_matched(Side::Probe, probe, &all, taker);
            }
            Some(Side::Build) => return self.mark_all_build(),
            None => self.mark_all_build()?,
        }
        if self.wants_no_column(taker) {
            return self.give_count(probe.rows as u64 * build_rows as u64, taker);
        }
        let step = (self.candidates_at_once(probe) / build_rows).max(1);
        for first in (0..probe.rows).step_by(step) {
            let rows = step.min(probe.rows - first);
            let layout = [first as u32, build_rows as u32, build_rows as u32];
            let layout = device.upload(bytemuck::cast_slice(&layout))?;
            let candidates = Candidates {
                count: rows * build_rows,
                nested: true,
                unique: false,
                sentinel: false,
                bound: vec![(8, &layout)],
            };
            self.give_candidate_pairs(probe, &candidates, None, taker)?;
        }
        Ok(())
    }

    /// Every build row matches.
    fn mark_all_build(&self) -> Result<(), Error> {
        match &self.marks {
            Some(marks) => Ok(self.table.device.fill(marks, 0xff)?),
            None => Ok(()),
        }
    }

    /// The pairs that pass the condition, in chunks of probe rows.
    fn probe_by_condition(&self, probe: &Batch, taker: &mut Taker<'_, '_>) -> Result<(), Error> {
        let device = &self.table.device;
        let build_rows = self.table.batch.rows;
        let outer = self.join.kind.keeps(Side::Probe);
        let spec = Pipeline {
            predicate: self.join.condition.clone(),
            narrow: true,
            paired: Some(self.table.batch.columns.len()),
            ..Pipeline::default()
        };
        let both = side_by_side(&self.table.batch, probe);
        let compiled = Compiled::of(device, &both, &spec)?;
        let marks = self.probe_marks(probe)?;
        // One bit more for where none passes.
        let stride = (build_rows + usize::from(outer)).next_multiple_of(32);
        let step = (MOST_BITS.min(self.at_once) / stride).clamp(1, probe.rows);
        let mask = device.alloc(bit_words_bytes(step * stride))?;
        let shader = compiled
            .specialise(Shader::new(&LIBRARY, "package::join::nested"))
            .constant("SIZE", "u32", WORKGROUP)
            .constant("STRIP", "u32", STRIP)
            .feature("MARK_PROBE", marks.is_some())
            .feature("MARK_BUILD", self.marks.is_some());
        let kernel = device.kernel(&shader, "test_pairs")?;
        for first in (0..probe.rows).step_by(step) {
            let rows = step.min(probe.rows - first);
            let blocks = rows.div_ceil(WORKGROUP as usize);
            let strips = (stride / 32).div_ceil(STRIP as usize);
            compiled
                .bind(kernel.launch())
                .bind(0, 2, &mask)
                .bind(0, 9, marks.as_ref().unwrap_or(&mask))
                .bind(0, 10, self.marks.as_ref().unwrap_or(&mask))
                .params(&[rows as u32, first as u32, stride as u32, build_rows as u32])
                .moves(compiled.bytes() + bit_words_bytes(rows * stride))
                .run(grid(device, (blocks * strips) as u64, 1))?;
            if outer && let Some(marks) = &marks {
                let params = [rows as u32, first as u32, stride as u32, build_rows as u32];
                self.pass_sentinels(true, params, [marks, marks, &mask])?;
            }
            if self.join.kind.one_side().is_some() {
                continue;
            }
            compiled.check()?;
            let (passing, taken) = map_of_mask(device, &mask, rows * stride)?;
            let layout = [first as u32, stride as u32, build_rows as u32];
            let layout = device.upload(bytemuck::cast_slice(&layout))?;
            let candidates = Candidates {
                count: rows * stride,
                nested: true,
                unique: false,
                sentinel: false,
                bound: vec![(8, &layout)],
            };
            self.give_candidate_pairs(probe, &candidates, Some((&passing, taken)), taker)?;
        }
        compiled.check()?;
        match (self.join.kind, marks) {
            (
                Kind::Semi(Side::Probe) | Kind::Anti(Side::Probe) | Kind::Mark(Side::Probe),
                Some(marks),
            ) => self.give_matched(Side::Probe, probe, &marks, taker),
            _ => Ok(()),
        }
    }
}
