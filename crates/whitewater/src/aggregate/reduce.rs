//! The reduction of a whole batch to one row of partial state.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::Schema};
use whitewater_gpu::{Device, Shader};

use super::{Accumulators, Aggregation, Flavour};
use crate::{
    Batch, Error,
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    pipeline::{Compiled, describe},
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    count: u32,
}

/// The partial state of the ungrouped aggregates over `batch`: one row on the host, also for an
/// empty batch. Extra device memory: a state a workgroup.
///
/// Errors: [`Error::Unsupported`] for an aggregate without a kernel, [`Error::Arithmetic`] for what
/// a row's expression raises.
pub fn reduce(
    device: &Device,
    batch: &Batch,
    aggregation: &Aggregation,
) -> Result<RecordBatch, Error> {
    let plan = Accumulators::plan(&aggregation.aggregates, Flavour::Private, 1, |expr| {
        describe(expr, batch)
    })?;
    let compiled = Compiled::new(device, batch, aggregation.predicate.as_ref(), plan.values())?;
    let shader = compiled
        .specialise(Shader::new(&LIBRARY, "package::aggregate::reduce"))
        .generated("package::accumulators", plan.text());
    let words = if batch.rows == 0 {
        vec![0; plan.words as usize]
    } else {
        // Eight rows an invocation at least: fewer would spend the time on merging.
        let count = grid(device, batch.rows as u64, u64::from(WORKGROUP) * 8);
        let state_bytes = u64::from(plan.words.max(1)) * 8;
        let partials = device.alloc(u64::from(count) * state_bytes)?;
        let params = Params {
            rows: batch.rows as u32,
            count,
        };
        for (entry, workgroups, bytes) in [
            ("rows", count, compiled.bytes()),
            ("finish", 1, partials.len()),
        ] {
            let kernel = device.kernel(&shader, entry)?;
            compiled
                .bind(kernel.launch())
                .bind(0, 1, &partials)
                .params(&params)
                .moves(bytes)
                .run(workgroups)?;
        }
        let bytes = partials.download_range(0, state_bytes)?;
        bytes
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned)
            .collect()
    };
    compiled.check()?;
    let columns = plan
        .state
        .iter()
        .map(|column| column.row(&words))
        .collect::<Result<Vec<_>, Error>>()?;
    let fields: Vec<_> = plan
        .state
        .iter()
        .map(|column| column.field.clone())
        .collect();
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}
