//! DataFusion's physical expressions as Whitewater's, or why one has no GPU form.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::{
    common::ScalarValue,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{
            BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr,
            Literal as Constant, NegativeExpr, NotExpr, TryCastExpr,
        },
    },
};
use whitewater::{
    expr::{Expr, Literal, Op},
    table::plain_type,
};

/// `expr` over the columns that `columns` stands for, which are expressions over `schema`; the error is
/// a reason to stay on the CPU.
pub(crate) fn translate(
    expr: &Arc<dyn PhysicalExpr>,
    columns: &[Expr],
    schema: &Schema,
) -> Result<Expr, String> {
    let inner = |expr: &Arc<dyn PhysicalExpr>| translate(expr, columns, schema);
    let boxed = |expr: &Arc<dyn PhysicalExpr>| inner(expr).map(Box::new);
    let any = expr.as_ref();
    if let Some(column) = any.downcast_ref::<Column>() {
        return columns
            .get(column.index())
            .cloned()
            .ok_or_else(|| format!("column {column} is not on the GPU"));
    }
    if let Some(constant) = any.downcast_ref::<Constant>() {
        return literal(constant.value()).map(Expr::Literal);
    }
    if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
        let op = operator(*binary.op())?;
        return Ok(binary_of(
            inner(binary.left())?,
            op,
            inner(binary.right())?,
            schema,
        ));
    }
    if let Some(not) = any.downcast_ref::<NotExpr>() {
        return Ok(Expr::Not(boxed(not.arg())?));
    }
    if let Some(negative) = any.downcast_ref::<NegativeExpr>() {
        return Ok(Expr::Negate(boxed(negative.arg())?));
    }
    if let Some(is_null) = any.downcast_ref::<IsNullExpr>() {
        return Ok(Expr::IsNull(boxed(is_null.arg())?));
    }
    if let Some(is_not_null) = any.downcast_ref::<IsNotNullExpr>() {
        return Ok(Expr::IsNotNull(boxed(is_not_null.arg())?));
    }
    if let Some(cast) = any.downcast_ref::<CastExpr>() {
        return Ok(inner(cast.expr())?.cast(plain_type(cast.cast_type())));
    }
    if let Some(cast) = any.downcast_ref::<TryCastExpr>() {
        return Ok(inner(cast.expr())?.try_cast(plain_type(cast.cast_type())));
    }
    if let Some(case) = any.downcast_ref::<CaseExpr>() {
        let base = case.expr().map(inner).transpose()?;
        let mut when_then = Vec::new();
        for (when, then) in case.when_then_expr() {
            let when = match &base {
                // `CASE x WHEN v` is `CASE WHEN x = v`.
                Some(base) => binary_of(base.clone(), Op::Eq, inner(when)?, schema),
                None => inner(when)?,
            };
            when_then.push((when, inner(then)?));
        }
        let otherwise = case.else_expr().map(boxed).transpose()?;
        return Ok(Expr::Case {
            when_then,
            otherwise,
        });
    }
    if let Some(list) = any.downcast_ref::<InListExpr>() {
        return Ok(Expr::InList {
            expr: boxed(list.expr())?,
            list: list.list().iter().map(inner).collect::<Result<_, _>>()?,
            negated: list.negated(),
        });
    }
    Err(format!("expression {expr} is not on the GPU"))
}

