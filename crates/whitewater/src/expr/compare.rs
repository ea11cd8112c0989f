//! Comparisons: integers by value, floats by IEEE total order, false before true.

use arrow::datatypes::DataType;

use super::{
    ExprError, Op,
    body::{Body, Valid, Value},
    device::DeviceType,
};

impl Body<'_> {
    /// `left op right`: null if either is, but never for the DISTINCT operators.
    pub(crate) fn compare(
        &mut self,
        op: Op,
        left: Value,
        right: Value,
    ) -> Result<Value, ExprError> {
        let distinct = matches!(op, Op::IsDistinctFrom | Op::IsNotDistinctFrom);
        if !distinct {
            let valid = self.both(&left.valid, &right.valid);
            if valid == Valid::Never {
                return self.null(&DataType::Boolean);
            }
            let text = self.comparison(op, &left, &right);
            let code = self.bind(text);
            return self.value_of(code, &DataType::Boolean, valid);
        }
        let same = match (&left.valid, &right.valid) {
            (Valid::Never, Valid::Never) => "true".to_string(),
            (Valid::Never, other) | (other, Valid::Never) => match other {
                Valid::When(valid) => format!("!{valid}"),
                _ => "false".into(),
            },
            (Valid::Always, Valid::Always) => self.comparison(Op::Eq, &left, &right),
            (l, r) => {
                let (l, r) = (Body::valid_text(l), Body::valid_text(r));
                let equal = self.comparison(Op::Eq, &left, &right);
                format!("({l} == {r}) && (!{l} || {equal})")
            }
        };
        let code = match op {
            Op::IsNotDistinctFrom => self.bind(same),
            _ => self.bind(format!("!({same})")),
        };
        self.value_of(code, &DataType::Boolean, Valid::Always)
    }

    /// The boolean text of `left op right` for values that are not null.
    pub(crate) fn comparison(&mut self, op: Op, left: &Value, right: &Value) -> String {
        let symbol = match op {
            Op::Eq | Op::IsNotDistinctFrom => "==",
            Op::Ne | Op::IsDistinctFrom => "!=",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            _ => "<",
        };
        let (l, r) = (&left.code, &right.code);
        match left.device {
            DeviceType::Bool => match op {
                Op::Lt => format!("(!{l} && {r})"),
                Op::Le => format!("(!{l} || {r})"),
                Op::Gt => format!("({l} && !{r})"),
                Op::Ge => format!("({l} || !{r})"),
                _ => format!("({l} {symbol} {r})"),
            },
            DeviceType::F32 | DeviceType::F64 => {
                let function = match left.device {
                    DeviceType::F32 => "total_f32",
                    _ => "total_f64",
                };
                let l = self.call("package::kernels::float", function, &[l]);
                let r = self.call("package::kernels::float", function, &[r]);
                format!("({l} {symbol} {r})")
            }
            _ if left.device == right.device && left.device != DeviceType::I128 => {
                format!("({l} {symbol} {r})")
            }
            _ => {
                let l = self.widen(left, DeviceType::I128);
                let r = self.widen(right, DeviceType::I128);
                let (function, first, second, negated) = match op {
                    Op::Eq | Op::IsNotDistinctFrom => ("i128_eq", &l, &r, ""),
                    Op::Ne | Op::IsDistinctFrom => ("i128_eq", &l, &r, "!"),
                    Op::Gt => ("i128_lt", &r, &l, ""),
                    Op::Le => ("i128_lt", &r, &l, "!"),
                    Op::Ge => ("i128_lt", &l, &r, "!"),
                    _ => ("i128_lt", &l, &r, ""),
                };
                let call = self.int128(function, &[first, second]);
                format!("{negated}{call}")
            }
        }
    }
}
