// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is left of a consumer that was killed while a thread of it waits for a disk: that thread, and everything that the process has open.
//! Its sockets look alive; its main thread tells that it is dead.
//!
//! The thread does nothing more once the call is over that it is in. But that call may be any of a session's steps on the disk, a rename
//! as well as a write, and whoever goes on with the session must not meet it half way.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use piste_reason::reason;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::busy::AtFiles;

/// The thread of a consumer that listens to control: it lives exactly as long as somebody looks after the sessions.
pub const LISTENING_THREAD: &str = "pisted-listen";

/// As long as the kernel has names of threads.
const NAME_BYTES_MAX: usize = 15;
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// PIDFD_THREAD: of a thread. Linux knows it since 6.9.
const OF_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(rustix::fs::OFlags::EXCL.bits());

/// Whether a process is a consumer whose main thread has ended.
pub fn is_dead_consumer(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(") "));
    after.is_some_and(|(name, rest)| name.starts_with("pisted-") && rest.starts_with(['Z', 'X']))
}

/// A descriptor that is readable once a consumer listens no more. Its main thread would not do: since 6.15 that is said to have ended when all
/// threads have.
///
/// # Errors
/// It does not listen yet, or the kernel has no such descriptors.
pub fn watch(pid: i32) -> io::Result<OwnedFd> {
    let threads = threads_named(pid, LISTENING_THREAD);
    let thread = threads.first().and_then(|&thread| Pid::from_raw(thread));
    let thread = thread.ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(thread, OF_THREAD)?)
}

/// The consumers that were here before and are not gone.
#[derive(Debug, Clone, Default)]
pub struct Predecessors(pub Vec<i32>);

impl Predecessors {
    /// Those that a file names, and others that are known, as far as they are not gone. All of them are in the file then, so that also a
    /// pisted that never met them knows them.
    pub fn note(path: &Path, others: &[i32]) -> Predecessors {
        let text = fs::read_to_string(path).unwrap_or_default();
        let noted = text.lines().filter_map(|line| line.parse().ok());
        let all: BTreeSet<i32> = noted.chain(others.iter().copied()).collect();
        let pids: Vec<i32> = all.into_iter().filter(|&pid| is_dead_consumer(pid)).collect();
        let noted = match pids.is_empty() {
            true => fs::remove_file(path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
            false => fs::write(path, pids.iter().map(|pid| format!("{pid}\n")).collect::<String>()),
        };
        if let Err(error) = noted {
            eprintln!("pisted: cannot write {}: {}", path.display(), reason(&error));
        }
        Predecessors(pids)
    }

    /// Waits until a thread of that name has ended in each of them.
    pub fn wait_for(&self, thread: &str) {
        let _at_files = AtFiles::begin();
        let is_there = |&pid: &i32| is_dead_consumer(pid) && !threads_named(pid, thread).is_empty();
        while self.0.iter().any(is_there) {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

fn threads_named(pid: i32, name: &str) -> Vec<i32> {
    let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    let has_name = |thread: &PathBuf| {
        let comm = fs::read(thread.join("comm")).unwrap_or_default();
        comm.strip_suffix(b"\n") == Some(name)
    };
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let threads = entries.map(|entry| entry.path()).filter(has_name);
    threads
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn the_end_of_a_consumers_listening_thread_is_heard() {
        let own = std::process::id() as i32;
        assert!(watch(own).is_err());
        let (sender, receiver) = channel::<()>();
        let (named, is_named) = channel();
        let thread = thread::Builder::new().name(LISTENING_THREAD.into()).spawn(move || {
            named.send(()).unwrap();
            let _ = receiver.recv();
        });
        is_named.recv().unwrap();
        let watched = match watch(own) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                println!("skipped: this kernel has no descriptors of threads");
                return;
            }
            watched => watched.unwrap(),
        };
        let is_over =
            |timeout: Option<&Timespec>| poll(&mut [PollFd::new(&watched, PollFlags::IN)], timeout).unwrap() == 1;
        assert!(!is_over(Some(&Timespec::default())));
        drop(sender);
        thread.unwrap().join().unwrap();
        assert!(is_over(None));
        assert!(!is_dead_consumer(own));
    }
}
