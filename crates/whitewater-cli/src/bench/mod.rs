//! `whitewater bench`: cases against recorded peers.
//!
//! ```text
//! suite ──▶ case ──▶ warm-up, 7 runs ──▶ {"case":…,"ms":…} on standard output
//!                                   └──▶ with --against, a table of ratios on standard error
//! ```
//!
//! A case has the name that its recorded peer has in `bench/anchors/`. It is made, measured and
//! dropped before the next one is made, so each has the device's memory to itself. To add a case,
//! return it from its suite; to add a suite, write a module beside `copy.rs` and a line in
//! [`SUITES`].

mod against;
mod case;
mod copy;
mod engine;
mod inputs;
mod joins;
mod rows;
mod tpch;

use serde::Serialize;
use whitewater::gpu::Device;

use crate::{
    Error, Result,
    args::{BenchOptions, DeviceOption},
    device::title,
    output,
    progress::Progress,
};
use against::{Comparison, Recorded};
pub use case::{Case, Measurement, timed};

/// What cases are made from.
pub struct Context {
    pub device: Device,
    /// Rows asked for on the command line.
    pub rows: Option<u64>,
}

impl Context {
    /// The number of rows of a case whose recorded peer used `recorded` rows.
    pub fn rows_or(&self, recorded: u64) -> u64 {
        self.rows.unwrap_or(recorded)
    }
}

/// A maker of one case; called right before the case is measured.
pub type MakeCase = Box<dyn FnOnce(&Context) -> Result<Case>>;

/// Cases about one thing.
pub struct Suite {
    pub name: &'static str,
    pub cases: fn(&Context) -> Vec<MakeCase>,
}

/// Every suite, in the order in which they run.
const SUITES: &[Suite] = &[
    Suite {
        name: "copy",
        cases: copy::cases,
    },
    Suite {
        name: "reduce",
        cases: engine::reductions,
    },
    Suite {
        name: "expr",
        cases: engine::expressions,
    },
    Suite {
        name: "filter",
        cases: engine::filters,
    },
    Suite {
        name: "gather",
        cases: rows::gathers,
    },
    Suite {
        name: "scan",
        cases: rows::scans,
    },
    Suite {
        name: "sort",
        cases: rows::sorts,
    },
    Suite {
        name: "partition",
        cases: rows::partitions,
    },
    Suite {
        name: "join",
        cases: joins::cases,
    },
    Suite {
        name: "groupby",
        cases: engine::groups,
    },
    Suite {
        name: "window",
        cases: rows::windows,
    },
    Suite {
        name: "tpch",
        cases: tpch::cases,
    },
];

/// One printed line.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    ms: f64,
    min: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_s: Option<f64>,
    suite: &'a str,
    device: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    against_ms: Option<f64>,
    /// Our time over the recorded one: under 1 is faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// Measures the chosen suites.
pub fn run(options: &BenchOptions) -> Result<()> {
    let suites = chosen(options.suite.as_deref())?;
    let recorded = match &options.against {
        Some(path) => Recorded::read(path)?,
        None => Recorded::default(),
    };
    let context = Context {
        device: open(&options.device)?,
        rows: options.rows,
    };
    let device = title(context.device.info());
    let mut comparison = Comparison::default();
    for suite in suites {
        for make in (suite.cases)(&context) {
            let spinner = Progress::spinner(suite.name);
            let mut case = make(&context)?;
            spinner.say(case.name.clone());
            let summary = case.measure()?;
            drop(spinner);
            let against_ms = recorded.ms(&case.name);
            let ratio = against_ms.map(|peer| summary.median_ms / peer);
            let line = Line {
                case: &case.name,
                ms: round(summary.median_ms),
                min: round(summary.least_ms),
                out: summary.rows_out,
                gb_per_s: summary.gb_per_s().map(round),
                suite: suite.name,
                device: &device,
                against_ms,
                ratio: ratio.map(round),
            };
            let text = serde_json::to_string(&line).map_err(|e| Error::Case {
                case: case.name.clone(),
                reason: e.to_string(),
            })?;
            output::write(format!("{text}\n").as_bytes()).map_err(Error::Output)?;
            comparison.add(&case.name, summary.median_ms, against_ms);
        }
    }
    if let Some(path) = &options.against {
        comparison.print(path);
    }
    Ok(())
}

fn chosen(name: Option<&str>) -> Result<Vec<&'static Suite>> {
    let Some(name) = name else {
        return Ok(SUITES.iter().collect());
    };
    match SUITES.iter().find(|suite| suite.name == name) {
        Some(suite) => Ok(vec![suite]),
        None => Err(Error::UnknownSuite {
            name: name.into(),
            known: SUITES.iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
        }),
    }
}

fn open(option: &DeviceOption) -> Result<Device> {
    option.device.open()?.ok_or(Error::BenchNeedsGpu)
}

/// A figure with microseconds.
fn round(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}
