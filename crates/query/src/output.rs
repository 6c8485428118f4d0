// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows as somebody wants them: a table to look at, or a format that other programs read. A file gets its name when it is whole.

mod exact;
mod plain;
mod table;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::json::{ArrayWriter, LineDelimitedWriter};
use parquet::arrow::ArrowWriter;
use piste_reason::reason;
use piste_terminal::{LongLines, Size};
use piste_trace::durable::{self, Target};
use tempfile::NamedTempFile;

use crate::export::parquet_options;
use crate::failure::Failure;
use crate::output::table::TableWriter;
use crate::request::Format;

/// Where rows go.
pub(crate) struct Output {
    format: Format,
    /// None for stdout.
    file: Option<Named>,
    writer: Option<Writer>,
    /// Nobody reads any more. Not every writer's errors say so.
    is_reader_gone: Arc<AtomicBool>,
    look: Look,
}

/// How rows are shown on a terminal.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// As long as they are.
    pub(crate) is_wide: bool,
    /// In a pager, if they are more than a screen.
    pub(crate) is_paged: bool,
}

type Destination = Box<dyn Write + Send>;

/// The output that the user named.
enum Named {
    /// A new file, and the path that it gets when it is complete.
    File(NamedTempFile, PathBuf),
    /// A pipe or a device.
    Special(File),
}

enum Writer {
    Table(Box<TableWriter>),
    Json(ArrayWriter<Destination>),
    Ndjson(LineDelimitedWriter<Destination>),
    Csv(Box<csv::Writer<Destination>>),
    /// To a pipe, which cannot be sought in.
    ArrowStream(StreamWriter<Destination>),
    ArrowFile(FileWriter<Destination>),
    Parquet(Box<ArrowWriter<Destination>>),
}

impl Output {
    /// To a file, or to stdout.
    pub(crate) fn new(format: Format, path: Option<&Path>, look: Look) -> Result<Output, Failure> {
        let is_binary = matches!(format, Format::Arrow | Format::Parquet);
        if path.is_none() && is_binary && io::stdout().is_terminal() {
            return Err(Failure::Usage(
                "refusing to write a binary format to a terminal; use -o FILE, or redirect stdout".into(),
            ));
        }
        let file =
            match path {
                None => None,
                Some(path) => {
                    let named = Named::open(path);
                    Some(named.map_err(|error| {
                        Failure::Failed(format!("cannot write {}: {}", path.display(), reason(&error)))
                    })?)
                }
            };
        Ok(Output {
            format,
            file,
            writer: None,
            is_reader_gone: Arc::default(),
            look,
        })
    }

