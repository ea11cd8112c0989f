//! Expressions that compute: the same for a module's constants and for function bodies.

use naga::{
    BinaryOperator, Expression, Handle, Literal, MathFunction, ScalarKind, SwizzleComponent, Type,
    TypeInner, proc::TypeResolution,
};

use crate::{
    Error,
    error::unsupported,
    literal::literal,
    math,
    types::{kind, scalar},
    writer::Writer,
};

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// Where an expression finds its operands: an arena, and the text by which each is used.
pub(crate) trait Operands {
    fn writer(&self) -> &Writer<'_>;
    /// The function or item, for errors.
    fn place(&self) -> &str;
    /// The text by which `handle` is used.
    fn text(&self, handle: Handle<Expression>) -> Result<String, Error>;
    fn get(&self, handle: Handle<Expression>) -> &Expression;
    fn resolution(&self, handle: Handle<Expression>) -> &TypeResolution;

    fn inner(&self, handle: Handle<Expression>) -> &TypeInner {
        self.resolution(handle)
            .inner_with(&self.writer().module.types)
    }

    /// The C++ type of an expression's value.
    fn type_name(&self, handle: Handle<Expression>) -> Result<String, Error> {
        match *self.resolution(handle) {
            TypeResolution::Handle(ty) => self.writer().types.name(ty),
            TypeResolution::Value(ref inner) => self.writer().types.inner_name(inner),
        }
    }

    /// The type of the value, or of what the pointer points to, where it has a handle.
    fn pointee_handle(&self, handle: Handle<Expression>) -> Option<Handle<Type>> {
        match (self.inner(handle), self.resolution(handle)) {
            (TypeInner::Pointer { base, .. }, _) => Some(*base),
            (_, TypeResolution::Handle(ty)) => Some(*ty),
            _ => None,
        }
    }

    /// The type of the value, or of what the pointer points to.
    fn pointee(&self, handle: Handle<Expression>) -> TypeInner {
        match *self.inner(handle) {
            TypeInner::Pointer { base, .. } => self.writer().types.inner(base).clone(),
            TypeInner::ValuePointer {
                size: Some(size),
                scalar,
                ..
            } => TypeInner::Vector { size, scalar },
            TypeInner::ValuePointer {
                size: None, scalar, ..
            } => TypeInner::Scalar(scalar),
            ref other => other.clone(),
        }
    }
}

/// A module's constant expressions; they have no names, so each use is the whole text.
pub(crate) struct Constants<'w, 'a>(pub(crate) &'w Writer<'a>);

impl Operands for Constants<'_, '_> {
    fn writer(&self) -> &Writer<'_> {
        self.0
    }

    fn place(&self) -> &str {
        "a constant"
    }

    fn text(&self, handle: Handle<Expression>) -> Result<String, Error> {
        operation(self, handle)
    }

    fn get(&self, handle: Handle<Expression>) -> &Expression {
        &self.0.module.global_expressions[handle]
    }

    fn resolution(&self, handle: Handle<Expression>) -> &TypeResolution {
        &self.0.info[handle]
    }
}

