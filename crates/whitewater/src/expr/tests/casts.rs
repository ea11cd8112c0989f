//! Casts against arrow's.

use arrow::{
    array::{Array, ArrayRef},
    compute::{CastOptions, can_cast_types, cast_with_options},
    datatypes::{DataType, TimeUnit},
};

use super::{
    harness::{batch, check},
    tables,
};
use crate::expr::{Expr, ExprError};

/// CAST and TRY_CAST of `column` to `to`; false where that is unsupported.
fn check_cast(column: &ArrayRef, to: &DataType) -> bool {
    let rows = batch(vec![column.clone()]);
    for safe in [false, true] {
        let expr = Expr::Cast {
            expr: Box::new(Expr::column(0)),
            to: to.clone(),
            safe,
        };
        match expr.check(&rows.schema()) {
            Err(ExprError::Unsupported { .. }) => return false,
            other => other.unwrap(),
        };
        let options = CastOptions {
            safe,
            ..CastOptions::default()
        };
        check(&expr, &rows, |b| {
            cast_with_options(b.column(0), to, &options)
        });
    }
    true
}

fn targets() -> Vec<DataType> {
    let mut targets = tables::INTEGERS.to_vec();
    targets.extend([DataType::Float32, DataType::Float64, DataType::Boolean]);
    targets.extend(
        [(18, 2), (9, 0), (38, 20), (5, -2), (20, 4)].map(|(p, s)| DataType::Decimal128(p, s)),
    );
    targets
}

#[test]
fn numbers() {
    let mut columns: Vec<ArrayRef> = tables::INTEGERS.iter().map(tables::integers).collect();
    columns.extend([tables::doubles(), tables::singles(), tables::booleans()]);
    for column in &columns {
        for to in targets() {
            let boolean = *column.data_type() == DataType::Boolean;
            let supported = check_cast(column, &to);
            assert_eq!(
                supported,
                !(boolean && to.is_decimal()),
                "{} to {to}",
                column.data_type()
            );
        }
    }
}

#[test]
fn decimals() {
    for (values, p, s) in [
        (&tables::NARROW[..], 18, 2),
        (&tables::NARROW[..], 16, 6),
        (&tables::WIDE[..], 38, 10),
        (&tables::WIDE[..], 38, 0),
        (&tables::NARROW[..], 12, -2),
        (&tables::WIDE[..], 38, 37),
    ] {
        let column = tables::decimals(values, p, s);
        for to in targets() {
            let supported = check_cast(&column, &to);
            assert_eq!(
                supported,
                to != DataType::Boolean,
                "{} to {to}",
                column.data_type()
            );
        }
    }
}

#[test]
fn temporal_types() {
    use DataType::{Date32, Date64, Duration, Float64, Int32, Int64, Time32, Time64, Timestamp};
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let mut types = vec![Date32, Date64, Int32, Int64, Float64];
    for unit in [Second, Millisecond, Microsecond, Nanosecond] {
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("+00:00".into())));
        types.push(Duration(unit));
    }
    types.extend([
        Time32(Second),
        Time32(Millisecond),
        Time64(Microsecond),
        Time64(Nanosecond),
    ]);
    let mut supported = 0;
    for from in types.iter().filter(|t| **t != Float64) {
        let column = match from {
            Int32 | Int64 => tables::integers(from),
            _ => tables::temporal(from),
        };
        for to in &types {
            // Where arrow wraps a product it panics in a debug build; DataFusion checks before.
            let wraps = matches!(
                (from, to),
                (Date64, Timestamp(Microsecond | Nanosecond, _))
                    | (Time64(Microsecond), Time64(Nanosecond))
            );
            if can_cast_types(from, to) && !wraps && from != to {
                supported += usize::from(check_cast(&column, to));
            }
        }
    }
    assert!(supported > 150, "{supported}");
}
