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
pub(crate) mod registers;
pub(crate) mod state;

use std::collections::BTreeSet;

use arrow::datatypes::{DataType, Field};
use whitewater_gpu::Device;

pub(crate) use accumulators::{Accumulators, Flavour};
pub use reduce::reduce;
pub(crate) use state::StateColumn;

use arrow::datatypes::Schema;

use crate::{
    Batch, Error,
    expr::{ColumnLayout, DeviceType, Expr, GeneratedValue, Pipeline, compile},
    select::filter_project,
    sort::{SortKey, sort},
    table::plain_type,
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
    /// Of any type of fixed width; floats by total order. State: the value.
    Min,
    Max,
    /// Of booleans: whether any, or every one, is true. State: the value.
    Any,
    All,
    /// As [`Sum`](Self::Sum) of integers and decimals, but a sum that its type does not hold is
    /// [`Error::Arithmetic`]; what partial sums come to does not matter.
    CheckedSum,
    /// Of 64-bit integers (wraps) and of `f64`, in a fixed order. State: the product.
    Product,
    /// Of integers. State: the value.
    BitAnd,
    BitOr,
    BitXor,
    /// What variances and standard deviations are made of, from `f64` in one pass (Chan, Golub and LeVeque,
    /// "Updating formulae and a pairwise algorithm for computing sample variances", 1979). State: the count, the
    /// mean, the sum of squared deviations from it.
    Variance,
    /// The value of the first (last) row, or of the first that is not null; of any type. State: the value, and
    /// whether there is one; see [`Aggregate::order`].
    First {
        skip_nulls: bool,
    },
    Last {
        skip_nulls: bool,
    },
    /// The row of the least (greatest) value, the first of several; floats by total order. State: its number (u64).
    ArgMin,
    ArgMax,
    /// Of numbers, by selection. State: a list of the middle value, or of the two middle ones, of all rows: states
    /// of several batches do not add up to that of all. Of groups: the lower middle value, and the upper one if it is
    /// another row's.
    Median,
}

impl Function {
    /// Whether atomics merge its states.
    fn is_atomic(self) -> bool {
        use Function::*;
        matches!(self, Count | Sum | Avg | Min | Max | Any | All)
    }

    /// Whether [`group`](crate::groupby::group) can do it, and not only [`reduce`].
    fn has_groups(self) -> bool {
        self != Function::CheckedSum
    }

    /// Whether a row's number is part of the answer.
    pub(crate) fn tells_rows(self) -> bool {
        matches!(self, Function::ArgMin | Function::ArgMax)
    }
}

/// One aggregate of a query.
#[derive(Clone, Debug)]
pub struct Aggregate {
    pub function: Function,
    /// None only for `count(*)`.
    pub argument: Option<Expr>,
    /// Rows for which this is not true are skipped.
    pub filter: Option<Expr>,
    /// Of the first or last value: the order that it is of, instead of the rows' own. Its keys' values in that row then
    /// stand in the state, between the value and whether there is one. All orders of an aggregation are the same.
    pub order: Vec<SortKey>,
    /// The fields of the partial state, in DataFusion's order.
    pub state: Vec<Field>,
}

