//! Expressions: a small tree over arrow columns, its typing, and its compilation to WESL.
//!
//! ```text
//! Expr ──check(schema)──▶ DataType, or why not
//! Pipeline { predicate, values } ──compile──▶ Generated { module text, bindings }
//! ```
//!
//! The generated module is `package::generated`. Kernels import its `predicate` and value functions,
//! so that a filter, a projection and an aggregation become one kernel.

mod error;
mod types;

pub use error::{ArithmeticError, ExprError};
pub use types::{Expr, Literal, Op};
