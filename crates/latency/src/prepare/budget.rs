// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time for real-time threads. Where the kernel shares it out between control groups (RT_GROUP_SCHED, version 1 of control groups), a group has none
//! by default, and its threads get no real-time policy. Then the measuring threads join a group that has some.

use std::fs;
use std::path::Path;

use piste_reason::reason;

use super::cpuset::{Hierarchy, NAME};
use super::journal::{Change, Journal, put};
use super::{Steps, text};

/// In microseconds of each second, the largest first: a group gets what its siblings leave.
const BUDGETS_US: [u32; 5] = [950_000, 900_000, 500_000, 200_000, 50_000];

/// Makes a group that has time, if this process's own has none.
pub(super) fn provide(journal: &mut Journal, steps: &mut Steps, root: &Path) {
    // Without the controller there is nothing to share out.
    let Some(mount) = Hierarchy::of_version_1(root, "cpu") else {
        return;
    };
    let Some(own) = own_group(root, "cpu") else { return };
    let own = mount.join(own.trim_start_matches('/'));
    match text(&own.join("cpu.rt_runtime_us")) {
        Ok(budget) if budget == "0" => {}
        _ => return,
    }
    let group = mount.join(NAME);
    let made = journal.make(Change::Group { path: group.clone() }, || fs::create_dir(&group));
    if let Err(error) = made {
        let path = group.display();
        steps.not_possible.push(format!(
            "cannot make the control group {path}, for time for real-time threads: {}",
            reason(&error)
        ));
        return;
    }
    let mut last = None;
    for budget_us in BUDGETS_US {
        match put(&group.join("cpu.rt_runtime_us"), &budget_us.to_string()) {
            Ok(()) => {
                steps.taken.push(format!(
                    "real-time threads have {budget_us} µs of each second, in the control group {}",
                    group.display()
                ));
                steps.join.push(group.join("tasks"));
                return;
            }
            Err(error) => last = Some(error),
        }
    }
    if let Some(error) = last {
        steps.not_possible.push(format!(
            "no time for real-time threads is left for the control group {}: {}; other groups have it (cpu.rt_runtime_us)",
            group.display(),
            reason(&error)
        ));
    }
}

/// This process's group below the mount of a controller of version 1.
fn own_group(root: &Path, controller: &str) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut lines = text.lines().map(|line| line.splitn(3, ':'));
    lines.find_map(|mut line| {
        let mut controllers = line.nth(1)?.split(',');
        controllers
            .any(|name| name == controller)
            .then(|| line.next())?
            .map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_that_of_the_controller() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("proc/self")).expect("it can be made");
        let text = "3:cpuset:/a\n2:cpuacct,cpu:/b:c\n0::/d\n";
        fs::write(root.path().join("proc/self/cgroup"), text).expect("it can be written");
        assert_eq!(own_group(root.path(), "cpu"), Some("/b:c".into()));
        assert_eq!(own_group(root.path(), "cpuset"), Some("/a".into()));
        assert_eq!(own_group(root.path(), "memory"), None);
    }
}
