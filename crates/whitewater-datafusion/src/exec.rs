//! The GPU node: rows in by upload (or already there), kernels, rows out by download.

use std::{fmt, sync::Arc, time::Instant};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::{cast, concat_batches},
    datatypes::SchemaRef,
};
use datafusion::{
    common::{DataFusionError, Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};
use whitewater::{Batch, aggregate::reduce, gpu::Device, groupby::group, select::filter_project};

use crate::{
    GpuTableExec, OnOutOfMemory,
    error::fatal,
    island::{Island, Work},
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

#[derive(Clone)]
struct Metrics {
    output_rows: Count,
    uploaded_bytes: Count,
    downloaded_bytes: Count,
    kernel_bytes: Count,
    compilations: Count,
    cpu_fallback: Count,
    gpu_time: Time,
    upload_time: Time,
    download_time: Time,
}

impl Metrics {
    fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let builder = || MetricBuilder::new(set);
        Self {
            output_rows: builder().output_rows(partition),
            uploaded_bytes: builder().counter("uploaded_bytes", partition),
            downloaded_bytes: builder().counter("downloaded_bytes", partition),
            kernel_bytes: builder().counter("kernel_bytes", partition),
            compilations: builder().counter("compilations", partition),
            cpu_fallback: builder().counter("cpu_fallback", partition),
            gpu_time: builder().subset_time("gpu_time", partition),
            upload_time: builder().subset_time("upload_time", partition),
            download_time: builder().subset_time("download_time", partition),
        }
    }
}

impl GpuExec {
    pub(crate) fn new(
        device: Device,
        island: Island,
        source: Arc<dyn ExecutionPlan>,
        batch_rows: usize,
        on_out_of_memory: OnOutOfMemory,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(island.cpu.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        // What one binding holds bounds a batch: 16 bytes are the widest value.
        let bindable = (device.info().max_binding_bytes / 16).min(usize::MAX as u64) as usize;
        Self {
            batch_rows: batch_rows.min(bindable).max(1),
            device,
            island,
            source,
            on_out_of_memory,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The state that a run needs, without the plan's own.
    fn runner(&self, partition: usize) -> Runner {
        Runner {
            device: self.device.clone(),
            work: self.island.work.clone(),
            schema: self.schema(),
            metrics: Metrics::new(&self.metrics, partition),
        }
    }
}

struct Runner {
    device: Device,
    work: Work,
    schema: SchemaRef,
    metrics: Metrics,
}

impl Runner {
    fn upload(&self, batch: &RecordBatch) -> Result<Batch, whitewater::Error> {
        let started = Instant::now();
        let uploaded = Batch::upload(&self.device, batch)?;
        self.metrics.upload_time.add_elapsed(started);
        self.metrics.uploaded_bytes.add(uploaded.device_bytes() as usize);
        Ok(uploaded)
    }

    /// The result for one batch, with the node's own schema.
    fn run(&self, batch: &Batch) -> Result<RecordBatch, whitewater::Error> {
        let before = self.device.profile()?;
        let result = match &self.work {
            Work::Aggregate(aggregation) if aggregation.keys.is_empty() => {
                reduce(&self.device, batch, aggregation)?
            }
            Work::Aggregate(aggregation) => {
                self.download(&group(&self.device, batch, aggregation)?)?
            }
            Work::Select { predicate, outputs } => {
                let selected = filter_project(&self.device, batch, predicate.as_ref(), outputs)?;
                self.download(&selected)?
            }
        };
        let spent = self.device.profile()?.since(&before);
        self.metrics.gpu_time.add_duration(spent.gpu_time());
        self.metrics.compilations.add(spent.compilations as usize);
        let bytes: u64 = spent.kernels.values().map(|kernel| kernel.bytes).sum();
        self.metrics.kernel_bytes.add(bytes as usize);
        self.metrics.output_rows.add(result.num_rows());
        Ok(result)
    }

    fn download(&self, batch: &Batch) -> Result<RecordBatch, whitewater::Error> {
        self.device.synchronize()?;
        let started = Instant::now();
        let result = batch.download()?;
        self.metrics.download_time.add_elapsed(started);
        self.metrics.downloaded_bytes.add(batch.device_bytes() as usize);
        Ok(result)
    }
}

/// `batch` with the types and names of `schema`.
pub(crate) fn cast_to(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(column.clone()),
            false => cast(column, field.data_type()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Runs `f` on a thread that may block.
async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, whitewater::Error> + Send + 'static,
) -> Result<Result<T, whitewater::Error>> {
    tokio::task::spawn_blocking(f)
        .await
        .map_err(|error| DataFusionError::External(Box::new(error)))
}

/// All results of the island, or why the device could not give them.
async fn on_device(
    runner: Arc<Runner>,
    source: Arc<dyn ExecutionPlan>,
    batch_rows: usize,
    context: Arc<TaskContext>,
) -> Result<Result<Vec<RecordBatch>, whitewater::Error>> {
    let mut results = Vec::new();
    if let Some(resident) = source.downcast_ref::<GpuTableExec>() {
        let batches = match resident.batches() {
            Ok(batches) => batches,
            Err(error) => return Ok(Err(error)),
        };
        for batch in batches {
            let runner = runner.clone();
            match blocking(move || runner.run(&batch)).await? {
                Ok(result) => results.push(result),
                Err(error) => return Ok(Err(error)),
            }
        }
    } else {
        let schema = source.schema();
        let mut pending: Vec<RecordBatch> = Vec::new();
        let mut rows = 0;
        let process = async |pending: &mut Vec<RecordBatch>| {
            let host = concat_batches(&schema, pending.iter())?;
            pending.clear();
            let runner = runner.clone();
            blocking(move || runner.run(&runner.upload(&host)?)).await
        };
        for partition in 0..source.output_partitioning().partition_count() {
            let mut stream = source.execute(partition, context.clone())?;
            while let Some(batch) = stream.next().await.transpose()? {
                if rows > 0 && rows + batch.num_rows() > batch_rows {
                    match process(&mut pending).await? {
                        Ok(result) => results.push(result),
                        Err(error) => return Ok(Err(error)),
                    }
                    rows = 0;
                }
                // A batch may by itself be larger than what is uploaded together.
                let mut at = 0;
                while batch.num_rows() - at > batch_rows {
                    pending.push(batch.slice(at, batch_rows));
                    at += batch_rows;
                    match process(&mut pending).await? {
                        Ok(result) => results.push(result),
                        Err(error) => return Ok(Err(error)),
                    }
                }
                rows += batch.num_rows() - at;
                pending.push(batch.slice(at, batch.num_rows() - at));
            }
        }
        if rows > 0 {
            match process(&mut pending).await? {
                Ok(result) => results.push(result),
                Err(error) => return Ok(Err(error)),
            }
        }
    }
    // Without rows, an ungrouped aggregation still has a state.
    if results.is_empty() {
        let empty = RecordBatch::new_empty(source.schema());
        let runner = runner.clone();
        match blocking(move || runner.run(&runner.upload(&empty)?)).await? {
            Ok(result) => results.push(result),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(results))
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
        let runner = Arc::new(self.runner(partition));
        let source = self.source.clone();
        let cpu = self.island.cpu.clone();
        let (batch_rows, on_out_of_memory) = (self.batch_rows, self.on_out_of_memory);
        let schema = self.schema();
        let target = schema.clone();
        let stream = futures::stream::once(async move {
            let metrics = runner.metrics.clone();
            let error = match on_device(runner, source, batch_rows, context.clone()).await? {
                Ok(results) => {
                    let typed = results.into_iter().map(move |batch| cast_to(batch, &target));
                    return Ok(futures::stream::iter(typed).boxed());
                }
                Err(error) => error,
            };
            let falls_back = match &error {
                whitewater::Error::Unsupported { .. } => true,
                whitewater::Error::Gpu(whitewater::gpu::Error::OutOfMemory { .. }) => {
                    on_out_of_memory == OnOutOfMemory::Fallback
                }
                _ => false,
            };
            if !falls_back {
                return Err(fatal(error));
            }
            tracing::warn!("on the CPU after all: {error}");
            metrics.cpu_fallback.add(1);
            let partitions = (0..cpu.output_partitioning().partition_count())
                .map(|partition| cpu.execute(partition, context.clone()))
                .collect::<Result<Vec<_>>>()?;
            Ok(futures::stream::iter(partitions).flatten().boxed())
        })
        .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
