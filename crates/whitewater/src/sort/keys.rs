//! Sort keys as device code: `package::sort_keys`, which tells the parts of a row's key.
//!
//! ```text
//! const PARTS: u32
//! struct Part { value: u64, valid: bool }
//! fn parts(row: u32, chunk: u32) -> array<Part, PARTS>     values order as the keys do
//! fn more(row: u32, chunk: u32) -> bool                    whether the last part goes on after this chunk
//! ```
//!
//! A number is a part, a 128-bit decimal two. A string is a part for every [`CHUNK`] bytes of it, of which the
//! module tells one at a time; keys after a long string are parts of a later [`Stage`].

use std::{fmt::Write, ops::Range};

use arrow::datatypes::Schema;
use whitewater_gpu::Buffer;

use super::SortKey;
use crate::{
    Batch, Error,
    expr::{DeviceType, Expr},
    pipeline::describe,
    ragged::{RaggedKey, can_be_key, ragged_column},
};

/// Bytes of a string in one part; an eighth tells how many of them there are, and whether more follow.
const CHUNK: u64 = 7;

/// A key column of a stage.
#[derive(Clone)]
enum Key {
    Fixed {
        expr: Expr,
        device: DeviceType,
        /// Whether the value is a 128-bit decimal's.
        wide: bool,
    },
    Bytes(RaggedKey),
}

/// A key with the order that is asked for.
#[derive(Clone)]
struct Ordered {
    key: Key,
    nullable: bool,
    descending: bool,
    nulls_first: bool,
}

/// What a part of a stage's key may be.
#[derive(Clone, Copy)]
pub(super) struct PartKind {
    pub(super) nullable: bool,
    pub(super) nulls_first: bool,
}

/// Keys that are compared together.
pub(super) struct Stage {
    keys: Vec<Ordered>,
    /// The chunks of strings that the stage compares, one after the other: the first, or all others of one
    /// long string.
    pub(super) chunks: Range<u32>,
}

/// The text of `package::decode`, and the bytes of a value that it gives.
pub(super) struct Decoding {
    pub(super) text: String,
    pub(super) bytes: u64,
}

impl Stage {
    fn new(keys: Vec<Ordered>, chunks: Range<u32>) -> Self {
        Self { keys, chunks }
    }

    /// Expressions to compile, with their names.
    pub(super) fn values(&self) -> Vec<(String, Expr)> {
        let fixed = self.keys.iter().enumerate();
        fixed
            .filter_map(|(i, ordered)| match &ordered.key {
                Key::Fixed { expr, .. } => Some((format!("key{i}"), expr.clone())),
                Key::Bytes(_) => None,
            })
            .collect()
    }

    /// Buffers of strings, bound from 0 in [`KEY_GROUP`](crate::ragged::KEY_GROUP).
    pub(super) fn buffers(&self) -> Vec<Buffer> {
        let strings = self.keys.iter().filter_map(|ordered| match &ordered.key {
            Key::Bytes(key) => Some(key.buffers.clone()),
            Key::Fixed { .. } => None,
        });
        strings.flatten().collect()
    }

    /// The parts, first key first.
    pub(super) fn parts(&self) -> Vec<PartKind> {
        let mut parts = Vec::new();
        for ordered in &self.keys {
            let count = match ordered.key {
                Key::Fixed { wide: true, .. } => 2,
                _ => 1,
            };
            let part = PartKind {
                nullable: ordered.nullable,
                nulls_first: ordered.nulls_first,
            };
            // One of two parts tells of null.
            let rest = PartKind {
                nullable: false,
                ..part
            };
            parts.push(part);
            parts.extend((1..count).map(|_| rest));
        }
        parts
    }

    /// How the words of this stage become the values of its one key again; none where they cannot: several keys,
    /// nulls, or values that need several words.
    pub(super) fn decoding(&self) -> Option<Decoding> {
        let [ordered] = self.keys.as_slice() else {
            return None;
        };
        let Key::Fixed { device, .. } = &ordered.key else {
            return None;
        };
        let (decoded, bytes) = match device {
            _ if ordered.nullable => return None,
            DeviceType::I32 | DeviceType::U32 | DeviceType::F32 => ("u32", 4),
            DeviceType::I64 | DeviceType::U64 | DeviceType::F64 => ("u64", 8),
            DeviceType::Bool | DeviceType::I128 => return None,
        };
        let unorder = format!("unorder_{}", device.name());
        let flip = if ordered.descending { "~" } else { "" };
        let text = format!(
            "import package::kernels::order::{unorder};\n\
             alias Decoded = {decoded};\n\
             fn decode(word: u64) -> Decoded {{ return {unorder}({flip}word); }}\n"
        );
        Some(Decoding { text, bytes })
    }

