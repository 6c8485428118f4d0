// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps with which a consumer changes the files of a trace. Each can fail, and each can be the last one of a consumer that is killed:
//! the simulation (src/simulation/disk.rs) decides which.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(test)]
use crate::simulation::disk::admit;

/// Writes all of `bytes` at an offset.
///
/// # Errors
/// The system's. Some of the bytes may be written then.
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let admitted = admit(bytes.len());
    file.write_all_at(&bytes[..admitted.bytes], offset)?;
    admitted.end()
}

/// Writes all of `bytes` where the file stands.
///
/// # Errors
/// As `write_all_at`.
pub(super) fn write_all(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let admitted = admit(bytes.len());
    file.write_all(&bytes[..admitted.bytes])?;
    admitted.end()
}

/// Gives a file another name, or puts it in the place of another file.
///
/// # Errors
/// The system's. Everything is as before then.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    admit(0).end()
}

/// Cuts a file.
///
/// # Errors
/// The system's.
pub(super) fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    admit(0).end()
}

/// How much of a write the disk takes.
#[cfg(not(test))]
struct Admitted {
    bytes: usize,
}

/// All of it: what the disk does is up to the system.
#[cfg(not(test))]
fn admit(bytes: usize) -> Admitted {
    Admitted { bytes }
}

#[cfg(not(test))]
impl Admitted {
    fn end(self) -> io::Result<()> {
        Ok(())
    }
}
