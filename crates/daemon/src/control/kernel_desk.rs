// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where questions about the kernel are put. A kernel whose tracing hangs makes whoever asks it hang too, so one thread does all of
//! it, and nobody waits for that thread longer than is bearable. The daemon's own thread never does.
//!
//! The first thing on the desk is to tidy up what dead pisteds left (leftovers.rs): before any channel is made. If the kernel does not
//! answer, this is tried again later, and at each question that needs the kernel.

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use piste_bpf::Program;
use piste_kernel::answer::answers;
use piste_kernel::catalog::Catalog;
use piste_kernel::owner::Owner;
use piste_kernel::tracefs::{Lack, Tracefs};

use super::leftovers;
use crate::link::SessionId;
use crate::session::Refusal;

/// How long an answer may take. Most take milliseconds; the symbols of a huge program, a machine that is busy: some seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);
/// The wait before tidying up is tried again. It doubles each time, because each try may leave a process that hangs in the kernel.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Names of functions are demangled recursively.
const STACK_BYTES: usize = 8 << 20;

type Question = Box<dyn FnOnce(&mut Clerk) + Send>;

/// What a run folder has in the kernel that is no leftover.
#[derive(Debug)]
pub enum Kept {
    /// What belongs to these sessions.
    Sessions(BTreeSet<SessionId>),
    /// All of it.
    Everything,
}

/// Where questions about the kernel are put.
#[derive(Debug, Clone)]
pub struct KernelDesk {
    questions: Sender<Question>,
    /// Somebody waited in vain for the question that is being answered.
    is_stuck: Arc<AtomicBool>,
}

/// Who answers them.
#[derive(Debug)]
pub struct Clerk {
    run_folder: PathBuf,
    /// Held as long as this pisted lives; of root's alone.
    owner: Result<Owner, Lack>,
    /// What tidying up leaves alone; `None` once it is done.
    untidy: Option<Kept>,
    retry: Duration,
    /// When to tidy up again, or to look for what dead owners left.
    next_look: Option<Instant>,
    /// Whether the BPF program can be loaded, once somebody asked.
    has_program: Option<bool>,
}

impl KernelDesk {
    /// Opens the desk, and has it tidy up: of this run folder, what is not to be kept; of owners that have been dead for a while, everything.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(run_folder: &Path, kept: Kept) -> io::Result<KernelDesk> {
        let (questions, asked) = channel();
        let is_stuck = Arc::new(AtomicBool::new(false));
        let (run_folder, stuck) = (run_folder.to_owned(), is_stuck.clone());
        thread::Builder::new()
            .name("pisted-desk".into())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&asked, &stuck, run_folder, kept))?;
        Ok(KernelDesk { questions, is_stuck })
    }

    /// Puts a question, and waits for the answer.
    ///
    /// # Errors
    /// The answer's, or that there is none.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Clerk) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        // Relaxed: nothing else depends on it.
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(silent());
        }
        let (answer, answered) = channel();
        let question: Question = Box::new(move |clerk| drop(answer.send(question(clerk))));
        let ended = || Refusal::Internal {
            reason: "a query about the kernel or the file of a program failed; see pisted.log in the run folder".into(),
        };
        self.questions.send(question).map_err(|_| ended())?;
        match answered.recv_timeout(ANSWER_TIMEOUT) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
            Err(RecvTimeoutError::Timeout) => {
                self.is_stuck.store(true, Ordering::Relaxed);
                Err(silent())
            }
        }
    }

    /// Removes what a session has in the kernel, whose consumer could not do it.
    pub fn clear_away(&self, session: SessionId) {
        let question: Question = Box::new(move |clerk| {
            let tracefs = clerk.tracefs();
            if let (Ok(tracefs), Ok(owner)) = (tracefs, &clerk.owner) {
                let is_meant = |of: SessionId| of == session;
                report(leftovers::of_sessions(&tracefs, owner, is_meant));
            }
        });
        // It ends with the process alone.
        let _ = self.questions.send(question);
    }
}

fn silent() -> Refusal {
    Refusal::NoKernelDomain {
        reason: format!("it has not answered for {} s", ANSWER_TIMEOUT.as_secs()),
        mend: "try again; if that does not help, `dmesg` may show what happened".into(),
    }
}

