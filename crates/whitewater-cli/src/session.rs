//! Stand-in for whitewater_datafusion until it is there.
use datafusion::error::DataFusionError;
use datafusion::prelude::*;
use std::path::Path;
use whitewater::gpu::Device;

#[derive(Default)]
pub struct SessionOptions {
    pub device: Option<Device>,
    pub memory_budget: Option<u64>,
    pub target_partitions: usize,
}

pub fn session(_options: SessionOptions) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new())
}

pub async fn register_path(
    ctx: &SessionContext,
    name: &str,
    path: &Path,
) -> Result<(), DataFusionError> {
    let text = path.to_string_lossy();
    match path.extension().and_then(|e| e.to_str()) {
        Some("csv") => ctx.register_csv(name, text, CsvReadOptions::new()).await,
        Some("json") => ctx.register_json(name, text, JsonReadOptions::default()).await,
        Some("arrow") => ctx.register_arrow(name, text, Default::default()).await,
        _ => {
            ctx.register_parquet(name, text, ParquetReadOptions::default())
                .await
        }
    }
}
