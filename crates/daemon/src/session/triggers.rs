// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers: what a user has done when an event matches.
//!
//! A trigger is a session that people cannot name, with one channel and one rule: what programs and the kernel record there are its matches, and
//! nothing is new for them. The consumer tells of matches instead of writing them, and here it is decided which of them the trigger acts on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::commands::Asked;
use super::machine::Machine;
use super::refusal::{Refusal, nearest};
use super::sessions::Change;
use super::settings::{ChannelRequest, check_name, invalid};
use super::tracing_session::{Moment, Session, SessionIdentity};
use crate::link::{Lapse, Match, SessionId};
use crate::person::Person;

/// The channel of each trigger.
pub const CHANNEL: &str = "trigger";
/// The second one of those that wait for durations, for the ends.
pub const END_CHANNEL: &str = "trigger-end";
/// Both.
pub const CHANNELS: [&str; 2] = [CHANNEL, END_CHANNEL];

/// What matches carry beside their fields, unless others are asked for.
pub const CONTEXTS: [&str; 2] = ["vtid", "procname"];
/// The same for events of the kernel.
pub const KERNEL_CONTEXTS: [&str; 2] = ["tid", "procname"];

/// How often a trigger acts in a second, unless it says otherwise.
pub const PER_SECOND: u32 = 10;
const PER_SECOND_MAX: u32 = 1000;
const ACTION_COUNT_MAX: usize = 16;

/// Of the rings in programs: a few milliseconds of events, however fast they come.
const SUBBUF_BYTES: i64 = 64 << 10;
const SUBBUF_COUNT: i64 = 8;
/// Of the kernel's rings, for each CPU.
const KERNEL_SUBBUF_BYTES: i64 = 4 << 10;
const KERNEL_SUBBUF_COUNT: i64 = 64;

/// What is fixed when a trigger is added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Unique among the triggers that exist.
    pub name: String,
    /// In the order in which they are done.
    pub actions: Vec<Action>,
    /// It acts at most so many times in any second ...
    pub per_second: u32,
    /// ... and in all.
    pub at_most: Option<u64>,
    /// It waits for durations.
    #[serde(default)]
    pub lapse: Option<Lapse>,
    /// It waits for something that happens to a session, and has no channel.
    #[serde(default)]
    pub of_session: Option<OfSession>,
}

/// Something that happens to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfSession {
    /// Its name.
    pub session: String,
    /// What.
    pub what: SessionEvent,
}

/// What can happen to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEvent {
    /// A chunk is finished.
    Rotated,
    /// Events were lost.
    Lost,
    /// So much more is in its trace.
    Recorded {
        /// So much.
        bytes: u64,
    },
    /// Some ring of its programs waits to be written, and is as full as that, or was a moment ago.
    Filled {
        /// Of a ring's space, 1 to 100.
        percent: u8,
    },
}

impl SessionEvent {
    /// As matches have it.
    pub fn name(self) -> &'static str {
        match self {
            SessionEvent::Rotated => "piste:session_rotated",
            SessionEvent::Lost => "piste:session_lost",
            SessionEvent::Recorded { .. } => "piste:session_recorded",
            SessionEvent::Filled { .. } => "piste:session_filled",
        }
    }
}

/// Something that a trigger does with a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// What.
    pub kind: ActionKind,
    /// Its name.
    pub session: String,
}

/// The same as the command of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub enum ActionKind {
    Start,
    Stop,
    Snapshot,
    Rotate,
}

impl ActionKind {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            ActionKind::Start => "start",
            ActionKind::Stop => "stop",
            ActionKind::Snapshot => "snapshot",
            ActionKind::Rotate => "rotate",
        }
    }
}

/// A trigger that is wanted; what is absent gets the default.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "as in Trigger")]
pub struct TriggerRequest {
    pub name: Option<String>,
    pub actions: Vec<Action>,
    pub per_second: Option<i64>,
    pub at_most: Option<i64>,
    pub lapse: Option<Lapse>,
    pub of_session: Option<OfSession>,
}

/// What a trigger has done, as the journal knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deeds {
    /// Events that matched, up to the last match that it acted on.
    pub matched: u64,
    /// How often it acted.
    pub acted: u64,
    /// When the last event that it acted on was recorded, since 1970.
    pub last_ns: Option<i64>,
}

