//! Key columns as `package::keys`: the packed key or the hash of a row, and whether a row has the key of a slot.
//!
//! Keys whose bits (with a bit for null where a column has nulls) fit one word are packed into it and
//! compared there. Others are hashed; a slot then names a row, and equality reads that row's columns.
//! Null equals null. Floats group as DataFusion does it: zeros of both signs are one key.

mod join;

pub(crate) use join::Comparison;

use std::fmt::Write;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::Buffer;

use crate::{
    Batch, Error,
    expr::{DeviceType, Expr},
    pipeline::describe,
    ragged::{RaggedKey, can_be_key, ragged_column},
};

/// Bytes of the longest string that a word holds whole, with its length in 3 bits.
const SHORT: u64 = 7;

/// A key column.
enum Key {
    /// An expression of fixed width; compiled as value `key{index}`.
    Fixed {
        device: DeviceType,
        bits: u32,
        decimal: bool,
    },
    /// A plain string or binary column with its buffers.
    Bytes(RaggedKey),
}

/// The keys of one batch.
pub(crate) struct Keys {
    keys: Vec<(Key, bool)>,
    /// Expressions to compile as values, with their names.
    pub(crate) values: Vec<(String, Expr)>,
    /// Buffers of string keys, bound from 0 in [`KEY_GROUP`](crate::ragged::KEY_GROUP).
    pub(crate) buffers: Vec<Buffer>,
    /// The output fields.
    pub(crate) fields: Vec<Field>,
    /// For each string key the input column.
    pub(crate) strings: Vec<Option<usize>>,
    /// Whether a row's key must not depend on the batch that it is in.
    canonical: bool,
}

impl Keys {
    /// Plans the keys of `batch`.
    pub(crate) fn plan(keys: &[(Expr, Field)], batch: &Batch) -> Result<Self, Error> {
        let mut plan = Self {
            keys: Vec::new(),
            values: Vec::new(),
            buffers: Vec::new(),
            fields: Vec::new(),
            strings: Vec::new(),
            canonical: false,
        };
        for (index, (expr, field)) in keys.iter().enumerate() {
            plan.fields.push(field.clone());
            if let Some(column) = ragged_column(expr, batch) {
                plan.bytes(column, batch)?;
                plan.strings.push(Some(column));
                continue;
            }
            let value = describe(expr, batch)?;
            let bits = match (value.device, value.data_type.primitive_width()) {
                (DeviceType::Bool, _) => 1,
                // A decimal that fits is an `i64` on the device.
                (DeviceType::I64, _) => 64,
                (_, Some(width)) => width as u32 * 8,
                _ => {
                    return Err(Error::unsupported(format!(
                        "grouping by {}",
                        value.data_type
                    )));
                }
            };
            plan.values.push((format!("key{index}"), expr.clone()));
            plan.keys.push((
                Key::Fixed {
                    device: value.device,
                    bits,
                    decimal: matches!(value.data_type, DataType::Decimal128(_, _)),
                },
                value.nullable,
            ));
            plan.strings.push(None);
        }
        Ok(plan)
    }

    /// The same keys, hashed so that equal rows of different batches have equal hashes.
    pub(crate) fn canonical(self) -> Self {
        Self {
            canonical: true,
            ..self
        }
    }

    fn bytes(&mut self, column: usize, batch: &Batch) -> Result<(), Error> {
        let column = &batch.columns[column];
        let key = RaggedKey::of(column)
            .ok_or_else(|| Error::unsupported(format!("grouping by {}", column.data_type)))?;
        self.buffers.extend(key.buffers.iter().cloned());
        let nullable = key.nullable();
        self.keys.push((Key::Bytes(key), nullable));
        Ok(())
    }

    /// Whether strings are told apart by a word that holds them whole.
    fn is_short(&self, key: &RaggedKey) -> bool {
        !self.canonical && key.longest <= SHORT
    }

    /// Bits of all keys packed, if each has a fixed number of them.
    fn packed_bits(&self) -> Option<u32> {
        if self.canonical {
            return None;
        }
        self.keys
            .iter()
            .map(|(key, nullable)| {
                let bits = match key {
                    Key::Fixed { bits, .. } => *bits,
                    Key::Bytes(key) if key.longest <= SHORT => 8 * key.longest as u32 + 3,
                    Key::Bytes(_) => return None,
                };
                Some(bits + u32::from(*nullable))
            })
            .sum()
    }

