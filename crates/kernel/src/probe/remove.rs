// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking probes away again: off in every instance first, then out of the kernel's list.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use piste_reason::reason;
use rustix::io::Errno;

use super::listed::List;
use super::names;
use crate::tracefs::{self, Tracefs};

/// How often a probe that is in use is tried again, and the pause between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Removes the probes of owners that are dead, given by their ids. Returns findings: what is still there and why.
///
/// Remove their instances before: the kernel empties the rings of each instance in which a removed event was ever enabled.
pub fn leftovers(tracefs: &Tracefs, dead_owner_ids: &[&str]) -> Vec<String> {
    groups(tracefs, |group| {
        names::owner_of(group).is_some_and(|owner| dead_owner_ids.contains(&owner))
    })
}

/// Removes all events of the groups that `is_meant` says.
pub(super) fn groups(tracefs: &Tracefs, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for list in List::ALL {
        let listed = match list.read(tracefs) {
            Ok(listed) => listed,
            Err(error) => {
                findings.push(error.to_string());
                continue;
            }
        };
        let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
        for name in listed.into_iter().filter(|(group, _)| is_meant(group)) {
            *places.entry(name).or_default() += 1;
        }
        for ((group, event), places) in places {
            if let Err(reason) = remove(tracefs, list, &group, &event, places) {
                findings.push(format!("cannot remove the probe {group}/{event}: {reason}"));
            }
        }
    }
    findings
}

fn remove(tracefs: &Tracefs, list: List, group: &str, event: &str, places: usize) -> Result<(), String> {
    // Not one of ours, which have one place each. Kernels are known that fail when such an event goes.
    if places != 1 {
        return Err(format!(
            "it has {places} places, so Piste did not make it; whoever made it must remove it"
        ));
    }
    let enable: PathBuf = ["events", group, event, "enable"].iter().collect();
    disable_in_instances(tracefs, &enable)?;
    // The rings outside of instances belong to whoever sits at the machine: looked at, never written.
    if is_enabled(&tracefs.path(&enable))? {
        return Err(format!(
            "another user of tracefs enabled it in {}",
            tracefs.path(&enable).display()
        ));
    }
    let command = format!("-:{group}/{event}");
    for _ in 1..TRIES {
        match list.add(tracefs, &command) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(PAUSE),
            Err(error) => return Err(error.to_string()),
            Ok(()) => return Ok(()),
        }
    }
    list.add(tracefs, &command).map_err(|error| error.to_string())
}

fn disable_in_instances(tracefs: &Tracefs, enable: &Path) -> Result<(), String> {
    let instances = tracefs.path("instances");
    let entries = match fs::read_dir(&instances) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("cannot read {}: {}", instances.display(), reason(&error))),
    };
    for entry in entries {
        let entry = entry.map_err(|error| format!("cannot read {}: {}", instances.display(), reason(&error)))?;
        let file = entry.path().join(enable);
        if !is_enabled(&file)? {
            continue;
        }
        // A trigger keeps the event running, out of sight, when it is off.
        let _ = tracefs::append(&file.with_file_name("trigger"), "!stacktrace");
        let written = tracefs::write(&file, "0");
        if is_enabled(&file)? {
            let reason = written
                .err()
                .map_or("it has a trigger".into(), |error| error.to_string());
            return Err(format!("cannot disable {}: {reason}", file.display()));
        }
    }
    Ok(())
}

/// Whether the kernel runs the event for an instance: `1`, and `0*` or `1*` with a trigger.
fn is_enabled(file: &Path) -> Result<bool, String> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.trim() != "0"),
        // An instance or event that goes while it is looked at is off.
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(format!("cannot read {}: {}", file.display(), reason(&error))),
    }
}

fn is_gone(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::NODEV]
        .map(|gone| Some(gone.raw_os_error()))
        .contains(&error.raw_os_error())
}
