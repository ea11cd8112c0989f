//! Ranges of large segments of device memory, for interfaces whose memory can be addressed in the middle.
//!
//! A request takes the smallest free range that holds it and leaves the rest free; a range that comes
//! back joins its free neighbours of the same segment. So a buffer may also give back its end, once
//! the number of rows in it is known.

use std::collections::{BTreeMap, BTreeSet};

/// Every range starts and ends at a multiple of this.
pub(crate) const GRAIN: u64 = 512;

/// Addresses only: the pool allocates and frees the segments.
#[derive(Default)]
pub(crate) struct Arena {
    /// Length by address.
    segments: BTreeMap<u64, u64>,
    free: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
}

impl Arena {
    /// Adds a segment, all of it free.
    pub(crate) fn add(&mut self, at: u64, length: u64) {
        self.segments.insert(at, length);
        self.insert(at, length);
    }

    /// The address of a range of `length` bytes, a multiple of [`GRAIN`], if one is free.
    pub(crate) fn take(&mut self, length: u64) -> Option<u64> {
        let (found, at) = *self.by_length.range((length, 0)..).next()?;
        self.remove(at, found);
        if found > length {
            self.insert(at + length, found - length);
        }
        Some(at)
    }

    /// Takes a range back.
    pub(crate) fn give(&mut self, at: u64, length: u64) {
        let (mut start, mut end) = (at, at + length);
        let before = self.free.range(..at).next_back().map(|(a, l)| (*a, *l));
        if let Some((address, bytes)) = before
            && address + bytes == start
            && !self.segments.contains_key(&start)
        {
            self.remove(address, bytes);
            start = address;
        }
        if let Some(bytes) = self.free.get(&end).copied()
            && !self.segments.contains_key(&end)
        {
            self.remove(end, bytes);
            end += bytes;
        }
        self.insert(start, end - start);
    }

    /// Takes out the longest segment that is wholly free, with its length.
    pub(crate) fn idle(&mut self) -> Option<(u64, u64)> {
        let (at, length) = self
            .segments
            .iter()
            .filter(|(at, length)| self.free.get(at) == Some(length))
            .map(|(at, length)| (*at, *length))
            .max_by_key(|(_, length)| *length)?;
        self.segments.remove(&at);
        self.remove(at, length);
        Some((at, length))
    }

    fn insert(&mut self, at: u64, length: u64) {
        self.free.insert(at, length);
        self.by_length.insert((length, at));
    }

    fn remove(&mut self, at: u64, length: u64) {
        self.free.remove(&at);
        self.by_length.remove(&(length, at));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Arena, GRAIN};

    #[test]
    fn ranges_join_within_their_segment_alone() {
        let mut arena = Arena::default();
        arena.add(0, 4 * GRAIN);
        arena.add(4 * GRAIN, 4 * GRAIN);
        assert_eq!(arena.take(8 * GRAIN), None);
        let all: Vec<u64> = (0..8).filter_map(|_| arena.take(GRAIN)).collect();
        assert_eq!(all.len(), 8);
        for at in all {
            arena.give(at, GRAIN);
        }
        assert_eq!(arena.idle().map(|(_, length)| length), Some(4 * GRAIN));
        assert_eq!(arena.idle().map(|(_, length)| length), Some(4 * GRAIN));
        assert_eq!(arena.idle(), None);
    }

    proptest! {
        #[test]
        fn ranges_in_use_never_overlap(steps in prop::collection::vec((any::<bool>(), 1u64..9), 1..200)) {
            let mut arena = Arena::default();
            arena.add(0, 32 * GRAIN);
            arena.add(64 * GRAIN, 16 * GRAIN);
            let mut used: Vec<(u64, u64)> = Vec::new();
            for (take, grains) in steps {
                let length = grains * GRAIN;
                if take {
                    if let Some(at) = arena.take(length) {
                        prop_assert!(used.iter().all(|(a, l)| at + length <= *a || a + l <= at));
                        used.push((at, length));
                    }
                } else if let Some((at, held)) = used.pop() {
                    // Gives back the end alone where it can, as a shrunk buffer does.
                    if held > length {
                        arena.give(at + length, held - length);
                        used.push((at, length));
                    } else {
                        arena.give(at, held);
                    }
                }
            }
            for (at, length) in used {
                arena.give(at, length);
            }
            prop_assert_eq!(arena.idle(), Some((0, 32 * GRAIN)));
            prop_assert_eq!(arena.idle(), Some((64 * GRAIN, 16 * GRAIN)));
        }
    }
}
