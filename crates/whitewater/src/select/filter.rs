//! Filter and projection: the rows that a predicate takes, with outputs computed from them.
//!
//! ```text
//! all outputs of fixed width and never null, on a device with forward progress:
//!     one kernel reads the predicate's columns once and writes the outputs (buffers for all rows,
//!     trimmed to those taken)
//! otherwise:
//!     count, offsets, row numbers of the rows taken, then a kernel that computes the outputs there
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::{Buffer, Device, Shader};

use super::{
    gather_bytes,
    output::{GROUP, Output, Unpacked, words},
};
use crate::{
    Batch, Column, Error, Storage,
    bitmask::from_booleans,
    expr::{ColumnLayout, Expr, Pipeline, compile},
    kernels::LIBRARY,
    params::grid,
    pipeline::{Compiled, describe},
};

/// Rows that an invocation tries at a time.
const ITEMS: u32 = 8;
/// The single pass may take this share of the memory budget for rows that may not be taken.
const SPECULATIVE_SHARE: u64 = 4;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    tiles: u32,
}

/// Whether `filter_project` can do this for batches of `schema`.
pub fn check(
    predicate: Option<&Expr>,
    outputs: &[(Expr, Field)],
    schema: &Schema,
) -> Result<(), Error> {
    let layouts = vec![ColumnLayout::default(); schema.fields().len()];
    let values = outputs
        .iter()
        .enumerate()
        .filter(|(_, (expr, _))| !passes_bytes_on(expr, schema))
        .map(|(i, (expr, _))| (format!("value{i}"), expr.clone()))
        .collect();
    let spec = Pipeline {
        predicate: predicate.cloned(),
        values,
        narrow: true,
    };
    compile(&spec, schema, &layouts)?;
    Ok(())
}

/// Whether `expr` is a plain column of strings or bytes, which are gathered, not computed.
fn passes_bytes_on(expr: &Expr, schema: &Schema) -> bool {
    let Expr::Column { index } = expr else {
        return false;
    };
    matches!(
        schema.field(*index).data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
    )
}

/// The rows of `batch` for which `predicate` is true (null is false; all rows without one), in their
/// order, as `outputs`. Strings must be plain columns.
///
/// Extra device memory: 4 bytes a row taken, or in the single pass the outputs' width for every row.
/// Errors: [`Error::Unsupported`] for an expression without a kernel, [`Error::Arithmetic`] for what
/// a row's expression raises.
pub fn filter_project(
    device: &Device,
    batch: &Batch,
    predicate: Option<&Expr>,
    outputs: &[(Expr, Field)],
) -> Result<Batch, Error> {
    let select = Select {
        device,
        batch,
        predicate,
        outputs,
    };
    let (columns, rows) = match predicate {
        _ if batch.rows == 0 => return select.empty(),
        None => (select.evaluate(None, batch.rows)?, batch.rows),
        Some(_) if select.fits_single_pass()? => select.single_pass()?,
        Some(_) => {
            let (map, rows) = select.map()?;
            (select.evaluate(Some(&map), rows)?, rows)
        }
    };
    let fields: Vec<Field> = outputs.iter().map(|(_, field)| field.clone()).collect();
    Ok(Batch {
        schema: Arc::new(Schema::new(fields)),
        columns,
        rows,
    })
}

struct Select<'a> {
    device: &'a Device,
    batch: &'a Batch,
    predicate: Option<&'a Expr>,
    outputs: &'a [(Expr, Field)],
}

