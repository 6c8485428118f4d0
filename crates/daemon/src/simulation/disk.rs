// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disk of a simulation, below the consumer's disk.rs. The files are real ones in a temporary folder: a file has what was written to it.
//! The simulated disk decides how much of a write that is, and after which step the consumer is killed.

use std::cell::RefCell;
use std::io;
use std::panic::resume_unwind;

use fastrand::Rng;
use rustix::io::Errno;

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// What a simulated disk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Works,
    /// Writes fail with ENOSPC, after a part of the bytes.
    Full,
    /// Writes fail with EIO.
    Broken,
}

struct Disk {
    dice: Rng,
    mood: Mood,
    /// The consumer is killed in the step after so many others.
    steps_left: Option<u32>,
    failures: u64,
}

/// What a consumer that is killed unwinds with.
pub(crate) struct Killed;

/// How much of a write the disk takes.
pub(crate) struct Admitted {
    pub(crate) bytes: usize,
    end: End,
}

enum End {
    Done,
    Failed(Errno),
    Killed,
}

/// Asks the disk of this thread's simulation, if there is one, about a write of so many bytes, or another step with 0.
pub(crate) fn admit(bytes: usize) -> Admitted {
    DISK.with_borrow_mut(|disk| match disk {
        Some(disk) => disk.admit(bytes),
        None => Admitted { bytes, end: End::Done },
    })
}

impl Admitted {
    /// How the write ends, once the admitted bytes are written.
    pub(crate) fn end(self) -> io::Result<()> {
        match self.end {
            End::Done => Ok(()),
            End::Failed(errno) => Err(errno.into()),
            End::Killed => resume_unwind(Box::new(Killed)),
        }
    }
}

impl Disk {
    fn admit(&mut self, bytes: usize) -> Admitted {
        if let Some(steps) = &mut self.steps_left {
            let Some(left) = steps.checked_sub(1) else {
                self.steps_left = None;
                let bytes = self.dice.usize(..=bytes);
                return Admitted {
                    bytes,
                    end: End::Killed,
                };
            };
            *steps = left;
        }
        let failed = match self.mood {
            _ if bytes == 0 => None,
            Mood::Works => None,
            Mood::Full => Some(Errno::NOSPC),
            Mood::Broken => Some(Errno::IO),
        };
        match failed {
            None => Admitted { bytes, end: End::Done },
            Some(errno) => {
                self.failures += 1;
                let bytes = self.dice.usize(..bytes);
                let end = End::Failed(errno);
                Admitted { bytes, end }
            }
        }
    }
}

/// Puts a disk that works under this thread.
pub(super) fn insert(seed: u64) {
    let disk = Disk {
        dice: Rng::with_seed(seed),
        mood: Mood::Works,
        steps_left: None,
        failures: 0,
    };
    DISK.set(Some(disk));
}

/// Gives the thread the system's disk back.
pub(super) fn remove() {
    DISK.set(None);
}

pub(super) fn set_mood(mood: Mood) {
    DISK.with_borrow_mut(|disk| disk.as_mut().expect("a simulation has a disk").mood = mood);
}

/// Has the consumer killed in the step after so many others; `None` lets it live.
pub(super) fn kill_after(steps: Option<u32>) {
    DISK.with_borrow_mut(|disk| disk.as_mut().expect("a simulation has a disk").steps_left = steps);
}

/// Writes that failed so far.
pub(super) fn failures() -> u64 {
    DISK.with_borrow(|disk| disk.as_ref().map_or(0, |disk| disk.failures))
}
