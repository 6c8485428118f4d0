// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads ran 32-bit programs, and when: those call the kernel by numbers of their own, and the record of a call does not say whose
//! number it has.
//!
//! The answer needs every fork and exec of the machine, also those that no rule of a channel records, and needs them before the calls that
//! follow on other CPUs. So they are recorded in an instance of their own, which is read to the end before a page of calls is converted
//! (`catch_up`). `history.rs` keeps what they say; of most machines that is nothing.
//!
//! Not seen:
//! - a 64-bit program that calls by 32-bit numbers (`int 0x80`): its calls get the names of the 64-bit table;
//! - a program that is gone before its exec is read, where its file is gone too;
//! - threads that were gone when a consumer took over from another one.

mod file;
mod history;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::catalog::Catalog;
use crate::format::{EventFormat, Location};
use crate::instance::{Instance, TraceClock};
use crate::owner::Owner;
use crate::page::{Page, PageLayout};
use crate::plan;
use crate::resolve::{self, ResolvedEvent};
use crate::spec::{Loss, Rule};
use crate::tracefs::{Tracefs, named};

use file::is_compat_file;
use history::History;

/// The name of the instance among a session's channels. None of these can have it.
pub const CHANNEL: &str = "programs";

/// There when the kernel runs 32-bit programs of its architecture.
const COMPAT_FILE: &str = "/proc/sys/abi/vsyscall32";
/// Some thousand programs for each CPU. When nobody reads for long, as while a flight recorder runs, the latest are kept.
const SUBBUF_BYTES: u32 = 4096;
const SUBBUF_COUNT: u32 = 32;
/// Where no program is executed, more is not kept of who forked whom.
const PARENTS_MAX: usize = 1 << 16;

/// The programs that threads run, as far as it matters for their calls.
#[derive(Debug)]
pub struct Programs {
    instance: Instance,
    rings: Vec<File>,
    pages: PageLayout,
    formats: Formats,
    page: Vec<u8>,
    /// Of threads that have executed nothing since.
    parents: HashMap<i32, i32>,
    history: History,
}

/// Where the records say what.
#[derive(Debug)]
struct Formats {
    fork_id: u16,
    parent_from: u16,
    child_from: u16,
    exec_id: u16,
    tid_from: u16,
    filename_from: u16,
}

/// What a record says.
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
    /// Whether calls are recorded by such rules, on a kernel that runs 32-bit programs.
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

    /// Begins to watch, or goes on with what another consumer of the session began.
    ///
    /// # Errors
    /// The kernel's.
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
        };
        programs.history.note_living();
        Ok(programs)
    }

    /// Reads what happened until now. True when a thread has run a 32-bit program.
    pub fn catch_up(&mut self) -> bool {
        if self.has_news() {
            let mut news = self.news();
            news.sort_by_key(|new| new.ticks);
            for index in 0..news.len() {
                self.learn(&news[index], &news[index + 1..]);
            }
        }
        !self.history.is_empty()
    }

    /// Whether a thread ran a 32-bit program at this time, as far as `catch_up` has read.
    pub fn is_compat(&self, tid: i32, ticks: u64) -> bool {
        self.history.is_compat(tid, ticks)
    }

    /// Stops to watch.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove(&mut self) -> io::Result<()> {
        // Whoever reads a ring holds its instance.
        self.rings.clear();
        self.instance.clone().remove()
    }

    fn has_news(&self) -> bool {
        let mut asked: Vec<PollFd<'_>> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        // Where that cannot be asked, reading tells.
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn news(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        for ring in &self.rings {
            // Others may go on recording: no more than a ring.
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
                if page.record_bytes() == 0 {
                    break;
                }
                let records = page.records();
                news.extend(records.filter_map(|record| self.formats.read(record.ticks, record.data)));
            }
        }
        news
    }

    fn learn(&mut self, new: &News, later: &[News]) {
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
                let is_gone = later
                    .iter()
                    .any(|other| other.tid == new.tid && matches!(other.what, What::Executed { .. }));
                let parent = self.parents.remove(&new.tid);
                let is_compat = program_is_compat(new.tid, parent, path, is_gone);
                self.history.note(new.tid, new.ticks, is_compat);
            }
        }
    }
}

/// Whether a thread has executed a 32-bit program: as it runs it, or in the file that it, or its parent, sees under that name.
fn program_is_compat(tid: i32, parent: Option<i32>, path: &Path, is_gone: bool) -> bool {
    let running = (!is_gone)
        .then(|| is_compat_file(Path::new(&format!("/proc/{tid}/exe"))))
        .flatten();
    let seen_by = |tid: i32| {
        let folder = if path.is_absolute() { "root" } else { "cwd" };
        let relative = path.strip_prefix("/").unwrap_or(path);
        is_compat_file(&Path::new(&format!("/proc/{tid}/{folder}")).join(relative))
    };
    let by_name = || [Some(tid), parent].into_iter().flatten().find_map(seen_by);
    let here = || path.is_absolute().then(|| is_compat_file(path)).flatten();
    running.or_else(by_name).or_else(here).unwrap_or(false)
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

/// The numbers that name entries of a folder of `/proc`.
fn numbers_in(folder: &Path) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
