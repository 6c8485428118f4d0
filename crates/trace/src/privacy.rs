// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace tells what others do: it is for its owner and the owner's group, and for fewer where the umask says so.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes folders of traces.
pub fn folder() -> DirBuilder {
    let mut folder = DirBuilder::new();
    folder.mode(0o750);
    folder
}

/// Makes files of traces.
pub fn file() -> OpenOptions {
    let mut file = OpenOptions::new();
    file.mode(0o640);
    file
}

/// Writes a whole file of a trace, in the place of one that is there.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = file().write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)
}
