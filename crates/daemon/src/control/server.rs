// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves the control interface: a thread for each connection, which takes calls apart, has them done in the daemon's thread,
//! and puts the answers together.

use std::io::{self, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;

use piste_control::interface::{
    Call_CreateSession, Call_DestroySession, Call_DisableEvent, Call_EnableChannel, Call_EnableEvent,
    Call_ListPrograms, Call_ListSessions, Call_SetCurrent, Call_Shutdown, Call_SnapshotRecord, Call_Start, Call_Status,
    Call_Stop, Call_Version, ChannelRequest, Level, LossMode, VarlinkCallError, VarlinkInterface, new,
};
use varlink::{ConnectionHandler, VarlinkService};

use super::commands::SessionRequest;
use super::inbox::{Connected, Inbox};
use super::status::count;
use crate::link::Loss;
use crate::session::Refusal;
use crate::session::commands::RulesRequest;
use crate::session::rules::Levels;
use crate::session::settings;

/// Clients served at once.
const CONNECTION_COUNT_MAX: usize = 256;
/// Of a connection's thread: JSON in, JSON out.
const STACK_BYTES: usize = 256 << 10;

/// Accepts clients until the process ends.
///
/// # Errors
/// The thread cannot be started.
pub fn serve(listener: OwnedFd, inbox: Inbox) -> io::Result<()> {
    let listener = UnixListener::from(listener);
    thread::Builder::new()
        .name("control".into())
        .stack_size(STACK_BYTES)
        .spawn(move || accept(&listener, &inbox))?;
    Ok(())
}

fn accept(listener: &UnixListener, inbox: &Inbox) {
    let interface = Box::new(new(Box::new(Server { inbox: inbox.clone() })));
    let service = Arc::new(VarlinkService::new(
        "Piste",
        "pisted",
        env!("CARGO_PKG_VERSION"),
        "dev.piste.Control",
        vec![interface],
    ));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No descriptor is left, most likely. Accepting would fail again at once.
            thread::sleep(std::time::Duration::from_millis(100));
            continue;
        };
        if inbox.connection_count() >= CONNECTION_COUNT_MAX {
            eprintln!("pisted: {CONNECTION_COUNT_MAX} control connections are open, one more was refused");
            continue;
        }
        let (service, connected) = (service.clone(), inbox.connect());
        let thread = thread::Builder::new().name("client".into()).stack_size(STACK_BYTES);
        if let Err(error) = thread.spawn(move || converse(&stream, &service, connected)) {
            eprintln!("pisted: a control connection could not be served: {error}");
        }
    }
}

fn converse(stream: &UnixStream, service: &VarlinkService, _connected: Connected) {
    // An error is a client that left, or that does not speak Varlink: closing is the answer to both.
    let _ = service.handle(&mut BufReader::new(stream), &mut &*stream, None);
}

