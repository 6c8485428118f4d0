// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding traces: a folder with a file `metadata` is one, its other files are its streams; any other folder is looked through.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use piste_ctf::read::clock::ClockScale;
use piste_ctf::read::metadata::{self, MetadataError, Salvaged};
use piste_ctf::read::plan::{Plan, PlanError};
use piste_ctf::read::schema::{EnvironmentValue, Schema};
use piste_reason::reason;

use crate::finding::{Finding, Findings, Kind};
use crate::index::StreamIndex;
use crate::regular;
use crate::repeated::find_repeated;

/// A trace in a folder.
#[derive(Debug)]
pub struct Trace {
    /// The folder.
    pub folder: PathBuf,
    /// `vm/user`: the host, and the way from the folder that was asked for; each may be empty.
    pub name: String,
    /// Its metadata, ready to read by.
    pub plan: Plan,
    /// Its streams in the order of their files' names, with where their packets are.
    pub streams: Vec<StreamIndex>,
}

/// Why a path cannot be read as a trace.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A folder or file that cannot be read.
    #[error("cannot read {}: {}", path.display(), reason(.error))]
    Unreadable {
        /// It.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Neither a trace nor a folder with traces.
    #[error("there is no trace in {}; a trace is a folder that contains a file `metadata`", path.display())]
    NoTrace {
        /// The path.
        path: PathBuf,
    },
    /// The streams of a trace, and nothing that describes them.
    #[error("cannot read {}: {NO_METADATA}", folder.display())]
    NoMetadata {
        /// Where they are.
        folder: PathBuf,
    },
    /// Metadata that cannot be understood.
    #[error("cannot read {}: {error}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        error: MetadataError,
    },
    /// Metadata that contradicts itself.
    #[error("cannot read {}: {error}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        error: PlanError,
    },
}

/// What Piste calls the other domain in the environment that was recorded as well.
const BESIDE: &str = "piste_beside";
/// What Piste calls the reason in the environment for which it could not write.
const WRITE_ERROR: &str = "piste_write_error";
const WRITE_ERROR_TOLD: &str = "the trace could not be written for a while, and events are missing for that reason";
const NO_METADATA: &str = "its file `metadata` is missing, without which the streams cannot be read";

impl OpenError {
    /// As a finding, where other traces can be read.
    fn find(self, findings: &mut Findings) {
        let (kind, file, why) = match self {
            OpenError::Unreadable { path, error } => (Kind::UnreadableFile, path, reason(&error)),
            OpenError::NoTrace { path } => (Kind::UnreadableFile, path, "there is no trace".to_owned()),
            OpenError::NoMetadata { folder } => (Kind::DamagedMetadata, folder, NO_METADATA.to_owned()),
            OpenError::Metadata { path, error } => (Kind::DamagedMetadata, path, unread(&error)),
            OpenError::Plan { path, error } => (Kind::DamagedMetadata, path, unread(&error)),
        };
        findings.about_file(kind, &file, why);
    }
}

fn unread(error: &dyn std::error::Error) -> String {
    format!("nothing of this trace can be read: {error}")
}

/// Of a file `metadata`, no more is read. LTTng's of a kernel with all its events have some megabytes.
const METADATA_BYTES_MAX: u64 = 64 << 20;
/// Folders below this depth are not looked through.
const DEPTH_MAX: u32 = 16;

/// Opens every trace in a path. What is wrong with their streams, folders that cannot be looked through, and what traces have in common are
/// added to `findings`.
///
/// # Errors
/// There is no trace, or the metadata of one cannot be understood.
pub fn open(path: &Path, findings: &mut Findings) -> Result<Vec<Trace>, OpenError> {
    let folders = folders(path, findings)?.into_iter();
    let traces = folders.map(|folder| Trace::open(folder, path, findings));
    let traces: Vec<Trace> = traces.collect::<Result<_, _>>()?;
    find_repeated(&traces, findings);
    Ok(traces)
}

