//! The expression tree: what a planner builds and the compiler reads.
//!
//! An [`Expr`] is over the columns of one schema. It knows arrow's types and nothing of any planner:
//! the operands of a binary operation must already have been coerced to one type (decimals alone may
//! differ in precision and scale).

use arrow::datatypes::DataType;

/// An expression over the columns of a schema, evaluated row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The column at `index` of the input schema.
    Column { index: usize },
    /// A constant, or a NULL of some type.
    Literal(Literal),
    /// `left op right`. Null if an operand is null, but for AND, OR and the DISTINCT operators.
    Binary {
        op: Op,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// Boolean negation; null of null.
    Not(Box<Expr>),
    /// Arithmetic negation as arrow's `neg_wrapping`: integers wrap, decimals raise on overflow.
    Negate(Box<Expr>),
    /// Never null.
    IsNull(Box<Expr>),
    /// Never null.
    IsNotNull(Box<Expr>),
    /// `CASE WHEN a THEN b … ELSE c END`: the first `when` that is true (not null) decides, and only
    /// the branch that is taken may raise an error. Without `otherwise`, null.
    Case {
        when_then: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// Conversion. What cannot be converted raises an error, or is null if `safe` (TRY_CAST).
    Cast {
        expr: Box<Expr>,
        to: DataType,
        safe: bool,
    },
    /// `expr [NOT] IN (list)`: null if `expr` is null, or if nothing matches and the list has a null.
    InList {
        expr: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Integers wrap; decimals raise on overflow.
    Add,
    Sub,
    Mul,
    /// Integers and decimals raise on a zero divisor and on overflow; floats follow IEEE 754.
    Div,
    Rem,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Three-valued; the right side may not be evaluated.
    And,
    Or,
    /// `<>` where null equals null; never null.
    IsDistinctFrom,
    IsNotDistinctFrom,
    BitAnd,
    BitOr,
    BitXor,
    /// Shifts take the count modulo the width of the type.
    ShiftLeft,
    ShiftRight,
}

/// A constant with its type. Temporal types take the integer that arrow stores.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A typed NULL (`DataType::Null` only where a cast gives it a type).
    Null(DataType),
    Boolean(bool),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    UInt8(u8),
    UInt16(u16),
    UInt32(u32),
    UInt64(u64),
    Float32(f32),
    Float64(f64),
    /// The unscaled value, precision and scale.
    Decimal128(i128, u8, i8),
    /// A value of any date, time, timestamp or duration type, as arrow stores it.
    Temporal(i64, DataType),
}

impl Literal {
    /// The arrow type.
    pub fn data_type(&self) -> DataType {
        match self {
            Literal::Null(data_type) | Literal::Temporal(_, data_type) => data_type.clone(),
            Literal::Boolean(_) => DataType::Boolean,
            Literal::Int8(_) => DataType::Int8,
            Literal::Int16(_) => DataType::Int16,
            Literal::Int32(_) => DataType::Int32,
            Literal::Int64(_) => DataType::Int64,
            Literal::UInt8(_) => DataType::UInt8,
            Literal::UInt16(_) => DataType::UInt16,
            Literal::UInt32(_) => DataType::UInt32,
            Literal::UInt64(_) => DataType::UInt64,
            Literal::Float32(_) => DataType::Float32,
            Literal::Float64(_) => DataType::Float64,
            Literal::Decimal128(_, precision, scale) => DataType::Decimal128(*precision, *scale),
        }
    }
}

impl Op {
    /// `=`, `<>`, `<`, `<=`, `>`, `>=` and the two DISTINCT operators.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            Op::Eq
                | Op::Ne
                | Op::Lt
                | Op::Le
                | Op::Gt
                | Op::Ge
                | Op::IsDistinctFrom
                | Op::IsNotDistinctFrom
        )
    }

    /// The SQL symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::Rem => "%",
            Op::Eq => "=",
            Op::Ne => "!=",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            Op::And => "AND",
            Op::Or => "OR",
            Op::IsDistinctFrom => "IS DISTINCT FROM",
            Op::IsNotDistinctFrom => "IS NOT DISTINCT FROM",
            Op::BitAnd => "&",
            Op::BitOr => "|",
            Op::BitXor => "BIT_XOR",
            Op::ShiftLeft => "<<",
            Op::ShiftRight => ">>",
        }
    }
}

impl Expr {
    /// The column at `index`.
    pub fn column(index: usize) -> Self {
        Expr::Column { index }
    }

    /// `self op right`.
    pub fn binary(self, op: Op, right: Expr) -> Self {
        Expr::Binary {
            op,
            left: Box::new(self),
            right: Box::new(right),
        }
    }

    /// `CAST(self AS to)`.
    pub fn cast(self, to: DataType) -> Self {
        Expr::Cast {
            expr: Box::new(self),
            to,
            safe: false,
        }
    }

    /// `TRY_CAST(self AS to)`.
    pub fn try_cast(self, to: DataType) -> Self {
        Expr::Cast {
            expr: Box::new(self),
            to,
            safe: true,
        }
    }

    /// Calls `visit` with the index of every column reference, repeats included.
    pub fn visit_columns(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Expr::Column { index } => visit(*index),
            Expr::Literal(_) => {}
            Expr::Binary { left, right, .. } => {
                left.visit_columns(visit);
                right.visit_columns(visit);
            }
            Expr::Not(e) | Expr::Negate(e) | Expr::IsNull(e) | Expr::IsNotNull(e) => {
                e.visit_columns(visit)
            }
            Expr::Case {
                when_then,
                otherwise,
            } => {
                for (when, then) in when_then {
                    when.visit_columns(visit);
                    then.visit_columns(visit);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.visit_columns(visit);
                }
            }
            Expr::Cast { expr, .. } => expr.visit_columns(visit),
            Expr::InList { expr, list, .. } => {
                expr.visit_columns(visit);
                for item in list {
                    item.visit_columns(visit);
                }
            }
        }
    }

    /// The same over a schema in which `by` other columns come first.
    pub fn shifted(&self, by: usize) -> Self {
        self.renumbered(&|index| index + by)
    }

    /// The same over a schema in which column `index` is column `to(index)`.
    pub fn renumbered(&self, to: &impl Fn(usize) -> usize) -> Self {
        let all = |exprs: &[Expr]| exprs.iter().map(|e| e.renumbered(to)).collect();
        let boxed = |e: &Expr| Box::new(e.renumbered(to));
        match self {
            Expr::Column { index } => Expr::Column { index: to(*index) },
            Expr::Literal(literal) => Expr::Literal(literal.clone()),
            Expr::Binary { op, left, right } => {
                left.renumbered(to).binary(*op, right.renumbered(to))
            }
            Expr::Not(e) => Expr::Not(boxed(e)),
            Expr::Negate(e) => Expr::Negate(boxed(e)),
            Expr::IsNull(e) => Expr::IsNull(boxed(e)),
            Expr::IsNotNull(e) => Expr::IsNotNull(boxed(e)),
            Expr::Case {
                when_then,
                otherwise,
            } => Expr::Case {
                when_then: when_then
                    .iter()
                    .map(|(when, then)| (when.renumbered(to), then.renumbered(to)))
                    .collect(),
                otherwise: otherwise.as_deref().map(boxed),
            },
            Expr::Cast {
                expr,
                to: target,
                safe,
            } => Expr::Cast {
                expr: boxed(expr),
                to: target.clone(),
                safe: *safe,
            },
            Expr::InList {
                expr,
                list,
                negated,
            } => Expr::InList {
                expr: boxed(expr),
                list: all(list),
                negated: *negated,
            },
        }
    }
}
