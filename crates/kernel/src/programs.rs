// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads ran 32-bit programs, and when. ARCHITECTURE.md says why a tracefs instance of its own records it ("32-bit programs").
//!
//! `catch_up` reads the instance, and `history.rs` keeps the result, which is empty on most machines.
//!
//! Not recognized:
//! - 32-bit numbers that a 64-bit program uses (`int 0x80`): these calls get names from the 64-bit table;
//! - a program that ended before its exec was read, if its file was deleted or is not on this machine (piste_symbols::local);
//! - threads that had ended when a consumer took over from another one;
//! - what was lost because too many programs were started at once: then `take_is_unsure` returns true.

mod file;
mod history;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use piste_symbols::local::LocalFiles;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::catalog::Catalog;
use crate::format::{EventFormat, Location};
use crate::instance::{Instance, TraceClock};
use crate::owner::Owner;
use crate::page::{Lost, Page, PageLayout};
use crate::plan;
use crate::resolve::{self, ResolvedEvent};
use crate::spec::{Loss, Rule};
use crate::tracefs::{Tracefs, named};

use file::{is_compat_file, runs_compat};
use history::History;

/// The name of the instance among a session's channels. None of these can have it.
pub const CHANNEL: &str = "programs";

/// Exists if the kernel can run 32-bit programs of its architecture.
const COMPAT_FILE: &str = "/proc/sys/abi/vsyscall32";
/// Room for a few thousand programs on each CPU between two calls of `catch_up`.
const SUBBUF_BYTES: u32 = 4096;
const SUBBUF_COUNT: u32 = 32;
/// Limits `Programs::parents`, which grows with threads that never execute a program.
const PARENTS_MAX: usize = 1 << 16;

/// Tracks which threads run 32-bit programs.
#[derive(Debug)]
pub struct Programs {
    instance: Instance,
    rings: Vec<File>,
    pages: PageLayout,
    formats: Formats,
    page: Vec<u8>,
    /// The parents of threads that have executed nothing yet.
    parents: HashMap<i32, i32>,
    history: History,
    files: LocalFiles,
    /// Forks or execs were lost.
    lost_any: bool,
}

/// Offsets of the fields in the records of fork and exec.
#[derive(Debug)]
struct Formats {
    fork_id: u16,
    parent_from: u16,
    child_from: u16,
    exec_id: u16,
    tid_from: u16,
    filename_from: u16,
}

/// A fork or an exec, and the thread that did it.
#[derive(Debug)]
struct News {
    ticks: u64,
    tid: i32,
    what: What,
}

#[derive(Debug)]
enum What {
    Forked { child: i32 },
    Executed { path: PathBuf },
}

impl Programs {
    /// Whether these rules record system calls, and the kernel runs 32-bit programs.
    pub fn are_needed(rules: &[Rule], catalog: &Catalog) -> bool {
        let is_call = |event: &ResolvedEvent| match event {
            ResolvedEvent::Syscall { .. } => true,
            ResolvedEvent::Tracepoint { system, .. } => system == "raw_syscalls",
        };
        let records_calls = |rule: &Rule| resolve::rule(rule, catalog).is_ok_and(|events| events.iter().any(is_call));
        catalog.architecture().has_tables()
            && Path::new(COMPAT_FILE).exists()
            && rules.iter().filter(|rule| rule.enabled).any(records_calls)
    }

