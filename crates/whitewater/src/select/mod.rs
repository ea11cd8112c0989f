//! Choosing and computing rows: filter and projection in fused kernels.

mod filter;
pub(crate) mod output;

pub(crate) use filter::{Rows, copy_rows, map_of_mask};
pub use filter::{check, filter_project};
