// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste trim`: a part of a trace as a trace. Also what writes traces in the other version of CTF, for export.rs.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use jiff::tz::TimeZone;
use piste_ctf::read::schema::{Schema, Version};
use piste_ctf::write::{self, Unwritable};
use piste_modelling::files_with_names;
use piste_reason::reason;
use piste_symbols::binary::open as open_file;
use piste_terminal::progress::Progress;
use piste_trace::copy::{Copied, CopyError, Target, copy};
use piste_trace::part::Part;
use piste_trace::select::Selection;
use piste_trace::{Finding, Findings, Trace, privacy};
use serde::Serialize;

use crate::arguments::{Trim, tell_absent};
use crate::failure::Failure;
use crate::imported;
use crate::quantity::{counted, size};
use crate::screen::{printable, show_json, tell_sentence};
use crate::traces::{open, tell_findings};
use crate::unfinished::Unfinished;

/// As `--json` prints it.
#[derive(Serialize)]
struct Summary<'a> {
    trace: &'a Path,
    packets: u64,
    whole_packets: u64,
    bytes: u64,
    findings: Vec<&'a Finding>,
}

/// `piste trim`
pub(crate) fn trim(arguments: &Trim, json: bool) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let traces = open(
        std::slice::from_ref(&arguments.path),
        arguments.progress.wanted,
        &mut findings,
    )?;
    let selection = arguments.selection.selection(&traces, TimeZone::system)?;
    tell_absent(&traces, &selection, &[]);
    let asked = imported::place(&arguments.path, arguments.progress.wanted)?;
    let work = Work {
        traces: &traces,
        asked: &asked,
        output: &arguments.output,
        selection: &selection,
    };
    let unreadable = |error| Failure::new(format!("cannot read the metadata: {}", reason(&error)));
    let metadata = |trace: &Trace| match marked(trace, &selection) {
        Cow::Borrowed(_) => trace.metadata().map_err(unreadable),
        Cow::Owned(schema) => described(trace, &schema, schema.version),
    };
    let progress = Progress::of("trimming", &traces, selection.span, arguments.progress.wanted);
    let copied = work.write(metadata, &mut findings)?;
    drop(progress);
    tell(&arguments.output, copied, &findings, json)
}

/// Says what was written.
pub(crate) fn tell(output: &Path, copied: Copied, findings: &Findings, json: bool) -> Result<(), Failure> {
    if json {
        return show_json(&Summary {
            trace: output,
            packets: copied.packets,
            whole_packets: copied.whole_packets,
            bytes: copied.bytes,
            findings: findings.iter().collect(),
        });
    }
    tell_findings(findings);
    tell_sentence(&format!(
        "{}: {} in {}",
        printable(&output.to_string_lossy()),
        size(copied.bytes.cast_signed()),
        counted(copied.packets.cast_signed(), "packet"),
    ));
    Ok(())
}

/// Traces that are to be written once more.
pub(crate) struct Work<'a> {
    pub(crate) traces: &'a [Trace],
    /// The path that they were found in: their folders lie in the output as they lie in it.
    pub(crate) asked: &'a Path,
    pub(crate) output: &'a Path,
    pub(crate) selection: &'a Selection,
}

impl Work<'_> {
    /// Writes them with the metadata that `metadata` gives for each.
    pub(crate) fn write(
        &self,
        metadata: impl Fn(&Trace) -> Result<Vec<u8>, Failure>,
        findings: &mut Findings,
    ) -> Result<Copied, Failure> {
        let unfinished = Unfinished::folder(self.output)?;
        let target = |trace: &Trace| {
            let way = trace.folder.strip_prefix(self.asked).unwrap_or(Path::new(""));
            Ok(Target {
                folder: unfinished.make_folders(way)?,
                metadata: metadata(trace)?,
            })
        };
        let targets = self
            .traces
            .iter()
            .map(target)
            .collect::<Result<Vec<Target>, Failure>>()?;
        for (trace, target) in self.traces.iter().zip(&targets) {
            self.copy_names(trace, &target.folder, unfinished.path())?;
        }
        let copied = copy(self.traces, &targets, self.selection, findings);
        let copied = copied.map_err(|error| self.failure(error, unfinished.path()))?;
        unfinished.finish()?;
        Ok(copied)
    }

    /// Copies what says what lies at addresses, from beside a trace to beside its copy. Where that would be outside of the output, it is not done.
    fn copy_names(&self, trace: &Trace, copy: &Path, part: &Path) -> Result<(), Failure> {
        let Some(folder) = copy.parent().filter(|folder| folder.starts_with(part)) else {
            return Ok(());
        };
        for from in files_with_names(trace) {
            let Some(name) = from.file_name() else { continue };
            let to = folder.join(name);
            // That of another domain has the same.
            if to.exists() {
                continue;
            }
            let mut source = match open_file(&from) {
                Ok(source) => source,
                Err(error) => {
                    let why = reason(&error);
                    tell_sentence(&printable(&format!("{} is not copied: {why}", from.display())));
                    continue;
                }
            };
            let copied = privacy::file().write(true).create_new(true).open(&to);
            let copied = copied.and_then(|mut copy| io::copy(&mut source, &mut copy));
            copied.map_err(|error| self.failure(CopyError::Unwritable { path: to, error }, part))?;
        }
        Ok(())
    }

    /// The person knows the output by its own name.
    fn failure(&self, error: CopyError, part: &Path) -> Failure {
        let own = |path: &Path| {
            path.strip_prefix(part)
                .map_or(path.to_owned(), |way| self.output.join(way))
        };
        let error = match error {
            CopyError::Unwritable { path, error } => CopyError::Unwritable {
                path: own(&path),
                error,
            },
            other => other,
        };
        Failure::new(printable(&error.to_string()))
    }
}

/// The metadata of a trace of which a part is written: it says which.
pub(crate) fn marked<'t>(trace: &'t Trace, selection: &Selection) -> Cow<'t, Schema> {
    let mut schema = Cow::Borrowed(trace.schema());
    let part = Part::selected(selection);
    if part != Part::default() {
        part.mark(schema.to_mut());
    }
    schema
}

/// Metadata in a version of CTF.
pub(crate) fn described(trace: &Trace, schema: &Schema, version: Version) -> Result<Vec<u8>, Failure> {
    let (text, name) = match version {
        Version::Ctf1 => (write::tsdl(schema), "CTF 1.8"),
        Version::Ctf2 => (write::json(schema), "CTF 2"),
    };
    text.map(String::into_bytes)
        .map_err(|why| cannot_translate(trace, name, &why))
}

/// What is said when a version of CTF cannot have a field.
fn cannot_translate(trace: &Trace, version: &str, why: &Unwritable) -> Failure {
    let folder = trace.folder.to_string_lossy();
    Failure::new(printable(&format!("cannot write {folder} in {version}: {why}")))
}
