// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders of finished chunks: a chunk has its name when it is whole and on the disk. Until then its folder is a hidden one beside the
//! others. Each step can be done again: a pisted that was killed leaves the rest to the next one.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::session::Chunk;

/// Makes the hidden folder that the consumers move their parts to.
///
/// # Errors
/// It cannot be made.
pub fn make(chunk: &Chunk) -> io::Result<()> {
    fs::create_dir_all(&chunk.hidden)
}

/// Removes the folder of a chunk that has no part, and that of all chunks when it was the only one. False when it has any.
pub fn remove_empty(chunk: &Chunk) -> bool {
    let is_removed = fs::remove_dir(&chunk.hidden).is_ok() || !chunk.hidden.exists();
    if let Some(archives) = chunk.hidden.parent() {
        // It stays when there are others in it.
        let _ = fs::remove_dir(archives);
    }
    is_removed
}

/// Writes a chunk to the disk, and gives it its name. One that has it is left as it is.
///
/// # Errors
/// What could not be done. The chunk stays where it is.
pub fn place(chunk: &Chunk) -> io::Result<()> {
    if !chunk.hidden.exists() && chunk.place.exists() {
        return Ok(());
    }
    write_to_disk(&chunk.hidden)?;
    fs::rename(&chunk.hidden, &chunk.place)?;
    chunk.place.parent().map_or(Ok(()), sync)
}

fn write_to_disk(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            write_to_disk(&entry.path())?;
        } else {
            sync(&entry.path())?;
        }
    }
    sync(folder)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_gets_its_name_once_and_an_empty_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let archives = folder.path().join("archives");
        let chunk = Chunk {
            number: 1,
            hidden: archives.join(".1"),
            place: archives.join("1-then-now"),
        };
        make(&chunk).unwrap();
        assert!(remove_empty(&chunk));
        assert!(!archives.exists());
        make(&chunk).unwrap();
        make(&chunk).unwrap();
        fs::create_dir_all(chunk.hidden.join("user/index")).unwrap();
        fs::write(chunk.hidden.join("user/metadata"), "text").unwrap();
        assert!(!remove_empty(&chunk));
        place(&chunk).unwrap();
        place(&chunk).unwrap();
        assert_eq!(fs::read_to_string(chunk.place.join("user/metadata")).unwrap(), "text");
        assert!(!chunk.hidden.exists());
        fs::remove_dir_all(&chunk.place).unwrap();
        assert!(place(&chunk).is_err(), "somebody took it away");
    }
}
