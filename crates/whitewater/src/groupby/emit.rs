//! The groups of a finished table as a batch: key columns, then state columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use whitewater_gpu::{Buffer, Device};

use super::run::{Run, Table};
use crate::{
    Batch, Column, Error, Storage,
    aggregate::{
        StateColumn,
        accumulators::{Accumulators, order},
        state::Encoding,
    },
    bitmask::from_booleans,
    expr::{DeviceType, GeneratedValue},
    select::{gather_bytes, narrow},
};

/// Bind group of the output buffers.
const GROUP: u32 = 2;

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
struct Output<'a> {
    device: &'a Device,
    groups: usize,
    declarations: String,
    body: String,
    buffers: Vec<Buffer>,
}

impl Output<'_> {
    fn declare(&mut self, element: &str, bytes: u64) -> Result<(String, Buffer), Error> {
        let index = self.buffers.len();
        let buffer = self.device.alloc(self.groups as u64 * bytes)?;
        self.declarations.push_str(&format!(
            "@group({GROUP}) @binding({index}) var<storage, read_write> out{index}: array<{element}>;\n"
        ));
        self.buffers.push(buffer.clone());
        Ok((format!("out{index}"), buffer))
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.body.push_str("    ");
        self.body.push_str(line.as_ref());
        self.body.push('\n');
    }

    /// Writes `low` (and `high`) as the value, and `valid` (if it can be false) as the validity.
    fn column(
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
                self.line(format!("{name}[2u * group] = {low};"));
                self.line(format!("{name}[2u * group + 1u] = {high};"));
            }
            _ => self.line(format!("{name}[group] = {low};")),
        }
        let validity = match valid {
            Some(valid) => {
                let (name, buffer) = self.declare("u32", 4)?;
                self.line(format!("{name}[group] = select(0u, 1u, {valid});"));
                Some(buffer)
            }
            None => None,
        };
        Ok(Unpacked { width, data, validity })
    }
}

/// A column as the kernel wrote it: no bits packed yet.
struct Unpacked {
    width: Width,
    data: Buffer,
    validity: Option<Buffer>,
}

impl Unpacked {
    fn pack(self, device: &Device, data_type: &DataType, groups: usize) -> Result<Column, Error> {
        let data = match self.width {
            Width::Bit => Storage::Bits(from_booleans(&self.data, groups)?),
            Width::Narrow(bits) => Storage::Fixed(narrow(device, &self.data, groups, bits)?),
            _ => Storage::Fixed(self.data),
        };
        let validity = match self.validity {
            Some(words) => Some(from_booleans(&words, groups)?),
            None => None,
        };
        Ok(Column {
            data_type: data_type.clone(),
            len: groups,
            validity,
            data,
        })
    }
}

/// The batch of `groups` groups whose slots `listed` lists.
pub(super) fn emit(
    run: &Run<'_>,
    table: &Table,
    listed: &Buffer,
    groups: usize,
) -> Result<Batch, Error> {
    let Run { device, keys, plan, compiled, .. } = *run;
    let mut output = Output {
        device,
        groups,
        declarations: String::new(),
        body: String::new(),
        buffers: Vec::new(),
    };
    let (owner_name, owners) = output.declare("u32", 4)?;
    output.line(format!("{owner_name}[group] = owner;"));
    let mut imports = Vec::new();
    let mut unpacked = Vec::new();
    for (index, string) in keys.strings.iter().enumerate() {
        if let Some(column) = string {
            // The bytes are gathered by the owners afterwards; the validity is read here.
            unpacked.push(match &run.batch.columns[*column].validity {
                Some(_) => {
                    let (name, buffer) = output.declare("u32", 4)?;
                    output.line(format!("{name}[group] = select(0u, 1u, part{index}(owner).valid);"));
                    imports.push(format!("import package::keys::part{index};\n"));
                    Some(Unpacked { width: Width::Word, data: owners.clone(), validity: Some(buffer) })
                }
                None => None,
            });
            continue;
        }
        imports.push(format!("import package::generated::key{index};\n"));
        let name = format!("key{index}");
        let value = compiled.generated.values.iter().find(|v| v.function == name);
        let value = value.ok_or_else(|| Error::unsupported("a key without a value"))?;
        output.line(format!("let k{index} = key{index}(owner);"));
        let (low, high) = key_words(index, value);
        let valid = value.nullable.then(|| format!("k{index}.valid"));
        unpacked.push(Some(output.column(&value.data_type, &low, &high, valid.as_deref())?));
    }
    output.line("let at = slot * WORDS;");
    for (index, column) in plan.state.iter().enumerate() {
        let (low, high) = state_words(&mut output, index, column, plan)?;
        let valid = column.seen.map(|seen| format!("load(at + {seen}u) != 0lu"));
        let data_type = column.field.data_type();
        unpacked.push(Some(output.column(data_type, &low, &high, valid.as_deref())?));
    }
    let text = format!(
        "{}{IMPORTS}{}fn load(at: u32) -> u64 {{ return atomicLoad(&states[at]); }}\n\
         fn emit_group(group: u32, slot: u32, owner: u32) {{\n{}}}\n",
        imports.concat(),
        output.declarations,
        output.body
    );
    run.emit(table, &text, (GROUP, &output.buffers), listed, groups)?;

    let mut columns = Vec::new();
    let mut fields: Vec<_> = keys.fields.iter().cloned().map(Arc::new).collect();
    fields.extend(plan.state.iter().map(|column| column.field.clone()));
    let mut unpacked = unpacked.into_iter();
    for (index, field) in fields.iter().enumerate() {
        let written = unpacked.next().flatten();
        let column = match keys.strings.get(index).copied().flatten() {
            Some(source) => {
                let source = &run.batch.columns[source];
                let data =
                    gather_bytes(device, &source.data_type, &source.data, &owners, groups)?;
                let validity = match written.and_then(|w| w.validity) {
                    Some(words) => Some(from_booleans(&words, groups)?),
                    None => None,
                };
                Column {
                    data_type: source.data_type.clone(),
                    len: groups,
                    validity,
                    data,
                }
            }
            None => match written {
                Some(written) => written.pack(device, field.data_type(), groups)?,
                None => return Err(Error::unsupported("a group column that was not written")),
            },
        };
        columns.push(column);
    }
    Ok(Batch {
        schema: Arc::new(Schema::new(fields)),
        columns,
        rows: groups,
    })
}

