// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was written is on the disk before it gets its name: behind that name there is all of it or nothing, also when the system crashes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::syncfs;

/// Of more files it is cheaper to wait for the whole file system once than for each: that takes a turn of the disk every time.
const ONE_BY_ONE_MAX: usize = 100;

/// Waits until a file, or a folder with everything in it, is on the disk.
///
/// # Errors
/// Something could not be written, or cannot be read.
pub fn sync(path: &Path) -> io::Result<()> {
    let mut all = Vec::new();
    add_all(path, &mut all)?;
    if all.len() > ONE_BY_ONE_MAX {
        return Ok(syncfs(File::open(path)?)?);
    }
    all.iter().try_for_each(|path| File::open(path)?.sync_all())
}

/// What is in a folder, and then itself.
fn add_all(path: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            add_all(&entry?.path(), all)?;
        }
    }
    all.push(path.to_owned());
    Ok(())
}

/// The same for the name alone of something: for the folder that it is in. What has its name already is kept also where a file system
/// cannot say when that is on the disk.
pub fn sync_name(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
}