impl Aggregate {
    /// The columns of state that a group has: those of [`state`](Self::state), but for medians, whose list is two columns.
    pub(crate) fn group_state(&self) -> Vec<Field> {
        match (self.function, self.state.as_slice()) {
            (Function::Median, [list]) => match list.data_type() {
                DataType::List(item) => ["lower", "upper"]
                    .map(|name| Field::new(name, plain_type(item.data_type()), true))
                    .into(),
                _ => vec![list.clone()],
            },
            _ => self.state.clone(),
        }
    }
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
    /// The columns that keys and aggregates are made of, in order.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = BTreeSet::new();
        let mut visit = |index| {
            columns.insert(index);
        };
        for (key, _) in &self.keys {
            key.visit_columns(&mut visit);
        }
        for aggregate in &self.aggregates {
            let keys = aggregate.order.iter().map(|key| &key.expr);
            for expr in aggregate
                .argument
                .iter()
                .chain(&aggregate.filter)
                .chain(keys)
            {
                expr.visit_columns(&mut visit);
            }
        }
        columns.into_iter().collect()
    }

    /// The same without a predicate, of rows that have only `columns`, which are in order.
    pub(crate) fn over(&self, columns: &[usize]) -> Self {
        let place = |index: usize| columns.partition_point(|column| *column < index);
        let moved = |expr: &Expr| expr.renumbered(&place);
        let ordered = |keys: &[SortKey]| -> Vec<SortKey> {
            let keys = keys.iter();
            keys.map(|key| SortKey {
                expr: moved(&key.expr),
                ..key.clone()
            })
            .collect()
        };
        let keys = self.keys.iter();
        let aggregates = self.aggregates.iter().map(|aggregate| Aggregate {
            argument: aggregate.argument.as_ref().map(moved),
            filter: aggregate.filter.as_ref().map(moved),
            order: ordered(&aggregate.order),
            ..aggregate.clone()
        });
        Self {
            predicate: None,
            keys: keys
                .map(|(key, field)| (moved(key), field.clone()))
                .collect(),
            aggregates: aggregates.collect(),
        }
    }

    /// The rows that are aggregated, with the columns of keys and aggregates alone, and the same aggregation over them.
    pub(crate) fn taken(&self, device: &Device, batch: &Batch) -> Result<(Batch, Self), Error> {
        let columns = self.columns();
        let over = self.over(&columns);
        let taken = match &self.predicate {
            None => batch.project(&columns)?,
            Some(predicate) => {
                let field = |index: usize| batch.schema.field(index).clone();
                let outputs = columns
                    .iter()
                    .map(|index| (Expr::column(*index), field(*index)));
                let outputs: Vec<(Expr, Field)> = outputs.collect();
                filter_project(device, batch, Some(predicate), &outputs)?
            }
        };
        Ok((taken, over))
    }

    /// The order that first and last values are of, if they are not of the rows' own.
    ///
    /// Errors: [`Error::Unsupported`] where they are of different orders.
    fn order(&self) -> Result<Option<&[SortKey]>, Error> {
        let ends = |aggregate: &&Aggregate| {
            matches!(
                aggregate.function,
                Function::First { .. } | Function::Last { .. }
            )
        };
        let mut orders = self
            .aggregates
            .iter()
            .filter(ends)
            .map(|a| a.order.as_slice());
        let first = orders.next().unwrap_or_default();
        if !orders.all(|order| order == first) {
            return Err(Error::unsupported("first values by different orders"));
        }
        let tells_rows = |aggregate: &Aggregate| aggregate.function.tells_rows();
        if !first.is_empty() && self.aggregates.iter().any(tells_rows) {
            return Err(Error::unsupported(
                "numbers of rows beside first values by an order",
            ));
        }
        Ok(Some(first).filter(|order| !order.is_empty()))
    }

    /// As [`taken`](Self::taken), in the order that first and last values are of; none if that is the rows' own.
    pub(crate) fn in_order(
        &self,
        device: &Device,
        batch: &Batch,
    ) -> Result<Option<(Batch, Self)>, Error> {
        if self.order()?.is_none() {
            return Ok(None);
        }
        let (taken, over) = self.taken(device, batch)?;
        let sorted = match over.order()? {
            Some(order) if taken.rows > 1 => sort(device, &taken, order, None)?,
            _ => taken,
        };
        Ok(Some((sorted, over)))
    }

    /// Which aggregates of groups need the rows in the order of groups, since no atomic merges their states; what
    /// groups cannot have is [`Error::Unsupported`].
    pub(crate) fn needs_rows_in_order(
        &self,
        describe: impl Fn(&Expr) -> Result<GeneratedValue, Error>,
    ) -> Result<Vec<bool>, Error> {
        let one = |aggregate: &Aggregate| {
            let function = aggregate.function;
            if !function.has_groups() {
                return Err(Error::unsupported(format!("{function:?} of groups")));
            }
            let wide = match (function, &aggregate.argument) {
                (Function::Min | Function::Max, Some(argument)) => {
                    describe(argument)?.device == DeviceType::I128
                }
                _ => false,
            };
            Ok(wide || !function.is_atomic())
        };
        self.aggregates.iter().map(one).collect()
    }

    /// Whether the states of several batches would not add up to that of all.
    pub fn needs_all_rows(&self) -> bool {
        let mut functions = self.aggregates.iter().map(|aggregate| aggregate.function);
        functions.any(|function| function == Function::Median)
    }

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
        let is_ordered = match self.keys.is_empty() {
            true => vec![true; self.aggregates.len()],
            false => self.needs_rows_in_order(describe)?,
        };
        for (flavour, ordered) in [(Flavour::Private, true), (Flavour::Grouped, false)] {
            let aggregates = self.aggregates.iter().zip(&is_ordered);
            let those = aggregates.filter(|(_, is_ordered)| **is_ordered == ordered);
            let those: Vec<Aggregate> = those.map(|(a, _)| a.clone()).collect();
            let plan = Accumulators::plan(&those, flavour, 1, describe)?;
            for (column, expr) in plan.picked() {
                let field = column.field.as_ref().clone();
                crate::select::check(None, &[(expr.clone(), field)], schema)?;
            }
        }
        if let Some(order) = self.order()? {
            crate::sort::check(order, schema)?;
        }
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
