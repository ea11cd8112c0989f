//! Expressions: a small tree over arrow columns, its typing, and its compilation to WESL.
//!
//! ```text
//! Expr ──check(schema)──▶ DataType, or why not
//! Pipeline { predicate, values } ──compile──▶ Generated { module text, bindings }
//! ```
//!
//! The generated module is `package::generated`. Kernels import its `predicate` and value functions,
//! so that a filter, a projection and an aggregation become one kernel.

mod arithmetic;
mod body;
mod bounds;
mod cast;
mod compare;
mod decimal;
mod device;
mod error;
mod generate;
mod intrinsics;
mod logic;
mod lower;
mod temporal;
#[cfg(test)]
mod tests;
mod types;
mod typing;

pub use device::DeviceType;
pub use error::{ArithmeticError, ExprError};
pub use generate::{
    Binding, ColumnLayout, GROUP, Generated, GeneratedValue, Part, Pipeline, compile,
};
pub use intrinsics::INTRINSICS;
pub use types::{Expr, Literal, Op};
