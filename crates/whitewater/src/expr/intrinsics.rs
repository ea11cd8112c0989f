//! CUDA bodies for device functions of `package::kernels::{bits, int128, float}`.

/// `(function, CUDA body)`; `{0}` and `{1}` are the arguments.
///
/// The names are those after linking: WESL puts the module's path before a name, and the number of its
/// underscores if it has any.
pub const INTRINSICS: &[(&str, &str)] = &[
    (
        "package_kernels_bits__1extend_i32",
        "return (long long){0};",
    ),
    (
        "package_kernels_bits__2leading_zeros_u64",
        "return (unsigned int)__clzll((long long){0});",
    ),
    (
        "package_kernels_int128__2mul_hi_u64",
        "return __umul64hi({0}, {1});",
    ),
    ("package_kernels_float__1add_f32", "return {0} + {1};"),
    ("package_kernels_float__1sub_f32", "return {0} - {1};"),
    ("package_kernels_float__1sub_f64", "return {0} - {1};"),
    ("package_kernels_float__1mul_f32", "return {0} * {1};"),
    ("package_kernels_float__1mul_f64", "return {0} * {1};"),
    ("package_kernels_float__1div_f32", "return {0} / {1};"),
    ("package_kernels_float__1div_f64", "return {0} / {1};"),
    ("package_kernels_float__1rem_f32", "return fmodf({0}, {1});"),
    ("package_kernels_float__1rem_f64", "return fmod({0}, {1});"),
    ("package_kernels_float__1widen_f32", "return (double){0};"),
    ("package_kernels_float__1narrow_f64", "return (float){0};"),
];
