// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which process a thread belongs to; and which threads ran 32-bit programs, and when. ARCHITECTURE.md says why a tracefs instance of its own
//! records this ("New threads and 32-bit programs").
//!
//! `catch_up` reads the instance. [`NewThreads`] keeps the processes, and `history.rs` when 32-bit programs ran, which is empty on most machines.
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
use piste_syscalls::Architecture;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::catalog::Catalog;
use crate::convert::{NewThreads, TID_FROM};
use crate::format::{EventFormat, Location};
use crate::instance::{Instance, TraceClock};
use crate::owner::Owner;
use crate::page::{Lost, Page, PageLayout};
use crate::plan;
use crate::proc;
use crate::resolve::{self, ResolvedEvent};
use crate::spec::{Loss, Rule};
use crate::tracefs::{Tracefs, named};

use file::{is_compat_file, runs_compat};
use history::History;

/// The name of the instance among a session's channels. None of these can have it.
pub const CHANNEL: &str = "programs";

/// Exists if an x86-64 kernel can run 32-bit programs.
const COMPAT_FILE: &str = "/proc/sys/abi/vsyscall32";
/// Room for a few thousand programs on each CPU between two calls of `catch_up`.
const SUBBUF_BYTES: u32 = 4096;
const SUBBUF_COUNT: u32 = 32;
/// Limits `Programs::parents`, which grows with threads that never execute a program.
const PARENTS_MAX: usize = 1 << 16;

/// Tracks which processes threads belong to, and which threads run 32-bit programs.
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
    threads: NewThreads,
    files: LocalFiles,
    /// New threads or execs were lost.
    lost_any: bool,
}

/// Offsets of the fields in the records of new threads and execs.
#[derive(Debug)]
struct Formats {
    made_id: u16,
    made_from: u16,
    flags_from: u16,
    exec_id: u16,
    tid_from: u16,
    filename_from: u16,
}

/// A new thread or an exec, and the thread that did it.
#[derive(Debug)]
struct News {
    ticks: u64,
    tid: i32,
    what: What,
}

#[derive(Debug)]
enum What {
    Made { child: i32, clone_flags: i32 },
    Executed { path: PathBuf },
}

impl Programs {
    /// Whether these rules record system calls, and the kernel runs 32-bit programs; or they record who made which thread.
    pub fn are_needed(rules: &[Rule], catalog: &Catalog) -> bool {
        let architecture = catalog.architecture();
        // Other kernels have no such file.
        let runs_compat = architecture != Architecture::named("x86_64") || Path::new(COMPAT_FILE).exists();
        let has_compat = architecture.has_tables() && runs_compat;
        let needs = |event: &ResolvedEvent| match event {
            ResolvedEvent::Syscall { .. } => has_compat,
            ResolvedEvent::Tracepoint { system, name, .. } => {
                has_compat && system == "raw_syscalls" || system == "sched" && name == "sched_process_fork"
            }
        };
        let need = |rule: &Rule| resolve::rule(rule, catalog, None).is_ok_and(|events| events.iter().any(needs));
        rules.iter().filter(|rule| rule.enabled).any(need)
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
        let formats = Formats::of(catalog)
            .ok_or_else(|| io::Error::other("this kernel does not report new threads and execs"))?;
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
        instance.wake_at_once()?;
        for event in ["task/task_newtask", "sched/sched_process_exec"] {
            instance.write(format!("events/{event}/enable"), "1")?;
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
            threads: NewThreads::default(),
            files: LocalFiles::new(),
            lost_any: false,
        };
        programs.history.note_living();
        for pid in proc::processes() {
            proc::threads_of(pid).for_each(|tid| programs.threads.lives(tid, pid));
        }
        Ok(programs)
    }

    /// The process that a thread belongs or belonged to; `None` when it is not known. Call `catch_up` first.
    pub fn process_of(&self, tid: i32) -> Option<i32> {
        self.threads.known(tid)
    }

    /// Reads every new thread and exec until now. Returns true if any thread has run a 32-bit program.
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
            // Others may go on making threads: read no more than a full ring.
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
                if page.lost() != Lost::None {
                    self.lost_any = true;
                    // A thread may have got the number of one that is known.
                    self.threads = NewThreads::default();
                }
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
            What::Made { child, clone_flags } => {
                self.threads.made(new.tid, *child, *clone_flags, &mut proc::process_of);
                if self.parents.len() >= PARENTS_MAX {
                    self.parents.clear();
                }
                self.parents.insert(*child, new.tid);
                let is_compat = self.history.is_compat(new.tid, new.ticks);
                self.history.note(*child, new.ticks, is_compat);
            }
            What::Executed { path } => {
                self.threads.executed(new.tid);
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
        let made = catalog.by_name("task", "task_newtask").ok()?;
        let exec = catalog.by_name("sched", "sched_process_exec").ok()?;
        let from = |format: &EventFormat, name| u16::try_from(format.field(name)?.offset).ok();
        Some(Formats {
            made_id: made.id,
            made_from: from(made, "pid")?,
            flags_from: from(made, "clone_flags")?,
            exec_id: exec.id,
            tid_from: from(exec, "pid")?,
            filename_from: from(exec, "filename")?,
        })
    }

    fn read(&self, ticks: u64, record: &[u8]) -> Option<News> {
        let id = u16::from_le_bytes(*record.first_chunk()?);
        let int = |from: u16| Some(i32::from_le_bytes(*record.get(usize::from(from)..)?.first_chunk()?));
        if id == self.made_id {
            let what = What::Made {
                child: int(self.made_from)?,
                clone_flags: int(self.flags_from)?,
            };
            let tid = int(TID_FROM)?;
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
