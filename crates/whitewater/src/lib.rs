
pub mod expr;
