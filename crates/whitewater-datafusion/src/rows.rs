//! Filters and projections as expressions over the plan below them.
//!
//! ```text
//! ProjectionExec: [a + 1]      columns:   [#0 + 1]
//!   FilterExec: b > 2      ─▶  predicate: #1 > 2
//!     source                   source
//! ```

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::{
    physical_expr::PhysicalExpr,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        placeholder_row::PlaceholderRowExec,
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};
use whitewater::{
    expr::{Expr, Op},
    table::plain_schema,
};

use crate::translate::translate;

/// The rows of a plan in terms of a plan further down.
pub(crate) struct Rows {
    pub(crate) source: Arc<dyn ExecutionPlan>,
    /// The columns, over those of the source.
    pub(crate) columns: Vec<Expr>,
    /// Which of the source's rows there are; all if none.
    pub(crate) predicate: Option<Expr>,
    /// The predicates as DataFusion prints them.
    predicates: Vec<String>,
}

impl Rows {
    /// The rows of `source`, as they are.
    pub(crate) fn of(source: &Arc<dyn ExecutionPlan>) -> Self {
        Self {
            source: source.clone(),
            columns: (0..source.schema().fields().len())
                .map(Expr::column)
                .collect(),
            predicate: None,
            predicates: Vec::new(),
        }
    }

    /// The rows of `plan`, followed down as far as its nodes can be expressed.
    pub(crate) fn follow(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self::of_node(plan).unwrap_or_else(|_| Self::of(plan))
    }

    /// As [`follow`](Self::follow), but the topmost node must be expressed: else, the reason why it
    /// cannot be.
    pub(crate) fn of_node(plan: &Arc<dyn ExecutionPlan>) -> Result<Self, String> {
        if plan.fetch().is_some() {
            return Err("a limit is not on the GPU".into());
        }
        if let Some(input) = passes_rows_on(plan) {
            return Ok(Self::follow(input));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return Self::follow(filter.input()).filter(filter);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            return Self::follow(projection.input()).project(projection);
        }
        Err(format!("{} is not on the GPU", plan.name()))
    }

    fn filter(mut self, filter: &FilterExec) -> Result<Self, String> {
        let predicate = self.translate(filter.predicate())?;
        self.check(&predicate)?;
        self.predicates.push(filter.predicate().to_string());
        self.predicate = Some(match self.predicate {
            Some(earlier) => earlier.binary(Op::And, predicate),
            None => predicate,
        });
        if let Some(projection) = filter.projection() {
            self.columns = projection
                .iter()
                .map(|i| self.columns[*i].clone())
                .collect();
        }
        Ok(self)
    }

    fn project(mut self, projection: &ProjectionExec) -> Result<Self, String> {
        let columns = projection
            .expr()
            .iter()
            .map(|output| self.translate(&output.expr))
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

    /// An expression over these rows as one over the source's.
    pub(crate) fn translate(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr, String> {
        translate(expr, &self.columns, &self.source_schema())
    }

    /// The schema of the source on the device.
    pub(crate) fn source_schema(&self) -> SchemaRef {
        plain_schema(&self.source.schema())
    }

    fn check(&self, expr: &Expr) -> Result<(), String> {
        expr.check(&self.source_schema())
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    /// Whether there is nothing to do: every row of the source is there, and only columns of the
    /// source, or the source is the one row of a query without a table.
    pub(crate) fn pass_on(&self) -> bool {
        if self.source.downcast_ref::<PlaceholderRowExec>().is_some() {
            return true;
        }
        let columns = self
            .columns
            .iter()
            .all(|c| matches!(c, Expr::Column { .. }));
        columns && self.predicate.is_none()
    }

    /// Whether the source ends with an aggregation or a limit, so that a round trip to the device
    /// costs more than the work.
    pub(crate) fn are_few(&self) -> bool {
        let mut plan = &self.source;
        loop {
            let sorted = plan.downcast_ref::<SortExec>().map(SortExec::input);
            let merged = plan
                .downcast_ref::<SortPreservingMergeExec>()
                .map(SortPreservingMergeExec::input);
            let limited = plan.downcast_ref::<GlobalLimitExec>().is_some()
                || plan.downcast_ref::<LocalLimitExec>().is_some();
            if limited || (sorted.or(merged).is_some() && plan.fetch().is_some()) {
                return true;
            }
            match sorted.or(merged).or_else(|| passes_rows_on(plan)) {
                Some(input) => plan = input,
                None => return plan.downcast_ref::<AggregateExec>().is_some(),
            }
        }
    }

    /// The predicates for EXPLAIN.
    pub(crate) fn conditions(&self) -> String {
        match self.predicates.as_slice() {
            [] => String::new(),
            predicates => format!(", predicate={}", predicates.join(" AND ")),
        }
    }
}

/// The input of a node that only passes rows on, maybe to other partitions, without keeping an order that more
/// than one of them has.
pub(crate) fn passes_rows_on(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(node) = plan.downcast_ref::<CoalescePartitionsExec>() {
        return Some(node.input());
    }
    if let Some(node) = plan.downcast_ref::<CooperativeExec>() {
        return Some(node.input());
    }
    let node = plan.downcast_ref::<RepartitionExec>()?;
    let one = node.input().output_partitioning().partition_count() == 1;
    (one || !node.preserve_order()).then(|| node.input())
}

/// The first plan below `plan` that does more than to move rows between partitions.
pub(crate) fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match passes_rows_on(plan) {
        Some(input) => below_exchange(input),
        None => plan,
    }
}
