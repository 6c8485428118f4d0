// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of events: what is asked of some classes, in columns, a batch at a time.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, NullBufferBuilder, RecordBatch, RecordBatchOptions, StringViewArray};
use arrow::array::{TimestampNanosecondArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use piste_ctf::read::packet::Event;
use piste_trace::Stream;
use piste_trace::symbols::{EventSymbols, visit};

use crate::column::{ColumnId, Columns, Value};
use crate::fill::{Filler, Own, Sink};
use crate::kind::Kind;
use crate::layout::{Common, FieldColumn, Layout, SCOPES};

/// Times are those of 1970 in UTC, as far as the trace's clock says so.
pub(crate) const ZONE: &str = "UTC";

/// Rows of a batch, at most.
pub(crate) const ROWS_MAX: usize = 8192;
/// Values of a batch, about: with hundreds of columns it has fewer rows.
const VALUES_MAX: usize = 1 << 20;

/// Arrow's description of a column that every table has.
pub(crate) fn common_field(common: Common, name: &str) -> Field {
    let of_type = match common.kind() {
        Some(kind) => kind.data_type(),
        None => DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into())),
    };
    Field::new(
        name,
        of_type,
        !matches!(common, Common::Name | Common::Trace | Common::Stream),
    )
}

/// Arrow's description of a table: the common columns, then its own.
pub(crate) fn schema(columns: &[(String, Kind)]) -> SchemaRef {
    let common = Common::ALL.iter().map(|(common, name)| common_field(*common, name));
    let own = columns
        .iter()
        .map(|(name, kind)| Field::new(name, kind.data_type(), true));
    Arc::new(Schema::new(common.chain(own).collect::<Vec<_>>()))
}

/// Rows until they are a batch.
pub(crate) struct Rows {
    layout: Arc<Layout>,
    schema: SchemaRef,
    sources: Vec<ColumnSource>,
    columns: Columns,
    /// Somebody asks for names of what lies at addresses.
    symbols: Option<EventSymbols<'static>>,
    /// By the layout's classes; `None` for those without rows.
    classes: Vec<Option<ClassSinks>>,
    cpu: Option<ColumnId>,
    rows: usize,
    rows_max: usize,
    needs_time: bool,
    times: Vec<i64>,
    time_nulls: NullBufferBuilder,
    names: Option<Vec<u32>>,
    traces: Option<Vec<u32>>,
    streams: Option<Vec<i64>>,
    /// What the two numbers before stand for.
    name_texts: StringViewArray,
    trace_texts: StringViewArray,
}

/// Where a column of the batch comes from.
enum ColumnSource {
    Common(Common),
    Column(ColumnId),
}

/// Where the fields of a class go, for each of [`SCOPES`]; empty where nobody asks for any.
struct ClassSinks {
    scopes: [Vec<Sink>; 4],
}

/// What the events of a packet have in common.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) trace: usize,
    /// Row of the table `streams`.
    pub(crate) stream: usize,
    pub(crate) cpu: Option<u64>,
}

impl Rows {
    /// For columns of a table that has `columns` behind the common ones, and for some classes.
    pub(crate) fn new(
        layout: &Arc<Layout>,
        columns: &[(String, Kind)],
        projection: &[usize],
        is_wanted: impl Fn(usize) -> bool,
    ) -> Result<Rows, ArrowError> {
        let schema = Arc::new(schema(columns).project(projection)?);
        let mut arena = Columns::default();
        let mut by_name: HashMap<&str, ColumnId> = HashMap::new();
        let mut by_common: Vec<(Common, ColumnId)> = Vec::new();
        let mut sources = Vec::new();
        let has = |wanted| {
            projection
                .iter()
                .any(|index| Common::ALL.get(*index).is_some_and(|(common, _)| *common == wanted))
        };
        let needs_time = has(Common::Time) || has(Common::TimeNs);
        let (names, traces, streams) = (has(Common::Name), has(Common::Trace), has(Common::Stream));
        for index in projection {
            sources.push(match Common::ALL.get(*index) {
                Some((common @ (Common::Cpu | Common::Pid | Common::Tid | Common::Comm), _)) => {
                    let id = arena.add(&common.kind().expect("it is no time"));
                    by_common.push((*common, id));
                    ColumnSource::Column(id)
                }
                Some((common, _)) => ColumnSource::Common(*common),
                None => {
                    let (name, kind) = &columns[index - Common::ALL.len()];
                    let id = arena.add(kind);
                    by_name.insert(name, id);
                    ColumnSource::Column(id)
                }
            });
        }
        let wanted = Wanted {
            by_name: &by_name,
            by_common: &by_common,
            columns: &arena,
        };
        let classes = layout.classes.iter().enumerate();
        let classes = classes
            .map(|(index, class)| {
                is_wanted(index).then(|| ClassSinks {
                    scopes: class.fields.each_ref().map(|fields| wanted.sinks(fields)),
                })
            })
            .collect();
        let fields = layout.classes.iter().flat_map(|class| class.fields.iter().flatten());
        let is_asked = |symbol: &String| by_name.contains_key(symbol.as_str());
        let asks_symbols = fields.filter_map(|field| field.symbol.as_ref()).any(is_asked);
        let symbols = layout.symbols.as_ref().filter(|_| asks_symbols);
        let cpu = by_common
            .iter()
            .find(|(common, _)| *common == Common::Cpu)
            .map(|(_, id)| *id);
        Ok(Rows {
            layout: layout.clone(),
            schema,
            sources,
            symbols: symbols.map(|symbols| symbols.of_events()),
            columns: arena,
            classes,
            cpu,
            rows: 0,
            rows_max: (VALUES_MAX / projection.len().max(1)).clamp(256, ROWS_MAX),
            needs_time,
            times: Vec::new(),
            time_nulls: NullBufferBuilder::new(0),
            names: names.then(Vec::new),
            traces: traces.then(Vec::new),
            streams: streams.then(Vec::new),
            name_texts: layout.names.iter().map(|name| Some(name.as_str())).collect(),
            trace_texts: layout.traces.iter().map(|trace| Some(trace.name.as_str())).collect(),
        })
    }

