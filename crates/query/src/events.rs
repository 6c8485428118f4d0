// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of events: all of them, or those of a name. Only what a query asks for is decoded.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use piste_trace::Span;

use crate::kind::Kind;
use crate::layout::Layout;
use crate::pushdown::{Chosen, choose, support};
use crate::rows::{Rows, schema};
use crate::scan::{Found, Piece, Reader, Scan, pieces};

/// Events, as a table.
pub(crate) struct Events {
    layout: Arc<Layout>,
    /// Only those of this name.
    name: Option<u32>,
    /// Behind the common ones.
    columns: Arc<Vec<(String, Kind)>>,
    schema: SchemaRef,
    found: Found,
}

impl Events {
    /// All events, or those of a name.
    pub(crate) fn new(layout: &Arc<Layout>, name: Option<u32>, found: &Found) -> Events {
        let columns = name.map_or_else(|| layout.columns.clone(), |name| layout.columns_of_name(name));
        Events {
            layout: layout.clone(),
            name,
            schema: schema(&columns),
            columns: Arc::new(columns),
            found: found.clone(),
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Events")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Events {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| support(filter)).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Chosen {
            mut classes,
            streams,
            span,
        } = choose(state, &self.layout, filters)?;
        if let Some(name) = self.name {
            for (class, wanted) in self.layout.classes.iter().zip(&mut classes) {
                *wanted &= class.name == name;
            }
        }
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or(all);
        let pieces = match classes.contains(&true) {
            true => pieces(&self.layout, span, |stream| streams[stream]),
            false => Vec::new(),
        };
        let threads = state.config().target_partitions().clamp(1, pieces.len().max(1));
        let schema = Arc::new(self.schema.project(&projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(threads),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(ReadEvents {
            layout: self.layout.clone(),
            columns: self.columns.clone(),
            projection,
            classes: Arc::new(classes),
            span,
            pieces: Arc::new(pieces),
            limit,
            found: self.found.clone(),
            properties: Arc::new(properties),
        }))
    }
}

/// Reads events: a leaf of a query's plan.
struct ReadEvents {
    layout: Arc<Layout>,
    columns: Arc<Vec<(String, Kind)>>,
    projection: Vec<usize>,
    classes: Arc<Vec<bool>>,
    span: Span,
    pieces: Arc<Vec<Piece>>,
    limit: Option<usize>,
    found: Found,
    properties: Arc<PlanProperties>,
}

impl fmt::Debug for ReadEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReadEvents").finish_non_exhaustive()
    }
}

/// What `EXPLAIN` says.
impl DisplayAs for ReadEvents {
    fn fmt_as(&self, _: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = self.classes.iter().filter(|wanted| **wanted).count();
        let packets: usize = self.pieces.iter().map(|piece| piece.packets.len()).sum();
        let schema = self.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(
            formatter,
            "ReadEvents: columns=[{}], classes={classes} of {}, packets={packets}",
            columns.join(", "),
            self.classes.len()
        )?;
        match self.limit {
            Some(limit) => write!(formatter, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ReadEvents {
    fn name(&self) -> &str {
        "ReadEvents"
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

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let threads = self.properties.output_partitioning().partition_count();
        let own = self.pieces.iter().skip(partition).step_by(threads).cloned().collect();
        let classes = self.classes.clone();
        let rows = Rows::new(&self.layout, &self.columns, &self.projection, move |class| {
            classes[class]
        })?;
        let schema = rows.schema().clone();
        let reader = Reader::new(&self.layout, self.span, &self.found);
        let scan = Scan::new(reader, rows, own, self.limit);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            futures::stream::iter(scan),
        )))
    }
}
