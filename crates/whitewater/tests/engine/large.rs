//! Operators over more rows than 2^31 bytes hold, and than 2^31: for GPUs with 100 GB, so ignored unless asked for.
//!
//! What columns hold is a formula of the row's number, made and checked on the device; the formulas of the results are
//! worked out by hand.

use std::sync::{Arc, OnceLock};

use arrow::{
    array::*,
    datatypes::{DataType, Field, Float64Type, Int64Type, Schema},
};
use whitewater::{
    Batch, Column, Storage,
    aggregate::{Aggregate, Aggregation, Function, reduce},
    bitmask,
    expr::{Expr, Literal, Op},
    gather::{concat, copy_if_else, gather, gather_or_null, reverse, scatter, shift, slice},
    gpu::{Buffer, Device},
    groupby::{count_distinct, distinct},
    join::{Join, JoinKey, Kind, Output, Side, join},
    partition::{hash_rows, partition_by_hash, partition_by_range},
    scan::{Bound, Total, scan},
    select::{drop_nulls, filter_project},
    sort::{
        Interpolation, Rank, SortKey, is_sorted, merge, quantiles, rank, sort, sorted_order, unique,
    },
};

use crate::open;

/// 2^30, or what `WHITEWATER_LARGE_ROWS` says, a power of two: for a look at these tests on a small device.
fn rows() -> usize {
    static ROWS: OnceLock<usize> = OnceLock::new();
    *ROWS.get_or_init(|| match std::env::var("WHITEWATER_LARGE_ROWS") {
        Ok(rows) => rows.parse().expect("a number of rows"),
        Err(_) => 1 << 30,
    })
}

/// Odd: times it modulo a power of two is a permutation.
const STRIDE: i64 = 0x9E37_79B1;

fn int(value: i64) -> Expr {
    Expr::Literal(Literal::Int64(value))
}

fn column(index: usize) -> Expr {
    Expr::column(index)
}

fn batch(columns: Vec<(&str, Column)>) -> Batch {
    let fields = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type.clone(), true));
    Batch {
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        rows: columns[0].1.len,
        columns: columns.into_iter().map(|(_, column)| column).collect(),
    }
}

/// Zeros of `data_type`, `width` bytes each.
fn zeros(device: &Device, data_type: DataType, width: usize, rows: usize) -> Column {
    Column {
        data_type,
        len: rows,
        validity: None,
        data: Storage::Fixed(
            device
                .alloc_filled((rows * width) as u64, 0)
                .expect("zeros"),
        ),
    }
}

fn project(device: &Device, batch: &Batch, exprs: Vec<(&str, Expr, DataType)>) -> Batch {
    let outputs: Vec<(Expr, Field)> = exprs
        .into_iter()
        .map(|(name, expr, data_type)| (expr, Field::new(name, data_type, true)))
        .collect();
    filter_project(device, batch, None, &outputs).expect("a projection")
}

/// `id` numbers the rows from 0.
fn numbered(device: &Device, rows: usize) -> Batch {
    let zero = batch(vec![("zero", zeros(device, DataType::Int64, 8, rows))]);
    let one = project(
        device,
        &zero,
        vec![("one", column(0).binary(Op::Add, int(1)), DataType::Int64)],
    );
    let id = scan(device, &one.columns[0], Total::Sum, Bound::Exclusive, None).expect("numbers");
    batch(vec![("id", id)])
}

/// The numbers below the number of rows, a power of two, in another order, and `id`.
fn shuffled(device: &Device, ids: &Batch) -> Batch {
    let last = int(ids.rows as i64 - 1);
    let v = column(0)
        .binary(Op::Mul, int(STRIDE))
        .binary(Op::BitAnd, last);
    project(
        device,
        ids,
        vec![
            ("v", v, DataType::Int64),
            ("id", column(0), DataType::Int64),
        ],
    )
}

fn total(device: &Device, batch: &Batch, function: Function, expr: Expr) -> ArrayRef {
    let aggregation = Aggregation {
        aggregates: vec![Aggregate {
            function,
            argument: Some(expr),
            filter: None,
            order: Vec::new(),
            state: vec![Field::new("state", DataType::Int64, true)],
        }],
        ..Aggregation::default()
    };
    reduce(device, batch, &aggregation)
        .expect("a state")
        .column(0)
        .clone()
}

