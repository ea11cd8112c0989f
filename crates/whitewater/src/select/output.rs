//! Output columns of kernels that write one row at a time: the text of `package::output`, and the
//! buffers that it declares.
//!
//! ```text
//! struct Row { row: u32, value0: Value0Option, … }
//! fn load_row(row: u32) -> Row
//! fn store_row(v: Row, at: u32, live: bool, spot: Spot)      as output `at`
//! fn store_words(word: u32, lane: u32)                       a word of 32 rows' bits
//! ```
//!
//! Booleans, validity and 8- and 16-bit values are packed by the subgroup that computes them, which takes
//! rows that are neighbours in the output: `evaluate.wesl` does.

use arrow::datatypes::DataType;
use whitewater_gpu::{Buffer, Device, Shader};

use crate::{
    Column, Error, Storage,
    column::bit_words_bytes,
    expr::{DeviceType, GeneratedValue},
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
};

/// Bind group of the output buffers.
pub(crate) const GROUP: u32 = 2;
/// Bind group of bitmaps that are gathered beside the computed values.
pub(crate) const SOURCE_GROUP: u32 = 3;

/// Binding of the list of rows that outputs are of, in the first group.
pub(crate) const MAP_BINDING: u32 = 15;

/// What a row takes in a buffer.
#[derive(Clone, Copy, PartialEq)]
enum Width {
    Bit,
    Byte,
    Half,
    /// One u32, u64 or pair of u64 a value.
    Word,
    Long,
    Wide,
}

impl Width {
    fn of(data_type: &DataType) -> Option<Self> {
        if *data_type == DataType::Boolean {
            return Some(Width::Bit);
        }
        Some(match data_type.primitive_width()? {
            1 => Width::Byte,
            2 => Width::Half,
            4 => Width::Word,
            8 => Width::Long,
            16 => Width::Wide,
            _ => return None,
        })
    }

    fn bytes(self, rows: usize) -> u64 {
        let rows = rows as u64;
        match self {
            Width::Bit => bit_words_bytes(rows as usize),
            Width::Byte => rows,
            Width::Half => rows * 2,
            Width::Word => rows * 4,
            Width::Long => rows * 8,
            Width::Wide => rows * 16,
        }
    }

    fn element(self) -> &'static str {
        match self {
            Width::Long | Width::Wide => "u64",
            _ => "u32",
        }
    }

    /// Whether several rows share a word.
    fn is_packed(self) -> bool {
        matches!(self, Width::Bit | Width::Byte | Width::Half)
    }

    fn of_values(data_type: &DataType) -> Result<Self, Error> {
        Self::of(data_type)
            .ok_or_else(|| Error::unsupported(format!("an output column of type {data_type}")))
    }
}

/// Whether rows of `data_type` share words, so that only neighbours can be written at once.
pub(crate) fn is_packed(data_type: &DataType) -> bool {
    Width::of(data_type).is_some_and(Width::is_packed)
}

/// An output column: the numbers of its buffers.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    data: usize,
    validity: Option<usize>,
    /// Of decimals in 64 bits, the bits of the greatest magnitude.
    narrow: Option<u32>,
}

/// The text of `package::output` in the making, with the buffers it declares.
pub(crate) struct Output<'a> {
    device: &'a Device,
    /// Rows that every buffer holds.
    rows: usize,
    imports: String,
    declarations: String,
    /// Fields of `Row`, and the expressions that load them.
    fields: String,
    loads: Vec<String>,
    body: String,
    words: String,
    /// The values of whole words, as WGSL: type, value, and where it goes.
    whole: Vec<(&'static str, String, String)>,
    pub(crate) buffers: Vec<Buffer>,
    widths: Vec<Width>,
    sources: u32,
}

impl<'a> Output<'a> {
    pub(crate) fn new(device: &'a Device, rows: usize) -> Self {
        Self {
            device,
            rows,
            imports: "import package::kernels::pack::{Spot, collect_flags, pack_bytes, pack_halves, word_of_flags};\n"
                .into(),
            declarations: String::new(),
            fields: "row: u32".into(),
            loads: vec!["row".into()],
            body: String::new(),
            words: String::new(),
            whole: Vec::new(),
            buffers: Vec::new(),
            widths: Vec::new(),
            sources: 0,
        }
    }

    /// Adds import lines.
    pub(crate) fn import(&mut self, lines: &str) {
        self.imports.push_str(lines);
    }

    /// Adds a declaration.
    pub(crate) fn declaration(&mut self, text: &str) {
        self.declarations.push_str(text);
    }

    /// Loads a value of a row: `v.{name}` in the body.
    pub(crate) fn load(&mut self, name: &str, data_type: &str, expression: &str) {
        self.fields.push_str(&format!(", {name}: {data_type}"));
        self.loads.push(expression.into());
    }

