//! The normalised key: one string of bits a row that orders as all parts of its key do.

use super::{keys::PartKind, radix::DIGITS};

/// A part's place in the normalised key.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
pub(super) struct FieldPlace {
    least: u64,
    position: u64,
    bits: u64,
    /// The position of the null bit, or `NONE`; in the upper half, whether it is set for what is not null.
    flag: u64,
}

const NONE: u64 = u32::MAX as u64;

/// The normalised key of a stage: where each part lies, from the end of the string of bits.
pub(super) struct Layout {
    pub(super) fields: Vec<FieldPlace>,
    pub(super) bits: u32,
}

impl FieldPlace {
    /// What the part's values are less than in the string of bits.
    pub(super) fn least(&self) -> u64 {
        self.least
    }
}

impl Layout {
    /// The layout for parts whose values are within `spans`.
    pub(super) fn new(parts: &[PartKind], spans: &[(u64, u64)]) -> Self {
        let mut fields = Vec::new();
        let mut position = 0;
        for (part, (least, greatest)) in parts.iter().zip(spans).rev() {
            // No value at all: nulls only.
            let range = greatest.checked_sub(*least).unwrap_or(0);
            let bits = u64::BITS - range.leading_zeros();
            let mut field = FieldPlace {
                least: *least,
                position,
                bits: bits.into(),
                flag: NONE,
            };
            position += u64::from(bits);
            if part.nullable {
                field.flag = position | u64::from(part.nulls_first) << 32;
                position += 1;
            }
            fields.push(field);
        }
        fields.reverse();
        Self {
            fields,
            bits: position as u32,
        }
    }
}

/// A part of the normalised key: so many bits from `first_bit` above its end.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) first_bit: u32,
    pub(super) bits: u32,
}

impl Window {
    /// The first of `all` bits, at most `most`.
    pub(super) fn leading(all: u32, most: u32) -> Self {
        let bits = all.min(most);
        Self {
            first_bit: all - bits,
            bits,
        }
    }
}

/// How many digits from the front tell nearly all of `rows` rows apart, by how often each digit of each pass
/// occurs: as if digits were independent of each other. All of them where they do not.
pub(super) fn leading_digits(counts: &[u32], rows: usize) -> u32 {
    /// Of 1: the share of rows that may be tied.
    const MOST_TIED: f64 = 0.1;
    let mut same = 1.0;
    let passes = counts.chunks_exact(DIGITS as usize);
    for (digits, pass) in passes.clone().rev().enumerate() {
        let squares = pass
            .iter()
            .map(|count| (f64::from(*count) / rows as f64).powi(2));
        // The chance that two rows agree in all digits so far.
        same *= squares.sum::<f64>();
        if same * rows as f64 <= MOST_TIED {
            return digits as u32 + 1;
        }
    }
    passes.len() as u32
}
