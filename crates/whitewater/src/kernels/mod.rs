//! Device code: the modules that kernels import, layered subgroup, workgroup, device, and the
//! library that links them with the operators' kernels.

#[cfg(test)]
pub(crate) mod tests;

use whitewater_gpu::Library;

/// `folder: file, …;` as WESL modules `package::folder::file` with their texts.
macro_rules! modules {
    ($($folder:ident: $($file:ident),+;)+) => {
        &[$($((
            concat!("package::", stringify!($folder), "::", stringify!($file)),
            include_str!(concat!("../", stringify!($folder), "/", stringify!($file), ".wesl")),
        ),)+)+]
    };
}

/// Every WESL module of the engine.
pub static LIBRARY: Library = Library {
    modules: modules! {
        aggregate: held, reduce;
        bitmask: bitmask;
        gather: bytes, concat, maps;
        groupby: bytes, estimate, global, local, number, ordered, sample, shared, table;
        join: condition, insert, marks, matches, nested, pairs, probe, range, runs, sentinels, slot, tiles, window;
        kernels: bits, digit_bins, errors, exact, float, hash, int128, look_back, multisplit, order, pack, running, subgroup,
            workgroup;
        partition: number, offsets;
        scan: scan;
        select: evaluate, select;
        sort: compare, encode, number, quantile, radix, rank, settle, span, ties, top;
        window: walk, window;
    },
    intrinsics: &[crate::expr::INTRINSICS],
};
