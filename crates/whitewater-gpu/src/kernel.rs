//! Compiled kernels and their launches.

use std::sync::Arc;

use crate::{
    Buffer, Device, Error, Result,
    backend::{Argument, RawLaunch, RawModule},
    shader::{BindingKind, Entry},
};

/// A module that the device's cache holds.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) raw: RawModule,
    pub(crate) entries: Vec<Entry>,
}

/// One entry point of a compiled shader.
#[derive(Clone)]
pub struct Kernel {
    device: Device,
    module: Arc<Module>,
    entry: usize,
}

impl Kernel {
    pub(crate) fn new(device: Device, module: Arc<Module>, name: &str) -> Result<Self> {
        let entry = module
            .entries
            .iter()
            .position(|entry| entry.name == name)
            .ok_or_else(|| Error::Compile {
                kernel: module.name.clone(),
                log: format!("it has no entry point '{name}'"),
            })?;
        Ok(Self {
            device,
            module,
            entry,
        })
    }

    fn entry(&self) -> &Entry {
        &self.module.entries[self.entry]
    }

    /// Starts putting a launch together.
    pub fn launch(&self) -> Launch<'_> {
        Launch {
            kernel: self,
            bound: Vec::new(),
            params: Vec::new(),
            bytes: 0,
        }
    }
}

/// A launch in the making. Bindings that the entry point does not use are ignored, so kernels of
/// one module can share a binding list.
pub struct Launch<'a> {
    kernel: &'a Kernel,
    bound: Vec<(u32, u32, &'a Buffer)>,
    params: Vec<u8>,
    bytes: u64,
}

impl<'a> Launch<'a> {
    /// Binds `buffer` at `(group, binding)`.
    pub fn bind(mut self, group: u32, binding: u32, buffer: &'a Buffer) -> Self {
        self.bound.push((group, binding, buffer));
        self
    }

    /// Binds `buffers` at bindings 0, 1, … of `group`.
    pub fn bind_group(mut self, group: u32, buffers: impl IntoIterator<Item = &'a Buffer>) -> Self {
        for (binding, buffer) in buffers.into_iter().enumerate() {
            self.bound.push((group, binding as u32, buffer));
        }
        self
    }

    /// The contents of the kernel's uniform.
    pub fn params<T: bytemuck::NoUninit>(mut self, params: &T) -> Self {
        self.params = bytemuck::bytes_of(params).to_vec();
        self
    }

    /// Declares the bytes that the launch must move, for the profile.
    pub fn moves(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Queues the launch of `workgroups` workgroups; none is a launch that does nothing.
    pub fn run(self, workgroups: u32) -> Result<()> {
        let kernel = self.kernel;
        let device = &kernel.device;
        device.check()?;
        if workgroups == 0 {
            return Ok(());
        }
        let entry = kernel.entry();
        let label = format!("{}::{}", kernel.module.name, entry.name);
        let fail = |reason: String| Error::Launch {
            kernel: label.clone(),
            reason,
        };
        let limits = device.info();
        if workgroups > limits.max_workgroups {
            return Err(fail(format!(
                "{workgroups} workgroups exceed the device's {}",
                limits.max_workgroups
            )));
        }
        let mut arguments = Vec::with_capacity(entry.slots.len());
        for slot in &entry.slots {
            if slot.kind == BindingKind::Uniform {
                continue;
            }
            let (_, _, buffer) = self
                .bound
                .iter()
                .find(|(group, binding, _)| (*group, *binding) == (slot.group, slot.binding))
                .ok_or_else(|| {
                    fail(format!(
                        "nothing bound at group {} binding {}",
                        slot.group, slot.binding
                    ))
                })?;
            if buffer.len() > limits.max_binding_bytes {
                return Err(fail(format!(
                    "a buffer of {} bytes exceeds the {} that one binding holds",
                    buffer.len(),
                    limits.max_binding_bytes
                )));
            }
            arguments.push(Argument {
                group: slot.group,
                binding: slot.binding,
                raw: buffer.raw()?,
                bytes: buffer.len(),
            });
        }
        let needs_params = entry.slots.iter().any(|s| s.kind == BindingKind::Uniform);
        if needs_params && self.params.is_empty() {
            return Err(fail("its parameters are missing".into()));
        }
        device.run(
            self.bytes,
            &RawLaunch {
                module: &*kernel.module.raw.module,
                entry: &entry.name,
                label: &label,
                arguments: &arguments,
                params: &self.params,
                workgroups,
                timed: device.timed(),
            },
        )
    }
}
