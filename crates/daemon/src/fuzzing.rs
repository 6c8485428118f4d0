// SPDX-License-Identifier: MIT OR Apache-2.0
//! What strangers can send, as functions of bytes: nothing here may panic, hang, or use memory without bounds. Tests call them
//! with random bytes, `fuzz/` with better ones.

use crate::description::{Interner, KEPT_BYTES_MAX};
use crate::link::Clock;
use crate::message::{self, FromProgram};
use crate::person::Person;
use crate::session::commands::RulesRequest;
use crate::session::rules::{Levels, matches};
use crate::session::settings::ChannelRequest;
use crate::session::{Host, Machine, Moment, ProcessFacts, ProgramId, SessionIdentity, Sessions};
use crate::shares::Users;

/// One message of a program.
pub fn message(bytes: &[u8]) {
    let _ = message::parse(bytes, 0, &Interner::new(Users { own: 0 }, KEPT_BYTES_MAX));
}

/// A program that sends several messages, each with its length in two bytes before it, while a session records everything.
pub fn conversation(bytes: &[u8]) {
    let mut machine = recording_machine();
    let interner = Interner::new(Users { own: 0 }, KEPT_BYTES_MAX);
    let id = ProgramId { pid: 1, instance_id: 1 };
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let count = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (bytes, after) = after.split_at(count);
        rest = after;
        match message::parse(bytes, 0, &interner) {
            Ok(FromProgram::Hello(hello)) => machine.hello(id, ProcessFacts::default(), hello),
            Ok(FromProgram::Events { module, block, bytes }) => machine.events(id, module, block, bytes),
            Ok(FromProgram::ModuleGone { module }) => machine.module_gone(id, module),
            Ok(FromProgram::Refused { key, reason }) => machine.refused(id, key, &reason),
            Ok(FromProgram::Late) => machine.late(id),
            Ok(FromProgram::Sync { token }) => machine.sync(id, token),
            Ok(FromProgram::Synced { token }) => machine.confirmed(id, token),
            Ok(FromProgram::Foreign { .. }) | Err(_) => machine.disconnected(id),
        }
        machine.take_effects();
    }
    machine.dead(id);
}

/// A pattern and a name, divided by a zero byte.
pub fn pattern(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some((pattern, name)) = text.split_once('\0') {
        matches(pattern, name);
    }
}

pub(crate) fn recording_machine() -> Machine {
    let mut machine = Machine::new(
        Host {
            ring_count: 2,
            clock: Clock::Monotonic,
            users: Users { own: 0 },
            ring_set_count_max: 1000,
            kernel_ring_bytes_max: 4 << 30,
        },
        Sessions::default(),
        0,
    );
    let clock = piste_ctf::Clock {
        name: "monotonic".into(),
        uuid: [0; 16],
        frequency_hz: 1_000_000_000,
        offset_seconds: 0,
        offset_ticks: 0,
        description: String::new(),
    };
    let trace = piste_ctf::Trace {
        uuid: [1; 16],
        clock,
        environment: Vec::new(),
    };
    let identity = SessionIdentity {
        name: "all".into(),
        output: "/".into(),
        owner: Person::default(),
        snapshot: false,
        record_id: None,
        never_current: false,
        trigger: None,
        bound_to: None,
        trace,
    };
    let session = machine.create_session(identity).expect("the first session");
    let channel = ChannelRequest {
        name: "default".into(),
        ..ChannelRequest::default()
    };
    machine.enable_channel(session, &channel).expect("the first channel");
    let all = RulesRequest {
        patterns: vec!["*".into()],
        excluded: Vec::new(),
        levels: Levels::ALL,
        filter: None,
    };
    machine.enable_event(session, None, &all).expect("a pattern");
    machine
        .start(session, Moment::default())
        .expect("a session with a rule");
    machine
}
