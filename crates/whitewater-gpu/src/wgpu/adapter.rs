//! Finding adapters, judging whether they can run our kernels, and opening one.

use ::wgpu::{Adapter, Backends, DeviceType, Features as Wanted, Instance, InstanceDescriptor};

use crate::{Backend, DeviceInfo, Error, Features, Result, Selection};

/// Multiprocessors to assume where the interface does not tell: enough to fill a large GPU.
const ASSUMED_MULTIPROCESSORS: u32 = 128;

fn backends(selection: Selection) -> Backends {
    match selection {
        Selection::Vulkan => Backends::VULKAN,
        Selection::Metal => Backends::METAL,
        Selection::Dx12 => Backends::DX12,
        _ => Backends::VULKAN | Backends::METAL | Backends::DX12,
    }
}

/// Without these no kernel of ours runs.
fn required() -> Wanted {
    Wanted::SHADER_INT64 | Wanted::SHADER_F64 | Wanted::SUBGROUP
}

/// These are used where they are there.
fn optional() -> Wanted {
    Wanted::SHADER_INT64_ATOMIC_ALL_OPS
        | Wanted::SHADER_INT64_ATOMIC_MIN_MAX
        | Wanted::SUBGROUP_BARRIER
        | Wanted::TIMESTAMP_QUERY
        | Wanted::PIPELINE_CACHE
}

fn describe(adapter: &Adapter) -> Result<DeviceInfo, String> {
    let about = adapter.get_info();
    let limits = adapter.limits();
    let features = adapter.features();
    let missing = required() - features;
    if !missing.is_empty() {
        return Err(format!("{} lacks {missing}", about.name));
    }
    let software = about.device_type == DeviceType::Cpu;
    Ok(DeviceInfo {
        name: about.name,
        backend: match about.backend {
            ::wgpu::Backend::Metal => Backend::Metal,
            ::wgpu::Backend::Dx12 => Backend::Dx12,
            _ => Backend::Vulkan,
        },
        driver: format!("{} {}", about.driver, about.driver_info),
        architecture: None,
        software,
        memory_bytes: 0,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
        workgroup_memory: limits.max_compute_workgroup_storage_size,
        max_workgroup_size: limits.max_compute_invocations_per_workgroup,
        max_workgroups: limits.max_compute_workgroups_per_dimension,
        subgroup_size: (about.subgroup_min_size, about.subgroup_max_size),
        multiprocessors: if software { 2 } else { ASSUMED_MULTIPROCESSORS },
        features: Features {
            int64: true,
            int64_atomics: features.contains(Wanted::SHADER_INT64_ATOMIC_ALL_OPS),
            float64: true,
            subgroups: true,
            forward_progress: about.driver == "llvmpipe" && one_workgroup_at_a_time(),
            timestamps: features.contains(Wanted::TIMESTAMP_QUERY),
        },
    })
}

/// Whether Mesa's software driver is told to run workgroups one after the other: then one never waits for
/// another that has started. With several threads it may, and the driver ends loops after 65535 turns.
fn one_workgroup_at_a_time() -> bool {
    std::env::var("LP_NUM_THREADS").is_ok_and(|threads| threads == "0" || threads == "1")
}

/// True where an adapter of `device_type` answers to `selection`.
fn answers(selection: Selection, device_type: DeviceType) -> bool {
    (selection == Selection::Software) == (device_type == DeviceType::Cpu)
}

/// The adapters of the kind asked for: usable ones described, others with their reason.
fn candidates(selection: Selection) -> Vec<(Adapter, Result<DeviceInfo, String>)> {
    let mut descriptor = InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends(selection);
    let instance = Instance::new(descriptor);
    let found = pollster::block_on(instance.enumerate_adapters(backends(selection)));
    found
        .into_iter()
        .filter(|adapter| answers(selection, adapter.get_info().device_type))
        .map(|adapter| {
            let info = describe(&adapter);
            (adapter, info)
        })
        .collect()
}

fn none(selection: Selection) -> String {
    match selection {
        Selection::Software => {
            "no driver that runs on the CPU is installed (Debian: mesa-vulkan-drivers)".into()
        }
        Selection::Metal => "Metal is there on Apple systems only".into(),
        Selection::Dx12 => "DX12 is there on Windows only".into(),
        _ => "no hardware adapter was found".into(),
    }
}

/// Looks for usable adapters of the kind asked for.
pub(crate) fn enumerate(selection: Selection) -> Result<Vec<DeviceInfo>, String> {
    let (usable, unusable): (Vec<_>, Vec<_>) = candidates(selection)
        .into_iter()
        .map(|(_, info)| info)
        .partition(Result::is_ok);
    let usable: Vec<_> = usable.into_iter().flatten().collect();
    if !usable.is_empty() {
        return Ok(usable);
    }
    Err(unusable
        .into_iter()
        .find_map(Result::err)
        .unwrap_or_else(|| none(selection)))
}

/// The best usable adapter: discrete before integrated.
pub(super) fn find(selection: Selection) -> Result<(Adapter, DeviceInfo)> {
    let mut reason = none(selection);
    let mut usable = Vec::new();
    for (adapter, info) in candidates(selection) {
        match info {
            Ok(info) => usable.push((adapter, info)),
            Err(why) => reason = why,
        }
    }
    usable.sort_by_key(|(adapter, _)| match adapter.get_info().device_type {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        _ => 2,
    });
    usable.into_iter().next().ok_or(Error::NoDevice {
        selection: selection.to_string(),
        reason,
    })
}

/// Opens `adapter` with everything of it that kernels may use.
pub(super) fn open(
    adapter: &Adapter,
    selection: Selection,
) -> Result<(::wgpu::Device, ::wgpu::Queue)> {
    pollster::block_on(adapter.request_device(&::wgpu::DeviceDescriptor {
        label: Some("whitewater"),
        required_features: adapter.features() & (required() | optional()),
        required_limits: adapter.limits(),
        memory_hints: ::wgpu::MemoryHints::Performance,
        ..Default::default()
    }))
    .map_err(|error| Error::NoDevice {
        selection: selection.to_string(),
        reason: error.to_string(),
    })
}
