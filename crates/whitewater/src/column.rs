//! Columns in GPU memory, in arrow's layout.
//!
//! ```text
//! Column = data type, length, validity bits (one a row, u32 words; absent if nothing is null), data
//! ```
//!
//! A column on the device starts at offset 0: uploading a slice copies the slice alone. Bytes under
//! nulls are kept, so a column comes back as it went.

use arrow::{
    array::{Array, ArrayData, ArrayRef, make_array},
    buffer::{BooleanBuffer, Buffer as HostBuffer, NullBuffer},
    datatypes::DataType,
};
use whitewater_gpu::{Buffer, Device};

use crate::Error;

/// The most rows of one column: row numbers are `u32` in kernels, with room for a stride past the end.
pub const MAX_ROWS: usize = u32::MAX as usize - (1 << 26);

/// A column of one batch.
#[derive(Clone, Debug)]
pub struct Column {
    pub data_type: DataType,
    pub len: usize,
    /// Bit `i` of the words is set where row `i` is not null; absent where no row is null. Bits past
    /// the last row are undefined.
    pub validity: Option<Buffer>,
    pub data: Storage,
}

/// The data buffers of a column.
#[derive(Clone, Debug)]
pub enum Storage {
    /// No data: the null type.
    None,
    /// Values of a fixed number of bytes, as arrow stores them.
    Fixed(Buffer),
    /// 128-bit decimals that all fit 64 bits, stored as `i64`: half the bytes to move. Every
    /// magnitude is below `2^bits`, which the compiler uses to keep arithmetic in 64 bits.
    Narrow { values: Buffer, bits: u32 },
    /// Booleans, bit-packed into u32 words.
    Bits(Buffer),
    /// Ragged bytes: `len + 1` offsets (`i32`, or `i64` for the large types), starting at 0.
    Bytes {
        offsets: Buffer,
        bytes: Buffer,
        /// Length in bytes of the longest value, nulls included.
        longest: u64,
    },
}

impl Column {
    /// Copies `array` to the device. Nested and dictionary types are [`Error::Unsupported`].
    pub fn upload(device: &Device, array: &ArrayRef) -> Result<Self, Error> {
        let len = array.len();
        if len > MAX_ROWS {
            return Err(Error::unsupported(format!("a column of {len} rows")));
        }
        let validity = match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => Some(upload_bits(device, nulls.inner())?),
            None => None,
        };
        let data_type = array.data_type().clone();
        let data = array.to_data();
        let storage = match &data_type {
            DataType::Null => Storage::None,
            DataType::Boolean => {
                let bits = BooleanBuffer::new(data.buffers()[0].clone(), data.offset(), len);
                Storage::Bits(upload_bits(device, &bits)?)
            }
            DataType::Utf8 | DataType::Binary => upload_bytes::<i32>(device, &data)?,
            DataType::LargeUtf8 | DataType::LargeBinary => upload_bytes::<i64>(device, &data)?,
            DataType::Decimal128(_, _) => upload_decimals(device, &data)?,
            other => {
                let Some(width) = other.primitive_width() else {
                    return Err(Error::unsupported(format!("a column of type {other}")));
                };
                let from = data.offset() * width;
                let bytes = &data.buffers()[0].as_slice()[from..from + len * width];
                Storage::Fixed(device.upload(bytes)?)
            }
        };
        Ok(Self {
            data_type,
            len,
            validity,
            data: storage,
        })
    }

    /// Waits for the column and copies it to the host.
    pub fn download(&self) -> Result<ArrayRef, Error> {
        let nulls = match &self.validity {
            Some(words) => Some(NullBuffer::new(download_bits(words, self.len)?)),
            None => None,
        };
        let builder = ArrayData::builder(self.data_type.clone())
            .len(self.len)
            .nulls(nulls.filter(|nulls| nulls.null_count() > 0));
        let builder = match &self.data {
            Storage::None => builder.nulls(None),
            Storage::Fixed(values) => builder.add_buffer(host(values.download()?)),
            Storage::Narrow { values, .. } => {
                let wide: Vec<i128> = values
                    .download_as::<i64>()?
                    .into_iter()
                    .map(i128::from)
                    .collect();
                builder.add_buffer(HostBuffer::from_vec(wide))
            }
            Storage::Bits(words) => {
                builder.add_buffer(download_bits(words, self.len)?.into_inner())
            }
            Storage::Bytes { offsets, bytes, .. } => builder
                .add_buffer(host(offsets.download()?))
                .add_buffer(host(bytes.download()?)),
        };
        Ok(make_array(builder.align_buffers(true).build()?))
    }

    /// Bytes of device memory that the column's buffers hold.
    pub fn device_bytes(&self) -> u64 {
        let data = match &self.data {
            Storage::None => 0,
            Storage::Fixed(buffer)
            | Storage::Narrow { values: buffer, .. }
            | Storage::Bits(buffer) => buffer.len(),
            Storage::Bytes { offsets, bytes, .. } => offsets.len() + bytes.len(),
        };
        data + self.validity.as_ref().map_or(0, Buffer::len)
    }
}

