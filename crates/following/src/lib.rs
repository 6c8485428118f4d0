// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that grow. [`Followed`] is a trace and the session that writes it; [`Follower`] reads what is new in some of them, in the order of
//! time.
//!
//! Events come when their packets are complete, of each CPU and program at another time. So pisted is asked now and then to write everything
//! that was recorded by now, and says until when the trace is complete: events up to that time are shown. Recording goes on without pisted, and
//! so does following: events come as they are written then, about in the order of time, and [`Follower::disorder`] says so.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use piste_control::interface::{ErrorKind, Flush_Reply, SessionState, SessionStatus, VarlinkClientInterface};
use piste_control::{Client, Error, Places};
use piste_trace::growth::{Growth, Round};
use piste_trace::{Findings, OpenError, Trace, folders};

/// pisted has so much time for an answer. If it hangs, following goes on without it, in steps of this length.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// What the reader may rely on no longer.
const AS_WRITTEN: &str = "events are shown as they are written, and may be out of time order";

/// A trace that grows.
#[derive(Debug)]
pub struct Followed {
    folder: PathBuf,
    /// The session that writes it; absent: nobody knows when it ends.
    session: Option<SessionStatus>,
}

impl Followed {
    /// A folder, or a session by its name. `None`: there is neither.
    pub fn find(path: &Path) -> Option<Followed> {
        // Without a pisted, there is no session to follow, but there may be a trace.
        let sessions = sessions().unwrap_or_default();
        if !path.exists() {
            let name = path.to_string_lossy();
            let session = sessions.into_iter().find(|session| session.name == name)?;
            return Some(Followed {
                folder: session.output.clone().into(),
                session: Some(session),
            });
        }
        let full = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let writes_it = |session: &SessionStatus| {
            let output = Path::new(&session.output);
            full.starts_with(output) || output.starts_with(&full)
        };
        Some(Followed {
            folder: path.to_owned(),
            session: sessions.into_iter().find(writes_it),
        })
    }

    /// Where the trace is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The session that writes it, as it was at first.
    pub fn session(&self) -> Option<&SessionStatus> {
        self.session.as_ref()
    }

