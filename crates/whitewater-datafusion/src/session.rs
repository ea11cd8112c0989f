//! A DataFusion session whose plans run on the GPU.

use std::sync::Arc;

use datafusion::{
    execution::{SessionStateBuilder, context::SessionContext},
    prelude::SessionConfig,
};
use whitewater::gpu::Device;

use crate::GpuRule;

/// Rows that are uploaded together unless told otherwise: enough to keep the device busy.
const BATCH_ROWS: usize = 64 << 20;

/// What to do when the device's memory does not suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOutOfMemory {
    /// Run the part of the plan on the CPU.
    #[default]
    Fallback,
    /// End the query with the error.
    Error,
}

/// How a session runs its queries.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// The device; without one everything runs on the CPU.
    pub device: Option<Device>,
    /// Bytes of device memory that the session may use; the device's own default if absent.
    pub memory_budget: Option<u64>,
    /// CPU partitions; DataFusion's default if 0.
    pub target_partitions: usize,
    /// The most rows that are uploaded together; 64M if 0.
    pub batch_rows: usize,
    pub on_out_of_memory: OnOutOfMemory,
}

/// A context with DataFusion's own rules and, where there is a device, the GPU rule after them.
pub fn session(options: SessionOptions) -> SessionContext {
    let mut config = SessionConfig::new().with_information_schema(true);
    if options.target_partitions > 0 {
        config = config.with_target_partitions(options.target_partitions);
    }
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    let Some(device) = options.device else {
        return SessionContext::new_with_state(builder.build());
    };
    if let Some(budget) = options.memory_budget {
        device.set_memory_budget(budget);
    }
    device.set_timed(true);
    // A float's sum depends on the order of its rows: partitions that take each other's files would
    // change it from run to run.
    let mut builder = builder;
    if let Some(config) = builder.config() {
        config
            .options_mut()
            .execution
            .enable_file_stream_work_stealing = false;
    }
    let batch_rows = match options.batch_rows {
        0 => BATCH_ROWS,
        rows => rows,
    };
    let rule = GpuRule::new(device, batch_rows, options.on_out_of_memory);
    SessionContext::new_with_state(builder.with_physical_optimizer_rule(Arc::new(rule)).build())
}
