//! Device memory with an owner.

use std::sync::Arc;

use crate::{Device, Error, Result, backend::RawBuffer};

/// A block of device memory of a fixed length, shared by its clones and returned to the pool with
/// the last of them. Its contents are undefined until something writes them.
#[derive(Clone)]
pub struct Buffer(Arc<Block>);

struct Block {
    device: Device,
    raw: Option<RawBuffer>,
    bytes: u64,
    pooled: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.device.inner.pool.give(raw, self.pooled);
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

impl Buffer {
    pub(crate) fn new(device: Device, raw: RawBuffer, bytes: u64, pooled: u64) -> Self {
        Self(Arc::new(Block {
            device,
            raw: Some(raw),
            bytes,
            pooled,
        }))
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.0.bytes
    }

    /// True where the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that holds the memory.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The first `bytes` bytes of the buffer: the rest goes back to the pool. In place where the device
    /// allows it and no clone of the buffer is alive, else by a copy.
    pub fn shrunk(self, bytes: u64) -> Result<Self> {
        if bytes >= self.len() {
            return Ok(self);
        }
        let device = self.device().clone();
        let whole = match Arc::try_unwrap(self.0) {
            Ok(mut block) => {
                let pool = &device.inner.pool;
                let raw = block.raw.as_ref();
                if let Some(kept) = raw.and_then(|raw| pool.shrink(raw, block.pooled, bytes)) {
                    block.pooled = kept;
                    block.bytes = bytes;
                    return Ok(Self(Arc::new(block)));
                }
                Self(Arc::new(block))
            }
            Err(shared) => Self(shared),
        };
        let exact = device.alloc(bytes)?;
        device.copy(&whole, &exact, bytes)?;
        Ok(exact)
    }

    pub(crate) fn raw(&self) -> Result<&RawBuffer> {
        self.0.raw.as_ref().ok_or_else(|| Error::Lost {
            reason: "a buffer was used after its release".into(),
        })
    }

    /// Waits for all launches and copies the whole buffer to the host.
    pub fn download(&self) -> Result<Vec<u8>> {
        self.download_range(0, self.len())
    }

    /// Waits for all launches and copies `bytes` bytes from `offset` to the host.
    pub fn download_range(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        self.0.device.download(self, offset, bytes)
    }

    /// As [`download`](Self::download), as values of a plain type; a trailing rest is dropped.
    pub fn download_as<T: bytemuck::Pod>(&self) -> Result<Vec<T>> {
        let bytes = self.download()?;
        let size = size_of::<T>();
        Ok(bytes
            .chunks_exact(size)
            .map(bytemuck::pod_read_unaligned)
            .collect())
    }
}