/// What a trigger has done since, and what it may do. It is lost with pisted.
#[derive(Debug, Default)]
pub struct Lately {
    /// Matches that are not among the deeds.
    pub matched: u64,
    /// Events that nobody could look at, beside those that found no space.
    pub missed: u64,
    /// Matches since the last one that it acted on.
    suppressed: u64,
    /// When it acted, on the clock that never jumps: in the last second at least.
    acted_ns: VecDeque<u64>,
}

/// A match that a trigger acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Counts from 1.
    pub number: u64,
    /// The match.
    pub found: Match,
    /// Matches since the one before, which were only counted.
    pub suppressed: u64,
}

impl Lately {
    /// Takes one of the times that a trigger may act in this second.
    fn take_turn(&mut self, per_second: u32, now_ns: u64) -> bool {
        while self
            .acted_ns
            .front()
            .is_some_and(|acted| acted.saturating_add(1_000_000_000) <= now_ns)
        {
            self.acted_ns.pop_front();
        }
        let has_turn = self.acted_ns.len() < per_second as usize;
        if has_turn {
            self.acted_ns.push_back(now_ns);
        }
        has_turn
    }
}

impl Session {
    /// Its trigger has acted as often as it is to.
    pub fn is_spent(&self) -> bool {
        let at_most = self.identity.trigger.as_ref().and_then(|trigger| trigger.at_most);
        at_most.is_some_and(|at_most| self.deeds.acted >= at_most)
    }
}

impl Machine {
    /// Lets a trigger rest that has acted as often as it is to: its events are disabled. False if it does not, or rests already.
    pub fn rest(&mut self, session: SessionId) -> bool {
        let is_due = self.sessions.get(session).is_some_and(Session::is_spent) && self.is_active(session);
        if is_due {
            for channel in CHANNELS {
                // It has rules of programs or of the kernel, and a second channel only for durations.
                let _no_such_channel = self.disable_event(session, Some(channel), &[]);
                let _no_such_channel = self.disable_kernel_event(session, Some(channel), &[]);
            }
        }
        is_due
    }

    /// What a trigger is to be.
    ///
    /// # Errors
    /// The name is taken, or a setting cannot be.
    pub fn settle_trigger(&self, wanted: TriggerRequest) -> Result<Trigger, Refusal> {
        let name = match wanted.name {
            Some(name) => {
                check_name("trigger name", &name)?;
                if self.is_trigger(&name) {
                    return Err(Refusal::TriggerExists { name });
                }
                name
            }
            None => {
                let names = (1..).map(|number| format!("trigger-{number}"));
                names
                    .into_iter()
                    .find(|name| !self.is_trigger(name))
                    .expect("there are not so many triggers")
            }
        };
        let per_second = match wanted.per_second {
            None => PER_SECOND,
            Some(times) => u32::try_from(times)
                .ok()
                .filter(|times| (1..=PER_SECOND_MAX).contains(times))
                .ok_or_else(|| invalid("times per second", times, &format!("1 to {PER_SECOND_MAX}")))?,
        };
        let at_most = wanted.at_most.map(|times| {
            let possible = u64::try_from(times).ok().filter(|times| *times > 0);
            possible.ok_or_else(|| invalid("number of times", times, "1 or more"))
        });
        if wanted.actions.len() > ACTION_COUNT_MAX {
            let count = wanted.actions.len();
            return Err(invalid(
                "number of actions",
                count,
                &format!("at most {ACTION_COUNT_MAX}"),
            ));
        }
        let of_actions = wanted.actions.iter().map(|action| &action.session);
        let of_event = wanted.of_session.as_ref().map(|of_session| &of_session.session);
        for session in of_actions.chain(of_event) {
            check_name("session name", session)?;
        }
        Ok(Trigger {
            name,
            actions: wanted.actions,
            per_second,
            at_most: at_most.transpose()?,
            lapse: wanted.lapse,
            of_session: wanted.of_session,
        })
    }

    fn is_trigger(&self, name: &str) -> bool {
        // One that is being removed keeps its name until it is gone.
        let mut triggers = self
            .sessions
            .iter()
            .filter_map(|(_, session)| session.identity.trigger.as_ref());
        triggers.any(|trigger| trigger.name == name)
    }

