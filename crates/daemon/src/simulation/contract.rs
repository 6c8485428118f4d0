// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask in a simulation, and what they may rely on from the answers: an event that a program emits after the session that wants it
//! was started is recorded, one that it emits after it was disabled, or after the session was stopped, is not.
//!
//! Each accepted command leads to another state of its session. A command that is not answered has taken effect or not, and a program may not
//! have heard of it. So what holds for a program is what all states have in common from the last one that it has confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::program::{Program, Versions};
use crate::link::{ChannelTotals, Failure, SessionId};
use crate::session::rules::{self, matches};
use crate::session::{ProgramId, Session, SessionState};

pub(super) type CommandId = u64;
/// Of the names of events.
pub(super) type Pattern = String;
/// Events of this kind pass; without one, all do.
pub(super) type Filter = Option<u64>;

/// What somebody asks.
#[derive(Debug, Clone)]
pub(super) enum Command {
    Create { name: String, output: PathBuf },
    OfSession(SessionId, SessionCommand),
}

#[derive(Debug, Clone)]
pub(super) enum SessionCommand {
    EnableEvent(Pattern, Filter),
    /// All rules, without one.
    DisableEvent(Option<Pattern>),
    EnableChannel,
    DisableChannel,
    Start,
    Stop,
    Destroy,
    Flush,
    Rotate,
    Report,
}

/// What is answered.
#[derive(Debug)]
pub(super) enum Answer {
    Created(SessionId),
    /// The programs follow, but for those that did not confirm.
    Done {
        silent: BTreeSet<ProgramId>,
    },
    Failed(Failure),
    /// Of a session that was stopped or destroyed.
    Ended(Vec<ChannelTotals>),
    Reported {
        is_active: bool,
    },
    /// What was recorded before is written.
    Flushed(SessionId),
    /// A chunk is in its place.
    Rotated,
}

/// How a filter is written, before the kind.
pub(super) const FILTER: &str = "kind == ";

/// An event that a program emits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Emitted<'n> {
    pub(super) module: u32,
    pub(super) name: &'n str,
    pub(super) kind: u64,
}

/// What is to be with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Recorded,
    NotRecorded,
    Anything,
}

/// What people know of all sessions.
#[derive(Default)]
pub(super) struct Contract {
    pub(super) sessions: BTreeMap<SessionId, Promise>,
    in_flight: BTreeMap<CommandId, InFlight>,
}

struct InFlight {
    command: Command,
    /// The state that it leads to.
    version: usize,
}

/// What people know of a session.
pub(super) struct Promise {
    pub(super) output: PathBuf,
    /// One after the other.
    states: Vec<State>,
    /// The last one that a command was answered for.
    answered: usize,
    /// It was said that nothing is recorded.
    is_quiet: bool,
    /// It was said that it records.
    pub(super) is_on: bool,
    /// The same at any time, so that there is a trace.
    is_begun: bool,
    /// Once it was destroyed.
    pub(super) totals: Option<Vec<ChannelTotals>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    recording: Recording,
    is_closing: bool,
    is_disabled: bool,
    rules: BTreeMap<Pattern, Rule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    is_enabled: bool,
    filter: Filter,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Recording {
    #[default]
    No,
    Yes,
    /// It could not be started.
    Unknown,
}

impl State {
    fn of(session: &Session) -> State {
        let channel = session.channels.first();
        let rules = channel.map_or(&[][..], |channel| &channel.rules);
        State {
            recording: match session.state {
                SessionState::Active => Recording::Yes,
                _ => Recording::No,
            },
            is_closing: session.state == SessionState::Closing,
            is_disabled: channel.is_some_and(|channel| !channel.enabled),
            rules: rules.iter().map(Rule::of).collect(),
        }
    }

