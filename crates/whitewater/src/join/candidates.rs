//! Candidates: the pairs of rows with equal keys, or of all rows, of which those that pass the condition are given.
//!
//! ```text
//! counts ──scan──▶ offsets of each probe row's candidates ──▶ the pair of every candidate (`pairs.wesl`)
//! with a condition: a bit a candidate ──▶ the pair of every candidate that passes
//! ```
//!
//! Their number is 64-bit. As many probe rows are taken together as have candidates for one launch, and as the device
//! has room for their result.

use whitewater_gpu::{Buffer, Shader};

use super::{
    Joiner, Side,
    emit::{Given, Taker},
    table::Sides,
};
use crate::{
    Batch, Column, Error, Storage,
    column::bit_words_bytes,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    scan::exclusive_sums,
    select::{map_of_mask, output::Output},
    table::u32_columns,
};

/// Candidates of a tile, whose first probe row is known: of 128 to 1024 on an H200 the fastest.
const TILE: u32 = 128;
/// Segments whose counts are summed up.
const SEGMENTS: u32 = 1024;
/// The result of one chunk may take this share of the memory that is free.
const RESULT_SHARE: u64 = 4;

/// Probe rows with the runs of their candidates.
pub(super) struct Runs {
    /// Where each row's run begins; `u32::MAX`: one candidate without a build row.
    pub(super) starts: Buffer,
    /// Candidates of each row, and a word behind them.
    pub(super) counts: Buffer,
    /// The build rows by runs; none where a run is its row.
    pub(super) order: Option<Buffer>,
    pub(super) rows: usize,
    /// The number of the first row.
    pub(super) first: usize,
}

/// Rows that follow each other, and how many candidates they have.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    first: usize,
    rows: usize,
    candidates: u64,
}

/// Candidates, as `pairs.wesl` reads them.
pub(super) struct Candidates<'a> {
    pub(super) count: usize,
    pub(super) nested: bool,
    pub(super) unique: bool,
    pub(super) sentinel: bool,
    /// Buffers by binding of the first group.
    pub(super) bound: Vec<(u32, &'a Buffer)>,
}

impl Candidates<'_> {
    fn specialise(&self, shader: Shader) -> Shader {
        shader
            .feature("NESTED", self.nested)
            .feature("UNIQUE", self.unique)
            .feature("SENTINEL", self.sentinel)
            .constant("TILE", "u32", TILE)
    }

    fn bound(&self) -> impl Iterator<Item = (u32, u32, &Buffer)> {
        self.bound
            .iter()
            .map(|(binding, buffer)| (0, *binding, *buffer))
    }
}

impl Joiner {
    /// Gives what the candidates of `runs` come to.
    pub(super) fn give_candidates(
        &self,
        sides: &Sides,
        probe: &Batch,
        runs: Runs,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        let marks = self.probe_marks(probe)?;
        let most = self.candidates_at_once(probe);
        let spans = self.spans(&runs, most)?;
        if self.join.condition.is_none() && self.wants_no_column(taker) {
            let all: u64 = spans.iter().map(|span| span.candidates).sum();
            return self.give_count(all, taker);
        }
        for span in &spans {
            let part = self.part(&runs, *span, spans.len() == 1)?;
            self.give_span(
                sides,
                probe,
                &part,
                span.candidates as usize,
                marks.as_ref(),
                taker,
            )?;
        }
        match (self.join.kind.one_side(), marks) {
            (Some(Side::Probe), Some(marks)) => {
                self.give_matched(Side::Probe, probe, &marks, taker)
            }
            _ => Ok(()),
        }
    }

    /// Whether it is enough to count the rows of the result.
    pub(super) fn wants_no_column(&self, taker: &Taker<'_, '_>) -> bool {
        self.join.outputs.is_empty() && matches!(taker, Taker::Batches(_))
    }

    /// Gives `rows` rows without columns.
    pub(super) fn give_count(&self, rows: u64, taker: &mut Taker<'_, '_>) -> Result<(), Error> {
        let mut left = rows;
        while left > 0 {
            let some = left.min(self.at_once as u64);
            left -= some;
            self.give_pairs(
                Given::Nothing(some as usize),
                Given::Nothing(some as usize),
                taker,
            )?;
        }
        Ok(())
    }

    /// A bit a probe row that has matched, where it must be known.
    pub(super) fn probe_marks(&self, probe: &Batch) -> Result<Option<Buffer>, Error> {
        let wanted = self.join.condition.is_some() && self.join.kind.marks(Side::Probe);
        let bytes = bit_words_bytes(probe.rows);
        Ok(match wanted {
            true => Some(self.table.device.alloc_filled(bytes, 0)?),
            false => None,
        })
    }

