//! The GPU node: rows in by upload (or already there), kernels, rows out by download.

use std::{fmt, sync::Arc, time::Instant};

use arrow::{
    array::{Array, RecordBatch, RecordBatchOptions, make_array},
    compute::cast,
    datatypes::SchemaRef,
    error::ArrowError,
};
use datafusion::{
    common::{DataFusionError, Result, internal_err, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        execution_plan::{Boundedness, EmissionType, reset_plan_states},
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use whitewater::{
    Batch,
    aggregate::{Aggregation, Function, reduce},
    gpu,
    gpu::Device,
    groupby::group,
    select::filter_project,
};

use crate::{
    GpuTableExec, OnOutOfMemory,
    error::fatal,
    island::{Island, Work},
    metrics::Metrics,
    upload::{Limits, gather},
};

/// An island on the GPU. One partition; it hands nothing out before it has finished, so that it can
/// still turn to the CPU when the device cannot do what the plan asked.
#[derive(Debug)]
pub struct GpuExec {
    device: Device,
    island: Island,
    source: Arc<dyn ExecutionPlan>,
    batch_rows: usize,
    on_out_of_memory: OnOutOfMemory,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GpuExec {
    pub(crate) fn new(
        device: Device,
        island: Island,
        source: Arc<dyn ExecutionPlan>,
        batch_rows: usize,
        on_out_of_memory: OnOutOfMemory,
    ) -> Self {
        // What holds of the rows on the CPU holds here; an island of sorted partitions is none.
        let mut equivalences = island.cpu.equivalence_properties().clone();
        equivalences.clear_per_partition_constants();
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            device,
            island,
            source,
            batch_rows,
            on_out_of_memory,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Whether the CPU runs the island after `error`.
    fn falls_back(&self, error: &whitewater::Error) -> bool {
        match error {
            whitewater::Error::Unsupported { .. }
            | whitewater::Error::Gpu(gpu::Error::Unsupported { .. }) => true,
            whitewater::Error::Gpu(gpu::Error::OutOfMemory { .. }) => {
                self.on_out_of_memory == OnOutOfMemory::Fallback
            }
            _ => false,
        }
    }
}

/// What a run needs on the thread that drives the device.
struct Runner {
    device: Device,
    work: Work,
    metrics: Metrics,
}

impl Runner {
    fn upload(&self, batch: &RecordBatch) -> Result<Batch, whitewater::Error> {
        let started = Instant::now();
        let uploaded = Batch::upload(&self.device, batch)?;
        self.metrics.upload_time.add_elapsed(started);
        self.metrics
            .uploaded_bytes
            .add(uploaded.device_bytes() as usize);
        Ok(uploaded)
    }

    /// The island's rows of one batch.
    fn run(&self, batch: &Batch) -> Result<RecordBatch, whitewater::Error> {
        let before = self.device.profile()?;
        let result = match &self.work {
            Work::Aggregate(aggregation) if aggregation.keys.is_empty() => {
                reduce(&self.device, batch, aggregation)?
            }
            Work::Aggregate(aggregation) => {
                let groups = self.download(&group(&self.device, batch, aggregation)?)?;
                merging_counts(groups, aggregation)?
            }
            Work::Select { predicate, outputs } => {
                let selected = filter_project(&self.device, batch, predicate.as_ref(), outputs)?;
                self.download(&selected)?
            }
        };
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
}

/// `groups` with the count of an average null where its sum is: to DataFusion's grouped average, a
/// count says that the group has had values.
fn merging_counts(
    groups: RecordBatch,
    aggregation: &Aggregation,
) -> Result<RecordBatch, ArrowError> {
    let mut columns = groups.columns().to_vec();
    let mut at = aggregation.keys.len();
    for aggregate in &aggregation.aggregates {
        if let (Function::Avg, Some([count, sum])) =
            (aggregate.function, columns.get_mut(at..at + 2))
        {
            let data = count.to_data().into_builder().nulls(sum.nulls().cloned());
            *count = make_array(data.build()?);
        }
        at += aggregate.state.len();
    }
    let options = RecordBatchOptions::new().with_row_count(Some(groups.num_rows()));
    RecordBatch::try_new_with_options(groups.schema(), columns, &options)
}

/// Why an island gave no rows.
enum Failure {
    /// Its input failed, or the query ended.
    Input(DataFusionError),
    Engine(whitewater::Error),
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Failure::Input(error)
    }
}

/// Runs `f` on a thread that may block.
async fn blocking(
    f: impl FnOnce() -> Result<RecordBatch, whitewater::Error> + Send + 'static,
) -> Result<RecordBatch, Failure> {
    tokio::task::spawn_blocking(f)
        .await
        .map_err(|error| DataFusionError::External(Box::new(error)))?
        .map_err(Failure::Engine)
}

/// All rows of the island, a batch for each of its input.
async fn on_device(
    runner: Arc<Runner>,
    source: Arc<dyn ExecutionPlan>,
    batch_rows: usize,
    context: Arc<TaskContext>,
) -> Result<Vec<RecordBatch>, Failure> {
    let mut results = Vec::new();
    if let Some(resident) = source.downcast_ref::<GpuTableExec>() {
        for batch in resident.batches().map_err(Failure::Engine)? {
            let runner = runner.clone();
            results.push(blocking(move || runner.run(&batch)).await?);
        }
    } else {
        let limits = Limits::new(runner.device.info(), batch_rows);
        let mut batches = gather(&source, limits, &context)?;
        while let Some(batch) = batches.next().await.transpose()? {
            let runner = runner.clone();
            results.push(blocking(move || runner.run(&runner.upload(&batch)?)).await?);
        }
    }
    if results.is_empty() {
        // Without rows, an ungrouped aggregation still has a state.
        let empty = RecordBatch::new_empty(source.schema());
        results.push(blocking(move || runner.run(&runner.upload(&empty)?)).await?);
    }
    Ok(results)
}

/// `batch` with the types and names of `schema`.
pub(crate) fn cast_to(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(
            |(column, field)| match column.data_type() == field.data_type() {
                true => Ok(column.clone()),
                false => cast(column, field.data_type()),
            },
        )
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        columns,
        &options,
    )?)
}

/// `batch` in slices of at most `rows` rows, as CPU nodes expect them.
fn slices(batch: RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> + Send {
    let starts = (0..batch.num_rows()).step_by(rows.max(1));
    starts.map(move |start| batch.slice(start, rows.min(batch.num_rows() - start)))
}

impl DisplayAs for GpuExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = match self.source.downcast_ref::<GpuTableExec>() {
            Some(_) => "resident",
            None => "upload",
        };
        write!(f, "GpuExec: {}, input={input}", self.island.description)
    }
}

impl ExecutionPlan for GpuExec {
    fn name(&self) -> &str {
        "GpuExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.source]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let source = children.pop().unwrap_or_else(|| self.source.clone());
        Ok(Arc::new(Self::new(
            self.device.clone(),
            self.island.clone(),
            source,
            self.batch_rows,
            self.on_out_of_memory,
        )))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("GpuExec has one partition, not {partition}");
        }
        let metrics = Metrics::new(&self.metrics, partition);
        let runner = Arc::new(Runner {
            device: self.device.clone(),
            work: self.island.work.clone(),
            metrics: metrics.clone(),
        });
        // The stream outlives this call, and what it needs is cheap to copy.
        let node = Self::new(
            self.device.clone(),
            self.island.clone(),
            self.source.clone(),
            self.batch_rows,
            self.on_out_of_memory,
        );
        let schema = self.schema();
        let output_rows = metrics.output_rows.clone();
        let stream =
            futures::stream::once(async move { node.rows(runner, &metrics, context).await })
                .try_flatten()
                .inspect_ok(move |batch| output_rows.add(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl GpuExec {
    /// The node's rows, from the device or, where it cannot give them, from the CPU.
    async fn rows(
        &self,
        runner: Arc<Runner>,
        metrics: &Metrics,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let source = self.source.clone();
        let error = match on_device(runner, source, self.batch_rows, context.clone()).await {
            Ok(results) => {
                let schema = self.schema();
                let rows = context.session_config().batch_size();
                let typed = results
                    .into_iter()
                    .map(|batch| cast_to(batch, &schema))
                    .collect::<Result<Vec<_>>>()?;
                let slices = typed.into_iter().flat_map(move |batch| slices(batch, rows));
                return Ok(futures::stream::iter(slices.map(Ok)).boxed());
            }
            Err(Failure::Input(error)) => return Err(error),
            Err(Failure::Engine(error)) if !self.falls_back(&error) => return Err(fatal(error)),
            Err(Failure::Engine(error)) => error,
        };
        tracing::warn!(
            "{} runs on the CPU after all: {error}",
            self.island.description
        );
        metrics.cpu_fallback.add(1);
        // The device's attempt may have used up the source, which is a part of this plan.
        let cpu = reset_plan_states(self.island.cpu.clone())?;
        let partitions = (0..cpu.output_partitioning().partition_count())
            .map(|partition| cpu.execute(partition, context.clone()))
            .collect::<Result<Vec<_>>>()?;
        Ok(futures::stream::iter(partitions).flatten().boxed())
    }
}
