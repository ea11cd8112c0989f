//! Arithmetic and comparisons of every type.

use arrow::{
    array::{Array, ArrayRef, Datum, RecordBatch},
    compute::kernels::{bitwise, cmp, numeric},
    datatypes::{DataType, TimeUnit},
    error::ArrowError,
};
use std::sync::Arc;

use super::{
    harness::{batch, check, pairs},
    tables,
};
use crate::expr::{Expr, Op};

const ARITHMETIC: [Op; 5] = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem];
const COMPARISONS: [Op; 8] = [
    Op::Eq,
    Op::Ne,
    Op::Lt,
    Op::Le,
    Op::Gt,
    Op::Ge,
    Op::IsDistinctFrom,
    Op::IsNotDistinctFrom,
];

/// What DataFusion's BinaryExpr calls.
fn arrow_binary(op: Op, l: &dyn Datum, r: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    let boolean = |result: Result<arrow::array::BooleanArray, ArrowError>| {
        result.map(|a| Arc::new(a) as ArrayRef)
    };
    match op {
        Op::Add => numeric::add_wrapping(l, r),
        Op::Sub => numeric::sub_wrapping(l, r),
        Op::Mul => numeric::mul_wrapping(l, r),
        Op::Div => numeric::div(l, r),
        Op::Rem => numeric::rem(l, r),
        Op::Eq => boolean(cmp::eq(l, r)),
        Op::Ne => boolean(cmp::neq(l, r)),
        Op::Lt => boolean(cmp::lt(l, r)),
        Op::Le => boolean(cmp::lt_eq(l, r)),
        Op::Gt => boolean(cmp::gt(l, r)),
        Op::Ge => boolean(cmp::gt_eq(l, r)),
        Op::IsDistinctFrom => boolean(cmp::distinct(l, r)),
        Op::IsNotDistinctFrom => boolean(cmp::not_distinct(l, r)),
        other => panic!("{other:?}"),
    }
}

fn check_ops(ops: &[Op], left: &ArrayRef, right: &ArrayRef) {
    let rows = pairs(left, right);
    for op in ops {
        let expr = Expr::column(0).binary(*op, Expr::column(1));
        check(&expr, &rows, |b| {
            arrow_binary(*op, b.column(0), b.column(1))
        });
    }
}

#[test]
fn integers_wrap_or_raise() {
    for data_type in tables::INTEGERS {
        let values = tables::integers(&data_type);
        check_ops(&ARITHMETIC, &values, &values);
        check_ops(&COMPARISONS, &values, &values);
    }
}

#[test]
fn bits_and_shifts() {
    let values = tables::integers(&DataType::Int16);
    let rows = pairs(&values, &values);
    type Kernel = fn(
        &arrow::array::Int16Array,
        &arrow::array::Int16Array,
    ) -> Result<arrow::array::Int16Array, ArrowError>;
    let kernels: [(Op, Kernel); 5] = [
        (Op::BitAnd, bitwise::bitwise_and),
        (Op::BitOr, bitwise::bitwise_or),
        (Op::BitXor, bitwise::bitwise_xor),
        (Op::ShiftLeft, bitwise::bitwise_shift_left),
        (Op::ShiftRight, bitwise::bitwise_shift_right),
    ];
    for (op, kernel) in kernels {
        let side = |b: &RecordBatch, i: usize| -> arrow::array::Int16Array {
            b.column(i).to_data().into()
        };
        check(&Expr::column(0).binary(op, Expr::column(1)), &rows, |b| {
            Ok(Arc::new(kernel(&side(b, 0), &side(b, 1))?))
        });
    }
    for data_type in [DataType::Int64, DataType::UInt64, DataType::UInt8] {
        let values = tables::integers(&data_type);
        let rows = pairs(&values, &values);
        let expr = Expr::column(0).binary(Op::ShiftRight, Expr::column(1));
        check(&expr, &rows, |b| {
            macro_rules! shift {
                ($array:ty) => {{
                    let side = |i: usize| -> $array { b.column(i).to_data().into() };
                    Ok(Arc::new(bitwise::bitwise_shift_right(&side(0), &side(1))?) as ArrayRef)
                }};
            }
            match data_type {
                DataType::Int64 => shift!(arrow::array::Int64Array),
                DataType::UInt64 => shift!(arrow::array::UInt64Array),
                _ => shift!(arrow::array::UInt8Array),
            }
        });
    }
}

