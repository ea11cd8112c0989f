//! The driver library: whether it is there, its version, a context and a stream.

use std::ffi::c_int;

use cudarc::driver::{result, sys};

use super::unavailable;
use crate::Result;

/// The number of GPUs, after loading and initialising the driver.
pub(super) fn device_count() -> Result<c_int> {
    // SAFETY: only asks the loader whether the library can be opened.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable("libcuda (the NVIDIA driver) is not installed"));
    }
    result::init().map_err(unavailable)?;
    result::device::get_count().map_err(unavailable)
}

/// The driver's CUDA version, thousands for the major.
pub(super) fn version() -> Result<c_int> {
    let mut version = 0;
    // SAFETY: the driver writes one int.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(unavailable)?;
    Ok(version)
}

/// The device's primary context, made current, and a stream of its own.
pub(super) fn open(device: sys::CUdevice) -> Result<(sys::CUcontext, sys::CUstream)> {
    // SAFETY: the device handle came from the driver; the context is never released, as buffers
    // of it may live until the process ends.
    let context = unsafe { result::primary_ctx::retain(device) }.map_err(unavailable)?;
    // SAFETY: the context was just retained.
    unsafe { result::ctx::set_current(context) }.map_err(unavailable)?;
    let stream =
        result::stream::create(result::stream::StreamKind::NonBlocking).map_err(unavailable)?;
    Ok((context, stream))
}
