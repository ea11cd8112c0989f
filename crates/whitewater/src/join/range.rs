//! Joins by a range: where a condition compares a value of the build side with values of the probe side (`a < b`,
//! `a BETWEEN b AND c`), the build rows that can pass are neighbours in the order of that value. They are found by
//! bisection and then tried as candidates, as those with an equal key are.

use arrow::{
    array::AsArray,
    datatypes::{DataType, Field, Int64Type},
};
use whitewater_gpu::{Buffer, Device, Shader};

use super::{Joiner, Side, candidates::Runs, emit::Taker, table::Sides};
use crate::{
    Batch, Error,
    aggregate::{Aggregate, Aggregation, Function, reduce},
    expr::{DeviceType, Expr, Op},
    pipeline::{Compiled, describe},
    select::output::Output,
    sort::{SortKey, sorted_order},
};

/// From so many pairs on, which a nested loop tests in about 2.5 ms on an H200, ranges are looked for.
const LEAST_PAIRS: u64 = 1 << 30;
const SOFTWARE_LEAST_PAIRS: u64 = 1 << 8;
/// A candidate costs as much as so many pairs of a nested loop: on an H200 50 G candidates and 430 G pairs a second.
const COST: u64 = 8;

/// What a condition says of one value of the build side, in the terms of the probe side.
#[derive(Debug)]
struct Range {
    value: Expr,
    /// `value op end`, all of which are true of a pair that passes.
    ends: Vec<(Op, Expr)>,
}

/// The build rows by a range's value.
#[derive(Debug)]
pub(super) struct Ordered {
    range: Range,
    kind: DeviceType,
    /// Words that order as the values do, without those of nulls.
    words: Buffer,
    /// The row of each.
    order: Buffer,
}

/// The parts of `condition`, all of which are true where it is.
fn parts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::Binary {
            op: Op::And,
            left,
            right,
        } => [parts(left), parts(right)].concat(),
        other => vec![other],
    }
}

/// The side whose columns alone `expr` has.
fn side_of(expr: &Expr, first_of_probe: usize) -> Option<Side> {
    let mut sides = Vec::new();
    expr.visit_columns(&mut |index| {
        sides.push(match index < first_of_probe {
            true => Side::Build,
            false => Side::Probe,
        });
    });
    let first = *sides.first()?;
    sides.iter().all(|side| *side == first).then_some(first)
}

impl Range {
    /// The range that most comparisons of `condition` are about, over the columns of the build side, then the probe's.
    fn of(condition: &Expr, first_of_probe: usize) -> Option<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for part in parts(condition) {
            let Expr::Binary { op, left, right } = part else {
                continue;
            };
            let turned = match op {
                Op::Lt => Op::Gt,
                Op::Le => Op::Ge,
                Op::Gt => Op::Lt,
                Op::Ge => Op::Le,
                _ => continue,
            };
            let sides = [left, right].map(|expr| side_of(expr, first_of_probe));
            let (op, value, end) = match sides {
                [Some(Side::Build), Some(Side::Probe)] => (*op, left, right),
                [Some(Side::Probe), Some(Side::Build)] => (turned, right, left),
                _ => continue,
            };
            let end = end.renumbered(&|index| index - first_of_probe);
            match ranges.iter_mut().find(|range| range.value == **value) {
                Some(range) => range.ends.push((op, end)),
                None => ranges.push(Self {
                    value: value.as_ref().clone(),
                    ends: vec![(op, end)],
                }),
            }
        }
        // The first of several with as many.
        ranges
            .into_iter()
            .rev()
            .max_by_key(|range| range.ends.len())
    }
}

/// Whether words order as values of this kind do, one a value.
fn has_order(kind: DeviceType) -> bool {
    !matches!(kind, DeviceType::Bool | DeviceType::I128)
}

impl Ordered {
    /// The rows of `build` in the order that `condition` asks for, if it asks for one.
    pub(super) fn new(
        device: &Device,
        build: &Batch,
        condition: &Expr,
    ) -> Result<Option<Self>, Error> {
        let Some(range) = Range::of(condition, build.columns.len()) else {
            return Ok(None);
        };
        let kind = describe(&range.value, build)?.device;
        if !has_order(kind) {
            return Ok(None);
        }
        let rows = count(device, build, &range.value)?;
        if rows == 0 {
            return Ok(None);
        }
        let key = SortKey {
            expr: range.value.clone(),
            descending: false,
            nulls_first: false,
        };
        let order = sorted_order(device, build, &[key])?;
        let values = vec![("value".to_string(), range.value.clone())];
        let compiled = Compiled::new(device, build, None, values)?;
        let mut output = Output::new(device, rows);
        let word = words(&mut output, &compiled, kind).remove(0).1;
        let written = output.column(&DataType::UInt64, &word, "", None)?;
        output.evaluate(
            rows,
            Some(&order),
            |shader| compiled.specialise(shader),
            &compiled.bound(),
        )?;
        compiled.check()?;
        Ok(Some(Self {
            range,
            kind,
            words: output.data(written).clone(),
            order,
        }))
    }

