//! The accumulators of an aggregation, shared between aggregates that need the same, and the
//! module `package::accumulators` that kernels update them through.
//!
//! Three flavours of one text: `Private` (one state in registers, merged pairwise: the ungrouped
//! reduction), `Grouped` (states in workgroup memory as 32-bit limbs and in a global array of
//! 64-bit words, both updated by atomics).
//!
//! A state is a run of u64 words, zero when nothing was seen. A minimum is kept as the maximum of
//! the complement, so zero serves it too.

use std::{fmt::Write, sync::Arc};

use arrow::datatypes::{DataType, Field};

use super::{
    Aggregate, Function,
    registers::{BitOp, Held},
    state::{Encoding, StateColumn},
};
use crate::{
    Error,
    expr::{DeviceType, Expr, GeneratedValue, Literal, Op},
};

/// What one accumulator gathers of argument `arg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathers {
    /// Rows, or the rows whose argument is not null.
    Count { arg: Option<usize> },
    /// A wrapping sum of integers.
    Integer { arg: usize },
    /// A wrapping sum of decimals, given as `I128` or (`narrow`) as `i64`.
    Decimal { arg: usize, narrow: bool },
    /// A sum of `f64`.
    Float { arg: usize },
    /// The largest mapped value, or the largest complement.
    Extreme {
        arg: usize,
        minimum: bool,
        kind: DeviceType,
    },
    /// What only a state in registers can gather; of rows where `arg` is not null, or of all.
    Held { arg: Option<usize>, what: Held },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) gathers: Gathers,
    /// First u64 word of a state.
    pub(crate) word: u32,
    /// First u32 limb of a state in workgroup memory; extremes have words of their own there.
    pub(crate) limb: u32,
}

/// Which kernels the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    Private,
    Grouped,
}

/// The accumulators of an aggregation.
pub(crate) struct Accumulators {
    flavour: Flavour,
    pub(crate) list: Vec<Accumulator>,
    /// Distinct argument expressions, named `arg0`, `arg1`, … in the compiled pipeline, and what
    /// their values are there.
    pub(crate) arguments: Vec<(Expr, GeneratedValue)>,
    /// Words of one state.
    pub(crate) words: u32,
    /// u32 limbs of one state in workgroup memory.
    pub(crate) limbs: u32,
    /// Mapped extremes of one state in workgroup memory.
    pub(crate) extremes: u32,
    /// Windows of each exact float sum.
    pub(crate) windows: u32,
    /// The columns of partial state, in the aggregates' order.
    pub(crate) state: Vec<StateColumn>,
    /// Expressions whose values the host looks up once the states are known.
    pub(crate) looked_up: Vec<Expr>,
}

impl Accumulators {
    /// Plans the accumulators of `aggregates`; `describe` tells what an expression's value is on the
    /// device for the batch at hand.
    pub(crate) fn plan(
        aggregates: &[Aggregate],
        flavour: Flavour,
        windows: u32,
        describe: impl Fn(&Expr) -> Result<GeneratedValue, Error>,
    ) -> Result<Self, Error> {
        let mut plan = Self {
            flavour,
            list: Vec::new(),
            arguments: Vec::new(),
            words: 0,
            limbs: 0,
            extremes: 0,
            windows,
            state: Vec::new(),
            looked_up: Vec::new(),
        };
        if flavour == Flavour::Grouped && aggregates.is_empty() {
            // A state has a word at least.
            plan.accumulator(Gathers::Count { arg: None });
        }
        for aggregate in aggregates {
            plan.aggregate(aggregate, &describe)?;
        }
        Ok(plan)
    }

