//! From accumulator words to the columns of partial state.

use std::sync::Arc;

use arrow::{
    array::{ArrayData, ArrayRef, make_array},
    buffer::{Buffer, NullBuffer},
    datatypes::{DataType, Field},
};

use crate::{Error, expr::ArithmeticError};

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
    /// The same in two words.
    WideOrdered { minimum: bool },
    /// Fixed-point windows and flags of `kernels/exact.wesl`; `windows` pairs of words, then flags.
    Exact,
    /// A 128-bit sum, with one of high words at word `high`: an error if the type does not hold the value.
    Checked { high: Option<u32> },
    /// Whether the word is not 0.
    Seen,
    /// The number of a row: one more than it, or (unless `last`) its complement.
    Row { last: bool },
    /// The value of expression `argument` in that row, which is looked up.
    Picked { argument: usize, last: bool },
    /// The middle values of expression `argument`, which are looked up; the word counts its values.
    Middle { argument: usize },
}

/// The row that `word` stands for, if any.
pub(crate) fn row_of(word: u64, last: bool) -> Option<usize> {
    match last {
        _ if word == 0 => None,
        true => Some(word as usize - 1),
        false => Some(!word as usize),
    }
}

impl StateColumn {
    /// A column whose one word orders as its values do.
    pub(crate) fn ordered(field: Field) -> Self {
        Self {
            field: Arc::new(field),
            encoding: Encoding::Ordered { minimum: false },
            word: 0,
            seen: None,
        }
    }

    /// The one-row column that `words` hold, of values that are in them.
    pub(crate) fn row(&self, words: &[u64]) -> Result<ArrayRef, Error> {
        let data_type = self.field.data_type();
        let at = self.word as usize;
        let null = self.seen.is_some_and(|seen| words[seen as usize] == 0);
        let bytes: Vec<u8> = match (data_type, self.encoding) {
            (_, Encoding::Checked { high }) if !null => {
                let high = high.map_or(0, |high| wide(words, high as usize));
                self.checked_sum(wide(words, at), high)?
            }
            (_, Encoding::Seen) => vec![u8::from(words[at] != 0)],
            (_, Encoding::Row { last }) => {
                let row = row_of(words[at], last).unwrap_or_default() as u64;
                row.to_le_bytes().to_vec()
            }
            (_, Encoding::WideOrdered { minimum }) => {
                let mapped = wide(words, at);
                let flipped = if minimum { !mapped } else { mapped };
                (flipped ^ i128::MIN).to_le_bytes().to_vec()
            }
            (DataType::Decimal128(_, _), Encoding::Ordered { .. }) => {
                i128::from(self.decode(words[at]) as i64)
                    .to_le_bytes()
                    .to_vec()
            }
            (DataType::Decimal128(_, _), _) => wide(words, at).to_le_bytes().to_vec(),
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

    /// The bytes of the sum of `low` and of `high` words, if the type holds it.
    fn checked_sum(&self, low: i128, high: i128) -> Result<Vec<u8>, Error> {
        let overflow = Error::Arithmetic(ArithmeticError::Overflow);
        let carried = high + (low >> 64);
        let Ok(high) = i64::try_from(carried) else {
            return Err(overflow);
        };
        let sum = i128::from(high) << 64 | low & i128::from(u64::MAX);
        let bytes = match self.field.data_type() {
            DataType::Int64 => i64::try_from(sum).ok().map(|v| v.to_le_bytes().to_vec()),
            DataType::UInt64 => u64::try_from(sum).ok().map(|v| v.to_le_bytes().to_vec()),
            DataType::Decimal128(precision, _) => {
                let most = 10i128.pow((*precision).into());
                (sum > -most && sum < most).then(|| sum.to_le_bytes().to_vec())
            }
            _ => None,
        };
        bytes.ok_or(overflow)
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

/// The 128-bit integer at `words[at]` and after.
fn wide(words: &[u64], at: usize) -> i128 {
    i128::from(words[at]) | i128::from(words[at + 1]) << 64
}

/// The inverse of the floats' order-preserving map, with the sign at bit `sign`.
fn unorder(mapped: u64, sign: u32) -> u64 {
    match mapped >> sign & 1 {
        1 => mapped ^ (1 << sign),
        _ => !mapped,
    }
}
