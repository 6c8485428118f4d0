// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stand-in for pisted: answers the interface with what a test wants, and notes what it was asked. It records nothing.

use std::io::BufReader;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use piste_control::interface::*;
use varlink::ConnectionHandler;

/// What the stand-in is asked and how it answers.
#[derive(Default)]
pub(crate) struct Script {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    asked: Vec<String>,
    record_id: Option<String>,
    output: String,
    discarded_events: i64,
    refused_pattern: bool,
    /// Why the kernel cannot be traced.
    kernel_lack: Option<String>,
    /// Patterns of the kernel's events that it has not.
    unknown_events: Vec<String>,
    tracked: Option<Tracked>,
    /// How many calls to end a session are answered by closing the connection.
    deaths: u32,
    /// Calls to end a session wait while this is set.
    held: bool,
    triggers: Vec<TriggerStatus>,
    /// What is told to all who listen.
    notices: Vec<Listen_Reply>,
    /// Connections of those who listen end once they have been told all notices.
    stops_telling: bool,
}

impl Script {
    /// Listens on the control socket of the run folder.
    pub(crate) fn listen(run_folder: &Path) -> Arc<Script> {
        let script = Arc::new(Script::default());
        let listener = UnixListener::bind(run_folder.join("control.sock")).unwrap();
        let of_thread = script.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, stream) = (of_thread.clone(), stream.unwrap());
                thread::spawn(move || {
                    let interface = new(Box::new(StandIn(script)));
                    let service = varlink::VarlinkService::new("Piste", "stand-in", "0", "", vec![Box::new(interface)]);
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut writer = stream;
                    // Until the client leaves, or a call ends with an error: that is how a connection dies here.
                    let _ = service.handle(&mut reader, &mut writer, None);
                });
            }
        });
        script
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// The session will have lost as many events.
    pub(crate) fn lose(&self, events: i64) {
        self.change(|state| state.discarded_events = events);
    }
    /// Every pattern will be refused.
    pub(crate) fn refuse_patterns(&self) {
        self.change(|state| state.refused_pattern = true);
    }
    /// The kernel will be out of reach.
    pub(crate) fn refuse_kernel(&self, reason: &str) {
        self.change(|state| state.kernel_lack = Some(reason.into()));
    }
    /// The kernel will not have an event that this pattern matches.
    pub(crate) fn lack_event(&self, pattern: &str) {
        self.change(|state| state.unknown_events.push(pattern.into()));
    }
    /// What the kernel's events were said to be about.
    pub(crate) fn tracked(&self) -> Option<Tracked> {
        self.state.lock().unwrap().tracked.clone()
    }
    /// The next so many calls to end a session will not be answered.
    pub(crate) fn die(&self, times: u32) {
        self.change(|state| state.deaths = times);
    }
    /// Calls to end a session wait from now on, or go on.
    pub(crate) fn hold(&self, held: bool) {
        self.change(|state| state.held = held);
    }
    /// Tells those who listen.
    pub(crate) fn notify(&self, notice: Listen_Reply) {
        self.change(|state| state.notices.push(notice));
    }
    /// Ends the connections of those who listen.
    pub(crate) fn stop_telling(&self) {
        self.change(|state| state.stops_telling = true);
    }
    /// Waits until the stand-in was asked for `method`.
    pub(crate) fn wait_for(&self, method: &str) {
        let asked = |state: &State| state.asked.iter().any(|asked| asked.starts_with(method));
        drop(
            self.changed
                .wait_while(self.state.lock().unwrap(), |state| !asked(state))
                .unwrap(),
        );
    }
    /// All that was asked, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }
    /// The record id of the session.
    pub(crate) fn record_id(&self) -> String {
        self.state.lock().unwrap().record_id.clone().unwrap()
    }

    fn note(&self, asked: impl Into<String>) {
        self.change(|state| state.asked.push(asked.into()));
    }

    fn session(&self, name: String) -> SessionStatus {
        let state = self.state.lock().unwrap();
        let losses = Losses {
            discarded_full: state.discarded_events,
            discarded_too_large: 0,
            discarded_late: 0,
            overwritten: 0,
            lost_packets: 0,
        };
        SessionStatus {
            name,
            id: "1".into(),
            state: SessionState::active,
            current: false,
            output: state.output.clone(),
            snapshot: false,
            record_id: state.record_id.clone(),
            started_ns: Some(1),
            duration_ns: 1_000_000_000,
            snapshots: 0,
            chunks: 0,
            tracked: Tracked::default(),
            kernel_tracked: Tracked::default(),
            channels: vec![ChannelStatus {
                settings: settings("default".into()),
                enabled: true,
                rules: vec![],
                kernel_rules: vec![],
                events: 100,
                packets: 1,
                bytes: 4096,
                discarded_events: state.discarded_events,
                lost_packets: 0,
                losses,
                fullest_percent: None,
                findings: vec![],
            }],
            programs: 0,
            participants: vec![],
            state_dump: None,
            programs_left_out: 0,
            unmatched_events: vec![],
            programs_not_recorded: 0,
            findings: vec![],
        }
    }
}

