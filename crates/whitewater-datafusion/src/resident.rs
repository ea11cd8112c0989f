//! Tables that stay on the device.

use std::{fmt, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{Result, tree_node::TreeNodeRecursion},
    datasource::TableType,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::Expr,
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
};
use whitewater::{Batch, Table, gpu::Device};

use crate::{error::fatal, exec::cast_to};

/// A table whose batches are in device memory: queries upload nothing. View types are stored as their
/// plain kin, and come back as what they were.
#[derive(Debug)]
pub struct GpuTable {
    schema: SchemaRef,
    table: Arc<Table>,
}

impl GpuTable {
    /// Uploads `batches`, joined to batches of at most `batch_rows` rows.
    pub fn load(
        device: &Device,
        schema: &SchemaRef,
        batches: impl IntoIterator<Item = RecordBatch>,
        batch_rows: usize,
    ) -> Result<Self, whitewater::Error> {
        let table = Table::upload(device, schema, batches, batch_rows)?;
        Ok(Self {
            schema: schema.clone(),
            table: Arc::new(table),
        })
    }

    /// Rows of the table.
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }
}

#[async_trait]
impl TableProvider for GpuTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&projection)?);
        Ok(Arc::new(GpuTableExec::new(
            self.table.clone(),
            schema,
            projection,
        )))
    }
}

/// The scan of a [`GpuTable`]. A GPU node above takes its batches as they are; to a CPU node it gives
/// downloaded ones.
#[derive(Debug)]
pub struct GpuTableExec {
    table: Arc<Table>,
    projection: Vec<usize>,
    properties: Arc<PlanProperties>,
}

impl GpuTableExec {
    fn new(table: Arc<Table>, schema: SchemaRef, projection: Vec<usize>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            projection,
            properties: Arc::new(properties),
        }
    }

    /// The projected batches, on the device.
    pub(crate) fn batches(&self) -> Result<Vec<Batch>, whitewater::Error> {
        self.table
            .batches
            .iter()
            .map(|batch| batch.project(&self.projection))
            .collect()
    }
}

impl DisplayAs for GpuTableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GpuTableExec: batches={}, rows={}",
            self.table.batches.len(),
            self.table.rows()
        )
    }
}

impl ExecutionPlan for GpuTableExec {
    fn name(&self) -> &str {
        "GpuTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let batches = self.batches().map_err(fatal)?;
        let target = schema.clone();
        let downloaded = batches.into_iter().map(move |batch| {
            let batch = batch.download().map_err(fatal)?;
            cast_to(batch, &target)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            futures::stream::iter(downloaded),
        )))
    }
}
