//! The memory pool: device blocks by size, kept for reuse under a byte budget.
//!
//! Work on a device is ordered, so a block may be handed out again as soon as its last owner on
//! the host drops it: kernels that still read it run before those of the next owner. A request is
//! rounded up by at most an eighth, so that blocks of like sizes meet again.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::{
    Error, Result,
    backend::{DeviceBackend, RawBuffer},
};

/// Bytes of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Held by live buffers, rounding included.
    pub in_use: u64,
    /// The most that was in use since the last reset.
    pub peak: u64,
    /// Kept for reuse, held by no buffer.
    pub cached: u64,
    /// The most that `in_use` and `cached` together may reach.
    pub budget: u64,
}

#[derive(Default)]
struct State {
    stats: MemoryStats,
    free: BTreeMap<u64, Vec<RawBuffer>>,
}

pub(crate) struct Pool {
    state: Mutex<State>,
}

/// The size of block that serves a request of `bytes`.
fn block_size(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (bytes.next_power_of_two() / 16).clamp(256, 32 << 20);
    bytes.next_multiple_of(step)
}

impl Pool {
    pub(crate) fn new(budget: u64) -> Self {
        let mut state = State::default();
        state.stats.budget = budget;
        Self {
            state: Mutex::new(state),
        }
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        self.state.lock().stats
    }

    pub(crate) fn reset_peak(&self) {
        let stats = &mut self.state.lock().stats;
        stats.peak = stats.in_use;
    }

    pub(crate) fn set_budget(&self, budget: u64, backend: &dyn DeviceBackend) {
        let mut state = self.state.lock();
        state.stats.budget = budget;
        Self::trim(&mut state, budget, backend);
    }

    /// A block of at least `bytes`; the block's size is returned with it.
    pub(crate) fn take(&self, bytes: u64, backend: &dyn DeviceBackend) -> Result<(RawBuffer, u64)> {
        let size = block_size(bytes);
        let mut state = self.state.lock();
        let out_of_memory = |stats: &MemoryStats| Error::OutOfMemory {
            asked: bytes,
            in_use: stats.in_use,
            budget: stats.budget,
        };
        let cached = state.free.get_mut(&size).and_then(Vec::pop);
        let raw = match cached {
            Some(raw) => {
                state.stats.cached -= size;
                raw
            }
            None => {
                if state.stats.in_use + size > state.stats.budget {
                    return Err(out_of_memory(&state.stats));
                }
                let room = state.stats.budget - size;
                Self::trim(&mut state, room, backend);
                match backend.alloc(size) {
                    Ok(raw) => raw,
                    // The device may hold less than the budget says: give back what is cached.
                    Err(Error::OutOfMemory { .. }) => {
                        Self::trim(&mut state, 0, backend);
                        backend.alloc(size).map_err(|e| match e {
                            Error::OutOfMemory { .. } => out_of_memory(&state.stats),
                            other => other,
                        })?
                    }
                    Err(other) => return Err(other),
                }
            }
        };
        state.stats.in_use += size;
        state.stats.peak = state.stats.peak.max(state.stats.in_use);
        Ok((raw, size))
    }

    pub(crate) fn give(&self, raw: RawBuffer, size: u64) {
        let mut state = self.state.lock();
        state.stats.in_use -= size;
        state.stats.cached += size;
        state.free.entry(size).or_default().push(raw);
    }

    /// Frees cached blocks, largest first, until all blocks together fit `limit`.
    fn trim(state: &mut State, limit: u64, backend: &dyn DeviceBackend) {
        while state.stats.in_use + state.stats.cached > limit {
            let Some(mut entry) = state.free.last_entry() else {
                return;
            };
            let size = *entry.key();
            if let Some(raw) = entry.get_mut().pop() {
                state.stats.cached -= size;
                backend.free(raw);
            } else {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::block_size;

    #[test]
    fn blocks_waste_at_most_an_eighth() {
        for bytes in [
            0u64,
            1,
            255,
            256,
            257,
            4096,
            5000,
            1 << 20,
            (1 << 20) + 1,
            3 << 30,
        ] {
            let size = block_size(bytes);
            assert!(size >= bytes);
            assert!(
                size <= (bytes + bytes / 8).max(bytes + 256),
                "{bytes} {size}"
            );
        }
    }
}
