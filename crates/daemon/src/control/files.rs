// SPDX-License-Identifier: MIT OR Apache-2.0
//! What control does with the folders of traces, each in a thread of its own: a disk may hang, and then whoever asked waits, and nobody else.
//!
//! Such a thread cannot be killed until the disk answers, and neither can the rest of its process end: what all threads have open stays open,
//! above all the lock of the run folder and the sockets, so that no new pisted could start. So these threads have a descriptor table of
//! their own. They get it from the thread that starts them, which left the common table when hardly anything was open. Both tables have the
//! inbox's bell, under the same number; nothing else that has a descriptor may come here or go back.
//!
//! There are no more such threads than clients that wait for an answer, and sessions that end.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::SigSet;

use super::daemon::Daemon;

/// Where work goes that may hang.
#[derive(Debug)]
pub struct Files(Sender<Task>);

/// Called in a thread of its own, or with the reason why there is none.
type Task = Box<dyn FnOnce(io::Result<()>) + Send>;

impl Files {
    /// Starts the thread that starts the others. To be called when nothing is open but what they may keep open for ever: the bell.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin() -> io::Result<Files> {
        let (tasks, received) = channel();
        let (sender, has_own_table) = channel();
        Builder::new().name("pisted-files".into()).spawn(move || {
            // Where it is not permitted, a disk that hangs holds up the next pisted; nothing else depends on it.
            let _ = unshare(CloneFlags::CLONE_FILES);
            // Their handlers write to descriptors of the common table.
            let _ = SigSet::all().thread_block();
            let _ = sender.send(());
            start_threads(&received);
        })?;
        has_own_table.recv().map_err(io::Error::other)?;
        Ok(Files(tasks))
    }
}

fn start_threads(tasks: &Receiver<Task>) {
    for task in tasks {
        // A thread that cannot be started takes with it what it was given.
        let given = Arc::new(Mutex::new(Some(task)));
        let of_thread = given.clone();
        let take = |task: &Mutex<Option<Task>>| task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = Builder::new().name("pisted-files".into());
        let started = thread.spawn(move || take(&of_thread).map(|task| task(Ok(()))));
        if let Err(error) = started
            && let Some(task) = take(&given)
        {
            task(Err(error));
        }
    }
}

impl Daemon {
    /// Does `work` away from this thread, then goes on here. An error beside that of `work` is that there is no thread for it.
    pub(super) fn with_files<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Daemon, io::Result<T>) + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        let task = move |thread: io::Result<()>| {
            let done = thread.map(|()| work());
            inbox.post(Box::new(move |daemon| then(daemon, done)));
        };
        let sent = self.files.0.send(Box::new(task));
        assert!(sent.is_ok(), "the thread that starts the others lives as long as this");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn what_is_opened_later_is_not_open_in_these_threads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let files = Files::begin().unwrap();
        let lock = File::create(&path).unwrap();
        let link = PathBuf::from(format!("/proc/thread-self/fd/{}", lock.as_raw_fd()));
        assert_eq!(link.read_link().unwrap(), path);
        let (sender, receiver) = channel();
        let look = move |_| sender.send(link.read_link().ok()).unwrap();
        files.0.send(Box::new(look)).unwrap();
        assert_ne!(receiver.recv().unwrap(), Some(path));
        drop(lock);
    }
}
