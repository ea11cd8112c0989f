//! Sizes of grids.

use whitewater_gpu::{Device, DeviceInfo};

/// Invocations of a workgroup in kernels that do not say otherwise.
pub(crate) const WORKGROUP: u32 = 256;

/// Workgroups for a kernel that strides over `items`: enough to fill the device, no more.
pub(crate) fn grid(device: &Device, items: u64, items_per_workgroup: u64) -> u32 {
    let wanted = items.div_ceil(items_per_workgroup.max(1));
    wanted.min(u64::from(resident_workgroups(device.info()))) as u32
}

/// Workgroups of 256 that a device runs at once, times a few for balance.
pub(crate) fn resident_workgroups(info: &DeviceInfo) -> u32 {
    (info.multiprocessors * 16).clamp(4, info.max_workgroups)
}
