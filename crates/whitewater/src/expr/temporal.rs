//! Casts from and to dates, times, timestamps and durations, as arrow's `cast_with_options`.

use arrow::datatypes::{DataType, TimeUnit};

use super::{
    ArithmeticError, ExprError,
    body::{Body, Value},
    device::{self, DeviceType},
    typing::per_second,
};

const SECONDS_PER_DAY: i64 = 86_400;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Days since 1970 of -262143-01-01 and 262142-12-31: the dates that chrono, and so arrow, can hold.
const FIRST_DAY: i64 = days_from_civil(-262_143, 1, 1);
const LAST_DAY: i64 = days_from_civil(262_142, 12, 31);

/// Days since 1970-01-01 in the Gregorian calendar.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "+00:00" | "-00:00" | "+00" | "+0000")
}

impl Body<'_> {
    /// None where arrow has no such cast, or we have not.
    pub(crate) fn cast_temporal(
        &mut self,
        value: &Value,
        to: &DataType,
        safe: bool,
    ) -> Result<Option<Value>, ExprError> {
        use DataType::*;
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let from = value.data_type.clone();
        Ok(Some(match (&from, to) {
            // Integers, as they are stored.
            (Int32, Date32 | Time32(_)) | (Date32 | Time32(_), Int32 | Int64) => {
                self.integer_cast(value, to, safe)?
            }
            (Int32, Date64) => {
                let days = self.integer_cast(value, &Date32, safe)?;
                return self.cast_temporal(&days, to, safe);
            }
            (Int64, Date64 | Date32 | Time64(_)) | (Date64, Int64 | Int32) | (Time64(_), Int64) => {
                self.integer_cast(value, to, safe)?
            }
            // Any number, through i64.
            (Timestamp(_, _) | Duration(_), to) if to.is_numeric() => {
                let integer = self.integer_cast(value, &Int64, safe)?;
                if *to == Int64 {
                    return Ok(Some(integer));
                }
                return self.cast_number(&integer, to, safe);
            }
            (from, Timestamp(_, _) | Duration(_)) if from.is_numeric() => {
                let integer = match from {
                    Int64 => value.clone(),
                    _ => match self.cast_number(value, &Int64, safe)? {
                        Some(integer) => integer,
                        None => return Ok(None),
                    },
                };
                self.integer_cast(&integer, to, safe)?
            }
            // Dates.
            (Date32, Date64) => self.multiply(value, MILLIS_PER_DAY, to, Overflows::Never, safe)?,
            (Date64, Date32) => {
                let days = self.divide_by(value, MILLIS_PER_DAY, &Int64)?;
                self.integer_cast(&days, to, safe)?
            }
            (Date32, Timestamp(unit, zone)) => {
                let local = Timestamp(*unit, None);
                let factor = SECONDS_PER_DAY * per_second(*unit);
                let overflows = match unit {
                    Second | Millisecond => Overflows::Never,
                    _ => Overflows::Fails,
                };
                let value = self.multiply(value, factor, &local, overflows, safe)?;
                return self.at_zone(value, *unit, None, zone.as_deref(), to, safe);
            }
            (Date64, Timestamp(unit, zone)) => {
                let local = Timestamp(*unit, None);
                let value = match unit {
                    Second => self.divide_by(value, 1_000, &local)?,
                    // Arrow wraps, but DataFusion checks before it, unless TRY_CAST.
                    _ => self.multiply(
                        value,
                        per_second(*unit) / 1_000,
                        &local,
                        Overflows::Wraps,
                        safe,
                    )?,
                };
                return self.at_zone(value, *unit, None, zone.as_deref(), to, safe);
            }
            (Timestamp(Second, _), Date64) => {
                self.multiply(value, 1_000, to, Overflows::Fails, safe)?
            }
            (Timestamp(unit, _), Date64) => self.divide_by(value, per_second(*unit) / 1_000, to)?,
            (Timestamp(unit, zone), Date32) if zone.as_deref().is_none_or(is_utc) => {
                let per_day = SECONDS_PER_DAY * per_second(*unit);
                let day = self.divide_floor(value, per_day)?;
                let outside = self.outside_calendar(&day, *unit);
                if let Some(outside) = outside {
                    // Arrow fails here under TRY_CAST too.
                    self.raise(&value.valid, &outside, ArithmeticError::Cast);
                }
                let code = self.bind(format!("i32({day})"));
                self.value_of(code, to, value.valid.clone())?
            }
            (Timestamp(from_unit, from_zone), Timestamp(to_unit, to_zone)) => {
                let value =
                    self.change_unit(value, *from_unit, *to_unit, to, Overflows::Fails, safe)?;
                let (from_zone, to_zone) = (from_zone.as_deref(), to_zone.as_deref());
                return self.at_zone(value, *to_unit, from_zone, to_zone, to, safe);
            }
            (Duration(from_unit), Duration(to_unit)) => {
                self.change_unit(value, *from_unit, *to_unit, to, Overflows::Fails, safe)?
            }
            // Times of day.
            (Time32(Second), Time32(Millisecond)) => {
                let product = self.multiply(value, 1_000, &Int64, Overflows::Never, safe)?;
                self.integer_cast(&product, to, safe)?
            }
            (Time32(from), Time64(to_unit @ (Microsecond | Nanosecond))) => {
                self.change_unit(value, *from, *to_unit, to, Overflows::Never, safe)?
            }
            (Time64(from), Time64(to_unit)) => {
                self.change_unit(value, *from, *to_unit, to, Overflows::Wraps, true)?
            }
            (Time32(from), Time32(to_unit)) => {
                self.change_unit(value, *from, *to_unit, to, Overflows::Never, safe)?
            }
            _ => return Ok(None),
        }))
    }

    /// From one unit of time to another: truncating, or multiplying.
    fn change_unit(
        &mut self,
        value: &Value,
        from: TimeUnit,
        to: TimeUnit,
        data_type: &DataType,
        overflows: Overflows,
        safe: bool,
    ) -> Result<Value, ExprError> {
        let (from, to) = (per_second(from), per_second(to));
        if from >= to {
            self.divide_by(value, from / to, data_type)
        } else {
            self.multiply(value, to / from, data_type, overflows, safe)
        }
    }

    /// A timestamp in another zone. From no zone to one, only UTC leaves the number as it is.
    fn at_zone(
        &mut self,
        mut value: Value,
        unit: TimeUnit,
        from: Option<&str>,
        zone: Option<&str>,
        to: &DataType,
        safe: bool,
    ) -> Result<Option<Value>, ExprError> {
        value.data_type = to.clone();
        if let (None, Some(zone)) = (from, zone) {
            if !is_utc(zone) {
                return Ok(None);
            }
            let day = self.divide_floor(&value, SECONDS_PER_DAY * per_second(unit))?;
            if let Some(outside) = self.outside_calendar(&day, unit) {
                value.valid = self.fail(&value.valid, &outside, ArithmeticError::Cast, safe);
            }
        }
        Ok(Some(value))
    }

    /// A boolean variable: whether `day` is outside the calendar; none if `unit` cannot reach there.
    fn outside_calendar(&mut self, day: &str, unit: TimeUnit) -> Option<String> {
        if unit == TimeUnit::Nanosecond {
            return None;
        }
        Some(self.bind(format!("{day} < {FIRST_DAY}li || {day} > {LAST_DAY}li")))
    }

    fn long(&mut self, value: &Value) -> String {
        match value.device {
            DeviceType::I64 => value.code.clone(),
            from => self.converted(from, DeviceType::I64, &value.code),
        }
    }

    /// An i64 variable: the quotient by a positive constant, rounded down.
    fn divide_floor(&mut self, value: &Value, divisor: i64) -> Result<String, ExprError> {
        let code = self.long(value);
        let quotient = self.bind(format!("{code} / {divisor}li"));
        let down = self.bind(format!("{quotient} * {divisor}li > {code}"));
        Ok(self.bind(format!("{quotient} - select(0li, 1li, {down})")))
    }

    /// The quotient by a positive constant, truncated.
    fn divide_by(
        &mut self,
        value: &Value,
        divisor: i64,
        to: &DataType,
    ) -> Result<Value, ExprError> {
        let mut code = self.long(value);
        if divisor != 1 {
            code = self.bind(format!("{code} / {divisor}li"));
        }
        if DeviceType::of(to) == Some(DeviceType::I32) {
            code = self.bind(format!("i32({code})"));
        }
        self.value_of(code, to, value.valid.clone())
    }

    /// The product with a positive constant.
    fn multiply(
        &mut self,
        value: &Value,
        factor: i64,
        to: &DataType,
        overflows: Overflows,
        safe: bool,
    ) -> Result<Value, ExprError> {
        let code = self.long(value);
        let mut valid = value.valid.clone();
        if factor == 1 {
            return self.value_of(code, to, valid);
        }
        let check = match overflows {
            Overflows::Never => false,
            Overflows::Wraps => !safe,
            Overflows::Fails => true,
        };
        if check {
            let (least, most) = (i64::MIN / factor, i64::MAX / factor);
            let (from_least, from_most) =
                device::integer_range(&value.data_type).unwrap_or_default();
            if from_least < least.into() || from_most > most.into() {
                let fails = self.bind(format!("{code} < {least}li || {code} > {most}li"));
                valid = self.fail(&valid, &fails, ArithmeticError::Overflow, safe);
            }
        }
        let code = self.bind(format!("{code} * {factor}li"));
        self.value_of(code, to, valid)
    }
}

/// What arrow does where a multiplication overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflows {
    /// It cannot.
    Never,
    /// TRY_CAST wraps, CAST fails.
    Wraps,
    /// CAST fails, TRY_CAST gives null.
    Fails,
}