struct Server {
    inbox: Inbox,
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
    ) -> varlink::Result<()> {
        let wanted = SessionRequest {
            name,
            output,
            snapshot,
            record_id,
        };
        let answer = self.inbox.ask(|daemon, answer| daemon.create_session(wanted, answer));
        reply!(call, answer, session => session)
    }

    fn destroy_session(&self, call: &mut dyn Call_DestroySession, session: Option<String>) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| daemon.destroy_session(session, answer));
        reply!(call, answer, session => session)
    }

    fn set_current(&self, call: &mut dyn Call_SetCurrent, session: String) -> varlink::Result<()> {
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.set_current(&session, answer));
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
            context_vtid: channel.context_vtid,
            context_cpu_id: channel.context_cpu_id,
        };
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.enable_channel(session, &wanted, answer));
        reply!(call, answer, settings => settings)
    }

    fn enable_event(
        &self,
        call: &mut dyn Call_EnableEvent,
        session: Option<String>,
        channel: Option<String>,
        patterns: Vec<String>,
        excluded: Vec<String>,
        level: Option<Level>,
        level_only: bool,
    ) -> varlink::Result<()> {
        let levels = match (level, level_only) {
            (None, _) => Levels::All,
            (Some(level), false) => Levels::AtLeast(level.number()),
            (Some(level), true) => Levels::Exactly(level.number()),
        };
        let wanted = RulesRequest {
            patterns,
            excluded,
            levels,
        };
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.enable_event(session, channel, &wanted, answer));
        reply!(call, answer, (channel, rules) => channel, rules)
    }

    fn disable_event(
        &self,
        call: &mut dyn Call_DisableEvent,
        session: Option<String>,
        channel: Option<String>,
        patterns: Vec<String>,
    ) -> varlink::Result<()> {
        let answer = self
            .inbox
            .ask(move |daemon, answer| daemon.disable_event(session, channel, &patterns, answer));
        reply!(call, answer, (channel, rules) => channel, rules)
    }

    fn start(&self, call: &mut dyn Call_Start, session: Option<String>) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| daemon.start(session, answer));
        reply!(call, answer, session => session)
    }

    fn stop(&self, call: &mut dyn Call_Stop, session: Option<String>) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| daemon.stop(session, answer));
        reply!(call, answer, session => session)
    }

    fn snapshot_record(
        &self,
        call: &mut dyn Call_SnapshotRecord,
        session: Option<String>,
        output: Option<String>,
    ) -> varlink::Result<()> {
        let answer = self
            .inbox
            .ask(|daemon, answer| daemon.snapshot_record(session, output, answer));
        reply!(call, answer, taken => taken.output, taken.events, taken.bytes, taken.packets)
    }

    fn status(&self, call: &mut dyn Call_Status, session: Option<String>) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| daemon.status(session, answer));
        reply!(call, answer, session => session)
    }

    fn list_sessions(&self, call: &mut dyn Call_ListSessions) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| daemon.list_sessions(answer));
        reply!(call, answer, sessions => sessions)
    }

    fn list_programs(&self, call: &mut dyn Call_ListPrograms) -> varlink::Result<()> {
        let answer = self.inbox.ask(|daemon, answer| daemon.list_programs(answer));
        reply!(call, answer, programs => programs)
    }

    fn shutdown(&self, call: &mut dyn Call_Shutdown, force: bool) -> varlink::Result<()> {
        let answer = self.inbox.ask(move |daemon, answer| daemon.shutdown(force, answer));
        reply!(call, answer, () => )
    }
}

fn refuse<Call: VarlinkCallError + ?Sized>(call: &mut Call, refusal: Refusal) -> varlink::Result<()> {
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    match refusal {
        Refusal::NoSession { name, nearest } => call.reply_no_session(name, nearest),
        Refusal::NoCurrentSession => call.reply_no_current_session(),
        Refusal::SessionExists { name } => call.reply_session_exists(name),
        Refusal::SessionsExist { names } => call.reply_sessions_exist(names),
        Refusal::NoChannel { name, session, nearest } => call.reply_no_channel(name, session, nearest),
        Refusal::ChannelExists {
            name,
            session,
            setting,
            value,
        } => call.reply_channel_exists(name, session, setting.into(), value),
        Refusal::TooManyChannels { session, limit } => call.reply_too_many_channels(session, count(limit)),
        Refusal::NoRule {
            pattern,
            channel,
            nearest,
        } => call.reply_no_rule(pattern, channel, nearest),
        Refusal::InvalidPattern(invalid) => {
            call.reply_invalid_pattern(invalid.pattern, count(invalid.position), invalid.reason.into())
        }
        Refusal::InvalidSetting {
            setting,
            value,
            allowed,
        } => call.reply_invalid_setting(setting.into(), value, allowed),
        Refusal::NothingEnabled { session } => call.reply_nothing_enabled(session),
        Refusal::AlreadyActive { session } => call.reply_already_active(session),
        Refusal::NotActive { session } => call.reply_not_active(session),
        Refusal::NotSnapshot { session } => call.reply_not_snapshot(session),
        Refusal::OutputExists { path } => call.reply_output_exists(text(path)),
        Refusal::OutputFailed { path, reason } => call.reply_output_failed(text(path), reason),
        Refusal::ConsumerFailed { reason } => call.reply_consumer_failed(reason),
        Refusal::Internal { reason } => call.reply_internal(reason),
    }
}
