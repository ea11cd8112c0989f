//! Three-valued logic, CASE, IN, and errors that must not be raised.

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Int64Array},
    compute::{and_kleene, is_null, not, or_kleene},
    datatypes::DataType,
};
use std::sync::Arc;

use super::{
    harness::{batch, check, pairs},
    tables,
};
use crate::expr::{Expr, Literal, Op};

fn boolean(array: &ArrayRef) -> BooleanArray {
    array.to_data().into()
}

#[test]
fn kleene() {
    let rows = pairs(&tables::booleans(), &tables::booleans());
    let (a, b) = (Expr::column(0), Expr::column(1));
    check(&a.clone().binary(Op::And, b.clone()), &rows, |r| {
        Ok(Arc::new(and_kleene(
            &boolean(r.column(0)),
            &boolean(r.column(1)),
        )?))
    });
    check(&a.clone().binary(Op::Or, b.clone()), &rows, |r| {
        Ok(Arc::new(or_kleene(
            &boolean(r.column(0)),
            &boolean(r.column(1)),
        )?))
    });
    check(&Expr::Not(Box::new(a.clone())), &rows, |r| {
        Ok(Arc::new(not(&boolean(r.column(0)))?))
    });
    check(&Expr::IsNull(Box::new(a.clone())), &rows, |r| {
        Ok(Arc::new(is_null(r.column(0))?))
    });
    // NULL OR x, NOT of both.
    let null = Expr::Literal(Literal::Null(DataType::Boolean));
    let nothing = Arc::new(BooleanArray::from(vec![None])) as ArrayRef;
    check(&null.binary(Op::Or, Expr::Not(Box::new(b))), &rows, |r| {
        Ok(Arc::new(or_kleene(
            &boolean(&nothing),
            &not(&boolean(r.column(1)))?,
        )?))
    });
}

/// `100 / c0`
fn quotient() -> Expr {
    Expr::Literal(Literal::Int64(100)).binary(Op::Div, Expr::column(0))
}

fn long(value: i64) -> Expr {
    Expr::Literal(Literal::Int64(value))
}

/// Checks against a function of one i64.
fn check_longs(expr: &Expr, oracle: impl Fn(Option<i64>) -> ArrayRef) {
    let column = tables::integers(&DataType::Int64);
    check(expr, &batch(vec![column]), |r| {
        let longs: Int64Array = r.column(0).to_data().into();
        Ok(oracle(longs.iter().next().flatten()))
    });
}

fn one(value: Option<bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(vec![value]))
}

#[test]
fn and_guards_its_right_side() {
    let nonzero = Expr::column(0).binary(Op::Ne, long(0));
    check_longs(
        &nonzero.binary(Op::And, quotient().binary(Op::Gt, long(10))),
        |x| one(x.map(|x| x != 0 && 100 / x > 10)),
    );
    let zero = Expr::column(0).binary(Op::Eq, long(0));
    check_longs(
        &zero.binary(Op::Or, quotient().binary(Op::Gt, long(10))),
        |x| one(x.map(|x| x == 0 || 100 / x > 10)),
    );
}

#[test]
fn case_is_lazy() {
    let expr = Expr::Case {
        when_then: vec![
            (Expr::column(0).binary(Op::Eq, long(0)), long(-7)),
            (
                quotient().binary(Op::Gt, long(20)),
                Expr::Literal(Literal::Null(DataType::Null)),
            ),
            (Expr::column(0).binary(Op::Lt, long(0)), Expr::column(0)),
        ],
        otherwise: Some(Box::new(quotient())),
    };
    check_longs(&expr, |x| {
        let value = match x {
            None => None,
            Some(0) => Some(-7),
            Some(x) if 100 / x > 20 => None,
            Some(x) if x < 0 => Some(x),
            Some(x) => Some(100 / x),
        };
        Arc::new(Int64Array::from(vec![value]))
    });
}

#[test]
fn case_of_decimals_of_several_widths() {
    let rows = pairs(
        &tables::decimals(&tables::NARROW, 38, 2),
        &tables::decimals(&tables::WIDE, 38, 2),
    );
    let expr = Expr::Case {
        when_then: vec![(
            Expr::column(0).binary(Op::Lt, Expr::column(1)),
            Expr::column(0),
        )],
        otherwise: Some(Box::new(Expr::Case {
            when_then: vec![(
                Expr::IsNull(Box::new(Expr::column(0))),
                Expr::Literal(Literal::Decimal128(5, 38, 2)),
            )],
            otherwise: Some(Box::new(Expr::column(1))),
        })),
    };
    check(&expr, &rows, |r| {
        let lesser = boolean(
            &(Arc::new(arrow::compute::kernels::cmp::lt(r.column(0), r.column(1))?) as ArrayRef),
        );
        Ok(if lesser.is_valid(0) && lesser.value(0) {
            r.column(0).clone()
        } else if r.column(0).is_null(0) {
            tables::decimals(&[5], 38, 2).slice(0, 1)
        } else {
            r.column(1).clone()
        })
    });
}

#[test]
fn in_lists() {
    let list = |null: bool| {
        let mut list = vec![long(1), long(i64::MIN), long(7)];
        if null {
            list.push(Expr::Literal(Literal::Null(DataType::Int64)));
        }
        list
    };
    for (null, negated) in [(false, false), (false, true), (true, false), (true, true)] {
        let expr = Expr::InList {
            expr: Box::new(Expr::column(0)),
            list: list(null),
            negated,
        };
        check_longs(&expr, |x| {
            let found = x.map(|x| [1, i64::MIN, 7].contains(&x));
            one(found
                .filter(|found| *found || !null)
                .map(|found| found != negated))
        });
    }
}

#[test]
fn in_list_of_floats_is_by_bits() {
    let list = vec![
        Literal::Float64(0.0),
        Literal::Float64(f64::NAN),
        Literal::Float64(f64::INFINITY),
    ];
    let bits = [0.0f64, f64::NAN, f64::INFINITY].map(f64::to_bits);
    let expr = Expr::InList {
        expr: Box::new(Expr::column(0)),
        list: list.into_iter().map(Expr::Literal).collect(),
        negated: false,
    };
    check(&expr, &batch(vec![tables::doubles()]), |r| {
        let doubles: arrow::array::Float64Array = r.column(0).to_data().into();
        Ok(one(doubles
            .iter()
            .next()
            .flatten()
            .map(|x| bits.contains(&x.to_bits()))))
    });
}

#[test]
fn literals_of_the_ends() {
    let expr = Expr::column(0).binary(Op::Eq, long(i64::MIN));
    check_longs(&expr, |x| one(x.map(|x| x == i64::MIN)));
    // Operations of constants alone: nothing for naga to evaluate and refuse.
    let overflow = long(i64::MAX).binary(Op::Add, long(1));
    check_longs(&overflow, |_| Arc::new(Int64Array::from(vec![i64::MIN])));
}
