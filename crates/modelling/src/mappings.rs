// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file `mappings.jsonl` of a recording: which programs and libraries were mapped where, in which process, from when on. `piste record`
//! writes it beside the traces; it is read to name addresses. One JSON object a line, see docs/reference/trace-format.md.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use piste_reason::reason;
use piste_symbols::binary::open;
use piste_trace::Trace;
use serde::{Deserialize, Serialize};

/// Its name, in the folder of a recording.
pub const FILE_NAME: &str = "mappings.jsonl";

/// A process has parents, and these have parents: more of them are damage.
const ANCESTORS_MAX: u32 = 1000;
/// No more of a file is read. A machine that starts a hundred programs a second, each with ten libraries, fills it in twenty minutes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// A path has at most 4096 bytes, each of which may be written as six.
const LINE_BYTES_MAX: u64 = 32 << 10;
/// How many memories of processes are kept.
const ASKED_MAX: usize = 64;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, in nanoseconds since the epoch.
    #[serde(with = "as_text")]
    pub time_ns: i64,
    /// What happened.
    #[serde(flatten)]
    pub change: Change,
}

/// What happens to the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Change {
    /// The code of a program or library is mapped.
    Mapped(Mapped),
    /// The process becomes another program: everything that was mapped is gone.
    Executed {
        /// The process.
        pid: i32,
    },
    /// A process begins with the memory of another one.
    Forked {
        /// The process.
        pid: i32,
        /// The other one.
        parent_pid: i32,
    },
    /// Some changes are missing before this one.
    Lost,
}

/// The code of a program or library in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mapped {
    /// The process.
    pub pid: i32,
    /// The file, or what the kernel calls it: `[vdso]`.
    pub path: String,
    /// Where it begins in memory.
    #[serde(with = "as_hex")]
    pub address: u64,
    /// How much is mapped.
    pub bytes: u64,
    /// Where that begins in the file.
    pub file_offset: u64,
    /// In hex digits; empty where the file has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build_id: String,
}

/// What happened to the memory of the processes of a recording, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// By process.
    changes: HashMap<i32, Vec<(i64, Step)>>,
    /// Some are missing.
    pub(crate) has_losses: bool,
    /// Sentences about what is missing.
    pub(crate) notes: Vec<String>,
    /// What was asked for lately: of a process, and how many of its changes were over.
    asked: Mutex<HashMap<(i32, usize), Arc<Map>>>,
}

/// What is mapped, by where it begins. Nothing lies over anything else.
pub(crate) type Map = BTreeMap<u64, Arc<Mapped>>;

/// What happens to the memory of one process.
#[derive(Debug)]
enum Step {
    Mapped(Arc<Mapped>),
    Executed,
    Forked { parent_pid: i32 },
}

impl Mappings {
    /// Reads files of mappings.
    pub(crate) fn read(paths: &[PathBuf]) -> Mappings {
        let mut read = Read::default();
        for path in paths {
            read.file(path);
        }
        Mappings::of(read)
    }

    fn of(mut read: Read) -> Mappings {
        let mut mappings = Mappings::default();
        read.changes.sort_by_key(|(time_ns, ..)| *time_ns);
        for (time_ns, pid, step) in read.changes {
            mappings.changes.entry(pid).or_default().push((time_ns, step));
        }
        if read.has_losses {
            let note = "some mappings of programs and libraries were not recorded, so some locks may have no names";
            read.notes.push(note.to_owned());
        }
        mappings.has_losses = !read.notes.is_empty();
        mappings.notes = read.notes;
        mappings
    }

    /// What is mapped in a process at a time.
    pub(crate) fn at(&self, pid: i32, ns: i64) -> Arc<Map> {
        let key = (pid, self.count(pid, ns));
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = asked.get(&key) {
            return Arc::clone(map);
        }
        let map = Arc::new(self.up_to(pid, ns, ANCESTORS_MAX));
        if asked.len() == ASKED_MAX {
            asked.clear();
        }
        asked.insert(key, Arc::clone(&map));
        map
    }

