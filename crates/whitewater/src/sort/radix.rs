//! Stable radix sorts of words, alone or with a row number each, 8 bits a pass.
//!
//! Memory beside the input: as much again as keys and values, and 1 KiB for every tile of 512 keys or more.

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

/// Invocations of a workgroup, and keys of each.
#[derive(Clone, Copy)]
struct Shape {
    size: u32,
    items: u32,
    subgroups: u32,
}

impl Shape {
    /// Invocations, and as many keys of each as stay in its registers where a multiprocessor holds two workgroups.
    const fn largest(key_bytes: u32, values: bool) -> (u32, u32) {
        match (key_bytes, values) {
            (4, false) => (512, 20),
            (4, true) => (384, 22),
            _ => (512, 16),
        }
    }

    /// The largest shape whose keys and counts fit a workgroup's memory.
    fn new(info: &DeviceInfo, key_bytes: u32, values: bool) -> Self {
        let narrowest = info.subgroup_size.0.max(4);
        let shapes = [
            Self::largest(key_bytes, values),
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
            let counts = (shape.subgroups + 2) * DIGITS * 4;
            let keys = shape.size * shape.items * key_bytes;
            let small = !info.software || shape.size <= 64;
            small
                && shape.size <= info.max_workgroup_size
                && counts + keys + 4096 <= info.workgroup_memory
        };
        *shapes.iter().find(fits).unwrap_or(&shapes[6])
    }
}

/// What follows the keys.
pub(super) enum Values {
    None,
    /// 0, 1, …
    Numbers,
    Given(Buffer),
}

/// What a sort gives: the words in order, and the values in that order.
pub(super) struct Sorted {
    pub(super) keys: Buffer,
    pub(super) values: Option<Buffer>,
}

/// The row numbers in `values` (0, 1, … if none) in the order of the words of `words`, ties as they were.
pub(super) fn sort_rows(
    device: &Device,
    words: Words,
    values: Option<Buffer>,
    rows: usize,
) -> Result<Buffer, Error> {
    let given = values.map_or(Values::Numbers, Values::Given);
    let sorted = sort_words(device, words, 0, given, rows)?;
    sorted
        .values
        .ok_or_else(|| Error::unsupported("a sort of nothing"))
}

/// The `rows` words of `words` in order, and `values` with them, ties as they were. Digits before `first_pass`
/// are not looked at.
pub(super) fn sort_words(
    device: &Device,
    words: Words,
    first_pass: u32,
    values: Values,
    rows: usize,
) -> Result<Sorted, Error> {
    let passes = passes(words.bits);
    let key_bytes = if words.wide { 8 } else { 4 };
    let mut keys = words.keys;
    let mut other_keys = device.alloc(keys.len())?;
    let mut numbered = matches!(values, Values::Numbers);
    let mut values = match values {
        Values::Given(values) => Some(values),
        Values::Numbers => Some(device.alloc(rows as u64 * 4)?),
        Values::None => None,
    };
    let shape = Shape::new(device.info(), key_bytes, values.is_some());
    let tiles = (rows as u32).div_ceil(shape.size * shape.items);
    let look_back = device.has_forward_progress() && rows < MOST_LOOKED_BACK;
    let counts = u64::from(tiles) * u64::from(DIGITS) * 4;
    let mut other_values = match &values {
        Some(values) => Some(device.alloc(values.len())?),
        None => None,
    };
    let bytes = rows as u64 * u64::from(key_bytes + if values.is_some() { 4 } else { 0 });
    let launch = |shader: &Shader,
                  (entry, workgroups, moved): (&str, u32, u64),
                  params: Params,
                  before: &Buffer,
                  buffers: [&Buffer; 4]|
     -> Result<(), Error> {
        let kernel = device.kernel(shader, entry)?;
        kernel
            .launch()
            .bind(0, 2, buffers[0])
            .bind(0, 3, buffers[1])
            .bind(0, 4, buffers[2])
            .bind(0, 5, buffers[3])
            .bind(0, 6, &words.bins)
            .bind(0, 7, before)
            .bind(0, 8, before)
            .params(&params)
            .moves(moved)
            .run(workgroups)?;
        Ok(())
    };
    for pass in first_pass..passes {
        let shift = pass * DIGIT_BITS;
        let params = Params {
            rows: rows as u32,
            tiles,
            shift,
            digit_bits: (words.bits - shift).min(DIGIT_BITS),
            pass,
        };
        let (key, most_key) = match words.wide {
            true => ("u64", "0xfffffffffffffffflu"),
            false => ("u32", "0xffffffffu"),
        };
        let shader = Shader::new(&LIBRARY, "package::sort::radix")
            .alias("Item", key)
            .constant("MOST_KEY", key, most_key)
            .constant("SIZE", "u32", shape.size)
            .constant("ITEMS", "u32", shape.items)
            .constant("SUBGROUPS", "u32", shape.subgroups)
            .resident(RESIDENT)
            .feature("VALUES", values.is_some())
            .feature("NUMBERED", numbered)
            .feature("LOOKBACK", look_back);
        let told = match look_back {
            true => device.alloc_filled(counts, 0)?,
            false => device.alloc(counts)?,
        };
        let buffers = [
            &keys,
            &other_keys,
            values.as_ref().unwrap_or(&keys),
            other_values.as_ref().unwrap_or(&other_keys),
        ];
        if look_back {
            if pass == first_pass {
                launch(&shader, ("starts", passes, 0), params, &told, buffers)?;
            }
            launch(&shader, ("sweep", tiles, 2 * bytes), params, &told, buffers)?;
        } else {
            let some = grid(device, tiles.into(), 1);
            let key_bytes = rows as u64 * u64::from(key_bytes);
            launch(&shader, ("count", some, key_bytes), params, &told, buffers)?;
            let before = exclusive_sums(device, &told, (tiles * DIGITS) as usize)?;
            launch(
                &shader,
                ("sweep", some, 2 * bytes),
                params,
                &before,
                buffers,
            )?;
        }
        std::mem::swap(&mut keys, &mut other_keys);
        std::mem::swap(&mut values, &mut other_values);
        numbered = false;
    }
    Ok(Sorted { keys, values })
}

#[cfg(test)]
mod tests {
    use whitewater_gpu::Shader;

    use crate::kernels::LIBRARY;

    #[test]
    fn the_look_back_compiles_for_nvidia() {
        let keys = [
            ("u32", 4, "0xffffffffu"),
            ("u64", 8, "0xfffffffffffffffflu"),
        ];
        for ((key, key_bytes, most), values) in
            keys.into_iter().flat_map(|k| [(k, false), (k, true)])
        {
            let (size, items) = super::Shape::largest(key_bytes, values);
            let linked = Shader::new(&LIBRARY, "package::sort::radix")
                .alias("Item", key)
                .constant("MOST_KEY", key, most)
                .constant("SIZE", "u32", size)
                .constant("ITEMS", "u32", items)
                .constant("SUBGROUPS", "u32", size / 32)
                .resident(super::RESIDENT)
                .feature("VALUES", values)
                .feature("NUMBERED", false)
                .feature("LOOKBACK", true)
                .link()
                .expect("a linked module");
            let checked = linked.check_cuda().expect("CUDA that compiles");
            assert!(checked || std::env::var_os("WHITEWATER_REQUIRE_NVRTC").is_none());
        }
    }
}
