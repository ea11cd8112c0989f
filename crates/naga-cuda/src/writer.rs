//! The order of the output: prelude, types, functions, entry points.

use naga::{
    AddressSpace, GlobalVariable, Handle, Module, ShaderStage, TypeInner,
    valid::{FunctionInfo, ModuleInfo},
};

use crate::{Error, Options, Translation, types::Types, uniformity::Uniformity};

const PRELUDE: &str = include_str!("prelude.cuh");

/// An [`Error::Unsupported`].
pub(crate) fn unsupported(construct: impl Into<String>, place: &str) -> Error {
    Error::Unsupported {
        construct: construct.into(),
        place: place.into(),
    }
}

/// `label` as part of a C++ identifier; callers append what makes it unique and no keyword.
pub(crate) fn sanitise(label: &str) -> String {
    let text: String = label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    // Identifiers with two underscores in a row are the compiler's.
    let text = text
        .split('_')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("_");
    match text.chars().next() {
        Some(c) if c.is_ascii_digit() => format!("n{text}"),
        Some(_) => text,
        None => "n".into(),
    }
}

pub(crate) struct Writer<'a> {
    pub(crate) module: &'a Module,
    pub(crate) info: &'a ModuleInfo,
    pub(crate) options: &'a Options,
    pub(crate) types: Types<'a>,
    pub(crate) uniformity: Uniformity,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        module: &'a Module,
        info: &'a ModuleInfo,
        options: &'a Options,
    ) -> Result<Self, Error> {
        Ok(Self {
            module,
            info,
            options,
            types: Types::new(module)?,
            uniformity: Uniformity::of(module),
        })
    }

    pub(crate) fn write(&self) -> Result<Translation, Error> {
        let mut source = String::from(PRELUDE);
        source.push_str(&self.types.declarations()?);
        let mut written = vec![false; self.module.functions.len()];
        let mut entry_points = Vec::new();
        let wanted = |name: &String| {
            let names = self.options.entry_points.as_ref();
            names.is_none_or(|names| names.contains(name))
        };
        if let Some(missing) = self.options.entry_points.iter().flatten().find(|name| {
            !self
                .module
                .entry_points
                .iter()
                .any(|e| e.name == **name && e.stage == ShaderStage::Compute)
        }) {
            return Err(Error::EntryPoint(missing.clone()));
        }
        for (index, entry) in self.module.entry_points.iter().enumerate() {
            if entry.stage != ShaderStage::Compute || !wanted(&entry.name) {
                continue;
            }
            self.callees(&entry.function.body, &mut written, &mut source)?;
            let (text, described) = self.entry_point(index)?;
            source.push_str(&text);
            entry_points.push(described);
        }
        Ok(Translation {
            source,
            entry_points,
        })
    }

    /// Writes the functions that `block` calls and that are not written yet, callees first.
    fn callees(
        &self,
        block: &naga::Block,
        written: &mut [bool],
        source: &mut String,
    ) -> Result<(), Error> {
        let mut called = Vec::new();
        crate::uniformity::visit_calls(block, &mut |function| called.push(function));
        for function in called {
            if !std::mem::replace(&mut written[function.index()], true) {
                let body = &self.module.functions[function].body;
                self.callees(body, written, source)?;
                source.push_str(&self.function(function)?);
            }
        }
        Ok(())
    }

    pub(crate) fn global_label(&self, handle: Handle<GlobalVariable>) -> String {
        let variable = &self.module.global_variables[handle];
        variable.name.clone().unwrap_or_else(|| "global".into())
    }

    /// The C++ name of a module-scope variable, inside every function that uses it.
    pub(crate) fn global_name(&self, handle: Handle<GlobalVariable>) -> String {
        format!(
            "{}_g{}",
            sanitise(&self.global_label(handle)),
            handle.index()
        )
    }

    /// The variables that a function uses, itself or through its callees.
    pub(crate) fn used_globals(&self, info: &FunctionInfo) -> Vec<Handle<GlobalVariable>> {
        self.module
            .global_variables
            .iter()
            .map(|(handle, _)| handle)
            .filter(|handle| !info[*handle].is_empty())
            .collect()
    }

    /// Whether a variable is an array of as many elements as its buffer holds: a plain pointer.
    pub(crate) fn is_runtime_array(&self, handle: Handle<GlobalVariable>) -> bool {
        let ty = self.module.global_variables[handle].ty;
        matches!(
            self.types.inner(ty),
            TypeInner::Array {
                size: naga::ArraySize::Dynamic,
                ..
            }
        )
    }

    /// Whether a variable may end in a runtime array, so that its length can be asked for.
    pub(crate) fn has_length(&self, handle: Handle<GlobalVariable>) -> bool {
        let variable = &self.module.global_variables[handle];
        if !matches!(variable.space, AddressSpace::Storage { .. }) {
            return false;
        }
        match self.types.inner(variable.ty) {
            TypeInner::Array {
                size: naga::ArraySize::Dynamic,
                ..
            } => true,
            TypeInner::Struct { members, .. } => members.last().is_some_and(|member| {
                matches!(
                    self.types.inner(member.ty),
                    TypeInner::Array {
                        size: naga::ArraySize::Dynamic,
                        ..
                    }
                )
            }),
            _ => false,
        }
    }

    /// Whether `function`, or one that it calls, asks for the length of a buffer.
    pub(crate) fn asks_length(&self, function: &naga::Function) -> bool {
        let own = function
            .expressions
            .iter()
            .any(|(_, e)| matches!(e, naga::Expression::ArrayLength(_)));
        let mut any = own;
        crate::uniformity::visit_calls(&function.body, &mut |callee| {
            any = any || self.asks_length(&self.module.functions[callee]);
        });
        any
    }

    /// Parameters for the variables that a function uses.
    pub(crate) fn global_parameters(
        &self,
        function: &naga::Function,
        info: &FunctionInfo,
    ) -> Result<Vec<String>, Error> {
        let mut parameters = Vec::new();
        let lengths = self.asks_length(function);
        for handle in self.used_globals(info) {
            parameters.push(self.global_parameter(handle, "")?);
            if lengths && self.has_length(handle) {
                parameters.push(format!("u64 {}_bytes", self.global_name(handle)));
            }
        }
        Ok(parameters)
    }

    /// The declaration of one variable as a parameter; `attribute` goes before by-value ones.
    pub(crate) fn global_parameter(
        &self,
        handle: Handle<GlobalVariable>,
        attribute: &str,
    ) -> Result<String, Error> {
        let variable = &self.module.global_variables[handle];
        let name = self.global_name(handle);
        Ok(match variable.space {
            AddressSpace::Storage { access } => {
                let constant = match access.contains(naga::StorageAccess::STORE) {
                    true => "",
                    false => "const ",
                };
                let pointee = match *self.types.inner(variable.ty) {
                    TypeInner::Array {
                        base,
                        size: naga::ArraySize::Dynamic,
                        ..
                    } => base,
                    _ => variable.ty,
                };
                format!(
                    "{constant}{}* __restrict__ {name}",
                    self.types.name(pointee)?
                )
            }
            AddressSpace::Uniform => {
                let ty = self.types.name(variable.ty)?;
                match attribute {
                    "" => format!("const {ty}& {name}"),
                    _ => format!("const {attribute} {ty} {name}"),
                }
            }
            AddressSpace::WorkGroup | AddressSpace::Private => {
                format!("{}& {name}", self.types.name(variable.ty)?)
            }
            AddressSpace::Handle => format!("{} {name}", self.types.name(variable.ty)?),
            space => return Err(unsupported(format!("address space {space:?}"), &name)),
        })
    }

    /// Arguments for the parameters of [`global_parameters`](Self::global_parameters).
    pub(crate) fn global_arguments(
        &self,
        function: &naga::Function,
        info: &FunctionInfo,
    ) -> Vec<String> {
        let lengths = self.asks_length(function);
        let mut arguments = Vec::new();
        for handle in self.used_globals(info) {
            arguments.push(self.global_name(handle));
            if lengths && self.has_length(handle) {
                arguments.push(format!("{}_bytes", self.global_name(handle)));
            }
        }
        arguments
    }
}
