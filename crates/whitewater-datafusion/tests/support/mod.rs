//! What the tests share: the device under test, sessions on and beside it, tables, comparison.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
        RecordBatch, StringArray, TimestampMicrosecondArray,
    },
    compute::cast,
    datatypes::{DataType, SchemaRef},
    util::display::array_value_to_string,
};
use datafusion::{
    catalog::MemTable,
    error::DataFusionError,
    physical_plan::{ExecutionPlan, collect, displayable},
    prelude::SessionContext,
};
use whitewater::gpu::{Device, Selection};
use whitewater_datafusion::{GpuTable, SessionOptions, session};

/// The device's name: `WHITEWATER_TEST_DEVICE`, the software driver unless told otherwise.
pub fn selection() -> Selection {
    let name = std::env::var("WHITEWATER_TEST_DEVICE").unwrap_or_else(|_| "software".into());
    name.parse().expect("a device name")
}

/// The device under test, opened once.
pub fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| Device::open(selection()).expect("the device under test"))
}

/// A session on the device, uploading at most `batch_rows` rows together.
pub fn gpu_session(batch_rows: usize) -> SessionContext {
    session(SessionOptions {
        device: Some(device().clone()),
        target_partitions: 3,
        batch_rows,
        ..Default::default()
    })
}

/// Plain DataFusion.
pub fn cpu_session() -> SessionContext {
    session(SessionOptions {
        target_partitions: 3,
        ..Default::default()
    })
}

/// A number that looks random: splitmix64 of `seed`.
pub fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Rows `from..from + rows` of the generated table: a column of every type that the slice knows, a
/// null in about one of `nulls` values (none if 0, every one if 1).
pub fn rows(from: usize, rows: usize, nulls: u64) -> RecordBatch {
    let value = |column: u64, row: usize| mix(column << 40 | row as u64);
    let valid =
        |column: u64, row: usize| nulls == 0 || !mix(value(column, row)).is_multiple_of(nulls);
    macro_rules! column {
        ($array:ident, $column:literal, |$v:ident| $make:expr) => {
            (from..from + rows)
                .map(|row| {
                    let $v = value($column, row);
                    valid($column, row).then(|| $make)
                })
                .collect::<$array>()
        };
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "k",
            Arc::new(column!(Int32Array, 1, |v| (v % 7) as i32 - 3)),
        ),
        ("big", Arc::new(column!(Int64Array, 2, |v| v as i64 >> 20))),
        ("f", Arc::new(column!(Float64Array, 3, |v| floats(v)))),
        (
            "g",
            Arc::new(column!(Float64Array, 4, |v| (v % 2001) as f64 / 8.0 - 125.0)),
        ),
        (
            "d",
            Arc::new(
                column!(Decimal128Array, 5, |v| i128::from(v as i64 % 1_000_000))
                    .with_precision_and_scale(15, 2)
                    .expect("a decimal type"),
            ),
        ),
        (
            "day",
            Arc::new(column!(Date32Array, 6, |v| (v % 40_000) as i32 - 20_000)),
        ),
        (
            "at",
            Arc::new(column!(TimestampMicrosecondArray, 7, |v| v as i64 >> 12)),
        ),
        ("b", Arc::new(column!(BooleanArray, 8, |v| v % 3 == 0))),
        (
            "s",
            Arc::new(column!(StringArray, 9, |v| {
                ["", "a", "żółw", "a longer string, past twelve", "B"][(v % 5) as usize]
            })),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .expect("columns of equal length")
}

/// Floats with every special value among them.
fn floats(v: u64) -> f64 {
    match v % 16 {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        3 => 1.5,
        4 => -2.25,
        _ => (v >> 11) as f64 / 1e15 - 4.0,
    }
}

/// `batch` as a slice at an odd offset of a larger one.
pub fn sliced(batch: &RecordBatch) -> RecordBatch {
    let parts = [batch.slice(0, batch.num_rows().min(5)), batch.clone()];
    let joined = arrow::compute::concat_batches(&batch.schema(), &parts).expect("one schema");
    joined.slice(joined.num_rows() - batch.num_rows(), batch.num_rows())
}

/// Registers `partitions` as a table in host memory.
pub fn register(ctx: &SessionContext, name: &str, partitions: Vec<Vec<RecordBatch>>) {
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).expect("one schema");
    ctx.register_table(name, Arc::new(table))
        .expect("a new name");
}

