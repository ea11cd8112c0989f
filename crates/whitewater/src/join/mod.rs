//! Joins: rows of two batches side by side, by equal keys, by a condition, or both.
//!
//! ```text
//! build side ──▶ Table ─┐
//! probe side ───────────┴─ find a run of build rows for each probe row (`probe.wesl`)
//!      unique keys, no condition:  the build row of each probe row; those without one taken out
//!      else:  candidates, one for each row of each run ──condition──▶ those that pass
//!      ──▶ row numbers of both sides ──gather──▶ columns
//! ```
//!
//! Rows come out in the order of the probe side, those of one probe row in the order of the build side; what only the
//! build side has comes last, in its order. Candidates are numbered, and each is one invocation's: a key that occurs very
//! often is no more work for one invocation than others are.
//!
//! Without keys every row meets every other (`nested.wesl`), unless the condition compares a value of the build side with
//! values of the probe side and leaves few pairs: then the candidates are those of a range of that value (`range.wesl`),
//! and the build rows of a probe row come out in its order.
//!
//! Keys are equal as DataFusion joins them: zeros of both signs are, NaNs by their bits, nulls only where asked.

mod candidates;
mod emit;
mod grace;
mod matches;
mod nested;
mod range;
mod table;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use whitewater_gpu::{Buffer, Device};

use crate::{
    Batch, Error,
    column::bit_words_bytes,
    expr::{ColumnLayout, Expr, Pipeline, compile},
    ragged::is_ragged,
};
use emit::{Given, Taker};
pub use emit::{Map, Maps};
pub use grace::Grace;
use range::Ordered;
pub use table::{MOST_BUILD_ROWS, Table};

/// A side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that the table is of.
    Build = 0,
    /// The one whose rows are looked up.
    Probe = 1,
}

/// Which rows a join gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pairs that match.
    Inner,
    /// Those, and the rows of this side that match none, beside nulls.
    Outer(Side),
    /// Those, and the rows of both sides that match none.
    FullOuter,
    /// Rows of this side that match one, once each.
    Semi(Side),
    /// Rows of this side that match none.
    Anti(Side),
    /// Build rows for which SQL's `key NOT IN (probe keys)` is true: none if a probe key is null, all if there is no
    /// probe row, else those that match none and whose key is not null. One key, no condition.
    NotIn,
    /// All rows of this side, with whether they match one.
    Mark(Side),
}

impl Kind {
    /// Whether a row of `side` without a match is kept, beside nulls.
    fn keeps(self, side: Side) -> bool {
        self == Kind::FullOuter || self == Kind::Outer(side)
    }

    /// The side whose rows are given, if it is one alone.
    fn one_side(self) -> Option<Side> {
        match self {
            Kind::Semi(side) | Kind::Anti(side) | Kind::Mark(side) => Some(side),
            Kind::NotIn => Some(Side::Build),
            _ => None,
        }
    }

    /// Whether it must be known which rows of `side` match.
    fn marks(self, side: Side) -> bool {
        self.keeps(side) || self.one_side() == Some(side)
    }
}

/// A pair of keys, of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinKey {
    /// Over the build side's columns. Strings must be plain columns.
    pub build: Expr,
    /// Over the probe side's columns.
    pub probe: Expr,
    /// Whether null matches null (`IS NOT DISTINCT FROM`).
    pub null_equals_null: bool,
}

/// A column that a join gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Column(Side, usize),
    /// Of [`Kind::Mark`]: whether the row matches one.
    Mark,
}

/// A join of two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub kind: Kind,
    /// None: every pair of rows is a candidate.
    pub keys: Vec<JoinKey>,
    /// What else must be true of a pair (null is false), over the columns of the build side, then the probe side.
    pub condition: Option<Expr>,
    /// What is given of each row.
    pub outputs: Vec<(Output, Field)>,
}

impl Join {
    /// Whether the device can do this for sides of these schemas.
    pub fn check(&self, build: &Schema, probe: &Schema) -> Result<(), Error> {
        for key in &self.keys {
            let types = (key.build.data_type(build)?, key.probe.data_type(probe)?);
            if types.0 != types.1 {
                return Err(Error::unsupported(format!(
                    "a join of {} with {}",
                    types.0, types.1
                )));
            }
            crate::keys::check(&key.build, build)?;
            crate::keys::check(&key.probe, probe)?;
        }
        if self.kind == Kind::NotIn && (self.keys.len() != 1 || self.condition.is_some()) {
            return Err(Error::unsupported("NOT IN with a further condition"));
        }
        for (_, field) in &self.outputs {
            let data_type = field.data_type();
            let held = is_ragged(data_type) || data_type.primitive_width().is_some();
            if !held && !matches!(data_type, DataType::Boolean | DataType::Null) {
                return Err(Error::unsupported(format!(
                    "a join of rows with {data_type}"
                )));
            }
        }
        let fields = build.fields().iter().chain(probe.fields());
        let both = Schema::new(fields.cloned().collect::<Vec<_>>());
        let spec = Pipeline {
            predicate: self.condition.clone(),
            paired: Some(build.fields().len()),
            ..Pipeline::default()
        };
        let layouts = vec![ColumnLayout::default(); both.fields().len()];
        compile(&spec, &both, &layouts)?;
        Ok(())
    }

