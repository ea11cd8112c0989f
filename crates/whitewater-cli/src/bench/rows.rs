//! The operators that put rows in other places or look at others: sorts, scans, gathers, windows.

use arrow::datatypes::{DataType, Field};
use whitewater::{
    Batch, Error, Storage,
    expr::Expr,
    gather::gather,
    partition::partition_by_hash,
    scan::{Bound, Total, scan},
    sort::{SortKey, sort, sorted_order},
    window::{Edge, Frame, Function, Window, WindowColumn, window},
};

use super::{
    Context, MakeCase,
    engine::{REDUCE_ROWS, ROWS, case, device_of, long, prepared_case},
    inputs::Input,
};

/// Any 64-bit integer.
fn any_long() -> Input {
    long(i64::MIN, i64::MAX)
}

fn by(column: usize) -> SortKey {
    SortKey {
        expr: Expr::column(column),
        descending: false,
        nulls_first: false,
    }
}

/// Orders of rows, sorted rows and the first of them.
pub fn sorts(_: &Context) -> Vec<MakeCase> {
    let order = |name: &str, inputs: Vec<Input>| {
        let keys: Vec<SortKey> = (0..inputs.len()).map(by).collect();
        let work = move |batch: &Batch| -> Result<u64, Error> {
            sorted_order(&device_of(batch)?, batch, &keys)?;
            Ok(batch.rows as u64)
        };
        case(name, ROWS, inputs, |_| 0, work)
    };
    let rows = |name: &str, inputs: Vec<Input>, fetch: Option<usize>| {
        let work = move |batch: &Batch| -> Result<u64, Error> {
            Ok(sort(&device_of(batch)?, batch, &[by(0)], fetch)?.rows as u64)
        };
        case(name, ROWS, inputs, |_| 0, work)
    };
    vec![
        rows("sort keys i64", vec![any_long()], None),
        order("sort order i64", vec![any_long()]),
        rows("sort by_key +i64 i64", vec![any_long(), any_long()], None),
        rows("sort top_k 100 i64", vec![any_long()], Some(100)),
        rows("sort keys i32", vec![Input::Int32], None),
        order("sort order i32", vec![Input::Int32]),
        rows("sort by_key +i64 i32", vec![Input::Int32, any_long()], None),
        rows("sort top_k 100 i32", vec![Input::Int32], Some(100)),
        rows("sort keys f64", vec![Input::Float64], None),
        order("sort order f64", vec![Input::Float64]),
        rows(
            "sort by_key +i64 f64",
            vec![Input::Float64, any_long()],
            None,
        ),
        rows("sort top_k 100 f64", vec![Input::Float64], Some(100)),
        order("sort order i64 under 2^20", vec![long(0, 1 << 20)]),
        order("sort order 2col i32,i64", vec![Input::Int32, any_long()]),
    ]
}

/// Rows apart by the hash of a key.
pub fn partitions(_: &Context) -> Vec<MakeCase> {
    let work = |batch: &Batch| -> Result<u64, Error> {
        let parts = partition_by_hash(&device_of(batch)?, batch, &[Expr::column(0)], 64)?;
        Ok(parts.batch.rows as u64)
    };
    let inputs = vec![any_long(), any_long()];
    vec![case(
        "partition hash 64",
        ROWS,
        inputs,
        |rows| rows * 32,
        work,
    )]
}

/// Running totals.
pub fn scans(_: &Context) -> Vec<MakeCase> {
    let sum = |name: &str, input: Input| {
        let work = |batch: &Batch| -> Result<u64, Error> {
            let (device, column) = (device_of(batch)?, &batch.columns[0]);
            let sums = scan(&device, column, Total::Sum, Bound::Inclusive, None)?;
            Ok(sums.len as u64)
        };
        case(name, REDUCE_ROWS, vec![input], |rows| rows * 16, work)
    };
    vec![
        sum("scan sum i64 500M", long(-1000, 1000)),
        sum("scan sum f64 500M", Input::Float64),
    ]
}

/// Window functions over rows in order, in a hundred thousand partitions; the sort is not timed.
pub fn windows(_: &Context) -> Vec<MakeCase> {
    let over = |name: &str, function: Function, start: Edge, data_type: DataType| {
        let ranks = function == Function::Rank;
        let of = Window {
            partition: vec![by(0)],
            order: Vec::new(),
            columns: vec![WindowColumn {
                function,
                argument: (!ranks).then(|| Expr::column(1)),
                frame: Frame {
                    start,
                    end: Edge::Rows(0),
                },
                field: Field::new("window", data_type, true),
            }],
        };
        let prepare = |batch: Batch| -> Result<Batch, Error> {
            sort(&device_of(&batch)?, &batch, &[by(0)], None)
        };
        let work = move |batch: &Batch| -> Result<u64, Error> {
            Ok(window(&device_of(batch)?, batch, &of)?.rows as u64)
        };
        let inputs = vec![long(0, 100_000), long(-1000, 1000)];
        prepared_case(name, ROWS, inputs, |rows| rows * 24, prepare, work)
    };
    let lag = Function::Shift {
        by: -1,
        default: None,
    };
    let (long, whole) = (DataType::Int64, Edge::Unbounded);
    vec![
        over("window rank", Function::Rank, whole, DataType::UInt64),
        over("window lag i64", lag, whole, long.clone()),
        over("window sum i64 running", Function::Sum, whole, long.clone()),
        over(
            "window sum i64 of 100 rows",
            Function::Sum,
            Edge::Rows(-99),
            long,
        ),
    ]
}

/// Rows at random numbers.
pub fn gathers(_: &Context) -> Vec<MakeCase> {
    let random = |columns: usize| {
        let mut inputs = vec![Input::Row];
        inputs.extend((0..columns).map(|_| any_long()));
        let work = move |batch: &Batch| -> Result<u64, Error> {
            let values: Vec<usize> = (1..=columns).collect();
            let Storage::Fixed(map) = &batch.columns[0].data else {
                return Err(Error::unsupported("a batch without row numbers"));
            };
            let gathered = gather(
                &device_of(batch)?,
                &batch.project(&values)?,
                map,
                batch.rows,
            )?;
            Ok(gathered.rows as u64)
        };
        case(
            format!("gather i64 {columns}col random"),
            ROWS,
            inputs,
            move |rows| rows * (4 + 16 * columns as u64),
            work,
        )
    };
    vec![random(1), random(4)]
}
