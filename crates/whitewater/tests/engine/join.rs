//! Joins against pairs found row by row on the host.

use std::sync::Arc;

use arrow::{
    array::*,
    compute::{SortOptions, concat_batches, take},
    datatypes::*,
    util::display::array_value_to_string,
};
use proptest::prelude::*;
use whitewater::{
    Batch,
    expr::{Expr, Op},
    gpu::Device,
    join::{Grace, Join, JoinKey, Joiner, Kind, Output, Side, Table, join},
};

use crate::{device, devices, upload};

const BOTH: [Side; 2] = [Side::Build, Side::Probe];

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![Kind::Inner, Kind::FullOuter];
    for side in BOTH {
        kinds.extend([
            Kind::Outer(side),
            Kind::Semi(side),
            Kind::Anti(side),
            Kind::Mark(side),
        ]);
    }
    kinds
}

/// What a join is of: both sides on the host, and how rows meet.
struct Case {
    build: RecordBatch,
    probe: RecordBatch,
    /// Key columns of both sides, and whether null equals null.
    keys: Vec<(usize, usize, bool)>,
    /// Columns of both sides that are compared: build < probe.
    less: Option<(usize, usize)>,
    /// Columns of both sides that are compared in other ways, build first.
    ranges: Vec<(usize, Op, usize)>,
}

/// The value as something to compare by: zeros are equal, NaNs by their bits.
fn value(array: &ArrayRef, row: usize) -> Option<String> {
    if array.is_null(row) {
        return None;
    }
    if let Some(floats) = array.as_any().downcast_ref::<Float64Array>() {
        let v = floats.value(row);
        return Some(format!("{:x}", if v == 0.0 { 0 } else { v.to_bits() }));
    }
    if let Some(floats) = array.as_any().downcast_ref::<Float32Array>() {
        let v = floats.value(row);
        return Some(format!("{:x}", if v == 0.0 { 0 } else { v.to_bits() }));
    }
    Some(array_value_to_string(array, row).expect("a value"))
}

impl Case {
    fn matches(&self, build: usize, probe: usize) -> bool {
        let equal = self.keys.iter().all(|(b, p, null_equals_null)| {
            match (
                value(self.build.column(*b), build),
                value(self.probe.column(*p), probe),
            ) {
                (None, None) => *null_equals_null,
                (a, b) => a == b,
            }
        });
        let compared = self.ranges.iter().all(|(b, op, p)| {
            let (left, right) = (self.build.column(*b), self.probe.column(*p));
            if left.is_null(build) || right.is_null(probe) {
                return false;
            }
            let compare = make_comparator(left, right, SortOptions::default()).expect("an order");
            let order = compare(build, probe);
            match op {
                Op::Lt => order.is_lt(),
                Op::Le => order.is_le(),
                Op::Gt => order.is_gt(),
                _ => order.is_ge(),
            }
        });
        equal
            && compared
            && self.less.is_none_or(|(b, p)| {
                let left = self.build.column(b).as_primitive::<Int64Type>();
                let right = self.probe.column(p).as_primitive::<Int64Type>();
                left.is_valid(build)
                    && right.is_valid(probe)
                    && left.value(build) < right.value(probe)
            })
    }

