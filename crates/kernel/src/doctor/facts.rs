// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be known of a machine, gathered without an opinion. Of the doctor only this and `idle.rs` read anything.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicU32;

use piste_reason::reason;
use rustix::fs::{Access, MemfdFlags, access, memfd_create, statvfs};
use rustix::process::{Resource, geteuid, getrlimit};
use rustix::thread::futex;

use super::idle::{self, IdleEnds};
use crate::answer::answers;
use crate::catalog::Catalog;
use crate::shapes;
use crate::tracefs::{Lack, Tracefs};
use piste_syscalls::Architecture;

/// What was seen.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Of the kernel: `6.18.4-generic`.
    pub(super) release: String,
    pub(super) architecture: Architecture,
    /// The kernel runs soft interrupts in threads that can be preempted (PREEMPT_RT).
    pub(super) is_realtime: bool,
    /// The files of tracing, or why they cannot be used.
    pub(super) tracefs: Result<TracefsFacts, Lack>,
    /// The effective user is root.
    pub(super) is_root: bool,
    /// Members of the group `tracing`; `None` when there is no such group.
    pub(super) tracing_group: Option<Vec<String>>,
    /// `none`, `integrity`, `confidentiality`; `None` when the kernel has no such thing.
    pub(super) lockdown: Option<String>,
    /// The CPU reports that its counter always runs at the same speed, even in sleep states.
    pub(super) is_counter_invariant: bool,
    pub(super) clock_source: String,
    pub(super) clock_sources: Vec<String>,
    /// CPUs that can ever be, and those that are.
    pub(super) cpus_possible: u64,
    /// Bytes of memory that can be had, the limits of the control group included.
    pub(super) available_bytes: u64,
    pub(super) perf_paranoid: Option<i32>,
    /// The CPU's counters of cycles, misses and so on are offered.
    pub(super) has_hardware_counters: bool,
    /// Signs of a container, as words.
    pub(super) container: Vec<String>,
    /// Numbers of processes are others than the machine's.
    pub(super) is_in_pid_namespace: bool,
    /// Bytes of `struct rseq` that the kernel fills; 0 when it has none.
    pub(super) rseq_bytes: u64,
    /// Version of the C library: `2.36`.
    pub(super) c_library: Option<String>,
    pub(super) memfd: Result<(), String>,
    pub(super) futex: Result<(), String>,
    pub(super) run_folder: PathBuf,
    /// Bytes that are free there.
    pub(super) run_folder_free_bytes: Result<u64, String>,
    /// How many files a process may open.
    pub(super) open_files_max: Option<u64>,
}

/// What the files of tracing say.
#[derive(Debug, Clone, Default)]
pub(super) struct TracefsFacts {
    pub(super) root: PathBuf,
    pub(super) groups: usize,
    pub(super) clocks: Vec<String>,
    /// Files of the root and of `options` that matter, as far as they are there.
    pub(super) files: BTreeSet<&'static str>,
    /// What analyses need and events do not have, a sentence for each event.
    pub(super) strange_events: Vec<String>,
    pub(super) idle_ends: IdleEnds,
}

const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;
const FIRST_USER_NAMESPACE: u64 = 0xefff_fffd;

/// Files whose presence is a part of the kernel's configuration.
const FILES: [&str; 8] = [
    "events/raw_syscalls/sys_enter",
    "events/sched/sched_switch",
    "buffer_subbuf_size_kb",
    "uprobe_events",
    "kprobe_events",
    "options/userstacktrace",
    "options/event-fork",
    "set_event_notrace_pid",
];

impl Facts {
    pub(super) fn gather(run_folder: &Path) -> Facts {
        let cpu_flags = line_of("/proc/cpuinfo", "flags");
        let has_flag = |flag| cpu_flags.split_ascii_whitespace().any(|word| word == flag);
        let clock_source = |file: &str| {
            text(&format!(
                "/sys/devices/system/clocksource/clocksource0/{file}_clocksource"
            ))
        };
        Facts {
            release: text("/proc/sys/kernel/osrelease"),
            architecture: Architecture::HERE,
            is_realtime: text("/proc/sys/kernel/version").contains("PREEMPT_RT"),
            tracefs: tracefs(run_folder),
            is_root: geteuid().is_root(),
            tracing_group: tracing_group(&text("/etc/group")),
            lockdown: chosen(&text("/sys/kernel/security/lockdown")),
            is_counter_invariant: has_flag("constant_tsc") && has_flag("nonstop_tsc"),
            clock_source: clock_source("current"),
            clock_sources: words(&clock_source("available")),
            cpus_possible: cpus(&text("/sys/devices/system/cpu/possible")).count().max(1) as u64,
            available_bytes: available_bytes(),
            perf_paranoid: text("/proc/sys/kernel/perf_event_paranoid").parse().ok(),
            has_hardware_counters: has_hardware_counters(),
            container: container(),
            is_in_pid_namespace: is_in_namespace("pid", FIRST_PID_NAMESPACE),
            rseq_bytes: auxiliary(27).unwrap_or(0),
            c_library: c_library(),
            memfd: memfd_create("piste-doctor", MemfdFlags::CLOEXEC)
                .map(drop)
                .map_err(|error| reason(&error.into())),
            futex: futex::wake(&AtomicU32::new(0), futex::Flags::PRIVATE, 1)
                .map(drop)
                .map_err(|error| reason(&error.into())),
            run_folder: run_folder.to_owned(),
            run_folder_free_bytes: free_bytes(run_folder),
            open_files_max: getrlimit(Resource::Nofile).maximum,
        }
    }
}

