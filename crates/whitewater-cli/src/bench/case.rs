//! A measured case: warm-up, then the median of seven runs.

use std::time::{Duration, Instant};

use whitewater::gpu::Device;

use crate::{Error, Result};

const RUNS: usize = 7;

/// One run of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurement {
    /// Host time from before the first launch until the device is idle.
    pub elapsed: Duration,
    /// Rows of the result, where it has some.
    pub rows_out: Option<u64>,
    /// Bytes that any way of doing it has to move, where that is known.
    pub bytes: Option<u64>,
}

/// Something to measure. `run` does it once on inputs that are already on the device.
pub struct Case {
    /// The name of the recorded peer.
    pub name: String,
    pub run: Box<dyn FnMut() -> Result<Measurement>>,
}

/// The runs of a case, summed up.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    pub median_ms: f64,
    pub least_ms: f64,
    pub rows_out: Option<u64>,
    pub bytes: Option<u64>,
}

impl Case {
    /// Warms up (kernels compile then), runs seven times and takes the median.
    pub fn measure(&mut self) -> Result<Summary> {
        let mut last = (self.run)()?;
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let measured = (self.run)()?;
            if measured.rows_out != last.rows_out {
                return Err(Error::Case {
                    case: self.name.clone(),
                    reason: format!(
                        "two runs gave {:?} and {:?} rows",
                        last.rows_out, measured.rows_out
                    ),
                });
            }
            times.push(measured.elapsed);
            last = measured;
        }
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(Summary {
            median_ms: ms(times[RUNS / 2]),
            least_ms: ms(times[0]),
            rows_out: last.rows_out,
            bytes: last.bytes,
        })
    }
}

impl Summary {
    /// Bytes moved a nanosecond, by the median.
    pub fn gb_per_s(&self) -> Option<f64> {
        let bytes = self.bytes? as f64;
        (self.median_ms > 0.0).then(|| bytes / self.median_ms / 1e6)
    }
}

/// Time of `work` on an idle device until the device is idle again, and what `work` returns.
/// What it returns is dropped by the caller, after the clock has stopped.
pub fn timed<T, E>(device: &Device, work: impl FnOnce() -> Result<T, E>) -> Result<(Duration, T), E>
where
    E: From<whitewater::gpu::Error>,
{
    device.synchronize()?;
    let start = Instant::now();
    let value = work()?;
    device.synchronize()?;
    Ok((start.elapsed(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_leaves_the_warm_up_out() {
        let mut times = [900, 7, 1, 6, 2, 5, 3, 4].into_iter();
        let mut case = Case {
            name: "counted".into(),
            run: Box::new(move || {
                Ok(Measurement {
                    elapsed: Duration::from_millis(times.next().unwrap_or_default()),
                    rows_out: Some(3),
                    bytes: Some(4_000_000),
                })
            }),
        };
        let summary = case.measure().unwrap();
        assert_eq!((summary.median_ms, summary.least_ms), (4.0, 1.0));
        assert_eq!(summary.gb_per_s(), Some(1.0));
    }

    #[test]
    fn runs_that_disagree_are_an_error() {
        let mut rows = 0;
        let mut case = Case {
            name: "unstable".into(),
            run: Box::new(move || {
                rows += 1;
                Ok(Measurement {
                    rows_out: Some(rows),
                    ..Default::default()
                })
            }),
        };
        assert!(case.measure().unwrap_err().to_string().contains("unstable"));
    }
}
