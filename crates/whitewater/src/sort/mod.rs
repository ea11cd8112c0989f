//! Sorting: the order of a batch's rows by any number of keys, always stable.
//!
//! ```text
//! key columns ──span──▶ least and greatest of each part
//!             ──encode──▶ one string of bits a row, no longer than the values need, in words of 64 bits
//!             ──radix──▶ the order by each word, last word first (LSD), 8 bits a pass
//! long strings: by their first bytes; then, again and again, by the next bytes of the rows still tied
//! ```
//!
//! Digits that do not vary cost nothing: the string of bits has none. Floats order as IEEE 754's total order,
//! as arrow's do; strings by their bytes.

mod keys;
mod radix;
mod top;

use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;
use whitewater_gpu::{Buffer, Device, Shader};

use crate::{
    Batch, Column, Error, Storage,
    column::bit_words_bytes,
    expr::Expr,
    gather::{gather, numbers},
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    pipeline::Compiled,
    scan::inclusive_sums,
    select::map_of_mask,
};
use keys::{PartKind, Stage};
use radix::{DIGIT_BITS, DIGITS, Words, sort_rows};

/// A key to sort by.
#[derive(Clone, Debug)]
pub struct SortKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The numbers of `batch`'s rows (u32) in the order of `keys`; rows with equal keys keep their order.
///
/// Keys are expressions of fixed width, and plain columns of strings or bytes. Moves the key columns twice and
/// 24 bytes a row and 8 bits of the keys' range; strings of more than 7 bytes move the rows that are tied once
/// more for every 7 bytes. Extra device memory: 24 bytes a row at most, and for ties 20 bytes a tied row.
/// Errors: [`Error::Unsupported`] for a key without a kernel, [`Error::Arithmetic`] for what one raises.
pub fn sorted_order(device: &Device, batch: &Batch, keys: &[SortKey]) -> Result<Buffer, Error> {
    let sort = Sort { device, batch };
    let mut order = None;
    // Where a new key begins, once some rows are known to be tied.
    let mut heads: Option<Buffer> = None;
    let stages = keys::stages(keys, batch)?;
    for (number, stage) in stages.iter().enumerate() {
        let bound = sort.bind(stage)?;
        for chunk in stage.chunks.clone() {
            let tied = match (&order, &heads) {
                (Some(order), Some(heads)) => Some(sort.tied(&bound, chunk, order, heads)?),
                _ => None,
            };
            match (&order, tied) {
                (_, Some(Ties { rows: 0, .. })) => break,
                (Some(order), Some(ties)) => sort.order_ties(&bound, chunk, order, &ties)?,
                _ => {
                    let first = sort.order_all(&bound, chunk)?;
                    order = Some(first.order);
                    heads = first.heads;
                }
            }
            let last = number + 1 == stages.len() && chunk + 1 == stage.chunks.end;
            if let (false, Some(order)) = (last, &order) {
                let known = heads.take();
                heads = Some(sort.find_heads(&bound, chunk, order, known)?);
            }
        }
        bound.compiled.check()?;
    }
    match order {
        Some(order) => Ok(order),
        None => numbers(device, 0, batch.rows),
    }
}

/// `batch` in the order of `keys`, of which only the first `fetch` rows if given.
///
/// Costs and errors are those of [`sorted_order`] and of gathering every column; where `fetch` is a small share
/// of the rows, one read of the first key's column and the sort of some more rows than asked for.
pub fn sort(
    device: &Device,
    batch: &Batch,
    keys: &[SortKey],
    fetch: Option<usize>,
) -> Result<Batch, Error> {
    let rows = fetch.map_or(batch.rows, |fetch| fetch.min(batch.rows));
    if rows == 0 {
        return gather(device, batch, &device.alloc(4)?, 0);
    }
    if let Some(candidates) = candidates(device, batch, keys, rows)? {
        let order = sorted_order(device, &candidates, keys)?;
        return gather(device, &candidates, &order, rows);
    }
    let order = sorted_order(device, batch, keys)?;
    gather(device, batch, &order, rows)
}

