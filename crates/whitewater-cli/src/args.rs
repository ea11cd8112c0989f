//! The command line.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{Error, device::DeviceChoice};

/// SQL and DataFrames on the GPU.
#[derive(Debug, Parser)]
#[command(name = "whitewater", version, about, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL over Parquet, CSV, JSON lines and Arrow IPC files or folders.
    Sql(SqlOptions),
    /// List the devices: what each can do, or why it cannot be used.
    Devices,
    /// Measure kernels and queries; one JSON line a case.
    Bench(BenchOptions),
    /// Run TPC-H Q1 and Q6 on generated data, on the best device and on the CPU.
    Demo(DemoOptions),
    /// Write the TPC-H tables as Parquet files.
    Tpch(TpchOptions),
}

#[derive(Debug, Args)]
pub struct DeviceOption {
    /// Where queries run: auto, cuda, vulkan, metal, dx12, software or cpu.
    #[arg(
        short,
        long,
        value_name = "DEVICE",
        env = "WHITEWATER_DEVICE",
        default_value = "auto"
    )]
    pub device: DeviceChoice,
}

#[derive(Debug, Args)]
pub struct SqlOptions {
    #[command(flatten)]
    pub device: DeviceOption,
    /// A file or a folder to query under NAME; may be repeated.
    #[arg(short, long = "table", value_name = "NAME=PATH")]
    pub tables: Vec<TableArgument>,
    /// How results are printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Print the plan of each query instead of its rows: what runs where, and why.
    #[arg(long)]
    pub explain: bool,
    /// Run each query and print its plan with rows, bytes and times.
    #[arg(long)]
    pub analyze: bool,
    /// Read the statements from a file.
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    pub file: Option<PathBuf>,
    /// Most bytes of GPU memory to use, such as 512M or 8G.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory_budget: Option<u64>,
    /// Statements, separated by ';'; read from standard input where neither they nor a file is given.
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table with borders, for reading.
    Table,
    /// Comma-separated values with a header.
    Csv,
    /// An array of objects, one a row.
    Json,
}

#[derive(Debug, Args)]
pub struct BenchOptions {
    #[command(flatten)]
    pub device: DeviceOption,
    /// Run one suite only.
    #[arg(long, value_name = "NAME")]
    pub suite: Option<String>,
    /// Rows of a case, instead of the number that the recorded peers used.
    #[arg(long, value_name = "N", value_parser = parse_rows)]
    pub rows: Option<u64>,
    /// Compare with recorded results: JSON lines with "case" and "ms".
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DemoOptions {
    #[command(flatten)]
    pub device: DeviceOption,
    /// TPC-H scale factor; 1 is six million rows.
    #[arg(long, value_name = "FACTOR", default_value = "0.1", value_parser = parse_scale)]
    pub scale: f64,
}

#[derive(Debug, Args)]
pub struct TpchOptions {
    /// TPC-H scale factor; 1 is about a gigabyte of text.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_scale)]
    pub scale: f64,
    /// The folder for the files, one a table.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Write only these tables.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub tables: Vec<String>,
}

/// A `NAME=PATH` of `--table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableArgument {
    pub name: String,
    pub path: PathBuf,
}

impl FromStr for TableArgument {
    type Err = Error;

    fn from_str(argument: &str) -> Result<Self, Error> {
        match argument.split_once('=') {
            Some((name, path)) if !name.trim().is_empty() && !path.is_empty() => Ok(Self {
                name: name.trim().into(),
                path: path.into(),
            }),
            _ => Err(Error::TableArgument),
        }
    }
}

/// Bytes of a figure with an optional K, M, G or T (powers of 1024).
fn parse_bytes(figure: &str) -> Result<u64, String> {
    let bad = || format!("'{figure}' is no number of bytes, such as 512M or 8G");
    let number = figure.trim_end_matches(['B', 'b', 'i']);
    let (digits, shift) = match number.chars().last().map(|c| c.to_ascii_uppercase()) {
        Some('K') => (&number[..number.len() - 1], 10),
        Some('M') => (&number[..number.len() - 1], 20),
        Some('G') => (&number[..number.len() - 1], 30),
        Some('T') => (&number[..number.len() - 1], 40),
        _ => (number, 0),
    };
    let value: u64 = digits.parse().map_err(|_| bad())?;
    value.checked_mul(1 << shift).ok_or_else(bad)
}

fn parse_rows(figure: &str) -> Result<u64, String> {
    match figure.replace('_', "").parse() {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err(format!("'{figure}' is no positive number of rows")),
    }
}

fn parse_scale(figure: &str) -> Result<f64, String> {
    match figure.parse::<f64>() {
        Ok(scale) if scale.is_finite() && scale > 0.0 => Ok(scale),
        _ => Err(format!("'{figure}' is no positive scale factor")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_suffixes() {
        assert_eq!(parse_bytes("12"), Ok(12));
        assert_eq!(parse_bytes("8G"), Ok(8 << 30));
        assert_eq!(parse_bytes("3MiB"), Ok(3 << 20));
        assert!(parse_bytes("x").is_err());
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("99999999999T").is_err());
    }

    #[test]
    fn tables_need_name_and_path() {
        let table: TableArgument = "a=b=c".parse().unwrap();
        assert_eq!((table.name.as_str(), table.path), ("a", "b=c".into()));
        for bad in ["", "a", "=b", "a=", " =b"] {
            assert!(bad.parse::<TableArgument>().is_err(), "{bad}");
        }
    }
}
