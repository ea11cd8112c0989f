//! The type of an expression: arrow's rules for operands that are already coerced.

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType, Field, Schema, TimeUnit,
};

use super::{Expr, ExprError, Op, device::DeviceType, generate};

impl Expr {
    /// The type of the expression's values, or why it has none.
    pub fn data_type(&self, schema: &Schema) -> Result<DataType, ExprError> {
        match self {
            Expr::Column { index } => Ok(field(schema, *index)?.data_type().clone()),
            Expr::Literal(literal) => Ok(literal.data_type()),
            Expr::Binary { op, left, right } => {
                binary(*op, &left.data_type(schema)?, &right.data_type(schema)?)
            }
            Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::InList { .. } => {
                Ok(DataType::Boolean)
            }
            Expr::Negate(expr) => expr.data_type(schema),
            Expr::Cast { to, .. } => Ok(to.clone()),
            Expr::Case {
                when_then,
                otherwise,
            } => {
                let branches = when_then.iter().map(|(_, then)| then);
                for branch in branches.chain(otherwise.as_deref()) {
                    let data_type = branch.data_type(schema)?;
                    if data_type != DataType::Null {
                        return Ok(data_type);
                    }
                }
                Err(ExprError::unsupported("CASE of untyped nulls"))
            }
        }
    }

    /// The type, if every part of the expression can run on the device over `schema`.
    ///
    /// This is the planner's question: an `Ok` here compiles, whatever the layout of the batches.
    pub fn check(&self, schema: &Schema) -> Result<DataType, ExprError> {
        generate::dry_run(self, schema)?;
        self.data_type(schema)
    }
}

pub(crate) fn field(schema: &Schema, index: usize) -> Result<&Field, ExprError> {
    schema
        .fields()
        .get(index)
        .map(|f| f.as_ref())
        .ok_or_else(|| {
            ExprError::invalid(format!(
                "column {index} of a schema of {}",
                schema.fields().len()
            ))
        })
}

/// The result type of `left op right`.
fn binary(op: Op, left: &DataType, right: &DataType) -> Result<DataType, ExprError> {
    let unsupported = || ExprError::unsupported(format!("{left} {} {right}", op.symbol()));
    match op {
        Op::And | Op::Or => match (left, right) {
            (DataType::Boolean, DataType::Boolean) => Ok(DataType::Boolean),
            _ => Err(unsupported()),
        },
        _ if op.is_comparison() => {
            let comparable = match (left, right) {
                (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2)) => s1 == s2,
                _ => left == right && DeviceType::of(left).is_some(),
            };
            comparable
                .then_some(DataType::Boolean)
                .ok_or_else(unsupported)
        }
        Op::BitAnd | Op::BitOr | Op::BitXor | Op::ShiftLeft | Op::ShiftRight => {
            if left == right && left.is_integer() {
                Ok(left.clone())
            } else {
                Err(unsupported())
            }
        }
        _ => arithmetic(op, left, right).ok_or_else(unsupported),
    }
}

fn arithmetic(op: Op, left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Decimal128, Duration, Int64, Timestamp};
    match (left, right) {
        (Decimal128(p1, s1), Decimal128(p2, s2)) => {
            let (precision, scale) = decimal(op, (*p1, *s1), (*p2, *s2))?;
            Some(Decimal128(precision, scale))
        }
        (Date32, Date32) | (Date64, Date64) if op == Op::Sub => Some(Int64),
        (Timestamp(l, _), Timestamp(r, _)) if op == Op::Sub && l == r => Some(Duration(*l)),
        (Timestamp(l, _), Duration(r)) if matches!(op, Op::Add | Op::Sub) && l == r => {
            Some(left.clone())
        }
        (Duration(l), Timestamp(r, _)) if op == Op::Add && l == r => Some(right.clone()),
        (Duration(l), Duration(r)) if matches!(op, Op::Add | Op::Sub) && l == r => {
            Some(left.clone())
        }
        _ if left == right
            && (left.is_integer() || matches!(left, DataType::Float32 | DataType::Float64)) =>
        {
            Some(left.clone())
        }
        _ => None,
    }
}

/// The precision and scale that arrow gives the result of decimal arithmetic, or none where arrow
/// refuses the operation.
pub(crate) fn decimal(op: Op, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Option<(u8, i8)> {
    let max = DECIMAL128_MAX_PRECISION;
    let digits = |precision: u8, scale: i8| i32::from(precision) - i32::from(scale);
    let clamp = |precision: i32| u8::try_from(precision.clamp(0, i32::from(max))).unwrap_or(max);
    let common = s1.max(s2);
    Some(match op {
        Op::Add | Op::Sub => (
            clamp(i32::from(common) + digits(p1, s1).max(digits(p2, s2)) + 1),
            common,
        ),
        Op::Mul => {
            let scale = s1.saturating_add(s2);
            if scale > DECIMAL128_MAX_SCALE {
                return None;
            }
            (clamp(i32::from(p1) + i32::from(p2) + 1), scale)
        }
        Op::Div => {
            let scale = s1.saturating_add(4).min(DECIMAL128_MAX_SCALE);
            let power = i32::from(scale) - i32::from(s1) + i32::from(s2);
            (clamp(power + i32::from(p1)), scale)
        }
        Op::Rem => (
            clamp(i32::from(common) + digits(p1, s1).min(digits(p2, s2))),
            common,
        ),
        _ => return None,
    })
}

/// Units of `unit` in a second.
pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
