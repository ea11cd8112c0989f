//! CUDA bodies for device functions of the expression modules.

/// `(function, CUDA body)`; `{0}` and `{1}` are the arguments.
pub const INTRINSICS: &[(&str, &str)] = &[
    ("extend_i32", "return (long long){0};"),
    ("mul_hi_u64", "return __umul64hi({0}, {1});"),
    (
        "leading_zeros_u64",
        "return (unsigned int)__clzll((long long){0});",
    ),
    ("rem_f64", "return fmod({0}, {1});"),
];
