// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that grow. [`Followed`] is a trace and the session that writes it; [`Follower`] reads what is new in some of them.
//!
//! Events come when their packets are complete. pisted is asked now and then to complete those of slow programs: only the reader knows that
//! somebody waits for them. Recording goes on without pisted, and so does following.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use piste_control::interface::{SessionState, SessionStatus, VarlinkClientInterface};
use piste_control::{Client, Places};
use piste_trace::growth::{Growth, Round};
use piste_trace::{Findings, OpenError, Trace, folders};

/// pisted has so much time for an answer. If it hangs, following goes on without it, in steps of this length.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

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

    /// Has written what waits for more. Where that cannot be, events come when their packets are full.
    fn flush(&self) {
        let Some(own) = &self.session else { return };
        let Ok(mut client) = pisted() else { return };
        let Ok(reply) = client.calls().list_sessions().call() else {
            return;
        };
        if let Some(session) = reply.sessions.into_iter().find(|session| session.id == own.id) {
            let _ = client.calls().flush(Some(session.name)).call();
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
pub fn sessions() -> Result<Vec<SessionStatus>, piste_control::Error> {
    Ok(pisted()?.calls().list_sessions().call()?.sessions)
}

fn pisted() -> Result<Client, piste_control::Error> {
    Client::connect_within(&Places::for_commands()?, Some(ANSWER_WITHIN))
}

/// Reads traces while they grow.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use piste_following::{Followed, Follower};
/// # use piste_trace::{Span, growth::Growth};
/// let followed = Followed::find("trace".as_ref()).ok_or("there is no such trace")?;
/// let mut follower = Follower::new(vec![followed], Growth::default(), Duration::from_millis(500));
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
    sources: Vec<Followed>,
    growth: Growth,
    /// Takes out those that are not to be read yet.
    hold_back: fn(&mut Vec<Trace>),
    flush_pause: Duration,
    next_flush: Instant,
    /// When they were last read. Absent: they were not.
    sizes: Option<HashMap<PathBuf, u64>>,
    /// Some events were held back.
    is_waiting: bool,
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
    /// Of some traces, in the order that `growth` gives them. pisted completes packets every `flush_pause`.
    pub fn new(sources: Vec<Followed>, growth: Growth, flush_pause: Duration) -> Follower {
        Follower {
            sources,
            growth,
            hold_back: |_| {},
            flush_pause,
            next_flush: Instant::now(),
            sizes: None,
            is_waiting: false,
        }
    }

    /// Before each look but the last, `hold_back` takes out the traces that are not to be read yet. One that was read is not to be taken out again.
    #[must_use]
    pub fn holding_back(self, hold_back: fn(&mut Vec<Trace>)) -> Follower {
        Follower { hold_back, ..self }
    }

    /// Nothing more will be written to any of them. To be asked before [`Follower::look`], so that what is written until the end is seen.
    ///
    /// # Errors
    /// pisted cannot be reached, so nobody knows.
    pub fn have_ended(&self) -> Result<bool, piste_control::Error> {
        if self.sources.iter().all(|source| source.session.is_none()) {
            return Ok(false);
        }
        let sessions = sessions()?;
        Ok(self.sources.iter().all(|source| source.has_ended(&sessions)))
    }

    /// What is new since the last look, if there is anything. `is_over`: nothing more will come, and this look has the rest.
    ///
    /// # Errors
    /// At the end, a trace cannot be opened. Before, its metadata may be half written.
    pub fn look(&mut self, is_over: bool) -> Result<Option<News>, OpenError> {
        if Instant::now() >= self.next_flush && !is_over {
            self.sources.iter().for_each(Followed::flush);
            self.next_flush = Instant::now() + self.flush_pause;
        }
        let now: HashMap<PathBuf, u64> = self.sources.iter().flat_map(|source| sizes(&source.folder)).collect();
        if !is_over && !self.is_waiting && self.sizes.as_ref() == Some(&now) {
            return Ok(None);
        }
        let mut findings = Findings::default();
        let mut traces = open(&self.sources, &mut findings, is_over)?;
        if !is_over {
            (self.hold_back)(&mut traces);
        }
        let sizes = (!is_over).then_some(&now);
        let round = self.growth.round(&traces, &findings, sizes, Instant::now());
        self.is_waiting = round.is_waiting;
        self.sizes = Some(now);
        Ok(Some(News {
            traces,
            findings,
            round,
        }))
    }
}

/// What tells that there is something new: the bytes of each file of the traces in a folder.
fn sizes(folder: &Path) -> HashMap<PathBuf, u64> {
    let mut sizes = HashMap::new();
    for folder in folders(folder, &mut Findings::default()).unwrap_or_default() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
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

/// The traces that can be read so far. At the end, one that cannot be is an error.
fn open(sources: &[Followed], findings: &mut Findings, is_over: bool) -> Result<Vec<Trace>, OpenError> {
    let mut traces = Vec::new();
    for source in sources {
        let folders = match folders(&source.folder, findings) {
            Err(_) if !is_over => continue,
            folders => folders?,
        };
        for folder in folders {
            match Trace::open(folder, &source.folder, findings) {
                // Its metadata may be half written.
                Err(_) if !is_over => {}
                trace => traces.push(trace?),
            }
        }
    }
    Ok(traces)
}
