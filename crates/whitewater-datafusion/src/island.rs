//! Islands: the parts of a plan that become one GPU node.
//!
//! ```text
//! AggregateExec (partial)         ┐
//!   ProjectionExec, FilterExec, … ├─ one Island: a predicate and expressions over the source
//!     source (a scan, any plan)   ┘
//! ```

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{Field, Schema},
    physical_expr::{LexOrdering, PhysicalSortExpr, aggregate::AggregateFunctionExpr},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
        aggregates::{AggregateExec, AggregateMode},
        coalesce_partitions::CoalescePartitionsExec,
        filter::FilterExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        union::UnionExec,
    },
};
use whitewater::{
    aggregate::{Aggregate, Aggregation, Function},
    expr::Expr,
    join::Join,
    sort::SortKey,
    table::plain_type,
    window::Window,
};

use crate::{
    GpuTableExec,
    finish::Finish,
    join::is_join,
    rows::{Rows, below_exchange},
};

/// A part of a plan in the engine's terms.
#[derive(Clone, Debug)]
pub(crate) struct Island {
    /// Where the rows come from: CPU plans, tables on the device, other islands.
    pub(crate) sources: Vec<Arc<dyn ExecutionPlan>>,
    pub(crate) work: Work,
    /// The same part on the CPU, over the same source.
    pub(crate) cpu: Arc<dyn ExecutionPlan>,
    /// What EXPLAIN says of it.
    pub(crate) description: String,
    /// Whether its rows are worth no round trip to the device: they are few, or nothing is done to them.
    pub(crate) only_in_place: bool,
}

