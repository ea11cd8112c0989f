//! How arrow's types look on the device: the scalar a value has in a kernel, and the array it lies in.

use arrow::datatypes::{DataType, TimeUnit};

/// The type of a value in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceType {
    Bool,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// `I128 { lo, hi }` of `package::kernels::int128`.
    I128,
}

impl DeviceType {
    /// The type of values of `data_type`, or none if kernels have no such values.
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => DeviceType::Bool,
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Date32
            | DataType::Time32(TimeUnit::Second | TimeUnit::Millisecond) => DeviceType::I32,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DeviceType::U32,
            DataType::Int64
            | DataType::Date64
            | DataType::Timestamp(_, _)
            | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
            | DataType::Duration(_) => DeviceType::I64,
            DataType::UInt64 => DeviceType::U64,
            DataType::Float32 => DeviceType::F32,
            DataType::Float64 => DeviceType::F64,
            DataType::Decimal128(_, _) => DeviceType::I128,
            _ => return None,
        })
    }

    /// The name in WGSL.
    pub fn name(self) -> &'static str {
        match self {
            DeviceType::Bool => "bool",
            DeviceType::I32 => "i32",
            DeviceType::U32 => "u32",
            DeviceType::I64 => "i64",
            DeviceType::U64 => "u64",
            DeviceType::F32 => "f32",
            DeviceType::F64 => "f64",
            DeviceType::I128 => "I128",
        }
    }

    /// Bytes of a value in registers.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            DeviceType::Bool | DeviceType::I32 | DeviceType::U32 | DeviceType::F32 => 4,
            DeviceType::I64 | DeviceType::U64 | DeviceType::F64 => 8,
            DeviceType::I128 => 16,
        }
    }

    /// A zero of this type.
    pub fn zero(self) -> &'static str {
        match self {
            DeviceType::Bool => "false",
            DeviceType::I32 => "0i",
            DeviceType::U32 => "0u",
            DeviceType::I64 => "0li",
            DeviceType::U64 => "0lu",
            DeviceType::F32 => "0.0f",
            DeviceType::F64 => "0.0lf",
            DeviceType::I128 => "I128(0lu, 0lu)",
        }
    }
}

/// How a column's data buffer is declared and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Bit-packed booleans.
    Bits,
    /// Bytes or halves in words: the function of `package::kernels::bits`, and log2 of fields a word.
    Packed(&'static str, u32),
    /// One array element a row.
    Plain(DeviceType),
    /// A decimal as two words.
    Wide,
}

impl Storage {
    pub(crate) fn of(data_type: &DataType, packed: bool) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Storage::Bits,
            DataType::Int8 => Storage::Packed("byte_i32", 2),
            DataType::UInt8 => Storage::Packed("byte_u32", 2),
            DataType::Int16 => Storage::Packed("half_i32", 1),
            DataType::UInt16 => Storage::Packed("half_u32", 1),
            DataType::Decimal128(_, _) if packed => Storage::Plain(DeviceType::I64),
            DataType::Decimal128(_, _) => Storage::Wide,
            other => Storage::Plain(DeviceType::of(other)?),
        })
    }

    /// The element type of the buffer's array.
    pub(crate) fn element(self) -> &'static str {
        match self {
            Storage::Bits | Storage::Packed(_, _) => "u32",
            Storage::Plain(device) => device.name(),
            Storage::Wide => "vec2<u64>",
        }
    }
}

/// The width in bits, and signedness, of an integer or temporal type.
pub(crate) fn integer_width(data_type: &DataType) -> Option<(u32, bool)> {
    Some(match data_type {
        DataType::Int8 => (8, true),
        DataType::Int16 => (16, true),
        DataType::UInt8 => (8, false),
        DataType::UInt16 => (16, false),
        other => match DeviceType::of(other)? {
            DeviceType::I32 => (32, true),
            DeviceType::U32 => (32, false),
            DeviceType::I64 => (64, true),
            DeviceType::U64 => (64, false),
            _ => return None,
        },
    })
}

/// The least and greatest integer of `data_type`, an integer or temporal type.
pub(crate) fn integer_range(data_type: &DataType) -> Option<(i128, i128)> {
    let (width, signed) = integer_width(data_type)?;
    Some(if signed {
        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    })
}
