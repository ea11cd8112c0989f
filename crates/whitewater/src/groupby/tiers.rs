//! Which tier a batch's groups are gathered in, and the sizes that go with it.
//!
//! | groups | tier |
//! | --- | --- |
//! | states fit workgroup memory | `shared.wesl`, with as many copies of a state as still fit |
//! | more | `global.wesl` |
//! | their table outgrows the cache | `global.wesl`, rows apart by the hash of their keys (`apart.rs`) |
//!
//! A wrong guess is corrected while running: the shared tier passes rows on to the global table, and
//! the table grows.

use whitewater_gpu::DeviceInfo;

use crate::aggregate::accumulators::Accumulators;

/// Invocations of a workgroup in the group-by kernels.
const SIZE: u32 = 512;
const SOFTWARE_SIZE: u32 = 64;
/// Workgroup memory of one workgroup that still lets a multiprocessor hold several.
const ROOMY_BYTES: u32 = 48 << 10;
/// The most workgroup memory that the shared tier takes.
const MOST_BYTES: u32 = 100 << 10;
/// Copies of a state: more than lanes of a subgroup would not part any of them.
const MOST_REPLICAS: u32 = 32;

/// A table up to this size is gathered as rows come, on an H200 (60 MB of L2 cache).
const CACHED_BYTES: u64 = 32 << 20;
/// Small, so that tests come to larger ones.
const SOFTWARE_CACHED_BYTES: u64 = 128 << 10;

/// The shared tier's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) slots: u32,
    pub(super) replicas: u32,
}

/// The number of invocations in a workgroup.
pub(super) fn workgroup_size(info: &DeviceInfo) -> u32 {
    match info.software {
        true => SOFTWARE_SIZE,
        false => SIZE.min(info.max_workgroup_size),
    }
}

/// The shared tier for about `groups` groups, if their states fit.
pub(super) fn local(info: &DeviceInfo, plan: &Accumulators, groups: u64) -> Option<Local> {
    let slots_for = |each: u64| (each * groups).next_power_of_two().clamp(16, 1 << 20) as u32;
    let bytes =
        |slots: u32, replicas: u32| slots * (12 + replicas * (4 * plan.limbs + 8 * plan.extremes));
    // Some workgroup memory is taken by collectives.
    let most = MOST_BYTES.min(info.workgroup_memory.saturating_sub(2 << 10));
    let mut slots = slots_for(2);
    if u64::from(slots) < 2 * groups || bytes(slots, 1) > most {
        return None;
    }
    let roomy = ROOMY_BYTES.min(most);
    let mut replicas = 1;
    while replicas < MOST_REPLICAS && bytes(slots, 2 * replicas) <= roomy {
        replicas *= 2;
    }
    // Few groups: a sparser table, in which hardly a row meets another group's slot.
    while slots < slots_for(8) && bytes(2 * slots, replicas) <= roomy {
        slots *= 2;
    }
    Some(Local { slots, replicas })
}

/// Slots of the global table for about `groups` groups.
pub(super) fn table_slots(groups: u64) -> u32 {
    (2 * groups).next_power_of_two().clamp(1 << 12, 1 << 30) as u32
}

/// Whether most touches of a table of `slots` slots would go to memory.
pub(super) fn outgrows_cache(info: &DeviceInfo, slots: u32, plan: &Accumulators) -> bool {
    let most = if info.software {
        SOFTWARE_CACHED_BYTES
    } else {
        CACHED_BYTES
    };
    u64::from(slots) * (12 + 8 * u64::from(plan.words)) > most
}

/// Groups among `rows` rows, of which `sampled` were looked at and held `distinct` keys: the number
/// from which a sample of that size would be expected to draw as many, if all were equally likely.
pub(super) fn estimate(rows: u64, sampled: u64, distinct: u64) -> u64 {
    if sampled >= rows || distinct == 0 {
        return distinct;
    }
    if distinct * 10 >= sampled * 9 {
        return rows;
    }
    let expected = |groups: f64| groups * (1.0 - (-(sampled as f64) / groups).exp());
    let (mut low, mut high) = (distinct as f64, rows as f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if expected(middle) < distinct as f64 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::estimate;

    #[test]
    fn estimates_come_near_uniform_cardinalities() {
        // The expected number of distinct values of 65536 draws, by hand: g (1 - exp(-s / g)).
        assert_eq!(estimate(1 << 30, 65536, 10), 10);
        let thousand = estimate(1 << 30, 65536, 1000);
        assert!((1000..1010).contains(&thousand), "{thousand}");
        let hundred_thousand = estimate(1 << 30, 65536, 48072);
        assert!(
            (95_000..105_000).contains(&hundred_thousand),
            "{hundred_thousand}"
        );
        assert_eq!(estimate(1000, 1000, 7), 7);
        assert_eq!(estimate(1 << 20, 65536, 65536), 1 << 20);
    }
}
