// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders of finished chunks: a chunk has its name when it is whole and on the disk. Until then its folder is a hidden one beside the
//! others. Each step can be done again: a pisted that was killed leaves the rest to the next one.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::consumer::continued;
use crate::person::Person;
use crate::session::Chunk;

/// Makes the hidden folder that the consumers move their parts to.
///
/// # Errors
/// It cannot be made.
pub fn make(chunk: &Chunk, owner: &Person) -> io::Result<()> {
    owner.make_folder(&chunk.hidden)
}

/// Removes the folder of a chunk that has no part, and that of all chunks when it was the only one. False when it has any.
pub fn remove_empty(chunk: &Chunk, owner: &Person) -> bool {
    let Ok(_as_owner) = owner.enter() else { return false };
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
pub fn place(chunk: &Chunk, owner: &Person) -> io::Result<()> {
    let _as_owner = owner.enter()?;
    if !chunk.hidden.exists() && chunk.place.exists() {
        return Ok(());
    }
    for part in fs::read_dir(&chunk.hidden)? {
        let part = part?;
        if part.file_type()?.is_dir() {
            continued::remove(&part.path())?;
        }
    }
    write_to_disk(&chunk.hidden, owner)?;
    fs::rename(&chunk.hidden, &chunk.place)?;
    chunk.place.parent().map_or(Ok(()), sync_folder)
}

fn write_to_disk(folder: &Path, owner: &Person) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            write_to_disk(&entry.path(), owner)?;
        } else if kind.is_file() {
            owner.open(&entry.path(), OpenOptions::new().read(true))?.sync_all()?;
        }
    }
    sync_folder(folder)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)?.sync_all()
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
        make(&chunk, &Person::default()).unwrap();
        assert!(remove_empty(&chunk, &Person::default()));
        assert!(!archives.exists());
        make(&chunk, &Person::default()).unwrap();
        make(&chunk, &Person::default()).unwrap();
        fs::create_dir_all(chunk.hidden.join("user/index")).unwrap();
        fs::write(chunk.hidden.join("user/metadata"), "text").unwrap();
        fs::write(chunk.hidden.join("user/.continued"), "").unwrap();
        assert!(!remove_empty(&chunk, &Person::default()));
        place(&chunk, &Person::default()).unwrap();
        place(&chunk, &Person::default()).unwrap();
        assert_eq!(fs::read_to_string(chunk.place.join("user/metadata")).unwrap(), "text");
        assert!(!chunk.place.join("user/.continued").exists());
        assert!(!chunk.hidden.exists());
        fs::remove_dir_all(&chunk.place).unwrap();
        assert!(place(&chunk, &Person::default()).is_err(), "somebody took it away");
    }
}