    /// Has everything written that was recorded by now. `None`: pisted has no session that writes it, or none any more.
    fn flush(&self) -> Result<Option<Flush_Reply>, Error> {
        let Some(own) = &self.session else { return Ok(None) };
        let flushed = pisted()?.calls().flush(Some(own.name.clone())).call();
        match flushed.map_err(Error::from) {
            // Another one may have its name by now.
            Ok(flushed) => Ok(Some(flushed).filter(|flushed| flushed.id == own.id)),
            Err(error) if matches!(error.refusal(), Some(ErrorKind::NoSession(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Everything is written of a session that [has ended](Followed::has_ended): it may still be on its way to the disk.
    fn is_complete(&self) -> Result<bool, Error> {
        match self.flush() {
            Ok(_) => Ok(true),
            Err(error) => match error.refusal() {
                Some(ErrorKind::ConsumerFailed(_) | ErrorKind::OutputFailed(_)) => Ok(false),
                Some(_) => Ok(true),
                None => Err(error),
            },
        }
    }

    /// Nothing more will be written, as these are the sessions that there are.
    fn has_ended(&self, sessions: &[SessionStatus]) -> bool {
        let Some(own) = &self.session else { return false };
        let is_running = |session: &SessionStatus| session.id == own.id && session.state != SessionState::stopped;
        !sessions.iter().any(is_running)
    }
}

/// The user's sessions.
///
/// # Errors
/// pisted cannot be reached.
pub fn sessions() -> Result<Vec<SessionStatus>, Error> {
    Ok(pisted()?.calls().list_sessions().call()?.sessions)
}

fn pisted() -> Result<Client, Error> {
    Client::connect_within(&Places::for_commands()?, Some(ANSWER_WITHIN))
}

/// Reads traces while they grow.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use piste_following::{Followed, Follower};
/// # use piste_trace::Span;
/// let followed = Followed::find("trace".as_ref()).ok_or("there is no such trace")?;
/// let mut follower = Follower::new(vec![followed], Duration::from_millis(500));
/// loop {
///     let is_over = follower.have_ended()?;
///     if let Some(news) = follower.look(is_over)? {
///         let mut merge = news.round.merge(&news.traces, Span::ALL)?;
///         while let Some(merged) = merge.next() {
///             println!("{}", merged.event.class.name);
///         }
///     }
///     if is_over {
///         return Ok(());
///     }
///     std::thread::sleep(Duration::from_millis(100));
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Follower {
    sources: Vec<Source>,
    growth: Growth,
    /// Takes out those that are not to be read yet.
    hold_back: fn(&mut Vec<Trace>),
    flush_pause: Duration,
    next_flush: Instant,
    /// When they were last read. Absent: they were not.
    sizes: Option<HashMap<PathBuf, u64>>,
    /// Some events were held back.
    is_waiting: bool,
    /// There was a flush since they were last read.
    is_flushed: bool,
    disorder: Option<String>,
}

#[derive(Debug)]
struct Source {
    followed: Followed,
    /// It is complete up to this time, in ticks of its clock. Absent: nobody knows.
    until_ticks: Option<u64>,
}

/// What is new in traces.
#[derive(Debug)]
pub struct News {
    /// The traces, as far as they can be read by now.
    pub traces: Vec<Trace>,
    /// What is wrong with them.
    pub findings: Findings,
    /// What of their streams is new.
    pub round: Round,
}

impl Follower {
    /// Of some traces. pisted writes everything that was recorded every `flush_pause`.
    pub fn new(sources: Vec<Followed>, flush_pause: Duration) -> Follower {
        let source = |followed| Source {
            followed,
            until_ticks: None,
        };
        Follower {
            sources: sources.into_iter().map(source).collect(),
            growth: Growth::default(),
            hold_back: |_| {},
            flush_pause,
            next_flush: Instant::now(),
            sizes: None,
            is_waiting: false,
            is_flushed: false,
            disorder: None,
        }
    }

    /// Before each look but the last, `hold_back` takes out the traces that are not to be read yet. One that was read is not to be taken out again.
    #[must_use]
    pub fn holding_back(self, hold_back: fn(&mut Vec<Trace>)) -> Follower {
        Follower { hold_back, ..self }
    }

    /// Why events may come out of the order of time at present, as a sentence; `None`: they do not.
    pub fn disorder(&self) -> Option<&str> {
        self.disorder.as_deref()
    }

    /// Nothing more will be written to any of them. To be asked before [`Follower::look`], so that what is written until the end is seen.
    ///
    /// # Errors
    /// pisted cannot be reached, so nobody knows.
    pub fn have_ended(&self) -> Result<bool, Error> {
        let mut sources = self.sources.iter().map(|source| &source.followed);
        if sources.clone().all(|source| source.session.is_none()) {
            return Ok(false);
        }
        let sessions = sessions()?;
        if !sources.clone().all(|source| source.has_ended(&sessions)) {
            return Ok(false);
        }
        sources.try_fold(true, |all, source| Ok(all && source.is_complete()?))
    }

    /// What is new since the last look, if there is anything. `is_over`: nothing more will come, and this look has the rest.
    ///
    /// # Errors
    /// At the end, a trace cannot be opened. Before, its metadata may be half written.
    pub fn look(&mut self, is_over: bool) -> Result<Option<News>, OpenError> {
        if Instant::now() >= self.next_flush && !is_over {
            self.flush();
            self.next_flush = Instant::now() + self.flush_pause;
        }
        let mut findings = Findings::default();
        let found = self.folders(&mut findings, is_over)?;
        let now = sizes(found.iter().flatten());
        // Between two flushes, there is nothing that could be shown already.
        let has_horizon = self.is_flushed || self.horizon_is_unknown();
        let has_more = self.is_waiting || self.sizes.as_ref() != Some(&now);
        let is_due = is_over || has_horizon && has_more;
        if !is_due {
            return Ok(None);
        }
        let (mut traces, known_ns) = self.open(&found, &mut findings, is_over)?;
        // A rotation moves them.
        if !is_over && self.folders(&mut Findings::default(), is_over)? != found {
            return Ok(None);
        }
        if !is_over {
            (self.hold_back)(&mut traces);
        }
        let sizes = (!is_over).then_some(&now);
        let round = self.growth.round(&traces, &findings, sizes, known_ns, Instant::now());
        self.is_waiting = round.is_waiting;
        self.is_flushed = false;
        self.sizes = Some(now);
        Ok(Some(News {
            traces,
            findings,
            round,
        }))
    }

    /// Has everything written that was recorded by now.
    fn flush(&mut self) {
        self.disorder = None;
        for source in &mut self.sources {
            let flushed = source.followed.flush();
            match &flushed {
                Ok(Some(flushed)) => source.until_ticks = u64::try_from(flushed.until).ok(),
                // It is gone: the rest is shown when that is known.
                Ok(None) => {}
                Err(_) => source.until_ticks = None,
            }
            self.disorder = self.disorder.take().or_else(|| why_disorder(&source.followed, flushed));
        }
        self.is_flushed = true;
    }

    fn horizon_is_unknown(&self) -> bool {
        self.sources.iter().all(|source| source.until_ticks.is_none())
    }

    /// The folders of the traces of each source.
    fn folders(&self, findings: &mut Findings, is_over: bool) -> Result<Vec<Vec<PathBuf>>, OpenError> {
        let folders_of = |source: &Source| match folders(&source.followed.folder, findings) {
            Err(_) if !is_over => Ok(Vec::new()),
            folders => folders,
        };
        self.sources.iter().map(folders_of).collect()
    }

    /// The traces that can be read so far, and until when all of them are complete. At the end, one that cannot be read is an error.
    fn open(
        &self,
        found: &[Vec<PathBuf>],
        findings: &mut Findings,
        is_over: bool,
    ) -> Result<(Vec<Trace>, Option<i64>), OpenError> {
        let (mut traces, mut known_ns) = (Vec::new(), (!self.horizon_is_unknown()).then_some(i64::MAX));
        for (source, folders) in self.sources.iter().zip(found) {
            for folder in folders {
                match Trace::open(folder.clone(), &source.followed.folder, findings) {
                    // Its metadata may be half written.
                    Err(_) if !is_over => {}
                    trace => {
                        let trace = trace?;
                        let until_ns = source.until_ticks.and_then(|ticks| earliest(&trace, ticks));
                        known_ns = known_ns.map(|known_ns| known_ns.min(until_ns.unwrap_or(i64::MAX)));
                        traces.push(trace);
                    }
                }
            }
        }
        Ok((traces, known_ns))
    }
}

/// A time in ticks of a trace's clock.
fn earliest(trace: &Trace, ticks: u64) -> Option<i64> {
    let of_stream = |stream| trace.scale(stream)?.nanoseconds(ticks);
    trace.streams.iter().filter_map(of_stream).min()
}

/// Why the events of a trace may come out of the order of time after a flush.
fn why_disorder(followed: &Followed, flushed: Result<Option<Flush_Reply>, Error>) -> Option<String> {
    match flushed {
        Ok(Some(flushed)) if flushed.late.is_empty() => None,
        Ok(Some(flushed)) => Some(format!(
            "stopped in the middle of recording an event: {}; its later events are shown when it continues, and may be out of time order",
            flushed.late.join(", ")
        )),
        Ok(None) if followed.session.is_some() => None,
        Ok(None) => Some(format!(
            "no session of the running pisted writes {}; {AS_WRITTEN}",
            followed.folder.display()
        )),
        Err(error) => Some(match error.refusal() {
            Some(_) => format!("cannot flush the session: {error}; {AS_WRITTEN}"),
            None => format!(
                "cannot reach pisted: {error}; {AS_WRITTEN}, and it is unknown whether the session is still running"
            ),
        }),
    }
}

/// What tells that there is something new: the bytes of each file of traces.
fn sizes<'f>(folders: impl Iterator<Item = &'f PathBuf>) -> HashMap<PathBuf, u64> {
    let mut sizes = HashMap::new();
    for folder in folders {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
                && !is_hidden
            {
                sizes.insert(entry.path(), metadata.len());
            }
        }
    }
    sizes
}
