//! Window functions against loops over the rows of each frame.

use std::{ops::Range, sync::Arc};

use arrow::{array::*, datatypes::*};
use whitewater::{
    Error,
    expr::{Expr, Literal},
    sort::SortKey,
    window::{Edge, Frame, Function, Window, WindowColumn, window},
};

use crate::{device, upload};

const EDGES: [Edge; 7] = [
    Edge::Unbounded,
    Edge::Peers,
    Edge::Rows(0),
    Edge::Rows(-3),
    Edge::Rows(4),
    Edge::Rows(-2000),
    Edge::Rows(2000),
];

fn key(index: usize) -> SortKey {
    SortKey {
        expr: Expr::column(index),
        descending: false,
        nulls_first: false,
    }
}

/// Rows in order: partitions of very different sizes (the last key is null), peers of one to five rows, values.
fn table(rows: usize, nulls: bool) -> RecordBatch {
    let part = |row: usize| match row {
        0 => Some(-1),
        _ if row + 2 < rows => Some(i32::from(row > 70) + i32::from(row > rows / 2)),
        _ => None,
    };
    let value = |row: usize| {
        let mixed = (row as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64) >> 7;
        (!nulls || mixed % 3 != 0).then_some(mixed)
    };
    let columns: [(&str, ArrayRef); 4] = [
        (
            "part",
            Arc::new((0..rows).map(part).collect::<Int32Array>()),
        ),
        (
            "order",
            Arc::new(
                (0..rows)
                    .map(|row| Some((row - row % (1 + row / 7 % 5)) as u32))
                    .collect::<UInt32Array>(),
            ),
        ),
        (
            "integer",
            Arc::new((0..rows).map(value).collect::<Int64Array>()),
        ),
        (
            "float",
            Arc::new(
                (0..rows)
                    .map(|row| value(row).map(|v| (v % 4096) as f64 / 8.0))
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("a batch")
}

/// The run of rows around `row` with the same values of the first `keys` columns.
fn run_of(batch: &RecordBatch, keys: usize, row: usize) -> Range<usize> {
    let parts = batch.column(0).as_primitive::<Int32Type>();
    let orders = batch.column(1).as_primitive::<UInt32Type>();
    let key = |row: usize| {
        let part = (keys > 0).then(|| parts.is_valid(row).then(|| parts.value(row)));
        (part, (keys > 1).then(|| orders.value(row)))
    };
    let same = |other: &usize| key(*other) == key(row);
    let before = (0..row).rev().take_while(same).count();
    let after = (row..batch.num_rows()).take_while(same).count();
    row - before..row + after
}

fn frame_of(batch: &RecordBatch, frame: Frame, keys: usize, row: usize) -> Range<usize> {
    let part = run_of(batch, keys, row);
    let peers = run_of(batch, keys + 1, row);
    let moved =
        |by: i32| (row as i64 + i64::from(by)).clamp(part.start as i64, part.end as i64) as usize;
    let start = match frame.start {
        Edge::Unbounded => part.start,
        Edge::Rows(by) => moved(by),
        Edge::Peers => peers.start,
    };
    let end = match frame.end {
        Edge::Unbounded => part.end,
        Edge::Rows(by) => moved(by + 1),
        Edge::Peers => peers.end,
    };
    start..end.max(start)
}

fn frames() -> impl Iterator<Item = Frame> {
    EDGES
        .into_iter()
        .flat_map(|start| EDGES.into_iter().map(move |end| Frame { start, end }))
}

/// What columns of these functions are over `batch`.
fn columns(
    batch: &RecordBatch,
    wanted: &[(Function, Option<usize>, Frame, DataType)],
) -> Result<RecordBatch, Error> {
    let columns = wanted
        .iter()
        .map(|(function, argument, frame, data_type)| WindowColumn {
            function: function.clone(),
            argument: argument.map(Expr::column),
            frame: *frame,
            field: Field::new("w", data_type.clone(), true),
        });
    let over = Window {
        partition: vec![key(0)],
        order: vec![key(1)],
        columns: columns.collect(),
    };
    window(device(), &upload(batch), &over)?
        .download()
        .map(|found| {
            let own: Vec<usize> = (batch.num_columns()..found.num_columns()).collect();
            found.project(&own).expect("columns")
        })
}

#[test]
fn totals_are_those_of_the_rows_of_frames() {
    for (rows, nulls) in [
        (0, false),
        (1, false),
        (77, true),
        (2500, false),
        (2500, true),
    ] {
        let batch = table(rows, nulls);
        let integers = batch.column(2).as_primitive::<Int64Type>();
        let floats = batch.column(3).as_primitive::<Float64Type>();
        for frame in frames() {
            let mut wanted = vec![
                (Function::Count, None, frame, DataType::Int64),
                (Function::Count, Some(2), frame, DataType::Int64),
                (Function::Sum, Some(2), frame, DataType::Int64),
                (Function::FromStart(1), Some(2), frame, DataType::Int64),
                (Function::FromEnd(2), Some(3), frame, DataType::Float64),
            ];
            let totals = match (frame.start, frame.end) {
                (Edge::Unbounded, _) => true,
                (Edge::Rows(start), Edge::Rows(end)) => end - start < 1024,
                _ => false,
            };
            if totals {
                wanted.extend([
                    (Function::Min, Some(2), frame, DataType::Int64),
                    (Function::Max, Some(2), frame, DataType::Int64),
                    (Function::Sum, Some(3), frame, DataType::Float64),
                    (Function::Avg, Some(3), frame, DataType::Float64),
                ]);
            }
            let found = columns(&batch, &wanted).expect("columns");
            let integer = |column: usize, row: usize| {
                let values = found.column(column).as_primitive::<Int64Type>();
                values.is_valid(row).then(|| values.value(row))
            };
            let float = |column: usize, row: usize| {
                let values = found.column(column).as_primitive::<Float64Type>();
                values.is_valid(row).then(|| values.value(row))
            };
            // Every row of small tables, and some of larger ones: loops over frames are slow.
            for row in (0..rows).step_by(rows.div_ceil(120).max(1)) {
                let of = frame_of(&batch, frame, 1, row);
                let case = format!("{frame:?} of row {row} of {rows}: {of:?}");
                let known: Vec<i64> = of
                    .clone()
                    .filter(|at| integers.is_valid(*at))
                    .map(|at| integers.value(at))
                    .collect();
                let sum = known.iter().copied().reduce(i64::wrapping_add);
                assert_eq!(integer(0, row), Some(of.len() as i64), "{case}");
                assert_eq!(integer(1, row), Some(known.len() as i64), "{case}");
                assert_eq!(integer(2, row), sum, "{case}");
                let at = |place: Option<usize>| place.filter(|at| of.contains(at));
                let second = at(Some(of.start + 1)).filter(|at| integers.is_valid(*at));
                assert_eq!(
                    integer(3, row),
                    second.map(|at| integers.value(at)),
                    "{case}"
                );
                let third = at(of.end.checked_sub(3)).filter(|at| floats.is_valid(*at));
                assert_eq!(float(4, row), third.map(|at| floats.value(at)), "{case}");
                if !totals {
                    continue;
                }
                assert_eq!(integer(5, row), known.iter().min().copied(), "{case}");
                assert_eq!(integer(6, row), known.iter().max().copied(), "{case}");
                // Eighths below 2^53: sums are exact.
                let floats: Vec<f64> = of
                    .filter(|at| floats.is_valid(*at))
                    .map(|at| floats.value(at))
                    .collect();
                let sum = floats.iter().copied().reduce(|a, b| a + b);
                assert_eq!(float(7, row), sum, "{case}");
                assert_eq!(
                    float(8, row),
                    sum.map(|sum| sum / floats.len() as f64),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn ranks_are_those_of_the_rows_of_partitions() {
    let whole = Frame {
        start: Edge::Unbounded,
        end: Edge::Unbounded,
    };
    let tiles = [1u32, 3, 10_000];
    for rows in [1, 77, 2500] {
        let batch = table(rows, true);
        let integers = batch.column(2).as_primitive::<Int64Type>();
        let mut wanted = vec![
            (Function::RowNumber, None, whole, DataType::UInt64),
            (Function::Rank, None, whole, DataType::UInt64),
            (Function::DenseRank, None, whole, DataType::UInt64),
            (Function::PercentRank, None, whole, DataType::Float64),
            (Function::CumeDist, None, whole, DataType::Float64),
        ];
        wanted.extend(tiles.map(|tiles| (Function::Ntile(tiles), None, whole, DataType::UInt64)));
        let shifts = [-5, 0, 1];
        for by in shifts {
            for default in [None, Some(Literal::Int64(-1))] {
                let shift = Function::Shift { by, default };
                wanted.push((shift, Some(2), whole, DataType::Int64));
            }
        }
        let found = columns(&batch, &wanted).expect("columns");
        for row in 0..rows {
            let part = run_of(&batch, 1, row);
            let peers = run_of(&batch, 2, row);
            let case = format!("row {row} of {rows}: {part:?} {peers:?}");
            let number =
                |column: usize| found.column(column).as_primitive::<UInt64Type>().value(row);
            let share = |column: usize| {
                found
                    .column(column)
                    .as_primitive::<Float64Type>()
                    .value(row)
            };
            let before = peers.start - part.start;
            assert_eq!(number(0), (row - part.start) as u64 + 1, "{case}");
            assert_eq!(number(1), before as u64 + 1, "{case}");
            let mut firsts: Vec<usize> = (part.start..=row)
                .map(|at| run_of(&batch, 2, at).start)
                .collect();
            firsts.dedup();
            assert_eq!(number(2), firsts.len() as u64, "{case}");
            let others = (part.len() - 1).max(1);
            assert_eq!(share(3), before as f64 / others as f64, "{case}");
            assert_eq!(
                share(4),
                (peers.end - part.start) as f64 / part.len() as f64,
                "{case}"
            );
            for (i, tiles) in tiles.into_iter().enumerate() {
                // Tile by tile, the first ones a row larger.
                let (mut tile, mut end) = (0, part.start);
                while end <= row {
                    let larger = usize::from(tile < part.len() % tiles as usize);
                    end += part.len() / tiles as usize + larger;
                    tile += 1;
                }
                assert_eq!(number(5 + i), tile as u64, "{tiles} tiles, {case}");
            }
            for (i, by) in shifts.into_iter().enumerate() {
                let at = row as i64 + i64::from(by);
                let inside = part.contains(&(at.max(-1) as usize)) && at >= 0;
                let value = inside
                    .then_some(at as usize)
                    .filter(|at| integers.is_valid(*at));
                let value = value.map(|at| integers.value(at));
                for (k, default) in [None, Some(-1)].into_iter().enumerate() {
                    let expected = if inside { value } else { default };
                    let column = found.column(8 + 2 * i + k).as_primitive::<Int64Type>();
                    let found = column.is_valid(row).then(|| column.value(row));
                    assert_eq!(found, expected, "{by} {case}");
                }
            }
        }
    }
}

#[test]
fn what_has_no_kernel_is_refused() {
    let batch = table(10, false);
    let sliding = Frame {
        start: Edge::Rows(-1024),
        end: Edge::Rows(0),
    };
    for (function, argument) in [
        (Function::Sum, Some(3)),
        (Function::Avg, Some(3)),
        (Function::Min, Some(2)),
        (Function::Avg, Some(2)),
        (Function::Max, Some(3)),
        (Function::Sum, Some(0)),
        (Function::Sum, Some(9)),
        (Function::Sum, None),
    ] {
        let wanted = [(function.clone(), argument, sliding, DataType::Float64)];
        let refused = columns(&batch, &wanted);
        assert!(
            matches!(refused, Err(Error::Unsupported { .. })),
            "{function:?} {argument:?}"
        );
    }
}
