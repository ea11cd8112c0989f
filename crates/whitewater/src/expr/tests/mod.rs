//! Generated code against arrow's kernels, row by row.

mod arithmetic;
mod casts;
mod harness;
mod logic;
mod random;
mod tables;
mod text;
