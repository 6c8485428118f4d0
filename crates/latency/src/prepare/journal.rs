// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal of changes: a file with a line for each change to a setting of the machine, written before the change is made, with what undoes it.
//! Whoever finds the file with nobody holding its lock knows that the process that made the changes is gone, and undoes them.
//!
//! Lines are JSON: `{"change": ...}` before a change, `{"made": [NUMBER, TEXT]}` after it with what the file then contains, `{"undone": NUMBER}` for
//! a change that is already undone. Changes have numbers from 0 on. A last line that is incomplete belongs to a change that was not made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use piste_reason::reason;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::threads;

/// A control group can be removed a moment after its last thread has ended.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// A change, with what undoes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// A file of the kernel was written.
    Value {
        path: PathBuf,
        /// What is written to undo it.
        undo: String,
    },
    /// A controller was enabled for the groups below one.
    Controller {
        /// The file that lists the enabled ones.
        path: PathBuf,
        name: String,
    },
    /// A control group was made.
    Group { path: PathBuf },
    /// This process was moved from one control group to another.
    Process {
        pid: i32,
        /// The list of processes of the group that it came from.
        from: PathBuf,
    },
    /// A thread was kept from some CPUs.
    Thread {
        thread: i32,
        /// When it started, by which another thread of the same number is recognised.
        started: u64,
        cpus: Vec<u32>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Change(Change),
    Made(usize, String),
    Undone(usize),
}

/// A change as the journal has it.
#[derive(Debug)]
struct Entry {
    change: Change,
    /// What the file contained afterwards.
    made: Option<String>,
    is_undone: bool,
}

/// A journal whose lock this process has.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    entries: Vec<Entry>,
}

/// What undoing changes led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// How many changes were undone.
    pub undone: usize,
    /// What could not be undone, or was left as somebody else had set it since, as sentences without their ends.
    pub problems: Vec<String>,
}

impl Journal {
    /// Opens the journal, or makes an empty one. `None` if another process has its lock and `waits` is not set.
    pub(super) fn open(path: &Path, waits: bool) -> io::Result<Option<Journal>> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let mut file = options.open(path)?;
            let operation = match waits {
                true => FlockOperation::LockExclusive,
                false => FlockOperation::NonBlockingLockExclusive,
            };
            match flock(&file, operation) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // The holder before may have removed it.
            let is_there = fs::metadata(path).is_ok_and(|there| {
                file.metadata()
                    .is_ok_and(|ours| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
            });
            if !is_there {
                continue;
            }
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            return Ok(Some(Journal {
                path: path.to_owned(),
                file,
                entries: entries(&text),
            }));
        }
    }

    /// Whether it has changes that are not undone.
    pub(super) fn has_changes(&self) -> bool {
        self.entries.iter().any(|entry| !entry.is_undone)
    }

    /// Writes a change down and makes it. Its number.
    pub(super) fn make<E: From<io::Error>>(
        &mut self,
        change: Change,
        make: impl FnOnce() -> Result<(), E>,
    ) -> Result<usize, E> {
        let number = self.entries.len();
        self.write(&Line::Change(change.clone()))?;
        self.entries.push(Entry {
            change: change.clone(),
            made: None,
            is_undone: false,
        });
        if let Err(error) = make() {
            self.undone(number)?;
            return Err(error);
        }
        if let Change::Value { path, .. } = &change
            && let Ok(text) = fs::read_to_string(path)
        {
            let text = text.trim().to_owned();
            self.write(&Line::Made(number, text.clone()))?;
            self.entries[number].made = Some(text);
        }
        Ok(number)
    }

    /// A change needs not be undone any more.
    pub(super) fn undone(&mut self, number: usize) -> io::Result<()> {
        self.entries[number].is_undone = true;
        self.write(&Line::Undone(number))
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        self.file.write_all(text.as_bytes())
    }

    /// Undoes all changes, the last one first. Without problems, the journal is removed; otherwise it keeps what is left.
    pub(super) fn restore(mut self) -> Restored {
        let mut restored = Restored::default();
        let mut is_all = true;
        for number in (0..self.entries.len()).rev() {
            let entry = &self.entries[number];
            if entry.is_undone {
                continue;
            }
            match undo(entry) {
                Ok(Undone::Yes) => restored.undone += 1,
                Ok(Undone::NotNeeded) => {}
                Ok(Undone::ChangedSince(what)) => restored.problems.push(what),
                Err(problem) => {
                    restored.problems.push(problem);
                    is_all = false;
                    continue;
                }
            }
            if let Err(error) = self.undone(number) {
                let problem = format!("cannot write {}: {}", self.path.display(), reason(&error));
                restored.problems.push(problem);
            }
        }
        if is_all {
            // While the lock is held: others open the file anew.
            let _ = fs::remove_file(&self.path);
        }
        restored
    }
}

