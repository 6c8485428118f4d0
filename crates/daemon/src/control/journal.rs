// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal: every change of the sessions, one line of JSON each, written before the change has any effect. A new pisted
//! reads it and knows what the one before knew.
//!
//! ```text
//! {"journal":1,"boot":"6b5d..."}
//! {"session_created":{"session":1,"identity":{"name":"web",...}}}
//! {"started":{"session":1,"at":{...}}}
//! ```
//!
//! It holds for one boot: ring memory and processes are gone after that. Once it has grown, it starts anew with a summary. A line that
//! pisted does not survive is set aside (trial.rs).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use piste_reason::reason;
use serde::{Deserialize, Serialize};

use super::trial::Trial;
use crate::link::SessionId;
use crate::session::{Change, Sessions};

const FORMAT: u32 = 1;
/// Smaller journals are not worth a summary.
const SUMMARY_BYTES_MIN: u64 = 1 << 20;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    boot: String,
    file: File,
    bytes: u64,
    /// When it was begun.
    first_bytes: u64,
    /// The last line.
    last: Vec<u8>,
    trial: Trial,
}

/// What a journal said.
#[derive(Debug, Default)]
pub struct Past {
    /// The state that it led to.
    pub sessions: Sessions,
    /// What was wrong with it; sentences.
    pub findings: Vec<String>,
    /// What was set aside: the session that it was about, and a sentence.
    pub set_aside: Vec<(Option<SessionId>, String)>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    journal: u32,
    boot: String,
}

/// The lines of a journal, replayed.
#[derive(Default)]
struct Lines<'a> {
    /// Those that count.
    good: Vec<&'a [u8]>,
    /// Those that pisted did not survive, and those that make no sense without them.
    aside: Vec<&'a [u8]>,
    /// What follows the good ones makes no sense.
    is_damaged: bool,
}

impl Journal {
    /// Opens the journal of a run folder, or begins one, and reads what it says. A line that makes no sense, and what follows
    /// it, is cut off; a whole copy stays beside it then. A line with which pisted ended twice is set aside, into a file beside the journal,
    /// with those that make no sense without it.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path, boot: &str) -> io::Result<(Journal, Past)> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut trial = Trial::open(&path.with_extension("trial"));
        let mut past = Past::default();
        let lines = replay(&bytes, boot, &mut trial, &mut past);
        // An error from here on is no entry's fault, and leaves those suspicious that are.
        trial.replayed();
        if trial.is_in_vain() {
            past.findings.push(format!(
                "pisted failed again after a change of the sessions was set aside, so that change was not the only cause; no other change is \
                 set aside. To start without any session, remove {}",
                path.display()
            ));
        }
        if lines.is_damaged {
            let copy = path.with_extension("damaged");
            fs::write(&copy, &bytes)?;
            past.findings
                .push(format!("a copy of the damaged journal is in {}", copy.display()));
        }
        if !lines.aside.is_empty() {
            let aside = path.with_extension("aside");
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).mode(0o600).open(&aside);
            let kept = file.and_then(|mut file| file.write_all(&lines.aside.concat()));
            kept.map_err(|error| {
                let what = format!(
                    "cannot save a change that made pisted fail twice to {}: {}",
                    aside.display(),
                    reason(&error)
                );
                io::Error::new(error.kind(), what)
            })?;
            past.set_aside = lines.aside.iter().map(|line| set_aside(line, &aside)).collect();
        }
        let text = match lines.good.is_empty() {
            true => line(&Header::of(boot)),
            false => lines.good.concat(),
        };
        let file = match text == bytes {
            true => OpenOptions::new().append(true).open(path)?,
            false => put(path, &text)?,
        };
        if !lines.aside.is_empty() {
            trial.set_aside();
        }
        let journal = Journal {
            path: path.into(),
            boot: boot.into(),
            file,
            bytes: text.len() as u64,
            first_bytes: text.len() as u64,
            last: lines.good.last().map(|line| line.to_vec()).unwrap_or_default(),
            trial,
        };
        Ok((journal, past))
    }

    /// Appends changes.
    ///
    /// # Errors
    /// The file could not be written, for example because the disk is full. It is as before then.
    pub fn append(&mut self, changes: &[Change]) -> io::Result<()> {
        let text: Vec<u8> = changes.iter().flat_map(line).collect();
        if let Err(error) = self.file.write_all(&text) {
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += text.len() as u64;
        self.last = changes.last().map(line).unwrap_or_default();
        Ok(())
    }

    /// Whether most of it is likely to be of the past.
    pub fn is_long(&self) -> bool {
        self.bytes > SUMMARY_BYTES_MIN.max(4 * self.first_bytes)
    }

    /// Starts anew with these changes, which say all that there is to say.
    ///
    /// # Errors
    /// The new file could not be written. The old one is still there then.
    pub fn begin_again(&mut self, summary: &[Change]) -> io::Result<()> {
        let mut text = line(&Header::of(&self.boot));
        text.extend(summary.iter().flat_map(line));
        self.file = put(&self.path, &text)?;
        self.bytes = text.len() as u64;
        self.first_bytes = self.bytes;
        self.last = summary.last().map(line).unwrap_or_default();
        Ok(())
    }

    /// Looks whether pisted has survived what an earlier one may have ended with.
    pub fn look_at_time(&mut self) {
        self.trial.look_at_time();
    }

    /// Pisted ends as it should: no line is why.
    pub fn close(&mut self) {
        self.trial.survived();
    }

    /// Pisted ends because something failed: the last line may be why.
    pub fn fail(&mut self) {
        self.trial.failed(&self.last);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}

impl Header {
    fn of(boot: &str) -> Header {
        Header {
            journal: FORMAT,
            boot: boot.into(),
        }
    }
}

/// Puts a new journal in the place of an old one, at once.
fn put(path: &Path, text: &[u8]) -> io::Result<File> {
    let new_path = path.with_extension("new");
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&new_path)?;
    file.write_all(text)?;
    fs::rename(&new_path, path)?;
    OpenOptions::new().append(true).open(path)
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("changes are plain values");
    text.push(b'\n');
    text
}

