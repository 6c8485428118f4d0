// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines about mappings, in the order in which they are written: what is mapped already, then what changes. A session's file has only what
//! the session's owner can read.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem;
use std::path::Path;

use piste_kernel::spec::Tracked;
use piste_mappings::{Change, Line, Mapped};

use super::now_ns;
use super::present::Present;
use super::rings::Rings;
use crate::person::Person;

/// Of changes, so much is kept in memory before what is mapped is read anew, and once more of what came before.
const KEPT_BYTES: usize = 4 << 20;

/// What is recorded.
pub(super) struct Log {
    to: To,
    /// Lines that are not written yet.
    pending: Vec<u8>,
    present: Present,
    /// Only of these processes.
    only: Option<Only>,
    /// Lines that may have to come after others that are still to be read.
    held: Vec<Line>,
    /// When the rings began to be emptied for the last time.
    emptied_ns: i64,
}

/// Where the lines go.
pub(super) enum To {
    /// Into a file of this person's.
    File {
        file: File,
        owner: Person,
        /// It has lines from an earlier time.
        is_old: bool,
    },
    /// Into memory.
    Memory {
        /// Up to the last but one time that what is mapped was read.
        earlier: Vec<u8>,
        latest: Vec<u8>,
        /// Where what is mapped ends in it.
        present_bytes: usize,
    },
}

/// The processes that are recorded.
struct Only {
    pids: HashSet<i32>,
    /// What they start joins them.
    follow: bool,
}

impl Only {
    /// `None` means all processes, also where more than process IDs is tracked: the processes of a user, for example, are not known here.
    fn of(tracked: &Tracked) -> Option<Only> {
        let whole = Tracked {
            pids: tracked.pids.clone(),
            cpus: tracked.cpus.clone(),
            follow_children: tracked.follow_children,
            nobody: tracked.nobody,
            ..Tracked::default()
        };
        (*tracked == whole && (tracked.nobody || !tracked.pids.is_empty())).then(|| Only {
            pids: tracked.pids.iter().map(|pid| pid.cast_signed()).collect(),
            follow: tracked.follow_children,
        })
    }
}

impl To {
    /// A file, behind the lines that it has.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn file(owner: &Person, path: &Path) -> io::Result<To> {
        let mut file = owner.open(path, OpenOptions::new().read(true).append(true).create(true))?;
        let is_old = file.metadata()?.len() > 0;
        if is_old {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                // Whoever wrote it was killed.
                let _as_owner = owner.enter()?;
                file.write_all(b"\n")?;
            }
        }
        let owner = owner.clone();
        Ok(To::File { file, owner, is_old })
    }

    pub(super) fn memory() -> To {
        To::Memory {
            earlier: Vec::new(),
            latest: Vec::new(),
            present_bytes: 0,
        }
    }

    /// Prepares for reading all mappings again. Memory then forgets the lines from before the previous time.
    fn begin_again(&mut self) {
        match self {
            To::File { is_old, .. } => *is_old = true,
            To::Memory { earlier, latest, .. } => *earlier = mem::take(latest),
        }
    }

    /// Nothing is known yet of the processes that are looked at.
    fn is_new(&self) -> bool {
        match self {
            To::File { is_old, .. } => !is_old,
            To::Memory { earlier, .. } => earlier.is_empty(),
        }
    }
}

impl Log {
    pub(super) fn new(to: To, present: Present, tracked: &Tracked) -> Log {
        Log {
            to,
            pending: Vec::new(),
            present,
            only: Only::of(tracked),
            held: Vec::new(),
            emptied_ns: i64::MIN,
        }
    }

