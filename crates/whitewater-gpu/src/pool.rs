//! The memory pool: device blocks kept for reuse under a byte budget.
//!
//! Work on a device is ordered, so a block may be handed out again as soon as its last owner on
//! the host drops it: kernels that still read it run before those of the next owner. Where memory can
//! be addressed in the middle, blocks are ranges of large segments, and exact; elsewhere they are
//! kept by size, a request being rounded up by at most an eighth, so that blocks of like sizes meet
//! again.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::{
    Error, Result,
    arena::{Arena, GRAIN},
    backend::{DeviceBackend, RawBuffer},
};

/// Small requests share segments of this size.
const SEGMENT: u64 = 64 << 20;

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

impl MemoryStats {
    fn held(&self) -> u64 {
        self.in_use + self.cached
    }
}

/// Memory that no buffer holds.
enum Free {
    /// Blocks by size.
    Blocks(BTreeMap<u64, Vec<RawBuffer>>),
    Ranges(Arena),
}

struct State {
    stats: MemoryStats,
    free: Free,
}

pub(crate) struct Pool {
    state: Mutex<State>,
}

/// The size of block that serves a request of `bytes` where blocks are kept by size.
fn block_size(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (bytes.next_power_of_two() / 16).clamp(256, 32 << 20);
    bytes.next_multiple_of(step)
}

impl Free {
    fn size_of(&self, bytes: u64) -> u64 {
        match self {
            Free::Blocks(_) => block_size(bytes),
            Free::Ranges(_) => bytes.max(1).next_multiple_of(GRAIN),
        }
    }

    fn take(&mut self, size: u64) -> Option<RawBuffer> {
        match self {
            Free::Blocks(blocks) => blocks.get_mut(&size).and_then(Vec::pop),
            Free::Ranges(arena) => arena.take(size).map(RawBuffer::Cuda),
        }
    }

    fn give(&mut self, raw: RawBuffer, size: u64) {
        match (self, raw) {
            (Free::Ranges(arena), RawBuffer::Cuda(at)) => arena.give(at, size),
            (Free::Blocks(blocks), raw) => blocks.entry(size).or_default().push(raw),
            // A pool has the blocks of one device, and wgpu's have no addresses.
            (Free::Ranges(_), RawBuffer::Wgpu(_)) => {}
        }
    }

    /// Takes out a block that the device can free, the largest there is, with its size.
    fn idle(&mut self) -> Option<(RawBuffer, u64)> {
        match self {
            Free::Blocks(blocks) => loop {
                let mut entry = blocks.last_entry()?;
                match entry.get_mut().pop() {
                    Some(raw) => return Some((raw, *entry.key())),
                    None => entry.remove(),
                };
            },
            Free::Ranges(arena) => {
                let (at, length) = arena.idle()?;
                Some((RawBuffer::Cuda(at), length))
            }
        }
    }
}

impl State {
    fn out_of_memory(&self, asked: u64) -> Error {
        Error::OutOfMemory {
            asked,
            in_use: self.stats.in_use,
            budget: self.stats.budget,
        }
    }

    /// Frees idle blocks until all blocks together fit `limit`.
    fn trim(&mut self, limit: u64, backend: &dyn DeviceBackend) {
        while self.stats.held() > limit {
            let Some((raw, size)) = self.free.idle() else {
                return;
            };
            self.stats.cached -= size;
            backend.free(raw);
        }
    }

    /// Room for `size` bytes more from the device, as free memory or at once as a block.
    fn extend(&mut self, size: u64, backend: &dyn DeviceBackend) -> Result<RawBuffer> {
        let budget = self.stats.budget;
        if self.stats.in_use + size > budget {
            return Err(self.out_of_memory(size));
        }
        self.trim(budget - size, backend);
        if self.stats.held() + size > budget {
            // Free ranges that are too short lie between those in use.
            return Err(self.out_of_memory(size));
        }
        let segment = match self.free {
            Free::Blocks(_) => size,
            Free::Ranges(_) => size.max(SEGMENT.min(budget - self.stats.held())),
        };
        let raw = match backend.alloc(segment) {
            // The device may hold less than the budget says: give back what is cached.
            Err(Error::OutOfMemory { .. }) => {
                self.trim(0, backend);
                backend.alloc(segment)
            }
            other => other,
        }
        .map_err(|error| match error {
            Error::OutOfMemory { .. } => self.out_of_memory(size),
            other => other,
        })?;
        match (&mut self.free, &raw) {
            (Free::Ranges(arena), RawBuffer::Cuda(at)) => {
                arena.add(*at, segment);
                self.stats.cached += segment;
                let raw = arena.take(size).map(RawBuffer::Cuda);
                self.stats.cached -= size;
                raw.ok_or_else(|| self.out_of_memory(size))
            }
            _ => Ok(raw),
        }
    }
}

impl Pool {
    /// A pool of `budget` bytes; `ranges` where blocks may be parts of what the device allocates.
    pub(crate) fn new(budget: u64, ranges: bool) -> Self {
        let free = match ranges {
            true => Free::Ranges(Arena::default()),
            false => Free::Blocks(BTreeMap::new()),
        };
        let stats = MemoryStats {
            budget,
            ..MemoryStats::default()
        };
        Self {
            state: Mutex::new(State { stats, free }),
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
        state.trim(budget, backend);
    }

    /// A block of at least `bytes`; the block's size is returned with it.
    pub(crate) fn take(&self, bytes: u64, backend: &dyn DeviceBackend) -> Result<(RawBuffer, u64)> {
        let mut state = self.state.lock();
        let size = state.free.size_of(bytes);
        if state.stats.in_use + size > state.stats.budget {
            return Err(state.out_of_memory(bytes));
        }
        let raw = match state.free.take(size) {
            Some(raw) => {
                state.stats.cached -= size;
                raw
            }
            None => state.extend(size, backend)?,
        };
        state.stats.in_use += size;
        state.stats.peak = state.stats.peak.max(state.stats.in_use);
        Ok((raw, size))
    }

    pub(crate) fn give(&self, raw: RawBuffer, size: u64) {
        let mut state = self.state.lock();
        state.stats.in_use -= size;
        state.stats.cached += size;
        state.free.give(raw, size);
    }

    /// Takes back the end of a block of `size` bytes of which `bytes` are needed; the size that is
    /// left, or none where blocks are whole.
    pub(crate) fn shrink(&self, raw: &RawBuffer, size: u64, bytes: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let kept = state.free.size_of(bytes).min(size);
        let (Free::Ranges(arena), RawBuffer::Cuda(at)) = (&mut state.free, raw) else {
            return None;
        };
        if kept < size {
            arena.give(at + kept, size - kept);
            state.stats.in_use -= size - kept;
            state.stats.cached += size - kept;
        }
        Some(kept)
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
