//! Filter and projection: the rows that a predicate takes, with outputs computed from them.
//!
//! ```text
//! outputs of whole words that are never null:
//!     the rows taken are computed and written at once
//! otherwise (bits, bytes and strings need their neighbours):
//!     the numbers of the rows taken, then a kernel that computes the outputs there
//! ```
//!
//! Rows are taken in one pass over the predicate's columns on a device with forward progress (buffers
//! for all rows, of which the end is given back), else by count, offsets and write; so too where the
//! predicate is a mask of bits, which costs nearly nothing to count. Where a sample tells that few of many rows
//! are taken, tiles are longer, and look back less often.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::{Buffer, Device, Shader};

use super::{
    evaluate::Rows,
    output::{GROUP, Output, Written, is_packed, words},
};
use crate::{
    Batch, Column, Error, Storage,
    expr::{ColumnLayout, Expr, Generated, Literal, Op, Pipeline, compile},
    kernels::LIBRARY,
    params::grid,
    pipeline::{Compiled, bindings, describe},
    ragged::is_ragged,
    table::u32_columns,
};

/// How a kernel cuts rows into tiles of `size * items`, and how many invocations a multiprocessor is to hold.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) size: u32,
    items: u32,
    resident: Option<u32>,
}

/// The tiles that do well with any rows, and with rows of at most 8 bytes that a mask takes, or that are held
/// until their place is known: of those tried on an H200 the fastest.
const TILE: Tile = Tile {
    size: 512,
    items: 8,
    resident: None,
};
const NARROW_MASKED: Tile = Tile {
    size: 1024,
    items: 8,
    resident: Some(2048),
};
const NARROW_CARRIED: Tile = Tile {
    size: 512,
    items: 16,
    resident: Some(1024),
};
const SOFTWARE: Tile = Tile {
    size: 64,
    items: 8,
    resident: None,
};
/// Fewer rows than these are not worth a sample.
const LEAST_SAMPLED: usize = 1 << 22;
/// Workgroups that sample.
const SAMPLES: u32 = 64;
/// Bytes of workgroup memory in which rows wait for their tile's place.
const STAGED_BYTES: u32 = 96 << 10;
/// The most turns of a subgroup in one tile: more, and too few tiles fill the device evenly.
const MOST_TURNS: u32 = 4;

/// The single pass may take this share of the memory budget for rows that may not be taken.
const SPECULATIVE_SHARE: u64 = 4;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    tiles: u32,
    turns: u32,
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
        paired: None,
    };
    compile(&spec, schema, &layouts)?;
    Ok(())
}

/// Whether `expr` is a plain column of strings or bytes, which are gathered, not computed.
fn passes_bytes_on(expr: &Expr, schema: &Schema) -> bool {
    let Expr::Column { index } = expr else {
        return false;
    };
    is_ragged(schema.field(*index).data_type())
}

/// The rows of `batch` for which `predicate` is true (null is false; all rows without one), in their
/// order, as `outputs`. Strings must be plain columns.
///
/// Extra device memory: 4 bytes a row where rows are listed first, as they are for strings; in one pass the
/// outputs' width for every row, until the number of rows taken is known.
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
        wide: false,
    };
    let (columns, rows) = match predicate {
        _ if batch.rows == 0 => return select.empty(),
        None => (select.project()?, batch.rows),
        Some(_) if select.is_plain()? => select.write_at_once()?,
        Some(_) => {
            let (map, rows) = select.map()?;
            (select.evaluate(Rows::At(&map), rows)?, rows)
        }
    };
    let fields: Vec<Field> = outputs.iter().map(|(_, field)| field.clone()).collect();
    Ok(Batch {
        schema: Arc::new(Schema::new(fields)),
        columns,
        rows,
    })
}

/// The rows of `batch` in which none of `columns` is null, in their order.
///
/// Costs and errors are those of [`filter_project`]; a batch without nulls is itself.
pub fn drop_nulls(device: &Device, batch: &Batch, columns: &[usize]) -> Result<Batch, Error> {
    let holes = columns
        .iter()
        .filter(|i| batch.columns[**i].validity.is_some());
    let known = holes.map(|i| Expr::IsNotNull(Box::new(Expr::column(*i))));
    let Some(predicate) = known.reduce(|all, one| all.binary(Op::And, one)) else {
        return Ok(batch.clone());
    };
    filter_project(device, batch, Some(&predicate), &batch.outputs())
}

/// Bytes of a row's values on the device.
fn value_bytes(generated: &Generated) -> u32 {
    let values = generated.values.iter();
    values.map(|value| value.device.bytes()).sum()
}

