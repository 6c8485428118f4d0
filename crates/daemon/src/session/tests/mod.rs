// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as text: inputs are method calls, the expected effects one short line each.

mod commands;
mod consumers;
mod kernel;
mod limits;
mod programs;
mod rotation;
mod tracking;
mod triggers;

use std::rc::Rc;

use piste_ctf::{Base, Clock as CtfClock, Element, Field, FieldKind, Trace};

use super::commands::{Asked, RulesRequest};
use super::kernel::pattern;
use super::machine::{Effect, Host, Machine};
use super::process::ProcessFacts;
use super::rules::Levels;
use super::sessions::{Change, ProgramId, Sessions};
use super::settings::ChannelRequest;
use super::tracing_session::{Moment, SessionIdentity};
use crate::description::{EventBlock, EventDescription};
use crate::link::{Clock, Domain, Opening, RingSetKey, SessionId, ToConsumer};
use crate::message::{EnabledEvent, Hello, ToProgram};
use crate::person::Person;
use crate::shares::Users;

const ADA: ProgramId = ProgramId {
    pid: 7,
    instance_id: 70,
};
const BOB: ProgramId = ProgramId {
    pid: 8,
    instance_id: 80,
};

fn machine() -> Machine {
    machine_after(Sessions::default())
}

fn machine_after(sessions: Sessions) -> Machine {
    Machine::new(
        Host {
            ring_count: 2,
            clock: Clock::Monotonic,
            users: Users { own: 0 },
            ring_set_count_max: 1000,
            kernel_ring_bytes_max: 4 << 30,
        },
        sessions,
        0,
    )
}

pub(crate) fn identity(name: &str) -> SessionIdentity {
    let clock = CtfClock {
        name: "monotonic".into(),
        uuid: [0; 16],
        frequency_hz: 1_000_000_000,
        offset_seconds: 0,
        offset_ticks: 0,
        description: String::new(),
    };
    let trace = Trace {
        uuid: [1; 16],
        clock,
        environment: vec![],
    };
    SessionIdentity {
        name: name.into(),
        output: format!("/t/{name}").into(),
        owner: Person::default(),
        snapshot: false,
        record_id: None,
        never_current: false,
        trigger: None,
        bound_to: None,
        trace,
    }
}

/// By the user who runs pisted.
fn asked(session: Option<&str>) -> Asked {
    Asked {
        session: session.map(str::to_owned),
        by: Person::default(),
    }
}

fn rules(patterns: &[&str]) -> RulesRequest {
    let patterns = patterns.iter().map(|&pattern| pattern.into()).collect();
    RulesRequest {
        patterns,
        excluded: vec![],
        levels: Levels::ALL,
        filter: None,
    }
}

fn at(ns: u64) -> Moment {
    Moment {
        wall_ns: 1_000 + ns,
        boot_ns: ns,
    }
}

fn channel(name: &str) -> ChannelRequest {
    ChannelRequest {
        name: name.into(),
        ..ChannelRequest::default()
    }
}

fn hello(attached: &[RingSetKey]) -> Hello {
    Hello {
        instance_id: 0,
        vpid: 5,
        attached: attached.to_vec(),
        name: "shop".into(),
        path: "/usr/bin/shop".into(),
        record_id: None,
    }
}

fn facts(uid: u32, start: u64) -> ProcessFacts {
    ProcessFacts {
        start,
        uid,
        ..ProcessFacts::default()
    }
}

/// Events of level 13 with one field, an int32, or with none when the name ends with `!`.
fn block(names: &[&str]) -> Rc<EventBlock> {
    let field = Field {
        name: "id".into(),
        kind: FieldKind::Scalar {
            element: Element::Int32,
            base: Base::Decimal,
        },
    };
    let event = |(index, name): (u32, &&str)| EventDescription {
        index,
        name: name.trim_end_matches('!').into(),
        level: 13,
        fields: if name.ends_with('!') {
            vec![]
        } else {
            vec![field.clone()]
        },
        nowrite: vec![],
    };
    Rc::new(EventBlock::from((0..).zip(names).map(event).collect::<Vec<_>>()))
}

/// A session that records what the patterns match into the channel `default`. Its effects are taken.
fn recording(machine: &mut Machine, name: &str, patterns: &[&str]) -> SessionId {
    let session = machine.create_session(identity(name)).unwrap();
    machine.enable_event(session, None, &rules(patterns)).unwrap();
    machine.start(session, at(0)).unwrap();
    machine.take_effects();
    session
}

/// A program that registers with one module, number 1. Its effects are taken.
fn register(machine: &mut Machine, id: ProgramId, events: &[&str]) {
    machine.hello(id, facts(1000, 1), hello(&[]));
    machine.events(id, 1, block(events), 100);
    machine.sync(id, 1);
    machine.take_effects();
}

/// Takes the effects and compares them, the journal's left out.
fn check(machine: &mut Machine, expected: &[&str]) {
    let effects = machine.take_effects();
    let shown: Vec<String> = effects
        .iter()
        .filter(|effect| !matches!(effect, Effect::Record(_)))
        .map(show)
        .collect();
    assert_eq!(shown, expected);
}

