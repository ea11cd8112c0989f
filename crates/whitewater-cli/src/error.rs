//! Errors of the command, each told in one line.

use std::{io, path::PathBuf};

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use whitewater::gpu;

/// Why the command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("write NAME=PATH")]
    TableArgument,
    #[error("table '{0}' is given twice")]
    TableTwice(String),
    #[error("table '{name}': {source}")]
    Table {
        name: String,
        source: whitewater_datafusion::Error,
    },
    #[error("table '{name}': {}: the file is empty", path.display())]
    TableEmpty { name: String, path: PathBuf },
    #[error("no SQL: give it as an argument, with --file FILE, or on standard input")]
    NoSql,
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("standard input: {0}")]
    Input(io::Error),
    #[error("standard output: {0}")]
    Output(io::Error),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error(transparent)]
    Device(#[from] gpu::Error),
    #[error(transparent)]
    Engine(#[from] whitewater::Error),
    #[error(transparent)]
    Query(#[from] DataFusionError),
    /// A query that failed while it read these tables.
    #[error("{source} (reading {tables})")]
    Reading {
        source: DataFusionError,
        tables: String,
    },
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    #[error("results cannot be printed: {0}")]
    Print(ArrowError),
    #[error("{query}: the answers of {device} and of the CPU differ: {difference}")]
    Disagreement {
        query: String,
        device: String,
        difference: String,
    },
    #[error("bench runs on a GPU: choose --device auto, cuda, vulkan, metal, dx12 or software")]
    BenchNeedsGpu,
    #[error("unknown suite '{name}': there are {known}")]
    UnknownSuite { name: String, known: String },
    #[error("unknown TPC-H table '{name}': there are {known}")]
    UnknownTable { name: String, known: String },
    #[error("{}: line {line}: {reason}", path.display())]
    Recorded {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    #[error("{case}: {reason}")]
    Case { case: String, reason: String },
}

impl Error {
    /// The message in one line.
    pub fn line(&self) -> String {
        match self {
            Error::Query(DataFusionError::SQL(parser, _)) => one_line(&parser.to_string()),
            other => one_line(&other.to_string()),
        }
    }

    /// True where the reader of standard output went away, which is no failure.
    pub fn is_closed_pipe(&self) -> bool {
        let source = match self {
            Error::Output(source) => source,
            Error::Print(ArrowError::IoError(_, source)) => source,
            _ => return false,
        };
        source.kind() == io::ErrorKind::BrokenPipe
    }
}

/// A message of several lines as one.
pub fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).filter(|l| !l.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// What is wrong with the command line, in one line: clap's message without usage and tips.
pub fn usage_line(error: &clap::Error) -> String {
    use clap::error::ErrorKind;
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no command: try 'whitewater --help'".into();
    }
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    one_line(message.trim_start_matches("error: "))
}
