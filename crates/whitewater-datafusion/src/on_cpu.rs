//! The mark on a CPU node: why it is not on the GPU.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, metrics::MetricsSet,
    },
};

/// A node that passes its input through unchanged, and tells in EXPLAIN why the input is a CPU node.
#[derive(Debug)]
pub struct OnCpuExec {
    input: Arc<dyn ExecutionPlan>,
    reason: String,
}

impl OnCpuExec {
    /// `input`, with the reason why it stays on the CPU.
    pub fn new(input: Arc<dyn ExecutionPlan>, reason: impl Into<String>) -> Self {
        Self {
            input,
            reason: reason.into(),
        }
    }

    /// Why the input is on the CPU.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl DisplayAs for OnCpuExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnCpuExec: {}", self.reason)
    }
}

impl ExecutionPlan for OnCpuExec {
    fn name(&self) -> &str {
        "OnCpuExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(Self::new(input, self.reason.clone())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        None
    }
}
