//! Kernel sources: WESL modules, a specialisation, and the linking of both into naga IR.

use std::{borrow::Cow, collections::BTreeMap, fmt::Display};

use parking_lot::Mutex;

use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use wesl::{ModulePath, VirtualResolver, Wesl};

use crate::{Error, Result, cache};

/// A named CUDA replacement of a portable WGSL function: `(name, body)`, where the body names
/// arguments as `{0}`, `{1}` and module variables as `{global:name}`.
pub type Intrinsic = (&'static str, &'static str);

/// All the WESL modules that kernels may import, and their CUDA intrinsics.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Module path such as `package::kernels::bits`, and the module's text.
    pub modules: &'static [(&'static str, &'static str)],
    pub intrinsics: &'static [&'static [Intrinsic]],
}

impl Library {
    /// The hash of everything in the library, worked out once.
    fn fingerprint(&'static self) -> String {
        static KNOWN: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());
        let address = std::ptr::from_ref(self) as usize;
        KNOWN
            .lock()
            .entry(address)
            .or_insert_with(|| {
                let modules = self.modules.iter().flat_map(|(path, text)| [*path, *text]);
                let intrinsics = self.intrinsics.iter().copied().flatten();
                let intrinsics = intrinsics.flat_map(|(name, body)| [*name, *body]);
                let version = env!("CARGO_PKG_VERSION");
                let parts: Vec<&[u8]> = [version]
                    .into_iter()
                    .chain(modules)
                    .chain(intrinsics)
                    .map(str::as_bytes)
                    .collect();
                cache::key(&parts)
            })
            .clone()
    }
}

/// A library, which is told from others by where it is.
#[derive(Clone, Copy, Debug)]
struct Identity(&'static Library);

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Identity {}

impl std::hash::Hash for Identity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

/// One root module of a [`Library`] with what specialises it.
///
/// Aliases and constants become the module `package::spec`, which kernels import.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shader {
    library: Identity,
    root: String,
    features: BTreeMap<String, bool>,
    spec: Vec<String>,
    generated: Vec<(String, String)>,
    resident: Option<u32>,
}

impl Shader {
    /// The module at path `root` of `library`, unspecialised.
    pub fn new(library: &'static Library, root: &str) -> Self {
        Self {
            library: Identity(library),
            root: root.into(),
            features: BTreeMap::new(),
            spec: Vec::new(),
            generated: Vec::new(),
            resident: None,
        }
    }

    /// Sets the condition `name` of `@if(name)`; conditions that are not set are false.
    pub fn feature(mut self, name: &str, on: bool) -> Self {
        self.features.insert(name.into(), on);
        self
    }

    /// Declares `alias name = ty` in `package::spec`.
    pub fn alias(mut self, name: &str, ty: &str) -> Self {
        self.spec.push(format!("alias {name} = {ty};"));
        self
    }

    /// Declares `const name: ty = value` in `package::spec`.
    pub fn constant(mut self, name: &str, ty: &str, value: impl Display) -> Self {
        self.spec
            .push(format!("const {name}: {ty} = {ty}({value});"));
        self
    }

    /// Adds a module made at run time, such as a compiled expression.
    pub fn generated(mut self, path: &str, text: impl Into<String>) -> Self {
        self.generated.push((path.into(), text.into()));
        self
    }

    /// Asks for registers few enough that a multiprocessor holds `invocations` at a time (CUDA; other
    /// interfaces do not let one choose).
    pub fn resident(mut self, invocations: u32) -> Self {
        self.resident = Some(invocations);
        self
    }

    /// The root module's path.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// What distinguishes this shader from every other, of other versions of its library too. The
    /// linked text would not do: the linker orders declarations anew in every process.
    pub(crate) fn key(&self) -> String {
        let library = self.library.0.fingerprint();
        let features = format!("{:?}", self.features);
        let spec = self.spec.join("\n");
        let resident = format!("{:?}", self.resident);
        let mut parts: Vec<&[u8]> = vec![
            library.as_bytes(),
            self.root.as_bytes(),
            features.as_bytes(),
            spec.as_bytes(),
            resident.as_bytes(),
        ];
        for (path, text) in &self.generated {
            parts.push(path.as_bytes());
            parts.push(text.as_bytes());
        }
        cache::key(&parts)
    }

