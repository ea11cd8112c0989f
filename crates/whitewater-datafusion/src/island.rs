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
        ExecutionPlan, InputOrderMode,
        aggregates::{AggregateExec, AggregateMode},
        coalesce_partitions::CoalescePartitionsExec,
        filter::FilterExec,
        projection::ProjectionExec,
        repartition::RepartitionExec,
    },
};
use whitewater::{
    aggregate::{Aggregate, Aggregation, Function},
    expr::{Expr, Op},
    table::{plain_schema, plain_type},
};

use crate::translate::translate;

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

/// Filters and projections over a source, as expressions over the source.
struct Rows {
    source: Arc<dyn ExecutionPlan>,
    columns: Vec<Expr>,
    predicate: Option<Expr>,
    /// The predicates as DataFusion prints them.
    predicates: Vec<String>,
}

impl Rows {
    fn of(source: &Arc<dyn ExecutionPlan>) -> Self {
        Self {
            source: source.clone(),
            columns: (0..source.schema().fields().len()).map(Expr::column).collect(),
            predicate: None,
            predicates: Vec::new(),
        }
    }

    /// Follows `plan` down as far as its nodes can be expressed.
    fn follow(plan: &Arc<dyn ExecutionPlan>) -> Self {
        if plan.fetch().is_some() {
            return Self::of(plan);
        }
        if let Some(input) = passes_rows_on(plan) {
            return Self::follow(input);
        }
        let followed = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            Self::follow(filter.input()).filter(filter)
        } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            Self::follow(projection.input()).project(projection)
        } else {
            Err(String::new())
        };
        followed.unwrap_or_else(|_| Self::of(plan))
    }

    fn filter(mut self, filter: &FilterExec) -> Result<Self, String> {
        let predicate = translate(filter.predicate(), &self.columns)?;
        self.check(&predicate)?;
        self.predicates.push(filter.predicate().to_string());
        self.predicate = Some(match self.predicate {
            Some(earlier) => earlier.binary(Op::And, predicate),
            None => predicate,
        });
        if let Some(projection) = filter.projection() {
            self.columns = projection.iter().map(|i| self.columns[*i].clone()).collect();
        }
        Ok(self)
    }

    fn project(mut self, projection: &ProjectionExec) -> Result<Self, String> {
        let columns = projection
            .expr()
            .iter()
            .map(|output| translate(&output.expr, &self.columns))
            .collect::<Result<Vec<_>, String>>()?;
        for expr in &columns {
            // A bare column may be of any type: it is only passed on.
            if !matches!(expr, Expr::Column { .. }) {
                self.check(expr)?;
            }
        }
        self.columns = columns;
        Ok(self)
    }

    fn check(&self, expr: &Expr) -> Result<(), String> {
        let schema = plain_schema(&self.source.schema());
        expr.check(&schema).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// The input of a node that only moves rows between partitions.
pub(crate) fn passes_rows_on(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(node) = plan.downcast_ref::<CoalescePartitionsExec>() {
        return Some(node.input());
    }
    if let Some(node) = plan.downcast_ref::<RepartitionExec>() {
        let keeps_order = node.maintains_input_order().contains(&true);
        return (!keeps_order).then(|| node.input());
    }
    None
}

/// As [`passes_rows_on`], but for the exchange between a partial and a final aggregation.
pub(crate) fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match passes_rows_on(plan) {
        Some(input) => below_exchange(input),
        None => plan,
    }
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
        let aggregation = Aggregation {
            predicate: rows.predicate,
            keys,
            aggregates,
        };
        aggregation
            .check(&plain_schema(&rows.source.schema()))
            .map_err(|error| error.to_string())?;
        let names = |names: Vec<String>| names.join(", ");
        let keys = partial.group_expr().expr().iter().map(|(_, name)| name.clone());
        let functions = partial.aggr_expr().iter().map(|f| f.name().to_string());
        let mut description = format!(
            "aggregate=[{}], keys=[{}]",
            names(functions.collect()),
            names(keys.collect())
        );
        if !rows.predicates.is_empty() {
            description.push_str(&format!(", predicate={}", rows.predicates.join(" AND ")));
        }
        Ok(Self {
            source: rows.source,
            work: Work::Aggregate(aggregation),
            cpu: Arc::new(partial.clone()),
            description,
        })
    }

    /// The filters and projections at the top of `plan` as an island, if they compute anything.
    pub(crate) fn select(plan: &Arc<dyn ExecutionPlan>) -> Result<Self, String> {
        let rows = Rows::follow(plan);
        let computes = rows.predicate.is_some()
            || rows.columns.iter().any(|c| !matches!(c, Expr::Column { .. }));
        if !computes {
            return Err("it only passes columns on".into());
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
        let mut description = String::from("select=[");
        let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
        description.push_str(&names.join(", "));
        description.push(']');
        if !rows.predicates.is_empty() {
            description.push_str(&format!(", predicate={}", rows.predicates.join(" AND ")));
        }
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
