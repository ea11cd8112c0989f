//! DataFusion's joins in the engine's terms: the left side is the build side, as it is there.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::{
    common::{JoinSide, JoinType, NullEquality},
    physical_expr::PhysicalExprRef,
    physical_plan::{
        ExecutionPlan,
        joins::{
            CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
            SymmetricHashJoinExec, utils::JoinFilter,
        },
    },
};
use whitewater::{
    expr::Expr,
    join::{Join, JoinKey, Kind, Output, Side},
    table::plain_type,
};

use crate::{
    island::{FEW, Island, Work},
    rows::{Rows, below_exchange},
    translate::translate,
};

/// A join node, whichever it is.
struct Node<'a> {
    left: &'a Arc<dyn ExecutionPlan>,
    right: &'a Arc<dyn ExecutionPlan>,
    on: &'a [(PhysicalExprRef, PhysicalExprRef)],
    filter: Option<&'a JoinFilter>,
    join_type: JoinType,
    null_equality: NullEquality,
    null_aware: bool,
    /// Which of the columns of both sides are given.
    projection: Option<Vec<usize>>,
}

/// Whether `plan` is a join.
pub(crate) fn is_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    Node::of(plan).is_some()
}

impl<'a> Node<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                on: join.on(),
                filter: join.filter(),
                join_type: *join.join_type(),
                null_equality: join.null_equality(),
                null_aware: join.null_aware,
                projection: join.projection.as_ref().map(|columns| columns.to_vec()),
            });
        }
        let inner = |left, right| Self {
            left,
            right,
            on: &[],
            filter: None,
            join_type: JoinType::Inner,
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection: None,
        };
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Some(Self {
                filter: join.filter(),
                join_type: *join.join_type(),
                projection: join.projection().as_ref().map(|columns| columns.to_vec()),
                ..inner(join.left(), join.right())
            });
        }
        if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
            return Some(inner(join.left(), join.right()));
        }
        if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            return Some(Self {
                on: join.on(),
                filter: join.filter().as_ref(),
                join_type: join.join_type(),
                null_equality: join.null_equality(),
                ..inner(join.left(), join.right())
            });
        }
        let join = plan.downcast_ref::<SymmetricHashJoinExec>()?;
        Some(Self {
            on: join.on(),
            filter: join.filter(),
            join_type: *join.join_type(),
            null_equality: join.null_equality(),
            ..inner(join.left(), join.right())
        })
    }

    fn kind(&self) -> Kind {
        match self.join_type {
            JoinType::Inner => Kind::Inner,
            JoinType::Left => Kind::Outer(Side::Build),
            JoinType::Right => Kind::Outer(Side::Probe),
            JoinType::Full => Kind::FullOuter,
            JoinType::LeftSemi => Kind::Semi(Side::Build),
            JoinType::RightSemi => Kind::Semi(Side::Probe),
            JoinType::LeftAnti if self.null_aware => Kind::NotIn,
            JoinType::LeftAnti => Kind::Anti(Side::Build),
            JoinType::RightAnti => Kind::Anti(Side::Probe),
            JoinType::LeftMark => Kind::Mark(Side::Build),
            JoinType::RightMark => Kind::Mark(Side::Probe),
        }
    }

    /// What the join gives, before its projection.
    fn all_outputs(&self) -> Vec<Output> {
        let columns = |side, plan: &Arc<dyn ExecutionPlan>| {
            (0..plan.schema().fields().len()).map(move |index| Output::Column(side, index))
        };
        let left = columns(Side::Build, self.left);
        let right = columns(Side::Probe, self.right);
        match self.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => left.collect(),
            JoinType::RightSemi | JoinType::RightAnti => right.collect(),
            JoinType::LeftMark => left.chain([Output::Mark]).collect(),
            JoinType::RightMark => right.chain([Output::Mark]).collect(),
            _ => left.chain(right).collect(),
        }
    }

    fn outputs(&self, schema: &Schema) -> Result<Vec<(Output, Field)>, String> {
        let all = self.all_outputs();
        let chosen: Vec<usize> = match &self.projection {
            Some(columns) => columns.clone(),
            None => (0..all.len()).collect(),
        };
        if chosen.len() != schema.fields().len() {
            return Err("a join whose columns are not its schema's is not on the GPU".into());
        }
        let outputs = chosen.iter().zip(schema.fields()).map(|(index, field)| {
            let data_type = plain_type(field.data_type());
            let output = all.get(*index).copied();
            let output = output.ok_or_else(|| format!("column {index} of a join is not there"))?;
            Ok((output, field.as_ref().clone().with_data_type(data_type)))
        });
        outputs.collect()
    }
}

/// The filter's expression over the columns of the left side, then the right.
fn condition(filter: &JoinFilter, first_of_right: usize, both: &Schema) -> Result<Expr, String> {
    let column = |index: &datafusion::physical_plan::joins::utils::ColumnIndex| match index.side {
        JoinSide::Left => Ok(Expr::column(index.index)),
        JoinSide::Right => Ok(Expr::column(first_of_right + index.index)),
        JoinSide::None => Err("a condition on a mark is not on the GPU".to_string()),
    };
    let columns = filter.column_indices().iter().map(column);
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    translate(filter.expression(), &columns, both)
}

impl Island {
    /// The join at the top of `plan`, or why it stays on the CPU; none if `plan` is none.
    pub(crate) fn join(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>, String> {
        let Some(node) = Node::of(plan) else {
            return Ok(None);
        };
        let sources = [below_exchange(node.left), below_exchange(node.right)];
        let sides = sources.map(Rows::of);
        if sources.iter().all(|source| Rows::follow(source).are_few()) {
            return Err(FEW.into());
        }
        let schemas: [SchemaRef; 2] = [sides[0].source_schema(), sides[1].source_schema()];
        let first_of_right = schemas[0].fields().len();
        let fields = schemas[0].fields().iter().chain(schemas[1].fields());
        let both = Schema::new(fields.cloned().collect::<Vec<_>>());
        let mut keys = Vec::new();
        for (left, right) in node.on {
            keys.push(JoinKey {
                build: sides[0].translate(left)?,
                probe: sides[1].translate(right)?,
                null_equals_null: node.null_equality == NullEquality::NullEqualsNull,
            });
        }
        let condition = node
            .filter
            .map(|filter| condition(filter, first_of_right, &both))
            .transpose()?;
        let join = Join {
            kind: node.kind(),
            keys,
            condition,
            outputs: node.outputs(&plan.schema())?,
        };
        join.check(&schemas[0], &schemas[1])
            .map_err(|error| error.to_string())?;
        let on = node
            .on
            .iter()
            .map(|(left, right)| format!("({left}, {right})"));
        let on = on.collect::<Vec<_>>().join(", ");
        let filter = node.filter.map_or(String::new(), |filter| {
            format!(", filter={}", filter.expression())
        });
        let null_aware = if node.null_aware { ", null_aware" } else { "" };
        Ok(Some(Self {
            description: format!("join={}, on=[{on}]{filter}{null_aware}", node.join_type),
            sources: sources.map(Arc::clone).to_vec(),
            work: Work::Join(join),
            cpu: plan.clone(),
            only_in_place: false,
        }))
    }
}