    /// How many changes of a process are over at a time.
    fn count(&self, pid: i32, ns: i64) -> usize {
        let changes = self.changes.get(&pid).map_or(&[][..], Vec::as_slice);
        changes.partition_point(|(time_ns, _)| *time_ns <= ns)
    }

    fn up_to(&self, pid: i32, ns: i64, ancestors_max: u32) -> Map {
        let mut mapped = Map::new();
        let changes = self.changes.get(&pid).map_or(&[][..], Vec::as_slice);
        let changes = &changes[..self.count(pid, ns)];
        let is_begin = |(_, step): &(i64, Step)| matches!(step, Step::Executed | Step::Forked { .. });
        let begin = changes.iter().rposition(is_begin);
        if let Some((fork_ns, Step::Forked { parent_pid })) = begin.map(|place| &changes[place])
            && ancestors_max > 0
            && *parent_pid != pid
        {
            mapped = self.up_to(*parent_pid, *fork_ns, ancestors_max - 1);
        }
        for (_, step) in &changes[begin.map_or(0, |place| place + 1)..] {
            if let Step::Mapped(new) = step {
                map_over(&mut mapped, new);
            }
        }
        mapped
    }
}

/// Maps something; what lay there is gone.
fn map_over(mapped: &mut Map, new: &Arc<Mapped>) {
    let end = new.address.saturating_add(new.bytes);
    while let Some((address, old)) = mapped.range(..end).next_back() {
        let address = *address;
        if address.saturating_add(old.bytes) <= new.address {
            break;
        }
        mapped.remove(&address);
    }
    mapped.insert(new.address, Arc::clone(new));
}

/// The files of the recordings that these traces are of.
pub(crate) fn paths(traces: &[Trace]) -> Vec<PathBuf> {
    let of_trace = |trace: &Trace| {
        let folder = std::path::absolute(&trace.folder).unwrap_or_default();
        path(&folder).filter(|path| path.is_file())
    };
    let mut paths: Vec<PathBuf> = traces.iter().filter_map(of_trace).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The file of the recording that a trace in a folder is of, if the folder has a place in a recording: `DIR/kernel`, or the same of a snapshot,
/// `DIR/snapshot-N-DATE-TIME/kernel`, or of a chunk, `DIR/archives/CHUNK/kernel`.
fn path(trace: &Path) -> Option<PathBuf> {
    let is_named = |folder: &Path, name: &str| folder.file_name().is_some_and(|known| known == name);
    if !is_named(trace, "kernel") && !is_named(trace, "user") {
        return None;
    }
    let folder = trace.parent()?;
    // A recording may itself be called like a snapshot.
    let own = folder.join(FILE_NAME);
    if own.is_file() {
        return Some(own);
    }
    let above = folder.parent()?;
    let name = folder.file_name()?.to_str()?;
    let recording = if is_named(above, "archives") {
        above.parent()?
    } else if name
        .strip_prefix("snapshot-")?
        .starts_with(|first: char| first.is_ascii_digit())
    {
        above
    } else {
        return None;
    };
    Some(recording.join(FILE_NAME))
}

/// What is read from files.
#[derive(Debug, Default)]
struct Read {
    /// When, and in which process.
    changes: Vec<(i64, i32, Step)>,
    has_losses: bool,
    notes: Vec<String>,
}

impl Read {
    fn file(&mut self, path: &Path) {
        // Only files are opened.
        let unreadable = match open(path).and_then(|file| self.stream(file)) {
            Ok(0) => return,
            Ok(1) => "1 line cannot be understood".to_owned(),
            Ok(lines) => format!("{lines} lines cannot be understood"),
            Err(error) => reason(&error),
        };
        self.notes.push(format!(
            "cannot read all of {}, which says where programs and libraries were mapped: {unreadable}; some locks may have no names",
            path.display()
        ));
    }

    /// Adds the lines, and counts those that cannot be understood.
    ///
    /// # Errors
    /// Not all of it can be read.
    fn stream(&mut self, from: impl io::Read) -> io::Result<u64> {
        let mut from = BufReader::new(from).take(FILE_BYTES_MAX);
        let (mut line, mut damaged) = (Vec::new(), 0);
        loop {
            line.clear();
            from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                break;
            }
            match serde_json::from_slice(&line) {
                Ok(line) => self.line(line),
                // It is still being written, or was not written to its end.
                Err(_) if line.last() != Some(&b'\n') && from.get_mut().fill_buf()?.is_empty() => {
                    self.has_losses = true
                }
                Err(_) => damaged += 1,
            }
            while line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
                line.clear();
                from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            }
        }
        let is_all = from.limit() > 0;
        is_all
            .then_some(damaged)
            .ok_or_else(|| io::Error::other(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)))
    }

    fn line(&mut self, Line { time_ns, change }: Line) {
        let (pid, step) = match change {
            // It cannot lie over anything.
            Change::Mapped(mapped) if mapped.bytes == 0 => return,
            Change::Mapped(mapped) => (mapped.pid, Step::Mapped(Arc::new(mapped))),
            Change::Executed { pid } => (pid, Step::Executed),
            Change::Forked { pid, parent_pid } => (pid, Step::Forked { parent_pid }),
            Change::Lost => {
                self.has_losses = true;
                return;
            }
        };
        self.changes.push((time_ns, pid, step));
    }
}

