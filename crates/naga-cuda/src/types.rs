//! Types: their C++ names, their declarations, and the check that C++ lays them out as WGSL does.

use naga::{
    ArraySize, Handle, Module, Scalar, ScalarKind, Type, TypeInner,
    proc::{IndexableLength, Layouter},
};

use crate::{
    Error,
    writer::{sanitise, unsupported},
};

/// The C++ name of a scalar.
pub(crate) fn scalar(scalar: Scalar, place: &str) -> Result<&'static str, Error> {
    Ok(match (scalar.kind, scalar.width) {
        (ScalarKind::Bool, _) => "bool",
        (ScalarKind::Uint, 2) => "u16",
        (ScalarKind::Sint, 2) => "i16",
        (ScalarKind::Uint, 4) => "u32",
        (ScalarKind::Sint, 4) => "i32",
        (ScalarKind::Float, 4) => "f32",
        (ScalarKind::Uint, 8) => "u64",
        (ScalarKind::Sint, 8) => "i64",
        (ScalarKind::Float, 8) => "f64",
        (kind, width) => {
            return Err(unsupported(
                format!("scalar {kind:?} of {width} bytes"),
                place,
            ));
        }
    })
}

/// Names and layouts of a module's types.
pub(crate) struct Types<'a> {
    module: &'a Module,
    layouter: Layouter,
}

impl<'a> Types<'a> {
    pub(crate) fn new(module: &'a Module) -> Result<Self, Error> {
        let mut layouter = Layouter::default();
        layouter
            .update(module.to_ctx())
            .map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(Self { module, layouter })
    }

    /// The number of elements of an array, if it has one; overrides have their values by now.
    fn length(&self, size: ArraySize) -> Result<Option<u32>, Error> {
        match size.resolve(self.module.to_ctx()) {
            Ok(IndexableLength::Known(length)) => Ok(Some(length)),
            Ok(IndexableLength::Dynamic) => Ok(None),
            Err(error) => Err(Error::Override(error.to_string())),
        }
    }

    /// Bytes of a value of `ty`.
    pub(crate) fn size(&self, ty: Handle<Type>) -> Result<u32, Error> {
        // The layouter does not know the sizes of arrays that overrides size.
        match *self.inner(ty) {
            TypeInner::Array { size, stride, .. } => Ok(self.length(size)?.unwrap_or(0) * stride),
            _ => Ok(self.layouter[ty].size),
        }
    }

    /// The alignment of `ty` in bytes.
    pub(crate) fn alignment(&self, ty: Handle<Type>) -> u32 {
        self.layouter[ty].alignment.round_up(1)
    }

    pub(crate) fn inner(&self, ty: Handle<Type>) -> &'a TypeInner {
        &self.module.types[ty].inner
    }

    pub(crate) fn name(&self, ty: Handle<Type>) -> Result<String, Error> {
        match self.inner(ty) {
            TypeInner::Struct { .. } => {
                let label = self.module.types[ty].name.as_deref().unwrap_or("Struct");
                Ok(format!("{}_t{}", sanitise(label), ty.index()))
            }
            other => self.inner_name(other),
        }
    }

    /// The name of a type that is not a struct.
    pub(crate) fn inner_name(&self, inner: &TypeInner) -> Result<String, Error> {
        let place = "a type";
        Ok(match *inner {
            TypeInner::Scalar(s) | TypeInner::Atomic(s) => scalar(s, place)?.into(),
            TypeInner::Vector { size, scalar: s } => {
                format!("Vec<{}, {}>", scalar(s, place)?, size as u8)
            }
            TypeInner::Array { base, size, .. } => match self.length(size)? {
                Some(length) => format!("Array<{}, {length}>", self.name(base)?),
                None => format!("Runtime<{}>", self.name(base)?),
            },
            TypeInner::Pointer { base, .. } => format!("{}&", self.name(base)?),
            TypeInner::ValuePointer {
                size: None,
                scalar: s,
                ..
            } => {
                format!("{}&", scalar(s, place)?)
            }
            TypeInner::Matrix { .. } => return Err(unsupported("matrix type", place)),
            TypeInner::Image { .. } | TypeInner::Sampler { .. } => {
                return Err(unsupported("image or sampler", place));
            }
            ref other => return Err(unsupported(format!("type {other:?}"), place)),
        })
    }

    /// Declarations of all structs, each after the types that it holds.
    pub(crate) fn declarations(&self) -> Result<String, Error> {
        let mut text = String::new();
        for (handle, ty) in self.module.types.iter() {
            if let TypeInner::Array { base, stride, .. } = ty.inner
                && self.size(base)?.next_multiple_of(self.alignment(base)) != stride
            {
                return Err(unsupported(
                    "array stride other than the element's size",
                    "a type",
                ));
            }
            let TypeInner::Struct { ref members, span } = ty.inner else {
                continue;
            };
            let name = self.name(handle)?;
            text.push_str(&format!("struct {name} {{\n"));
            let mut host_shareable = true;
            for (index, member) in members.iter().enumerate() {
                host_shareable &= !self.holds_bool(member.ty);
                text.push_str(&format!(
                    "    {} {};\n",
                    self.name(member.ty)?,
                    field(members, index)
                ));
            }
            text.push_str("};\n");
            if host_shareable {
                self.check_layout(&name, members)?;
                let runtime = members.last().is_some_and(|m| {
                    matches!(
                        self.inner(m.ty),
                        TypeInner::Array {
                            size: ArraySize::Dynamic,
                            ..
                        }
                    )
                });
                if !runtime {
                    text.push_str(&format!(
                        "static_assert(sizeof({name}) == {span}, \"layout\");\n"
                    ));
                }
            }
        }
        Ok(text)
    }

    /// Whether C++ puts the members where WGSL has them: each at the next multiple of its alignment.
    fn check_layout(&self, name: &str, members: &[naga::StructMember]) -> Result<(), Error> {
        let mut end = 0u32;
        for member in members {
            let alignment = self.alignment(member.ty);
            if end.next_multiple_of(alignment) != member.offset {
                return Err(unsupported("a member at an offset of its own", name));
            }
            // In C++ a vector of three is as large as its alignment.
            end = member.offset + self.size(member.ty)?.next_multiple_of(alignment);
        }
        Ok(())
    }

    fn holds_bool(&self, ty: Handle<Type>) -> bool {
        match *self.inner(ty) {
            TypeInner::Scalar(s) | TypeInner::Vector { scalar: s, .. } => {
                s.kind == ScalarKind::Bool
            }
            TypeInner::Array { base, .. } => self.holds_bool(base),
            TypeInner::Struct { ref members, .. } => members.iter().any(|m| self.holds_bool(m.ty)),
            _ => false,
        }
    }
}

/// The C++ name of a struct's member.
pub(crate) fn field(members: &[naga::StructMember], index: usize) -> String {
    let label = members[index].name.as_deref().unwrap_or("m");
    format!("{}_{index}", sanitise(label))
}
