// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste export`: traces in forms that other tools read. What the forms are is known by `piste_export`; traces of the other version of
//! CTF are written as trim.rs writes them.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use jiff::tz::TimeZone;
use piste_ctf::read::schema::Version;
use piste_export::{ExportError, Exported};
use piste_modelling::{Symbols, is_of_kernel};
use piste_terminal::progress::Progress;
use piste_trace::select::Selection;
use piste_trace::{Finding, Findings, Trace};
use serde::Serialize;

use crate::arguments::{Export, Format, tell_absent};
use crate::failure::{Failure, USAGE};
use crate::imported;
use crate::quantity::counted;
use crate::query;
use crate::screen::{printable, show_json, tell_sentence};
use crate::traces::{open, tell_findings, tell_symbols};
use crate::trim::{self, Work, described, marked};
use crate::unfinished::{Unfinished, cannot_write};

const OUT_BYTES: usize = 256 << 10;

/// As `--json` prints it.
#[derive(Serialize)]
struct Summary<'a> {
    output: &'a Path,
    events: u64,
    bytes: u64,
    findings: Vec<&'a Finding>,
}

/// `piste export`
pub(crate) fn export(arguments: &Export, json: bool) -> Result<(), Failure> {
    let is_trace = matches!(arguments.format, Format::Ctf1 | Format::Ctf2);
    let is_folder = is_trace || arguments.format == Format::Parquet;
    if is_trace && arguments.paths.len() > 1 {
        return Err(Failure::with_status(
            "cannot write several traces as one CTF trace; export each to a separate folder",
            USAGE,
        ));
    }
    let is_stdout = arguments.output.as_os_str() == "-";
    if is_stdout && (is_folder || json || io::stdout().is_terminal()) {
        let why = match (is_folder, json) {
            (true, _) => "cannot write a folder to stdout; name a new folder with -o",
            (_, true) => {
                "cannot write the export to stdout together with --json, which prints a summary there; name a file with -o"
            }
            _ => "refusing to write an export to a terminal; use -o FILE, or redirect stdout",
        };
        return Err(Failure::with_status(why, USAGE));
    }
    if is_trace && arguments.symbols.symbols {
        let sentence = "--symbols has no effect on a CTF trace, which has only the addresses; leave it out, or export to another format";
        return Err(Failure::with_status(sentence, USAGE));
    }
    let mut findings = Findings::default();
    let mut traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    traces.sort_by_key(|trace| !is_of_kernel(trace));
    let selection = arguments.selection.selection(&traces, TimeZone::system)?;
    tell_absent(&traces, &selection, &[]);
    let progress = match is_stdout {
        true => Progress::beside_stdout("exporting", &traces, selection.span, arguments.progress.wanted),
        false => Progress::of("exporting", &traces, selection.span, arguments.progress.wanted),
    };
    let (traces, output) = (&traces[..], arguments.output.as_path());
    let asked = imported::place(&arguments.paths[0], arguments.progress.wanted)?;
    let work = Work {
        traces,
        asked: &asked,
        output,
        selection: &selection,
    };
    let exporter: Exporter = match arguments.format {
        Format::Perfetto => piste_export::perfetto,
        Format::Chrome => piste_export::chrome,
        Format::Json => piste_export::json,
        Format::Parquet => {
            drop(progress);
            // The other program imports files by itself.
            imported::remove_temporary();
            return query::export_parquet(arguments, &selection, json);
        }
        Format::Ctf1 | Format::Ctf2 => {
            let version = match arguments.format {
                Format::Ctf1 => Version::Ctf1,
                _ => Version::Ctf2,
            };
            let metadata = |trace: &Trace| described(trace, &marked(trace, &selection), version);
            let copied = work.write(metadata, &mut findings)?;
            drop(progress);
            return trim::tell(output, copied, &findings, json);
        }
    };
    let symbols = arguments.symbols.of(traces);
    if is_stdout {
        let mut out = BufWriter::with_capacity(OUT_BYTES, io::stdout().lock());
        let exported = exporter(traces, &selection, symbols.as_ref(), &mut out).map_err(failure(output))?;
        out.flush()?;
        drop(progress);
        findings.extend(exported.findings);
        tell_symbols(symbols.as_ref());
        tell_findings(&findings);
        return Ok(());
    }
    let (unfinished, file) = Unfinished::file(output)?;
    let counted_file = Counted { file, bytes: 0 };
    let mut out = BufWriter::with_capacity(OUT_BYTES, counted_file);
    let exported = exporter(traces, &selection, symbols.as_ref(), &mut out).map_err(failure(output))?;
    let flushed = out.into_inner().map_err(io::IntoInnerError::into_error);
    let Counted { file, bytes } = flushed.map_err(|error| cannot_write(output, &error))?;
    drop(file);
    unfinished.finish()?;
    drop(progress);
    let events = exported.events;
    findings.extend(exported.findings);
    tell_symbols(symbols.as_ref());
    if json {
        return show_json(&Summary {
            output,
            events,
            bytes,
            findings: findings.iter().collect(),
        });
    }
    tell_findings(&findings);
    let name = output.to_string_lossy();
    tell_sentence(&format!(
        "{}: {}",
        printable(&name),
        counted(events.cast_signed(), "event")
    ));
    Ok(())
}

/// Counts the bytes that are written to a file. A pipe has no size that could be asked for.
struct Counted {
    file: File,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

type Exporter =
    for<'t> fn(&'t [Trace], &Selection, Option<&Symbols<'t>>, &mut dyn Write) -> Result<Exported, ExportError>;

fn failure(output: &Path) -> impl Fn(ExportError) -> Failure {
    move |error| match error {
        ExportError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        ExportError::Write(error) => cannot_write(output, &error),
        ExportError::Read(error) => Failure::new(ExportError::Read(error)),
    }
}
