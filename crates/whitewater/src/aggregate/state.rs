//! From accumulator words to the columns of partial state.

use std::sync::Arc;

use arrow::{
    array::{ArrayData, ArrayRef, make_array},
    buffer::{Buffer, NullBuffer},
    datatypes::{DataType, Field},
};

use crate::Error;

/// A state column: where its words are and how they become values.
#[derive(Clone, Debug)]
pub(crate) struct StateColumn {
    pub(crate) field: Arc<Field>,
    pub(crate) encoding: Encoding,
    /// First word of the value in a state's words.
    pub(crate) word: u32,
    /// The word that counts values seen: none seen is null. Absent where null cannot happen.
    pub(crate) seen: Option<u32>,
}

/// How a value is laid down in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The value's own bits, one word or (decimals) two.
    Plain,
    /// An order-preserving map, complemented for a minimum.
    Ordered { minimum: bool },
    /// Fixed-point windows and flags of `kernels/exact.wesl`; `windows` pairs of words, then flags.
    Exact,
}

impl StateColumn {
    /// The one-row column that `words` hold; only plain and ordered values.
    pub(crate) fn row(&self, words: &[u64]) -> Result<ArrayRef, Error> {
        let data_type = self.field.data_type();
        let at = self.word as usize;
        let null = self.seen.is_some_and(|seen| words[seen as usize] == 0);
        let bytes: Vec<u8> = match data_type {
            DataType::Decimal128(_, _) if self.encoding != Encoding::Plain => {
                i128::from(self.decode(words[at]) as i64)
                    .to_le_bytes()
                    .to_vec()
            }
            DataType::Decimal128(_, _) => bytemuck::cast_slice(&words[at..at + 2]).to_vec(),
            _ => {
                let width = data_type.primitive_width().unwrap_or(1);
                self.decode(words[at]).to_le_bytes()[..width].to_vec()
            }
        };
        let data = ArrayData::builder(data_type.clone())
            .len(1)
            .add_buffer(Buffer::from_vec(bytes))
            .nulls(null.then(|| NullBuffer::new_null(1)))
            .align_buffers(true)
            .build()?;
        Ok(make_array(data))
    }

    /// The value's bits.
    fn decode(&self, word: u64) -> u64 {
        let Encoding::Ordered { minimum } = self.encoding else {
            return word;
        };
        let mapped = if minimum { !word } else { word };
        match self.field.data_type() {
            DataType::Boolean
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64 => mapped,
            DataType::Float64 => unorder(mapped, 63),
            DataType::Float32 => unorder(mapped, 31),
            DataType::Int8 | DataType::Int16 | DataType::Int32 => mapped ^ (1 << 31),
            DataType::Date32 | DataType::Time32(_) => mapped ^ (1 << 31),
            _ => mapped ^ (1 << 63),
        }
    }
}

/// The inverse of the floats' order-preserving map, with the sign at bit `sign`.
fn unorder(mapped: u64, sign: u32) -> u64 {
    match mapped >> sign & 1 {
        1 => mapped ^ (1 << sign),
        _ => !mapped,
    }
}
