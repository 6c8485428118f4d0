// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder of Parquet files, which many engines read as one table, `events`:
//!
//! ```text
//!   OUT/name=sched_switch/part-0.parquet
//!   OUT/name=shop%3Aorder/part-0.parquet, part-1.parquet ...
//! ```
//!
//! Each name of events has a folder, as Hive names partitions, so that who asks for some names opens no other files. All files have the
//! columns of the whole table but for `name`, NULL where a class has no such field: engines that take the first file's columns for
//! those of all (most do) miss none. The events of each name are in the order of time, and so are its parts.
//!
//! Rows wait in memory until there are enough for a file; one file is written at a time, however many names there are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use piste_reason::reason;
use piste_terminal::progress::Progress;
use piste_trace::select::{Filter, Selection};
use piste_trace::{Findings, Span, durable};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::kind::Kind;
use crate::layout::{Common, Layout};
use crate::output::of_parquet;
use crate::request::Parquet;
use crate::rows::{Origin, Rows, ZONE, schema};

/// Rows of all names that wait for their file.
const WAITING_BYTES_MAX: usize = 48 << 20;
/// Events between two looks at whether it is time to stop.
const LOOK_EVERY: u64 = 4096;

/// Rows of a name before they are taken out of its columns: few, as there may be hundreds of names.
const ROWS_MAX: usize = 1024;

/// How files are written: zstd is read by all engines, and half of what snappy leaves.
pub(crate) fn parquet_options() -> ArrowWriterOptions {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("piste ", env!("CARGO_PKG_VERSION")).into())
        .build();
    // Arrow's own types would be read back by Arrow, some of which its older versions do not know.
    ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true)
}

/// What was written.
pub(crate) struct Exported {
    pub(crate) events: u64,
    /// What was found on the way.
    pub(crate) findings: Findings,
}

/// `piste export --format parquet`
pub(crate) fn export(
    request: &Parquet,
    output: &Path,
    layout: &Arc<Layout>,
    interrupt: &Interrupt,
) -> Result<Exported, Failure> {
    let is_free = match fs::read_dir(output) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !is_free {
        let shown = output.display();
        return Err(Failure::Failed(format!(
            "cannot write {shown}: it exists and is not an empty folder; choose another"
        )));
    }
    let cannot =
        |error: std::io::Error| Failure::Failed(format!("cannot write {}: {}", output.display(), reason(&error)));
    let beside = output
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // Dropped before it is kept, it is removed with all that is in it.
    let unfinished = tempfile::Builder::new()
        .prefix(".piste-export-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .tempdir_in(beside)
        .map_err(cannot)?;
    let exported = write(request, unfinished.path(), layout, interrupt)?;
    durable::sync(unfinished.path()).map_err(cannot)?;
    fs::rename(unfinished.path(), output).map_err(cannot)?;
    // It has its name now.
    let _ = unfinished.keep();
    durable::sync_name(output);
    Ok(exported)
}

fn write(request: &Parquet, folder: &Path, layout: &Arc<Layout>, interrupt: &Interrupt) -> Result<Exported, Failure> {
    let filter = request.filter.as_deref().map(Filter::parse);
    let selection = Selection {
        span: Span {
            begin_ns: request.begin_ns,
            end_ns: request.end_ns,
        },
        events: request.events.clone(),
        filter: filter
            .transpose()
            .map_err(|error| Failure::Usage(format!("the filter is invalid: {error}")))?,
        pids: request.pids.clone(),
        tids: request.tids.clone(),
        comms: request.comms.clone(),
        cpus: request.cpus.clone(),
    };
    let unreadable = |error: std::io::Error| Failure::Failed(format!("cannot read the trace: {}", reason(&error)));
    // Dropped with everything else, before anything is said.
    let _progress = Progress::of("exporting", layout.traces, selection.span, request.progress);
    let mut merge = selection.merge(layout.traces).map_err(unreadable)?;
    let mut matcher = selection.matcher(layout.traces);
    let mut files = Files::new(layout, folder);
    let numbers = stream_numbers(layout);
    let mut events = 0_u64;
    while let Some(merged) = merge.next() {
        if !matcher.wants(&mut merge, &merged) {
            continue;
        }
        let trace = merge.trace_of(merged.stream);
        let Some(class) = layout.class(trace, merged.event.class) else {
            continue;
        };
        let stream = merge.stream(merged.stream);
        let number = numbers.get(&stream.index.path).copied().unwrap_or_default();
        let (reader, ..) = stream.parts();
        let origin = Origin {
            trace,
            stream: number,
            cpu: reader.info().cpu_id,
        };
        let rows = files.rows(layout.classes[class].name)?;
        rows.push(class, &merged.event, stream, origin);
        if rows.is_full() {
            files.keep(layout.classes[class].name)?;
        }
        events += 1;
        if events.is_multiple_of(LOOK_EVERY) && interrupt.is_raised() {
            return Err(Failure::Interrupted);
        }
    }
    files.finish()?;
    if events == 0 {
        // Engines want to see columns also where there are no rows.
        files.write_empty()?;
    }
    Ok(Exported {
        events,
        findings: std::mem::take(&mut merge.findings),
    })
}

/// Rows of the table `streams`, by file.
fn stream_numbers(layout: &Layout) -> BTreeMap<PathBuf, usize> {
    let streams = layout.traces.iter().flat_map(|trace| &trace.streams);
    streams
        .enumerate()
        .map(|(number, stream)| (stream.path.clone(), number))
        .collect()
}

/// The files on their way.
struct Files<'f> {
    layout: &'f Arc<Layout>,
    folder: &'f Path,
    /// Of every file.
    schema: SchemaRef,
    names: BTreeMap<u32, Waiting>,
    waiting_bytes: usize,
}