    /// Creates the instance, or opens the one that an earlier consumer of the session left behind, and starts to record.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn open(
        tracefs: &Tracefs,
        owner: &Owner,
        session: u64,
        clock: TraceClock,
        catalog: &Catalog,
        pages: PageLayout,
    ) -> io::Result<Programs> {
        let formats =
            Formats::of(catalog).ok_or_else(|| io::Error::other("this kernel does not report fork and exec"))?;
        let instance = Instance::create_or_open(tracefs, owner, session, CHANNEL)?;
        let opened = Programs::begin(instance.clone(), clock, pages, formats);
        if opened.is_err() {
            // Why it cannot be used is more than that it cannot be removed either.
            let _ = instance.remove();
        }
        opened
    }

    fn begin(instance: Instance, clock: TraceClock, pages: PageLayout, formats: Formats) -> io::Result<Programs> {
        instance.set_clock(clock)?;
        instance.set_ring(Loss::Overwrite, SUBBUF_BYTES, SUBBUF_COUNT)?;
        if instance.has("buffer_percent") {
            instance.write("buffer_percent", "0")?;
        }
        for event in ["sched_process_fork", "sched_process_exec"] {
            instance.write(format!("events/sched/{event}/enable"), "1")?;
        }
        instance.set_on(true)?;
        let rings: io::Result<Vec<File>> = instance.cpus()?.into_iter().map(|cpu| open(&instance, cpu)).collect();
        let mut programs = Programs {
            page: vec![0; instance.subbuf_bytes()? as usize],
            rings: rings?,
            instance,
            pages,
            formats,
            parents: HashMap::new(),
            history: History::default(),
            files: LocalFiles::new(),
            lost_any: false,
        };
        programs.history.note_living();
        Ok(programs)
    }

    /// Reads every fork and exec until now. Returns true if any thread has run a 32-bit program.
    pub fn catch_up(&mut self) -> bool {
        if self.has_news() {
            let mut news = self.news();
            news.sort_by_key(|new| new.ticks);
            let is_exec = |new: &News| matches!(new.what, What::Executed { .. });
            let execs = news.iter().enumerate().filter(|(_, new)| is_exec(new));
            let last_execs: HashMap<i32, usize> = execs.map(|(index, new)| (new.tid, index)).collect();
            for (index, new) in news.iter().enumerate() {
                self.learn(new, last_execs.get(&new.tid) == Some(&index));
            }
        }
        !self.history.is_empty()
    }

    /// Whether a thread ran a 32-bit program at this time, which `catch_up` must have reached.
    pub fn is_compat(&mut self, tid: i32, ticks: u64) -> bool {
        self.history.is_compat(tid, ticks)
    }

    /// Whether calls of 32-bit programs may have been taken for those of 64-bit ones since the last call of this.
    pub fn take_is_unsure(&mut self) -> bool {
        std::mem::take(&mut self.lost_any) | self.history.take_was_asked_too_late()
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn remove(&mut self) -> io::Result<()> {
        // An instance cannot be removed while one of its rings is open.
        self.rings.clear();
        self.instance.clone().remove()
    }

    fn has_news(&self) -> bool {
        let mut asked: Vec<PollFd<'_>> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn news(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        for ring in &self.rings {
            // Other threads may go on forking: read no more than a full ring.
            for _ in 0..=SUBBUF_COUNT {
                self.page[..self.pages.header_bytes()].fill(0);
                match rustix::io::read(ring, &mut self.page[..]) {
                    Ok(0) | Err(Errno::AGAIN | Errno::NODEV) => break,
                    Err(Errno::INTR) => continue,
                    Err(_) => break,
                    Ok(_) => {}
                }
                let Ok(page) = Page::parse(&self.pages, &self.page) else {
                    break;
                };
                self.lost_any |= page.lost() != Lost::None;
                if page.record_bytes() == 0 {
                    break;
                }
                let records = page.records();
                news.extend(records.filter_map(|record| self.formats.read(record.ticks, record.data)));
            }
        }
        news
    }

    /// The program of a thread's `is_last` exec is the one that the thread runs now.
    fn learn(&mut self, new: &News, is_last: bool) {
        match &new.what {
            What::Forked { child } => {
                if self.parents.len() >= PARENTS_MAX {
                    self.parents.clear();
                }
                self.parents.insert(*child, new.tid);
                let is_compat = self.history.is_compat(new.tid, new.ticks);
                self.history.note(*child, new.ticks, is_compat);
            }
            What::Executed { path } => {
                let parent = self.parents.remove(&new.tid);
                let is_compat = program_is_compat(&mut self.files, new.tid, parent, path, is_last);
                self.history.note(new.tid, new.ticks, is_compat);
            }
        }
    }
}

/// Whether a thread executed a 32-bit program. Looks at the program that it runs, if `is_running` says that it is the same, then at the file
/// that the thread, its parent or this process finds at the path.
fn program_is_compat(files: &mut LocalFiles, tid: i32, parent: Option<i32>, path: &Path, is_running: bool) -> bool {
    let running = is_running.then(|| runs_compat(tid)).flatten();
    let here = path.is_absolute().then_some(None);
    let mut seen_by = [Some(tid), parent].into_iter().flatten().map(Some).chain(here);
    let by_path = || seen_by.find_map(|pid| is_compat_file(files, pid, path));
    running.or_else(by_path).unwrap_or(false)
}

impl Formats {
    fn of(catalog: &Catalog) -> Option<Formats> {
        let fork = catalog.by_name("sched", "sched_process_fork").ok()?;
        let exec = catalog.by_name("sched", "sched_process_exec").ok()?;
        let from = |format: &EventFormat, name| u16::try_from(format.field(name)?.offset).ok();
        Some(Formats {
            fork_id: fork.id,
            parent_from: from(fork, "parent_pid")?,
            child_from: from(fork, "child_pid")?,
            exec_id: exec.id,
            tid_from: from(exec, "pid")?,
            filename_from: from(exec, "filename")?,
        })
    }

    fn read(&self, ticks: u64, record: &[u8]) -> Option<News> {
        let id = u16::from_le_bytes(*record.first_chunk()?);
        let int = |from: u16| Some(i32::from_le_bytes(*record.get(usize::from(from)..)?.first_chunk()?));
        if id == self.fork_id {
            let what = What::Forked {
                child: int(self.child_from)?,
            };
            let tid = int(self.parent_from)?;
            Some(News { ticks, tid, what })
        } else if id == self.exec_id {
            let text = plan::elsewhere(record, self.filename_from, Location::FromRecord).unwrap_or_default();
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            let what = What::Executed {
                path: OsStr::from_bytes(text).into(),
            };
            let tid = int(self.tid_from)?;
            Some(News { ticks, tid, what })
        } else {
            None
        }
    }
}

fn open(instance: &Instance, cpu: u32) -> io::Result<File> {
    let path = instance.path(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(&path);
    opened.map_err(|error| named(&error, path.display()))
}
