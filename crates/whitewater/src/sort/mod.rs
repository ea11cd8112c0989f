//! Sorting: the order of a batch's rows by any number of keys, always stable.
//!
//! ```text
//! key columns ──span──▶ least and greatest of each part
//!             ──encode──▶ one string of bits a row, no longer than the values need, in words of 64 bits
//!             ──radix──▶ the order by each word, last word first (LSD), 8 bits a pass
//!             ──settle──▶ rows that the leading digits leave equal put in order among their neighbours
//! long strings: by their first bytes; then, again and again, by the next bytes of the rows still tied
//! ```
//!
//! Digits that do not vary cost nothing: the string of bits has none. Floats order as IEEE 754's total order,
//! as arrow's do; strings by their bytes.

mod compare;
mod keys;
mod layout;
mod number;
mod quantile;
mod radix;
mod settle;
mod ties;
mod top;

pub use compare::{Rank, is_sorted, merge, rank, unique};

use arrow::datatypes::Schema;
use whitewater_gpu::{Buffer, Device, Shader};

use crate::{
    Batch, Column, Error, Storage,
    expr::Expr,
    gather::{gather, numbers},
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    pipeline::Compiled,
    ragged::KEY_GROUP,
};
pub(crate) use compare::{Runs, comparison};
use keys::Stage;
use layout::{Layout, Window, leading_digits};
pub(crate) use number::order_by_number;
pub use quantile::{Interpolation, quantiles, values_at};
pub(crate) use radix::{DIGIT_BITS, Split, Values, Words, sort_words};
use radix::{DIGITS, sort_rows};
use settle::Wanted;
use ties::Ties;

/// A key to sort by.
#[derive(Clone, Debug, PartialEq)]
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
/// Extra device memory: 28 bytes a row less the width of the result, 4 at least, and what [`sorted_order`] takes for ties.
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
    if let Some(sorted) = sort_with_key(device, batch, keys, rows)? {
        return Ok(sorted);
    }
    let order = sorted_order(device, batch, keys)?;
    gather(device, batch, &order, rows)
}

/// As [`sort`] by one plain column of 32 or 64 bits without nulls, which is not gathered but follows from the
/// words that were sorted; without other columns, they are sorted alone.
fn sort_with_key(
    device: &Device,
    batch: &Batch,
    keys: &[SortKey],
    rows: usize,
) -> Result<Option<Batch>, Error> {
    let [
        SortKey {
            expr: Expr::Column { index },
            ..
        },
    ] = keys
    else {
        return Ok(None);
    };
    if rows < batch.rows {
        return Ok(None);
    }
    let sort = Sort { device, batch };
    let stages = keys::stages(keys, batch)?;
    let ([stage], Storage::Fixed(_)) = (stages.as_slice(), &batch.columns[*index].data) else {
        return Ok(None);
    };
    let width = batch.columns[*index].data_type.primitive_width();
    let decoded = stage.decoding().map(|decoding| decoding.bytes as usize);
    // Narrower values share words.
    if decoded.is_none() || decoded != width {
        return Ok(None);
    }
    let bound = sort.bind(stage)?;
    let spans = sort.spans(&bound, 0, None, rows)?;
    let layout = Layout::new(&stage.parts(), &spans);
    if layout.bits == 0 {
        return Ok(Some(batch.clone()));
    }
    let others: Vec<usize> = (0..batch.columns.len()).filter(|i| i != index).collect();
    let wanted = match others.is_empty() {
        true => Wanted::Keys,
        false => Wanted::KeysAndRows,
    };
    let sorted = sort.order_by_word(&bound, 0, &layout, wanted)?;
    let mut columns = match sorted.rows {
        Some(order) => gather(device, &batch.project(&others)?, &order, rows)?.columns,
        None => Vec::new(),
    };
    let data = sorted
        .keys
        .ok_or_else(|| Error::unsupported("a sort without keys"))?;
    columns.insert(
        *index,
        Column {
            data: Storage::Fixed(data),
            ..batch.columns[*index].clone()
        },
    );
    Ok(Some(Batch {
        columns,
        ..batch.clone()
    }))
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

/// A stage with the batch's buffers behind it.
struct Bound<'a> {
    stage: &'a Stage,
    compiled: Compiled,
    text: String,
    buffers: Vec<Buffer>,
}

