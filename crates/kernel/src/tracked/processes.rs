// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that are meant, and their threads, from /proc.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::spec::Tracked;

/// A process as /proc tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    group: u32,
    session: u32,
    uid: u32,
    gid: u32,
    /// Nothing of it runs any more, and its number may soon be another's.
    is_over: bool,
}

/// The processes that `tracked` means now. Those of `believed` are meant as if `tracked` listed them.
pub(super) fn processes(tracked: &Tracked, believed: &BTreeSet<u32>) -> io::Result<BTreeSet<u32>> {
    if tracked.nobody {
        return Ok(BTreeSet::new());
    }
    let are_ids_needed = !tracked.uids.is_empty() || !tracked.gids.is_empty();
    let pids = match tracked.follow_children || tracked.pids.is_empty() {
        true => all()?,
        false => tracked.pids.clone(),
    };
    // One that cannot be read has just ended.
    let processes: Vec<Process> = pids.into_iter().filter_map(|pid| read(pid, are_ids_needed)).collect();
    Ok(meant(tracked, believed, &processes))
}

/// The threads of processes, now.
pub(super) fn threads(processes: &BTreeSet<u32>) -> BTreeSet<u32> {
    let tasks = |pid: &u32| numbers(&Path::new("/proc").join(pid.to_string()).join("task"));
    processes
        .iter()
        .flat_map(|pid| tasks(pid).unwrap_or_default())
        .collect()
}

fn meant(tracked: &Tracked, believed: &BTreeSet<u32>, processes: &[Process]) -> BTreeSet<u32> {
    let mut listed: BTreeSet<u32> = tracked.pids.iter().chain(believed).copied().collect();
    if tracked.follow_children {
        // Numbers say nothing about who came first, so it is repeated until nobody is added.
        loop {
            let count = listed.len();
            let children = processes.iter().filter(|process| listed.contains(&process.parent));
            let children: Vec<u32> = children.map(|process| process.pid).collect();
            listed.extend(children);
            if listed.len() == count {
                break;
            }
        }
    }
    let allows = |list: &[u32], value: u32| list.is_empty() || list.contains(&value);
    processes
        .iter()
        .filter(|process| {
            (tracked.pids.is_empty() || listed.contains(&process.pid))
                && !process.is_over
                && allows(&tracked.process_groups, process.group)
                && allows(&tracked.process_sessions, process.session)
                && allows(&tracked.uids, process.uid)
                && allows(&tracked.gids, process.gid)
        })
        .map(|process| process.pid)
        .collect()
}

fn all() -> io::Result<Vec<u32>> {
    numbers(Path::new("/proc"))
}

/// The entries of a folder that are numbers.
fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let names = fs::read_dir(folder)?
        .map_while(Result::ok)
        .map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn read(pid: u32, are_ids_needed: bool) -> Option<Process> {
    let folder = Path::new("/proc").join(pid.to_string());
    let stat = fs::read(folder.join("stat")).ok()?;
    let status = match are_ids_needed {
        true => fs::read(folder.join("status")).ok()?,
        false => Vec::new(),
    };
    parse(pid, &String::from_utf8_lossy(&stat), &String::from_utf8_lossy(&status))
}

fn parse(pid: u32, stat: &str, status: &str) -> Option<Process> {
    // The name is in parentheses and may hold anything, also those.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_ascii_whitespace();
    let state = words.next()?;
    // 0 is not told: the parent of a kernel's thread, what is out of the namespace.
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let real = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok())
            .unwrap_or(u32::MAX)
    };
    let (parent, group, session) = (number(), number(), number());
    let thread_count = words.nth(13).and_then(|word| word.parse().ok()).unwrap_or(1);
    Some(Process {
        pid,
        parent,
        group,
        session,
        uid: real("Uid:"),
        gid: real("Gid:"),
        is_over: matches!(state, "Z" | "X") && thread_count <= 1_u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, uid: u32) -> Process {
        Process {
            pid,
            parent,
            group: 7,
            session: 8,
            uid,
            gid: 100,
            is_over: false,
        }
    }

    #[test]
    fn a_name_may_hold_anything() {
        let status = "Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t5\t6\t6\t6\n";
        let parsed = parse(3, "3 (a) (b 2) Z 2 7 8 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0", status).expect("a process");
        let expected = Process {
            gid: 5,
            is_over: true,
            ..process(3, 2, 1000)
        };
        assert_eq!(parsed, expected);
        let threads_left = "3 (a) Z 2 7 8 0 -1 4 0 0 0 0 0 0 0 0 20 0 2 0";
        assert!(!parse(3, threads_left, status).expect("a process").is_over);
        assert_eq!(parse(3, "", status), None);
    }

    #[test]
    fn nobody_is_no_process() {
        let nobody = Tracked {
            nobody: true,
            ..Tracked::default()
        };
        assert_eq!(
            super::processes(&nobody, &BTreeSet::from([1])).unwrap(),
            BTreeSet::new()
        );
    }

    #[test]
    fn each_list_narrows_and_children_follow() {
        let processes = [process(9, 1, 0), process(5, 9, 1), process(4, 5, 0), process(6, 1, 1)];
        let check = |tracked: Tracked, believed: &[u32], expected: &[u32]| {
            let meant = meant(&tracked, &believed.iter().copied().collect(), &processes);
            assert_eq!(meant, expected.iter().copied().collect(), "{tracked:?}");
        };
        let pids = |follow_children| Tracked {
            pids: vec![9],
            follow_children,
            ..Tracked::default()
        };
        check(pids(false), &[], &[9]);
        check(pids(true), &[], &[9, 5, 4]);
        check(pids(true), &[6], &[9, 5, 4, 6]);
        check(
            Tracked {
                uids: vec![1],
                ..pids(true)
            },
            &[6],
            &[5, 6],
        );
        check(
            Tracked {
                uids: vec![0],
                process_groups: vec![7, 1],
                ..Tracked::default()
            },
            &[],
            &[9, 4],
        );
        check(
            Tracked {
                process_sessions: vec![1],
                ..Tracked::default()
            },
            &[],
            &[],
        );
    }
}
