// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers that wait for something that happens to a session: a rotation, lost events, bytes in its trace, full rings.
//!
//! What a session has and lost is compared with what it had before whenever its consumers state it: when somebody asks, when it ends, and
//! once a second while there is such a trigger. The comparison comes after whatever is being done, which may be about the same session.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::clock;
use super::daemon::Daemon;
use super::rotation::ChunkFinished;
use crate::link::{Domain, Match, SessionId};
use crate::session::triggers::SessionEvent;

/// How often to ask for totals that a trigger waits for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What was seen of the sessions that triggers wait for.
#[derive(Debug, Default)]
pub struct SessionEvents {
    next_look: Option<Instant>,
    is_looking: bool,
    /// Sessions up to this one were there before this pisted: what they had before is none of its news.
    known_before: SessionId,
    /// By trigger and session.
    seen: BTreeMap<(SessionId, SessionId), Seen>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    lost: u64,
    bytes: u64,
    /// Of the fullest ring, when somebody last looked.
    percent: Option<u8>,
}

impl SessionEvents {
    /// When it is time to look.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next_look
    }

    /// These sessions are there already.
    pub(super) fn begin(&mut self, last: Option<SessionId>) {
        self.known_before = last.unwrap_or(0);
    }

    /// A session, of a trigger or not, is gone.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.seen
            .retain(|&(trigger, of), _| trigger != session && of != session);
    }
}

impl Daemon {
    /// The triggers that wait for something of a session.
    fn triggers_of(&self, session: SessionId) -> Vec<(SessionId, SessionEvent)> {
        let Some(state) = self.machine.sessions().get(session) else {
            return Vec::new();
        };
        let of = |(id, _, trigger): (SessionId, _, &crate::session::triggers::Trigger)| {
            let of_session = trigger.of_session.as_ref()?;
            (of_session.session == state.identity.name).then_some((id, of_session.what))
        };
        self.machine.triggers().filter_map(of).collect()
    }

    /// Asks for totals, if a trigger waits for them and it is time.
    pub(super) fn look_at_sessions(&mut self) {
        let now = Instant::now();
        if self.session_events.next_look.is_some_and(|next| now < next) {
            return;
        }
        let sessions: Vec<SessionId> = match self
            .machine
            .triggers()
            .any(|(_, _, trigger)| trigger.of_session.is_some())
        {
            true => self.machine.named_session_ids(),
            false => Vec::new(),
        };
        let waits = |session: &SessionId| {
            let triggers = self.triggers_of(*session).into_iter();
            self.machine.is_active(*session) && triggers.into_iter().any(|(_, what)| what != SessionEvent::Rotated)
        };
        let sessions: Vec<SessionId> = sessions.into_iter().filter(waits).collect();
        if sessions.is_empty() {
            self.session_events.next_look = None;
            return;
        }
        self.session_events.next_look = Some(now + LOOK_INTERVAL);
        if !self.session_events.is_looking {
            self.session_events.is_looking = true;
            self.report(sessions, |daemon| daemon.session_events.is_looking = false);
        }
    }

    /// Has what a session has and lost compared with what it had.
    pub(super) fn compare_later(&mut self, session: SessionId) {
        let triggers = self.triggers_of(session);
        if triggers.is_empty() {
            return;
        }
        let state = self.machine.session(session);
        let (name, overwrites) = (state.identity.name.clone(), state.identity.snapshot);
        let totals = Domain::ALL
            .iter()
            .filter_map(|domain| self.totals.get(&(session, *domain)))
            .flatten();
        let mut now = Seen::default();
        for totals in totals {
            // That is how a flight recorder works.
            let overwritten = if overwrites { totals.overwritten_events } else { 0 };
            now.lost = now.lost.saturating_add(totals.missed().saturating_sub(overwritten));
            now.bytes = now.bytes.saturating_add(totals.bytes);
            now.percent = now.percent.max(totals.fill.and_then(|fill| fill.lately_percent));
        }
        for (trigger, what) in triggers {
            let is_older = session < trigger || session <= self.session_events.known_before;
            let first = if is_older {
                Seen { percent: None, ..now }
            } else {
                Seen::default()
            };
            let seen = self.session_events.seen.entry((trigger, session)).or_insert(first);
            let fields = match what {
                SessionEvent::Lost if now.lost > seen.lost => {
                    json!({ "session": name, "lost": now.lost - seen.lost, "lost_in_all": now.lost })
                }
                SessionEvent::Recorded { bytes } if now.bytes.saturating_sub(seen.bytes) >= bytes => {
                    json!({ "session": name, "bytes": now.bytes })
                }
                SessionEvent::Filled { percent } => {
                    let Some(now_percent) = now.percent else { continue };
                    let was_full = seen.percent.replace(now_percent) >= Some(percent);
                    if was_full || now_percent < percent {
                        continue;
                    }
                    json!({ "session": name, "percent": now_percent })
                }
                _ => continue,
            };
            *seen = now;
            self.session_matches_later(trigger, what, fields);
        }
    }

    /// A chunk of a session is finished.
    pub(super) fn rotated_later(&mut self, session: SessionId, chunk: &ChunkFinished) {
        let triggers = self.triggers_of(session);
        let is_meant = |(_, what): &(SessionId, SessionEvent)| *what == SessionEvent::Rotated;
        for (trigger, what) in triggers.into_iter().filter(is_meant) {
            let fields = json!({
                "session": self.machine.session(session).identity.name,
                "number": chunk.number,
                "output": chunk.output,
                "events": chunk.events,
                "bytes": chunk.bytes,
            });
            self.session_matches_later(trigger, what, fields);
        }
    }

    fn session_matches_later(&mut self, trigger: SessionId, what: SessionEvent, fields: Value) {
        let found = Match {
            event: what.name().to_owned(),
            time_ns: i64::try_from(clock::now().wall_ns).unwrap_or(i64::MAX),
            pid: 0,
            contexts: "{}".into(),
            fields: fields.to_string(),
            duration_ns: None,
        };
        self.inbox
            .post(Box::new(move |daemon| daemon.matched(trigger, vec![found], 1, 0)));
    }
}
