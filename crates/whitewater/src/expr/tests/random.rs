//! Random operands of all magnitudes, where tables of edges might miss a carry.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Decimal128Array, Float64Array},
    compute::{CastOptions, cast_with_options, kernels::numeric},
    datatypes::DataType,
};
use proptest::{prelude::any, strategy::Strategy, test_runner::TestRunner};

use super::harness::{batch, check};
use crate::expr::{Expr, Op};

const ROWS: usize = 1500;

/// Values of a strategy, the same in every run.
fn sample<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..ROWS)
        .filter_map(|_| strategy.new_tree(&mut runner).ok())
        .map(|tree| proptest::strategy::ValueTree::current(&tree))
        .collect()
}

/// Two decimal columns whose values have any number of bits.
fn decimals() -> [ArrayRef; 2] {
    let rows = sample((any::<i128>(), 0u32..127, any::<i128>(), 0u32..127));
    let column = |values: Vec<i128>| -> ArrayRef {
        let array = Decimal128Array::from(values);
        Arc::new(array.with_precision_and_scale(38, 10).unwrap())
    };
    [
        column(rows.iter().map(|(a, shift, ..)| a >> shift).collect()),
        column(rows.iter().map(|(.., b, shift)| b >> shift).collect()),
    ]
}

#[test]
fn decimal_products_quotients_and_remainders() {
    let rows = batch(decimals().to_vec());
    let (a, b) = (Expr::column(0), Expr::column(1));
    check(&a.clone().binary(Op::Mul, b.clone()), &rows, |r| {
        numeric::mul_wrapping(r.column(0), r.column(1))
    });
    check(&a.clone().binary(Op::Div, b.clone()), &rows, |r| {
        numeric::div(r.column(0), r.column(1))
    });
    check(&a.binary(Op::Rem, b), &rows, |r| {
        numeric::rem(r.column(0), r.column(1))
    });
}

#[test]
fn decimal_casts() {
    let rows = batch(vec![decimals()[0].clone()]);
    for to in [
        DataType::Float64,
        DataType::Int64,
        DataType::Decimal128(30, 4),
        DataType::Decimal128(38, 14),
    ] {
        let options = CastOptions::default();
        check(&Expr::column(0).try_cast(to.clone()), &rows, |r| {
            cast_with_options(r.column(0), &to, &options)
        });
    }
}

#[test]
fn float_remainders_and_decimals_from_floats() {
    let doubles = |seed: bool| -> ArrayRef {
        let rows = sample((any::<u64>(), any::<u64>(), -40i32..40, any::<i32>()));
        let values = rows.iter().map(|(a, b, exponent, small)| match seed {
            true => f64::from_bits(*a),
            false if b % 3 == 0 => f64::from_bits(*b),
            false => f64::from(*small) * 2f64.powi(*exponent),
        });
        Arc::new(Float64Array::from_iter_values(values))
    };
    let rows = batch(vec![doubles(true), doubles(false)]);
    check(
        &Expr::column(0).binary(Op::Rem, Expr::column(1)),
        &rows,
        |r| numeric::rem(r.column(0), r.column(1)),
    );
    let to = DataType::Decimal128(38, 6);
    check(&Expr::column(1).try_cast(to.clone()), &rows, |r| {
        cast_with_options(r.column(1), &to, &CastOptions::default())
    });
}
