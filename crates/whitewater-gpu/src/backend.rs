//! What an interface must be able to do; `cuda` and `wgpu` implement it.

use std::{any::Any, sync::Arc, time::Duration};

use crate::{DeviceInfo, Result, cache::DiskCache, shader::Linked};

/// Device memory as its backend knows it.
#[derive(Clone)]
pub(crate) enum RawBuffer {
    Cuda(u64),
    Wgpu(::wgpu::Buffer),
}

/// A compiled module and the entry points that it holds.
pub(crate) struct RawModule {
    pub(crate) module: Arc<dyn Any + Send + Sync>,
    /// False where the disk cache held it.
    pub(crate) compiled: bool,
}

/// One argument of a launch, in (group, binding) order.
pub(crate) struct Argument<'a> {
    pub(crate) group: u32,
    pub(crate) binding: u32,
    pub(crate) raw: &'a RawBuffer,
    pub(crate) bytes: u64,
}

/// A launch as a backend sees it.
pub(crate) struct RawLaunch<'a> {
    pub(crate) module: &'a (dyn Any + Send + Sync),
    pub(crate) entry: &'a str,
    /// The kernel's name in profiles and errors.
    pub(crate) label: &'a str,
    pub(crate) arguments: &'a [Argument<'a>],
    /// The contents of the kernel's one uniform.
    pub(crate) params: &'a [u8],
    pub(crate) workgroups: u32,
    /// Whether to take the kernel's time.
    pub(crate) timed: bool,
}

/// The time of one timed launch, in launch order.
pub(crate) struct Timing {
    pub(crate) kernel: String,
    pub(crate) time: Duration,
}

pub(crate) trait DeviceBackend: Send + Sync {
    fn info(&self) -> &DeviceInfo;
    /// Memory that this process may still take, where the interface tells.
    fn free_memory(&self) -> Option<u64>;
    /// Whether a buffer may be any part of what `alloc` gave.
    fn addressable(&self) -> bool {
        false
    }
    fn alloc(&self, bytes: u64) -> Result<RawBuffer>;
    fn free(&self, raw: RawBuffer);
    fn write(&self, to: &RawBuffer, offset: u64, bytes: &[u8]) -> Result<()>;
    fn read(&self, from: &RawBuffer, offset: u64, into: &mut [u8]) -> Result<()>;
    fn copy(&self, from: &RawBuffer, to: &RawBuffer, bytes: u64) -> Result<()>;
    fn fill(&self, buffer: &RawBuffer, bytes: u64, byte: u8) -> Result<()>;
    fn compile(&self, linked: &Linked, cache: &DiskCache) -> Result<RawModule>;
    fn launch(&self, launch: &RawLaunch<'_>) -> Result<()>;
    fn synchronize(&self) -> Result<()>;
    /// The times of launches that have finished and were not yet told.
    fn timings(&self) -> Result<Vec<Timing>>;
    /// Writes what the backend keeps on disk beyond single modules.
    fn persist(&self, cache: &DiskCache);
}