/// Registers `batches` as a table in device memory.
pub fn register_resident(
    ctx: &SessionContext,
    name: &str,
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    batch_rows: usize,
) {
    let table = GpuTable::load(device(), schema, batches, batch_rows).expect("an upload");
    ctx.register_table(name, Arc::new(table))
        .expect("a new name");
}

/// The physical plan of `sql`.
pub async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(sql).await.expect("valid SQL");
    frame.create_physical_plan().await.expect("a plan")
}

/// The plan of `sql` as EXPLAIN shows it.
pub async fn explain(ctx: &SessionContext, sql: &str) -> String {
    displayable(&*plan(ctx, sql).await)
        .indent(false)
        .to_string()
}

/// Runs `sql`: its batches and the plan that ran, with its metrics.
pub async fn run(
    ctx: &SessionContext,
    sql: &str,
) -> Result<(Vec<RecordBatch>, Arc<dyn ExecutionPlan>), DataFusionError> {
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(plan.clone(), ctx.task_ctx()).await?;
    Ok((batches, plan))
}

/// The sum of a metric over the nodes of a plan; none where no node has it.
pub fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> Option<usize> {
    let own = plan.metrics().and_then(|metrics| match name {
        "output_rows" => metrics.output_rows(),
        _ => metrics.sum_by_name(name).map(|value| value.as_usize()),
    });
    plan.children()
        .into_iter()
        .filter_map(|child| metric(child, name))
        .chain(own)
        .reduce(|a, b| a + b)
}

/// A time metric, as a duration.
pub fn time_metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> Option<Duration> {
    metric(plan, name).map(|nanos| Duration::from_nanos(nanos as u64))
}

/// A value of a result.
#[derive(Clone, Debug)]
enum Cell {
    Float(f64),
    Text(String),
}

/// Asserts that two results hold the same rows in any order: bit for bit, floats within 1e-12.
pub fn assert_same(sql: &str, ours: &[RecordBatch], theirs: &[RecordBatch]) {
    compare(sql, ours, theirs, cells);
}

/// As [`assert_same`], in the same order.
pub fn assert_same_order(sql: &str, ours: &[RecordBatch], theirs: &[RecordBatch]) {
    compare(sql, ours, theirs, cells_in_order);
}

fn compare(
    sql: &str,
    ours: &[RecordBatch],
    theirs: &[RecordBatch],
    cells: fn(&[RecordBatch]) -> Vec<Vec<Cell>>,
) {
    let types = |batches: &[RecordBatch]| -> Option<Vec<DataType>> {
        let schema = batches.first()?.schema();
        Some(
            schema
                .fields()
                .iter()
                .map(|f| f.data_type().clone())
                .collect(),
        )
    };
    if let (Some(ours), Some(theirs)) = (types(ours), types(theirs)) {
        assert_eq!(ours, theirs, "types of {sql}");
    }
    let (ours, theirs) = (cells(ours), cells(theirs));
    assert_eq!(ours.len(), theirs.len(), "number of rows of {sql}");
    for (a, b) in ours.iter().zip(&theirs) {
        let same = a.iter().zip(b).all(|(a, b)| match (a, b) {
            (Cell::Text(a), Cell::Text(b)) => a == b,
            (Cell::Float(a), Cell::Float(b)) => {
                a.to_bits() == b.to_bits()
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= 1e-12 * a.abs().max(b.abs()).max(1e-3)
            }
            _ => false,
        });
        assert!(same, "{sql}\nGPU {a:?}\nCPU {b:?}");
    }
}

fn cells_in_order(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            rows.push(
                batch
                    .columns()
                    .iter()
                    .map(|c| cell(c, row))
                    .collect::<Vec<_>>(),
            );
        }
    }
    rows
}

fn cells(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let mut rows = cells_in_order(batches);
    rows.sort_by_cached_key(|row| {
        let text = |cell: &Cell| match cell {
            Cell::Float(value) => format!("{value:.6e}"),
            Cell::Text(text) => text.clone(),
        };
        row.iter().map(text).collect::<Vec<_>>()
    });
    rows
}

fn cell(column: &ArrayRef, row: usize) -> Cell {
    if column.is_null(row) {
        return Cell::Text("NULL".into());
    }
    if column.data_type().is_floating() {
        let one = cast(&column.slice(row, 1), &DataType::Float64).expect("a float");
        let floats = one
            .as_any()
            .downcast_ref::<Float64Array>()
            .expect("a float");
        return Cell::Float(floats.value(0));
    }
    Cell::Text(array_value_to_string(column, row).expect("a printable value"))
}
