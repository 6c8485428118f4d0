// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders that belong to a run as long as it lives: it holds a lock on each of them (flock), which ends with its process, however that ends. Process
//! ids in names would not do, because processes of another pid namespace have the same ones.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// A folder belongs to this process as long as it holds this value.
#[derive(Debug)]
pub(crate) struct Claim {
    _folder: File,
}

impl Claim {
    /// Claims a folder; `None` if it belongs to another process, or is gone. What can be claimed was abandoned by a run that was killed.
    pub(crate) fn of(folder: &Path) -> io::Result<Option<Claim>> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed());
        let file = match options.open(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        // Another process may have claimed and removed it since it was opened.
        let claimed = file.metadata()?;
        let is_there = fs::symlink_metadata(folder).is_ok_and(|found| found.ino() == claimed.ino());
        Ok(is_there.then_some(Claim { _folder: file }))
    }
}

/// Makes a folder and claims it. A run that removes what others abandoned may be faster; then another folder is made.
pub(crate) fn make(mut folder: impl FnMut() -> io::Result<PathBuf>) -> io::Result<(PathBuf, Claim)> {
    loop {
        let folder = folder()?;
        if let Some(claim) = Claim::of(&folder)? {
            return Ok((folder, claim));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_until_that_ends() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        let make_it = || fs::create_dir(&folder).map(|()| folder.clone());
        let (path, claim) = make(make_it).unwrap();
        assert_eq!(path, folder);
        assert!(Claim::of(&folder).unwrap().is_none());
        drop(claim);
        assert!(Claim::of(&folder).unwrap().is_some());
        fs::remove_dir(&folder).unwrap();
        assert!(Claim::of(&folder).unwrap().is_none());
        assert!(make(|| Err(io::ErrorKind::PermissionDenied.into())).is_err());
    }

    #[test]
    fn another_folder_is_made_if_the_first_one_was_claimed() {
        let place = tempfile::tempdir().unwrap();
        let mut others = Vec::new();
        let mut number = 0;
        let (path, _claim) = make(|| {
            number += 1;
            let folder = place.path().join(number.to_string());
            fs::create_dir(&folder)?;
            if number == 1 {
                others.push(Claim::of(&folder)?);
            }
            Ok(folder)
        })
        .unwrap();
        assert_eq!((path, number), (place.path().join("2"), 2));
    }
}
