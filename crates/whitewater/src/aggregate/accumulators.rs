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
    state::{Encoding, StateColumn},
};
use crate::{
    Error,
    expr::{DeviceType, Expr, GeneratedValue, Literal},
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
        let arg = match filtered(aggregate) {
            Some(expr) => Some(self.argument(&expr, describe)?),
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
            (Function::Min | Function::Max, Some(arg), [field]) => {
                if kind == DeviceType::I128 {
                    return Err(unsupported());
                }
                let minimum = aggregate.function == Function::Min;
                let seen = seen_of(self, arg);
                let word = self.accumulator(Gathers::Extreme { arg, minimum, kind });
                self.column(field, Encoding::Ordered { minimum }, word, seen);
            }
            _ => return Err(unsupported()),
        }
        Ok(())
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
        let imports = "import package::kernels::int128::{I128, i128_add, i128_from_i64};\n\
                       import package::kernels::order::{order_bool, order_u32, order_u64, \
                       order_i32, order_i64, order_f32, order_f64};\n";
        text.insert_str(0, imports);
        let (mut fields, mut of, mut merge, mut store, mut load) = Default::default();
        let lists: [&mut String; 5] = [&mut fields, &mut of, &mut merge, &mut store, &mut load];
        let [fields, of, merge, store, load] = lists;
        for (i, a) in self.list.iter().enumerate() {
            let (ty, value) = match a.gathers {
                Gathers::Count { .. } => ("u64", "1lu".to_string()),
                Gathers::Integer { arg } => ("u64", format!("u64_of_{i}(in.value{arg})")),
                Gathers::Decimal { arg, narrow } => ("I128", wide(arg, narrow)),
                Gathers::Float { arg } => ("f64", format!("in.value{arg}")),
                Gathers::Extreme { arg, minimum, kind } => {
                    let flip = if minimum { "~" } else { "" };
                    ("u64", format!("{flip}order_{}(in.value{arg})", kind.name()))
                }
            };
            writeln!(fields, "    a{i}: {ty},")?;
            match self.condition(a.gathers) {
                Some(condition) => writeln!(of, "    if ({condition}) {{ p.a{i} = {value}; }}")?,
                None => writeln!(of, "    p.a{i} = {value};")?,
            }
            let sum = match a.gathers {
                Gathers::Decimal { .. } => format!("i128_add(a.a{i}, b.a{i})"),
                Gathers::Extreme { .. } => format!("max(a.a{i}, b.a{i})"),
                _ => format!("a.a{i} + b.a{i}"),
            };
            writeln!(merge, "    p.a{i} = {sum};")?;
            let word = a.word;
            match a.gathers {
                Gathers::Decimal { .. } => {
                    writeln!(store, "    partials[at + {word}u] = p.a{i}.lo;")?;
                    writeln!(store, "    partials[at + {}u] = p.a{i}.hi;", word + 1)?;
                    writeln!(
                        load,
                        "    p.a{i} = I128(partials[at + {word}u], partials[at + {}u]);",
                        word + 1
                    )?;
                }
                Gathers::Float { .. } => {
                    writeln!(store, "    partials[at + {word}u] = bitcast<u64>(p.a{i});")?;
                    writeln!(load, "    p.a{i} = bitcast<f64>(partials[at + {word}u]);")?;
                }
                _ => {
                    writeln!(store, "    partials[at + {word}u] = p.a{i};")?;
                    writeln!(load, "    p.a{i} = partials[at + {word}u];")?;
                }
            }
            if let Gathers::Integer { arg } = a.gathers {
                writeln!(
                    text,
                    "fn u64_of_{i}(v: Arg{arg}) -> u64 {{ return bitcast<u64>(v); }}"
                )?;
            }
        }
        if self.list.is_empty() {
            writeln!(fields, "    unused: u32,")?;
        }
        let words = self.words;
        write!(
            text,
            "struct Partial {{\n{fields}}}\n\
             const WORDS: u32 = {words}u;\n\
             @group(0) @binding(1) var<storage, read_write> partials: array<u64>;\n\
             fn partial_of(in: Inputs) -> Partial {{\n    var p = Partial();\n{of}    return p;\n}}\n\
             fn merge(a: Partial, b: Partial) -> Partial {{\n    var p = Partial();\n{merge}    return p;\n}}\n\
             fn store(index: u32, p: Partial) {{\n    let at = index * WORDS;\n{store}}}\n\
             fn load(index: u32) -> Partial {{\n    let at = index * WORDS;\n    var p = Partial();\n{load}    return p;\n}}\n"
        )
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
        (Some(filter), argument) => Some(Expr::Case {
            when_then: vec![(
                filter.clone(),
                argument.clone().unwrap_or(Expr::Literal(Literal::Int64(1))),
            )],
            otherwise: None,
        }),
    }
}