    /// How many candidates to look at together: as many as the device has room for the result of, if all pass.
    pub(super) fn candidates_at_once(&self, probe: &Batch) -> usize {
        let of = |batch: &Batch| match batch.rows {
            0 => 0,
            rows => batch.device_bytes().div_ceil(rows as u64),
        };
        // Two numbers of rows each, and what becomes of them.
        let bytes = 24 + of(probe) + of(&self.table.batch);
        let memory = self.table.device.memory();
        let free = memory.budget.saturating_sub(memory.in_use);
        let most = (free / RESULT_SHARE / bytes).max(1 << 12);
        (most as usize).min(self.at_once)
    }

    /// The rows of `runs` in spans of at most `most` candidates, but for single rows of more.
    fn spans(&self, runs: &Runs, most: usize) -> Result<Vec<Span>, Error> {
        let all = Span {
            first: 0,
            rows: runs.rows,
            candidates: 0,
        };
        let mut spans: Vec<Span> = Vec::new();
        let mut open = vec![all];
        // Those that have too many are looked at again by finer segments, in their order.
        while let Some(span) = open.pop() {
            if span.candidates > 0 && (span.candidates <= most as u64 || span.rows == 1) {
                match spans.last_mut() {
                    Some(last) if last.candidates + span.candidates <= most as u64 => {
                        last.rows = span.first + span.rows - last.first;
                        last.candidates += span.candidates;
                    }
                    _ => spans.push(span),
                }
                continue;
            }
            let segments = self.sums(runs, span)?;
            open.extend(segments.into_iter().rev().filter(|s| s.candidates > 0));
        }
        Ok(spans)
    }

    /// How many candidates there are in all.
    pub(super) fn candidates(&self, runs: &Runs) -> Result<u64, Error> {
        let all = Span {
            first: 0,
            rows: runs.rows,
            candidates: 0,
        };
        let segments = self.sums(runs, all)?;
        Ok(segments.iter().map(|segment| segment.candidates).sum())
    }

    /// The segments of `span` with their candidates.
    fn sums(&self, runs: &Runs, span: Span) -> Result<Vec<Span>, Error> {
        let device = &self.table.device;
        let segment = span.rows.div_ceil(SEGMENTS as usize);
        let segments = span.rows.div_ceil(segment);
        let sums = device.alloc(segments as u64 * 8)?;
        device
            .kernel(&tiles_shader(), "sum_counts")?
            .launch()
            .bind(0, 4, &runs.counts)
            .bind(0, 5, &sums)
            .params(&[
                (span.first + span.rows) as u32,
                0,
                0,
                span.first as u32,
                segment as u32,
            ])
            .moves(span.rows as u64 * 4)
            .run(segments as u32)?;
        let end = span.first + span.rows;
        let sums = sums.download_as::<u64>()?;
        let spans = sums.into_iter().enumerate().map(|(i, candidates)| {
            let first = span.first + i * segment;
            Span {
                first,
                rows: segment.min(end - first),
                candidates,
            }
        });
        Ok(spans.collect())
    }

    /// The runs of the rows of `span`.
    fn part(&self, runs: &Runs, span: Span, whole: bool) -> Result<Runs, Error> {
        if whole {
            return Ok(Runs {
                starts: runs.starts.clone(),
                counts: runs.counts.clone(),
                order: runs.order.clone(),
                rows: runs.rows,
                first: 0,
            });
        }
        let columns = u32_columns([&runs.starts, &runs.counts], runs.rows + 1);
        let rows = crate::gather::slice(&self.table.device, &columns, span.first, span.rows + 1)?;
        let mut words = rows.columns.into_iter().map(|column| match column {
            Column {
                data: Storage::Fixed(words),
                ..
            } => Ok(words),
            _ => Err(Error::unsupported("numbers that are none")),
        });
        let mut next = || {
            words
                .next()
                .unwrap_or(Err(Error::unsupported("runs without rows")))
        };
        Ok(Runs {
            starts: next()?,
            counts: next()?,
            order: runs.order.clone(),
            rows: span.rows,
            first: span.first,
        })
    }