/// `left op right`. DataFusion compares floats by total order with both zeros equal, the engine without.
fn binary_of(left: Expr, op: Op, right: Expr, schema: &Schema) -> Expr {
    let zero = |expr: &Expr| match expr {
        Expr::Literal(Literal::Float32(v)) => Some(*v == 0.0),
        Expr::Literal(Literal::Float64(v)) => Some(*v == 0.0),
        _ => None,
    };
    // Beside a constant that is not zero, the zeros compare alike.
    if !op.is_comparison() || [&left, &right].into_iter().any(|e| zero(e) == Some(false)) {
        return left.binary(op, right);
    }
    let (negative, positive) = match left.data_type(schema) {
        Ok(DataType::Float32) => (Literal::Float32(-0.0), Literal::Float32(0.0)),
        Ok(DataType::Float64) => (Literal::Float64(-0.0), Literal::Float64(0.0)),
        _ => return left.binary(op, right),
    };
    let normal = |expr: Expr| match zero(&expr) {
        Some(_) => Expr::Literal(positive.clone()),
        None => Expr::Case {
            when_then: vec![(
                expr.clone().binary(Op::Eq, Expr::Literal(negative.clone())),
                Expr::Literal(positive.clone()),
            )],
            otherwise: Some(Box::new(expr)),
        },
    };
    normal(left).binary(op, normal(right))
}

fn operator(op: Operator) -> Result<Op, String> {
    Ok(match op {
        Operator::Plus => Op::Add,
        Operator::Minus => Op::Sub,
        Operator::Multiply => Op::Mul,
        Operator::Divide => Op::Div,
        Operator::Modulo => Op::Rem,
        Operator::Eq => Op::Eq,
        Operator::NotEq => Op::Ne,
        Operator::Lt => Op::Lt,
        Operator::LtEq => Op::Le,
        Operator::Gt => Op::Gt,
        Operator::GtEq => Op::Ge,
        Operator::And => Op::And,
        Operator::Or => Op::Or,
        Operator::IsDistinctFrom => Op::IsDistinctFrom,
        Operator::IsNotDistinctFrom => Op::IsNotDistinctFrom,
        Operator::BitwiseAnd => Op::BitAnd,
        Operator::BitwiseOr => Op::BitOr,
        Operator::BitwiseXor => Op::BitXor,
        Operator::BitwiseShiftLeft => Op::ShiftLeft,
        Operator::BitwiseShiftRight => Op::ShiftRight,
        other => return Err(format!("operator {other} is not on the GPU")),
    })
}

fn literal(value: &ScalarValue) -> Result<Literal, String> {
    use ScalarValue as S;
    let data_type = plain_type(&value.data_type());
    if value.is_null() {
        return Ok(Literal::Null(data_type));
    }
    let temporal = |v: i64| Literal::Temporal(v, data_type.clone());
    Ok(match value {
        S::Boolean(Some(v)) => Literal::Boolean(*v),
        S::Int8(Some(v)) => Literal::Int8(*v),
        S::Int16(Some(v)) => Literal::Int16(*v),
        S::Int32(Some(v)) => Literal::Int32(*v),
        S::Int64(Some(v)) => Literal::Int64(*v),
        S::UInt8(Some(v)) => Literal::UInt8(*v),
        S::UInt16(Some(v)) => Literal::UInt16(*v),
        S::UInt32(Some(v)) => Literal::UInt32(*v),
        S::UInt64(Some(v)) => Literal::UInt64(*v),
        S::Float32(Some(v)) => Literal::Float32(*v),
        S::Float64(Some(v)) => Literal::Float64(*v),
        S::Decimal128(Some(v), precision, scale) => Literal::Decimal128(*v, *precision, *scale),
        S::Date32(Some(v)) | S::Time32Second(Some(v)) | S::Time32Millisecond(Some(v)) => {
            temporal(i64::from(*v))
        }
        S::Date64(Some(v))
        | S::Time64Microsecond(Some(v))
        | S::Time64Nanosecond(Some(v))
        | S::TimestampSecond(Some(v), _)
        | S::TimestampMillisecond(Some(v), _)
        | S::TimestampMicrosecond(Some(v), _)
        | S::TimestampNanosecond(Some(v), _)
        | S::DurationSecond(Some(v))
        | S::DurationMillisecond(Some(v))
        | S::DurationMicrosecond(Some(v))
        | S::DurationNanosecond(Some(v)) => temporal(*v),
        _ => return Err(format!("a literal of type {} is not on the GPU", data_type)),
    })
}
