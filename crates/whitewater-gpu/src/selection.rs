//! Which device to open, and what there is to choose from.

use std::{fmt, str::FromStr};

use crate::{DeviceInfo, Error, Result, cuda, wgpu};

/// The device that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// CUDA where it is usable, else a hardware adapter of wgpu.
    #[default]
    Auto,
    Cuda,
    Vulkan,
    Metal,
    Dx12,
    /// A driver that runs on the CPU: lavapipe, SwiftShader, WARP.
    Software,
}

impl Selection {
    /// Every selection that names one interface.
    pub const EACH: [Selection; 5] = [
        Selection::Cuda,
        Selection::Vulkan,
        Selection::Metal,
        Selection::Dx12,
        Selection::Software,
    ];
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Selection::Auto => "auto",
            Selection::Cuda => "cuda",
            Selection::Vulkan => "vulkan",
            Selection::Metal => "metal",
            Selection::Dx12 => "dx12",
            Selection::Software => "software",
        })
    }
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Selection::Auto]
            .into_iter()
            .chain(Selection::EACH)
            .find(|s| s.to_string() == name)
            .ok_or_else(|| Error::UnknownSelection { name: name.into() })
    }
}

/// One kind of device and what was found of it.
#[derive(Clone, Debug)]
pub struct Availability {
    pub selection: Selection,
    /// The usable devices, or why there is none.
    pub found: Result<Vec<DeviceInfo>, String>,
}

/// Looks for devices of every kind.
pub fn enumerate() -> Vec<Availability> {
    Selection::EACH
        .into_iter()
        .map(|selection| Availability {
            selection,
            found: match selection {
                Selection::Cuda => cuda::enumerate(),
                _ => wgpu::enumerate(selection),
            },
        })
        .collect()
}
