//! Looking probe rows up in the table: which have a match, and where its rows are.

use whitewater_gpu::{Buffer, Shader};

use super::{
    Joiner, Kind, Side,
    candidates::Runs,
    emit::{Given, Taker},
    table::Sides,
};
use crate::{
    Batch, Error,
    select::{output::Output, rows_with_values},
};

impl Joiner {
    /// Joins `probe` by equal keys.
    pub(super) fn probe_table(
        &mut self,
        probe: &Batch,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        let sides = Sides::new(&self.table, Some(probe), self.join.condition.as_ref())?;
        if self.join.condition.is_some() {
            let runs = self.find_runs(&sides, probe)?;
            return self.give_candidates(&sides, probe, runs, taker);
        }
        match self.join.kind.one_side() {
            Some(Side::Probe) => {
                let matched = self.find_matched(&sides, probe)?;
                self.give_matched(Side::Probe, probe, &matched, taker)
            }
            // The marks are all that is wanted.
            Some(Side::Build) => self.find_matched(&sides, probe).map(|_| ()),
            None if self.table.is_unique() => {
                let rows = self.find_rows(&sides, probe)?;
                self.give_rows(probe, &rows, taker)
            }
            None => {
                let runs = self.find_runs(&sides, probe)?;
                self.give_candidates(&sides, probe, runs, taker)
            }
        }
    }

    /// Looks up the rows of `probe` for what `output` says of `v.found`, a `Match`.
    fn look_up(
        &mut self,
        sides: &Sides,
        probe: &Batch,
        output: &mut Output<'_>,
    ) -> Result<(), Error> {
        output.import("import package::join::matches::{Match, match_row};\n");
        output.load("found", "Match", "match_row(row)");
        let device = &self.table.device;
        let status = device.alloc_filled(8, 0)?;
        let slot_marks = self.marks.as_ref().filter(|_| self.join.marks_slots());
        let mut bound = sides.bound();
        bound.push((0, 2, &self.table.slots));
        bound.push((0, 7, slot_marks.unwrap_or(&status)));
        bound.push((0, 9, &status));
        let specialise = |shader: Shader| {
            sides
                .specialise(shader)
                .feature("MARK_SLOTS", slot_marks.is_some())
        };
        output.evaluate(probe.rows, None, specialise, &bound)?;
        sides.compiled.check()?;
        if self.join.kind == Kind::NotIn {
            self.probe_null |= status.download_as::<u32>()?[1] != 0;
        }
        Ok(())
    }

    /// A bit a probe row: whether its key is in the table.
    fn find_matched(&mut self, sides: &Sides, probe: &Batch) -> Result<Buffer, Error> {
        let device = self.table.device.clone();
        let mut output = Output::new(&device, probe.rows);
        let matched = output.flag("v.found.found")?;
        self.look_up(sides, probe, &mut output)?;
        Ok(output.buffers[matched].clone())
    }

    /// The build row (u32) of each probe row, of unique keys; `u32::MAX` where there is none.
    fn find_rows(&mut self, sides: &Sides, probe: &Batch) -> Result<Buffer, Error> {
        let device = self.table.device.clone();
        let mut output = Output::new(&device, probe.rows);
        let rows = output.numbers("v.found.start")?;
        self.look_up(sides, probe, &mut output)?;
        Ok(output.buffers[rows].clone())
    }

    /// The runs of candidates of each probe row.
    fn find_runs(&mut self, sides: &Sides, probe: &Batch) -> Result<Runs, Error> {
        let count = match self.join.kind.keeps(Side::Probe) {
            // One more, without a build row, for where none passes.
            true if self.join.condition.is_some() => "v.found.count + 1u",
            true => "max(v.found.count, 1u)",
            false => "v.found.count",
        };
        let device = self.table.device.clone();
        // A word behind the counts, for their sum.
        let mut output = Output::new(&device, probe.rows + 1);
        let starts = output.numbers("v.found.start")?;
        let counts = output.numbers(count)?;
        self.look_up(sides, probe, &mut output)?;
        Ok(Runs {
            starts: output.buffers[starts].clone(),
            counts: output.buffers[counts].clone(),
            order: self.table.order.clone(),
            rows: probe.rows,
            first: 0,
        })
    }

    /// Gives the pairs of probe rows and `rows`, their build rows.
    fn give_rows(
        &self,
        probe: &Batch,
        rows: &Buffer,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        let build = &self.table.batch;
        if self.join.kind.keeps(Side::Probe) {
            let of_build = Given::OrNothing(build, rows.clone(), probe.rows);
            return self.give_pairs(Given::All(probe), of_build, taker);
        }
        let (of_probe, of_build, pairs) = rows_with_values(&self.table.device, rows, probe.rows)?;
        let of_build = Given::Rows(build, of_build, pairs);
        match pairs {
            0 => Ok(()),
            // Every row has a match: none need be moved.
            _ if pairs == probe.rows => self.give_pairs(Given::All(probe), of_build, taker),
            _ => self.give_pairs(Given::Rows(probe, of_probe, pairs), of_build, taker),
        }
    }

    /// A bit a build row: whether it has matched, by the marks of slots.
    pub(super) fn marks_of_rows(&self, slot_marks: &Buffer) -> Result<Buffer, Error> {
        let rows = self.table.batch.rows;
        let mut output = Output::new(&self.table.device, rows);
        output.import("import package::join::marks::has_matched;\n");
        let matched = output.flag("has_matched(row)")?;
        let bound = [(0, 3, &self.table.slot_numbers), (0, 7, slot_marks)];
        output.evaluate(rows, None, |shader| shader, &bound)?;
        Ok(output.buffers[matched].clone())
    }
}
