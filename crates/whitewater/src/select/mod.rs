//! Choosing and computing rows: filter and projection in fused kernels.

mod evaluate;
mod filter;
pub(crate) mod output;

pub(crate) use evaluate::{Rows, copy_rows, wide_decimals};
pub use filter::{check, drop_nulls, filter_project};
pub(crate) use filter::{map_of_mask, rows_with_values};
