//! Types: their C++ names, and declarations that C++ lays out byte for byte as WGSL does.

use naga::{
    ArraySize, Handle, Module, Scalar, ScalarKind, StructMember, Type, TypeInner, VectorSize,
    proc::{IndexableLength, Layouter},
};

use crate::{Error, error::unsupported, names::Names};

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
        (ScalarKind::Float, 2) => return Err(unsupported("f16", place)),
        (kind, width) => {
            return Err(unsupported(
                format!("scalar {kind:?} of {width} bytes"),
                place,
            ));
        }
    })
}

/// What a C++ struct holds in order.
pub(crate) enum Field {
    Member(usize),
    /// Bytes that C++ would not skip by itself.
    Padding(u32),
}

/// Names and layouts of a module's types.
pub(crate) struct Types<'a> {
    module: &'a Module,
    names: &'a Names,
    layouter: Layouter,
    /// By type: its declaration, or why it has none.
    declared: Vec<Result<String, Error>>,
}

impl<'a> Types<'a> {
    pub(crate) fn new(module: &'a Module, names: &'a Names) -> Result<Self, Error> {
        let mut layouter = Layouter::default();
        layouter
            .update(module.to_ctx())
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let mut types = Self {
            module,
            names,
            layouter,
            declared: Vec::new(),
        };
        for (handle, _) in module.types.iter() {
            let declaration = types.declaration(handle);
            types.declared.push(declaration);
        }
        Ok(types)
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
            TypeInner::Array { size, stride, .. } => {
                let length = self.length(size)?.unwrap_or(0);
                length
                    .checked_mul(stride)
                    .ok_or_else(|| unsupported("array of 4 GiB or more", "a type"))
            }
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

    /// Whether `ty` has as many elements as its buffer holds.
    pub(crate) fn is_runtime_array(&self, ty: Handle<Type>) -> bool {
        matches!(
            self.inner(ty),
            TypeInner::Array {
                size: ArraySize::Dynamic,
                ..
            }
        )
    }

    /// Whether `ty` is a vector of three, which C++ aligns less than WGSL.
    pub(crate) fn is_vec3(&self, ty: Handle<Type>) -> bool {
        matches!(
            self.inner(ty),
            TypeInner::Vector {
                size: VectorSize::Tri,
                ..
            }
        )
    }

    pub(crate) fn name(&self, ty: Handle<Type>) -> Result<String, Error> {
        match self.inner(ty) {
            TypeInner::Struct { .. } => match self.declared.get(ty.index()) {
                Some(Err(error)) => Err(error.clone()),
                _ => Ok(self.names.ty(ty).into()),
            },
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
            TypeInner::Array { base, size, stride } => {
                if self.size(base)?.next_multiple_of(self.alignment(base)) != stride {
                    return Err(unsupported(
                        "array stride other than the element's size",
                        place,
                    ));
                }
                match self.length(size)? {
                    Some(length) => format!("Array<{}, {length}>", self.name(base)?),
                    None => format!("Runtime<{}>", self.name(base)?),
                }
            }
            TypeInner::Pointer { base, .. } => format!("{}&", self.name(base)?),
            TypeInner::ValuePointer {
                size: None,
                scalar: s,
                ..
            } => {
                format!("{}&", scalar(s, place)?)
            }
            TypeInner::ValuePointer {
                size: Some(size),
                scalar: s,
                ..
            } => {
                format!("Vec<{}, {}>&", scalar(s, place)?, size as u8)
            }
            ref other => return Err(unsupported(kind(other), place)),
        })
    }

    /// Whether naga made `ty` for the result of a built-in function; it never lies in memory.
    fn is_predeclared(&self, ty: Handle<Type>) -> bool {
        self.module
            .special_types
            .predeclared_types
            .values()
            .any(|handle| *handle == ty)
    }

