//! Device code: the modules that kernels import, layered subgroup, workgroup, device, and the
//! library that links them with the operators' kernels.

#[cfg(test)]
pub(crate) mod tests;

use whitewater_gpu::Library;

/// Every WESL module of the engine.
pub static LIBRARY: Library = Library {
    modules: &[
        (
            "package::aggregate::reduce",
            include_str!("../aggregate/reduce.wesl"),
        ),
        (
            "package::bitmask::bitmask",
            include_str!("../bitmask/bitmask.wesl"),
        ),
        (
            "package::gather::concat",
            include_str!("../gather/concat.wesl"),
        ),
        (
            "package::groupby::estimate",
            include_str!("../groupby/estimate.wesl"),
        ),
        (
            "package::groupby::local",
            include_str!("../groupby/local.wesl"),
        ),
        (
            "package::groupby::sample",
            include_str!("../groupby/sample.wesl"),
        ),
        (
            "package::groupby::bytes",
            include_str!("../groupby/bytes.wesl"),
        ),
        ("package::sort::encode", include_str!("../sort/encode.wesl")),
        ("package::sort::radix", include_str!("../sort/radix.wesl")),
        ("package::sort::span", include_str!("../sort/span.wesl")),
        ("package::sort::ties", include_str!("../sort/ties.wesl")),
        ("package::sort::top", include_str!("../sort/top.wesl")),
        ("package::scan::scan", include_str!("../scan/scan.wesl")),
        (
            "package::select::select",
            include_str!("../select/select.wesl"),
        ),
        (
            "package::select::evaluate",
            include_str!("../select/evaluate.wesl"),
        ),
        (
            "package::gather::bytes",
            include_str!("../gather/bytes.wesl"),
        ),
        (
            "package::groupby::table",
            include_str!("../groupby/table.wesl"),
        ),
        (
            "package::groupby::global",
            include_str!("../groupby/global.wesl"),
        ),
        (
            "package::groupby::shared",
            include_str!("../groupby/shared.wesl"),
        ),
        ("package::kernels::bits", include_str!("bits.wesl")),
        ("package::kernels::errors", include_str!("errors.wesl")),
        ("package::kernels::exact", include_str!("exact.wesl")),
        ("package::kernels::float", include_str!("float.wesl")),
        ("package::kernels::hash", include_str!("hash.wesl")),
        ("package::kernels::int128", include_str!("int128.wesl")),
        (
            "package::kernels::look_back",
            include_str!("look_back.wesl"),
        ),
        ("package::kernels::order", include_str!("order.wesl")),
        ("package::kernels::pack", include_str!("pack.wesl")),
        ("package::kernels::running", include_str!("running.wesl")),
        ("package::kernels::subgroup", include_str!("subgroup.wesl")),
        (
            "package::kernels::workgroup",
            include_str!("workgroup.wesl"),
        ),
    ],
    intrinsics: &[crate::expr::INTRINSICS],
};
