typedef unsigned short u16; typedef short i16;
typedef unsigned int u32; typedef int i32;
typedef unsigned long long u64; typedef long long i64;
typedef float f32; typedef double f64;
#define FN __device__ __forceinline__

template <class T, int N> struct Vec;
template <class T> struct alignas(2 * sizeof(T)) Vec<T, 2> {
    T x, y;
    FN T& operator[](u32 i) { return (&x)[i]; }
    FN const T& operator[](u32 i) const { return (&x)[i]; }
};
// Three components are as large as they look; who holds one aligns it as four.
template <class T> struct Vec<T, 3> {
    T x, y, z;
    FN T& operator[](u32 i) { return (&x)[i]; }
    FN const T& operator[](u32 i) const { return (&x)[i]; }
};
template <class T> struct alignas(4 * sizeof(T)) Vec<T, 4> {
    T x, y, z, w;
    FN T& operator[](u32 i) { return (&x)[i]; }
    FN const T& operator[](u32 i) const { return (&x)[i]; }
};
template <class T, u32 N> struct Array {
    T d[N];
    FN T& operator[](u32 i) { return d[i]; }
    FN const T& operator[](u32 i) const { return d[i]; }
};
template <class T, u32 N> struct Array<Vec<T, 3>, N> {
    struct alignas(4 * sizeof(T)) Slot { Vec<T, 3> v; };
    Slot d[N];
    FN Vec<T, 3>& operator[](u32 i) { return d[i].v; }
    FN const Vec<T, 3>& operator[](u32 i) const { return d[i].v; }
};
// The last member of a struct in a buffer: as many elements as the buffer holds.
template <class T> struct Runtime {
    T d[1];
    FN T& operator[](u32 i) { return d[i]; }
    FN const T& operator[](u32 i) const { return d[i]; }
};
template <class T> struct Runtime<Vec<T, 3>> : Array<Vec<T, 3>, 1> {};
template <class T> struct ExchangeResult { T old_value; bool exchanged; };

// Unsigned and not promoted to int: where C++ lets integers wrap.
template <class T> struct Wrap { typedef u32 type; };
template <> struct Wrap<u64> { typedef u64 type; };
template <> struct Wrap<i64> { typedef u64 type; };

// Component by component.
template <class T, int N, class F> FN auto each(Vec<T, N> a, F f) {
    Vec<decltype(f(a.x)), N> r;
#pragma unroll
    for (int i = 0; i < N; i++) r[i] = f(a[i]);
    return r;
}
template <class T, class U, int N, class F> FN auto each(Vec<T, N> a, Vec<U, N> b, F f) {
    Vec<decltype(f(a.x, b.x)), N> r;
#pragma unroll
    for (int i = 0; i < N; i++) r[i] = f(a[i], b[i]);
    return r;
}
template <class T, class U, class V, int N, class F> FN auto each(Vec<T, N> a, Vec<U, N> b, Vec<V, N> c, F f) {
    Vec<decltype(f(a.x, b.x, c.x)), N> r;
#pragma unroll
    for (int i = 0; i < N; i++) r[i] = f(a[i], b[i], c[i]);
    return r;
}
template <int N, class T> FN Vec<T, N> splat(T v) {
    Vec<T, N> r;
#pragma unroll
    for (int i = 0; i < N; i++) r[i] = v;
    return r;
}
#define LIFT1(name) template <class T, int N> FN auto name(Vec<T, N> a) { return each(a, [](T x) { return name(x); }); }
#define LIFT2(name) \
    template <class T, int N> FN auto name(Vec<T, N> a, Vec<T, N> b) { return each(a, b, [](T x, T y) { return name(x, y); }); } \
    template <class T, int N> FN auto name(Vec<T, N> a, T b) { return each(a, [b](T x) { return name(x, b); }); } \
    template <class T, int N> FN auto name(T a, Vec<T, N> b) { return each(b, [a](T y) { return name(a, y); }); }
#define LIFT3(name) \
    template <class T, int N> FN auto name(Vec<T, N> a, Vec<T, N> b, Vec<T, N> c) { return each(a, b, c, [](T x, T y, T z) { return name(x, y, z); }); }

