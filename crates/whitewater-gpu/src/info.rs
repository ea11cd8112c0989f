//! What a device is and can do.

use std::fmt;

/// The interface that a device is driven through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    Cuda,
    Vulkan,
    Metal,
    Dx12,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Cuda => "cuda",
            Backend::Vulkan => "vulkan",
            Backend::Metal => "metal",
            Backend::Dx12 => "dx12",
        })
    }
}

/// Optional abilities that kernels are specialised by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// 64-bit integers in kernels.
    pub int64: bool,
    /// 64-bit atomics with all operations, compare-exchange included.
    pub int64_atomics: bool,
    /// Double precision.
    pub float64: bool,
    /// Subgroup operations.
    pub subgroups: bool,
    /// A workgroup waiting on another one that has started is sure to see it finish.
    pub forward_progress: bool,
    /// Per-kernel times on the device's own clock.
    pub timestamps: bool,
}

/// A device's description.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The adapter's name as its driver tells it.
    pub name: String,
    pub backend: Backend,
    /// The driver and its version.
    pub driver: String,
    /// Compute capability, such as `sm_90`; only on CUDA.
    pub architecture: Option<String>,
    /// True where a CPU plays the GPU.
    pub software: bool,
    /// Bytes of device memory; 0 where the interface does not tell.
    pub memory_bytes: u64,
    /// The most bytes that one binding can hold.
    pub max_binding_bytes: u64,
    /// The most storage buffers that one kernel can bind.
    pub max_storage_buffers: u32,
    /// Workgroup memory of one workgroup in bytes.
    pub workgroup_memory: u32,
    /// The most invocations of a workgroup.
    pub max_workgroup_size: u32,
    /// The largest number of workgroups along x.
    pub max_workgroups: u32,
    /// Invocations of a subgroup: least and most.
    pub subgroup_size: (u32, u32),
    /// Multiprocessors, or an estimate of as many.
    pub multiprocessors: u32,
    pub features: Features,
}
