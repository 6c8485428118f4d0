// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traced program behind a ring set, as far as the consumer needs to know it: what to call it, and whether it is stopped.

use std::fmt;
use std::fs;

/// A traced program, as a finding names it: `shop (4711)`.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pid: i32,
    pub(super) vpid: i32,
    name: String,
}

impl Program {
    /// The program with process id `pid`, called by the name that it has now.
    pub(super) fn new(pid: i32, vpid: i32) -> Self {
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self {
            pid,
            vpid,
            name: String::from_utf8_lossy(&name).trim_end().to_owned(),
        }
    }

    /// Somebody stopped the program (SIGSTOP, a debugger): what it has begun will be finished when it goes on.
    pub(super) fn is_stopped(&self) -> bool {
        fs::read(format!("/proc/{}/stat", self.pid)).is_ok_and(|stat| matches!(state(&stat), Some(b'T' | b't')))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(formatter, "process {}", self.pid),
            name => write!(formatter, "{name} ({})", self.pid),
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
        let program = Program::new(own_pid, 1);
        assert!(program.to_string().ends_with(&format!(" ({own_pid})")), "{program}");
        assert!(!program.is_stopped());
        assert_eq!(
            Program {
                pid: 77,
                vpid: 7,
                name: String::new()
            }
            .to_string(),
            "process 77"
        );
    }
}