// Integers wrap: signed arithmetic goes through unsigned, where C++ defines it.
#define WRAPPING(name, op) \
    template <class T> FN T name(T a, T b) { typedef typename Wrap<T>::type U; return T(U(U(a) op U(b))); } \
    template <> FN f32 name(f32 a, f32 b) { return a op b; } \
    template <> FN f64 name(f64 a, f64 b) { return a op b; } \
    LIFT2(name)
WRAPPING(w_add, +)
WRAPPING(w_sub, -)
WRAPPING(w_mul, *)
template <class T> FN T w_neg(T a) { typedef typename Wrap<T>::type U; return T(U(U(0) - U(a))); }
template <> FN f32 w_neg(f32 a) { return -a; }
template <> FN f64 w_neg(f64 a) { return -a; }
LIFT1(w_neg)

// x / 0 = x and x % 0 = 0; the least integer over -1 is itself, with remainder 0.
template <class T> FN T w_div(T a, T b) {
    if (b == T(0)) return a;
    if (T(-1) < T(0) && b == T(-1)) return w_neg(a);
    return T(a / b);
}
template <> FN f32 w_div(f32 a, f32 b) { return a / b; }
template <> FN f64 w_div(f64 a, f64 b) { return a / b; }
LIFT2(w_div)
template <class T> FN T w_rem(T a, T b) {
    if (b == T(0) || (T(-1) < T(0) && b == T(-1))) return T(0);
    return T(a % b);
}
template <> FN f32 w_rem(f32 a, f32 b) { return fmodf(a, b); }
template <> FN f64 w_rem(f64 a, f64 b) { return fmod(a, b); }
LIFT2(w_rem)

template <class T> FN T w_shl(T a, u32 n) { typedef typename Wrap<T>::type U; return T(U(a) << (n & (sizeof(T) * 8 - 1))); }
template <class T> FN T w_shr(T a, u32 n) { return T(a >> (n & (sizeof(T) * 8 - 1))); }
template <class T, int N> FN auto w_shl(Vec<T, N> a, Vec<u32, N> n) { return each(a, n, [](T x, u32 y) { return w_shl(x, y); }); }
template <class T, int N> FN auto w_shr(Vec<T, N> a, Vec<u32, N> n) { return each(a, n, [](T x, u32 y) { return w_shr(x, y); }); }

#define PLAIN(name, op) \
    template <class T> FN auto name(T a, T b) { return a op b; } \
    LIFT2(name)
PLAIN(w_eq, ==)
PLAIN(w_ne, !=)
PLAIN(w_lt, <)
PLAIN(w_le, <=)
PLAIN(w_gt, >)
PLAIN(w_ge, >=)
template <class T> FN T w_and(T a, T b) { return T(a & b); }
template <class T> FN T w_or(T a, T b) { return T(a | b); }
template <class T> FN T w_xor(T a, T b) { return T(a ^ b); }
LIFT2(w_and)
LIFT2(w_or)
LIFT2(w_xor)
FN bool w_not(bool a) { return !a; }
LIFT1(w_not)
template <class T> FN T w_flip(T a) { return T(~a); }
LIFT1(w_flip)
template <class T> FN T w_select(bool c, T a, T b) { return c ? a : b; }
template <class T, int N> FN Vec<T, N> w_select(Vec<bool, N> c, Vec<T, N> a, Vec<T, N> b) {
    return each(c, a, b, [](bool x, T y, T z) { return x ? y : z; });
}
FN bool w_all(bool a) { return a; }
FN bool w_any(bool a) { return a; }
template <int N> FN bool w_all(Vec<bool, N> a) { bool r = true; for (int i = 0; i < N; i++) r = r && a[i]; return r; }
template <int N> FN bool w_any(Vec<bool, N> a) { bool r = false; for (int i = 0; i < N; i++) r = r || a[i]; return r; }
template <class T> FN bool w_is_nan(T a) { return a != a; }
LIFT1(w_is_nan)
FN bool w_is_inf(f32 a) { return (__float_as_uint(a) & 0x7fffffffu) == 0x7f800000u; }
FN bool w_is_inf(f64 a) { return ((u64)__double_as_longlong(a) & 0x7fffffffffffffffull) == 0x7ff0000000000000ull; }
LIFT1(w_is_inf)

