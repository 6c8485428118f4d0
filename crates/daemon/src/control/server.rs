// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves the control interface: a thread for each connection, which takes calls apart, has them done in the daemon's thread,
//! and puts the answers together.

use std::io::{self, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use piste_control::interface::{
    Call_AddContexts, Call_AddTrigger, Call_CreateSession, Call_DestroySession, Call_DisableChannel, Call_DisableEvent,
    Call_DisableKernelEvent, Call_Doctor, Call_EnableChannel, Call_EnableEvent, Call_EnableKernelEvent, Call_Flush,
    Call_ListKernelEvents, Call_ListProbePlaces, Call_ListPrograms, Call_ListSessions, Call_ListSyscalls,
    Call_ListTriggers, Call_Listen, Call_RegenerateStateDump, Call_RemoveTrigger, Call_Rotate, Call_SetCurrent,
    Call_Shutdown, Call_SnapshotRecord, Call_Start, Call_Status, Call_Stop, Call_Track, Call_TrackEverything,
    Call_Untrack, Call_Version, ChannelRequest, Domain, KernelRule, LevelRange, LossMode, ProbePlaceKind, Tracked,
    TriggerAction, TriggerCondition, VarlinkInterface, new,
};
use piste_reason::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;
use varlink::{ConnectionHandler, VarlinkService};

use super::commands::SessionRequest;
use super::complaints::Complaints;
use super::creator;
use super::daemon::Daemon;
use super::inbox::{Answer, Connected, Inbox};
use super::kernel_commands::Prepared;
use super::kernel_desk::{Clerk, KernelDesk};
use super::replies::{in_parts, refuse};
use super::requests::{Requests, Slot, Slots};
use super::status::count;
use super::triggers::{self, Condition, Listening, NewTrigger, Notice};
use super::{host, kernel_checks, kernel_lists, kernel_words, program_list, tracked_words};
use crate::link::Loss;
use crate::person::Person;
use crate::session::Refusal;
use crate::session::commands::{Asked, RulesRequest};
use crate::session::kernel::check_rules_fit;
use crate::session::rules::Levels;
use crate::session::settings;
use crate::session::tracking::TrackingChange;
use crate::session::triggers::TriggerRequest;
use crate::shares::Users;

/// How often to look whether a client that listens has left.
const LOOK_FOR_CLIENT: Duration = Duration::from_millis(250);

/// Of a connection's thread: JSON in, JSON out.
const STACK_BYTES: usize = 256 << 10;

/// Accepts clients until the process ends.
///
/// # Errors
/// The thread cannot be started.
pub fn serve(listener: OwnedFd, inbox: Inbox, desk: KernelDesk) -> io::Result<()> {
    let listener = UnixListener::from(listener);
    thread::Builder::new()
        .name("pisted-control".into())
        .stack_size(STACK_BYTES)
        .spawn(move || accept(&listener, &inbox, &desk))?;
    Ok(())
}

fn accept(listener: &UnixListener, inbox: &Inbox, desk: &KernelDesk) {
    let slots = Slots::new(Users::of_this_process());
    let mut complaints = Complaints::default();
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No descriptor is left, most likely. Accepting would fail again at once.
            thread::sleep(std::time::Duration::from_millis(100));
            continue;
        };
        let Ok(peer) = socket_peercred(&stream) else { continue };
        let user = peer.uid.as_raw();
        let Some(slot) = slots.take(user) else {
            complaints.add(&format!(
                "user {user} has too many open control connections; another one was refused"
            ));
            continue;
        };
        // Looked up for those who are served only: it takes longer than refusing a connection.
        let Ok(person) = Person::of_peer(&stream) else { continue };
        let connected = inbox.connect();
        let stream = Arc::new(stream);
        let server = Server {
            stream: stream.clone(),
            inbox: inbox.clone(),
            desk: desk.clone(),
            person,
            pid: peer.pid,
        };
        let thread = thread::Builder::new()
            .name("pisted-client".into())
            .stack_size(STACK_BYTES);
        if let Err(error) = thread.spawn(move || converse(&stream, server, (connected, slot))) {
            eprintln!("pisted: cannot serve a control connection: {}", reason(&error));
        }
    }
}

