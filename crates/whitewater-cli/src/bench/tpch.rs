//! TPC-H Q1 and Q6 on a resident lineitem, by the device's own clock.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use whitewater_datafusion::{GpuTable, SessionOptions, session};

use super::{Case, Context, MakeCase, Measurement};
use crate::{
    Result,
    tpch::{Q1, Q6, lineitem},
};

/// Rows of lineitem at scale 1.
const ROWS_PER_SCALE: f64 = 6_000_000.0;
const SCALE: f64 = 10.0;
/// Most rows of a batch in GPU memory.
const BATCH_ROWS: usize = 64 << 20;

pub fn cases(_: &Context) -> Vec<MakeCase> {
    vec![
        Box::new(|context: &Context| query(context, "q1", Q1)),
        Box::new(|context: &Context| query(context, "q6", Q6)),
    ]
}

/// The GPU time of a query; what follows on the CPU merges a handful of rows.
fn query(context: &Context, name: &str, sql: &'static str) -> Result<Case> {
    let device = context.device.clone();
    let scale = context
        .rows
        .map_or(SCALE, |rows| rows as f64 / ROWS_PER_SCALE);
    // The columns that the two queries use.
    let (schema, batches) = lineitem(scale, Some(&[4, 5, 6, 7, 8, 9, 10]))?;
    let table = GpuTable::load(&device, &schema, batches, BATCH_ROWS)?;
    let session: SessionContext = session(SessionOptions {
        device: Some(device.clone()),
        ..SessionOptions::default()
    });
    session.register_table("lineitem", Arc::new(table))?;
    // The command itself runs on a runtime: blocking must be told to it.
    let runtime = tokio::runtime::Handle::current();
    Ok(Case {
        name: format!("tpch {name} sf{scale} resident, gpu time"),
        run: Box::new(move || {
            let before = device.profile()?;
            let batches = tokio::task::block_in_place(|| {
                runtime.block_on(async { session.sql(sql).await?.collect().await })
            })?;
            let spent = device.profile()?.since(&before);
            Ok(Measurement {
                elapsed: spent.gpu_time(),
                rows_out: Some(batches.iter().map(|batch| batch.num_rows() as u64).sum()),
                bytes: Some(spent.kernels.values().map(|kernel| kernel.bytes).sum()),
            })
        }),
    })
}
