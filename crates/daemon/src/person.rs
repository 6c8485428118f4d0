// SPDX-License-Identifier: MIT OR Apache-2.0
//! As whom pisted looks for, makes, opens and removes the files of a trace: the person who asked for it. Root's pisted serves others, whose
//! folders it must not trust: what they put in the place of a file leads it only to where they may go themselves.
//!
//! Linux has ids for files of their own in each thread (`setfsuid(2)`): nobody can send signals to a thread that has those of another user.
//! Writing takes them too: who is root, or has CAP_SYS_RESOURCE, fills the space that a file system keeps back for root, and passes over
//! the quotas of others. And it gives up all capabilities: the kernel drops only those for files with the ids, and CAP_SYS_PTRACE follows
//! /proc/PID/root of any process.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{setfsgid, setfsuid};
use piste_kernel::probe::Asker;
use rustix::fs::OFlags;
use rustix::process::{Gid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};
use serde::{Deserialize, Serialize};

use crate::busy::AtFiles;

/// A trace tells what others do: it is for its owner and the owner's group, and for fewer where the umask says so.
pub(crate) const FOLDER_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// Whose a trace is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person(Option<User>);

/// Somebody other than the user who runs pisted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Where a trace goes, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) folder: PathBuf,
    pub(crate) owner: Person,
}

/// While it lives, its thread does with files as an owner does, and is seen to be at it.
#[derive(Debug)]
pub struct Entered {
    before: Option<Before>,
    _at_files: AtFiles,
}

/// What a thread was.
#[derive(Debug)]
struct Before {
    user: User,
    capabilities: CapabilitySets,
}

impl Person {
    /// Whoever connected a unix socket. Only root's pisted can do as others do.
    ///
    /// # Errors
    /// It is no such socket.
    pub fn of_peer(socket: impl AsFd) -> io::Result<Person> {
        let peer = rustix::net::sockopt::socket_peercred(&socket)?;
        if peer.uid.is_root() || !geteuid().is_root() {
            return Ok(Person::default());
        }
        let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
        let status = std::fs::read_to_string(format!("/proc/{}/status", peer.pid)).unwrap_or_default();
        let groups = groups_of(&status, uid);
        Ok(Person(Some(User { uid, gid, groups })))
    }

    /// A user of that number, without groups.
    #[cfg(test)]
    pub(crate) fn of_user(uid: u32) -> Person {
        Person(Some(User {
            uid,
            gid: uid,
            groups: vec![],
        }))
    }

    /// Its number; `None` for the user who runs pisted.
    pub fn uid(&self) -> Option<u32> {
        self.0.as_ref().map(|user| user.uid)
    }

    /// Which probes they may ask for: all, or those that tell and change little.
    pub fn asker(&self) -> Asker {
        match self.0 {
            None => Asker::Root,
            Some(_) => Asker::Other,
        }
    }

    /// Does as the owner does until the value is dropped.
    ///
    /// # Errors
    /// It is not permitted.
    pub fn enter(&self) -> io::Result<Entered> {
        let _at_files = AtFiles::begin();
        let before = match &self.0 {
            Some(user) => Some(user.replace()?),
            None => None,
        };
        Ok(Entered { before, _at_files })
    }

    /// Makes a folder of a trace, with those above it, unless it is there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_folder(&self, path: &Path) -> io::Result<()> {
        let _as_owner = self.enter()?;
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
    }

    /// Opens a file of a trace. Nothing else is opened in its place: no link's target, and no pipe, which would hold up who opens it.
    ///
    /// # Errors
    /// It cannot be opened, or is no file.
    pub fn open(&self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        let _as_owner = self.enter()?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let options = options.custom_flags(flags.bits().cast_signed()).mode(FILE_MODE);
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(file)
    }

    /// Reads a file of a trace, as `open` does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path, OpenOptions::new().read(true))?
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether there is anything at a path.
    pub fn sees(&self, path: &Path) -> bool {
        self.enter().is_ok_and(|_as_owner| path.exists())
    }
}

