//! Partitions: a GPU node has one, and the CPU nodes above may need more.
//!
//! ```text
//! HashJoinExec (partitioned by key)          HashJoinExec
//!   FilterExec                          ─▶     RepartitionExec: Hash, as the FilterExec was
//!     RepartitionExec: Hash                      GpuExec (one partition)
//! ```

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_expr::{Distribution, Partitioning},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        repartition::RepartitionExec,
        sorts::sort::SortExec,
        sorts::sort_preserving_merge::SortPreservingMergeExec,
        union::{InterleaveExec, UnionExec},
    },
};

/// What the nodes above a node need of its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Any,
    /// Nothing, but that the rows be on the device if that can be.
    Device,
    /// As many as before: the nodes above work on them at once.
    Many,
    /// The same rows in the same partitions: they are apart by a key.
    Keyed,
}

impl Wanted {
    /// What `parent`, of which this is wanted, wants of its child at `index`.
    pub(crate) fn of_child(self, parent: &Arc<dyn ExecutionPlan>, index: usize) -> Self {
        let requirements = parent.input_distribution_requirements();
        let keyed = match requirements.child_distribution(index) {
            Some(Distribution::SinglePartition) => return Wanted::Any,
            None | Some(Distribution::UnspecifiedDistribution) => false,
            Some(_) => true,
        };
        if keyed || parent.downcast_ref::<InterleaveExec>().is_some() {
            return Wanted::Keyed;
        }
        let merges = parent.downcast_ref::<RepartitionExec>().is_some()
            || parent.downcast_ref::<CoalescePartitionsExec>().is_some()
            || parent.downcast_ref::<SortPreservingMergeExec>().is_some();
        if merges {
            return Wanted::Any;
        }
        // The parent itself is on the CPU.
        let wanted = if self == Wanted::Device {
            Wanted::Any
        } else {
            self
        };
        let joins = parent.children().len() > 1 && parent.downcast_ref::<UnionExec>().is_none();
        let works = joins
            || parent.downcast_ref::<AggregateExec>().is_some()
            || parent.downcast_ref::<SortExec>().is_some();
        match works && wanted == Wanted::Any {
            true => Wanted::Many,
            false => wanted,
        }
    }

    /// Whether `node` in place of one with the partitions `before` can be given what is wanted.
    pub(crate) fn can_be_met(self, before: &Partitioning) -> bool {
        let keyed = matches!(before, Partitioning::Hash(_, _)) || before.partition_count() == 1;
        self != Wanted::Keyed || keyed
    }

    /// `node`, of one partition, with what is wanted of the partitions `before`.
    pub(crate) fn restore(
        self,
        node: Arc<dyn ExecutionPlan>,
        before: &Partitioning,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let count = before.partition_count();
        let partitioning = match (self, before) {
            _ if count == node.output_partitioning().partition_count() => return Ok(node),
            (Wanted::Any | Wanted::Device, _) => return Ok(node),
            (_, Partitioning::Hash(keys, count)) if self == Wanted::Keyed => {
                Partitioning::Hash(keys.clone(), *count)
            }
            _ => Partitioning::RoundRobinBatch(count),
        };
        Ok(Arc::new(RepartitionExec::try_new(node, partitioning)?))
    }
}
