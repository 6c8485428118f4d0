// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste view --follow`: goes on as traces grow, until pisted says that their session has stopped, or Ctrl-C. Events come when their
//! packets are complete, and pisted is asked now and then to complete those of slow programs: only who follows knows that somebody waits
//! for them. Recording goes on without pisted, and so does following.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use piste_control::interface::{SessionState, SessionStatus, VarlinkClientInterface};
use piste_control::{Client, Places};
use piste_trace::growth::Growth;
use piste_trace::merge::Merge;
use piste_trace::repeated::find_repeated;
use piste_trace::rows::Column;
use piste_trace::{Findings, Trace, folders, loss};

use super::output::Output;
use super::shower::Shower;
use super::{OUT_BYTES, going, show, tell_losses, unreadable, zone};
use crate::arguments::{View, ViewFormat};
use crate::failure::{Failure, INTERRUPTED};
use crate::screen::{printable, tell_sentence};
use crate::traces::tell_findings;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two packets of a slow program.
const FLUSH_PAUSE: Duration = Duration::from_millis(500);
/// Of each stream in memory.
const WINDOW_BYTES: usize = 256 << 10;

/// `piste view --follow`
pub(super) fn follow(arguments: &View, format: ViewFormat) -> Result<(), Failure> {
    let sources: Vec<Followed> = arguments
        .paths
        .iter()
        .map(|path| Followed::new(path))
        .collect::<Result<_, _>>()?;
    let mut output = Output::open(arguments, format);
    let mut shown_so_far = going(&arguments.clock);
    let mut growth = Growth::default();
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let mut out = Vec::with_capacity(OUT_BYTES + (4 << 10));
    let mut columns = (!arguments.fields.is_empty()).then(|| arguments.fields.clone());
    let mut had_heading = false;
    let (mut state, mut is_waiting) = (None, false);
    let mut next_flush = Instant::now();
    let mut pisted = Pisted::default();
    loop {
        if Instant::now() >= next_flush {
            sources.iter().for_each(Followed::flush);
            next_flush = Instant::now() + FLUSH_PAUSE;
        }
        // Asked before the files are looked at: what is written until then is seen.
        let is_ended = pisted.have_ended(&sources);
        let is_over = is_ended || output.is_interrupted();
        let now: HashMap<PathBuf, u64> = sources.iter().flat_map(|source| sizes(&source.folder)).collect();
        if !is_over && !is_waiting && state.as_ref() == Some(&now) {
            thread::sleep(PAUSE);
            continue;
        }
        let mut findings = Findings::default();
        let traces = open(&sources, &mut findings, is_over)?;
        find_repeated(&traces, &mut findings);
        let selection = arguments.selection.selection(&traces, || zone(&arguments.clock))?;
        if !traces.is_empty() {
            let columns = columns.get_or_insert_with(|| match format {
                // Later classes of events may have more; a table has no more columns than its heading.
                ViewFormat::Csv => Column::all(&traces, &selection),
                _ => Vec::new(),
            });
            let round = growth.round(&traces, &findings, (!is_over).then_some(&now), Instant::now());
            is_waiting = round.is_waiting;
            let part = |index: &_| round.part(index, selection.span);
            let merge = Merge::of_parts(&traces, part, WINDOW_BYTES).map_err(unreadable)?;
            let mut shower = Shower::of(merge, &traces, &selection, columns, format, shown_so_far);
            if !had_heading {
                shower.heading(&mut out);
                had_heading = true;
            }
            let shown = show(&mut shower, &mut output, &mut out, &mut left);
            if let Err(failure) = shown {
                return output.close(Err(failure));
            }
            findings.extend(std::mem::take(&mut shower.merge().findings));
            shown_so_far = shower.into_going(|| going(&arguments.clock));
        }
        state = Some(now);
        if is_over || left == 0 {
            out.clear();
            shown_so_far.printer.finish(&mut out);
            let shown = output.write(&out);
            output.close(shown)?;
            tell_losses(&loss::sentences(&traces, &mut shown_so_far.times));
            tell_findings(&findings);
            return match is_ended || left == 0 {
                true => Ok(()),
                false => Err(Failure::with_status("interrupted", INTERRUPTED)),
            };
        }
        thread::sleep(PAUSE);
    }
}

