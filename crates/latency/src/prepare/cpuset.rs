// SPDX-License-Identifier: MIT OR Apache-2.0
//! Isolates CPUs with the control groups' cpuset controller: the scheduler no longer moves threads there, and only the measuring threads run there.
//!
//! - Version 2, Linux 6.7 and newer: this process moves to a group of its own, with a threaded group below it that is an isolated partition. Only
//!   the measuring threads are in that one.
//! - Version 2, older kernels: a partition lies directly below the root or another partition. So the process's group becomes one, with one more CPU
//!   for the rest of the process, and the group of the measuring threads one below it.
//! - Version 1: all processes of the root set move to a set of the other CPUs, and the measuring threads to a set of the measured ones. The scheduler
//!   balances threads within sets that ask for it: from then on, only the first of the two. Threads of the kernel stay in the root set and are kept from the
//!   measured CPUs one by one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use piste_reason::reason;

use super::journal::{Change, Journal, put};
use super::{Division, Steps, set, text, threads};
use crate::cpus::{list, named, parse};

/// The name of the groups that are made.
pub(super) const NAME: &str = "piste-latency";

/// Processes that are moved may start others meanwhile.
const PASSES: usize = 5;

/// Where a controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    Version1(PathBuf),
    Version2(PathBuf),
}

impl Hierarchy {
    /// The mounted hierarchy that has the cpuset controller.
    fn of_cpusets(root: &Path) -> Option<Hierarchy> {
        if let Some(mount) = Hierarchy::of_version_1(root, "cpuset") {
            return Some(Hierarchy::Version1(mount));
        }
        let has_it = |mount: &PathBuf| {
            let controllers = text(&mount.join("cgroup.controllers")).unwrap_or_default();
            controllers.split(' ').any(|name| name == "cpuset")
        };
        let mounts = mounts(root).into_iter().filter(|mount| mount.kind == "cgroup2");
        mounts.map(|mount| mount.path).find(has_it).map(Hierarchy::Version2)
    }

    /// Where a controller of version 1 is mounted.
    pub(super) fn of_version_1(root: &Path, controller: &str) -> Option<PathBuf> {
        let mut mounts = mounts(root).into_iter().filter(|mount| mount.kind == "cgroup");
        let has_it = |mount: &Mount| mount.options.split(',').any(|option| option == controller);
        mounts.find(has_it).map(|mount| mount.path)
    }
}

struct Mount {
    path: PathBuf,
    kind: String,
    options: String,
}

fn mounts(root: &Path) -> Vec<Mount> {
    let text = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.splitn(3, ' ');
        Some(Mount {
            path: before.split(' ').nth(4)?.into(),
            kind: after.next()?.into(),
            options: after.nth(1)?.into(),
        })
    };
    text.lines().filter_map(mount).collect()
}

/// Why the CPUs are not isolated, as a sentence without its end.
#[derive(Debug)]
struct NotPossible(String);

impl From<io::Error> for NotPossible {
    fn from(error: io::Error) -> NotPossible {
        NotPossible(reason(&error))
    }
}

/// Isolates the measured CPUs.
pub(super) fn isolate(journal: &mut Journal, steps: &mut Steps, root: &Path, division: &Division) {
    let isolated = match Hierarchy::of_cpusets(root) {
        Some(Hierarchy::Version1(mount)) => version_1(journal, steps, &mount, division),
        Some(Hierarchy::Version2(mount)) => version_2(journal, steps, &mount, division),
        None => Err(NotPossible(
            "no control group hierarchy with the cpuset controller is mounted; boot with isolcpus= instead".into(),
        )),
    };
    if let Err(NotPossible(why)) = isolated {
        let cpus = named(&division.measured);
        steps.not_possible.push(format!("{cpus} cannot be isolated: {why}"));
    }
}

/// A group, with values in its files.
struct Group {
    path: PathBuf,
}

impl Group {
    fn make(journal: &mut Journal, path: PathBuf) -> Result<Group, NotPossible> {
        let made = journal.make(Change::Group { path: path.clone() }, || fs::create_dir(&path));
        made.map_err(|error| {
            NotPossible(format!(
                "cannot make the control group {}: {}",
                path.display(),
                reason(&error)
            ))
        })?;
        Ok(Group { path })
    }

    /// These go with the group, so nothing has to be undone.
    fn put(&self, file: &str, text: &str) -> Result<(), NotPossible> {
        let path = self.path.join(file);
        put(&path, text).map_err(|error| cannot_write(&path, text, &error))
    }
}

fn cannot_write(path: &Path, text: &str, error: &io::Error) -> NotPossible {
    NotPossible(format!(
        "cannot write {text:?} to {}: {}",
        path.display(),
        reason(error)
    ))
}