    fn aggregate(
        &mut self,
        aggregate: &Aggregate,
        describe: &impl Fn(&Expr) -> Result<GeneratedValue, Error>,
    ) -> Result<(), Error> {
        if let Function::First { .. } | Function::Last { .. } | Function::Median =
            aggregate.function
        {
            return self.row_or_rank(aggregate, describe);
        }
        let arg = match filtered(aggregate) {
            Some(expr) => match self.argument(&expr, describe) {
                // Strings are counted by their validity.
                Err(_) if aggregate.function == Function::Count => known(aggregate)
                    .map(|expr| self.argument(&expr, describe))
                    .transpose()?,
                arg => Some(arg?),
            },
            None => None,
        };
        let described = arg.map(|arg| self.arguments[arg].1.clone());
        let kind = described.as_ref().map_or(DeviceType::I64, |d| d.device);
        let data_type = described.map_or(DataType::Int64, |d| d.data_type);
        let unsupported = || Error::unsupported(format!("{:?} of {data_type}", aggregate.function));
        let count_of = |plan: &mut Self| {
            let arg = arg.filter(|arg| plan.arguments[*arg].1.nullable);
            plan.accumulator(Gathers::Count { arg })
        };
        // A group has rows: its values are null only if the argument can be.
        let seen_of = |plan: &mut Self, arg: usize| {
            let always = plan.flavour == Flavour::Grouped && !plan.arguments[arg].1.nullable;
            (!always).then(|| count_of(plan))
        };
        let sum_of = |plan: &mut Self, arg: usize| -> Result<(u32, Encoding), Error> {
            let gathers = match (kind, &data_type) {
                (DeviceType::I64, DataType::Decimal128(_, _)) => {
                    Gathers::Decimal { arg, narrow: true }
                }
                (DeviceType::I128, _) => Gathers::Decimal { arg, narrow: false },
                (_, DataType::Int64 | DataType::UInt64) => Gathers::Integer { arg },
                (DeviceType::F64, _) => Gathers::Float { arg },
                _ => return Err(unsupported()),
            };
            let exact = kind == DeviceType::F64 && plan.flavour == Flavour::Grouped;
            let encoding = if exact {
                Encoding::Exact
            } else {
                Encoding::Plain
            };
            Ok((plan.accumulator(gathers), encoding))
        };
        let fields: Vec<Arc<Field>> = aggregate.state.iter().cloned().map(Arc::new).collect();
        match (aggregate.function, arg, fields.as_slice()) {
            (Function::Count, _, [field]) => {
                let word = count_of(self);
                self.column(field, Encoding::Plain, word, None);
            }
            (Function::Sum, Some(arg), [field]) => {
                let seen = seen_of(self, arg);
                let (word, encoding) = sum_of(self, arg)?;
                self.column(field, encoding, word, seen);
            }
            (Function::Avg, Some(arg), [count, sum]) => {
                let count_word = count_of(self);
                let seen = seen_of(self, arg);
                let (word, encoding) = sum_of(self, arg)?;
                self.column(count, Encoding::Plain, count_word, None);
                self.column(sum, encoding, word, seen);
            }
            (Function::Min | Function::Max, Some(arg), [field]) if kind == DeviceType::I128 => {
                if self.flavour == Flavour::Grouped {
                    return Err(unsupported());
                }
                let minimum = aggregate.function == Function::Min;
                let seen = seen_of(self, arg);
                let word = self.held(arg, Held::WideExtreme { minimum });
                self.column(field, Encoding::WideOrdered { minimum }, word, seen);
            }
            (Function::Min | Function::Max | Function::Any | Function::All, Some(arg), [field]) => {
                let of_flags = matches!(aggregate.function, Function::Any | Function::All);
                if of_flags && kind != DeviceType::Bool {
                    return Err(unsupported());
                }
                let minimum = matches!(aggregate.function, Function::Min | Function::All);
                let seen = seen_of(self, arg);
                let word = self.accumulator(Gathers::Extreme { arg, minimum, kind });
                self.column(field, Encoding::Ordered { minimum }, word, seen);
            }
            (Function::CheckedSum, Some(arg), [field]) => {
                let seen = seen_of(self, arg);
                let (low, high) = match (kind, &data_type) {
                    (DeviceType::I128, _) => {
                        let high = self.held(arg, Held::Half { high: true });
                        (self.held(arg, Held::Half { high: false }), Some(high))
                    }
                    (DeviceType::I64, DataType::Decimal128(_, _) | DataType::Int64) => {
                        let whole = Gathers::Decimal { arg, narrow: true };
                        (self.accumulator(whole), None)
                    }
                    (DeviceType::U64, DataType::UInt64) => {
                        (self.held(arg, Held::Half { high: false }), None)
                    }
                    _ => return Err(unsupported()),
                };
                self.column(field, Encoding::Checked { high }, low, seen);
            }
            (Function::Product, Some(arg), [field]) => {
                if !matches!(
                    data_type,
                    DataType::Int64 | DataType::UInt64 | DataType::Float64
                ) {
                    return Err(unsupported());
                }
                let seen = seen_of(self, arg);
                let word = self.held(arg, Held::Product);
                self.column(field, Encoding::Plain, word, seen);
            }
            (Function::BitAnd | Function::BitOr | Function::BitXor, Some(arg), [field]) => {
                if !data_type.is_integer() {
                    return Err(unsupported());
                }
                let op = match aggregate.function {
                    Function::BitAnd => BitOp::And,
                    Function::BitOr => BitOp::Or,
                    _ => BitOp::Xor,
                };
                let seen = seen_of(self, arg);
                let word = self.held(arg, Held::Bits(op));
                self.column(field, Encoding::Plain, word, seen);
            }
            (Function::Variance, Some(arg), [count, mean, squares]) => {
                if kind != DeviceType::F64 {
                    return Err(unsupported());
                }
                let word = self.held(arg, Held::Moments);
                for (field, word) in [count, mean, squares].into_iter().zip(word..) {
                    self.column(field, Encoding::Plain, word, None);
                }
            }
            (Function::ArgMin | Function::ArgMax, Some(arg), [field]) => {
                if kind == DeviceType::I128 {
                    return Err(unsupported());
                }
                let minimum = aggregate.function == Function::ArgMin;
                let word = self.held(arg, Held::RowOf { minimum, kind });
                let row = Encoding::Row { last: false };
                self.column(field, row, word + 1, Some(word + 1));
            }
            _ => return Err(unsupported()),
        }
        Ok(())
    }

