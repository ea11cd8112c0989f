//! States that no atomic merges (products, bits, moments, rows): rows stand in the order of their groups, and states
//! are merged in registers.
//!
//! ```text
//! complete table ──number──▶ a group a row ──stable sort──▶ rows by group
//!     ──merge tasks of a few rows──▶ states ──merge tasks of a few states──▶ … ──▶ a state a group
//! ```
//!
//! A group of any size is many tasks, so one that most rows have costs no more than others; the order of merges
//! follows from the rows alone, so float results are the same on every run.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::{Buffer, Shader};

use super::{
    emit::{UNORDER, state_words},
    run::{Run, Table},
};
use crate::{
    Batch, Column, Error,
    aggregate::{Accumulators, Aggregate, Flavour, Function, StateColumn, state::Encoding},
    expr::Expr,
    gather::gather_or_null,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    pipeline::{Compiled, describe},
    scan::exclusive_sums,
    select::{filter_project, output::Output},
    sort::{SortKey, order_by_number, sorted_order},
    table::{plain_type, u32_columns},
};

/// Rows or states that one invocation merges.
const FAN: u32 = 32;

/// How many tasks the items of each group are, and where each group's items and tasks begin.
struct Level {
    starts: Buffer,
    tasks: Buffer,
    count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    items: u32,
    groups: u32,
    to: u32,
    from_state: u32,
}

/// The columns of state of `aggregates` for the `groups` groups of the complete `table` that `listed` lists.
///
/// Moves the key columns, 36 bytes a row and the columns of the arguments, which are read in the order of groups.
pub(super) fn states(
    run: &Run<'_>,
    table: &Table,
    listed: &Buffer,
    groups: usize,
    aggregates: &[Aggregate],
) -> Result<Vec<(Field, Column)>, Error> {
    let Run { device, batch, .. } = *run;
    let plan = Accumulators::plan(aggregates, Flavour::Private, 1, |expr| {
        describe(expr, batch)
    })?;
    let compiled = Compiled::new(device, batch, None, plan.values())?;
    let groups = groups as u32;
    let merging = Merging {
        run,
        groups,
        plan: &plan,
        compiled: &compiled,
        shader: compiled
            .specialise(Shader::new(&LIBRARY, "package::groupby::ordered"))
            .generated("package::accumulators", plan.text())
            .constant("SIZE", "u32", WORKGROUP)
            .constant("FAN", "u32", FAN),
    };
    let numbers = run.number_rows(table, listed, groups)?;
    // The sort uses up its numbers.
    let kept = match aggregates.iter().any(|a| a.function == Function::Median) {
        true => {
            let kept = device.alloc(numbers.len())?;
            device.copy(&numbers, &kept, numbers.len())?;
            Some(kept)
        }
        false => None,
    };
    let (partials, starts) = merging.merge(numbers)?;
    compiled.check()?;
    merging.columns(
        &partials,
        &Places {
            numbers: kept,
            starts,
        },
    )
}

/// Where the rows of groups are.
struct Places {
    /// The group of each row, where values are put in order within groups.
    numbers: Option<Buffer>,
    /// The first of each group's places among rows in the order of groups.
    starts: Buffer,
}

struct Merging<'a> {
    run: &'a Run<'a>,
    groups: u32,
    plan: &'a Accumulators,
    compiled: &'a Compiled,
    shader: Shader,
}