#[test]
fn floats_follow_ieee_and_total_order() {
    for values in [tables::doubles(), tables::singles()] {
        check_ops(&ARITHMETIC, &values, &values);
        check_ops(&COMPARISONS, &values, &values);
    }
}

#[test]
fn booleans_compare() {
    check_ops(&COMPARISONS, &tables::booleans(), &tables::booleans());
}

#[test]
fn decimals_of_mixed_scales() {
    let narrow: &[i128] = &tables::NARROW;
    let wide: &[i128] = &tables::WIDE;
    for (left, p1, s1, right, p2, s2) in [
        (narrow, 18, 2, narrow, 18, 2),
        (narrow, 18, 2, narrow, 15, 5),
        (wide, 38, 10, narrow, 18, 3),
        (narrow, 18, 0, wide, 38, 6),
        (wide, 38, 2, wide, 38, 2),
        (wide, 38, 4, wide, 38, 0),
        (narrow, 10, -2, narrow, 18, 6),
    ] {
        let (left, right) = (
            tables::decimals(left, p1, s1),
            tables::decimals(right, p2, s2),
        );
        check_ops(&ARITHMETIC, &left, &right);
    }
}

#[test]
fn decimals_compare() {
    for values in [&tables::NARROW[..], &tables::WIDE[..]] {
        let values = tables::decimals(values, 38, 3);
        check_ops(&COMPARISONS, &values, &values);
    }
    let (left, right) = (
        tables::decimals(&tables::NARROW, 18, 3),
        tables::decimals(&tables::WIDE, 18, 3),
    );
    check_ops(&COMPARISONS, &left, &right);
}

#[test]
fn small_decimals_stay_narrow() {
    let price = tables::decimals(&[0, 1, 90_000, 10_494_950, -3], 15, 2);
    let discount = tables::decimals(&[0, 1, 10, 100], 15, 2);
    check_ops(&ARITHMETIC, &price, &discount);
    let rows = pairs(&price, &discount);
    let one = Expr::Literal(crate::expr::Literal::Decimal128(1, 20, 0));
    let net = Expr::column(0).binary(Op::Mul, one.binary(Op::Sub, Expr::column(1)));
    check(&net, &rows, |b| {
        let one = arrow::array::Scalar::new(tables::decimals(&[1], 20, 0).slice(0, 1));
        numeric::mul_wrapping(b.column(0), &numeric::sub_wrapping(&one, b.column(1))?)
    });
}

#[test]
fn temporal_differences() {
    use DataType::{Date32, Duration, Timestamp};
    let micro = TimeUnit::Microsecond;
    let stamps = tables::temporal(&Timestamp(micro, None));
    let spans = tables::temporal(&Duration(micro));
    check_ops(&[Op::Sub, Op::Lt, Op::Eq], &stamps, &stamps);
    check_ops(&[Op::Add, Op::Sub], &stamps, &spans);
    check_ops(&[Op::Add], &spans, &stamps);
    check_ops(&[Op::Add, Op::Sub, Op::Ge], &spans, &spans);
    let dates = tables::temporal(&Date32);
    let rows = pairs(&dates, &dates);
    check(
        &Expr::column(0).binary(Op::Sub, Expr::column(1)),
        &rows,
        |b| {
            let days = |i: usize| arrow::compute::cast(b.column(i), &DataType::Int64);
            numeric::sub_wrapping(&days(0)?, &days(1)?)
        },
    );
}

#[test]
fn negation_wraps_integers_and_raises_for_decimals() {
    let mut columns: Vec<ArrayRef> = tables::INTEGERS.iter().map(tables::integers).collect();
    columns.extend([tables::doubles(), tables::singles()]);
    columns.push(tables::decimals(&tables::NARROW, 18, 2));
    columns.push(tables::decimals(&tables::WIDE, 38, 2));
    columns.push(tables::temporal(&DataType::Duration(TimeUnit::Second)));
    for column in columns {
        let rows = batch(vec![column]);
        check(&Expr::Negate(Box::new(Expr::column(0))), &rows, |b| {
            numeric::neg_wrapping(b.column(0))
        });
    }
}