/// Writes to a file of the kernel, in one piece.
pub(super) fn put(path: &Path, text: &str) -> io::Result<()> {
    // Not as `fs::write` does, which would ask the kernel to make a file that it does not have.
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)?
        .write_all(text.as_bytes())
}

enum Undone {
    Yes,
    NotNeeded,
    /// Somebody else has changed it meanwhile; a sentence without its end.
    ChangedSince(String),
}

/// # Errors
/// Why it cannot be undone, as a sentence without its end.
fn undo(entry: &Entry) -> Result<Undone, String> {
    match &entry.change {
        Change::Value { path, undo } => {
            let now = match fs::read_to_string(path) {
                Ok(text) => text.trim().to_owned(),
                // What had the setting is gone, and the setting with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::NotNeeded),
                Err(error) => return Err(format!("cannot read {}: {}", path.display(), reason(&error))),
            };
            if now == *undo {
                return Ok(Undone::NotNeeded);
            }
            if entry.made.as_ref().is_some_and(|made| *made != now) {
                return Ok(Undone::ChangedSince(format!(
                    "{} stays at {now:?}: something else has changed it since piste did",
                    path.display()
                )));
            }
            put(path, undo)
                .map_err(|error| format!("cannot write {undo:?} to {}: {}", path.display(), reason(&error)))?;
            Ok(Undone::Yes)
        }
        Change::Controller { path, name } => {
            let enabled = fs::read_to_string(path).unwrap_or_default();
            if !enabled.split_ascii_whitespace().any(|other| other == name) {
                return Ok(Undone::NotNeeded);
            }
            put(path, &format!("-{name}"))
                .map_err(|error| format!("cannot disable {name} in {}: {}", path.display(), reason(&error)))?;
            Ok(Undone::Yes)
        }
        Change::Group { path } => remove_group(path),
        Change::Process { pid, from } => {
            let is_there = *pid == std::process::id().cast_signed();
            if !is_there {
                return Ok(Undone::NotNeeded);
            }
            put(from, &pid.to_string())
                .map_err(|error| format!("cannot write to {}: {}", from.display(), reason(&error)))?;
            Ok(Undone::Yes)
        }
        Change::Thread { thread, started, cpus } => {
            if threads::started(*thread) != Some(*started) {
                return Ok(Undone::NotNeeded);
            }
            threads::allow(*thread, cpus).map_err(|error| {
                format!(
                    "cannot let thread {thread} run on its previous CPUs again: {}",
                    reason(&error)
                )
            })?;
            Ok(Undone::Yes)
        }
    }
}

/// Removes a control group; what is still in it goes to the group above.
fn remove_group(path: &Path) -> Result<Undone, String> {
    let begin = Instant::now();
    let above = path.parent().unwrap_or(path).join("cgroup.procs");
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(Undone::Yes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::NotNeeded),
            Err(error) if begin.elapsed() >= PATIENCE => {
                let path = path.display();
                return Err(format!("cannot remove the control group {path}: {}", reason(&error)));
            }
            Err(_) => {}
        }
        let members = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        for member in members.lines() {
            // A process that has ended meanwhile needs not be moved.
            let _ = put(&above, member);
        }
        if members.is_empty() {
            sleep(PAUSE);
        }
    }
}

