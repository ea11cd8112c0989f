//! Literals as C++ text.

use naga::Literal;

use crate::{Error, error::unsupported};

/// A literal of exactly its type; floats that C++ cannot spell go through their bits.
pub(crate) fn literal(value: Literal, place: &str) -> Result<String, Error> {
    Ok(match value {
        Literal::Bool(v) => v.to_string(),
        Literal::U32(v) => format!("{v}u"),
        Literal::I32(i32::MIN) => "(-2147483647 - 1)".into(),
        Literal::I32(v) => format!("{v}"),
        Literal::U64(v) => format!("{v}ull"),
        Literal::I64(i64::MIN) => "(-9223372036854775807ll - 1ll)".into(),
        Literal::I64(v) => format!("{v}ll"),
        Literal::F32(v) if v.is_finite() => format!("{v:?}f"),
        Literal::F32(v) => format!("__uint_as_float({}u)", v.to_bits()),
        Literal::F64(v) if v.is_finite() => format!("{v:?}"),
        Literal::F64(v) => format!("__longlong_as_double({}ull)", v.to_bits()),
        Literal::U16(v) => format!("u16({v})"),
        Literal::I16(v) => format!("i16({v})"),
        Literal::F16(_) => return Err(unsupported("f16", place)),
        Literal::AbstractInt(_) | Literal::AbstractFloat(_) => {
            return Err(unsupported("abstract literal", place));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_and_specials_are_spelt_exactly() {
        let text = |l| literal(l, "test").expect("a literal");
        assert_eq!(
            text(Literal::I64(i64::MIN)),
            "(-9223372036854775807ll - 1ll)"
        );
        assert_eq!(
            text(Literal::F64(f64::INFINITY)),
            "__longlong_as_double(9218868437227405312ull)"
        );
        assert_eq!(text(Literal::F32(0.1)), "0.1f");
        assert_eq!(text(Literal::F64(-0.0)), "-0.0");
    }
}
