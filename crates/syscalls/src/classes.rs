// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of system calls, by what they are about.

use crate::{Syscall, What};

/// A class of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// They get the name of a file.
    File,
    /// They get a descriptor.
    Descriptor,
    /// Sockets.
    Network,
    /// Processes that start, end, wait and signal each other.
    Process,
    /// Signals.
    Signal,
    /// Memory of processes.
    Memory,
    /// Messages, semaphores and shared memory of System V.
    Ipc,
}

/// Names of arguments that are descriptors.
const DESCRIPTORS: [&str; 24] = [
    "fd",
    "dfd",
    "fildes",
    "oldfd",
    "newfd",
    "olddfd",
    "newdfd",
    "in_fd",
    "out_fd",
    "fd_in",
    "fd_out",
    "fdin",
    "fdout",
    "epfd",
    "ufd",
    "fs_fd",
    "from_dfd",
    "to_dfd",
    "pidfd",
    "group_fd",
    "ruleset_fd",
    "nsfd",
    "fd1",
    "fd2",
];

impl Class {
    /// By the name that strace(1) has for it.
    pub fn named(name: &str) -> Option<Class> {
        Some(match name {
            "file" => Class::File,
            "desc" => Class::Descriptor,
            "network" | "net" => Class::Network,
            "process" => Class::Process,
            "signal" => Class::Signal,
            "memory" => Class::Memory,
            "ipc" => Class::Ipc,
            _ => return None,
        })
    }

    /// Whether a call is in it.
    pub fn has(self, call: &Syscall) -> bool {
        let listed = |class: &str| {
            let mut lines = include_str!("../data/classes.tsv").lines();
            let line = lines.find_map(|line| line.strip_prefix(class)?.strip_prefix('\t'));
            line.is_some_and(|names| names.split('\t').any(|name| name == call.program_name))
        };
        match self {
            Class::File => call.pointees.iter().any(|pointee| pointee.what == What::Path),
            Class::Descriptor => call
                .arguments
                .iter()
                .any(|argument| DESCRIPTORS.contains(&argument.name)),
            Class::Network => listed("network"),
            Class::Process => listed("process"),
            Class::Signal => listed("signal"),
            Class::Memory => listed("memory"),
            Class::Ipc => listed("ipc"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, Table};

    #[test]
    fn calls_are_in_classes() {
        let check = |name: &str, expected: &[Class]| {
            let all = [
                Class::File,
                Class::Descriptor,
                Class::Network,
                Class::Process,
                Class::Signal,
                Class::Memory,
                Class::Ipc,
            ];
            let call = Architecture::named("x86_64").by_name(Table::Native, name).expect(name);
            let found: Vec<Class> = all.into_iter().filter(|class| class.has(call)).collect();
            assert_eq!(found, expected, "{name}");
        };
        check("openat", &[Class::File, Class::Descriptor]);
        check("execve", &[Class::File, Class::Process]);
        check("connect", &[Class::Descriptor, Class::Network]);
        check("kill", &[Class::Process, Class::Signal]);
        check("mmap", &[Class::Descriptor, Class::Memory]);
        check("shmat", &[Class::Memory, Class::Ipc]);
        check("getpid", &[]);
    }

    #[test]
    fn every_listed_call_is_one() {
        let lines = include_str!("../data/classes.tsv").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            for name in line.split('\t').skip(1) {
                let tables = [Table::Native, Table::Compat];
                let is_known = ["x86_64", "aarch64"].map(|architecture| {
                    tables.map(|table| Architecture::named(architecture).by_name(table, name).is_some())
                });
                assert!(is_known.as_flattened().contains(&true), "{name}");
            }
        }
    }
}
