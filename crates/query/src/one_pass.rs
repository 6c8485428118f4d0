// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables whose rows come while one thread reads traces from their begin, in the order of time. Memory does not grow with the number of rows.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use piste_analysis::tables::Heading;

use crate::batches::{Asked, Batches, schema};

/// Batches that wait for whoever takes them.
const BATCHES_WAITING: usize = 2;

/// Where the rows of a table come from.
pub(crate) trait RowSource: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn headings(&self) -> Vec<Heading>;

    /// The bytes that will be read, or why there can be no rows.
    fn plan(&self) -> Result<u64>;

    /// Hands out rows that have these headings, until they are not wanted any more.
    fn run(&self, headings: &[usize], batches: &Batches) -> Result<()>;
}

/// A table of a source.
pub(crate) struct OnePass<S> {
    source: Arc<S>,
    schema: SchemaRef,
}

impl<S: RowSource> OnePass<S> {
    pub(crate) fn new(source: S) -> OnePass<S> {
        OnePass {
            schema: schema(&source.headings()),
            source: Arc::new(source),
        }
    }
}

impl<S: RowSource> fmt::Debug for OnePass<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("OnePass").field(&self.source.name()).finish()
    }
}

#[async_trait]
impl<S: RowSource> TableProvider for OnePass<S> {
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
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        crate::scan::will_read(self.source.plan()?);
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let asked = Asked::new(&self.source.headings(), projection.unwrap_or(&all))?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(asked.schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(ReadOnce {
            source: self.source.clone(),
            asked,
            limit,
            properties: Arc::new(properties),
        }))
    }
}

/// Reads traces once: a leaf of a query's plan.
struct ReadOnce<S> {
    source: Arc<S>,
    asked: Asked,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl<S: RowSource> fmt::Debug for ReadOnce<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ReadOnce").field(&self.source.name()).finish()
    }
}

/// What `EXPLAIN` says.
impl<S: RowSource> DisplayAs for ReadOnce<S> {
    fn fmt_as(&self, _: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.asked.schema.fields();
        let columns: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        write!(
            formatter,
            "ReadOnce: table={}, columns=[{}]",
            self.source.name(),
            columns.join(", ")
        )?;
        match self.limit {
            Some(limit) => write!(formatter, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl<S: RowSource> ExecutionPlan for ReadOnce<S> {
    fn name(&self) -> &str {
        "ReadOnce"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.asked.schema.clone(), BATCHES_WAITING);
        let (source, asked, limit, to) = (self.source.clone(), self.asked.clone(), self.limit, builder.tx());
        builder.spawn_blocking(move || {
            let headings = asked.headings.clone();
            let batches = Batches::new(asked, limit, to);
            source.run(&headings, &batches)?;
            batches.finish();
            Ok(())
        });
        Ok(builder.build())
    }
}
