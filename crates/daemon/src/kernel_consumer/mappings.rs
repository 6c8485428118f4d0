// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which programs and libraries are mapped where while a session records the kernel; why, ARCHITECTURE.md says. The lines are those of
//! crates/mappings.
//!
//! A thread of the session does it. The kernel reports changes in perf events (mappings/rings.rs); what was mapped before is read from /proc
//! (mappings/present.rs). The lines go to a file beside the kernel's part of the trace, or, in a flight recorder, into memory until a snapshot
//! (mappings/log.rs).
//!
//! Where events have the kernel's stacks, a file beside it has the kernel's symbols (mappings/kernel_symbols.rs).

mod kernel_symbols;
mod log;
mod present;
mod rings;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use piste_kernel::spec::Tracked;
use piste_kernel::tracked::Hiding;
use piste_mappings::{FILE_NAME, KERNEL_SYMBOLS};
use rustix::thread::gettid;

use self::kernel_symbols::KernelSymbols;
use self::log::{Log, To};
use self::present::Present;
use self::rings::Rings;
use crate::busy::AtFiles;
use crate::person::{Output, Person};

/// How often the rings are emptied. In that time, a CPU starts a hundred programs at most, and these fill a fifth of its ring.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long a session waits for the last lines of a file. The disk may hang, and so may reading a process's files in /proc.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the thread waits until it is left out: tracefs may hang. Until then, changes are held in memory.
const HIDING_MAX: Duration = Duration::from_secs(4);

/// What is to be recorded.
pub(super) struct Wanted<'a> {
    /// Whose the trace is: it has what this person can read in /proc.
    pub(super) owner: &'a Person,
    pub(super) tracked: &'a Tracked,
    /// An earlier consumer recorded until it ended: what happened since is missing.
    pub(super) is_continued: bool,
    /// Where the thread is to be left out.
    pub(super) hidings: Vec<Hiding>,
}

/// A thread that records mappings.
pub(super) struct MappingRecorder {
    /// Dropped to end it.
    asks: Sender<Ask>,
    /// Disconnected once the thread has written its last lines.
    ended: Receiver<()>,
    /// The file of the previous chunk, while the thread still writes it.
    before: Option<Writing>,
}

/// What the thread does next, once it has written everything up to now. Then it drops the sender.
enum Ask {
    /// Write the lines kept in memory.
    Snapshot(Output, Sender<()>),
    /// Continue in the file of the next chunk, in this folder.
    MoveOn(To, PathBuf, Sender<()>),
    /// Record other processes from now on.
    Track(Tracked),
    /// Write the kernel's symbols too.
    NameKernel,
}

/// What the thread has.
struct Work {
    log: Log,
    rings: Rings,
    symbols: KernelSymbols,
}

/// Lines that are being written.
pub(super) struct Writing {
    ended: Receiver<()>,
    since: Instant,
}

impl MappingRecorder {
    /// Begins, in the folder of a recording. `None` when it cannot be written: the trace has everything else, and addresses in it have no names.
    pub(super) fn begin(wanted: Wanted<'_>, folder: &Path) -> Option<MappingRecorder> {
        let to = To::file(wanted.owner, &folder.join(FILE_NAME)).ok()?;
        Self::start(wanted, to, Some(folder.to_owned()))
    }

    /// Begins to keep in memory what snapshots will have.
    pub(super) fn keep(wanted: Wanted<'_>) -> Option<MappingRecorder> {
        Self::start(wanted, To::memory(), None)
    }

