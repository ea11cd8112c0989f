//! Every `slt/*.slt` file, run on DataFusion's CPU and on a GPU session.
//!
//! ```text
//! file.slt ─┬─▶ plain DataFusion ──▶ expected values hold        (checks the expectations)
//!           └─▶ GPU session ───────▶ expected values hold        (checks us)
//!                     └── row by row against plain DataFusion, floats within a tolerance
//! ```
//!
//! The expected values are worked out by hand. The GPU session opens the device that
//! `WHITEWATER_TEST_DEVICE` names (default `software`). Tables that SQL cannot make are in
//! `slt/tables.rs`. The comment `# gpu: all` before a query asks that its plan have no CPU operator
//! between the scan and the result, other than the merge of partial aggregates, sort and limit.

#[path = "slt/answer.rs"]
mod answer;
#[path = "slt/placement.rs"]
mod placement;
#[path = "slt/tables.rs"]
mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use answer::{Answer, Kind};
use async_trait::async_trait;
use datafusion::{error::DataFusionError, prelude::SessionContext};
use sqllogictest::{AsyncDB, DBOutput, Record, Runner, parse_file, strict_column_validator};
use whitewater::gpu::{Device, Selection};
use whitewater_datafusion::{SessionOptions, session};

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Query(#[from] DataFusionError),
    #[error("GPU and CPU differ: {0}")]
    Differs(String),
    #[error("one of GPU and CPU fails alone: GPU {gpu}, CPU {cpu}")]
    Alone { gpu: String, cpu: String },
    #[error("not all on the GPU: {0}")]
    OnCpu(String),
}

/// A session under test, and beside a GPU session the CPU session that it must equal.
struct Database {
    session: SessionContext,
    twin: Option<SessionContext>,
    all_on_gpu: Arc<AtomicBool>,
}

impl Database {
    async fn answer(&self, sql: &str) -> Result<Answer, Failure> {
        let all_on_gpu = self.all_on_gpu.swap(false, Ordering::Relaxed);
        let answer = Answer::of(&self.session, sql).await;
        let Some(twin) = &self.twin else {
            return Ok(answer?);
        };
        match (answer, Answer::of(twin, sql).await) {
            (Ok(ours), Ok(theirs)) => {
                if let Some(difference) = ours.difference(&theirs) {
                    return Err(Failure::Differs(difference));
                }
                if all_on_gpu {
                    let on_cpu = placement::on_cpu(&self.session, sql).await?;
                    if let Some(operators) = on_cpu {
                        return Err(Failure::OnCpu(operators));
                    }
                }
                Ok(ours)
            }
            (Err(ours), Err(_)) => Err(ours.into()),
            (ours, theirs) => Err(Failure::Alone {
                gpu: outcome(&ours),
                cpu: outcome(&theirs),
            }),
        }
    }
}

fn outcome(result: &Result<Answer, DataFusionError>) -> String {
    match result {
        Ok(answer) => format!("gave {} rows", answer.rows.len()),
        Err(error) => format!("said '{error}'"),
    }
}

#[async_trait]
impl AsyncDB for Database {
    type Error = Failure;
    type ColumnType = Kind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Kind>, Failure> {
        let answer = self.answer(sql).await?;
        if answer.kinds.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        Ok(DBOutput::Rows {
            rows: answer.text(),
            types: answer.kinds,
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        if self.twin.is_some() { "gpu" } else { "cpu" }
    }
}

/// Runs one file; what went wrong comes back, each with its place.
async fn run_file(path: &Path, device: Option<&Device>) -> Vec<String> {
    let records = match parse_file::<Kind>(path) {
        Ok(records) => records,
        Err(error) => return vec![error.to_string()],
    };
    let all_on_gpu = Arc::<AtomicBool>::default();
    let mut runner = Runner::new(|| async {
        let options = |device| SessionOptions {
            device,
            target_partitions: 2,
            ..Default::default()
        };
        let session_on = async |device| -> Result<SessionContext, Failure> {
            let ctx = session(options(device));
            tables::register(&ctx).await?;
            Ok(ctx)
        };
        let twin = match device {
            Some(_) => Some(session_on(None).await?),
            None => None,
        };
        Ok(Database {
            session: session_on(device.cloned()).await?,
            twin,
            all_on_gpu: all_on_gpu.clone(),
        })
    });
    runner.with_column_validator(strict_column_validator);
    let mut failures = Vec::new();
    for record in records {
        if let Record::Comment(lines) = &record {
            let asked = lines.iter().any(|line| line.trim() == "gpu: all");
            all_on_gpu.fetch_or(asked, Ordering::Relaxed);
        }
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        if let Err(error) = runner.run_async(record).await {
            failures.push(error.display(false).to_string());
        }
    }
    failures
}

/// Runs every file, or those whose name contains `WHITEWATER_TEST_SLT`.
async fn run_all(device: Option<Device>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let wanted = std::env::var("WHITEWATER_TEST_SLT").unwrap_or_default();
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .filter(|path| path.to_string_lossy().contains(&wanted))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .slt file in {}", folder.display());
    let mut failures = Vec::new();
    for file in &files {
        failures.extend(run_file(file, device.as_ref()).await);
    }
    let report = failures.join("\n\n");
    assert!(
        failures.is_empty(),
        "{} failures\n\n{report}",
        failures.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn expectations_hold_on_the_cpu() {
    run_all(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expectations_hold_on_the_gpu() {
    let name = std::env::var("WHITEWATER_TEST_DEVICE").unwrap_or_else(|_| "software".into());
    let selection: Selection = name.parse().unwrap();
    let device = Device::open(selection).unwrap_or_else(|error| panic!("{name}: {error}"));
    run_all(Some(device)).await;
}
