//! Decimal arithmetic: i64 where bounds prove that it fits, a 64x64 product where operands fit, and
//! 128-bit arithmetic with an overflow check where nothing is proved.

use arrow::datatypes::DataType;

use super::{
    ArithmeticError, ExprError, Op,
    body::{Body, Valid, Value},
    bounds::{self, Bound},
    device::DeviceType,
};

impl Body<'_> {
    /// The code of a decimal in the representation `device`.
    pub(crate) fn widen(&mut self, value: &Value, device: DeviceType) -> String {
        match (value.device, device, value.constant) {
            (DeviceType::I64, DeviceType::I128, Some(constant)) if value.valid != Valid::Never => {
                self.integer(constant, DeviceType::I128)
            }
            (DeviceType::I64, DeviceType::I128, _) => {
                let text = self.int128("i128_from_i64", &[&value.code]);
                self.bind(text)
            }
            (DeviceType::I128, DeviceType::I64, _) => {
                let text = self.int128("i128_low", &[&value.code]);
                self.bind(text)
            }
            _ => value.code.clone(),
        }
    }

    fn wide(&mut self, value: &Value) -> String {
        self.widen(value, DeviceType::I128)
    }

    /// `left op right` into `result`, whose type says the scale. Raises on overflow of 128 bits, in the
    /// rescaled operands too, and on a zero divisor.
    pub(crate) fn decimal_arithmetic(
        &mut self,
        op: Op,
        left: Value,
        right: Value,
        result: Value,
    ) -> Result<Value, ExprError> {
        let unsupported = || {
            let (left, right) = (&left.data_type, &right.data_type);
            ExprError::unsupported(format!("{left} {} {right}", op.symbol()))
        };
        let (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2), DataType::Decimal128(_, s)) =
            (&left.data_type, &right.data_type, &result.data_type)
        else {
            return Err(unsupported());
        };
        let (s1, s2, s) = (i32::from(*s1), i32::from(*s2), i32::from(*s));
        let (up_left, up_right) = match op {
            Op::Add | Op::Sub | Op::Rem => (s - s1, s - s2),
            Op::Div => {
                let power = s - s1 + s2;
                (power.max(0), (-power).max(0))
            }
            _ => (0, 0),
        };
        let factor = |power: i32| {
            u32::try_from(power)
                .ok()
                .and_then(bounds::power_of_ten)
                .ok_or_else(unsupported)
        };
        let (up_left, up_right) = (factor(up_left)?, factor(up_right)?);
        let valid = result.valid.clone();
        let left = self.times_constant(left, up_left, &valid)?;
        let right = self.times_constant(right, up_right, &valid)?;
        let mut value = match op {
            Op::Add | Op::Sub => self.decimal_sum(op, &left, &right, &valid),
            Op::Mul => self.decimal_product(&left, &right, &valid),
            _ => self.decimal_quotient(op, &left, &right, &valid),
        };
        value.data_type = result.data_type;
        value.valid = valid;
        Ok(value)
    }

    /// `value` times a positive constant; raises on overflow in rows that are `valid`.
    pub(crate) fn times_constant(
        &mut self,
        value: Value,
        factor: i128,
        valid: &Valid,
    ) -> Result<Value, ExprError> {
        if factor == 1 {
            return Ok(value);
        }
        if let Some(product) = value.constant.and_then(|c| c.checked_mul(factor)) {
            let data_type = value.data_type.clone();
            return self.constant(product, &data_type);
        }
        let factor = self.constant(factor, &value.data_type)?;
        let product = self.decimal_product(&value, &factor, valid);
        Ok(product.with_valid(value.valid))
    }

    /// A decimal computed as `code`.
    fn decimal(&mut self, like: &Value, code: String, device: DeviceType, bound: Bound) -> Value {
        Value {
            code: self.bind(code),
            data_type: like.data_type.clone(),
            device,
            bound: bound.stored(),
            constant: None,
            valid: like.valid.clone(),
        }
    }

    /// A decimal computed by the checked function `name`; the check raises in rows that are `valid`.
    fn checked(&mut self, name: &'static str, left: &Value, right: &Value, valid: &Valid) -> Value {
        let (l, r) = (self.wide(left), self.wide(right));
        let call = self.int128(name, &[&l, &r]);
        let checked = self.bind(call);
        self.raise(
            valid,
            &format!("{checked}.overflow"),
            ArithmeticError::Overflow,
        );
        self.decimal(
            left,
            format!("{checked}.value"),
            DeviceType::I128,
            Bound::UNKNOWN,
        )
    }

    fn decimal_sum(&mut self, op: Op, left: &Value, right: &Value, valid: &Valid) -> Value {
        let bound = left.bound.plus(right.bound);
        if bound.fits_i64() {
            let (l, r) = (self.narrow(left), self.narrow(right));
            return self.decimal(
                left,
                format!("{l} {} {r}", op.symbol()),
                DeviceType::I64,
                bound,
            );
        }
        let (plain, checked) = match op {
            Op::Add => ("i128_add", "i128_add_checked"),
            _ => ("i128_sub", "i128_sub_checked"),
        };
        if !bound.fits_i128() {
            return self.checked(checked, left, right, valid);
        }
        let (l, r) = (self.wide(left), self.wide(right));
        let code = self.int128(plain, &[&l, &r]);
        self.decimal(left, code, DeviceType::I128, bound)
    }

    pub(crate) fn decimal_product(&mut self, left: &Value, right: &Value, valid: &Valid) -> Value {
        let bound = left.bound.times(right.bound);
        let narrow = left.device == DeviceType::I64 && right.device == DeviceType::I64;
        if bound.fits_i64() {
            let (l, r) = (self.narrow(left), self.narrow(right));
            self.decimal(left, format!("{l} * {r}"), DeviceType::I64, bound)
        } else if narrow {
            let code = self.int128("mul_wide_i64", &[&left.code, &right.code]);
            self.decimal(left, code, DeviceType::I128, bound)
        } else if bound.fits_i128() {
            let (l, r) = (self.wide(left), self.wide(right));
            let code = self.int128("i128_mul", &[&l, &r]);
            self.decimal(left, code, DeviceType::I128, bound)
        } else {
            self.checked("i128_mul_checked", left, right, valid)
        }
    }

    /// The truncated quotient, or the remainder, of operands at one scale.
    pub(crate) fn decimal_quotient(
        &mut self,
        op: Op,
        left: &Value,
        right: &Value,
        valid: &Valid,
    ) -> Value {
        let quotient = op == Op::Div;
        let bound = match quotient {
            true => left.bound.over(right.constant),
            false => left.bound.min(right.bound),
        };
        let may_be_zero = right.constant.is_none_or(|constant| constant == 0);
        if left.bound.fits_i64() && right.bound.fits_i64() {
            let (l, mut r) = (self.narrow(left), self.narrow(right));
            if may_be_zero {
                let zero = self.bind(format!("{r} == 0li"));
                self.raise(valid, &zero, ArithmeticError::DivideByZero);
                r = self.bind(format!("select({r}, 1li, {zero})"));
            }
            return self.decimal(
                left,
                format!("{l} {} {r}", op.symbol()),
                DeviceType::I64,
                bound,
            );
        }
        let (l, mut r) = (self.wide(left), self.wide(right));
        if may_be_zero {
            let zero = self.int128("i128_is_zero", &[&r]);
            let zero = self.bind(zero);
            self.raise(valid, &zero, ArithmeticError::DivideByZero);
            let guarded = self.int128("i128_select", &[&r, "I128(1lu, 0lu)", &zero]);
            self.uses.import("package::kernels::int128", "I128");
            r = self.bind(guarded);
        }
        if !left.bound.fits_i128() && right.constant.is_none_or(|constant| constant == -1) {
            // The least integer by -1: arrow raises for the quotient and for the remainder.
            let least = self.integer(i128::MIN, DeviceType::I128);
            let minus_one = self.integer(-1, DeviceType::I128);
            let is_least = self.int128("i128_eq", &[&l, &least]);
            let is_minus_one = self.int128("i128_eq", &[&r, &minus_one]);
            let overflow = self.bind(format!("{is_least} && {is_minus_one}"));
            self.raise(valid, &overflow, ArithmeticError::Overflow);
        }
        let function = if quotient { "i128_div" } else { "i128_rem" };
        let code = self.int128(function, &[&l, &r]);
        let value = self.decimal(left, code, DeviceType::I128, bound);
        self.shrink(value)
    }

    /// `value` as i64 if its bound allows, so that what follows is cheap.
    pub(crate) fn shrink(&mut self, mut value: Value) -> Value {
        if value.device == DeviceType::I128 && value.bound.fits_i64() {
            value.code = self.narrow(&value);
            value.device = DeviceType::I64;
        }
        value
    }

    /// The code of `value` as i64, which must hold it.
    fn narrow(&mut self, value: &Value) -> String {
        self.widen(value, DeviceType::I64)
    }

    /// Negation; raises on overflow.
    pub(crate) fn negate_decimal(&mut self, value: Value) -> Result<Value, ExprError> {
        let zero = self.constant(0, &value.data_type)?;
        if value.bound.fits_i128() {
            let valid = value.valid.clone();
            let negated = self.decimal_sum(Op::Sub, &zero, &value, &valid);
            return Ok(negated.with_valid(valid));
        }
        let wide = self.wide(&value);
        let call = self.int128("i128_neg_checked", &[&wide]);
        let checked = self.bind(call);
        self.raise(
            &value.valid,
            &format!("{checked}.overflow"),
            ArithmeticError::Overflow,
        );
        Ok(self.decimal(
            &value,
            format!("{checked}.value"),
            DeviceType::I128,
            Bound::UNKNOWN,
        ))
    }
}
