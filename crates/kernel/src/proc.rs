// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists processes and threads of this machine, as `/proc` has them now. What ends meanwhile may be listed or not.

use std::fs;

/// The processes there are; empty where `/proc` cannot be read.
pub fn processes() -> impl Iterator<Item = i32> {
    numbers_in("/proc")
}

/// The threads of a process; empty when it has ended.
pub fn threads_of(pid: i32) -> impl Iterator<Item = i32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// The process that a thread belongs to; `None` when the thread has ended.
pub fn process_of(tid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Whether a thread has ended or is ending: it executes no more of its program.
pub fn is_over(thread: i32) -> bool {
    const PF_EXITING: u32 = 4;
    // TID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(6));
    flags
        .and_then(|flags| flags.parse::<u32>().ok())
        .is_none_or(|flags| flags & PF_EXITING != 0)
}

fn numbers_in(folder: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn this_thread_is_listed() {
        let pid = std::process::id() as i32;
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(processes().any(|other| other == pid));
        assert!(threads_of(pid).any(|other| other == tid));
        assert_eq!(process_of(tid), Some(pid));
        assert!(!is_over(tid));
    }

    #[test]
    fn what_has_ended_is_over_also_before_its_parent_knows() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        assert!(!is_over(pid));
        child.kill().unwrap();
        while !is_over(pid) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(processes().any(|other| other == pid));
        child.wait().unwrap();
        assert!(is_over(pid));
    }
}