    /// Pairs in the order of the probe side, then the build side.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let probe = 0..self.probe.num_rows();
        let pairs = probe.flat_map(|p| (0..self.build.num_rows()).map(move |b| (b, p)));
        pairs.filter(|(b, p)| self.matches(*b, *p)).collect()
    }

    /// The rows that `kind` gives, as row numbers of both sides and a mark.
    fn expected(&self, kind: Kind) -> Vec<(Option<u32>, Option<u32>, bool)> {
        let pairs = self.pairs();
        let (builds, probes) = (self.build.num_rows(), self.probe.num_rows());
        let mut has = [vec![false; builds], vec![false; probes]];
        for (b, p) in &pairs {
            has[0][*b] = true;
            has[1][*p] = true;
        }
        let mut rows = Vec::new();
        let one_side = |side: Side, rows: &mut Vec<_>, wanted: &dyn Fn(bool) -> bool| {
            let has = &has[usize::from(side == Side::Probe)];
            for (i, matched) in has.iter().enumerate().filter(|(_, m)| wanted(**m)) {
                let i = Some(i as u32);
                rows.push(match side {
                    Side::Build => (i, None, *matched),
                    Side::Probe => (None, i, *matched),
                });
            }
        };
        match kind {
            Kind::Semi(side) => one_side(side, &mut rows, &|m| m),
            Kind::Anti(side) => one_side(side, &mut rows, &|m| !m),
            Kind::Mark(side) => one_side(side, &mut rows, &|_| true),
            Kind::NotIn => {
                let null = |batch: &RecordBatch, column: usize, row: usize| {
                    batch.column(column).is_null(row)
                };
                let (b, p, _) = self.keys[0];
                if !(0..probes).any(|row| null(&self.probe, p, row)) {
                    one_side(Side::Build, &mut rows, &|m| !m);
                    if probes > 0 {
                        rows.retain(|(row, _, _)| {
                            row.is_some_and(|row| !null(&self.build, b, row as usize))
                        });
                    }
                }
            }
            Kind::Inner | Kind::Outer(_) | Kind::FullOuter => {
                let keeps = |side| kind == Kind::FullOuter || kind == Kind::Outer(side);
                let mut pairs = pairs.iter().peekable();
                for (p, matched) in has[1].iter().enumerate() {
                    while let Some((b, _)) = pairs.next_if(|(_, of)| *of == p) {
                        rows.push((Some(*b as u32), Some(p as u32), true));
                    }
                    if !matched && keeps(Side::Probe) {
                        rows.push((None, Some(p as u32), false));
                    }
                }
                for b in (0..builds).filter(|b| !has[0][*b] && keeps(Side::Build)) {
                    rows.push((Some(b as u32), None, false));
                }
            }
        }
        rows
    }

    fn join(&self, kind: Kind) -> Join {
        let given = |side: Side, batch: &RecordBatch| -> Vec<(Output, Field)> {
            let fields = batch
                .schema()
                .fields()
                .iter()
                .cloned()
                .enumerate()
                .collect::<Vec<_>>();
            let field = |(i, field): (usize, Arc<Field>)| {
                (
                    Output::Column(side, i),
                    field.as_ref().clone().with_nullable(true),
                )
            };
            fields.into_iter().map(field).collect()
        };
        let both = [(Side::Build, &self.build), (Side::Probe, &self.probe)];
        let mut outputs = Vec::new();
        for (side, batch) in both {
            let other = match side {
                Side::Build => Side::Probe,
                Side::Probe => Side::Build,
            };
            let left_out = match kind {
                Kind::Semi(of) | Kind::Anti(of) | Kind::Mark(of) => of == other,
                Kind::NotIn => side == Side::Probe,
                _ => false,
            };
            if !left_out {
                outputs.extend(given(side, batch));
            }
        }
        if matches!(kind, Kind::Mark(_)) {
            outputs.push((Output::Mark, Field::new("mark", DataType::Boolean, false)));
        }
        let key = |(build, probe, null_equals_null): &(usize, usize, bool)| JoinKey {
            build: Expr::column(*build),
            probe: Expr::column(*probe),
            null_equals_null: *null_equals_null,
        };
        let first = self.build.num_columns();
        Join {
            kind,
            keys: self.keys.iter().map(key).collect(),
            condition: self
                .less
                .map(|(b, p)| (b, Op::Lt, p))
                .iter()
                .chain(&self.ranges)
                .enumerate()
                .map(|(i, (b, op, p))| {
                    let (build, probe) = (Expr::column(*b), Expr::column(first + p));
                    match (i % 2, op) {
                        // The other way round means the same.
                        (1, Op::Le) => probe.binary(Op::Ge, build),
                        (1, Op::Gt) => probe.binary(Op::Lt, build),
                        _ => build.binary(*op, probe),
                    }
                })
                .reduce(|all, one| all.binary(Op::And, one)),
            outputs,
        }
    }

    /// The result's columns, taken on the host.
    fn taken(&self, join: &Join, rows: &[(Option<u32>, Option<u32>, bool)]) -> Vec<ArrayRef> {
        let builds = UInt32Array::from_iter(rows.iter().map(|(b, _, _)| *b));
        let probes = UInt32Array::from_iter(rows.iter().map(|(_, p, _)| *p));
        let marks = BooleanArray::from_iter(rows.iter().map(|(_, _, m)| Some(*m)));
        let column = |(output, _): &(Output, Field)| match output {
            Output::Column(Side::Build, i) => {
                take(self.build.column(*i), &builds, None).expect("rows")
            }
            Output::Column(Side::Probe, i) => {
                take(self.probe.column(*i), &probes, None).expect("rows")
            }
            Output::Mark => Arc::new(marks.clone()) as ArrayRef,
        };
        join.outputs.iter().map(column).collect()
    }

    fn check(&self, kind: Kind) {
        let rows = self.expected(kind);
        let join_of = self.join(kind);
        let expected = self.taken(&join_of, &rows);
        let schemas = (self.build.schema(), self.probe.schema());
        join_of
            .check(&schemas.0, &schemas.1)
            .expect("a join that is there");
        for device in devices() {
            let (build, probe) = (upload(&self.build), upload(&self.probe));
            let joined = join(&device, &build, &probe, &join_of).expect("a join");
            let joined = joined.download().expect("download");
            assert_eq!(joined.num_rows(), rows.len(), "{kind:?} {:?}", self.keys);
            if !self.ranges.is_empty() {
                // Build rows come in the order of their values.
                let expected = RecordBatch::try_new(joined.schema(), expected.clone());
                let expected = sorted_rows(&expected.expect("rows"));
                assert_eq!(sorted_rows(&joined), expected, "{kind:?} {:?}", self.ranges);
                continue;
            }
            for (got, expected) in joined.columns().iter().zip(&expected) {
                assert_eq!(got, expected, "{kind:?} {:?} {:?}", self.keys, self.less);
            }
        }
    }

    fn check_all(&self) {
        for kind in kinds() {
            self.check(kind);
        }
    }
}

