//! Entry points: kernels with bindings as parameters, workgroup memory and built-in values.

use naga::{AddressSpace, Binding, BuiltIn, Handle, Type, TypeInner};

use crate::{
    Argument, ArgumentKind, EntryPoint, Error,
    function::{Body, argument_name},
    types::field,
    writer::{Writer, sanitise, unsupported},
};

/// What a kernel may declare statically.
const STATIC_SHARED: u32 = 48 << 10;

impl Writer<'_> {
    /// The text of one entry point and its description.
    pub(crate) fn entry_point(&self, index: usize) -> Result<(String, EntryPoint), Error> {
        let entry = &self.module.entry_points[index];
        let info = self.info.get_entry_point(index);
        let function = &entry.function;
        let place = entry.name.as_str();
        let mut bound = Vec::new();
        let mut shared = Vec::new();
        let mut private = Vec::new();
        for handle in self.used_globals(info) {
            let variable = &self.module.global_variables[handle];
            match (variable.space, &variable.binding) {
                (AddressSpace::WorkGroup, _) => shared.push(handle),
                (AddressSpace::Private, _) => private.push(handle),
                (_, Some(binding)) => bound.push((binding.group, binding.binding, handle)),
                (space, None) => {
                    return Err(unsupported(format!("unbound variable in {space:?}"), place));
                }
            }
        }
        bound.sort_by_key(|(group, binding, _)| (*group, *binding));

        let lengths = self.asks_length(function);
        let mut parameters = Vec::new();
        let mut arguments = Vec::new();
        for (group, binding, handle) in bound {
            let variable = &self.module.global_variables[handle];
            parameters.push(self.global_parameter(handle, "__grid_constant__")?);
            let kind = match variable.space {
                AddressSpace::Storage { access } => {
                    let needs_length = lengths && self.has_length(handle);
                    if needs_length {
                        parameters.push(format!("u64 {}_bytes", self.global_name(handle)));
                    }
                    ArgumentKind::Storage {
                        writable: access.contains(naga::StorageAccess::STORE),
                        needs_length,
                    }
                }
                _ => ArgumentKind::Uniform {
                    bytes: self.types.size(variable.ty)?,
                },
            };
            arguments.push(Argument {
                group,
                binding,
                kind,
            });
        }

        let [x, y, z] = entry.workgroup_size;
        let threads = x * y * z;
        let symbol = format!("{}_k{index}", sanitise(&entry.name));
        let mut body = Body::new(self, function, info, place, self.uniformity.entry(index));
        let (declared, dynamic) = self.shared(&mut body, &shared)?;
        if self.options.zero_initialize_workgroup_memory && !shared.is_empty() {
            for handle in &shared {
                let name = self.global_name(*handle);
                body.line(format!(
                    "for (u32 i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); \
                     i < sizeof({name}) / 4u; i += {threads}u) ((u32*)&{name})[i] = 0u;"
                ));
            }
            body.line("__syncthreads();");
        }
        // Each invocation has its own: a local of the kernel, which functions take by reference.
        for handle in private {
            let variable = &self.module.global_variables[handle];
            let init = match variable.init {
                Some(init) => self.constant(init)?,
                None => format!("{}{{}}", self.types.name(variable.ty)?),
            };
            let (ty, name) = (self.types.name(variable.ty)?, self.global_name(handle));
            body.line(format!("{ty} {name} = {init};"));
        }
        for index in 0..function.arguments.len() {
            self.argument(&mut body, index, entry.workgroup_size)?;
        }
        body.write()?;
        let bounds = match self.options.resident_invocations {
            Some(resident) => format!("{threads}, {}", (resident / threads).max(1)),
            None => threads.to_string(),
        };
        let text = format!(
            "extern \"C\" __global__ void __launch_bounds__({bounds}) {symbol}({}) {{\n{}}}\n",
            parameters.join(", "),
            body.out
        );
        Ok((
            text,
            EntryPoint {
                name: entry.name.clone(),
                symbol,
                workgroup_size: entry.workgroup_size,
                arguments,
                static_shared_bytes: if dynamic { 0 } else { declared },
                dynamic_shared_bytes: if dynamic { declared } else { 0 },
            },
        ))
    }

    /// Declares workgroup variables; returns their bytes and whether they are one dynamic block.
    fn shared(
        &self,
        body: &mut Body<'_, '_>,
        shared: &[Handle<naga::GlobalVariable>],
    ) -> Result<(u32, bool), Error> {
        let mut offsets = Vec::new();
        let mut bytes = 0u32;
        for handle in shared {
            let ty = self.module.global_variables[*handle].ty;
            bytes = bytes.next_multiple_of(self.types.alignment(ty).max(4));
            offsets.push(bytes);
            bytes += self.types.size(ty)?;
        }
        let dynamic = bytes > STATIC_SHARED;
        if dynamic {
            body.line("extern __shared__ __align__(16) unsigned char workgroup_memory[];");
        }
        for (handle, offset) in shared.iter().zip(offsets) {
            let ty = self.types.name(self.module.global_variables[*handle].ty)?;
            let name = self.global_name(*handle);
            body.line(match dynamic {
                true => format!("{ty}& {name} = *({ty}*)(workgroup_memory + {offset});"),
                false => format!("__shared__ {ty} {name};"),
            });
        }
        Ok((bytes, dynamic))
    }

    /// Computes an argument of an entry point from the kernel's built-in variables.
    fn argument(&self, body: &mut Body<'_, '_>, index: usize, size: [u32; 3]) -> Result<(), Error> {
        let function = body.function;
        let argument = &function.arguments[index];
        let name = argument_name(function, index);
        let ty = self.types.name(argument.ty)?;
        if let Some(binding) = &argument.binding {
            let value = builtin(binding, size, &body.place)?;
            body.line(format!("const {ty} {name} = {value};"));
            return Ok(());
        }
        let inner: &TypeInner = &self.module.types[argument.ty as Handle<Type>].inner;
        let TypeInner::Struct { members, .. } = inner else {
            return Err(unsupported(
                "entry point argument without a binding",
                &body.place,
            ));
        };
        body.line(format!("{ty} {name}{{}};"));
        for (at, member) in members.iter().enumerate() {
            let Some(binding) = &member.binding else {
                return Err(unsupported(
                    "entry point argument without a binding",
                    &body.place,
                ));
            };
            let value = builtin(binding, size, &body.place)?;
            body.line(format!("{name}.{} = {value};", field(members, at)));
        }
        Ok(())
    }
}

