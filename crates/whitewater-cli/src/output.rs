//! Results on standard output, whole or not at all.

use std::io::{self, Write};

use arrow::{
    array::RecordBatch, csv, datatypes::SchemaRef, error::ArrowError, json,
    util::pretty::pretty_format_batches_with_schema,
};

use crate::{Error, Result, args::Format};

/// The text of one result in `format`.
pub fn render(format: Format, schema: SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    match format {
        Format::Table => table(schema, batches),
        Format::Csv => comma_separated(&schema, batches),
        Format::Json => array_of_objects(batches),
    }
    .map_err(Error::Print)
}

fn table(schema: SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut text = pretty_format_batches_with_schema(schema, batches)?.to_string();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    text += &format!("\n{rows} row{}\n", if rows == 1 { "" } else { "s" });
    Ok(text.into_bytes())
}

fn comma_separated(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut text = Vec::new();
    let mut writer = csv::WriterBuilder::new().with_header(true).build(&mut text);
    // The header is written with the first batch, so there is always one.
    writer.write(&RecordBatch::new_empty(schema.clone()))?;
    for batch in batches {
        writer.write(batch)?;
    }
    drop(writer);
    Ok(text)
}

/// `[{...},` and so on: one array, a row a line.
fn array_of_objects(batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut lines = Vec::new();
    let mut writer = json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, json::writer::LineDelimited>(&mut lines);
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    drop(writer);
    let mut text = vec![b'['];
    // A line break inside a string is escaped, so lines are rows.
    for (row, line) in lines.split(|b| *b == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        if row > 0 {
            text.extend_from_slice(b",\n ");
        }
        text.extend_from_slice(line);
    }
    text.extend_from_slice(b"]\n");
    Ok(text)
}

/// Writes `text` to standard output and flushes it.
pub fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}