/// Opens every trace in some paths that can be opened, and says why the others cannot. What is wrong with their streams, folders that cannot be
/// looked through, and what traces have in common are added to `findings`; if any trace can be opened, so are those that cannot.
pub fn open_all(paths: &[PathBuf], findings: &mut Findings) -> (Vec<Trace>, Vec<OpenError>) {
    let (mut traces, mut errors, mut unopened) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        let folders = folders(path, findings).unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        });
        for folder in folders {
            match Trace::open(folder, path, findings) {
                Ok(trace) => traces.push(trace),
                Err(error) => unopened.push(error),
            }
        }
    }
    if traces.is_empty() {
        errors.append(&mut unopened);
    }
    unopened.into_iter().for_each(|error| error.find(findings));
    find_repeated(&traces, findings);
    (traces, errors)
}

/// The folders with traces in a path: itself, or those below it. Folders below it that cannot be looked through are added to `findings`.
///
/// # Errors
/// There is none, or nothing but a folder that cannot be read.
pub fn folders(path: &Path, findings: &mut Findings) -> Result<Vec<PathBuf>, OpenError> {
    let mut search = Search::default();
    search.look(path, 0);
    if search.found.is_empty() {
        let unreadable = search.unreadable.into_iter().next();
        let undescribed = search.undescribed.into_iter().next();
        return Err(match (unreadable, undescribed) {
            (Some((path, error)), _) => OpenError::Unreadable { path, error },
            (None, Some(folder)) => OpenError::NoMetadata { folder },
            (None, None) => OpenError::NoTrace { path: path.to_owned() },
        });
    }
    for (folder, error) in search.unreadable {
        findings.about_file(Kind::UnreadableFile, &folder, reason(&error));
    }
    for folder in search.undescribed {
        OpenError::NoMetadata { folder }.find(findings);
    }
    Ok(search.found)
}

#[derive(Default)]
struct Search {
    /// Folders with a trace.
    found: Vec<PathBuf>,
    /// Folders with the streams of a trace, and without its metadata.
    undescribed: Vec<PathBuf>,
    unreadable: Vec<(PathBuf, io::Error)>,
}

impl Search {
    fn look(&mut self, folder: &Path, depth: u32) {
        let listed = match fs::metadata(folder.join("metadata")) {
            Ok(metadata) if metadata.is_file() => {
                self.found.push(folder.to_owned());
                return;
            }
            Ok(metadata) if !metadata.is_dir() => Err(regular::no_file()),
            // Its names may be listed, but nobody can tell what they are.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
            // A file, in which nobody looks for folders.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && folder.is_file() => Ok(Vec::new()),
            _ => folders_in(folder),
        };
        match listed {
            Ok(folders) => {
                if folders.iter().any(|folder| is_index(folder)) {
                    self.undescribed.push(folder.to_owned());
                }
                if depth < DEPTH_MAX {
                    folders.iter().for_each(|folder| self.look(folder, depth + 1));
                }
            }
            Err(error) => self.unreadable.push((folder.to_owned(), error)),
        }
    }
}

/// The folder in which tracers put the indices of a trace's streams, and there is one.
fn is_index(folder: &Path) -> bool {
    let is_of_stream = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "idx"))
    };
    folder.ends_with("index") && fs::read_dir(folder).is_ok_and(|mut entries| entries.any(is_of_stream))
}

