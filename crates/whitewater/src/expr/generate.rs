//! A pipeline's generated module: `package::generated`.
//!
//! ```text
//! @group(1) @binding(0) var<storage, read> c3: array<i64>;    columns that are used, and no others
//! @group(1) @binding(1) var<storage, read> v3: array<u32>;    their validity, if the batch has any
//! fn predicate(row: u32) -> bool                              true: not false, not null
//! fn predicate(row: u32, other: u32) -> bool                  of a pair of rows
//! fn predicate_word(word: u32) -> u32                         32 rows of it, if it is a boolean column
//! alias Value2 = i64;
//! struct Value2Option { value: Value2, valid: bool }
//! const VALUE2_NULLABLE: bool = true;
//! fn value2(row: u32) -> Value2Option
//! ```

use std::fmt::Write;

use arrow::datatypes::{DataType, Schema};

use super::{
    Expr, ExprError,
    body::{Body, Uses, Valid},
    bounds::Bound,
    device::DeviceType,
};

/// The bind group of the generated module's buffers.
pub const GROUP: u32 = 1;

/// What to generate: which rows count, and the values of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// Rows where this is true (not null) count; all do if there is none.
    pub predicate: Option<Expr>,
    /// Functions by name, such as `key0` or `value2`; the type of `value2` is `Value2`.
    pub values: Vec<(String, Expr)>,
    /// Whether decimals that provably fit an i64 are given as `i64` instead of `I128`.
    pub narrow: bool,
    /// The predicate is of two rows, `predicate(row, other)`: columns from this one on are those of `other`.
    pub paired: Option<usize>,
}

/// What is known of a column of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnLayout {
    /// The column has a validity bitmap.
    pub nullable: bool,
    /// A decimal whose values (that are not null) all fit an i64.
    pub narrow: bool,
    /// A decimal that is stored as `array<i64>`; implies `narrow`.
    pub packed: bool,
    /// A decimal whose values (that are not null) are below 2^bits in magnitude. `bits < 64` implies
    /// `narrow`. The smaller the bound, the more arithmetic stays in 64 bits.
    pub bits: Option<u32>,
}

impl Default for ColumnLayout {
    /// Of a column of which nothing is known.
    fn default() -> Self {
        ColumnLayout {
            nullable: true,
            narrow: false,
            packed: false,
            bits: None,
        }
    }
}

impl ColumnLayout {
    /// Of a decimal column whose values have at most `precision` digits, as its type says.
    pub fn within_precision(self, precision: u8) -> Self {
        let most = super::bounds::power_of_ten(precision.into()).unwrap_or(i128::MAX);
        ColumnLayout {
            bits: Some(128 - (most - 1).leading_zeros()),
            ..self
        }
    }

    pub(crate) fn is_narrow(self) -> bool {
        self.narrow || self.packed || self.bits.is_some_and(|bits| bits < 64)
    }

    pub(crate) fn bound(self) -> Bound {
        let stored = if self.is_narrow() {
            Bound::I64
        } else {
            Bound::UNKNOWN
        };
        self.bits
            .map_or(stored, |bits| Bound::bits(bits).min(stored))
    }
}

/// A buffer of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Values: `c{column}`.
    Data,
    /// Validity bitmap: `v{column}`.
    Validity,
    /// String offsets; declared by kernels, not by expressions.
    Offsets,
    /// String bytes; declared by kernels, not by expressions.
    Bytes,
}

/// What is bound at `@group(1) @binding(k)`, `k` being the position in [`Generated::bindings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    pub column: usize,
    pub part: Part,
}

/// A value function of the generated module.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedValue {
    /// The function, such as `value2`.
    pub function: String,
    /// Its alias, such as `Value2`.
    pub alias: String,
    pub data_type: DataType,
    /// What the alias stands for.
    pub device: DeviceType,
    /// Whether a row may be null.
    pub nullable: bool,
    /// For decimals: |value| < 2^bits.
    pub bits: Option<u32>,
}

/// A generated module and what it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The text of `package::generated`.
    pub text: String,
    /// Buffers in binding order.
    pub bindings: Vec<Binding>,
    /// The values, in the order of [`Pipeline::values`].
    pub values: Vec<GeneratedValue>,
    /// Whether the predicate is a column of bits: there is a `predicate_word`.
    pub mask: bool,
    /// Whether the module may raise: it then uses the errors word at `@group(0) @binding(0)`.
    pub raises: bool,
}