/// The text of an expression that touches no memory.
pub(crate) fn operation(from: &impl Operands, handle: Handle<Expression>) -> Result<String, Error> {
    let (writer, place) = (from.writer(), from.place());
    let text = |operand| from.text(operand);
    Ok(match *from.get(handle) {
        Expression::Literal(value) => literal(value, place)?,
        Expression::Constant(constant) => {
            Constants(writer).text(writer.module.constants[constant].init)?
        }
        Expression::ZeroValue(ty) => format!("{}{{}}", writer.types.name(ty)?),
        Expression::Compose { ty, ref components } => compose(from, ty, components)?,
        Expression::Access { base, index } => {
            // An index that is a signed literal is u32, like all indices of the prelude.
            let index = match *from.get(index) {
                Expression::Literal(Literal::I32(v)) if v >= 0 => format!("{v}u"),
                _ => text(index)?,
            };
            format!("{}[{index}]", text(base)?)
        }
        Expression::AccessIndex { base, index } => {
            let base_text = text(base)?;
            match (from.pointee(base), from.pointee_handle(base)) {
                (TypeInner::Struct { .. }, Some(ty)) => {
                    format!("{base_text}.{}", writer.names.member(ty, index))
                }
                (TypeInner::Vector { .. }, _) => {
                    format!("{base_text}.{}", COMPONENTS[index as usize & 3])
                }
                (inner @ TypeInner::Matrix { .. }, _) => {
                    return Err(unsupported(kind(&inner), place));
                }
                _ => format!("{base_text}[{index}u]"),
            }
        }
        Expression::Splat { size, value } => format!("splat<{}>({})", size as u8, text(value)?),
        Expression::Swizzle {
            size,
            vector,
            pattern,
        } => {
            let source = text(vector)?;
            let parts: Vec<String> = pattern[..size as usize]
                .iter()
                .map(|component| format!("{source}.{}", component_name(*component)))
                .collect();
            format!("{}{{{}}}", from.type_name(handle)?, parts.join(", "))
        }
        Expression::Unary { op, expr } => format!("{}({})", math::unary(op), text(expr)?),
        Expression::Binary { op, left, right } => {
            let is_scalar = matches!(from.inner(left), TypeInner::Scalar(_));
            for operand in [left, right] {
                if let inner @ TypeInner::Matrix { .. } = from.inner(operand) {
                    return Err(unsupported(kind(inner), place));
                }
            }
            let (left, right) = (text(left)?, text(right)?);
            match op {
                BinaryOperator::LogicalAnd if is_scalar => format!("({left} && {right})"),
                BinaryOperator::LogicalOr if is_scalar => format!("({left} || {right})"),
                _ => format!("{}({left}, {right})", math::binary(op)),
            }
        }
        Expression::Select {
            condition,
            accept,
            reject,
        } => {
            format!(
                "w_select({}, {}, {})",
                text(condition)?,
                text(accept)?,
                text(reject)?
            )
        }
        Expression::Relational { fun, argument } => {
            format!("{}({})", math::relational(fun), text(argument)?)
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
            let name =
                math::math(fun).ok_or_else(|| unsupported(format!("function {fun:?}"), place))?;
            // The results of these are structs of two members.
            let result = match fun {
                MathFunction::Modf | MathFunction::Frexp => {
                    format!("<{}>", from.type_name(handle)?)
                }
                _ => String::new(),
            };
            format!("{name}{result}({})", arguments.join(", "))
        }
        Expression::As {
            expr,
            kind,
            convert,
        } => conversion(from, expr, kind, convert)?,
        Expression::Override(_) => {
            return Err(Error::Override("an override without a value".into()));
        }
        ref other => return Err(unsupported(construct(other), place)),
    })
}

fn compose(
    from: &impl Operands,
    ty: Handle<Type>,
    components: &[Handle<Expression>],
) -> Result<String, Error> {
    let writer = from.writer();
    let is_vector = matches!(writer.types.inner(ty), TypeInner::Vector { .. });
    let mut parts = Vec::new();
    for component in components {
        let text = from.text(*component)?;
        match *from.inner(*component) {
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
    writer.types.compose(ty, &parts)
}

fn conversion(
    from: &impl Operands,
    expr: Handle<Expression>,
    to: ScalarKind,
    convert: Option<u8>,
) -> Result<String, Error> {
    let place = from.place();
    let source = match *from.inner(expr) {
        TypeInner::Scalar(s) | TypeInner::Vector { scalar: s, .. } => s,
        ref other => return Err(unsupported(kind(other), place)),
    };
    let to = naga::Scalar {
        kind: to,
        width: convert.unwrap_or(source.width),
    };
    let name = scalar(to, place)?;
    let how = if convert.is_some() { "Cast" } else { "Bits" };
    Ok(format!("{how}<{name}>::of({})", from.text(expr)?))
}

fn component_name(component: SwizzleComponent) -> &'static str {
    match component {
        SwizzleComponent::X => "x",
        SwizzleComponent::Y => "y",
        SwizzleComponent::Z => "z",
        SwizzleComponent::W => "w",
    }
}

/// What an expression that is not written is called in errors.
fn construct(expression: &Expression) -> String {
    match expression {
        Expression::ImageSample { .. } => "image sampling".into(),
        Expression::ImageLoad { .. } => "image load".into(),
        Expression::ImageQuery { .. } => "image query".into(),
        Expression::Derivative { .. } => "derivative".into(),
        Expression::RayQueryProceedResult
        | Expression::RayQueryGetIntersection { .. }
        | Expression::RayQueryVertexPositions { .. } => "ray query".into(),
        Expression::CooperativeLoad { .. } | Expression::CooperativeMultiplyAdd { .. } => {
            "cooperative matrix".into()
        }
        other => {
            let name = format!("{other:?}");
            let name = name.split([' ', '{', '(']).next().unwrap_or_default();
            format!("expression {name}")
        }
    }
}
