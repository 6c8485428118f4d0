// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and folders that come into being at once: they are written under another name beside their own, and get theirs when they are
//! whole. What a failure or a signal interrupts leaves nothing behind.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use piste_reason::reason;
use piste_trace::durable::{self, Target};
use piste_trace::privacy;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::child::not_ignored;
use crate::failure::{Failure, KILLED};
use crate::screen::printable;

/// What is not whole yet.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How often a folder is removed that somebody who still writes may make anew.
const TRIES: u32 = 3;

/// A file or folder on its way. Dropped before it is finished, it is removed.
pub(crate) struct Unfinished {
    target: PathBuf,
    /// Where it is meanwhile; absent when it is finished, and for a device or a pipe, which is written to directly.
    part: Option<PathBuf>,
}

impl Unfinished {
    /// A new file, which replaces one of that name when it is finished. A device or a pipe is not replaced but written to.
    pub(crate) fn file(target: &Path) -> Result<(Unfinished, File), Failure> {
        remove_at_signals().map_err(|error| cannot_write(target, &error))?;
        Unfinished::unguarded_file(target)
    }

    /// The same without care for signals.
    fn unguarded_file(target: &Path) -> Result<(Unfinished, File), Failure> {
        if target.is_dir() {
            return Err(Failure::new(format!("cannot write {}: it is a folder", shown(target))));
        }
        let cannot_write = |error| cannot_write(target, &error);
        let file = match Target::of(target).map_err(cannot_write)? {
            Target::File(file) => file,
            Target::Special => {
                let unfinished = Unfinished {
                    target: target.to_owned(),
                    part: None,
                };
                return Ok((unfinished, Target::open_special(target).map_err(cannot_write)?));
            }
        };
        let unfinished = Unfinished::at(&file, |part| File::create_new(part).map(drop))?;
        let file = File::options().write(true).open(unfinished.path());
        Ok((unfinished, file.map_err(cannot_write)?))
    }

    /// A new folder for a trace. There must be nothing of that name, or an empty folder: what somebody keeps is never replaced by a folder.
    pub(crate) fn folder(target: &Path) -> Result<Unfinished, Failure> {
        let is_free = match fs::read_dir(target) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !is_free {
            return Err(Failure::new(format!(
                "cannot write {}: it exists and is not an empty folder; choose another",
                shown(target)
            )));
        }
        remove_at_signals().map_err(|error| cannot_write(target, &error))?;
        Unfinished::at(target, |part| privacy::folder().create(part))
    }

    fn at(target: &Path, create: impl FnOnce(&Path) -> io::Result<()>) -> Result<Unfinished, Failure> {
        let part = part_of(target);
        // A signal between the two would leave it behind.
        let mut unfinished = unfinished();
        create(&part).map_err(|error| cannot_write(target, &error))?;
        unfinished.push(part.clone());
        Ok(Unfinished {
            target: target.to_owned(),
            part: Some(part),
        })
    }

    /// Makes the folders of a way within this one, which is never made anew: a signal may have removed it.
    pub(crate) fn make_folders(&self, way: &Path) -> Result<PathBuf, Failure> {
        let mut folder = self.path().to_owned();
        for name in way {
            folder.push(name);
            match privacy::folder().create(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(cannot_write(&self.target, &error));
                }
                _ => {}
            }
        }
        Ok(folder)
    }

    /// Where it is written.
    pub(crate) fn path(&self) -> &Path {
        self.part.as_deref().unwrap_or(&self.target)
    }

    /// It is whole: it is on the disk, and then gets its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let Some(part) = &self.part else { return Ok(()) };
        durable::sync(part).map_err(|error| cannot_write(&self.target, &error))?;
        let mut unfinished = unfinished();
        let Some(part) = self.part.take() else { return Ok(()) };
        let finished = fs::rename(&part, &self.target);
        if finished.is_err() {
            remove(&part);
        }
        unfinished.retain(|other| *other != part);
        drop(unfinished);
        finished.map_err(|error| cannot_write(&self.target, &error))?;
        durable::sync_name(&self.target);
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            let mut unfinished = unfinished();
            remove(&part);
            unfinished.retain(|other| *other != part);
        }
    }
}

/// A file for the results of a command that measures. Whether it can be written is known before the command measures; it is written at the end, at
/// once, so whatever ends the command before leaves an older file as it is, and nothing beside it.
pub(crate) struct ResultFile {
    target: PathBuf,
    /// A device or a pipe, which is opened only once.
    special: Option<File>,
}

