// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads small files of /proc and /sys, again and again into the same memory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};

/// No file is read further; a command line may be longer.
const BYTES_MAX: usize = 16 << 10;

/// Memory for one file.
#[derive(Debug)]
pub(super) struct Reading {
    bytes: Vec<u8>,
}

impl Reading {
    pub(super) fn new() -> Reading {
        Reading {
            bytes: vec![0; BYTES_MAX],
        }
    }

    /// What the file says, at most as much as there is memory for; `None` when it cannot be read, as of a process that ended.
    pub(super) fn file(&mut self, path: impl AsRef<Path>) -> Option<&[u8]> {
        let file = openat(CWD, path.as_ref(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut length = 0;
        while length < self.bytes.len() {
            match read(&file, &mut self.bytes[length..]) {
                Ok(0) => break,
                Ok(bytes) => length += bytes,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(&self.bytes[..length])
    }

    /// As `file`, as text without the end of its line.
    pub(super) fn line(&mut self, path: impl AsRef<Path>) -> Option<String> {
        self.file(path).map(|bytes| text(bytes.trim_ascii_end()))
    }
}

/// Text of bytes that may be anything.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names in a folder, those that are numbers.
pub(super) fn numbers_in(folder: impl AsRef<Path>) -> Vec<i32> {
    names_in(folder).iter().filter_map(|name| name.parse().ok()).collect()
}

/// The names in a folder, in order; none of a folder that cannot be read.
pub(super) fn names_in(folder: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return vec![];
    };
    let name = |entry: std::fs::DirEntry| text(OsStr::as_bytes(&entry.file_name()));
    let mut names: Vec<String> = entries.flatten().map(name).collect();
    names.sort_unstable();
    names
}
