// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries of the journal that pisted may not survive.
//!
//! A new pisted does what the journal says, and would end as the one before if an entry is why that ended. So a file beside the journal has
//! the entry that is being replayed, and how often pisted has ended over which entry: while it replayed it, or because something failed
//! later, for which the last entry is suspected. After two times an entry is [condemned](Trial::condemned). A pisted that does not start
//! for another reason, or is killed once it has replayed its journal, makes no entry suspicious.
//!
//! The last entry may be innocent. So when pisted fails although one was set aside, no other is suspected: people are told.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// So often an entry is tried.
const ENDS_MAX: u32 = 2;
/// A pisted that lives longer has survived all entries.
const SURVIVED: Duration = Duration::from_secs(10);

/// What is in the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Notes {
    /// How often pisted has ended over an entry.
    ends: BTreeMap<String, u32>,
    /// If pisted ends now, it does so over this one.
    replaying: Option<String>,
    /// Something was set aside, and no pisted has lived for a while since.
    is_set_aside: bool,
    /// Pisted failed all the same.
    is_in_vain: bool,
}

/// The entries that are being tried.
#[derive(Debug)]
pub struct Trial {
    path: PathBuf,
    began: Instant,
    file: Option<File>,
    notes: Notes,
}

impl Trial {
    /// Reads what earlier pisteds ended over. Without a place to write, nothing is suspected.
    pub fn open(path: &Path) -> Trial {
        let text = fs::read(path).unwrap_or_default();
        let mut notes: Notes = serde_json::from_slice(&text).unwrap_or_default();
        if let Some(entry) = notes.replaying.take() {
            *notes.ends.entry(entry).or_default() += 1;
        }
        Trial {
            path: path.into(),
            began: Instant::now(),
            file: None,
            notes,
        }
    }

    /// The entries that are not to be tried again. Whoever asks sets them aside and says so, with [`Trial::set_aside`].
    pub fn condemned(&self) -> impl Iterator<Item = &str> {
        let ends = self.notes.ends.iter().filter(|(_, ends)| **ends >= ENDS_MAX);
        ends.map(|(entry, _)| entry.as_str())
    }

    /// Pisted failed although something was set aside.
    pub fn is_in_vain(&self) -> bool {
        self.notes.is_in_vain
    }

    /// The entry is replayed next.
    pub fn replays(&mut self, entry: &[u8]) {
        self.notes.replaying = Some(String::from_utf8_lossy(entry).into_owned());
        self.write();
    }

    /// All entries are replayed.
    pub fn replayed(&mut self) {
        self.notes.replaying = None;
        self.write();
    }

    /// The condemned entries are no longer in the journal.
    pub fn set_aside(&mut self) {
        self.notes.ends.retain(|_, ends| *ends < ENDS_MAX);
        self.notes.is_set_aside = true;
        self.write();
    }

    /// Pisted fails. Suspected is who was before or, in a journal without suspects, its last entry.
    pub fn failed(&mut self, last_entry: &[u8]) {
        self.look_at_time();
        let notes = &mut self.notes;
        if notes.is_set_aside {
            notes.is_in_vain = true;
        } else {
            let before = notes.ends.keys().next().cloned();
            let entry = before.unwrap_or_else(|| String::from_utf8_lossy(last_entry).into_owned());
            *notes.ends.entry(entry).or_default() += 1;
        }
        self.write();
    }

    /// Once pisted has lived for a while, nothing is suspected any more.
    pub fn look_at_time(&mut self) {
        if self.began.elapsed() >= SURVIVED {
            self.survived();
        }
    }

    /// Nothing is suspected any more.
    pub fn survived(&mut self) {
        if self.notes != Notes::default() {
            self.notes = Notes::default();
            self.write();
        }
    }

    fn write(&mut self) {
        if self.notes == Notes::default() {
            self.file = None;
            // One that stays names entries that are long done.
            let _ = fs::remove_file(&self.path);
            return;
        }
        let text = serde_json::to_vec(&self.notes).expect("texts and numbers");
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path, expected: &[&str]) -> Trial {
        let trial = Trial::open(path);
        assert_eq!(Vec::from_iter(trial.condemned()), expected);
        trial
    }

    /// A start that comes to its end, of a journal with the entries `a` and `b`.
    fn start(path: &Path) -> Trial {
        let mut trial = check(path, &[]);
        trial.replays(b"a");
        trial.replays(b"b");
        trial.replayed();
        trial
    }

    #[test]
    fn an_entry_that_ends_two_replays_is_condemned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial");
        for entry in [&b"a"[..], b"b"] {
            check(&path, &[]).replays(entry);
        }
        let mut trial = check(&path, &[]);
        trial.replays(b"a");
        trial.replays(b"b");
        // It stays so until it is set aside.
        check(&path, &["b"]).replayed();
        let mut trial = check(&path, &["b"]);
        trial.replays(b"a");
        trial.replayed();
        trial.set_aside();
        let mut trial = check(&path, &[]);
        trial.survived();
        assert!(!path.exists());
    }

    #[test]
    fn a_failure_makes_the_last_entry_suspicious_and_another_one_condemns_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial");
        start(&path).failed(b"b");
        // What programs said meanwhile is not why.
        start(&path).failed(b"c");
        check(&path, &["b"]);
    }

    #[test]
    fn whoever_lives_on_is_killed_or_does_not_start_condemns_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial");
        start(&path);
        assert!(!path.exists());
        start(&path).failed(b"b");
        for _ in 0..5 {
            start(&path);
        }
        start(&path).survived();
        assert!(!path.exists());
        start(&path).failed(b"b");
        start(&path);
    }

    #[test]
    fn nothing_else_is_suspected_when_pisted_fails_although_one_was_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial");
        start(&path).failed(b"b");
        start(&path).failed(b"b");
        check(&path, &["b"]).set_aside();
        for _ in 0..3 {
            start(&path).failed(b"a");
            assert!(check(&path, &[]).is_in_vain());
        }
        start(&path).survived();
        assert!(!check(&path, &[]).is_in_vain());
        start(&path).failed(b"a");
        start(&path).failed(b"a");
        check(&path, &["a"]);
    }
}