impl ResultFile {
    /// Makes a file in the folder of `target`, and removes it again. A device or a pipe is opened.
    pub(crate) fn new(target: &Path) -> Result<ResultFile, Failure> {
        let (unfinished, file) = Unfinished::unguarded_file(target)?;
        Ok(ResultFile {
            target: target.to_owned(),
            special: unfinished.part.is_none().then_some(file),
        })
    }

    /// Writes the results, and replaces a file of that name. A device or a pipe is not replaced but written to.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        let write = |mut file: File| {
            let written = file.write_all(text.as_bytes());
            written.map_err(|error| cannot_write(&self.target, &error))
        };
        if let Some(file) = self.special {
            return write(file);
        }
        let (unfinished, file) = Unfinished::unguarded_file(&self.target)?;
        write(file)?;
        unfinished.finish()
    }
}

/// What is said when writing fails.
pub(crate) fn cannot_write(target: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {}", shown(target), reason(error)))
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// In the same folder, since only there a change of names is at once; hidden, and of this process.
fn part_of(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove(part: &Path) {
    let _ = match part.is_dir() {
        true => {
            // Who still writes into it would fill it while it is emptied; under another name nobody finds it.
            let gone = part.with_extension("gone");
            fs::rename(part, &gone).and_then(|()| fs::remove_dir_all(gone))
        }
        false => fs::remove_file(part),
    };
}

/// From now on, what ends this process removes first what is not whole.
fn remove_at_signals() -> io::Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        result = not_ignored([SIGINT, SIGTERM, SIGHUP])
            .and_then(Signals::new)
            .and_then(|mut signals| {
                let wait = move || {
                    if let Some(signal) = signals.forever().next() {
                        // Held to the end: nothing is finished, and nothing begun, any more.
                        let unfinished = unfinished();
                        for _ in 0..TRIES {
                            unfinished.iter().for_each(|part| remove(part));
                        }
                        exit(i32::from(KILLED) + signal);
                    }
                };
                thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
            });
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.json");
        fs::write(&target, "old").unwrap();
        let (unfinished, mut file) = Unfinished::file(&target).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        unfinished.finish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_and_special_files_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        let (unfinished, mut file) = Unfinished::file(&path("link")).unwrap();
        file.write_all(b"new").unwrap();
        unfinished.finish().unwrap();
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "new");
        assert!(path("link").is_symlink());

        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RWXU).unwrap();
        let pipe = path("pipe");
        let reader = thread::spawn(move || fs::read_to_string(pipe).unwrap());
        let (unfinished, mut file) = Unfinished::file(&path("pipe")).unwrap();
        file.write_all(b"piped").unwrap();
        drop(file);
        unfinished.finish().unwrap();
        assert_eq!(reader.join().unwrap(), "piped");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        let (unfinished, file) = Unfinished::file(Path::new("/dev/full")).unwrap();
        assert!((&file).write_all(b"lost").is_err());
        drop(unfinished);
        assert!(Path::new("/dev/full").exists());
    }

    #[test]
    fn results_replace_a_file_when_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("result.json");
        fs::write(&target, "old").unwrap();
        let file = ResultFile::new(&target).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        file.write("new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(ResultFile::new(Path::new("/dev/full")).unwrap().write("lost").is_err());
        assert!(ResultFile::new(folder.path()).is_err());
    }

    #[test]
    fn what_fails_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        drop(Unfinished::file(&folder.path().join("file")).unwrap());
        let trace = Unfinished::folder(&folder.path().join("trace")).unwrap();
        fs::write(trace.path().join("metadata"), "").unwrap();
        drop(trace);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_was_removed_is_not_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let trace = Unfinished::folder(&folder.path().join("trace")).unwrap();
        assert_eq!(trace.make_folders(Path::new("")).unwrap(), trace.path());
        for _ in 0..2 {
            let made = trace.make_folders(Path::new("chunk/user")).unwrap();
            assert!(made.is_dir() && made.starts_with(trace.path()));
        }
        remove(trace.path());
        assert!(trace.make_folders(Path::new("chunk/user")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_replaces_nothing_but_an_empty_folder() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("trace");
        fs::create_dir(&target).unwrap();
        Unfinished::folder(&target).unwrap().finish().unwrap();
        fs::write(target.join("metadata"), "").unwrap();
        assert!(Unfinished::folder(&target).is_err());
        assert!(Unfinished::file(&target).is_err());
        assert!(Unfinished::file(&folder.path().join("no/such")).is_err());
    }
}
