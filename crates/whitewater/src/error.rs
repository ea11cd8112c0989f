//! Errors of the engine.

use crate::expr::{ArithmeticError, ExprError};

/// Why an operator gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device refused; the device stays usable unless it is lost.
    #[error(transparent)]
    Gpu(#[from] whitewater_gpu::Error),
    /// The GPU has no kernel for this; a planner runs it on the CPU.
    #[error("{what} is not on the GPU")]
    Unsupported { what: String },
    /// A row's value has no result, such as a division by zero.
    #[error("{0}")]
    Arithmetic(ArithmeticError),
    /// Row numbers that name no row.
    #[error("{outside} row numbers are out of range: there are {rows} rows")]
    OutOfRange { outside: usize, rows: usize },
    /// Arrow data that breaks arrow's own rules.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
}

impl Error {
    /// An [`Error::Unsupported`] that names `what`.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Error::Unsupported { what: what.into() }
    }
}

impl From<ExprError> for Error {
    fn from(error: ExprError) -> Self {
        match error {
            ExprError::Unsupported { what } => Error::Unsupported { what },
            ExprError::Invalid { what } => {
                Error::unsupported(format!("an expression that is wrong: {what}"))
            }
        }
    }
}