    fn schema(&self) -> SchemaRef {
        let fields = self.outputs.iter().map(|(_, field)| field.clone());
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Takes the batches of a join's result, one after the other.
pub type Sink<'s> = dyn FnMut(Batch) -> Result<(), Error> + 's;

/// A join under way: its build side is known, and batches of its probe side are joined with it.
#[derive(Debug)]
pub struct Joiner {
    table: Table,
    join: Join,
    /// A bit a build row that has matched; by slots where all rows of a key match alike.
    marks: Option<Buffer>,
    /// Probe rows so far, and whether one of their keys is null.
    probe_rows: u64,
    probe_null: bool,
    /// The most candidates that are looked at together.
    at_once: usize,
    /// The build rows by the value that the condition has a range of; none within: it has none. Not known yet without.
    ordered: Option<Option<Ordered>>,
}

/// The most candidates that are looked at together: their numbers are u32, with room for a grid's stride.
const MOST_AT_ONCE: usize = 1 << 30;

impl Joiner {
    /// Builds the table of `build`.
    ///
    /// Costs and errors are those of [`Table::build`].
    pub fn new(device: &Device, build: &Batch, join: Join) -> Result<Self, Error> {
        let table = match join.keys.is_empty() {
            true => Table::without_keys(device, build)?,
            false => Table::build(device, build, &join.keys)?,
        };
        Self::with_table(table, join)
    }

    /// As [`new`](Self::new) with a table that has been built, of the keys of `join`.
    pub fn with_table(table: Table, join: Join) -> Result<Self, Error> {
        let marks = match join.kind.marks(Side::Build) {
            true => Some(table.marks(join.marks_slots(), join.kind == Kind::NotIn)?),
            false => None,
        };
        Ok(Self {
            table,
            join,
            marks,
            probe_rows: 0,
            probe_null: false,
            at_once: MOST_AT_ONCE,
            ordered: None,
        })
    }

    /// Looks at no more than `most` candidates together, but for those of one probe row: the result comes in more
    /// and smaller batches.
    pub fn at_once(self, most: usize) -> Self {
        Self {
            at_once: most.clamp(1, MOST_AT_ONCE),
            ..self
        }
    }

    /// Gives what the rows of `probe` come to.
    ///
    /// A result that is larger than what the device has room for comes in several batches. Device memory, beside the
    /// result: 4 bytes a probe row and 8 a pair with unique keys; 16 a probe row otherwise, and for up to 2^28 candidates at a time 8 bytes each,
    /// with a condition a bit.
    /// Errors: [`Error::Unsupported`] for keys or a condition without a kernel, [`Error::Arithmetic`] for what they
    /// raise, and what `sink` gives.
    pub fn probe(&mut self, probe: &Batch, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.take(probe, &mut Taker::Batches(sink))
    }

    /// As [`probe`](Self::probe), but gives the numbers of the rows of both sides; for kinds that give pairs.
    pub fn probe_maps(
        &mut self,
        probe: &Batch,
        mut sink: impl FnMut(Maps) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.take(probe, &mut Taker::Maps(&mut sink))
    }

    fn take(&mut self, probe: &Batch, taker: &mut Taker<'_, '_>) -> Result<(), Error> {
        self.probe_rows += probe.rows as u64;
        if probe.rows == 0 || (self.probe_null && self.join.kind == Kind::NotIn) {
            return Ok(());
        }
        if self.table.batch.rows == 0 {
            return self.without_build_rows(probe, taker);
        }
        match self.join.keys.is_empty() {
            true => self.probe_nested(probe, taker),
            false => self.probe_table(probe, taker),
        }
    }

    /// Gives what the build side has of its own, once all probe rows have been seen.
    pub fn finish(self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let taker = &mut Taker::Batches(sink);
        let Some(marks) = &self.marks else {
            return Ok(());
        };
        let rows = self.table.batch.rows;
        if rows == 0 {
            return Ok(());
        }
        if self.join.kind == Kind::NotIn && self.probe_rows == 0 {
            let none = self.table.device.alloc_filled(bit_words_bytes(rows), 0)?;
            return self.give_matched(Side::Build, &self.table.batch, &none, taker);
        }
        if self.join.kind == Kind::NotIn && self.probe_null {
            return Ok(());
        }
        let matched = match self.join.marks_slots() {
            true => self.marks_of_rows(marks)?,
            false => marks.clone(),
        };
        match self.join.kind.one_side() {
            Some(side) => self.give_matched(side, &self.table.batch, &matched, taker),
            None => self.give_unmatched_build(&matched, taker),
        }
    }

    /// What probe rows come to where there is no build row.
    fn without_build_rows(&self, probe: &Batch, taker: &mut Taker<'_, '_>) -> Result<(), Error> {
        let none = self
            .table
            .device
            .alloc_filled(bit_words_bytes(probe.rows), 0)?;
        match self.join.kind.one_side() {
            Some(Side::Probe) => self.give_matched(Side::Probe, probe, &none, taker),
            None if self.join.kind.keeps(Side::Probe) => {
                self.give_pairs(Given::All(probe), Given::Nothing(probe.rows), taker)
            }
            _ => Ok(()),
        }
    }
}

impl Join {
    /// Whether all build rows of a key match alike, so that slots are marked, not rows.
    fn marks_slots(&self) -> bool {
        self.condition.is_none() && !self.keys.is_empty()
    }
}

/// The rows that `join` gives of `build` and `probe`, as one batch.
pub fn join(device: &Device, build: &Batch, probe: &Batch, join: &Join) -> Result<Batch, Error> {
    let schema = join.schema();
    let mut joiner = Joiner::new(device, build, join.clone())?;
    let mut batches = Vec::new();
    let mut sink = |batch: Batch| -> Result<(), Error> {
        batches.push(batch);
        Ok(())
    };
    joiner.probe(probe, &mut sink)?;
    joiner.finish(&mut sink)?;
    if batches.is_empty() {
        let empty = arrow::array::RecordBatch::new_empty(schema);
        return Batch::upload(device, &empty);
    }
    crate::gather::concat(device, &batches)
}