/// The changes of a journal's text.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Change(change)) => entries.push(Entry {
                change,
                made: None,
                is_undone: false,
            }),
            Ok(Line::Made(number, text)) => {
                if let Some(entry) = entries.get_mut(number) {
                    entry.made = Some(text);
                }
            }
            Ok(Line::Undone(number)) => {
                if let Some(entry) = entries.get_mut(number) {
                    entry.is_undone = true;
                }
            }
            Err(_) => {}
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(path: &Path, undo: &str) -> Change {
        Change::Value {
            path: path.to_owned(),
            undo: undo.into(),
        }
    }

    fn open(folder: &Path) -> Journal {
        let journal = Journal::open(&folder.join("journal"), false).expect("it can be opened");
        journal.expect("nobody has its lock")
    }

    fn set(journal: &mut Journal, path: &Path, text: &str) {
        let old = fs::read_to_string(path).expect("readable");
        let made = journal.make(value(path, &old), || fs::write(path, text));
        made.expect("it can be written");
    }

    #[test]
    fn changes_are_undone_by_whoever_finds_the_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "0-3").expect("writable");
        fs::write(&two, "0-3").expect("writable");
        let group = folder.path().join("group");
        let mut journal = open(folder.path());
        set(&mut journal, &one, "0-1");
        set(&mut journal, &one, "0");
        set(&mut journal, &two, "0-1");
        let made = journal.make(Change::Group { path: group.clone() }, || fs::create_dir(&group));
        made.expect("it can be made");
        assert!(
            Journal::open(&folder.path().join("journal"), false)
                .expect("it can be opened")
                .is_none(),
            "this process has the lock"
        );
        // As if the process had been killed.
        drop(journal);
        fs::write(&two, "2").expect("writable");
        let journal = open(folder.path());
        assert!(journal.has_changes());
        let restored = journal.restore();
        assert_eq!(restored.undone, 3, "{restored:?}");
        let [problem] = &restored.problems[..] else {
            panic!("{restored:?}")
        };
        assert!(problem.contains("stays at \"2\""), "{problem}");
        assert_eq!(fs::read_to_string(&one).expect("readable"), "0-3");
        assert!(!group.exists() && !folder.path().join("journal").exists());
        assert_eq!(open(folder.path()).restore(), Restored::default());
    }

    #[test]
    fn a_change_that_was_not_made_is_not_undone() {
        let folder = tempfile::tempdir().expect("a folder");
        let one = folder.path().join("one");
        fs::write(&one, "new").expect("writable");
        let mut journal = open(folder.path());
        let refused = journal.make(value(&one, "old"), || {
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        });
        refused.expect_err("it is refused");
        assert!(!journal.has_changes());
        drop(journal);
        // The line of another one was not written to its end.
        let path = folder.path().join("journal");
        let text = fs::read_to_string(&path).expect("readable");
        fs::write(&path, text + "{\"change\":{\"value\":{\"pa").expect("writable");
        assert_eq!(open(folder.path()).restore(), Restored::default());
        assert_eq!(fs::read_to_string(&one).expect("readable"), "new");
    }

    #[test]
    fn what_cannot_be_undone_stays_in_the_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let one = folder.path().join("one");
        fs::write(&one, "old").expect("writable");
        let mut journal = open(folder.path());
        set(&mut journal, &one, "new");
        drop(journal);
        // Nobody can read a folder as a file.
        fs::remove_file(&one).expect("it is there");
        fs::create_dir(&one).expect("it can be made");
        assert_eq!(open(folder.path()).restore().problems.len(), 1);
        fs::remove_dir(&one).expect("it is there");
        fs::write(&one, "new").expect("writable");
        assert_eq!(open(folder.path()).restore().undone, 1);
        assert_eq!(fs::read_to_string(&one).expect("readable"), "old");
    }
}
