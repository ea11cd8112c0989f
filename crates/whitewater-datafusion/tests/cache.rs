//! A second run of a query compiles nothing: neither on the same device nor on a new one with the same
//! cache on disk.

mod support;

use support::{register, rows, run, selection};
use whitewater::gpu::Device;
use whitewater_datafusion::{SessionOptions, session};

const QUERIES: [&str; 3] = [
    "select k, s, sum(g), avg(d), count(*) from t where day > date '1960-01-01' group by k, s",
    "select sum(g), min(big) from t where b",
    "select k + 1, s from t where g > 0",
];

async fn compilations(device: &Device) -> u64 {
    let before = device.profile().unwrap();
    let ctx = session(SessionOptions {
        device: Some(device.clone()),
        ..Default::default()
    });
    register(&ctx, "t", vec![vec![rows(0, 1000, 5)]]);
    for sql in QUERIES {
        run(&ctx, sql).await.unwrap();
    }
    device.profile().unwrap().since(&before).compilations
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_compiles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::open_cached_at(selection(), folder.path()).unwrap();
    assert!(compilations(&device).await > 0);
    assert_eq!(compilations(&device).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_device_with_the_same_cache_compiles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for expected in [false, true, true] {
        // Dropping a device writes the driver's cache.
        let device = Device::open_cached_at(selection(), folder.path()).unwrap();
        let compiled = compilations(&device).await;
        assert_eq!(compiled == 0, expected, "{compiled} compilations");
    }
}
