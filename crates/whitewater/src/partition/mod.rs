//! Partitions: the rows of a batch apart by the hash of their keys, or by the range that the keys are in.
//!
//! ```text
//! keys ──number──▶ a part number a row ──one radix pass──▶ the columns, part by part, and where each part begins
//!
//! more than 256 parts:        ──two radix passes──▶ the order of the rows ──gather──▶ the columns
//! ```
//!
//! # The hash of a row
//!
//! A 64-bit number that depends on the keys' values alone, not on the batch they are in: `h = 0`, then for each key in
//! turn `h = combine(combine(h, low), high)`, or `combine(h, 0x5bd1e9955bd1e995)` for a null, where
//!
//! ```text
//! mix(x)        MurmurHash3's 64-bit finaliser (Appleby)
//! combine(h, x) mix(x ^ (h * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019))
//! low, high     integers, dates, times: the value's bits (of narrower signed ones, as 32 bits), zero extended, and 0
//!               decimals: the two's complement, lower and upper half
//!               floats: the bits, with -0.0 as 0.0, and 0
//!               booleans: 0 or 1, and 0
//!               strings: 0 combined with every 8 bytes, the last ones (even none) filled up with 0; and the length
//! ```
//!
//! Whether a column has a validity bitmap makes no difference.

use arrow::datatypes::{DataType, Field};
use whitewater_gpu::{Buffer, Device, Shader};

use crate::{
    Batch, Column, Error, Storage,
    expr::Expr,
    gather::{concat, gather},
    kernels::LIBRARY,
    keys::Keys,
    params::{WORKGROUP, grid},
    pipeline::Compiled,
    ragged::KEY_GROUP,
    select::filter_project,
    sort::{DIGIT_BITS, SortKey, Split, Values, Words, comparison, sort_words},
};

/// The most parts of one partition.
pub const MOST_PARTS: usize = 4096;

/// A batch in parts.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// The rows, those of one part together; in a part they keep their order.
    pub batch: Batch,
    /// The first row of each part, and behind them the number of all rows.
    pub offsets: Vec<usize>,
}

/// The rows of `batch` in `parts` parts (1 to [`MOST_PARTS`]) by the hash of `keys`: rows with equal keys are in one
/// part, also of different batches; null equals null.
///
/// Moves the keys once, 8 bytes a row, and the rows once; columns of nulls, booleans, strings, and values of 1, 2 or
/// 16 bytes not in their order, and for more than 256 parts all columns, and 24 bytes a row more. Extra device memory:
/// 4 bytes a row, 8 with such columns, 16 for more than 256 parts; 1 KiB for every tile. Waits for the offsets.
/// Errors: [`Error::Unsupported`] for a key without a kernel and another number of parts, [`Error::Arithmetic`]
/// for what a key raises.
pub fn partition_by_hash(
    device: &Device,
    batch: &Batch,
    keys: &[Expr],
    parts: usize,
) -> Result<Partitioned, Error> {
    let hashed = Hashed::new(device, batch, keys)?;
    partition(device, batch, parts, |run| hashed.run(device, run))
}

/// As [`partition_by_hash`] for one batch alone, whose groups by `keys` are asked for: by the hash that the table of
/// groups goes by, which is cheaper where keys fit a word.
pub(crate) fn partition_by_groups(
    device: &Device,
    batch: &Batch,
    keys: &[(Expr, Field)],
    parts: usize,
) -> Result<Partitioned, Error> {
    let hashed = Hashed::of(device, batch, Keys::plan(keys, batch)?)?;
    partition(device, batch, parts, |run| hashed.run(device, run))
}

