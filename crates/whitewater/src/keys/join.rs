//! The keys of both sides of a join: `package::keys` where rows of one batch meet rows of another.
//!
//! ```text
//! struct Key { word: u64, hash: u64, live: bool }      what a slot holds; live: it can have an equal
//! fn build_key(row: u32) -> Key
//! fn probe_key(row: u32) -> Key
//! fn same_build(word: u64, key: Key, row: u32) -> bool     whether the slot's key is that of this row
//! fn same_probe(word: u64, key: Key, row: u32) -> bool
//! ```

use std::fmt::Write;

use super::{Key, Keys, SHORT, same_bytes};
use crate::expr::DeviceType;

/// How the keys of a join are compared.
pub(crate) struct Comparison<'a> {
    /// For each pair of keys whether null equals null.
    pub(crate) nulls_equal: &'a [bool],
    /// Slots hold row numbers alone.
    pub(crate) by_rows: bool,
}

/// A side of the join.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Build,
    Probe,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Build => "build",
            Side::Probe => "probe",
        }
    }
}

impl Keys {
    /// The text of `package::keys` where the first keys are the build side's, one for each of
    /// `comparison.nulls_equal`, and the others, if there are any, the probe side's.
    ///
    /// What a slot holds depends on the build side alone: a table may be probed by any batch.
    pub(crate) fn join_text(&self, comparison: &Comparison<'_>) -> String {
        let mut text = String::new();
        let written = self.write_join(&mut text, comparison);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        text
    }

    fn write_join(&self, text: &mut String, comparison: &Comparison<'_>) -> std::fmt::Result {
        let pairs = comparison.nulls_equal.len();
        self.write_parts(text, |_, index| self.is_short_pair(index % pairs))?;
        writeln!(text, "struct Key {{ word: u64, hash: u64, live: bool }}")?;
        let packed = self.pair_bits(comparison).filter(|_| !comparison.by_rows);
        let mut sides = vec![Side::Build];
        if self.keys.len() > pairs {
            sides.push(Side::Probe);
        }
        for side in sides {
            match &packed {
                Some(bits) => self.write_packed_side(text, side, bits, comparison)?,
                None => self.write_hashed_side(text, side, comparison)?,
            }
        }
        Ok(())
    }

    fn is_short_pair(&self, pair: usize) -> bool {
        matches!(&self.keys[pair].0, Key::Bytes(key) if key.longest <= SHORT)
    }

    /// Whether a null of this pair takes part.
    fn keeps_null(&self, pair: usize, comparison: &Comparison<'_>) -> bool {
        comparison.nulls_equal[pair] && self.keys[pair].1
    }

    /// Bits of each key, if all of them with their bits for null fit a word.
    fn pair_bits(&self, comparison: &Comparison<'_>) -> Option<Vec<u32>> {
        let mut all = Vec::new();
        let mut sum = 0;
        for pair in 0..comparison.nulls_equal.len() {
            let bits = match &self.keys[pair].0 {
                Key::Fixed { bits, .. } => *bits,
                Key::Bytes(key) if key.longest <= SHORT => 8 * SHORT as u32 + 3,
                Key::Bytes(_) => return None,
            };
            sum += bits + u32::from(self.keeps_null(pair, comparison));
            all.push(bits);
        }
        (sum <= u64::BITS).then_some(all)
    }

