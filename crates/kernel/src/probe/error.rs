// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a probe is refused.

use std::path::PathBuf;

use thiserror::Error;

/// Why a probe is refused. The text is for people and says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// The file cannot be probed.
    #[error("cannot probe {}: {reason}", .binary.display())]
    Binary {
        /// The file.
        binary: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has no such function or static probe.
    #[error("{} has no {wanted}{}", .binary.display(), hint(.nearest))]
    NoPlace {
        /// The file.
        binary: PathBuf,
        /// What was looked for: `function "mian"`.
        wanted: String,
        /// Names that look like it; the most alike first.
        nearest: Vec<String>,
    },
    /// The place is there or is not, but it cannot be probed like this.
    #[error("invalid place \"{place}\": {reason}")]
    Place {
        /// As it was given.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An argument is not in the words of tracefs.
    #[error("invalid argument \"{argument}\": {reason}")]
    Argument {
        /// As it was given.
        argument: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Only root may ask for this.
    #[error("{what} is only for root: {mend}")]
    RootOnly {
        /// What was asked for: `a probe at an offset of the file`.
        what: String,
        /// What the asker can do.
        mend: String,
    },
    /// The event cannot have this name.
    #[error("invalid name \"{name}\": {reason}")]
    Name {
        /// As it was given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel was built without this kind of probe.
    #[error("this kernel has no {kind}: it was built without {option}")]
    Unsupported {
        /// `kprobes`.
        kind: &'static str,
        /// The option of the kernel's configuration that it takes.
        option: &'static str,
    },
}

fn hint(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!(" (similar: {})", names.join(", ")),
    }
}
