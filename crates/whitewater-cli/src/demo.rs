//! `whitewater demo`: TPC-H Q1 and Q6 on the best device and on the CPU.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    datasource::MemTable,
    error::DataFusionError,
    physical_plan::{ExecutionPlan, displayable},
    prelude::SessionContext,
};
use whitewater::gpu::Device;

use crate::session::{SessionOptions, session};
use crate::{
    Error, Result,
    args::DemoOptions,
    compare::difference,
    device::title,
    output,
    progress::Progress,
    tpch::{self, Q1, Q6},
};

/// Timed runs of a query, after the one that compiles its kernels.
const RUNS: usize = 3;

/// Makes the data, runs both queries and prints what was seen.
pub async fn run(options: DemoOptions) -> Result<()> {
    let device = options.device.device.open()?;
    let (schema, batches) = tpch::lineitem(options.scale)?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut report = format!(
        "TPC-H lineitem at scale {}: {rows} rows, made in memory\n",
        options.scale
    );
    let cpu = prepared(None, &schema, &batches)?;
    let gpu = match &device {
        Some(device) => Some((device, prepared(Some(device), &schema, &batches)?)),
        None => None,
    };
    for (name, sql) in [("Q1", Q1), ("Q6", Q6)] {
        report += &format!("\n{name}\n");
        let spinner = Progress::spinner(format!("{name} on the CPU"));
        let on_cpu = Outcome::of(&cpu, sql).await?;
        report += &on_cpu.line("CPU (DataFusion)");
        if let Some((device, ctx)) = &gpu {
            spinner.say(format!("{name} on {}", title(device.info())));
            let on_gpu = Outcome::of(ctx, sql).await?;
            report += &on_gpu.line(&title(device.info()));
            report += &format!("  where each operator ran:\n{}", places(&*on_gpu.plan));
            if let Some(difference) = difference(&on_gpu.batches, &on_cpu.batches)? {
                return Err(Error::Disagreement {
                    query: name.into(),
                    device: title(device.info()),
                    difference,
                });
            }
            report += "  the answers agree\n";
        }
        drop(spinner);
        let text = output::render(
            crate::args::Format::Table,
            on_cpu.schema(),
            &on_cpu.batches,
        )?;
        report += &String::from_utf8_lossy(&text);
    }
    output::write(report.as_bytes()).map_err(Error::Output)
}

/// A session that has the table `lineitem`.
fn prepared(
    device: Option<&Device>,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<SessionContext> {
    let ctx = session(SessionOptions {
        device: device.cloned(),
        ..Default::default()
    });
    let table = MemTable::try_new(schema.clone(), vec![batches.to_vec()])?;
    ctx.register_table("lineitem", Arc::new(table))?;
    Ok(ctx)
}

/// A query's answer, its plan and its times.
struct Outcome {
    batches: Vec<RecordBatch>,
    plan: Arc<dyn ExecutionPlan>,
    /// The first run, with planning and the compilation of kernels.
    first: Duration,
    /// The median of the runs after it.
    median: Duration,
}

impl Outcome {
    async fn of(ctx: &SessionContext, sql: &str) -> Result<Self, DataFusionError> {
        let start = Instant::now();
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let mut batches = ctx.sql(sql).await?.collect().await?;
        let first = start.elapsed();
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let start = Instant::now();
            batches = ctx.sql(sql).await?.collect().await?;
            times.push(start.elapsed());
        }
        times.sort();
        Ok(Self {
            batches,
            plan,
            first,
            median: times[RUNS / 2],
        })
    }

    fn line(&self, place: &str) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        format!(
            "  {place}: {:.1} ms (first run {:.1} ms)\n",
            ms(self.median),
            ms(self.first)
        )
    }

    fn schema(&self) -> SchemaRef {
        self.plan.schema()
    }
}

/// The plan as a tree of operators, each with the place where it runs.
fn places(plan: &dyn ExecutionPlan) -> String {
    let mut text = String::new();
    for line in displayable(plan).indent(false).to_string().lines() {
        let operator = line.trim_start();
        let depth = line.len() - operator.len();
        let name: String = operator
            .chars()
            .take_while(|c| c.is_alphanumeric())
            .collect();
        let place = if name.starts_with("Gpu") { "GPU" } else { "CPU" };
        text += &format!("    {place}  {}{name}\n", " ".repeat(depth));
    }
    text
}
