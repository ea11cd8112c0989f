//! The table of a join: the build side's keys in GPU memory, with the rows of each side by side.
//!
//! ```text
//! keys ──insert──▶ a slot for each key, and the slot of each row
//!                     │ a key occurs twice
//!                     ▼
//!      rows sorted by slot ──▶ a run a key ──▶ into the slots
//! ```
//!
//! A slot has 16 bytes, and there are two a row: the table is at most half full. Linear probing by windows of two slots
//! (`window.wesl`). Runs come out of a stable sort, so that the rows of a key are in their order, and no counter is hit
//! by many rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::{Buffer, Device, Shader};

use super::JoinKey;
use crate::{
    Batch, Error,
    column::bit_words_bytes,
    expr::{Expr, Pipeline},
    kernels::LIBRARY,
    keys::{Comparison, Keys},
    params::{WORKGROUP, grid},
    pipeline::Compiled,
    ragged::KEY_GROUP,
    sort::order_by_number,
};

/// Slots of a window, and windows a row.
pub(super) const WINDOW: u32 = 2;
const SLOT_BYTES: u64 = 16;
/// Workgroups of a multiprocessor that put keys into the table. More rows under way push each other's slots out of the
/// L2 cache between reading, taking and filling them: of 1, 2, 4, 8 and 16 on an H200 the one that does best with 10M
/// keys; 100M take 18.5 ms with it in all, 17.6 ms with 2, 22 ms with 8.
const INSERTING: u32 = 4;
/// The most rows of a build side: kernels number the words of slots by u32.
pub const MOST_BUILD_ROWS: usize = 1 << 29;

/// The built table: what any number of batches can be joined with.
///
/// Device memory: 36 bytes a row of the build side, 4 more where a key occurs twice; while it is built, 16 more then.
#[derive(Clone)]
pub struct Table {
    pub(super) device: Device,
    /// The build side.
    pub(super) batch: Batch,
    pub(super) keys: Vec<JoinKey>,
    pub(super) slots: Buffer,
    pub(super) slot_count: u32,
    /// The slot of each row; the number of slots for one without an equal.
    pub(super) slot_numbers: Buffer,
    /// The rows by runs; none where every key occurs once, and a run is its row.
    pub(super) order: Option<Buffer>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Table({} rows, unique: {})",
            self.batch.rows,
            self.is_unique()
        )
    }
}

impl Table {
    /// Puts the keys of `batch` into a table. Waits for whether one occurs twice.
    ///
    /// Moves the keys, 4 bytes a row, and 32 bytes a row twice; where a key occurs twice, sorts 4 bytes a row.
    /// Errors: [`Error::Unsupported`] for keys without a kernel and for more than [`MOST_BUILD_ROWS`] rows,
    /// [`Error::Arithmetic`] for what a key raises.
    pub fn build(device: &Device, batch: &Batch, keys: &[JoinKey]) -> Result<Self, Error> {
        if batch.rows > MOST_BUILD_ROWS {
            return Err(Error::unsupported(format!(
                "a build side of {} rows",
                batch.rows
            )));
        }
        let slot_count = WINDOW * (batch.rows as u32 + 1);
        let slots = device.alloc_filled(u64::from(slot_count) * SLOT_BYTES, 0xff)?;
        let mut table = Self {
            device: device.clone(),
            batch: batch.clone(),
            keys: keys.to_vec(),
            slots,
            slot_count,
            slot_numbers: device.alloc(batch.rows as u64 * 4)?,
            order: None,
        };
        if batch.rows > 0 {
            table.insert()?;
        }
        Ok(table)
    }

    /// A table of no keys, for a join of every row with every other.
    pub(super) fn without_keys(device: &Device, batch: &Batch) -> Result<Self, Error> {
        let none = batch.project(&[])?;
        let empty = Batch { rows: 0, ..none };
        Ok(Self {
            batch: batch.clone(),
            ..Self::build(device, &empty, &[])?
        })
    }

    /// Whether every key occurs once.
    pub fn is_unique(&self) -> bool {
        self.order.is_none()
    }

    /// Rows of the build side.
    pub fn rows(&self) -> usize {
        self.batch.rows
    }

    /// Bits for what has matched, none yet: of the slots and of rows without an equal together, or of the build rows.
    /// With `nulls_match`, rows without an equal count as if they had.
    pub(super) fn marks(&self, of_slots: bool, nulls_match: bool) -> Result<Buffer, Error> {
        let bits = match of_slots {
            true => self.slot_count as usize + 1,
            false => self.batch.rows.max(1),
        };
        let marks = self.device.alloc_filled(bit_words_bytes(bits), 0)?;
        if nulls_match {
            let word = u64::from(self.slot_count / 32) * 4;
            let bit = 1u32 << (self.slot_count % 32);
            self.device.write(&marks, word, &bit.to_le_bytes())?;
        }
        Ok(marks)
    }

    /// Whether slots hold rows alone, since the device exchanges no 64 bits at a time.
    fn by_rows(&self) -> bool {
        !self.device.has_wide_exchange()
    }

