//! The names of the output: WGSL's own, made unique and kept away from C++'s.

use std::cell::RefCell;

use naga::{
    Expression, FastHashMap, Function, GlobalVariable, Handle, LocalVariable, Module, Type,
    proc::{CaseInsensitiveKeywordSet, KeywordSet, NameKey, Namer},
};

use crate::keywords::RESERVED;

/// Whose argument or local variable is named.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    Function(Handle<Function>),
    Entry(usize),
}

/// The names of a module's items.
pub(crate) struct Names {
    namer: RefCell<Namer>,
    names: FastHashMap<NameKey, String>,
    lengths: Vec<String>,
}

impl Names {
    pub(crate) fn new(module: &Module) -> Self {
        let mut namer = Namer::default();
        let mut names = FastHashMap::default();
        namer.reset(
            module,
            &RESERVED,
            KeywordSet::empty(),
            CaseInsensitiveKeywordSet::empty(),
            &[],
            &mut names,
        );
        let lengths = module
            .global_variables
            .iter()
            .map(|(_, variable)| {
                namer.call(&format!(
                    "{}_bytes",
                    variable.name.as_deref().unwrap_or("global")
                ))
            })
            .collect();
        Self {
            namer: RefCell::new(namer),
            names,
            lengths,
        }
    }

    // `Namer::reset` names every item of the module, so there is always a name.
    fn get(&self, key: NameKey) -> &str {
        self.names.get(&key).map_or("unnamed", String::as_str)
    }

    pub(crate) fn ty(&self, handle: Handle<Type>) -> &str {
        self.get(NameKey::Type(handle))
    }

    pub(crate) fn member(&self, ty: Handle<Type>, index: u32) -> &str {
        self.get(NameKey::StructMember(ty, index))
    }

    pub(crate) fn global(&self, handle: Handle<GlobalVariable>) -> &str {
        self.get(NameKey::GlobalVariable(handle))
    }

    /// The parameter that holds the bytes of a variable's buffer.
    pub(crate) fn length(&self, handle: Handle<GlobalVariable>) -> &str {
        &self.lengths[handle.index()]
    }

    pub(crate) fn function(&self, handle: Handle<Function>) -> &str {
        self.get(NameKey::Function(handle))
    }

    pub(crate) fn entry(&self, index: usize) -> &str {
        self.get(NameKey::EntryPoint(index as u16))
    }

    pub(crate) fn argument(&self, owner: Owner, index: usize) -> &str {
        let argument = index as u32;
        self.get(match owner {
            Owner::Function(function) => NameKey::FunctionArgument(function, argument),
            Owner::Entry(entry) => NameKey::EntryPointArgument(entry as u16, argument),
        })
    }

    pub(crate) fn local(&self, owner: Owner, local: Handle<LocalVariable>) -> &str {
        self.get(match owner {
            Owner::Function(function) => NameKey::FunctionLocal(function, local),
            Owner::Entry(entry) => NameKey::EntryPointLocal(entry as u16, local),
        })
    }

    /// A new name for a computed value: that of its `let`, else its number.
    ///
    /// Numbered names meet no others: the namer ends names that end in a digit with `_`.
    pub(crate) fn value(&self, function: &Function, value: Handle<Expression>) -> String {
        match function.named_expressions.get(&value) {
            Some(label) => self.namer.borrow_mut().call(label),
            None => format!("e{}", value.index()),
        }
    }
}