fn serve(asked: &Receiver<Question>, is_stuck: &AtomicBool, run_folder: PathBuf, kept: Kept) {
    let mut clerk = Clerk::new(run_folder, kept);
    clerk.tidy_up();
    while let Some(question) = clerk.next(asked) {
        // Files of programs are strangers' bytes. Who asked about one that trips a library is told; the next question is answered.
        let _ = catch_unwind(AssertUnwindSafe(|| question(&mut clerk)));
        is_stuck.store(false, Ordering::Relaxed);
    }
}

fn report(findings: Vec<String>) {
    findings.iter().for_each(|finding| eprintln!("pisted: {finding}"));
}

impl Clerk {
    fn new(run_folder: PathBuf, kept: Kept) -> Clerk {
        let owner = if rustix::process::geteuid().is_root() {
            Owner::claim(&run_folder).map_err(|error| Lack {
                reason: error.to_string(),
                mend: "free some space there".into(),
            })
        } else {
            Err(Lack {
                reason: "only root may trace it".into(),
                mend: "start root's pisted with `sudo pisted --background`; the commands of members of the group tracing use it".into(),
            })
        };
        Clerk {
            run_folder,
            owner,
            untidy: Some(kept),
            retry: FIRST_RETRY,
            next_look: None,
            has_program: None,
        }
    }

    /// Whether the BPF program can be loaded, which records what the arguments of system calls point to. The first time, that takes some milliseconds.
    pub fn has_program(&mut self) -> bool {
        *self.has_program.get_or_insert_with(|| Program::check().is_ok())
    }

    /// Waits for the next question, and removes leftovers when it is time.
    fn next(&mut self, asked: &Receiver<Question>) -> Option<Question> {
        loop {
            let Some(look) = self.next_look else {
                return asked.recv().ok();
            };
            match asked.recv_timeout(look.saturating_duration_since(Instant::now())) {
                Ok(question) => return Some(question),
                Err(RecvTimeoutError::Timeout) if self.untidy.is_some() => self.tidy_up(),
                Err(RecvTimeoutError::Timeout) => self.clear_dead_away(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// If the kernel does not answer, it is tried again later.
    fn tidy_up(&mut self) {
        self.next_look = None;
        if self.owner.is_err() {
            return;
        }
        // A machine without tracefs has no leftovers, and says why when somebody wants to trace it.
        let Ok(tracefs) = Tracefs::find() else { return };
        match answers(&tracefs) {
            Ok(()) => self.clear_away_once(&tracefs),
            Err(lack) => {
                eprintln!("pisted: cannot trace the kernel: {lack}");
                self.next_look = Some(Instant::now() + self.retry);
                self.retry *= 2;
            }
        }
    }

    /// Removes what this run folder and dead owners left. After the first call it does nothing.
    fn clear_away_once(&mut self, tracefs: &Tracefs) {
        let (Some(kept), Ok(owner)) = (self.untidy.take(), &self.owner) else {
            return;
        };
        if let Kept::Sessions(kept) = kept {
            report(leftovers::of_sessions(tracefs, owner, |session| {
                !kept.contains(&session)
            }));
        }
        self.clear_dead_away();
    }

    fn clear_dead_away(&mut self) {
        self.next_look = None;
        if let Ok(tracefs) = Tracefs::find() {
            let (next, findings) = leftovers::of_dead_owners(&tracefs);
            report(findings);
            self.next_look = next.map(|next| Instant::now() + next);
        }
    }

    /// The folder of this pisted.
    pub fn run_folder(&self) -> &Path {
        &self.run_folder
    }

    /// The kernel's tracing, once it is there, allowed, answers, and is tidied up. Ask for it before making anything in it.
    ///
    /// # Errors
    /// What is missing, and what mends it.
    pub fn tracefs(&mut self) -> Result<Tracefs, Refusal> {
        let refuse = |lack: Lack| Refusal::NoKernelDomain {
            reason: lack.reason,
            mend: lack.mend,
        };
        if let Err(lack) = &self.owner {
            return Err(refuse(lack.clone()));
        }
        let tracefs = Tracefs::find().map_err(refuse)?;
        answers(&tracefs).map_err(refuse)?;
        self.clear_away_once(&tracefs);
        Ok(tracefs)
    }

    /// The events that the kernel has now: modules and other tools' probes bring events, and take them away. Takes some milliseconds.
    ///
    /// # Errors
    /// As [`Clerk::tracefs`], or they cannot be read.
    pub fn catalog(&mut self) -> Result<Catalog, Refusal> {
        let tracefs = self.tracefs()?;
        Catalog::read(&tracefs).map_err(|error| Refusal::NoKernelDomain {
            reason: error.to_string(),
            mend: "`piste doctor` checks what is needed".into(),
        })
    }
}