    /// The text of `package::keys`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let written = self.write(&mut text);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let short = |key: &RaggedKey, _| self.is_short(key);
        self.write_parts(text, short)?;
        match self.packed_bits().filter(|bits| *bits <= 64) {
            Some(_) => self.write_packed(text),
            None => self.write_hashed(text),
        }
    }

    /// Imports, and `part{index}` of every key; `short` tells whether a word holds a key's strings whole.
    fn write_parts(
        &self,
        text: &mut String,
        short: impl Fn(&RaggedKey, usize) -> bool,
    ) -> std::fmt::Result {
        writeln!(
            text,
            "import package::kernels::hash::{{fold_u64, hash_combine, hash_u64}};\n\
             import package::kernels::int128::{{I128, i128_from_i64}};\n\
             import package::groupby::bytes::{{byte_of, float_key32, float_key64}};"
        )?;
        let names: Vec<&str> = self.values.iter().map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            writeln!(text, "import package::generated::{{{}}};", names.join(", "))?;
        }
        let mut binding = 0;
        for (index, (key, _)) in self.keys.iter().enumerate() {
            match key {
                Key::Fixed {
                    device, decimal, ..
                } => fixed(text, index, *device, *decimal)?,
                Key::Bytes(key) => {
                    bytes(text, index, binding, key, short(key, index))?;
                    binding += key.buffers.len();
                }
            }
        }
        Ok(())
    }

    fn write_packed(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "struct Key {{ word: u64 }}\nfn key_of(row: u32) -> Key {{\n    var word = 0lu;"
        )?;
        let mut at = 0;
        for (index, (key, nullable)) in self.keys.iter().enumerate() {
            let bits = match key {
                Key::Fixed { bits, .. } => *bits,
                Key::Bytes(key) => 8 * key.longest as u32 + 3,
            };
            let mask = if bits == 64 {
                u64::MAX
            } else {
                (1 << bits) - 1
            };
            writeln!(text, "    let p{index} = part{index}(row);")?;
            let valid = if *nullable {
                format!("p{index}.valid")
            } else {
                "true".into()
            };
            writeln!(
                text,
                "    if ({valid}) {{ word |= (p{index}.low & {mask}lu) << {at}u; }}"
            )?;
            at += bits;
            if *nullable {
                writeln!(text, "    if (!p{index}.valid) {{ word |= 1lu << {at}u; }}")?;
                at += 1;
            }
        }
        writeln!(
            text,
            "    return Key(word);\n}}\n\
             fn hash_of(key: Key) -> u64 {{ return hash_u64(key.word); }}\n\
             fn spread(key: Key) -> u32 {{ return fold_u64(key.word) * 0x9e3779b1u; }}\n\
             fn same_key(word: u64, key: Key, row: u32) -> bool {{ return word == key.word; }}"
        )
    }

    fn write_hashed(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "struct Key {{ word: u64, hash: u64 }}\nfn key_of(row: u32) -> Key {{\n    var h = 0lu;"
        )?;
        for index in 0..self.keys.len() {
            writeln!(
                text,
                "    let p{index} = part{index}(row);\n    \
                 if (p{index}.valid) {{ h = hash_combine(hash_combine(h, p{index}.low), p{index}.high); }} \
                 else {{ h = hash_combine(h, 0x5bd1e9955bd1e995lu); }}"
            )?;
        }
        writeln!(
            text,
            "    // Never the bits of an empty slot, whose row could not be read.\n    \
             return Key(((h << 32u) & 0x7fffffff00000000lu) | u64(row), h);\n}}\n\
             fn hash_of(key: Key) -> u64 {{ return key.hash; }}\n\
             fn spread(key: Key) -> u32 {{ return u32(key.hash); }}\n\
             fn same_key(word: u64, key: Key, row: u32) -> bool {{\n    \
             if (((word ^ key.word) >> 32u) != 0lu) {{ return false; }}\n    \
             let other = u32(word & 0xfffffffflu);"
        )?;
        for (index, (key, _)) in self.keys.iter().enumerate() {
            writeln!(
                text,
                "    let a{index} = part{index}(row);\n    let b{index} = part{index}(other);\n    \
                 if (a{index}.valid != b{index}.valid) {{ return false; }}\n    \
                 if (a{index}.valid && (a{index}.low != b{index}.low || a{index}.high != b{index}.high)) {{ return false; }}"
            )?;
            if let Key::Bytes(bytes) = key
                && !self.is_short(bytes)
            {
                writeln!(
                    text,
                    "    if (a{index}.valid && !same_bytes{index}_{index}(other, row)) {{ return false; }}"
                )?;
            }
        }
        writeln!(text, "    return true;\n}}")
    }
}

