//! Strings and bytes, whose values have no fixed width: which types they are, and their columns as keys.

use std::fmt::{self, Write};

use arrow::datatypes::DataType;
use whitewater_gpu::Buffer;

use crate::{
    Batch, Column, Storage,
    expr::{DeviceType, Expr},
};

/// Bind group of the buffers of string keys.
pub(crate) const KEY_GROUP: u32 = 3;

/// Whether values of `data_type` are strings or bytes.
pub(crate) fn is_ragged(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Binary) || has_long_offsets(data_type)
}

/// Whether offsets of `data_type` have 64 bits.
pub(crate) fn has_long_offsets(data_type: &DataType) -> bool {
    matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary)
}

/// Whether rows can be told apart by `expr`, whose values are of `data_type`: those of fixed width, and plain
/// columns of strings or bytes.
pub(crate) fn can_be_key(expr: &Expr, data_type: &DataType) -> bool {
    let plain = matches!(expr, Expr::Column { .. });
    (plain && is_ragged(data_type)) || DeviceType::of(data_type).is_some()
}

/// The index of the string or binary column that `expr` is.
pub(crate) fn ragged_column(expr: &Expr, batch: &Batch) -> Option<usize> {
    match expr {
        Expr::Column { index } => {
            matches!(batch.columns.get(*index)?.data, Storage::Bytes { .. }).then_some(*index)
        }
        _ => None,
    }
}

/// A string or binary column as a key.
#[derive(Clone)]
pub(crate) struct RaggedKey {
    /// Offsets, bytes, and where it has one the validity; bound in this order.
    pub(crate) buffers: Vec<Buffer>,
    large: bool,
    /// Length in bytes of the longest value.
    pub(crate) longest: u64,
}

impl RaggedKey {
    /// The key that `column` is; none if it is of another storage.
    pub(crate) fn of(column: &Column) -> Option<Self> {
        let Storage::Bytes {
            offsets,
            bytes,
            longest,
        } = &column.data
        else {
            return None;
        };
        let mut buffers = vec![offsets.clone(), bytes.clone()];
        buffers.extend(column.validity.clone());
        Some(Self {
            buffers,
            large: has_long_offsets(&column.data_type),
            longest: *longest,
        })
    }

    pub(crate) fn nullable(&self) -> bool {
        self.buffers.len() == 3
    }

    /// Declares `offsets{index}`, `bytes{index}` and `validity{index}` from `binding` on, and gives the
    /// condition for `row` not being null.
    pub(crate) fn declare(
        &self,
        text: &mut String,
        index: usize,
        binding: usize,
    ) -> Result<String, fmt::Error> {
        let offset = if self.large { "u64" } else { "u32" };
        let names = [("offsets", offset), ("bytes", "u32"), ("validity", "u32")];
        for (i, (name, element)) in names.into_iter().take(self.buffers.len()).enumerate() {
            writeln!(
                text,
                "@group({KEY_GROUP}) @binding({}) var<storage, read> {name}{index}: array<{element}>;",
                binding + i
            )?;
        }
        Ok(match self.nullable() {
            true => format!("((validity{index}[row / 32u] >> (row % 32u)) & 1u) != 0u"),
            false => "true".into(),
        })
    }
}