/// The numbers (u32) of the set bits among the first `rows` of `mask`, and how many there are. Waits for that.
pub(crate) fn map_of_mask(
    device: &Device,
    mask: &Buffer,
    rows: usize,
) -> Result<(Buffer, usize), Error> {
    let field = Field::new("mask", DataType::Boolean, false);
    let batch = Batch {
        schema: Arc::new(Schema::new(vec![field])),
        columns: vec![Column {
            data_type: DataType::Boolean,
            len: rows,
            validity: None,
            data: Storage::Bits(mask.clone()),
        }],
        rows,
    };
    let select = Select {
        device,
        batch: &batch,
        predicate: Some(&Expr::column(0)),
        outputs: &[],
        wide: false,
    };
    select.map()
}

/// The rows (u32) whose value of `values` (u32) is not `u32::MAX`, those values, and how many they are. Waits for that.
pub(crate) fn rows_with_values(
    device: &Device,
    values: &Buffer,
    rows: usize,
) -> Result<(Buffer, Buffer, usize), Error> {
    let batch = u32_columns([values], rows);
    let none = Expr::Literal(Literal::UInt32(u32::MAX));
    let predicate = Expr::column(0).binary(Op::Ne, none);
    let select = Select {
        device,
        batch: &batch,
        predicate: Some(&predicate),
        outputs: &batch.outputs(),
        wide: false,
    };
    let compiled = Compiled::new(device, &batch, select.predicate, select.values())?;
    let (output, numbers, taken) = select.take_rows(&compiled, 8, |output| {
        select.declare(&compiled, output)?;
        output.numbers("row")
    })?;
    let values = output.buffers[numbers - 1].clone();
    Ok((output.buffers[numbers].clone(), values, taken))
}

pub(super) struct Select<'a> {
    pub(super) device: &'a Device,
    pub(super) batch: &'a Batch,
    pub(super) predicate: Option<&'a Expr>,
    pub(super) outputs: &'a [(Expr, Field)],
    /// Whether decimals are stored in 128 bits, also where fewer hold them.
    pub(super) wide: bool,
}

