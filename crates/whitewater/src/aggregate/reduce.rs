//! The reduction of a whole batch to one row of partial state.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ListArray, RecordBatch, new_null_array},
    buffer::OffsetBuffer,
    datatypes::{Field, Schema},
};
use whitewater_gpu::{Device, Shader};

use super::{
    Accumulators, Aggregation, Flavour, StateColumn,
    state::{Encoding, row_of},
};
use crate::{
    Batch, Error,
    expr::Expr,
    gather::slice,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    pipeline::{Compiled, describe},
    select::filter_project,
    sort::values_at,
    table::plain_type,
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    count: u32,
}

/// The partial state of the ungrouped aggregates over `batch`: one row on the host, also for an
/// empty batch; in one pass over the columns, but for medians.
///
/// Extra device memory: `8 * w * min(rows / 2048, 16 * multiprocessors)` bytes for states of `w` words; for each
/// median what [`quantiles`](crate::sort::quantiles) takes; for first and last values in an order, a copy of the rows and
/// what [`sort`](crate::sort::sort) takes.
/// Errors: [`Error::Unsupported`] for an aggregate without a kernel, [`Error::Arithmetic`] for what
/// a row's expression raises, and for a checked sum that its type does not hold.
pub fn reduce(
    device: &Device,
    batch: &Batch,
    aggregation: &Aggregation,
) -> Result<RecordBatch, Error> {
    if let Some((sorted, over)) = aggregation.in_order(device, batch)? {
        return reduce_rows(device, &sorted, &over);
    }
    reduce_rows(device, batch, aggregation)
}

/// As [`reduce`], of rows in the order that they are to be taken in.
fn reduce_rows(
    device: &Device,
    batch: &Batch,
    aggregation: &Aggregation,
) -> Result<RecordBatch, Error> {
    let plan = Accumulators::plan(&aggregation.aggregates, Flavour::Private, 1, |expr| {
        describe(expr, batch)
    })?;
    let compiled = Compiled::new(device, batch, aggregation.predicate.as_ref(), plan.values())?;
    let shader = compiled
        .specialise(Shader::new(&LIBRARY, "package::aggregate::reduce"))
        .generated("package::accumulators", plan.text());
    let words = if batch.rows == 0 {
        vec![0; plan.words as usize]
    } else {
        // Eight rows an invocation at least: fewer would spend the time on merging.
        let count = grid(device, batch.rows as u64, u64::from(WORKGROUP) * 8);
        let state_bytes = u64::from(plan.words.max(1)) * 8;
        let partials = device.alloc(u64::from(count) * state_bytes)?;
        let params = Params {
            rows: batch.rows as u32,
            count,
        };
        for (entry, workgroups, bytes) in [
            ("rows", count, compiled.bytes()),
            ("finish", 1, partials.len()),
        ] {
            let kernel = device.kernel(&shader, entry)?;
            compiled
                .bind(kernel.launch())
                .bind(0, 1, &partials)
                .params(&params)
                .moves(bytes)
                .run(workgroups)?;
        }
        let bytes = partials.download_range(0, state_bytes)?;
        bytes
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned)
            .collect()
    };
    compiled.check()?;
    let reduction = Reduction {
        device,
        batch,
        predicate: aggregation.predicate.as_ref(),
        plan: &plan,
    };
    let columns = plan.state.iter();
    let columns = columns.map(|column| reduction.column(column, &words));
    let columns = columns.collect::<Result<Vec<ArrayRef>, Error>>()?;
    let fields: Vec<_> = plan
        .state
        .iter()
        .zip(&columns)
        .map(|(column, array)| {
            let field = column.field.as_ref().clone();
            field.with_data_type(array.data_type().clone())
        })
        .collect();
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}

/// What the columns of state are made from.
struct Reduction<'a> {
    device: &'a Device,
    batch: &'a Batch,
    predicate: Option<&'a Expr>,
    plan: &'a Accumulators,
}

impl Reduction<'_> {
    /// The one row of a column of state.
    fn column(&self, column: &StateColumn, words: &[u64]) -> Result<ArrayRef, Error> {
        match column.encoding {
            Encoding::Picked { argument, last } => {
                let row = row_of(words[column.word as usize], last);
                self.value(column.field.as_ref(), &self.plan.looked_up[argument], row)
            }
            Encoding::Middle { argument } => {
                let value = &self.plan.looked_up[argument];
                let of_taken = self.predicate.map(|predicate| Expr::Case {
                    when_then: vec![(predicate.clone(), value.clone())],
                    otherwise: None,
                });
                let value = of_taken.as_ref().unwrap_or(value);
                let middle = values_at(self.device, self.batch, value, |count| {
                    // One value twice is not two values.
                    let ends = [count.saturating_sub(1) / 2, count / 2];
                    match count {
                        0 => Vec::new(),
                        _ if ends[0] == ends[1] => vec![ends[0]],
                        _ => ends.to_vec(),
                    }
                })?;
                let item = Arc::new(Field::new_list_field(middle.data_type().clone(), true));
                let offsets = OffsetBuffer::from_lengths([middle.len()]);
                Ok(Arc::new(ListArray::try_new(item, offsets, middle, None)?))
            }
            _ => column.row(words),
        }
    }

    /// The value of `expr` in `row`; null without one.
    fn value(&self, field: &Field, expr: &Expr, row: Option<usize>) -> Result<ArrayRef, Error> {
        let field = field.clone().with_data_type(plain_type(field.data_type()));
        let Some(row) = row else {
            return Ok(new_null_array(field.data_type(), 1));
        };
        let row = slice(self.device, self.batch, row, 1)?;
        let value = filter_project(self.device, &row, None, &[(expr.clone(), field)])?;
        Ok(value.download()?.column(0).clone())
    }
}
