// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recordings that are shown, and their timelines. A timeline is made in one pass over the trace, can be asked meanwhile, and is kept beside
//! the trace as `.piste-timeline`, for the next time. Traces that grow come in live.rs.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use piste_analysis::analyses::name_and_number;
use piste_analysis::model::{Call, Happening, Interruption, Listen, Occurrence, Request, Slice, System, ThreadId};
use piste_analysis::spans;
use piste_modelling::{GroundError, Programs, StreamGap, is_of_kernel};
use piste_reason::reason;
use piste_timeline::{Damaged, Failure, Label, LaneId, Piece, Recorder, SoFar, Sources, Subject, Summary, Timeline};
use piste_trace::progress::{bytes_of, bytes_read};
use piste_trace::select::Comm;
use piste_trace::{Findings, OpenError, Span, Trace, open_all};
use rustix::fs::OFlags;

use crate::live;

/// In the folder of the trace. Readers of traces look at no hidden files.
const NAME: &str = ".piste-timeline";

/// All recordings, in the order in which they were named.
#[derive(Debug)]
pub(crate) struct Recordings {
    all: Vec<Recording>,
    /// Their timelines are made, in this order.
    wanted: Mutex<VecDeque<usize>>,
    is_wanted: Condvar,
    is_over: AtomicBool,
}

/// A recording.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) path: PathBuf,
    state: Mutex<State>,
}

/// How far the timeline is.
#[derive(Debug)]
enum State {
    /// Nobody has asked for it, or others are made before.
    Waiting,
    /// The trace is being opened.
    Opening,
    /// It can be asked.
    There(View),
    /// There is none, for this reason.
    Failed(String),
}

/// A timeline that can be asked, at any time.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Growing(Arc<Growing>),
    Whole(Arc<Timeline>),
}

/// A timeline that is being made.
pub(crate) struct Growing {
    /// Absent: it is finished.
    recorder: Mutex<Option<Recorder<File>>>,
    /// Then this is there.
    whole: OnceLock<Arc<Timeline>>,
    known: Mutex<Known>,
    /// Why it may show events out of the order of time.
    disorder: Mutex<Option<String>>,
    /// Where reading a finished trace began and ends, in bytes. Absent: the trace grows.
    bytes: Option<(u64, u64)>,
}

/// What is known of a timeline that is being made.
#[derive(Clone, Copy, Debug)]
struct Known {
    span: Span,
    has_kernel: bool,
    /// How much of what was recorded by now it has.
    share: f64,
    /// The trace does not grow any more.
    is_over: bool,
}

impl std::fmt::Debug for Growing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Growing")
            .field("known", &self.known())
            .finish_non_exhaustive()
    }
}

/// What is said of a recording.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Status {
    pub(crate) path: String,
    /// `waiting` (also while the trace is opened), `growing` (the trace is being read), `live` (it is being recorded), `whole` or `failed`.
    pub(crate) state: &'static str,
    /// From when to when it is, in nanoseconds since 1970, as text: browsers have no such numbers.
    pub(crate) begin_ns: Option<String>,
    pub(crate) end_ns: Option<String>,
    /// How much of it can be asked: 0 to 1.
    pub(crate) share: f64,
    /// Why there is nothing to see, or why the events of a session that records may be out of the order of time.
    pub(crate) problem: Option<String>,
}

