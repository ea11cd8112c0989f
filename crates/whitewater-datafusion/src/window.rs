//! DataFusion's windows in the engine's terms.
//!
//! ```text
//! WindowAggExec                       ┐
//!   SortExec (per partition, or one)  ├─ one Island: sort, then the window's columns
//!     RepartitionExec: Hash           ┘
//!       source
//! ```

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::{
    common::ScalarValue,
    logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits},
    physical_expr::{
        PhysicalExpr, PhysicalSortExpr,
        aggregate::AggregateFunctionExpr,
        expressions::Literal as Constant,
        window::{
            PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
        },
    },
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr},
    },
};
use whitewater::{
    expr::{Expr, Literal},
    table::plain_type,
    window::{Edge, Frame, Function, Window, WindowColumn},
};

use crate::{
    island::{FEW, Island, Work, sort_key, sort_keys},
    rows::{Rows, below_exchange},
};

/// A window node, of either kind.
struct Node<'a> {
    columns: &'a [Arc<dyn WindowExpr>],
    input: &'a Arc<dyn ExecutionPlan>,
    is_sorted: bool,
}

impl<'a> Node<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            return Some(Self {
                columns: window.window_expr(),
                input: window.input(),
                is_sorted: true,
            });
        }
        let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
        Some(Self {
            columns: window.window_expr(),
            input: window.input(),
            is_sorted: window.input_order_mode == InputOrderMode::Sorted,
        })
    }
}

/// Whether `plan` is a window.
pub(crate) fn is_window(plan: &Arc<dyn ExecutionPlan>) -> bool {
    Node::of(plan).is_some()
}

impl Island {
    /// The window at the top of `plan`, with the sort below it, or why it stays on the CPU; none if it is no window.
    /// Where there is no sort, the rows are put in the order that they are said to have.
    pub(crate) fn window(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>, String> {
        let Some(node) = Node::of(plan) else {
            return Ok(None);
        };
        let Some(first) = node.columns.first() else {
            return Err("a window without columns is not on the GPU".into());
        };
        if !node.is_sorted {
            return Err("a window of rows out of order is not on the GPU".into());
        }
        let (order, source) = sorted_source(node.input);
        if Rows::follow(source).are_few() {
            return Err(FEW.into());
        }
        let rows = Rows::of(source);
        let window = window(&node, first.as_ref(), &rows, plan)?;
        let mut sort = match order.map(SortExec::expr).or(node.input.output_ordering()) {
            Some(order) => sort_keys(order, &rows)?,
            None => Vec::new(),
        };
        for key in window.partition.iter().chain(&window.order) {
            // What a sort leaves out is the same in all rows.
            if order.is_none() && !sort.iter().any(|known| known.expr == key.expr) {
                sort.push(key.clone());
            }
        }
        let schema = rows.source_schema();
        let checked = whitewater::sort::check(&sort, &schema).and_then(|()| window.check(&schema));
        checked.map_err(|error| error.to_string())?;
        let names: Vec<_> = node.columns.iter().map(|column| column.name()).collect();
        Ok(Some(Self {
            description: format!("window=[{}]", names.join(", ")),
            sources: vec![source.clone()],
            work: Work::Window { sort, window },
            cpu: plan.clone(),
            only_in_place: false,
        }))
    }
}

/// Whether the window `plan` takes rows that are in order without a sort.
pub(crate) fn follows_an_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    Node::of(plan).is_some_and(|node| sorted_source(node.input).0.is_none())
}

/// The sort that `input` is the rows of, if it is one, and what is below it.
fn sorted_source(input: &Arc<dyn ExecutionPlan>) -> (Option<&SortExec>, &Arc<dyn ExecutionPlan>) {
    let below = below_exchange(input);
    let sort = match below.downcast_ref::<SortPreservingMergeExec>() {
        Some(merge) if merge.fetch().is_none() => {
            let sort = merge.input().downcast_ref::<SortExec>();
            sort.filter(|sort| sort.expr() == merge.expr())
        }
        _ => below.downcast_ref::<SortExec>(),
    };
    match sort.filter(|sort| sort.fetch().is_none()) {
        Some(sort) => (Some(sort), below_exchange(sort.input())),
        None => (None, below),
    }
}

