//! Expressions as C++ text.

use naga::{
    BinaryOperator, Expression, Handle, Literal, MathFunction, RelationalFunction, ScalarKind,
    SwizzleComponent, TypeInner, UnaryOperator,
};

use crate::{
    Error,
    function::{Body, argument_name},
    literal::literal,
    types::{field, scalar},
    writer::{Writer, unsupported},
};

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

impl Writer<'_> {
    /// A constant expression of the module.
    pub(crate) fn constant(&self, handle: Handle<Expression>) -> Result<String, Error> {
        let place = "a constant";
        Ok(match self.module.global_expressions[handle] {
            Expression::Literal(value) => literal(value, place)?,
            Expression::Constant(constant) => {
                self.constant(self.module.constants[constant].init)?
            }
            Expression::ZeroValue(ty) => format!("{}{{}}", self.types.name(ty)?),
            Expression::Compose { ty, ref components } => {
                let parts = components
                    .iter()
                    .map(|c| self.constant(*c))
                    .collect::<Result<Vec<_>, Error>>()?;
                self.compose(ty, &parts)?
            }
            Expression::Splat { size, value } => {
                format!("splat<{}>({})", size as u8, self.constant(value)?)
            }
            ref other => return Err(unsupported(format!("constant {other:?}"), place)),
        })
    }

    fn compose(&self, ty: Handle<naga::Type>, parts: &[String]) -> Result<String, Error> {
        let name = self.types.name(ty)?;
        let list = parts.join(", ");
        Ok(match self.types.inner(ty) {
            TypeInner::Array { .. } => format!("{name}{{{{{list}}}}}"),
            _ => format!("{name}{{{list}}}"),
        })
    }
}

impl Body<'_, '_> {
    /// The text by which `handle` is used: its name once computed, else the expression itself.
    pub(crate) fn text(&self, handle: Handle<Expression>) -> Result<String, Error> {
        if self.baked[handle.index()] {
            return Ok(self.value_name(handle));
        }
        match self.function.expressions[handle] {
            Expression::Literal(_)
            | Expression::Constant(_)
            | Expression::ZeroValue(_)
            | Expression::FunctionArgument(_)
            | Expression::GlobalVariable(_)
            | Expression::LocalVariable(_)
            | Expression::Compose { .. }
            | Expression::Splat { .. } => self.expression(handle),
            _ if self.is_pointer(handle) => self.expression(handle),
            // Constant initialisers of local variables are never emitted.
            _ => self.expression(handle),
        }
    }

