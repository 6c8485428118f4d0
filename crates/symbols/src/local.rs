// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files whose paths untrusted programs chose, without blocking.
//!
//! A file system may be served by a program (FUSE) or by another machine (NFS), and then even a stat can take forever. So paths are resolved from
//! the kernel's caches alone (`RESOLVE_CACHED`), and a file is opened only if its file system is on this machine.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::binary;

const MOUNTS: &str = "/proc/self/mountinfo";
const FIND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// A cached lookup also fails while other processes rename files.
const ATTEMPTS: u32 = 4;

/// The files on this machine, as far as this process sees their file systems.
#[derive(Debug, Default)]
pub struct LocalFiles {
    /// The list of mounts, which reports each change to poll. `None` if it cannot be read: then no file counts as local.
    news: Option<File>,
    mounts: Mounts,
}

/// The mounts of one mount namespace.
#[derive(Debug, Default)]
struct Mounts {
    /// The device of each mount's file system.
    devices: HashMap<u64, (u32, u32)>,
    /// The devices of file systems on this machine.
    local: HashSet<(u32, u32)>,
}

impl LocalFiles {
    /// Reads the list of mounts.
    pub fn new() -> LocalFiles {
        let mut files = LocalFiles {
            news: File::open(MOUNTS).ok(),
            mounts: Mounts::default(),
        };
        files.read();
        files
    }

    /// Opens the file at a path if `is_wanted` accepts it.
    ///
    /// # Errors
    /// There is no such file on this machine, or the kernel's caches do not know it.
    pub fn open(&mut self, path: &Path, is_wanted: impl FnOnce(&fs::Metadata) -> bool) -> io::Result<File> {
        self.catch_up();
        let found = self.find(CWD, path, ResolveFlags::empty())?;
        self.open_found(found, None, is_wanted)
    }

    /// Opens the file that a process sees at a path, if `is_wanted` accepts it.
    ///
    /// # Errors
    /// As [`LocalFiles::open`], or this process may not inspect the other one.
    pub fn open_as_seen_by(
        &mut self,
        pid: i32,
        path: &Path,
        is_wanted: impl FnOnce(&fs::Metadata) -> bool,
    ) -> io::Result<File> {
        self.catch_up();
        let (folder, flags) = match path.is_absolute() {
            true => ("root", ResolveFlags::IN_ROOT),
            false => ("cwd", ResolveFlags::empty()),
        };
        let folder = openat(CWD, format!("/proc/{pid}/{folder}"), FIND, Mode::empty())?;
        let found = self.find(folder, path, flags)?;
        self.open_found(found, Some(pid), is_wanted)
    }

    /// Opens the target of a link in `/proc/PID`, such as `exe`.
    ///
    /// # Errors
    /// As [`LocalFiles::open_as_seen_by`].
    pub fn open_link(&mut self, pid: i32, link: &str) -> io::Result<File> {
        self.catch_up();
        let found = openat(CWD, format!("/proc/{pid}/{link}"), FIND, Mode::empty())?;
        self.open_found(found, Some(pid), |_| true)
    }

    fn find(&self, folder: impl AsFd, path: &Path, flags: ResolveFlags) -> io::Result<OwnedFd> {
        let find = |flags| openat2(&folder, path, FIND, Mode::empty(), flags);
        for _ in 0..ATTEMPTS {
            match find(flags | ResolveFlags::CACHED) {
                Err(Errno::AGAIN) => {}
                // Linux before 5.12 does not know the flag.
                Err(Errno::INVAL) => return Ok(find(flags)?),
                found => return Ok(found?),
            }
        }
        // The caches seldom lack the path of a program that runs or ran lately.
        match self.mounts.are_all_local() {
            true => Ok(find(flags)?),
            false => Err(Errno::AGAIN.into()),
        }
    }

