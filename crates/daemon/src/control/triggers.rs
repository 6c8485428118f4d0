// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers, in the daemon's thread: they are added and removed, act on their matches, and tell those who listen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use piste_control::{contexts, interface as shown};
use piste_kernel::spec;
use serde_json::Value;

use super::commands::record_id;
use super::daemon::{Daemon, WRITE_TIMEOUT};
use super::inbox::Answer;
use super::output::time_stamp;
use super::replies::sentence;
use super::status::{self, count};
use super::waiting::Ended;
use super::{clock, counters, host, kernel_words};
use crate::link::{ChannelTotals, Domain, Lapse, Match, RequestId, SessionId};
use crate::person::Person;
use crate::session::commands::RulesRequest;
use crate::session::triggers::{self, Act, Action, ActionKind, OfSession, SessionEvent, TriggerRequest};
use crate::session::{Pending, Process, Refusal, SessionIdentity, SessionState};

/// How long whoever removes a trigger waits for its actions.
const ACTIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// Notices that wait for a client that reads slowly; more are skipped.
const NOTICE_COUNT_MAX: usize = 256;

/// A trigger that is wanted, and what it waits for.
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct NewTrigger {
    pub request: TriggerRequest,
    pub condition: Condition,
    pub contexts: Vec<String>,
    pub owner: Person,
    pub record_id: Option<String>,
    pub bound_to: Option<Process>,
}

/// What a trigger waits for.
pub enum Condition {
    /// Events of programs: one, or a beginning and an end.
    Programs(Vec<RulesRequest>),
    /// The same of the kernel, checked.
    Kernel(Vec<spec::Rule>),
    /// Something of a session, as the request says.
    Session,
}

/// What those who listen are told.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct Notice {
    pub trigger: String,
    pub matched: Option<shown::TriggerMatch>,
    pub outcome: Option<shown::TriggerOutcome>,
}

/// The triggers whose actions are not all done, by their session.
#[derive(Debug, Default)]
pub struct Acting(BTreeMap<SessionId, Busy>);

#[derive(Debug)]
struct Busy {
    since: Instant,
    /// They wait until the actions are done.
    requests: Vec<RequestId>,
}

impl Acting {
    /// A session, of a trigger or not, is gone.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.0.remove(&session);
    }

    /// An action that takes longer than any may is taken for lost.
    fn is_busy(&self, trigger: SessionId) -> bool {
        let busy = self.0.get(&trigger);
        busy.is_some_and(|busy| busy.since.elapsed() < WRITE_TIMEOUT)
    }
}

/// Those who listen.
#[derive(Debug, Default)]
pub struct Listeners {
    all: Vec<Listener>,
    last_number: u64,
}

#[derive(Debug)]
struct Listener {
    number: u64,
    by: Person,
    /// Of triggers; empty: all that are allowed.
    names: BTreeSet<String>,
    /// With how many were skipped before.
    notices: SyncSender<(Arc<Notice>, i64)>,
    skipped: i64,
    last_removed: Arc<OnceLock<(String, i64)>>,
}

/// One who listens.
#[derive(Debug)]
pub struct Listening {
    /// For [`Daemon::stop_listening`].
    pub number: u64,
    /// Ends with pisted, or with the last trigger.
    pub notices: Receiver<(Arc<Notice>, i64)>,
    /// That trigger's name, and how many notices were skipped at last; set before the end of the notices.
    pub last_removed: Arc<OnceLock<(String, i64)>>,
}

