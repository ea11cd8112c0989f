//! Names that WGSL may use and CUDA C++ must not see.

use std::sync::LazyLock;

use naga::proc::KeywordSet;

use crate::writer::PRELUDE;

/// Everything that a generated name must avoid.
pub(crate) static RESERVED: LazyLock<KeywordSet> = LazyLock::new(|| {
    let mut set = KeywordSet::from_iter(KEYWORDS);
    set.extend(FUNCTIONS.iter().copied());
    // Of the prelude: its families of functions, its types, template parameters and macros.
    set.extend(
        PRELUDE
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| {
                ["w_", "s_", "a_", "unpack_"].iter().any(|family| word.starts_with(family))
                    || word.starts_with(|c: char| c.is_ascii_uppercase())
            }),
    );
    set
});

/// C++20's keywords, CUDA's, and what the prelude and the writer use of either.
const KEYWORDS: &[&str] = &[
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return",
    "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
    "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
    "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert",
    "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true", "try",
    "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "while", "xor", "xor_eq", "threadIdx", "blockIdx", "blockDim",
    "gridDim", "warpSize", "size_t", "ptrdiff_t", "std", "main", "NULL", "u8", "i8", "u16", "i16",
    "u32", "i32", "u64", "i64", "f32", "f64", "each", "splat", "pack", "scaled",
    "workgroup_memory",
];

/// Functions that CUDA C++ declares without a header: a function of the same name may clash.
const FUNCTIONS: &[&str] = &[
    "abs", "acos", "acosf", "acosh", "acoshf", "all", "any", "asin", "asinf", "asinh", "asinhf",
    "assert", "atan", "atan2", "atan2f", "atanf", "atanh", "atanhf", "atomicAdd", "atomicAnd",
    "atomicCAS", "atomicDec", "atomicExch", "atomicInc", "atomicMax", "atomicMin", "atomicOr",
    "atomicSub", "atomicXor", "ballot", "brev", "cbrt", "cbrtf", "ceil", "ceilf", "clock",
    "clock64", "copysign", "copysignf", "cos", "cosf", "cosh", "coshf", "cospi", "cospif", "erf",
    "erfc", "erfcf", "erff", "exit", "exp", "exp10", "exp10f", "exp2", "exp2f", "expf", "expm1",
    "expm1f", "fabs", "fabsf", "fdim", "fdimf", "fdivide", "fdividef", "ffs", "ffsll", "floor",
    "floorf", "fma", "fmaf", "fmax", "fmaxf", "fmin", "fminf", "fmod", "fmodf", "free", "frexp",
    "frexpf", "hypot", "hypotf", "ilogb", "ilogbf", "isfinite", "isinf", "isnan", "j0", "j0f",
    "j1", "j1f", "jn", "jnf", "labs", "ldexp", "ldexpf", "lgamma", "lgammaf", "llabs", "llmax",
    "llmin", "llrint", "llrintf", "llround", "llroundf", "log", "log10", "log10f", "log1p",
    "log1pf", "log2", "log2f", "logb", "logbf", "logf", "lrint", "lrintf", "lround", "lroundf",
    "malloc", "max", "memcpy", "memmove", "memset", "min", "modf", "modff", "mulhi", "nan", "nanf",
    "nearbyint", "nearbyintf", "nextafter", "nextafterf", "norm", "normcdf", "normf", "popc",
    "popcll", "pow", "powf", "powi", "printf", "rcbrt", "rcbrtf", "remainder", "remainderf",
    "remquo", "remquof", "rhypot", "rhypotf", "rint", "rintf", "rnorm", "rnormf", "round",
    "roundf", "rsqrt", "rsqrtf", "saturate", "scalbln", "scalblnf", "scalbn", "scalbnf", "signbit",
    "sin", "sincos", "sincosf", "sincospi", "sinf", "sinh", "sinhf", "sinpi", "sinpif", "sqrt",
    "sqrtf", "tan", "tanf", "tanh", "tanhf", "tgamma", "tgammaf", "trunc", "truncf", "ullmax",
    "ullmin", "umax", "umin", "vprintf", "y0", "y0f", "y1", "y1f", "yn", "ynf",
];

#[cfg(test)]
mod tests {
    use super::RESERVED;

    #[test]
    fn the_prelude_and_the_language_are_reserved() {
        for name in ["w_add", "s_shuffle", "a_compare", "Vec", "OpAdd", "FULL", "class", "min"] {
            assert!(RESERVED.contains(name), "{name}");
        }
        assert!(!RESERVED.contains("value"));
    }
}
