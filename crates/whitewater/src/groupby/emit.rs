//! The groups of a finished table as a batch: key columns, then state columns.

use std::sync::Arc;

use arrow::datatypes::Schema;
use whitewater_gpu::Buffer;

use super::run::{Run, Table};
use crate::{
    Batch, Column, Error,
    aggregate::{StateColumn, accumulators::Accumulators, state::Encoding},
    expr::{DeviceType, GeneratedValue},
    gather::gather_bytes,
    select::output::{Output, words},
};

/// The batch of `groups` groups whose slots `listed` lists.
pub(super) fn emit(
    run: &Run<'_>,
    table: &Table,
    listed: &Buffer,
    groups: usize,
) -> Result<Batch, Error> {
    let Run {
        device,
        keys,
        plan,
        compiled,
        ..
    } = *run;
    let mut output = Output::new(device, groups);
    output.import(IMPORTS);
    output.import(UNORDER);
    output.declaration("fn load(word: u32) -> u64 { return atomicLoad(&states[word]); }\n");
    output.line("let owner = owners[row];");
    let owners = output.numbers("owner")?;
    let mut written = Vec::new();
    let mut validities = Vec::new();
    for (index, string) in keys.strings.iter().enumerate() {
        if let Some(column) = string {
            // The bytes are gathered by the owners afterwards; the validity is read here.
            validities.push(match &run.batch.columns[*column].validity {
                Some(_) => {
                    output.import(&format!("import package::keys::part{index};\n"));
                    Some(output.flag(&format!("part{index}(owner).valid"))?)
                }
                None => None,
            });
            continue;
        }
        output.import(&format!("import package::generated::key{index};\n"));
        let name = format!("key{index}");
        let value = compiled
            .generated
            .values
            .iter()
            .find(|v| v.function == name);
        let value = value.ok_or_else(|| Error::unsupported("a key without a value"))?;
        output.line(format!("let k{index} = key{index}(owner);"));
        let (low, high) = key_words(index, value);
        let valid = value.nullable.then(|| format!("k{index}.valid"));
        written.push(output.value(value, (&low, &high), valid.as_deref())?);
    }
    output.line("let state = row * WORDS;");
    for (index, column) in plan.state.iter().enumerate() {
        let (low, high) = state_words(&mut output, index, column, plan)?;
        let valid = column
            .seen
            .map(|seen| format!("load(state + {seen}u) != 0lu"));
        let data_type = column.field.data_type();
        written.push(output.column(data_type, &low, &high, valid.as_deref())?);
    }
    run.emit(table, &output, listed, groups)?;

    let owners = &output.buffers[owners];
    let mut columns = Vec::new();
    let mut fields: Vec<_> = keys.fields.iter().cloned().map(Arc::new).collect();
    fields.extend(plan.state.iter().map(|column| column.field.clone()));
    let mut written = written.into_iter();
    let mut validities = validities.into_iter();
    for (index, field) in fields.iter().enumerate() {
        columns.push(match keys.strings.get(index).copied().flatten() {
            Some(source) => {
                let source = &run.batch.columns[source];
                let validity = validities.next().flatten();
                Column {
                    data_type: source.data_type.clone(),
                    len: groups,
                    validity: validity.map(|buffer| output.buffers[buffer].clone()),
                    data: gather_bytes(device, &source.data_type, &source.data, owners, groups)?,
                }
            }
            None => match written.next() {
                Some(column) => output.take(column, field.data_type()),
                None => return Err(Error::unsupported("a group column that was not written")),
            },
        });
    }
    Ok(Batch {
        schema: Arc::new(Schema::new(fields)),
        columns,
        rows: groups,
    })
}

const IMPORTS: &str = "\
import package::groupby::bytes::{float_key32, float_key64};
import package::groupby::table::{owners, states, window_base};
import package::kernels::exact::{WINDOW, from_fixed, with_specials};
import package::kernels::int128::I128;
import package::spec::{WINDOWS, WORDS};
";

/// What [`state_words`] of ordered values needs.
pub(super) const UNORDER: &str = "\
import package::kernels::order::{unorder_bool, unorder_u32, unorder_u64, unorder_i32, unorder_i64, unorder_f32, unorder_f64};
";

/// The words of key `index`: floats as the key itself, in which both zeros are one.
fn key_words(index: usize, value: &GeneratedValue) -> (String, String) {
    let name = format!("k{index}");
    match value.device {
        DeviceType::F32 => (format!("u32(float_key32({name}.value))"), String::new()),
        DeviceType::F64 => (format!("float_key64({name}.value)"), String::new()),
        _ => words(&name, value),
    }
}

/// The words of a state column, as WGSL, with what must be computed first.
pub(super) fn state_words(
    output: &mut Output<'_>,
    index: usize,
    column: &StateColumn,
    plan: &Accumulators,
) -> Result<(String, String), Error> {
    let word = column.word;
    let low = format!("load(state + {word}u)");
    match column.encoding {
        Encoding::Plain => Ok((low, format!("load(state + {}u)", word + 1))),
        Encoding::Ordered { minimum } => {
            let device = plan
                .extreme_type(word)
                .ok_or_else(|| Error::unsupported("an extreme without a type"))?;
            let flip = if minimum { "~" } else { "" };
            output.line(format!(
                "let s{index} = unorder_{}({flip}{low});",
                device.name()
            ));
            let high = format!("bitcast<u64>(bitcast<i64>(s{index}) >> 63u)");
            Ok((format!("s{index}"), high))
        }
        Encoding::Exact => {
            let base = plan
                .float_index(word)
                .ok_or_else(|| Error::unsupported("a float sum without windows"))?;
            output.line(format!("var s{index} = 0.0lf;"));
            output.line(format!(
                "for (var w = 0u; w < WINDOWS; w++) {{ s{index} += from_fixed(I128(load(state + {word}u + 2u * w), \
                 load(state + {word}u + 2u * w + 1u)), window_base({base}u) + i32(w) * WINDOW); }}"
            ));
            output.line(format!(
                "s{index} = with_specials(s{index}, load(state + {word}u + 2u * WINDOWS));"
            ));
            Ok((format!("bitcast<u64>(s{index})"), "0lu".into()))
        }
        _ => Err(Error::unsupported("such a state of groups")),
    }
}
