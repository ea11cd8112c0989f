//! The body of one generated function: statements in single-assignment style, and the values they name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::datatypes::{DataType, Schema};

use super::{
    ArithmeticError, ColumnLayout, ExprError, Part,
    bounds::Bound,
    device::{DeviceType, Storage},
    typing,
};

/// When a value is not null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Valid {
    Always,
    Never,
    /// When this boolean variable is true.
    When(String),
}

/// A value computed so far: a variable and what is known of it. A null's variable holds anything.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) code: String,
    pub(crate) data_type: DataType,
    /// A decimal may be held as `I64` instead of `I128`.
    pub(crate) device: DeviceType,
    /// What is known of the magnitude of a decimal.
    pub(crate) bound: Bound,
    /// The value of an integer or decimal literal.
    pub(crate) constant: Option<i128>,
    pub(crate) valid: Valid,
}

impl Value {
    /// As this value, null where `valid` says.
    pub(crate) fn with_valid(mut self, valid: Valid) -> Self {
        if valid == Valid::Never {
            self.constant = None;
        }
        self.valid = valid;
        self
    }
}

/// What the functions of a module use together.
#[derive(Default)]
pub(crate) struct Uses {
    /// Buffers, with the element type of their arrays.
    pub(crate) buffers: BTreeMap<(usize, Part), &'static str>,
    /// Imported names by module.
    pub(crate) imports: BTreeMap<&'static str, BTreeSet<&'static str>>,
}

impl Uses {
    pub(crate) fn import(&mut self, module: &'static str, name: &'static str) {
        self.imports.entry(module).or_default().insert(name);
    }
}

/// Statements in the making.
pub(crate) struct Body<'a> {
    pub(crate) schema: &'a Schema,
    layouts: &'a [ColumnLayout],
    pub(crate) uses: &'a mut Uses,
    pub(crate) lines: Vec<String>,
    temporaries: usize,
    loaded: HashMap<(usize, Part), String>,
    /// Whether a statement so far may raise an error.
    pub(crate) raises: bool,
    /// The first of the columns that are another row's, if some are.
    pub(crate) others: Option<usize>,
}

/// Statements taken out of a body, to be put back as they are or under a condition.
pub(crate) struct Block {
    pub(crate) lines: Vec<String>,
    pub(crate) raises: bool,
    loaded: HashMap<(usize, Part), String>,
}

impl<'a> Body<'a> {
    pub(crate) fn new(schema: &'a Schema, layouts: &'a [ColumnLayout], uses: &'a mut Uses) -> Self {
        Body {
            schema,
            layouts,
            uses,
            lines: Vec::new(),
            temporaries: 0,
            loaded: HashMap::new(),
            raises: false,
            others: None,
        }
    }

