//! A device that is too small: the query runs on the CPU or ends with the error, by option, and the
//! next one works. A device of its own, since the budget is the device's.

mod support;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use support::{assert_same, cpu_session, metric, register, rows, run, selection};
use whitewater::gpu::{self, Device};
use whitewater_datafusion::{GpuTable, OnOutOfMemory, SessionOptions, session};

const AMPLE: u64 = 1 << 30;
const QUERIES: [&str; 3] = [
    "select k, sum(g), count(*) from t group by k",
    "select sum(g), count(*), max(big) from t where b",
    "select k + 1, g from t where b",
];

fn batches() -> Vec<RecordBatch> {
    (0..4).map(|i| rows(i * 5000, 5000, 5)).collect()
}

fn small(device: &Device, on_out_of_memory: OnOutOfMemory) -> SessionContext {
    let ctx = session(SessionOptions {
        device: Some(device.clone()),
        memory_budget: Some(AMPLE),
        target_partitions: 2,
        on_out_of_memory,
        ..Default::default()
    });
    register(&ctx, "t", vec![batches(), batches()]);
    ctx
}

/// The device's own error, if that is what ended a query.
fn is_out_of_memory(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.to_string().starts_with("out of GPU memory") {
            return true;
        }
        next = error.source();
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_does_not_fit_runs_on_the_cpu() {
    let device = Device::open(selection()).unwrap();
    let (ours, theirs) = (small(&device, OnOutOfMemory::Fallback), cpu_session());
    register(&theirs, "t", vec![batches(), batches()]);
    for sql in QUERIES {
        let expected = run(&theirs, sql).await.unwrap().0;
        for (budget, fallbacks) in [(10_000, 1), (AMPLE, 0)] {
            device.set_memory_budget(budget);
            let (answer, plan) = run(&ours, sql).await.unwrap();
            assert_same(sql, &answer, &expected);
            assert_eq!(
                metric(&plan, "cpu_fallback"),
                Some(fallbacks),
                "{sql} in {budget} bytes"
            );
            let rows: usize = answer.iter().map(RecordBatch::num_rows).sum();
            assert!(metric(&plan, "output_rows").unwrap() >= rows);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_does_not_fit_ends_with_the_error_if_asked() {
    let device = Device::open(selection()).unwrap();
    let ctx = small(&device, OnOutOfMemory::Error);
    for sql in QUERIES {
        device.set_memory_budget(10_000);
        let error = run(&ctx, sql).await.unwrap_err();
        assert!(is_out_of_memory(&error), "{error}");
        device.set_memory_budget(AMPLE);
        run(&ctx, sql).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_fit_is_an_error_and_leaves_nothing_behind() {
    let device = Device::open(selection()).unwrap();
    let schema = batches()[0].schema();
    device.set_memory_budget(200_000);
    let error = GpuTable::load(&device, &schema, batches(), 5000).unwrap_err();
    assert!(
        matches!(
            error,
            whitewater::Error::Gpu(gpu::Error::OutOfMemory { .. })
        ),
        "{error}"
    );
    device.set_memory_budget(AMPLE);
    assert_eq!(
        GpuTable::load(&device, &schema, batches(), 5000)
            .unwrap()
            .rows(),
        20_000
    );
}
