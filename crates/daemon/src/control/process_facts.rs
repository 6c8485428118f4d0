// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel says of a process that registers as a program: who it is, what it runs, where it belongs. What the program says of itself is
//! not asked: it decides in which traces the program is.
//!
//! Nothing here waits for a disk or for a program: /proc has all of it from the kernel's memory.

use std::fs::{self, File};
use std::io::Read;

use rustix::net::UCred;

use super::host;
use crate::session::process::{ANCESTOR_COUNT_MAX, Process, ProcessFacts};

/// Bytes of /proc/PID/cgroup that are read: every hierarchy of version 1 has a line with a path.
const CONTROL_GROUP_BYTES_MAX: u64 = 64 << 10;
/// What the kernel writes behind the path of an executable that was removed or replaced.
const DELETED: &str = " (deleted)";

/// Of the process at the other end of a socket.
pub fn of(peer: &UCred) -> ProcessFacts {
    let pid = peer.pid.as_raw_nonzero().get();
    let (start, ancestors) = match host::process_stat(pid) {
        // First: they may end meanwhile.
        Some(stat) => (stat.start, ancestors(stat)),
        None => (0, Vec::new()),
    };
    ProcessFacts {
        start,
        uid: peer.uid.as_raw(),
        gid: peer.gid.as_raw(),
        executable: executable(pid).unwrap_or_default(),
        control_groups: control_groups(pid),
        ancestors,
    }
}

/// The parents from a process up, as far as they live.
fn ancestors(mut child: host::ProcessStat) -> Vec<Process> {
    let mut ancestors = Vec::new();
    while ancestors.len() < ANCESTOR_COUNT_MAX
        && child.parent != 0
        && let Some(parent) = host::process_stat(child.parent)
        // A later one has the number of a parent that has just ended.
        && parent.start <= child.start
    {
        ancestors.push(Process {
            pid: child.parent,
            start: parent.start,
        });
        child = parent;
    }
    ancestors
}

fn executable(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let path = path.to_string_lossy();
    Some(path.strip_suffix(DELETED).unwrap_or(&path).to_owned())
}

fn control_groups(pid: i32) -> Vec<String> {
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/cgroup"));
    // Of a process that has just ended there may be a part.
    let _ = file.and_then(|file| file.take(CONTROL_GROUP_BYTES_MAX).read_to_end(&mut text));
    paths_of(&String::from_utf8_lossy(&text))
}

/// The different paths of `NUMBER:CONTROLLERS:PATH` lines.
fn paths_of(text: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for path in text.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
        if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn each_path_is_kept_once_whatever_it_has() {
        let text = "5:cpu,cpuacct:/a:b\n1:name=systemd:/a:b\n0::/user.slice\nbad\n";
        assert_eq!(paths_of(text), ["/a:b", "/user.slice"]);
    }

    #[test]
    fn a_process_is_known_with_those_that_it_descends_from() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id().cast_signed();
        let stat = host::process_stat(pid).unwrap();
        let own = std::process::id().cast_signed();
        assert_eq!(stat.parent, own);
        let ancestors = ancestors(stat);
        let start = host::process_start(own).unwrap();
        assert_eq!(ancestors[0], Process { pid: own, start });
        assert!(!ancestors.iter().any(|process| process.pid == pid));
        assert!(executable(own).unwrap().starts_with('/'));
        assert!(control_groups(own).iter().all(|path| path.starts_with('/')));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
