//! The optimizer rule: islands to the GPU, reasons to the rest.

use std::sync::Arc;

use datafusion::{
    common::{Result, config::ConfigOptions},
    physical_expr::Partitioning,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        aggregates::{AggregateExec, AggregateMode},
        filter::FilterExec,
        projection::ProjectionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};
use whitewater::gpu::Device;

use crate::{
    GpuExec, OnCpuExec, OnOutOfMemory,
    exec::is_on_device,
    island::{FEW, Island, Work},
    join::is_join,
    partitions::Wanted,
    rows::{Rows, below_exchange, passes_rows_on},
    window::{follows_an_order, is_window},
};

/// Moves every island of a plan to the GPU, whole or not at all; a scan feeds it by upload unless its
/// table is on the device. Filters and projections alone are worth an upload only if they compute
/// something.
#[derive(Debug)]
pub struct GpuRule {
    device: Device,
    batch_rows: usize,
    on_out_of_memory: OnOutOfMemory,
}

impl GpuRule {
    /// The rule for `device`, uploading at most `batch_rows` rows together.
    pub fn new(device: Device, batch_rows: usize, on_out_of_memory: OnOutOfMemory) -> Self {
        Self {
            device,
            batch_rows,
            on_out_of_memory,
        }
    }

    fn convert(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        wanted: Wanted,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut reason = match self.on_gpu(&plan, wanted)? {
            Ok(converted) => return Ok(converted),
            Err(reason) => reason,
        };
        let converted = self.children(plan.clone(), wanted)?;
        match self.over_device_rows(&plan, &converted, wanted)? {
            Some(Ok(node)) => return Ok(node),
            Some(Err(apart)) => reason = Some(apart),
            None => {}
        }
        Ok(match reason {
            Some(reason) => Arc::new(OnCpuExec::new(converted, reason)),
            None => converted,
        })
    }