impl Listeners {
    fn tell(&mut self, owner: Option<u32>, notice: Notice) {
        let notice = Arc::new(notice);
        for listener in &mut self.all {
            let is_allowed = listener.by.uid().is_none() || listener.by.uid() == owner;
            if !is_allowed || !listener.names.is_empty() && !listener.names.contains(&notice.trigger) {
                continue;
            }
            match listener.notices.try_send((notice.clone(), listener.skipped)) {
                Ok(()) => listener.skipped = 0,
                Err(TrySendError::Full(_)) => listener.skipped += 1,
                // It says itself that it leaves.
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// A trigger is removed: who listened to that one only has heard everything.
    pub(super) fn trigger_is_gone(&mut self, name: &str) {
        self.all.retain_mut(|listener| {
            let hears_more = !listener.names.remove(name) || !listener.names.is_empty();
            if !hears_more {
                // It is removed once.
                let _ = listener.last_removed.set((name.to_owned(), listener.skipped));
            }
            hears_more
        });
    }

    /// Nobody is told anything any more.
    pub fn end(&mut self) {
        self.all.clear();
    }
}

impl Daemon {
    /// Adds a trigger; answers when it looks.
    pub fn add_trigger(&mut self, wanted: NewTrigger, answer: Answer<shown::TriggerStatus>) {
        let session = match self.create_trigger(wanted) {
            Ok(session) => session,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        if self.is_of_session(session) {
            let status = self.trigger_status(session);
            return self.reply(answer, Ok(status));
        }
        self.start_session(session, move |daemon, started| {
            if started.is_err() && daemon.still_open(session).is_ok() {
                daemon.end_session(session, |_, _| {});
            }
            let status = started.map(|()| daemon.trigger_status(session));
            daemon.reply(answer, status);
        });
    }

    fn create_trigger(&mut self, wanted: NewTrigger) -> Result<SessionId, Refusal> {
        let trigger = self.machine.settle_trigger(wanted.request)?;
        // No session that people create has a name like this.
        let name = format!("trigger/{}", trigger.name);
        let identity = SessionIdentity {
            output: self.places.run_folder().join(&name),
            trace: self.describe_trace(&name, &time_stamp()),
            name,
            owner: wanted.owner,
            snapshot: false,
            record_id: wanted.record_id.map(record_id).transpose()?,
            never_current: true,
            bound_to: wanted.bound_to,
            trigger: Some(Box::new(trigger)),
        };
        let session = self.machine.create_trigger(identity)?;
        // The process that it is bound to may have ended.
        self.watch_creator(session);
        self.still_open(session)?;
        match self.set_up(session, wanted.condition, wanted.contexts) {
            Ok(()) => Ok(session),
            Err(refusal) => {
                self.end_session(session, |_, _| {});
                Err(refusal)
            }
        }
    }

    fn set_up(&mut self, session: SessionId, condition: Condition, contexts: Vec<String>) -> Result<(), Refusal> {
        match condition {
            Condition::Programs(rules) => {
                counters::check(&contexts)?;
                for (name, rules) in triggers::CHANNELS.into_iter().zip(rules) {
                    let channel = triggers::channel(name, contexts.clone());
                    self.machine.enable_channel(session, &channel)?;
                    self.machine.enable_event(session, Some(name), &rules)?;
                }
            }
            Condition::Kernel(rules) => {
                for (name, rule) in triggers::CHANNELS.into_iter().zip(rules) {
                    let channel = triggers::kernel_channel(name, contexts.clone());
                    self.machine.enable_kernel_channel(session, &channel)?;
                    self.machine.enable_kernel_event(session, Some(name), vec![rule])?;
                }
            }
            Condition::Session => {}
        }
        Ok(())
    }

    /// Nothing is recorded for it.
    fn is_of_session(&self, session: SessionId) -> bool {
        let trigger = &self.machine.session(session).identity.trigger;
        trigger.as_ref().is_some_and(|trigger| trigger.of_session.is_some())
    }

    /// Removes a trigger; answers when it has told everything.
    pub fn remove_trigger(&mut self, name: &str, by: &Person, answer: Answer<shown::TriggerStatus>) {
        let session = match self.machine.find_own_trigger(name, by) {
            Ok(session) => session,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        // One that is spent is stopped.
        self.stop_session(session, move |daemon, _| {
            if let Err(refusal) = daemon.still_open(session) {
                return daemon.reply(answer, Err(refusal));
            }
            daemon.after_acts(session, move |daemon| {
                if let Err(refusal) = daemon.still_open(session) {
                    return daemon.reply(answer, Err(refusal));
                }
                let status = daemon.trigger_status(session);
                daemon.end_session(session, move |daemon, ended| {
                    let ended = ended.map(|_| status);
                    daemon.reply(answer, ended);
                });
            });
        });
    }

    /// Goes on when the trigger has done everything that it has begun, or takes too long.
    fn after_acts(&mut self, trigger: SessionId, then: impl FnOnce(&mut Daemon) + 'static) {
        let Some(busy) = self.acting.0.get_mut(&trigger) else {
            return then(self);
        };
        let request = self.machine.own_request();
        busy.requests.push(request);
        // A disk may hang.
        let then = |daemon: &mut Daemon, _: Ended| then(daemon);
        self.wait(Pending::default(), [request], ACTIONS_TIMEOUT, Box::new(then));
    }

    /// The trigger has done everything for one match.
    fn act_ended(&mut self, trigger: SessionId) {
        let busy = self.acting.0.remove(&trigger);
        for request in busy.into_iter().flat_map(|busy| busy.requests) {
            self.waiting.done(request, Ok(Vec::new()));
        }
    }

    /// Answers with all triggers.
    pub fn list_triggers(&mut self, answer: Answer<Vec<shown::TriggerStatus>>) {
        let sessions = self.machine.triggers().map(|(session, _, _)| session).collect();
        self.report(sessions, move |daemon| {
            let sessions: Vec<SessionId> = daemon.machine.triggers().map(|(session, _, _)| session).collect();
            let statuses = sessions.into_iter().map(|session| daemon.status_of_listed(session));
            let statuses = statuses.collect();
            daemon.reply(answer, Ok(statuses));
        });
    }

    /// Tells somebody what triggers do from now on.
    pub fn listen(&mut self, names: Vec<String>, by: Person, answer: Answer<Listening>) {
        let names: BTreeSet<String> = names.into_iter().collect();
        let refused = names
            .iter()
            .find_map(|name| self.machine.find_own_trigger(name, &by).err());
        if let Some(refusal) = refused {
            return self.reply(answer, Err(refusal));
        }
        let (sender, notices) = sync_channel(NOTICE_COUNT_MAX);
        let last_removed = Arc::<OnceLock<(String, i64)>>::default();
        self.listeners.last_number += 1;
        let number = self.listeners.last_number;
        self.listeners.all.push(Listener {
            number,
            by,
            names,
            notices: sender,
            skipped: 0,
            last_removed: last_removed.clone(),
        });
        let listening = Listening {
            number,
            notices,
            last_removed,
        };
        self.reply(answer, Ok(listening));
    }

    /// Somebody has left.
    pub fn stop_listening(&mut self, number: u64) {
        self.listeners.all.retain(|listener| listener.number != number);
    }

    /// Events of a trigger's session.
    pub(super) fn matched(&mut self, session: SessionId, matches: Vec<Match>, all: u64, missed: u64) {
        let now = clock::now();
        self.machine.missed(session, missed);
        let acts_max = match self
            .machine
            .sessions()
            .get(session)
            .and_then(|state| state.identity.trigger.as_ref())
        {
            Some(trigger) if trigger.actions.is_empty() => usize::MAX,
            // What is done for one match ends before the next one.
            _ => usize::from(!self.acting.is_busy(session)),
        };
        let acts = self.machine.matched(session, matches, all, acts_max, now);
        if self.machine.rest(session) {
            self.stop_session(session, |_, _| {});
        }
        if acts.is_empty() {
            return;
        }
        // In the journal first.
        self.carry_out();
        let identity = self.machine.session(session).identity.clone();
        let Some(trigger) = identity.trigger else { return };
        for act in acts {
            let number = act.number;
            let notice = Notice {
                trigger: trigger.name.clone(),
                matched: Some(shown_match(act, count(now.wall_ns))),
                outcome: None,
            };
            self.listeners.tell(identity.owner.uid(), notice);
            if !trigger.actions.is_empty() {
                let busy = Busy {
                    since: Instant::now(),
                    requests: Vec::new(),
                };
                self.acting.0.insert(session, busy);
                self.act(session, number, trigger.actions.iter().cloned().collect());
            }
        }
    }

    /// Does what a trigger does on a match, one after the other.
    fn act(&mut self, trigger: SessionId, number: u64, mut actions: VecDeque<Action>) {
        let is_there = self.machine.sessions().get(trigger).is_some();
        let Some(action) = actions.pop_front().filter(|_| is_there) else {
            return self.act_ended(trigger);
        };
        let kind = action.kind;
        let asked = self.machine.action_of(trigger, &action);
        let found = self.machine.find_own_session(&asked);
        let done = move |daemon: &mut Daemon, outcome: Result<Option<String>, Refusal>| {
            daemon.acted(trigger, number, action, outcome);
            daemon.act(trigger, number, actions);
        };
        let session = match found {
            Ok(session) => session,
            Err(refusal) => return done(self, Err(refusal)),
        };
        match kind {
            ActionKind::Start => self.start_session(session, |daemon, started| match started {
                Err(Refusal::AlreadyActive { .. }) => done(daemon, Ok(None)),
                started => done(daemon, started.map(|()| None)),
            }),
            ActionKind::Stop => self.stop_session(session, |daemon, stopped| match stopped {
                Err(Refusal::NotActive { .. }) => done(daemon, Ok(None)),
                stopped => done(daemon, stopped.map(|()| None)),
            }),
            ActionKind::Snapshot => self.snapshot(session, None, asked.by, |daemon, taken| {
                done(daemon, taken.map(|taken| Some(taken.output)));
            }),
            ActionKind::Rotate => self.rotate_session(session, |daemon, finished| {
                done(daemon, finished.map(|chunk| Some(chunk.output)));
            }),
        }
    }

    /// An action was done, or could not be.
    fn acted(&mut self, trigger: SessionId, number: u64, action: Action, outcome: Result<Option<String>, Refusal>) {
        let Some(state) = self.machine.sessions().get(trigger) else {
            return;
        };
        let (owner, Some(settings)) = (state.identity.owner.uid(), &state.identity.trigger) else {
            return;
        };
        let name = settings.name.clone();
        let (output, error) = match outcome {
            Ok(output) => (output, None),
            Err(refusal) => (None, Some(sentence(refusal))),
        };
        if let Some(error) = &error {
            let what = format!("{} of session {:?} failed: {error}", action.kind.name(), action.session);
            self.machine.add_finding(trigger, what);
        }
        let notice = Notice {
            trigger: name,
            matched: None,
            outcome: Some(shown::TriggerOutcome {
                number: count(number),
                action: shown_action(&action),
                output,
                error,
            }),
        };
        self.listeners.tell(owner, notice);
    }

    /// A trigger that nobody removes.
    fn status_of_listed(&self, session: SessionId) -> shown::TriggerStatus {
        let mut status = self.trigger_status(session);
        let state = self.machine.session(session);
        if state.state == SessionState::Inactive && !self.is_of_session(session) {
            status.findings.push(shown::Finding {
                what: "it could not be started, so it does not watch for its event".into(),
                count: 1,
            });
        }
        status
    }

    /// A trigger whose session is there.
    fn trigger_status(&self, session: SessionId) -> shown::TriggerStatus {
        let state = self.machine.session(session);
        let trigger = state.identity.trigger.clone().expect("it is the session of a trigger");
        let (uid, notes) = (
            state.identity.owner.uid().unwrap_or_else(host::own_uid),
            self.machine.notes(session),
        );
        let of_programs = state.channels.first();
        let of_kernel = state.kernel.channels.first();
        let (end_of_programs, end_of_kernel) = (state.channels.get(1), state.kernel.channels.get(1));
        let contexts = match (of_programs, of_kernel) {
            (Some(channel), _) => Some(channel.settings.contexts.names()),
            (None, Some(channel)) => Some(kernel_words::settings(channel).contexts),
            (None, None) => None,
        };
        let totals = Domain::ALL
            .iter()
            .filter_map(|domain| self.totals.get(&(session, *domain)))
            .flatten();
        let missed = totals.map(ChannelTotals::missed).fold(0, u64::saturating_add);
        let (lately, not_looked_at) = notes.map_or((0, 0), |notes| (notes.lately.matched, notes.lately.missed));
        let findings = notes.map(|notes| status::findings(&notes.findings.list()));
        shown::TriggerStatus {
            name: trigger.name,
            uid: uid.into(),
            user: host::user_name(uid),
            condition: shown::TriggerCondition {
                event: of_programs.and_then(|channel| status::rules(&channel.rules).pop()),
                kernel_event: of_kernel.and_then(|channel| kernel_words::rules(&channel.rules).pop()),
                session_event: trigger.of_session.as_ref().map(shown_session_event),
                end_event: end_of_programs.and_then(|channel| status::rules(&channel.rules).pop()),
                end_kernel_event: end_of_kernel.and_then(|channel| kernel_words::rules(&channel.rules).pop()),
                over_ns: trigger.lapse.as_ref().map(|lapse| count(lapse.over_ns)),
                overdue: trigger.lapse.as_ref().map(|lapse| lapse.overdue),
                by: trigger.lapse.map(|lapse| lapse.by),
                contexts,
            },
            actions: trigger.actions.iter().map(shown_action).collect(),
            per_second: trigger.per_second.into(),
            at_most: trigger.at_most.map(count),
            matched: count(state.deeds.matched + lately),
            acted: count(state.deeds.acted),
            missed: count(missed.saturating_add(not_looked_at)),
            last_ns: state.deeds.last_ns,
            findings: findings.unwrap_or_default(),
        }
    }
}

fn shown_match(act: Act, noticed_ns: i64) -> shown::TriggerMatch {
    let values = |json: &str| serde_json::from_str(json).unwrap_or(Value::Null);
    let found = act.found;
    let mut contexts = values(&found.contexts);
    if let Value::Object(contexts) = &mut contexts {
        let names: Vec<String> = contexts.keys().cloned().collect();
        for name in names {
            // What says which type a value has, if any.
            if let Some(tag) = contexts.remove(&format!("_{name}_tag"))
                && tag["labels"][0] == "_none"
            {
                contexts.insert(name, Value::Null);
            }
        }
    }
    shown::TriggerMatch {
        number: count(act.number),
        event: found.event,
        time_ns: found.time_ns,
        noticed_ns,
        pid: (found.pid != 0).then_some(found.pid.into()),
        contexts,
        fields: values(&found.fields),
        duration_ns: found.duration_ns.map(count),
        suppressed: count(act.suppressed),
    }
}

fn shown_action(action: &Action) -> shown::TriggerAction {
    use shown::TriggerActionKind as Kind;
    shown::TriggerAction {
        kind: match action.kind {
            ActionKind::Start => Kind::start,
            ActionKind::Stop => Kind::stop,
            ActionKind::Snapshot => Kind::snapshot,
            ActionKind::Rotate => Kind::rotate,
        },
        session: action.session.clone(),
    }
}

fn shown_session_event(of_session: &OfSession) -> shown::SessionEvent {
    use shown::SessionEventKind as Kind;
    let (kind, bytes, percent) = match of_session.what {
        SessionEvent::Rotated => (Kind::rotated, None, None),
        SessionEvent::Lost => (Kind::lost, None, None),
        SessionEvent::Recorded { bytes } => (Kind::recorded, Some(count(bytes)), None),
        SessionEvent::Filled { percent } => (Kind::filled, None, Some(percent.into())),
    };
    shown::SessionEvent {
        session: of_session.session.clone(),
        kind,
        bytes,
        percent,
    }
}

/// What can happen to a session, as it was asked for.
///
/// # Errors
/// A number that cannot be, is missing, or means nothing.
pub fn wanted_session_event(event: shown::SessionEvent) -> Result<OfSession, Refusal> {
    use shown::SessionEventKind as Kind;
    let what = match (event.kind, event.bytes, event.percent) {
        (Kind::rotated, None, None) => SessionEvent::Rotated,
        (Kind::lost, None, None) => SessionEvent::Lost,
        (Kind::recorded, Some(bytes @ 1..), None) => SessionEvent::Recorded {
            bytes: bytes.unsigned_abs(),
        },
        (Kind::filled, None, Some(percent @ 1..=100)) => SessionEvent::Filled { percent: percent as u8 },
        (kind, bytes, percent) => {
            let (setting, value, allowed) = match kind {
                Kind::recorded => ("number of bytes", bytes, "1 or more, and no percentage"),
                Kind::filled => ("percentage", percent, "1 to 100, and no number of bytes"),
                Kind::rotated | Kind::lost => ("number of bytes or percentage", bytes.or(percent), "none"),
            };
            return Err(Refusal::InvalidSetting {
                setting,
                value: value.map_or("none".into(), |value| value.to_string()),
                allowed: allowed.into(),
            });
        }
    };
    let session = event.session;
    Ok(OfSession { session, what })
}

/// An action as it was asked for.
pub fn wanted_action(action: shown::TriggerAction) -> Action {
    use shown::TriggerActionKind as Kind;
    Action {
        kind: match action.kind {
            Kind::start => ActionKind::Start,
            Kind::stop => ActionKind::Stop,
            Kind::snapshot => ActionKind::Snapshot,
            Kind::rotate => ActionKind::Rotate,
        },
        session: action.session,
    }
}

/// The duration that a condition is about, if it is about one.
///
/// # Errors
/// What contradicts itself.
pub fn wanted_lapse(condition: &shown::TriggerCondition) -> Result<Option<Lapse>, Refusal> {
    let invalid = |value: &str, allowed: &str| Refusal::InvalidSetting {
        setting: "duration",
        value: value.into(),
        allowed: allowed.into(),
    };
    let of_programs = condition.event.is_some();
    let (end, other) = match of_programs {
        true => (condition.end_event.is_some(), condition.end_kernel_event.is_some()),
        false => (condition.end_kernel_event.is_some(), condition.end_event.is_some()),
    };
    if other {
        return Err(invalid("an end", "an end of the same domain as the beginning"));
    }
    match (end, condition.over_ns) {
        (false, None) if condition.by.is_none() => Ok(None),
        (true, Some(over_ns)) => {
            let over_ns = u64::try_from(over_ns).map_err(|_| invalid(&over_ns.to_string(), "0 ns or more"))?;
            let of_thread = if of_programs { "vtid" } else { "tid" };
            let by = condition.by.clone().unwrap_or_else(|| of_thread.into());
            let overdue = condition.overdue.unwrap_or(false);
            Ok(Some(Lapse { over_ns, by, overdue }))
        }
        (true, None) => Err(invalid("an end", "an end together with a time")),
        (false, _) => Err(invalid("a time", "a time together with an end")),
    }
}

/// The contexts that are wanted, with the one that beginning and end have in common.
pub fn wanted_contexts(condition: &shown::TriggerCondition, lapse: Option<&Lapse>) -> Vec<String> {
    let (known, default) = match condition.event.is_some() {
        true => (&contexts::OF_PROGRAMS[..], triggers::CONTEXTS),
        false => (&contexts::OF_KERNEL[..], triggers::KERNEL_CONTEXTS),
    };
    let is_meant = |known: &&contexts::Context| lapse.is_some_and(|lapse| lapse.by == known.name);
    let wanted = condition.contexts.clone();
    let mut wanted = wanted.unwrap_or_else(|| default.map(str::to_owned).to_vec());
    if let Some(by) = known.iter().find(is_meant)
        && !wanted.iter().any(|name| name == by.name)
    {
        wanted.push(by.name.into());
    }
    wanted
}

/// A condition has one event.
pub fn not_one_event(value: &str) -> Refusal {
    Refusal::InvalidSetting {
        setting: "condition",
        value: value.into(),
        allowed: "one event, of programs, of the kernel, or of a session".into(),
    }
}