    /// Writes what is mapped already. What processes map, start or become while they are looked at is in the rings, and must come after it: so all
    /// of it has a time before the rings were opened. There may be many processes, so the rings are emptied meanwhile.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn begin(&mut self, begun_ns: i64, is_lost: bool, rings: &mut Rings) -> io::Result<()> {
        if is_lost || rings.are_missing() {
            self.add(Change::Lost, begun_ns);
        }
        let is_new = self.to.is_new();
        for pid in self.pids() {
            let present = self.present.of(pid);
            if !is_new && !present.is_empty() {
                // What is known of it is out of date.
                self.add(Change::Executed { pid }, begun_ns);
            }
            for mapped in present {
                self.add(Change::Mapped(mapped), begun_ns);
            }
            self.take(rings, false)?;
        }
        self.write()?;
        if let To::Memory {
            latest, present_bytes, ..
        } = &mut self.to
        {
            *present_bytes = latest.len();
        }
        Ok(())
    }

    /// Starts again with the current mappings.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn begin_again(&mut self, rings: &mut Rings) -> io::Result<()> {
        self.to.begin_again();
        self.begin(now_ns(), false, rings)
    }

    /// Continues in another file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn move_on(&mut self, to: To, rings: &mut Rings) -> io::Result<()> {
        self.to = to;
        self.begin(now_ns(), false, rings)
    }

    /// Records other processes from now on.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn track(&mut self, tracked: &Tracked, rings: &mut Rings) -> io::Result<()> {
        self.only = Only::of(tracked);
        self.begin_again(rings)
    }

    /// More is kept in memory than is needed.
    pub(super) fn is_long(&self) -> bool {
        match &self.to {
            To::File { .. } => false,
            To::Memory {
                latest, present_bytes, ..
            } => latest.len() > present_bytes + KEPT_BYTES,
        }
    }

    /// What is kept in memory.
    pub(super) fn kept(&self) -> [&[u8]; 2] {
        match &self.to {
            To::File { .. } => [b"", b""],
            To::Memory { earlier, latest, .. } => [earlier, latest],
        }
    }

    /// Writes what the rings have, in the order of time.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn empty(&mut self, rings: &mut Rings, is_last: bool) -> io::Result<()> {
        self.present.forget_files();
        self.take(rings, is_last)
    }

    /// Takes what the rings have; it is written later.
    pub(super) fn hold(&mut self, rings: &mut Rings) {
        let lines = rings.take().into_iter().filter_map(self.present.permits());
        self.held.extend(lines);
    }

    fn take(&mut self, rings: &mut Rings, is_last: bool) -> io::Result<()> {
        let begun_ns = now_ns();
        self.hold(rings);
        if is_last && rings.have_lost() {
            let change = Change::Lost;
            let time_ns = now_ns();
            self.held.push(Line { time_ns, change });
        }
        for line in self.ripe(begun_ns, is_last) {
            if self.wants(&line.change) {
                self.add(line.change, line.time_ns);
            }
        }
        self.write()
    }

    /// The lines before which none can be missing, in the order of time. A process may start and map something while the rings are emptied one
    /// after the other: what it maps is then found in one ring, and only the next time, in another one, that it has started. So lines wait
    /// until the rings have been emptied once more.
    fn ripe(&mut self, begun_ns: i64, is_last: bool) -> Vec<Line> {
        let mut lines = mem::take(&mut self.held);
        lines.sort_by_key(|line| line.time_ns);
        if !is_last {
            let ripe = lines.partition_point(|line| line.time_ns < self.emptied_ns);
            self.held = lines.split_off(ripe);
        }
        self.emptied_ns = begun_ns;
        lines
    }

    fn wants(&mut self, change: &Change) -> bool {
        let Some(Only { pids, follow }) = &mut self.only else {
            return true;
        };
        match change {
            Change::Mapped(Mapped { pid, .. }) | Change::Executed { pid } => pids.contains(pid),
            Change::Forked { pid, parent_pid } if *follow && pids.contains(parent_pid) => {
                pids.insert(*pid);
                true
            }
            // Of one that has ended, another process has the number now.
            Change::Forked { pid, .. } => {
                pids.remove(pid);
                false
            }
            Change::Lost => true,
        }
    }

    fn add(&mut self, change: Change, time_ns: i64) {
        let line = Line { time_ns, change };
        serde_json::to_writer(&mut self.pending, &line).expect("a line is JSON");
        self.pending.push(b'\n');
    }

    fn write(&mut self) -> io::Result<()> {
        let mut lines = mem::take(&mut self.pending);
        match &mut self.to {
            To::File { .. } if lines.is_empty() => Ok(()),
            To::File { file, owner, .. } => {
                let _as_owner = owner.enter()?;
                file.write_all(&lines)
            }
            To::Memory { latest, .. } => {
                latest.append(&mut lines);
                Ok(())
            }
        }
    }

    /// The processes to look at.
    fn pids(&self) -> Vec<i32> {
        if let Some(Only { pids, .. }) = &self.only {
            return pids.iter().copied().collect();
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(only: &[u32]) -> Log {
        let tracked = Tracked {
            pids: only.to_vec(),
            follow_children: true,
            ..Tracked::default()
        };
        Log::new(To::memory(), Present::new(Person::default()), &tracked)
    }

    fn mapped(pid: i32) -> Change {
        Change::Mapped(Mapped {
            pid,
            path: "/lib/a".to_owned(),
            address: 0x1000,
            bytes: 0x1000,
            file_offset: 0,
            build_id: String::new(),
        })
    }

    #[test]
    fn what_a_new_process_maps_waits_until_it_is_known_to_have_started() {
        let mut log = log(&[1]);
        let line = |time_ns, change| Line { time_ns, change };
        let (fork, map) = (line(10, Change::Forked { pid: 2, parent_pid: 1 }), line(11, mapped(2)));
        let mut ripe = |new: Option<&Line>, begun_ns, is_last| {
            log.held.extend(new.cloned());
            log.ripe(begun_ns, is_last)
        };
        // The ring of the CPU of the fork was emptied just before it.
        assert_eq!(ripe(Some(&map), 9, false), []);
        assert_eq!(ripe(Some(&fork), 20, false), []);
        let last = line(25, mapped(1));
        assert_eq!(ripe(Some(&last), 30, false), [fork, map]);
        assert_eq!(ripe(None, 40, true), [last]);
    }

    #[test]
    fn only_processes_that_were_chosen_and_what_they_start_are_wanted() {
        let mut log = log(&[1]);
        let forked = |pid, parent_pid| Change::Forked { pid, parent_pid };
        for (change, expected) in [
            (mapped(1), true),
            (mapped(2), false),
            (forked(2, 1), true),
            (mapped(2), true),
            (forked(3, 2), true),
            (Change::Executed { pid: 3 }, true),
            (forked(4, 9), false),
            // The numbers come again.
            (forked(3, 1), true),
            (forked(2, 9), false),
            (mapped(2), false),
            (Change::Lost, true),
        ] {
            assert_eq!(log.wants(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn what_is_kept_in_memory_is_forgotten_once_it_was_kept_twice() {
        let tracked = Tracked {
            // There is no such process.
            pids: vec![i32::MAX as u32],
            ..Tracked::default()
        };
        let mut log = Log::new(To::memory(), Present::new(Person::default()), &tracked);
        let mut rings = Rings::none();
        log.begin(1, true, &mut rings).unwrap();
        for round in 0..3 {
            assert!(!log.is_long());
            while !log.is_long() {
                log.add(mapped(round), 2);
                log.write().unwrap();
            }
            log.begin_again(&mut rings).unwrap();
            let [of_round, latest] = log.kept().map(|lines| -> Vec<i32> {
                let lines = lines.split(|byte| *byte == b'\n');
                let mapped = lines.filter_map(|line| match serde_json::from_slice::<Line>(line).ok()?.change {
                    Change::Mapped(mapped) => Some(mapped.pid),
                    _ => None,
                });
                mapped.collect()
            });
            assert!(latest.is_empty() && of_round.len() > 10_000 && of_round.iter().all(|pid| *pid == round));
        }
    }

    #[test]
    fn a_file_goes_on_behind_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mappings.jsonl");
        let own = std::process::id();
        let tracked = Tracked {
            pids: vec![own],
            ..Tracked::default()
        };
        let begin = || {
            let to = To::file(&Person::default(), &path).unwrap();
            let mut log = Log::new(to, Present::new(Person::default()), &tracked);
            log.begin(1, false, &mut Rings::none()).unwrap();
            fs::read_to_string(&path).unwrap()
        };
        let first = begin();
        let executed = format!("{{\"time_ns\":\"1\",\"event\":\"executed\",\"pid\":{own}}}\n");
        assert!(first.contains("mapped") && !first.contains(&executed), "{first}");
        // Without rings, changes are missing.
        let (lost, present) = first.split_once('\n').unwrap();
        assert!(lost.contains("lost") && !present.contains("lost"), "{first}");
        fs::write(&path, format!("{first}{{\"time")).unwrap();
        // A line that was cut off stays one line.
        assert_eq!(begin(), format!("{first}{{\"time\n{lost}\n{executed}{present}"));
    }
}
