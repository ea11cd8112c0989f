//! Copies between host and device through two reused pinned buffers, so that the host fills one
//! while the copy engine drains the other.

use std::{ffi::c_void, ptr, slice};

use cudarc::driver::{result, sys};

use super::{lost, unavailable};
use crate::Result;

const CHUNK: usize = 16 << 20;

struct Pinned {
    memory: *mut u8,
    /// Recorded after the last copy that uses the memory.
    done: sys::CUevent,
}

pub(super) struct Staging {
    pinned: [Pinned; 2],
}

// SAFETY: pinned memory and events belong to the process; the owner locks the struct.
unsafe impl Send for Staging {}

impl Staging {
    /// Takes the pinned memory; the context must be current.
    pub(super) fn new() -> Result<Self> {
        let pinned = || -> Result<Pinned> {
            // SAFETY: plain allocations of the driver, kept until the process ends.
            let memory = unsafe { result::malloc_host(CHUNK, 0) }.map_err(unavailable)?;
            let done = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
                .map_err(unavailable)?;
            Ok(Pinned {
                memory: memory.cast(),
                done,
            })
        };
        Ok(Self {
            pinned: [pinned()?, pinned()?],
        })
    }

    /// Queues the copy of `bytes` to `to`; returns once the host's bytes are no longer needed.
    pub(super) fn upload(&mut self, stream: sys::CUstream, to: u64, bytes: &[u8]) -> Result<()> {
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            let pinned = &self.pinned[index % 2];
            // SAFETY: the event is ours; an unrecorded event counts as done. The chunk fits the
            // pinned memory, which no copy uses once the event has passed, and the target range
            // lies within a buffer that the caller holds.
            unsafe {
                result::event::synchronize(pinned.done).map_err(lost)?;
                ptr::copy_nonoverlapping(chunk.as_ptr(), pinned.memory, chunk.len());
                let staged = slice::from_raw_parts(pinned.memory, chunk.len());
                result::memcpy_htod_async(to + (index * CHUNK) as u64, staged, stream)
                    .map_err(lost)?;
                result::event::record(pinned.done, stream).map_err(lost)?;
            }
        }
        Ok(())
    }

    /// Copies device memory at `from` to `into` and waits for it.
    pub(super) fn download(
        &mut self,
        stream: sys::CUstream,
        from: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let total = into.len();
        let chunks = total.div_ceil(CHUNK);
        let range = |index: usize| index * CHUNK..((index + 1) * CHUNK).min(total);
        // SAFETY: as in `upload`, with the direction turned: the host reads pinned memory only
        // after the event behind its copy has passed.
        unsafe {
            for index in 0..=chunks {
                if index < chunks {
                    let pinned = &self.pinned[index % 2];
                    result::event::synchronize(pinned.done).map_err(lost)?;
                    let bytes = range(index).len();
                    let staged: *mut c_void = pinned.memory.cast();
                    let device = from + (index * CHUNK) as u64;
                    sys::cuMemcpyDtoHAsync_v2(staged, device, bytes, stream)
                        .result()
                        .map_err(lost)?;
                    result::event::record(pinned.done, stream).map_err(lost)?;
                }
                if index > 0 {
                    let pinned = &self.pinned[(index - 1) % 2];
                    result::event::synchronize(pinned.done).map_err(lost)?;
                    let target = &mut into[range(index - 1)];
                    ptr::copy_nonoverlapping(pinned.memory, target.as_mut_ptr(), target.len());
                }
            }
            if chunks == 0 {
                result::stream::synchronize(stream).map_err(lost)?;
            }
        }
        Ok(())
    }
}