    /// The first, the last or the middle value, which the host looks up by its row or its rank.
    fn row_or_rank(
        &mut self,
        aggregate: &Aggregate,
        describe: &impl Fn(&Expr) -> Result<GeneratedValue, Error>,
    ) -> Result<(), Error> {
        let unsupported = || Error::unsupported(format!("{:?}", aggregate.function));
        let argument = aggregate.argument.clone().ok_or_else(unsupported)?;
        let fields: Vec<Arc<Field>> = aggregate.state.iter().cloned().map(Arc::new).collect();
        let (last, skip_nulls) = match aggregate.function {
            Function::First { skip_nulls } => (false, skip_nulls),
            Function::Last { skip_nulls } => (true, skip_nulls),
            _ => {
                let value = filtered(aggregate).ok_or_else(unsupported)?;
                let described = describe(&value)?;
                if described.device == DeviceType::I128 || !described.data_type.is_numeric() {
                    let what = format!("the median of {}", described.data_type);
                    return Err(Error::unsupported(what));
                }
                let [field] = fields.as_slice() else {
                    return Err(unsupported());
                };
                let arg = self.argument(&value, describe)?;
                let arg = Some(arg).filter(|arg| self.arguments[*arg].1.nullable);
                let count = self.accumulator(Gathers::Count { arg });
                self.looked_up.push(value);
                let middle = Encoding::Middle {
                    argument: self.looked_up.len() - 1,
                };
                self.column(field, middle, count, None);
                return Ok(());
            }
        };
        let [value, beside @ .., is_set] = fields.as_slice() else {
            return Err(unsupported());
        };
        if beside.len() != aggregate.order.len() {
            return Err(unsupported());
        }
        let known = skip_nulls.then(|| Expr::IsNotNull(Box::new(argument.clone())));
        let taken = [aggregate.filter.clone(), known].into_iter().flatten();
        let taken = taken.reduce(|all, one| all.binary(Op::And, one));
        let arg = match taken {
            Some(condition) => Some(self.argument(&one_where(condition, None), describe)?),
            None => None,
        };
        let word = self.accumulator(Gathers::Held {
            arg,
            what: Held::Row { last },
        });
        let keys = aggregate.order.iter().map(|key| key.expr.clone());
        for (field, expr) in std::iter::once(value)
            .chain(beside)
            .zip(std::iter::once(argument).chain(keys))
        {
            self.looked_up.push(expr);
            let picked = Encoding::Picked {
                argument: self.looked_up.len() - 1,
                last,
            };
            self.column(field, picked, word, Some(word));
        }
        self.column(is_set, Encoding::Seen, word, None);
        Ok(())
    }

