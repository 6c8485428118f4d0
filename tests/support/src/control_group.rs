// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups of a test's own that limit CPU time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Workplace;
use crate::process::run;
use crate::report::text;

/// A control group of 10 ms of CPU time in 100 ms, in a mount of its own. Both are gone when it is dropped.
pub struct Group {
    /// Where all groups are.
    pub mount: PathBuf,
    /// This one.
    pub folder: PathBuf,
}

impl Group {
    /// `None` where no control groups limit CPU time.
    ///
    /// # Panics
    /// Files cannot be made in the workplace.
    pub fn make(place: &Workplace) -> Option<Group> {
        let mount = place.path("groups");
        fs::create_dir(&mount).expect("a folder can be made there");
        let kinds = [("cgroup", "cpu"), ("cgroup", "cpu,cpuacct"), ("cgroup2", "rw")];
        kinds.into_iter().find_map(|(kind, options)| {
            let arguments = ["-t", kind, "-o", options, "piste-test", text(&mount)];
            if !run(Command::new("mount").args(arguments)).success() {
                return None;
            }
            let group = Group {
                folder: mount.join(format!("piste-test-{}", std::process::id())),
                mount: mount.clone(),
            };
            fs::create_dir(&group.folder).ok()?;
            let limits = match kind {
                "cgroup2" => &[("cpu.max", "10000 100000")][..],
                _ => &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "10000")],
            };
            let is_limited = |(file, limit): &(&str, &str)| fs::write(group.folder.join(file), limit).is_ok();
            limits.iter().all(is_limited).then_some(group)
        })
    }

    /// A count of its `cpu.stat`.
    ///
    /// # Panics
    /// It has none.
    pub fn count(&self, key: &str) -> i64 {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).expect("a group has one");
        let mut words = stat.lines().filter_map(|line| line.split_once(' '));
        let found = words.find(|(word, _)| *word == key);
        found.map_or(0, |(_, count)| count.parse().expect("a number"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let members = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            let _ = fs::write(self.mount.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.folder);
        run(Command::new("umount").arg(&self.mount));
    }
}

/// Python that uses 100 ms of CPU time as a member of the group of its first argument, goes to that of its second one, and says its pid and CPU.
pub const COMPUTE_THERE: &str = "
import os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
open(sys.argv[1] + '/cgroup.procs', 'w').write('0')
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
open(sys.argv[2] + '/cgroup.procs', 'w').write('0')
print(os.getpid(), min(os.sched_getaffinity(0)))
";