    /// Opens a file that was found. If a process found it, its mount may be one that only that process sees.
    fn open_found(
        &self,
        found: OwnedFd,
        pid: Option<i32>,
        is_wanted: impl FnOnce(&fs::Metadata) -> bool,
    ) -> io::Result<File> {
        let mount = mount_of(&found)?;
        let of_process = || {
            let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", pid?)).ok()?;
            Mounts::of(&mounts).devices.get(&mount).copied()
        };
        let device = self.mounts.devices.get(&mount).copied().or_else(of_process);
        // A device that this process does not see may be a user's own FUSE mount in another namespace.
        if device.is_none_or(|device| !self.mounts.local.contains(&device)) {
            return Err(Errno::XDEV.into());
        }
        binary::open_found(&File::from(found), is_wanted)
    }

    /// Reads the list of mounts again if it has changed.
    fn catch_up(&mut self) {
        let Some(news) = &self.news else { return };
        let mut asked = [PollFd::new(news, PollFlags::PRI)];
        if poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            self.read();
        }
    }

    fn read(&mut self) {
        let mut mounts = String::new();
        let read = |news: &mut File| news.rewind().and_then(|()| news.read_to_string(&mut mounts));
        self.mounts = match self.news.as_mut().map(read) {
            Some(Ok(_)) => Mounts::of(&mounts),
            _ => Mounts::default(),
        };
    }
}

impl Mounts {
    fn of(mounts: &str) -> Mounts {
        let mut all = Mounts::default();
        for (id, device, kind) in mounts.lines().filter_map(mount) {
            all.devices.insert(id, device);
            if !may_hang(kind) {
                all.local.insert(device);
            }
        }
        all
    }

    fn are_all_local(&self) -> bool {
        !self.devices.is_empty() && self.devices.values().all(|device| self.local.contains(device))
    }
}

/// The ID, device and file system type in a line of mountinfo: `ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS... - TYPE SOURCE OPTIONS`.
fn mount(line: &str) -> Option<(u64, (u32, u32), &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut words = before.split(' ');
    let id = words.next()?.parse().ok()?;
    let (major, minor) = words.nth(1)?.split_once(':')?;
    Some((id, (major.parse().ok()?, minor.parse().ok()?), after.split(' ').next()?))
}

/// The ID of the mount of an open file. The kernel knows it without asking the file system.
fn mount_of(file: &OwnedFd) -> io::Result<u64> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = about
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether a file system of this type can block its users forever, because a program or another machine serves it.
fn may_hang(kind: &str) -> bool {
    const KINDS: [&str; 10] = [
        "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "lustre", "orangefs", "smb3", "smbfs",
    ];
    kind.starts_with("fuse") || kind.starts_with("nfs") || KINDS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_others_serve_are_told_apart() {
        let mounts = "\
            24 1 254:1 / / rw,noatime shared:1 - ext4 /dev/vda1 rw\n\
            30 24 0:21 / /proc rw - proc proc rw\n\
            31 24 0:40 / /home/me/far\\040away rw shared:9 master:2 - fuse.sshfs me@there:/ rw\n\
            32 24 0:41 / /data rw - nfs4 there:/data rw,vers=4.2\n\
            33 24 8:1 / /windows rw - fuseblk /dev/sda1 rw\n";
        let all = Mounts::of(mounts);
        assert_eq!(all.devices.len(), 5);
        assert_eq!(all.local, HashSet::from([(254, 1), (0, 21)]));
        assert!(!all.are_all_local());
        let local: Vec<&str> = mounts.lines().take(2).collect();
        assert!(Mounts::of(&local.join("\n")).are_all_local());
        assert!(!Mounts::of("").are_all_local() && !Mounts::of("nonsense").are_all_local());
    }

    #[test]
    fn files_of_this_machine_are_opened_by_path_and_by_link() {
        let mut files = LocalFiles::new();
        let (own, pid) = (std::env::current_exe().unwrap(), std::process::id().cast_signed());
        assert!(files.open(&own, |_| true).is_ok());
        assert!(files.open_as_seen_by(pid, &own, |_| true).is_ok());
        assert!(files.open_as_seen_by(pid, Path::new("Cargo.toml"), |_| true).is_ok());
        assert!(files.open_link(pid, "exe").is_ok());
        assert!(files.open(&own, |_| false).is_err());
        assert!(files.open(Path::new("/none"), |_| true).is_err());
        let mut nowhere = LocalFiles::default();
        assert!(nowhere.open(&own, |_| true).is_err());
        assert!(nowhere.open_link(pid, "exe").is_err());
    }
}