// Conversions: float to integer truncates, saturates, and takes NaN to 0.
template <class To> struct Cast {
    template <class T> static FN To of(T v) { return To(v); }
    template <class T, int N> static FN Vec<To, N> of(Vec<T, N> v) { return each(v, [](T x) { return Cast<To>::of(x); }); }
};
template <> template <> FN i32 Cast<i32>::of(f32 v) { return v == v ? __float2int_rz(v) : 0; }
template <> template <> FN u32 Cast<u32>::of(f32 v) { return v == v ? __float2uint_rz(v) : 0u; }
template <> template <> FN i64 Cast<i64>::of(f32 v) { return v == v ? __float2ll_rz(v) : 0ll; }
template <> template <> FN u64 Cast<u64>::of(f32 v) { return v == v ? __float2ull_rz(v) : 0ull; }
template <> template <> FN i32 Cast<i32>::of(f64 v) { return v == v ? __double2int_rz(v) : 0; }
template <> template <> FN u32 Cast<u32>::of(f64 v) { return v == v ? __double2uint_rz(v) : 0u; }
template <> template <> FN i64 Cast<i64>::of(f64 v) { return v == v ? __double2ll_rz(v) : 0ll; }
template <> template <> FN u64 Cast<u64>::of(f64 v) { return v == v ? __double2ull_rz(v) : 0ull; }
template <> template <> FN i16 Cast<i16>::of(f32 v) { return i16(min(max(Cast<i32>::of(v), -32768), 32767)); }
template <> template <> FN u16 Cast<u16>::of(f32 v) { return u16(min(Cast<u32>::of(v), 65535u)); }
template <> template <> FN i16 Cast<i16>::of(f64 v) { return i16(min(max(Cast<i32>::of(v), -32768), 32767)); }
template <> template <> FN u16 Cast<u16>::of(f64 v) { return u16(min(Cast<u32>::of(v), 65535u)); }

template <class To> struct Bits {
    static FN To of(To v) { return v; }
    template <class T> static FN To of(T v) { return To(v); }
    template <class T, int N> static FN Vec<To, N> of(Vec<T, N> v) { return each(v, [](T x) { return Bits<To>::of(x); }); }
};
template <> template <> FN f32 Bits<f32>::of(u32 v) { return __uint_as_float(v); }
template <> template <> FN f32 Bits<f32>::of(i32 v) { return __int_as_float(v); }
template <> template <> FN u32 Bits<u32>::of(f32 v) { return __float_as_uint(v); }
template <> template <> FN i32 Bits<i32>::of(f32 v) { return __float_as_int(v); }
template <> template <> FN f64 Bits<f64>::of(u64 v) { return __longlong_as_double((i64)v); }
template <> template <> FN f64 Bits<f64>::of(i64 v) { return __longlong_as_double(v); }
template <> template <> FN u64 Bits<u64>::of(f64 v) { return (u64)__double_as_longlong(v); }
template <> template <> FN i64 Bits<i64>::of(f64 v) { return __double_as_longlong(v); }

// Math.
template <class T> FN T w_min(T a, T b) { return b < a ? b : a; }
template <class T> FN T w_max(T a, T b) { return a < b ? b : a; }
template <> FN f32 w_min(f32 a, f32 b) { return fminf(a, b); }
template <> FN f32 w_max(f32 a, f32 b) { return fmaxf(a, b); }
template <> FN f64 w_min(f64 a, f64 b) { return fmin(a, b); }
template <> FN f64 w_max(f64 a, f64 b) { return fmax(a, b); }
LIFT2(w_min)
LIFT2(w_max)
template <class T> FN T w_clamp(T v, T low, T high) { return w_min(w_max(v, low), high); }
LIFT3(w_clamp)
template <class T> FN T w_abs(T a) { return a < T(0) ? w_neg(a) : a; }
template <> FN f32 w_abs(f32 a) { return fabsf(a); }
template <> FN f64 w_abs(f64 a) { return fabs(a); }
LIFT1(w_abs)
template <class T> FN T w_sign(T a) { return T(T(T(0) < a) - T(a < T(0))); }
LIFT1(w_sign)
#define FLOAT1(name, single, twice) \
    FN f32 name(f32 a) { return single; } \
    FN f64 name(f64 a) { return twice; } \
    LIFT1(name)
