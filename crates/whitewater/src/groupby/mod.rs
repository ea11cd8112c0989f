//! Grouped aggregation by hash.
//!
//! ```text
//! Batch ──sample──▶ tier, windows, table size
//!       ──predicate, keys, arguments (compiled)──▶ states in workgroup memory ─┐
//!                                               └▶ states in a global table  ◀─┘
//!       (rows apart by hash first, where the table outgrows the cache)
//!       ──collect, emit──▶ Batch of key columns and partial state columns
//!       ──rows by group, for what atomics do not merge (`ordered.rs`)──▶ more state columns
//! ```
//!
//! Every sum is of integers (floats are summed exactly, in fixed point), so the order of atomics
//! never shows, and other merges have a fixed order: the same data gives the same answer on every run. The order of the groups is not
//! defined.

mod apart;
mod emit;
mod ordered;
mod run;
pub(crate) mod states;
mod tiers;

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema},
};
use whitewater_gpu::Device;

use crate::{
    Batch, Error,
    aggregate::{Accumulators, Aggregation, Flavour},
    expr::Expr,
    keys::Keys,
    pipeline::{Compiled, describe},
};
use run::{Run, Table};

/// The largest table that is tried.
const MOST_SLOTS: u32 = 1 << 30;

/// The groups of `batch`: key columns, then the partial state of each aggregate; null equals null.
///
/// Extra device memory: for a table of `s` slots (twice the estimated groups, as a power of two) and
/// states of `w` words `s * (20 + 8 w)` bytes, 4 bytes a group, 1 MiB for the estimate, and 4 bytes for each of up to 4M
/// deferred rows beyond `s`. For aggregates that atomics do not merge (see [`Function`](crate::aggregate::Function)), 20
/// bytes a row, 4 a slot and `8 * w` for each group and for each 16 rows besides; for a median what
/// [`sorted_order`](crate::sort::sorted_order) takes. Where the table outgrows the cache, a copy of the columns that are used (two with a
/// predicate), and 8 bytes a row, if there is room.
///
/// Errors: [`Error::Unsupported`] for a key or an aggregate without a kernel or for more groups than
/// the largest table holds, [`Error::Arithmetic`] for what a row's expression raises.
pub fn group(device: &Device, batch: &Batch, aggregation: &Aggregation) -> Result<Batch, Error> {
    if !device.info().features.int64_atomics {
        return Err(Error::unsupported("grouping without 64-bit atomics"));
    }
    if let Some((sorted, over)) = aggregation.in_order(device, batch)? {
        return gather_groups(device, &sorted, &over, false);
    }
    if aggregation.predicate.is_some() && aggregation.needs_all_rows() {
        // Values are put in order, and those of rows that are not taken may have none.
        let (taken, over) = aggregation.taken(device, batch)?;
        return gather_groups(device, &taken, &over, false);
    }
    gather_groups(device, batch, aggregation, false)
}