    /// Creates the session of a trigger.
    ///
    /// # Errors
    /// The owner has too many sessions.
    pub fn create_trigger(&mut self, identity: SessionIdentity) -> Result<SessionId, Refusal> {
        self.check_session_count(&identity.owner)?;
        Ok(self.open_session(identity))
    }

    /// The triggers that people can name, in the order of their creation.
    pub fn triggers(&self) -> impl Iterator<Item = (SessionId, &Session, &Trigger)> {
        self.open_sessions()
            .filter_map(|(id, session)| Some((id, session, session.identity.trigger.as_deref()?)))
    }

    /// A trigger that somebody may change: the owner may, and root.
    ///
    /// # Errors
    /// There is none of that name, or it is somebody else's.
    pub fn find_own_trigger(&self, name: &str, by: &Person) -> Result<SessionId, Refusal> {
        let found = self.triggers().find(|(_, _, trigger)| trigger.name == name);
        let (id, session, _) = found.ok_or_else(|| Refusal::NoTrigger {
            name: name.to_owned(),
            nearest: nearest(name, self.triggers().map(|(_, _, trigger)| &*trigger.name)),
        })?;
        let owner = session.identity.owner.uid();
        if by.uid().is_none() || by.uid() == owner {
            return Ok(id);
        }
        Err(Refusal::NoPermission {
            what: format!("access to trigger {name:?}"),
            mend: format!(
                "it belongs to {}, and only its owner and root can listen to it or remove it",
                owner.map_or("root".into(), |uid| format!("user {uid}"))
            ),
        })
    }

    /// Events of a trigger's session. Returns those that the trigger acts on, at most `acts_max`.
    pub fn matched(
        &mut self,
        session: SessionId,
        matches: Vec<Match>,
        count: u64,
        acts_max: usize,
        now: Moment,
    ) -> Vec<Act> {
        let Some(state) = self.sessions.get(session) else {
            return Vec::new();
        };
        let Some(trigger) = state.identity.trigger.clone() else {
            return Vec::new();
        };
        let mut deeds = state.deeds;
        let lately = &mut self.notes_mut(session).lately;
        let not_read = count.saturating_sub(matches.len() as u64);
        let mut acts = Vec::new();
        for found in matches {
            lately.matched += 1;
            let is_spent = trigger.at_most.is_some_and(|at_most| deeds.acted >= at_most);
            if is_spent || acts.len() >= acts_max || !lately.take_turn(trigger.per_second, now.boot_ns) {
                lately.suppressed += 1;
                continue;
            }
            deeds.acted += 1;
            deeds.last_ns = Some(found.time_ns);
            acts.push(Act {
                number: deeds.acted,
                found,
                suppressed: std::mem::take(&mut lately.suppressed),
            });
        }
        lately.matched += not_read;
        lately.suppressed += not_read;
        if !acts.is_empty() {
            deeds.matched += std::mem::take(&mut lately.matched);
            self.record(Change::TriggerActed { session, deeds });
        }
        acts
    }

    /// Events that a trigger could not look at.
    pub fn missed(&mut self, session: SessionId, count: u64) {
        if count > 0 && self.sessions.get(session).is_some() {
            self.notes_mut(session).lately.missed += count;
        }
    }

    /// What the owner of a trigger asks for.
    pub fn action_of(&self, session: SessionId, action: &Action) -> Asked {
        Asked {
            session: Some(action.session.clone()),
            by: self.session(session).identity.owner.clone(),
        }
    }
}

/// A channel of a trigger for events of programs.
pub fn channel(name: &str, contexts: Vec<String>) -> ChannelRequest {
    ChannelRequest {
        name: name.into(),
        subbuf_bytes: Some(SUBBUF_BYTES),
        subbuf_count: Some(SUBBUF_COUNT),
        contexts: Some(contexts),
        ..ChannelRequest::default()
    }
}

/// The same for events of the kernel.
pub fn kernel_channel(name: &str, contexts: Vec<String>) -> ChannelRequest {
    ChannelRequest {
        name: name.into(),
        subbuf_bytes: Some(KERNEL_SUBBUF_BYTES),
        subbuf_count: Some(KERNEL_SUBBUF_COUNT),
        contexts: Some(contexts),
        ..ChannelRequest::default()
    }
}