/// In the order of their names.
fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Links are not followed: they may lead back.
        if entry.file_type().is_ok_and(|of_type| of_type.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

impl Trace {
    /// Opens the trace of a folder that is `asked`, or is below it. What is wrong with its streams is added to `findings`.
    ///
    /// # Errors
    /// Its files cannot be listed, or its metadata cannot be understood.
    pub fn open(folder: PathBuf, asked: &Path, findings: &mut Findings) -> Result<Trace, OpenError> {
        let path = folder.join("metadata");
        let (bytes, file_bytes, salvaged) = match settled_metadata(|| regular::read(&path, METADATA_BYTES_MAX)) {
            Ok(read) => read,
            Err(error) => return Err(OpenError::Unreadable { path, error }),
        };
        if file_bytes > METADATA_BYTES_MAX {
            let what = format!("it has {file_bytes} bytes, of which only the first {METADATA_BYTES_MAX} are read");
            findings.about_file(Kind::DamagedMetadata, &path, what);
        }
        let Salvaged { schema, faults } = match salvaged {
            Ok(salvaged) => salvaged,
            Err(error) => return Err(OpenError::Metadata { path, error }),
        };
        let (mut plan, unplanned) = match Plan::salvage(schema) {
            Ok(salvaged) => salvaged,
            Err(error) => return Err(OpenError::Plan { path, error }),
        };
        let faults = faults.iter().map(ToString::to_string);
        for fault in faults.chain(unplanned.iter().map(ToString::to_string)) {
            findings.about_file(Kind::DamagedMetadata, &path, fault);
        }
        let mut files = stream_files(&folder).map_err(|error| OpenError::Unreadable {
            path: folder.clone(),
            error,
        })?;
        files.sort();
        let streams = crate::index::load(&folder, &bytes, &plan, files, findings);
        if let Some(later) = grown(&path, &bytes) {
            plan = later;
        }
        let mut trace = Trace {
            folder,
            name: String::new(),
            plan,
            streams,
        };
        trace.name = trace.name_from(asked);
        if let Some(missing) = trace.missing_beside().filter(|_| trace.folder != asked) {
            let what = "this folder is missing; it contained the other part of the recording (programs or kernel)";
            findings.about_file(Kind::MissingTrace, &missing, what.to_owned());
        }
        if let Some(why) = trace.write_error() {
            findings.about_file(Kind::WriteError, &path, format!("{WRITE_ERROR_TOLD} ({why})"));
        }
        Ok(trace)
    }

    /// The folder of the other domain of a recording of Piste, as far as its place tells: it was there at the end, and is gone.
    fn missing_beside(&self) -> Option<PathBuf> {
        let other = self.environment(BESIDE)?;
        let is_in_place = matches!(
            (self.folder.file_name()?.to_str()?, other),
            ("user", "kernel") | ("kernel", "user")
        );
        let folder = self.folder.with_file_name(other);
        let is_missing = !folder.join("metadata").exists() && !is_index(&folder.join("index"));
        (is_in_place && is_missing).then_some(folder)
    }

    /// Why events are missing that the tracer could not write, as it says.
    pub fn write_error(&self) -> Option<&str> {
        let lacks_events = self.streams.iter().any(|stream| !stream.losses.is_empty());
        self.environment(WRITE_ERROR).filter(|_| lacks_events)
    }

    fn name_from(&self, asked: &Path) -> String {
        let way = self.folder.strip_prefix(asked).unwrap_or(Path::new(""));
        let parts = [self.environment("hostname").unwrap_or_default(), &way.to_string_lossy()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("/")
    }

    /// The file `metadata`, as far as it is read.
    ///
    /// # Errors
    /// It cannot be read any more.
    pub fn metadata(&self) -> io::Result<Vec<u8>> {
        Ok(regular::read(&self.folder.join("metadata"), METADATA_BYTES_MAX)?.0)
    }

    /// What the metadata says.
    pub fn schema(&self) -> &Schema {
        &self.plan.schema
    }

    /// The clock of one of its streams.
    pub fn scale(&self, stream: &StreamIndex) -> Option<ClockScale> {
        let class = self.schema().streams.get(&stream.class_id)?;
        self.schema().clocks.get(class.clock?).map(ClockScale::new)
    }

    /// A text of the environment.
    pub fn environment(&self, key: &str) -> Option<&str> {
        let found = self.schema().environment.iter().find(|(known, _)| known == key);
        match found {
            Some((_, EnvironmentValue::Text(text))) => Some(text),
            _ => None,
        }
    }

    /// The process that all events are of, if the environment says so: its id in its own namespace.
    pub fn own_process(&self) -> Option<i64> {
        let found = self.schema().environment.iter().find(|(known, _)| known == "vpid");
        match found {
            Some((_, EnvironmentValue::Integer(vpid))) => Some(*vpid),
            _ => None,
        }
    }
}

/// Metadata as bytes, how many bytes the file has, and what is understood of it. If a tracer is adding to it just now, the last part may not be all
/// there: it is read again until it is, or nothing more comes.
///
/// # Errors
/// It cannot be read.
fn settled_metadata(
    mut read: impl FnMut() -> io::Result<(Vec<u8>, u64)>,
) -> io::Result<(Vec<u8>, u64, Result<Salvaged, MetadataError>)> {
    const READS_MAX: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(1);
    let (mut bytes, mut file_bytes) = read()?;
    for _ in 1..READS_MAX {
        let salvaged = metadata::salvage(&bytes);
        let is_sound = salvaged.as_ref().is_ok_and(|salvaged| salvaged.faults.is_empty());
        if is_sound || file_bytes > METADATA_BYTES_MAX {
            return Ok((bytes, file_bytes, salvaged));
        }
        thread::sleep(PAUSE);
        let (later, later_file_bytes) = read()?;
        // What ends with a line is not cut.
        if later == bytes && bytes.ends_with(b"\n") {
            return Ok((bytes, file_bytes, salvaged));
        }
        (bytes, file_bytes) = (later, later_file_bytes);
    }
    let salvaged = metadata::salvage(&bytes);
    Ok((bytes, file_bytes, salvaged))
}

/// The plan of metadata that have grown: who still writes a trace adds a class of events before the first event of it, so that of all packets that
/// were found until now the classes are there by now.
fn grown(path: &Path, before: &[u8]) -> Option<Plan> {
    let is_longer = |file: &fs::Metadata| file.len().min(METADATA_BYTES_MAX) > before.len() as u64;
    fs::metadata(path).ok().filter(is_longer)?;
    let (bytes, _) = regular::read(path, METADATA_BYTES_MAX).ok()?;
    if !bytes.starts_with(before) {
        return None;
    }
    let (plan, _) = Plan::salvage(metadata::salvage(&bytes).ok()?.schema).ok()?;
    Some(plan)
}

/// The files beside the metadata, but for hidden ones.
fn stream_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if entry.path().is_file() && name != "metadata" && !is_hidden {
            files.push(entry.path());
        }
    }
    Ok(files)
}