/// Bytes of the u32 words that hold `bits` bits.
pub(crate) fn bit_words_bytes(bits: usize) -> u64 {
    bits.div_ceil(32) as u64 * 4
}

fn upload_bits(device: &Device, bits: &BooleanBuffer) -> Result<Buffer, Error> {
    let aligned = bits.sliced();
    let mut words = aligned.as_slice()[..bits.len().div_ceil(8)].to_vec();
    words.resize(bit_words_bytes(bits.len()) as usize, 0);
    Ok(device.upload(&words)?)
}

fn download_bits(words: &Buffer, len: usize) -> Result<BooleanBuffer, Error> {
    Ok(BooleanBuffer::new(host(words.download()?), 0, len))
}

fn host(bytes: Vec<u8>) -> HostBuffer {
    HostBuffer::from_vec(bytes)
}

/// The values as `i64` where each fits, else as they are.
fn upload_decimals(device: &Device, data: &ArrayData) -> Result<Storage, Error> {
    let values = &data.buffers()[0].typed_data::<i128>()[data.offset()..][..data.len()];
    let narrow: Option<Vec<i64>> = values.iter().map(|v| i64::try_from(*v).ok()).collect();
    Ok(match narrow {
        Some(narrow) => {
            let greatest = narrow.iter().map(|v| v.unsigned_abs()).max().unwrap_or(0);
            Storage::Narrow {
                values: device.upload(bytemuck::cast_slice(&narrow))?,
                bits: u64::BITS - greatest.leading_zeros(),
            }
        }
        None => {
            let from = data.offset() * 16;
            let bytes = &data.buffers()[0].as_slice()[from..from + data.len() * 16];
            Storage::Fixed(device.upload(bytes)?)
        }
    })
}

/// Offsets of a slice rebased to 0, and the bytes between its first and last offset.
fn upload_bytes<O>(device: &Device, data: &ArrayData) -> Result<Storage, Error>
where
    O: arrow::array::OffsetSizeTrait + bytemuck::Pod,
{
    let offsets: Vec<O> = match data.buffers()[0].is_empty() {
        true => vec![O::zero()],
        false => data.buffers()[0].typed_data::<O>()[data.offset()..][..=data.len()].to_vec(),
    };
    let (first, last) = (offsets[0], offsets[data.len()]);
    let rebased: Vec<O> = offsets.iter().map(|o| *o - first).collect();
    let longest = rebased
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_usize() as u64)
        .max()
        .unwrap_or(0);
    let bytes = &data.buffers()[1].as_slice()[first.as_usize()..last.as_usize()];
    Ok(Storage::Bytes {
        offsets: device.upload(bytemuck::cast_slice(&rebased))?,
        bytes: device.upload(bytes)?,
        longest,
    })
}
