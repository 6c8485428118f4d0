// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of code that processes made while they ran, from their files `/tmp/perf-PID.map`, as far as these can be trusted: files of this user, of
//! root, or of the process's user, that the process itself can have written.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use piste_reason::reason;
use piste_symbols::perf_map::PerfMap;

/// The files that were asked for, by process.
#[derive(Debug, Default)]
pub(crate) struct PerfMaps {
    files: Mutex<BTreeMap<i32, Asked>>,
}

/// A file, or why there is none.
#[derive(Debug)]
struct Asked {
    map: Option<Arc<Written>>,
    /// Sentences.
    notes: Vec<String>,
}

/// A file and when it was last written to.
#[derive(Debug)]
struct Written {
    map: PerfMap,
    written_ns: i64,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) user: Option<u32>,
    /// When it began, or became the program that it is.
    pub(crate) begin_ns: Option<i64>,
    /// When the recording ended.
    pub(crate) end_ns: i64,
}

impl PerfMaps {
    /// What lies at an address of a process, and how far behind its begin the address is.
    pub(crate) fn symbol(&self, process: &Process, address: u64) -> Option<(String, u64)> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = files.entry(process.pid).or_insert_with(|| Asked::open(process));
        let written = asked.map.clone()?;
        // An earlier process had the number.
        if process.begin_ns.is_some_and(|begin_ns| written.written_ns < begin_ns) {
            let note = note(process.pid, "it is older than the process");
            if !asked.notes.contains(&note) {
                asked.notes.push(note);
            }
            return None;
        }
        let (name, behind) = written.map.symbol(address)?;
        Some((name.to_owned(), behind))
    }

    /// Sentences about files that cannot be used, or not all of.
    pub(crate) fn notes(&self) -> Vec<String> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.values().flat_map(|asked| &asked.notes).cloned().collect()
    }
}

fn note(pid: i32, why: &str) -> String {
    format!("{} is not used: {why}", PerfMap::path(pid).display())
}

impl Asked {
    fn open(process: &Process) -> Asked {
        let (mut refused, mut written_ns) = (None, 0);
        let path = PerfMap::path(process.pid);
        let opened = PerfMap::open(&path, |metadata| {
            written_ns = metadata
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.mtime_nsec());
            refused = refusal(process, metadata);
            refused.is_none()
        });
        let mut asked = Asked {
            map: None,
            notes: Vec::new(),
        };
        match opened {
            Ok(map) => {
                if map.damaged_lines > 0 {
                    let lines = map.damaged_lines;
                    let ending = if lines == 1 { "" } else { "s" };
                    asked
                        .notes
                        .push(format!("{}: {lines} line{ending} cannot be understood", path.display()));
                }
                if map.is_cut {
                    asked
                        .notes
                        .push(format!("{}: only its first 64 MiB are used", path.display()));
                }
                asked.map = Some(Arc::new(Written { map, written_ns }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let why = refused.unwrap_or_else(|| match error.kind() {
                    io::ErrorKind::InvalidInput => "it is not a regular file".to_owned(),
                    _ => reason(&error),
                });
                asked.notes.push(note(process.pid, &why));
            }
        }
        asked
    }
}

/// Why a file is not trusted, if it is not.
fn refusal(process: &Process, metadata: &Metadata) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if ![0, own].contains(&owner) && process.user != Some(owner) {
        return Some(format!(
            "it belongs to user {owner}, who is neither you nor root nor, as far as the trace shows, the user of the process"
        ));
    }
    // A later process of the same number has made it.
    let made = metadata
        .created()
        .ok()
        .and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made_ns = made.and_then(|made| i64::try_from(made.as_nanos()).ok());
    (made_ns.is_some_and(|made_ns| made_ns > process.end_ns)).then(|| "it was created after the recording".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has this number, not even the largest that the kernel gives.
    const PID: i32 = 1 << 23;

    fn process(begin_ns: Option<i64>, end_ns: i64) -> Process {
        Process {
            pid: PID,
            user: None,
            begin_ns,
            end_ns,
        }
    }

    fn ask(process: &Process) -> (bool, String) {
        let maps = PerfMaps::default();
        let is_named = maps.symbol(process, 0x1001) == Some(("serve".to_owned(), 1));
        (is_named, maps.notes().join("\n"))
    }

    #[test]
    fn only_a_file_that_the_process_can_have_written_is_used() {
        let path = PerfMap::path(PID);
        assert_eq!(ask(&process(None, i64::MAX)), (false, String::new()));
        std::fs::write(&path, "1000 10 serve\ndamage\n").expect("a file can be made there");
        let metadata = path.metadata().expect("it is there");
        let written_ns = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
        let answers = [
            ask(&process(None, i64::MAX)),
            ask(&process(Some(written_ns), i64::MAX)),
            ask(&process(Some(written_ns + 1), i64::MAX)),
            ask(&process(None, written_ns - 60_000_000_000)),
        ];
        let knows_birth = metadata.created().is_ok();
        std::fs::remove_file(&path).expect("it is ours");
        let damage = "1 line cannot be understood";
        assert!(answers[0].0 && answers[0].1.contains(damage), "{answers:?}");
        assert!(answers[1].0, "{answers:?}");
        assert!(
            !answers[2].0 && answers[2].1.contains("older than the process"),
            "{answers:?}"
        );
        assert!(
            !knows_birth || !answers[3].0 && answers[3].1.contains("created after the recording"),
            "{answers:?}"
        );
    }
}
