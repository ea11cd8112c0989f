//! The order of the output: prelude, types, functions, entry points.

use naga::{
    AddressSpace, Function, GlobalVariable, Handle, Module, ShaderStage, StorageAccess, TypeInner,
    valid::{FunctionInfo, ModuleInfo},
};

use crate::{
    Error, Options, Translation,
    error::unsupported,
    names::Names,
    types::{Types, kind},
    uniformity::Uniformity,
    walk::{self, Lengths},
};

pub(crate) const PRELUDE: &str = include_str!("prelude.cuh");

/// A module on its way to CUDA C++.
pub(crate) struct Writer<'a> {
    pub(crate) module: &'a Module,
    pub(crate) info: &'a ModuleInfo,
    pub(crate) options: &'a Options,
    pub(crate) names: &'a Names,
    pub(crate) types: Types<'a>,
    pub(crate) uniformity: Uniformity,
    lengths: Lengths,
    /// The entry points to write, by index.
    entries: Vec<usize>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        module: &'a Module,
        info: &'a ModuleInfo,
        options: &'a Options,
        names: &'a Names,
    ) -> Result<Self, Error> {
        let entries = entries(module, options.entry_points.as_deref())?;
        Ok(Self {
            module,
            info,
            options,
            names,
            types: Types::new(module, names)?,
            uniformity: Uniformity::of(module, &entries),
            lengths: Lengths::of(module),
            entries,
        })
    }

    pub(crate) fn write(&self) -> Result<Translation, Error> {
        let mut source = String::from(PRELUDE);
        source.push_str(self.options.intrinsics.prelude());
        source.push_str(&self.types.declarations());
        let mut written = vec![false; self.module.functions.len()];
        let mut entry_points = Vec::new();
        for &index in &self.entries {
            let entry = &self.module.entry_points[index];
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
        walk::calls(block, &mut |function| called.push(function));
        for function in called {
            if !std::mem::replace(&mut written[function.index()], true) {
                let body = &self.module.functions[function].body;
                self.callees(body, written, source)?;
                source.push_str(&self.function(function)?);
            }
        }
        Ok(())
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

    /// Whether a storage variable is passed as a pointer to the elements of a runtime array, rather
    /// than as one to all of it. Elements of three components are further apart than C++ has them.
    pub(crate) fn is_plain_pointer(&self, handle: Handle<GlobalVariable>) -> bool {
        self.element(handle).is_some()
    }

    fn element(&self, handle: Handle<GlobalVariable>) -> Option<Handle<naga::Type>> {
        match *self.types.inner(self.module.global_variables[handle].ty) {
            TypeInner::Array {
                base,
                size: naga::ArraySize::Dynamic,
                ..
            } => (!self.types.is_vec3(base)).then_some(base),
            _ => None,
        }
    }

    /// By global: whether `function`, or one that it calls, asks for its length.
    pub(crate) fn lengths(&self, function: &Function) -> Vec<bool> {
        self.lengths.asked(function)
    }

    /// Parameters for the variables that a function uses.
    pub(crate) fn global_parameters(
        &self,
        function: &Function,
        info: &FunctionInfo,
    ) -> Result<Vec<String>, Error> {
        let lengths = self.lengths(function);
        let mut parameters = Vec::new();
        for handle in self.used_globals(info) {
            parameters.push(self.global_parameter(handle, "")?);
            if lengths[handle.index()] {
                parameters.push(format!("u64 {}", self.names.length(handle)));
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
        let name = self.names.global(handle);
        Ok(match variable.space {
            AddressSpace::Storage { access } => {
                let constant = match access.contains(StorageAccess::STORE) {
                    true => "",
                    false => "const ",
                };
                let pointee = self
                    .types
                    .name(self.element(handle).unwrap_or(variable.ty))?;
                format!("{constant}{pointee}* __restrict__ {name}")
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
            AddressSpace::Handle => {
                return Err(unsupported(kind(self.types.inner(variable.ty)), name));
            }
            space => return Err(unsupported(format!("address space {space:?}"), name)),
        })
    }

    /// Arguments for the parameters of [`global_parameters`](Self::global_parameters).
    pub(crate) fn global_arguments(&self, function: &Function, info: &FunctionInfo) -> Vec<String> {
        let lengths = self.lengths(function);
        let mut arguments = Vec::new();
        for handle in self.used_globals(info) {
            arguments.push(self.names.global(handle).into());
            if lengths[handle.index()] {
                arguments.push(self.names.length(handle).into());
            }
        }
        arguments
    }
}

/// The indices of the compute entry points named in `names`, or of all of them.
fn entries(module: &Module, names: Option<&[String]>) -> Result<Vec<usize>, Error> {
    let is_compute = |index: &usize| module.entry_points[*index].stage == ShaderStage::Compute;
    let mut compute = (0..module.entry_points.len()).filter(is_compute);
    let Some(names) = names else {
        return Ok(compute.collect());
    };
    if let Some(missing) = names.iter().find(|name| {
        !compute
            .clone()
            .any(|index| module.entry_points[index].name == **name)
    }) {
        return Err(Error::EntryPoint(missing.clone()));
    }
    Ok(compute
        .by_ref()
        .filter(|i| names.contains(&module.entry_points[*i].name))
        .collect())
}
