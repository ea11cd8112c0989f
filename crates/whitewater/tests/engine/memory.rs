//! The device memory that operators take beside their inputs and results, against the formulas of their docs.

use std::{any::Any, sync::Arc};

use arrow::{
    array::*,
    datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type},
};
use whitewater::{
    Batch, Error,
    aggregate::{Aggregate, Aggregation, Function, reduce},
    bitmask,
    expr::{Expr, Literal, Op},
    gather::{
        concat, copy_if_else, gather, gather_checked, gather_or_null, reverse, scatter, shift,
        slice,
    },
    gpu::{Buffer, Device},
    groupby::group,
    join::{Join, JoinKey, Joiner, Kind, Output, Side, Table},
    partition::{hash_rows, partition_by_hash, partition_by_range},
    scan::{Bound, Total, scan},
    select::{drop_nulls, filter_project},
    sort::{
        Interpolation, Rank, SortKey, is_sorted, merge, quantiles, rank, sort, sorted_order, unique,
    },
};

use crate::open;

/// What the operators work on: columns `v` (Int64), `w` (Int32), `n` (Float64, some null), and `s` (Utf8) for some.
struct Inputs {
    device: Device,
    plain: Batch,
    holes: Batch,
    texts: Batch,
    /// As many row numbers as rows, in no order.
    map: Buffer,
    /// A bit a row.
    mask: Buffer,
    /// Twenty values of `v`, in order.
    bounds: Batch,
    /// Tables of `plain` by `v`, each of whose values occurs once, and by `w`, whose values occur often.
    tables: [Table; 2],
    rows: u64,
}

fn noise(i: usize) -> u64 {
    let z = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (z >> 31)
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Inputs {
    fn new(device: &Device, rows: usize) -> Self {
        let v: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(
            (0..rows).map(|i| noise(i) as i64),
        ));
        let w: ArrayRef = Arc::new(PrimitiveArray::<Int32Type>::from_iter_values(
            (0..rows).map(|i| (noise(i) % 1000) as i32),
        ));
        let n: ArrayRef = Arc::new(PrimitiveArray::<Float64Type>::from_iter(
            (0..rows).map(|i| (i % 3 > 0).then_some(noise(i) as f64)),
        ));
        let s: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..rows).map(|i| format!("some text {}", noise(i) % 100)),
        ));
        let upload = |columns: Vec<(&str, &ArrayRef)>| {
            let columns = columns
                .into_iter()
                .map(|(name, column)| (name, column.clone()));
            let host = RecordBatch::try_from_iter(columns).expect("a batch");
            Batch::upload(device, &host).expect("upload")
        };
        let map: Vec<u32> = (0..rows).map(|i| (noise(i) % rows as u64) as u32).collect();
        let mask: Vec<u32> = (0..rows.div_ceil(32)).map(|i| noise(i) as u32).collect();
        let plain = upload(vec![("v", &v), ("w", &w)]);
        let of_v = plain.project(&[0]).expect("a column");
        let table = |column| Table::build(device, &plain, &[join_key(column)]).expect("a table");
        Self {
            bounds: sort(device, &of_v, &[key(0)], Some(20)).expect("bounds"),
            tables: [table(0), table(1)],
            device: device.clone(),
            plain,
            holes: upload(vec![("n", &n), ("w", &w)]),
            texts: upload(vec![("s", &s), ("w", &w)]),
            map: device.upload(&bytes(&map)).expect("upload"),
            mask: device.upload(&bytes(&mask)).expect("upload"),
            rows: rows as u64,
        }
    }

    /// A fiftieth of the rows; each finds a thousandth of all by `w`.
    fn few(&self) -> Batch {
        slice(&self.device, &self.plain, 0, self.rows as usize / 50).expect("a slice")
    }
}

fn key(column: usize) -> SortKey {
    SortKey {
        expr: Expr::column(column),
        descending: false,
        nulls_first: false,
    }
}

type Live = Result<Box<dyn Any>, Error>;

fn live<T: 'static>(result: Result<T, Error>) -> Live {
    Ok(Box::new(result?))
}