/// What waits for a file of a name.
struct Waiting {
    rows: Rows,
    batches: Vec<RecordBatch>,
    bytes: usize,
    parts: usize,
}

impl<'f> Files<'f> {
    fn new(layout: &'f Arc<Layout>, folder: &'f Path) -> Files<'f> {
        let fields = schema(&layout.columns);
        let fields = fields.fields().iter().filter(|field| field.name() != "name");
        Files {
            layout,
            folder,
            schema: Arc::new(Schema::new(fields.map(|field| portable(field)).collect::<Vec<_>>())),
            names: BTreeMap::new(),
            waiting_bytes: 0,
        }
    }

    /// Where the rows of a name go.
    fn rows(&mut self, name: u32) -> Result<&mut Rows, Failure> {
        if !self.names.contains_key(&name) {
            let own: Vec<(String, Kind)> = {
                let of_name = self.layout.columns_of_name(name);
                let is_own = |column: &&(String, Kind)| of_name.iter().any(|(own, _)| *own == column.0);
                // As all events have them: one name may have other types in other classes.
                self.layout.columns.iter().filter(is_own).cloned().collect()
            };
            let common = Common::ALL.iter().enumerate();
            let common = common
                .filter(|(_, (common, _))| *common != Common::Name)
                .map(|(index, _)| index);
            let projection: Vec<usize> = common.chain(Common::ALL.len()..Common::ALL.len() + own.len()).collect();
            let mut rows = Rows::new(self.layout, &own, &projection, |class| {
                self.layout.classes[class].name == name
            })?;
            rows.limit(ROWS_MAX);
            let waiting = Waiting {
                rows,
                batches: Vec::new(),
                bytes: 0,
                parts: 0,
            };
            self.names.insert(name, waiting);
        }
        Ok(&mut self.names.get_mut(&name).expect("it is there now").rows)
    }

    /// Keeps the rows of a name until there are enough for a file.
    fn keep(&mut self, name: u32) -> Result<(), Failure> {
        let waiting = self.names.get_mut(&name).expect("it has rows");
        let batch = waiting.rows.finish()?;
        let bytes = batch.get_array_memory_size();
        waiting.bytes += bytes;
        waiting.batches.push(batch);
        self.waiting_bytes += bytes;
        if self.waiting_bytes > WAITING_BYTES_MAX {
            let largest = self.names.iter().max_by_key(|(_, waiting)| waiting.bytes);
            if let Some(name) = largest.map(|(name, _)| *name) {
                self.write(name)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let names: Vec<u32> = self.names.keys().copied().collect();
        for name in names {
            let waiting = self.names.get_mut(&name).expect("it is one of them");
            if waiting.rows.len() > 0 {
                let batch = waiting.rows.finish()?;
                waiting.batches.push(batch);
            }
            if !waiting.batches.is_empty() {
                self.write(name)?;
            }
        }
        Ok(())
    }

    /// Writes what waits of a name.
    fn write(&mut self, name: u32) -> Result<(), Failure> {
        let waiting = self.names.get_mut(&name).expect("it has batches");
        let batches = std::mem::take(&mut waiting.batches);
        self.waiting_bytes -= std::mem::take(&mut waiting.bytes);
        let part = waiting.parts;
        waiting.parts += 1;
        let folder = self.folder.join(partition(&self.layout.names[name as usize]));
        let mut writer = self.writer(&folder, part)?;
        for batch in batches {
            writer.write(&self.whole(&batch)?).map_err(of_parquet)?;
        }
        writer.close().map_err(of_parquet)?;
        Ok(())
    }

    fn write_empty(&self) -> Result<(), Failure> {
        let writer = self.writer(self.folder, 0)?;
        writer.close().map_err(of_parquet)?;
        Ok(())
    }

    fn writer(&self, folder: &Path, part: usize) -> Result<ArrowWriter<File>, Failure> {
        fs::create_dir_all(folder)?;
        let file = File::create_new(folder.join(format!("part-{part}.parquet")))?;
        ArrowWriter::try_new_with_options(file, self.schema.clone(), parquet_options()).map_err(of_parquet)
    }

    /// The rows with all columns of the table.
    fn whole(&self, batch: &RecordBatch) -> Result<RecordBatch, Failure> {
        let column = |field: &Arc<Field>| -> Result<ArrayRef, Failure> {
            match batch.column_by_name(field.name()) {
                Some(column) => Ok(cast(column, field.data_type())?),
                None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            }
        };
        let columns = self.schema.fields().iter().map(column).collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

/// Times to the microsecond, which is what engines other than DuckDB and Arrow read; `time_ns` has the rest.
fn portable(field: &Field) -> Field {
    match field.data_type() {
        DataType::Timestamp(_, _) => field
            .clone()
            .with_data_type(DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()))),
        _ => field.clone(),
    }
}

/// `name=shop%3Aorder`: characters that mean something to file systems or to Hive are percent-encoded, as Hive does.
fn partition(name: &str) -> String {
    if name.is_empty() {
        return "name=__HIVE_DEFAULT_PARTITION__".into();
    }
    let mut partition = "name=".to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => partition.push(byte.into()),
            _ => partition.push_str(&format!("%{byte:02X}")),
        }
    }
    partition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_a_plain_name_of_a_folder() {
        assert_eq!(partition("sched_switch"), "name=sched_switch");
        assert_eq!(partition("shop:order/../x %"), "name=shop%3Aorder%2F..%2Fx%20%25");
        assert_eq!(partition("é"), "name=%C3%A9");
    }
}