    /// The columns whose values are looked up in a row, with what is evaluated there.
    pub(crate) fn picked(&self) -> impl Iterator<Item = (&StateColumn, &Expr)> {
        self.state
            .iter()
            .filter_map(|column| match column.encoding {
                Encoding::Picked { argument, .. } => Some((column, &self.looked_up[argument])),
                _ => None,
            })
    }

    fn held(&mut self, arg: usize, what: Held) -> u32 {
        let arg = Some(arg);
        self.accumulator(Gathers::Held { arg, what })
    }

    fn column(&mut self, field: &Arc<Field>, encoding: Encoding, word: u32, seen: Option<u32>) {
        self.state.push(StateColumn {
            field: field.clone(),
            encoding,
            word,
            seen,
        });
    }

    fn argument(
        &mut self,
        expr: &Expr,
        describe: &impl Fn(&Expr) -> Result<GeneratedValue, Error>,
    ) -> Result<usize, Error> {
        if let Some(index) = self.arguments.iter().position(|(known, _)| known == expr) {
            return Ok(index);
        }
        self.arguments.push((expr.clone(), describe(expr)?));
        Ok(self.arguments.len() - 1)
    }

    /// The arguments as values of a pipeline.
    pub(crate) fn values(&self) -> Vec<(String, Expr)> {
        let named = |(i, (expr, _)): (usize, &(Expr, _))| (format!("arg{i}"), expr.clone());
        self.arguments.iter().enumerate().map(named).collect()
    }

    /// The first word of the accumulator that gathers this, new or shared.
    fn accumulator(&mut self, gathers: Gathers) -> u32 {
        if let Some(known) = self.list.iter().find(|a| a.gathers == gathers) {
            return known.word;
        }
        let (words, limbs) = match (gathers, self.flavour) {
            (Gathers::Count { .. }, _) => (1, 1),
            (Gathers::Integer { .. }, _) => (1, 2),
            (Gathers::Decimal { .. }, _) => (2, 4),
            (Gathers::Float { .. }, Flavour::Private) => (1, 0),
            (Gathers::Float { .. }, Flavour::Grouped) => (2 * self.windows + 1, 4 * self.windows),
            (Gathers::Extreme { .. }, _) => (1, 0),
            (Gathers::Held { what, .. }, _) => (what.words(), 0),
        };
        let word = self.words;
        let limb = match gathers {
            Gathers::Extreme { .. } => self.extremes,
            _ => self.limbs,
        };
        self.list.push(Accumulator {
            gathers,
            word,
            limb,
        });
        self.words += words;
        self.limbs += limbs;
        self.extremes += u32::from(matches!(gathers, Gathers::Extreme { .. }));
        word
    }

    /// Arguments that are summed exactly, in the order of the window bases in the parameters.
    pub(crate) fn floats(&self) -> Vec<usize> {
        self.list
            .iter()
            .filter_map(|a| match a.gathers {
                Gathers::Float { arg } => Some(arg),
                _ => None,
            })
            .collect()
    }

    /// The type of the extreme whose state starts at `word`.
    pub(crate) fn extreme_type(&self, word: u32) -> Option<DeviceType> {
        self.list.iter().find_map(|a| match a.gathers {
            Gathers::Extreme { kind, .. } if a.word == word => Some(kind),
            _ => None,
        })
    }

