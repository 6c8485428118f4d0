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

fn numbers_in(folder: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_listed() {
        let pid = std::process::id() as i32;
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(processes().any(|other| other == pid));
        assert!(threads_of(pid).any(|other| other == tid));
        assert_eq!(process_of(tid), Some(pid));
    }
}