impl Recordings {
    pub(crate) fn new(paths: &[PathBuf]) -> Recordings {
        let recording = |path: &PathBuf| Recording {
            path: path.clone(),
            state: Mutex::new(State::Waiting),
        };
        Recordings {
            all: paths.iter().map(recording).collect(),
            wanted: Mutex::default(),
            is_wanted: Condvar::new(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn all(&self) -> &[Recording] {
        &self.all
    }

    /// Somebody looks at a recording: its timeline is made, if it is not there.
    pub(crate) fn want(&self, number: usize) {
        let mut wanted = self.wanted();
        if !wanted.contains(&number) && matches!(*self.all[number].state(), State::Waiting) {
            wanted.push_back(number);
            self.is_wanted.notify_one();
        }
    }

    /// Makes the timelines that are wanted: one after the other of finished traces, and those of traces that grow beside them.
    pub(crate) fn make(self: &Arc<Recordings>) -> io::Result<JoinHandle<()>> {
        let recordings = self.clone();
        let make = move || {
            let mut followers = Vec::new();
            while let Some(number) = recordings.next() {
                recordings.all[number].set(State::Opening);
                let Some(followed) = live::running(&recordings.all[number].path) else {
                    recordings.attempt(number, Recording::make);
                    continue;
                };
                let recordings = recordings.clone();
                let follow = move || {
                    recordings.attempt(number, |recording, goes_on| {
                        live::follow(followed, recording, goes_on).map(|()| None)
                    });
                };
                followers.push(thread::spawn(follow));
            }
            for follower in followers {
                // A panic was caught.
                let _ = follower.join();
            }
        };
        thread::Builder::new().name("piste-timeline".into()).spawn(make)
    }

    /// Makes a timeline, and notes what came of it.
    fn attempt(
        &self,
        number: usize,
        make: impl FnOnce(&Recording, &dyn Fn() -> bool) -> Result<Option<Arc<Timeline>>, Problem>,
    ) {
        let recording = &self.all[number];
        let goes_on = || !self.is_over.load(Ordering::Relaxed);
        match catch_unwind(AssertUnwindSafe(|| make(recording, &goes_on))) {
            Ok(Ok(Some(timeline))) => recording.set(State::There(View::Whole(timeline))),
            Ok(Ok(None)) => {}
            Ok(Err(failure)) => recording.set(State::Failed(failure.to_string())),
            Err(_) => recording.set(State::Failed("cannot read this trace because of a bug in piste".into())),
        }
    }

    /// The timeline of a recording is damaged: it is made again, unless it is another one by now.
    pub(crate) fn make_again(&self, number: usize, damaged: &View) {
        let recording = &self.all[number];
        {
            let mut state = recording.state();
            match (&*state, damaged) {
                (State::There(View::Whole(now)), View::Whole(damaged)) if Arc::ptr_eq(now, damaged) => {}
                _ => return,
            }
            // The next start would find the same.
            let _ = fs::remove_file(recording.path.join(NAME));
            *state = State::Waiting;
        }
        self.want(number);
    }

    /// Waits for the next that is wanted; `None`: it is over.
    fn next(&self) -> Option<usize> {
        let mut wanted = self.wanted();
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(number) = wanted.pop_front() {
                return Some(number);
            }
            wanted = self.is_wanted.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is not finished is given up.
    pub(crate) fn stop(&self) {
        // Whoever looks at it has the lock, so none waits who has not seen it.
        let _wanted = self.wanted();
        self.is_over.store(true, Ordering::Relaxed);
        self.is_wanted.notify_all();
    }

    fn wanted(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is no timeline.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Unopened(String),
    #[error(transparent)]
    Opening(#[from] OpenError),
    #[error(transparent)]
    Ground(#[from] GroundError),
    #[error("cannot write the timeline: {}", reason(.0))]
    Unwritten(#[from] io::Error),
    #[error(
        "cannot write the timeline of the running session to {}: {}. Recording continues. Free space there or set TMPDIR to another \
         folder, and start `piste web` again",
        .folder.display(),
        reason(.error)
    )]
    UnwrittenLive { folder: PathBuf, error: io::Error },
    #[error(transparent)]
    Timeline(#[from] Failure),
}

impl Recording {
    /// The timeline, as far as there is one.
    pub(crate) fn view(&self) -> Option<View> {
        match &*self.state() {
            State::There(view) => Some(view.clone()),
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = Status {
            path: self.path.to_string_lossy().into_owned(),
            state: "waiting",
            begin_ns: None,
            end_ns: None,
            share: 0.0,
            problem: None,
        };
        match &*self.state() {
            State::Waiting | State::Opening => {}
            State::Failed(problem) => {
                status.state = "failed";
                status.problem = Some(problem.clone());
            }
            State::There(view) => {
                (status.state, status.share) = match view {
                    View::Whole(_) => ("whole", 1.0),
                    View::Growing(growing) => growing.progress(),
                };
                status.problem = view.disorder();
                let (begin_ns, end_ns) = view.span_ns();
                status.begin_ns = Some(begin_ns.to_string());
                status.end_ns = Some(end_ns.to_string());
            }
        }
        status
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its timeline can be asked from now on.
    pub(crate) fn show(&self, growing: &Arc<Growing>) {
        self.set(State::There(View::Growing(growing.clone())));
    }

    fn set(&self, state: State) {
        *self.state() = state;
    }

    /// Takes the timeline that is there, or makes one. `None`: it was given up.
    fn make(&self, goes_on: &dyn Fn() -> bool) -> Result<Option<Arc<Timeline>>, Problem> {
        let mut findings = Findings::default();
        let (traces, errors) = open_all(std::slice::from_ref(&self.path), &mut findings);
        if let Some(error) = errors.first().filter(|_| traces.is_empty()) {
            return Err(Problem::Unopened(error.to_string()));
        }
        let (kernel, programs): (Vec<Trace>, Vec<Trace>) = traces.into_iter().partition(is_of_kernel);
        let all = || kernel.iter().chain(&programs);
        let origin = origin(all());
        let place = self.path.join(NAME);
        // One that cannot be read is made anew.
        let kept = open_file(&place).and_then(|file| Timeline::open(file).ok());
        if let Some(kept) = kept.filter(|kept| kept.directory.origin == origin) {
            return Ok(Some(Arc::new(kept)));
        }
        let sources = Sources::new(&kernel, &programs, Span::ALL)?;
        let draft = Draft::beside(&place)?;
        let growing = Arc::new(Growing {
            recorder: Mutex::new(Some(Recorder::new(draft.file.try_clone()?)?)),
            whole: OnceLock::new(),
            known: Mutex::new(Known {
                span: sources.span(),
                has_kernel: sources.ground().is_some(),
                share: 1.0,
                is_over: false,
            }),
            disorder: Mutex::default(),
            bytes: Some((
                bytes_read(),
                bytes_of(&kernel, Span::ALL) + bytes_of(&programs, Span::ALL),
            )),
        });
        self.show(&growing);
        let is_worth_it = || goes_on() && growing.expect_written().is_ok();
        let read = sources.read(Shared(growing.clone()), &mut findings, is_worth_it)?;
        growing.expect_written()?;
        let Some((system, _)) = read else {
            return Ok(None);
        };
        let span_ns = sources.span_ns(system.as_ref());
        // Who asks meanwhile waits for the whole.
        let mut recorder = growing.recorder();
        if let Some(recorder) = recorder.take() {
            recorder.finish(system.as_ref(), span_ns, &origin)?;
        }
        let timeline = Arc::new(Timeline::open(draft.keep(&place)?)?);
        Ok(Some(growing.whole.get_or_init(|| timeline).clone()))
    }
}

/// A file, and nothing else that may have its name: a pipe would be waited for.
pub(crate) fn open_file(place: &Path) -> Option<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(place).ok()?;
    file.metadata().ok().filter(fs::Metadata::is_file).map(|_| file)
}

/// A file that becomes the timeline once it is complete.
struct Draft {
    file: File,
    /// Absent where the trace's folder cannot be written: then the timeline lasts as long as the server.
    kept: Option<tempfile::TempPath>,
}

impl Draft {
    fn beside(place: &Path) -> io::Result<Draft> {
        let folder = place.parent().unwrap_or(Path::new("."));
        match tempfile::Builder::new().prefix(".piste-timeline-").tempfile_in(folder) {
            Ok(named) => {
                let (file, path) = named.into_parts();
                Ok(Draft { file, kept: Some(path) })
            }
            Err(_) => Ok(Draft {
                file: tempfile::tempfile()?,
                kept: None,
            }),
        }
    }

    /// It is complete: it gets its name, also if the machine fails right after.
    fn keep(self, place: &Path) -> io::Result<File> {
        if let Some(path) = self.kept {
            self.file.sync_data()?;
            path.persist(place)?;
        }
        Ok(self.file)
    }
}

/// What a timeline was made of: the traces' files, with their sizes and when they were written to.
fn origin<'t>(traces: impl Iterator<Item = &'t Trace>) -> Vec<u8> {
    let mut origin = Vec::new();
    for trace in traces {
        for stream in &trace.streams {
            origin.extend(stream.path.file_name().unwrap_or_default().as_bytes());
            origin.push(0);
            origin.extend(stream.state.bytes.to_le_bytes());
            origin.extend(stream.state.modified_ns.to_le_bytes());
        }
    }
    origin
}

/// Writes to a timeline that others ask meanwhile.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<Growing>);

impl Listen for Shared {
    fn wants_files(&self) -> bool {
        false
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        self.0.with(|recorder| recorder.slice(system, slice));
    }

    fn call(&mut self, system: &System, call: &Call) {
        self.0.with(|recorder| recorder.call(system, call));
    }

    fn interruption(&mut self, system: &System, interruption: &Interruption) {
        self.0.with(|recorder| recorder.interruption(system, interruption));
    }

    fn request(&mut self, system: &System, request: &Request) {
        self.0.with(|recorder| recorder.request(system, request));
    }

    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {
        // Memory changes often, and is not shown.
        if let Happening::PagesAllocated(_) | Happening::PagesFreed(_) | Happening::PageFault { .. } = occurrence.what {
            return;
        }
        self.0.with(|recorder| recorder.occurrence(system, occurrence));
    }

    fn born(&mut self, system: &System, thread: ThreadId, parent: Option<ThreadId>, ns: i64) {
        self.0.with(|recorder| recorder.born(system, thread, parent, ns));
    }
}

impl Programs for Shared {
    fn span(&mut self, span: &spans::Span<'_, Option<Comm>>) {
        self.0.with(|recorder| recorder.span(span));
    }

    fn instant(&mut self, track: spans::Track, comm: Option<Comm>, name: &str, ns: i64) {
        self.0.with(|recorder| recorder.instant(track, comm, name, ns));
    }

    fn lost(&mut self, gap: &StreamGap<'_>) {
        self.0.with(|recorder| recorder.lost(gap));
    }

    fn over(&mut self, end_ns: i64) {
        self.0.with(|recorder| recorder.over(end_ns));
    }
}

impl Growing {
    fn recorder(&self) -> MutexGuard<'_, Option<Recorder<File>>> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a trace that grows, into a file without a name.
    pub(crate) fn live(file: File) -> io::Result<Growing> {
        Ok(Growing {
            recorder: Mutex::new(Some(Recorder::new(file)?)),
            whole: OnceLock::new(),
            known: Mutex::new(Known {
                span: Span::ALL,
                has_kernel: false,
                share: 1.0,
                is_over: false,
            }),
            disorder: Mutex::default(),
            bytes: None,
        })
    }

    /// Tells the recorder something, unless it is finished.
    #[inline]
    pub(crate) fn with(&self, tell: impl FnOnce(&mut Recorder<File>)) {
        if let Some(recorder) = &mut *self.recorder() {
            tell(recorder);
        }
    }

    /// # Errors
    /// It could not be written: there is nothing in it from some time on.
    pub(crate) fn expect_written(&self) -> io::Result<()> {
        let recorder = self.recorder();
        let error = recorder.as_ref().and_then(Recorder::error);
        error.map_or(Ok(()), |error| Err(copied(error)))
    }

    /// Whether events come in the order of time, or why not.
    pub(crate) fn is_out_of_order(&self, why: Option<&str>) {
        *self.disorder.lock().unwrap_or_else(PoisonError::into_inner) = why.map(str::to_owned);
    }

    /// The trace has grown.
    pub(crate) fn reaches(&self, span: Span, has_kernel: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        (known.span, known.has_kernel, known.share) = (span, has_kernel, 1.0);
    }

    /// There is much to read before it has what was recorded by now: how much of it is done.
    pub(crate) fn catches_up(&self, share: f64) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).share = share;
    }

    /// The trace does not grow any more.
    pub(crate) fn ends(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
    }

    fn known(&self) -> Known {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is said of it, and how much of it can be asked.
    fn progress(&self) -> (&'static str, f64) {
        match self.bytes {
            Some((begun_bytes, total_bytes)) => {
                let done_bytes = bytes_read().saturating_sub(begun_bytes);
                ("growing", (done_bytes as f64 / total_bytes.max(1) as f64).min(1.0))
            }
            None if self.known().is_over => ("whole", 1.0),
            None => ("live", self.known().share),
        }
    }
}

/// The same error of the operating system.
fn copied(error: &io::Error) -> io::Error {
    let number = error.raw_os_error();
    number.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// What a view can be asked. While a timeline grows, making it waits for the answer.
impl View {
    pub(crate) fn span_ns(&self) -> (i64, i64) {
        match self {
            View::Growing(growing) => {
                let span = growing.known().span;
                (span.begin_ns, span.end_ns)
            }
            View::Whole(timeline) => timeline.directory.span_ns,
        }
    }

    /// Why events of a session that records may be out of the order of time.
    fn disorder(&self) -> Option<String> {
        let View::Growing(growing) = self else { return None };
        growing.disorder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kernel was recorded, not only programs.
    pub(crate) fn has_kernel(&self) -> bool {
        let is_of_kernel = |subject: &Subject| !matches!(subject, Subject::Spans(..) | Subject::Events(_));
        match self {
            View::Growing(growing) => growing.known().has_kernel,
            View::Whole(timeline) => timeline.directory.subjects.iter().any(is_of_kernel),
        }
    }

    fn ask<T>(
        &self,
        growing: impl FnOnce(&SoFar<'_>) -> Result<T, Failure>,
        whole: impl FnOnce(&Timeline) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self {
            View::Whole(timeline) => whole(timeline),
            View::Growing(shared) => match &*shared.recorder() {
                Some(recorder) => growing(&recorder.so_far()),
                None => whole(shared.whole.get().ok_or(Damaged)?),
            },
        }
    }

    /// Shows every lane, with all that is in it, in the order of their numbers.
    pub(crate) fn each_lane(&self, to: &mut dyn FnMut(LaneId, &Subject, &Summary)) -> Result<(), Failure> {
        let mut with = |subjects: &[Subject], whole: &dyn Fn(LaneId) -> Option<Summary>| {
            for (lane, subject) in (0..).map(LaneId).zip(subjects) {
                to(lane, subject, &whole(lane).unwrap_or_default());
            }
        };
        match self {
            View::Whole(timeline) => with(&timeline.directory.subjects, &|lane| timeline.whole(lane)),
            View::Growing(shared) => match &*shared.recorder() {
                Some(recorder) => {
                    let so_far = recorder.so_far();
                    with(so_far.subjects, &|lane| so_far.whole(lane));
                }
                None => {
                    let timeline = shared.whole.get().ok_or(Damaged)?;
                    with(&timeline.directory.subjects, &|lane| timeline.whole(lane));
                }
            },
        }
        Ok(())
    }

    /// As [`Timeline::columns`].
    pub(crate) fn columns(&self, lane: LaneId, range_ns: (i64, i64), count: usize) -> Result<Vec<Summary>, Failure> {
        self.ask(
            |so_far| so_far.columns(lane, range_ns, count),
            |timeline| timeline.columns(lane, range_ns, count),
        )
    }

    /// As [`Timeline::pieces`].
    pub(crate) fn pieces(
        &self,
        lane: LaneId,
        range_ns: (i64, i64),
        most: usize,
    ) -> Result<Option<Vec<Piece>>, Failure> {
        self.ask(
            |so_far| so_far.pieces(lane, range_ns, most),
            |timeline| timeline.pieces(lane, range_ns, most),
        )
    }

    /// As [`Timeline::each`].
    pub(crate) fn each(
        &self,
        lane: LaneId,
        range_ns: (i64, i64),
        to: &mut impl FnMut(Piece) -> bool,
    ) -> Result<bool, Failure> {
        match self {
            View::Whole(timeline) => timeline.each(lane, range_ns, to),
            View::Growing(shared) => match &*shared.recorder() {
                Some(recorder) => recorder.so_far().each(lane, range_ns, to),
                None => shared.whole.get().ok_or(Damaged)?.each(lane, range_ns, to),
            },
        }
    }

    /// The number that stands for a thread in pieces; absent: it is in none.
    pub(crate) fn label_of_thread(&self, lane: LaneId) -> Result<Option<u32>, Failure> {
        self.with_labels(|labels, _| {
            let mut numbered = (1..).zip(labels);
            let found = numbered.find(|(_, label)| **label == Label::Thread(lane));
            found.map(|(number, _)| number)
        })
    }

    /// Reads the labels and what the lanes show.
    pub(crate) fn with_labels<T>(&self, read: impl Fn(&[Label], &[Subject]) -> T) -> Result<T, Failure> {
        self.ask(
            |so_far| Ok(read(so_far.labels, so_far.subjects)),
            |timeline| Ok(read(&timeline.directory.labels, &timeline.directory.subjects)),
        )
    }

    /// What numbers in pieces stand for: a name, and for threads their lane.
    pub(crate) fn names(&self, numbers: impl Iterator<Item = u32>) -> Result<Vec<(u32, Name)>, Failure> {
        let numbers: Vec<u32> = numbers.collect();
        self.with_labels(|labels, subjects| {
            let name = |number: u32| {
                let place = usize::try_from(number).ok()?.checked_sub(1)?;
                Some((number, Name::of(labels.get(place)?, subjects)?))
            };
            numbers.iter().copied().filter_map(name).collect()
        })
    }
}

impl Name {
    /// `None`: a thread that has no lane.
    pub(crate) fn of(label: &Label, subjects: &[Subject]) -> Option<Name> {
        let (lane, text) = match label {
            Label::Text(text) => (None, text.clone()),
            Label::Thread(LaneId(lane)) => match subjects.get(*lane as usize)? {
                Subject::Thread(thread) => (Some(*lane), name_and_number(&thread.name, thread.tid)),
                _ => return None,
            },
        };
        Some(Name { lane, text })
    }
}

/// What a number in a piece stands for.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Name {
    /// Of a thread.
    pub(crate) lane: Option<u32>,
    pub(crate) text: String,
}
