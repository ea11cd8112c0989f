//! The work of a GPU node on the thread that drives the device.

use std::{sync::Arc, time::Instant};

use arrow::{
    array::{Array, ArrayRef, ListArray, RecordBatch, RecordBatchOptions, make_array},
    buffer::OffsetBuffer,
    compute::interleave,
    datatypes::{Field, FieldRef, Schema},
    error::ArrowError,
};
use whitewater::{
    Batch,
    aggregate::{Aggregation, Function, reduce},
    gather::{concat, slice},
    gpu::Device,
    groupby::group,
    select::filter_project,
    sort::sort,
    window::window,
};

use crate::{island::Work, metrics::Metrics};

/// Rows that an island gives.
pub(crate) enum Rows {
    Device(Batch),
    Host(RecordBatch),
}

/// What a run needs on the thread that drives the device.
pub(crate) struct Runner {
    pub(crate) device: Device,
    pub(crate) work: Work,
    pub(crate) metrics: Metrics,
}

impl Runner {
    pub(crate) fn upload(&self, batch: &RecordBatch) -> Result<Batch, whitewater::Error> {
        let started = Instant::now();
        let uploaded = Batch::upload(&self.device, batch)?;
        self.metrics.upload_time.add_elapsed(started);
        self.metrics
            .uploaded_bytes
            .add(uploaded.device_bytes() as usize);
        Ok(uploaded)
    }

    /// The island's rows of one batch, where it works on each alone.
    pub(crate) fn one(&self, batch: Batch) -> Result<Rows, whitewater::Error> {
        self.counted(|| match &self.work {
            Work::Aggregate(aggregation) if aggregation.needs_all_rows() => Ok(Rows::Device(batch)),
            Work::Aggregate(aggregation) if aggregation.keys.is_empty() => {
                Ok(Rows::Host(reduce(&self.device, &batch, aggregation)?))
            }
            Work::Aggregate(aggregation) => Ok(Rows::Host(self.groups(&batch, aggregation)?)),
            Work::Groups(aggregation, _) => {
                Ok(Rows::Device(group(&self.device, &batch, aggregation)?))
            }
            Work::Select { predicate, outputs } => Ok(Rows::Device(filter_project(
                &self.device,
                &batch,
                predicate.as_ref(),
                outputs,
            )?)),
            _ => Ok(Rows::Device(batch)),
        })
    }

    /// The island's rows, of what [`one`](Self::one) made of each batch.
    pub(crate) fn all(&self, rows: Vec<Rows>) -> Result<Vec<Rows>, whitewater::Error> {
        match &self.work {
            Work::Aggregate(aggregation) if aggregation.needs_all_rows() => self.counted(|| {
                let batch = concat(&self.device, &on_the_device(rows))?;
                Ok(vec![Rows::Host(match aggregation.keys.is_empty() {
                    true => reduce(&self.device, &batch, aggregation)?,
                    false => self.groups(&batch, aggregation)?,
                })])
            }),
            Work::Groups(_, finish) => self.counted(|| {
                let groups = finish.run(&self.device, &on_the_device(rows))?;
                Ok(vec![Rows::Device(groups)])
            }),
            Work::Sort { keys, fetch } => self.counted(|| {
                let batches = on_the_device(rows);
                let sorted = sort(&self.device, &concat(&self.device, &batches)?, keys, *fetch)?;
                Ok(vec![Rows::Device(sorted)])
            }),
            Work::Window {
                sort: keys,
                window: of,
            } => self.counted(|| {
                let mut batch = concat(&self.device, &on_the_device(rows))?;
                if !keys.is_empty() {
                    batch = sort(&self.device, &batch, keys, None)?;
                }
                Ok(vec![Rows::Device(window(&self.device, &batch, of)?)])
            }),
            Work::Limit { skip, fetch } => self.counted(|| {
                let (mut skip, mut left) = (*skip, fetch.unwrap_or(usize::MAX));
                let mut kept = Vec::new();
                for batch in on_the_device(rows) {
                    let part = slice(&self.device, &batch, skip, left)?;
                    skip = skip.saturating_sub(batch.rows);
                    left -= part.rows;
                    kept.push(Rows::Device(part));
                }
                Ok(kept)
            }),
            _ => Ok(rows),
        }
    }