impl Findings {
    /// Something about a whole file.
    pub(crate) fn about_file(&mut self, kind: Kind, file: &Path, what: String) {
        self.add(Finding {
            kind,
            file: file.to_owned(),
            count: 1,
            offset: 0,
            what,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_to_which_somebody_adds_are_read_until_they_are_whole() {
        let whole = "trace { major = 1; minor = 8; byte_order = le; };\nstream { };\nevent { name = late; };\n";
        let wrong = "trace { major = 1; minor = 8; byte_order = le; };\nevent { nonsense\n";
        let cut = &whole[..whole.len() - 9];
        for (states, read_count, fault_count) in [
            (&[whole][..], 1, 0),
            (&[cut, whole], 2, 0),
            (&[cut, cut, cut, whole], 4, 0),
            (&[cut], 20, 1),
            // Nothing comes any more.
            (&[wrong], 2, 1),
        ] {
            let mut reads = 0;
            let read = || {
                let state = states[reads.min(states.len() - 1)].as_bytes().to_vec();
                reads += 1;
                let bytes = state.len() as u64;
                Ok((state, bytes))
            };
            let (_, _, salvaged) = settled_metadata(read).expect("it can be read");
            let faults = salvaged.map_or(1, |salvaged| salvaged.faults.len());
            assert_eq!((reads, faults), (read_count, fault_count), "{states:?}");
        }
    }
}