/// Why an island of few rows stays on the CPU.
pub(crate) const FEW: &str = "the few rows of an aggregation or a limit stay on the CPU";

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
    /// Aggregates them, and finishes the groups.
    Groups(Aggregation, Finish),
    /// Puts all of them in order, and keeps the first `fetch`.
    Sort {
        keys: Vec<SortKey>,
        fetch: Option<usize>,
    },
    /// Puts all of them in order, and computes the window's columns beside theirs.
    Window { sort: Vec<SortKey>, window: Window },
    /// Leaves out the first `skip`, and keeps `fetch` of the others.
    Limit { skip: usize, fetch: Option<usize> },
    /// Those of all sources.
    Union,
    /// Joins the rows of the first source with those of the second.
    Join(Join),
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
            keys.push((rows.translate(expr)?, field.with_data_type(data_type)));
        }
        let mut aggregates = Vec::new();
        for (function, filter) in partial.aggr_expr().iter().zip(partial.filter_expr()) {
            let filter = filter.as_ref().map(|f| rows.translate(f)).transpose()?;
            aggregates.push(aggregate(function, filter, &rows)?);
        }
        let conditions = rows.conditions();
        let source_schema = rows.source_schema();
        let aggregation = Aggregation {
            predicate: rows.predicate,
            keys,
            aggregates,
        };
        if let Err(error) = aggregation.check(&source_schema) {
            return Err(blame(partial, &aggregation, &source_schema, &error));
        }
        let keys: Vec<_> = partial
            .group_expr()
            .expr()
            .iter()
            .map(|(_, name)| name.as_str())
            .collect();
        let functions: Vec<_> = partial.aggr_expr().iter().map(|f| f.name()).collect();
        let description = format!(
            "aggregate=[{}], keys=[{}]{conditions}",
            functions.join(", "),
            keys.join(", ")
        );
        Ok(Self {
            sources: vec![rows.source],
            work: Work::Aggregate(aggregation),
            cpu: Arc::new(partial.clone()),
            description,
            only_in_place: false,
        })
    }

    /// The island of a partial aggregation with the end of the `whole` one, if the device can do that.
    pub(crate) fn finished(&self, whole: &AggregateExec) -> Option<Self> {
        let Work::Aggregate(aggregation) = &self.work else {
            return None;
        };
        if whole.limit_options().is_some() {
            return None;
        }
        let finish = Finish::of(aggregation, &whole.schema())?;
        Some(Self {
            work: Work::Groups(aggregation.clone(), finish),
            cpu: Arc::new(whole.clone()),
            description: format!("{}, finished", self.description),
            ..self.clone()
        })
    }

    /// The filters and projections at the top of `plan` as an island, or why they stay on the CPU.
    pub(crate) fn select(plan: &Arc<dyn ExecutionPlan>) -> Result<Self, String> {
        let rows = Rows::of_node(plan)?;
        // Columns of a resident table are passed on where they are, for the nodes above.
        let resident = rows.source.downcast_ref::<GpuTableExec>().is_some();
        if rows.columns.is_empty() {
            return Err("rows without columns are not on the GPU".into());
        }
        let only_in_place = rows.are_few() || (rows.pass_on() && !resident);
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
        whitewater::select::check(rows.predicate.as_ref(), &outputs, &rows.source_schema())
            .map_err(|error| error.to_string())?;
        let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
        let description = format!("select=[{}]{}", names.join(", "), rows.conditions());
        Ok(Self {
            sources: vec![rows.source],
            work: Work::Select {
                predicate: rows.predicate,
                outputs,
            },
            cpu: plan.clone(),
            description,
            only_in_place,
        })
    }

    /// The sort at the top of `plan`, with the merge of its sorted partitions if there is one, or why it stays
    /// on the CPU; none if `plan` is no sort. `together`: sorted partitions may become one.
    pub(crate) fn sort(
        plan: &Arc<dyn ExecutionPlan>,
        together: bool,
    ) -> Result<Option<Self>, String> {
        let merge = plan.downcast_ref::<SortPreservingMergeExec>();
        let sort = match merge {
            Some(merge) => merge.input().downcast_ref::<SortExec>(),
            None => plan.downcast_ref::<SortExec>(),
        };
        let Some(sort) = sort else {
            return Ok(None);
        };
        let source = below_exchange(sort.input());
        let only_in_place = Rows::follow(source).are_few();
        // A merge's own fetch is of rows that its input has cut already.
        let fetch = merge.and_then(SortPreservingMergeExec::fetch);
        let fetch = [fetch, sort.fetch()].into_iter().flatten().min();
        if only_in_place && fetch.is_none() {
            return Err(FEW.into());
        }
        let same_order = merge.is_none_or(|merge| merge.expr() == sort.expr());
        let apart = plan.output_partitioning().partition_count() > 1 && !together;
        if !same_order || apart {
            return Err("sorted partitions stay apart on the CPU".into());
        }
        let rows = Rows::of(source);
        let schema = rows.source_schema();
        let keys = sort_keys(sort.expr(), &rows)?;
        whitewater::sort::check(&keys, &schema).map_err(|error| error.to_string())?;
        let first = fetch.map_or(String::new(), |rows| format!(", fetch={rows}"));
        Ok(Some(Self {
            description: format!("sort=[{}]{first}", sort.expr()),
            sources: vec![source.clone()],
            work: Work::Sort { keys, fetch },
            cpu: plan.clone(),
            only_in_place,
        }))
    }

    /// The limit at the top of `plan`, if it is one.
    pub(crate) fn limit(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (input, skip, fetch) = if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            (limit.input(), limit.skip(), limit.fetch())
        } else if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
            (limit.input(), 0, Some(limit.fetch()))
        } else {
            let merge = plan.downcast_ref::<CoalescePartitionsExec>()?;
            (merge.input(), 0, Some(merge.fetch()?))
        };
        Some(Self::first_rows(plan, input, skip, fetch))
    }

    /// The end of the filter or join at the top of `plan`, if it ends early; its source is the same without that.
    pub(crate) fn early_end(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let known = plan.downcast_ref::<FilterExec>().is_some() || is_join(plan);
        let fetch = plan.fetch().filter(|_| known)?;
        Some(Self::first_rows(
            plan,
            &plan.with_fetch(None)?,
            0,
            Some(fetch),
        ))
    }

    /// `plan`, whose rows are put in the order that it says they have.
    pub(crate) fn in_order(
        plan: &Arc<dyn ExecutionPlan>,
        order: &LexOrdering,
    ) -> Result<Self, String> {
        let rows = Rows::of(plan);
        let keys = sort_keys(order, &rows)?;
        whitewater::sort::check(&keys, &rows.source_schema()).map_err(|error| error.to_string())?;
        Ok(Self {
            description: format!("sort=[{order}]"),
            sources: vec![plan.clone()],
            work: Work::Sort { keys, fetch: None },
            cpu: plan.clone(),
            only_in_place: false,
        })
    }

    fn first_rows(
        plan: &Arc<dyn ExecutionPlan>,
        input: &Arc<dyn ExecutionPlan>,
        skip: usize,
        fetch: Option<usize>,
    ) -> Self {
        let fetched = fetch.map_or(String::new(), |rows| format!(", fetch={rows}"));
        Self {
            description: format!("limit: skip={skip}{fetched}"),
            sources: vec![input.clone()],
            work: Work::Limit { skip, fetch },
            cpu: plan.clone(),
            only_in_place: false,
        }
    }

    /// The union at the top of `plan`, if it is one.
    pub(crate) fn union(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let union = plan.downcast_ref::<UnionExec>()?;
        Some(Self {
            description: "union".into(),
            sources: union.inputs().clone(),
            work: Work::Union,
            cpu: plan.clone(),
            only_in_place: false,
        })
    }
}

