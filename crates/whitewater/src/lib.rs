//! Whitewater: a GPU DataFrame engine. Arrow columns in GPU memory, every operator a kernel.
//!
//! ```text
//! RecordBatch ──upload──▶ Batch ──operators──▶ Batch ──download──▶ RecordBatch
//!                           │
//!          expressions are compiled into the operator's kernel (`expr`)
//! ```
//!
//! Answers equal DataFusion's on the CPU. What the GPU cannot do is [`Error::Unsupported`] with a
//! name, never a wrong or partial answer.

pub mod aggregate;
pub mod bitmask;
pub mod column;
mod error;
pub mod expr;
pub mod gather;
pub mod groupby;
pub mod join;
pub mod kernels;
mod keys;
mod params;
pub mod partition;
mod pipeline;
mod ragged;
pub mod scan;
pub mod select;
pub mod sort;
pub mod table;
pub mod window;

pub use column::{Column, Storage};
pub use error::Error;
pub use table::{Batch, Table};
pub use whitewater_gpu as gpu;