/// The module that evaluates `spec` over rows of a batch laid out as `inputs`.
///
/// Fails with [`ExprError::Unsupported`] for what [`Expr::check`] refuses.
pub fn compile(
    spec: &Pipeline,
    schema: &Schema,
    inputs: &[ColumnLayout],
) -> Result<Generated, ExprError> {
    let mut uses = Uses::default();
    let mut functions = String::new();
    let mut raises = predicate(
        (spec.predicate.as_ref(), spec.paired),
        schema,
        inputs,
        &mut uses,
        &mut functions,
    )?;
    let mask = spec.paired.is_none()
        && predicate_word(spec.predicate.as_ref(), schema, &uses, &mut functions);
    let mut values = Vec::new();
    for (name, expr) in &spec.values {
        let mut body = Body::new(schema, inputs, &mut uses);
        let value = body.expr(expr)?;
        let device = match DeviceType::of(&value.data_type) {
            Some(DeviceType::I128) if spec.narrow && value.device == DeviceType::I64 => {
                DeviceType::I64
            }
            Some(device) => device,
            None => return Err(ExprError::unsupported(format!("type {}", value.data_type))),
        };
        let code = body.widen(&value, device);
        let alias = capitalised(name);
        let valid = Body::valid_text(&value.valid);
        body.lines
            .push(format!("return {alias}Option({code}, {valid});"));
        raises |= body.raises;
        let lines = body.lines;
        if device == DeviceType::I128 {
            uses.import("package::kernels::int128", "I128");
        }
        let nullable = value.valid != Valid::Always;
        let upper = name.to_uppercase();
        let _ = writeln!(functions, "alias {alias} = {};", device.name());
        let _ = writeln!(
            functions,
            "struct {alias}Option {{ value: {alias}, valid: bool }}"
        );
        let _ = writeln!(functions, "const {upper}_NULLABLE: bool = {nullable};");
        let result = format!("{alias}Option");
        function(&mut functions, name, ONE_ROW, &result, &lines);
        let decimal = matches!(value.data_type, DataType::Decimal128(_, _));
        values.push(GeneratedValue {
            function: name.clone(),
            alias,
            data_type: value.data_type,
            device,
            nullable,
            bits: decimal.then(|| value.bound.bit_count()),
        });
    }

    let mut text = String::new();
    for (module, names) in &uses.imports {
        let names: Vec<&str> = names.iter().copied().collect();
        let _ = writeln!(text, "import {module}::{{{}}};", names.join(", "));
    }
    let mut bindings = Vec::new();
    for (&(column, part), element) in &uses.buffers {
        let prefix = if part == Part::Validity { 'v' } else { 'c' };
        let _ = writeln!(
            text,
            "@group({GROUP}) @binding({}) var<storage, read> {prefix}{column}: array<{element}>;",
            bindings.len()
        );
        bindings.push(Binding { column, part });
    }
    text.push_str(&functions);
    Ok(Generated {
        text,
        bindings,
        values,
        mask,
        raises,
    })
}

fn predicate(
    (expr, paired): (Option<&Expr>, Option<usize>),
    schema: &Schema,
    inputs: &[ColumnLayout],
    uses: &mut Uses,
    text: &mut String,
) -> Result<bool, ExprError> {
    let mut body = Body::new(schema, inputs, uses);
    body.others = paired;
    let truth = match expr {
        Some(expr) => body.truth(expr)?,
        None => "true".into(),
    };
    body.lines.push(format!("return {truth};"));
    let parameters = match paired {
        Some(_) => "row: u32, other: u32",
        None => ONE_ROW,
    };
    function(text, "predicate", parameters, "bool", &body.lines);
    Ok(body.raises)
}

/// The predicate by the word, where it is a boolean column; bits past the last row are undefined.
fn predicate_word(expr: Option<&Expr>, schema: &Schema, uses: &Uses, text: &mut String) -> bool {
    let Some(Expr::Column { index }) = expr else {
        return false;
    };
    if *schema.field(*index).data_type() != DataType::Boolean {
        return false;
    }
    let valid = match uses.buffers.contains_key(&(*index, Part::Validity)) {
        true => format!(" & v{index}[word]"),
        false => String::new(),
    };
    let _ = writeln!(
        text,
        "fn predicate_word(word: u32) -> u32 {{ return c{index}[word]{valid}; }}"
    );
    true
}

const ONE_ROW: &str = "row: u32";

fn function(text: &mut String, name: &str, parameters: &str, result: &str, lines: &[String]) {
    let _ = writeln!(text, "fn {name}({parameters}) -> {result} {{");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text.push_str("}\n");
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Generates `expr` and throws the text away; fails where [`compile`] would.
pub(crate) fn dry_run(expr: &Expr, schema: &Schema) -> Result<(), ExprError> {
    let mut uses = Uses::default();
    let mut body = Body::new(schema, &[], &mut uses);
    body.expr(expr).map(|_| ())
}