/// Applies the lines to `past`, but for one that pisted does not survive.
fn replay<'a>(bytes: &'a [u8], boot: &str, trial: &mut Trial, past: &mut Past) -> Lines<'a> {
    let mut lines = Lines::default();
    let all: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    let position = |entry: &str| all.iter().rposition(|line| *line == entry.as_bytes());
    let condemned: BTreeSet<usize> = trial.condemned().filter_map(position).collect();
    for (index, &line) in all.iter().enumerate() {
        let number = index + 1;
        let finding = if line.last() != Some(&b'\n') {
            format!("the last line of the journal, {number}, is incomplete; it was cut off")
        } else if number == 1 {
            match serde_json::from_slice::<Header>(line) {
                Ok(header) if header == Header::of(boot) => {
                    lines.good.push(line);
                    continue;
                }
                // Of an earlier boot: nothing of it is left but the traces.
                Ok(header) if header.journal == FORMAT => return lines,
                _ => "this pisted cannot read the first line of the journal; the journal was set aside".into(),
            }
        } else if condemned.contains(&index) {
            lines.aside.push(line);
            continue;
        } else {
            trial.replays(line);
            match serde_json::from_slice::<Change>(line).map_err(|error| error.to_string()) {
                Ok(change) => match past.sessions.apply(change) {
                    Ok(()) => {
                        lines.good.push(line);
                        continue;
                    }
                    Err(_) if !lines.aside.is_empty() => {
                        lines.aside.push(line);
                        continue;
                    }
                    Err(error) => {
                        format!(
                            "line {number} of the journal cannot be applied; the journal was cut off there: {error}"
                        )
                    }
                },
                Err(error) => {
                    format!("line {number} of the journal is damaged; the journal was cut off there: {error}")
                }
            }
        };
        past.findings.push(finding);
        lines.is_damaged = true;
        return lines;
    }
    lines
}

