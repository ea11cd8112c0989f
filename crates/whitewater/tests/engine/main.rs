//! The engine's operators on one device, against arrow's own kernels: one binary, so that they link once.

mod aggregate;
mod bitmask;
mod columns;
mod compare;
mod gather;
mod join;
mod large;
mod memory;
mod partition;
mod rearrange;
mod reductions;
mod scan;
mod select;
mod sort;
mod window;

use std::{str::FromStr, sync::OnceLock};

use arrow::array::RecordBatch;
use whitewater::{
    Batch,
    gpu::{Device, Selection},
};

/// The device under test, which tests share.
pub fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(open)
}

/// The device that `WHITEWATER_TEST_DEVICE` names, the software driver unless told otherwise, for one test alone.
pub fn open() -> Device {
    let name = std::env::var("WHITEWATER_TEST_DEVICE").unwrap_or_else(|_| "software".into());
    let selection = Selection::from_str(&name).expect("a device name");
    Device::open(selection).expect("the device under test")
}

/// `host` on the device under test.
pub fn upload(host: &RecordBatch) -> Batch {
    Batch::upload(device(), host).expect("upload")
}

/// The device under test, and if it has forward progress, the same as one that has none.
pub fn devices() -> Vec<Device> {
    let mut devices = vec![device().clone()];
    if device().has_forward_progress() {
        devices.push(device().portable());
    }
    devices
}