/// The few rows that can be among the first `fetch`, if that can be told.
fn candidates(
    device: &Device,
    batch: &Batch,
    keys: &[SortKey],
    fetch: usize,
) -> Result<Option<Batch>, Error> {
    let sort = Sort { device, batch };
    // Only the first key is looked at.
    let stages = keys::stages(keys.get(..1).unwrap_or_default(), batch)?;
    let Some(stage) = stages.first().filter(|_| fetch < batch.rows) else {
        return Ok(None);
    };
    let bound = sort.bind(stage)?;
    let candidates = sort.candidates(&bound, fetch)?;
    bound.compiled.check()?;
    Ok(candidates)
}

/// Whether [`sort`] can do this for batches of `schema`.
pub fn check(keys: &[SortKey], schema: &Schema) -> Result<(), Error> {
    for key in keys {
        keys::check(&key.expr, schema)?;
    }
    Ok(())
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    chunk: u32,
    /// The first bit of a window, or bits of words that do not count.
    shift: u32,
    group_position: u32,
}

/// A part's place in the normalised key.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct FieldPlace {
    least: u64,
    position: u64,
    bits: u64,
    /// The position of the null bit, or `NONE`; in the upper half, whether it is set for what is not null.
    flag: u64,
}

const NONE: u64 = u32::MAX as u64;

/// The normalised key of a stage: where each part lies, from the end of the string of bits.
struct Layout {
    fields: Vec<FieldPlace>,
    bits: u32,
}

impl Layout {
    /// The layout for parts whose values are within `spans`.
    fn new(parts: &[PartKind], spans: &[(u64, u64)]) -> Self {
        let mut fields = Vec::new();
        let mut position = 0;
        for (part, (least, greatest)) in parts.iter().zip(spans).rev() {
            // No value at all: nulls only.
            let range = greatest.checked_sub(*least).unwrap_or(0);
            let bits = u64::BITS - range.leading_zeros();
            let mut field = FieldPlace {
                least: *least,
                position,
                bits: bits.into(),
                flag: NONE,
            };
            position += u64::from(bits);
            if part.nullable {
                field.flag = position | u64::from(part.nulls_first) << 32;
                position += 1;
            }
            fields.push(field);
        }
        fields.reverse();
        Self {
            fields,
            bits: position as u32,
        }
    }
}

/// A stage with the batch's buffers behind it.
struct Bound<'a> {
    stage: &'a Stage,
    compiled: Compiled,
    text: String,
    buffers: Vec<Buffer>,
}

/// Places whose rows share their key with a neighbour's.
struct Ties {
    places: Buffer,
    rows: usize,
    /// Where keys begin, a bit a place of the whole order.
    heads: Buffer,
}

struct Sort<'a> {
    device: &'a Device,
    batch: &'a Batch,
}