    /// The expression itself.
    pub(crate) fn expression(&self, handle: Handle<Expression>) -> Result<String, Error> {
        let writer = self.writer;
        let text = |e: Handle<Expression>| self.text(e);
        Ok(match self.function.expressions[handle] {
            Expression::Literal(value) => literal(value, &self.place)?,
            Expression::Constant(constant) => {
                writer.constant(writer.module.constants[constant].init)?
            }
            Expression::ZeroValue(ty) => format!("{}{{}}", writer.types.name(ty)?),
            Expression::Compose { ty, ref components } => {
                let components = components.iter().copied();
                self.compose_value(ty, components.collect())?
            }
            Expression::Access { base, index } => {
                format!("{}[{}]", text(base)?, self.index_text(index)?)
            }
            Expression::AccessIndex { base, index } => {
                let base_text = text(base)?;
                match self.pointee(base) {
                    TypeInner::Struct { members, .. } => {
                        format!("{base_text}.{}", field(&members, index as usize))
                    }
                    TypeInner::Vector { .. } => {
                        format!("{base_text}.{}", COMPONENTS[index as usize & 3])
                    }
                    _ => format!("{base_text}[{index}u]"),
                }
            }
            Expression::Splat { size, value } => {
                format!("splat<{}>({})", size as u8, text(value)?)
            }
            Expression::Swizzle {
                size,
                vector,
                pattern,
            } => {
                let source = text(vector)?;
                let parts: Vec<String> = pattern[..size as usize]
                    .iter()
                    .map(|c| format!("{source}.{}", component(*c)))
                    .collect();
                format!("{}{{{}}}", self.type_name(handle)?, parts.join(", "))
            }
            Expression::FunctionArgument(index) => argument_name(self.function, index as usize),
            Expression::GlobalVariable(global) => {
                let name = writer.global_name(global);
                let variable = &writer.module.global_variables[global];
                let storage = matches!(variable.space, naga::AddressSpace::Storage { .. });
                match storage && !writer.is_runtime_array(global) {
                    true => format!("(*{name})"),
                    false => name,
                }
            }
            Expression::LocalVariable(local) => self.local_name(local),
            Expression::Load { pointer } => {
                let place = text(pointer)?;
                match self.pointee(pointer) {
                    TypeInner::Atomic(_) => format!("a_load({place})"),
                    _ => place,
                }
            }
            Expression::Unary { op, expr } => {
                let name = match op {
                    UnaryOperator::Negate => "w_neg",
                    UnaryOperator::LogicalNot => "w_not",
                    UnaryOperator::BitwiseNot => "w_flip",
                };
                format!("{name}({})", text(expr)?)
            }
            Expression::Binary { op, left, right } => {
                let (left, right) = (text(left)?, text(right)?);
                match op {
                    BinaryOperator::LogicalAnd => format!("({left} && {right})"),
                    BinaryOperator::LogicalOr => format!("({left} || {right})"),
                    _ => format!("{}({left}, {right})", binary(op)),
                }
            }
            Expression::Select {
                condition,
                accept,
                reject,
            } => format!(
                "w_select({}, {}, {})",
                text(condition)?,
                text(accept)?,
                text(reject)?
            ),
            Expression::Relational { fun, argument } => {
                let argument = text(argument)?;
                match fun {
                    RelationalFunction::All => format!("w_all({argument})"),
                    RelationalFunction::Any => format!("w_any({argument})"),
                    other => return Err(unsupported(format!("{other:?}"), &self.place)),
                }
            }
            Expression::Math {
                fun,
                arg,
                arg1,
                arg2,
                arg3,
            } => {
                let mut arguments = vec![text(arg)?];
                for extra in [arg1, arg2, arg3].into_iter().flatten() {
                    arguments.push(text(extra)?);
                }
                let name = math(fun)
                    .ok_or_else(|| unsupported(format!("function {fun:?}"), &self.place))?;
                format!("{name}({})", arguments.join(", "))
            }
            Expression::As {
                expr,
                kind,
                convert,
            } => self.conversion(expr, kind, convert)?,
            Expression::ArrayLength(pointer) => self.array_length(pointer)?,
            Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. } => {
                return Err(Error::Invalid(format!(
                    "a result is used before it is there in {}",
                    self.place
                )));
            }
            Expression::Override(_) => {
                return Err(Error::Override("an override without a value".into()));
            }
            ref other => return Err(unsupported(format!("expression {other:?}"), &self.place)),
        })
    }

    /// An index, as u32 where it is a signed literal.
    fn index_text(&self, index: Handle<Expression>) -> Result<String, Error> {
        match self.function.expressions[index] {
            Expression::Literal(Literal::I32(v)) if v >= 0 => Ok(format!("{v}u")),
            _ => self.text(index),
        }
    }

    fn compose_value(
        &self,
        ty: Handle<naga::Type>,
        components: Vec<Handle<Expression>>,
    ) -> Result<String, Error> {
        let mut parts = Vec::new();
        let is_vector = matches!(self.writer.types.inner(ty), TypeInner::Vector { .. });
        for component in components {
            let text = self.text(component)?;
            match *self.inner(component) {
                // A vector may be composed of vectors: take them apart.
                TypeInner::Vector { size, .. } if is_vector => {
                    parts.extend(
                        COMPONENTS[..size as usize]
                            .iter()
                            .map(|c| format!("{text}.{c}")),
                    );
                }
                _ => parts.push(text),
            }
        }
        self.writer.compose(ty, &parts)
    }

    fn conversion(
        &self,
        expr: Handle<Expression>,
        kind: ScalarKind,
        convert: Option<u8>,
    ) -> Result<String, Error> {
        let from = match *self.inner(expr) {
            TypeInner::Scalar(s) | TypeInner::Vector { scalar: s, .. } => s,
            ref other => return Err(unsupported(format!("conversion of {other:?}"), &self.place)),
        };
        let to = naga::Scalar {
            kind,
            width: convert.unwrap_or(from.width),
        };
        let name = scalar(to, &self.place)?;
        let how = if convert.is_some() { "Cast" } else { "Bits" };
        Ok(format!("{how}<{name}>::of({})", self.text(expr)?))
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
        let name = self.writer.global_name(global);
        Ok(format!("u32(({name}_bytes - {offset}ull) / {stride}ull)"))
    }
}

