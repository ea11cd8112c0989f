//! The text of the private flavour of `package::accumulators`: one state in registers, that of one row, and the
//! merge of two.

use std::fmt::{Result, Write};

use super::accumulators::{Accumulator, Accumulators, Gathers, wide};
use crate::expr::DeviceType;

const IMPORTS: &str = "\
import package::aggregate::held::{Best, Moments, best_merge, moments_merge, moments_of, u128_max};
import package::kernels::int128::{I128, i128_add, i128_from_i64};
import package::kernels::order::{order_bool, order_u32, order_u64, order_i32, order_i64, order_f32, order_f64};
";

/// What only a state in registers gathers, since no atomic merges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The product of 64-bit integers, which wraps, or of floats.
    Product,
    Bits(BitOp),
    /// The sum of the high words of 128-bit integers, or of the low words, which are not negative.
    Half {
        high: bool,
    },
    /// The largest mapped 128-bit integer, or the largest complement.
    WideExtreme {
        minimum: bool,
    },
    /// Count, mean and squared deviations.
    Moments,
    /// The first or the last row.
    Row {
        last: bool,
    },
    /// The first row of the least or the greatest value.
    RowOf {
        minimum: bool,
        kind: DeviceType,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitOp {
    And,
    Or,
    Xor,
}

impl Held {
    /// u64 words of a state.
    pub(crate) fn words(self) -> u32 {
        match self {
            Held::Product | Held::Bits(_) | Held::Row { .. } => 1,
            Held::Half { .. } | Held::WideExtreme { .. } | Held::RowOf { .. } => 2,
            Held::Moments => 3,
        }
    }
}

/// An accumulator in WGSL.
struct Code {
    ty: &'static str,
    /// What an accumulator of no rows is, if not zeros.
    identity: Option<String>,
    /// Of one row, `in`.
    value: String,
    /// Of `a` and `b`, which stand for accumulators.
    merge: fn(&str, &str) -> String,
    /// As words: fields of the accumulator, or its own bits.
    fields: &'static [&'static str],
}

fn sum(a: &str, b: &str) -> String {
    format!("{a} + {b}")
}

fn largest(a: &str, b: &str) -> String {
    format!("max({a}, {b})")
}

impl Code {
    fn word(value: String, merge: fn(&str, &str) -> String) -> Self {
        Self {
            ty: "u64",
            identity: None,
            value,
            merge,
            fields: &[],
        }
    }

    fn wide(value: String, merge: fn(&str, &str) -> String) -> Self {
        Self {
            ty: "I128",
            fields: &["lo", "hi"],
            ..Self::word(value, merge)
        }
    }

    fn float(value: String, merge: fn(&str, &str) -> String) -> Self {
        Self {
            ty: "f64",
            ..Self::word(value, merge)
        }
    }

    fn of(plan: &Accumulators, gathers: Gathers) -> Self {
        match gathers {
            Gathers::Count { .. } => Self::word("1lu".into(), sum),
            Gathers::Integer { arg } => Self::word(format!("bitcast<u64>(in.value{arg})"), sum),
            Gathers::Decimal { arg, narrow } => {
                Self::wide(wide(arg, narrow), |a, b| format!("i128_add({a}, {b})"))
            }
            Gathers::Float { arg } => Self::float(format!("in.value{arg}"), sum),
            Gathers::Extreme { arg, minimum, kind } => {
                Self::word(mapped(arg, minimum, kind), largest)
            }
            Gathers::Held { arg, what } => {
                let arg = arg.unwrap_or_default();
                let kind = plan.arguments.get(arg).map(|argument| argument.1.device);
                Self::held(what, arg, kind.unwrap_or(DeviceType::I64))
            }
        }
    }