impl Select<'_> {
    fn empty(&self) -> Result<Batch, Error> {
        let fields: Vec<Field> = self
            .outputs
            .iter()
            .map(|(_, field)| field.clone())
            .collect();
        let schema = Arc::new(Schema::new(fields));
        Batch::upload(self.device, &arrow::array::RecordBatch::new_empty(schema))
    }

    fn is_bytes(&self, expr: &Expr) -> bool {
        passes_bytes_on(expr, &self.batch.schema)
    }

    fn fits_single_pass(&self) -> Result<bool, Error> {
        if !self.device.info().features.forward_progress {
            return Ok(false);
        }
        let mut bytes = 0;
        for (expr, _) in self.outputs {
            if self.is_bytes(expr) || describe(expr, self.batch)?.nullable {
                return Ok(false);
            }
            bytes += 16 * self.batch.rows as u64;
        }
        let memory = self.device.memory();
        Ok(bytes <= memory.budget.saturating_sub(memory.in_use) / SPECULATIVE_SHARE)
    }

    fn size(&self) -> u32 {
        if self.device.info().software { 64 } else { 256 }
    }

    fn params(&self) -> Params {
        let tile = self.size() * ITEMS;
        Params {
            rows: self.batch.rows as u32,
            tiles: (self.batch.rows as u32).div_ceil(tile),
        }
    }

    /// The values that are computed, by output index.
    fn values(&self) -> Vec<(String, Expr)> {
        let computed = self.outputs.iter().enumerate();
        computed
            .filter(|(_, (expr, _))| !self.is_bytes(expr))
            .map(|(i, (expr, _))| (format!("value{i}"), expr.clone()))
            .collect()
    }

    fn shader(&self, compiled: &Compiled, root: &str, output: &str) -> Shader {
        compiled
            .specialise(Shader::new(&LIBRARY, root))
            .generated("package::output", output)
            .constant("SIZE", "u32", self.size())
            .constant("ITEMS", "u32", ITEMS)
    }

    /// Declares the computed outputs in `output`.
    fn declare(
        &self,
        compiled: &Compiled,
        output: &mut Output<'_>,
    ) -> Result<Vec<Unpacked>, Error> {
        let mut unpacked = Vec::new();
        for value in &compiled.generated.values {
            let name = &value.function;
            output.import(&format!("import package::generated::{name};\n"));
            let local = format!("{name}_");
            output.line(format!("let {local} = {name}(row);"));
            let (low, high) = words(&local, value);
            let valid = value.nullable.then(|| format!("{local}.valid"));
            unpacked.push(output.column(&value.data_type, &low, &high, valid.as_deref())?);
        }
        Ok(unpacked)
    }

    fn single_pass(&self) -> Result<(Vec<Column>, usize), Error> {
        let compiled = Compiled::new(self.device, self.batch, self.predicate, self.values())?;
        let mut output = Output::new(self.device, self.batch.rows);
        let unpacked = self.declare(&compiled, &mut output)?;
        let shader = self
            .shader(
                &compiled,
                "package::select::select",
                &output.text("fn emit_row(at: u32, row: u32)"),
            )
            .feature("LOOKBACK", true);
        let params = self.params();
        let total = self.device.alloc_filled(8, 0)?;
        let progress = self.device.alloc_filled(u64::from(params.tiles) * 8, 0)?;
        let kernel = self.device.kernel(&shader, "write")?;
        compiled
            .bind(kernel.launch())
            .bind(0, 3, &total)
            .bind(0, 4, &progress)
            .bind_group(GROUP, &output.buffers)
            .params(&params)
            .moves(compiled.bytes())
            .run(grid(self.device, params.tiles.into(), 1))?;
        let rows = total.download_as::<u32>()?[0] as usize;
        compiled.check()?;
        let columns = unpacked
            .into_iter()
            .zip(self.outputs)
            .map(|(column, (_, field))| column.pack(self.device, field.data_type(), rows))
            .collect::<Result<_, Error>>()?;
        Ok((columns, rows))
    }

    /// The numbers of the rows taken. Waits for their count, since the size of the map follows from it.
    fn map(&self) -> Result<(Buffer, usize), Error> {
        let compiled = Compiled::new(self.device, self.batch, self.predicate, Vec::new())?;
        let params = self.params();
        let total = self.device.alloc_filled(8, 0)?;
        let counts = self.device.alloc(u64::from(params.tiles) * 4)?;
        let run = |entry: &str, output: &Output<'_>, workgroups: u32| -> Result<(), Error> {
            let text = output.text("fn emit_row(at: u32, row: u32)");
            let shader = self.shader(&compiled, "package::select::select", &text);
            let kernel = self.device.kernel(&shader, entry)?;
            compiled
                .bind(kernel.launch())
                .bind(0, 2, &counts)
                .bind(0, 3, &total)
                .bind_group(GROUP, &output.buffers)
                .params(&params)
                .moves(compiled.bytes())
                .run(workgroups)?;
            Ok(())
        };
        let numbers = |capacity: usize| -> Result<Output<'_>, Error> {
            let mut output = Output::new(self.device, capacity);
            let (name, _) = output.declare("u32", 4)?;
            output.line(format!("{name}[at] = row;"));
            Ok(output)
        };
        let none = numbers(0)?;
        let workgroups = grid(self.device, params.tiles.into(), 1);
        run("count", &none, workgroups)?;
        run("offsets", &none, 1)?;
        let rows = total.download_as::<u32>()?[0] as usize;
        let output = numbers(rows)?;
        if rows > 0 {
            run("write", &output, workgroups)?;
        }
        compiled.check()?;
        Ok((output.buffers[0].clone(), rows))
    }

    /// The outputs of `rows` rows, those that `map` lists or the first.
    fn evaluate(&self, map: Option<&Buffer>, rows: usize) -> Result<Vec<Column>, Error> {
        let compiled = Compiled::new(self.device, self.batch, None, self.values())?;
        let mut output = Output::new(self.device, rows);
        let unpacked = self.declare(&compiled, &mut output)?;
        // The validity of gathered strings is written beside the computed values.
        let mut validities = Vec::new();
        for (expr, _) in self.outputs {
            let Expr::Column { index } = expr else {
                continue;
            };
            let source = &self.batch.columns[*index];
            if !self.is_bytes(expr) {
                continue;
            }
            validities.push(match &source.validity {
                Some(words) => Some((words.clone(), output.validity()?)),
                None => None,
            });
        }
        let text = output.text("fn emit_row(at: u32, row: u32)");
        let shader = self
            .shader(&compiled, "package::select::evaluate", &text)
            .feature("MAPPED", map.is_some());
        if rows > 0 && !output.buffers.is_empty() {
            let kernel = self.device.kernel(&shader, "evaluate")?;
            let mut launch = compiled
                .bind(kernel.launch())
                .bind_group(GROUP, &output.buffers)
                .params(&Params {
                    rows: rows as u32,
                    tiles: 0,
                })
                .moves(compiled.bytes() + output.buffers.iter().map(Buffer::len).sum::<u64>());
            if let Some(map) = map {
                launch = launch.bind(0, 5, map);
            }
            for (binding, (words, _)) in validities.iter().flatten().enumerate() {
                launch = launch.bind(super::output::SOURCE_GROUP, binding as u32, words);
            }
            launch.run(grid(self.device, rows as u64, self.size().into()))?;
        }
        compiled.check()?;
        let mut unpacked = unpacked.into_iter();
        let mut validities = validities.into_iter();
        let mut columns = Vec::new();
        for (expr, field) in self.outputs {
            if let (Expr::Column { index }, true) = (expr, self.is_bytes(expr)) {
                let source = &self.batch.columns[*index];
                let written = validities.next().flatten();
                columns.push(self.bytes(source, map, rows, written.map(|(_, words)| words))?);
                continue;
            }
            let column = unpacked
                .next()
                .ok_or_else(|| Error::unsupported("an output that was not written"))?;
            columns.push(column.pack(self.device, field.data_type(), rows)?);
        }
        Ok(columns)
    }

    fn bytes(
        &self,
        source: &Column,
        map: Option<&Buffer>,
        rows: usize,
        validity: Option<Buffer>,
    ) -> Result<Column, Error> {
        let Some(map) = map else {
            return Ok(source.clone());
        };
        let data: Storage = gather_bytes(self.device, &source.data_type, &source.data, map, rows)?;
        Ok(Column {
            data_type: source.data_type.clone(),
            len: rows,
            validity: match validity {
                Some(words) => Some(from_booleans(&words, rows)?),
                None => None,
            },
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use whitewater_gpu::Shader;

    use crate::kernels::LIBRARY;

    #[test]
    fn the_single_pass_compiles_for_nvidia() {
        let linked = Shader::new(&LIBRARY, "package::select::select")
            .generated(
                "package::generated",
                "fn predicate(row: u32) -> bool { return row % 3u == 0u; }",
            )
            .generated(
                "package::output",
                "@group(2) @binding(0) var<storage, read_write> out0: array<u32>;
                 fn emit_row(at: u32, row: u32) { out0[at] = row; }",
            )
            .constant("SIZE", "u32", 256)
            .constant("ITEMS", "u32", 8)
            .feature("LOOKBACK", true)
            .link()
            .expect("a linked module");
        if std::env::var_os("PRINT").is_some() {
            println!("{}", linked.cuda().expect("cuda").source);
        }
        let checked = linked.check_cuda().expect("CUDA that compiles");
        assert!(checked || std::env::var_os("WHITEWATER_REQUIRE_NVRTC").is_none());
    }
}