    /// `plan` with its topmost nodes on the GPU; else why not, if there is something to say.
    fn on_gpu(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        wanted: Wanted,
    ) -> Result<Result<Arc<dyn ExecutionPlan>, Option<String>>> {
        let before = plan.output_partitioning();
        // Rows in order can be one partition, but not be parted anew.
        let together = matches!(wanted, Wanted::Any | Wanted::Device);
        let converted = if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            match wanted {
                // The groups may be few: they are spread only where a key asks for it.
                Wanted::Many => return self.on_gpu(plan, Wanted::Any),
                _ => self.aggregate(aggregate)?,
            }
        } else if plan.downcast_ref::<SortExec>().is_some()
            || plan.downcast_ref::<SortPreservingMergeExec>().is_some()
        {
            match Island::sort(plan, together) {
                Ok(Some(island)) => self.in_place(island, Wanted::Device)?,
                // A merge does no work of its own: its sort says why.
                Err(reason) if plan.downcast_ref::<SortExec>().is_some() => Err(reason),
                _ => return Ok(Err(None)),
            }
        } else if let Some(node) = self.early_end(plan)? {
            Ok(node)
        } else if plan.downcast_ref::<FilterExec>().is_some()
            || plan.downcast_ref::<ProjectionExec>().is_some()
        {
            let node = match Island::select(plan) {
                Ok(island) => self.in_place(island, wanted)?,
                Err(reason) => Err(reason),
            };
            if node.is_err() && Rows::of_node(plan).is_ok_and(|rows| rows.pass_on()) {
                return Ok(Err(None));
            }
            node
        } else if is_join(plan) {
            self.join(plan)?
        } else if is_window(plan) {
            if !together && before.partition_count() > 1 {
                return Ok(Err(Some("sorted partitions stay apart on the CPU".into())));
            }
            self.window(plan)?
        } else if passes_rows_on(plan).is_some() || plan.children().is_empty() {
            return Ok(Err(None));
        } else {
            return Ok(Err(reason_of(plan.name())));
        };
        Ok(match converted {
            Ok(node) => in_place_of(before, node, wanted)?.map_err(Some),
            Err(reason) => Err(Some(reason)),
        })
    }

    /// The GPU node for the join at the top of `plan`, in the order that the nodes above count on, or why not.
    fn join(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Result<Arc<dyn ExecutionPlan>, String>> {
        let island = match Island::join(plan) {
            Ok(Some(island)) => island,
            Ok(None) => return Ok(Err("a join without sides is not on the GPU".into())),
            Err(reason) => return Ok(Err(reason)),
        };
        let order = match plan.output_ordering().map(|o| Island::in_order(plan, o)) {
            Some(Ok(order)) => Some(order),
            Some(Err(reason)) => return Ok(Err(reason)),
            None => None,
        };
        let joined = self.node(island)?;
        Ok(Ok(match order {
            Some(order) => self.node_over(order, vec![joined]),
            None => joined,
        }))
    }

    /// The GPU node for the window at the top of `plan`, or why not.
    fn window(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Result<Arc<dyn ExecutionPlan>, String>> {
        let mut island = match Island::window(plan) {
            Ok(Some(island)) => island,
            Ok(None) => return Ok(Err("a window is not on the GPU".into())),
            Err(reason) => return Ok(Err(reason)),
        };
        let sources = self.sources(&island)?;
        // Rows that are in order on the device are so without another sort.
        let in_order = |source: &Arc<dyn ExecutionPlan>| {
            is_on_device(source) && source.output_ordering().is_some()
        };
        if let Work::Window { sort, .. } = &mut island.work
            && follows_an_order(plan)
            && sources.iter().all(in_order)
        {
            sort.clear();
        }
        Ok(Ok(self.node_over(island, sources)))
    }

    /// `plan` over converted children.
    fn children(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        wanted: Wanted,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children().into_iter().cloned().collect::<Vec<_>>();
        if children.is_empty() {
            return Ok(plan);
        }
        let converted = children
            .into_iter()
            .enumerate()
            .map(|(index, child)| self.convert(child, wanted.of_child(&plan, index)))
            .collect::<Result<Vec<_>>>()?;
        #[expect(
            deprecated,
            reason = "the successor wants to know whether properties change"
        )]
        plan.with_new_children(converted)
    }

    /// The GPU node for an island, over its converted sources.
    fn node(&self, island: Island) -> Result<Arc<dyn ExecutionPlan>> {
        let sources = self.sources(&island)?;
        Ok(self.node_over(island, sources))
    }

    /// As [`node`](Self::node), or why not: some islands are worth it only between nodes on the device.
    fn in_place(
        &self,
        island: Island,
        wanted: Wanted,
    ) -> Result<Result<Arc<dyn ExecutionPlan>, String>> {
        if island.only_in_place && wanted != Wanted::Device {
            return Ok(Err(FEW.into()));
        }
        let sources = self.sources(&island)?;
        if island.only_in_place && !sources.iter().all(is_on_device) {
            return Ok(Err(FEW.into()));
        }
        Ok(Ok(self.node_over(island, sources)))
    }

    fn sources(&self, island: &Island) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let sources = island.sources.iter();
        sources
            .map(|source| self.convert(source.clone(), Wanted::Device))
            .collect()
    }

    fn node_over(
        &self,
        island: Island,
        sources: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(GpuExec::new(
            self.device.clone(),
            island,
            sources,
            self.batch_rows,
            self.on_out_of_memory,
        ))
    }

    /// The GPU node for the limit or union `plan`, which has become `converted`, if all of its rows are on the
    /// device anyway; or why not, though they are.
    fn over_device_rows(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        converted: &Arc<dyn ExecutionPlan>,
        wanted: Wanted,
    ) -> Result<Option<Result<Arc<dyn ExecutionPlan>, String>>> {
        let Some(island) = Island::limit(plan).or_else(|| Island::union(plan)) else {
            return Ok(None);
        };
        let sources = converted.children().into_iter().map(below_exchange);
        let sources: Vec<_> = sources.cloned().collect();
        if !sources.iter().all(is_on_device) {
            return Ok(None);
        }
        if sources.len() > 1 && plan.output_ordering().is_some() {
            // Each is in order, all of them together are not.
            return Ok(Some(Err("sorted partitions stay apart on the CPU".into())));
        }
        let node = self.node_over(island, sources);
        in_place_of(plan.output_partitioning(), node, wanted).map(Some)
    }

    /// The GPU node for a filter or join of resident rows that ends early, if all of it can be there. Where rows
    /// would be uploaded for it, it does less on the CPU.
    fn early_end(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(island) = Island::early_end(plan).filter(|_| starts_on_device(plan)) else {
            return Ok(None);
        };
        let node = self.node(island)?;
        let resident = node
            .downcast_ref::<GpuExec>()
            .is_some_and(GpuExec::is_resident);
        Ok(resident.then_some(node))
    }

    /// A whole aggregation on the GPU; or, where the device cannot finish the groups, the CPU's final one over a
    /// partial one there; or the reason why not.
    fn aggregate(
        &self,
        aggregate: &AggregateExec,
    ) -> Result<Result<Arc<dyn ExecutionPlan>, String>> {
        let partial = match aggregate.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => AggregateExec::try_new(
                AggregateMode::Partial,
                aggregate.group_expr().clone(),
                aggregate.aggr_expr().to_vec(),
                aggregate.filter_expr().to_vec(),
                aggregate.input().clone(),
                aggregate.input_schema(),
            )?,
            AggregateMode::Final | AggregateMode::FinalPartitioned => {
                match below_exchange(aggregate.input()).downcast_ref::<AggregateExec>() {
                    Some(partial) if *partial.mode() == AggregateMode::Partial => partial.clone(),
                    _ => return Ok(Err("its partial aggregation is not below it".into())),
                }
            }
            _ => {
                return Ok(Err(
                    "a partial aggregation stays beside its final one".into()
                ));
            }
        };
        let island = match Island::aggregate(&partial) {
            Ok(island) => island,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(finished) = island.finished(aggregate) {
            return Ok(Ok(self.node(finished)?));
        }
        let input = self.node(island)?;
        let last = AggregateExec::try_new(
            AggregateMode::Final,
            partial.group_expr().as_final(),
            partial.aggr_expr().to_vec(),
            vec![None; partial.aggr_expr().len()],
            input,
            partial.input_schema(),
        )?
        .with_limit_options(aggregate.limit_options());
        Ok(Ok(Arc::new(last)))
    }
}