fn tracefs(run_folder: &Path) -> Result<TracefsFacts, Lack> {
    let tracefs = Tracefs::find()?;
    answers(&tracefs)?;
    let read = |file: &str| tracefs.read(file).unwrap_or_default();
    let cpus: Vec<u32> = cpus(&text("/sys/devices/system/cpu/online")).collect();
    Ok(TracefsFacts {
        idle_ends: idle::look(&tracefs, run_folder, &cpus).unwrap_or_else(|_| IdleEnds::unknown(&cpus)),
        strange_events: Catalog::read(&tracefs).map_or_else(|_| Vec::new(), |catalog| shapes::strange_events(&catalog)),
        root: tracefs.root().to_owned(),
        groups: fs::read_dir(tracefs.path("events")).map_or(0, |entries| {
            entries.flatten().filter(|entry| entry.path().is_dir()).count()
        }),
        clocks: words(&read("trace_clock").replace(['[', ']'], "")),
        files: FILES.into_iter().filter(|file| tracefs.has(file)).collect(),
    })
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// What is behind `key` and a colon in a file of such lines.
fn line_of(path: &str, key: &str) -> String {
    let text = text(path);
    let mut values = text
        .lines()
        .filter_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key));
    values
        .next()
        .map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// The word in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

fn tracing_group(groups: &str) -> Option<Vec<String>> {
    let line = groups.lines().find_map(|line| line.strip_prefix("tracing:"))?;
    let members = line.rsplit(':').next().unwrap_or_default();
    Some(
        members
            .split(',')
            .filter(|member| !member.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

/// The CPUs of a list like `0-3,8`.
fn cpus(list: &str) -> impl Iterator<Item = u32> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten()
}

fn available_bytes() -> u64 {
    let available = line_of("/proc/meminfo", "MemAvailable");
    let available = available
        .trim_end_matches(" kB")
        .parse::<u64>()
        .map_or(u64::MAX, |kib| kib << 10);
    // A control group has no limit when the file says "max" or is not there.
    let group = text("/proc/self/cgroup")
        .lines()
        .find_map(|line| line.strip_prefix("0::").map(str::to_owned));
    let limit = group.and_then(|group| text(&format!("/sys/fs/cgroup{group}/memory.max")).parse().ok());
    available.min(limit.unwrap_or(u64::MAX))
}

/// Devices of counters are named after the CPU: `cpu`, `cpu_core`, `armv8_pmuv3_0`.
fn has_hardware_counters() -> bool {
    let devices = fs::read_dir("/sys/bus/event_source/devices");
    devices.is_ok_and(|devices| {
        let names = devices
            .flatten()
            .filter_map(|device| device.file_name().into_string().ok());
        names
            .into_iter()
            .any(|name| name.starts_with("cpu") || name.starts_with("arm") || name.starts_with("power"))
    })
}

fn container() -> Vec<String> {
    let mut signs = Vec::new();
    for (kind, first) in [("pid", FIRST_PID_NAMESPACE), ("user", FIRST_USER_NAMESPACE)] {
        if is_in_namespace(kind, first) {
            signs.push(format!("a {kind} namespace"));
        }
    }
    for file in ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"] {
        if Path::new(file).exists() {
            signs.push(file.to_owned());
        }
    }
    signs
}

/// Whether this process is in another namespace than the one that the machine began with, whose number never changes.
fn is_in_namespace(kind: &str, first: u64) -> bool {
    fs::metadata(format!("/proc/self/ns/{kind}")).is_ok_and(|namespace| namespace.ino() != first)
}

/// A value that the kernel gave this process at its start.
fn auxiliary(key: u64) -> Option<u64> {
    let bytes = fs::read("/proc/self/auxv").ok()?;
    let words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    let words: Vec<u64> = words.collect();
    words.chunks_exact(2).find(|pair| pair[0] == key).map(|pair| pair[1])
}

fn c_library() -> Option<String> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("glibc ").map(str::to_owned)
}

fn free_bytes(folder: &Path) -> Result<u64, String> {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| reason(&error.into()))?;
    let space = statvfs(folder).map_err(|error| reason(&error.into()))?;
    Ok(space.f_bavail * space.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_machine_are_understood() {
        assert_eq!(cpus("0-3,8").collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(cpus("").count(), 0);
        assert_eq!(chosen("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert_eq!(chosen(""), None);
        assert_eq!(
            tracing_group("x:x:1:\ntracing:x:105:ann,bob"),
            Some(vec!["ann".to_owned(), "bob".to_owned()])
        );
        assert_eq!(tracing_group("tracing:x:105:"), Some(Vec::new()));
        assert_eq!(tracing_group("root:x:0:"), None);
    }
}
