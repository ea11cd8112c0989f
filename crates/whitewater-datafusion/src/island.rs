//! Islands: the parts of a plan that become one GPU node.
//!
//! ```text
//! AggregateExec (partial)         ┐
//!   ProjectionExec, FilterExec, … ├─ one Island: a predicate and expressions over the source
//!     source (a scan, any plan)   ┘
//! ```

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::Field,
    physical_expr::aggregate::AggregateFunctionExpr,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
        aggregates::{AggregateExec, AggregateMode},
    },
};
use whitewater::{
    aggregate::{Aggregate, Aggregation, Function},
    expr::Expr,
    table::{plain_schema, plain_type},
};

use crate::{rows::Rows, translate::translate};

/// A part of a plan in the engine's terms.
#[derive(Clone, Debug)]
pub(crate) struct Island {
    /// Where the rows come from: a CPU plan, or a table on the device.
    pub(crate) source: Arc<dyn ExecutionPlan>,
    pub(crate) work: Work,
    /// The same part on the CPU, over the same source.
    pub(crate) cpu: Arc<dyn ExecutionPlan>,
    /// What EXPLAIN says of it.
    pub(crate) description: String,
}

/// What an island does with its rows.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Keeps the rows for which the predicate is true, and computes the outputs.
    Select {
        predicate: Option<Expr>,
        outputs: Vec<(Expr, Field)>,
    },
    /// Aggregates them to partial states.
    Aggregate(Aggregation),
}

impl Island {
    /// The partial aggregation `partial` as an island, or why it stays on the CPU.
    pub(crate) fn aggregate(partial: &AggregateExec) -> Result<Self, String> {
        debug_assert_eq!(*partial.mode(), AggregateMode::Partial);
        if !partial.group_expr().is_single() || partial.group_expr().has_grouping_set() {
            return Err("grouping sets are not on the GPU".into());
        }
        if partial.limit_options().is_some() {
            return Err("an aggregation with a limit is not on the GPU".into());
        }
        if *partial.input_order_mode() != InputOrderMode::Linear {
            return Err("an aggregation of sorted input is not on the GPU".into());
        }
        let rows = Rows::follow(partial.input());
        let schema = partial.schema();
        let mut keys = Vec::new();
        for (index, (expr, _)) in partial.group_expr().expr().iter().enumerate() {
            let field = schema.field(index).clone();
            let data_type = plain_type(field.data_type());
            keys.push((translate(expr, &rows.columns)?, field.with_data_type(data_type)));
        }
        let mut aggregates = Vec::new();
        for (function, filter) in partial.aggr_expr().iter().zip(partial.filter_expr()) {
            let filter = filter.as_ref().map(|f| translate(f, &rows.columns)).transpose()?;
            aggregates.push(aggregate(function, filter, &rows.columns)?);
        }
        let conditions = rows.conditions();
        let aggregation = Aggregation {
            predicate: rows.predicate,
            keys,
            aggregates,
        };
        aggregation
            .check(&plain_schema(&rows.source.schema()))
            .map_err(|error| error.to_string())?;
        let keys: Vec<_> = partial.group_expr().expr().iter().map(|(_, name)| name.as_str()).collect();
        let functions: Vec<_> = partial.aggr_expr().iter().map(|f| f.name()).collect();
        let description = format!(
            "aggregate=[{}], keys=[{}]{conditions}",
            functions.join(", "),
            keys.join(", ")
        );
        Ok(Self {
            source: rows.source,
            work: Work::Aggregate(aggregation),
            cpu: Arc::new(partial.clone()),
            description,
        })
    }

    /// Whether it hands every row of its source on, and only columns that are there.
    pub(crate) fn passes_on(&self) -> bool {
        match &self.work {
            Work::Select { predicate: None, outputs } => {
                outputs.iter().all(|(expr, _)| matches!(expr, Expr::Column { .. }))
            }
            _ => false,
        }
    }

    /// The filters and projections at the top of `plan` as an island, or why they stay on the CPU.
    pub(crate) fn select(plan: &Arc<dyn ExecutionPlan>) -> Result<Self, String> {
        let rows = Rows::of_node(plan)?;
        if rows.columns.is_empty() {
            return Err("rows without columns are not on the GPU".into());
        }
        if rows.are_few() {
            return Err("the few rows of an aggregation or a limit stay on the CPU".into());
        }
        let partitions = rows.source.output_partitioning().partition_count();
        if partitions > 1 && plan.output_ordering().is_some() {
            return Err("sorted partitions stay apart on the CPU".into());
        }
        let fields = plan.schema().fields().clone();
        let outputs: Vec<(Expr, Field)> = rows
            .columns
            .iter()
            .cloned()
            .zip(fields.iter().map(|field| {
                let data_type = plain_type(field.data_type());
                field.as_ref().clone().with_data_type(data_type)
            }))
            .collect();
        whitewater::select::check(
            rows.predicate.as_ref(),
            &outputs,
            &plain_schema(&rows.source.schema()),
        )
        .map_err(|error| error.to_string())?;
        let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
        let description = format!("select=[{}]{}", names.join(", "), rows.conditions());
        Ok(Self {
            source: rows.source,
            work: Work::Select {
                predicate: rows.predicate,
                outputs,
            },
            cpu: plan.clone(),
            description,
        })
    }
}

/// One aggregate function in the engine's terms.
fn aggregate(
    expr: &AggregateFunctionExpr,
    filter: Option<Expr>,
    columns: &[Expr],
) -> Result<Aggregate, String> {
    let name = expr.fun().name();
    let unsupported = |what: &str| Err(format!("{name}{what} is not on the GPU"));
    let function = match name {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Avg,
        "min" => Function::Min,
        "max" => Function::Max,
        _ => return unsupported(""),
    };
    if expr.is_distinct() {
        return unsupported(" of distinct values");
    }
    if !expr.order_bys().is_empty() {
        return unsupported(" with an order");
    }
    let arguments = expr.expressions();
    let [argument] = arguments.as_slice() else {
        return unsupported(" of several arguments");
    };
    let argument = match translate(argument, columns)? {
        // Rows are counted without looking at a constant that is not null.
        Expr::Literal(literal) if function == Function::Count && !is_null(&literal) => None,
        other => Some(other),
    };
    let state = expr.state_fields().map_err(|error| error.to_string())?;
    Ok(Aggregate {
        function,
        argument,
        filter,
        state: state.iter().map(|field| field.as_ref().clone()).collect(),
    })
}

fn is_null(literal: &whitewater::expr::Literal) -> bool {
    matches!(literal, whitewater::expr::Literal::Null(_))
}