/// How many rows there are for which `predicate` is true.
fn count(device: &Device, batch: &Batch, predicate: Expr) -> i64 {
    let taken = Expr::Case {
        when_then: vec![(predicate, int(1))],
        otherwise: None,
    };
    total(device, batch, Function::Count, taken)
        .as_primitive::<Int64Type>()
        .value(0)
}

/// Whether `predicate` is true of every row.
fn all(device: &Device, batch: &Batch, predicate: Expr) {
    assert_eq!(count(device, batch, predicate), batch.rows as i64);
}

fn sum(device: &Device, batch: &Batch, index: usize) -> i64 {
    total(device, batch, Function::Sum, column(index))
        .as_primitive::<Int64Type>()
        .value(0)
}

/// The columns of both, side by side.
fn beside(left: &Batch, right: &Batch) -> Batch {
    let fields = left
        .schema
        .fields()
        .iter()
        .chain(right.schema.fields())
        .cloned();
    Batch {
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        columns: left.columns.iter().chain(&right.columns).cloned().collect(),
        rows: left.rows,
    }
}

fn equal(left: usize, right: Expr) -> Expr {
    column(left).binary(Op::Eq, right)
}

fn key(index: usize) -> SortKey {
    SortKey {
        expr: column(index),
        descending: false,
        nulls_first: false,
    }
}

/// The buffer of row numbers that are the values of a column.
fn map_of(device: &Device, batch: &Batch, index: usize) -> Buffer {
    let map = project(
        device,
        batch,
        vec![(
            "map",
            column(index).cast(DataType::UInt32),
            DataType::UInt32,
        )],
    );
    match &map.columns[0].data {
        Storage::Fixed(map) => map.clone(),
        _ => panic!("words"),
    }
}

#[test]
#[ignore = "takes 100 GB of device memory"]
fn scans_and_reductions() {
    let device = open();
    let n = rows() as i64;
    let ids = numbered(&device, rows());
    assert!(is_sorted(&device, &ids, &[key(0)]).expect("an answer"));
    assert_eq!(sum(&device, &ids, 0), n / 2 * (n - 1));
    let word = |function| {
        total(&device, &ids, function, column(0))
            .as_primitive::<Int64Type>()
            .value(0)
    };
    assert_eq!((word(Function::Min), word(Function::Max)), (0, n - 1));
    assert_eq!((word(Function::BitOr), word(Function::BitXor)), (n - 1, 0));
    assert_eq!(unique(&device, &ids, &[key(0)]).expect("rows").rows, rows());
    // Sums of 0 to i: i * (i + 1) / 2.
    let sums = scan(&device, &ids.columns[0], Total::Sum, Bound::Inclusive, None).expect("sums");
    let sums = beside(&ids, &batch(vec![("sum", sums)]));
    let triangle = column(0).binary(Op::Mul, column(0).binary(Op::Add, int(1)));
    all(
        &device,
        &sums,
        triangle.binary(Op::Eq, column(1).binary(Op::Mul, int(2))),
    );
    drop(sums);
    let last = scan(&device, &ids.columns[0], Total::Max, Bound::Inclusive, None).expect("maxima");
    all(
        &device,
        &beside(&ids, &batch(vec![("max", last)])),
        equal(0, column(1)),
    );
    let middle = quantiles(
        &device,
        &shuffled(&device, &ids),
        &column(0),
        &[0.5, 1.0],
        Interpolation::Linear,
    )
    .expect("quantiles");
    let middle = middle.as_primitive::<Float64Type>();
    assert_eq!(middle.values(), &[(n - 1) as f64 / 2.0, (n - 1) as f64]);
    // Past 2^31 rows in total.
    let batches = [&ids, &ids, &ids];
    let counted = batches.map(|batch| count(&device, batch, column(0).binary(Op::Ge, int(0))));
    assert_eq!(counted.iter().sum::<i64>(), 3 * n);
}