    /// A batch has no more rows than this.
    pub(crate) fn limit(&mut self, rows_max: usize) {
        self.rows_max = self.rows_max.min(rows_max);
    }

    /// Description of the batches.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Some events of these classes have rows.
    pub(crate) fn wants(&self, class: usize) -> bool {
        self.classes[class].is_some()
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// It is time to take the batch.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= self.rows_max || self.columns.is_heavy()
    }

    /// Adds the event that the stream has just read, which is of a class that is wanted.
    #[inline]
    pub(crate) fn push(&mut self, class: usize, event: &Event<'static>, stream: &mut Stream<'static>, origin: Origin) {
        let row = self.rows;
        self.rows += 1;
        if self.needs_time {
            match stream.ns(event) {
                Some(ns) => {
                    self.times.push(ns);
                    self.time_nulls.append_non_null();
                }
                None => {
                    self.times.push(0);
                    self.time_nulls.append_null();
                }
            }
        }
        if let Some(names) = &mut self.names {
            names.push(self.layout.classes[class].name);
        }
        if let Some(traces) = &mut self.traces {
            traces.push(origin.trace as u32);
        }
        if let Some(streams) = &mut self.streams {
            streams.push(origin.stream as i64);
        }
        if let (Some(column), Some(cpu)) = (self.cpu, origin.cpu) {
            self.columns.push(column, row, Value::Number(cpu, false));
        }
        let Some(sinks) = &self.classes[class] else { return };
        let mut of_event = match &mut self.symbols {
            Some(symbols) => symbols.of(origin.trace, stream, event),
            None => None,
        };
        for (scope, sinks) in SCOPES.into_iter().zip(&sinks.scopes) {
            if !sinks.is_empty() {
                let mut filler = Filler::new(&mut self.columns, row, sinks);
                // `next` has been over the same bytes: it cannot fail here, and what it would leave out is NULL.
                let _ = visit(stream, event, scope, &mut filler, of_event.as_mut());
            }
        }
    }

    /// Takes the rows.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.sources.len());
        let times = std::mem::take(&mut self.times);
        let time_nulls = if self.needs_time {
            self.time_nulls.finish()
        } else {
            None
        };
        let times = Int64Array::new(times.into(), time_nulls);
        let numbers = |numbers: &mut Option<Vec<u32>>| {
            UInt32Array::from(numbers.as_mut().map(std::mem::take).unwrap_or_default())
        };
        let (names, traces) = (numbers(&mut self.names), numbers(&mut self.traces));
        let streams = Int64Array::from(self.streams.as_mut().map(std::mem::take).unwrap_or_default());
        for source in &self.sources {
            arrays.push(match source {
                ColumnSource::Common(Common::Time) => Arc::new(
                    times
                        .reinterpret_cast::<arrow::datatypes::TimestampNanosecondType>()
                        .with_timezone(ZONE),
                ),
                ColumnSource::Common(Common::TimeNs) => Arc::new(times.clone()),
                ColumnSource::Common(Common::Name) => take(&self.name_texts, &names, None)?,
                ColumnSource::Common(Common::Trace) => take(&self.trace_texts, &traces, None)?,
                ColumnSource::Common(_) => Arc::new(streams.clone()),
                ColumnSource::Column(id) => self.columns.finish(*id, rows)?,
            });
        }
        self.columns.weight = 0;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
    }
}

/// The columns that somebody asked for.
struct Wanted<'w> {
    by_name: &'w HashMap<&'w str, ColumnId>,
    by_common: &'w [(Common, ColumnId)],
    columns: &'w Columns,
}

impl Wanted<'_> {
    /// Of a structure's fields; none when nobody asks for any.
    fn sinks(&self, fields: &[FieldColumn]) -> Vec<Sink> {
        let mut sinks: Vec<Sink> = fields.iter().map(|field| self.sink(field)).collect();
        // Nothing behind the last is wanted.
        let last = sinks.iter().rposition(|sink| !matches!(sink, Sink::Nowhere));
        sinks.truncate(last.map_or(0, |last| last + 1));
        sinks
    }

    fn sink(&self, field: &FieldColumn) -> Sink {
        if field.is_hidden {
            return Sink::Nowhere;
        }
        let id_of = |name: &String| self.by_name.get(name.as_str()).copied();
        let own = Own {
            column: id_of(&field.name),
            label: field.label.as_ref().and_then(id_of),
            symbol: field.symbol.as_ref().and_then(id_of),
        };
        let wanted = field.common.and_then(|wanted| {
            let found = self.by_common.iter().find(|(common, _)| *common == wanted);
            found.map(|(_, id)| *id)
        });
        match Sink::new(field.node, own, self.columns) {
            Sink::Value {
                column: None,
                label: None,
                symbol: None,
                ..
            } if wanted.is_none() => Sink::Nowhere,
            Sink::Value {
                column, label, symbol, ..
            } => Sink::Value {
                column,
                label,
                symbol,
                also: wanted,
            },
            nested => nested,
        }
    }
}

/// Times as a column has them.
pub(crate) fn timestamps(ns: Vec<Option<i64>>) -> TimestampNanosecondArray {
    TimestampNanosecondArray::from(ns).with_timezone(ZONE)
}