    /// Whether the ends are of the same kind as the values in `probe`, whose decimals may be wider.
    fn fits(&self, build: &Batch, probe: &Batch) -> Result<bool, Error> {
        let value = describe(&self.range.value, build)?;
        for (_, end) in &self.range.ends {
            let end = describe(end, probe)?;
            if end.device != self.kind || end.data_type != value.data_type {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// How many values of `expr` are not null.
fn count(device: &Device, batch: &Batch, expr: &Expr) -> Result<usize, Error> {
    let aggregation = Aggregation {
        aggregates: vec![Aggregate {
            function: Function::Count,
            argument: Some(expr.clone()),
            filter: None,
            order: Vec::new(),
            state: vec![Field::new("count", DataType::Int64, false)],
        }],
        ..Aggregation::default()
    };
    let counted = reduce(device, batch, &aggregation)?;
    Ok(counted.column(0).as_primitive::<Int64Type>().value(0) as usize)
}

/// Loads the values of `compiled`, which are of one `kind`, into `output`: for each whether it is valid, and its word that
/// orders, as WGSL.
fn words(output: &mut Output<'_>, compiled: &Compiled, kind: DeviceType) -> Vec<(String, String)> {
    let map = format!("order_{}", kind.name());
    output.import(&format!("import package::kernels::order::{map};\n"));
    let values = compiled.generated.values.iter();
    let loaded = values.map(|value| {
        let (name, option) = (&value.function, format!("{}Option", value.alias));
        output.import(&format!(
            "import package::generated::{{{name}, {option}}};\n"
        ));
        output.load(name, &option, &format!("{name}(row)"));
        (format!("v.{name}.valid"), format!("{map}(v.{name}.value)"))
    });
    loaded.collect()
}

impl Joiner {
    /// Joins `probe` by a range, if the condition has one that leaves few candidates; tells whether it has.
    pub(super) fn probe_by_range(
        &mut self,
        probe: &Batch,
        taker: &mut Taker<'_, '_>,
    ) -> Result<bool, Error> {
        let device = self.table.device.clone();
        let pairs = probe.rows as u64 * self.table.batch.rows as u64;
        let least = match device.info().software {
            true => SOFTWARE_LEAST_PAIRS,
            false => LEAST_PAIRS,
        };
        let Some(condition) = self.join.condition.clone().filter(|_| pairs >= least) else {
            return Ok(false);
        };
        let sides = Sides::new(&self.table, Some(probe), Some(&condition))?;
        // A pair out of the range might raise an error too.
        if sides.compiled.generated.raises {
            return Ok(false);
        }
        if self.ordered.is_none() {
            self.ordered = Some(Ordered::new(&device, &self.table.batch, &condition)?);
        }
        let Some(Some(ordered)) = &self.ordered else {
            return Ok(false);
        };
        if !ordered.fits(&self.table.batch, probe)? {
            return Ok(false);
        }
        let runs = self.find_ranges(ordered, probe)?;
        if self.candidates(&runs)? > pairs / COST {
            return Ok(false);
        }
        self.give_candidates(&sides, probe, runs, taker)?;
        Ok(true)
    }

    /// The runs of candidates of each probe row.
    fn find_ranges(&self, ordered: &Ordered, probe: &Batch) -> Result<Runs, Error> {
        let device = &self.table.device;
        let ends = ordered.range.ends.iter().enumerate();
        let values = ends.map(|(i, (_, end))| (format!("end{i}"), end.clone()));
        let compiled = Compiled::new(device, probe, None, values.collect())?;
        // A word behind the counts, for their sum.
        let mut output = Output::new(device, probe.rows + 1);
        output.import("import package::join::range::{cut_above, cut_below, length, whole};\n");
        let mut span = String::from("whole()");
        let words = words(&mut output, &compiled, ordered.kind);
        for ((op, _), (valid, word)) in ordered.range.ends.iter().zip(words) {
            let cut = match op {
                Op::Lt | Op::Le => "cut_above",
                _ => "cut_below",
            };
            let equal = matches!(op, Op::Le | Op::Ge);
            span = format!("{cut}({span}, {valid}, {word}, {equal})");
        }
        output.line(format!("let span = {span};"));
        let starts = output.numbers("span.start")?;
        let counts = output.numbers(match self.join.kind.keeps(Side::Probe) {
            // One more, without a build row, for where none passes.
            true => "length(span) + 1u",
            false => "length(span)",
        })?;
        let mut bound = compiled.bound();
        bound.push((0, 2, &ordered.words));
        output.evaluate(
            probe.rows,
            None,
            |shader: Shader| compiled.specialise(shader),
            &bound,
        )?;
        compiled.check()?;
        Ok(Runs {
            starts: output.buffers[starts].clone(),
            counts: output.buffers[counts].clone(),
            order: Some(ordered.order.clone()),
            rows: probe.rows,
            first: 0,
        })
    }
}