    fn held(what: Held, arg: usize, kind: DeviceType) -> Self {
        let value = format!("in.value{arg}");
        match what {
            Held::Product => {
                let product = |a: &str, b: &str| format!("{a} * {b}");
                match kind {
                    DeviceType::F64 => Self {
                        identity: Some("1.0lf".into()),
                        ..Self::float(value, product)
                    },
                    _ => Self {
                        identity: Some("1lu".into()),
                        ..Self::word(format!("bitcast<u64>({value})"), product)
                    },
                }
            }
            Held::Bits(op) => {
                let bits = match kind {
                    DeviceType::I32 | DeviceType::U32 => format!("u64(bitcast<u32>({value}))"),
                    _ => format!("bitcast<u64>({value})"),
                };
                match op {
                    BitOp::And => Self {
                        identity: Some("~0lu".into()),
                        ..Self::word(bits, |a, b| format!("{a} & {b}"))
                    },
                    BitOp::Or => Self::word(bits, |a, b| format!("{a} | {b}")),
                    BitOp::Xor => Self::word(bits, |a, b| format!("{a} ^ {b}")),
                }
            }
            Held::Half { high } => {
                let half = match (high, kind) {
                    (true, _) => format!("i128_from_i64(bitcast<i64>({value}.hi))"),
                    (false, DeviceType::I128) => format!("I128({value}.lo, 0lu)"),
                    (false, _) => format!("I128(bitcast<u64>({value}), 0lu)"),
                };
                Self::wide(half, |a, b| format!("i128_add({a}, {b})"))
            }
            Held::WideExtreme { minimum } => {
                let flip = if minimum { "~" } else { "" };
                let high = format!("order_i64(bitcast<i64>({value}.hi))");
                Self::wide(format!("I128({flip}{value}.lo, {flip}{high})"), |a, b| {
                    format!("u128_max({a}, {b})")
                })
            }
            Held::Moments => Self {
                ty: "Moments",
                fields: &["count", "mean", "squares"],
                ..Self::word(format!("moments_of({value})"), |a, b| {
                    format!("moments_merge({a}, {b})")
                })
            },
            Held::Row { last: true } => Self::word("u64(in.row) + 1lu".into(), largest),
            Held::Row { last: false } => Self::word("~u64(in.row)".into(), largest),
            Held::RowOf { minimum, kind } => Self {
                ty: "Best",
                fields: &["key", "row"],
                ..Self::word(
                    format!("Best({}, ~u64(in.row))", mapped(arg, minimum, kind)),
                    |a, b| format!("best_merge({a}, {b})"),
                )
            },
        }
    }
}

/// The value of `arg` as a word that is the greater, the further it is to the end that is asked for.
fn mapped(arg: usize, minimum: bool, kind: DeviceType) -> String {
    let flip = if minimum { "~" } else { "" };
    format!("{flip}order_{}(in.value{arg})", kind.name())
}

/// Whether word `field` of an accumulator is a float.
fn is_float(ty: &str, field: &str) -> bool {
    ty == "f64" || matches!(field, "mean" | "squares")
}

/// Writes `Partial` and its functions.
pub(super) fn write(plan: &Accumulators, text: &mut String) -> Result {
    text.insert_str(0, IMPORTS);
    let mut parts = Parts::default();
    for (i, a) in plan.list.iter().enumerate() {
        parts.add(plan, i, a)?;
    }
    if plan.list.is_empty() {
        writeln!(parts.fields, "    unused: u32,")?;
    }
    let Parts {
        fields,
        identity,
        of,
        merge,
        store,
        load,
    } = parts;
    let words = plan.words;
    write!(
        text,
        "struct Partial {{\n{fields}}}\n\
         const WORDS: u32 = {words}u;\n\
         @group(0) @binding(1) var<storage, read_write> partials: array<u64>;\n\
         fn identity() -> Partial {{\n    var p = Partial();\n{identity}    return p;\n}}\n\
         fn partial_of(in: Inputs) -> Partial {{\n    var p = identity();\n{of}    return p;\n}}\n\
         fn merge(a: Partial, b: Partial) -> Partial {{\n    var p = Partial();\n{merge}    return p;\n}}\n\
         fn store(index: u32, p: Partial) {{\n    let at = index * WORDS;\n{store}}}\n\
         fn load(index: u32) -> Partial {{\n    let at = index * WORDS;\n    var p = Partial();\n{load}    return p;\n}}\n"
    )
}

/// The bodies of the functions, a few lines an accumulator.
#[derive(Default)]
struct Parts {
    fields: String,
    identity: String,
    of: String,
    merge: String,
    store: String,
    load: String,
}

impl Parts {
    fn add(&mut self, plan: &Accumulators, i: usize, a: &Accumulator) -> Result {
        let code = Code::of(plan, a.gathers);
        let (ty, value) = (code.ty, code.value);
        writeln!(self.fields, "    a{i}: {ty},")?;
        if let Some(identity) = code.identity {
            writeln!(self.identity, "    p.a{i} = {identity};")?;
        }
        match plan.condition(a.gathers) {
            Some(condition) => writeln!(self.of, "    if ({condition}) {{ p.a{i} = {value}; }}")?,
            None => writeln!(self.of, "    p.a{i} = {value};")?,
        }
        let merged = (code.merge)(&format!("a.a{i}"), &format!("b.a{i}"));
        writeln!(self.merge, "    p.a{i} = {merged};")?;
        let itself = [""];
        let fields = match code.fields {
            [] => &itself,
            fields => fields,
        };
        for (k, field) in fields.iter().enumerate() {
            let at = format!("partials[at + {}u]", a.word + k as u32);
            let dot = if field.is_empty() { "" } else { "." };
            let part = format!("p.a{i}{dot}{field}");
            match is_float(ty, field) {
                true => {
                    writeln!(self.store, "    {at} = bitcast<u64>({part});")?;
                    writeln!(self.load, "    {part} = bitcast<f64>({at});")?;
                }
                false => {
                    writeln!(self.store, "    {at} = {part};")?;
                    writeln!(self.load, "    {part} = {at};")?;
                }
            }
        }
        Ok(())
    }
}
