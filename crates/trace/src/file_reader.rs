// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that is read in parts, and kept open meanwhile, unless there are more of them than a process may have open.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::regular;

/// Of the 1024 that a process usually may have.
const OPEN_FILES_MAX: usize = 500;

/// So many files are not all kept open.
pub(crate) fn are_too_many(files: usize) -> bool {
    files > OPEN_FILES_MAX
}

/// The file; with `open_for_each_read`, it is not kept open.
#[derive(Debug)]
pub(crate) struct FileReader<'t> {
    path: &'t Path,
    /// Absent between reads when it is not kept open.
    file: Option<File>,
    keeps_open: bool,
}

impl<'t> FileReader<'t> {
    pub(crate) fn open(path: &'t Path) -> io::Result<FileReader<'t>> {
        Ok(FileReader {
            path,
            file: Some(regular::open(path)?),
            keeps_open: true,
        })
    }

    /// One of which nothing may ever be read.
    pub(crate) fn unopened(path: &'t Path) -> FileReader<'t> {
        FileReader {
            path,
            file: None,
            keeps_open: true,
        }
    }

    /// From now on.
    pub(crate) fn open_for_each_read(&mut self) {
        (self.file, self.keeps_open) = (None, false);
    }

    pub(crate) fn read<T>(&mut self, read: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        if let Some(file) = &self.file {
            return read(file);
        }
        let file = regular::open(self.path)?;
        let result = read(&file);
        self.file = Some(file).filter(|_| self.keeps_open);
        result
    }
}
