// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was written is on the disk before it gets its name: behind that name there is all of it or nothing, also when the system crashes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::syncfs;
use rustix::io::Errno;

/// Of more files it is cheaper to wait for the whole file system once than for each: that takes a turn of the disk every time.
const ONE_BY_ONE_MAX: usize = 100;

/// Where what is written for a name ends up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A regular file, or none yet: the name behind all symbolic links. A new file can be renamed to it.
    File(PathBuf),
    /// A device, a pipe or a socket, which must stay what it is: write to it.
    Special,
}

/// How many symbolic links the kernel follows.
const LINKS_MAX: usize = 40;

impl Target {
    /// Looks at what has this name now.
    ///
    /// # Errors
    /// It is a folder, or the links that it leads over cannot be followed.
    pub fn of(path: &Path) -> io::Result<Target> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => return Ok(Target::Special),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            match fs::read_link(&path) {
                Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
                Err(_) => return Ok(Target::File(path)),
            }
        }
        Err(Errno::LOOP.into())
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
        symlink("folder/none", path("to_nothing")).unwrap();
        symlink("loop", path("loop")).unwrap();
        symlink("/dev/null", path("to_null")).unwrap();
        let of = |name: &str| Target::of(&path(name));
        for name in ["file", "link", "to_link"] {
            assert_eq!(of(name).unwrap(), Target::File(path("file")), "{name}");
        }
        assert_eq!(of("none").unwrap(), Target::File(path("none")));
        assert_eq!(of("to_nothing").unwrap(), Target::File(path("folder/none")));
        assert_eq!(of("to_null").unwrap(), Target::Special);
        assert_eq!(Target::of(Path::new("/dev/full")).unwrap(), Target::Special);
        assert!(of("folder").is_err() && of("loop").is_err());
    }
}