fn version_1(journal: &mut Journal, steps: &mut Steps, mount: &Path, division: &Division) -> Result<(), NotPossible> {
    let memory = text(&mount.join("cpuset.effective_mems")).or_else(|_| text(&mount.join("cpuset.mems")))?;
    let (path, others) = (mount.join(NAME), mount.join(format!("{NAME}-others")));
    keep_threads(journal, division)?;
    for (path, cpus, is_balanced) in [(&path, &division.measured, "0"), (&others, &division.others, "1")] {
        let group = Group::make(journal, path.clone())?;
        group.put("cpuset.cpus", &list(cpus))?;
        group.put("cpuset.mems", &memory)?;
        group.put("cpuset.sched_load_balance", is_balanced)?;
    }
    let balance = mount.join("cpuset.sched_load_balance");
    let old = text(&balance)?;
    if old != "0" {
        set(journal, &balance, &old, "0").map_err(|error| cannot_write(&balance, "0", &error))?;
    }
    steps.join.push(path.join("tasks"));
    let moved = move_processes(mount, &others);
    let cpus = named(&division.measured);
    steps.taken.push(format!(
        "{moved} processes moved away from {cpus}, and the scheduler moves no threads there (cpuset {})",
        path.display()
    ));
    let balanced = balanced_elsewhere(mount, division);
    if !balanced.is_empty() {
        steps.not_possible.push(format!(
            "the scheduler may still move threads of some cpusets to {cpus}: {}; write 0 into their cpuset.sched_load_balance",
            balanced.join(", ")
        ));
    }
    Ok(())
}

/// Sets of others in which the scheduler balances threads over measured CPUs, too.
fn balanced_elsewhere(mount: &Path, division: &Division) -> Vec<String> {
    let folders = fs::read_dir(mount).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        let cpus = text(&path.join("cpuset.cpus")).ok().and_then(|list| parse(&list).ok());
        text(&path.join("cpuset.sched_load_balance")).is_ok_and(|text| text == "1")
            && cpus.is_some_and(|cpus| cpus.iter().any(|cpu| division.measured.contains(cpu)))
    };
    let mut sets: Vec<String> = folders
        .map(|entry| entry.path())
        .filter(is_one)
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    sets.sort();
    sets
}

/// Keeps the kernel's threads from the measured CPUs. Of the threads of processes, notes the CPUs of those that are not to run everywhere: when a thread
/// leaves a set, kernels before Linux 6.2 forget them. These notes come first in the journal, so they are used after the sets are gone.
fn keep_threads(journal: &mut Journal, division: &Division) -> io::Result<()> {
    let everywhere = division.measured.len() + division.others.len();
    for thread in threads::all() {
        let elsewhere: Vec<u32> = thread
            .allowed
            .iter()
            .copied()
            .filter(|cpu| division.others.contains(cpu))
            .collect();
        let change = Change::Thread {
            thread: thread.number,
            started: thread.started,
            cpus: thread.allowed.clone(),
        };
        let is_measured = elsewhere.len() < thread.allowed.len();
        if thread.is_of_kernel && is_measured && !elsewhere.is_empty() {
            // The kernel refuses for some of them, and a thread may have ended.
            let _ = journal.make(change, || threads::allow(thread.number, &elsewhere));
        } else if !thread.is_of_kernel && thread.allowed.len() < everywhere {
            journal.make(change, || io::Result::Ok(()))?;
        }
    }
    Ok(())
}

/// Moves the processes of the root set to another one; how many. Those that are started meanwhile by others are moved the next time.
fn move_processes(mount: &Path, to: &Path) -> usize {
    let (from, to) = (mount.join("cgroup.procs"), to.join("cgroup.procs"));
    let mut moved = 0;
    for _ in 0..PASSES {
        let before = moved;
        for process in text(&from).unwrap_or_default().lines() {
            // Threads of the kernel stay.
            let is_of_kernel = process.parse().is_ok_and(threads::is_of_kernel);
            if !is_of_kernel && put(&to, process).is_ok() {
                moved += 1;
            }
        }
        if moved == before {
            break;
        }
    }
    moved
}

