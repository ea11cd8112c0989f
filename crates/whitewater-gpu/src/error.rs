//! Errors of the device layer; each names the thing its reader can change.

/// Why a device operation did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No adapter of the kind asked for can be used.
    #[error("no {selection} device: {reason}")]
    NoDevice { selection: String, reason: String },
    /// The name is none of the device kinds.
    #[error("unknown device '{name}': use auto, cuda, vulkan, metal, dx12, software or cpu")]
    UnknownSelection { name: String },
    /// The device lacks something that a kernel needs.
    #[error("{device} cannot run {what}")]
    Unsupported { device: String, what: String },
    /// A kernel did not compile.
    #[error("kernel {kernel} does not compile: {log}")]
    Compile { kernel: String, log: String },
    /// The pool's budget, or the device itself, cannot hold an allocation.
    #[error(
        "out of GPU memory: {asked} bytes asked for, {in_use} in use, budget {budget} \
         (raise the memory budget or use smaller batches)"
    )]
    OutOfMemory {
        asked: u64,
        in_use: u64,
        budget: u64,
    },
    /// A launch was put together wrongly: a missing binding, too large a grid, or the like.
    #[error("launch of kernel {kernel}: {reason}")]
    Launch { kernel: String, reason: String },
    /// The device failed while running and can no longer be used.
    #[error("the device is lost: {reason}")]
    Lost { reason: String },
}
