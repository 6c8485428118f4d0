// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what was mapped where in the processes of a recording, to name addresses. The lines of the file are those of crates/mappings; processes.rs
//! adds what programs say themselves.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use piste_mappings::{Change, FILE_NAME, KERNEL_SYMBOLS, Line, Mapped};
use piste_reason::reason;
use piste_symbols::binary::open;
use piste_trace::Trace;

use crate::space::Space;

/// A process has parents, and these have parents: more of them are damage.
const ANCESTORS_MAX: u32 = 1000;
/// No more of a file is read. A machine that starts a hundred programs a second, each with ten libraries, fills it in twenty minutes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// A path has at most 4096 bytes, each of which may be written as six.
const LINE_BYTES_MAX: u64 = 32 << 10;
/// How many memories of processes are kept.
const ASKED_MAX: usize = 64;

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

/// What is in the memory of a process. Nothing lies over anything else of its kind.
#[derive(Debug, Default)]
pub(crate) struct Map {
    /// What is mapped, by where it begins.
    pub(crate) mapped: Parts,
    /// Whole programs and libraries, as the process says itself.
    pub(crate) loaded: Parts,
    /// Made when a name is asked for.
    pub(crate) space: OnceLock<Space>,
}

/// By where they begin.
pub(crate) type Parts = BTreeMap<u64, Arc<Mapped>>;

/// When, in which process, and what.
pub(crate) type Event = (i64, i32, Step);

/// What happens to the memory of one process.
#[derive(Debug)]
pub(crate) enum Step {
    Mapped(Arc<Mapped>),
    Executed,
    Forked {
        parent_pid: i32,
    },
    /// The process says what is loaded: what it said before does not hold any more.
    Listed,
    /// The process has loaded all of a program or library there.
    Loaded(Arc<Mapped>),
    Unloaded {
        address: u64,
    },
}

impl Mappings {
    /// Reads files of mappings.
    pub(crate) fn read(paths: &[PathBuf]) -> Mappings {
        Mappings::with_events(paths, Vec::new())
    }

    /// The same, and what processes say themselves.
    pub(crate) fn with_events(paths: &[PathBuf], events: Vec<Event>) -> Mappings {
        let mut read = Read::default();
        for path in paths {
            read.file(path);
        }
        read.changes.extend(events);
        Mappings::of(read)
    }

    /// Nothing is known of any process.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Since when a process has been what it is at a time: it began, or executed another program.
    pub(crate) fn begin_ns(&self, pid: i32, ns: i64) -> Option<i64> {
        let changes = &self.changes.get(&pid)?[..self.count(pid, ns)];
        changes
            .iter()
            .rev()
            .find(|change| is_begin(change))
            .map(|(begin_ns, _)| *begin_ns)
    }

