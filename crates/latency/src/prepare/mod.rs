// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prepares the machine for measuring on some CPUs, and restores it afterwards: everything else leaves these CPUs, as far as the kernel lets it.
//! Each step that is not possible is named with its reason, and the others are taken all the same.
//!
//! - [`Preparation`]: the steps, and what became of them
//! - `journal`: what was changed, on disk before it is changed, so that another process can restore it if this one is killed
//! - `cpuset`: a set of CPUs from which the scheduler keeps all other threads; `threads`: those that are there already
//! - `budget`: time for real-time threads in the control group; `interrupts`: interrupts and the kernel's own work

mod budget;
mod cpuset;
mod interrupts;
mod journal;
mod threads;

use std::io;
use std::path::{Path, PathBuf};

use piste_reason::reason;

pub use self::journal::Restored;
use self::journal::{Change, Journal};
use crate::cpus;

/// The journal's place. It is one file for the whole machine, as the settings are, and is gone when the machine starts again, as they are.
const JOURNAL: &str = "run/piste-latency.journal";

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has prepared the machine and still measures.
    #[error(
        "another `piste latency --prepare` is running, and restores the machine's settings when it ends; wait for it, or end it with Ctrl-C"
    )]
    Busy,
    /// The system refuses.
    #[error(
        "cannot open {path:?}: {}; only root can prepare the machine, and restore it",
        reason(source)
    )]
    Journal {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A machine that is prepared.
#[derive(Debug)]
pub struct Preparation {
    journal: Journal,
    steps: Steps,
}

/// What became of the steps.
#[derive(Debug, Default)]
struct Steps {
    /// Sentences without their ends.
    taken: Vec<String>,
    /// Steps that are not possible, each with its reason.
    not_possible: Vec<String>,
    /// Files of control groups that the measuring threads join.
    join: Vec<PathBuf>,
}

/// Who has which CPUs.
#[derive(Clone, Debug)]
struct Division {
    measured: Vec<u32>,
    /// All others that are online.
    others: Vec<u32>,
}

/// What other processes left when they were killed; `None` if that is nothing. `waits`: until nobody else has the journal.
///
/// # Errors
/// The journal cannot be used, or another process uses it.
pub fn restore_left(root: &Path, waits: bool) -> Result<Option<Restored>, Error> {
    let path = root.join(JOURNAL);
    if !path.exists() {
        return Ok(None);
    }
    let journal = open(&path, waits)?;
    let has_changes = journal.has_changes();
    let restored = journal.restore();
    Ok(has_changes.then_some(restored))
}

fn open(path: &Path, waits: bool) -> Result<Journal, Error> {
    let opened = Journal::open(path, waits).map_err(|source| Error::Journal {
        path: path.to_owned(),
        source,
    })?;
    opened.ok_or(Error::Busy)
}

impl Preparation {
    /// Nothing is changed yet; restores first what a process that was killed has left. `root` has the machine's /proc, /sys and /run.
    ///
    /// # Errors
    /// The journal cannot be used, or another process uses it.
    pub fn begin(root: &Path) -> Result<(Preparation, Option<Restored>), Error> {
        let left = restore_left(root, false)?;
        let preparation = Preparation {
            journal: open(&root.join(JOURNAL), false)?,
            steps: Steps::default(),
        };
        Ok((preparation, left))
    }

    /// Takes all steps for measuring on some CPUs.
    pub fn take_steps(&mut self, root: &Path, measured: &[u32]) {
        let online = std::fs::read_to_string(root.join("sys/devices/system/cpu/online")).unwrap_or_default();
        let online = cpus::parse(&online).unwrap_or_default();
        let division = Division {
            measured: measured.to_vec(),
            others: online.into_iter().filter(|cpu| !measured.contains(cpu)).collect(),
        };
        if division.others.is_empty() {
            let all = "no CPU is isolated and no interrupt is moved, because all CPUs are measured and everything else needs at least one; choose fewer with --cpus";
            self.steps.not_possible.push(all.into());
        } else {
            cpuset::isolate(&mut self.journal, &mut self.steps, root, &division);
            interrupts::move_away(&mut self.journal, &mut self.steps, root, &division);
            interrupts::move_work(&mut self.journal, &mut self.steps, root, &division);
        }
        budget::provide(&mut self.journal, &mut self.steps, root);
    }

    /// What was done, as sentences without their ends.
    pub fn taken(&self) -> &[String] {
        &self.steps.taken
    }

    /// What is not possible, each with its reason.
    pub fn not_possible(&self) -> &[String] {
        &self.steps.not_possible
    }

    /// For [`crate::Plan::join`].
    pub fn join(&self) -> &[PathBuf] {
        &self.steps.join
    }

    /// Undoes everything.
    pub fn restore(self) -> Restored {
        self.journal.restore()
    }
}

/// Writes to a file of the kernel what can be undone later.
fn set(journal: &mut Journal, path: &Path, old: &str, new: &str) -> io::Result<()> {
    let change = Change::Value {
        path: path.to_owned(),
        undo: old.to_owned(),
    };
    journal.make(change, || journal::put(path, new)).map(drop)
}

/// A file of the kernel without the white space around its text.
fn text(path: &Path) -> io::Result<String> {
    Ok(std::fs::read_to_string(path)?.trim().to_owned())
}
