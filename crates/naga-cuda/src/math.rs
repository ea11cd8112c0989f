//! The prelude's functions for naga's built-in functions and operators.

use naga::{BinaryOperator, MathFunction, RelationalFunction, UnaryOperator};

pub(crate) fn unary(op: UnaryOperator) -> &'static str {
    match op {
        UnaryOperator::Negate => "w_neg",
        UnaryOperator::LogicalNot => "w_not",
        UnaryOperator::BitwiseNot => "w_flip",
    }
}

/// The function for an operator; `&&` and `||` have none, they evaluate their right side lazily.
pub(crate) fn binary(op: BinaryOperator) -> &'static str {
    match op {
        BinaryOperator::Add => "w_add",
        BinaryOperator::Subtract => "w_sub",
        BinaryOperator::Multiply => "w_mul",
        BinaryOperator::Divide => "w_div",
        BinaryOperator::Modulo => "w_rem",
        BinaryOperator::Equal => "w_eq",
        BinaryOperator::NotEqual => "w_ne",
        BinaryOperator::Less => "w_lt",
        BinaryOperator::LessEqual => "w_le",
        BinaryOperator::Greater => "w_gt",
        BinaryOperator::GreaterEqual => "w_ge",
        BinaryOperator::And | BinaryOperator::LogicalAnd => "w_and",
        BinaryOperator::InclusiveOr | BinaryOperator::LogicalOr => "w_or",
        BinaryOperator::ExclusiveOr => "w_xor",
        BinaryOperator::ShiftLeft => "w_shl",
        BinaryOperator::ShiftRight => "w_shr",
    }
}

pub(crate) fn relational(fun: RelationalFunction) -> &'static str {
    match fun {
        RelationalFunction::All => "w_all",
        RelationalFunction::Any => "w_any",
        RelationalFunction::IsNan => "w_is_nan",
        RelationalFunction::IsInf => "w_is_inf",
    }
}

/// The function for a built-in one, if there is one here.
pub(crate) fn math(fun: MathFunction) -> Option<&'static str> {
    use MathFunction::*;
    Some(match fun {
        Abs => "w_abs",
        Min => "w_min",
        Max => "w_max",
        Clamp => "w_clamp",
        Saturate => "w_saturate",
        Cos => "w_cos",
        Cosh => "w_cosh",
        Sin => "w_sin",
        Sinh => "w_sinh",
        Tan => "w_tan",
        Tanh => "w_tanh",
        Acos => "w_acos",
        Asin => "w_asin",
        Atan => "w_atan",
        Atan2 => "w_atan2",
        Asinh => "w_asinh",
        Acosh => "w_acosh",
        Atanh => "w_atanh",
        Radians => "w_radians",
        Degrees => "w_degrees",
        Ceil => "w_ceil",
        Floor => "w_floor",
        Round => "w_round",
        Fract => "w_fract",
        Trunc => "w_trunc",
        Modf => "w_modf",
        Frexp => "w_frexp",
        Ldexp => "w_ldexp",
        Exp => "w_exp",
        Exp2 => "w_exp2",
        Log => "w_log",
        Log2 => "w_log2",
        Pow => "w_pow",
        Dot => "w_dot",
        Dot4I8Packed => "w_dot4i8",
        Dot4U8Packed => "w_dot4u8",
        Cross => "w_cross",
        Distance => "w_distance",
        Length => "w_length",
        Normalize => "w_normalize",
        FaceForward => "w_face_forward",
        Reflect => "w_reflect",
        Sign => "w_sign",
        Fma => "w_fma",
        Mix => "w_mix",
        Step => "w_step",
        SmoothStep => "w_smoothstep",
        Sqrt => "w_sqrt",
        InverseSqrt => "w_inverse_sqrt",
        CountTrailingZeros => "w_ctz",
        CountLeadingZeros => "w_clz",
        CountOneBits => "w_popcount",
        ReverseBits => "w_reverse",
        ExtractBits => "w_extract",
        InsertBits => "w_insert",
        FirstTrailingBit => "w_first_trailing",
        FirstLeadingBit => "w_first_leading",
        Pack4x8snorm => "w_pack4x8snorm",
        Pack4x8unorm => "w_pack4x8unorm",
        Pack2x16snorm => "w_pack2x16snorm",
        Pack2x16unorm => "w_pack2x16unorm",
        Pack2x16float => "w_pack2x16float",
        Pack4xI8 => "w_pack4xi8",
        Pack4xU8 => "w_pack4xu8",
        Pack4xI8Clamp => "w_pack4xi8_clamp",
        Pack4xU8Clamp => "w_pack4xu8_clamp",
        Unpack4x8snorm => "w_unpack4x8snorm",
        Unpack4x8unorm => "w_unpack4x8unorm",
        Unpack2x16snorm => "w_unpack2x16snorm",
        Unpack2x16unorm => "w_unpack2x16unorm",
        Unpack2x16float => "w_unpack2x16float",
        Unpack4xI8 => "w_unpack4xi8",
        Unpack4xU8 => "w_unpack4xu8",
        QuantizeToF16 => "w_quantize",
        Outer | Refract | Inverse | Transpose | Determinant => return None,
    })
}
