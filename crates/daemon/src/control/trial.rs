// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry of the journal that pisted may not survive.
//!
//! A new pisted does what the journal says, and would end as the one before if an entry is why that ended. So a file beside the journal has the
//! entry that is being replayed and, when pisted failed later, the last one; and how often pisted has ended with it. After two times it is
//! [condemned](Trial::condemned). Whoever kills a pisted that has replayed its journal makes no entry suspicious.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// So often an entry is tried.
const ENDS_MAX: u32 = 2;
/// A pisted that lives longer has survived the entry.
const SURVIVED: Duration = Duration::from_secs(10);

/// What is in the file: if pisted ends now, it has ended so often with this entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Suspect {
    ends: u32,
    entry: String,
}

/// The entry that is being tried.
#[derive(Debug)]
pub struct Trial {
    path: PathBuf,
    began: Instant,
    file: Option<File>,
    /// What an earlier pisted ended with.
    suspect: Option<Suspect>,
}

impl Trial {
    /// Reads what an earlier pisted ended with, if it did so with an entry of the journal. Without a place to write, nothing is suspected.
    pub fn open(path: &Path) -> Trial {
        let suspect = fs::read(path).ok();
        Trial {
            path: path.into(),
            began: Instant::now(),
            file: None,
            suspect: suspect.and_then(|text| serde_json::from_slice(&text).ok()),
        }
    }

    /// The entry that is not to be tried again. It is no longer suspected then: whoever asks sets it aside.
    pub fn condemned(&mut self) -> Option<String> {
        let suspect = self.suspect.take_if(|suspect| suspect.ends >= ENDS_MAX)?;
        Some(suspect.entry)
    }

    /// The entry is replayed next.
    pub fn replays(&mut self, entry: &[u8]) {
        let entry = String::from_utf8_lossy(entry).into_owned();
        let before = self.suspect.as_ref().filter(|suspect| suspect.entry == entry);
        let ends = before.map_or(0, |suspect| suspect.ends) + 1;
        self.note(&Suspect { ends, entry });
    }

    /// All entries are replayed; what they lead to is done now.
    pub fn replayed(&mut self) {
        match self.suspect.clone() {
            Some(Suspect { ends, entry }) => self.note(&Suspect { ends: ends + 1, entry }),
            None => self.clear(),
        }
    }

    /// Pisted fails; this entry was the last one.
    pub fn failed(&mut self, last_entry: &[u8]) {
        if self.suspect.is_none() {
            let entry = String::from_utf8_lossy(last_entry).into_owned();
            self.note(&Suspect { ends: 1, entry });
        }
    }

    /// Once pisted has lived for a while, nothing is suspected any more.
    pub fn look_at_time(&mut self) {
        if self.suspect.is_some() && self.began.elapsed() >= SURVIVED {
            self.survived();
        }
    }

    /// Nothing is suspected any more.
    pub fn survived(&mut self) {
        if self.suspect.take().is_some() {
            self.clear();
        }
    }

    fn note(&mut self, suspect: &Suspect) {
        let text = serde_json::to_vec(suspect).expect("a text and a number");
        if self.file.is_none() {
            let mut options = File::options();
            let options = options.create(true).write(true).truncate(false).mode(0o600);
            self.file = options.open(&self.path).ok();
        }
        // Where nothing can be written, pisted goes on as if nothing was ever suspected.
        if let Some(file) = &self.file
            && file.write_all_at(&text, 0).is_ok()
        {
            let _ = file.set_len(text.len() as u64);
        }
    }

    fn clear(&mut self) {
        self.file = None;
        // One that stays names an entry that is long done.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path, expected: Option<&str>) -> Trial {
        let mut trial = Trial::open(path);
        assert_eq!(trial.condemned().as_deref(), expected);
        trial
    }

    #[test]
    fn an_entry_that_ends_two_replays_is_condemned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial");
        for entry in [&b"a"[..], b"b"] {
            check(&path, None).replays(entry);
        }
        let mut trial = check(&path, None);
        trial.replays(b"a");
        trial.replays(b"b");
        let mut trial = check(&path, Some("b"));
        trial.replays(b"a");
        trial.replayed();
        assert!(!path.exists());
    }

    #[test]
    fn a_failure_makes_the_last_entry_suspicious_and_another_one_condemns_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial");
        let mut trial = check(&path, None);
        trial.replayed();
        trial.failed(b"b");
        let mut trial = check(&path, None);
        trial.replays(b"a");
        trial.replays(b"b");
        trial.replayed();
        // What programs said meanwhile is not why.
        trial.failed(b"c");
        check(&path, Some("b"));
    }

    #[test]
    fn whoever_lives_on_or_is_killed_condemns_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial");
        for _ in 0..3 {
            let mut trial = check(&path, None);
            trial.replays(b"a");
            trial.replayed();
        }
        check(&path, None).failed(b"a");
        let mut trial = check(&path, None);
        trial.replays(b"a");
        trial.replayed();
        trial.survived();
        check(&path, None);
        assert!(!path.exists());
    }
}
