//! Errors of registering and running.

use std::path::PathBuf;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use whitewater::expr::ArithmeticError;

/// Why a table was not registered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: no such file or folder", .0.display())]
    Missing(PathBuf),
    #[error("{}: the folder holds no data file", .0.display())]
    Empty(PathBuf),
    #[error("{}: '{extension}' is none of parquet, csv, json, jsonl, ndjson, arrow, feather, ipc", path.display())]
    Extension { path: PathBuf, extension: String },
    #[error("{}: the folder mixes {first} and {second} files", path.display())]
    Mixed {
        path: PathBuf,
        first: String,
        second: String,
    },
    #[error("{}: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
}

/// The error that the CPU would have given.
pub(crate) fn arithmetic(error: ArithmeticError) -> DataFusionError {
    let error = match error {
        ArithmeticError::DivideByZero => ArrowError::DivideByZero,
        ArithmeticError::Overflow => {
            ArrowError::ArithmeticOverflow("Overflow happened in an arithmetic operation".into())
        }
        ArithmeticError::Cast => {
            ArrowError::CastError("Can't cast a value to the target type: out of range".into())
        }
    };
    DataFusionError::ArrowError(Box::new(error), None)
}

/// An engine error that ends the query.
pub(crate) fn fatal(error: whitewater::Error) -> DataFusionError {
    match error {
        whitewater::Error::Arithmetic(error) => arithmetic(error),
        other => DataFusionError::External(Box::new(other)),
    }
}