FLOAT1(w_floor, floorf(a), floor(a))
FLOAT1(w_ceil, ceilf(a), ceil(a))
FLOAT1(w_trunc, truncf(a), trunc(a))
FLOAT1(w_round, rintf(a), rint(a))
FLOAT1(w_fract, a - floorf(a), a - floor(a))
FLOAT1(w_sqrt, sqrtf(a), sqrt(a))
FLOAT1(w_inverse_sqrt, rsqrtf(a), rsqrt(a))
FLOAT1(w_exp, expf(a), exp(a))
FLOAT1(w_exp2, exp2f(a), exp2(a))
FLOAT1(w_log, logf(a), log(a))
FLOAT1(w_log2, log2f(a), log2(a))
FLOAT1(w_sin, sinf(a), sin(a))
FLOAT1(w_cos, cosf(a), cos(a))
FLOAT1(w_tan, tanf(a), tan(a))
FLOAT1(w_asin, asinf(a), asin(a))
FLOAT1(w_acos, acosf(a), acos(a))
FLOAT1(w_atan, atanf(a), atan(a))
FLOAT1(w_sinh, sinhf(a), sinh(a))
FLOAT1(w_cosh, coshf(a), cosh(a))
FLOAT1(w_tanh, tanhf(a), tanh(a))
FLOAT1(w_asinh, asinhf(a), asinh(a))
FLOAT1(w_acosh, acoshf(a), acosh(a))
FLOAT1(w_atanh, atanhf(a), atanh(a))
FLOAT1(w_radians, a * 0.017453292519943295f, a * 0.017453292519943295)
FLOAT1(w_degrees, a * 57.29577951308232f, a * 57.29577951308232)
FLOAT1(w_saturate, fminf(fmaxf(a, 0.0f), 1.0f), fmin(fmax(a, 0.0), 1.0))
FN f32 w_pow(f32 a, f32 b) { return powf(a, b); }
FN f64 w_pow(f64 a, f64 b) { return pow(a, b); }
LIFT2(w_pow)
FN f32 w_atan2(f32 a, f32 b) { return atan2f(a, b); }
FN f64 w_atan2(f64 a, f64 b) { return atan2(a, b); }
LIFT2(w_atan2)
FN f32 w_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f64 w_fma(f64 a, f64 b, f64 c) { return fma(a, b, c); }
LIFT3(w_fma)
template <class T> FN T w_mix(T a, T b, T t) { return a * (T(1) - t) + b * t; }
LIFT3(w_mix)
template <class T, int N> FN Vec<T, N> w_mix(Vec<T, N> a, Vec<T, N> b, T t) { return w_mix(a, b, splat<N>(t)); }
template <class T> FN T w_smoothstep(T low, T high, T v) {
    T t = w_saturate((v - low) / (high - low));
    return t * t * (T(3) - T(2) * t);
}
LIFT3(w_smoothstep)
FN f32 w_ldexp(f32 v, i32 e) { return ldexpf(v, e); }
FN f64 w_ldexp(f64 v, i32 e) { return ldexp(v, e); }
template <class T, int N> FN Vec<T, N> w_ldexp(Vec<T, N> v, Vec<i32, N> e) { return each(v, e, [](T x, i32 y) { return w_ldexp(x, y); }); }
// Results of two members: R is their struct.
template <class R, class T> FN R w_modf(T v) { T whole = w_trunc(v); return R{w_sub(v, whole), whole}; }
template <class R> FN R w_frexp(f32 v) { int e = 0; f32 f = frexpf(v, &e); return R{f, e}; }
template <class R> FN R w_frexp(f64 v) { int e = 0; f64 f = frexp(v, &e); return R{f, e}; }
template <class R, int N> FN R w_frexp(Vec<f32, N> v) {
    Vec<i32, N> e;
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = frexpf(v[i], &e[i]);
    return R{v, e};
}
template <class T> FN T w_step(T edge, T v) { return v < edge ? T(0) : T(1); }
LIFT2(w_step)
template <class T, int N> FN T w_dot(Vec<T, N> a, Vec<T, N> b) {
    T sum = w_mul(a.x, b.x);
#pragma unroll
    for (int i = 1; i < N; i++) sum = w_add(sum, w_mul(a[i], b[i]));
    return sum;
}
template <class T> FN T w_length(T a) { return w_abs(a); }
template <class T, int N> FN T w_length(Vec<T, N> a) { return w_sqrt(w_dot(a, a)); }
template <class V> FN auto w_distance(V a, V b) { return w_length(w_sub(a, b)); }
template <class T, int N> FN Vec<T, N> w_normalize(Vec<T, N> a) { return w_div(a, w_length(a)); }
template <class T> FN Vec<T, 3> w_cross(Vec<T, 3> a, Vec<T, 3> b) {
    return Vec<T, 3>{a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class T, int N> FN Vec<T, N> w_face_forward(Vec<T, N> n, Vec<T, N> i, Vec<T, N> reference) {
    return w_dot(reference, i) < T(0) ? n : w_neg(n);
}
template <class T, int N> FN Vec<T, N> w_reflect(Vec<T, N> i, Vec<T, N> n) { return w_sub(i, w_mul(n, T(2) * w_dot(n, i))); }

// Bits.
FN u32 w_popcount(u32 a) { return __popc(a); }
FN i32 w_popcount(i32 a) { return __popc((u32)a); }
FN u64 w_popcount(u64 a) { return __popcll(a); }
FN i64 w_popcount(i64 a) { return __popcll((u64)a); }
LIFT1(w_popcount)
FN u32 w_clz(u32 a) { return __clz((int)a); }
FN i32 w_clz(i32 a) { return __clz(a); }
FN u64 w_clz(u64 a) { return __clzll((i64)a); }
FN i64 w_clz(i64 a) { return __clzll(a); }
LIFT1(w_clz)
FN u32 w_ctz(u32 a) { return a == 0u ? 32u : __ffs((int)a) - 1; }
FN i32 w_ctz(i32 a) { return a == 0 ? 32 : __ffs(a) - 1; }
FN u64 w_ctz(u64 a) { return a == 0ull ? 64ull : __ffsll((i64)a) - 1; }
FN i64 w_ctz(i64 a) { return a == 0ll ? 64ll : __ffsll(a) - 1; }
LIFT1(w_ctz)
FN u32 w_reverse(u32 a) { return __brev(a); }
FN i32 w_reverse(i32 a) { return (i32)__brev((u32)a); }
FN u64 w_reverse(u64 a) { return __brevll(a); }
FN i64 w_reverse(i64 a) { return (i64)__brevll((u64)a); }
LIFT1(w_reverse)
FN u32 w_first_leading(u32 a) { return 31u - (u32)__clz((int)a); }
FN i32 w_first_leading(i32 a) { return 31 - __clz(a < 0 ? ~a : a); }
FN u64 w_first_leading(u64 a) { return 63ull - (u64)__clzll((i64)a); }
FN i64 w_first_leading(i64 a) { return 63ll - __clzll(a < 0 ? ~a : a); }
LIFT1(w_first_leading)
FN u32 w_first_trailing(u32 a) { return (u32)(__ffs((int)a) - 1); }
FN i32 w_first_trailing(i32 a) { return __ffs(a) - 1; }
FN u64 w_first_trailing(u64 a) { return (u64)(i64)(__ffsll((i64)a) - 1); }
FN i64 w_first_trailing(i64 a) { return __ffsll(a) - 1; }
LIFT1(w_first_trailing)
FN u32 w_extract(u32 v, u32 offset, u32 count) {
    offset = min(offset, 32u); count = min(count, 32u - offset);
    return count == 0u ? 0u : (v << (32u - offset - count)) >> (32u - count);
}
FN i32 w_extract(i32 v, u32 offset, u32 count) {
    offset = min(offset, 32u); count = min(count, 32u - offset);
    return count == 0u ? 0 : (i32)((u32)v << (32u - offset - count)) >> (32u - count);
}
template <class T> FN T w_insert(T v, T n, u32 offset, u32 count) {
    offset = min(offset, 32u); count = min(count, 32u - offset);
    u32 mask = (count == 32u ? 0xffffffffu : ((1u << count) - 1u)) << (offset & 31u);
    return count == 0u ? v : T(((u32)v & ~mask) | (((u32)n << (offset & 31u)) & mask));
}
template <class T, int N> FN Vec<T, N> w_extract(Vec<T, N> v, u32 offset, u32 count) {
    return each(v, [=](T x) { return w_extract(x, offset, count); });
}
template <class T, int N> FN Vec<T, N> w_insert(Vec<T, N> v, Vec<T, N> n, u32 offset, u32 count) {
    return each(v, n, [=](T x, T y) { return w_insert(x, y, offset, count); });
}

// Packing. Component 0 is in the low bits.
template <int BITS, class T, int N> FN u32 pack(Vec<T, N> v) {
    u32 word = 0u;
#pragma unroll
    for (int i = 0; i < N; i++) word |= ((u32)v[i] & ((1u << BITS) - 1u)) << (i * BITS);
    return word;
}
template <int N> FN Vec<u32, N> unpack_unsigned(u32 word) {
    Vec<u32, N> r;
#pragma unroll
    for (int i = 0; i < N; i++) r[i] = w_extract(word, i * (32 / N), 32 / N);
    return r;
}
template <int N> FN Vec<i32, N> unpack_signed(u32 word) {
    Vec<i32, N> r;
#pragma unroll
    for (int i = 0; i < N; i++) r[i] = w_extract((i32)word, i * (32 / N), 32 / N);
    return r;
}
template <int N> FN Vec<i32, N> scaled(Vec<f32, N> v, f32 low, f32 scale) {
    return each(v, [=](f32 x) { return __float2int_rz(floorf(0.5f + scale * fminf(fmaxf(x, low), 1.0f))); });
}
FN u32 w_pack4x8snorm(Vec<f32, 4> v) { return pack<8>(scaled(v, -1.0f, 127.0f)); }
FN u32 w_pack4x8unorm(Vec<f32, 4> v) { return pack<8>(scaled(v, 0.0f, 255.0f)); }
FN u32 w_pack2x16snorm(Vec<f32, 2> v) { return pack<16>(scaled(v, -1.0f, 32767.0f)); }
FN u32 w_pack2x16unorm(Vec<f32, 2> v) { return pack<16>(scaled(v, 0.0f, 65535.0f)); }
FN u32 w_pack4xi8(Vec<i32, 4> v) { return pack<8>(v); }
FN u32 w_pack4xu8(Vec<u32, 4> v) { return pack<8>(v); }
FN u32 w_pack4xi8_clamp(Vec<i32, 4> v) { return pack<8>(w_clamp(v, splat<4>(-128), splat<4>(127))); }
FN u32 w_pack4xu8_clamp(Vec<u32, 4> v) { return pack<8>(w_min(v, 255u)); }
FN Vec<f32, 4> w_unpack4x8snorm(u32 v) { return each(unpack_signed<4>(v), [](i32 x) { return fmaxf((f32)x / 127.0f, -1.0f); }); }
FN Vec<f32, 4> w_unpack4x8unorm(u32 v) { return each(unpack_unsigned<4>(v), [](u32 x) { return (f32)x / 255.0f; }); }
FN Vec<f32, 2> w_unpack2x16snorm(u32 v) { return each(unpack_signed<2>(v), [](i32 x) { return fmaxf((f32)x / 32767.0f, -1.0f); }); }
FN Vec<f32, 2> w_unpack2x16unorm(u32 v) { return each(unpack_unsigned<2>(v), [](u32 x) { return (f32)x / 65535.0f; }); }
FN Vec<i32, 4> w_unpack4xi8(u32 v) { return unpack_signed<4>(v); }
FN Vec<u32, 4> w_unpack4xu8(u32 v) { return unpack_unsigned<4>(v); }
// Half floats only pass through: as the bits of a u16.
FN u32 to_half(f32 v) { u16 bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v)); return bits; }
FN f32 from_half(u32 word) { u16 bits = (u16)word; f32 v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits)); return v; }
FN u32 w_pack2x16float(Vec<f32, 2> v) { return to_half(v.x) | to_half(v.y) << 16; }
FN Vec<f32, 2> w_unpack2x16float(u32 v) { return Vec<f32, 2>{from_half(v), from_half(v >> 16)}; }
FN f32 w_quantize(f32 v) { return from_half(to_half(v)); }
LIFT1(w_quantize)
FN i32 w_dot4i8(u32 a, u32 b) { return w_dot(unpack_signed<4>(a), unpack_signed<4>(b)); }
FN u32 w_dot4u8(u32 a, u32 b) { return w_dot(unpack_unsigned<4>(a), unpack_unsigned<4>(b)); }

