//! Stable radix sorts of words, alone or with a row number each, 8 bits a pass.
//!
//! Memory beside the input: as much again as keys and values, and 1 KiB for every tile of 512 keys or more.

use whitewater_gpu::{Buffer, Device, DeviceInfo, Shader};

use crate::{Error, kernels::LIBRARY, params::grid, scan::exclusive_sums};

pub(crate) const DIGIT_BITS: u32 = 8;
pub(super) const DIGITS: u32 = 1 << DIGIT_BITS;

/// Counts of pairs share a word of 32 bits with their state.
const MOST_LOOKED_BACK: usize = 1 << 30;

/// Invocations that a multiprocessor holds.
const RESIDENT: u32 = 1024;

#[repr(C)]
#[derive(Clone, Copy, Default, bytemuck::NoUninit)]
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
pub(crate) struct Words {
    pub(crate) keys: Buffer,
    /// Bits of a key that can vary, from the lowest.
    pub(crate) bits: u32,
    /// Whether keys are u64, not u32.
    pub(crate) wide: bool,
    /// How often each digit of each pass occurs: [`DIGITS`] counts a pass.
    pub(crate) bins: Buffer,
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
pub(crate) enum Values {
    None,
    /// 0, 1, …
    Numbers,
    Given(Buffer),
}

/// What a sort gives: the words in order, and the values in that order.
pub(crate) struct Sorted {
    pub(crate) keys: Buffer,
    pub(crate) values: Option<Buffer>,
}

impl Sorted {
    /// The values; an error where none followed the keys.
    pub(crate) fn order(&self) -> Result<Buffer, Error> {
        let values = self.values.clone();
        values.ok_or_else(|| Error::unsupported("the order of keys alone"))
    }
}

/// The row numbers in `values` (0, 1, … if none) in the order of the words of `words`, ties as they were.
pub(super) fn sort_rows(
    device: &Device,
    words: Words,
    values: Option<Buffer>,
    rows: usize,
) -> Result<Buffer, Error> {
    let given = values.map_or(Values::Numbers, Values::Given);
    sort_words(device, words, 0, given, rows)?.order()
}

/// Radix passes over the words of one sort.
struct Passes<'a> {
    device: &'a Device,
    bins: &'a Buffer,
    shape: Shape,
    wide: bool,
    rows: usize,
    tiles: u32,
    look_back: bool,
}

impl<'a> Passes<'a> {
    fn new(device: &'a Device, bins: &'a Buffer, shape: Shape, wide: bool, rows: usize) -> Self {
        Self {
            device,
            bins,
            shape,
            wide,
            rows,
            tiles: (rows as u32).div_ceil(shape.size * shape.items),
            look_back: device.has_forward_progress() && rows < MOST_LOOKED_BACK,
        }
    }

