// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was written is on the disk before it gets its name: behind that name there is all of it or nothing, also when the system crashes.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, syncfs};
use rustix::io::Errno;

/// Of more files it is cheaper to wait for the whole file system once than for each: that takes a turn of the disk every time.
const ONE_BY_ONE_MAX: usize = 100;

/// What is behind the name of an output file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A regular file, or nothing yet: this is its path, with a symbolic link followed. Write a new file beside it and rename that to it.
    File(PathBuf),
    /// A device, a pipe or a socket. Replacing it would destroy it: write to it.
    Special,
}

impl Target {
    /// Finds out what `path` names now. The kernel follows the links, so that its own rules for links that other users leave in shared
    /// folders (`fs.protected_symlinks`) hold here as well.
    ///
    /// # Errors
    /// `path` names a folder, a link that leads to nothing, or something that this user cannot reach.
    pub fn of(path: &Path) -> io::Result<Target> {
        let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        let found = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) if !is_link => return Ok(Target::File(path.to_owned())),
            found => File::from(found?),
        };
        let kind = found.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !kind.is_file() {
            return Ok(Target::Special);
        }
        let path = match is_link {
            true => fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))?,
            false => path.to_owned(),
        };
        Ok(Target::File(path))
    }

    /// Opens a special file to write to it. As a shell does, so that the kernel's rules for pipes that other users leave in shared folders
    /// (`fs.protected_fifos`) hold.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_special(path: &Path) -> io::Result<File> {
        File::options().write(true).create(true).truncate(false).open(path)
    }
}

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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_and_special_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "old").unwrap();
        fs::create_dir(path("folder")).unwrap();
        symlink("file", path("link")).unwrap();
        symlink(path("link"), path("to_link")).unwrap();
        symlink("none", path("to_nothing")).unwrap();
        symlink("loop", path("loop")).unwrap();
        symlink("/dev/null", path("to_null")).unwrap();
        let of = |name: &str| Target::of(&path(name));
        let file = fs::canonicalize(path("file")).unwrap();
        assert_eq!(of("file").unwrap(), Target::File(path("file")));
        for name in ["link", "to_link"] {
            assert_eq!(of(name).unwrap(), Target::File(file.clone()), "{name}");
        }
        assert_eq!(of("none").unwrap(), Target::File(path("none")));
        assert_eq!(of("to_null").unwrap(), Target::Special);
        assert_eq!(Target::of(Path::new("/dev/full")).unwrap(), Target::Special);
        for name in ["folder", "loop", "to_nothing"] {
            assert!(of(name).is_err(), "{name}");
        }
    }
}
