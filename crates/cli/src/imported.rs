// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of other tracers, where a command reads traces. `piste import` makes a trace of one; every other command reads one as if that had been
//! done: its trace is in a temporary folder until the command ends.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use piste_import::{Imported, Tracer, Watch};
use piste_reason::reason;
use piste_terminal::progress::Progress;
use piste_trace::progress::Way;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::Import;
use crate::failure::Failure;
use crate::quantity::counted;
use crate::screen::{printable, show_json, tell_sentence};
use crate::unfinished::Unfinished;

/// What was imported so far.
static TEMPORARY: Mutex<Vec<Temporary>> = Mutex::new(Vec::new());

/// The trace of a file, until the command ends.
struct Temporary {
    file: PathBuf,
    /// In `folder`, with the file's name.
    place: PathBuf,
    /// Removed when it is dropped, or when a signal comes.
    _folder: Unfinished,
}

/// As `--json` prints it.
#[derive(Serialize)]
struct Summary<'a> {
    trace: &'a Path,
    tracer: &'static str,
    events: u64,
    notes: &'a [String],
}

/// `piste import`
pub(crate) fn import(arguments: &Import, json: bool) -> Result<(), Failure> {
    let Some(tracer) = tracer(&arguments.file)? else {
        let file = arguments.file.to_string_lossy();
        return Err(Failure::new(printable(&format!(
            "cannot import {file}: it is not a trace.dat file of trace-cmd, the only kind of file that can be imported"
        ))));
    };
    let unfinished = Unfinished::folder(&arguments.output)?;
    let imported = convert(tracer, &arguments.file, unfinished.path(), arguments.progress.wanted)?;
    unfinished.finish()?;
    if json {
        return show_json(&Summary {
            trace: &arguments.output,
            tracer: tracer.name(),
            events: imported.events,
            notes: &imported.notes,
        });
    }
    tell_notes(&arguments.file, &imported);
    let name = arguments.output.to_string_lossy();
    let events = counted(imported.events.cast_signed(), "event");
    tell_sentence(&format!("{}: {events}", printable(&name)));
    Ok(())
}

/// Where the traces of a path are: there, or in a temporary folder where it is a file of another tracer.
pub(crate) fn place(path: &Path, shows_progress: bool) -> Result<PathBuf, Failure> {
    if let Some(known) = temporary().iter().find(|known| known.file == path) {
        return Ok(known.place.clone());
    }
    // What cannot be read is said by those who look for traces there.
    let Some(tracer) = tracer(path).unwrap_or(None) else {
        return Ok(path.to_owned());
    };
    let folder = Unfinished::folder(&temporary_folder()?)?;
    let place = folder.path().join(path.file_name().unwrap_or(OsStr::new("trace")));
    folder.make_folders(Path::new(path.file_name().unwrap_or(OsStr::new("trace"))))?;
    let imported = convert(tracer, path, &place, shows_progress)?;
    tell_notes(path, &imported);
    temporary().push(Temporary {
        file: path.to_owned(),
        place: place.clone(),
        _folder: folder,
    });
    Ok(place)
}

/// A path as people know it: that of the file which was imported, and what is in its trace.
pub(crate) fn shown(path: &Path) -> Cow<'_, Path> {
    let imported = temporary();
    let found = imported
        .iter()
        .find_map(|known| Some((known, path.strip_prefix(&known.place).ok()?)));
    found.map_or(Cow::Borrowed(path), |(known, way)| Cow::Owned(known.file.join(way)))
}

/// The same of all paths in a text.
pub(crate) fn shown_in(text: &str) -> String {
    with_files(text.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The same of all paths in JSON.
pub(crate) fn shown_in_json(text: String) -> String {
    with_files(text, |path| {
        let quoted = Value::from(path.to_string_lossy()).to_string();
        quoted.trim_matches('"').to_owned()
    })
}

fn with_files(text: String, written: impl Fn(&Path) -> String) -> String {
    let with_file = |text: String, known: &Temporary| text.replace(&written(&known.place), &written(&known.file));
    temporary().iter().fold(text, with_file)
}

/// Removes what was imported for this command.
pub(crate) fn remove_temporary() {
    let imported = std::mem::take(&mut *temporary());
    drop(imported);
}

/// The tracer that a path is a file of.
pub(crate) fn tracer(path: &Path) -> Result<Option<Tracer>, Failure> {
    let unreadable = |error| {
        let file = path.to_string_lossy();
        Failure::new(printable(&format!("cannot read {file}: {}", reason(&error))))
    };
    Tracer::of(path).map_err(unreadable)
}

fn convert(tracer: Tracer, file: &Path, folder: &Path, shows_progress: bool) -> Result<Imported, Failure> {
    // A signal removes the folder and ends this process.
    let watch = Arc::new(Watch::new(|| false));
    let watched = Arc::clone(&watch);
    let way = move || {
        let (done_bytes, total_bytes) = watched.way();
        Way {
            done_bytes,
            total_bytes,
        }
    };
    let progress = Progress::on_the_way("importing", way, shows_progress);
    let imported = tracer.import(file, folder, &watch);
    drop(progress);
    imported.map_err(|error| Failure::new(printable(&error.to_string())))
}

fn tell_notes(file: &Path, imported: &Imported) {
    let file = file.to_string_lossy();
    for note in &imported.notes {
        tell_sentence(&format!("{}: {}", printable(&file), printable(note)));
    }
}

/// A name that nobody can know beforehand: others may write to the folder.
fn temporary_folder() -> Result<PathBuf, Failure> {
    let mut random = [0; 8];
    let failed = |error| {
        Failure::new(format!(
            "cannot make a temporary folder: {}",
            reason(&std::io::Error::from(error))
        ))
    };
    getrandom(&mut random, GetRandomFlags::empty()).map_err(failed)?;
    Ok(env::temp_dir().join(format!("piste-import-{:016x}", u64::from_ne_bytes(random))))
}

fn temporary() -> MutexGuard<'static, Vec<Temporary>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}
