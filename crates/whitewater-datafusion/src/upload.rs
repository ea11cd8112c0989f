//! Host batches joined to what is uploaded together.
//!
//! ```text
//! partition 0 ─▶ ┐
//! partition 1 ─▶ ├─ in turn ─▶ joined up to the limits ─▶ one batch ahead of the device
//! partition 2 ─▶ ┘
//! ```
//!
//! Partitions are read at the same time, and their batches taken in turn: the order of the rows is the
//! same on every run. The host holds up to three joined batches.

use std::{collections::VecDeque, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch},
    compute::concat_batches,
    datatypes::DataType,
};
use datafusion::{
    common::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, stream::RecordBatchReceiverStreamBuilder,
    },
};
use futures::StreamExt;
use whitewater::gpu::DeviceInfo;

/// Batches that a partition may be ahead of the others.
const AHEAD: usize = 16;

/// What is uploaded together at most: rows, and bytes of one column of strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
}

impl Limits {
    /// `rows`, or fewer where a binding of the device holds no more values of 16 bytes.
    pub(crate) fn new(info: &DeviceInfo, rows: usize) -> Self {
        let bindable = usize::try_from(info.max_binding_bytes / 16).unwrap_or(usize::MAX);
        Self {
            rows: rows.min(bindable).max(1),
            bytes: info.max_binding_bytes.min(i32::MAX as u64),
        }
    }
}

/// The rows of all partitions of `source`, in batches as large as `limits` allow.
pub(crate) fn gather(
    source: &Arc<dyn ExecutionPlan>,
    limits: Limits,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = source.schema();
    let mut partitions = (0..source.output_partitioning().partition_count())
        .map(|partition| ahead(source.execute(partition, context.clone())?))
        .collect::<Result<VecDeque<_>>>()?;
    let mut builder = RecordBatchReceiverStreamBuilder::new(schema.clone(), 1);
    let joined = builder.tx();
    builder.spawn(async move {
        let mut pending = Pending::new(limits);
        while let Some(mut partition) = partitions.pop_front() {
            let Some(batch) = partition.next().await.transpose()? else {
                continue;
            };
            partitions.push_back(partition);
            for piece in pieces(batch, limits) {
                if !pending.has_room(&piece) {
                    let batch = concat_batches(&schema, &pending.take())?;
                    if joined.send(Ok(batch)).await.is_err() {
                        return Ok(());
                    }
                }
                pending.push(piece);
            }
        }
        if !pending.batches.is_empty() {
            let batch = concat_batches(&schema, &pending.take())?;
            // Nobody waits for it if the query has ended.
            let _ = joined.send(Ok(batch)).await;
        }
        Ok(())
    });
    Ok(builder.build())
}

/// `stream`, running ahead of who reads it.
fn ahead(mut stream: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
    let mut builder = RecordBatchReceiverStreamBuilder::new(stream.schema(), AHEAD);
    let sender = builder.tx();
    builder.spawn(async move {
        while let Some(batch) = stream.next().await {
            let failed = batch.is_err();
            if sender.send(batch).await.is_err() || failed {
                break;
            }
        }
        Ok::<_, DataFusionError>(())
    });
    Ok(builder.build())
}

/// Batches that wait to be joined.
struct Pending {
    limits: Limits,
    batches: Vec<RecordBatch>,
    rows: usize,
    /// Bytes of each column of strings.
    bytes: Vec<u64>,
}

impl Pending {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            batches: Vec::new(),
            rows: 0,
            bytes: Vec::new(),
        }
    }

    /// Whether `batch` fits beside what is there; always if nothing is.
    fn has_room(&self, batch: &RecordBatch) -> bool {
        let bytes = self.bytes.iter().zip(batch.columns());
        let fits =
            |(there, column): (&u64, &ArrayRef)| there + ragged_bytes(column) <= self.limits.bytes;
        self.batches.is_empty()
            || (self.rows + batch.num_rows() <= self.limits.rows && bytes.into_iter().all(fits))
    }

    fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes.resize(batch.num_columns(), 0);
        for (there, column) in self.bytes.iter_mut().zip(batch.columns()) {
            *there += ragged_bytes(column);
        }
        self.batches.push(batch);
    }

    fn take(&mut self) -> Vec<RecordBatch> {
        self.rows = 0;
        self.bytes.clear();
        std::mem::take(&mut self.batches)
    }
}

/// `batch` in slices that each fit the limits, as far as single rows do; nothing of an empty batch.
fn pieces(batch: RecordBatch, limits: Limits) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    let too_long = rows > limits.rows
        || (rows > 1
            && batch
                .columns()
                .iter()
                .any(|c| ragged_bytes(c) > limits.bytes));
    match rows {
        0 => Vec::new(),
        _ if !too_long => vec![batch],
        _ => {
            let first = limits.rows.min(rows / 2).max(1);
            let mut pieces = pieces(batch.slice(0, first), limits);
            pieces.extend(self::pieces(batch.slice(first, rows - first), limits));
            pieces
        }
    }
}

/// Bytes of the strings of `array`; 0 of other types, whose size follows from their rows.
fn ragged_bytes(array: &ArrayRef) -> u64 {
    fn between<O: OffsetSizeTrait>(offsets: &[O]) -> u64 {
        match offsets {
            [first, .., last] => (*last - *first).as_usize() as u64,
            _ => 0,
        }
    }
    // A view's low four bytes are the length.
    let viewed = |views: &[u128]| views.iter().map(|view| u64::from(*view as u32)).sum();
    match array.data_type() {
        DataType::Utf8 => between(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => between(array.as_string::<i64>().value_offsets()),
        DataType::Binary => between(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => between(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => viewed(array.as_string_view().views()),
        DataType::BinaryView => viewed(array.as_binary_view().views()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringArray};

    use super::*;

    fn batch(rows: usize, width: usize) -> RecordBatch {
        let text = StringArray::from_iter_values((0..rows).map(|_| "x".repeat(width)));
        let numbers = Int32Array::from_iter_values(0..rows as i32);
        let columns: [(_, ArrayRef); 2] = [("n", Arc::new(numbers)), ("s", Arc::new(text))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn pieces_keep_the_limits_and_the_order() {
        for (rows, limit, bytes) in [
            (1, 1, 10),
            (1000, 7, 1000),
            (1000, 1000, 50),
            (64, 64, 1 << 20),
        ] {
            let whole = batch(rows, 10);
            let limits = Limits { rows: limit, bytes };
            let parts = pieces(whole.clone(), limits);
            for part in &parts {
                assert!(part.num_rows() <= limit && ragged_bytes(part.column(1)) <= bytes);
            }
            assert_eq!(concat_batches(&whole.schema(), &parts).unwrap(), whole);
        }
        assert!(pieces(batch(0, 0), Limits { rows: 1, bytes: 1 }).is_empty());
    }

    #[test]
    fn a_row_over_the_limit_is_a_piece_of_its_own() {
        let limits = Limits { rows: 10, bytes: 5 };
        assert_eq!(pieces(batch(3, 10), limits).len(), 3);
    }

    #[test]
    fn ragged_bytes_are_those_of_the_slice() {
        let strings: ArrayRef = Arc::new(StringArray::from(vec![
            "ab",
            "",
            "żółw, and more than twelve",
        ]));
        let views = arrow::compute::cast(&strings, &DataType::Utf8View).unwrap();
        for array in [strings, views] {
            assert_eq!(ragged_bytes(&array.slice(0, 2)), 2);
            assert_eq!(
                ragged_bytes(&array),
                2 + "żółw, and more than twelve".len() as u64
            );
        }
    }
}
