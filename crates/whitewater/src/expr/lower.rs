//! From an expression to statements: columns, literals, and the choice of what does the rest.

use arrow::datatypes::DataType;

use super::{
    Expr, ExprError, Literal,
    body::{Body, Valid, Value},
    bounds::Bound,
    device::DeviceType,
};

impl Body<'_> {
    /// Emits `expr`; the value is null where arrow's is, and what it raises is raised.
    pub(crate) fn expr(&mut self, expr: &Expr) -> Result<Value, ExprError> {
        match expr {
            Expr::Column { index } => self.column(*index),
            Expr::Literal(literal) => self.literal(literal),
            Expr::Binary { op, left, right } => self.binary(*op, left, right),
            Expr::Not(expr) => {
                let value = self.boolean(expr, "NOT")?;
                let code = self.bind(format!("!{}", value.code));
                self.value_of(code, &DataType::Boolean, value.valid)
            }
            Expr::Negate(expr) => {
                let value = self.expr(expr)?;
                self.negate(value)
            }
            Expr::IsNull(expr) => {
                let code = match self.validity(expr)? {
                    Valid::Always => "false".into(),
                    Valid::Never => "true".into(),
                    Valid::When(valid) => self.bind(format!("!{valid}")),
                };
                self.value_of(code, &DataType::Boolean, Valid::Always)
            }
            Expr::IsNotNull(expr) => {
                let code = Body::valid_text(&self.validity(expr)?);
                self.value_of(code, &DataType::Boolean, Valid::Always)
            }
            Expr::Case {
                when_then,
                otherwise,
            } => {
                let data_type = expr.data_type(self.schema)?;
                self.case(when_then, otherwise.as_deref(), &data_type)
            }
            Expr::Cast { expr, to, safe } => {
                if let Expr::Literal(Literal::Null(_)) = expr.as_ref() {
                    return self.null(to);
                }
                let value = self.expr(expr)?;
                self.cast(value, to, *safe)
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated),
        }
    }

    /// Emits `expr` for its validity alone; a bare column of any type will do.
    fn validity(&mut self, expr: &Expr) -> Result<Valid, ExprError> {
        match expr {
            Expr::Column { index } => {
                super::typing::field(self.schema, *index)?;
                Ok(self.column_valid(*index))
            }
            _ => Ok(self.expr(expr)?.valid),
        }
    }

    /// Emits `expr`, which must be boolean (or an untyped null).
    pub(crate) fn boolean(&mut self, expr: &Expr, what: &str) -> Result<Value, ExprError> {
        if let Expr::Literal(Literal::Null(DataType::Null)) = expr {
            return self.null(&DataType::Boolean);
        }
        let value = self.expr(expr)?;
        if value.data_type == DataType::Boolean {
            Ok(value)
        } else {
            Err(ExprError::unsupported(format!(
                "{what} of {}",
                value.data_type
            )))
        }
    }

    fn literal(&mut self, literal: &Literal) -> Result<Value, ExprError> {
        let data_type = literal.data_type();
        let integer: Option<i128> = match literal {
            Literal::Null(data_type) => return self.null(data_type),
            Literal::Boolean(value) => {
                // A variable, so that nothing is a constant expression for naga to refuse.
                let code = self.bind(value.to_string());
                return self.value_of(code, &data_type, Valid::Always);
            }
            Literal::Float32(value) => {
                let code = self.f32_bits(value.to_bits());
                return self.value_of(code, &data_type, Valid::Always);
            }
            Literal::Float64(value) => {
                let code = self.f64_bits(value.to_bits());
                return self.value_of(code, &data_type, Valid::Always);
            }
            Literal::Int8(value) => Some((*value).into()),
            Literal::Int16(value) => Some((*value).into()),
            Literal::Int32(value) => Some((*value).into()),
            Literal::Int64(value) => Some((*value).into()),
            Literal::UInt8(value) => Some((*value).into()),
            Literal::UInt16(value) => Some((*value).into()),
            Literal::UInt32(value) => Some((*value).into()),
            Literal::UInt64(value) => Some((*value).into()),
            Literal::Decimal128(value, ..) => Some(*value),
            Literal::Temporal(value, _) => Some((*value).into()),
        };
        let integer = integer.unwrap_or_default();
        if let Literal::Temporal(..) = literal
            && !(data_type.is_temporal() && integer_fits(integer, &data_type))
        {
            return Err(ExprError::invalid(format!(
                "literal {integer} of {data_type}"
            )));
        }
        self.constant(integer, &data_type)
    }

    /// The constant `value` of an integer, temporal or decimal type.
    pub(crate) fn constant(
        &mut self,
        value: i128,
        data_type: &DataType,
    ) -> Result<Value, ExprError> {
        let mut result = self.value_of(String::new(), data_type, Valid::Always)?;
        result.constant = Some(value);
        if result.device == DeviceType::I128 {
            result.bound = Bound::exact(value);
            if i64::try_from(value).is_ok() {
                result.device = DeviceType::I64;
            }
        }
        result.code = self.integer(value, result.device);
        Ok(result)
    }

    /// A variable holding the integer `value`, which must fit `device`.
    pub(crate) fn integer(&mut self, value: i128, device: DeviceType) -> String {
        match device {
            DeviceType::I32 if value == i128::from(i32::MIN) => {
                let bits = self.bind("0x80000000u");
                self.bind(format!("bitcast<i32>({bits})"))
            }
            DeviceType::I64 if value == i128::from(i64::MIN) => {
                let bits = self.bind("0x8000000000000000lu");
                self.bind(format!("bitcast<i64>({bits})"))
            }
            DeviceType::I32 => self.bind(format!("{value}i")),
            DeviceType::U32 => self.bind(format!("{value}u")),
            DeviceType::U64 => self.bind(format!("{value}lu")),
            DeviceType::I128 => {
                self.uses.import("package::kernels::int128", "I128");
                let (lo, hi) = (value as u64, (value >> 64) as u64);
                self.bind(format!("I128({lo:#x}lu, {hi:#x}lu)"))
            }
            _ => self.bind(format!("{value}li")),
        }
    }

    /// A variable holding the f32 of these bits: WGSL can write neither NaN nor infinity.
    pub(crate) fn f32_bits(&mut self, bits: u32) -> String {
        let bits = self.bind(format!("{bits:#x}u"));
        self.bind(format!("bitcast<f32>({bits})"))
    }

    /// A variable holding the f64 of these bits.
    pub(crate) fn f64_bits(&mut self, bits: u64) -> String {
        let bits = self.bind(format!("{bits:#x}lu"));
        self.bind(format!("bitcast<f64>({bits})"))
    }
}

fn integer_fits(value: i128, data_type: &DataType) -> bool {
    super::device::integer_range(data_type)
        .is_some_and(|(least, greatest)| (least..=greatest).contains(&value))
}
