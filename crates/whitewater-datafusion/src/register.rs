//! Files and folders as tables.

use std::path::{Path, PathBuf};

use datafusion::{
    execution::{context::SessionContext, options::ArrowReadOptions},
    prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions},
};

use crate::Error;

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Parquet,
    Csv,
    Json,
    Arrow,
}

/// The extension of `path` and the format that it stands for.
fn format_of(path: &Path) -> Option<(String, Format)> {
    let extension = path.extension()?.to_str()?.to_string();
    let format = match extension.to_ascii_lowercase().as_str() {
        "parquet" | "pq" => Format::Parquet,
        "csv" => Format::Csv,
        "json" | "jsonl" | "ndjson" => Format::Json,
        "arrow" | "feather" | "ipc" => Format::Arrow,
        _ => return None,
    };
    Some((extension, format))
}

/// The format of a file, or the one format of all data files of a folder.
fn find_format(path: &Path) -> Result<(String, Format), Error> {
    if !path.exists() {
        return Err(Error::Missing(path.into()));
    }
    if !path.is_dir() {
        return format_of(path).ok_or_else(|| Error::Extension {
            path: path.into(),
            extension: path
                .extension()
                .map(|e| e.to_string_lossy().into_owned())
                .unwrap_or_default(),
        });
    }
    let unreadable = |error: std::io::Error| Error::Read {
        path: path.into(),
        reason: error.to_string(),
    };
    let mut found: Option<(String, Format)> = None;
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let Some(this) = format_of(&entry.map_err(unreadable)?.path()) else {
            continue;
        };
        match &found {
            Some(first) if first.0 != this.0 => {
                return Err(Error::Mixed {
                    path: path.into(),
                    first: first.0.clone(),
                    second: this.0,
                });
            }
            _ => found = Some(this),
        }
    }
    found.ok_or_else(|| Error::Empty(path.into()))
}

/// Registers the file or folder at `path` as table `name`; the extension tells the format.
///
/// A file that cannot be read, or whose schema cannot, is an error that names the path.
pub async fn register_path(ctx: &SessionContext, name: &str, path: &Path) -> Result<(), Error> {
    let (extension, format) = find_format(path)?;
    let extension = format!(".{extension}");
    let absolute: PathBuf = path.canonicalize().map_err(|error| Error::Read {
        path: path.into(),
        reason: error.to_string(),
    })?;
    let mut text = absolute.to_string_lossy().into_owned();
    if absolute.is_dir() {
        text.push('/');
    }
    let registered = match format {
        Format::Parquet => {
            let options = ParquetReadOptions::default().file_extension(&extension);
            ctx.register_parquet(name, text, options).await
        }
        Format::Csv => {
            let options = CsvReadOptions::new().file_extension(&extension);
            ctx.register_csv(name, text, options).await
        }
        Format::Json => {
            let options = JsonReadOptions::default().file_extension(&extension);
            ctx.register_json(name, text, options).await
        }
        Format::Arrow => {
            let options = ArrowReadOptions {
                file_extension: &extension,
                ..Default::default()
            };
            ctx.register_arrow(name, &text, options).await
        }
    };
    registered.map_err(|error| Error::Read {
        path: path.into(),
        reason: error.strip_backtrace(),
    })
}
