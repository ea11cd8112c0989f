//! Rows whose keys are equal so far: found, and put in order by what comes next.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::{Buffer, Shader};

use super::{
    Bound, Params, Sort,
    layout::{Layout, Window},
    radix::sort_rows,
};
use crate::{
    Batch, Column, Error, Storage, column::bit_words_bytes, gather::gather, params::grid,
    scan::inclusive_sums, select::map_of_mask,
};

/// Places whose rows share their key with a neighbour's.
pub(super) struct Ties {
    places: Buffer,
    pub(super) rows: usize,
    /// Where keys begin, a bit a place of the whole order.
    heads: Buffer,
}

impl Sort<'_> {
    /// A bit for every place where a word begins that differs from the one before above its lowest `shift` bits.
    pub(super) fn key_heads(
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
    pub(super) fn find_heads(
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
    pub(super) fn tied(
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
    pub(super) fn order_ties(
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
            let moved = sort_rows(self.device, words, None, rows)?;
            sorted = self.take(map, groups, &moved, rows)?;
        }
        launch("scatter", &sorted.0)
    }

    /// The words of two buffers at the `rows` places in `map`.
    fn take(
        &self,
        one: &Buffer,
        other: &Buffer,
        map: &Buffer,
        rows: usize,
    ) -> Result<(Buffer, Buffer), Error> {
        let column = |words: &Buffer| Column {
            data_type: DataType::UInt32,
            len: rows,
            validity: None,
            data: Storage::Fixed(words.clone()),
        };
        let field = |name: &str| Field::new(name, DataType::UInt32, false);
        let words = Batch {
            schema: Arc::new(Schema::new(vec![field("one"), field("other")])),
            columns: vec![column(one), column(other)],
            rows,
        };
        let taken = gather(self.device, &words, map, rows)?;
        match taken.columns.as_slice() {
            [
                Column {
                    data: Storage::Fixed(one),
                    ..
                },
                Column {
                    data: Storage::Fixed(other),
                    ..
                },
            ] => Ok((one.clone(), other.clone())),
            _ => Err(Error::unsupported("gathering words")),
        }
    }
}