    /// The text of `package::sort_keys`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let written = self.write(&mut text);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "import package::kernels::order::{{order_bool, order_u32, order_u64, order_i32, order_i64, order_f32, order_f64}};\n\
             import package::kernels::int128::I128;\n\
             import package::groupby::bytes::byte_of;"
        )?;
        let values = self.values();
        let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            writeln!(text, "import package::generated::{{{}}};", names.join(", "))?;
        }
        let count = self.parts().len();
        let mut binding = 0;
        let mut body = String::new();
        let mut part = 0;
        let mut more = "false".to_string();
        for (index, ordered) in self.keys.iter().enumerate() {
            let flip = if ordered.descending { "~" } else { "" };
            match &ordered.key {
                Key::Fixed { device, wide, .. } => {
                    let v = format!("k{index}.value");
                    let parts = ordered_words(*device, &v);
                    debug_assert_eq!(parts.len(), 1 + usize::from(*wide));
                    writeln!(body, "    let k{index} = key{index}(row);")?;
                    for value in parts {
                        writeln!(
                            body,
                            "    all[{part}] = Part({flip}{value}, k{index}.valid);"
                        )?;
                        part += 1;
                    }
                }
                Key::Bytes(key) => {
                    chunk_function(text, index, binding, key)?;
                    binding += key.buffers.len();
                    writeln!(
                        body,
                        "    let k{index} = chunk{index}(row, chunk);\n    \
                         all[{part}] = Part({flip}k{index}.value, k{index}.valid);"
                    )?;
                    part += 1;
                    let last = index + 1 == self.keys.len();
                    if last {
                        more = format!("goes_on(chunk{index}(row, chunk))");
                    }
                }
            }
        }
        self.write_comparison(text)?;
        writeln!(
            text,
            "const PARTS: u32 = {count}u;\n\
             struct Part {{ value: u64, valid: bool }}\n\
             fn goes_on(part: Part) -> bool {{ return part.valid && (part.value & 0xfflu) > {CHUNK}lu; }}\n\
             fn parts(row: u32, chunk: u32) -> array<Part, PARTS> {{\n    \
             var all: array<Part, PARTS>;\n{body}    return all;\n}}\n\
             fn more(row: u32, chunk: u32) -> bool {{ return {more}; }}"
        )
    }
}

impl Stage {
    /// `compare`: below 0 where row `a` is before row `b` by all keys, 0 where they are equal; strings to their
    /// ends.
    fn write_comparison(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "fn compare(a: u32, b: u32) -> i32 {{")?;
        for (index, ordered) in self.keys.iter().enumerate() {
            let (before, after) = match ordered.descending {
                true => ("1i", "-1i"),
                false => ("-1i", "1i"),
            };
            let nulls_first = ordered.nulls_first;
            let nulls = |a: &str, b: &str| {
                format!("if ({a} != {b}) {{ return select(1i, -1i, {a} != {nulls_first}); }}")
            };
            match &ordered.key {
                Key::Fixed { device, .. } => {
                    writeln!(
                        text,
                        "    let a{index} = key{index}(a);\n    let b{index} = key{index}(b);\n    {}",
                        nulls(&format!("a{index}.valid"), &format!("b{index}.valid"))
                    )?;
                    let of_a = ordered_words(*device, &format!("a{index}.value"));
                    let of_b = ordered_words(*device, &format!("b{index}.value"));
                    for (part, (x, y)) in of_a.iter().zip(&of_b).enumerate() {
                        writeln!(
                            text,
                            "    let x{index}_{part} = {x};\n    let y{index}_{part} = {y};\n    \
                             if (a{index}.valid && x{index}_{part} != y{index}_{part}) {{ \
                             return select({after}, {before}, x{index}_{part} < y{index}_{part}); }}",
                        )?;
                    }
                }
                Key::Bytes(_) => writeln!(
                    text,
                    "    for (var chunk = 0u; ; chunk++) {{\n        \
                     let x = chunk{index}(a, chunk);\n        let y = chunk{index}(b, chunk);\n        {}\n        \
                     if (x.valid && x.value != y.value) {{ return select({after}, {before}, x.value < y.value); }}\n        \
                     if (!goes_on(x)) {{ break; }}\n    }}",
                    nulls("x.valid", "y.valid")
                )?,
            }
        }
        writeln!(text, "    return 0i;\n}}")
    }
}

