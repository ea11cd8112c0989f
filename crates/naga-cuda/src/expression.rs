//! Expressions of function bodies: variables, loads and results; the rest is in `operation`.

use naga::{AddressSpace, Expression, Handle, TypeInner, proc::TypeResolution};

use crate::{
    Error,
    error::unsupported,
    function::Body,
    operation::{Operands, operation},
    writer::Writer,
};

impl Operands for Body<'_, '_> {
    fn writer(&self) -> &Writer<'_> {
        self.writer
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn text(&self, handle: Handle<Expression>) -> Result<String, Error> {
        match &self.values[handle.index()] {
            Some(name) => Ok(name.clone()),
            None => self.expression(handle),
        }
    }

    fn get(&self, handle: Handle<Expression>) -> &Expression {
        &self.function.expressions[handle]
    }

    fn resolution(&self, handle: Handle<Expression>) -> &TypeResolution {
        &self.info[handle].ty
    }
}

impl Body<'_, '_> {
    /// The expression itself, whether or not it has been computed.
    pub(crate) fn expression(&self, handle: Handle<Expression>) -> Result<String, Error> {
        let writer = self.writer;
        Ok(match self.function.expressions[handle] {
            Expression::FunctionArgument(index) => {
                writer.names.argument(self.owner, index as usize).into()
            }
            Expression::GlobalVariable(global) => {
                let name = writer.names.global(global);
                let storage = matches!(
                    writer.module.global_variables[global].space,
                    AddressSpace::Storage { .. }
                );
                match storage && !writer.is_plain_pointer(global) {
                    true => format!("(*{name})"),
                    false => name.into(),
                }
            }
            Expression::LocalVariable(local) => writer.names.local(self.owner, local).into(),
            Expression::Load { pointer } => self.load(pointer)?,
            Expression::ArrayLength(pointer) => self.array_length(pointer)?,
            Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. } => {
                let place = &self.place;
                return Err(Error::Invalid(format!(
                    "a result is used before its time in {place}"
                )));
            }
            _ => operation(self, handle)?,
        })
    }

    /// What `pointer` points to, read now.
    pub(crate) fn load(&self, pointer: Handle<Expression>) -> Result<String, Error> {
        let place = self.text(pointer)?;
        Ok(match self.pointee(pointer) {
            TypeInner::Atomic(_) => format!("a_load({place})"),
            _ => place,
        })
    }

    pub(crate) fn is_pointer(&self, handle: Handle<Expression>) -> bool {
        matches!(
            self.inner(handle),
            TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. }
        )
    }

    fn array_length(&self, pointer: Handle<Expression>) -> Result<String, Error> {
        let (global, offset) = match self.function.expressions[pointer] {
            Expression::GlobalVariable(global) => (global, 0),
            Expression::AccessIndex { base, index } => match self.function.expressions[base] {
                Expression::GlobalVariable(global) => {
                    let ty = self.writer.module.global_variables[global].ty;
                    match self.writer.types.inner(ty) {
                        TypeInner::Struct { members, .. } => {
                            (global, members[index as usize].offset)
                        }
                        _ => return Err(unsupported("length of this array", &self.place)),
                    }
                }
                _ => return Err(unsupported("length of this array", &self.place)),
            },
            _ => return Err(unsupported("length of this array", &self.place)),
        };
        let TypeInner::Array { stride, .. } = self.pointee(pointer) else {
            return Err(unsupported("length of what is no array", &self.place));
        };
        let bytes = self.writer.names.length(global);
        Ok(format!("u32(({bytes} - {offset}ull) / {stride}ull)"))
    }
}