impl Sort<'_> {
    fn bind<'s>(&self, stage: &'s Stage) -> Result<Bound<'s>, Error> {
        Ok(Bound {
            stage,
            compiled: Compiled::new(self.device, self.batch, None, stage.values())?,
            text: stage.text(),
            buffers: stage.buffers(),
        })
    }

    fn shader(&self, bound: &Bound<'_>, root: &str) -> Shader {
        bound
            .compiled
            .specialise(Shader::new(&LIBRARY, root))
            .generated("package::sort_keys", bound.text.clone())
            .constant("SIZE", "u32", self.size())
    }

    fn size(&self) -> u32 {
        if self.device.info().software {
            64
        } else {
            WORKGROUP
        }
    }

    /// Launches `entry` with the stage's columns bound, and `buffers` at bindings 2, 3, ….
    fn launch(
        &self,
        bound: &Bound<'_>,
        (shader, entry): (&Shader, &str),
        params: Params,
        buffers: &[&Buffer],
        workgroups: u32,
    ) -> Result<(), Error> {
        let kernel = self.device.kernel(shader, entry)?;
        let mut launch = bound
            .compiled
            .bind(kernel.launch())
            .bind_group(keys::GROUP, &bound.buffers)
            .params(&params)
            .moves(bound.compiled.bytes());
        for (binding, buffer) in buffers.iter().enumerate() {
            launch = launch.bind(0, 2 + binding as u32, buffer);
        }
        Ok(launch.run(workgroups)?)
    }

    /// The least and the greatest of each part over `rows` rows: those in `map`, or the first. Waits for them,
    /// since the number of passes follows from them.
    fn spans(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        map: Option<&Buffer>,
        rows: usize,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let parts = bound.stage.parts().len();
        let workgroups = grid(self.device, rows as u64, u64::from(self.size()) * 8);
        let spans = self
            .device
            .alloc(u64::from(workgroups) * parts as u64 * 16)?;
        let shader = self
            .shader(bound, "package::sort::span")
            .feature("MAPPED", map.is_some());
        let params = Params {
            rows: rows as u32,
            chunk,
            shift: 0,
            group_position: 0,
        };
        let buffers = [&spans, map.unwrap_or(&spans)];
        let buffers = &buffers[..1 + usize::from(map.is_some())];
        self.launch(bound, (&shader, "span"), params, buffers, workgroups)?;
        let found = spans.download_as::<[u64; 2]>()?;
        let mut joined = vec![(u64::MAX, 0); parts];
        for (i, [least, greatest]) in found.into_iter().enumerate() {
            let span = &mut joined[i % parts];
            *span = (span.0.min(least), span.1.max(greatest));
        }
        Ok(joined)
    }

    /// The order of all rows by the stage's parts.
    fn order_all(&self, bound: &Bound<'_>, chunk: u32) -> Result<Ordered, Error> {
        let rows = self.batch.rows;
        let spans = self.spans(bound, chunk, None, rows)?;
        let layout = Layout::new(&bound.stage.parts(), &spans);
        if let Some(ordered) = self.order_by_leading_digits(bound, chunk, &layout)? {
            return Ok(ordered);
        }
        let mut order = None;
        for first_bit in (0..layout.bits).step_by(64) {
            let window = Window {
                first_bit,
                bits: (layout.bits - first_bit).min(64),
            };
            let words = self.encode(bound, chunk, &layout, window, order.as_ref(), None, rows)?;
            order = Some(sort_rows(self.device, words, 0, order, rows)?.rows);
        }
        let order = order.map_or_else(|| numbers(self.device, 0, rows), Ok)?;
        Ok(Ordered { order, heads: None })
    }

    /// As [`order_all`](Self::order_all), by as few digits from the front as tell nearly all rows apart, and
    /// the rest for the rows that are tied: none if that is not less work. Waits for the digits' counts.
    fn order_by_leading_digits(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        layout: &Layout,
    ) -> Result<Option<Ordered>, Error> {
        let rows = self.batch.rows;
        let least = if self.device.info().software {
            256
        } else {
            1 << 20
        };
        if rows < least || layout.bits <= 4 * DIGIT_BITS {
            return Ok(None);
        }
        let mut window = Window::leading(layout.bits, 64);
        let mut words = self.encode(bound, chunk, layout, window, None, None, rows)?;
        let passes = radix::passes(window.bits);
        let counts = words.bins.download_as::<u32>()?;
        let digits = leading_digits(&counts, rows);
        // Ties cost about two passes.
        if digits + 2 >= layout.bits.div_ceil(DIGIT_BITS) {
            return Ok(None);
        }
        let mut first_pass = passes - digits;
        if digits <= 4 {
            // Half the bytes.
            window = Window::leading(layout.bits, 32);
            words = self.encode(bound, chunk, layout, window, None, None, rows)?;
            first_pass = 4 - digits;
        }
        let wide = words.wide;
        let sorted = sort_rows(self.device, words, first_pass, None, rows)?;
        let heads = self.key_heads(bound, &sorted.keys, wide, first_pass * DIGIT_BITS)?;
        let ties = self.tied(bound, 0, &sorted.rows, &heads)?;
        if ties.rows > rows / 4 {
            // Digits that repeat each other: they tell less than they seem to.
            return Ok(None);
        }
        if ties.rows > 0 {
            self.order_ties(bound, chunk, &sorted.rows, &ties)?;
        }
        Ok(Some(Ordered {
            order: sorted.rows,
            heads: Some(heads),
        }))
    }

    /// A bit for every place where a word begins that differs from the one before above its lowest `shift` bits.
    fn key_heads(
        &self,
        bound: &Bound<'_>,
        keys: &Buffer,
        wide: bool,
        shift: u32,
    ) -> Result<Buffer, Error> {
        let rows = self.batch.rows;
        let heads = self.device.alloc(bit_words_bytes(rows))?;
        let shader = self.ties_shader(bound, 0, wide);
        let workgroups = grid(self.device, rows as u64, self.size().into());
        let params = Params {
            shift,
            ..Self::ties_params(rows, 0)
        };
        let buffers = [keys, &heads, keys, keys, keys];
        self.launch(
            bound,
            (&shader, "find_key_heads"),
            params,
            &buffers,
            workgroups,
        )?;
        Ok(heads)
    }

    /// One word of the normalised keys of `rows` rows: those in `map`, or the first. With `groups`, a group for
    /// each of them and the bits that groups need, these stand before the parts.
    #[expect(clippy::too_many_arguments, reason = "a kernel's inputs")]
    fn encode(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        layout: &Layout,
        window: Window,
        map: Option<&Buffer>,
        groups: Option<(&Buffer, u32)>,
        rows: usize,
    ) -> Result<Words, Error> {
        let wide = window.bits > 32;
        let passes = radix::passes(window.bits);
        let keys = self.device.alloc(rows as u64 * if wide { 8 } else { 4 })?;
        let bins_bytes = u64::from(passes * DIGITS * 4);
        let bins = self.device.alloc_filled(bins_bytes, 0)?;
        let fields = self.device.upload(bytemuck::cast_slice(&layout.fields))?;
        let shader = self
            .shader(bound, "package::sort::encode")
            .alias("Key", if wide { "u64" } else { "u32" })
            .constant("PASSES", "u32", passes)
            .feature("MAPPED", map.is_some())
            .feature("GROUPED", groups.is_some());
        let params = Params {
            rows: rows as u32,
            chunk,
            shift: window.first_bit,
            group_position: layout.bits,
        };
        let groups = groups.map_or(&keys, |(groups, _)| groups);
        let buffers = [&fields, map.unwrap_or(&keys), &keys, &bins, groups];
        let workgroups = grid(self.device, rows as u64, u64::from(self.size()) * 8);
        self.launch(bound, (&shader, "encode"), params, &buffers, workgroups)?;
        Ok(Words {
            keys,
            bits: window.bits,
            wide,
            bins,
        })
    }

    fn ties_shader(&self, bound: &Bound<'_>, chunk: u32, wide: bool) -> Shader {
        self.shader(bound, "package::sort::ties")
            .alias("Key", if wide { "u64" } else { "u32" })
            .feature("CHUNKED", chunk > 0)
    }

    fn ties_params(rows: usize, chunk: u32) -> Params {
        Params {
            rows: rows as u32,
            chunk,
            shift: 0,
            group_position: 0,
        }
    }

    /// A bit for every place of `order` where a key begins that differs from the one before in the stage's
    /// parts, or did so by `known`.
    fn find_heads(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        order: &Buffer,
        known: Option<Buffer>,
    ) -> Result<Buffer, Error> {
        let rows = self.batch.rows;
        let heads = match known {
            Some(known) => known,
            None => self.device.alloc_filled(bit_words_bytes(rows), 0)?,
        };
        let shader = self.ties_shader(bound, chunk, false);
        let workgroups = grid(self.device, rows as u64, self.size().into());
        let params = Self::ties_params(rows, chunk);
        let buffers = [order, &heads];
        self.launch(bound, (&shader, "find_heads"), params, &buffers, workgroups)?;
        Ok(heads)
    }

    /// The places of `order` that share their key so far with a neighbour, and where the stage goes on with a
    /// string, have more of it. Waits for their number.
    fn tied(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        order: &Buffer,
        heads: &Buffer,
    ) -> Result<Ties, Error> {
        let rows = self.batch.rows;
        let mask = self.device.alloc(bit_words_bytes(rows))?;
        let shader = self.ties_shader(bound, chunk, false);
        let workgroups = grid(self.device, rows as u64, self.size().into());
        // Whether a string goes on is told by the chunk before.
        let params = Self::ties_params(rows, chunk.saturating_sub(1));
        let buffers = [order, heads, &mask];
        self.launch(bound, (&shader, "tied"), params, &buffers, workgroups)?;
        let (places, rows) = map_of_mask(self.device, &mask, rows)?;
        Ok(Ties {
            places,
            rows,
            heads: heads.clone(),
        })
    }

    /// Puts the rows at `ties` in order, each among those of its group.
    fn order_ties(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        order: &Buffer,
        ties: &Ties,
    ) -> Result<(), Error> {
        let rows = ties.rows;
        let tied_rows = self.device.alloc(rows as u64 * 4)?;
        let tied_heads = self.device.alloc(rows as u64 * 4)?;
        let shader = self.ties_shader(bound, chunk, false);
        let workgroups = grid(self.device, rows as u64, self.size().into());
        let params = Self::ties_params(rows, chunk);
        let launch = |entry: &str, rows: &Buffer| {
            let unused = order;
            let buffers = [
                order,
                &ties.heads,
                unused,
                &ties.places,
                unused,
                rows,
                &tied_heads,
            ];
            self.launch(bound, (&shader, entry), params, &buffers, workgroups)
        };
        launch("gather", &tied_rows)?;
        // Rows of one group lie beside each other, and each group has two at least.
        let groups = inclusive_sums(self.device, &tied_heads, rows)?;
        let group_bits = u32::BITS - (rows as u32 / 2).leading_zeros();
        let spans = self.spans(bound, chunk, Some(&tied_rows), rows)?;
        let layout = Layout::new(&bound.stage.parts(), &spans);
        // So rows sorted by group and key fit the places in turn.
        let mut sorted = (tied_rows.clone(), groups);
        for first_bit in (0..layout.bits + group_bits).step_by(64) {
            let window = Window {
                first_bit,
                bits: (layout.bits + group_bits - first_bit).min(64),
            };
            let (map, groups) = &sorted;
            let groups_of = Some((groups, group_bits));
            let words = self.encode(bound, chunk, &layout, window, Some(map), groups_of, rows)?;
            let moved = sort_rows(self.device, words, 0, None, rows)?.rows;
            sorted = (
                self.take(map, &moved, rows)?,
                self.take(groups, &moved, rows)?,
            );
        }
        launch("scatter", &sorted.0)
    }

    /// The words of `from` at the `rows` places in `map`.
    fn take(&self, from: &Buffer, map: &Buffer, rows: usize) -> Result<Buffer, Error> {
        let words = Batch {
            schema: Arc::new(Schema::new(vec![Field::new("w", DataType::UInt32, false)])),
            columns: vec![Column {
                data_type: DataType::UInt32,
                len: rows,
                validity: None,
                data: Storage::Fixed(from.clone()),
            }],
            rows,
        };
        let taken = gather(self.device, &words, map, rows)?;
        match &taken.columns[0].data {
            Storage::Fixed(words) => Ok(words.clone()),
            _ => Err(Error::unsupported("gathering words")),
        }
    }
}