    fn start(wanted: Wanted<'_>, to: To, folder: Option<PathBuf>) -> Option<MappingRecorder> {
        let begun_ns = now_ns();
        let mut work = Work {
            rings: Rings::open().unwrap_or_else(|_| Rings::none()),
            log: Log::new(to, Present::new(wanted.owner.clone()), wanted.tracked),
            symbols: KernelSymbols::new(wanted.owner.clone(), folder),
        };
        let (asks, asked) = channel();
        let (end, ended) = channel();
        let (hidings, is_continued) = (wanted.hidings, wanted.is_continued);
        let record = move || {
            let hidden = hide_own_thread(hidings);
            let since = Instant::now();
            while since.elapsed() < HIDING_MAX && hidden.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                work.log.hold(&mut work.rings);
            }
            // A disk that is full ends it early.
            let _ = work
                .log
                .begin(begun_ns, is_continued, &mut work.rings)
                .and_then(|()| work.record(&asked));
            drop(end);
        };
        thread::Builder::new()
            .name("pisted-mappings".into())
            .spawn(record)
            .ok()?;
        let before = None;
        Some(MappingRecorder { asks, ended, before })
    }

    /// Continues in the folder of the next chunk. Returns false if it cannot, because the thread has ended early.
    pub(super) fn move_on(&mut self, owner: &Person, folder: &Path) -> bool {
        // A thread that hangs keeps its file.
        if self.before.as_ref().is_some_and(|before| !before.has_ended()) {
            return true;
        }
        let Ok(to) = To::file(owner, &folder.join(FILE_NAME)) else {
            return false;
        };
        let (end, ended) = channel();
        self.before = Some(Writing::new(ended));
        self.asks.send(Ask::MoveOn(to, folder.to_owned(), end)).is_ok()
    }

    /// Whether the file of the previous chunk is complete, or has taken too long.
    pub(super) fn has_moved_on(&self) -> bool {
        self.before.as_ref().is_none_or(Writing::is_over)
    }

    /// Records other processes from now on.
    pub(super) fn track(&self, tracked: Tracked) {
        // A thread that has ended early records nothing more.
        let _ = self.asks.send(Ask::Track(tracked));
    }

    /// Writes the kernel's symbols too, from now on.
    pub(super) fn name_kernel(&self) {
        let _ = self.asks.send(Ask::NameKernel);
    }

    /// Ends when everything up to now is written.
    pub(super) fn end(self) {
        let _at_files = AtFiles::begin();
        drop(self.asks);
        let _ = self.ended.recv_timeout(PATIENCE);
    }

    /// Begins to write what is kept to the folder of a snapshot.
    pub(super) fn write(&self, output: Output) -> Writing {
        let (end, ended) = channel();
        // A thread that has ended early has no lines.
        let _ = self.asks.send(Ask::Snapshot(output, end));
        Writing::new(ended)
    }
}

impl Writing {
    fn new(ended: Receiver<()>) -> Writing {
        let since = Instant::now();
        Writing { ended, since }
    }

    fn has_ended(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Whether the lines are written, or have taken too long.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended() || self.since.elapsed() >= PATIENCE
    }
}

/// Moves the files of a recording with the chunk that ends.
pub(super) fn move_to(chunk: &Path, folder: &Path, owner: &Person) {
    if let Ok(_as_owner) = owner.enter() {
        for name in [FILE_NAME, KERNEL_SYMBOLS] {
            // Where it stays, it is that of all chunks.
            let _ = fs::rename(folder.join(name), chunk.join(name));
        }
    }
}

/// Removes the files of a snapshot that came to nothing.
pub(super) fn remove(output: &Output) {
    if let Ok(_as_owner) = output.owner.enter() {
        for name in [FILE_NAME, KERNEL_SYMBOLS] {
            let _ = fs::remove_file(output.folder.join(name));
        }
    }
}

/// Leaves this thread out of what its session records. That may take long, while others use tracefs, so another thread does it; its sender is
/// dropped then.
fn hide_own_thread(hidings: Vec<Hiding>) -> Receiver<()> {
    let own_thread = gettid().as_raw_pid();
    let (end, ended) = channel();
    let hide = move || {
        hidings.iter().for_each(|hiding| hiding.hide(&[own_thread]));
        drop(end);
    };
    // Without it the trace has this thread too, which people see.
    let _ = thread::Builder::new().name("pisted-hiding".into()).spawn(hide);
    ended
}

