// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which programs and libraries are mapped where while `piste record` records the kernel; why, ARCHITECTURE.md says. The file is that of
//! crates/modelling/src/mappings.rs. The kernel reports changes in perf events, which have a ring for each CPU; what was mapped before is read from
//! /proc ([`present`]).

mod present;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::mem;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, ReadFormat, SampleFlag, Sampler};
use piste_modelling::mappings::{Change, FILE_NAME, Line, Mapped};
use piste_trace::privacy;

use self::present::Present;

/// How often the rings are emptied. In that time, a CPU cannot start so many programs that its ring is full.
const INTERVAL: Duration = Duration::from_millis(100);
/// Of each CPU.
const RING_BYTES: usize = 64 << 10;
/// A process has changed its name because it has become another program.
const COMM_EXEC: u16 = 1 << 13;

/// Whose mappings are recorded.
pub(crate) enum Whose {
    /// Of every process.
    Everyone,
    /// Of these and what they start.
    Processes(Vec<u32>),
    /// Of a process that has not begun to run its command, and what it starts.
    Command(u32),
}

/// A thread that records mappings.
pub(crate) struct MappingRecorder {
    /// Dropped to end it.
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl MappingRecorder {
    /// Begins, in the folder of a recording. `None` when the kernel does not tell, or the folder cannot be written: the trace has everything
    /// else, and addresses in it have no names.
    pub(crate) fn begin(whose: &Whose, folder: &Path) -> Option<MappingRecorder> {
        let begun_ns = now_ns();
        let rings = open_rings(whose);
        if rings.is_err() && matches!(whose, Whose::Command(_)) {
            return None;
        }
        let file = privacy::file()
            .write(true)
            .create_new(true)
            .open(folder.join(FILE_NAME))
            .ok()?;
        let mut log = Log {
            file: BufWriter::new(file),
            only: match whose {
                Whose::Processes(pids) => Some(pids.iter().map(|pid| pid.cast_signed()).collect()),
                _ => None,
            },
            held: Vec::new(),
            emptied_ns: i64::MIN,
        };
        if rings.is_err() {
            log.write(Change::Lost, begun_ns).ok()?;
        }
        let mut rings = rings.unwrap_or_default();
        log.write_present(whose, begun_ns, &mut rings).ok()?;
        let (end, ended) = channel();
        let thread = thread::spawn(move || record(rings, log, &ended));
        Some(MappingRecorder { end, thread })
    }

    /// Ends when everything up to now is written.
    pub(crate) fn end(self) {
        drop(self.end);
        // A thread that panicked has said so.
        let _ = self.thread.join();
    }
}

/// Writes what the kernel tells until it is to end. A disk that is full ends it early.
fn record(mut rings: Vec<Sampler>, mut log: Log, ended: &Receiver<()>) {
    loop {
        let is_last = ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
        if log.empty(&mut rings, is_last).is_err() || is_last {
            return;
        }
    }
}

/// The rings of all CPUs.
fn open_rings(whose: &Whose) -> io::Result<Vec<Sampler>> {
    let mut rings = Vec::new();
    for cpu in 0..cpu_count() {
        let mut ring = Err(io::ErrorKind::Unsupported.into());
        for offered in OFFERED {
            ring = ring.or_else(|_| open_ring(whose, cpu, offered));
        }
        match ring {
            Ok(ring) => rings.push(ring),
            // It is offline.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

/// What only newer kernels offer.
#[derive(Clone, Copy)]
struct Offer {
    /// Since 5.12.
    build_ids: bool,
    /// Since 6.0: how many records did not fit into the ring. Records of loss say so as well, but come with the next record that fits.
    lost: bool,
}

/// The newest first.
const OFFERED: [Offer; 3] = [
    Offer {
        build_ids: true,
        lost: true,
    },
    Offer {
        build_ids: true,
        lost: false,
    },
    Offer {
        build_ids: false,
        lost: false,
    },
];

fn open_ring(whose: &Whose, cpu: usize, offered: Offer) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    match whose {
        Whose::Command(pid) => builder.observe_pid(pid.cast_signed()).inherit(true),
        Whose::Everyone | Whose::Processes(_) => builder.any_pid(),
    };
    builder
        .one_cpu(cpu)
        .mmap(true)
        .mmap2(true)
        .build_id(offered.build_ids)
        .comm(true)
        .comm_exec(true)
        .task(true)
        .sample_id_all(true)
        .sample(SampleFlag::TIME)
        .clockid(Clock::REALTIME)
        .enabled(true);
    if offered.lost {
        builder.read_format(ReadFormat::LOST);
    }
    builder.build()?.sampled(RING_BYTES)
}

/// How many CPUs there may be: the last number of `0-7`.
fn cpu_count() -> usize {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok());
    last.map_or(1, |last: usize| last + 1)
}

/// The file that is written.
struct Log {
    file: BufWriter<File>,
    /// Only of these processes; what they start joins them.
    only: Option<HashSet<i32>>,
    /// Lines that may have to come after others that are still to be read.
    held: Vec<Line>,
    /// When the rings began to be emptied for the last time.
    emptied_ns: i64,
}

impl Log {
    /// Writes what the rings have, in the order of time.
    fn empty(&mut self, rings: &mut [Sampler], is_last: bool) -> io::Result<()> {
        let begun_ns = now_ns();
        let mut lines = Vec::new();
        for ring in &mut *rings {
            while let Some(record) = ring.next_record() {
                lines.extend(line(&record));
            }
        }
        if is_last && rings.iter_mut().any(has_lost) {
            lines.push(Line {
                time_ns: now_ns(),
                change: Change::Lost,
            });
        }
        for line in self.ripe(lines, begun_ns, is_last) {
            if self.wants(&line.change) {
                self.write(line.change, line.time_ns)?;
            }
        }
        self.file.flush()
    }

    /// The lines before which none can be missing, in the order of time. A process may start and map something while the rings are emptied one
    /// after the other: what it maps is then found in one ring, and only the next time, in another one, that it has started. So lines wait
    /// until the rings have been emptied once more.
    fn ripe(&mut self, new: Vec<Line>, begun_ns: i64, is_last: bool) -> Vec<Line> {
        let mut lines = mem::take(&mut self.held);
        lines.extend(new);
        lines.sort_by_key(|line| line.time_ns);
        if !is_last {
            let ripe = lines.partition_point(|line| line.time_ns < self.emptied_ns);
            self.held = lines.split_off(ripe);
        }
        self.emptied_ns = begun_ns;
        lines
    }

    fn wants(&mut self, change: &Change) -> bool {
        let Some(only) = &mut self.only else { return true };
        match change {
            Change::Mapped(Mapped { pid, .. }) | Change::Executed { pid } => only.contains(pid),
            Change::Forked { pid, parent_pid } if only.contains(parent_pid) => {
                only.insert(*pid);
                true
            }
            // Of one that has ended, another process has the number now.
            Change::Forked { pid, .. } => {
                only.remove(pid);
                false
            }
            Change::Lost => true,
        }
    }

    fn write(&mut self, change: Change, time_ns: i64) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, &Line { time_ns, change })?;
        self.file.write_all(b"\n")
    }