// Atomics. Loads and stores go past the first cache, so that other workgroups' writes are seen.
template <class T> FN T a_load(const T& p) { return *(const volatile T*)&p; }
template <class T> FN void a_store(T& p, T v) { *(volatile T*)&p = v; }
FN u32 a_add(u32& p, u32 v) { return atomicAdd(&p, v); }
FN i32 a_add(i32& p, i32 v) { return atomicAdd(&p, v); }
FN u64 a_add(u64& p, u64 v) { return atomicAdd(&p, v); }
FN i64 a_add(i64& p, i64 v) { return (i64)atomicAdd((u64*)&p, (u64)v); }
FN f32 a_add(f32& p, f32 v) { return atomicAdd(&p, v); }
FN f32 a_exchange(f32& p, f32 v) { return atomicExch(&p, v); }
template <class T> FN T a_sub(T& p, T v) { return a_add(p, w_neg(v)); }
#define BITWISE(name, call) \
    FN u32 name(u32& p, u32 v) { return call(&p, v); } \
    FN i32 name(i32& p, i32 v) { return call(&p, v); } \
    FN u64 name(u64& p, u64 v) { return call(&p, v); } \
    FN i64 name(i64& p, i64 v) { return (i64)call((u64*)&p, (u64)v); }
BITWISE(a_and, atomicAnd)
BITWISE(a_or, atomicOr)
BITWISE(a_xor, atomicXor)
BITWISE(a_exchange, atomicExch)
template <class T> FN T a_min(T& p, T v) { return atomicMin(&p, v); }
template <class T> FN T a_max(T& p, T v) { return atomicMax(&p, v); }
template <class T> FN ExchangeResult<T> a_compare(T& p, T expected, T v) {
    T old = atomicCAS(&p, expected, v);
    return ExchangeResult<T>{old, old == expected};
}
template <> FN ExchangeResult<i64> a_compare(i64& p, i64 expected, i64 v) {
    i64 old = (i64)atomicCAS((u64*)&p, (u64)expected, (u64)v);
    return ExchangeResult<i64>{old, old == expected};
}