impl Work {
    /// Records until nobody can ask for anything any more.
    ///
    /// # Errors
    /// The file of the lines cannot be written. Without that of the kernel's symbols, a trace has everything else.
    fn record(&mut self, asked: &Receiver<Ask>) -> io::Result<()> {
        loop {
            let Work { log, rings, symbols } = self;
            match asked.recv_timeout(INTERVAL) {
                Ok(Ask::Snapshot(output, end)) => {
                    log.empty(rings, true)?;
                    // A snapshot without it has everything else.
                    let _ = write(&output, &log.kept());
                    let _ = symbols.write(&output, &mut || log.hold(rings));
                    drop(end);
                }
                Ok(Ask::MoveOn(to, folder, end)) => {
                    // The next chunk may be on another disk.
                    let _ = log.empty(rings, true);
                    let list = symbols.end(&mut || log.hold(rings)).unwrap_or_default();
                    drop(end);
                    log.move_on(to, rings)?;
                    let _ = symbols.go_on(folder, &list, &mut || log.hold(rings));
                }
                Ok(Ask::Track(tracked)) => {
                    log.empty(rings, true)?;
                    log.track(&tracked, rings)?;
                }
                Ok(Ask::NameKernel) => {
                    let _ = symbols.want(&mut || log.hold(rings));
                }
                Err(RecvTimeoutError::Timeout) => log.empty(rings, false)?,
                Err(RecvTimeoutError::Disconnected) => {
                    log.empty(rings, true)?;
                    let _ = symbols.end(&mut || ());
                    return Ok(());
                }
            }
            if log.is_long() {
                log.begin_again(rings)?;
            }
        }
    }
}

fn write(output: &Output, parts: &[&[u8]]) -> io::Result<()> {
    let path: PathBuf = output.folder.join(FILE_NAME);
    output.owner.make_folder(&output.folder)?;
    let mut file = output
        .owner
        .open(&path, OpenOptions::new().write(true).create(true).truncate(true))?;
    let _as_owner = output.owner.enter()?;
    parts.iter().try_for_each(|part| io::Write::write_all(&mut file, part))
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
    use memmap2::MmapMut;
    use piste_mappings::{Change, Line};
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn what_is_mapped_while_others_use_tracefs_is_recorded() {
        const ROUNDS: usize = 150;
        const MAPPED: usize = 100;
        if let Err(error) = Rings::open() {
            println!("skipped: nobody tells here what is mapped: {error}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        // Nobody can open it until others do, as with a file of tracefs that others use: it is read, written, and read again.
        let list = folder.path().join("list");
        mkfifoat(CWD, &list, Mode::RWXU).unwrap();
        let pid = std::process::id();
        let tracked = Tracked {
            pids: vec![pid],
            ..Tracked::default()
        };
        let wanted = Wanted {
            owner: &Person::default(),
            tracked: &tracked,
            is_continued: false,
            hidings: vec![Hiding::at(list.clone())],
        };
        let recorder = MappingRecorder::begin(wanted, folder.path()).unwrap();
        // More than the rings have room for, but slowly.
        for _ in 0..ROUNDS {
            for _ in 0..MAPPED {
                drop(MmapMut::map_anon(4096).unwrap().make_exec().unwrap());
            }
            thread::sleep(Duration::from_millis(10));
        }
        let say_nothing = || drop(fs::OpenOptions::new().write(true).open(&list).unwrap());
        say_nothing();
        assert!(!fs::read(&list).unwrap().is_empty());
        say_nothing();
        recorder.end();
        let lines = fs::read_to_string(folder.path().join(FILE_NAME)).unwrap();
        let (mut mapped, mut lost) = (0, 0);
        for line in lines.lines() {
            match serde_json::from_str::<Line>(line).unwrap().change {
                Change::Mapped(told) if told.path == "//anon" => mapped += 1,
                Change::Lost => lost += 1,
                _ => {}
            }
        }
        assert_eq!((mapped, lost), (ROUNDS * MAPPED, 0));
    }
}
