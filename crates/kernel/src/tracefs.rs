// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's file system of tracing: where it is mounted, and its small files read and written with errors that say which file.
//!
//! Whether it answers at all is asked in `answer.rs`; what is done with it, from `instance.rs` on.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use piste_reason::reason;
use rustix::fs::{Access, access};
use rustix::mount::{MountFlags, mount};
use rustix::process::geteuid;

/// Where the kernel wants it.
const USUAL_PLACE: &str = "/sys/kernel/tracing";
/// As much as the kernel ever gives at once.
const READ_BYTES: usize = 64 << 10;
const MEND_RIGHTS: &str = "run pisted as root: `sudo pisted --background`";

/// Why the kernel cannot be traced here, and what would mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What is missing, as part of a sentence.
    pub reason: String,
    /// What to do about it: a command where there is one.
    pub mend: String,
}

impl Lack {
    pub(crate) fn new(reason: impl Into<String>, mend: impl Into<String>) -> Self {
        let (reason, mend) = (reason.into(), mend.into());
        Self { reason, mend }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}; {}", self.reason, self.mend)
    }
}

impl std::error::Error for Lack {}

/// The mounted file system of tracing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// Finds where it is mounted, and mounts it where it is not. Reads nothing in it, so it returns on a machine whose tracing hangs.
    ///
    /// # Errors
    /// What is missing: the file system in the kernel, or the right to use it.
    pub fn find() -> Result<Self, Lack> {
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| {
            Lack::new(
                format!("cannot read /proc/self/mounts: {}", reason(&error)),
                "mount /proc",
            )
        })?;
        let root = match mounted_at(&mounts) {
            Some(root) => root,
            None => mount_it()?,
        };
        let instances = root.join("instances");
        access(&instances, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            Lack::new(
                format!("no access to {}: {}", instances.display(), reason(&error.into())),
                MEND_RIGHTS,
            )
        })?;
        Ok(Self { root })
    }

    /// The file system at a folder that the caller knows, or a picture of it in a test.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file or folder of it.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.root.join(file)
    }

    /// Whether this kernel has a file.
    pub fn has(&self, file: impl AsRef<Path>) -> bool {
        self.path(file).exists()
    }

    /// The whole text of a file.
    ///
    /// # Errors
    /// The kernel's, with the file's path.
    pub fn read(&self, file: impl AsRef<Path>) -> io::Result<String> {
        read(&self.path(file))
    }

    /// Replaces what a file says by one write. Beware of the files that hold lists: all else in them is gone.
    ///
    /// # Errors
    /// The kernel's, with the file's path and the text.
    pub fn write(&self, file: impl AsRef<Path>, text: &str) -> io::Result<()> {
        write(&self.path(file), text)
    }

    /// Adds to what a file says by one write.
    ///
    /// # Errors
    /// The kernel's, with the file's path and the text.
    pub fn append(&self, file: impl AsRef<Path>, text: &str) -> io::Result<()> {
        append(&self.path(file), text)
    }
}

/// The first line of `/proc/self/mounts` that serves; the usual place before others.
fn mounted_at(mounts: &str) -> Option<PathBuf> {
    let places: Vec<&str> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (place, kind) = (words.nth(1)?, words.next()?);
            (kind == "tracefs").then_some(place)
        })
        .collect();
    let usual = places.iter().find(|place| **place == USUAL_PLACE);
    usual.or(places.first()).map(PathBuf::from)
}

fn mount_it() -> Result<PathBuf, Lack> {
    if !Path::new(USUAL_PLACE).is_dir() {
        return Err(Lack::new(
            "this kernel has no tracefs",
            "use a kernel built with CONFIG_TRACING and CONFIG_EVENT_TRACING",
        ));
    }
    if !geteuid().is_root() {
        return Err(Lack::new(
            "tracefs is not mounted",
            format!("mount it with `sudo mount -t tracefs nodev {USUAL_PLACE}`"),
        ));
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("nodev", USUAL_PLACE, "tracefs", flags, None).map_err(|error| {
        Lack::new(
            format!("cannot mount tracefs at {USUAL_PLACE}: {}", reason(&error.into())),
            "mount it from outside the container, or give the container CAP_SYS_ADMIN",
        )
    })?;
    Ok(PathBuf::from(USUAL_PLACE))
}

pub(crate) fn read(path: &Path) -> io::Result<String> {
    let tried = || format!("cannot read {}", path.display());
    let bytes = File::open(path)
        .and_then(read_to_end)
        .map_err(|error| named(&error, tried()))?;
    String::from_utf8(bytes).map_err(|error| named(&io::Error::new(io::ErrorKind::InvalidData, error), tried()))
}

/// By large reads: some files say nothing more after the first, however short that was.
fn read_to_end(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; READ_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    put(OpenOptions::new().write(true).truncate(true), path, text)
}

pub(crate) fn append(path: &Path, text: &str) -> io::Result<()> {
    put(OpenOptions::new().append(true), path, text)
}

/// One write, because the kernel takes each write for a command of its own.
fn put(options: &OpenOptions, path: &Path, text: &str) -> io::Result<()> {
    let written = options.open(path).and_then(|mut file| file.write(text.as_bytes()));
    match written {
        Ok(bytes) if bytes >= text.len() => Ok(()),
        Ok(bytes) => Err(io::Error::other(format!(
            "cannot write {text:?} to {}: the kernel took {bytes} of {} bytes",
            path.display(),
            text.len()
        ))),
        Err(error) => Err(named(&error, format!("cannot write {text:?} to {}", path.display()))),
    }
}

/// The same kind of error with what was tried before it.
pub(crate) fn named(error: &io::Error, tried: impl fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("{tried}: {}", reason(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_place_is_taken_before_others() {
        let mounts = "proc /proc proc rw 0 0\nnodev /other tracefs rw 0 0\nnodev /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(mounted_at(mounts), Some(PathBuf::from("/sys/kernel/tracing")));
        assert_eq!(
            mounted_at("tracefs /sys/kernel/debug/tracing tracefs rw 0 0\n"),
            Some(PathBuf::from("/sys/kernel/debug/tracing"))
        );
        assert_eq!(mounted_at("proc /proc proc rw 0 0\n\nshort\n"), None);
    }

    #[test]
    fn an_error_says_which_file_and_which_text() {
        let folder = tempfile::tempdir().unwrap();
        let error = Tracefs::at(folder.path()).write("tracing_on", "1").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let file = folder.path().join("tracing_on");
        assert_eq!(
            error.to_string(),
            format!("cannot write \"1\" to {}: no such file or folder", file.display())
        );
    }
}
