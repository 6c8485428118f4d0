// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which programs and libraries are mapped where while `piste record` records the kernel, so that addresses in the trace can be named
//! later: the kernel's events have addresses only, and processes are gone when somebody looks. The file is that of
//! crates/ground/src/mappings.rs.
//!
//! The kernel tells by perf events, one for each CPU: of a command, those that its process and everything it starts inherit, which anybody may
//! open; of other processes, those of the whole system, which only root may. What was mapped before is read from /proc.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use piste_ground::mappings::{Change, FILE_NAME, Line, Mapped};
use piste_trace::privacy;

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
        };
        if rings.is_err() {
            log.write(Change::Lost, now_ns()).ok()?;
        }
        let rings = rings.unwrap_or_default();
        log.write_present(whose).ok()?;
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
        if log.empty(&mut rings).is_err() || is_last {
            return;
        }
    }
}

/// The rings of all CPUs.
fn open_rings(whose: &Whose) -> io::Result<Vec<Sampler>> {
    let mut rings = Vec::new();
    for cpu in 0..cpu_count() {
        // Kernels before 5.12 cannot tell build ids.
        let ring = open_ring(whose, cpu, true).or_else(|_| open_ring(whose, cpu, false));
        match ring {
            Ok(ring) => rings.push(ring),
            // It is offline.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

fn open_ring(whose: &Whose, cpu: usize, with_build_ids: bool) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    match whose {
        Whose::Command(pid) => builder.observe_pid(pid.cast_signed()).inherit(true),
        Whose::Everyone | Whose::Processes(_) => builder.any_pid(),
    };
    builder
        .one_cpu(cpu)
        .mmap(true)
        .mmap2(true)
        .build_id(with_build_ids)
        .comm(true)
        .comm_exec(true)
        .task(true)
        .sample_id_all(true)
        .sample(SampleFlag::TIME)
        .clockid(Clock::REALTIME)
        .enabled(true);
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
}

impl Log {
    /// Writes everything that the rings have, in the order of time.
    fn empty(&mut self, rings: &mut [Sampler]) -> io::Result<()> {
        let mut lines = Vec::new();
        for ring in rings {
            while let Some(record) = ring.next_record() {
                lines.extend(line(&record));
            }
        }
        lines.sort_by_key(|line| line.time_ns);
        for line in lines {
            if self.wants(&line.change) {
                self.write(line.change, line.time_ns)?;
            }
        }
        self.file.flush()
    }

    fn wants(&mut self, change: &Change) -> bool {
        let Some(only) = &mut self.only else { return true };
        match change {
            Change::Mapped(Mapped { pid, .. }) | Change::Executed { pid } => only.contains(pid),
            Change::Forked { pid, parent_pid } => only.contains(parent_pid) && only.insert(*pid),
            Change::Lost => true,
        }
    }

    fn write(&mut self, change: Change, time_ns: i64) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, &Line { time_ns, change })?;
        self.file.write_all(b"\n")
    }

    /// Writes what is mapped already.
    fn write_present(&mut self, whose: &Whose) -> io::Result<()> {
        let pids: Vec<i32> = match whose {
            Whose::Command(_) => Vec::new(),
            Whose::Processes(pids) => pids.iter().map(|pid| pid.cast_signed()).collect(),
            Whose::Everyone => {
                let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
                names.filter_map(|name| name.to_str()?.parse().ok()).collect()
            }
        };
        for pid in pids {
            // A process that has ended meanwhile has none.
            let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let maps = String::from_utf8_lossy(&maps);
            for mapped in maps.lines().filter_map(|line| present(pid, line)) {
                self.write(Change::Mapped(mapped), now_ns())?;
            }
        }
        self.file.flush()
    }
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

/// A line of /proc/PID/maps about code: `BEGIN-END r-xp OFFSET DEVICE INODE PATH`.
fn present(pid: i32, line: &str) -> Option<Mapped> {
    let mut words = line.splitn(6, ' ');
    let (begin, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.as_bytes().get(2) == Some(&b'x');
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let (begin, end, file_offset) = (number(begin)?, number(end)?, number(words.next()?)?);
    let path = words.nth(2)?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    (is_code && !path.is_empty()).then(|| Mapped {
        pid,
        path: path.to_owned(),
        address: begin,
        bytes: end.saturating_sub(begin),
        file_offset,
        build_id: String::new(),
    })
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

    #[test]
    fn lines_of_maps_about_code_are_read() {
        let read =
            |line| present(7, line).map(|mapped| (mapped.address, mapped.bytes, mapped.file_offset, mapped.path));
        for (line, expected) in [
            (
                "0041f000-00420000 r-xp 0001f000 fe:00 12345                      /usr/bin/a b",
                Some((0x41f000, 0x1000, 0x1f000, "/usr/bin/a b".to_owned())),
            ),
            (
                "7f00-7f10 r-xp 00000000 00:00 0                          [vdso]",
                Some((0x7f00, 0x10, 0, "[vdso]".to_owned())),
            ),
            ("7f00-7f10 r--p 00000000 fe:00 1 /usr/bin/a", None),
            ("7f00-7f10 rwxp 00000000 00:00 0 ", None),
            ("7f00-7f10 r-xp", None),
            ("", None),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