/// A column of `data_type` with `rows` values of a small domain; every seventh is null if `nulls`.
fn column(data_type: &DataType, rows: usize, domain: usize, shift: usize, nulls: bool) -> ArrayRef {
    let number = |i: usize| (i * 7919 + shift * 13 + i / 3) % domain;
    let numbers = (0..rows).map(|i| (!nulls || i % 7 != 3).then(|| number(i) as i64));
    let text = |short: bool| {
        move |n: i64| match short {
            true => format!("k{n}"),
            false => format!("a key that is longer than a word: {n}"),
        }
    };
    match data_type {
        DataType::Utf8 => Arc::new(StringArray::from_iter(numbers.map(|n| n.map(text(false))))),
        DataType::Binary => {
            let values: Vec<Option<String>> = numbers.map(|n| n.map(text(true))).collect();
            let bytes = values.iter().map(|v| v.as_ref().map(|v| v.as_bytes()));
            Arc::new(BinaryArray::from_iter(bytes))
        }
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter(
            numbers.map(|n| n.map(text(true))),
        )),
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            numbers.map(|n| n.map(|n| n % 2 == 0)),
        )),
        other => {
            let numbers: ArrayRef =
                Arc::new(Int64Array::from_iter(numbers.map(|n| n.map(|n| n - 3))));
            match other {
                DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                    let plus = Int64Array::from_iter(
                        numbers
                            .as_primitive::<Int64Type>()
                            .iter()
                            .map(|n| n.map(|n| n + 3)),
                    );
                    arrow::compute::cast(&plus, other).expect("a cast")
                }
                _ if other.is_temporal() && other.primitive_width() == Some(4) => {
                    let narrow = arrow::compute::cast(&numbers, &DataType::Int32).expect("a cast");
                    arrow::compute::cast(&narrow, other).expect("a cast")
                }
                _ => arrow::compute::cast(&numbers, other).expect("a cast"),
            }
        }
    }
}