/// `order` over the columns of `rows`.
pub(crate) fn sort_keys(order: &LexOrdering, rows: &Rows) -> Result<Vec<SortKey>, String> {
    order.iter().map(|key| sort_key(key, rows)).collect()
}

pub(crate) fn sort_key(key: &PhysicalSortExpr, rows: &Rows) -> Result<SortKey, String> {
    Ok(SortKey {
        expr: rows.translate(&key.expr)?,
        descending: key.options.descending,
        nulls_first: key.options.nulls_first,
    })
}

/// Why `aggregation` stays on the CPU, with the name of the aggregate that is at fault if one is.
fn blame(
    partial: &AggregateExec,
    aggregation: &Aggregation,
    schema: &Schema,
    error: &whitewater::Error,
) -> String {
    let alone = |aggregate: &Aggregate| Aggregation {
        aggregates: vec![aggregate.clone()],
        ..Aggregation::default()
    };
    let mut functions = partial.aggr_expr().iter().zip(&aggregation.aggregates);
    match functions.find(|(_, aggregate)| alone(aggregate).check(schema).is_err()) {
        Some((function, _)) => format!("{}: {error}", function.name()),
        None => error.to_string(),
    }
}

/// One aggregate function in the engine's terms.
fn aggregate(
    expr: &AggregateFunctionExpr,
    filter: Option<Expr>,
    rows: &Rows,
) -> Result<Aggregate, String> {
    let name = expr.fun().name();
    let unsupported = |what: &str| Err(format!("{name}{what} is not on the GPU"));
    let skip_nulls = expr.ignore_nulls();
    let function = match name {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Avg,
        "min" => Function::Min,
        "max" => Function::Max,
        "bool_and" => Function::All,
        "bool_or" => Function::Any,
        "bit_and" => Function::BitAnd,
        "bit_or" => Function::BitOr,
        "bit_xor" => Function::BitXor,
        "var" | "var_pop" | "stddev" | "stddev_pop" => Function::Variance,
        "first_value" => Function::First { skip_nulls },
        "last_value" => Function::Last { skip_nulls },
        "median" => Function::Median,
        _ => return unsupported(""),
    };
    if expr.is_distinct() {
        return unsupported(" of distinct values");
    }
    let ends = matches!(function, Function::First { .. } | Function::Last { .. });
    if !ends && !expr.order_bys().is_empty() {
        return unsupported(" with an order");
    }
    let order = expr.order_bys().iter().map(|key| sort_key(key, rows));
    let arguments = expr.expressions();
    let [argument] = arguments.as_slice() else {
        return unsupported(" of several arguments");
    };
    let argument = match rows.translate(argument)? {
        // Rows are counted without looking at a constant that is not null.
        Expr::Literal(literal) if function == Function::Count && !is_null(&literal) => None,
        other => Some(other),
    };
    let state = expr.state_fields().map_err(|error| error.to_string())?;
    Ok(Aggregate {
        function,
        argument,
        filter,
        order: order.collect::<Result<_, _>>()?,
        state: state.iter().map(|field| field.as_ref().clone()).collect(),
    })
}

fn is_null(literal: &whitewater::expr::Literal) -> bool {
    matches!(literal, whitewater::expr::Literal::Null(_))
}