fn version_2(journal: &mut Journal, steps: &mut Steps, mount: &Path, division: &Division) -> Result<(), NotPossible> {
    enable(journal, mount)?;
    let path = mount.join(NAME);
    let group = Group::make(journal, path.clone())?;
    let measured = list(&division.measured);
    // The file is there from Linux 6.7 on: then a partition may lie anywhere.
    let is_remote = path.join("cpuset.cpus.exclusive").exists();
    if is_remote {
        group.put("cpuset.cpus.exclusive", &measured)?;
    } else {
        let [.., _, housekeeping] = &division.others[..] else {
            return Err(NotPossible(
                "before Linux 6.7, that takes at least two more CPUs; boot with isolcpus= instead".into(),
            ));
        };
        let mut with_housekeeping = division.measured.clone();
        with_housekeeping.push(*housekeeping);
        with_housekeeping.sort_unstable();
        group.put("cpuset.cpus", &list(&with_housekeeping))?;
        group.put("cpuset.cpus.partition", "root")?;
        partition(&path)?;
    }
    move_process(journal, mount, &path)?;
    let threads = path.join("loops");
    let group = Group::make(journal, threads.clone())?;
    group.put("cgroup.type", "threaded")?;
    // Only now: before, the group's processes would have to leave it.
    enable(journal, &path)?;
    group.put("cpuset.cpus", &measured)?;
    if is_remote {
        group.put("cpuset.cpus.exclusive", &measured)?;
    }
    // Before Linux 6.1, there is only the kind whose threads are balanced within it.
    let kind = match group.put("cpuset.cpus.partition", "isolated") {
        Ok(()) => "isolated",
        Err(_) => {
            group.put("cpuset.cpus.partition", "root")?;
            "root"
        }
    };
    partition(&threads)?;
    steps.join.push(threads.join("cgroup.threads"));
    steps.taken.push(format!(
        "only the measuring threads run on {} (cpuset partition {kind}, {})",
        named(&division.measured),
        threads.display()
    ));
    Ok(())
}

/// Enables the cpuset controller for the groups below one.
fn enable(journal: &mut Journal, group: &Path) -> Result<(), NotPossible> {
    let path = group.join("cgroup.subtree_control");
    if text(&path)?.split(' ').any(|name| name == "cpuset") {
        return Ok(());
    }
    let change = Change::Controller {
        path: path.clone(),
        name: "cpuset".into(),
    };
    let enabled = journal.make(change, || put(&path, "+cpuset"));
    enabled
        .map(drop)
        .map_err(|error| cannot_write(&path, "+cpuset", &error))
}

/// Whether a group has become a partition; the kernel says so only afterwards.
fn partition(group: &Path) -> Result<(), NotPossible> {
    let path = group.join("cpuset.cpus.partition");
    let state = text(&path)?;
    match state.split_once(" invalid") {
        None => Ok(()),
        Some((_, why)) => Err(NotPossible(format!(
            "the kernel does not make {} a partition{}",
            group.display(),
            match why.trim() {
                "" => String::new(),
                why => format!(": {}", why.trim_matches(['(', ')'])),
            }
        ))),
    }
}

/// Moves this process to a group.
fn move_process(journal: &mut Journal, mount: &Path, to: &Path) -> Result<(), NotPossible> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let pid = std::process::id();
    let change = Change::Process {
        pid: pid.cast_signed(),
        from: mount.join(own.trim_start_matches('/')).join("cgroup.procs"),
    };
    let path = to.join("cgroup.procs");
    let moved = journal.make(change, || put(&path, &pid.to_string()));
    moved
        .map(drop)
        .map_err(|error| cannot_write(&path, &pid.to_string(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mounts: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let proc = root.path().join("proc/self");
        fs::create_dir_all(&proc).expect("it can be made");
        fs::write(proc.join("mountinfo"), mounts).expect("it can be written");
        root
    }

    #[test]
    fn the_hierarchy_is_the_one_that_has_the_controller() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        let unified = format!("30 24 0:26 / {path} rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
        let version_1 = "31 24 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,noprefix\n";
        let found = |mounts: &str| Hierarchy::of_cpusets(machine(mounts).path());
        assert_eq!(found(&unified), None, "the controller is not there");
        fs::write(folder.path().join("cgroup.controllers"), "cpu cpuset\n").expect("writable");
        assert_eq!(found(&unified), Some(Hierarchy::Version2(folder.path().into())));
        let both = unified + version_1;
        assert_eq!(found(&both), Some(Hierarchy::Version1("/sys/fs/cgroup/cpuset".into())));
        assert_eq!(Hierarchy::of_version_1(machine(&both).path(), "cpu"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn an_invalid_partition_has_its_reason() {
        let group = tempfile::tempdir().expect("a folder");
        let said = |state: &str| {
            fs::write(group.path().join("cpuset.cpus.partition"), state).expect("writable");
            partition(group.path()).map_err(|NotPossible(why)| why)
        };
        assert_eq!(said("isolated\n"), Ok(()));
        let why = said("root invalid (Cpu list in cpuset.cpus not exclusive)\n").expect_err("it is none");
        assert!(
            why.ends_with("a partition: Cpu list in cpuset.cpus not exclusive"),
            "{why}"
        );
    }
}