/// Keys, a payload of another type, a number to compare, and the row's number.
fn side(
    data_types: &[DataType],
    rows: usize,
    domain: usize,
    shift: usize,
    nulls: bool,
) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef, bool)> = Vec::new();
    for (i, data_type) in data_types.iter().enumerate() {
        let keys = column(data_type, rows, domain + i, shift + i, nulls);
        columns.push((format!("key{i}"), keys, true));
    }
    let payload = column(&DataType::Utf8, rows, 50, shift, nulls);
    let number = column(&DataType::Int64, rows, 17, shift + 5, nulls);
    let row: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..rows as u32));
    columns.push(("payload".into(), payload, true));
    columns.push(("number".into(), number, true));
    columns.push(("row".into(), row, false));
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

fn types() -> Vec<DataType> {
    vec![
        DataType::Int64,
        DataType::Int32,
        DataType::Int16,
        DataType::UInt8,
        DataType::UInt64,
        DataType::Float64,
        DataType::Float32,
        DataType::Boolean,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Decimal128(20, 2),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Binary,
    ]
}

#[test]
fn keys_of_every_type_in_every_kind() {
    for data_type in types() {
        for (nulls, null_equals_null) in [(true, false), (true, true), (false, false)] {
            let types = [data_type.clone()];
            Case {
                build: side(&types, 41, 12, 1, nulls),
                probe: side(&types, 70, 15, 2, nulls),
                keys: vec![(0, 0, null_equals_null)],
                less: None,
                ranges: Vec::new(),
            }
            .check_all();
        }
    }
}

/// As [`side`], with a key that occurs once.
fn unique_side(rows: usize, nulls: bool) -> RecordBatch {
    let host = side(&[DataType::Int64], rows, 5, 0, nulls);
    let keys = (0..rows as i64).map(|i| (!nulls || i != 3).then_some((i * 37) % 101 - 1));
    let mut columns = host.columns().to_vec();
    columns[0] = Arc::new(Int64Array::from_iter(keys));
    RecordBatch::try_new(host.schema(), columns).expect("a batch")
}

#[test]
fn unique_keys_in_every_kind() {
    for nulls in [false, true] {
        for null_equals_null in [false, true] {
            for less in [None, Some((2, 2))] {
                Case {
                    build: unique_side(60, nulls),
                    probe: side(&[DataType::Int64], 90, 80, 3, nulls),
                    keys: vec![(0, 0, null_equals_null)],
                    less,
                    ranges: Vec::new(),
                }
                .check_all();
            }
        }
    }
}

#[test]
fn several_keys_and_a_condition() {
    let pairs = [
        vec![DataType::Int64, DataType::Int32],
        vec![DataType::Int32, DataType::Int16],
        vec![DataType::Utf8, DataType::Decimal128(20, 2)],
        vec![DataType::Boolean, DataType::LargeUtf8, DataType::Float64],
    ];
    for types in pairs {
        // Null equals null in the second key alone.
        let keys = (0..types.len()).map(|i| (i, i, i == 1)).collect();
        let at = types.len() + 1;
        Case {
            build: side(&types, 50, 4, 1, true),
            probe: side(&types, 64, 4, 2, true),
            keys,
            less: Some((at, at)),
            ranges: Vec::new(),
        }
        .check_all();
    }
}

#[test]
fn a_condition_that_reads_nulls_of_one_side() {
    for (left, right) in [(true, false), (false, true)] {
        Case {
            build: side(&[DataType::Int64], 40, 6, 1, left),
            probe: side(&[DataType::Int64], 40, 6, 2, right),
            keys: vec![(0, 0, false)],
            less: Some((2, 2)),
            ranges: Vec::new(),
        }
        .check_all();
    }
}