/// What is said of a line that was set aside, and the session that it was about.
fn set_aside(line: &[u8], aside: &Path) -> (Option<SessionId>, String) {
    let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    let change = value.as_object().and_then(|change| change.iter().next());
    let session = change.and_then(|(_, about)| about.get("session")?.as_u64());
    let name = change.map_or("a change", |(name, _)| name);
    let what = format!(
        "a change of the sessions ({name}) made pisted fail twice; it was undone, with everything that depends on it, and saved to {}",
        aside.display()
    );
    (session, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "boot-1";

    fn numbers(last_session: u64) -> Change {
        Change::NumbersUsed {
            last_session,
            last_key: 0,
        }
    }

    /// Opens a journal with this text, and returns the next session's number, the findings, and the text afterwards.
    fn check(text: &str) -> (u64, usize, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        fs::write(&path, text).unwrap();
        let (_, past) = Journal::open(&path, BOOT).unwrap();
        (
            past.sessions.next_session(),
            past.findings.len(),
            fs::read_to_string(&path).unwrap(),
        )
    }

    fn header() -> String {
        String::from_utf8(line(&Header {
            journal: FORMAT,
            boot: BOOT.into(),
        }))
        .unwrap()
    }

    #[test]
    fn what_was_appended_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, past) = Journal::open(&path, BOOT).unwrap();
        assert!(past.findings.is_empty());
        journal.append(&[numbers(3), numbers(7)]).unwrap();
        let (mut journal, past) = Journal::open(&path, BOOT).unwrap();
        assert_eq!(past.sessions.next_session(), 8);
        assert!(past.findings.is_empty());
        assert!(!journal.is_long());
        journal.begin_again(&[numbers(9)]).unwrap();
        journal.append(&[numbers(10)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
        journal.append(&vec![numbers(10); 30_000]).unwrap();
        assert!(journal.is_long());
        assert_eq!(Journal::open(&path, BOOT).unwrap().1.sessions.next_session(), 11);
    }

    #[test]
    fn a_damaged_end_is_cut_and_said() {
        let good = header() + "{\"numbers_used\":{\"last_session\":4,\"last_key\":0}}\n";
        assert_eq!(check(&good), (5, 0, good.clone()));
        for end in ["{\"numbers_used\":{\"last_se", "}\n", "{\"started\":{}}\n", "\0\0\0\0"] {
            assert_eq!(check(&(good.clone() + end)), (5, 2, good.clone()), "{end:?}");
        }
        let unfit = "{\"session_ended\":{\"session\":4}}\n";
        assert_eq!(check(&(good.clone() + unfit + &good)), (5, 2, good.clone()));
    }

    #[test]
    fn a_line_that_pisted_does_not_survive_is_set_aside_with_what_follows_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let change = |last_session: u64| String::from_utf8(line(&numbers(last_session))).unwrap();
        let unfit = "{\"session_ended\":{\"session\":4}}\n";
        fs::write(&path, header() + &change(3) + &change(7) + unfit + &change(5)).unwrap();
        let suspect = |ends: u32| {
            let trial = serde_json::json!({ "ends": { change(7): ends } });
            fs::write(path.with_extension("trial"), trial.to_string()).unwrap();
        };
        suspect(2);
        // Where it cannot be kept, it is not thrown away either.
        fs::create_dir(path.with_extension("aside")).unwrap();
        let error = Journal::open(&path, BOOT).unwrap_err().to_string();
        assert!(error.contains("fail twice") && error.contains(".aside"), "{error}");
        fs::remove_dir(path.with_extension("aside")).unwrap();
        let (mut journal, past) = Journal::open(&path, BOOT).unwrap();
        assert_eq!(past.sessions.next_session(), 6);
        assert!(past.findings.is_empty(), "{:?}", past.findings);
        assert_eq!(past.set_aside.len(), 2);
        assert!(past.set_aside[0].1.contains("numbers_used"), "{:?}", past.set_aside);
        assert_eq!(past.set_aside[1].0, Some(4));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), header() + &change(3) + &change(5));
        assert_eq!(read(&path.with_extension("aside")), change(7) + unfit);
        journal.append(&[numbers(8)]).unwrap();
        drop(journal);
        let (_, past) = Journal::open(&path, BOOT).unwrap();
        assert_eq!((past.sessions.next_session(), past.set_aside.len()), (9, 0));
        // Once is no reason.
        fs::write(&path, header() + &change(7)).unwrap();
        suspect(1);
        assert_eq!(Journal::open(&path, BOOT).unwrap().1.sessions.next_session(), 8);
    }

    #[test]
    fn a_journal_of_another_boot_or_format_is_begun_anew() {
        let other_boot = header().replace(BOOT, "boot-0") + "{\"numbers_used\":{\"last_session\":4,\"last_key\":0}}\n";
        assert_eq!(check(&other_boot).0, 1);
        assert_eq!(check(&other_boot).2, header());
        assert_eq!(check("hello\n"), (1, 2, header()));
        assert_eq!(check(""), (1, 0, header()));
    }
}