    fn after(&self, command: &SessionCommand) -> State {
        let mut state = self.clone();
        match command {
            SessionCommand::EnableEvent(pattern, filter) => {
                let rule = Rule {
                    is_enabled: true,
                    filter: *filter,
                };
                state.rules.insert(pattern.clone(), rule);
            }
            SessionCommand::DisableEvent(pattern) => {
                let is_meant = |known: &Pattern| pattern.as_ref().is_none_or(|pattern| pattern == known);
                let rules = state.rules.iter_mut().filter(|(known, _)| is_meant(known));
                rules.for_each(|(_, rule)| rule.is_enabled = false);
            }
            SessionCommand::EnableChannel => state.is_disabled = false,
            SessionCommand::DisableChannel => state.is_disabled = true,
            SessionCommand::Start => state.recording = Recording::Yes,
            SessionCommand::Stop => state.recording = Recording::No,
            SessionCommand::Destroy => (state.recording, state.is_closing) = (Recording::No, true),
            SessionCommand::Flush | SessionCommand::Rotate | SessionCommand::Report => {}
        }
        state
    }

    fn wants(&self, event: Emitted<'_>) -> bool {
        let passes = |rule: &Rule| rule.is_enabled && rule.filter.is_none_or(|kind| kind == event.kind);
        let mut rules = self.rules.iter();
        !self.is_disabled && rules.any(|(pattern, rule)| passes(rule) && matches(pattern, event.name))
    }

    /// Whether pisted may come back with this state after it had the other one.
    fn is_like(&self, other: &State) -> bool {
        let recording = other.recording == Recording::Unknown || self.recording == other.recording;
        let rest = |state: &State| State {
            recording: Recording::No,
            ..state.clone()
        };
        recording && rest(self) == rest(other)
    }
}

impl Rule {
    fn of(rule: &rules::Rule) -> (Pattern, Rule) {
        let filter = rule.filter.as_ref().map(|filter| {
            let kind = filter.text().strip_prefix(FILTER).and_then(|kind| kind.parse().ok());
            kind.expect("people write no other filters")
        });
        let is_enabled = rule.enabled;
        (rule.pattern.clone(), Rule { is_enabled, filter })
    }
}

impl Promise {
    fn new(output: PathBuf, state: State, is_quiet: bool) -> Promise {
        Promise {
            output,
            states: vec![state],
            answered: 0,
            is_quiet,
            is_on: false,
            is_begun: false,
            totals: None,
        }
    }

    fn version(&self) -> usize {
        self.states.len() - 1
    }

    fn last(&self) -> &State {
        self.states.last().expect("there is the first one")
    }

    /// Nobody has asked to start it since that state.
    fn is_stopped_since(&self, version: usize) -> bool {
        let mut since = self.states[version..].iter();
        since.all(|state| state.recording == Recording::No)
    }

    /// Somebody has asked to destroy it.
    pub(super) fn is_closing(&self) -> bool {
        self.last().is_closing
    }

    fn expected(&self, seen: Option<usize>, event: Emitted<'_>) -> Expected {
        if self.is_quiet {
            return Expected::NotRecorded;
        }
        // Programs that come back are told nothing of a session that is about to end.
        let Some(seen) = seen.filter(|_| !self.is_closing()) else {
            return Expected::Anything;
        };
        let states = &self.states[seen..];
        let records = |state: &State| state.recording == Recording::Yes && state.wants(event);
        if self.is_on && states.iter().all(records) {
            Expected::Recorded
        } else if !states.iter().any(|state| state.wants(event)) {
            Expected::NotRecorded
        } else {
            Expected::Anything
        }
    }
}

impl Contract {
    /// Sessions that nobody has asked to destroy.
    pub(super) fn open_sessions(&self) -> Vec<SessionId> {
        let open = self.sessions.iter().filter(|(_, promise)| !promise.is_closing());
        open.map(|(&session, _)| session).collect()
    }