    fn groups(
        &self,
        batch: &Batch,
        aggregation: &Aggregation,
    ) -> Result<RecordBatch, whitewater::Error> {
        let groups = self.download(&group(&self.device, batch, aggregation)?)?;
        Ok(partial_states(groups, aggregation)?)
    }

    /// Does `work`, and counts what it costs the device.
    pub(crate) fn counted<T>(
        &self,
        work: impl FnOnce() -> Result<T, whitewater::Error>,
    ) -> Result<T, whitewater::Error> {
        let before = self.device.profile()?;
        let result = work()?;
        self.metrics.add(&self.device.profile()?.since(&before));
        Ok(result)
    }

    fn download(&self, batch: &Batch) -> Result<RecordBatch, whitewater::Error> {
        self.device.synchronize()?;
        let started = Instant::now();
        let result = batch.download()?;
        self.metrics.download_time.add_elapsed(started);
        self.metrics
            .downloaded_bytes
            .add(batch.device_bytes() as usize);
        Ok(result)
    }

    pub(crate) fn on_the_host(&self, rows: Rows) -> Result<RecordBatch, whitewater::Error> {
        match rows {
            Rows::Device(batch) => self.download(&batch),
            Rows::Host(batch) => Ok(batch),
        }
    }
}

/// The batches that are on the device; an island that hands its rows on has no others.
pub(crate) fn on_the_device(rows: Vec<Rows>) -> Vec<Batch> {
    let batches = rows.into_iter().filter_map(|rows| match rows {
        Rows::Device(batch) => Some(batch),
        Rows::Host(_) => None,
    });
    batches.collect()
}

/// `groups` as DataFusion merges them: the count of an average is null where its sum is, since to its grouped average
/// a count says that the group has had values; the middle values of a median are a list.
fn partial_states(
    groups: RecordBatch,
    aggregation: &Aggregation,
) -> Result<RecordBatch, ArrowError> {
    let schema = groups.schema();
    let mut found = schema
        .fields()
        .iter()
        .cloned()
        .zip(groups.columns().iter().cloned());
    let keys = aggregation.keys.len();
    let mut columns: Vec<(FieldRef, ArrayRef)> = found.by_ref().take(keys).collect();
    for aggregate in &aggregation.aggregates {
        let width = match aggregate.function {
            Function::Median => 2,
            _ => aggregate.state.len(),
        };
        let mut state: Vec<_> = found.by_ref().take(width).collect();
        match (aggregate.function, state.as_mut_slice()) {
            (Function::Avg, [(_, count), (_, sum)]) => {
                let data = count.to_data().into_builder().nulls(sum.nulls().cloned());
                *count = make_array(data.build()?);
            }
            (Function::Median, [(_, lower), (_, upper)]) => {
                let list = known_values(lower, upper)?;
                let field = aggregate.state[0]
                    .clone()
                    .with_data_type(list.data_type().clone());
                state = vec![(Arc::new(field), Arc::new(list))];
            }
            _ => {}
        }
        columns.extend(state);
    }
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(groups.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

/// For each row the list of its values in `lower` and `upper` that are not null.
fn known_values(lower: &ArrayRef, upper: &ArrayRef) -> Result<ListArray, ArrowError> {
    let mut places = Vec::new();
    let mut lengths = Vec::new();
    for row in 0..lower.len() {
        let sides = [lower, upper].into_iter().enumerate();
        let known = sides.filter(|(_, side)| side.is_valid(row));
        let before = places.len();
        places.extend(known.map(|(side, _)| (side, row)));
        lengths.push(places.len() - before);
    }
    let values = interleave(&[lower.as_ref(), upper.as_ref()], &places)?;
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, None)
}