    fn fail(&self, log: impl Display) -> Error {
        Error::Compile {
            kernel: self.root.clone(),
            log: log.to_string(),
        }
    }

    fn path(&self, path: &str) -> Result<ModulePath> {
        path.parse()
            .map_err(|error| self.fail(format!("module path {path}: {error}")))
    }

    /// Links the modules to one WGSL module and validates it.
    pub fn link(&self) -> Result<Linked> {
        let mut resolver = VirtualResolver::new();
        for (path, text) in self.library.0.modules {
            resolver.add_module(self.path(path)?, Cow::Borrowed(*text));
        }
        for (path, text) in &self.generated {
            resolver.add_module(self.path(path)?, Cow::Borrowed(text));
        }
        if !self.spec.is_empty() {
            resolver.add_module(self.path("package::spec")?, self.spec.join("\n").into());
        }
        let mut compiler = Wesl::new("/").set_custom_resolver(resolver);
        compiler.set_missing_feature_behavior(false);
        for (name, on) in &self.features {
            compiler.set_feature(name, *on);
        }
        let source = compiler
            .compile(&self.path(&self.root)?)
            .map_err(|error| self.fail(error))?
            .to_string();
        let module = naga::front::wgsl::parse_str(&source)
            .map_err(|error| self.fail(error.emit_to_string(&source)))?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .map_err(|error| self.fail(error.emit_to_string(&source)))?;
        let entries = module
            .entry_points
            .iter()
            .enumerate()
            .map(|(index, entry)| reflect(&module, info.get_entry_point(index), entry))
            .collect();
        Ok(Linked {
            name: self.root.clone(),
            key: self.key(),
            source,
            module,
            info,
            entries,
            intrinsics: self.library.0.intrinsics,
            resident: self.resident,
        })
    }
}

/// How an entry point uses a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindingKind {
    Storage { writable: bool },
    Uniform,
}

/// A binding that an entry point uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) group: u32,
    pub(crate) binding: u32,
    pub(crate) kind: BindingKind,
}

/// An entry point's name and bindings, in (group, binding) order.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) slots: Vec<Slot>,
}

fn reflect(
    module: &naga::Module,
    info: &naga::valid::FunctionInfo,
    entry: &naga::EntryPoint,
) -> Entry {
    let mut slots: Vec<Slot> = module
        .global_variables
        .iter()
        .filter(|(handle, _)| !info[*handle].is_empty())
        .filter_map(|(_, variable)| {
            let bound = variable.binding.as_ref()?;
            let kind = match variable.space {
                naga::AddressSpace::Storage { access } => BindingKind::Storage {
                    writable: access.contains(naga::StorageAccess::STORE),
                },
                naga::AddressSpace::Uniform => BindingKind::Uniform,
                _ => return None,
            };
            Some(Slot {
                group: bound.group,
                binding: bound.binding,
                kind,
            })
        })
        .collect();
    slots.sort_by_key(|slot| (slot.group, slot.binding));
    Entry {
        name: entry.name.clone(),
        slots,
    }
}

/// A linked and validated shader.
pub struct Linked {
    pub(crate) name: String,
    /// The key of the shader that this was linked from.
    pub(crate) key: String,
    pub(crate) source: String,
    pub(crate) module: naga::Module,
    pub(crate) info: ModuleInfo,
    pub(crate) entries: Vec<Entry>,
    pub(crate) intrinsics: &'static [&'static [Intrinsic]],
    resident: Option<u32>,
}

impl Linked {
    /// The linked WGSL.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Compiles for the NVIDIA architectures that we promise, without a GPU; false where NVRTC is not
    /// installed.
    pub fn check_cuda(&self) -> Result<bool> {
        crate::cuda::compile::check(self)
    }

    /// The CUDA C++ of every entry point.
    pub fn cuda(&self) -> Result<naga_cuda::Translation> {
        let mut options = naga_cuda::Options {
            resident_invocations: self.resident,
            ..Default::default()
        };
        for (name, body) in self.intrinsics.iter().copied().flatten() {
            options.intrinsics.insert(*name, *body);
        }
        naga_cuda::write(&self.module, &self.info, &options).map_err(|error| Error::Compile {
            kernel: self.name.clone(),
            log: error.to_string(),
        })
    }
}