fn converse(stream: &UnixStream, server: Server, _connected: (Connected, Slot)) {
    let service = VarlinkService::new(
        "Piste",
        "pisted",
        env!("CARGO_PKG_VERSION"),
        "dev.piste.Control",
        vec![Box::new(new(Box::new(server)))],
    );
    // An error is a client that left, or that does not speak Varlink: closing is the answer to both.
    let _ = service.handle(&mut BufReader::new(Requests::new(stream)), &mut &*stream, None);
}

/// Whether the client has closed the connection.
fn has_left(stream: &UnixStream) -> bool {
    let mut descriptor = [PollFd::new(stream, PollFlags::empty())];
    let polled = poll(&mut descriptor, Some(&Timespec::default()));
    polled.is_ok_and(|ready| ready > 0)
}

fn levels(levels: Option<LevelRange>) -> Levels {
    levels.map_or(Levels::ALL, |levels| Levels {
        most_severe: levels.most_severe.number(),
        least_severe: levels.least_severe.number(),
    })
}

struct Server {
    stream: Arc<UnixStream>,
    inbox: Inbox,
    desk: KernelDesk,
    /// Who asks.
    person: Person,
    /// From which process.
    pid: Pid,
}

impl Server {
    /// Has something looked up in the kernel for a session that is there, then does what it is for.
    fn after_kernel<Known: Send + 'static, T: Send + 'static>(
        &self,
        session: Option<String>,
        look: impl FnOnce(&mut Clerk, Prepared) -> Result<Known, Refusal> + Send + 'static,
        act: impl FnOnce(&mut Daemon, &Asked, Known, Answer<T>) + Send + 'static,
    ) -> Result<T, Refusal> {
        let asked = self.asked(session);
        let prepared = asked.clone();
        let prepared = self
            .inbox
            .ask(move |daemon, answer| daemon.prepare_for_kernel(&prepared, answer))?;
        let known = self.desk.ask(move |clerk| look(clerk, prepared))?;
        self.inbox.ask(move |daemon, answer| act(daemon, &asked, known, answer))
    }

    /// Changes what a session is about; `change` is told how many CPUs there are.
    fn change_tracked(
        &self,
        session: Option<String>,
        domain: &Domain,
        change: impl FnOnce(u32) -> Result<TrackingChange, Refusal> + Send + 'static,
    ) -> Result<Tracked, Refusal> {
        match domain {
            Domain::user => {
                let (asked, change) = (self.asked(session), change(host::possible_cpu_count())?);
                self.inbox
                    .ask(move |daemon, answer| daemon.change_tracked_programs(&asked, &change, answer))
            }
            Domain::kernel => {
                let check = move |clerk: &mut Clerk, prepared: Prepared| {
                    clerk.tracefs()?;
                    change(prepared.cpu_count)
                };
                self.after_kernel(session, check, |daemon, session, change, answer| {
                    daemon.change_tracked_threads(session, &change, answer);
                })
            }
        }
    }

    /// Replies with notices until the client leaves, or no more come.
    fn tell(&self, call: &mut dyn Call_Listen, listening: &Listening) -> varlink::Result<()> {
        call.set_continues(true);
        call.reply(None, None, None, 0)?;
        loop {
            match listening.notices.recv_timeout(LOOK_FOR_CLIENT) {
                Ok((notice, skipped)) => {
                    let Notice {
                        trigger,
                        matched,
                        outcome,
                    } = Arc::unwrap_or_clone(notice);
                    call.reply(Some(trigger), matched, outcome, skipped)?;
                }
                Err(RecvTimeoutError::Timeout) if has_left(&self.stream) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    call.set_continues(false);
                    let last = listening.last_removed.get();
                    let (trigger, skipped) = last.cloned().unzip();
                    return call.reply(trigger, None, None, skipped.unwrap_or(0));
                }
            }
        }
    }

    /// The session that is meant, and who asks.
    fn asked(&self, session: Option<String>) -> Asked {
        Asked {
            session,
            by: self.person.clone(),
        }
    }
}

