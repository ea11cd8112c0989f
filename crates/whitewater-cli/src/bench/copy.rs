//! Copies from device memory to device memory: the rate that everything else is held against.

use super::{Case, Context, MakeCase, Measurement, timed};
use crate::{Result, device::format_bytes};

pub fn cases(_: &Context) -> Vec<MakeCase> {
    vec![Box::new(device_to_device)]
}

/// `copy 4GiB d2d`, or eight bytes a row where the rows are given.
fn device_to_device(context: &Context) -> Result<Case> {
    let bytes = context.rows_or((4 << 30) / 8) * 8;
    let device = context.device.clone();
    let from = device.alloc_filled(bytes, 0x5a)?;
    let to = device.alloc(bytes)?;
    Ok(Case {
        name: format!("copy {} d2d", format_bytes(bytes).replace(' ', "")),
        run: Box::new(move || {
            let (elapsed, ()) = timed(&device, || device.copy(&from, &to, bytes))?;
            Ok(Measurement {
                elapsed,
                rows_out: None,
                // Read once and written once.
                bytes: Some(2 * bytes),
            })
        }),
    })
}