    /// Which of [`floats`](Self::floats) the sum whose state starts at `word` is.
    pub(crate) fn float_index(&self, word: u32) -> Option<usize> {
        self.list
            .iter()
            .filter(|a| matches!(a.gathers, Gathers::Float { .. }))
            .position(|a| a.word == word)
    }

    /// The condition under which accumulator `a` takes a row, as WGSL over `in`.
    pub(crate) fn condition(&self, gathers: Gathers) -> Option<String> {
        let arg = match gathers {
            Gathers::Count { arg } => arg?,
            Gathers::Integer { arg }
            | Gathers::Decimal { arg, .. }
            | Gathers::Float { arg }
            | Gathers::Extreme { arg, .. } => arg,
            Gathers::Held { arg, .. } => arg?,
        };
        self.arguments[arg]
            .1
            .nullable
            .then(|| format!("in.ok{arg}"))
    }

    /// The arguments of one row, loaded before anything is accumulated.
    fn inputs(&self, text: &mut String) -> std::fmt::Result {
        let names: Vec<String> = (0..self.arguments.len())
            .map(|i| format!("arg{i}"))
            .collect();
        if !names.is_empty() {
            writeln!(text, "import package::generated::{{{}}};", names.join(", "))?;
            let types: Vec<String> = (0..names.len()).map(|i| format!("Arg{i}")).collect();
            writeln!(text, "import package::generated::{{{}}};", types.join(", "))?;
        }
        writeln!(text, "struct Inputs {{ row: u32,")?;
        for index in 0..names.len() {
            writeln!(text, "    value{index}: Arg{index}, ok{index}: bool,")?;
        }
        writeln!(
            text,
            "}}\nfn inputs(row: u32) -> Inputs {{\n    var in: Inputs;"
        )?;
        writeln!(text, "    in.row = row;")?;
        for (index, name) in names.iter().enumerate() {
            writeln!(text, "    let {name}_ = {name}(row);")?;
            writeln!(text, "    in.value{index} = {name}_.value;")?;
            writeln!(text, "    in.ok{index} = {name}_.valid;")?;
        }
        writeln!(text, "    return in;\n}}")
    }

    /// The text of `package::accumulators`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let written = self.inputs(&mut text).and_then(|()| match self.flavour {
            Flavour::Private => self.private(&mut text),
            Flavour::Grouped => self.grouped(&mut text),
        });
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        text
    }

    /// `Partial`, its identity, that of one row, the merge of two, and its words.
    fn private(&self, text: &mut String) -> std::fmt::Result {
        super::registers::write(self, text)
    }

    /// The updates of a group's state in workgroup memory and in the global table, the flush of
    /// the one into the other, and the columns of state.
    fn grouped(&self, text: &mut String) -> std::fmt::Result {
        crate::groupby::states::write(self, text)
    }
}

/// The WGSL of a decimal argument as `I128`.
pub(crate) fn wide(arg: usize, narrow: bool) -> String {
    match narrow {
        true => format!("i128_from_i64(in.value{arg})"),
        false => format!("in.value{arg}"),
    }
}

/// The argument with the filter folded in: null where the filter is not true.
fn filtered(aggregate: &Aggregate) -> Option<Expr> {
    match (&aggregate.filter, &aggregate.argument) {
        (None, argument) => argument.clone(),
        (Some(filter), argument) => Some(one_where(filter.clone(), argument.clone())),
    }
}

/// 1 where the argument is not null and the filter is true, else null.
fn known(aggregate: &Aggregate) -> Option<Expr> {
    let known = Expr::IsNotNull(Box::new(aggregate.argument.clone()?));
    let condition = match &aggregate.filter {
        Some(filter) => filter.clone().binary(Op::And, known),
        None => known,
    };
    Some(one_where(condition, None))
}

/// `value`, or 1 without one, where `condition` is true, else null.
fn one_where(condition: Expr, value: Option<Expr>) -> Expr {
    let value = value.unwrap_or(Expr::Literal(Literal::Int64(1)));
    Expr::Case {
        when_then: vec![(condition, value)],
        otherwise: None,
    }
}
