//! What the build side of a join tells the scan of its probe side, before that is read: between which values the keys
//! are, and where they are few, which ones. A Parquet scan leaves out files, row groups and pages by it.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef},
    compute::{concat, filter, is_not_null},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, lit},
    },
    physical_plan::{ExecutionPlan, joins::HashJoinExec},
};
use whitewater::{
    Batch,
    aggregate::{Aggregate, Aggregation, Function, reduce},
    expr::Expr,
    gpu::Device,
    join::Join,
    select::filter_project,
};

/// The keys of a build side so far, and the filter that waits for them.
pub(crate) struct Bounds {
    filter: Arc<DynamicFilterPhysicalExpr>,
    probe_schema: SchemaRef,
    keys: Vec<Key>,
    /// Keys up to this number are told one by one.
    few: usize,
    rows: usize,
}

struct Key {
    build: Expr,
    probe: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    /// The least value and the greatest, nulls aside.
    ends: Option<(ScalarValue, ScalarValue)>,
    /// The values, as long as they are few.
    values: Vec<ArrayRef>,
}

/// Whether the CPU's comparisons order values as the device's do, and equal values are the same.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || matches!(
            data_type,
            Date32 | Date64 | Timestamp(_, _) | Decimal128(_, _)
        )
}

/// `a AND b`.
fn both(a: Arc<dyn PhysicalExpr>, b: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(a, Operator::And, b))
}

impl Bounds {
    /// For the join that DataFusion has planned as `plan`, if a scan waits for its keys; up to `few` of them are
    /// told one by one.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        join: &Join,
        build: &Schema,
        few: usize,
    ) -> Option<Self> {
        let planned = plan.downcast_ref::<HashJoinExec>()?;
        let waiting = plan.dynamic_expressions_produced().into_iter().next()?;
        let filter = Arc::downcast::<DynamicFilterPhysicalExpr>(waiting).ok()?;
        // A null of the probe side counts there, and no bound holds for it.
        if planned.null_aware || join.keys.iter().any(|key| key.null_equals_null) {
            return None;
        }
        let probe_schema = planned.right().schema();
        let keys = join.keys.iter().zip(planned.on());
        let keys = keys.filter_map(|(key, (_, probe))| {
            let data_type = key.build.data_type(build).ok()?;
            let same = probe.data_type(&probe_schema).ok()? == data_type;
            (same && is_ordered(&data_type)).then(|| Key {
                build: key.build.clone(),
                probe: probe.clone(),
                data_type,
                ends: None,
                values: Vec::new(),
            })
        });
        let keys: Vec<Key> = keys.collect();
        (!keys.is_empty()).then_some(Self {
            filter,
            probe_schema,
            keys,
            few,
            rows: 0,
        })
    }

    /// Takes rows of the build side. Waits for their least and greatest keys.
    pub(crate) fn add(mut self, device: &Device, batch: &Batch) -> Result<Self, whitewater::Error> {
        self.rows += batch.rows;
        let ends = [Function::Min, Function::Max];
        let of_keys = self.keys.iter();
        let aggregates = of_keys.flat_map(|key| {
            ends.map(|function| Aggregate {
                function,
                argument: Some(key.build.clone()),
                filter: None,
                order: Vec::new(),
                state: vec![Field::new("end", key.data_type.clone(), true)],
            })
        });
        let aggregation = Aggregation {
            aggregates: aggregates.collect(),
            ..Aggregation::default()
        };
        let found = reduce(device, batch, &aggregation)?;
        for (key, ends) in self.keys.iter_mut().zip(found.columns().chunks_exact(2)) {
            key.widen(&ends[0], &ends[1])?;
        }
        if self.rows <= self.few {
            let of_keys = self.keys.iter().enumerate();
            let outputs: Vec<(Expr, Field)> = of_keys
                .map(|(i, key)| {
                    let field = Field::new(format!("key{i}"), key.data_type.clone(), true);
                    (key.build.clone(), field)
                })
                .collect();
            let values = filter_project(device, batch, None, &outputs)?.download()?;
            for (key, values) in self.keys.iter_mut().zip(values.columns()) {
                key.values.push(values.clone());
            }
        }
        Ok(self)
    }

    /// Tells the scan, once all rows of the build side have been seen.
    pub(crate) fn tell(self) -> Result<()> {
        let mut all: Option<Arc<dyn PhysicalExpr>> = None;
        for key in &self.keys {
            let Some((least, greatest)) = &key.ends else {
                // No row has a key: none of the probe side has an equal.
                all = Some(lit(false));
                break;
            };
            let end = |op, value: &ScalarValue| -> Arc<dyn PhysicalExpr> {
                Arc::new(BinaryExpr::new(key.probe.clone(), op, lit(value.clone())))
            };
            let mut one = both(end(Operator::GtEq, least), end(Operator::LtEq, greatest));
            if self.rows <= self.few {
                one = both(one, key.is_listed(&self.probe_schema)?);
            }
            all = Some(match all {
                Some(all) => both(all, one),
                None => one,
            });
        }
        if let Some(all) = all {
            self.filter.update(all)?;
        }
        self.filter.mark_complete();
        Ok(())
    }
}

impl Key {
    fn widen(&mut self, least: &ArrayRef, greatest: &ArrayRef) -> Result<(), whitewater::Error> {
        if least.is_null(0) {
            return Ok(());
        }
        let value = |end: &ArrayRef| {
            ScalarValue::try_from_array(end, 0)
                .map_err(|error| whitewater::Error::unsupported(error.to_string()))
        };
        let (mut least, mut greatest) = (value(least)?, value(greatest)?);
        if let Some((a, b)) = self.ends.take() {
            if a.partial_cmp(&least) == Some(Ordering::Less) {
                least = a;
            }
            if b.partial_cmp(&greatest) == Some(Ordering::Greater) {
                greatest = b;
            }
        }
        self.ends = Some((least, greatest));
        Ok(())
    }

    /// Whether the probe side's key is one of the values.
    fn is_listed(&self, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let values: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
        let list = concat(&values)?;
        let list = filter(&list, &is_not_null(&list)?)?;
        let listed = InListExpr::try_new_from_array(self.probe.clone(), list, false, schema)?;
        Ok(Arc::new(listed))
    }
}
