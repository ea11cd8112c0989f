//! What a GPU node tells EXPLAIN ANALYZE.

use std::time::Duration;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use whitewater::gpu::Profile;

/// The metrics of one run of a node. Kernels are counted by the device, so that queries which share
/// a device at the same time see each other's.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    set: ExecutionPlanMetricsSet,
    partition: usize,
    pub(crate) output_rows: Count,
    pub(crate) uploaded_bytes: Count,
    pub(crate) downloaded_bytes: Count,
    kernel_bytes: Count,
    compilations: Count,
    /// 1 where the CPU ran the island after all.
    pub(crate) cpu_fallback: Count,
    /// Time of all kernels on the device's clock.
    gpu_time: Time,
    pub(crate) upload_time: Time,
    pub(crate) download_time: Time,
}

impl Metrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let builder = || MetricBuilder::new(set);
        Self {
            set: set.clone(),
            partition,
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

    /// Adds what the device `spent`: in all, and by kernel where kernels are timed.
    pub(crate) fn add(&self, spent: &Profile) {
        self.gpu_time.add_duration(spent.gpu_time());
        self.compilations.add(spent.compilations as usize);
        for (name, kernel) in &spent.kernels {
            self.kernel_bytes.add(kernel.bytes as usize);
            if kernel.gpu_time > Duration::ZERO {
                MetricBuilder::new(&self.set)
                    .subset_time(format!("gpu_time of {name}"), self.partition)
                    .add_duration(kernel.gpu_time);
            }
        }
    }
}
