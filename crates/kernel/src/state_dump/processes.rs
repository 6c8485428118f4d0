// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and threads, from /proc.
//!
//! `stat` has what the scheduler knows, `status` the numbers in the thread's own namespace and who it belongs to.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::event::{Event, Execution, Process, Status, Thread};
use super::files;
use super::reading::{Reading, numbers_in, text};

/// Longer command lines are cut.
const COMMAND_LINE_BYTES_MAX: usize = 2048;
/// Bit of the kernel's task flags: a thread of the kernel's own.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Tells every process: its threads, itself, its files.
pub(super) fn collect(tell: &mut dyn FnMut(&Event)) {
    let mut reading = Reading::new();
    for pid in numbers_in("/proc") {
        process(pid, &mut reading, tell);
    }
}

fn process(pid: i32, reading: &mut Reading, tell: &mut dyn FnMut(&Event)) {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let namespace = std::fs::metadata(folder.join("ns/pid")).map_or(0, |namespace| namespace.ino() as u32);
    let mut is_kernel = false;
    for tid in numbers_in(folder.join("task")) {
        if let Some(mut thread) = thread(pid, tid, reading) {
            thread.namespace = namespace;
            is_kernel = thread.is_kernel;
            tell(&Event::Thread(thread));
        }
    }
    if is_kernel {
        return;
    }
    let command_line = reading
        .file(folder.join("cmdline"))
        .map(command_line)
        .unwrap_or_default();
    let cgroup = reading.file(folder.join("cgroup")).map(cgroup).unwrap_or_default();
    tell(&Event::Process(Process {
        pid,
        command_line,
        cgroup,
    }));
    files::collect(pid, reading, tell);
}

fn thread(pid: i32, tid: i32, reading: &mut Reading) -> Option<Thread> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let mut thread = parse_stat(reading.file(format!("{folder}/stat"))?)?;
    (thread.tid, thread.pid) = (tid, pid);
    (thread.virtual_tid, thread.virtual_pid) = (tid, pid);
    if let Some(status) = reading.file(format!("{folder}/status")) {
        parse_status(status, &mut thread);
    }
    Some(thread)
}

/// What `stat` says: `TID (NAME) STATE PPID ...`, where the name may hold anything.
fn parse_stat(stat: &[u8]) -> Option<Thread> {
    let name_begin = stat.iter().position(|&byte| byte == b'(')? + 1;
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let name = stat.get(name_begin..name_end)?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    // The state is the third field of the file, and the first here.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let is_kernel = field(9)?.parse::<u64>().ok()? & KERNEL_THREAD != 0;
    let status = match field(3)? {
        "R" => Status::WaitCpu,
        "Z" => Status::Zombie,
        "X" | "x" => Status::Dead,
        _ => Status::Wait,
    };
    Some(Thread {
        name: text(name),
        parent_pid: field(4)?.parse().ok()?,
        cpu: field(39)?.parse().ok()?,
        is_kernel,
        status,
        execution: if status == Status::Wait && !is_kernel {
            Execution::Syscall
        } else {
            Execution::Unknown
        },
        ..Thread::default()
    })
}

/// What `status` says: lines of `KEY:\tVALUES`.
fn parse_status(status: &[u8], thread: &mut Thread) {
    for line in status.split(|&byte| byte == b'\n') {
        let Some((key, values)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':')) else {
            continue;
        };
        let values = || values.split_ascii_whitespace();
        match key {
            // Real, effective, saved, of the file system.
            "Uid" => thread.uid = number(values().nth(1)),
            "Gid" => thread.gid = number(values().nth(1)),
            // The number in each namespace, the innermost last.
            "NStgid" => thread.virtual_pid = number(values().last()) as i32,
            "NSpid" => {
                thread.virtual_tid = number(values().last()) as i32;
                thread.namespace_level = values().count().saturating_sub(1) as u32;
            }
            _ => {}
        }
    }
}

fn number(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Arguments end with zeros; people read spaces.
fn command_line(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(COMMAND_LINE_BYTES_MAX)];
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    text(&bytes[..end]).replace('\0', " ")
}

/// The path of the unified hierarchy, else of the first one: lines of `NUMBER:CONTROLLERS:PATH`.
fn cgroup(bytes: &[u8]) -> String {
    let lines = || bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let line = lines().find(|line| line.starts_with(b"0::")).or_else(|| lines().next());
    let path = line.and_then(|line| line.splitn(3, |&byte| byte == b':').nth(2));
    path.map(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "12 (a) R (b) c) S 7 12 12 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0 55 1000 10 18446744073709551615 1 1 0 0 0 0 0 0 0 \
                        0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0";

    #[test]
    fn stat_is_read_behind_any_name() {
        let thread = parse_stat(STAT.as_bytes()).unwrap();
        assert_eq!(thread.name, "a) R (b) c");
        assert_eq!((thread.parent_pid, thread.cpu, thread.is_kernel), (7, 3, false));
        assert_eq!((thread.status, thread.execution), (Status::Wait, Execution::Syscall));
        let kernel = parse_stat(STAT.replace("4194560", "69238880").as_bytes()).unwrap();
        assert_eq!((kernel.is_kernel, kernel.execution), (true, Execution::Unknown));
        for damaged in ["", "12", "12 (a", "12 (a) S", ")(", "12 (a) S x y"] {
            assert_eq!(parse_stat(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn status_tells_the_innermost_numbers_and_the_effective_user() {
        let mut thread = Thread::default();
        let status =
            "Name:\ta:b\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nNStgid:\t4711\t12\nNSpid:\t4712\t13\nVmRSS:\t1 kB\n";
        parse_status(status.as_bytes(), &mut thread);
        assert_eq!((thread.uid, thread.gid), (2, 6));
        assert_eq!(
            (thread.virtual_pid, thread.virtual_tid, thread.namespace_level),
            (12, 13, 1)
        );
    }

    #[test]
    fn arguments_and_control_groups_are_text() {
        assert_eq!(command_line(b"cat\0a file\0\0"), "cat a file");
        assert_eq!(command_line(b""), "");
        assert_eq!(command_line(&[b'x'; 10_000]).len(), COMMAND_LINE_BYTES_MAX);
        assert_eq!(cgroup(b"4:memory:/old\n0::/system.slice/a:b\n"), "/system.slice/a:b");
        assert_eq!(cgroup(b"4:memory:/old\n"), "/old");
        assert_eq!(cgroup(b""), "");
    }
}
