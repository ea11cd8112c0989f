//! The operators on resident columns: reductions, expressions, filters, group-by.

use arrow::datatypes::{DataType, Field};
use whitewater::{
    Batch,
    aggregate::{Aggregate, Aggregation, Function, reduce},
    expr::{Expr, Literal, Op},
    groupby::{distinct, group},
    select::filter_project,
};

use super::{
    Case, Context, MakeCase, Measurement,
    inputs::{Input, batch},
    timed,
};

/// Rows of the recorded peers' cases.
pub(super) const ROWS: u64 = 100_000_000;
pub(super) const REDUCE_ROWS: u64 = 500_000_000;

/// A case that runs `work` on one batch; `work` gives the rows of its result. `bytes` is 0 where no number of
/// bytes must be moved.
pub(super) fn case(
    name: impl Into<String>,
    rows: u64,
    inputs: Vec<Input>,
    bytes: impl Fn(u64) -> u64 + 'static,
    work: impl Fn(&Batch) -> Result<u64, whitewater::Error> + 'static,
) -> MakeCase {
    prepared_case(name, rows, inputs, bytes, Ok, work)
}

/// As [`case`], of what `prepare` makes of the inputs beforehand.
pub(super) fn prepared_case(
    name: impl Into<String>,
    rows: u64,
    inputs: Vec<Input>,
    bytes: impl Fn(u64) -> u64 + 'static,
    prepare: impl Fn(Batch) -> Result<Batch, whitewater::Error> + 'static,
    work: impl Fn(&Batch) -> Result<u64, whitewater::Error> + 'static,
) -> MakeCase {
    let name = name.into();
    Box::new(move |context: &Context| {
        let device = context.device.clone();
        let rows = context.rows_or(rows);
        let batch = prepare(batch(&device, rows, &inputs)?)?;
        Ok(Case {
            name,
            run: Box::new(move || {
                let (elapsed, out) = timed(&device, || work(&batch))?;
                Ok(Measurement {
                    elapsed,
                    rows_out: Some(out),
                    bytes: Some(bytes(rows)).filter(|bytes| *bytes > 0),
                })
            }),
        })
    })
}

fn aggregate(function: Function, column: usize, state: &[DataType]) -> Aggregate {
    Aggregate {
        function,
        argument: Some(Expr::column(column)),
        filter: None,
        order: Vec::new(),
        state: state
            .iter()
            .map(|data_type| Field::new("state", data_type.clone(), true))
            .collect(),
    }
}

pub(super) fn long(low: i64, high: i64) -> Input {
    Input::Int64 { low, high }
}

/// Sums and minima of whole columns.
pub fn reductions(_: &Context) -> Vec<MakeCase> {
    let one = |name: &str, input: Input, function: Function, state: DataType| {
        case(
            name,
            REDUCE_ROWS,
            vec![input],
            |rows| rows * 8,
            move |batch| {
                let aggregation = Aggregation {
                    aggregates: vec![aggregate(function, 0, std::slice::from_ref(&state))],
                    ..Aggregation::default()
                };
                reduce_rows(batch, &aggregation)
            },
        )
    };
    vec![
        one(
            "reduce sum i64 500M",
            long(-1000, 1000),
            Function::Sum,
            DataType::Int64,
        ),
        one(
            "reduce min i64 500M",
            long(-1000, 1000),
            Function::Min,
            DataType::Int64,
        ),
        one(
            "reduce sum f64 500M",
            Input::Float64,
            Function::Sum,
            DataType::Float64,
        ),
    ]
}

fn reduce_rows(batch: &Batch, aggregation: &Aggregation) -> Result<u64, whitewater::Error> {
    let device = device_of(batch)?;
    Ok(reduce(&device, batch, aggregation)?.num_rows() as u64)
}

/// The device that holds a batch.
pub(super) fn device_of(batch: &Batch) -> Result<whitewater::gpu::Device, whitewater::Error> {
    let buffer = batch.columns.first().and_then(|column| match &column.data {
        whitewater::Storage::Fixed(buffer) | whitewater::Storage::Bits(buffer) => Some(buffer),
        _ => None,
    });
    match buffer {
        Some(buffer) => Ok(buffer.device().clone()),
        None => Err(whitewater::Error::unsupported("a batch without buffers")),
    }
}