    fn give_span(
        &self,
        sides: &Sides,
        probe: &Batch,
        runs: &Runs,
        count: usize,
        marks: Option<&Buffer>,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        let device = &self.table.device;
        let offsets = exclusive_sums(device, &runs.counts, runs.rows + 1)?;
        let tiles = count.div_ceil(TILE as usize);
        let tile_rows = device.alloc((tiles as u64 + 1) * 4)?;
        device
            .kernel(&tiles_shader(), "find_tiles")?
            .launch()
            .bind(0, 2, &offsets)
            .bind(0, 3, &tile_rows)
            .params(&[runs.rows as u32, count as u32, tiles as u32, 0, 0])
            .run(grid(device, tiles as u64 + 1, WORKGROUP.into()))?;
        let first = device.upload(&(runs.first as u32).to_le_bytes())?;
        let mut bound = vec![
            (4, &runs.starts),
            (5, &offsets),
            (6, &tile_rows),
            (8, &first),
        ];
        bound.extend(runs.order.as_ref().map(|order| (3, order)));
        let condition = self.join.condition.is_some();
        let candidates = Candidates {
            count,
            nested: false,
            unique: runs.order.is_none(),
            sentinel: condition && self.join.kind.keeps(Side::Probe),
            bound,
        };
        if !condition {
            return self.give_candidate_pairs(probe, &candidates, None, taker);
        }
        let mask = self.test(sides, &candidates, marks)?;
        if candidates.sentinel
            && let Some(marks) = marks
        {
            let params = [runs.rows as u32, runs.first as u32, 0, 0];
            self.pass_sentinels(false, params, [&offsets, marks, &mask])?;
        }
        if self.join.kind.one_side().is_some() {
            return Ok(());
        }
        let (passing, rows) = map_of_mask(device, &mask, count)?;
        self.give_candidate_pairs(probe, &candidates, Some((&passing, rows)), taker)
    }

    /// A bit a candidate: whether it passes the condition. Marks the rows of those that do.
    fn test(
        &self,
        sides: &Sides,
        candidates: &Candidates<'_>,
        marks: Option<&Buffer>,
    ) -> Result<Buffer, Error> {
        let mut output = Output::new(&self.table.device, candidates.count);
        output.import("import package::join::condition::passes;\n");
        output.load("passed", "bool", "passes(row)");
        let passed = output.flag("v.passed")?;
        let mut bound = sides.bound();
        bound.extend(candidates.bound());
        bound.push((0, 9, marks.unwrap_or(&self.table.slots)));
        bound.push((0, 10, self.marks.as_ref().unwrap_or(&self.table.slots)));
        let specialise = |shader: Shader| {
            candidates
                .specialise(sides.specialise(shader))
                .feature("MARK_PROBE", marks.is_some())
                .feature("MARK_BUILD", self.marks.is_some())
        };
        output.evaluate(candidates.count, None, specialise, &bound)?;
        sides.compiled.check()?;
        Ok(output.buffers[passed].clone())
    }

    /// Lets the last candidate pass of every probe row that has not matched.
    pub(super) fn pass_sentinels(
        &self,
        nested: bool,
        params: [u32; 4],
        [offsets, marks, mask]: [&Buffer; 3],
    ) -> Result<(), Error> {
        let device = &self.table.device;
        let shader = Shader::new(&LIBRARY, "package::join::sentinels")
            .constant("SIZE", "u32", WORKGROUP)
            .feature("NESTED", nested);
        device
            .kernel(&shader, "pass_sentinels")?
            .launch()
            .bind(0, 2, offsets)
            .bind(0, 3, marks)
            .bind(0, 4, mask)
            .params(&params)
            .moves(u64::from(params[0]) * 4)
            .run(grid(device, params[0].into(), WORKGROUP.into()))?;
        Ok(())
    }

    /// Gives the pairs of all candidates, or of those that are listed.
    pub(super) fn give_candidate_pairs(
        &self,
        probe: &Batch,
        candidates: &Candidates<'_>,
        listed: Option<(&Buffer, usize)>,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        let rows = listed.map_or(candidates.count, |(_, rows)| rows);
        if rows == 0 {
            return Ok(());
        }
        if self.wants_no_column(taker) {
            return self.give_count(rows as u64, taker);
        }
        let mut output = Output::new(&self.table.device, rows);
        output.import("import package::join::pairs::{Pair, pair_of};\n");
        output.load("pair", "Pair", "pair_of(row)");
        let of_probe = output.numbers("v.pair.probe")?;
        let of_build = output.numbers("v.pair.build")?;
        let bound: Vec<_> = candidates.bound().collect();
        let map = listed.map(|(map, _)| map);
        output.evaluate(rows, map, |shader| candidates.specialise(shader), &bound)?;
        let of_probe = Given::Rows(probe, output.buffers[of_probe].clone(), rows);
        let build = &self.table.batch;
        let numbers = output.buffers[of_build].clone();
        let of_build = match self.join.kind.keeps(Side::Probe) {
            true => Given::OrNothing(build, numbers, rows),
            false => Given::Rows(build, numbers, rows),
        };
        self.give_pairs(of_probe, of_build, taker)
    }
}

fn tiles_shader() -> Shader {
    Shader::new(&LIBRARY, "package::join::tiles")
        .constant("SIZE", "u32", WORKGROUP)
        .constant("TILE", "u32", TILE)
}