#[test]
fn every_row_with_every_row() {
    for less in [None, Some((2, 2))] {
        for (builds, probes) in [(31, 40), (32, 5), (1, 1), (0, 4), (3, 0), (100, 300)] {
            Case {
                build: side(&[DataType::Int64], builds, 6, 1, true),
                probe: side(&[DataType::Int64], probes, 6, 2, true),
                keys: Vec::new(),
                less,
                ranges: Vec::new(),
            }
            .check_all();
        }
    }
}

/// Comparisons that leave few candidates: the build side is put in order, and the rows of a range are tried.
#[test]
fn ranges() {
    use DataType::*;
    let types = [
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Date32,
        Timestamp(TimeUnit::Microsecond, None),
        Decimal128(15, 2),
        Decimal128(38, 2),
    ];
    let wide = [Int64, Float64];
    for data_type in types {
        for nulls in [false, true] {
            // The values of the build side are above nearly all of the probe side.
            let high = column(&data_type, 70, 40, 5, nulls);
            let low = column(&data_type, 90, 12, 1, nulls);
            let more = column(&data_type, 90, 17, 1, nulls);
            let number = |rows: usize| -> ArrayRef {
                Arc::new(UInt32Array::from_iter_values(0..rows as u32))
            };
            let batch = |columns: Vec<ArrayRef>| {
                let columns = columns
                    .into_iter()
                    .enumerate()
                    .map(|(i, c)| (format!("c{i}"), c, true));
                RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
            };
            let ways = [
                vec![(0, Op::Lt, 0)],
                vec![(0, Op::Ge, 0), (0, Op::Le, 1)],
                vec![(0, Op::Gt, 0), (0, Op::Lt, 1)],
                vec![(0, Op::Le, 0), (1, Op::Gt, 2)],
            ];
            for ranges in ways {
                let case = Case {
                    build: batch(vec![high.clone(), number(70)]),
                    probe: batch(vec![low.clone(), more.clone(), number(90)]),
                    keys: Vec::new(),
                    less: None,
                    ranges,
                };
                match wide.contains(&data_type) {
                    true => case.check_all(),
                    false => case.check(Kind::Outer(Side::Probe)),
                }
            }
        }
    }
}

#[test]
fn sides_of_no_row_and_of_one() {
    for (builds, probes) in [(0, 0), (0, 9), (9, 0), (1, 9), (9, 1), (1, 1)] {
        for less in [None, Some((2, 2))] {
            Case {
                build: side(&[DataType::Int64], builds, 3, 1, false),
                probe: side(&[DataType::Int64], probes, 3, 2, false),
                keys: vec![(0, 0, false)],
                less,
                ranges: Vec::new(),
            }
            .check_all();
        }
    }
}

fn one_column(array: ArrayRef) -> RecordBatch {
    let rows: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..array.len() as u32));
    RecordBatch::try_from_iter_with_nullable([("key", array, true), ("row", rows, false)])
        .expect("a batch")
}

#[test]
fn zeros_and_nans() {
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let values = [
        0.0,
        -0.0,
        f64::NAN,
        other_nan,
        -f64::NAN,
        f64::INFINITY,
        1.0,
    ];
    let floats: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    let singles: ArrayRef = Arc::new(Float32Array::from_iter_values(values.map(|v| v as f32)));
    for array in [floats, singles] {
        Case {
            build: one_column(array.clone()),
            probe: one_column(array),
            keys: vec![(0, 0, false)],
            less: None,
            ranges: Vec::new(),
        }
        .check_all();
    }
}

#[test]
fn keys_that_look_like_an_empty_slot() {
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![-1, 0, -1, i64::MIN, i64::MAX, 1]));
    let others: ArrayRef = Arc::new(Int64Array::from(vec![5, -1, 0, i64::MAX, -1, 2]));
    let words: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 0, 7]));
    for (build, probe) in [
        (keys.clone(), others.clone()),
        (others, keys),
        (words.clone(), words),
    ] {
        Case {
            build: one_column(build),
            probe: one_column(probe),
            keys: vec![(0, 0, false)],
            less: None,
            ranges: Vec::new(),
        }
        .check_all();
    }
}

