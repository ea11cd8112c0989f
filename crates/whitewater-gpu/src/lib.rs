//! Devices, buffers and kernels: one WESL kernel source on CUDA and on wgpu.
//!
//! ```text
//! WESL modules + specialisation ──link──▶ WGSL ──naga──▶ IR ─┬─ naga-cuda ─▶ CUDA C++ ─▶ NVRTC cubin
//!    (aliases, constants, features,                          └─ wgpu ─▶ Vulkan, Metal, DX12, software
//!     generated modules)
//! ```
//!
//! A [`Device`] owns a memory pool with a byte budget, a cache of compiled kernels (in memory and
//! on disk) and a profile of what ran. Launches are asynchronous and ordered; the host waits only
//! in [`Buffer::download`] and [`Device::synchronize`]. After a kernel fails, nothing can be
//! downloaded from the device any more: garbage is never read.

mod arena;
mod backend;
mod buffer;
mod cache;
mod cuda;
mod device;
mod error;
mod info;
mod kernel;
mod pool;
mod profile;
mod selection;
mod shader;
mod wgpu;

pub use buffer::Buffer;
pub use device::Device;
pub use error::Error;
pub use info::{Backend, DeviceInfo, Features};
pub use kernel::{Kernel, Launch};
pub use pool::MemoryStats;
pub use profile::{KernelStat, Profile, TransferStat};
pub use selection::{Availability, Selection, enumerate};
pub use shader::{Intrinsic, Library, Linked, Shader};

/// What the device layer returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