    fn insert(&mut self) -> Result<(), Error> {
        let side = Sides::new(self, None, None)?;
        let status = self.device.alloc_filled(4, 0)?;
        let rows = self.batch.rows as u32;
        let shader = side
            .specialise(Shader::new(&LIBRARY, "package::join::insert"))
            .constant("SIZE", "u32", WORKGROUP);
        let kernel = self.device.kernel(&shader, "insert")?;
        let few = INSERTING * self.device.info().multiprocessors.max(1);
        let workgroups = grid(&self.device, rows.into(), WORKGROUP.into()).min(few);
        side.compiled
            .bind(kernel.launch())
            .bind_group(KEY_GROUP, &side.keys.buffers)
            .bind(0, 2, &self.slots)
            .bind(0, 3, &self.slot_numbers)
            .bind(0, 4, &status)
            .params(&[rows, self.slot_count])
            .moves(side.compiled.bytes() + u64::from(rows) * 4 + 2 * self.slots.len())
            .run(workgroups)?;
        let status = status.download_as::<u32>()?;
        side.compiled.check()?;
        if status[0] != 0 {
            self.order = Some(self.lay_side_by_side()?);
        }
        Ok(())
    }

    /// The rows by runs, which the slots then tell.
    fn lay_side_by_side(&self) -> Result<Buffer, Error> {
        let rows = self.batch.rows;
        // The sort uses up its numbers.
        let numbers = self.device.alloc(rows as u64 * 4)?;
        self.device
            .copy(&self.slot_numbers, &numbers, rows as u64 * 4)?;
        let sorted = order_by_number(&self.device, numbers, rows, self.slot_count)?;
        let shader =
            Shader::new(&LIBRARY, "package::join::runs").constant("SIZE", "u32", WORKGROUP);
        self.device
            .kernel(&shader, "tell_runs")?
            .launch()
            .bind(0, 2, &self.slots)
            .bind(0, 3, &sorted.keys)
            .params(&[rows as u32, self.slot_count])
            .moves(rows as u64 * 4)
            .run(grid(&self.device, rows as u64, WORKGROUP.into()))?;
        sorted.order()
    }
}

/// Both sides of a join as one batch, and the compiled keys and condition over it.
pub(super) struct Sides {
    pub(super) compiled: Compiled,
    keys: Keys,
    text: String,
    by_rows: bool,
}

/// A batch with the columns of both; it is never read by rows of its own.
pub(super) fn side_by_side(build: &Batch, probe: &Batch) -> Batch {
    let fields = build.schema.fields().iter().chain(probe.schema.fields());
    Batch {
        schema: Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>())),
        columns: build
            .columns
            .iter()
            .chain(&probe.columns)
            .cloned()
            .collect(),
        rows: build.rows,
    }
}

impl Sides {
    /// The keys of `table` and, where there is one, of `probe`; and `condition` over the columns of both.
    pub(super) fn new(
        table: &Table,
        probe: Option<&Batch>,
        condition: Option<&Expr>,
    ) -> Result<Self, Error> {
        let first_of_probe = table.batch.columns.len();
        let both = match probe {
            Some(probe) => side_by_side(&table.batch, probe),
            None => table.batch.clone(),
        };
        let field = || Field::new("key", DataType::Null, true);
        let mut exprs: Vec<(Expr, Field)> = Vec::new();
        exprs.extend(table.keys.iter().map(|key| (key.build.clone(), field())));
        if probe.is_some() {
            let of_probe = table.keys.iter();
            exprs.extend(of_probe.map(|key| (key.probe.shifted(first_of_probe), field())));
        }
        let keys = Keys::plan(&exprs, &both)?;
        let nulls_equal: Vec<bool> = table.keys.iter().map(|key| key.null_equals_null).collect();
        let text = keys.join_text(&Comparison {
            nulls_equal: &nulls_equal,
            by_rows: table.by_rows(),
        });
        let spec = Pipeline {
            predicate: condition.cloned(),
            values: keys.values.clone(),
            narrow: true,
            paired: Some(first_of_probe),
        };
        Ok(Self {
            compiled: Compiled::of(&table.device, &both, &spec)?,
            keys,
            text,
            by_rows: table.by_rows(),
        })
    }

    /// `shader` with the modules that it needs to look into the table.
    pub(super) fn specialise(&self, shader: Shader) -> Shader {
        self.compiled
            .specialise(shader)
            .generated("package::keys", self.text.clone())
            .feature("ROWS", self.by_rows)
            .constant("WINDOW", "u32", WINDOW)
    }

    /// The buffers of both sides, by group and binding.
    pub(super) fn bound(&self) -> Vec<(u32, u32, &Buffer)> {
        let strings = self.keys.buffers.iter().enumerate();
        let mut bound = self.compiled.bound();
        bound.extend(strings.map(|(binding, buffer)| (KEY_GROUP, binding as u32, buffer)));
        bound
    }
}