    fn key_bytes(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    /// The kernel; `staged` is a type that holds what passes through a workgroup's memory.
    fn shader(&self, staged: Option<&str>) -> Shader {
        let (key, most_key) = match self.wide {
            true => ("u64", "0xfffffffffffffffflu"),
            false => ("u32", "0xffffffffu"),
        };
        Shader::new(&LIBRARY, "package::sort::radix")
            .alias("Item", key)
            .alias("Staged", staged.unwrap_or(key))
            .constant("MOST_KEY", key, most_key)
            .constant("SIZE", "u32", self.shape.size)
            .constant("ITEMS", "u32", self.shape.items)
            .constant("SUBGROUPS", "u32", self.shape.subgroups)
            .resident(RESIDENT)
            .feature("LOOKBACK", self.look_back)
    }

    /// Has `bins`, which tell how often each digit of `passes` passes occurs, tell where they begin.
    fn start(&self, passes: u32) -> Result<(), Error> {
        let kernel = self.device.kernel(&self.shader(None), "starts")?;
        kernel
            .launch()
            .bind(0, 6, self.bins)
            .params(&Params::default())
            .run(passes)?;
        Ok(())
    }

    /// The pass by the digit of `bits` bits from `shift` on of the words in `keys`, with `buffers` bound besides, as
    /// (group, binding, buffer); `bytes` is what a row takes in all.
    fn sweep(
        &self,
        shader: &Shader,
        (shift, bits): (u32, u32),
        keys: &Buffer,
        buffers: &[(u32, u32, &Buffer)],
        bytes: u64,
    ) -> Result<(), Error> {
        let device = self.device;
        let params = Params {
            rows: self.rows as u32,
            tiles: self.tiles,
            shift,
            digit_bits: bits.min(DIGIT_BITS),
            pass: shift / DIGIT_BITS,
        };
        let counts = u64::from(self.tiles) * u64::from(DIGITS) * 4;
        let told = match self.look_back {
            true => device.alloc_filled(counts, 0)?,
            false => device.alloc(counts)?,
        };
        let launch = |entry: &str, workgroups: u32, before: &Buffer, moved: u64| {
            let kernel = device.kernel(shader, entry)?;
            let mut launch = kernel
                .launch()
                .bind(0, 2, keys)
                .bind(0, 6, self.bins)
                .bind(0, 7, before)
                .bind(0, 8, before)
                .params(&params)
                .moves(self.rows as u64 * moved);
            for (group, binding, buffer) in buffers {
                launch = launch.bind(*group, *binding, buffer);
            }
            launch.run(workgroups)
        };
        if self.look_back {
            launch("sweep", self.tiles, &told, 2 * bytes)?;
        } else {
            let some = grid(device, self.tiles.into(), 1);
            launch("count", some, &told, self.key_bytes())?;
            let before = exclusive_sums(device, &told, (self.tiles * DIGITS) as usize)?;
            launch("sweep", some, &before, 2 * bytes)?;
        }
        Ok(())
    }
}

/// The `rows` words of `words` in order, and `values` with them, ties as they were. Digits before `first_pass`
/// are not looked at.
pub(crate) fn sort_words(
    device: &Device,
    words: Words,
    first_pass: u32,
    values: Values,
    rows: usize,
) -> Result<Sorted, Error> {
    let passes = passes(words.bits);
    let mut keys = words.keys;
    let mut other_keys = device.alloc(keys.len())?;
    let mut numbered = matches!(values, Values::Numbers);
    let mut values = match values {
        Values::Given(values) => Some(values),
        Values::Numbers => Some(device.alloc(rows as u64 * 4)?),
        Values::None => None,
    };
    let mut other_values = match &values {
        Some(values) => Some(device.alloc(values.len())?),
        None => None,
    };
    let shape = Shape::new(
        device.info(),
        if words.wide { 8 } else { 4 },
        values.is_some(),
    );
    let run = Passes::new(device, &words.bins, shape, words.wide, rows);
    let bytes = run.key_bytes() + if values.is_some() { 4 } else { 0 };
    if run.look_back && first_pass < passes {
        run.start(passes)?;
    }
    for pass in first_pass..passes {
        let shift = pass * DIGIT_BITS;
        let shader = run
            .shader(None)
            .feature("KEYS", true)
            .feature("VALUES", values.is_some())
            .feature("NUMBERED", numbered);
        let buffers = [
            (0, 3, &other_keys),
            (0, 4, values.as_ref().unwrap_or(&keys)),
            (0, 5, other_values.as_ref().unwrap_or(&other_keys)),
        ];
        run.sweep(&shader, (shift, words.bits - shift), &keys, &buffers, bytes)?;
        std::mem::swap(&mut keys, &mut other_keys);
        std::mem::swap(&mut values, &mut other_values);
        numbered = false;
    }
    Ok(Sorted { keys, values })
}

/// Bind group of columns that follow a pass.
const CARRIED_GROUP: u32 = 2;

/// Rows apart by one digit, whose columns follow at once.
pub(crate) struct Split<'a> {
    passes: Passes<'a>,
    digits: &'a Buffer,
}