fn settings(name: String) -> ChannelSettings {
    ChannelSettings {
        name,
        domain: Domain::user,
        loss: LossMode::discard,
        block_timeout_us: None,
        subbuf_bytes: 262_144,
        subbuf_count: 4,
        contexts: vec!["vtid".into(), "cpu_id".into()],
        call_memory: None,
    }
}

struct StandIn(Arc<Script>);

/// What no test asks for.
fn not_asked(call: &mut (impl VarlinkCallError + ?Sized)) -> varlink::Result<()> {
    call.reply_internal("the stand-in does not know this call".into())
}

impl VarlinkInterface for StandIn {
    fn create_session(
        &self,
        call: &mut dyn Call_CreateSession,
        name: Option<String>,
        output: Option<String>,
        _snapshot: bool,
        record_id: Option<String>,
        never_current: Option<bool>,
        bound: Option<bool>,
    ) -> varlink::Result<()> {
        self.0.note(match (never_current, bound) {
            (Some(true), Some(true)) => "create",
            (None, None) => "create_current",
            other => panic!("neither a recording's session nor one for everybody: {other:?}"),
        });
        self.0
            .change(|state| (state.output, state.record_id) = (output.unwrap_or_default(), record_id));
        call.reply(self.0.session(name.unwrap_or_default()))
    }

    fn enable_channel(
        &self,
        call: &mut dyn Call_EnableChannel,
        _session: Option<String>,
        channel: ChannelRequest,
    ) -> varlink::Result<()> {
        if channel.domain == Some(Domain::kernel) {
            self.0.note(format!("kernel channel {}", channel.name));
            if let Some(reason) = self.0.state.lock().unwrap().kernel_lack.clone() {
                return call.reply_no_kernel_domain(reason, "become root".into());
            }
        } else {
            self.0.note(format!("channel {}", channel.name));
        }
        call.reply(settings(channel.name))
    }

    fn enable_event(
        &self,
        call: &mut dyn Call_EnableEvent,
        _session: Option<String>,
        channel: Option<String>,
        patterns: Vec<String>,
        excluded: Vec<String>,
        _levels: Option<LevelRange>,
        _filter: Option<String>,
    ) -> varlink::Result<()> {
        self.0.note(format!("events {patterns:?} not {excluded:?}"));
        if self.0.state.lock().unwrap().refused_pattern {
            return call.reply_invalid_pattern(patterns[0].clone(), 4, "a name has one colon".into());
        }
        call.reply(channel.unwrap_or_default(), vec![])
    }

    fn start(&self, call: &mut dyn Call_Start, session: Option<String>) -> varlink::Result<()> {
        self.0.note("start");
        call.reply(self.0.session(session.unwrap_or_default()))
    }

    fn destroy_session(&self, call: &mut dyn Call_DestroySession, session: Option<String>) -> varlink::Result<()> {
        self.0.note("destroy");
        let mut state = self
            .0
            .changed
            .wait_while(self.0.state.lock().unwrap(), |state| state.held)
            .unwrap();
        if state.deaths > 0 {
            state.deaths -= 1;
            return Err(varlink::ErrorKind::ConnectionClosed.into());
        }
        drop(state);
        call.reply(self.0.session(session.unwrap_or_default()))
    }

