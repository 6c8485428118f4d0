// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain tracefs instances of a run, with their probes and user events, as anybody can make them without Piste. They are removed with the values that
//! hold them. What a killed run left behind is removed by the next one (`claim`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use piste_kernel::cpu_stats::CpuStats;
use piste_kernel::tracefs::Tracefs;
use piste_reason::reason;

use crate::claim::{self, Claim};
use crate::error::Error;
use crate::peers::RING_KIB;

/// What the names of instances begin with; an id follows. Piste's own are others.
const INSTANCE_PREFIX: &str = "pistebench-";
/// What the names of an instance's group of probes begin with, and those of its user events, which have no group; the instance's id follows.
const GROUP_PREFIX: &str = "pistebench_";
const ID_BYTES: usize = 12;
const INSTANCES: &str = "instances";
const PROBES: &str = "uprobe_events";
/// Probes and user events of all kinds.
const DYNAMIC_EVENTS: &str = "dynamic_events";
/// The group of all user events.
const USER_EVENTS: &str = "user_events";
/// Somebody may be reading it.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// An instance that overwrites, with nobody reading it.
pub(crate) struct Instance {
    tracefs: Tracefs,
    folder: PathBuf,
    /// `GROUP/NAME` of each.
    probes: Vec<String>,
    /// `GROUP/NAME FIELDS` of each: the kernel knows them by all of it.
    user_events: Vec<String>,
    _claim: Claim,
}

/// A probe in a program's file.
pub(crate) struct Place<'p> {
    pub(crate) file: &'p Path,
    /// In bytes from the beginning of the file.
    pub(crate) offset: u64,
    /// What is recorded, in the words of tracefs.
    pub(crate) arguments: &'p str,
}

impl Instance {
    /// A new one, that records.
    pub(crate) fn new(tracefs: &Tracefs) -> Result<Instance, Error> {
        let instances = tracefs.path(INSTANCES);
        let mut builder = tempfile::Builder::new();
        builder.prefix(INSTANCE_PREFIX).rand_bytes(ID_BYTES);
        let made = claim::make(|| Ok(builder.tempdir_in(&instances)?.keep()));
        let (folder, claim) = made.map_err(|error| cannot("create an instance in", &instances, &error))?;
        let instance = Instance {
            tracefs: tracefs.clone(),
            folder,
            probes: Vec::new(),
            user_events: Vec::new(),
            _claim: claim,
        };
        let clocks = fs::read_to_string(instance.path("trace_clock")).unwrap_or_default();
        // The clock of Piste's recordings.
        instance.write(
            "trace_clock",
            if clocks.contains("x86-tsc") { "x86-tsc" } else { "mono" },
        )?;
        instance.write("buffer_size_kb", &RING_KIB.to_string())?;
        Ok(instance)
    }

    pub(crate) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.folder.join(file)
    }

    pub(crate) fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        let path = self.path(file);
        fs::write(&path, text).map_err(|error| cannot("write", &path, &error))
    }

    /// Records an event, `GROUP/NAME`.
    pub(crate) fn enable(&self, event: &str) -> Result<(), Error> {
        self.write(&format!("events/{event}/enable"), "1")
    }

    /// Makes a probe, whose event is recorded by whoever enables it. Returns `GROUP/NAME`.
    pub(crate) fn add_probe(&mut self, name: &str, place: &Place) -> Result<String, Error> {
        let probe = format!("{GROUP_PREFIX}{}/{name}", self.id());
        let definition = format!(
            "p:{probe} {}:{:#x} {}",
            place.file.display(),
            place.offset,
            place.arguments
        );
        self.tracefs.append(PROBES, &definition).map_err(|error| {
            Error::new(format!(
                "the kernel refuses the probe {definition:?}: {}",
                reason(&error)
            ))
        })?;
        self.probes.push(probe.clone());
        Ok(probe)
    }

    /// Makes an event that programs write by themselves, as soon as they have registered the same name and fields. Returns `GROUP/NAME`.
    pub(crate) fn add_user_event(&mut self, name: &str, fields: &str) -> Result<String, Error> {
        let name = format!("{GROUP_PREFIX}{}_{name}", self.id());
        let definition = format!("u:{name} {fields}");
        self.tracefs.append(DYNAMIC_EVENTS, &definition).map_err(|error| {
            Error::new(format!(
                "the kernel refuses the user event {definition:?}: {}",
                reason(&error)
            ))
        })?;
        self.user_events.push(format!("{USER_EVENTS}/{name} {fields}"));
        Ok(format!("{USER_EVENTS}/{name}"))
    }

    fn id(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        name.trim_start_matches(INSTANCE_PREFIX).to_owned()
    }

    /// How many events it has recorded, whether or not they are still in the ring.
    pub(crate) fn recorded(&self) -> u64 {
        self.stats().map(|stats| stats.entries + stats.overrun).sum()
    }

    /// What the kernel counts in the ring of each CPU.
    pub(crate) fn stats(&self) -> impl Iterator<Item = CpuStats> {
        let cpus = fs::read_dir(self.path("per_cpu")).into_iter().flatten().flatten();
        let stats = cpus.filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok());
        stats.map(|text| CpuStats::parse(&text))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        stop(&self.folder);
        // Before the instance, whose claim says that they belong to a run.
        for probe in &self.probes {
            remove_event(&self.tracefs, PROBES, probe);
        }
        for event in &self.user_events {
            remove_event(&self.tracefs, DYNAMIC_EVENTS, event);
        }
        remove_instance(&self.folder);
    }
}

