// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that an instance leaves out, whoever it records. Events that tell of another thread as well, such as the switch to one, are recorded.
//!
//! The list of an instance that records every thread is only ever added to. The kernel decides at each switch whether the CPU's events are left out.
//! When the last list of an instance is emptied, the kernel stops looking at switches first and at wake-ups only later. If a hidden
//! thread wakes another one in between, the events of its CPU are left out, whoever runs there next, until the list is empty. That takes
//! milliseconds, and nothing counts these events.
//!
//! The kernel takes a thread out of its lists when it forgets the thread, which is some time after its end. The number of one that it had forgotten
//! before the number was written stays, and a later thread of that number would be left out. So each number that no thread has is given to a
//! process that does nothing but end.

#![expect(unsafe_code, reason = "makes a process that has a given number")]

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::HIDDEN;
use crate::instance::Instance;
use crate::proc;

/// The largest number that a thread can have on any machine. Larger ones are stamps.
const THREAD_MAX: i32 = 4 << 20;

/// The list of an instance; can go to another thread.
#[derive(Debug, Clone)]
pub struct Hiding(PathBuf);

impl Hiding {
    /// The list of this instance; `None` on kernels before 5.7, which have none.
    pub fn of(instance: &Instance) -> Option<Hiding> {
        instance.has(HIDDEN).then(|| Hiding::at(instance.path(HIDDEN)))
    }

    /// The list in this file.
    pub fn at(list: PathBuf) -> Hiding {
        Hiding(list)
    }

    /// Leaves threads out, and what they start, beside those that are left out already. May wait for whoever else changes what is recorded.
    ///
    /// The kernel changes a list that has threads only after some grace periods, a twentieth of a second or more, so nothing is written
    /// that it says already. What cannot be written is recorded, which people see.
    pub fn hide(&self, threads: &[i32]) {
        let mut hidden = self.hidden();
        let is_new = |thread: &&i32| !hidden.contains(thread) && !proc::is_over(**thread);
        let new: Vec<String> = threads.iter().filter(is_new).map(ToString::to_string).collect();
        if !new.is_empty() {
            let file = OpenOptions::new().append(true).open(&self.0);
            let _ = file.and_then(|mut file| file.write_all(new.join(" ").as_bytes()));
            hidden = self.hidden();
        }
        for &thread in hidden.iter().filter(|&&thread| is_nobodys(thread)) {
            // Somebody may have it by now; or this process may not choose numbers.
            let _ = be_and_end(thread);
        }
    }

    fn hidden(&self) -> BTreeSet<i32> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }
}

fn is_nobodys(thread: i32) -> bool {
    thread <= THREAD_MAX && !Path::new("/proc").join(thread.to_string()).exists()
}

/// Starts a process with this number, which ends at once.
fn be_and_end(number: libc::pid_t) -> io::Result<()> {
    // SAFETY: all zeros are a valid value: a copy of this process that sends no signal when it ends.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    // Its descriptors are this process's, so its end closes nothing: to close a file waits for the disk on some file systems.
    arguments.flags = libc::CLONE_FILES as u64;
    arguments.set_tid = (&raw const number).addr() as u64;
    arguments.set_tid_size = 1;
    // SAFETY: the number lives until the call is over. The new process has a copy of all memory and of this thread alone; it makes no call but
    // the one that ends it, so no lock of another thread matters.
    let process = unsafe {
        let process = libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>());
        if process == 0 {
            libc::_exit(0);
        }
        process
    };
    if process < 0 {
        return Err(io::Error::last_os_error());
    }
    loop {
        // SAFETY: no status is asked for. Waits for nobody but the child that was just made.
        let ended = unsafe { libc::waitpid(number, std::ptr::null_mut(), libc::__WALL) };
        let error = io::Error::last_os_error();
        if ended == number || error.kind() != io::ErrorKind::Interrupted {
            return Ok(());
        }
    }
}
