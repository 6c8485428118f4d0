// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preflight: settings of the machine that cause latency, each with its value, what it costs, and the command that fixes it. Everything comes from
//! files below a root folder, so tests give it a made-up machine. What the files do not say is unknown.
//!
//! - [`check`]: all checks, in the order in which they are shown
//! - `cpus`: what is set for each CPU: frequency, idle states, SMT, isolation, interrupts
//! - `kernel`: what the kernel does everywhere: throttling, preemption, clock source, virtual machine

mod cpus;
mod kernel;

use std::fs;
use std::path::{Path, PathBuf};

use crate::cpus::parse;

pub use self::kernel::is_virtual;

/// How a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It adds no latency.
    Ok,
    /// It adds latency.
    Wrong,
    /// Nobody knows.
    Unknown,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// How it is.
    pub level: Level,
    /// Its value.
    pub value: String,
    /// What it costs.
    pub cost: Option<String>,
    /// The command that fixes it, or what else does.
    pub fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, level: Level, value: impl Into<String>) -> Check {
        Check {
            name,
            level,
            value: value.into(),
            cost: None,
            fix: None,
        }
    }

    fn ok(name: &'static str, value: impl Into<String>) -> Check {
        Check::new(name, Level::Ok, value)
    }

    fn unknown(name: &'static str, value: impl Into<String>) -> Check {
        Check::new(name, Level::Unknown, value)
    }

    fn wrong(name: &'static str, value: impl Into<String>, cost: impl Into<String>, fix: impl Into<String>) -> Check {
        Check {
            cost: Some(cost.into()),
            fix: Some(fix.into()),
            ..Check::new(name, Level::Wrong, value)
        }
    }
}

/// All checks for measuring on some CPUs.
pub fn check(root: &Path, measured: &[u32]) -> Vec<Check> {
    let machine = Machine {
        root: root.to_owned(),
        measured: measured.to_vec(),
    };
    vec![
        cpus::frequency(&machine),
        cpus::idle_states(&machine),
        cpus::siblings(&machine),
        cpus::isolation(&machine),
        cpus::tick(&machine),
        cpus::interrupts(&machine),
        kernel::throttling(&machine),
        kernel::preemption(&machine),
        kernel::clock_source(&machine),
        kernel::virtual_machine(&machine),
    ]
}

/// The numbers of the entries of a folder whose names are a prefix and a number, in ascending order.
pub(crate) fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// A machine's files, and the CPUs that matter.
struct Machine {
    root: PathBuf,
    measured: Vec<u32>,
}

impl Machine {
    /// A file without the white space around its text; `None` if it cannot be read.
    fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// A list of CPUs.
    fn cpus(&self, file: &str) -> Option<Vec<u32>> {
        parse(&self.text(file)?).ok()
    }

    /// The numbers of the entries of a folder whose names are a prefix and a number, in ascending order.
    fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        numbered(&self.root.join(folder), prefix)
    }

    /// The folders in one, as names below the root.
    fn folders(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders
            .filter_map(|entry| Some(format!("{folder}/{}", entry.file_name().to_str()?)))
            .collect()
    }

    /// The CPUs on which nothing is measured.
    fn others(&self) -> Vec<u32> {
        let online = self.cpus("sys/devices/system/cpu/online").unwrap_or_default();
        online.into_iter().filter(|cpu| !self.measured.contains(cpu)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up machine: pairs of a file and its text.
    pub(super) fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        root
    }

    /// The one check of a name, for measuring on CPUs 2 and 3.
    pub(super) fn checked(files: &[(&str, &str)], name: &str) -> Check {
        let root = machine(files);
        let all = check(root.path(), &[2, 3]);
        all.into_iter().find(|check| check.name == name).expect("there is one")
    }

    #[test]
    fn a_machine_without_files_is_unknown() {
        let root = machine(&[]);
        for check in check(root.path(), &[0]) {
            assert_eq!(check.level, Level::Unknown, "{check:?}");
            assert!(
                check.cost.is_none() && check.fix.is_none() && !check.value.is_empty(),
                "{check:?}"
            );
        }
    }

    #[test]
    fn whatever_is_wrong_has_a_cost_and_a_fix_here_too() {
        for check in check(Path::new("/"), &[0]) {
            assert_eq!(check.level == Level::Wrong, check.fix.is_some(), "{check:?}");
            assert_eq!(check.cost.is_some(), check.fix.is_some(), "{check:?}");
        }
    }
}