fn window(
    node: &Node<'_>,
    first: &dyn WindowExpr,
    rows: &Rows,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Window, String> {
    let partition = first.partition_by().iter().map(|expr| {
        let key = PhysicalSortExpr::new_default(expr.clone());
        sort_key(&key, rows)
    });
    let order = first.order_by().iter().map(|key| sort_key(key, rows));
    let schema = plan.schema();
    let fields = schema
        .fields()
        .iter()
        .skip(node.input.schema().fields().len());
    let columns = node.columns.iter().zip(fields).map(|(expr, field)| {
        let data_type = plain_type(field.data_type());
        let field = field.as_ref().clone().with_data_type(data_type);
        column(expr, field, rows)
    });
    Ok(Window {
        partition: partition.collect::<Result<_, _>>()?,
        order: order.collect::<Result<_, _>>()?,
        columns: columns.collect::<Result<_, _>>()?,
    })
}

fn column(expr: &Arc<dyn WindowExpr>, field: Field, rows: &Rows) -> Result<WindowColumn, String> {
    let frame = frame(expr.get_window_frame());
    let any = expr.as_any();
    if let Some(standard) = any.downcast_ref::<StandardWindowExpr>() {
        let function = standard.get_standard_func_expr();
        let function = function.as_any().downcast_ref::<WindowUDFExpr>();
        let function = function.ok_or_else(|| format!("{} is not on the GPU", expr.name()))?;
        return by_place(function, frame, field, rows);
    }
    let aggregate = if let Some(plain) = any.downcast_ref::<PlainAggregateWindowExpr>() {
        plain.get_aggregate_expr()
    } else if let Some(sliding) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
        sliding.get_aggregate_expr()
    } else {
        return Err(format!("{} is not on the GPU", expr.name()));
    };
    // DataFusion keeps the filter to itself, and shows it last.
    if !format!("{expr:?}").ends_with("filter: None }") {
        return Err(format!(
            "{} with a filter is not on the GPU",
            aggregate.fun().name()
        ));
    }
    of_frame(aggregate, frame?, field, rows)
}

/// A rank, or the value of another row.
fn by_place(
    function: &WindowUDFExpr,
    frame: Result<Frame, String>,
    field: Field,
    rows: &Rows,
) -> Result<WindowColumn, String> {
    let name = function.fun().name();
    let args = function.args();
    let unsupported = |what: &str| format!("{name}{what} is not on the GPU");
    // DataFusion keeps these to itself, and shows them last.
    if !format!("{function:?}").ends_with("is_reversed: false, ignore_nulls: false }") {
        return Err(unsupported(" that ignores nulls or runs backwards"));
    }
    let number = |index: usize| match args.get(index) {
        None => Ok(None),
        Some(arg) => match constant(arg).and_then(as_number) {
            Some(number) => Ok(Some(number)),
            None => Err(unsupported(" by such a number")),
        },
    };
    let whole = Frame {
        start: Edge::Unbounded,
        end: Edge::Unbounded,
    };
    let mut of_value = true;
    let (function, frame) = match name {
        "lag" | "lead" => {
            let by = number(1)?.unwrap_or(1);
            let by = if name == "lag" { -by } else { by };
            let default = match args.get(2) {
                None => None,
                Some(arg) => {
                    default(arg, &field, rows).ok_or_else(|| unsupported(" with such a default"))?
                }
            };
            (Function::Shift { by, default }, whole)
        }
        "first_value" => (Function::FromStart(0), frame?),
        "last_value" => (Function::FromEnd(0), frame?),
        "nth_value" => match number(1)? {
            Some(at @ 1..) => (Function::FromStart(at as u32 - 1), frame?),
            Some(at @ ..=-1) => (Function::FromEnd(at.unsigned_abs() - 1), frame?),
            _ => return Err(unsupported(" by such a number")),
        },
        _ => {
            of_value = false;
            let function = match name {
                "row_number" => Function::RowNumber,
                "rank" => Function::Rank,
                "dense_rank" => Function::DenseRank,
                "percent_rank" => Function::PercentRank,
                "cume_dist" => Function::CumeDist,
                "ntile" => match number(0)? {
                    Some(tiles @ 1..) => Function::Ntile(tiles as u32),
                    _ => return Err(unsupported(" of such a number")),
                },
                _ => return Err(unsupported("")),
            };
            (function, whole)
        }
    };
    let argument = match (of_value, args.first()) {
        (true, Some(arg)) => Some(rows.translate(arg)?),
        (true, None) => return Err(unsupported(" without an argument")),
        _ => None,
    };
    Ok(WindowColumn {
        function,
        argument,
        frame,
        field,
    })
}

