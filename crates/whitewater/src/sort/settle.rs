//! Sorts whose keys fit one word: by its leading digits, as far as these tell most rows apart, then among
//! neighbours.

use whitewater_gpu::{Buffer, Shader};

use super::{
    Bound, Sort,
    layout::{Layout, Window, leading_digits},
    radix::{DIGIT_BITS, Sorted, Values, passes, sort_words},
};
use crate::{Error, kernels::LIBRARY, params::grid};

/// What a sort by words is to give.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Wanted {
    /// The order of the rows.
    Rows,
    /// The values of the key, which [`Stage::decoding`](super::keys::Stage::decoding) can tell.
    Keys,
    KeysAndRows,
}

impl Wanted {
    fn rows(self) -> bool {
        self != Self::Keys
    }

    fn keys(self) -> bool {
        self != Self::Rows
    }

    fn values(self) -> Values {
        match self.rows() {
            true => Values::Numbers,
            false => Values::None,
        }
    }
}

/// What was wanted.
pub(super) struct Settled {
    /// The rows' numbers in order.
    pub(super) rows: Option<Buffer>,
    /// The key's values in order.
    pub(super) keys: Option<Buffer>,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    shift: u32,
    least_low: u32,
    least_high: u32,
}

/// Words in order of what is above their lowest `shift` bits, by which neighbours may still be equal.
struct Partly {
    sorted: Sorted,
    wide: bool,
    shift: u32,
    /// The words in the order of rows, where the sorted ones have their leading bits alone.
    whole: Option<Buffer>,
}

impl Sort<'_> {
    /// All rows in the order of a `layout` of 1 to 64 bits.
    pub(super) fn order_by_word(
        &self,
        bound: &Bound<'_>,
        chunk: u32,
        layout: &Layout,
        wanted: Wanted,
    ) -> Result<Settled, Error> {
        let rows = self.batch.rows;
        let all = Window::leading(layout.bits, 64);
        let encode = |window: Window| self.encode(bound, chunk, layout, window, None, None, rows);
        let mut words = encode(all)?;
        let all_passes = passes(words.bits);
        let wide = words.wide;
        if wide && rows >= self.least_rows_by_leading_digits() {
            let digits = leading_digits(&words.bins.download_as::<u32>()?, rows);
            // Settling costs about a pass.
            if digits + 1 < all_passes {
                let partly = if wanted == Wanted::Rows && digits <= 4 {
                    // Half the bytes a pass.
                    let leading = Window::leading(layout.bits, 4 * DIGIT_BITS);
                    let bits = encode(leading)?;
                    let first = passes(bits.bits) - digits;
                    Partly {
                        sorted: sort_words(self.device, bits, first, wanted.values(), rows)?,
                        wide: false,
                        shift: first * DIGIT_BITS,
                        whole: Some(words.keys.clone()),
                    }
                } else {
                    let first = all_passes - digits;
                    Partly {
                        sorted: sort_words(self.device, words, first, wanted.values(), rows)?,
                        wide,
                        shift: first * DIGIT_BITS,
                        whole: None,
                    }
                };
                if let Some(settled) = self.settle(bound, layout, &partly, wanted)? {
                    return Ok(settled);
                }
                // Digits that repeat each other tell less than they seem to.
                words = encode(all)?;
            }
        }
        let sorted = sort_words(self.device, words, 0, wanted.values(), rows)?;
        if wanted == Wanted::Rows {
            return Ok(Settled {
                rows: sorted.values,
                keys: None,
            });
        }
        let values = sorted.values.clone();
        let partly = Partly {
            sorted,
            wide,
            shift: 0,
            whole: None,
        };
        let settled = self.settle(bound, layout, &partly, Wanted::Keys)?;
        Ok(Settled {
            rows: values,
            keys: settled.and_then(|settled| settled.keys),
        })
    }

    /// Settles what is `partly` in order; none if more neighbours are equal than it looks at, which takes a wait
    /// to know. Words that are sorted to their last bit are only decoded.
    fn settle(
        &self,
        bound: &Bound<'_>,
        layout: &Layout,
        partly: &Partly,
        wanted: Wanted,
    ) -> Result<Option<Settled>, Error> {
        let rows = self.batch.rows;
        let device = self.device;
        let ties = partly.shift > 0 || partly.whole.is_some();
        let decode = match wanted.keys() {
            true => bound.stage.decoding(),
            false => None,
        };
        let key_bytes = if partly.wide { 8 } else { 4 };
        let mut shader = Shader::new(&LIBRARY, "package::sort::settle")
            .alias("Item", if partly.wide { "u64" } else { "u32" })
            .constant("SIZE", "u32", self.size())
            .feature("TIES", ties)
            .feature("FAR", partly.whole.is_some())
            .feature("VALUES", wanted.rows())
            .feature("DECODE", decode.is_some());
        let keys = match decode {
            Some(decoding) => {
                shader = shader.generated("package::decode", decoding.text);
                Some(device.alloc(rows as u64 * decoding.bytes)?)
            }
            None => None,
        };
        let order = match wanted.rows() {
            true => Some(device.alloc(rows as u64 * 4)?),
            false => None,
        };
        let trouble = device.alloc_filled(4, 0)?;
        let least = layout.fields.first().map_or(0, |field| field.least());
        let words = &partly.sorted.keys;
        let rows_in = partly.sorted.values.as_ref().unwrap_or(words);
        device
            .kernel(&shader, "settle")?
            .launch()
            .bind(0, 2, words)
            .bind(0, 3, rows_in)
            .bind(0, 4, order.as_ref().unwrap_or(&trouble))
            .bind(0, 5, partly.whole.as_ref().unwrap_or(words))
            .bind(0, 6, keys.as_ref().unwrap_or(&trouble))
            .bind(0, 7, &trouble)
            .params(&Params {
                rows: rows as u32,
                shift: partly.shift,
                least_low: least as u32,
                least_high: (least >> 32) as u32,
            })
            .moves(rows as u64 * 2 * (key_bytes + if wanted.rows() { 4 } else { 0 }))
            .run(grid(device, rows as u64, self.size().into()))?;
        if ties && trouble.download_as::<u32>()?[0] != 0 {
            return Ok(None);
        }
        Ok(Some(Settled { rows: order, keys }))
    }
}
