// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies at an address in the memory of a process. Kernel events have addresses only; whoever reads the trace may know which files were
//! mapped where, and what their variables and functions are called.

use crate::model::{ProcessId, System};

/// What lies at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A variable of a program or library.
    Variable {
        /// Its name in the source.
        name: String,
        /// How far behind its begin the address is, in bytes.
        offset: u64,
        /// The name of the file.
        file: String,
    },
    /// A part of a program or library that has no name.
    InFile {
        /// How far behind the file's first byte in memory, in bytes.
        offset: u64,
        /// The name of the file.
        file: String,
    },
    /// Memory that belongs to no file: heaps and stacks.
    Anonymous,
}

/// Knows what lies where.
pub trait Memory: std::fmt::Debug {
    /// What lies at an address of a process at a time; `None` when nobody knows.
    fn object(&self, pid: i32, ns: i64, address: u64) -> Option<Object>;
    /// The function of a process that waits at a time, by its thread's stack, the innermost frame first: the innermost function that belongs neither
    /// to the C library nor to what other libraries make of its locks. `None` when nobody knows.
    fn waiting(&self, pid: i32, ns: i64, stack: &[u64]) -> Option<String>;
}

/// For tests: the functions `take_order` and `flush` of a program, at 100 and 200.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct TwoFunctions;

#[cfg(test)]
impl Memory for TwoFunctions {
    fn object(&self, _: i32, _: i64, _: u64) -> Option<Object> {
        None
    }

    fn waiting(&self, _: i32, _: i64, stack: &[u64]) -> Option<String> {
        let name = |frame: &u64| match frame {
            100 => Some("take_order".to_owned()),
            200 => Some("flush".to_owned()),
            _ => None,
        };
        stack.iter().find_map(name)
    }
}

/// A place in a process's memory at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) process: ProcessId,
    pub(crate) ns: i64,
    pub(crate) address: u64,
}

impl Spot {
    /// `journal in orders`, `_PyRuntime+456 in python3.11`, `orders+0x4060`, `heap or stack of orders`; absent when nobody knows.
    pub(crate) fn name(self, system: &System) -> Option<String> {
        Some(
            match system.memory()?.object(self.process.pid, self.ns, self.address)? {
                Object::Variable { name, offset: 0, file } => format!("{name} in {file}"),
                Object::Variable { name, offset, file } => format!("{name}+{offset} in {file}"),
                Object::InFile { offset, file } => format!("{file}+{offset:#x}"),
                Object::Anonymous => match system.leader(self.process).map(|leader| system.name_of(leader)) {
                    Some(name) if !name.is_empty() => format!("heap or stack of {name}"),
                    _ => "heap or stack".to_owned(),
                },
            },
        )
    }
}