    fn add_contexts(
        &self,
        call: &mut dyn Call_AddContexts,
        _: Option<String>,
        _: Option<String>,
        _: Vec<String>,
        _: Option<Domain>,
    ) -> varlink::Result<()> {
        not_asked(call)
    }

    fn disable_channel(
        &self,
        call: &mut dyn Call_DisableChannel,
        _: Option<String>,
        _: String,
        _: Option<Domain>,
    ) -> varlink::Result<()> {
        not_asked(call)
    }
    fn disable_event(
        &self,
        call: &mut dyn Call_DisableEvent,
        _: Option<String>,
        _: Option<String>,
        _: Vec<String>,
    ) -> varlink::Result<()> {
        not_asked(call)
    }
    fn list_programs(&self, call: &mut dyn Call_ListPrograms) -> varlink::Result<()> {
        call.reply(vec![], false)
    }
    fn list_sessions(&self, call: &mut dyn Call_ListSessions) -> varlink::Result<()> {
        call.reply(vec![self.0.session("web".into())])
    }
    fn set_current(&self, call: &mut dyn Call_SetCurrent, _: String) -> varlink::Result<()> {
        not_asked(call)
    }
    fn shutdown(&self, call: &mut dyn Call_Shutdown, _: bool) -> varlink::Result<()> {
        not_asked(call)
    }
    fn flush(&self, call: &mut dyn Call_Flush, _: Option<String>) -> varlink::Result<()> {
        not_asked(call)
    }
    fn rotate(&self, call: &mut dyn Call_Rotate, _: Option<String>) -> varlink::Result<()> {
        not_asked(call)
    }
    fn snapshot_record(
        &self,
        call: &mut dyn Call_SnapshotRecord,
        _: Option<String>,
        _: Option<String>,
    ) -> varlink::Result<()> {
        self.0.note("snapshot");
        call.reply("/snapshot".into(), 7, 4096, 1)
    }
    fn enable_kernel_event(
        &self,
        call: &mut dyn Call_EnableKernelEvent,
        _: Option<String>,
        channel: Option<String>,
        rules: Vec<KernelRule>,
    ) -> varlink::Result<()> {
        let patterns: Vec<&str> = rules.iter().map(|rule| rule.pattern.as_str()).collect();
        self.0.note(format!("kernel events {}", patterns.join(" ")));
        let unknown = self.0.state.lock().unwrap().unknown_events.clone();
        if let Some(pattern) = unknown.iter().find(|unknown| patterns.contains(&unknown.as_str())) {
            return call.reply_no_event(pattern.clone(), vec!["sched:sched_switch".into()]);
        }
        if let Some(filter) = rules.iter().find_map(|rule| rule.filter.clone()) {
            return call.reply_invalid_filter(filter, 5, "no such field".into());
        }
        call.reply(channel.unwrap_or_default(), rules)
    }
    fn disable_kernel_event(
        &self,
        call: &mut dyn Call_DisableKernelEvent,
        _: Option<String>,
        _: Option<String>,
        _: Vec<String>,
    ) -> varlink::Result<()> {
        not_asked(call)
    }
    fn track(
        &self,
        call: &mut dyn Call_Track,
        _: Option<String>,
        domain: Domain,
        values: Tracked,
    ) -> varlink::Result<()> {
        self.0.note(match domain {
            Domain::user => "track programs",
            Domain::kernel => "track",
        });
        self.0.change(|state| state.tracked = Some(values.clone()));
        call.reply(values)
    }
    fn untrack(&self, call: &mut dyn Call_Untrack, _: Option<String>, _: Domain, _: Tracked) -> varlink::Result<()> {
        not_asked(call)
    }
    fn track_everything(
        &self,
        call: &mut dyn Call_TrackEverything,
        _: Option<String>,
        _: Domain,
    ) -> varlink::Result<()> {
        not_asked(call)
    }
    fn regenerate_state_dump(&self, call: &mut dyn Call_RegenerateStateDump, _: Option<String>) -> varlink::Result<()> {
        not_asked(call)
    }
    fn list_kernel_events(&self, call: &mut dyn Call_ListKernelEvents, _: Option<String>) -> varlink::Result<()> {
        not_asked(call)
    }
    fn list_syscalls(&self, call: &mut dyn Call_ListSyscalls, _: Option<String>) -> varlink::Result<()> {
        not_asked(call)
    }
    fn list_probe_places(
        &self,
        call: &mut dyn Call_ListProbePlaces,
        _: String,
        _: ProbePlaceKind,
        _: Option<String>,
    ) -> varlink::Result<()> {
        not_asked(call)
    }
    fn doctor(&self, call: &mut dyn Call_Doctor) -> varlink::Result<()> {
        let lack = self.0.state.lock().unwrap().kernel_lack.clone();
        call.reply(vec![Check {
            name: "tracefs".into(),
            level: if lack.is_some() {
                CheckLevel::lack
            } else {
                CheckLevel::ok
            },
            value: lack.unwrap_or_else(|| "mounted".into()),
            cost: None,
            mend: None,
        }])
    }
    fn status(&self, call: &mut dyn Call_Status, _: Option<String>) -> varlink::Result<()> {
        not_asked(call)
    }
    fn stop(&self, call: &mut dyn Call_Stop, session: Option<String>) -> varlink::Result<()> {
        self.0.note("stop");
        call.reply(self.0.session(session.unwrap_or_default()))
    }
    fn version(&self, call: &mut dyn Call_Version) -> varlink::Result<()> {
        not_asked(call)
    }
    fn add_trigger(
        &self,
        call: &mut dyn Call_AddTrigger,
        name: Option<String>,
        condition: TriggerCondition,
        actions: Vec<TriggerAction>,
        per_second: Option<i64>,
        at_most: Option<i64>,
        _: Option<String>,
        _: Option<bool>,
    ) -> varlink::Result<()> {
        let known = self.0.state.lock().unwrap().triggers.clone();
        let name = name.unwrap_or_else(|| format!("trigger-{}", known.len() + 1));
        if known.iter().any(|trigger| trigger.name == name) {
            return call.reply_trigger_exists(name);
        }
        self.0.note(format!("trigger {name}"));
        let trigger = TriggerStatus {
            name,
            uid: 1000,
            user: "ada".into(),
            condition,
            actions,
            per_second: per_second.unwrap_or(10),
            at_most,
            matched: 0,
            acted: 0,
            missed: 0,
            last_ns: None,
            findings: vec![],
        };
        self.0.change(|state| state.triggers.push(trigger.clone()));
        call.reply(trigger)
    }
    fn remove_trigger(&self, call: &mut dyn Call_RemoveTrigger, name: String) -> varlink::Result<()> {
        let known = self.0.state.lock().unwrap().triggers.clone();
        match known.iter().find(|trigger| trigger.name == name) {
            None => call.reply_no_trigger(name, known.iter().map(|trigger| trigger.name.clone()).collect()),
            Some(trigger) => {
                self.0.note(format!("remove {name}"));
                self.0
                    .change(|state| state.triggers.retain(|trigger| trigger.name != name));
                call.reply(trigger.clone())
            }
        }
    }
    fn list_triggers(&self, call: &mut dyn Call_ListTriggers) -> varlink::Result<()> {
        call.reply(self.0.state.lock().unwrap().triggers.clone())
    }
    fn listen(&self, call: &mut dyn Call_Listen, names: Vec<String>) -> varlink::Result<()> {
        let known = self.0.state.lock().unwrap().triggers.clone();
        if let Some(unknown) = names
            .iter()
            .find(|name| known.iter().all(|trigger| trigger.name != **name))
        {
            return call.reply_no_trigger(unknown.clone(), vec![]);
        }
        assert!(call.wants_more());
        call.set_continues(true);
        call.reply(None, None, None, 0)?;
        self.0.note(format!("listen {names:?}"));
        let mut told = 0;
        loop {
            let wait = |state: &mut State| state.notices.len() == told && !state.stops_telling;
            let state = self.0.state.lock().unwrap();
            let state = self.0.changed.wait_while(state, wait).unwrap();
            let Some(notice) = state.notices.get(told).cloned() else {
                return Err(varlink::ErrorKind::ConnectionClosed.into());
            };
            drop(state);
            call.reply(notice.trigger, notice.matched, notice.outcome, notice.skipped)?;
            told += 1;
        }
    }
}