/// Decimals that fit one word on one side, and need two on the other.
#[test]
fn narrow_and_wide_decimals() {
    let narrow = vec![
        Some(1i128),
        Some(-5),
        None,
        Some(i128::from(i64::MAX)),
        Some(-1),
    ];
    let far = (1i128 << 64) + 1;
    let wide = vec![
        Some(far),
        Some(1),
        Some(-5),
        Some(-far),
        None,
        Some(i128::from(i64::MAX)),
    ];
    let decimals = |values: Vec<Option<i128>>| -> ArrayRef {
        let array = Decimal128Array::from(values);
        Arc::new(array.with_precision_and_scale(38, 0).expect("a precision"))
    };
    let (narrow, wide) = (decimals(narrow), decimals(wide));
    for (build, probe) in [(narrow.clone(), wide.clone()), (wide, narrow)] {
        for null_equals_null in [false, true] {
            Case {
                build: one_column(build.clone()),
                probe: one_column(probe.clone()),
                keys: vec![(0, 0, null_equals_null)],
                less: None,
                ranges: Vec::new(),
            }
            .check_all();
        }
    }
}

/// Strings of which one side's fit a word, and the other's do not.
#[test]
fn short_and_long_strings() {
    let short: ArrayRef = Arc::new(StringArray::from(vec![
        Some("a"),
        Some(""),
        None,
        Some("seven77"),
        Some("\0"),
    ]));
    let long: ArrayRef = Arc::new(StringArray::from(vec![
        Some("seven77"),
        Some("seven77 and more"),
        None,
        Some(""),
        Some("a"),
        Some("\0\0"),
    ]));
    for (build, probe) in [(short.clone(), long.clone()), (long, short)] {
        for null_equals_null in [false, true] {
            Case {
                build: one_column(build.clone()),
                probe: one_column(probe.clone()),
                keys: vec![(0, 0, null_equals_null)],
                less: None,
                ranges: Vec::new(),
            }
            .check_all();
        }
    }
}

#[test]
fn not_in() {
    let lists: [&[Option<i64>]; 5] = [
        &[Some(1), Some(2), None, Some(3)],
        &[Some(3), Some(3), Some(4)],
        &[None],
        &[],
        &[Some(1)],
    ];
    for build in lists {
        for probe in lists {
            Case {
                build: one_column(Arc::new(Int64Array::from(build.to_vec()))),
                probe: one_column(Arc::new(Int64Array::from(probe.to_vec()))),
                keys: vec![(0, 0, false)],
                less: None,
                ranges: Vec::new(),
            }
            .check(Kind::NotIn);
        }
    }
}

/// One null empties the result, whichever batch it is in.
#[test]
fn not_in_over_several_batches() {
    let host = |values: Vec<Option<i64>>| one_column(Arc::new(Int64Array::from(values)));
    let build = host(vec![Some(1), Some(2), None]);
    let case = |probe: RecordBatch| Case {
        build: build.clone(),
        probe,
        keys: vec![(0, 0, false)],
        less: None,
        ranges: Vec::new(),
    };
    for (batches, rows) in [
        (vec![vec![Some(1)], vec![None], vec![Some(7)]], 0),
        (vec![vec![], vec![Some(1)]], 1),
        (vec![vec![], vec![]], 3),
    ] {
        let case = case(host(batches.concat()));
        let mut given = 0;
        let mut joiner =
            Joiner::new(device(), &upload(&build), case.join(Kind::NotIn)).expect("a table");
        let mut sink = |batch: Batch| {
            given += batch.rows;
            Ok(())
        };
        for batch in batches {
            joiner
                .probe(&upload(&host(batch)), &mut sink)
                .expect("a join");
        }
        joiner.finish(&mut sink).expect("a join");
        assert_eq!(given, rows);
        assert_eq!(case.expected(Kind::NotIn).len(), rows);
    }
}

