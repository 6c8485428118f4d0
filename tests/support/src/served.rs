// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system that the test itself serves (FUSE), until it stops answering.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEntry, Request, SessionACL, spawn_mount,
};
use rustix::mount::{UnmountFlags, unmount};

use crate::Workplace;

/// Nothing is cached, so that the kernel asks each time.
const TTL: Duration = Duration::ZERO;
const PROGRAM: INodeNo = INodeNo(2);

/// A served file system with one program.
pub struct ServedDisk {
    folder: PathBuf,
    /// The path of the program.
    pub program: PathBuf,
    answers: Answers,
    session: Option<BackgroundSession>,
}

/// Whether requests are answered.
#[derive(Clone, Default)]
struct Answers(Arc<(Mutex<bool>, Condvar)>);

struct Served {
    program: Vec<u8>,
    answers: Answers,
}

impl ServedDisk {
    /// Mounts it with a copy of a program. Prints why and returns `None` where nothing can be mounted.
    pub fn with(place: &Workplace, program: &str) -> Option<ServedDisk> {
        let folder = place.path("served");
        fs::create_dir(&folder).expect("a folder can be made there");
        let answers = Answers::default();
        let served = Served {
            program: fs::read(program).expect("it is there"),
            answers: answers.clone(),
        };
        let mut config = Config::default();
        config.acl = SessionACL::All;
        let session = match spawn_mount(served, &folder, &config) {
            Ok(session) => Some(session),
            Err(error) => {
                println!("skipped: no file system can be served here: {error}");
                return None;
            }
        };
        Some(ServedDisk {
            program: folder.join("program"),
            folder,
            answers,
            session,
        })
    }

    /// Stops answering.
    pub fn hang(&self) {
        self.answers.set(false);
    }
}

impl Drop for ServedDisk {
    fn drop(&mut self) {
        self.answers.set(true);
        // Programs may still have it open.
        let _ = unmount(&self.folder, UnmountFlags::DETACH);
        drop(self.session.take());
    }
}

impl Answers {
    fn set(&self, are_given: bool) {
        let (hang, changed) = &*self.0;
        *hang.lock().unwrap_or_else(PoisonError::into_inner) = !are_given;
        changed.notify_all();
    }

    fn wait(&self) {
        let (hang, changed) = &*self.0;
        let hangs = hang.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(hangs, |hangs| *hangs));
    }
}

impl Served {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let kind = match ino {
            PROGRAM => FileType::RegularFile,
            _ => FileType::Directory,
        };
        FileAttr {
            ino,
            size: self.program.len() as u64,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.answers.wait();
        match Path::new(name) == Path::new("program") {
            true => reply.entry(&TTL, &self.attributes(PROGRAM), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answers.wait();
        reply.attr(&TTL, &self.attributes(ino));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.answers.wait();
        let begin = self.program.len().min(offset as usize);
        let end = self.program.len().min(begin + size as usize);
        reply.data(&self.program[begin..end]);
    }
}