// Subgroups: warps. `mask` holds the lanes that take part, the caller's among them.
#define FULL 0xffffffffu
// The lanes of this warp, where the workgroup's last warp is not whole.
FN u32 s_live() {
    u32 threads = blockDim.x * blockDim.y * blockDim.z;
    u32 left = threads - ((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & ~31u);
    return left >= 32u ? FULL : (1u << left) - 1u;
}
template <class T> FN T s_shuffle(u32 mask, T v, u32 lane) { return __shfl_sync(mask, v, (int)lane); }
template <> FN bool s_shuffle(u32 mask, bool v, u32 lane) { return __shfl_sync(mask, (int)v, (int)lane) != 0; }
template <class T, int N> FN Vec<T, N> s_shuffle(u32 mask, Vec<T, N> v, u32 lane) { return each(v, [=](T x) { return s_shuffle(mask, x, lane); }); }
FN u32 s_lane() { u32 lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane)); return lane; }
FN u32 s_below() { u32 below; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below)); return below; }
// Every component the small number `v`.
template <class T> struct Fill { FN static T of(int v) { return T(v); } };
template <class T, int N> struct Fill<Vec<T, N>> { FN static Vec<T, N> of(int v) { return splat<N>(T(v)); } };
struct OpAdd { template <class T> FN T operator()(T a, T b) const { return w_add(a, b); } template <class T> static FN T identity() { return Fill<T>::of(0); } };
struct OpMul { template <class T> FN T operator()(T a, T b) const { return w_mul(a, b); } template <class T> static FN T identity() { return Fill<T>::of(1); } };
struct OpMin { template <class T> FN T operator()(T a, T b) const { return w_min(a, b); } };
struct OpMax { template <class T> FN T operator()(T a, T b) const { return w_max(a, b); } };
struct OpAnd { template <class T> FN T operator()(T a, T b) const { return w_and(a, b); } };
struct OpOr { template <class T> FN T operator()(T a, T b) const { return w_or(a, b); } };
struct OpXor { template <class T> FN T operator()(T a, T b) const { return w_xor(a, b); } };
template <class T, class Op> FN T s_reduce(u32 mask, T v, Op op) {
    if (mask == FULL) {
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) v = op(v, s_shuffle(FULL, v, s_lane() ^ (u32)offset));
        return v;
    }
    // Every lane walks the participants in order, so all get the same result.
    u32 rest = mask;
    T r = s_shuffle(mask, v, __ffs((int)rest) - 1);
    for (rest &= rest - 1u; rest != 0u; rest &= rest - 1u) r = op(r, s_shuffle(mask, v, __ffs((int)rest) - 1));
    return r;
}
#if __CUDA_ARCH__ >= 800
FN u32 s_reduce(u32 mask, u32 v, OpAdd) { return __reduce_add_sync(mask, v); }
FN u32 s_reduce(u32 mask, u32 v, OpMin) { return __reduce_min_sync(mask, v); }
FN u32 s_reduce(u32 mask, u32 v, OpMax) { return __reduce_max_sync(mask, v); }
FN u32 s_reduce(u32 mask, u32 v, OpAnd) { return __reduce_and_sync(mask, v); }
FN u32 s_reduce(u32 mask, u32 v, OpOr) { return __reduce_or_sync(mask, v); }
FN u32 s_reduce(u32 mask, u32 v, OpXor) { return __reduce_xor_sync(mask, v); }
FN i32 s_reduce(u32 mask, i32 v, OpAdd) { return __reduce_add_sync(mask, v); }
FN i32 s_reduce(u32 mask, i32 v, OpMin) { return __reduce_min_sync(mask, v); }
FN i32 s_reduce(u32 mask, i32 v, OpMax) { return __reduce_max_sync(mask, v); }
#endif
template <class T, class Op> FN T s_inclusive(u32 mask, T v, Op op) {
    if (mask == FULL) {
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            T other = s_shuffle(FULL, v, s_lane() - (u32)offset);
            if (s_lane() >= (u32)offset) v = op(other, v);
        }
        return v;
    }
    T r = v;
    bool first = true;
    u32 mine = mask & (s_below() | (1u << s_lane()));
    for (u32 rest = mask; rest != 0u; rest &= rest - 1u) {
        u32 lane = __ffs((int)rest) - 1;
        T other = s_shuffle(mask, v, lane);
        if (mine >> lane & 1u) { r = first ? other : op(r, other); first = false; }
    }
    return r;
}
template <class T, class Op> FN T s_exclusive(u32 mask, T v, Op op) {
    T inclusive = s_inclusive(mask, v, op);
    u32 lower = mask & s_below();
    // The highest participant below gives what came before; the lowest one has only the identity.
    T before = s_shuffle(mask, inclusive, lower == 0u ? s_lane() : 31u - __clz((int)lower));
    return lower == 0u ? Op::template identity<T>() : before;
}
FN Vec<u32, 4> s_ballot(u32 mask, bool v) { return Vec<u32, 4>{__ballot_sync(mask, v), 0u, 0u, 0u}; }
template <class T> FN T s_broadcast_first(u32 mask, T v) { return s_shuffle(mask, v, (u32)__ffs((int)mask) - 1u); }