/// All columns as they are.
fn outputs(batch: &Batch) -> Vec<(Expr, Field)> {
    let fields = batch.schema.fields().iter().enumerate();
    fields
        .map(|(i, field)| (Expr::column(i), Field::clone(field)))
        .collect()
}

fn below(column: usize, most: Literal) -> Expr {
    Expr::column(column).binary(Op::Lt, Expr::Literal(most))
}

/// Rows, and the sum of `w`.
fn sums(keys: Vec<usize>) -> Aggregation {
    let state = |data_type| vec![Field::new("state", data_type, true)];
    Aggregation {
        keys: keys
            .into_iter()
            .map(|key| {
                (
                    Expr::column(key),
                    Field::new("key", [DataType::Int64, DataType::Int32][key].clone(), true),
                )
            })
            .collect(),
        aggregates: vec![
            Aggregate {
                function: Function::Count,
                argument: None,
                filter: None,
                order: Vec::new(),
                state: state(DataType::Int64),
            },
            Aggregate {
                function: Function::Sum,
                argument: Some(Expr::column(0)),
                filter: None,
                order: Vec::new(),
                state: state(DataType::Int64),
            },
        ],
        ..Aggregation::default()
    }
}

fn join_key(column: usize) -> JoinKey {
    JoinKey {
        build: Expr::column(column),
        probe: Expr::column(column),
        null_equals_null: false,
    }
}

fn inner(column: usize) -> Join {
    Join {
        kind: Kind::Inner,
        keys: vec![join_key(column)],
        condition: None,
        outputs: vec![
            (
                Output::Column(Side::Build, 1),
                Field::new("b", DataType::Int32, true),
            ),
            (
                Output::Column(Side::Probe, 0),
                Field::new("p", DataType::Int64, true),
            ),
        ],
    }
}

/// What an operator may take beside its inputs and its result, in bytes.
enum Extra {
    /// So much, or a little less.
    Near(u64),
    /// No more than that.
    Most(u64),
}
use Extra::{Most, Near};

type Run = fn(&Inputs) -> Live;
type Formula = fn(&Inputs) -> Extra;

/// Bytes of a row of `plain`, and of `holes` without the bits.
const WIDTH: u64 = 12;
/// For counters and other words whose number does not grow.
const SLACK: u64 = 64 << 10;

/// A group-by's table of so many slots, of states of so many words, and the lists of slots.
fn table_bytes(slots: u64, words: u64) -> u64 {
    slots * (20 + 8 * words)
}