/// The u64 words that order, one after the other, as value `v` does.
fn ordered_words(device: DeviceType, v: &str) -> Vec<String> {
    match device {
        DeviceType::I128 => vec![
            format!("order_i64(bitcast<i64>({v}.hi))"),
            format!("{v}.lo"),
        ],
        other => vec![format!("order_{}({v})", other.name())],
    }
}

/// `chunk{index}`: the chunk's bytes, first byte highest, and in the lowest byte how many there are, one more
/// than all if others follow.
fn chunk_function(
    text: &mut String,
    index: usize,
    binding: usize,
    key: &RaggedKey,
) -> std::fmt::Result {
    let valid = key.declare(text, index, binding)?;
    writeln!(
        text,
        "fn chunk{index}(row: u32, chunk: u32) -> Part {{\n    \
         let end = u64(offsets{index}[row + 1u]);\n    \
         let start = min(u64(offsets{index}[row]) + {CHUNK}lu * u64(chunk), end);\n    \
         let count = u32(min(end - start, {CHUNK}lu + 1lu));\n    \
         var value = 0lu;\n    \
         for (var i = 0u; i < min(count, {CHUNK}u); i++) {{\n        \
         let at = start + u64(i);\n        \
         value |= u64(byte_of(bytes{index}[u32(at >> 2u)], at)) << (56u - 8u * i);\n    }}\n    \
         return Part(value | u64(count), {valid});\n}}"
    )
}

/// The stages of a sort of `batch` by `keys`: a long string ends one with its first chunk, and has the next to
/// itself.
pub(super) fn stages(keys: &[SortKey], batch: &Batch) -> Result<Vec<Stage>, Error> {
    let mut stages = Vec::new();
    let mut open = Vec::new();
    for key in keys {
        let column = ragged_column(&key.expr, batch).map(|index| &batch.columns[index]);
        let (kind, nullable) = match column.and_then(RaggedKey::of) {
            Some(key) => {
                let nullable = key.nullable();
                (Key::Bytes(key), nullable)
            }
            None => fixed_key(&key.expr, batch)?,
        };
        let chunks = match &kind {
            Key::Bytes(key) => key.longest.div_ceil(CHUNK) as u32,
            Key::Fixed { .. } => 1,
        };
        let ordered = Ordered {
            key: kind,
            nullable,
            descending: key.descending,
            nulls_first: key.nulls_first,
        };
        open.push(ordered.clone());
        if chunks > 1 {
            stages.push(Stage::new(std::mem::take(&mut open), 0..1));
            stages.push(Stage::new(vec![ordered], 1..chunks));
        }
    }
    if !open.is_empty() {
        stages.push(Stage::new(open, 0..1));
    }
    Ok(stages)
}

/// All keys as one stage, of which only the first chunks of strings are parts: to compare rows by.
pub(super) fn whole(keys: &[SortKey], batch: &Batch) -> Result<Stage, Error> {
    let stages = stages(keys, batch)?;
    // A stage of later chunks repeats the string of the one before.
    let first = stages.into_iter().filter(|stage| stage.chunks.start == 0);
    Ok(Stage::new(
        first.flat_map(|stage| stage.keys).collect(),
        0..1,
    ))
}

fn fixed_key(expr: &Expr, batch: &Batch) -> Result<(Key, bool), Error> {
    let value = describe(expr, batch)?;
    let key = Key::Fixed {
        expr: expr.clone(),
        device: value.device,
        wide: value.device == DeviceType::I128,
    };
    Ok((key, value.nullable))
}

/// The schema-level check of a key, for planners: what [`stages`] would refuse.
pub(super) fn check(expr: &Expr, schema: &Schema) -> Result<(), Error> {
    let data_type = match expr {
        Expr::Column { index } => schema.field(*index).data_type().clone(),
        other => other.check(schema)?,
    };
    if can_be_key(expr, &data_type) {
        return Ok(());
    }
    Err(Error::unsupported(format!("sorting by {data_type}")))
}