/// What a joiner gives of several batches of the probe side.
fn in_batches(
    device: &Device,
    case: &Case,
    kind: Kind,
    at_once: usize,
    table: &Table,
) -> RecordBatch {
    let join = case.join(kind);
    let mut batches = Vec::new();
    let mut joiner = Joiner::with_table(table.clone(), join.clone())
        .expect("a table")
        .at_once(at_once);
    let mut sink = |batch: Batch| {
        batches.push(batch.download().expect("download"));
        Ok(())
    };
    for first in (0..case.probe.num_rows()).step_by(17) {
        let rows = 17.min(case.probe.num_rows() - first);
        let probe = Batch::upload(device, &case.probe.slice(first, rows)).expect("upload");
        joiner.probe(&probe, &mut sink).expect("a join");
    }
    joiner.finish(&mut sink).expect("a join");
    let fields: Vec<Field> = join
        .outputs
        .iter()
        .map(|(_, field)| field.clone())
        .collect();
    concat_batches(&Arc::new(Schema::new(fields)), &batches).expect("one batch")
}

/// A table that is built once is probed by many batches, and gives its results in chunks.
#[test]
fn several_batches_and_chunks() {
    for less in [None, Some((2, 2))] {
        let case = Case {
            build: side(&[DataType::Int64], 40, 5, 1, true),
            probe: side(&[DataType::Int64], 60, 6, 2, true),
            keys: vec![(0, 0, false)],
            less,
            ranges: Vec::new(),
        };
        for device in devices() {
            let keys = case.join(Kind::Inner).keys;
            let table = Table::build(&device, &upload(&case.build), &keys).expect("a table");
            for kind in kinds() {
                for at_once in [1, 10, 1000] {
                    let joined = in_batches(&device, &case, kind, at_once, &table);
                    let join = case.join(kind);
                    let expected = case.taken(&join, &case.expected(kind));
                    assert_eq!(joined.columns(), &expected, "{kind:?} {at_once}");
                }
            }
        }
    }
}

/// Tables of some hundred keys: unique and not, nulls that match and not.
#[test]
fn larger_build_sides() {
    for (rows, domain) in [(300, 97), (400, 100_000)] {
        for (nulls, null_equals_null) in [(true, false), (true, true), (false, false)] {
            Case {
                build: side(&[DataType::Int64], rows, domain, 1, nulls),
                probe: side(&[DataType::Int64], 80, domain, 2, nulls),
                keys: vec![(0, 0, null_equals_null)],
                less: None,
                ranges: Vec::new(),
            }
            .check_all();
        }
    }
}

/// 90 % of the rows have one key.
#[test]
fn skewed_keys() {
    let keys = |rows: usize, at: usize| -> ArrayRef {
        let keys = (0..rows).map(|i| if i % 10 == at { i as i64 } else { 7 });
        Arc::new(Int64Array::from_iter_values(keys))
    };
    Case {
        build: one_column(keys(200, 3)),
        probe: one_column(keys(150, 3)),
        keys: vec![(0, 0, false)],
        less: None,
        ranges: Vec::new(),
    }
    .check_all();
}

/// Pairs are counted in 64 bits, and none is made where no column is wanted.
#[test]
fn more_pairs_than_32_bits_number() {
    const ROWS: usize = 65_567;
    let keys: ArrayRef = Arc::new(Int32Array::from(vec![9; ROWS]));
    let batch = upload(&RecordBatch::try_from_iter([("key", keys)]).expect("a batch"));
    let count = Join {
        kind: Kind::Inner,
        keys: vec![JoinKey {
            build: Expr::column(0),
            probe: Expr::column(0),
            null_equals_null: false,
        }],
        condition: None,
        outputs: Vec::new(),
    };
    let mut rows = 0;
    let mut joiner = Joiner::new(device(), &batch, count).expect("a table");
    let mut sink = |batch: Batch| {
        rows += batch.rows as u64;
        Ok(())
    };
    joiner.probe(&batch, &mut sink).expect("a count");
    assert_eq!(rows, 4_299_031_489);
}