/// The rows of `batch` in one part more than `bounds` has rows: part `i` has the rows from bound `i - 1`, itself
/// included, up to bound `i`, in the order of `keys`.
///
/// `bounds` has a column for each key, of its type, and its rows are in the keys' order. Costs and errors are those of
/// [`partition_by_hash`], and two copies of the keys; [`Error::Unsupported`] for bounds of other types.
pub fn partition_by_range(
    device: &Device,
    batch: &Batch,
    keys: &[SortKey],
    bounds: &Batch,
) -> Result<Partitioned, Error> {
    let mut types = Vec::new();
    for key in keys {
        types.push(key.expr.data_type(&batch.schema)?);
    }
    let fields = bounds.schema.fields().iter();
    let given: Vec<&DataType> = fields.map(|field| field.data_type()).collect();
    if given != types.iter().collect::<Vec<_>>() {
        return Err(Error::unsupported(format!(
            "a partition of keys of types {types:?} by bounds of types {given:?}"
        )));
    }
    let outputs: Vec<(Expr, Field)> = keys
        .iter()
        .zip(bounds.schema.fields())
        .map(|(key, field)| {
            let field: &Field = field;
            (key.expr.clone(), field.clone().with_nullable(true))
        })
        .collect();
    let of_rows = filter_project(device, batch, None, &outputs)?;
    let all = concat(device, &[of_rows, bounds.clone()])?;
    let columns: Vec<SortKey> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| SortKey {
            expr: Expr::column(i),
            ..key.clone()
        })
        .collect();
    let compared = comparison(device, &all, &columns)?;
    partition(device, batch, bounds.rows + 1, |run| {
        let kernel = (run.shader, run.entry);
        compared.launch(kernel, run.params, &run.buffers, run.workgroups)
    })
}

/// The hash of each row's `keys`, `UInt64`, never null: the module says how it is made.
///
/// Moves the keys once and 8 bytes a row. Errors are those of [`partition_by_hash`].
pub fn hash_rows(device: &Device, batch: &Batch, keys: &[Expr]) -> Result<Column, Error> {
    let hashes = device.alloc(batch.rows as u64 * 8)?;
    if batch.rows > 0 {
        let hashed = Hashed::new(device, batch, keys)?;
        let shader = shader(1);
        hashed.run(
            device,
            Run {
                shader: &shader,
                entry: "hashes",
                params: [batch.rows as u32, 0],
                buffers: vec![&hashes; 2],
                workgroups: grid(device, batch.rows as u64, WORKGROUP.into()),
            },
        )?;
    }
    Ok(Column {
        data_type: DataType::UInt64,
        len: batch.rows,
        validity: None,
        data: Storage::Fixed(hashes),
    })
}

/// A launch of a kernel that knows the keys, its buffers from binding 2 on.
struct Run<'a> {
    shader: &'a Shader,
    entry: &'a str,
    params: [u32; 2],
    buffers: Vec<&'a Buffer>,
    workgroups: u32,
}

/// Keys to hash.
struct Hashed {
    keys: Keys,
    compiled: Compiled,
}

impl Hashed {
    fn new(device: &Device, batch: &Batch, keys: &[Expr]) -> Result<Self, Error> {
        let named = |expr: &Expr| (expr.clone(), Field::new("key", DataType::Null, true));
        let named: Vec<_> = keys.iter().map(named).collect();
        Self::of(device, batch, Keys::plan(&named, batch)?.canonical())
    }

    fn of(device: &Device, batch: &Batch, keys: Keys) -> Result<Self, Error> {
        let compiled = Compiled::new(device, batch, None, keys.values.clone())?;
        Ok(Self { keys, compiled })
    }

    fn run(&self, device: &Device, run: Run<'_>) -> Result<(), Error> {
        let shader = self
            .compiled
            .specialise(run.shader.clone())
            .generated("package::keys", self.keys.text())
            .feature("HASHED", true);
        let kernel = device.kernel(&shader, run.entry)?;
        let mut launch = self
            .compiled
            .bind(kernel.launch())
            .bind_group(KEY_GROUP, &self.keys.buffers)
            .params(&run.params)
            .moves(self.compiled.bytes());
        for (binding, buffer) in run.buffers.iter().enumerate() {
            launch = launch.bind(0, 2 + binding as u32, buffer);
        }
        launch.run(run.workgroups)?;
        self.compiled.check()
    }
}

fn shader(passes: u32) -> Shader {
    Shader::new(&LIBRARY, "package::partition::number")
        .constant("SIZE", "u32", WORKGROUP)
        .constant("PASSES", "u32", passes)
}

