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
//! It holds for one boot: ring memory and processes are gone after that. Once it has grown, it starts anew with a summary.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
}

/// What a journal said.
#[derive(Debug, Default)]
pub struct Past {
    /// The state that it led to.
    pub sessions: Sessions,
    /// What was wrong with it; sentences.
    pub findings: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    journal: u32,
    boot: String,
}

impl Journal {
    /// Opens the journal of a run folder, or begins one, and reads what it says. A line that makes no sense, and what follows
    /// it, is cut off; a whole copy stays beside it then.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path, boot: &str) -> io::Result<(Journal, Past)> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut past = Past::default();
        let good_bytes = replay(&bytes, boot, &mut past);
        if good_bytes < bytes.len() {
            let copy = path.with_extension("damaged");
            fs::write(&copy, &bytes)?;
            past.findings
                .push(format!("a copy of the damaged journal is at {}", copy.display()));
        }
        if good_bytes == 0 {
            let journal = Journal::begin(path, boot, &[])?;
            return Ok((journal, past));
        }
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_len(good_bytes as u64)?;
        Ok((
            Journal {
                path: path.into(),
                boot: boot.into(),
                file,
                bytes: good_bytes as u64,
                first_bytes: good_bytes as u64,
            },
            past,
        ))
    }

    /// Puts a new journal in the place of an old one, at once.
    fn begin(path: &Path, boot: &str, first: &[Change]) -> io::Result<Journal> {
        let mut text = line(&Header {
            journal: FORMAT,
            boot: boot.into(),
        });
        text.extend(first.iter().flat_map(line));
        let new_path = path.with_extension("new");
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&new_path)?;
        file.write_all(&text)?;
        fs::rename(&new_path, path)?;
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Journal {
            path: path.into(),
            boot: boot.into(),
            file,
            bytes: text.len() as u64,
            first_bytes: text.len() as u64,
        })
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
        *self = Journal::begin(&self.path, &self.boot, summary)?;
        Ok(())
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("changes are plain values");
    text.push(b'\n');
    text
}

/// Applies the lines to `past`, and says how many bytes made sense.
fn replay(bytes: &[u8], boot: &str, past: &mut Past) -> usize {
    let mut good_bytes = 0;
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let finding = if line.last() != Some(&b'\n') {
            format!("the journal's last line, {number}, is not whole; it was cut off")
        } else if number == 1 {
            match serde_json::from_slice::<Header>(line) {
                Ok(header) if header.journal == FORMAT && header.boot == boot => {
                    good_bytes += line.len();
                    continue;
                }
                // Of an earlier boot: nothing of it is left but the traces.
                Ok(header) if header.journal == FORMAT => return 0,
                _ => "the journal's first line is not one of this pisted; it was set aside".into(),
            }
        } else {
            match serde_json::from_slice::<Change>(line).map_err(|error| error.to_string()) {
                Ok(change) => match past.sessions.apply(change) {
                    Ok(()) => {
                        good_bytes += line.len();
                        continue;
                    }
                    Err(error) => format!("line {number} of the journal does not fit, it was cut off there: {error}"),
                },
                Err(error) => format!("line {number} of the journal is damaged, it was cut off there: {error}"),
            }
        };
        past.findings.push(finding);
        return good_bytes;
    }
    good_bytes
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
    fn a_journal_of_another_boot_or_format_is_begun_anew() {
        let other_boot = header().replace(BOOT, "boot-0") + "{\"numbers_used\":{\"last_session\":4,\"last_key\":0}}\n";
        assert_eq!(check(&other_boot).0, 1);
        assert_eq!(check(&other_boot).2, header());
        assert_eq!(check("hello\n"), (1, 2, header()));
        assert_eq!(check(""), (1, 0, header()));
    }
}
