//! Which operators of a plan are on the CPU that ought to be on the GPU.

use datafusion::{
    error::DataFusionError,
    physical_plan::{ExecutionPlan, displayable},
    prelude::SessionContext,
};

/// The operators of the plan that have no business on the CPU, or `None` where there are none.
pub async fn on_cpu(ctx: &SessionContext, sql: &str) -> Result<Option<String>, DataFusionError> {
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let mut operators = Vec::new();
    let mut gpu = false;
    visit(&*plan, &mut operators, &mut gpu);
    if !gpu {
        operators.push("no GPU operator at all".into());
    }
    let tree = displayable(&*plan).indent(false);
    Ok((!operators.is_empty()).then(|| format!("{} in\n{tree}", operators.join(", "))))
}

fn visit(plan: &dyn ExecutionPlan, operators: &mut Vec<String>, gpu: &mut bool) {
    *gpu |= plan.name().starts_with("Gpu");
    if !plan.name().starts_with("Gpu") && !is_scan(plan) && !finishes(plan) {
        operators.push(plan.name().into());
    }
    for child in plan.children() {
        visit(&**child, operators, gpu);
    }
}

fn is_scan(plan: &dyn ExecutionPlan) -> bool {
    plan.children().is_empty()
}

/// Sort, limit and the merge of partial aggregates, with the projection that renames its columns.
fn finishes(plan: &dyn ExecutionPlan) -> bool {
    match plan.name() {
        name if name.starts_with("SortExec") => true,
        "SortPreservingMergeExec"
        | "GlobalLimitExec"
        | "LocalLimitExec"
        | "CoalescePartitionsExec"
        | "CoalesceBatchesExec"
        | "RepartitionExec"
        | "CooperativeExec"
        | "OnCpuExec" => true,
        "AggregateExec" => merges(plan),
        "ProjectionExec" => plan.children().iter().all(|child| above_merge(&***child)),
        _ => false,
    }
}

fn merges(plan: &dyn ExecutionPlan) -> bool {
    one_line(plan).contains("mode=Final")
}

fn one_line(plan: &dyn ExecutionPlan) -> String {
    displayable(plan).one_line().to_string()
}

/// True where the rows come from finished groups or merged aggregates, through operators that keep rows as they are.
fn above_merge(plan: &dyn ExecutionPlan) -> bool {
    match plan.name() {
        "AggregateExec" => merges(plan),
        name if name.starts_with("Gpu") => one_line(plan).contains(", finished"),
        _ => finishes(plan) && plan.children().iter().all(|child| above_merge(&***child)),
    }
}