/// `part{index}`: validity and bits of a fixed-width key.
fn fixed(text: &mut String, index: usize, device: DeviceType, decimal: bool) -> std::fmt::Result {
    let (low, high) = match device {
        DeviceType::Bool => ("select(0lu, 1lu, v.value)", "0lu"),
        DeviceType::I32 => ("u64(bitcast<u32>(v.value))", "0lu"),
        DeviceType::U32 => ("u64(v.value)", "0lu"),
        // A decimal that fits hashes as one that does not.
        DeviceType::I64 if decimal => ("bitcast<u64>(v.value)", "bitcast<u64>(v.value >> 63u)"),
        DeviceType::I64 => ("bitcast<u64>(v.value)", "0lu"),
        DeviceType::U64 => ("v.value", "0lu"),
        DeviceType::F32 => ("float_key32(v.value)", "0lu"),
        DeviceType::F64 => ("float_key64(v.value)", "0lu"),
        DeviceType::I128 => ("v.value.lo", "v.value.hi"),
    };
    writeln!(
        text,
        "struct Part{index} {{ low: u64, high: u64, valid: bool }}\n\
         fn part{index}(row: u32) -> Part{index} {{\n    let v = key{index}(row);\n    \
         return Part{index}({low}, {high}, v.valid);\n}}"
    )
}

/// `part{index}` of a string key: the string itself and its length where it is short, else a hash
/// and the length, and `same_bytes{index}`.
fn bytes(
    text: &mut String,
    index: usize,
    binding: usize,
    key: &RaggedKey,
    short: bool,
) -> std::fmt::Result {
    let valid = key.declare(text, index, binding)?;
    writeln!(
        text,
        "struct Part{index} {{ low: u64, high: u64, valid: bool }}\n\
         fn part{index}(row: u32) -> Part{index} {{"
    )?;
    // Offsets past 2^32 bytes: an index into words still fits u32 up to 16 GiB.
    writeln!(
        text,
        "    let start = u64(offsets{index}[row]);\n    let length = u32(u64(offsets{index}[row + 1u]) - start);\n    \
         let valid = {valid};\n    if (!valid) {{ return Part{index}(0lu, 0lu, false); }}"
    )?;
    if short {
        if key.longest > SHORT {
            // As a string of length 0 that has a byte: equal to none that is short.
            writeln!(
                text,
                "    if (length > {SHORT}u) {{ return Part{index}(8lu, 0lu, true); }}"
            )?;
        }
        return writeln!(
            text,
            "    var low = u64(length);\n    for (var i = 0u; i < length; i++) {{\n        \
             let at = start + u64(i);\n        \
             low |= u64(byte_of(bytes{index}[u32(at >> 2u)], at)) << (3u + 8u * i);\n    }}\n    \
             return Part{index}(low, 0lu, true);\n}}"
        );
    }
    writeln!(
        text,
        "    var h = 0lu;\n    var word = 0lu;\n    for (var i = 0u; i < length; i++) {{\n        \
         let at = start + u64(i);\n        \
         word |= u64(byte_of(bytes{index}[u32(at >> 2u)], at)) << (8u * (i & 7u));\n        \
         if ((i & 7u) == 7u) {{ h = hash_combine(h, word); word = 0lu; }}\n    }}\n    \
         return Part{index}(hash_combine(h, word), u64(length), true);\n}}"
    )?;
    same_bytes(text, index, index)
}

/// `same_bytes{a}_{b}`: whether the strings of row `left` of key `a` and row `right` of key `b`, of one length, are equal.
fn same_bytes(text: &mut String, a: usize, b: usize) -> std::fmt::Result {
    writeln!(
        text,
        "fn same_bytes{a}_{b}(left: u32, right: u32) -> bool {{\n    \
         let x = u64(offsets{a}[left]);\n    let y = u64(offsets{b}[right]);\n    \
         let length = u32(u64(offsets{a}[left + 1u]) - x);\n    \
         for (var i = 0u; i < length; i++) {{\n        \
         let p = x + u64(i);\n        let q = y + u64(i);\n        \
         if (byte_of(bytes{a}[u32(p >> 2u)], p) != byte_of(bytes{b}[u32(q >> 2u)], q)) {{ return false; }}\n    }}\n    \
         return true;\n}}"
    )
}

/// The schema-level check of a key, for planners: what [`Keys::plan`] would refuse.
pub fn check(expr: &Expr, schema: &Schema) -> Result<(), Error> {
    let data_type = match expr {
        Expr::Column { index } => schema.field(*index).data_type().clone(),
        other => other.data_type(schema)?,
    };
    if can_be_key(expr, &data_type) {
        return Ok(());
    }
    Err(Error::unsupported(format!("grouping by {data_type}")))
}