/// A built-in value.
fn builtin(binding: &Binding, [x, y, z]: [u32; 3], place: &str) -> Result<String, Error> {
    let Binding::BuiltIn(builtin) = binding else {
        return Err(unsupported("user-defined input", place));
    };
    let flat = y == 1 && z == 1;
    let local = match flat {
        true => "threadIdx.x".to_string(),
        false => format!("(threadIdx.x + {x}u * (threadIdx.y + {y}u * threadIdx.z))"),
    };
    Ok(match builtin {
        BuiltIn::GlobalInvocationId => format!(
            "Vec<u32, 3>{{blockIdx.x * {x}u + threadIdx.x, blockIdx.y * {y}u + threadIdx.y, blockIdx.z * {z}u + threadIdx.z}}"
        ),
        BuiltIn::LocalInvocationId => "Vec<u32, 3>{threadIdx.x, threadIdx.y, threadIdx.z}".into(),
        BuiltIn::LocalInvocationIndex => local,
        BuiltIn::WorkGroupId => "Vec<u32, 3>{blockIdx.x, blockIdx.y, blockIdx.z}".into(),
        BuiltIn::WorkGroupSize => format!("Vec<u32, 3>{{{x}u, {y}u, {z}u}}"),
        BuiltIn::NumWorkGroups => "Vec<u32, 3>{gridDim.x, gridDim.y, gridDim.z}".into(),
        BuiltIn::SubgroupSize => "32u".into(),
        BuiltIn::SubgroupInvocationId => format!("({local} & 31u)"),
        BuiltIn::SubgroupId => format!("({local} >> 5u)"),
        BuiltIn::NumSubgroups => format!("{}u", (x * y * z).div_ceil(32)),
        other => return Err(unsupported(format!("built-in {other:?}"), place)),
    })
}
