//! Arithmetic of integers, floats and temporal types; decimals are next door.

use arrow::datatypes::DataType;

use super::{
    ArithmeticError, Expr, ExprError, Op,
    body::{Body, Value},
    device::{self, DeviceType},
};

/// The NaN of an invalid operation on the host, which is what DataFusion's CPU answer holds.
const INVALID_F64: u64 = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    0xfff8_0000_0000_0000
} else {
    0x7ff8_0000_0000_0000
};
const INVALID_F32: u32 = (INVALID_F64 >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000;

impl Body<'_> {
    /// `left op right`.
    pub(crate) fn binary(&mut self, op: Op, left: &Expr, right: &Expr) -> Result<Value, ExprError> {
        let data_type = Expr::Binary {
            op,
            left: Box::new(left.clone()),
            right: Box::new(right.clone()),
        }
        .data_type(self.schema)?;
        if matches!(op, Op::And | Op::Or) {
            return self.and_or(op, left, right);
        }
        let left = self.expr(left)?;
        let right = self.expr(right)?;
        if op.is_comparison() {
            return self.compare(op, left, right);
        }
        let valid = self.both(&left.valid, &right.valid);
        if valid == super::body::Valid::Never {
            return self.null(&data_type);
        }
        let mut result = self.value_of(String::new(), &data_type, valid)?;
        match left.device {
            _ if matches!(data_type, DataType::Decimal128(_, _)) => {
                return self.decimal_arithmetic(op, left, right, result);
            }
            DeviceType::F32 | DeviceType::F64 => result.code = self.float(op, &left, &right),
            _ if !left.data_type.is_integer() => self.temporal(op, &left, &right, &mut result),
            _ => self.integer_arithmetic(op, &left, &right, &mut result),
        }
        Ok(result)
    }

    fn float(&mut self, op: Op, left: &Value, right: &Value) -> String {
        const FLOAT: &str = "package::kernels::float";
        let (l, r) = (left.code.as_str(), right.code.as_str());
        let double = left.device == DeviceType::F64;
        let raw = match op {
            Op::Rem if double => self.call(FLOAT, "rem_f64", &[l, r]),
            Op::Rem => self.call(FLOAT, "rem_f32", &[l, r]),
            Op::Add if !double => self.call(FLOAT, "add_f32", &[l, r]),
            Op::Sub if double => self.call(FLOAT, "sub_f64", &[l, r]),
            Op::Sub => self.call(FLOAT, "sub_f32", &[l, r]),
            Op::Mul if double => self.call(FLOAT, "mul_f64", &[l, r]),
            Op::Mul => self.call(FLOAT, "mul_f32", &[l, r]),
            Op::Div if double => self.call(FLOAT, "div_f64", &[l, r]),
            Op::Div => self.call(FLOAT, "div_f32", &[l, r]),
            _ => format!("{l} {} {r}", op.symbol()),
        };
        let raw = self.bind(raw);
        let settled = if double {
            self.call(
                FLOAT,
                "settle_f64",
                &[l, r, &raw, &format!("{INVALID_F64:#x}lu")],
            )
        } else {
            self.call(
                FLOAT,
                "settle_f32",
                &[l, r, &raw, &format!("{INVALID_F32:#x}u")],
            )
        };
        self.bind(settled)
    }

    fn integer_arithmetic(&mut self, op: Op, left: &Value, right: &Value, result: &mut Value) {
        let (l, r) = (&left.code, &right.code);
        let (width, signed) = device::integer_width(&left.data_type).unwrap_or((64, true));
        let symbol = op.symbol();
        result.code = match op {
            Op::Add | Op::Sub | Op::Mul => {
                let code = self.bind(format!("{l} {symbol} {r}"));
                self.wrap(code, width, signed)
            }
            Op::Div | Op::Rem => return self.divide(op, left, right, result),
            Op::BitXor => self.bind(format!("{l} ^ {r}")),
            Op::ShiftLeft | Op::ShiftRight => {
                let count = self.bind(format!(
                    "u32({r} & {})",
                    literal(i128::from(width) - 1, left.device)
                ));
                let code = self.bind(format!("{l} {symbol} {count}"));
                self.wrap(code, width, signed)
            }
            _ => self.bind(format!("{l} {symbol} {r}")),
        };
    }

    /// Division and remainder of integers: raises on a zero divisor, and where the quotient overflows.
    fn divide(&mut self, op: Op, left: &Value, right: &Value, result: &mut Value) {
        let (l, mut r) = (left.code.clone(), right.code.clone());
        let device = left.device;
        let (least, _) = device::integer_range(&left.data_type).unwrap_or_default();
        let one = literal(1, device);
        if right.constant.is_none_or(|constant| constant == 0) {
            let zero = self.bind(format!("{r} == {}", device.zero()));
            self.raise(&result.valid, &zero, ArithmeticError::DivideByZero);
            r = self.bind(format!("select({r}, {one}, {zero})"));
        }
        if least < 0 && right.constant.is_none_or(|constant| constant == -1) {
            // The least integer has no negation: its quotient by -1 overflows, its remainder is 0.
            let minus_one = literal(-1, device);
            if op == Op::Div {
                let least = self.integer(least, device);
                let overflow = self.bind(format!("{l} == {least} && {r} == {minus_one}"));
                self.raise(&result.valid, &overflow, ArithmeticError::Overflow);
                r = self.bind(format!("select({r}, {one}, {overflow})"));
            } else {
                r = self.bind(format!("select({r}, {one}, {r} == {minus_one})"));
            }
        }
        result.code = self.bind(format!("{l} {} {r}", op.symbol()));
    }

    /// Differences of dates and timestamps, and durations: raises where an i64 overflows.
    fn temporal(&mut self, op: Op, left: &Value, right: &Value, result: &mut Value) {
        let (l, r) = (&left.code, &right.code);
        match left.data_type {
            DataType::Date32 => {
                let l = self.converted(DeviceType::I32, DeviceType::I64, l);
                let r = self.converted(DeviceType::I32, DeviceType::I64, r);
                result.code = self.bind(format!("{l} - {r}"));
            }
            DataType::Date64 => {
                let difference = self.bind(format!("{l} - {r}"));
                result.code = self.bind(format!("{difference} / 86400000li"));
            }
            _ => {
                let symbol = op.symbol();
                let code = self.bind(format!("{l} {symbol} {r}"));
                let overflow = match op {
                    Op::Add => format!("(({l} ^ {code}) & ({r} ^ {code})) < 0li"),
                    _ => format!("(({l} ^ {r}) & ({l} ^ {code})) < 0li"),
                };
                let overflow = self.bind(overflow);
                self.raise(&result.valid, &overflow, ArithmeticError::Overflow);
                result.code = code;
            }
        }
    }

    /// Negation as arrow's `neg_wrapping`: integers wrap, durations and decimals raise on overflow.
    pub(crate) fn negate(&mut self, value: Value) -> Result<Value, ExprError> {
        let mut result = value.clone();
        result.constant = None;
        match &value.data_type {
            DataType::Decimal128(_, _) => return self.negate_decimal(value),
            DataType::Float32 => {
                let bits = self.bind(format!("bitcast<u32>({})", value.code));
                result.code = self.bind(format!("bitcast<f32>({bits} ^ 0x80000000u)"));
            }
            DataType::Float64 => {
                let bits = self.bind(format!("bitcast<u64>({})", value.code));
                result.code = self.bind(format!("bitcast<f64>({bits} ^ 0x8000000000000000lu)"));
            }
            DataType::Duration(_) => {
                let least = self.integer(i64::MIN.into(), DeviceType::I64);
                let overflow = self.bind(format!("{} == {least}", value.code));
                self.raise(&value.valid, &overflow, ArithmeticError::Overflow);
                result.code = self.bind(format!("0li - {}", value.code));
            }
            other if other.is_integer() => {
                let (width, signed) = device::integer_width(other).unwrap_or((64, true));
                let code = self.bind(format!("{} - {}", value.device.zero(), value.code));
                result.code = self.wrap(code, width, signed);
            }
            other => return Err(ExprError::unsupported(format!("- {other}"))),
        }
        Ok(result)
    }

    /// The low `width` bits of a 32-bit value, extended by its sign.
    fn wrap(&mut self, code: String, width: u32, signed: bool) -> String {
        match (width, signed) {
            (8 | 16, true) => {
                let shift = 32 - width;
                self.bind(format!("({code} << {shift}u) >> {shift}u"))
            }
            (8 | 16, false) => self.bind(format!("{code} & {:#x}u", (1u32 << width) - 1)),
            _ => code,
        }
    }
}

/// A small integer as WGSL writes it.
fn literal(value: i128, device: DeviceType) -> String {
    let suffix = match device {
        DeviceType::I32 => "i",
        DeviceType::U32 => "u",
        DeviceType::U64 => "lu",
        _ => "li",
    };
    format!("{value}{suffix}")
}