    /// Writes what is mapped already. What processes map, start or become while they are looked at is in the rings, and must come after it: so all
    /// of it has a time before the rings were opened. There may be many processes, so the rings are emptied meanwhile.
    fn write_present(&mut self, whose: &Whose, begun_ns: i64, rings: &mut [Sampler]) -> io::Result<()> {
        let pids: Vec<i32> = match whose {
            Whose::Command(_) => Vec::new(),
            Whose::Processes(pids) => pids.iter().map(|pid| pid.cast_signed()).collect(),
            Whose::Everyone => {
                let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
                names.filter_map(|name| name.to_str()?.parse().ok()).collect()
            }
        };
        let mut present = Present::default();
        for pid in pids {
            for mapped in present.of(pid) {
                self.write(Change::Mapped(mapped), begun_ns)?;
            }
            self.empty(rings, false)?;
        }
        self.file.flush()
    }
}

fn has_lost(ring: &mut Sampler) -> bool {
    let read = ring.as_counter_mut().read_full();
    read.is_ok_and(|read| read.lost().is_some_and(|lost| lost > 0))
}

/// What a record of the kernel says, if it matters here.
fn line(record: &perf_event::Record<'_>) -> Option<Line> {
    let bytes = record.to_contiguous();
    // The kernel adds the time to every record.
    let time_ns = i64::from_ne_bytes(*bytes.last_chunk()?);
    let change = match record.parse_record() {
        Ok(Record::Mmap2(mapped)) => Change::Mapped(Mapped {
            pid: mapped.pid.cast_signed(),
            path: String::from_utf8_lossy(&mapped.filename).into(),
            address: mapped.addr,
            bytes: mapped.len,
            file_offset: mapped.pgoff,
            build_id: digits(mapped.build_id().unwrap_or_default()),
        }),
        Ok(Record::Comm(comm)) if record.misc() & COMM_EXEC != 0 => Change::Executed {
            pid: comm.pid.cast_signed(),
        },
        Ok(Record::Fork(fork)) if fork.pid != fork.ppid => Change::Forked {
            pid: fork.pid.cast_signed(),
            parent_pid: fork.ppid.cast_signed(),
        },
        Ok(Record::Lost(_)) | Err(_) => Change::Lost,
        Ok(_) => return None,
    };
    Some(Line { time_ns, change })
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(only: &[i32]) -> Log {
        Log {
            file: BufWriter::new(tempfile::tempfile().unwrap()),
            only: Some(only.iter().copied().collect()),
            held: Vec::new(),
            emptied_ns: i64::MIN,
        }
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
        // The ring of the CPU of the fork was emptied just before it.
        assert_eq!(log.ripe(vec![map.clone()], 9, false), []);
        assert_eq!(log.ripe(vec![fork.clone()], 20, false), []);
        let last = line(25, mapped(1));
        assert_eq!(log.ripe(vec![last.clone()], 30, false), [fork, map]);
        assert_eq!(log.ripe(vec![], 40, true), [last]);
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
}