impl Bound<'_> {
    /// `shader` with the modules that tell the keys of rows.
    fn specialise(&self, shader: Shader) -> Shader {
        let shader = self.compiled.specialise(shader);
        shader.generated("package::sort_keys", self.text.clone())
    }
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
        let shader = Shader::new(&LIBRARY, root).constant("SIZE", "u32", self.size());
        bound.specialise(shader)
    }

    fn size(&self) -> u32 {
        if self.device.info().software {
            64
        } else {
            WORKGROUP
        }
    }

    /// Launches `entry` with the stage's columns bound, and `buffers` at bindings 2, 3, …; those that the entry
    /// does not use may be any.
    fn launch<T: bytemuck::NoUninit>(
        &self,
        bound: &Bound<'_>,
        (shader, entry): (&Shader, &str),
        params: T,
        buffers: &[&Buffer],
        workgroups: u32,
    ) -> Result<(), Error> {
        let kernel = self.device.kernel(shader, entry)?;
        let mut launch = bound
            .compiled
            .bind(kernel.launch())
            .bind_group(KEY_GROUP, &bound.buffers)
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
        self.launch(bound, (&shader, "span"), params, &buffers, workgroups)?;
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
        if layout.bits == 0 {
            let order = numbers(self.device, 0, rows)?;
            return Ok(Ordered { order, heads: None });
        }
        if layout.bits <= 64 {
            let sorted = self.order_by_word(bound, chunk, &layout, Wanted::Rows)?;
            let order = sorted
                .rows
                .ok_or_else(|| Error::unsupported("an order of nothing"))?;
            return Ok(Ordered { order, heads: None });
        }
        if rows >= self.least_rows_by_leading_digits() {
            let window = Window::leading(layout.bits, 64);
            let words = self.encode(bound, chunk, &layout, window, None, None, rows)?;
            let digits = leading_digits(&words.bins.download_as::<u32>()?, rows);
            // Ties cost about two passes.
            if digits + 2 < layout.bits.div_ceil(DIGIT_BITS) {
                let by_digits =
                    self.order_by_leading_digits(bound, chunk, &layout, words, digits)?;
                if let Some(ordered) = by_digits {
                    return Ok(ordered);
                }
            }
        }
        let mut order = None;
        for first_bit in (0..layout.bits).step_by(64) {
            let window = Window {
                first_bit,
                bits: (layout.bits - first_bit).min(64),
            };
            let words = self.encode(bound, chunk, &layout, window, order.as_ref(), None, rows)?;
            order = Some(sort_rows(self.device, words, order, rows)?);
        }
        let order = order.map_or_else(|| numbers(self.device, 0, rows), Ok)?;
        Ok(Ordered { order, heads: None })
    }

    /// How many rows make up for the wait for the digits' counts.
    fn least_rows_by_leading_digits(&self) -> usize {
        if self.device.info().software {
            256
        } else {
            1 << 20
        }
    }

    /// As [`order_all`](Self::order_all), by the first `digits` digits of `words`, the leading ones, and for the
    /// rows that are tied then by the rest: none if those are too many.
    fn order_by_leading_digits(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        layout: &Layout,
        mut words: Words,
        digits: u32,
    ) -> Result<Option<Ordered>, Error> {
        let rows = self.batch.rows;
        if digits <= 4 {
            // Half the bytes.
            let window = Window::leading(layout.bits, 4 * DIGIT_BITS);
            words = self.encode(bound, chunk, layout, window, None, None, rows)?;
        }
        let first_pass = radix::passes(words.bits) - digits;
        let wide = words.wide;
        let sorted = sort_words(self.device, words, first_pass, Values::Numbers, rows)?;
        let heads = self.key_heads(bound, &sorted.keys, wide, first_pass * DIGIT_BITS)?;
        let order = sorted.order()?;
        let ties = self.tied(bound, 0, &order, &heads)?;
        if ties.rows > rows / 4 {
            // Digits that repeat each other: they tell less than they seem to.
            return Ok(None);
        }
        if ties.rows > 0 {
            self.order_ties(bound, chunk, &order, &ties)?;
        }
        Ok(Some(Ordered {
            order,
            heads: Some(heads),
        }))
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
}

/// The order of all rows, and where its keys begin as far as that is known.
struct Ordered {
    order: Buffer,
    heads: Option<Buffer>,
}
