//! Aggregates: what they accumulate, and the reduction of a whole batch to one row.
//!
//! ```text
//! Batch ──predicate, arguments (compiled)──▶ accumulators ──▶ one row of partial state
//! ```
//!
//! The state columns are those of DataFusion's partial mode, so a final aggregation on any side
//! can merge them. Sums of floats are the same on every run: rows are assigned to invocations and
//! partial sums merged in a fixed order.

pub(crate) mod accumulators;
mod reduce;
pub(crate) mod state;

use arrow::datatypes::Field;

pub(crate) use accumulators::{Accumulators, Flavour};
pub use reduce::reduce;
pub(crate) use state::StateColumn;

use arrow::datatypes::Schema;

use crate::{
    Error,
    expr::{ColumnLayout, Expr, Pipeline, compile},
};

/// An aggregate function. Nulls are skipped by all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// Rows, or rows whose argument is not null. State: the count.
    Count,
    /// Of 64-bit integers and 128-bit decimals (both wrap) and of `f64`. State: the sum.
    Sum,
    /// State: the count, then the sum.
    Avg,
    /// Of any type of at most 64 bits; floats by total order. State: the value.
    Min,
    Max,
}

/// One aggregate of a query.
#[derive(Clone, Debug)]
pub struct Aggregate {
    pub function: Function,
    /// None only for `count(*)`.
    pub argument: Option<Expr>,
    /// Rows for which this is not true are skipped.
    pub filter: Option<Expr>,
    /// The fields of the partial state, in DataFusion's order.
    pub state: Vec<Field>,
}

/// An aggregation of the rows for which a predicate is true.
#[derive(Clone, Debug, Default)]
pub struct Aggregation {
    pub predicate: Option<Expr>,
    /// Expressions to group by, with the fields that they become. Strings are plain columns.
    pub keys: Vec<(Expr, Field)>,
    pub aggregates: Vec<Aggregate>,
}

impl Aggregation {
    /// Whether batches of `schema` can be aggregated so; what cannot is [`Error::Unsupported`].
    ///
    /// Decimals are taken to fit 64 bits: a batch where they do not may still be refused.
    pub fn check(&self, schema: &Schema) -> Result<(), Error> {
        let layout = ColumnLayout {
            narrow: true,
            bits: Some(63),
            packed: true,
            nullable: true,
        };
        let layouts = vec![layout; schema.fields().len()];
        let describe = |expr: &Expr| {
            let spec = Pipeline {
                predicate: self.predicate.clone(),
                values: vec![("value".into(), expr.clone())],
                narrow: true,
                paired: None,
            };
            let mut generated = compile(&spec, schema, &layouts)?;
            generated
                .values
                .pop()
                .ok_or_else(|| Error::unsupported("an expression without a value"))
        };
        let flavour = match self.keys.is_empty() {
            true => Flavour::Private,
            false => Flavour::Grouped,
        };
        Accumulators::plan(&self.aggregates, flavour, 1, describe)?;
        let predicate = Pipeline {
            predicate: self.predicate.clone(),
            ..Pipeline::default()
        };
        compile(&predicate, schema, &layouts)?;
        self.keys
            .iter()
            .try_for_each(|(expr, _)| crate::keys::check(expr, schema))
    }
}