/// No probe can be removed while an instance records it.
fn stop(folder: &Path) {
    let _ = fs::write(folder.join("tracing_on"), "0");
    let _ = fs::write(folder.join("events/enable"), "0");
}

fn remove_instance(folder: &Path) {
    again_until(|| match fs::remove_dir(folder) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(()) => true,
    });
}

/// The kernel may still be turning it off, or forgetting a program that has ended.
fn remove_event(tracefs: &Tracefs, file: &str, event: &str) {
    again_until(|| match tracefs.append(file, &format!("-:{event}")) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(()) => true,
    });
}

fn again_until(mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + REMOVAL_PATIENCE;
    while !is_done() && Instant::now() < deadline {
        thread::sleep(LOOK_AGAIN);
    }
}

/// Removes what killed runs left behind.
pub(crate) fn remove_leftovers(tracefs: &Tracefs) {
    let instances = tracefs.path(INSTANCES);
    for entry in fs::read_dir(&instances).into_iter().flatten().flatten() {
        let is_of_a_run = entry.file_name().to_string_lossy().starts_with(INSTANCE_PREFIX);
        if is_of_a_run && let Ok(Some(_claim)) = Claim::of(&entry.path()) {
            stop(&entry.path());
            remove_instance(&entry.path());
        }
    }
    // Those of a run that lives have an instance.
    let is_abandoned = |id: &str| !instances.join(format!("{INSTANCE_PREFIX}{id}")).exists();
    let probes = tracefs.read(PROBES).unwrap_or_default();
    for (probe, id) in probes.lines().filter_map(probe_and_id) {
        if is_abandoned(id) {
            let _ = tracefs.append(PROBES, &format!("-:{probe}"));
        }
    }
    let events = tracefs.read(DYNAMIC_EVENTS).unwrap_or_default();
    for (event, id) in events.lines().filter_map(user_event_and_id) {
        if is_abandoned(id) {
            let _ = tracefs.append(DYNAMIC_EVENTS, &format!("-:{USER_EVENTS}/{event}"));
        }
    }
}

/// `p:GROUP/NAME FILE:OFFSET`, if it is a probe of a run: `GROUP/NAME`, and the id of its instance.
fn probe_and_id(line: &str) -> Option<(&str, &str)> {
    let (_, probe) = line.split(' ').next()?.split_once(':')?;
    let (group, _) = probe.split_once('/')?;
    Some((probe, group.strip_prefix(GROUP_PREFIX)?))
}

/// `u:NAME FIELDS`, if it is a user event of a run: `NAME FIELDS`, and the id of its instance.
fn user_event_and_id(line: &str) -> Option<(&str, &str)> {
    let event = line.strip_prefix("u:")?;
    let (id, _) = event.strip_prefix(GROUP_PREFIX)?.split_once('_')?;
    Some((event, id))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(format!("cannot {what} {}: {}", path.display(), reason(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_runs_are_told_from_others() {
        assert_eq!(
            probe_and_id("p:pistebench_x7Kq/probed /tmp/probed:0x1136 value=%di:s32"),
            Some(("pistebench_x7Kq/probed", "x7Kq"))
        );
        for other in [
            "p:piste_123/probed /bin/sh:0x10",
            "p:uprobes/p_sh_0x10 /bin/sh:0x10",
            "",
        ] {
            assert_eq!(probe_and_id(other), None, "{other}");
        }
    }

    #[test]
    fn user_events_of_runs_are_told_from_others() {
        assert_eq!(
            user_event_and_id("u:pistebench_x7Kq_recorded s32 value"),
            Some(("pistebench_x7Kq_recorded s32 value", "x7Kq"))
        );
        for other in [
            "u:shop_ordered u32 id",
            "u:pistebench s32 value",
            "p:pistebench_x7Kq/probed /tmp/probed:0x1136",
            "",
        ] {
            assert_eq!(user_event_and_id(other), None, "{other}");
        }
    }
}