/// The rows of `batch` by the part numbers that `number` launches the kernel for.
fn partition(
    device: &Device,
    batch: &Batch,
    parts: usize,
    number: impl Fn(Run<'_>) -> Result<(), Error>,
) -> Result<Partitioned, Error> {
    if !(1..=MOST_PARTS).contains(&parts) {
        return Err(Error::unsupported(format!(
            "a partition into {parts} parts"
        )));
    }
    let rows = batch.rows;
    if rows == 0 || parts == 1 {
        let mut offsets = vec![0; parts + 1];
        offsets[parts] = rows;
        return Ok(Partitioned {
            batch: batch.clone(),
            offsets,
        });
    }
    let bits = usize::BITS - (parts - 1).leading_zeros();
    let passes = bits.div_ceil(DIGIT_BITS);
    let shader = shader(passes);
    let parts_of = device.alloc(rows as u64 * 4)?;
    let bins = device.alloc_filled(u64::from(passes << DIGIT_BITS) * 4, 0)?;
    let params = [rows as u32, parts as u32];
    number(Run {
        shader: &shader,
        entry: "number",
        params,
        buffers: vec![&parts_of, &parts_of, &parts_of, &bins],
        workgroups: grid(device, rows as u64, u64::from(WORKGROUP) * 8),
    })?;
    match passes {
        1 => carry(device, batch, parts, &parts_of, &bins),
        _ => reorder(device, batch, parts, parts_of, bins, bits),
    }
}

/// The rows by one digit: columns of 4 and 8 bytes without nulls follow at once, the others are gathered.
fn carry(
    device: &Device,
    batch: &Batch,
    parts: usize,
    parts_of: &Buffer,
    bins: &Buffer,
) -> Result<Partitioned, Error> {
    let split = Split::new(device, parts_of, bins, batch.rows)?;
    let (plain, others): (Vec<usize>, Vec<usize>) =
        (0..batch.columns.len()).partition(|i| words(&batch.columns[*i]).is_some());
    let mut sources: Vec<(Option<&Buffer>, u64)> = Vec::new();
    for index in &plain {
        sources.extend(words(&batch.columns[*index]).map(|(words, bytes)| (Some(words), bytes)));
    }
    if !others.is_empty() {
        sources.push((None, 4));
    }
    let mut carried = Vec::new();
    for some in sources.chunks(split.columns_at_once()) {
        carried.extend(split.carry(some)?);
    }
    let mut columns = batch.columns.clone();
    for (index, words) in plain.iter().zip(&carried) {
        let column = &mut columns[*index];
        column.data = match column.data {
            Storage::Narrow { bits, .. } => Storage::Narrow {
                values: words.clone(),
                bits,
            },
            _ => Storage::Fixed(words.clone()),
        };
    }
    if let (false, Some(order)) = (others.is_empty(), carried.last()) {
        let gathered = gather(device, &batch.project(&others)?, order, batch.rows)?;
        for (index, column) in others.into_iter().zip(gathered.columns) {
            columns[index] = column;
        }
    }
    let starts = bins.download_as::<u32>()?;
    let starts = starts.into_iter().take(parts).map(|start| start as usize);
    Ok(Partitioned {
        batch: Batch {
            columns,
            ..batch.clone()
        },
        offsets: starts.chain([batch.rows]).collect(),
    })
}

/// The words of a column that has one a row and no nulls, and their bytes.
fn words(column: &Column) -> Option<(&Buffer, u64)> {
    match &column.data {
        _ if column.validity.is_some() => None,
        Storage::Narrow { values, .. } => Some((values, 8)),
        Storage::Fixed(values) => match column.data_type.primitive_width()? {
            4 => Some((values, 4)),
            8 => Some((values, 8)),
            _ => None,
        },
        _ => None,
    }
}

/// The rows by part numbers of several digits: their order, and the rows gathered in it.
fn reorder(
    device: &Device,
    batch: &Batch,
    parts: usize,
    parts_of: Buffer,
    bins: Buffer,
    bits: u32,
) -> Result<Partitioned, Error> {
    let rows = batch.rows;
    let words = Words {
        keys: parts_of,
        bits,
        wide: false,
        bins,
    };
    let sorted = sort_words(device, words, 0, Values::Numbers, rows)?;
    let starts = device.alloc((parts as u64 + 1) * 4)?;
    let shader =
        Shader::new(&LIBRARY, "package::partition::offsets").constant("SIZE", "u32", WORKGROUP);
    device
        .kernel(&shader, "offsets")?
        .launch()
        .bind(0, 2, &sorted.keys)
        .bind(0, 3, &starts)
        .params(&[rows as u32, parts as u32])
        .run(grid(device, parts as u64 + 1, WORKGROUP.into()))?;
    let batch = gather(device, batch, &sorted.order()?, rows)?;
    let starts = starts.download_as::<u32>()?;
    Ok(Partitioned {
        batch,
        offsets: starts.into_iter().map(|start| start as usize).collect(),
    })
}