/// A part of the normalised key: so many bits from `first_bit` above its end.
#[derive(Clone, Copy)]
struct Window {
    first_bit: u32,
    bits: u32,
}

impl Window {
    /// The first of `all` bits, at most `most`.
    fn leading(all: u32, most: u32) -> Self {
        let bits = all.min(most);
        Self {
            first_bit: all - bits,
            bits,
        }
    }
}

/// How many digits from the front tell nearly all of `rows` rows apart, by how often each digit of each pass
/// occurs: as if digits were independent of each other. All of them where they do not.
fn leading_digits(counts: &[u32], rows: usize) -> u32 {
    /// Of 1: the share of rows that may be tied.
    const MOST_TIED: f64 = 0.1;
    let mut same = 1.0;
    let passes = counts.chunks_exact(DIGITS as usize);
    for (digits, pass) in passes.clone().rev().enumerate() {
        let squares = pass
            .iter()
            .map(|count| (f64::from(*count) / rows as f64).powi(2));
        // The chance that two rows agree in all digits so far.
        same *= squares.sum::<f64>();
        if same * rows as f64 <= MOST_TIED {
            return digits as u32 + 1;
        }
    }
    passes.len() as u32
}

/// The order of all rows, and where its keys begin as far as that is known.
struct Ordered {
    order: Buffer,
    heads: Option<Buffer>,
}