#[test]
fn an_error_in_a_condition() {
    let number = |values: Vec<i64>| one_column(Arc::new(Int64Array::from(values)));
    let case = Case {
        build: number(vec![1, 2]),
        probe: number(vec![1, 2]),
        keys: vec![(0, 0, false)],
        less: None,
        ranges: Vec::new(),
    };
    let mut join_of = case.join(Kind::Inner);
    let zero = Expr::column(0).binary(Op::Sub, Expr::column(2));
    join_of.condition = Some(
        Expr::column(0)
            .binary(Op::Div, zero.clone())
            .binary(Op::Gt, zero),
    );
    for keys in [join_of.keys.clone(), Vec::new()] {
        let join_of = Join {
            keys,
            ..join_of.clone()
        };
        let joined = join(
            device(),
            &upload(&case.build),
            &upload(&case.probe),
            &join_of,
        );
        let error = joined.expect_err("a division by zero").to_string();
        assert!(error.to_lowercase().contains("zero"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_keys(
        build in proptest::collection::vec(proptest::option::weighted(0.9, -3i64..6), 0..80),
        probe in proptest::collection::vec(proptest::option::weighted(0.9, -3i64..6), 0..80),
        null_equals_null: bool,
        less: bool,
        kind in 0usize..10,
    ) {
        let host = |keys: &[Option<i64>]| {
            let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(
                (0..keys.len() as i64).map(|i| i * 31 % 11),
            ));
            RecordBatch::try_from_iter_with_nullable([("key", keys, true), ("number", numbers, false)])
                .expect("a batch")
        };
        Case {
            build: host(&build),
            probe: host(&probe),
            keys: vec![(0, 0, null_equals_null)],
            less: less.then_some((1, 1)),
            ranges: Vec::new(),
        }
        .check(kinds()[kind]);
    }
}

/// Both sides in parts on the host: the same rows, part by part.
#[test]
fn parts_on_the_host() {
    let not_in = Kind::NotIn;
    for (kind, nulls) in kinds()
        .into_iter()
        .chain([not_in])
        .flat_map(|k| [(k, true), (k, false)])
    {
        for less in [None, Some((2, 2))] {
            if kind == not_in && less.is_some() {
                continue;
            }
            let case = Case {
                build: side(&[DataType::Int64], 90, 40, 1, true),
                probe: side(&[DataType::Int64], 120, 45, 2, nulls),
                keys: vec![(0, 0, false)],
                less,
                ranges: Vec::new(),
            };
            let join_of = case.join(kind);
            let mut grace = Grace::new(device(), join_of.clone(), case.build.schema());
            for (of, host) in [(Side::Build, &case.build), (Side::Probe, &case.probe)] {
                for first in (0..host.num_rows()).step_by(50) {
                    let rows = 50.min(host.num_rows() - first);
                    grace
                        .add(of, &upload(&host.slice(first, rows)))
                        .expect("a partition");
                }
            }
            let mut batches = Vec::new();
            let mut sink = |batch: Batch| {
                batches.push(batch.download().expect("download"));
                Ok(())
            };
            grace.run(&mut sink).expect("a join");
            let fields = join_of.outputs.iter().map(|(_, field)| field.clone());
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let joined = concat_batches(&schema, &batches).expect("one batch");
            let expected = case.taken(&join_of, &case.expected(kind));
            let expected = RecordBatch::try_new(schema, expected).expect("a batch");
            assert_eq!(
                sorted_rows(&joined),
                sorted_rows(&expected),
                "{kind:?} {less:?}"
            );
        }
    }
}

/// The rows as text, in order.
fn sorted_rows(batch: &RecordBatch) -> Vec<String> {
    let row = |row: usize| {
        let values = batch
            .columns()
            .iter()
            .map(|c| array_value_to_string(c, row).expect("a value"));
        values.collect::<Vec<_>>().join("|")
    };
    let mut rows: Vec<String> = (0..batch.num_rows()).map(row).collect();
    rows.sort();
    rows
}
