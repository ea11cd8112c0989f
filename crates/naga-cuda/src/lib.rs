//! A naga backend that writes CUDA C++ for compute shaders.
//!
//! ```text
//! naga::Module (validated) ──write──▶ CUDA C++ (for NVRTC; no headers) + one signature an entry point
//! ```
//!
//! Storage buffers become pointers (read-only ones `const __restrict__`), uniforms parameters by
//! value, workgroup variables `__shared__` memory (one dynamic block where 48 KiB do not hold them).
//! Arithmetic has WGSL's defined behaviour: signed integers wrap, `x / 0` is `x`, shifts are masked,
//! float-to-integer conversions saturate. Indices are not checked. Compile with `--fmad=false` where
//! results must equal those of other backends.
//!
//! Subgroups are warps. In control flow that is uniform in the subgroup, operations take the whole
//! warp; elsewhere they take the lanes that are active.

mod entry;
mod error;
mod expression;
mod function;
mod intrinsics;
mod literal;
mod statement;
mod types;
mod uniformity;
mod writer;

pub use error::Error;
pub use intrinsics::Intrinsics;

use naga::{
    Module, back::PipelineConstants, back::pipeline_constants::process_overrides, valid::ModuleInfo,
};

/// What to write and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The entry points to write; all compute entry points if none are named.
    pub entry_points: Option<Vec<String>>,
    /// CUDA bodies that replace those of named functions.
    pub intrinsics: Intrinsics,
    /// Whether workgroup memory starts as zero, as WGSL has it. It costs time, so the default is not.
    pub zero_initialize_workgroup_memory: bool,
    /// Invocations that a multiprocessor should hold at a time: a bound on the registers of each. The
    /// compiler's own choice if none.
    pub resident_invocations: Option<u32>,
    /// Values of pipeline-overridable constants.
    pub pipeline_constants: PipelineConstants,
}

/// The source and what it takes to launch it.
#[derive(Clone, Debug)]
pub struct Translation {
    pub source: String,
    pub entry_points: Vec<EntryPoint>,
}

/// A kernel of a [`Translation`].
#[derive(Clone, Debug)]
pub struct EntryPoint {
    /// The name in WGSL.
    pub name: String,
    /// The `extern "C"` name in the source.
    pub symbol: String,
    pub workgroup_size: [u32; 3],
    /// Parameters in order: those of the bindings that the entry point uses, by (group, binding).
    pub arguments: Vec<Argument>,
    pub static_shared_bytes: u32,
    /// Bytes to launch with; above 48 KiB the function's attribute must allow them.
    pub dynamic_shared_bytes: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    pub group: u32,
    pub binding: u32,
    pub kind: ArgumentKind,
}

/// How a parameter is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A device pointer; where `needs_length`, an `unsigned long long` of the buffer's bytes follows.
    Storage { writable: bool, needs_length: bool },
    /// The value itself, of this many bytes.
    Uniform { bytes: u32 },
}

/// Writes the compute entry points of `module`, which `info` must be the validation of.
///
/// Errors: [`Error::Unsupported`] names a construct that has no CUDA form here.
pub fn write(module: &Module, info: &ModuleInfo, options: &Options) -> Result<Translation, Error> {
    let (module, info) = process_overrides(module, info, None, &options.pipeline_constants)
        .map_err(|error| Error::Override(error.to_string()))?;
    writer::Writer::new(&module, &info, options)?.write()
}