impl Merging<'_> {
    /// A state a group, of rows whose groups are `numbers`, and where each group's rows begin.
    fn merge(&self, numbers: Buffer) -> Result<(Buffer, Buffer), Error> {
        let device = self.run.device;
        let rows = self.run.batch.rows;
        let sorted = order_by_number(device, numbers, rows, self.groups)?;
        let order = sorted.order()?;
        let starts = device.alloc(u64::from(self.groups + 1) * 4)?;
        // Where rows begin that are in no group, if there are such.
        device.write(
            &starts,
            u64::from(self.groups) * 4,
            &(rows as u32).to_le_bytes(),
        )?;
        self.launch(
            "find_starts",
            false,
            rows as u32,
            [0; 2],
            [&sorted.keys, &starts, &starts, &order, &order],
        )?;
        drop(sorted);

        let mut levels = vec![self.level(starts)?];
        while let Some(last) = levels.last()
            && last.count > self.groups
        {
            levels.push(self.level(last.tasks.clone())?);
        }
        // States go to and fro between two places, and end up in the first.
        let (even, odd) = (levels.len().is_multiple_of(2), levels.len() > 1);
        let first = levels[usize::from(even)].count;
        let second = if odd {
            levels[usize::from(!even)].count
        } else {
            0
        };
        let states = u64::from(first) + u64::from(second);
        let words = u64::from(self.plan.words.max(1));
        if states * words > u64::from(u32::MAX) {
            return Err(Error::unsupported(format!(
                "{states} states of {words} words"
            )));
        }
        let partials = device.alloc(states * words * 8)?;
        for (number, level) in levels.iter().enumerate() {
            let to_second = (levels.len() - 1 - number) % 2 == 1;
            let [to, from] = if to_second { [first, 0] } else { [0, first] };
            self.launch(
                "merge_items",
                number == 0,
                level.count,
                [to, from],
                [&order, &level.starts, &level.tasks, &order, &partials],
            )?;
        }
        let starts = levels.swap_remove(0).starts;
        Ok((partials.shrunk(u64::from(self.groups) * words * 8)?, starts))
    }

    /// The tasks of groups whose items begin at `starts`. Waits for how many there are.
    fn level(&self, starts: Buffer) -> Result<Level, Error> {
        let device = self.run.device;
        let tasks = device.alloc(starts.len())?;
        self.launch(
            "count_tasks",
            false,
            self.groups,
            [0; 2],
            [&starts, &starts, &tasks, &starts, &starts],
        )?;
        let tasks = exclusive_sums(device, &tasks, self.groups as usize + 1)?;
        let last = tasks.download_range(u64::from(self.groups) * 4, 4)?;
        let count = bytemuck::pod_read_unaligned(&last);
        Ok(Level {
            starts,
            tasks,
            count,
        })
    }

    fn launch(
        &self,
        entry: &str,
        of_rows: bool,
        items: u32,
        [to, from_state]: [u32; 2],
        [numbers, starts, tasks, order, partials]: [&Buffer; 5],
    ) -> Result<(), Error> {
        let device = self.run.device;
        let shader = self.shader.clone().feature("ROWS", of_rows);
        let kernel = device.kernel(&shader, entry)?;
        self.compiled
            .bind(kernel.launch())
            .bind(0, 1, partials)
            .bind(0, 3, numbers)
            .bind(0, 4, starts)
            .bind(0, 5, tasks)
            .bind(0, 6, order)
            .params(&Params {
                items,
                groups: self.groups,
                to,
                from_state,
            })
            .moves(u64::from(items) * 4 + if of_rows { self.compiled.bytes() } else { 0 })
            .run(grid(device, u64::from(items) + 1, WORKGROUP.into()))?;
        Ok(())
    }

    /// The columns of state that `partials` hold.
    fn columns(&self, partials: &Buffer, places: &Places) -> Result<Vec<(Field, Column)>, Error> {
        let device = self.run.device;
        let groups = self.groups as usize;
        let mut output = Output::new(device, groups);
        output.import(UNORDER);
        output.declaration(
            "@group(0) @binding(2) var<storage, read> partials: array<u64>;\n\
             @group(0) @binding(3) var<storage, read> starts: array<u32>;\n\
             fn load(word: u32) -> u64 { return partials[word]; }\n",
        );
        let mut orders = Vec::new();
        output.line(format!("let state = row * {}u;", self.plan.words));
        let mut written = Vec::new();
        for (index, column) in self.plan.state.iter().enumerate() {
            let word = format!("load(state + {}u)", column.word);
            if let Encoding::Picked { last, .. } = column.encoding {
                let row = row_number(&word, last);
                let none = u32::MAX;
                let numbers =
                    output.numbers(&format!("select({none}u, u32({row}), {word} != 0lu)"))?;
                written.push(Out::Rows(vec![numbers]));
                continue;
            }
            if let Encoding::Middle { argument } = column.encoding {
                let order = format!("order{}", orders.len());
                output.declaration(&format!(
                    "@group(0) @binding({}) var<storage, read> {order}: array<u32>;\n",
                    4 + orders.len()
                ));
                orders.push(self.in_order_of(&self.plan.looked_up[argument], places)?);
                let (none, n) = (u32::MAX, format!("u32({word})"));
                // A group has a row at least.
                let lower = format!("{order}[starts[row] + (max({n}, 1u) - 1u) / 2u]");
                let upper = format!("{order}[starts[row] + {n} / 2u]");
                written.push(Out::Rows(vec![
                    output.numbers(&format!("select({none}u, {lower}, {n} > 0u)"))?,
                    output.numbers(&format!(
                        "select({none}u, {upper}, {n} > 0u && {n} % 2u == 0u)"
                    ))?,
                ]));
                continue;
            }
            let (low, high) = match column.encoding {
                Encoding::Seen => (format!("select(0u, 1u, {word} != 0lu)"), String::new()),
                Encoding::Row { last } => (row_number(&word, last), String::new()),
                Encoding::WideOrdered { minimum } => {
                    let flip = if minimum { "~" } else { "" };
                    let high = format!("load(state + {}u)", column.word + 1);
                    (
                        format!("{flip}{word}"),
                        format!("unorder_i64({flip}{high})"),
                    )
                }
                Encoding::Plain if is_narrow(column) => (format!("u32({word})"), String::new()),
                _ => state_words(&mut output, index, column, self.plan)?,
            };
            let valid = column
                .seen
                .map(|seen| format!("load(state + {seen}u) != 0lu"));
            let data_type = column.field.data_type();
            written.push(Out::Column(output.column(
                data_type,
                &low,
                &high,
                valid.as_deref(),
            )?));
        }
        let mut bound = vec![(0, 2, partials), (0, 3, &places.starts)];
        bound.extend(
            (4..)
                .zip(&orders)
                .map(|(binding, order)| (0, binding, order)),
        );
        output.evaluate(groups, None, |shader| shader, &bound)?;
        let mut columns = Vec::new();
        for (column, out) in self.plan.state.iter().zip(written) {
            let field = column.field.as_ref().clone();
            let (maps, argument) = match (out, column.encoding) {
                (
                    Out::Rows(maps),
                    Encoding::Picked { argument, .. } | Encoding::Middle { argument },
                ) => (maps, argument),
                (Out::Column(written), _) => {
                    columns.push((field.clone(), output.take(written, field.data_type())));
                    continue;
                }
                _ => return Err(Error::unsupported("a state that is looked up")),
            };
            for map in maps {
                let field = match field.data_type() {
                    DataType::List(item) => field.clone().with_data_type(item.data_type().clone()),
                    _ => field.clone(),
                };
                let map = &output.buffers[map];
                let values = self.picked(&self.plan.looked_up[argument], &field, map)?;
                columns.push((field.with_data_type(values.data_type.clone()), values));
            }
        }
        Ok(columns)
    }

    /// The rows of all groups by the value of `expr`, nulls last.
    fn in_order_of(&self, expr: &Expr, places: &Places) -> Result<Buffer, Error> {
        let Run { device, batch, .. } = *self.run;
        let numbers = places.numbers.as_ref();
        let numbers = numbers.ok_or_else(|| Error::unsupported("an order without groups"))?;
        let mut numbered = batch.clone();
        let group = u32_columns([numbers], batch.rows);
        let fields = batch.schema.fields().iter().chain(group.schema.fields());
        numbered.schema = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        numbered.columns.extend(group.columns);
        let keys = [Expr::column(batch.columns.len()), expr.clone()].map(|expr| SortKey {
            expr,
            descending: false,
            nulls_first: false,
        });
        sorted_order(device, &numbered, &keys)
    }

    /// The values of `expr` in the rows of `map`, one a group.
    fn picked(&self, expr: &Expr, field: &Field, map: &Buffer) -> Result<Column, Error> {
        let Run { device, batch, .. } = *self.run;
        let mut columns = Vec::new();
        expr.visit_columns(&mut |index| columns.push(index));
        columns.sort_unstable();
        columns.dedup();
        let place = |index: usize| columns.partition_point(|column| *column < index);
        let moved = expr.renumbered(&place);
        let rows = gather_or_null(device, &batch.project(&columns)?, map, self.groups as usize)?;
        let data_type = plain_type(field.data_type());
        let field = field.clone().with_data_type(data_type);
        let mut values = filter_project(device, &rows, None, &[(moved, field)])?;
        Ok(values.columns.remove(0))
    }
}

