//! Whitewater under Apache DataFusion.
//!
//! ```text
//! SQL ─▶ DataFusion's physical plan ─▶ GpuRule ─▶  CPU nodes  (each with the reason why it is there)
//!                                                    └─ GpuExec: scan output to the GPU, filter,
//!                                                       project and aggregate in fused kernels
//! ```
//!
//! Device columns never travel inside record batches: a [`GpuExec`] takes ordinary batches (or those of
//! a [`GpuTable`], which are on the device already) and gives ordinary batches.

mod bounds;
mod error;
mod exec;
mod finish;
mod island;
mod join;
mod joining;
mod metrics;
mod on_cpu;
mod partitions;
mod register;
mod resident;
mod rows;
mod rule;
mod runner;
mod session;
mod translate;
mod upload;
mod window;

pub use error::Error;
pub use exec::GpuExec;
pub use on_cpu::OnCpuExec;
pub use register::register_path;
pub use resident::{GpuTable, GpuTableExec};
pub use rule::GpuRule;
pub use session::{OnOutOfMemory, SessionOptions, session};