/// As [`group`], of rows that may be `apart` by their keys already.
fn gather_groups(
    device: &Device,
    batch: &Batch,
    aggregation: &Aggregation,
    apart: bool,
) -> Result<Batch, Error> {
    let keys = Keys::plan(&aggregation.keys, batch)?;
    let is_ordered = aggregation.needs_rows_in_order(|expr| describe(expr, batch))?;
    let which = |ordered: bool| {
        let aggregates = aggregation.aggregates.iter().zip(&is_ordered);
        let those = aggregates.filter(move |(_, is_ordered)| **is_ordered == ordered);
        those.map(|(a, _)| a.clone()).collect::<Vec<_>>()
    };
    let (by_atomics, in_order) = (which(false), which(true));
    // Rows are told by their numbers in this batch.
    let movable = !in_order.iter().any(|a| a.function.tells_rows());
    let mut every = false;
    let mut windows = 1;
    let mut least_slots = 0;
    loop {
        let plan = Accumulators::plan(&by_atomics, Flavour::Grouped, windows, |expr| {
            describe(expr, batch)
        })?;
        if batch.rows == 0 {
            return empty(device, aggregation);
        }
        let mut values = keys.values.clone();
        values.extend(plan.values());
        let compiled = Compiled::new(device, batch, aggregation.predicate.as_ref(), values)?;
        let mut run = Run {
            device,
            batch,
            compiled: &compiled,
            keys: &keys,
            plan: &plan,
            texts: [plan.text(), keys.text()],
            local: None,
        };
        let findings = run.sample(every)?;
        if findings.windows != windows {
            // The layout of states depends on the windows: plan again with the right number.
            windows = findings.windows;
            if !every {
                every = !plan.floats().is_empty();
            }
            continue;
        }
        run.local = tiers::local(device.info(), &plan, findings.groups);
        let slots = tiers::table_slots(findings.groups).max(least_slots);
        if !apart
            && movable
            && tiers::outgrows_cache(device.info(), slots, &plan)
            && let Some((parted, over)) = apart::by_keys(device, batch, aggregation)?
        {
            return gather_groups(device, &parted, &over, true);
        }
        let mut table = Table::new(device, slots, batch.rows as u64, &plan, &findings.bases)?;
        run.gather(&table)?;
        let (mut status, mut listed) = run.collect(&table)?;
        while status.deferred > 0 && !status.lost && !status.outside && table.slots < MOST_SLOTS {
            let slots = table.slots * 4;
            table = run.grow(&table, slots, status.deferred, &findings.bases)?;
            (status, listed) = run.collect(&table)?;
        }
        compiled.check()?;
        if status.outside {
            every = true;
            continue;
        }
        if status.lost || status.deferred > 0 {
            if table.slots >= MOST_SLOTS {
                return Err(Error::unsupported(format!(
                    "grouping into more than {MOST_SLOTS} groups"
                )));
            }
            least_slots = table.slots.saturating_mul(8).min(MOST_SLOTS);
            continue;
        }
        let groups = status.groups as usize;
        let emitted = emit::emit(&run, &table, &listed, groups)?;
        if in_order.is_empty() || groups == 0 {
            return match groups {
                0 => empty(device, aggregation),
                _ => Ok(emitted),
            };
        }
        let states = ordered::states(&run, &table, &listed, groups, &in_order)?;
        let keys = aggregation.keys.len();
        return ordered::beside(emitted, keys, &aggregation.aggregates, &is_ordered, states);
    }
}

/// The distinct rows of `batch`, in no defined order: null equals null, and both zeros of floats are 0.0.
///
/// Costs and errors are those of [`group`] by all columns.
pub fn distinct(device: &Device, batch: &Batch) -> Result<Batch, Error> {
    let aggregation = Aggregation {
        keys: batch.outputs(),
        ..Aggregation::default()
    };
    group(device, batch, &aggregation)
}

/// How many distinct values `expr` has over `batch`, nulls aside: SQL's `count(DISTINCT expr)`.
///
/// Costs and errors are those of [`group`] by it.
pub fn count_distinct(device: &Device, batch: &Batch, expr: &Expr) -> Result<usize, Error> {
    let data_type = match expr {
        Expr::Column { index } => batch.schema.field(*index).data_type().clone(),
        other => other.check(&batch.schema)?,
    };
    let aggregation = Aggregation {
        predicate: Some(Expr::IsNotNull(Box::new(expr.clone()))),
        keys: vec![(expr.clone(), Field::new("value", data_type, true))],
        aggregates: Vec::new(),
    };
    Ok(group(device, batch, &aggregation)?.rows)
}

/// No groups, with the right columns.
fn empty(device: &Device, aggregation: &Aggregation) -> Result<Batch, Error> {
    let mut fields: Vec<Field> = Vec::new();
    fields.extend(aggregation.keys.iter().map(|(_, field)| field.clone()));
    for aggregate in &aggregation.aggregates {
        fields.extend(aggregate.group_state());
    }
    let schema = Arc::new(Schema::new(fields));
    Batch::upload(device, &RecordBatch::new_empty(schema))
}