    /// What the struct `ty` holds so that C++ puts each member at its offset.
    pub(crate) fn fields(
        &self,
        ty: Handle<Type>,
        members: &[StructMember],
        span: u32,
    ) -> Result<Vec<Field>, Error> {
        if self.is_predeclared(ty) {
            return Ok((0..members.len()).map(Field::Member).collect());
        }
        let mut fields = Vec::new();
        let mut end = 0u32;
        for (index, member) in members.iter().enumerate() {
            let alignment = self.alignment(member.ty);
            if member.offset < end || member.offset % alignment != 0 {
                return Err(unsupported(
                    "member that C++ cannot place",
                    self.names.ty(ty),
                ));
            }
            if end.next_multiple_of(alignment) != member.offset {
                fields.push(Field::Padding(member.offset - end));
            }
            fields.push(Field::Member(index));
            end = member.offset + self.size(member.ty)?;
        }
        // After a runtime array nothing can stand, and nothing needs to.
        let last_is_runtime = members.last().is_some_and(|m| self.is_runtime_array(m.ty));
        if !last_is_runtime && end.next_multiple_of(self.alignment(ty)) != span {
            fields.push(Field::Padding(span - end));
        }
        Ok(fields)
    }

    /// Declarations of all structs, each after the types that it holds. Those that have no C++ form
    /// are left out: they are an error where they are used.
    pub(crate) fn declarations(&self) -> String {
        self.declared.iter().flatten().map(String::as_str).collect()
    }

    /// The declaration of one struct, with assertions on its layout; nothing for other types.
    fn declaration(&self, ty: Handle<Type>) -> Result<String, Error> {
        let TypeInner::Struct { ref members, span } = *self.inner(ty) else {
            return Ok(String::new());
        };
        let name = self.names.ty(ty);
        let mut text = format!("struct {name} {{\n");
        let mut checks = String::new();
        for (at, field) in self.fields(ty, members, span)?.into_iter().enumerate() {
            match field {
                Field::Member(index) => {
                    let member = &members[index];
                    let label = self.names.member(ty, index as u32);
                    let align = match self.is_vec3(member.ty) {
                        true => format!("alignas({}) ", self.alignment(member.ty)),
                        false => String::new(),
                    };
                    let type_name = self.name(member.ty)?;
                    text.push_str(&format!("    {align}{type_name} {label};\n"));
                    checks.push_str(&format!(
                        "static_assert(__builtin_offsetof({name}, {label}) == {}, \"layout\");\n",
                        member.offset
                    ));
                }
                Field::Padding(bytes) => {
                    text.push_str(&format!("    unsigned char padding_{at}_[{bytes}];\n"));
                }
            }
        }
        text.push_str("};\n");
        if self.is_predeclared(ty) {
            return Ok(text);
        }
        text.push_str(&checks);
        if !members.last().is_some_and(|m| self.is_runtime_array(m.ty)) {
            text.push_str(&format!(
                "static_assert(sizeof({name}) == {span}, \"layout\");\n"
            ));
        }
        Ok(text)
    }

    /// A value of `ty` made of the texts of its components.
    pub(crate) fn compose(&self, ty: Handle<Type>, parts: &[String]) -> Result<String, Error> {
        let name = self.name(ty)?;
        Ok(match *self.inner(ty) {
            // One pair of braces for the struct and one for the array in it.
            TypeInner::Array { .. } => format!("{name}{{{{{}}}}}", parts.join(", ")),
            TypeInner::Struct { ref members, span } => {
                let fields = self.fields(ty, members, span)?;
                let list: Vec<&str> = fields
                    .iter()
                    .map(|field| match field {
                        Field::Member(index) => parts.get(*index).map_or("{}", String::as_str),
                        Field::Padding(_) => "{}",
                    })
                    .collect();
                format!("{name}{{{}}}", list.join(", "))
            }
            _ => format!("{name}{{{}}}", parts.join(", ")),
        })
    }
}

/// What a type that has no C++ form is called in errors.
pub(crate) fn kind(inner: &TypeInner) -> String {
    match inner {
        TypeInner::Matrix { .. } => "matrix type".into(),
        TypeInner::CooperativeMatrix { .. } => "cooperative matrix type".into(),
        TypeInner::Image { .. } => "image type".into(),
        TypeInner::Sampler { .. } => "sampler type".into(),
        TypeInner::AccelerationStructure { .. } | TypeInner::RayQuery { .. } => "ray query".into(),
        TypeInner::BindingArray { .. } => "binding array".into(),
        other => format!("type {other:?}"),
    }
}
