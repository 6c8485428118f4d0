// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of other tracers, made into traces that everything else reads.
//!
//! ```text
//!   file  --Tracer::of: by its first bytes-->  Tracer  --Tracer::import-->  folder with CTF traces  -->  crates/trace
//! ```
//!
//! The seam is below the reader of traces: what is written is a trace like those that Piste records, so no command knows where its
//! events come from. A tracer is a module with its format, a line in [`Tracer`], and nothing else. There is one so far: [`trace_dat`].
//!
//! - `bytes.rs`: numbers and texts of a file of which nothing is believed
//! - `trace_dat/`: what trace-cmd writes
//! - `folder.rs`: the trace that is written, with its streams

mod bytes;
mod folder;
mod notes;
mod trace_dat;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use piste_reason::reason;

/// A tracer whose files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// trace-cmd's `trace.dat`.
    TraceCmd,
}

impl Tracer {
    /// Whose file this is, as its first bytes tell; `None` for folders and for all other files.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path) -> io::Result<Option<Tracer>> {
        if !path.metadata()?.is_file() {
            return Ok(None);
        }
        let mut begin = Vec::new();
        let longest = trace_dat::MAGIC.len() as u64;
        File::open(path)?.take(longest).read_to_end(&mut begin)?;
        Ok((begin == trace_dat::MAGIC).then_some(Tracer::TraceCmd))
    }

    /// The program that writes such files.
    pub fn name(self) -> &'static str {
        match self {
            Tracer::TraceCmd => "trace-cmd",
        }
    }

    /// Makes traces of a file, in a folder that is there and empty. `watch` tells others how far it is.
    ///
    /// # Errors
    /// The file is damaged where all of it depends on, or of a form that is not supported; a file that cannot be read or written; somebody
    /// has stopped it. What was written until then stays.
    pub fn import(self, file: &Path, folder: &Path, watch: &Watch) -> Result<Imported, ImportError> {
        match self {
            Tracer::TraceCmd => trace_dat::import(file, folder, watch),
        }
    }
}

/// What a file has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Events in the traces.
    pub events: u64,
    /// What the file does not tell, and what is wrong with it: a sentence each.
    pub notes: Vec<String>,
}

/// How far an import is, for those who look at it meanwhile, and whether it is to go on.
pub struct Watch {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    is_stopped: Box<dyn Fn() -> bool + Send + Sync>,
}

// Relaxed, all of them: the numbers are only shown.
impl Watch {
    /// `is_stopped` is asked now and then whether the import is to end.
    pub fn new(is_stopped: impl Fn() -> bool + Send + Sync + 'static) -> Watch {
        Watch {
            done_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            is_stopped: Box::new(is_stopped),
        }
    }

    /// Bytes of the file that were read, of how many. Data is read twice.
    pub fn way(&self) -> (u64, u64) {
        let done_bytes = self.done_bytes.load(Ordering::Relaxed);
        (done_bytes, self.total_bytes.load(Ordering::Relaxed))
    }

    fn expect(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Some more was read.
    fn read(&self, bytes: u64) -> Result<(), ImportError> {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        match (self.is_stopped)() {
            true => Err(ImportError::Stopped),
            false => Ok(()),
        }
    }
}

/// Why a file cannot become a trace.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {}: {}", path.display(), reason(.error))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// What all of it depends on is damaged, or of a form that is not supported.
    #[error("cannot read {}: {what}", path.display())]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// A sentence.
        what: String,
    },
    /// The trace cannot be written.
    #[error("cannot write {}: {}", path.display(), reason(.error))]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Its [`Watch`] was to stop it.
    #[error("the import was interrupted")]
    Stopped,
}