impl Select<'_> {
    pub(super) fn empty(&self) -> Result<Batch, Error> {
        let fields: Vec<Field> = self
            .outputs
            .iter()
            .map(|(_, field)| field.clone())
            .collect();
        let schema = Arc::new(Schema::new(fields));
        Batch::upload(self.device, &arrow::array::RecordBatch::new_empty(schema))
    }

    pub(super) fn is_bytes(&self, expr: &Expr) -> bool {
        passes_bytes_on(expr, &self.batch.schema)
    }

    /// Whether an output row can be written without looking at its neighbours.
    fn is_plain(&self) -> Result<bool, Error> {
        for (expr, field) in self.outputs {
            if self.is_bytes(expr)
                || is_packed(field.data_type())
                || describe(expr, self.batch)?.nullable
            {
                return Ok(false);
            }
        }
        Ok((1..=self.outputs_at_once()).contains(&self.outputs.len()))
    }

    /// The tiles for rows of any width.
    pub(super) fn tile(&self) -> Tile {
        if self.device.info().software {
            SOFTWARE
        } else {
            TILE
        }
    }

    /// The tiles of a kernel that takes rows.
    fn taking_tile(&self, generated: &Generated, carry: bool) -> Tile {
        let info = self.device.info();
        let bytes = value_bytes(generated);
        match bytes <= 8 && !info.software && info.max_workgroup_size >= NARROW_MASKED.size {
            true if generated.mask => NARROW_MASKED,
            true if carry => NARROW_CARRIED,
            _ => self.tile(),
        }
    }

    /// Invocations of the one workgroup that makes offsets.
    fn offsets_size(&self) -> u32 {
        let info = self.device.info();
        if info.software {
            64
        } else {
            info.max_workgroup_size.min(1024)
        }
    }

    /// The values that are computed, by output index.
    pub(super) fn values(&self) -> Vec<(String, Expr)> {
        let computed = self.outputs.iter().enumerate();
        computed
            .filter(|(_, (expr, _))| !self.is_bytes(expr))
            .map(|(i, (expr, _))| (format!("value{i}"), expr.clone()))
            .collect()
    }

    pub(super) fn shader(
        &self,
        compiled: &Compiled,
        root: &str,
        (output, text): (&Output<'_>, String),
        tile: Tile,
    ) -> Shader {
        let shader = compiled
            .specialise(Shader::new(&LIBRARY, root))
            .generated("package::output", text)
            .constant("SIZE", "u32", tile.size)
            .constant("ITEMS", "u32", tile.items)
            .constant(
                "AT_ONCE",
                "u32",
                output.rows_at_once(4 * tile.items).min(tile.items),
            )
            .alias("Running", "u32")
            .constant("IDENTITY", "u32", 0);
        match tile.resident {
            Some(invocations) => shader.resident(invocations),
            None => shader,
        }
    }

    /// Declares the computed outputs in `output`.
    pub(super) fn declare(
        &self,
        compiled: &Compiled,
        output: &mut Output<'_>,
    ) -> Result<Vec<Written>, Error> {
        let mut written = Vec::new();
        for value in &compiled.generated.values {
            let name = &value.function;
            let option = format!("{}Option", value.alias);
            output.import(&format!(
                "import package::generated::{{{name}, {option}}};\n"
            ));
            output.load(name, &option, &format!("{name}(row)"));
            let local = format!("v.{name}");
            let (low, high) = words(&local, value);
            let valid = value.nullable.then(|| format!("{local}.valid"));
            written.push(match self.wide {
                true => output.column(&value.data_type, &low, &high, valid.as_deref())?,
                false => output.value(value, (&low, &high), valid.as_deref())?,
            });
        }
        Ok(written)
    }

    /// Whether `bytes` a row may be taken for rows that the predicate may not take.
    fn may_speculate(&self, bytes: u64) -> bool {
        let memory = self.device.memory();
        let room = memory.budget.saturating_sub(memory.in_use);
        self.device.has_forward_progress()
            && bytes * self.batch.rows as u64 <= room / SPECULATIVE_SHARE
    }

    /// Whether the values of all rows are held until their place is known: where they come from the
    /// columns that the predicate reads anyway, a few registers hold them, and none raises an error, which a
    /// row that is not taken must not.
    fn may_carry(&self, compiled: &Compiled) -> Result<bool, Error> {
        const MOST_BYTES: u32 = 16;
        Ok((1..=MOST_BYTES).contains(&value_bytes(&compiled.generated))
            && !compiled.generated.raises
            && bindings(self.predicate, self.batch)? == compiled.generated.bindings)
    }

    /// Writes the rows that the predicate takes through what `declare` makes of an output of so many
    /// rows, `bytes` bytes a row. Waits for their count, since the outputs' size follows from it.
    fn take_rows<'d, T>(
        &'d self,
        compiled: &Compiled,
        bytes: u64,
        declare: impl Fn(&mut Output<'d>) -> Result<T, Error>,
    ) -> Result<(Output<'d>, T, usize), Error> {
        let at_once = self.may_speculate(bytes) && !compiled.generated.mask;
        let carry = at_once && self.may_carry(compiled)?;
        let tile = self.taking_tile(&compiled.generated, carry);
        let rows = self.batch.rows as u32;
        let params = Params {
            rows,
            tiles: rows.div_ceil(tile.size * tile.items),
            turns: 1,
        };
        let total = self.device.alloc(4)?;
        let tiles = u64::from(params.tiles);
        // How many rows the tiles take: progress with look-back, else counts.
        let of_tiles = match at_once {
            true => self.device.alloc_filled(tiles * 8, 0)?,
            false => self.device.alloc(tiles * 4)?,
        };
        let run = |entry: &str,
                   output: &Output<'_>,
                   params: Params,
                   counts: &Buffer,
                   workgroups: u32|
         -> Result<(), Error> {
            let staged = params.turns > 1;
            let text = match staged {
                true => output.packed_text(),
                false => output.text(),
            };
            let shader = self
                .shader(compiled, "package::select::select", (output, text), tile)
                .feature("LOOKBACK", at_once)
                .feature("CARRY", carry)
                .feature("STAGED", staged)
                .constant("STAGED_ROWS", "u32", self.staged_rows(&compiled.generated))
                .feature("MASK", compiled.generated.mask)
                .constant("OFFSETS_SIZE", "u32", self.offsets_size());
            let kernel = self.device.kernel(&shader, entry)?;
            compiled
                .bind(kernel.launch())
                .bind(0, 2, counts)
                .bind(0, 3, &total)
                .bind(0, 4, &of_tiles)
                .bind_group(GROUP, &output.buffers)
                .params(&params)
                .moves(compiled.bytes())
                .run(workgroups)?;
            Ok(())
        };
        let declared = |rows: usize| -> Result<(Output<'d>, T), Error> {
            let mut output = Output::new(self.device, rows);
            let of_rows = declare(&mut output)?;
            Ok((output, of_rows))
        };
        let taken = || -> Result<usize, Error> { Ok(total.download_as::<u32>()?[0] as usize) };
        let workgroups = grid(self.device, tiles, 1);
        if at_once {
            let (mut output, of_rows) = declared(self.batch.rows)?;
            let turns = match carry && output.is_whole() {
                true => self.turns(&compiled.generated, tile, |workgroups| {
                    let counts = self.device.alloc(u64::from(workgroups) * 4)?;
                    run("sample", &output, params, &counts, workgroups)?;
                    Ok(counts.download_as::<u32>()?)
                })?,
                false => 1,
            };
            let params = Params {
                tiles: params.tiles.div_ceil(turns),
                turns,
                ..params
            };
            run("write", &output, params, &of_tiles, params.tiles)?;
            let rows = taken()?;
            output.shrink(rows)?;
            return Ok((output, of_rows, rows));
        }
        let (none, _) = declared(0)?;
        run("count", &none, params, &of_tiles, workgroups)?;
        run("offsets", &none, params, &of_tiles, 1)?;
        let rows = taken()?;
        let (output, of_rows) = declared(rows)?;
        if rows > 0 {
            run("write", &output, params, &of_tiles, workgroups)?;
        }
        Ok((output, of_rows, rows))
    }

    /// Rows that wait in a workgroup's memory.
    fn staged_rows(&self, generated: &Generated) -> u32 {
        // A row's number is 4 bytes.
        let row = value_bytes(generated).max(4).next_power_of_two();
        STAGED_BYTES.min(self.device.info().workgroup_memory / 4) / row
    }

    /// How many turns of its subgroups a tile takes, so that the rows that it takes find room, by a sample that as many
    /// workgroups take as `sample` is told.
    fn turns(
        &self,
        generated: &Generated,
        tile: Tile,
        sample: impl Fn(u32) -> Result<Vec<u32>, Error>,
    ) -> Result<u32, Error> {
        let software = self.device.info().software;
        let (least, workgroups) = match software {
            true => (256, 2),
            false => (LEAST_SAMPLED, SAMPLES),
        };
        if self.batch.rows < least {
            return Ok(1);
        }
        let taken: u64 = sample(workgroups)?.into_iter().map(u64::from).sum();
        let sampled = u64::from(workgroups * tile.size);
        // A quarter of the room is for tiles that take more than the others.
        let room = u64::from(self.staged_rows(generated)) * 3 / 4;
        let turn = u64::from(tile.size * tile.items);
        let turns = room * sampled / (turn * taken).max(1);
        Ok(turns.clamp(1, MOST_TURNS.into()) as u32)
    }

    fn write_at_once(&self) -> Result<(Vec<Column>, usize), Error> {
        let compiled = Compiled::new(self.device, self.batch, self.predicate, self.values())?;
        // No value is wider than a decimal.
        let bytes = 16 * self.outputs.len() as u64;
        let (output, written, rows) =
            self.take_rows(&compiled, bytes, |output| self.declare(&compiled, output))?;
        compiled.check()?;
        let columns = written.into_iter().zip(self.outputs);
        let columns = columns.map(|(column, (_, field))| output.take(column, field.data_type()));
        Ok((columns.collect(), rows))
    }

    /// The numbers of the rows taken.
    fn map(&self) -> Result<(Buffer, usize), Error> {
        let compiled = Compiled::new(self.device, self.batch, self.predicate, Vec::new())?;
        let (output, numbers, rows) =
            self.take_rows(&compiled, 4, |output| output.numbers("row"))?;
        compiled.check()?;
        Ok((output.buffers[numbers].clone(), rows))
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
                "@group(1) @binding(0) var<storage, read> in0: array<u64>;
                 fn predicate(row: u32) -> bool { return in0[row] < 5lu; }",
            )
            .generated(
                "package::output",
                "import package::kernels::pack::Spot;
                 import package::generated::in0;

                 @group(2) @binding(0) var<storage, read_write> out0: array<u64>;
                 struct Row { value: u64 }
                 fn load_row(row: u32) -> Row { return Row(in0[row]); }
                 fn store_row(v: Row, at: u32, live: bool, spot: Spot) { out0[at] = v.value; }",
            )
            .constant("SIZE", "u32", 256)
            .constant("OFFSETS_SIZE", "u32", 1024)
            .constant("ITEMS", "u32", super::TILE.items)
            .constant("AT_ONCE", "u32", super::TILE.items / 2)
            .alias("Running", "u32")
            .constant("IDENTITY", "u32", 0)
            .feature("LOOKBACK", true)
            .feature("CARRY", true)
            .link()
            .expect("a linked module");
        if std::env::var_os("PRINT").is_some() {
            println!("{}", linked.cuda().expect("cuda").source);
        }
        let checked = linked.check_cuda().expect("CUDA that compiles");
        assert!(checked || std::env::var_os("WHITEWATER_REQUIRE_NVRTC").is_none());
    }
}
