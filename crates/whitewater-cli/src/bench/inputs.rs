//! Random columns on the device, the same on every run.

use std::{sync::Arc, thread};

use arrow::datatypes::{DataType, Field, Schema};
use whitewater::{
    Batch, Column, Storage,
    gpu::{Buffer, Device},
};

use crate::Result;

/// A number from the row, the column and nothing else (the finaliser of SplitMix64).
fn mix(row: u64, column: u64) -> u64 {
    let mut z = row
        .wrapping_add(column << 40)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `rows` values by row number, made on all cores.
fn fill<T: Copy + Default + Send + Sync>(rows: u64, value: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let mut values = vec![T::default(); rows as usize];
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = values.len().div_ceil(cores).max(1);
    thread::scope(|scope| {
        for (part, chunk) in values.chunks_mut(share).enumerate() {
            let value = &value;
            scope.spawn(move || {
                for (index, slot) in chunk.iter_mut().enumerate() {
                    *slot = value((part * share + index) as u64);
                }
            });
        }
    });
    values
}

/// Which key a row has, of those numbered from 0.
#[derive(Clone, Copy)]
pub enum KeyOf {
    /// Each of them this often, in no order.
    Each { times: u64 },
    /// Any of so many; the same one in every column of a batch.
    Random { among: u64 },
}

impl KeyOf {
    fn number(self, row: u64, rows: u64) -> u64 {
        // Coprime to the powers of ten that are row counts.
        const STEP: u64 = 7_368_787;
        const COLUMN: u64 = 1001;
        match self {
            KeyOf::Each { times } => (row * STEP % rows) % (rows / times).max(1),
            KeyOf::Random { among } => mix(row, COLUMN) % among,
        }
    }
}

/// A column in the making.
pub enum Input {
    /// 64-bit integers in `low..high`.
    Int64 { low: i64, high: i64 },
    /// Any 32-bit integer.
    Int32,
    /// A random number of a row (u32).
    Row,
    /// Keys of joins: 64-bit integers that differ where their numbers do, or 32-bit ones that may not.
    Key { of: KeyOf, narrow: bool },
    /// Doubles in `0.0..1.0`.
    Float64,
    /// Booleans, of which this share is true.
    Boolean { share: f64 },
}

impl Input {
    fn data_type(&self) -> DataType {
        match self {
            Input::Int64 { .. } | Input::Key { narrow: false, .. } => DataType::Int64,
            Input::Int32 | Input::Key { narrow: true, .. } => DataType::Int32,
            Input::Row => DataType::UInt32,
            Input::Float64 => DataType::Float64,
            Input::Boolean { .. } => DataType::Boolean,
        }
    }

    fn upload(&self, device: &Device, rows: u64, column: u64) -> Result<Storage> {
        let upload = |bytes: &[u8]| -> Result<Buffer> { Ok(device.upload(bytes)?) };
        Ok(match *self {
            Input::Int64 { low, high } => {
                let span = high.abs_diff(low);
                let values = fill(rows, |row| {
                    low.wrapping_add((mix(row, column) % span) as i64)
                });
                Storage::Fixed(upload(bytemuck::cast_slice(&values))?)
            }
            Input::Int32 => {
                let values = fill(rows, |row| mix(row, column) as i32);
                Storage::Fixed(upload(bytemuck::cast_slice(&values))?)
            }
            Input::Key { of, narrow } => {
                const COLUMN: u64 = 1002;
                let key = |row| mix(of.number(row, rows), COLUMN);
                match narrow {
                    true => {
                        let values = fill(rows, |row| key(row) as i32);
                        Storage::Fixed(upload(bytemuck::cast_slice(&values))?)
                    }
                    false => {
                        let values = fill(rows, |row| key(row) as i64);
                        Storage::Fixed(upload(bytemuck::cast_slice(&values))?)
                    }
                }
            }
            Input::Row => {
                let values = fill(rows, |row| (mix(row, column) % rows) as u32);
                Storage::Fixed(upload(bytemuck::cast_slice(&values))?)
            }
            Input::Float64 => {
                let values = fill(rows, |row| {
                    (mix(row, column) >> 11) as f64 / (1u64 << 53) as f64
                });
                Storage::Fixed(upload(bytemuck::cast_slice(&values))?)
            }
            Input::Boolean { share } => {
                let limit = (share * u64::MAX as f64) as u64;
                let words = fill(rows.div_ceil(32), |word| {
                    (0..32).fold(0u32, |bits, bit| {
                        bits | u32::from(mix(word * 32 + bit, column) < limit) << bit
                    })
                });
                Storage::Bits(upload(bytemuck::cast_slice(&words))?)
            }
        })
    }
}

/// A batch of columns named c0, c1, …, without nulls.
pub fn batch(device: &Device, rows: u64, inputs: &[Input]) -> Result<Batch> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        fields.push(Field::new(format!("c{index}"), input.data_type(), false));
        columns.push(Column {
            data_type: input.data_type(),
            len: rows as usize,
            validity: None,
            data: input.upload(device, rows, index as u64)?,
        });
    }
    Ok(Batch {
        schema: Arc::new(Schema::new(fields)),
        columns,
        rows: rows as usize,
    })
}