/// Numbers that readers of JSON would round.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Addresses, as people know them.
mod as_hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{address:#x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(pid: i32, path: &str, address: u64, bytes: u64) -> Change {
        Change::Mapped(Mapped {
            pid,
            path: path.to_owned(),
            address,
            bytes,
            file_offset: 0x1000,
            build_id: "0aff".to_owned(),
        })
    }

    fn mappings(changes: &[(i64, Change)]) -> Mappings {
        let mut read = Read::default();
        for (time_ns, change) in changes {
            read.line(Line {
                time_ns: *time_ns,
                change: change.clone(),
            });
        }
        Mappings::of(read)
    }

    fn paths(mappings: &Mappings, pid: i32, ns: i64) -> Vec<String> {
        let map = mappings.at(pid, ns);
        map.values().map(|mapped| mapped.path.clone()).collect()
    }

    #[test]
    fn a_process_has_the_memory_of_its_parent_until_it_executes_a_program() {
        let mappings = mappings(&[
            (1, mapped(1, "/bin/sh", 0x1000, 0x1000)),
            (3, mapped(1, "/lib/late", 0x8000, 0x1000)),
            (2, Change::Forked { pid: 2, parent_pid: 1 }),
            (4, mapped(2, "/lib/a", 0x4000, 0x1000)),
            (5, Change::Executed { pid: 2 }),
            (6, mapped(2, "/bin/ls", 0x2000, 0x1000)),
        ]);
        assert_eq!(paths(&mappings, 2, 1), [""; 0]);
        assert_eq!(paths(&mappings, 2, 4), ["/bin/sh", "/lib/a"]);
        assert_eq!(paths(&mappings, 2, 5), [""; 0]);
        assert_eq!(paths(&mappings, 2, 9), ["/bin/ls"]);
        assert_eq!(paths(&mappings, 1, 9), ["/bin/sh", "/lib/late"]);
    }

    #[test]
    fn what_is_mapped_over_something_takes_its_place() {
        let mappings = mappings(&[
            (1, mapped(1, "/a", 0x1000, 0x2000)),
            (2, mapped(1, "/b", 0x4000, 0x1000)),
            (3, mapped(1, "/c", 0x2000, 0x1000)),
            // It is its own parent: damage.
            (0, Change::Forked { pid: 7, parent_pid: 7 }),
        ]);
        assert_eq!(paths(&mappings, 1, 9), ["/c", "/b"]);
        assert_eq!(paths(&mappings, 7, 9), [""; 0]);
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for change in [
            mapped(7, "/usr/bin/python3.11", 0xffff_ffff_ff60_0000, 4096),
            Change::Executed { pid: 7 },
            Change::Forked { pid: 8, parent_pid: 7 },
            Change::Lost,
        ] {
            let line = Line {
                time_ns: 1_790_000_000_123_456_789,
                change,
            };
            let text = serde_json::to_string(&line).expect("it can be written");
            assert_eq!(serde_json::from_str::<Line>(&text).expect(&text), line, "{text}");
        }
    }

    /// In a second and not in minutes, or the test takes for ever.
    #[test]
    fn many_mappings_of_a_process_are_looked_through_once() {
        const COUNT: u64 = 300_000;
        let changes: Vec<_> = (0..COUNT)
            .map(|number| (number as i64, mapped(1, "/a", (number + 1) << 12, 0x1000)))
            .collect();
        let mappings = mappings(&changes);
        assert_eq!(mappings.at(1, i64::MAX).len() as u64, COUNT);
        for _ in 0..1000 {
            assert_eq!(mappings.at(1, i64::MAX).len() as u64, COUNT);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let executed = "{\"time_ns\":\"1\",\"event\":\"executed\",\"pid\":7}\n";
        let long = format!("\"{}\"\n{executed}", "x".repeat(3 * LINE_BYTES_MAX as usize));
        let exact = format!("{}\n{executed}", "x".repeat(LINE_BYTES_MAX as usize));
        for (text, read_count, notes) in [
            (executed, 1, &[][..]),
            ("", 0, &[]),
            (&executed.repeat(3), 3, &[]),
            ("nonsense\n\n{}\n", 0, &["3 lines cannot be understood"]),
            (&long, 1, &["1 line cannot be understood"]),
            (&exact, 1, &["1 line cannot be understood"]),
            (&format!("{executed}{{\"time_ns\""), 1, &["some mappings"]),
            ("{\"time_ns\":\"1\",\"event\":\"lost\"}\n", 0, &["some mappings"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(FILE_NAME);
            std::fs::write(&path, text).unwrap();
            let mappings = Mappings::read(&[path]);
            let count: usize = mappings.changes.values().map(Vec::len).sum();
            assert_eq!(count, read_count, "{:.80}", text);
            let told = mappings.notes.iter().zip(notes);
            assert!(
                mappings.notes.len() == notes.len() && told.into_iter().all(|(note, said)| note.contains(said)),
                "{:?} {:.80}",
                mappings.notes,
                text
            );
            assert_eq!(mappings.has_losses, !notes.is_empty());
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_read_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        std::fs::write(&path, "{\"time_ns\":\"1\",\"event\":\"executed\",\"pid\":7}\n").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(FILE_BYTES_MAX + 1).unwrap();
        let mappings = Mappings::read(&[path]);
        assert_eq!(mappings.changes.len(), 1);
        assert!(
            mappings.notes[0].contains("larger than 256 MiB"),
            "{:?}",
            mappings.notes
        );
    }

    #[test]
    fn a_file_belongs_to_the_recording_whose_layout_it_has() {
        let root = tempfile::tempdir().unwrap();
        let recording = root.path().join("snapshot-1");
        let file = recording.join(FILE_NAME);
        std::fs::create_dir(&recording).unwrap();
        for (trace, is_of_recording) in [
            ("kernel", true),
            ("user", true),
            ("snapshot-12-20261122-201500/kernel", true),
            ("archives/1-20261122T201500+0000-20261122T201600+0000/kernel", true),
            ("archives/.2/kernel", true),
            ("other", false),
            ("other/kernel", false),
            ("snapshot-of/kernel", false),
            ("archives/kernel", false),
            ("other/archives/1/kernel", false),
            ("", false),
        ] {
            std::fs::write(&file, "").unwrap();
            let found = path(&recording.join(trace)).filter(|path| path.is_file());
            assert_eq!(found, is_of_recording.then(|| file.clone()), "{trace}");
        }
        // None above it.
        std::fs::rename(&file, root.path().join(FILE_NAME)).unwrap();
        assert_eq!(
            path(&recording.join("kernel")).filter(|path| path.starts_with(&recording) && path.is_file()),
            None
        );
    }
}