    /// Whether somebody waits for an answer.
    pub(super) fn has_questions(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// How far each session is.
    pub(super) fn versions(&self) -> Versions {
        let of_session = |(&session, promise): (&SessionId, &Promise)| (session, promise.version());
        self.sessions.iter().map(of_session).collect()
    }

    /// Somebody asks. It is not refused.
    pub(super) fn asked(&mut self, id: CommandId, command: &Command) {
        let mut version = 0;
        if let Command::OfSession(session, of_session) = command {
            let promise = self
                .sessions
                .get_mut(session)
                .expect("people name sessions that are there");
            let state = promise.last().after(of_session);
            promise.is_quiet &= state.recording == Recording::No;
            promise.is_on &= state.recording == Recording::Yes;
            promise.states.push(state);
            version = promise.version();
        }
        let command = command.clone();
        self.in_flight.insert(id, InFlight { command, version });
    }

    /// Somebody is answered.
    pub(super) fn answered(&mut self, id: CommandId, answer: Answer, programs: &mut [Program]) {
        let asked = self.in_flight.remove(&id);
        let InFlight { command, version } = asked.expect("each command gets one answer");
        let (session, of_session) = match (command, &answer) {
            (Command::Create { output, .. }, Answer::Created(session)) => {
                let promise = Promise::new(output, State::default(), true);
                self.sessions.insert(*session, promise);
                return;
            }
            (Command::Create { .. }, answer) => panic!("a session is created, not {answer:?}"),
            (Command::OfSession(session, of_session), _) => (session, of_session),
        };
        let promise = self.sessions.get_mut(&session).expect("it was asked about");
        promise.answered = promise.answered.max(version);
        match answer {
            Answer::Done { silent } => {
                if matches!(of_session, SessionCommand::Start) {
                    let since = &promise.states[version..];
                    promise.is_on = since.iter().all(|state| state.recording == Recording::Yes);
                    promise.is_begun = true;
                }
                let is_told = |program: &&mut Program| program.is_synced() && !silent.contains(&program.id);
                for program in programs.iter_mut().filter(is_told) {
                    let seen = program.seen.entry(session).or_default();
                    *seen = version.max(*seen);
                }
            }
            Answer::Ended(totals) => {
                promise.is_quiet |= promise.is_stopped_since(version);
                if matches!(of_session, SessionCommand::Destroy) {
                    promise.totals = Some(totals);
                }
            }
            // Of a session that was stopped before somebody asked.
            Answer::Reported { is_active } => promise.is_quiet |= !is_active && promise.is_stopped_since(version),
            Answer::Flushed(_) | Answer::Rotated => {}
            Answer::Failed(_) if matches!(of_session, SessionCommand::Flush | SessionCommand::Rotate) => {}
            Answer::Failed(_) if matches!(of_session, SessionCommand::Start) => {
                let later = promise.states[version..].iter_mut();
                let same = later.take_while(|state| state.recording == Recording::Yes);
                same.for_each(|state| state.recording = Recording::Unknown);
            }
            Answer::Failed(failure) => panic!("{of_session:?} of session {session} failed: {failure:?}"),
            Answer::Created(_) => unreachable!("the session was there"),
        }
    }

    /// A new pisted has these sessions: what was answered, and perhaps what was only asked.
    pub(super) fn restarted<'s>(&mut self, sessions: impl Iterator<Item = (SessionId, &'s Session)>) {
        self.in_flight.clear();
        let mut there = BTreeSet::new();
        for (id, session) in sessions {
            there.insert(id);
            let state = State::of(session);
            let output = session.identity.output.clone();
            let promise = self
                .sessions
                .entry(id)
                .or_insert_with(|| Promise::new(output, state.clone(), false));
            let known = &promise.states[promise.answered..];
            assert!(
                known.iter().any(|known| state.is_like(known)),
                "a new pisted knows session {id} as {state:?}, but what was answered is {known:?}"
            );
            promise.is_quiet &= state.recording == Recording::No;
            promise.is_on &= state.recording == Recording::Yes;
            promise.states.push(match state.recording {
                // Nobody was told that it could be started.
                Recording::Yes if !promise.is_begun => State {
                    recording: Recording::Unknown,
                    ..state
                },
                _ => state,
            });
        }
        for (id, promise) in &mut self.sessions {
            if !there.contains(id) {
                assert!(promise.is_closing(), "a new pisted does not know session {id}");
                // Nobody waits for the answer any more.
                promise.is_quiet = true;
            }
        }
    }

    /// What is to be with an event of a program in a session.
    pub(super) fn expected(&self, session: SessionId, program: &Program, event: Emitted<'_>) -> Expected {
        let promise = &self.sessions[&session];
        match promise.expected(program.seen.get(&session).copied(), event) {
            // Nobody was told of it.
            Expected::Recorded if event.module > program.known => Expected::Anything,
            expected => expected,
        }
    }

    /// What somebody knows of a session.
    pub(super) fn describe(&self, session: SessionId, program: &Program) -> String {
        let promise = &self.sessions[&session];
        let seen = program.seen.get(&session);
        format!("quiet {}, seen {seen:?} of {:#?}", promise.is_quiet, promise.states)
    }
}