/// Replies with an answer's value, or with its refusal.
macro_rules! reply {
    ($call:ident, $answer:expr, $value:pat => $($field:expr),*) => {
        match $answer {
            Ok($value) => $call.reply($($field),*),
            Err(refusal) => refuse($call, refusal),
        }
    };
}

impl VarlinkInterface for Server {
    fn version(&self, call: &mut dyn Call_Version) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| {
            let clock = (daemon.clock.name().to_owned(), daemon.clock.frequency_hz());
            let run_folder = daemon.places.run_folder().to_string_lossy().into_owned();
            answer.give(Ok((clock, daemon.started.elapsed().as_nanos(), run_folder)));
        });
        let abi = format!("{}.{}", piste_abi::PISTE_ABI_MAJOR, piste_abi::PISTE_ABI_MINOR);
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        reply!(call, answer, ((clock, clock_hz), uptime_ns, run_folder) =>
            env!("CARGO_PKG_VERSION").into(), super::COMMIT.into(), abi, std::process::id().into(), kernel, clock,
            count(clock_hz), count(uptime_ns), run_folder)
    }

    fn create_session(
        &self,
        call: &mut dyn Call_CreateSession,
        name: Option<String>,
        output: Option<String>,
        snapshot: bool,
        record_id: Option<String>,
        never_current: Option<bool>,
        bound: Option<bool>,
    ) -> varlink::Result<()> {
        let wanted = SessionRequest {
            name,
            output,
            snapshot,
            record_id,
            never_current: never_current.unwrap_or(false),
            owner: self.person.clone(),
            bound_to: bound.unwrap_or(false).then(|| creator::of(self.pid)),
        };
        let answer = self.inbox.ask(|daemon, answer| daemon.create_session(wanted, answer));
        reply!(call, answer, session => session)
    }

    fn destroy_session(&self, call: &mut dyn Call_DestroySession, session: Option<String>) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.destroy_session(&asked, answer));
        reply!(call, answer, session => session)
    }

    fn set_current(&self, call: &mut dyn Call_SetCurrent, session: String) -> varlink::Result<()> {
        let asked = self.asked(Some(session));
        let answer = self.inbox.ask(move |daemon, answer| daemon.set_current(&asked, answer));
        reply!(call, answer, () => )
    }

    fn enable_channel(
        &self,
        call: &mut dyn Call_EnableChannel,
        session: Option<String>,
        channel: ChannelRequest,
    ) -> varlink::Result<()> {
        let wanted = settings::ChannelRequest {
            name: channel.name,
            loss: channel.loss.map(|loss| match loss {
                LossMode::discard => Loss::Discard,
                LossMode::overwrite => Loss::Overwrite,
                LossMode::block => Loss::Block,
            }),
            block_timeout_us: channel.block_timeout_us,
            subbuf_bytes: channel.subbuf_bytes,
            subbuf_count: channel.subbuf_count,
            contexts: channel.contexts,
            memory: match (channel.addresses_only, channel.call_memory) {
                (Some(true), _) => Some(settings::MemoryRequest::Nothing),
                (_, memory) => memory.map(|memory| settings::MemoryRequest::More {
                    environment: memory.environment,
                    buffer_bytes: memory.buffer_bytes,
                }),
            },
        };
        let answer = match channel.domain {
            None | Some(Domain::user) => {
                let asked = self.asked(session);
                self.inbox
                    .ask(move |daemon, answer| daemon.enable_channel(&asked, &wanted, answer))
            }
            Some(Domain::kernel) => self.after_kernel(
                session,
                |clerk, _| clerk.tracefs(),
                move |daemon, session, _, answer| daemon.enable_kernel_channel(session, &wanted, answer),
            ),
        };
        reply!(call, answer, settings => settings)
    }

    fn add_contexts(
        &self,
        call: &mut dyn Call_AddContexts,
        session: Option<String>,
        channel: Option<String>,
        contexts: Vec<String>,
        domain: Option<Domain>,
    ) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self.inbox.ask(move |daemon, answer| match domain {
            None | Some(Domain::user) => daemon.add_contexts(&asked, channel.as_deref(), &contexts, answer),
            Some(Domain::kernel) => daemon.add_kernel_contexts(&asked, channel.as_deref(), &contexts, answer),
        });
        reply!(call, answer, settings => settings)
    }

    fn disable_channel(
        &self,
        call: &mut dyn Call_DisableChannel,
        session: Option<String>,
        channel: String,
        domain: Option<Domain>,
    ) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self.inbox.ask(move |daemon, answer| match domain {
            None | Some(Domain::user) => daemon.disable_channel(&asked, &channel, answer),
            Some(Domain::kernel) => daemon.disable_kernel_channel(&asked, &channel, answer),
        });
        reply!(call, answer, settings => settings)
    }

    fn enable_event(
        &self,
        call: &mut dyn Call_EnableEvent,
        session: Option<String>,
        channel: Option<String>,
        patterns: Vec<String>,
        excluded: Vec<String>,
        levels: Option<LevelRange>,
        filter: Option<String>,
    ) -> varlink::Result<()> {
        let asked = self.asked(session);
        let wanted = RulesRequest {
            patterns,
            excluded,
            levels: self::levels(levels),
            filter,
        };
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.enable_event(&asked, channel, &wanted, answer));
        reply!(call, answer, (channel, rules) => channel, rules)
    }

    fn disable_event(
        &self,
        call: &mut dyn Call_DisableEvent,
        session: Option<String>,
        channel: Option<String>,
        patterns: Vec<String>,
    ) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.disable_event(&asked, channel, &patterns, answer));
        reply!(call, answer, (channel, rules) => channel, rules)
    }

    fn start(&self, call: &mut dyn Call_Start, session: Option<String>) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self.inbox.ask(move |daemon, answer| daemon.start(&asked, answer));
        reply!(call, answer, session => session)
    }

    fn stop(&self, call: &mut dyn Call_Stop, session: Option<String>) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self.inbox.ask(move |daemon, answer| daemon.stop(&asked, answer));
        reply!(call, answer, session => session)
    }

    fn snapshot_record(
        &self,
        call: &mut dyn Call_SnapshotRecord,
        session: Option<String>,
        output: Option<String>,
    ) -> varlink::Result<()> {
        let asked = self.asked(session);
        let asking = self.person.clone();
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.snapshot_record(&asked, output, asking, answer));
        reply!(call, answer, taken => taken.output, taken.events, taken.bytes, taken.packets)
    }

    fn rotate(&self, call: &mut dyn Call_Rotate, session: Option<String>) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self.inbox.ask(move |daemon, answer| daemon.rotate(&asked, answer));
        reply!(call, answer, chunk => chunk.number, chunk.output, chunk.events, chunk.bytes, chunk.packets)
    }

    fn flush(&self, call: &mut dyn Call_Flush, session: Option<String>) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self.inbox.ask(move |daemon, answer| daemon.flush(&asked, answer));
        reply!(call, answer, flushed => flushed.id, flushed.until, flushed.late)
    }

    fn status(&self, call: &mut dyn Call_Status, session: Option<String>) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self.inbox.ask(move |daemon, answer| daemon.status(asked, answer));
        reply!(call, answer, session => session)
    }

    fn list_sessions(&self, call: &mut dyn Call_ListSessions) -> varlink::Result<()> {
        let by = self.person.clone();
        let answer = self.inbox.ask(move |daemon, answer| daemon.list_sessions(by, answer));
        reply!(call, answer, sessions => sessions)
    }

    fn list_programs(&self, call: &mut dyn Call_ListPrograms) -> varlink::Result<()> {
        program_list::reply(call, |after| {
            self.inbox
                .ask(move |daemon, answer| daemon.list_programs(after, answer))
        })
    }

    fn enable_kernel_event(
        &self,
        call: &mut dyn Call_EnableKernelEvent,
        session: Option<String>,
        channel: Option<String>,
        rules: Vec<KernelRule>,
    ) -> varlink::Result<()> {
        let asking = self.person.clone();
        let known = channel.clone();
        let check = move |clerk: &mut Clerk, prepared: Prepared| {
            let rules = kernel_words::wanted_rules(rules)?;
            check_rules_fit(&rules)?;
            kernel_checks::check_rules(clerk, &rules, [&asking, &prepared.owner])?;
            kernel_checks::check_calls(clerk, &rules, prepared.channel(known.as_deref()))?;
            Ok(rules)
        };
        let answer = self.after_kernel(session, check, |daemon, session, rules, answer| {
            daemon.enable_kernel_event(session, channel, rules, answer);
        });
        reply!(call, answer, (channel, rules) => channel, rules)
    }

    fn disable_kernel_event(
        &self,
        call: &mut dyn Call_DisableKernelEvent,
        session: Option<String>,
        channel: Option<String>,
        patterns: Vec<String>,
    ) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.disable_kernel_event(&asked, channel, &patterns, answer));
        reply!(call, answer, (channel, rules) => channel, rules)
    }

    fn track(
        &self,
        call: &mut dyn Call_Track,
        session: Option<String>,
        domain: Domain,
        values: Tracked,
    ) -> varlink::Result<()> {
        let change = move |cpu_count| Ok(TrackingChange::Track(tracked_words::wanted(values, cpu_count)?));
        let answer = self.change_tracked(session, &domain, change);
        reply!(call, answer, tracked => tracked)
    }

    fn untrack(
        &self,
        call: &mut dyn Call_Untrack,
        session: Option<String>,
        domain: Domain,
        values: Tracked,
    ) -> varlink::Result<()> {
        let change = move |cpu_count| Ok(TrackingChange::Untrack(tracked_words::unwanted(values, cpu_count)?));
        let answer = self.change_tracked(session, &domain, change);
        reply!(call, answer, tracked => tracked)
    }

    fn track_everything(
        &self,
        call: &mut dyn Call_TrackEverything,
        session: Option<String>,
        domain: Domain,
    ) -> varlink::Result<()> {
        let answer = self.change_tracked(session, &domain, |_| Ok(TrackingChange::Everything));
        reply!(call, answer, _tracked =>)
    }

    fn regenerate_state_dump(
        &self,
        call: &mut dyn Call_RegenerateStateDump,
        session: Option<String>,
    ) -> varlink::Result<()> {
        let asked = self.asked(session);
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.regenerate_state_dump(&asked, answer));
        reply!(call, answer, () => )
    }

    fn list_kernel_events(&self, call: &mut dyn Call_ListKernelEvents, pattern: Option<String>) -> varlink::Result<()> {
        match self
            .desk
            .ask(move |clerk| kernel_lists::events(clerk, pattern.as_deref()))
        {
            Ok(events) => in_parts(call, events, |call, events| call.reply(events)),
            Err(refusal) => refuse(call, refusal),
        }
    }

    fn list_syscalls(&self, call: &mut dyn Call_ListSyscalls, pattern: Option<String>) -> varlink::Result<()> {
        match kernel_lists::syscalls(pattern.as_deref()) {
            Ok(syscalls) => in_parts(call, syscalls, |call, syscalls| call.reply(syscalls)),
            Err(refusal) => refuse(call, refusal),
        }
    }

    fn list_probe_places(
        &self,
        call: &mut dyn Call_ListProbePlaces,
        binary: String,
        kind: ProbePlaceKind,
        pattern: Option<String>,
    ) -> varlink::Result<()> {
        let asking = self.person.clone();
        let look = move |_: &mut Clerk| kernel_lists::probe_places(&binary, &kind, pattern.as_deref(), &asking);
        match self.desk.ask(look) {
            Ok(places) => in_parts(call, places, |call, places| call.reply(places)),
            Err(refusal) => refuse(call, refusal),
        }
    }

    fn doctor(&self, call: &mut dyn Call_Doctor) -> varlink::Result<()> {
        let answer = self.desk.ask(|clerk| Ok(kernel_lists::checks(clerk)));
        reply!(call, answer, checks => checks)
    }

    fn add_trigger(
        &self,
        call: &mut dyn Call_AddTrigger,
        name: Option<String>,
        condition: TriggerCondition,
        actions: Vec<TriggerAction>,
        per_second: Option<i64>,
        at_most: Option<i64>,
        record_id: Option<String>,
        bound: Option<bool>,
    ) -> varlink::Result<()> {
        let lapse = match triggers::wanted_lapse(&condition) {
            Ok(lapse) => lapse,
            Err(refusal) => return refuse(call, refusal),
        };
        let of_session = condition.session_event.clone().map(triggers::wanted_session_event);
        let of_session = match of_session.transpose() {
            Ok(of_session) => of_session,
            Err(refusal) => return refuse(call, refusal),
        };
        let contexts = triggers::wanted_contexts(&condition, lapse.as_ref());
        let request = TriggerRequest {
            name,
            actions: actions.into_iter().map(triggers::wanted_action).collect(),
            per_second,
            at_most,
            lapse,
            of_session,
        };
        let owner = self.person.clone();
        let bound_to = bound.unwrap_or(false).then(|| creator::of(self.pid));
        let wanted = move |condition| NewTrigger {
            request,
            condition,
            contexts,
            owner,
            record_id,
            bound_to,
        };
        let answer = match (condition.event, condition.kernel_event, condition.session_event) {
            (None, None, Some(_)) => {
                let wanted = wanted(Condition::Session);
                self.inbox.ask(|daemon, answer| daemon.add_trigger(wanted, answer))
            }
            (Some(rule), None, None) => {
                let rules = [Some(rule), condition.end_event].into_iter().flatten();
                let rules = rules.map(|rule| RulesRequest {
                    patterns: vec![rule.pattern],
                    excluded: rule.excluded,
                    levels: levels(rule.levels),
                    filter: rule.filter,
                });
                let wanted = wanted(Condition::Programs(rules.collect()));
                self.inbox.ask(|daemon, answer| daemon.add_trigger(wanted, answer))
            }
            (None, Some(rule), None) => {
                let asking = self.person.clone();
                let rules = [Some(rule), condition.end_kernel_event].into_iter().flatten().collect();
                let checked = self.desk.ask(move |clerk| {
                    let rules = kernel_words::wanted_rules(rules)?;
                    for rule in &rules {
                        let rule = std::slice::from_ref(rule);
                        check_rules_fit(rule)?;
                        kernel_checks::check_rules(clerk, rule, [&asking, &asking])?;
                        kernel_checks::check_calls(clerk, rule, None)?;
                    }
                    Ok(rules)
                });
                checked.and_then(|rules| {
                    let wanted = wanted(Condition::Kernel(rules));
                    self.inbox.ask(|daemon, answer| daemon.add_trigger(wanted, answer))
                })
            }
            (None, None, None) => Err(triggers::not_one_event("no event")),
            _ => Err(triggers::not_one_event("several events")),
        };
        reply!(call, answer, trigger => trigger)
    }

    fn remove_trigger(&self, call: &mut dyn Call_RemoveTrigger, name: String) -> varlink::Result<()> {
        let by = self.person.clone();
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.remove_trigger(&name, &by, answer));
        reply!(call, answer, trigger => trigger)
    }

    fn list_triggers(&self, call: &mut dyn Call_ListTriggers) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| daemon.list_triggers(answer));
        reply!(call, answer, triggers => triggers)
    }

    fn listen(&self, call: &mut dyn Call_Listen, names: Vec<String>) -> varlink::Result<()> {
        if !call.wants_more() {
            return call.reply_too_long();
        }
        let by = self.person.clone();
        let listening = match self.inbox.ask(|daemon, answer| daemon.listen(names, by, answer)) {
            Ok(listening) => listening,
            Err(refusal) => return refuse(call, refusal),
        };
        let told = self.tell(call, &listening);
        self.inbox
            .post(Box::new(move |daemon| daemon.stop_listening(listening.number)));
        told
    }

    fn shutdown(&self, call: &mut dyn Call_Shutdown, force: bool) -> varlink::Result<()> {
        let by = self.person.clone();
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.shutdown(force, &by, answer));
        reply!(call, answer, () => )
    }
}
