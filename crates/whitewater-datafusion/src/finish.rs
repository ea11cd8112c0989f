//! Groups finished on the device: partial states are merged by a second aggregation, and become the groups' values.
//!
//! ```text
//! batch ──group──▶ partial states ─┐
//! batch ──group──▶ partial states ─┴─concat, group (merge)──▶ states ──project──▶ values
//! ```

use arrow::datatypes::{DECIMAL128_MAX_SCALE, DataType, Field, Schema};
use whitewater::{
    Batch, Error,
    aggregate::{Aggregate, Aggregation, Function},
    expr::{Expr, Literal, Op},
    gather::concat,
    gpu::Device,
    groupby::group,
    select::filter_project,
    table::plain_type,
};

/// How states become values.
#[derive(Clone, Debug)]
pub(crate) struct Finish {
    /// Of the states of several batches, one state a group.
    merge: Aggregation,
    /// Keys and values, over a row of state.
    outputs: Vec<(Expr, Field)>,
}

impl Finish {
    /// For the groups of `aggregation`, which become rows of `schema`; none where DataFusion alone can finish them.
    pub(crate) fn of(aggregation: &Aggregation, schema: &Schema) -> Option<Self> {
        let keys = aggregation.keys.len();
        if keys == 0 || keys + aggregation.aggregates.len() != schema.fields().len() {
            return None;
        }
        let mut at = keys;
        let mut aggregates = Vec::new();
        let mut values: Vec<Expr> = (0..keys).map(Expr::column).collect();
        for aggregate in &aggregation.aggregates {
            let sum = |index: usize| merged(Function::Sum, at + index, &aggregate.state[index]);
            match (aggregate.function, aggregate.state.as_slice()) {
                (Function::Count | Function::Sum, [_]) => {
                    aggregates.push(sum(0));
                    values.push(Expr::column(at));
                }
                (Function::Avg, [count, total]) if *count.data_type() == DataType::UInt64 => {
                    aggregates.extend([sum(0), sum(1)]);
                    let value = schema.field(values.len()).data_type();
                    values.push(mean(at, total.data_type(), value)?);
                }
                (
                    Function::Min
                    | Function::Max
                    | Function::Any
                    | Function::All
                    | Function::BitAnd
                    | Function::BitOr
                    | Function::BitXor,
                    [state],
                ) => {
                    aggregates.push(merged(aggregate.function, at, state));
                    values.push(Expr::column(at));
                }
                _ => return None,
            }
            at += aggregate.state.len();
        }
        let fields = schema.fields().iter().map(|field| {
            let data_type = plain_type(field.data_type());
            field.as_ref().clone().with_data_type(data_type)
        });
        let outputs: Vec<(Expr, Field)> = values.into_iter().zip(fields).collect();
        let keys = aggregation.keys.iter().map(|(_, field)| field.clone());
        let states = aggregation.aggregates.iter().flat_map(|a| a.state.clone());
        let states = Schema::new(keys.chain(states).collect::<Vec<_>>());
        whitewater::select::check(None, &outputs, &states).ok()?;
        let keys = aggregation.keys.iter().enumerate();
        Some(Self {
            merge: Aggregation {
                predicate: None,
                keys: keys
                    .map(|(index, (_, field))| (Expr::column(index), field.clone()))
                    .collect(),
                aggregates,
            },
            outputs,
        })
    }

    /// The groups of which `batches` hold states, in no defined order.
    pub(crate) fn run(&self, device: &Device, batches: &[Batch]) -> Result<Batch, Error> {
        let states = concat(device, batches)?;
        let states = match batches.len() {
            // The groups of one batch are apart.
            1 => states,
            _ => group(device, &states, &self.merge)?,
        };
        filter_project(device, &states, None, &self.outputs)
    }
}

/// The mean of which the count stands in column `at` and the sum, of type `total`, behind it.
fn mean(at: usize, total: &DataType, value: &DataType) -> Option<Expr> {
    let divisor = match total {
        DataType::Float64 => DataType::Float64,
        // All counts fit; the quotient then has DataFusion's scale, four digits more, and is cut off as there.
        DataType::Decimal128(_, scale) if *scale <= DECIMAL128_MAX_SCALE - 4 => {
            DataType::Decimal128(20, 0)
        }
        _ => return None,
    };
    let any = Expr::column(at).binary(Op::Gt, Expr::Literal(Literal::UInt64(0)));
    let quotient = Expr::column(at + 1).binary(Op::Div, Expr::column(at).cast(divisor));
    Some(Expr::Case {
        when_then: vec![(any, quotient.cast(value.clone()))],
        otherwise: None,
    })
}

/// The aggregate that merges the states in column `index`.
fn merged(function: Function, index: usize, state: &Field) -> Aggregate {
    Aggregate {
        function,
        argument: Some(Expr::column(index)),
        filter: None,
        order: Vec::new(),
        state: vec![state.clone()],
    }
}