fn component(component: SwizzleComponent) -> &'static str {
    match component {
        SwizzleComponent::X => "x",
        SwizzleComponent::Y => "y",
        SwizzleComponent::Z => "z",
        SwizzleComponent::W => "w",
    }
}

fn binary(op: BinaryOperator) -> &'static str {
    match op {
        BinaryOperator::Add => "w_add",
        BinaryOperator::Subtract => "w_sub",
        BinaryOperator::Multiply => "w_mul",
        BinaryOperator::Divide => "w_div",
        BinaryOperator::Modulo => "w_rem",
        BinaryOperator::Equal => "w_eq",
        BinaryOperator::NotEqual => "w_ne",
        BinaryOperator::Less => "w_lt",
        BinaryOperator::LessEqual => "w_le",
        BinaryOperator::Greater => "w_gt",
        BinaryOperator::GreaterEqual => "w_ge",
        BinaryOperator::And => "w_and",
        BinaryOperator::InclusiveOr => "w_or",
        BinaryOperator::ExclusiveOr => "w_xor",
        BinaryOperator::LogicalAnd => "&&",
        BinaryOperator::LogicalOr => "||",
        BinaryOperator::ShiftLeft => "w_shl",
        BinaryOperator::ShiftRight => "w_shr",
    }
}

fn math(fun: MathFunction) -> Option<&'static str> {
    use MathFunction::*;
    Some(match fun {
        Abs => "w_abs",
        Min => "w_min",
        Max => "w_max",
        Clamp => "w_clamp",
        Saturate => "w_saturate",
        Cos => "w_cos",
        Cosh => "w_cosh",
        Sin => "w_sin",
        Sinh => "w_sinh",
        Tan => "w_tan",
        Tanh => "w_tanh",
        Acos => "w_acos",
        Asin => "w_asin",
        Atan => "w_atan",
        Atan2 => "w_atan2",
        Ceil => "w_ceil",
        Floor => "w_floor",
        Round => "w_round",
        Fract => "w_fract",
        Trunc => "w_trunc",
        Exp => "w_exp",
        Exp2 => "w_exp2",
        Log => "w_log",
        Log2 => "w_log2",
        Pow => "w_pow",
        Dot => "w_dot",
        Sign => "w_sign",
        Fma => "w_fma",
        Mix => "w_mix",
        Step => "w_step",
        Sqrt => "w_sqrt",
        InverseSqrt => "w_inverse_sqrt",
        CountTrailingZeros => "w_ctz",
        CountLeadingZeros => "w_clz",
        CountOneBits => "w_popcount",
        ReverseBits => "w_reverse",
        ExtractBits => "w_extract",
        InsertBits => "w_insert",
        FirstTrailingBit => "w_first_trailing",
        FirstLeadingBit => "w_first_leading",
        _ => return None,
    })
}