impl User {
    /// Puts the user's ids in the place of those that the thread has, takes all capabilities, and returns what it was.
    fn replace(&self) -> io::Result<Before> {
        let groups = getgroups()?.into_iter().map(Gid::as_raw).collect();
        let capabilities = capabilities(None)?;
        // A thread that has entered already has none, and may not change its groups.
        set_effective(capabilities.permitted)?;
        set_groups(&self.groups)?;
        let gid = setfsgid(self.gid.into()).as_raw();
        let uid = setfsuid(self.uid.into()).as_raw();
        let before = Before {
            user: User { uid, gid, groups },
            capabilities,
        };
        if fs_ids() != (self.uid, self.gid) || set_effective(CapabilitySet::empty()).is_err() {
            before.put_back();
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(before)
    }
}

impl Before {
    fn put_back(&self) {
        let User { uid, gid, groups } = &self.user;
        let raised = set_effective(self.capabilities.permitted);
        setfsuid((*uid).into());
        setfsgid((*gid).into());
        let groups = set_groups(groups);
        let capabilities = set_capabilities(None, self.capabilities);
        assert!(
            raised.is_ok() && groups.is_ok() && capabilities.is_ok() && fs_ids() == (*uid, *gid),
            "what a thread was it can be again"
        );
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            before.put_back();
        }
    }
}

/// Nobody has the highest number: nothing is set, and what there is comes back.
fn fs_ids() -> (u32, u32) {
    (setfsuid(u32::MAX.into()).as_raw(), setfsgid(u32::MAX.into()).as_raw())
}

/// A thread may take back whatever of its permitted capabilities it gave up.
fn set_effective(effective: CapabilitySet) -> io::Result<()> {
    let now = capabilities(None)?;
    Ok(set_capabilities(None, CapabilitySets { effective, ..now })?)
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    let groups: Vec<Gid> = groups.iter().map(|&group| Gid::from_raw(group)).collect();
    Ok(set_thread_groups(&groups)?)
}

/// The groups that /proc/PID/status says. None of a process that is, or may have become, anybody else's than that user's.
fn groups_of(status: &str, uid: u32) -> Vec<u32> {
    let numbers = |key: &str| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("");
        line.split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect()
    };
    match numbers("Uid:") == [uid; 4] {
        true => numbers("Groups:"),
        false => vec![],
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn groups_are_those_of_a_process_that_is_all_the_users() {
        let status =
            "Name:\tpiste\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t27 999 1000 \n";
        assert_eq!(groups_of(status, 1000), [27, 999, 1000]);
        assert_eq!(groups_of(status, 1001), [0; 0]);
        assert_eq!(groups_of(&status.replacen("1000\nGid", "0\nGid", 1), 1000), [0; 0]);
        assert_eq!(groups_of("", 1000), [0; 0]);
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "text").unwrap();
        symlink(path("file"), path("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RWXU).unwrap();
        let owner = Person::default();
        assert_eq!(owner.read(&path("file")).unwrap(), b"text");
        for name in ["link", "pipe", "", "missing"] {
            assert!(owner.read(&path(name)).is_err(), "{name}");
            assert!(
                owner.open(&path(name), OpenOptions::new().write(true)).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn person_makes_files_and_opens_none_of_others() {
        if !geteuid().is_root() {
            println!("skipped: only root can do as another user does");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("roots"), "precious").unwrap();
        fs::set_permissions(path("roots"), fs::Permissions::from_mode(0o600)).unwrap();
        let owner = Person(Some(User {
            uid: 65534,
            gid: 65534,
            groups: vec![7],
        }));
        let groups = getgroups().unwrap();
        let effective = || capabilities(None).unwrap().effective;
        let before = effective();
        assert!(!before.is_empty());
        {
            let _as_owner = owner.enter().unwrap();
            assert!(effective().is_empty());
            fs::write(path("own"), "text").unwrap();
            // One within the other.
            assert_eq!(owner.read(&path("own")).unwrap(), b"text");
            assert!(effective().is_empty());
            assert!(fs::write(path("roots"), "").is_err());
            assert!(owner.read(&path("roots")).is_err());
            let read = Person::default().read(&path("roots"));
            assert!(read.is_err(), "the user who runs pisted adds nothing");
        }
        assert_eq!((fs_ids(), getgroups().unwrap()), ((0, 0), groups));
        assert_eq!(effective(), before);
        assert_eq!(fs::metadata(path("own")).unwrap().uid(), 65534);
        assert_eq!(fs::read_to_string(path("roots")).unwrap(), "precious");
    }
}
