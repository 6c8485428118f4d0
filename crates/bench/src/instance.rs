// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain tracefs instances and probes of a run, as anybody can make them without Piste. They are removed with the values that hold them, and what a
//! run that was killed left is removed by the next one: their names have the process id.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use piste_kernel::cpu_stats::CpuStats;
use piste_kernel::tracefs::Tracefs;
use piste_reason::reason;

use crate::error::Error;
use crate::processes::has_ended;

/// What the names of instances and of groups of probes begin with. Piste's own are others.
const PREFIX: &str = "pistebench";
const RING_KIB: u64 = 4096;
/// Somebody may be reading it.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// An instance that overwrites, with nobody reading it.
pub(crate) struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// A new one, that records.
    pub(crate) fn new(tracefs: &Tracefs, name: &str) -> Result<Instance, Error> {
        let folder = tracefs
            .path("instances")
            .join(format!("{PREFIX}-{}-{name}", process::id()));
        fs::create_dir(&folder).map_err(|error| cannot("create", &folder, &error))?;
        let instance = Instance { folder };
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
        let _ = remove_instance(&self.folder);
    }
}

fn remove_instance(folder: &Path) -> io::Result<()> {
    let _ = fs::write(folder.join("tracing_on"), "0");
    let _ = fs::write(folder.join("events/enable"), "0");
    let deadline = Instant::now() + REMOVAL_PATIENCE;
    loop {
        match fs::remove_dir(folder) {
            Err(_) if Instant::now() < deadline => thread::sleep(LOOK_AGAIN),
            result => return result,
        }
    }
}

/// A probe in a program's file. Only an instance that enables it records it.
pub(crate) struct Probe {
    tracefs: Tracefs,
    name: String,
}

impl Probe {
    /// At so many bytes from the beginning of a file. `arguments` are in the words of tracefs.
    pub(crate) fn new(
        tracefs: &Tracefs,
        name: &str,
        file: &Path,
        offset: u64,
        arguments: &str,
    ) -> Result<Probe, Error> {
        let name = format!("{PREFIX}_{}/{name}", process::id());
        let definition = format!("p:{name} {}:{offset:#x} {arguments}", file.display());
        tracefs.append("uprobe_events", &definition).map_err(|error| {
            Error::new(format!(
                "the kernel refuses the probe {definition:?}: {}",
                reason(&error)
            ))
        })?;
        Ok(Probe {
            tracefs: tracefs.clone(),
            name,
        })
    }

    /// `GROUP/NAME`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let deadline = Instant::now() + REMOVAL_PATIENCE;
        // The kernel may still be turning it off.
        while self
            .tracefs
            .append("uprobe_events", &format!("-:{}", self.name))
            .is_err()
            && Instant::now() < deadline
        {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Removes what runs left that were killed.
pub(crate) fn remove_leftovers(tracefs: &Tracefs) {
    let entries = fs::read_dir(tracefs.path("instances")).into_iter().flatten().flatten();
    for folder in entries.map(|entry| entry.path()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if owner_of(&name, '-').is_some_and(has_ended) {
            let _ = remove_instance(&folder);
        }
    }
    let probes = tracefs.read("uprobe_events").unwrap_or_default();
    for line in probes.lines() {
        // p:GROUP/NAME FILE:OFFSET
        let name = line.split(' ').next().and_then(|word| word.split_once(':'));
        if let Some((_, name)) = name
            && owner_of(name, '_').is_some_and(has_ended)
        {
            let _ = tracefs.append("uprobe_events", &format!("-:{name}"));
        }
    }
}

/// The process that made it, as its name says.
fn owner_of(name: &str, separator: char) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix(separator)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(format!("cannot {what} {}: {}", path.display(), reason(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_it_is() {
        assert_eq!(owner_of("pistebench-123-calls", '-'), Some(123));
        assert_eq!(owner_of("pistebench_123/probed", '_'), Some(123));
        for other in ["piste-123-calls", "pistebench-calls", "pistebench", "foo"] {
            assert_eq!(owner_of(other, '-'), None, "{other}");
        }
    }
}
