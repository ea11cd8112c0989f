//! The GPU node: rows in by upload (or already there), kernels, rows out by download.

use std::{fmt, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::SchemaRef,
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
    Batch, gpu,
    gpu::Device,
    join::{Join, Side},
};

use crate::{
    GpuTableExec, OnOutOfMemory,
    bounds::Bounds,
    error::fatal,
    island::{Island, Work},
    joining::Joining,
    metrics::Metrics,
    runner::{Rows, Runner, on_the_device},
    upload::{Limits, gather},
};

/// An island on the GPU. One partition; it hands nothing out before it has finished, so that it can
/// still turn to the CPU when the device cannot do what the plan asked. A GPU node above takes its batches on
/// the device.
#[derive(Debug)]
pub struct GpuExec {
    device: Device,
    island: Island,
    sources: Vec<Arc<dyn ExecutionPlan>>,
    batch_rows: usize,
    on_out_of_memory: OnOutOfMemory,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GpuExec {
    pub(crate) fn new(
        device: Device,
        island: Island,
        sources: Vec<Arc<dyn ExecutionPlan>>,
        batch_rows: usize,
        on_out_of_memory: OnOutOfMemory,
    ) -> Self {
        // What holds of the rows on the CPU holds here; an island of sorted partitions is none.
        let mut equivalences = island.cpu.equivalence_properties().clone();
        equivalences.clear_per_partition_constants();
        if matches!(island.work, Work::Join(_)) {
            // Where one is wanted, the rule puts a sort above.
            equivalences.clear_orderings();
        }
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            device,
            island,
            sources,
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
async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, whitewater::Error> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(f)
        .await
        .map_err(|error| DataFusionError::External(Box::new(error)))?
        .map_err(Failure::Engine)
}

/// What became of a node's rows.
enum Outcome {
    /// The device has made them.
    Rows(Vec<Rows>),
    /// This plan makes them, since the device cannot.
    Cpu(Arc<dyn ExecutionPlan>),
}

/// Whether a GPU node can take the rows of `plan` on the device.
pub(crate) fn is_on_device(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let node = plan.downcast_ref::<GpuExec>();
    plan.downcast_ref::<GpuTableExec>().is_some() || node.is_some_and(GpuExec::hands_on)
}

/// Where a node finds the rows of a source.
enum Source {
    Device(Vec<Batch>),
    /// They are this plan's, to be uploaded.
    Host(Arc<dyn ExecutionPlan>),
}

/// The rows of `source` on the device, if it has them there.
async fn from_device(
    source: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Source, Failure> {
    if let Some(table) = source.downcast_ref::<GpuTableExec>() {
        return Ok(Source::Device(table.batches().map_err(Failure::Engine)?));
    }
    let node = source.downcast_ref::<GpuExec>();
    let Some(node) = node.filter(|node| node.hands_on()) else {
        return Ok(Source::Host(source.clone()));
    };
    let runner = Arc::new(node.runner());
    // Boxed, since the node below does the same.
    match Box::pin(node.outcome(runner.clone(), context.clone())).await? {
        Outcome::Rows(rows) => {
            let batches = on_the_device(rows);
            let rows = batches.iter().map(|batch| batch.rows);
            runner.metrics.output_rows.add(rows.sum());
            Ok(Source::Device(batches))
        }
        Outcome::Cpu(plan) => Ok(Source::Host(plan)),
    }
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
        let input = if self.is_resident() {
            "resident"
        } else if self.sources.iter().all(is_on_device) {
            "device"
        } else {
            "upload"
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
        self.sources.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("GpuExec has one partition, not {partition}");
        }
        let runner = Arc::new(self.runner());
        // The stream outlives this call, and what it needs is cheap to copy.
        let node = self.over(self.sources.clone());
        let schema = self.schema();
        let output_rows = runner.metrics.output_rows.clone();
        let stream = futures::stream::once(async move { node.stream(runner, context).await })
            .try_flatten()
            .inspect_ok(move |batch| output_rows.add(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl GpuExec {
    /// The node over other sources.
    fn over(&self, sources: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        Self::new(
            self.device.clone(),
            self.island.clone(),
            sources,
            self.batch_rows,
            self.on_out_of_memory,
        )
    }

    fn runner(&self) -> Runner {
        Runner {
            device: self.device.clone(),
            work: self.island.work.clone(),
            metrics: Metrics::new(&self.metrics, 0),
        }
    }

    /// Whether a GPU node above can take the node's rows on the device.
    fn hands_on(&self) -> bool {
        !matches!(self.island.work, Work::Aggregate(_))
    }

    /// Whether nothing is uploaded for the node.
    pub(crate) fn is_resident(&self) -> bool {
        let uploads_nothing = |source: &Arc<dyn ExecutionPlan>| {
            let node = source.downcast_ref::<GpuExec>();
            is_on_device(source) && node.is_none_or(Self::is_resident)
        };
        self.sources.iter().all(uploads_nothing)
    }

    /// The node's rows, from the device or, where it cannot give them, from the CPU.
    async fn stream(
        &self,
        runner: Arc<Runner>,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let made = match self.outcome(runner.clone(), context.clone()).await? {
            Outcome::Rows(rows) => rows,
            Outcome::Cpu(cpu) => {
                let partitions = (0..cpu.output_partitioning().partition_count())
                    .map(|partition| cpu.execute(partition, context.clone()))
                    .collect::<Result<Vec<_>>>()?;
                return Ok(futures::stream::iter(partitions).flatten().boxed());
            }
        };
        let schema = self.schema();
        let rows = context.session_config().batch_size();
        let mut typed = Vec::new();
        for part in made {
            let runner = runner.clone();
            match blocking(move || runner.on_the_host(part)).await {
                Ok(batch) => typed.push(cast_to(batch, &schema)?),
                Err(Failure::Input(error)) => return Err(error),
                Err(Failure::Engine(error)) => return Err(fatal(error)),
            }
        }
        let slices = typed.into_iter().flat_map(move |batch| slices(batch, rows));
        Ok(futures::stream::iter(slices.map(Ok)).boxed())
    }

    /// Runs the node on the device, or tells what runs in its place.
    async fn outcome(&self, runner: Arc<Runner>, context: Arc<TaskContext>) -> Result<Outcome> {
        let error = match self.on_device(runner.clone(), context).await {
            Ok(rows) => return Ok(Outcome::Rows(rows)),
            Err(Failure::Input(error)) => return Err(error),
            Err(Failure::Engine(error)) if !self.falls_back(&error) => return Err(fatal(error)),
            Err(Failure::Engine(error)) => error,
        };
        tracing::warn!(
            "{} runs on the CPU after all: {error}",
            self.island.description
        );
        runner.metrics.cpu_fallback.add(1);
        // The device's attempt may have used up the source, which is a part of this plan.
        Ok(Outcome::Cpu(reset_plan_states(self.island.cpu.clone())?))
    }

    async fn on_device(
        &self,
        runner: Arc<Runner>,
        context: Arc<TaskContext>,
    ) -> Result<Vec<Rows>, Failure> {
        if let (Work::Join(join), [build, probe]) = (&self.island.work, self.sources.as_slice()) {
            return self
                .join_on_device(join.clone(), [build, probe], runner, context)
                .await;
        }
        let mut made = Vec::new();
        for source in &self.sources {
            let mut input = self.input(source, &runner, &context).await?;
            while let Some(batch) = input.next(&runner).await? {
                let runner = runner.clone();
                made.push(blocking(move || runner.one(batch)).await?);
            }
        }
        if made.is_empty() {
            // Without rows, an ungrouped aggregation still has a state, and others a schema.
            let schema = self.sources.first().map(|source| source.schema());
            let empty = RecordBatch::new_empty(schema.unwrap_or_else(|| self.schema()));
            let runner = runner.clone();
            made.push(blocking(move || runner.one(runner.upload(&empty)?)).await?);
        }
        blocking(move || runner.all(made)).await
    }

    /// The rows of `probe` joined with those of `build`, which are read first.
    async fn join_on_device(
        &self,
        join: Join,
        [build, probe]: [&Arc<dyn ExecutionPlan>; 2],
        runner: Arc<Runner>,
        context: Arc<TaskContext>,
    ) -> Result<Vec<Rows>, Failure> {
        let settings = &context.session_config().options().optimizer;
        let few = settings.hash_join_inlist_pushdown_max_distinct_values;
        let mut bounds = Bounds::of(&self.island.cpu, &join, &build.schema(), few);
        let mut joining = Joining::new(&runner.device, join, build.schema());
        for (side, source) in [(Side::Build, build), (Side::Probe, probe)] {
            if side == Side::Probe {
                // Its scan has not begun.
                bounds.take().map(Bounds::tell).transpose()?;
            }
            let mut input = self.input(source, &runner, &context).await?;
            while let Some(batch) = input.next(&runner).await? {
                if let Some(so_far) = bounds.take() {
                    let (runner, batch) = (runner.clone(), batch.clone());
                    let add = move || runner.counted(|| so_far.add(&runner.device, &batch));
                    bounds = Some(blocking(add).await?);
                }
                let runner = runner.clone();
                joining = blocking(move || runner.counted(|| joining.add(side, batch))).await?;
            }
        }
        blocking(move || runner.counted(|| joining.finish())).await
    }

    /// The batches of `source` on the device, one after the other.
    async fn input(
        &self,
        source: &Arc<dyn ExecutionPlan>,
        runner: &Arc<Runner>,
        context: &Arc<TaskContext>,
    ) -> Result<Input, Failure> {
        Ok(match from_device(source, context).await? {
            Source::Device(batches) => Input::Device(batches.into_iter()),
            Source::Host(plan) => {
                let limits = Limits::new(runner.device.info(), self.batch_rows);
                Input::Host(gather(&plan, limits, context)?)
            }
        })
    }
}

/// Batches for a node to work on.
enum Input {
    Device(std::vec::IntoIter<Batch>),
    Host(SendableRecordBatchStream),
}

impl Input {
    async fn next(&mut self, runner: &Arc<Runner>) -> Result<Option<Batch>, Failure> {
        match self {
            Input::Device(batches) => Ok(batches.next()),
            Input::Host(batches) => {
                let Some(batch) = batches.next().await.transpose()? else {
                    return Ok(None);
                };
                let runner = runner.clone();
                blocking(move || runner.upload(&batch)).await.map(Some)
            }
        }
    }
}