#[test]
#[ignore = "takes 100 GB of device memory"]
fn selections() {
    let device = open();
    let n = rows() as i64;
    let all_rows = shuffled(&device, &numbered(&device, rows()));
    let outputs: Vec<(Expr, Field)> = (0..2)
        .map(|i| (column(i), all_rows.schema.field(i).clone()))
        .collect();
    for some in [n / 8, n / 2, n - 1] {
        let predicate = column(0).binary(Op::Lt, int(some));
        let taken = filter_project(&device, &all_rows, Some(&predicate), &outputs).expect("rows");
        assert_eq!(taken.rows as i64, some);
        assert_eq!(sum(&device, &taken, 0), some * (some - 1) / 2);
        assert!(is_sorted(&device, &taken, &[key(1)]).expect("an answer"));
    }
    let some = Expr::Case {
        when_then: vec![(
            column(0).binary(Op::Rem, int(4)).binary(Op::Gt, int(0)),
            column(0),
        )],
        otherwise: None,
    };
    let holes = project(
        &device,
        &all_rows,
        vec![
            ("v", some, DataType::Int64),
            ("id", column(1), DataType::Int64),
        ],
    );
    let known = drop_nulls(&device, &holes, &[0]).expect("rows");
    assert_eq!(known.rows, rows() / 4 * 3);
    all(
        &device,
        &known,
        column(0).binary(Op::Rem, int(4)).binary(Op::Gt, int(0)),
    );
    drop((holes, known));
    let few = project(
        &device,
        &all_rows,
        vec![("k", column(1).binary(Op::Div, int(16)), DataType::Int64)],
    );
    let heads = unique(&device, &few, &[key(0)]).expect("rows");
    assert_eq!(heads.rows, rows() / 16);
    assert_eq!(
        count_distinct(&device, &few, &column(0)).expect("a count"),
        rows() / 16
    );
    let thousand = project(
        &device,
        &all_rows,
        vec![("k", column(0).binary(Op::Rem, int(1000)), DataType::Int64)],
    );
    let groups = distinct(&device, &thousand).expect("rows");
    assert_eq!((groups.rows, sum(&device, &groups, 0)), (1000, 499_500));
}

#[test]
#[ignore = "takes 100 GB of device memory"]
fn moves() {
    let device = open();
    let n = rows() as i64;
    let ids = numbered(&device, rows());
    let both = shuffled(&device, &ids);
    let map = map_of(&device, &both, 0);
    let gathered = gather(&device, &ids, &map, rows()).expect("rows");
    all(&device, &beside(&both, &gathered), equal(0, column(2)));
    let gathered = gather_or_null(&device, &ids, &map, rows()).expect("rows");
    all(&device, &beside(&both, &gathered), equal(0, column(2)));
    drop(gathered);
    // Row `v` becomes `id`: back in order by a gather of `v`.
    let scattered =
        scatter(&device, &both.project(&[1]).expect("a column"), &map, &ids).expect("rows");
    let back = gather(&device, &scattered, &map, rows()).expect("rows");
    all(&device, &beside(&both, &back), equal(1, column(2)));
    drop((scattered, back, both));
    let reversed = reverse(&device, &ids).expect("rows");
    all(
        &device,
        &beside(&ids, &reversed),
        equal(1, int(n - 1).binary(Op::Sub, column(0))),
    );
    let mask: Buffer = device
        .alloc_filled(rows() as u64 / 8, 0x55)
        .expect("a mask");
    let chosen = copy_if_else(&device, &mask, &ids, &reversed).expect("rows");
    let odd = column(0).binary(Op::Rem, int(2));
    let other = odd.clone().binary(
        Op::Mul,
        int(n - 1).binary(Op::Sub, column(0).binary(Op::Mul, int(2))),
    );
    all(
        &device,
        &beside(&ids, &chosen),
        equal(1, column(0).binary(Op::Add, other)),
    );
    assert_eq!(
        bitmask::count(&mask, rows()).expect("a count"),
        rows() as u64 / 2
    );
    let none =
        bitmask::and(&mask, &bitmask::not(&mask, rows()).expect("bits"), rows()).expect("bits");
    assert_eq!(bitmask::count(&none, rows()).expect("a count"), 0);
    drop((reversed, chosen));
    let shifted = shift(&device, &ids, -5).expect("rows");
    assert_eq!(
        count(
            &device,
            &beside(&ids, &shifted),
            equal(1, column(0).binary(Op::Add, int(5)))
        ),
        n - 5
    );
    drop(shifted);
    let half = rows() / 2;
    let ends = [
        slice(&device, &ids, half, half).expect("rows"),
        slice(&device, &ids, 0, half).expect("rows"),
    ];
    let turned = concat(&device, &ends).expect("rows");
    let expected = column(0)
        .binary(Op::Add, int(n / 2))
        .binary(Op::Rem, int(n));
    all(&device, &beside(&ids, &turned), equal(1, expected));
}