/// What the journal holds so far, replayed from the effects.
fn replay(changes: &[Change]) -> Sessions {
    let mut sessions = Sessions::default();
    for change in changes {
        let line = serde_json::to_string(change).unwrap();
        sessions.apply(serde_json::from_str(&line).unwrap()).unwrap();
    }
    sessions
}

fn changes(effects: Vec<Effect>) -> Vec<Change> {
    let change = |effect| {
        if let Effect::Record(change) = effect {
            Some(change)
        } else {
            None
        }
    };
    effects.into_iter().filter_map(change).collect()
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Record(change) => format!("record {change:?}"),
        Effect::Tell { program, message } => format!("{}: {}", program.pid, show_message(message)),
        Effect::Consumer(Domain::User, message) => format!("consumer: {}", show_consumer(message)),
        Effect::Consumer(Domain::Kernel, message) => format!("kernel: {}", show_consumer(message)),
        Effect::MakeRings {
            key, name, recording, ..
        } => {
            format!("make {key} {name}{}", if *recording { " recording" } else { "" })
        }
        Effect::DropRings { key } => format!("drop {key}"),
    }
}

fn show_message(message: &ToProgram) -> String {
    let events = |events: &[EnabledEvent]| {
        let shown: Vec<String> = events
            .iter()
            .map(|event| {
                let filtered = if event.filter.is_some() { " if" } else { "" };
                format!("{}.{}={}{filtered}", event.module, event.index, event.class)
            })
            .collect();
        shown.join(" ")
    };
    match message {
        ToProgram::Channel { key, replaces: None } => format!("channel {key}"),
        ToProgram::Channel {
            key,
            replaces: Some(replaced),
        } => format!("channel {key} for {replaced}"),
        ToProgram::Bell { index } => format!("bell {index}"),
        ToProgram::ChannelGone { key } => format!("gone {key}"),
        ToProgram::Enable { key, events: list } => format!("enable {key} {}", events(list)),
        ToProgram::Disable { key, events: list } => format!("disable {key} {}", events(list)),
        ToProgram::StateDump { key } => format!("dump {key}"),
        ToProgram::Sync { token } => format!("sync {token}"),
        ToProgram::Synced { token } => format!("synced {token}"),
    }
}

fn show_consumer(message: &ToConsumer) -> String {
    match message {
        ToConsumer::Adopt => "adopt".into(),
        ToConsumer::OpenSession(Opening {
            session,
            rotation: Some(rotation),
            ..
        }) => format!("open {session}, rotating to {}", rotation.chunk.display()),
        ToConsumer::OpenSession(Opening { session, .. }) => format!("open {session}"),
        ToConsumer::AddChannel { session, stream, .. } => format!("channel {session}/{} {}", stream.id, stream.channel),
        ToConsumer::AddClass {
            session,
            stream_id,
            class,
        } => {
            format!("class {session}/{stream_id} {} {}", class.id, class.name)
        }
        ToConsumer::AddRingSet {
            session,
            stream_id,
            key,
            stream_instance_base,
            pid,
            ..
        } => {
            format!("rings {session}/{stream_id} {key} of {pid} from {stream_instance_base}")
        }
        ToConsumer::AddBoard { board } => format!("board {board}"),
        ToConsumer::ProgramGone { key } => format!("program gone {key}"),
        ToConsumer::RetireRingSet { key } => format!("retire {key}"),
        ToConsumer::Start { session, request } => format!("start {session} #{request}"),
        ToConsumer::Stop { session, request } => format!("stop {session} #{request}"),
        ToConsumer::Rotate {
            session,
            rotation,
            request,
        } => format!("rotate {session} {} #{request}", rotation.chunk.display()),
        ToConsumer::Snapshot {
            session,
            output,
            request,
            ..
        } => {
            format!("snapshot {session} {} #{request}", output.display())
        }
        ToConsumer::CloseSession { session, request } => format!("close {session} #{request}"),
        ToConsumer::Flush { session, request } => format!("flush {session} #{request}"),
        ToConsumer::Report { session, request, .. } => format!("report {session} #{request}"),
        ToConsumer::SetKernelChannel { session, spec } => {
            let enabled = spec.rules.iter().filter(|rule| rule.enabled);
            let patterns: Vec<String> = enabled.map(|rule| pattern(&rule.source)).collect();
            format!(
                "set {session}/{} {} [{}]",
                spec.stream_id,
                spec.name,
                patterns.join(" ")
            )
        }
        ToConsumer::SetTracked { session, tracked } if tracked.nobody => format!("tracked {session} nobody"),
        ToConsumer::SetTracked { session, tracked } => format!("tracked {session} {:?}", tracked.uids),
        ToConsumer::RegenerateStateDump { session, request } => format!("state dump {session} #{request}"),
        ToConsumer::Described => "described".into(),
        ToConsumer::Exit => "exit".into(),
    }
}