    fn write_packed_side(
        &self,
        text: &mut String,
        side: Side,
        bits: &[u32],
        comparison: &Comparison<'_>,
    ) -> std::fmt::Result {
        let name = side.name();
        writeln!(
            text,
            "fn {name}_key(row: u32) -> Key {{\n    var word = 0lu;\n    var live = true;"
        )?;
        let mut at = 0;
        for (pair, bits) in bits.iter().enumerate() {
            let index = self.index_of(side, pair, comparison);
            let mask = u64::MAX >> (u64::BITS - bits);
            writeln!(
                text,
                "    let p{index} = part{index}(row);\n    \
                 if (p{index}.valid) {{ word |= (p{index}.low & {mask}lu) << {at}u; }}"
            )?;
            at += bits;
            if self.keeps_null(pair, comparison) {
                writeln!(text, "    if (!p{index}.valid) {{ word |= 1lu << {at}u; }}")?;
                at += 1;
            } else {
                writeln!(text, "    live = live && p{index}.valid;")?;
            }
            // A decimal of two words equals none of one, unless it fits one.
            if let Key::Fixed {
                device: DeviceType::I128,
                ..
            } = &self.keys[index].0
            {
                writeln!(
                    text,
                    "    live = live && (!p{index}.valid || \
                     p{index}.high == bitcast<u64>(bitcast<i64>(p{index}.low) >> 63u));"
                )?;
            }
        }
        writeln!(
            text,
            "    return Key(word, hash_u64(word), live);\n}}\n\
             fn same_{name}(word: u64, key: Key, row: u32) -> bool {{ return word == key.word; }}"
        )
    }

    /// The number of a pair's key of this side.
    fn index_of(&self, side: Side, pair: usize, comparison: &Comparison<'_>) -> usize {
        match side {
            Side::Build => pair,
            Side::Probe => comparison.nulls_equal.len() + pair,
        }
    }

    fn write_hashed_side(
        &self,
        text: &mut String,
        side: Side,
        comparison: &Comparison<'_>,
    ) -> std::fmt::Result {
        let name = side.name();
        writeln!(
            text,
            "fn {name}_key(row: u32) -> Key {{\n    var h = 0lu;\n    var live = true;"
        )?;
        let pairs = comparison.nulls_equal.len();
        for pair in 0..pairs {
            let index = self.index_of(side, pair, comparison);
            writeln!(
                text,
                "    let p{index} = part{index}(row);\n    \
                 if (p{index}.valid) {{ h = hash_combine(hash_combine(h, p{index}.low), p{index}.high); }} \
                 else {{ h = hash_combine(h, 0x5bd1e9955bd1e995lu); }}"
            )?;
            if !self.keeps_null(pair, comparison) {
                writeln!(text, "    live = live && p{index}.valid;")?;
            }
        }
        // Never the bits of an empty slot, whose row could not be read.
        let tag = match comparison.by_rows {
            true => "0lu",
            false => "0x7fffffff00000000lu",
        };
        writeln!(text, "    return Key((h & {tag}) | u64(row), h, live);\n}}")?;
        for pair in 0..pairs {
            let index = self.index_of(side, pair, comparison);
            let ragged = matches!(self.keys[pair].0, Key::Bytes(_));
            if ragged && !self.is_short_pair(pair) && index != pair {
                same_bytes(text, pair, index)?;
            }
        }
        writeln!(
            text,
            "fn same_{name}(word: u64, key: Key, row: u32) -> bool {{\n    \
             if (((word ^ key.word) >> 32u) != 0lu) {{ return false; }}\n    \
             let other = u32(word & 0xfffffffflu);"
        )?;
        for pair in 0..pairs {
            let index = self.index_of(side, pair, comparison);
            writeln!(
                text,
                "    let a{pair} = part{pair}(other);\n    let b{pair} = part{index}(row);\n    \
                 if (a{pair}.valid != b{pair}.valid) {{ return false; }}\n    \
                 if (a{pair}.valid && (a{pair}.low != b{pair}.low || a{pair}.high != b{pair}.high)) {{ return false; }}"
            )?;
            let ragged = matches!(self.keys[pair].0, Key::Bytes(_));
            if ragged && !self.is_short_pair(pair) {
                writeln!(
                    text,
                    "    if (a{pair}.valid && !same_bytes{pair}_{index}(other, row)) {{ return false; }}"
                )?;
            }
        }
        writeln!(text, "    return true;\n}}")
    }
}
