//! Which device a command runs on, and the list of what there is.

use std::{fmt, io::Write, str::FromStr};

use whitewater::gpu::{self, Device, DeviceInfo, Selection};

use crate::{Error, Result};

/// A device of the GPU layer, or DataFusion on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    Gpu(Selection),
    Cpu,
}

impl FromStr for DeviceChoice {
    type Err = gpu::Error;

    fn from_str(name: &str) -> Result<Self, gpu::Error> {
        let name = name.trim().to_ascii_lowercase();
        match name.as_str() {
            "cpu" => Ok(DeviceChoice::Cpu),
            _ => Ok(DeviceChoice::Gpu(name.parse()?)),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Gpu(selection) => selection.fmt(f),
            DeviceChoice::Cpu => f.write_str("cpu"),
        }
    }
}

impl DeviceChoice {
    /// The device to use; `None` is the CPU. Where `auto` finds no GPU, a line on standard error
    /// says so; a device that was asked for by name is an error where it is missing.
    pub fn open(self) -> Result<Option<Device>> {
        match self {
            DeviceChoice::Cpu => Ok(None),
            DeviceChoice::Gpu(selection) => match Device::open(selection) {
                Ok(device) => Ok(Some(device)),
                Err(gpu::Error::NoDevice { reason, .. }) if selection == Selection::Auto => {
                    let reason = crate::error::one_line(&reason);
                    let _ = writeln!(
                        std::io::stderr(),
                        "note: no GPU is usable, running on the CPU ({reason})"
                    );
                    Ok(None)
                }
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// A device's name and interface, such as `NVIDIA H200 (cuda)`.
pub fn title(info: &DeviceInfo) -> String {
    format!("{} ({})", info.name, info.backend)
}

/// Prints every kind of device with what was found of it.
pub fn list() -> Result<()> {
    let mut text = String::new();
    for kind in gpu::enumerate() {
        match kind.found {
            Ok(devices) if devices.is_empty() => {
                text += &format!("{}: none found\n", kind.selection);
            }
            Ok(devices) => {
                for info in devices {
                    text += &describe(kind.selection, &info);
                }
            }
            Err(reason) => {
                let reason = crate::error::one_line(&reason);
                text += &format!("{}: not usable: {reason}\n", kind.selection);
            }
        }
    }
    text += "cpu: always usable (DataFusion)\n";
    crate::output::write(text.as_bytes()).map_err(Error::Output)
}

fn describe(selection: Selection, info: &DeviceInfo) -> String {
    let mut lines = vec![format!("{selection}: {}", info.name)];
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<20}{value}"));
    line("driver", info.driver.clone());
    if let Some(architecture) = &info.architecture {
        line("architecture", architecture.clone());
    }
    line(
        "memory",
        match info.memory_bytes {
            0 => "not told by the driver".into(),
            bytes => format_bytes(bytes),
        },
    );
    line("largest binding", format_bytes(info.max_binding_bytes));
    line(
        "workgroup",
        format!(
            "up to {} invocations, {} of memory",
            info.max_workgroup_size,
            format_bytes(info.workgroup_memory.into())
        ),
    );
    let (least, most) = info.subgroup_size;
    line(
        "subgroup",
        if least == most {
            format!("{most}")
        } else {
            format!("{least} to {most}")
        },
    );
    let features = &info.features;
    let named = [
        ("64-bit integers", features.int64),
        ("64-bit atomics", features.int64_atomics),
        ("double precision", features.float64),
        ("subgroups", features.subgroups),
        ("forward progress", features.forward_progress),
        ("timestamps", features.timestamps),
    ];
    let list = |there: bool| {
        let names: Vec<_> = named.iter().filter(|f| f.1 == there).map(|f| f.0).collect();
        names.join(", ")
    };
    line("has", list(true));
    if named.iter().any(|f| !f.1) {
        line("lacks", list(false));
    }
    lines.join("\n") + "\n"
}

/// A number of bytes for reading, such as `4 GiB` or `1.5 MiB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() >= 0.05 && value.fract() < 0.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_bytes(4 << 30), "4 GiB");
        assert_eq!(format_bytes(3 << 19), "1.5 MiB");
    }

    #[test]
    fn every_choice_reads_back() {
        for name in ["auto", "cuda", "vulkan", "metal", "dx12", "software", "cpu"] {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        let unknown = "gpu9".parse::<DeviceChoice>().unwrap_err().to_string();
        assert!(unknown.contains("gpu9"));
    }
}
