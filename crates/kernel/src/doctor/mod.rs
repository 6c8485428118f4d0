// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this machine has of what recording takes, what each lack costs, and what mends it.
//!
//! ```text
//!   machine --gather (facts.rs, idle.rs: all input, no opinion)--> Facts --judge (kernel_side.rs, program_side.rs: no input)--> checks
//! ```

mod facts;
mod idle;
mod kernel_side;
mod program_side;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};

use facts::Facts;

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All that Piste can use is there.
    Ok,
    /// Something is lost, and most works.
    Note,
    /// A part of Piste does not work.
    Lack,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at: `tracefs`.
    pub name: String,
    /// How well it is.
    pub level: Level,
    /// What was seen.
    pub value: String,
    /// What is lost.
    pub cost: Option<String>,
    /// The command, or what else to do, that mends it.
    pub mend: Option<String>,
}

/// Looks at everything, for the process that calls. `run_folder` is where pisted has its sockets. Takes some 50 ms and 1 ms for each CPU, and
/// some seconds where the kernel's tracing hangs.
pub fn checks(run_folder: &Path) -> Vec<Check> {
    judge(&Facts::gather(run_folder))
}

/// Whether the BPF program can be loaded, which records what the arguments of system calls point to: why not, and what mends it.
pub fn call_memory(lack: Option<(String, &str)>) -> Check {
    const NAME: &str = "BPF";
    match lack {
        None => Check::ok(
            NAME,
            "file names and other data that system call arguments point to can be recorded",
        ),
        Some((why, mend)) => Check::note(NAME, why)
            .cost("system calls are recorded with addresses instead of the file names, socket addresses and structures at these addresses")
            .mend(mend),
    }
}

/// What the facts mean.
fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = kernel_side::judge(facts);
    checks.extend(program_side::judge(facts));
    checks
}

impl Check {
    fn ok(name: &str, value: impl Into<String>) -> Check {
        Check {
            name: name.to_owned(),
            level: Level::Ok,
            value: value.into(),
            cost: None,
            mend: None,
        }
    }

    fn note(name: &str, value: impl Into<String>) -> Check {
        Check {
            level: Level::Note,
            ..Check::ok(name, value)
        }
    }

    fn lack(name: &str, value: impl Into<String>) -> Check {
        Check {
            level: Level::Lack,
            ..Check::ok(name, value)
        }
    }

    fn cost(self, cost: impl Into<String>) -> Check {
        Check {
            cost: Some(cost.into()),
            ..self
        }
    }

    fn mend(self, mend: impl Into<String>) -> Check {
        Check {
            mend: Some(mend.into()),
            ..self
        }
    }
}