    /// Rows go to a file that was named.
    pub(crate) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Rows of this kind come. A statement that has no columns, as one that makes a view, has nothing to write.
    pub(crate) fn begin(&mut self, schema: &SchemaRef) -> Result<(), Failure> {
        if schema.fields().is_empty() {
            return Ok(());
        }
        let destination: Destination = match &self.file {
            Some(Named::File(file, _)) => Box::new(BufWriter::new(file.reopen()?)),
            Some(Named::Special(file)) => Box::new(BufWriter::new(file.try_clone()?)),
            None => Box::new(BufWriter::with_capacity(64 << 10, self.stdout())),
        };
        self.writer = Some(match self.format {
            Format::Table => {
                let is_cut = self.file.is_none() && !self.look.is_wide;
                let room = Size::of_stdout().filter(|_| is_cut).map(|size| size.columns);
                Writer::Table(Box::new(TableWriter::new(destination, schema, room)))
            }
            Format::Json => Writer::Json(exact::builder().build(destination)),
            Format::Ndjson => Writer::Ndjson(exact::builder().build(destination)),
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new().with_header(true).build(destination);
                // The names of the columns are there also without rows.
                writer.write(&plain::texts(&RecordBatch::new_empty(schema.clone()))?)?;
                Writer::Csv(Box::new(writer))
            }
            Format::Arrow if matches!(self.file, Some(Named::File(..))) => {
                Writer::ArrowFile(FileWriter::try_new(destination, schema)?)
            }
            Format::Arrow => Writer::ArrowStream(StreamWriter::try_new(destination, schema)?),
            Format::Parquet => {
                let writer = ArrowWriter::try_new_with_options(destination, schema.clone(), parquet_options());
                Writer::Parquet(Box::new(writer.map_err(of_parquet)?))
            }
        });
        Ok(())
    }

    fn stdout(&self) -> Stdout {
        let long_lines = match self.look.is_wide {
            true => LongLines::Chop,
            false => LongLines::Wrap,
        };
        Stdout {
            to: match self.look.is_paged {
                true => piste_terminal::Output::paged(long_lines),
                false => piste_terminal::Output::direct(),
            },
            is_reader_gone: self.is_reader_gone.clone(),
        }
    }

    /// Some of the rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let written = self.try_write(batch);
        self.or_reader_gone(written)
    }

    /// There are no more rows. The file gets its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let finished = self.try_finish();
        self.or_reader_gone(finished)?;
        if let Some(Named::File(file, path)) = self.file {
            let cannot =
                |error: io::Error| Failure::Failed(format!("cannot write {}: {}", path.display(), reason(&error)));
            durable::sync(file.path()).map_err(cannot)?;
            file.persist(&path).map_err(|error| cannot(error.error))?;
            durable::sync_name(&path);
        }
        Ok(())
    }

    fn or_reader_gone(&self, done: Result<(), Failure>) -> Result<(), Failure> {
        done.map_err(|failure| match self.is_reader_gone.load(Ordering::Relaxed) {
            true => Failure::ReaderGone,
            false => failure,
        })
    }

    fn try_write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match writer {
            Writer::Table(writer) => writer.write(batch)?,
            Writer::Json(writer) => writer.write(batch)?,
            Writer::Ndjson(writer) => writer.write(batch)?,
            Writer::Csv(writer) => writer.write(&plain::texts(batch)?)?,
            Writer::ArrowStream(writer) => writer.write(batch)?,
            Writer::ArrowFile(writer) => writer.write(batch)?,
            Writer::Parquet(writer) => writer.write(batch).map_err(of_parquet)?,
        }
        Ok(())
    }

    fn try_finish(&mut self) -> Result<(), Failure> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        match writer {
            Writer::Table(mut writer) => writer.finish()?,
            Writer::Json(mut writer) => {
                writer.finish()?;
                let mut destination = writer.into_inner();
                destination.write_all(b"\n")?;
                destination.flush()?;
            }
            Writer::Ndjson(mut writer) => {
                writer.finish()?;
                writer.into_inner().flush()?;
            }
            Writer::Csv(writer) => writer.into_inner().flush()?,
            Writer::ArrowStream(mut writer) => {
                writer.finish()?;
                writer.into_inner()?.flush()?;
            }
            Writer::ArrowFile(mut writer) => {
                writer.finish()?;
                writer.into_inner()?.flush()?;
            }
            Writer::Parquet(writer) => writer.into_inner().map_err(of_parquet)?.flush()?,
        }
        Ok(())
    }
}

impl Named {
    fn open(path: &Path) -> io::Result<Named> {
        let path = match Target::of(path)? {
            Target::File(path) => path,
            Target::Special => return Ok(Named::Special(Target::open_special(path)?)),
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".piste-query-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Named::File(file, path))
    }
}

/// Stdout, or a pager before it, which remembers when its reader has gone.
struct Stdout {
    to: piste_terminal::Output,
    is_reader_gone: Arc<AtomicBool>,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.note(flushed)
    }
}

impl Stdout {
    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                // Relaxed: whoever looks is the same thread.
                self.is_reader_gone.store(true, Ordering::Relaxed);
            }
        })
    }
}

/// Parquet's errors, the same way as Arrow's.
pub(crate) fn of_parquet(error: parquet::errors::ParquetError) -> Failure {
    if let parquet::errors::ParquetError::External(inner) = &error
        && let Some(inner) = inner.downcast_ref::<io::Error>()
    {
        return inner.into();
    }
    Failure::Failed(format!("cannot write Parquet: {error}"))
}
