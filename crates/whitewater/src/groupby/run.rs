//! Running the group-by kernels of one batch: sampling, gathering, growing, collecting.

use whitewater_gpu::{Buffer, Device, Kernel, Launch, Shader};

use super::tiers::{self, Local};
use crate::{
    Batch, Error,
    aggregate::accumulators::Accumulators,
    kernels::LIBRARY,
    keys::Keys,
    params::grid,
    pipeline::Compiled,
    ragged::KEY_GROUP,
    select::output::{self, Output},
};

/// Rows of a sample, and slots of the table that counts its keys.
const SAMPLE_ROWS: u64 = 1 << 16;
const SAMPLE_SLOTS: u32 = 1 << 17;
/// The most rows that can wait for the table to grow.
const MOST_DEFERRED: u64 = 1 << 22;
/// Exponents above the sample's greatest that a window leaves room for.
const HEADROOM: i32 = 4;
/// Exponents that one window takes, as in `kernels/exact.wesl`.
const WINDOW: i32 = 40;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    slots: u32,
    indirect: u32,
    sample_stride: u32,
}

/// What sampling found.
pub(super) struct Findings {
    /// About how many groups there are.
    pub(super) groups: u64,
    /// For each exact sum the base exponent of its windows.
    pub(super) bases: Vec<i32>,
    /// Windows of each sum.
    pub(super) windows: u32,
}

/// One batch under way: everything that its kernels are specialised by.
pub(super) struct Run<'a> {
    pub(super) device: &'a Device,
    pub(super) batch: &'a Batch,
    pub(super) compiled: &'a Compiled,
    pub(super) keys: &'a Keys,
    pub(super) plan: &'a Accumulators,
    /// The modules `package::accumulators` and `package::keys`, written once for all kernels.
    pub(super) texts: [String; 2],
    pub(super) local: Option<Local>,
}

/// The global table's buffers.
pub(super) struct Table {
    pub(super) slots: u32,
    words: Buffer,
    owners: Buffer,
    states: Buffer,
    status: Buffer,
    deferred: Buffer,
    windows: Buffer,
}

/// What the kernels said.
pub(super) struct Status {
    pub(super) deferred: u32,
    pub(super) outside: bool,
    pub(super) lost: bool,
    pub(super) groups: u32,
}

impl Table {
    pub(super) fn new(
        device: &Device,
        slots: u32,
        rows: u64,
        plan: &Accumulators,
        bases: &[i32],
    ) -> Result<Self, Error> {
        let all = u64::from(slots) + 1;
        let bases = if bases.is_empty() { &[0] } else { bases };
        Ok(Self {
            owners: device.alloc_filled(all * 4, 0xff)?,
            states: device.alloc_filled(all * 8 * u64::from(plan.words), 0)?,
            status: device.alloc_filled(16, 0)?,
            deferred: device.alloc(rows.min(MOST_DEFERRED).max(all) * 4)?,
            windows: device.upload(bytemuck::cast_slice(bases))?,
            ..Self::without_states(device, slots)?
        })
    }

    /// A table that only tells whether a key is there.
    fn without_states(device: &Device, slots: u32) -> Result<Self, Error> {
        let none = device.alloc(16)?;
        Ok(Self {
            slots,
            words: device.alloc_filled((u64::from(slots) + 1) * 8, 0xff)?,
            owners: none.clone(),
            states: none.clone(),
            status: none.clone(),
            deferred: none.clone(),
            windows: none,
        })
    }
}

