//! What ran on the device: kernels by name, transfers, compilations.

use std::{collections::BTreeMap, time::Duration};

/// Launches of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelStat {
    pub launches: u64,
    /// Time on the device's clock; zero unless timing is on and the device has timestamps.
    pub gpu_time: Duration,
    /// Bytes that the host declared the launches to move.
    pub bytes: u64,
}

/// Copies in one direction between host and device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransferStat {
    pub copies: u64,
    pub bytes: u64,
    /// Host time spent, waiting included.
    pub time: Duration,
}

impl TransferStat {
    pub(crate) fn add(&mut self, bytes: u64, time: Duration) {
        self.copies += 1;
        self.bytes += bytes;
        self.time += time;
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            copies: self.copies - earlier.copies,
            bytes: self.bytes - earlier.bytes,
            time: self.time.saturating_sub(earlier.time),
        }
    }
}

/// Totals since the device was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    pub kernels: BTreeMap<String, KernelStat>,
    pub uploads: TransferStat,
    pub downloads: TransferStat,
    /// Modules that neither the memory cache nor the disk cache held.
    pub compilations: u64,
    pub compile_time: Duration,
    /// Modules that came from the disk cache.
    pub cache_hits: u64,
}

impl Profile {
    /// What happened between an `earlier` profile of the same device and this one.
    pub fn since(&self, earlier: &Profile) -> Profile {
        let kernels = self
            .kernels
            .iter()
            .map(|(name, stat)| {
                let before = earlier.kernels.get(name).copied().unwrap_or_default();
                let stat = KernelStat {
                    launches: stat.launches - before.launches,
                    gpu_time: stat.gpu_time.saturating_sub(before.gpu_time),
                    bytes: stat.bytes - before.bytes,
                };
                (name.clone(), stat)
            })
            .filter(|(_, stat)| stat.launches > 0)
            .collect();
        Profile {
            kernels,
            uploads: self.uploads.since(&earlier.uploads),
            downloads: self.downloads.since(&earlier.downloads),
            compilations: self.compilations - earlier.compilations,
            compile_time: self.compile_time.saturating_sub(earlier.compile_time),
            cache_hits: self.cache_hits - earlier.cache_hits,
        }
    }

    /// Time of all kernels on the device's clock.
    pub fn gpu_time(&self) -> Duration {
        self.kernels.values().map(|k| k.gpu_time).sum()
    }
}
