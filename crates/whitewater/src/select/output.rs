//! Output columns of kernels that write one row at a time: the text of `package::output`, the buffers
//! that it declares, and what is left to do once the kernel has run.
//!
//! Booleans, 8- and 16-bit values and validity are written as one u32 word each and packed afterwards,
//! so that no two invocations write one word.

use arrow::datatypes::DataType;
use whitewater_gpu::{Buffer, Device};

use crate::{
    Column, Error, Storage,
    bitmask::from_booleans,
    expr::{DeviceType, GeneratedValue},
    select::narrow,
};

/// Bind group of the output buffers.
pub(crate) const GROUP: u32 = 2;
/// Bind group of bitmaps that are gathered beside the computed values.
pub(crate) const SOURCE_GROUP: u32 = 3;

/// How the words that a kernel writes for a column become its data buffer.
#[derive(Clone, Copy, PartialEq)]
enum Width {
    /// Booleans and values below 32 bits go through one u32 word each.
    Bit,
    Narrow(u32),
    /// One u32, u64 or pair of u64 a value, as it is.
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
            1 => Width::Narrow(8),
            2 => Width::Narrow(16),
            4 => Width::Word,
            8 => Width::Long,
            16 => Width::Wide,
            _ => return None,
        })
    }

    fn bytes(self) -> u64 {
        match self {
            Width::Bit | Width::Narrow(_) | Width::Word => 4,
            Width::Long => 8,
            Width::Wide => 16,
        }
    }

    fn element(self) -> &'static str {
        match self {
            Width::Bit | Width::Narrow(_) | Width::Word => "u32",
            Width::Long | Width::Wide => "u64",
        }
    }
}

/// The text of `package::output` in the making, with the buffers it declares.
pub(crate) struct Output<'a> {
    device: &'a Device,
    /// Rows that every buffer holds.
    capacity: usize,
    imports: String,
    declarations: String,
    body: String,
    pub(crate) buffers: Vec<Buffer>,
    sources: u32,
}

impl<'a> Output<'a> {
    pub(crate) fn new(device: &'a Device, capacity: usize) -> Self {
        Self {
            device,
            capacity,
            imports: String::new(),
            declarations: String::new(),
            body: String::new(),
            buffers: Vec::new(),
            sources: 0,
        }
    }

    /// Adds import lines.
    pub(crate) fn import(&mut self, lines: &str) {
        self.imports.push_str(lines);
    }

    /// The whole module, with `signature` before the body.
    pub(crate) fn text(&self, signature: &str) -> String {
        format!(
            "{}{}{signature} {{\n{}}}\n",
            self.imports, self.declarations, self.body
        )
    }

    /// A buffer of one `element` of `bytes` bytes a row, and its name.
    pub(crate) fn declare(&mut self, element: &str, bytes: u64) -> Result<(String, Buffer), Error> {
        let index = self.buffers.len();
        let buffer = self.device.alloc(self.capacity as u64 * bytes)?;
        self.declarations.push_str(&format!(
            "@group({GROUP}) @binding({index}) var<storage, read_write> out{index}: array<{element}>;\n"
        ));
        self.buffers.push(buffer.clone());
        Ok((format!("out{index}"), buffer))
    }

    /// Declares a source bitmap in [`SOURCE_GROUP`] and writes its bit of the row, one u32 word a row.
    pub(crate) fn validity(&mut self) -> Result<Buffer, Error> {
        let index = self.sources;
        self.sources += 1;
        self.declarations.push_str(&format!(
            "@group({SOURCE_GROUP}) @binding({index}) var<storage, read> source{index}: array<u32>;\n"
        ));
        let (name, buffer) = self.declare("u32", 4)?;
        self.line(format!(
            "{name}[at] = (source{index}[row / 32u] >> (row % 32u)) & 1u;"
        ));
        Ok(buffer)
    }

    /// A line of the body.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.body.push_str("    ");
        self.body.push_str(line.as_ref());
        self.body.push('\n');
    }

    /// Writes `low` (and `high`) as the value, and `valid` (if it can be false) as the validity.
    pub(crate) fn column(
        &mut self,
        data_type: &DataType,
        low: &str,
        high: &str,
        valid: Option<&str>,
    ) -> Result<Unpacked, Error> {
        let width = Width::of(data_type)
            .ok_or_else(|| Error::unsupported(format!("a group column of type {data_type}")))?;
        let (name, data) = self.declare(width.element(), width.bytes())?;
        match width {
            Width::Wide => {
                self.line(format!("{name}[2u * at] = {low};"));
                self.line(format!("{name}[2u * at + 1u] = {high};"));
            }
            _ => self.line(format!("{name}[at] = {low};")),
        }
        let validity = match valid {
            Some(valid) => {
                let (name, buffer) = self.declare("u32", 4)?;
                self.line(format!("{name}[at] = select(0u, 1u, {valid});"));
                Some(buffer)
            }
            None => None,
        };
        Ok(Unpacked {
            width,
            data,
            validity,
        })
    }
}

/// A column as the kernel wrote it: no bits packed yet.
pub(crate) struct Unpacked {
    width: Width,
    data: Buffer,
    pub(crate) validity: Option<Buffer>,
}

impl Unpacked {
    /// Only the validity, of a column whose data comes otherwise.
    pub(crate) fn validity(words: Buffer) -> Self {
        Self {
            width: Width::Word,
            data: words.clone(),
            validity: Some(words),
        }
    }

    /// The column of the first `rows` rows.
    pub(crate) fn pack(
        self,
        device: &Device,
        data_type: &DataType,
        rows: usize,
    ) -> Result<Column, Error> {
        let data = match self.width {
            Width::Bit => Storage::Bits(from_booleans(&self.data, rows)?),
            Width::Narrow(bits) => Storage::Fixed(narrow(device, &self.data, rows, bits)?),
            _ => Storage::Fixed(trimmed(
                device,
                self.data,
                rows as u64 * self.width.bytes(),
            )?),
        };
        let validity = match self.validity {
            Some(words) => Some(from_booleans(&words, rows)?),
            None => None,
        };
        Ok(Column {
            data_type: data_type.clone(),
            len: rows,
            validity,
            data,
        })
    }
}

/// The first `bytes` bytes of `buffer`: itself where they are all of it, else a copy, so that no more
/// memory is held than the rows need.
fn trimmed(device: &Device, buffer: Buffer, bytes: u64) -> Result<Buffer, Error> {
    if buffer.len() == bytes {
        return Ok(buffer);
    }
    let exact = device.alloc(bytes)?;
    device.copy(&buffer, &exact, bytes)?;
    Ok(exact)
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
