//! `whitewater demo`: TPC-H Q1 and Q6 on the best device and on the CPU.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    catalog::TableProvider,
    datasource::MemTable,
    error::DataFusionError,
    physical_plan::{ExecutionPlan, displayable},
    prelude::SessionContext,
};
use whitewater::gpu::Device;
use whitewater_datafusion::{GpuTable, OnCpuExec, SessionOptions, session};

use crate::{
    Error, Result,
    args::{DemoOptions, Format},
    compare::difference,
    device::title,
    output,
    progress::Progress,
    tpch::{self, Q1, Q6},
};

/// Timed runs of a query, after the one that compiles its kernels.
const RUNS: usize = 3;

/// Most rows of a batch in GPU memory.
const BATCH_ROWS: usize = 64 << 20;

/// Makes the data, runs both queries and prints what was seen.
pub async fn run(options: DemoOptions) -> Result<()> {
    let device = options.device.device.open()?;
    let (schema, batches) = tpch::lineitem(options.scale, None)?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut report = format!(
        "TPC-H lineitem at scale {}: {rows} rows, made in memory\n",
        options.scale
    );
    let host_table = Arc::new(MemTable::try_new(schema.clone(), vec![batches.clone()])?);
    let cpu = Place::new("CPU (DataFusion)", None, host_table.clone())?;
    let mut gpu = Vec::new();
    if let Some(device) = &device {
        let title = title(device.info());
        let resident = GpuTable::load(device, &schema, batches, BATCH_ROWS)?;
        gpu = vec![
            Place::new(
                format!("{title}, table in its memory"),
                Some(device),
                Arc::new(resident),
            )?,
            Place::new(
                format!("{title}, upload included"),
                Some(device),
                host_table,
            )?,
        ];
    }
    for (name, sql) in [("Q1", Q1), ("Q6", Q6)] {
        report += &format!("\n{name}\n");
        let spinner = Progress::spinner(format!("{name} on the CPU"));
        let on_cpu = cpu.answer(sql).await?;
        report += &on_cpu.line(&cpu.name);
        for place in &gpu {
            spinner.say(format!("{name} on {}", place.name));
            let on_gpu = place.answer(sql).await?;
            if let Some(difference) = difference(&on_gpu.batches, &on_cpu.batches)? {
                return Err(Error::Disagreement {
                    query: name.into(),
                    device: place.name.clone(),
                    difference,
                });
            }
            report += &on_gpu.line(&place.name);
        }
        if let Some(place) = gpu.last() {
            report += "  the answers agree; where each operator ran:\n";
            operators(&*place.plan(sql).await?, 0, None, &mut report);
        }
        drop(spinner);
        let text = output::render(Format::Table, on_cpu.schema(), &on_cpu.batches)?;
        report += &String::from_utf8_lossy(&text);
    }
    if let Some(device) = &device {
        let profile = device.profile()?;
        report += &format!(
            "\nkernel modules compiled: {} in {:.0} ms; from the cache on disk: {}\n",
            profile.compilations,
            profile.compile_time.as_secs_f64() * 1e3,
            profile.cache_hits
        );
    }
    output::write(report.as_bytes()).map_err(Error::Output)
}

/// Where queries run: a session with the table `lineitem`.
struct Place {
    name: String,
    ctx: SessionContext,
}

impl Place {
    fn new(
        name: impl Into<String>,
        device: Option<&Device>,
        lineitem: Arc<dyn TableProvider>,
    ) -> Result<Self> {
        let ctx = session(SessionOptions {
            device: device.cloned(),
            ..Default::default()
        });
        ctx.register_table("lineitem", lineitem)?;
        Ok(Self {
            name: name.into(),
            ctx,
        })
    }

    async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        self.ctx.sql(sql).await?.create_physical_plan().await
    }

    async fn answer(&self, sql: &str) -> Result<Outcome, DataFusionError> {
        let run = async || {
            let start = Instant::now();
            let frame = self.ctx.sql(sql).await?;
            let schema = frame.schema().inner().clone();
            let batches = frame.collect().await?;
            Ok::<_, DataFusionError>((start.elapsed(), schema, batches))
        };
        let (first, schema, mut batches) = run().await?;
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let (time, _, again) = run().await?;
            batches = again;
            times.push(time);
        }
        times.sort();
        Ok(Outcome {
            schema,
            batches,
            first,
            median: times[RUNS / 2],
        })
    }
}

/// A query's answer and its times.
struct Outcome {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The first run, with planning and the compilation of kernels.
    first: Duration,
    /// The median of the runs after it.
    median: Duration,
}

impl Outcome {
    fn line(&self, place: &str) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        format!(
            "  {place}: {:.1} ms (first run {:.1} ms)\n",
            ms(self.median),
            ms(self.first)
        )
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Adds the plan as a tree of operators, each with its place and, on the CPU, the reason for it.
fn operators(plan: &dyn ExecutionPlan, depth: usize, reason: Option<&str>, text: &mut String) {
    if let Some(mark) = plan.downcast_ref::<OnCpuExec>() {
        for child in plan.children() {
            operators(&**child, depth, Some(mark.reason()), text);
        }
        return;
    }
    let (place, what) = match plan.name().starts_with("Gpu") {
        true => ("GPU", displayable(plan).one_line().to_string()),
        false => ("CPU", plan.name().to_string()),
    };
    let indent = "  ".repeat(depth);
    *text += &format!("    {place}  {indent}{}", what.trim_end());
    if let Some(reason) = reason {
        *text += &format!(" ({reason})");
    }
    *text += "\n";
    for child in plan.children() {
        operators(&**child, depth + 1, None, text);
    }
}