/// What the rows of frames come to.
fn of_frame(
    aggregate: &AggregateFunctionExpr,
    frame: Frame,
    field: Field,
    rows: &Rows,
) -> Result<WindowColumn, String> {
    let name = aggregate.fun().name();
    let function = match name {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Avg,
        "min" => Function::Min,
        "max" => Function::Max,
        _ => return Err(format!("{name} over a window is not on the GPU")),
    };
    if aggregate.is_distinct() {
        return Err(format!("{name} of distinct values is not on the GPU"));
    }
    let arguments = aggregate.expressions();
    let [argument] = arguments.as_slice() else {
        return Err(format!("{name} of several arguments is not on the GPU"));
    };
    let counts_rows =
        function == Function::Count && constant(argument).is_some_and(|value| !value.is_null());
    Ok(WindowColumn {
        function,
        argument: match counts_rows {
            true => None,
            false => Some(rows.translate(argument)?),
        },
        frame,
        field,
    })
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    Some(expr.downcast_ref::<Constant>()?.value())
}

fn as_number(value: &ScalarValue) -> Option<i32> {
    match value.cast_to(&arrow::datatypes::DataType::Int64).ok()? {
        ScalarValue::Int64(Some(number)) => number.try_into().ok(),
        _ => None,
    }
}

/// The default of a shifted value: none in the inner option if it is null, in the outer if it has no GPU form.
fn default(expr: &Arc<dyn PhysicalExpr>, field: &Field, rows: &Rows) -> Option<Option<Literal>> {
    let value = constant(expr)?;
    if value.is_null() {
        return Some(None);
    }
    let typed = value.cast_to(field.data_type()).ok()?;
    let typed: Arc<dyn PhysicalExpr> = Arc::new(Constant::new(typed));
    match rows.translate(&typed).ok()? {
        Expr::Literal(literal) => Some(Some(literal)),
        _ => None,
    }
}

fn frame(frame: &WindowFrame) -> Result<Frame, String> {
    let of_rows = frame.units == WindowFrameUnits::Rows;
    let edge = |bound: &WindowFrameBound| {
        let (by, sign) = match bound {
            WindowFrameBound::CurrentRow if of_rows => return Ok(Edge::Rows(0)),
            WindowFrameBound::CurrentRow => return Ok(Edge::Peers),
            WindowFrameBound::Preceding(by) => (by, -1),
            WindowFrameBound::Following(by) => (by, 1),
        };
        if by.is_null() {
            return Ok(Edge::Unbounded);
        }
        match as_number(by).filter(|_| of_rows) {
            Some(by) => Ok(Edge::Rows(sign * by)),
            None => Err(format!("a frame of {frame} is not on the GPU")),
        }
    };
    Ok(Frame {
        start: edge(&frame.start_bound)?,
        end: edge(&frame.end_bound)?,
    })
}