/// A trace that is followed.
pub(crate) struct Followed {
    folder: PathBuf,
    /// The session that writes it; absent: nobody knows when it ends.
    session: Option<SessionStatus>,
}

impl Followed {
    /// A session by its name, or a folder.
    pub(crate) fn new(path: &Path) -> Result<Followed, Failure> {
        // Without a pisted, there is no session to follow, but there may be a trace.
        let sessions = sessions().unwrap_or_default();
        let name = path.to_string_lossy();
        if !path.exists() {
            return match sessions.into_iter().find(|session| session.name == name) {
                Some(session) => Ok(Followed {
                    folder: session.output.clone().into(),
                    session: Some(session),
                }),
                None => Err(Failure::new(format!(
                    "there is no trace and no session {} (see `piste list --sessions`)",
                    printable(&name)
                ))),
            };
        }
        let full = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let writes_it = |session: &SessionStatus| {
            let output = Path::new(&session.output);
            full.starts_with(output) || output.starts_with(&full)
        };
        let session = sessions.into_iter().find(writes_it);
        Ok(Followed {
            folder: path.to_owned(),
            session,
        })
    }

    /// Where the trace is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The session that writes it, as it was at first.
    pub(crate) fn session(&self) -> Option<&SessionStatus> {
        self.session.as_ref()
    }

    /// Has written what waits for more. Where that cannot be, events come when their packets are full.
    pub(crate) fn flush(&self) {
        let Some(own) = &self.session else { return };
        let Ok(mut client) = Places::for_commands().and_then(|places| Client::connect(&places)) else {
            return;
        };
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

/// Who knows whether sessions have ended.
#[derive(Default)]
struct Pisted {
    is_told_lost: bool,
}

impl Pisted {
    /// Nothing more will be written to any of them. While pisted cannot be reached nobody knows, and that is told once.
    fn have_ended(&mut self, sources: &[Followed]) -> bool {
        match have_ended(sources) {
            Ok(is_so) => {
                self.is_told_lost = false;
                is_so
            }
            Err(error) => {
                if !self.is_told_lost {
                    tell_sentence(&format!(
                        "cannot reach pisted: {error}; following the trace without knowing whether its session goes on"
                    ));
                    self.is_told_lost = true;
                }
                false
            }
        }
    }
}

/// Nothing more will be written to any of them.
///
/// # Errors
/// pisted cannot be reached.
pub(crate) fn have_ended(sources: &[Followed]) -> Result<bool, piste_control::Error> {
    if sources.iter().all(|source| source.session.is_none()) {
        return Ok(false);
    }
    let sessions = sessions()?;
    Ok(sources.iter().all(|source| source.has_ended(&sessions)))
}

/// Those that there are.
pub(crate) fn sessions() -> Result<Vec<SessionStatus>, piste_control::Error> {
    let mut client = Client::connect(&Places::for_commands()?)?;
    Ok(client.calls().list_sessions().call()?.sessions)
}

/// What tells that there is something new: the bytes of each file of the traces in a folder.
pub(crate) fn sizes(folder: &Path) -> HashMap<PathBuf, u64> {
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

/// The traces that can be read so far. At the end, one that cannot be is a failure.
pub(crate) fn open(sources: &[Followed], findings: &mut Findings, is_over: bool) -> Result<Vec<Trace>, Failure> {
    let mut traces = Vec::new();
    for source in sources {
        let folders = match folders(&source.folder, findings) {
            Ok(folders) => folders,
            Err(error) if is_over => return Err(Failure::new(printable(&error.to_string()))),
            Err(_) => continue,
        };
        for folder in folders {
            match Trace::open(folder, &source.folder, findings) {
                Ok(trace) => traces.push(trace),
                Err(error) if is_over => return Err(Failure::new(printable(&error.to_string()))),
                // Metadata may be half written.
                Err(_) => {}
            }
        }
    }
    Ok(traces)
}
