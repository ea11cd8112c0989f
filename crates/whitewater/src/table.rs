//! Batches and tables in GPU memory.

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use std::sync::Arc;
use whitewater_gpu::{Buffer, Device};

use crate::{
    Error,
    column::{Column, Storage},
    expr::Expr,
};

/// Columns of equal length on one device.
#[derive(Clone, Debug)]
pub struct Batch {
    pub schema: SchemaRef,
    pub columns: Vec<Column>,
    pub rows: usize,
}

impl Batch {
    /// Copies `batch` to the device. View types arrive as their plain kin (`Utf8View` as `Utf8`),
    /// and the batch's schema says so; nested types are [`Error::Unsupported`].
    pub fn upload(device: &Device, batch: &RecordBatch) -> Result<Self, Error> {
        let columns = batch
            .columns()
            .iter()
            .map(|array| Column::upload(device, &plain(array)?))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Self {
            schema: plain_schema(&batch.schema()),
            columns,
            rows: batch.num_rows(),
        })
    }

    /// Waits for the batch and copies it to the host.
    pub fn download(&self) -> Result<RecordBatch, Error> {
        let arrays = self
            .columns
            .iter()
            .map(Column::download)
            .collect::<Result<Vec<_>, Error>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            arrays,
            &options,
        )?)
    }

    /// The columns at `indices`, sharing their buffers.
    pub fn project(&self, indices: &[usize]) -> Result<Self, Error> {
        Ok(Self {
            schema: Arc::new(self.schema.project(indices)?),
            columns: indices.iter().map(|i| self.columns[*i].clone()).collect(),
            rows: self.rows,
        })
    }

    /// All columns as they are, as what an operator is to give.
    pub(crate) fn outputs(&self) -> Vec<(Expr, Field)> {
        let fields = self.schema.fields().iter().enumerate();
        fields
            .map(|(i, field)| (Expr::column(i), field.as_ref().clone()))
            .collect()
    }

    /// Bytes of device memory that the columns hold.
    pub fn device_bytes(&self) -> u64 {
        self.columns.iter().map(Column::device_bytes).sum()
    }
}

/// Columns of `rows` u32 words, never null.
pub(crate) fn u32_columns<'a>(columns: impl IntoIterator<Item = &'a Buffer>, rows: usize) -> Batch {
    let columns = columns.into_iter().map(|words| Column {
        data_type: DataType::UInt32,
        len: rows,
        validity: None,
        data: Storage::Fixed(words.clone()),
    });
    let columns: Vec<Column> = columns.collect();
    let field = |i| Field::new(format!("column{i}"), DataType::UInt32, false);
    Batch {
        schema: Arc::new(Schema::new(
            (0..columns.len()).map(field).collect::<Vec<_>>(),
        )),
        columns,
        rows,
    }
}

/// The type that a column of `data_type` has on the device.
pub fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}

/// `schema` with the types that its columns have on the device.
pub fn plain_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            field
                .as_ref()
                .clone()
                .with_data_type(plain_type(field.data_type()))
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn plain(array: &ArrayRef) -> Result<ArrayRef, Error> {
    let to = plain_type(array.data_type());
    Ok(match &to == array.data_type() {
        true => array.clone(),
        false => cast(array, &to)?,
    })
}

/// A table: batches of one schema, so that it may hold more rows than one batch can.
#[derive(Clone, Debug)]
pub struct Table {
    pub schema: SchemaRef,
    pub batches: Vec<Batch>,
}

impl Table {
    /// Uploads `batches`, joined to batches of at most `batch_rows` rows.
    pub fn upload(
        device: &Device,
        schema: &SchemaRef,
        batches: impl IntoIterator<Item = RecordBatch>,
        batch_rows: usize,
    ) -> Result<Self, Error> {
        let mut uploaded = Vec::new();
        let mut pending: Vec<RecordBatch> = Vec::new();
        let mut rows = 0;
        let mut flush = |pending: &mut Vec<RecordBatch>| -> Result<(), Error> {
            let joined = concat_batches(schema, pending.iter())?;
            pending.clear();
            uploaded.push(Batch::upload(device, &joined)?);
            Ok(())
        };
        for batch in batches {
            if rows + batch.num_rows() > batch_rows && rows > 0 {
                flush(&mut pending)?;
                rows = 0;
            }
            rows += batch.num_rows();
            pending.push(batch);
        }
        if rows > 0 {
            flush(&mut pending)?;
        }
        Ok(Self {
            schema: plain_schema(schema),
            batches: uploaded,
        })
    }

    /// Rows of all batches.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.rows as u64).sum()
    }
}
