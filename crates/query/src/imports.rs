// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of other tracers: each becomes a trace in a temporary folder, which is removed when the program ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use piste_import::{ImportError, Tracer, Watch};
use piste_reason::reason;
use piste_terminal::printable;
use piste_terminal::progress::Progress;
use piste_trace::progress::Way;
use tempfile::TempDir;

use crate::failure::{Failure, tell};
use crate::interrupt::Interrupt;

/// Where the traces of some paths are.
pub(crate) struct Imports {
    places: Vec<PathBuf>,
    /// Removed when they are dropped.
    _folders: Vec<TempDir>,
}

impl Imports {
    /// Imports those of the paths that are files of other tracers.
    pub(crate) fn of(paths: &[PathBuf], shows_progress: bool, interrupt: &Interrupt) -> Result<Imports, Failure> {
        let (mut places, mut folders) = (Vec::new(), Vec::new());
        for path in paths {
            // What cannot be read is said by those who look for traces there.
            let Some(tracer) = Tracer::of(path).unwrap_or(None) else {
                places.push(path.clone());
                continue;
            };
            let folder = tempfile::Builder::new().prefix("piste-import-").tempdir();
            let folder = folder
                .map_err(|error| Failure::Failed(format!("cannot make a temporary folder: {}", reason(&error))))?;
            import(tracer, path, folder.path(), shows_progress, interrupt)?;
            places.push(folder.path().to_owned());
            folders.push(folder);
        }
        Ok(Imports {
            places,
            _folders: folders,
        })
    }

    /// A folder for each of the paths.
    pub(crate) fn places(&self) -> &[PathBuf] {
        &self.places
    }
}

fn import(
    tracer: Tracer,
    file: &Path,
    folder: &Path,
    shows_progress: bool,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let interrupt = interrupt.clone();
    let watch = Arc::new(Watch::new(move || interrupt.is_raised()));
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
    match imported {
        Ok(imported) => {
            let notes = imported.notes.iter();
            notes.for_each(|note| tell(&printable(&format!("{}: {note}", file.display()))));
            Ok(())
        }
        Err(ImportError::Stopped) => Err(Failure::Interrupted),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}