    /// The whole module.
    pub(crate) fn text(&self) -> String {
        let Self {
            imports,
            declarations,
            fields,
            body,
            words,
            ..
        } = self;
        let loads = self.loads.join(", ");
        format!(
            "{imports}{declarations}struct Row {{ {fields} }}\n\
             fn load_row(row: u32) -> Row {{ return Row({loads}); }}\n\
             fn store_row(v: Row, at: u32, live: bool, spot: Spot) {{\n    let row = v.row;\n{body}}}\n\
             fn store_words(word: u32, lane: u32) {{\n{words}}}\n"
        )
    }

    /// The module with `Packed`, a row's values and no more, which `pack_row` makes and `store_packed` writes; for
    /// outputs of whole words.
    pub(crate) fn packed_text(&self) -> String {
        let mut fields = String::new();
        let mut values = String::new();
        let mut stores = String::new();
        for (i, (word, value, to)) in self.whole.iter().enumerate() {
            fields.push_str(&format!("w{i}: {word}, "));
            values.push_str(&format!("{value}, "));
            stores.push_str(&format!("    {to} = p.w{i};\n"));
        }
        format!(
            "{}struct Packed {{ {fields} }}\n\
             fn pack_row(v: Row) -> Packed {{\n    let row = v.row;\n    return Packed({values});\n}}\n\
             fn store_packed(p: Packed, at: u32) {{\n{stores}}}\n",
            self.text()
        )
    }

    /// Whether every output is of whole words, and has been written without lines of its own.
    pub(crate) fn is_whole(&self) -> bool {
        let words = |width: &Width| match width {
            Width::Wide => 2,
            _ => 1,
        };
        !self.whole.is_empty() && self.whole.len() == self.widths.iter().map(words).sum::<usize>()
    }

    /// How many rows an invocation loads before it stores the first, of up to `most`: a few words each.
    pub(crate) fn rows_at_once(&self, most: u32) -> u32 {
        (most / (self.loads.len() as u32).next_power_of_two()).max(1)
    }

    /// Evaluates the outputs of `rows` rows, those in `map` if there is one. `specialise` gives the kernel what their
    /// text imports; `bound` has the buffers of that, by group and binding.
    pub(crate) fn evaluate(
        &self,
        rows: usize,
        map: Option<&Buffer>,
        specialise: impl FnOnce(Shader) -> Shader,
        bound: &[(u32, u32, &Buffer)],
    ) -> Result<(), Error> {
        let shader = Shader::new(&LIBRARY, "package::select::evaluate")
            .constant("SIZE", "u32", WORKGROUP)
            .feature("MAPPED", map.is_some())
            .generated("package::output", self.text());
        let kernel = self.device.kernel(&specialise(shader), "evaluate")?;
        let listed = map.map(|map| (0, MAP_BINDING, map));
        let bytes = bound.iter().map(|(_, _, buffer)| buffer.len());
        let launch = bound
            .iter()
            .copied()
            .chain(listed)
            .fold(kernel.launch(), |launch, (group, binding, buffer)| {
                launch.bind(group, binding, buffer)
            });
        launch
            .bind_group(GROUP, &self.buffers)
            .params(&[rows as u32, 0])
            .moves(bytes.sum::<u64>() + self.buffers.iter().map(Buffer::len).sum::<u64>())
            .run(grid(self.device, rows as u64, WORKGROUP.into()))?;
        Ok(())
    }