const IMPORTS: &str = "\
import package::groupby::bytes::{float_key32, float_key64};
import package::groupby::table::{states, window_base};
import package::kernels::exact::{WINDOW, from_fixed, with_specials};
import package::kernels::int128::I128;
import package::kernels::order::{unorder_bool, unorder_u32, unorder_u64, unorder_i32, unorder_i64, unorder_f32, unorder_f64};
import package::spec::{WINDOWS, WORDS};
";

/// The words of key `index`, as WGSL.
fn key_words(index: usize, value: &GeneratedValue) -> (String, String) {
    let v = format!("k{index}.value");
    let decimal = matches!(value.data_type, DataType::Decimal128(_, _));
    let low = match value.device {
        DeviceType::Bool => format!("select(0u, 1u, {v})"),
        DeviceType::I32 => format!("bitcast<u32>({v})"),
        DeviceType::U32 | DeviceType::U64 => v.clone(),
        DeviceType::I64 => format!("bitcast<u64>({v})"),
        DeviceType::F32 => format!("u32(float_key32({v}))"),
        DeviceType::F64 => format!("float_key64({v})"),
        DeviceType::I128 => format!("{v}.lo"),
    };
    let high = match value.device {
        DeviceType::I64 if decimal => format!("bitcast<u64>({v} >> 63u)"),
        _ => format!("{v}.hi"),
    };
    (low, high)
}

/// The words of a state column, as WGSL, with what must be computed first.
fn state_words(
    output: &mut Output<'_>,
    index: usize,
    column: &StateColumn,
    plan: &Accumulators,
) -> Result<(String, String), Error> {
    let word = column.word;
    let low = format!("load(at + {word}u)");
    match column.encoding {
        Encoding::Plain => Ok((low, format!("load(at + {}u)", word + 1))),
        Encoding::Ordered { minimum } => {
            let device = plan
                .extreme_type(word)
                .ok_or_else(|| Error::unsupported("an extreme without a type"))?;
            let flip = if minimum { "~" } else { "" };
            output.line(format!("let s{index} = unorder_{}({flip}{low});", order(device)));
            let high = format!("bitcast<u64>(bitcast<i64>(s{index}) >> 63u)");
            Ok((format!("s{index}"), high))
        }
        Encoding::Exact => {
            let base = plan
                .float_index(word)
                .ok_or_else(|| Error::unsupported("a float sum without windows"))?;
            output.line(format!("var s{index} = 0.0lf;"));
            output.line(format!(
                "for (var w = 0u; w < WINDOWS; w++) {{ s{index} += from_fixed(I128(load(at + {word}u + 2u * w), \
                 load(at + {word}u + 2u * w + 1u)), window_base({base}u) + i32(w) * WINDOW); }}"
            ));
            output.line(format!(
                "s{index} = with_specials(s{index}, load(at + {word}u + 2u * WINDOWS));"
            ));
            Ok((format!("bitcast<u64>(s{index})"), "0lu".into()))
        }
    }
}