/// Expressions over whole columns.
pub fn expressions(_: &Context) -> Vec<MakeCase> {
    let column = Expr::column;
    let product = column(0)
        .binary(Op::Mul, column(1))
        .binary(Op::Add, column(2));
    let half = Expr::Literal(Literal::Float64(0.5));
    let both = column(0)
        .binary(Op::Lt, column(1))
        .binary(Op::And, column(2).binary(Op::Gt, half));
    let floats = || vec![Input::Float64, Input::Float64, Input::Float64];
    let one = |name: &str, expr: Expr, data_type: DataType, bytes: fn(u64) -> u64| {
        case(name, ROWS, floats(), bytes, move |batch| {
            let outputs = [(expr.clone(), Field::new("out", data_type.clone(), true))];
            let out = filter_project(&device_of(batch)?, batch, None, &outputs)?;
            Ok(out.rows as u64)
        })
    };
    vec![
        one("expr a*b+c JIT", product, DataType::Float64, |rows| {
            rows * 32
        }),
        one("expr (a<b)&(c>.5) JIT", both, DataType::Boolean, |rows| {
            rows * 24 + rows / 8
        }),
    ]
}

/// Filters by a mask column and by a compiled predicate.
pub fn filters(_: &Context) -> Vec<MakeCase> {
    let mut cases = Vec::new();
    for share in [0.01, 0.1, 0.5, 0.9] {
        for columns in [1usize, 4] {
            let mut inputs = vec![Input::Boolean { share }];
            inputs.extend((0..columns).map(|_| long(0, 1 << 40)));
            cases.push(case(
                format!("filter mask {share} {columns}col"),
                ROWS,
                inputs,
                move |rows| rows / 8 + (rows as f64 * (1.0 + share)) as u64 * 8 * columns as u64,
                move |batch| select(batch, &Expr::column(0), 1..=columns),
            ));
        }
    }
    for share in [0.1, 0.5, 0.9] {
        let limit = (share * (1u64 << 40) as f64) as i64;
        cases.push(case(
            format!("filter predicate {share} 1col"),
            ROWS,
            vec![long(0, 1 << 40)],
            move |rows| (rows as f64 * (1.0 + share)) as u64 * 8,
            move |batch| {
                let limit = Expr::Literal(Literal::Int64(limit));
                select(batch, &Expr::column(0).binary(Op::Lt, limit), 0..=0)
            },
        ));
    }
    cases
}

fn select(
    batch: &Batch,
    predicate: &Expr,
    columns: std::ops::RangeInclusive<usize>,
) -> Result<u64, whitewater::Error> {
    let outputs: Vec<(Expr, Field)> = columns
        .map(|index| (Expr::column(index), batch.schema.field(index).clone()))
        .collect();
    let out = filter_project(&device_of(batch)?, batch, Some(predicate), &outputs)?;
    Ok(out.rows as u64)
}

/// Grouped sums, and several aggregates at once, at growing cardinalities.
pub fn groups(_: &Context) -> Vec<MakeCase> {
    let mut cases = Vec::new();
    for groups in [10i64, 1000, 100_000, 10_000_000, 50_000_000] {
        let keyed = |name: String, value: Input, aggregates: Vec<Aggregate>| {
            case(
                name,
                ROWS,
                vec![long(0, groups), value],
                |rows| rows * 16,
                move |batch| {
                    let aggregation = Aggregation {
                        predicate: None,
                        keys: vec![(Expr::column(0), batch.schema.field(0).clone())],
                        aggregates: aggregates.clone(),
                    };
                    Ok(group(&device_of(batch)?, batch, &aggregation)?.rows as u64)
                },
            )
        };
        let sum_float = aggregate(Function::Sum, 1, &[DataType::Float64]);
        let sum_long = aggregate(Function::Sum, 1, &[DataType::Int64]);
        let five = vec![
            sum_float.clone(),
            aggregate(Function::Count, 1, &[DataType::Int64]),
            aggregate(Function::Avg, 1, &[DataType::UInt64, DataType::Float64]),
            aggregate(Function::Min, 1, &[DataType::Float64]),
            aggregate(Function::Max, 1, &[DataType::Float64]),
        ];
        cases.push(keyed(
            format!("groupby sum f64 g={groups}"),
            Input::Float64,
            vec![sum_float],
        ));
        cases.push(keyed(
            format!("groupby sum i64 g={groups}"),
            long(-1000, 1000),
            vec![sum_long],
        ));
        cases.push(keyed(
            format!("groupby 5aggs f64 g={groups}"),
            Input::Float64,
            five,
        ));
        let moments = [DataType::UInt64, DataType::Float64, DataType::Float64];
        cases.push(keyed(
            format!("groupby variance f64 g={groups}"),
            Input::Float64,
            vec![aggregate(Function::Variance, 1, &moments)],
        ));
    }
    let inputs = vec![long(0, 10_000_000)];
    cases.push(case(
        "distinct 10M of 100M",
        ROWS,
        inputs,
        |rows| rows * 8,
        |batch| Ok(distinct(&device_of(batch)?, batch)?.rows as u64),
    ));
    cases
}
