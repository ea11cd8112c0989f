//! Files and folders as tables.

use std::path::{Path, PathBuf};

use datafusion::{
    error::DataFusionError,
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

/// The data files of a folder, its folders included, in order; hidden ones and those of no known
/// format are none.
fn data_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            files.extend(data_files(&path)?);
        } else if format_of(&path).is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The files at `path` with their one extension and format.
fn find_files(path: &Path) -> Result<(Vec<PathBuf>, String, Format), Error> {
    if !path.exists() {
        return Err(Error::Missing(path.into()));
    }
    let files = match path.is_dir() {
        true => data_files(path).map_err(|error| unreadable(path, error))?,
        false => vec![path.into()],
    };
    let mut found: Option<(String, Format)> = None;
    for file in &files {
        let this = format_of(file).ok_or_else(|| Error::Extension {
            path: path.into(),
            extension: file
                .extension()
                .map(|e| e.to_string_lossy().into_owned())
                .unwrap_or_default(),
        })?;
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
    let (extension, format) = found.ok_or_else(|| Error::Empty(path.into()))?;
    Ok((files, extension, format))
}

fn unreadable(path: &Path, reason: impl ToString) -> Error {
    Error::Read {
        path: path.into(),
        reason: reason.to_string(),
    }
}

/// Registers the file or folder at `path` as table `name`; the extension tells the format.
///
/// A file that cannot be read, or whose schema cannot, is an error that names the file.
pub async fn register_path(ctx: &SessionContext, name: &str, path: &Path) -> Result<(), Error> {
    let (files, extension, format) = find_files(path)?;
    for file in &files {
        // DataFusion passes empty files over, but no Parquet or Arrow file is one.
        let length = file
            .metadata()
            .map_err(|error| unreadable(file, error))?
            .len();
        if length == 0 {
            return Err(unreadable(file, "the file is empty"));
        }
    }
    let Err(error) = register(ctx, name, path, &extension, format).await else {
        return Ok(());
    };
    // Of several files, the one at fault is to be named.
    if path.is_dir() {
        for file in &files {
            let alone = SessionContext::new();
            if let Err(error) = register(&alone, name, file, &extension, format).await {
                return Err(unreadable(file, one_line(&error)));
            }
        }
    }
    Err(unreadable(path, one_line(&error)))
}

/// The message of an error on one line, without what DataFusion adds for its developers.
fn one_line(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

async fn register(
    ctx: &SessionContext,
    name: &str,
    path: &Path,
    extension: &str,
    format: Format,
) -> Result<(), DataFusionError> {
    let extension = format!(".{extension}");
    let absolute = path.canonicalize()?;
    let mut text = absolute.to_string_lossy().into_owned();
    if absolute.is_dir() {
        text.push('/');
    }
    match format {
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
    }
}
