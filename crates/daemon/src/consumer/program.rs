// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traced program behind a ring set, as far as the consumer needs to know it: what to call it, and whether it is stopped.

use std::fmt;
use std::fs;

use super::stream::ProcessIds;

/// A traced program, as a finding names it: `shop (4711)`.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) ids: ProcessIds,
    name: String,
}

impl Program {
    /// The program of a process, called by the name that it has now.
    pub(super) fn new(ids: ProcessIds) -> Self {
        let name = fs::read(format!("/proc/{}/comm", ids.pid)).unwrap_or_default();
        Self {
            ids,
            name: String::from_utf8_lossy(&name).trim_end().to_owned(),
        }
    }

    /// Somebody stopped the program (SIGSTOP, a debugger): what it has begun will be finished when it goes on.
    pub(super) fn is_stopped(&self) -> bool {
        fs::read(format!("/proc/{}/stat", self.ids.pid)).is_ok_and(|stat| matches!(state(&stat), Some(b'T' | b't')))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(formatter, "process {}", self.ids.pid),
            name => write!(formatter, "{name} ({})", self.ids.pid),
        }
    }
}

/// The state letter of /proc/PID/stat: the third field, behind a name that may hold anything.
fn state(stat: &[u8]) -> Option<u8> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_found_behind_any_name() {
        assert_eq!(state(b"12 (cat) S 1 12"), Some(b'S'));
        assert_eq!(state(b"12 (a) T (b)) t 1 12"), Some(b't'));
        assert_eq!(state(b""), None);
        assert_eq!(state(b"12 (cat)"), None);
    }

    #[test]
    fn running_program_has_a_name_and_is_not_stopped() {
        let own_pid = std::process::id() as i32;
        let ids = |pid| ProcessIds { vpid: 1, pid, uid: 0 };
        let program = Program::new(ids(own_pid));
        assert!(program.to_string().ends_with(&format!(" ({own_pid})")), "{program}");
        assert!(!program.is_stopped());
        assert_eq!(
            Program {
                ids: ids(77),
                name: String::new()
            }
            .to_string(),
            "process 77"
        );
    }
}