impl Run<'_> {
    fn kernel(&self, root: &str, entry: &str) -> Result<Kernel, Error> {
        let local = self.local.unwrap_or(Local {
            slots: 16,
            replicas: 1,
        });
        let shader = self
            .compiled
            .specialise(Shader::new(&LIBRARY, root))
            .generated("package::accumulators", &*self.texts[0])
            .generated("package::keys", &*self.texts[1]);
        Ok(self.device.kernel(&self.specify(shader, local), entry)?)
    }

    fn specify(&self, shader: Shader, local: Local) -> Shader {
        shader
            .constant("SIZE", "u32", tiers::workgroup_size(self.device.info()))
            .constant("WORDS", "u32", self.plan.words)
            .constant("LIMBS", "u32", self.plan.limbs)
            .constant("EXTREMES", "u32", self.plan.extremes)
            .constant("WINDOWS", "u32", self.plan.windows)
            .constant("LOCAL_SLOTS", "u32", local.slots)
            .constant("LOCAL_SHIFT", "u32", 32 - local.slots.ilog2())
            .constant("REPLICAS", "u32", local.replicas)
    }

    /// The launch of `kernel` with everything bound that any of them uses.
    fn launch<'k>(
        &'k self,
        kernel: &'k Kernel,
        table: &'k Table,
        listed: Option<&'k Buffer>,
        rows: u64,
    ) -> Launch<'k> {
        self.compiled
            .bind(kernel.launch())
            .bind(0, 2, &table.words)
            .bind(0, 3, &table.owners)
            .bind(0, 4, &table.states)
            .bind(0, 5, &table.status)
            .bind(0, 6, &table.deferred)
            .bind(0, 7, listed.unwrap_or(&table.windows))
            .bind(0, 8, &table.windows)
            .bind_group(KEY_GROUP, &self.keys.buffers)
            .params(&Params {
                rows: rows as u32,
                slots: table.slots,
                indirect: listed.is_some().into(),
                sample_stride: (self.batch.rows as u64 / rows.max(1)).max(1) as u32,
            })
    }

    fn grid(&self, items: u64) -> u32 {
        let size = u64::from(tiers::workgroup_size(self.device.info()));
        grid(self.device, items, size)
    }

    /// Looks at a sample of the rows, or at all of them for the floats if `every`.
    pub(super) fn sample(&self, every: bool) -> Result<Findings, Error> {
        let rows = self.batch.rows as u64;
        let floats = self.plan.floats().len();
        let table = Table::without_states(self.device, SAMPLE_SLOTS)?;
        let sampled = self.device.alloc_filled(8 + 8 * floats as u64, 0)?;
        let mut looked_at = rows.min(SAMPLE_ROWS);
        let kernel = self.kernel("package::groupby::estimate", "estimate")?;
        self.launch(&kernel, &table, None, looked_at)
            .bind(0, 9, &sampled)
            .run(self.grid(looked_at))?;
        if every && looked_at < rows {
            let kernel = self.kernel("package::groupby::estimate", "exponents")?;
            self.launch(&kernel, &table, None, rows)
                .bind(0, 9, &sampled)
                .moves(self.compiled.bytes())
                .run(self.grid(rows))?;
        }
        let words = sampled.download_as::<u32>()?;
        let exact = every || looked_at == rows;
        // Of the rows that pass, as many were sampled as the predicate took.
        let passing = rows * u64::from(words[0]) / looked_at.max(1);
        looked_at = u64::from(words[0]);
        // The packed key that looks like an empty slot is not counted.
        let groups = tiers::estimate(passing, looked_at, u64::from(words[1])) + 1;
        let ranges: Vec<(i32, i32)> = words[2..]
            .chunks_exact(2)
            .map(|pair| match pair[1] {
                0 => (0, 0),
                greatest => (!pair[0] as i32 - 2048, greatest as i32 - 2048),
            })
            .collect();
        let bases = ranges.iter().map(|(least, greatest)| match exact {
            true => *least,
            false => (*greatest + HEADROOM - (WINDOW - 1)).min(*least),
        });
        let bases: Vec<i32> = bases.collect();
        let windows = ranges
            .iter()
            .zip(&bases)
            .map(|((_, greatest), base)| (greatest - base) / WINDOW + 1)
            .max()
            .unwrap_or(1) as u32;
        Ok(Findings {
            groups,
            bases,
            windows,
        })
    }

    /// Gathers all rows into `table`.
    pub(super) fn gather(&self, table: &Table) -> Result<(), Error> {
        let rows = self.batch.rows as u64;
        let (root, entry, workgroups) = match self.local {
            Some(_) => {
                // Every workgroup ends with a flush: few, long-lived ones.
                let info = self.device.info();
                let resident = info.multiprocessors * (2048 / tiers::workgroup_size(info));
                let few = self.grid(rows).min(resident);
                ("package::groupby::shared", "shared_groups", few)
            }
            None => ("package::groupby::global", "global_groups", self.grid(rows)),
        };
        let kernel = self.kernel(root, entry)?;
        self.launch(&kernel, table, None, rows)
            .moves(self.compiled.bytes())
            .run(workgroups)?;
        Ok(())
    }

    /// Moves `table` to a new one of `slots` slots and gathers its `deferred` rows there.
    pub(super) fn grow(
        &self,
        table: &Table,
        slots: u32,
        deferred: u32,
        bases: &[i32],
    ) -> Result<Table, Error> {
        let rows = u64::from(deferred);
        let larger = Table::new(self.device, slots, rows, self.plan, bases)?;
        let old_slots = u64::from(table.slots) + 1;
        let kernel = self.kernel("package::groupby::global", "grow")?;
        self.launch(&kernel, &larger, None, old_slots)
            .bind(0, 11, &table.owners)
            .bind(0, 10, &table.states)
            .run(self.grid(old_slots))?;
        let kernel = self.kernel("package::groupby::global", "global_groups")?;
        self.launch(&kernel, &larger, Some(&table.deferred), rows)
            .run(self.grid(rows))?;
        Ok(larger)
    }

    /// Lists the slots that are taken, and waits for what the kernels said.
    pub(super) fn collect(&self, table: &Table) -> Result<(Status, Buffer), Error> {
        let slots = u64::from(table.slots) + 1;
        let listed = self.device.alloc(slots * 4)?;
        let kernel = self.kernel("package::groupby::global", "collect")?;
        self.launch(&kernel, table, None, 0)
            .bind(0, 9, &listed)
            .moves(slots * 4)
            .run(self.grid(slots))?;
        let words = table.status.download_as::<u32>()?;
        let status = Status {
            deferred: words[0],
            outside: words[1] != 0,
            groups: words[2],
            lost: words[3] != 0,
        };
        Ok((status, listed))
    }

    /// The group of each row, by its place among the `groups` that `listed` lists; `groups` where there is none.
    pub(super) fn number_rows(
        &self,
        table: &Table,
        listed: &Buffer,
        groups: u32,
    ) -> Result<Buffer, Error> {
        let rows = self.batch.rows as u64;
        let numbers = self.device.alloc((u64::from(table.slots) + 1) * 4)?;
        let group_of_rows = self.device.alloc(rows * 4)?;
        for (entry, items) in [("number_groups", u64::from(groups)), ("number_rows", rows)] {
            let kernel = self.kernel("package::groupby::number", entry)?;
            self.launch(&kernel, table, Some(listed), items)
                .bind(0, 9, &numbers)
                .bind(0, 10, &group_of_rows)
                .params(&Params {
                    rows: items as u32,
                    slots: table.slots,
                    indirect: groups,
                    sample_stride: 1,
                })
                .moves(items * 8)
                .run(self.grid(items))?;
        }
        Ok(group_of_rows)
    }

    /// Writes the listed groups to `output`, whose rows are slots.
    pub(super) fn emit(
        &self,
        table: &Table,
        output: &Output<'_>,
        listed: &Buffer,
        groups: usize,
    ) -> Result<(), Error> {
        let shader = self
            .compiled
            .specialise(Shader::new(&LIBRARY, "package::select::evaluate"))
            .feature("MAPPED", true)
            .generated("package::keys", &*self.texts[1])
            .generated("package::output", output.text());
        let local = Local {
            slots: 16,
            replicas: 1,
        };
        let kernel = self
            .device
            .kernel(&self.specify(shader, local), "evaluate")?;
        self.launch(&kernel, table, None, groups as u64)
            .bind(0, output::MAP_BINDING, listed)
            .bind_group(output::GROUP, &output.buffers)
            .moves(output.buffers.iter().map(Buffer::len).sum())
            .run(self.grid(groups as u64))?;
        Ok(())
    }
}