    fn of(mut read: Read) -> Mappings {
        let mut mappings = Mappings::default();
        read.changes.sort_by_key(|(time_ns, ..)| *time_ns);
        for (time_ns, pid, step) in read.changes {
            mappings.changes.entry(pid).or_default().push((time_ns, step));
        }
        mappings
            .changes
            .values_mut()
            .for_each(|changes| date_lists_back(changes));
        if read.has_losses {
            let note = "some mappings of programs and libraries were not recorded, so some locks and addresses may have no names";
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
    pub(crate) fn count(&self, pid: i32, ns: i64) -> usize {
        let changes = self.changes.get(&pid).map_or(&[][..], Vec::as_slice);
        changes.partition_point(|(time_ns, _)| *time_ns <= ns)
    }

    fn up_to(&self, pid: i32, ns: i64, ancestors_max: u32) -> Map {
        let mut map = Map::default();
        let changes = self.changes.get(&pid).map_or(&[][..], Vec::as_slice);
        let changes = &changes[..self.count(pid, ns)];
        let begin = changes.iter().rposition(is_begin);
        if let Some((fork_ns, Step::Forked { parent_pid })) = begin.map(|place| &changes[place])
            && ancestors_max > 0
            && *parent_pid != pid
        {
            map = self.up_to(*parent_pid, *fork_ns, ancestors_max - 1);
        }
        for (_, step) in &changes[begin.map_or(0, |place| place + 1)..] {
            match step {
                Step::Mapped(new) => map_over(&mut map.mapped, new),
                Step::Loaded(new) => map_over(&mut map.loaded, new),
                Step::Unloaded { address } => _ = map.loaded.remove(address),
                Step::Listed => map.loaded.clear(),
                Step::Executed | Step::Forked { .. } => {}
            }
        }
        map
    }
}

/// The process begins, as another program or at all.
fn is_begin((_, step): &(i64, Step)) -> bool {
    matches!(step, Step::Executed | Step::Forked { .. })
}

/// A process lists what is loaded after it has begun. Its first list since then holds from its begin on.
fn date_lists_back(changes: &mut [(i64, Step)]) {
    let mut begin_ns = Some(i64::MIN);
    let mut list: Option<(i64, i64)> = None;
    for change in changes.iter_mut() {
        match change {
            (ns, Step::Executed | Step::Forked { .. }) => (begin_ns, list) = (Some(*ns), None),
            (ns, Step::Listed) => list = begin_ns.take().map(|begin_ns| (*ns, begin_ns)),
            _ => {}
        }
        if let (ns, Step::Listed | Step::Loaded(_)) = change
            && let Some((_, begin_ns)) = list.filter(|(list_ns, _)| list_ns == ns)
        {
            *ns = begin_ns;
        }
    }
    changes.sort_by_key(|(ns, _)| *ns);
}

/// Maps something; what lay there is gone.
fn map_over(mapped: &mut Parts, new: &Arc<Mapped>) {
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

/// The files of these traces that are there.
pub(crate) fn paths<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = traces
        .into_iter()
        .filter_map(|trace| beside(trace, FILE_NAME))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The files beside a trace's folder that say what lies at addresses, where there are some.
pub fn files_with_names(trace: &Trace) -> impl Iterator<Item = PathBuf> {
    [FILE_NAME, KERNEL_SYMBOLS]
        .into_iter()
        .filter_map(|name| beside(trace, name))
}

/// A file that lies beside the folder of a trace's domain, in the recording, the chunk or the snapshot, if it is there.
pub(crate) fn beside(trace: &Trace, name: &str) -> Option<PathBuf> {
    let folder = std::path::absolute(&trace.folder).unwrap_or_default();
    path(&folder, name).filter(|path| path.is_file())
}

fn path(trace: &Path, name: &str) -> Option<PathBuf> {
    let name_of_domain = trace.file_name()?.to_str()?;
    // Of files of trace-cmd, each clock may have a trace: kernel-CLOCK.
    let is_domain = ["kernel", "user"].contains(&name_of_domain) || name_of_domain.starts_with("kernel-");
    trace.parent().filter(|_| is_domain).map(|folder| folder.join(name))
}

/// What is read from files.
#[derive(Debug, Default)]
struct Read {
    changes: Vec<Event>,
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
            "cannot read all of {}, which says where programs and libraries were mapped: {unreadable}; some locks and addresses may have no names",
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
        map.mapped.values().map(|mapped| mapped.path.clone()).collect()
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
    fn what_a_process_lists_was_loaded_since_it_began() {
        let loaded = |address| {
            let Change::Mapped(part) = mapped(1, "/a", address, 0x1000) else {
                unreachable!("it is one")
            };
            Step::Loaded(Arc::new(part))
        };
        let unloaded = Step::Unloaded { address: 0x3000 };
        let events = [
            (3, Step::Listed),
            (3, loaded(0x1000)),
            (3, loaded(0x2000)),
            (4, loaded(0x3000)),
            (5, unloaded),
            // Another list of the same program.
            (6, Step::Listed),
            (6, loaded(0x1000)),
            // Another program.
            (7, Step::Executed),
            (9, Step::Listed),
            (9, loaded(0x5000)),
        ];
        let events = events.into_iter().map(|(ns, step)| (ns, 1, step)).collect();
        let mappings = Mappings::with_events(&[], events);
        for (ns, expected) in [
            (2, &[0x1000, 0x2000][..]),
            (4, &[0x1000, 0x2000, 0x3000]),
            (5, &[0x1000, 0x2000]),
            (6, &[0x1000]),
            (7, &[0x5000]),
            (9, &[0x5000]),
        ] {
            let map = mappings.at(1, ns);
            assert_eq!(Vec::from_iter(map.loaded.keys().copied()), expected, "{ns}");
        }
        assert_eq!((mappings.begin_ns(1, 6), mappings.begin_ns(1, 9)), (None, Some(7)));
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

    /// In a second and not in minutes, or the test takes for ever.
    #[test]
    fn many_mappings_of_a_process_are_looked_through_once() {
        const COUNT: u64 = 300_000;
        let changes: Vec<_> = (0..COUNT)
            .map(|number| (number as i64, mapped(1, "/a", (number + 1) << 12, 0x1000)))
            .collect();
        let mappings = mappings(&changes);
        assert_eq!(mappings.at(1, i64::MAX).mapped.len() as u64, COUNT);
        for _ in 0..1000 {
            assert_eq!(mappings.at(1, i64::MAX).mapped.len() as u64, COUNT);
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
    fn a_file_belongs_to_the_domains_beside_it() {
        for (trace, expected) in [
            ("/t/kernel", Some("/t/mappings.jsonl")),
            ("/t/user", Some("/t/mappings.jsonl")),
            ("/t/snapshot-1/kernel", Some("/t/snapshot-1/mappings.jsonl")),
            ("/t/archives/1/kernel", Some("/t/archives/1/mappings.jsonl")),
            ("/t/kernel-mono", Some("/t/mappings.jsonl")),
            ("/t/other", None),
            ("/t", None),
            ("/", None),
        ] {
            assert_eq!(
                path(Path::new(trace), FILE_NAME),
                expected.map(PathBuf::from),
                "{trace}"
            );
        }
    }
}
