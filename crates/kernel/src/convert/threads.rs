// SPDX-License-Identifier: MIT OR Apache-2.0
//! What records do not say of threads, and somebody has to know.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Tells of threads what their records do not.
pub trait Threads {
    /// The process that a thread belongs to; `None` when that cannot be known any more.
    fn process_of(&mut self, tid: i32) -> Option<i32>;

    /// Whether a thread runs a 32-bit program, which calls the kernel by numbers of its own; `None` when that cannot be known any more.
    fn is_compat(&mut self, tid: i32) -> Option<bool>;

    /// The same of the program in a file; `None` when it is no program that says so itself, or not there.
    fn is_compat_file(&mut self, path: &Path) -> Option<bool> {
        let _ = path;
        None
    }
}

/// Asks `/proc` of this machine, which knows the threads that are alive.
#[derive(Debug, Clone, Copy, Default)]
pub struct LivingThreads;

impl Threads for LivingThreads {
    fn process_of(&mut self, tid: i32) -> Option<i32> {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        line.trim().parse().ok()
    }

    fn is_compat(&mut self, tid: i32) -> Option<bool> {
        self.is_compat_file(Path::new(&format!("/proc/{tid}/exe")))
    }

    fn is_compat_file(&mut self, path: &Path) -> Option<bool> {
        const CLASS_OFFSET: usize = 4;
        const CLASS_32: u8 = 1;
        let mut start = [0; CLASS_OFFSET + 1];
        // What has this path by now can be something else: opening a pipe must not wait.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        options.open(path).ok()?.read_exact(&mut start).ok()?;
        start.starts_with(b"\x7fELF").then_some(start[CLASS_OFFSET] == CLASS_32)
    }
}