#[test]
#[ignore = "takes 100 GB of device memory"]
fn orders() {
    let device = open();
    let n = rows() as i64;
    let ids = numbered(&device, rows());
    let both = shuffled(&device, &ids);
    let of_v = column(1)
        .binary(Op::Mul, int(STRIDE))
        .binary(Op::BitAnd, int(n - 1));
    let sorted = sort(&device, &both, &[key(0)], None).expect("rows");
    assert!(!is_sorted(&device, &both, &[key(0)]).expect("an answer"));
    assert!(is_sorted(&device, &sorted, &[key(0)]).expect("an answer"));
    all(&device, &sorted, equal(0, of_v));
    all(&device, &beside(&sorted, &ids), equal(0, column(2)));
    drop(sorted);
    let alone = sort(
        &device,
        &both.project(&[0]).expect("a column"),
        &[key(0)],
        None,
    )
    .expect("rows");
    all(&device, &beside(&alone, &ids), equal(0, column(1)));
    drop(alone);
    let order = sorted_order(&device, &both, &[key(0)]).expect("an order");
    let gathered = gather(&device, &both, &order, rows()).expect("rows");
    all(&device, &beside(&gathered, &ids), equal(0, column(2)));
    drop((order, gathered));
    let first = sort(&device, &both, &[key(0)], Some(1000)).expect("rows");
    let first = first.download().expect("rows");
    assert!(
        first
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .copied()
            .eq(0..1000)
    );
    // Of even and odd numbers.
    let half = slice(&device, &ids, 0, rows() / 2).expect("rows");
    let twice = column(0).binary(Op::Mul, int(2));
    let even = project(&device, &half, vec![("id", twice.clone(), DataType::Int64)]);
    let odd = project(
        &device,
        &half,
        vec![("id", twice.binary(Op::Add, int(1)), DataType::Int64)],
    );
    drop(half);
    let merged = merge(&device, &[even, odd], &[key(0)]).expect("rows");
    all(&device, &beside(&merged, &ids), equal(0, column(1)));
    drop(merged);
    let ranked = rank(&device, &both, &[key(0)], Rank::Dense).expect("ranks");
    let ranked = beside(&both, &batch(vec![("rank", ranked)]));
    let ranks = column(2).cast(DataType::Int64);
    let from = total(
        &device,
        &ranked,
        Function::Min,
        ranks.clone().binary(Op::Sub, column(0)),
    );
    let to = total(
        &device,
        &ranked,
        Function::Max,
        ranks.binary(Op::Sub, column(0)),
    );
    assert_eq!(from.as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(to.as_primitive::<Int64Type>().value(0), 1);
}

#[test]
#[ignore = "takes 100 GB of device memory"]
fn partitions_and_joins() {
    let device = open();
    let n = rows() as i64;
    let both = shuffled(&device, &numbered(&device, rows()));
    let hashes = batch(vec![(
        "hash",
        hash_rows(&device, &both, &[column(0)]).expect("hashes"),
    )]);
    let of_last = |batch: &Batch| slice(&device, batch, rows() - 999, 999).expect("rows");
    let hashed = hash_rows(&device, &of_last(&both), &[column(0)]).expect("hashes");
    all(
        &device,
        &beside(&of_last(&hashes), &batch(vec![("hash", hashed)])),
        equal(0, column(1)),
    );
    drop(hashes);
    for parts in [256, 4096] {
        let parted = partition_by_hash(&device, &both, &[column(0)], parts).expect("parts");
        assert_eq!(parted.offsets.last(), Some(&rows()));
        assert_eq!(sum(&device, &parted.batch, 0), n / 2 * (n - 1));
        let of_v = column(1)
            .binary(Op::Mul, int(STRIDE))
            .binary(Op::BitAnd, int(n - 1));
        all(&device, &parted.batch, equal(0, of_v));
    }
    let bounds: ArrayRef = Arc::new(Int64Array::from(vec![n / 4, n / 2]));
    let bounds = RecordBatch::try_from_iter([("v", bounds)]).expect("bounds");
    let bounds = Batch::upload(&device, &bounds).expect("bounds");
    let parted = partition_by_range(&device, &both, &[key(0)], &bounds).expect("parts");
    assert_eq!(parted.offsets, [0, rows() / 4, rows() / 2, rows()]);
    drop(parted);
    // Every eighth value is a build row.
    let build = slice(&device, &both, 0, rows() / 8).expect("rows");
    let build = project(
        &device,
        &build,
        vec![("k", column(1).binary(Op::Mul, int(8)), DataType::Int64)],
    );
    let inner = Join {
        kind: Kind::Inner,
        keys: vec![JoinKey {
            build: column(0),
            probe: column(0),
            null_equals_null: false,
        }],
        condition: None,
        outputs: vec![
            (
                Output::Column(Side::Build, 0),
                Field::new("k", DataType::Int64, true),
            ),
            (
                Output::Column(Side::Probe, 0),
                Field::new("v", DataType::Int64, true),
            ),
        ],
    };
    let joined = join(&device, &build, &both, &inner).expect("rows");
    assert_eq!(joined.rows, rows() / 8);
    all(&device, &joined, equal(0, column(1)));
    assert_eq!(sum(&device, &joined, 0), 8 * (n / 8) * (n / 8 - 1) / 2);
}

#[test]
#[ignore = "takes 100 GB of device memory"]
fn more_rows_than_2_to_the_31() {
    let device = open();
    let rows = rows() / 4 * 11;
    let n = rows as i64;
    let bytes = batch(vec![("zero", zeros(&device, DataType::Int8, 1, rows))]);
    let seven = Expr::Literal(Literal::Int8(7));
    let bytes = project(
        &device,
        &bytes,
        vec![(
            "b",
            column(0).binary(Op::Add, seven.clone()),
            DataType::Int8,
        )],
    );
    assert_eq!(count(&device, &bytes, equal(0, seven.clone())), n);
    let outputs = [(column(0), bytes.schema.field(0).clone())];
    let every =
        filter_project(&device, &bytes, Some(&equal(0, seven.clone())), &outputs).expect("rows");
    assert_eq!(every.rows, rows);
    assert_eq!(count(&device, &every, equal(0, seven.clone())), n);
    drop(every);
    let none = filter_project(
        &device,
        &bytes,
        Some(&column(0).binary(Op::Lt, seven.clone())),
        &outputs,
    );
    assert_eq!(none.expect("rows").rows, 0);
    // The last row is another one.
    let one: ArrayRef = Arc::new(Int8Array::from(vec![3]));
    let one = RecordBatch::try_from_iter([("b", one)]).expect("a row");
    let one = Batch::upload(&device, &one).expect("a row");
    let most = slice(&device, &bytes, 0, rows - 1).expect("rows");
    drop(bytes);
    let bytes = concat(&device, &[most, one]).expect("rows");
    let three = Expr::Literal(Literal::Int8(3));
    let last =
        filter_project(&device, &bytes, Some(&equal(0, three.clone())), &outputs).expect("rows");
    assert_eq!(last.rows, 1);
    let turned = reverse(&device, &bytes).expect("rows");
    let first = slice(&device, &turned, 0, 2)
        .expect("rows")
        .download()
        .expect("rows");
    assert_eq!(
        first.column(0).as_ref(),
        &Int8Array::from(vec![3, 7]) as &dyn Array
    );
    let sorted = sort(&device, &bytes, &[key(0)], None).expect("rows");
    assert!(is_sorted(&device, &sorted, &[key(0)]).expect("an answer"));
    assert_eq!(count(&device, &sorted, equal(0, seven)), n - 1);
    drop(sorted);
    let parted = partition_by_hash(&device, &bytes, &[column(0)], 2).expect("parts");
    assert_eq!(parted.offsets[2], rows);
    assert_eq!(count(&device, &parted.batch, equal(0, three)), 1);
    assert_eq!(distinct(&device, &bytes).expect("rows").rows, 2);
    assert_eq!(
        count_distinct(&device, &turned, &column(0)).expect("a count"),
        2
    );
}