    /// A line of the body.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.body.push_str("    ");
        self.body.push_str(line.as_ref());
        self.body.push('\n');
    }

    fn declare(&mut self, width: Width) -> Result<usize, Error> {
        let index = self.buffers.len();
        let buffer = self.device.alloc(width.bytes(self.rows))?;
        self.declarations.push_str(&format!(
            "@group({GROUP}) @binding({index}) var<storage, read_write> out{index}: array<{}>;\n",
            width.element()
        ));
        self.buffers.push(buffer);
        self.widths.push(width);
        Ok(index)
    }

    /// Writes one u32 a row.
    pub(crate) fn numbers(&mut self, value: &str) -> Result<usize, Error> {
        let index = self.declare(Width::Word)?;
        self.line(format!("if (live) {{ out{index}[at] = {value}; }}"));
        self.whole
            .push(("u32", value.into(), format!("out{index}[at]")));
        Ok(index)
    }

    /// Writes one bit a row.
    pub(crate) fn flag(&mut self, condition: &str) -> Result<usize, Error> {
        let index = self.declare(Width::Bit)?;
        self.declarations
            .push_str(&format!("var<private> bits{index}: vec4<u32>;\n"));
        self.line(format!(
            "bits{index} = collect_flags(bits{index}, live && ({condition}), spot);"
        ));
        self.words.push_str(&format!(
            "    out{index}[word] = word_of_flags(bits{index}, lane);\n"
        ));
        Ok(index)
    }

    /// Declares a source bitmap in [`SOURCE_GROUP`] and writes its bit of the row.
    pub(crate) fn source_flag(&mut self) -> Result<usize, Error> {
        let index = self.sources;
        self.sources += 1;
        self.declarations.push_str(&format!(
            "@group({SOURCE_GROUP}) @binding({index}) var<storage, read> source{index}: array<u32>;\n"
        ));
        self.flag(&format!(
            "((source{index}[row / 32u] >> (row % 32u)) & 1u) != 0u"
        ))
    }

    /// Writes `low` (and `high`) as the value, and `valid` (if it can be false) as the validity.
    pub(crate) fn column(
        &mut self,
        data_type: &DataType,
        low: &str,
        high: &str,
        valid: Option<&str>,
    ) -> Result<Written, Error> {
        let width = Width::of_values(data_type)?;
        let data = match width {
            Width::Bit => self.flag(&format!("({low}) != 0u"))?,
            _ => {
                let index = self.declare(width)?;
                self.store(index, width, low, high);
                index
            }
        };
        let validity = valid.map(|valid| self.flag(valid)).transpose()?;
        Ok(Written {
            data,
            validity,
            narrow: None,
        })
    }

    /// As [`column`](Self::column), with the words of `value`: a decimal that is known to fit 64 bits is stored so.
    pub(crate) fn value(
        &mut self,
        value: &GeneratedValue,
        (low, high): (&str, &str),
        valid: Option<&str>,
    ) -> Result<Written, Error> {
        let narrow = value.bits.filter(|_| value.device == DeviceType::I64);
        let data_type = match narrow {
            Some(_) => &DataType::UInt64,
            None => &value.data_type,
        };
        let written = self.column(data_type, low, high, valid)?;
        Ok(Written { narrow, ..written })
    }

    fn store(&mut self, index: usize, width: Width, low: &str, high: &str) {
        let (pack, shared) = match width {
            Width::Byte => ("pack_bytes", 4),
            Width::Half => ("pack_halves", 2),
            Width::Wide => {
                for (part, value) in [low, high].into_iter().enumerate() {
                    let to = format!("out{index}[2u * at + {part}u]");
                    self.whole.push(("u64", value.into(), to));
                }
                self.line(format!(
                    "if (live) {{ out{index}[2u * at] = {low}; out{index}[2u * at + 1u] = {high}; }}"
                ));
                return;
            }
            _ => {
                let to = format!("out{index}[at]");
                self.whole.push((width.element(), low.into(), to));
                self.line(format!("if (live) {{ out{index}[at] = {low}; }}"));
                return;
            }
        };
        self.line(format!(
            "let packed{index} = {pack}(select(0u, {low}, live));"
        ));
        self.line(format!(
            "if (live && at % {shared}u == 0u) {{ out{index}[at / {shared}u] = packed{index}; }}"
        ));
    }

    /// Gives back what buffers hold past their first `rows` rows.
    pub(crate) fn shrink(&mut self, rows: usize) -> Result<(), Error> {
        for (buffer, width) in std::mem::take(&mut self.buffers)
            .into_iter()
            .zip(&self.widths)
        {
            self.buffers.push(buffer.shrunk(width.bytes(rows))?);
        }
        self.rows = rows;
        Ok(())
    }

    /// The values of a column that the kernel has written.
    pub(crate) fn data(&self, written: Written) -> &Buffer {
        &self.buffers[written.data]
    }

    /// A column that the kernel has written.
    pub(crate) fn take(&self, written: Written, data_type: &DataType) -> Column {
        let data = self.buffers[written.data].clone();
        Column {
            data_type: data_type.clone(),
            len: self.rows,
            validity: written.validity.map(|index| self.buffers[index].clone()),
            data: match (written.narrow, self.widths[written.data]) {
                (Some(bits), _) => Storage::Narrow { values: data, bits },
                (None, Width::Bit) => Storage::Bits(data),
                (None, _) => Storage::Fixed(data),
            },
        }
    }
}

/// The low and high words of the value in variable `name`, as WGSL.
pub(crate) fn words(name: &str, value: &GeneratedValue) -> (String, String) {
    let v = format!("{name}.value");
    let decimal = matches!(value.data_type, DataType::Decimal128(_, _));
    let low = match value.device {
        DeviceType::Bool => format!("select(0u, 1u, {v})"),
        DeviceType::I32 | DeviceType::F32 => format!("bitcast<u32>({v})"),
        DeviceType::U32 | DeviceType::U64 => v.clone(),
        DeviceType::I64 | DeviceType::F64 => format!("bitcast<u64>({v})"),
        DeviceType::I128 => format!("{v}.lo"),
    };
    let high = match value.device {
        DeviceType::I64 if decimal => format!("bitcast<u64>({v} >> 63u)"),
        _ => format!("{v}.hi"),
    };
    (low, high)
}
