//! The wgpu backend: Vulkan, Metal, DX12 and software drivers.

mod adapter;
mod compile;
mod queue;

use parking_lot::Mutex;

pub(crate) use adapter::enumerate;

use crate::{
    DeviceInfo, Error, Result, Selection,
    backend::{DeviceBackend, RawBuffer, RawLaunch, RawModule, Timing},
    cache::DiskCache,
    shader::Linked,
};
use std::sync::{Arc, OnceLock};

/// One adapter with its queue.
pub(crate) struct Wgpu {
    info: DeviceInfo,
    device: ::wgpu::Device,
    queue: Mutex<queue::Queue>,
    pipelines: compile::Pipelines,
    /// The first error that no scope caught, or the reason of a loss.
    failure: Arc<OnceLock<String>>,
}

impl Wgpu {
    /// Opens the best adapter of the kind asked for.
    pub(crate) fn open(selection: Selection, cache: &DiskCache) -> Result<Self> {
        let (adapter, info) = adapter::find(selection)?;
        let (device, queue) = adapter::open(&adapter, selection)?;
        let failure = Arc::new(OnceLock::new());
        let seen = failure.clone();
        device.on_uncaptured_error(Arc::new(move |error: ::wgpu::Error| {
            seen.get_or_init(|| error.to_string());
        }));
        let seen = failure.clone();
        device.set_device_lost_callback(move |reason, message| {
            if reason != ::wgpu::DeviceLostReason::Destroyed {
                seen.get_or_init(|| format!("{reason:?}: {message}"));
            }
        });
        Ok(Self {
            queue: Mutex::new(queue::Queue::new(&device, queue, &info)),
            pipelines: compile::Pipelines::new(&device, &adapter, cache),
            info,
            device,
            failure,
        })
    }

    /// The failure that an earlier operation caused, if any.
    fn check(&self) -> Result<()> {
        match self.failure.get() {
            Some(reason) => Err(Error::Lost {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }
}

fn buffer(raw: &RawBuffer) -> Result<&::wgpu::Buffer> {
    match raw {
        RawBuffer::Wgpu(buffer) => Ok(buffer),
        RawBuffer::Cuda(_) => Err(Error::Launch {
            kernel: "wgpu".into(),
            reason: "a buffer of another device".into(),
        }),
    }
}

impl DeviceBackend for Wgpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&self) -> Option<u64> {
        None
    }

    fn alloc(&self, bytes: u64) -> Result<RawBuffer> {
        use ::wgpu::BufferUsages;
        let full = || Error::OutOfMemory {
            asked: bytes,
            in_use: 0,
            budget: 0,
        };
        if bytes > self.device.limits().max_buffer_size {
            return Err(full());
        }
        let scope = self
            .device
            .push_error_scope(::wgpu::ErrorFilter::OutOfMemory);
        let created = self.device.create_buffer(&::wgpu::BufferDescriptor {
            label: None,
            size: bytes,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        if pollster::block_on(scope.pop()).is_some() {
            return Err(full());
        }
        self.check()?;
        Ok(RawBuffer::Wgpu(created))
    }

    fn free(&self, raw: RawBuffer) {
        // wgpu frees the memory once the last submission that uses it has finished; work that is
        // only recorded keeps its own handle.
        drop(raw);
    }

    fn write(&self, to: &RawBuffer, offset: u64, bytes: &[u8]) -> Result<()> {
        self.queue.lock().write(buffer(to)?, offset, bytes);
        self.check()
    }

    fn read(&self, from: &RawBuffer, offset: u64, into: &mut [u8]) -> Result<()> {
        self.queue.lock().read(buffer(from)?, offset, into)?;
        self.check()
    }

    fn copy(&self, from: &RawBuffer, to: &RawBuffer, bytes: u64) -> Result<()> {
        let bytes = bytes.next_multiple_of(4);
        self.queue
            .lock()
            .encoder()
            .copy_buffer_to_buffer(buffer(from)?, 0, buffer(to)?, 0, bytes);
        self.check()
    }

    fn fill(&self, raw: &RawBuffer, bytes: u64, byte: u8) -> Result<()> {
        self.queue.lock().fill(buffer(raw)?, bytes, byte);
        self.check()
    }

    fn compile(&self, linked: &Linked, cache: &DiskCache) -> Result<RawModule> {
        self.check()?;
        self.pipelines.compile(&self.device, linked, cache)
    }

    fn launch(&self, launch: &RawLaunch<'_>) -> Result<()> {
        self.queue.lock().launch(launch)?;
        self.check()
    }

    fn synchronize(&self) -> Result<()> {
        self.queue.lock().wait()?;
        self.check()
    }

    fn timings(&self) -> Result<Vec<Timing>> {
        let timings = self.queue.lock().timings()?;
        self.check()?;
        Ok(timings)
    }

    fn persist(&self, cache: &DiskCache) {
        self.pipelines.persist(cache);
    }
}
