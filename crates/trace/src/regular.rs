// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of a trace are opened as files: a pipe or a device in the place of one is not waited for, and not read. Of what is read whole, no more
//! is read than there can be: a file may say that it has terabytes, of which nothing is on the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// To read it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Whoever opens a pipe would else wait until somebody writes to it.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file()),
    }
}

/// Its first bytes, at most so many, and how many it has.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<(Vec<u8>, u64)> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    let mut first = Vec::with_capacity(bytes.min(bytes_max) as usize);
    file.take(bytes_max).read_to_end(&mut first)?;
    Ok((first, bytes))
}

/// Why something is not read.
pub(crate) fn no_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not a regular file, but a folder, a pipe or a device",
    )
}