impl<'a> Split<'a> {
    /// By the `rows` numbers below 256 in `digits` (u32); `bins` tell how often each occurs, and from then on, where
    /// the rows of each begin.
    pub(crate) fn new(
        device: &'a Device,
        digits: &'a Buffer,
        bins: &'a Buffer,
        rows: usize,
    ) -> Result<Self, Error> {
        // Columns of 8 bytes are staged in the same memory.
        let shape = Shape::new(device.info(), 8, true);
        let passes = Passes::new(device, bins, shape, false, rows);
        passes.start(1)?;
        Ok(Self { passes, digits })
    }

    /// The values of `columns` (of 4 or 8 bytes a row, as told; the rows' numbers where there is no buffer) in their new
    /// places.
    pub(crate) fn carry(&self, columns: &[(Option<&Buffer>, u64)]) -> Result<Vec<Buffer>, Error> {
        let rows = self.passes.rows as u64;
        let mut declared = String::new();
        let (mut loads, mut stores) = (String::new(), String::new());
        let mut carried = Vec::new();
        for (c, (source, bytes)) in columns.iter().enumerate() {
            let word = if *bytes == 8 { "u64" } else { "u32" };
            let (from, to) = (2 * c, 2 * c + 1);
            let load = match source {
                Some(_) => {
                    declared.push_str(&format!(
                        "@group({CARRIED_GROUP}) @binding({from}) var<storage, read> from{c}: array<{word}>;\n"
                    ));
                    format!("u64(from{c}[row])")
                }
                None => "u64(row)".into(),
            };
            declared.push_str(&format!(
                "@group({CARRIED_GROUP}) @binding({to}) var<storage, read_write> to{c}: array<{word}>;\n"
            ));
            loads.push_str(&format!("        case {c}u: {{ return {load}; }}\n"));
            stores.push_str(&format!(
                "        case {c}u: {{ to{c}[at] = {word}(value); }}\n"
            ));
            carried.push(self.passes.device.alloc(rows * bytes)?);
        }
        let text = format!(
            "{declared}const COLUMNS: u32 = {}u;\n\
             fn carry_load(c: u32, row: u32) -> u64 {{\n    switch (c) {{\n{loads}        \
             default: {{ return 0lu; }}\n    }}\n}}\n\
             fn carry_store(c: u32, at: u32, value: u64) {{\n    switch (c) {{\n{stores}        \
             default: {{}}\n    }}\n}}\n",
            columns.len()
        );
        let shader = self
            .passes
            .shader(Some("u64"))
            .generated("package::carried", text)
            .feature("CARRIED", true);
        let mut buffers = Vec::new();
        for (c, ((source, _), to)) in columns.iter().zip(&carried).enumerate() {
            let binding = 2 * c as u32;
            buffers.extend(source.map(|from| (CARRIED_GROUP, binding, from)));
            buffers.push((CARRIED_GROUP, binding + 1, to));
        }
        let bytes = 4 + columns.iter().map(|(_, bytes)| bytes).sum::<u64>();
        self.passes
            .sweep(&shader, (0, DIGIT_BITS), self.digits, &buffers, bytes)?;
        Ok(carried)
    }

    /// How many columns one launch can bind and does well with.
    pub(crate) fn columns_at_once(&self) -> usize {
        const OTHER_BUFFERS: u32 = 6;
        let bindable = self.passes.device.info().max_storage_buffers;
        ((bindable.saturating_sub(OTHER_BUFFERS)) / 2).clamp(1, 8) as usize
    }
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
                .alias("Staged", key)
                .constant("MOST_KEY", key, most)
                .constant("SIZE", "u32", size)
                .constant("ITEMS", "u32", items)
                .constant("SUBGROUPS", "u32", size / 32)
                .resident(super::RESIDENT)
                .feature("KEYS", true)
                .feature("VALUES", values)
                .feature("LOOKBACK", true)
                .link()
                .expect("a linked module");
            let checked = linked.check_cuda().expect("CUDA that compiles");
            assert!(checked || std::env::var_os("WHITEWATER_REQUIRE_NVRTC").is_none());
        }
    }
}