/// `node` in place of one with the partitions `before`, with what is wanted of them; or why it cannot be there.
fn in_place_of(
    before: &Partitioning,
    node: Arc<dyn ExecutionPlan>,
    wanted: Wanted,
) -> Result<Result<Arc<dyn ExecutionPlan>, String>> {
    if !wanted.can_be_met(before) {
        return Ok(Err("its partitions stay apart on the CPU".into()));
    }
    Ok(Ok(wanted.restore(node, before)?))
}

/// Whether all rows that `plan` starts from are on the device.
fn starts_on_device(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.children().as_slice() {
        [] => is_on_device(plan),
        children => children.iter().all(|child| starts_on_device(child)),
    }
}

/// Why a node of this name is on the CPU; none for nodes that do no work of their own.
fn reason_of(name: &str) -> Option<String> {
    let what = match name {
        "CooperativeExec"
        | "DataSourceExec"
        | "AnalyzeExec"
        | "ExplainExec"
        | "CoalesceBatchesExec"
        | "OutputRequirementExec"
        | "SortPreservingMergeExec"
        | "ScalarSubqueryExec" => return None,
        "SortExec" | "SortExec(TopK)" => "sorting",
        "GlobalLimitExec" | "LocalLimitExec" => "a limit",
        "HashJoinExec"
        | "NestedLoopJoinExec"
        | "CrossJoinExec"
        | "SortMergeJoinExec"
        | "SymmetricHashJoinExec"
        | "PiecewiseMergeJoinExec" => "a join",
        "UnionExec" | "InterleaveExec" => "a union",
        other => other,
    };
    Some(format!("{what} is not on the GPU"))
}

impl PhysicalOptimizerRule for GpuRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.convert(plan, Wanted::Any)
    }

    fn name(&self) -> &str {
        "whitewater"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
