// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the files of a session are: its trace, and what has to outlive a consumer that is killed.
//!
//! | file | what it is |
//! |---|---|
//! | `OUTPUT/kernel/CHANNEL_CPU`, `index/` | stream and index of a CPU |
//! | `OUTPUT/kernel/statedump_0` | the state dump |
//! | `OUTPUT/kernel/.continued` | which packet of a ring is the first there, after a rotation (consumer/continued.rs) |
//! | `RUN/kernel/SESSION/CHANNEL_CPU.page` | the page in hand |
//! | `RUN/kernel/SESSION/CHANNEL_CPU.tally` | what the stream does not say of itself (tally.rs) |
//! | `RUN/kernel/SESSION/CHANNEL.selected` | what the instance was told to record |
//! | `RUN/kernel/SESSION/CHANNEL.recording` | there while the channel records or its rings have something: which instance it is |
//! | `RUN/kernel/SESSION/kept/` | what snapshots took out of the rings of a flight recorder; of a trigger, the metadata |
//! | `RUN/kernel/SESSION/dumping` | there while a state dump is not all written |

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::link::{Purpose, SessionId};

/// The name that the state dump's stream has, and no channel.
pub(super) const STATE_DUMP: &str = "statedump";

#[derive(Debug, Clone)]
pub(super) struct Folders {
    /// Of the session, in the run folder.
    pub(super) run: PathBuf,
    /// Where streams are written to: the trace, or what is kept for snapshots.
    pub(super) streams: PathBuf,
}

impl Folders {
    pub(super) fn new(run_folder: &Path, session: SessionId, output: &Path, purpose: &Purpose) -> Folders {
        let run = run_folder.join("kernel").join(session.to_string());
        let streams = match purpose {
            Purpose::Trace => kernel_folder(output),
            Purpose::Snapshots | Purpose::Trigger { .. } => run.join("kept"),
        };
        Folders { run, streams }
    }

    /// Makes the session's folder in the run folder, where nobody else looks: it has what the trace has.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.run)
    }

    /// A file that outlives the consumer.
    pub(super) fn file(&self, channel: &str, cpu: u32, kind: &str) -> PathBuf {
        self.run.join(format!("{channel}_{cpu}.{kind}"))
    }

    /// What a channel's instance was told to record.
    pub(super) fn selected(&self, channel: &str) -> PathBuf {
        self.run.join(format!("{channel}.selected"))
    }

    /// The instance in which a channel records, while it does or has something in its rings.
    pub(super) fn recording(&self, channel: &str) -> PathBuf {
        self.run.join(format!("{channel}.recording"))
    }

    /// There while a state dump is not all written.
    pub(super) fn dumping(&self) -> PathBuf {
        self.run.join("dumping")
    }

    /// Forgets the session.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.run);
    }
}

/// Where the kernel domain lies in a trace.
pub(super) fn kernel_folder(output: &Path) -> PathBuf {
    output.join("kernel")
}
