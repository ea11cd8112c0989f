//! Launches and their times.

use std::{ffi::c_void, time::Duration};

use cudarc::driver::{result, sys};
use naga_cuda::ArgumentKind;
use parking_lot::Mutex;

use super::{compile::CudaModule, lost, pointer};
use crate::{
    Error, Result,
    backend::{RawLaunch, Timing},
};

/// Events around timed launches, reused once read.
#[derive(Default)]
pub(super) struct Events {
    idle: Vec<sys::CUevent>,
    running: Vec<(String, sys::CUevent, sys::CUevent)>,
}

// SAFETY: events belong to the context; the owner locks the struct.
unsafe impl Send for Events {}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    fn take(&mut self) -> Result<sys::CUevent> {
        match self.idle.pop() {
            Some(event) => Ok(event),
            None => result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(lost),
        }
    }

    /// The times of all launches so far; the stream must have been waited for.
    pub(super) fn collect(&mut self) -> Result<Vec<Timing>> {
        let mut timings = Vec::with_capacity(self.running.len());
        for (kernel, start, stop) in self.running.drain(..) {
            // SAFETY: both events were recorded on our stream.
            let milliseconds = unsafe { result::event::elapsed(start, stop) }.map_err(lost)?;
            timings.push(Timing {
                kernel,
                time: Duration::from_secs_f64(f64::from(milliseconds) / 1e3),
            });
            self.idle.extend([start, stop]);
        }
        Ok(timings)
    }
}

pub(super) fn launch(
    stream: sys::CUstream,
    events: &Mutex<Events>,
    launch: &RawLaunch<'_>,
) -> Result<()> {
    let fail = |reason: String| Error::Launch {
        kernel: launch.label.into(),
        reason,
    };
    let function = launch
        .module
        .downcast_ref::<CudaModule>()
        .and_then(|module| module.functions.get(launch.entry))
        .ok_or_else(|| fail("the kernel was compiled for another device".into()))?;

    // Each value lives in `values` until the launch has copied it.
    let mut values: Vec<u64> = Vec::new();
    let mut uniform = launch.params.to_vec();
    enum Slot {
        Value(usize),
        Uniform,
    }
    let mut slots = Vec::new();
    for argument in &function.entry.arguments {
        match argument.kind {
            ArgumentKind::Storage { needs_length, .. } => {
                let bound = launch
                    .arguments
                    .iter()
                    .find(|a| (a.group, a.binding) == (argument.group, argument.binding))
                    .ok_or_else(|| fail("a binding is missing".into()))?;
                slots.push(Slot::Value(values.len()));
                values.push(pointer(bound.raw)?);
                if needs_length {
                    slots.push(Slot::Value(values.len()));
                    values.push(bound.bytes);
                }
            }
            ArgumentKind::Uniform { bytes } => {
                uniform.resize(uniform.len().max(bytes as usize), 0);
                slots.push(Slot::Uniform);
            }
        }
    }
    let mut pointers: Vec<*mut c_void> = slots
        .iter()
        .map(|slot| match slot {
            Slot::Value(index) => (&raw mut values[*index]).cast(),
            Slot::Uniform => uniform.as_mut_ptr().cast(),
        })
        .collect();

    let mut events = events.lock();
    let start = match launch.timed {
        true => Some(events.take()?),
        false => None,
    };
    let record = |event: sys::CUevent| {
        // SAFETY: the event and the stream are ours.
        unsafe { result::event::record(event, stream) }.map_err(lost)
    };
    start.map_or(Ok(()), record)?;
    let [x, y, z] = function.entry.workgroup_size;
    // SAFETY: arguments follow the signature that naga-cuda reported; every buffer is held by the
    // caller, and the pool reuses it only for work queued later on this stream.
    unsafe {
        result::launch_kernel(
            function.handle,
            (launch.workgroups, 1, 1),
            (x, y, z),
            function.entry.dynamic_shared_bytes,
            stream,
            &mut pointers,
        )
    }
    .map_err(|error| fail(error.to_string()))?;
    if let Some(start) = start {
        let stop = events.take()?;
        record(stop)?;
        events.running.push((launch.label.into(), start, stop));
    }
    Ok(())
}
