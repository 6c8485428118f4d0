// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that say something about the traces: their streams, and what is wrong or lost in them.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use piste_trace::count::count;
use piste_trace::index::StreamIndex;

use crate::layout::Layout;
use crate::rows::timestamps;

/// The table `streams`: one row for each file of each trace.
pub(crate) fn streams(layout: &Layout) -> Result<MemTable> {
    let all = || {
        layout
            .traces
            .iter()
            .flat_map(|trace| trace.streams.iter().map(move |stream| (trace, stream)))
    };
    let texts = |texts: Vec<String>| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(texts)) };
    let numbers = |number: &dyn Fn(&StreamIndex) -> Option<u64>| -> ArrayRef {
        Arc::new(
            all()
                .map(|(_, stream)| number(stream).map(u64::cast_signed))
                .collect::<Int64Array>(),
        )
    };
    let times = |cycles: &dyn Fn(&StreamIndex) -> Option<u64>| -> Vec<Option<i64>> {
        all()
            .map(|(trace, stream)| trace.scale(stream)?.nanoseconds(cycles(stream)?))
            .collect()
    };
    let begins = times(&|stream| stream.packets.first()?.begin);
    let ends = times(&|stream| stream.packets.last()?.end);
    let of_row: ArrayRef = Arc::new(Int64Array::from_iter_values(0..all().count() as i64));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("stream", of_row, false),
        (
            "trace",
            texts(all().map(|(trace, _)| trace.name.clone()).collect()),
            false,
        ),
        (
            "file",
            texts(all().map(|(_, stream)| stream.path.display().to_string()).collect()),
            false,
        ),
        ("class_id", numbers(&|stream| Some(stream.class_id)), false),
        ("cpu", numbers(&|stream| stream.cpu_id), true),
        ("begin", Arc::new(timestamps(begins.clone())), true),
        ("end", Arc::new(timestamps(ends.clone())), true),
        ("begin_ns", Arc::new(Int64Array::from(begins)), true),
        ("end_ns", Arc::new(Int64Array::from(ends)), true),
        ("packets", numbers(&|stream| Some(stream.packets.len() as u64)), false),
        ("bytes", numbers(&|stream| Some(stream.state.bytes)), false),
        (
            "discarded_events",
            numbers(&|stream| Some(stream.losses.iter().map(|loss| loss.discarded_events).sum())),
            false,
        ),
        (
            "lost_packets",
            numbers(&|stream| Some(stream.losses.iter().map(|loss| loss.lost_packets).sum())),
            false,
        ),
    ])?;
    MemTable::try_new(batch.schema(), vec![vec![batch]])
}

/// The table `findings`. Every event is looked at for it.
pub(crate) struct Findings {
    layout: Arc<Layout>,
    opened: Arc<piste_trace::Findings>,
    schema: SchemaRef,
}

impl Findings {
    pub(crate) fn new(layout: &Arc<Layout>, opened: &Arc<piste_trace::Findings>) -> Findings {
        Findings {
            layout: layout.clone(),
            opened: opened.clone(),
            schema: Arc::new(Schema::new(vec![
                Field::new("kind", DataType::Utf8View, false),
                Field::new("file", DataType::Utf8View, false),
                Field::new("count", DataType::Int64, false),
                Field::new("offset_bytes", DataType::Int64, false),
                Field::new("what", DataType::Utf8View, false),
            ])),
        }
    }

    fn batch(&self, threads: usize) -> Result<RecordBatch> {
        let mut findings = piste_trace::Findings::clone(&self.opened);
        count(self.layout.traces, threads, &mut findings);
        let all: Vec<_> = findings.iter().collect();
        let texts = |text: &dyn Fn(&piste_trace::Finding) -> String| -> ArrayRef {
            Arc::new(StringViewArray::from_iter_values(
                all.iter().map(|finding| text(finding)),
            ))
        };
        let numbers = |number: &dyn Fn(&piste_trace::Finding) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(
                all.iter().map(|finding| number(finding).cast_signed()),
            ))
        };
        let kind = |finding: &piste_trace::Finding| match serde_json::to_value(finding.kind) {
            Ok(serde_json::Value::String(kind)) => kind,
            _ => format!("{:?}", finding.kind),
        };
        Ok(RecordBatch::try_new(
            self.schema.clone(),
            vec![
                texts(&kind),
                texts(&|finding| finding.file.display().to_string()),
                numbers(&|finding| finding.count),
                numbers(&|finding| finding.offset),
                texts(&|finding| finding.what.clone()),
            ],
        )?)
    }
}

impl fmt::Debug for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Findings").finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Findings {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch = self.batch(state.config().target_partitions())?;
        let table = MemTable::try_new(self.schema.clone(), vec![vec![batch]])?;
        table.scan(state, projection, filters, limit).await
    }
}
