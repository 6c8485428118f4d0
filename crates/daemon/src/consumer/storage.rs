// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failed writes: which file, why, and when to try again.
//!
//! A disk that is full now has space later. Until then packets stay in their rings, and the programs go on and count what
//! they discard.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use piste_reason::reason;

use crate::link::Failure;

/// A file or folder that could not be read or written.
#[derive(Debug)]
pub(crate) struct StorageError {
    path: PathBuf,
    error: io::Error,
}

impl StorageError {
    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        Self {
            path: path.into(),
            error,
        }
    }

    /// Why, in words.
    pub(crate) fn reason(&self) -> String {
        reason(&self.error)
    }

    /// As the answer to a request.
    pub(crate) fn failure(&self) -> Failure {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let path = self.path.clone();
        match self.error.kind() {
            StorageFull | QuotaExceeded => Failure::NoSpace { path },
            PermissionDenied | ReadOnlyFilesystem => Failure::NoPermission { path },
            _ => Failure::Other { what: self.to_string() },
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path.display(), reason(&self.error))
    }
}

impl std::error::Error for StorageError {}

/// Names the file in an error.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, StorageError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, StorageError> {
        self.map_err(|error| StorageError::new(path, error))
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether a session's trace can be written at the moment.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    why: Failure,
    pause: Duration,
    next_try: Instant,
}

impl Storage {
    /// Takes note of a failed write; each one in a row doubles the pause before the next try.
    pub(crate) fn failed(&mut self, why: Failure, now: Instant) {
        let pause = self
            .failing
            .as_ref()
            .map_or(FIRST_PAUSE, |failing| (failing.pause * 2).min(LONGEST_PAUSE));
        self.failing = Some(Failing {
            why,
            pause,
            next_try: now + pause,
        });
    }

    /// Takes note that nothing failed.
    pub(crate) fn succeeded(&mut self) {
        self.failing = None;
    }

    /// Whether the last write failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// Why the last write failed, if it did.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failing.as_ref().map(|failing| &failing.why)
    }

    /// When to try again: `None` when nothing speaks against writing now.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        let failing = self.failing.as_ref()?;
        let pause = failing.next_try.saturating_duration_since(now);
        (!pause.is_zero()).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_writes_are_tried_again_ever_more_rarely_until_one_succeeds() {
        let mut storage = Storage::default();
        let mut now = Instant::now();
        let why = || Failure::Other { what: "no".into() };
        assert_eq!(storage.pause(now), None);
        storage.failed(why(), now);
        let mut pauses = vec![];
        for _ in 0..8 {
            let pause = storage.pause(now).expect("a failed write makes a pause");
            pauses.push(pause.as_millis());
            now += pause;
            assert_eq!(storage.pause(now), None);
            storage.failed(why(), now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000]);
        storage.succeeded();
        assert_eq!(storage.pause(now), None);
        storage.failed(why(), now);
        assert_eq!(storage.pause(now), Some(FIRST_PAUSE));
        assert_eq!(storage.failure(), Some(&why()));
    }
}
