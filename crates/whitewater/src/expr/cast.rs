//! Casts between booleans, integers, floats and decimals, as arrow's `cast_with_options`.
//!
//! What does not fit raises [`ArithmeticError::Cast`], or is null if `safe`.

use arrow::datatypes::DataType;

use super::{
    ArithmeticError, ExprError, Op,
    body::{Body, Valid, Value},
    bounds::{self, Bound},
    device::{self, DeviceType},
};

const FLOAT: &str = "package::kernels::float";

impl Body<'_> {
    /// `CAST(value AS to)`, or TRY_CAST if `safe`. Null of null.
    pub(crate) fn cast(
        &mut self,
        value: Value,
        to: &DataType,
        safe: bool,
    ) -> Result<Value, ExprError> {
        let unsupported = || ExprError::unsupported(format!("CAST({} AS {to})", value.data_type));
        if value.data_type == *to {
            return Ok(value);
        }
        if DeviceType::of(to).is_none() {
            return Err(unsupported());
        }
        let from = value.data_type.clone();
        let cast = if from.is_temporal() || to.is_temporal() {
            self.cast_temporal(&value, to, safe)?
        } else {
            self.cast_number(&value, to, safe)?
        };
        let cast = cast.ok_or_else(unsupported)?;
        if value.valid == Valid::Never {
            return self.null(to);
        }
        Ok(cast)
    }

    /// None where arrow has no such cast, or we have not.
    pub(crate) fn cast_number(
        &mut self,
        value: &Value,
        to: &DataType,
        safe: bool,
    ) -> Result<Option<Value>, ExprError> {
        use DataType::{Boolean, Decimal128, Float32, Float64};
        let from = &value.data_type;
        Ok(Some(match (from, to) {
            (Boolean, to) if to.is_integer() || matches!(to, Float32 | Float64) => {
                let device = DeviceType::of(to).unwrap_or(DeviceType::I32);
                let one = match device {
                    DeviceType::F32 => "1.0f",
                    DeviceType::F64 => "1.0lf",
                    DeviceType::U32 => "1u",
                    DeviceType::U64 => "1lu",
                    DeviceType::I64 => "1li",
                    _ => "1i",
                };
                let code = self.bind(format!("select({}, {one}, {})", device.zero(), value.code));
                self.value_of(code, to, value.valid.clone())?
            }
            (Float32 | Float64, Boolean) => {
                // Everything but the zeros, NaN too.
                let code = match value.device {
                    DeviceType::F32 => {
                        format!("(bitcast<u32>({}) & 0x7fffffffu) != 0u", value.code)
                    }
                    _ => format!(
                        "(bitcast<u64>({}) & 0x7ffffffffffffffflu) != 0lu",
                        value.code
                    ),
                };
                let code = self.bind(code);
                self.value_of(code, to, value.valid.clone())?
            }
            (from, Boolean) if from.is_integer() => {
                let code = self.bind(format!("{} != {}", value.code, value.device.zero()));
                self.value_of(code, to, value.valid.clone())?
            }
            (from, to) if from.is_integer() && to.is_integer() => {
                self.integer_cast(value, to, safe)?
            }
            (from, Float32 | Float64) if from.is_integer() => self.convert(value, to)?,
            (Float32, Float64) | (Float64, Float32) => self.float_cast(value, to)?,
            (Float32 | Float64, to) if to.is_integer() => self.float_to_integer(value, to, safe)?,
            (from, Decimal128(precision, scale)) if from.is_integer() => {
                return self.integer_to_decimal(value, (*precision, *scale), safe);
            }
            (Float32 | Float64, Decimal128(precision, scale)) => {
                self.float_to_decimal(value, (*precision, *scale), safe)?
            }
            (Decimal128(p1, s1), Decimal128(p2, s2)) => {
                return self.rescale(value, (*p1, *s1), (*p2, *s2), safe);
            }
            (Decimal128(_, scale), Float32 | Float64) => {
                self.decimal_to_float(value, *scale, to)?
            }
            (Decimal128(_, scale), to) if to.is_integer() => {
                return self.decimal_to_integer(value, *scale, to, safe);
            }
            _ => return Ok(None),
        }))
    }

    /// Gives up rows where the boolean variable `fails`: null if `safe`, else `error`.
    pub(crate) fn fail(
        &mut self,
        valid: &Valid,
        fails: &str,
        error: ArithmeticError,
        safe: bool,
    ) -> Valid {
        if safe {
            let passes = self.bind(format!("!{fails}"));
            self.also(valid, passes)
        } else {
            self.raise(valid, fails, error);
            valid.clone()
        }
    }

    /// The device's conversion of a value that is known to fit.
    fn convert(&mut self, value: &Value, to: &DataType) -> Result<Value, ExprError> {
        let device = DeviceType::of(to).unwrap_or(value.device);
        let code = if device == value.device {
            value.code.clone()
        } else {
            self.converted(value.device, device, &value.code)
        };
        let mut result = self.value_of(code, to, value.valid.clone())?;
        if to.is_integer() || to.is_temporal() {
            result.constant = value.constant;
        }
        Ok(result)
    }

    /// An integer (or a temporal value taken as one) as an integer.
    pub(crate) fn integer_cast(
        &mut self,
        value: &Value,
        to: &DataType,
        safe: bool,
    ) -> Result<Value, ExprError> {
        let (from_least, from_most) = device::integer_range(&value.data_type).unwrap_or_default();
        let (least, most) = device::integer_range(to).unwrap_or_default();
        let mut value = value.clone();
        let mut tests = Vec::new();
        if value.constant.is_none_or(|constant| constant < least) && from_least < least {
            let least = self.integer(least, value.device);
            tests.push(format!("{} < {least}", value.code));
        }
        if value.constant.is_none_or(|constant| constant > most) && from_most > most {
            let most = self.integer(most, value.device);
            tests.push(format!("{} > {most}", value.code));
        }
        if !tests.is_empty() {
            let fails = self.bind(tests.join(" || "));
            value.valid = self.fail(&value.valid, &fails, ArithmeticError::Cast, safe);
            value.constant = None;
        }
        self.convert(&value, to)
    }

    /// The f64 that equals an f32.
    fn as_f64(&mut self, value: &Value) -> String {
        match value.device {
            DeviceType::F32 => {
                let widened = self.call(FLOAT, "widen_f32", &[&value.code]);
                self.bind(widened)
            }
            _ => value.code.clone(),
        }
    }

    /// f32 and f64: NaN keeps its sign and the leading bits of its payload, as on the CPU.
    fn float_cast(&mut self, value: &Value, to: &DataType) -> Result<Value, ExprError> {
        let x = &value.code;
        let (from, device) = (value.device, DeviceType::of(to));
        let converted = match (from, device) {
            (DeviceType::F32, Some(DeviceType::F64)) => self.call(FLOAT, "widen_f32", &[x]),
            (DeviceType::F64, Some(DeviceType::F32)) => self.call(FLOAT, "narrow_f64", &[x]),
            _ => return Ok(value.clone()),
        };
        let converted = self.bind(converted);
        let text = if from == DeviceType::F32 {
            let nan = self.call(FLOAT, "is_nan_f32", &[x]);
            let bits = self.bind(format!("bitcast<u32>({x})"));
            let widened = self.bind(format!(
                "(u64({bits} >> 31u) << 63u) | 0x7ff8000000000000lu | (u64({bits} & 0x7fffffu) << 29u)"
            ));
            format!("select({converted}, bitcast<f64>({widened}), {nan})")
        } else {
            let nan = self.call(FLOAT, "is_nan_f64", &[x]);
            let bits = self.bind(format!("bitcast<u64>({x})"));
            let narrowed = self.bind(format!(
                "(u32({bits} >> 63u) << 31u) | 0x7fc00000u | u32(({bits} >> 29u) & 0x7ffffflu)"
            ));
            format!("select({converted}, bitcast<f32>({narrowed}), {nan})")
        };
        let code = self.bind(text);
        self.value_of(code, to, value.valid.clone())
    }

    /// The integer part; NaN and what is out of range fails.
    fn float_to_integer(
        &mut self,
        value: &Value,
        to: &DataType,
        safe: bool,
    ) -> Result<Value, ExprError> {
        let (width, signed) = device::integer_width(to).unwrap_or((64, true));
        let x = self.as_f64(value);
        // Up to 32 bits the exclusive lower limit is an f64; i64::MIN - 1 is not.
        let above = match (width, signed) {
            (_, false) => "> -1.0lf".to_string(),
            (64, true) => ">= -9223372036854775808.0lf".into(),
            (_, true) => format!("> -{}.0lf", (1u128 << (width - 1)) + 1),
        };
        let limit = 1u128 << if signed { width - 1 } else { width };
        let fits = self.bind(format!("{x} {above} && {x} < {limit}.0lf"));
        let fails = self.bind(format!("!{fits}"));
        let valid = self.fail(&value.valid, &fails, ArithmeticError::Cast, safe);
        let device = DeviceType::of(to).unwrap_or(DeviceType::I64);
        let inside = self.bind(format!("select(0.0lf, {x}, {fits})"));
        let code = self.converted(DeviceType::F64, device, &inside);
        self.value_of(code, to, valid)
    }

    /// Fails where a decimal has more digits than `precision`, unless its bound shows that it has not.
    fn precision(
        &mut self,
        mut value: Value,
        precision: u8,
        safe: bool,
    ) -> Result<Value, ExprError> {
        let limit = power(precision.into())? - 1;
        if !value.bound.within(limit) {
            let outside = if value.device == DeviceType::I64 {
                let least = self.integer(-limit, DeviceType::I64);
                let most = self.integer(limit, DeviceType::I64);
                format!("{0} < {least} || {0} > {most}", value.code)
            } else {
                let limit = self.integer(limit, DeviceType::I128);
                let within = self.int128("i128_within", &[&value.code, &limit]);
                format!("!{within}")
            };
            let fails = self.bind(outside);
            value.valid = self.fail(&value.valid, &fails, ArithmeticError::Cast, safe);
            value.bound = Bound::exact(limit);
            value = self.shrink(value);
        }
        Ok(value)
    }

    /// An integer as a decimal with the same number as unscaled value.
    fn unscaled(&mut self, value: &Value, data_type: &DataType) -> Result<Value, ExprError> {
        let (least, most) = device::integer_range(&value.data_type).unwrap_or_default();
        let mut result = self.value_of(String::new(), data_type, value.valid.clone())?;
        result.constant = value.constant;
        result.bound = Bound::exact(value.constant.unwrap_or(least.min(-most)));
        if value.device == DeviceType::U64 {
            let text = self.int128("i128_from_u64", &[&value.code]);
            result.code = self.bind(text);
        } else {
            result.device = DeviceType::I64;
            result.code = match value.device {
                DeviceType::I64 => value.code.clone(),
                other => self.converted(other, DeviceType::I64, &value.code),
            };
        }
        Ok(result)
    }

    fn integer_to_decimal(
        &mut self,
        value: &Value,
        (precision, scale): (u8, i8),
        safe: bool,
    ) -> Result<Option<Value>, ExprError> {
        let to = DataType::Decimal128(precision, scale);
        let unscaled = self.unscaled(value, &to)?;
        let Some(factor) = bounds::power_of_ten(scale.unsigned_abs().into()) else {
            return Ok(None);
        };
        let scaled = if scale < 0 {
            self.quotient_by(&unscaled, factor)?
        } else {
            self.product_or_fail(unscaled, factor, safe)?
        };
        self.precision(scaled, precision, safe).map(Some)
    }

    /// `value` times `factor`; fails on overflow of 128 bits.
    fn product_or_fail(
        &mut self,
        value: Value,
        factor: i128,
        safe: bool,
    ) -> Result<Value, ExprError> {
        let overflow_free = value.bound.times(Bound::exact(factor)).fits_i128();
        if overflow_free
            || value
                .constant
                .is_some_and(|c| c.checked_mul(factor).is_some())
        {
            let valid = value.valid.clone();
            return self.times_constant(value, factor, &valid);
        }
        let wide = self.widen(&value, DeviceType::I128);
        let factor = self.integer(factor, DeviceType::I128);
        let call = self.int128("i128_mul_checked", &[&wide, &factor]);
        let checked = self.bind(call);
        let overflow = self.bind(format!("{checked}.overflow"));
        let mut result = value;
        result.valid = self.fail(&result.valid, &overflow, ArithmeticError::Cast, safe);
        result.code = self.bind(format!("{checked}.value"));
        result.device = DeviceType::I128;
        result.bound = Bound::UNKNOWN;
        result.constant = None;
        Ok(result)
    }

    /// `value` divided by a positive constant, truncating.
    fn quotient_by(&mut self, value: &Value, divisor: i128) -> Result<Value, ExprError> {
        if divisor == 1 {
            return Ok(value.clone());
        }
        let divisor = self.constant(divisor, &value.data_type)?;
        let valid = value.valid.clone();
        let quotient = self.decimal_quotient(Op::Div, value, &divisor, &valid);
        Ok(quotient.with_valid(valid))
    }

    fn float_to_decimal(
        &mut self,
        value: &Value,
        (precision, scale): (u8, i8),
        safe: bool,
    ) -> Result<Value, ExprError> {
        let x = self.as_f64(value);
        let factor = self.f64_bits(std::hint::black_box(10f64).powi(scale.into()).to_bits());
        let scaled = self.bind(format!("{factor} * {x}"));
        let call = self.int128("i128_from_f64_round", &[&scaled]);
        let rounded = self.bind(call);
        let overflow = self.bind(format!("{rounded}.overflow"));
        let valid = self.fail(&value.valid, &overflow, ArithmeticError::Cast, safe);
        let code = self.bind(format!("{rounded}.value"));
        let result = self.value_of(code, &DataType::Decimal128(precision, scale), valid)?;
        self.precision(result, precision, safe)
    }

    /// The unscaled value as f64, divided by the power of ten: two roundings, as in arrow.
    fn decimal_to_float(
        &mut self,
        value: &Value,
        scale: i8,
        to: &DataType,
    ) -> Result<Value, ExprError> {
        let unscaled = if value.device == DeviceType::I64 {
            self.bind(format!("f64({})", value.code))
        } else {
            let text = self.int128("i128_to_f64", &[&value.code]);
            self.bind(text)
        };
        let divisor = std::hint::black_box(10f64).powi(scale.into());
        let divisor = self.f64_bits(divisor.to_bits());
        let quotient = self.call("package::kernels::float", "div_f64", &[&unscaled, &divisor]);
        let mut code = self.bind(quotient);
        if *to == DataType::Float32 {
            let narrowed = self.call(FLOAT, "narrow_f64", &[&code]);
            code = self.bind(narrowed);
        }
        self.value_of(code, to, value.valid.clone())
    }

    fn decimal_to_integer(
        &mut self,
        value: &Value,
        scale: i8,
        to: &DataType,
        safe: bool,
    ) -> Result<Option<Value>, ExprError> {
        let Some(factor) = bounds::power_of_ten(scale.unsigned_abs().into()) else {
            return Ok(None);
        };
        let mut whole = if scale < 0 {
            self.product_or_fail(value.clone(), factor, safe)?
        } else {
            self.quotient_by(value, factor)?
        };
        let (least, most) = device::integer_range(to).unwrap_or_default();
        if *to == DataType::UInt64 {
            let wide = self.widen(&whole, DeviceType::I128);
            let fails = self.bind(format!("{wide}.hi != 0lu"));
            let valid = self.fail(&whole.valid, &fails, ArithmeticError::Cast, safe);
            let code = self.bind(format!("{wide}.lo"));
            return self.value_of(code, to, valid).map(Some);
        }
        if whole.device == DeviceType::I128 {
            let fits = self.int128("i128_fits_i64", &[&whole.code]);
            let fails = self.bind(format!("!{fits}"));
            whole.valid = self.fail(&whole.valid, &fails, ArithmeticError::Cast, safe);
            whole.code = self.widen(&whole, DeviceType::I64);
            whole.device = DeviceType::I64;
        }
        let mut integer = whole.clone();
        integer.data_type = DataType::Int64;
        if whole.bound.within(most.min(-least)) {
            return self.convert(&integer, to).map(Some);
        }
        self.integer_cast(&integer, to, safe).map(Some)
    }

    /// A decimal at another precision and scale, rounding half away from zero. Precision is checked only
    /// where the types allow it to be exceeded, as in arrow.
    fn rescale(
        &mut self,
        value: &Value,
        (p1, s1): (u8, i8),
        (p2, s2): (u8, i8),
        safe: bool,
    ) -> Result<Option<Value>, ExprError> {
        let to = DataType::Decimal128(p2, s2);
        let mut result = value.clone();
        result.data_type = to.clone();
        if s1 == s2 && p1 <= p2 {
            return Ok(Some(result));
        }
        let (p1, p2_digits) = (i32::from(p1), i32::from(p2));
        let shift = i32::from(s2) - i32::from(s1);
        let Some(factor) = bounds::power_of_ten(shift.unsigned_abs()) else {
            if shift > 0 {
                return Ok(None);
            }
            let zero = self.constant(0, &to)?;
            return Ok(Some(zero.with_valid(value.valid.clone())));
        };
        if shift >= 0 {
            if p1 + shift > p2_digits {
                let product = self.product_or_fail(result, factor, safe)?;
                return self.precision(product, p2, safe).map(Some);
            }
            if result.bound.times(Bound::exact(factor)).fits_i128() {
                let valid = result.valid.clone();
                return self.times_constant(result, factor, &valid).map(Some);
            }
            // Arrow trusts the precision and wraps.
            let (wide, factor) = (
                self.widen(&result, DeviceType::I128),
                self.integer(factor, DeviceType::I128),
            );
            let text = self.int128("i128_mul", &[&wide, &factor]);
            result.code = self.bind(text);
            result.device = DeviceType::I128;
            result.bound = Bound::UNKNOWN;
            result.constant = None;
            return Ok(Some(result));
        }
        result.constant = None;
        result.bound = value
            .bound
            .over(Some(factor))
            .plus(Bound::exact(1))
            .stored();
        if value.device == DeviceType::I64 && i64::try_from(factor).is_ok() {
            let divisor = self.integer(factor, DeviceType::I64);
            let text = self.int128("i64_div_round", &[&value.code, &divisor]);
            result.code = self.bind(text);
        } else {
            let (wide, divisor) = (
                self.widen(value, DeviceType::I128),
                self.integer(factor, DeviceType::I128),
            );
            let text = self.int128("i128_div_round", &[&wide, &divisor]);
            result.code = self.bind(text);
            result.device = DeviceType::I128;
            result = self.shrink(result);
        }
        if p1 + shift < p2_digits {
            return Ok(Some(result));
        }
        self.precision(result, p2, safe).map(Some)
    }
}

fn power(exponent: u32) -> Result<i128, ExprError> {
    bounds::power_of_ten(exponent)
        .ok_or_else(|| ExprError::unsupported(format!("a decimal of {exponent} digits")))
}