/// What `probe` comes to.
fn pairs(table: &Table, column: usize, probe: &Batch) -> Result<Vec<Batch>, Error> {
    let mut batches = Vec::new();
    let mut joiner = Joiner::with_table(table.clone(), inner(column))?;
    joiner.probe(probe, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(batches)
}

/// Every operator takes as much as its docs say.
fn check(cases: &[(&str, Run, Formula)]) {
    let device = open();
    for rows in [50_000, 200_000] {
        let inputs = Inputs::new(&device, rows);
        for (name, run, formula) in cases {
            let before = device.memory().in_use;
            device.reset_peak();
            let live = run(&inputs).expect(name);
            let (peak, after) = (device.memory().peak, device.memory().in_use);
            assert!(after >= before, "{name} gave its inputs away");
            let extra = peak - after;
            let (Near(most) | Most(most)) = formula(&inputs);
            // Where memory cannot be addressed in the middle, blocks are longer by up to an eighth.
            let blocks = (most + after - before) / 8;
            assert!(
                extra <= most + blocks + SLACK,
                "{name} of {rows} rows: {extra}"
            );
            if let Near(near) = formula(&inputs) {
                assert!(
                    extra + SLACK >= near / 2,
                    "{name} of {rows} rows: {extra} of {near}"
                );
            }
            drop(live);
        }
    }
}

#[test]
fn selections() {
    check(&[
        (
            "filter",
            |i| {
                live(filter_project(
                    &i.device,
                    &i.plain,
                    Some(&below(1, Literal::Int32(250))),
                    &outputs(&i.plain),
                ))
            },
            |i| Near(WIDTH * i.rows),
        ),
        (
            "filter with nulls",
            |i| {
                live(filter_project(
                    &i.device,
                    &i.holes,
                    Some(&below(1, Literal::Int32(250))),
                    &outputs(&i.holes),
                ))
            },
            |i| Most((WIDTH + 1) * i.rows),
        ),
        (
            "filter of strings",
            |i| {
                live(filter_project(
                    &i.device,
                    &i.texts,
                    Some(&below(1, Literal::Int32(250))),
                    &outputs(&i.texts),
                ))
            },
            |i| Near(4 * i.rows),
        ),
        (
            "drop_nulls",
            |i| live(drop_nulls(&i.device, &i.holes, &[0])),
            |i| Most((WIDTH + 1) * i.rows),
        ),
        (
            "unique",
            |i| live(unique(&i.device, &i.plain, &[key(0)])),
            |i| Near(4 * i.rows + i.rows / 8),
        ),
    ]);
}

#[test]
fn moves() {
    check(&[
        (
            "gather",
            |i| live(gather(&i.device, &i.holes, &i.map, i.rows as usize)),
            |_| Near(0),
        ),
        (
            "gather of strings",
            |i| live(gather(&i.device, &i.texts, &i.map, i.rows as usize)),
            |i| Near(4 * i.rows),
        ),
        (
            "gather_or_null",
            |i| live(gather_or_null(&i.device, &i.holes, &i.map, i.rows as usize)),
            |i| Near(4 * i.rows + i.rows / 4),
        ),
        (
            "gather_checked",
            |i| live(gather_checked(&i.device, &i.holes, &i.map, i.rows as usize)),
            |_| Near(0),
        ),
        (
            "slice",
            |i| live(slice(&i.device, &i.holes, 5, i.rows as usize / 2)),
            |_| Near(0),
        ),
        (
            "concat",
            |i| live(concat(&i.device, &[i.texts.clone(), i.texts.clone()])),
            |_| Near(0),
        ),
        (
            "scatter",
            |i| live(scatter(&i.device, &i.holes, &i.map, &i.holes)),
            |i| Near(2 * i.holes.device_bytes() + 4 * i.rows),
        ),
        (
            "copy_if_else",
            |i| live(copy_if_else(&i.device, &i.mask, &i.holes, &i.holes)),
            |i| Near(2 * i.holes.device_bytes() + 4 * i.rows),
        ),
        (
            "reverse",
            |i| live(reverse(&i.device, &i.holes)),
            |i| Near(4 * i.rows),
        ),
        (
            "shift",
            |i| live(shift(&i.device, &i.holes, 7)),
            |i| Near(8 * i.rows + i.rows / 4),
        ),
    ]);
}

#[test]
fn orders() {
    check(&[
        (
            "sorted_order",
            |i| live(sorted_order(&i.device, &i.plain, &[key(0)])),
            |i| Near(24 * i.rows),
        ),
        (
            "sorted_order of a short key",
            |i| live(sorted_order(&i.device, &i.plain, &[key(1)])),
            |i| Near(24 * i.rows),
        ),
        (
            "sorted_order with nulls",
            |i| live(sorted_order(&i.device, &i.holes, &[key(0)])),
            |i| Near(24 * i.rows),
        ),
        (
            "sorted_order of two keys",
            |i| live(sorted_order(&i.device, &i.holes, &[key(1), key(0)])),
            |i| Near(24 * i.rows),
        ),
        (
            "sorted_order of strings",
            |i| live(sorted_order(&i.device, &i.texts, &[key(0), key(1)])),
            |i| Near((24 + 20) * i.rows),
        ),
        (
            "sort",
            |i| live(sort(&i.device, &i.plain, &[key(0)], None)),
            |i| Near((28 - WIDTH) * i.rows),
        ),
        (
            "sort with nulls",
            |i| live(sort(&i.device, &i.holes, &[key(0)], None)),
            |i| Near((28 - WIDTH) * i.rows),
        ),
        (
            "sort of a key alone",
            |i| live(sort(&i.device, &i.plain.project(&[0])?, &[key(0)], None)),
            |i| Near((28 - 8) * i.rows),
        ),
        (
            "first rows",
            |i| live(sort(&i.device, &i.plain, &[key(0)], Some(10))),
            |i| Most(28 * i.rows),
        ),
        (
            "is_sorted",
            |i| live(is_sorted(&i.device, &i.plain, &[key(0)])),
            |_| Near(0),
        ),
        (
            "merge",
            |i| {
                live(merge(
                    &i.device,
                    &[i.plain.clone(), i.plain.clone()],
                    &[key(0)],
                ))
            },
            |i| Near(2 * (WIDTH + 4) * i.rows),
        ),
        (
            "rank",
            |i| live(rank(&i.device, &i.plain, &[key(1)], Rank::Dense)),
            |i| Near(28 * i.rows),
        ),
        (
            "quantiles",
            |i| {
                live(quantiles(
                    &i.device,
                    &i.plain,
                    &Expr::column(0),
                    &[0.5],
                    Interpolation::Linear,
                ))
            },
            |i| Most((16 << 10) + 48 * i.rows.min(1 << 16)),
        ),
    ]);
}

#[test]
fn parts() {
    check(&[
        (
            "hash_rows",
            |i| live(hash_rows(&i.device, &i.plain, &[Expr::column(0)])),
            |_| Near(0),
        ),
        (
            "partition_by_hash",
            |i| {
                live(partition_by_hash(
                    &i.device,
                    &i.plain,
                    &[Expr::column(0)],
                    64,
                ))
            },
            |i| Near(6 * i.rows),
        ),
        (
            "partition_by_hash with nulls",
            |i| {
                live(partition_by_hash(
                    &i.device,
                    &i.holes,
                    &[Expr::column(0)],
                    64,
                ))
            },
            |i| Near(10 * i.rows),
        ),
        (
            "partition_by_hash in many",
            |i| {
                live(partition_by_hash(
                    &i.device,
                    &i.plain,
                    &[Expr::column(0)],
                    1024,
                ))
            },
            |i| Near(16 * i.rows),
        ),
        (
            "partition_by_range",
            |i| {
                live(partition_by_range(
                    &i.device,
                    &i.plain.project(&[0])?,
                    &[key(0)],
                    &i.bounds,
                ))
            },
            |i| Near((16 + 6) * i.rows),
        ),
    ]);
}

#[test]
fn totals() {
    check(&[
        (
            "scan",
            |i| {
                live(scan(
                    &i.device,
                    &i.plain.columns[0],
                    Total::Sum,
                    Bound::Inclusive,
                    None,
                ))
            },
            |i| Near(i.rows / 64),
        ),
        (
            "and",
            |i| live(bitmask::and(&i.mask, &i.mask, i.rows as usize)),
            |_| Near(0),
        ),
        (
            "count",
            |i| live(bitmask::count(&i.mask, i.rows as usize)),
            |_| Near(0),
        ),
        (
            "reduce",
            |i| live(reduce(&i.device, &i.plain, &sums(vec![]))),
            |i| Most(8 * 2 * i.rows / 2048),
        ),
        (
            "group in few",
            |i| live(group(&i.device, &i.plain, &sums(vec![1]))),
            |_| Near(table_bytes(4096, 2) + (1 << 20)),
        ),
        (
            "group in many",
            |i| live(group(&i.device, &i.plain, &sums(vec![0]))),
            |i| Near(table_bytes((2 * i.rows).next_power_of_two(), 2) + (4 + WIDTH) * i.rows),
        ),
    ]);
}

#[test]
fn joins() {
    check(&[
        (
            "table",
            |i| live(Table::build(&i.device, &i.plain, &[join_key(0)])),
            |_| Near(0),
        ),
        (
            "table with runs",
            |i| live(Table::build(&i.device, &i.plain, &[join_key(1)])),
            |i| Near(16 * i.rows),
        ),
        (
            "join",
            |i| live(pairs(&i.tables[0], 0, &i.plain)),
            |i| Near((4 + 8) * i.rows),
        ),
        (
            "join with runs",
            |i| live(pairs(&i.tables[1], 1, &i.few())),
            |i| Near(16 * i.rows / 50 + 8 * (i.rows / 50) * (i.rows / 1000)),
        ),
    ]);
}
