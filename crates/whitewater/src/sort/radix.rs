//! Stable radix sorts of pairs of a word and a row number, 8 bits a pass.
//!
//! Memory beside the input: as much again as keys and values, and 1 KiB for every tile of 512 pairs or more.

use whitewater_gpu::{Buffer, Device, DeviceInfo, Shader};

use crate::{Error, kernels::LIBRARY, params::grid, scan::exclusive_sums};

pub(super) const DIGIT_BITS: u32 = 8;
pub(super) const DIGITS: u32 = 1 << DIGIT_BITS;

/// Counts of pairs share a word of 32 bits with their state.
const MOST_LOOKED_BACK: usize = 1 << 30;

/// Invocations that a multiprocessor holds.
const RESIDENT: u32 = 1024;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    tiles: u32,
    shift: u32,
    digit_bits: u32,
    pass: u32,
}

/// Passes that sort by `bits` bits.
pub(super) fn passes(bits: u32) -> u32 {
    bits.div_ceil(DIGIT_BITS)
}

/// Words to sort by, which are used up.
pub(super) struct Words {
    pub(super) keys: Buffer,
    /// Bits of a key that can vary, from the lowest.
    pub(super) bits: u32,
    /// Whether keys are u64, not u32.
    pub(super) wide: bool,
    /// How often each digit of each pass occurs: [`DIGITS`] counts a pass.
    pub(super) bins: Buffer,
}

/// Invocations of a workgroup, and pairs of each.
#[derive(Clone, Copy)]
struct Shape {
    size: u32,
    items: u32,
    subgroups: u32,
}

impl Shape {
    /// The largest shape whose pairs and counts fit a workgroup's memory.
    fn new(info: &DeviceInfo, pair_bytes: u32) -> Self {
        let narrowest = info.subgroup_size.0.max(4);
        let shapes = [
            (512, 16),
            (512, 8),
            (256, 8),
            (128, 8),
            (64, 8),
            (64, 4),
            (32, 4),
        ]
        .map(|(size, items)| Self {
            size,
            items,
            subgroups: u32::max(size / narrowest, 1),
        });
        let fits = |shape: &&Self| {
            let counts = (shape.subgroups + 3) * DIGITS * 4;
            let pairs = shape.size * shape.items * pair_bytes;
            let small = !info.software || shape.size <= 64;
            small
                && shape.size <= info.max_workgroup_size
                && counts + pairs + 4096 <= info.workgroup_memory
        };
        *shapes.iter().find(fits).unwrap_or(&shapes[6])
    }
}

/// What a sort gives: the words in order, and the row numbers in that order.
pub(super) struct Sorted {
    pub(super) keys: Buffer,
    pub(super) rows: Buffer,
}

/// The row numbers in `values` (0, 1, … if none) in the order of the words of `words`, ties as they were. Digits
/// before `first_pass` are not looked at.
pub(super) fn sort_rows(
    device: &Device,
    words: Words,
    first_pass: u32,
    values: Option<Buffer>,
    rows: usize,
) -> Result<Sorted, Error> {
    let passes = passes(words.bits);
    let key_bytes = if words.wide { 8 } else { 4 };
    let shape = Shape::new(device.info(), key_bytes + 4);
    let tiles = (rows as u32).div_ceil(shape.size * shape.items);
    let look_back = device.has_forward_progress() && rows < MOST_LOOKED_BACK;
    let counts = u64::from(tiles) * u64::from(DIGITS) * 4;
    let mut keys = words.keys;
    let mut other_keys = device.alloc(keys.len())?;
    let mut numbered = values.is_none();
    let mut values = match values {
        Some(values) => values,
        None => device.alloc(rows as u64 * 4)?,
    };
    let mut other_values = device.alloc(rows as u64 * 4)?;
    let bytes = rows as u64 * u64::from(key_bytes + 4);
    for pass in first_pass..passes {
        let shift = pass * DIGIT_BITS;
        let params = Params {
            rows: rows as u32,
            tiles,
            shift,
            digit_bits: (words.bits - shift).min(DIGIT_BITS),
            pass,
        };
        let key = if words.wide { "u64" } else { "u32" };
        let shader = Shader::new(&LIBRARY, "package::sort::radix")
            .alias("Key", key)
            .alias("Value", "u32")
            .constant(
                "MOST_KEY",
                key,
                if words.wide {
                    "0xfffffffffffffffflu"
                } else {
                    "0xffffffffu"
                },
            )
            .constant("SIZE", "u32", shape.size)
            .constant("ITEMS", "u32", shape.items)
            .constant("SUBGROUPS", "u32", shape.subgroups)
            .resident(RESIDENT)
            .feature("VALUES", true)
            .feature("NUMBERED", numbered)
            .feature("LOOKBACK", look_back);
        let told = match look_back {
            true => device.alloc_filled(counts, 0)?,
            false => device.alloc(counts)?,
        };
        let launch =
            |entry: &str, workgroups: u32, before: &Buffer, bytes: u64| -> Result<(), Error> {
                let kernel = device.kernel(&shader, entry)?;
                kernel
                    .launch()
                    .bind(0, 2, &keys)
                    .bind(0, 3, &other_keys)
                    .bind(0, 4, &values)
                    .bind(0, 5, &other_values)
                    .bind(0, 6, &words.bins)
                    .bind(0, 7, before)
                    .bind(0, 8, before)
                    .params(&params)
                    .moves(bytes)
                    .run(workgroups)?;
                Ok(())
            };
        if look_back {
            launch("sweep", tiles, &told, 2 * bytes)?;
        } else {
            let some = grid(device, tiles.into(), 1);
            launch("count", some, &told, rows as u64 * u64::from(key_bytes))?;
            let before = exclusive_sums(device, &told, (tiles * DIGITS) as usize)?;
            launch("sweep", some, &before, 2 * bytes)?;
        }
        std::mem::swap(&mut keys, &mut other_keys);
        std::mem::swap(&mut values, &mut other_values);
        numbered = false;
    }
    Ok(Sorted { keys, rows: values })
}