/// What is written of a column of state: itself, or the rows that its values are looked up in.
enum Out {
    Column(crate::select::output::Written),
    Rows(Vec<usize>),
}

/// The row that `word` stands for, as WGSL: [`row_of`](crate::aggregate::state::row_of).
fn row_number(word: &str, last: bool) -> String {
    match last {
        true => format!("({word} - 1lu)"),
        false => format!("~{word}"),
    }
}

/// Whether values have fewer bits than a word.
fn is_narrow(column: &StateColumn) -> bool {
    let width = column.field.data_type().primitive_width();
    width.is_some_and(|width| width < 8)
}

/// The rows of `states` beside the columns of `groups`: each aggregate's columns where `is_ordered` says they are from.
pub(super) fn beside(
    groups: Batch,
    keys: usize,
    aggregates: &[Aggregate],
    is_ordered: &[bool],
    states: Vec<(Field, Column)>,
) -> Result<Batch, Error> {
    let fields: Vec<Field> = groups
        .schema
        .fields()
        .iter()
        .map(|f| f.as_ref().clone())
        .collect();
    let mut table = fields.into_iter().zip(groups.columns);
    let mut columns: Vec<(Field, Column)> = table.by_ref().take(keys).collect();
    let mut states = states.into_iter();
    for (aggregate, ordered) in aggregates.iter().zip(is_ordered) {
        let width = aggregate.group_state().len();
        match ordered {
            true => columns.extend(states.by_ref().take(width)),
            false => columns.extend(table.by_ref().take(width)),
        }
    }
    let (fields, columns): (Vec<Field>, Vec<Column>) = columns.into_iter().unzip();
    Ok(Batch {
        schema: Arc::new(Schema::new(fields)),
        columns,
        rows: groups.rows,
    })
}