    /// The variable that holds the number of the row that `column` is read of.
    fn row_of(&self, column: usize) -> &'static str {
        match self.others {
            Some(first) if column >= first => "other",
            _ => "row",
        }
    }

    /// A name that no other variable has.
    pub(crate) fn fresh(&mut self) -> String {
        self.temporaries += 1;
        format!("t{}", self.temporaries - 1)
    }

    /// A new variable holding `text`.
    pub(crate) fn bind(&mut self, text: impl AsRef<str>) -> String {
        let name = self.fresh();
        self.lines.push(format!("let {name} = {};", text.as_ref()));
        name
    }

    /// A call of `name` of the 128-bit module, as an expression.
    pub(crate) fn int128(&mut self, name: &'static str, arguments: &[&str]) -> String {
        self.call("package::kernels::int128", name, arguments)
    }

    /// A call of `name` of `module`, as an expression.
    pub(crate) fn call(
        &mut self,
        module: &'static str,
        name: &'static str,
        arguments: &[&str],
    ) -> String {
        self.uses.import(module, name);
        format!("{name}({})", arguments.join(", "))
    }

    /// A variable holding `code`, of the type `from`, as `to`.
    pub(crate) fn converted(&mut self, from: DeviceType, to: DeviceType, code: &str) -> String {
        let text = self.convert_text(from, to, code);
        self.bind(text)
    }

    /// The text of a conversion. Integers widen in their own signedness before they change it.
    fn convert_text(&mut self, from: DeviceType, to: DeviceType, code: &str) -> String {
        let mut extend = || self.call("package::kernels::bits", "extend_i32", &[code]);
        match (from, to) {
            (DeviceType::I32, DeviceType::I64) => extend(),
            (DeviceType::I32, DeviceType::U64) => format!("bitcast<u64>({})", extend()),
            (DeviceType::U32, DeviceType::I64) => format!("bitcast<i64>(u64({code}))"),
            (DeviceType::I64, DeviceType::U32) => format!("u32(bitcast<u64>({code}))"),
            (DeviceType::U64, DeviceType::I32) => format!("i32(bitcast<i64>({code}))"),
            _ => format!("{}({code})", to.name()),
        }
    }

    /// Runs `build`, and takes its statements out.
    pub(crate) fn block<T>(
        &mut self,
        build: impl FnOnce(&mut Self) -> Result<T, ExprError>,
    ) -> Result<(Block, T), ExprError> {
        let outer = std::mem::take(&mut self.lines);
        let loaded = self.loaded.clone();
        let raises = std::mem::replace(&mut self.raises, false);
        let built = build(self);
        let block = Block {
            lines: std::mem::replace(&mut self.lines, outer),
            raises: std::mem::replace(&mut self.raises, raises),
            loaded: std::mem::replace(&mut self.loaded, loaded),
        };
        Ok((block, built?))
    }

    /// Puts a block's statements back, unconditionally.
    pub(crate) fn splice(&mut self, block: Block) {
        self.lines.extend(block.lines);
        self.loaded = block.loaded;
        self.raises |= block.raises;
    }

    /// Puts a block's statements back as part of the statement that `header` opens.
    pub(crate) fn nest(&mut self, header: &str, block: Block) {
        self.lines.push(header.into());
        self.lines
            .extend(block.lines.iter().map(|line| format!("  {line}")));
        self.raises |= block.raises;
    }

    /// Raises `error` in rows where `valid` and `condition` hold.
    pub(crate) fn raise(&mut self, valid: &Valid, condition: &str, error: ArithmeticError) {
        let condition = match valid {
            Valid::Never => return,
            Valid::Always => condition.to_string(),
            Valid::When(valid) => format!("{valid} && {condition}"),
        };
        let code = error.code();
        let raise = self.call("package::kernels::errors", "raise", &[&format!("{code}u")]);
        self.lines.push(format!("if ({condition}) {{ {raise}; }}"));
        self.raises = true;
    }

    /// Not null where both are not null.
    pub(crate) fn both(&mut self, left: &Valid, right: &Valid) -> Valid {
        match (left, right) {
            (Valid::Never, _) | (_, Valid::Never) => Valid::Never,
            (Valid::Always, other) | (other, Valid::Always) => other.clone(),
            (Valid::When(l), Valid::When(r)) if l == r => left.clone(),
            (Valid::When(l), Valid::When(r)) => Valid::When(self.bind(format!("{l} && {r}"))),
        }
    }

    /// Not null where `valid`, and the boolean variable `condition` is true.
    pub(crate) fn also(&mut self, valid: &Valid, condition: String) -> Valid {
        self.both(valid, &Valid::When(condition))
    }

    /// `valid` as a boolean expression.
    pub(crate) fn valid_text(valid: &Valid) -> String {
        match valid {
            Valid::Always => "true".into(),
            Valid::Never => "false".into(),
            Valid::When(name) => name.clone(),
        }
    }

    /// A value of `data_type` in the variable `code`, with the type's usual representation.
    pub(crate) fn value_of(
        &self,
        code: String,
        data_type: &DataType,
        valid: Valid,
    ) -> Result<Value, ExprError> {
        let device = DeviceType::of(data_type)
            .ok_or_else(|| ExprError::unsupported(format!("type {data_type}")))?;
        Ok(Value {
            code,
            data_type: data_type.clone(),
            device,
            bound: Bound::UNKNOWN,
            constant: None,
            valid,
        })
    }

    /// The null of `data_type`.
    pub(crate) fn null(&self, data_type: &DataType) -> Result<Value, ExprError> {
        let mut value = self.value_of(String::new(), data_type, Valid::Never)?;
        if value.device == DeviceType::I128 {
            value.device = DeviceType::I64;
            value.bound = Bound::ZERO;
        }
        value.code = value.device.zero().into();
        Ok(value)
    }

    fn layout(&self, column: usize) -> ColumnLayout {
        self.layouts.get(column).copied().unwrap_or_default()
    }

    /// The validity of a column's row.
    pub(crate) fn column_valid(&mut self, column: usize) -> Valid {
        if !self.layout(column).nullable {
            return Valid::Always;
        }
        let key = (column, Part::Validity);
        if let Some(name) = self.loaded.get(&key) {
            return Valid::When(name.clone());
        }
        self.uses.buffers.insert(key, "u32");
        let row = self.row_of(column);
        let word = format!("v{column}[{row} >> 5u]");
        let text = self.call("package::kernels::bits", "bit", &[&word, row]);
        let name = self.bind(text);
        self.loaded.insert(key, name.clone());
        Valid::When(name)
    }

    /// The value of a column's row.
    pub(crate) fn column(&mut self, column: usize) -> Result<Value, ExprError> {
        let data_type = typing::field(self.schema, column)?.data_type().clone();
        let layout = self.layout(column);
        let storage = Storage::of(&data_type, layout.packed)
            .ok_or_else(|| ExprError::unsupported(format!("type {data_type}")))?;
        let key = (column, Part::Data);
        let code = match self.loaded.get(&key) {
            Some(name) => name.clone(),
            None => {
                self.uses.buffers.insert(key, storage.element());
                let row = self.row_of(column);
                let text = match storage {
                    Storage::Bits => {
                        let word = format!("c{column}[{row} >> 5u]");
                        self.call("package::kernels::bits", "bit", &[&word, row])
                    }
                    Storage::Packed(function, shift) => {
                        let word = format!("c{column}[{row} >> {shift}u]");
                        self.call("package::kernels::bits", function, &[&word, row])
                    }
                    Storage::Plain(_) => format!("c{column}[{row}]"),
                    Storage::Wide if layout.is_narrow() => {
                        format!("bitcast<i64>(c{column}[{row}].x)")
                    }
                    Storage::Wide => {
                        self.int128("i128_from_words", &[&format!("c{column}[{row}]")])
                    }
                };
                let name = self.bind(text);
                self.loaded.insert(key, name.clone());
                name
            }
        };
        let valid = self.column_valid(column);
        let mut value = self.value_of(code, &data_type, valid)?;
        if value.device == DeviceType::I128 {
            value.bound = layout.bound();
            if layout.is_narrow() {
                value.device = DeviceType::I64;
            }
        }
        Ok(value)
    }
}
