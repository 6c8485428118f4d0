// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that change sessions: create, set-session, enable-channel, enable-event, disable-event, start, stop, snapshot record,
//! destroy. Each is one call to pisted and a line about what is so now.

use std::path::Path;

use piste_control::error::reason;
use piste_control::interface::{ChannelSettings, EventRule, LossMode, Program, SessionStatus, VarlinkClientInterface};
use piste_control::{Client, Places};
use serde_json::json;

use crate::arguments::{Create, Destroy, DisableEvent, EnableChannel, EnableEvent, OneSession, Snapshot};
use crate::failure::Failure;
use crate::nearest::nearest;
use crate::pattern::matches;
use crate::quantity::{counted, duration, size};
use crate::screen::{self, STRONG, printable, show, show_json, styled};
use crate::summary;

const DEFAULT_CHANNEL: &str = "default";

/// A connection to pisted, which is started when none runs: it takes up the sessions of one that was killed.
pub(crate) fn connect() -> Result<Client, Failure> {
    Ok(Client::connect_or_start(&Places::from_environment()?)?)
}

/// `piste create`
pub(crate) fn create(arguments: Create, json: bool) -> Result<(), Failure> {
    let output = arguments.output.as_deref().map(absolute).transpose()?;
    let name = arguments.name.or(arguments.session);
    let session = connect()?
        .calls()
        .create_session(name, output, arguments.snapshot, None)
        .call()?
        .session;
    if json {
        return show_json(&session);
    }
    let kind = if session.snapshot {
        "snapshot session"
    } else {
        "session"
    };
    show(&format!(
        "created {kind} {}, its traces go to {}\n",
        name_of(&session),
        printable(&session.output)
    ))
}

/// `piste set-session`
pub(crate) fn set_current(name: String, json: bool) -> Result<(), Failure> {
    connect()?.calls().set_current(name.clone()).call()?;
    if json {
        return show_json(&json!({ "current": name }));
    }
    show(&format!(
        "{} is the current session\n",
        styled(STRONG, printable(&name))
    ))
}

/// `piste enable-channel`
pub(crate) fn enable_channel(arguments: EnableChannel, json: bool) -> Result<(), Failure> {
    let request = arguments.options.request(arguments.name);
    let channel = connect()?
        .calls()
        .enable_channel(arguments.session.session, request)
        .call()?
        .channel;
    if json {
        return show_json(&channel);
    }
    let contexts = match contexts(&channel) {
        "" => "without contexts".into(),
        contexts => format!("with {contexts}"),
    };
    show(&format!(
        "channel {}: {}, rings of {}, {contexts}\n",
        styled(STRONG, printable(&channel.name)),
        loss_mode(&channel),
        rings(&channel)
    ))
}

/// `discard`, `overwrite`, `block 500 ms`
pub(crate) fn loss_mode(channel: &ChannelSettings) -> String {
    match (&channel.loss, channel.block_timeout_us) {
        (LossMode::discard, _) => "discard".into(),
        (LossMode::overwrite, _) => "overwrite".into(),
        (LossMode::block, None) => "block forever".into(),
        (LossMode::block, Some(timeout_us)) => format!("block {}", duration(timeout_us.saturating_mul(1000))),
    }
}

/// `4 x 256 KiB`
pub(crate) fn rings(channel: &ChannelSettings) -> String {
    format!("{} x {}", channel.subbuf_count, size(channel.subbuf_bytes))
}

/// `vtid, cpu_id`, or nothing.
pub(crate) fn contexts(channel: &ChannelSettings) -> &'static str {
    match (channel.context_vtid, channel.context_cpu_id) {
        (true, true) => "vtid, cpu_id",
        (true, false) => "vtid",
        (false, true) => "cpu_id",
        (false, false) => "",
    }
}

/// `piste enable-event`
pub(crate) fn enable_event(arguments: EnableEvent, json: bool) -> Result<(), Failure> {
    let patterns = if arguments.all {
        vec!["*".into()]
    } else {
        arguments.patterns
    };
    let level_only = arguments.level_only.is_some();
    let mut client = connect()?;
    let reply = client
        .calls()
        .enable_event(
            arguments.session.session,
            arguments.channel,
            patterns,
            arguments.excluded,
            arguments.level_only.or(arguments.level),
            level_only,
        )
        .call()?;
    rules("enabled", &reply.channel, &reply.rules, json)?;
    if !json {
        let programs = client.calls().list_programs().call()?.programs;
        for doubt in reply.rules.iter().filter_map(|rule| doubt(&rule.pattern, &programs)) {
            screen::tell_sentence(&doubt);
        }
    }
    Ok(())
}

/// A pattern that no running program's event matches is right when the program comes later, and a typing error when not.
fn doubt(pattern: &str, programs: &[Program]) -> Option<String> {
    let names = || {
        programs
            .iter()
            .flat_map(|program| program.events.iter().map(|event| event.name.as_str()))
    };
    if names().any(|name| matches(pattern, name)) {
        return None;
    }
    match nearest(pattern, names(), 3).as_slice() {
        [] => None,
        near => Some(format!(
            "note: no running program has an event that matches {}; near are {}",
            printable(pattern),
            printable(&near.join(", "))
        )),
    }
}

/// `piste disable-event`
pub(crate) fn disable_event(arguments: DisableEvent, json: bool) -> Result<(), Failure> {
    let patterns = if arguments.all { vec![] } else { arguments.patterns };
    let reply = connect()?
        .calls()
        .disable_event(arguments.session.session, arguments.channel, patterns)
        .call()?;
    rules("disabled", &reply.channel, &reply.rules, json)
}

fn rules(verb: &str, channel: &str, rules: &[EventRule], json: bool) -> Result<(), Failure> {
    if json {
        return show_json(&json!({ "channel": channel, "rules": rules }));
    }
    let of_channel = match channel {
        DEFAULT_CHANNEL => String::new(),
        other => format!(", in channel {}", printable(other)),
    };
    let lines: String = rules
        .iter()
        .map(|rule| format!("{verb} {}{of_channel}\n", rule_text(rule)))
        .collect();
    show(&lines)
}

/// `shop:*, not shop:noise, level err and graver`
pub(crate) fn rule_text(rule: &EventRule) -> String {
    let mut text = styled(STRONG, printable(&rule.pattern));
    for excluded in &rule.excluded {
        text += &format!(", not {}", printable(excluded));
    }
    match &rule.level {
        Some(level) if rule.level_only => text += &format!(", level {} only", level.name()),
        Some(level) => text += &format!(", level {} and graver", level.name()),
        None => {}
    }
    text
}

/// `piste start`
pub(crate) fn start(arguments: OneSession, json: bool) -> Result<(), Failure> {
    let session = connect()?.calls().start(arguments.chosen()).call()?.session;
    if json {
        return show_json(&session);
    }
    let programs = match session.programs {
        0 => "no program with its events runs yet".into(),
        programs => format!("{} attached", counted(programs, "program")),
    };
    show(&format!("{} is recording, {programs}\n", name_of(&session)))
}

/// `piste stop`
pub(crate) fn stop(arguments: OneSession, json: bool) -> Result<(), Failure> {
    let session = connect()?.calls().stop(arguments.chosen()).call()?.session;
    if json {
        return show_json(&session);
    }
    show(&summary::ended(&session, "stopped"))
}

/// `piste snapshot record`
pub(crate) fn snapshot(arguments: Snapshot, json: bool) -> Result<(), Failure> {
    let Snapshot::Record { session, output } = arguments;
    let output = output.as_deref().map(absolute).transpose()?;
    let reply = connect()?.calls().snapshot_record(session.session, output).call()?;
    if json {
        return show_json(&reply);
    }
    show(&format!(
        "snapshot: {}, {}, in {}\n",
        counted(reply.events, "event"),
        size(reply.bytes),
        styled(STRONG, printable(&reply.output))
    ))
}

/// `piste destroy`
pub(crate) fn destroy(arguments: Destroy, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    if !arguments.all {
        let session = client
            .calls()
            .destroy_session(arguments.session.chosen())
            .call()?
            .session;
        return if json {
            show_json(&session)
        } else {
            show(&summary::ended(&session, "destroyed"))
        };
    }
    let mut ended: Vec<SessionStatus> = vec![];
    for session in client.calls().list_sessions().call()?.sessions {
        ended.push(client.calls().destroy_session(Some(session.name)).call()?.session);
    }
    if json {
        return show_json(&ended);
    }
    if ended.is_empty() {
        return show("no session exists\n");
    }
    show(
        &ended
            .iter()
            .map(|session| summary::ended(session, "destroyed"))
            .collect::<String>(),
    )
}

fn name_of(session: &SessionStatus) -> String {
    styled(STRONG, printable(&session.name))
}

/// A path as pisted, whose folder is another, understands it.
fn absolute(path: &Path) -> Result<String, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::new(format!("cannot use {path:?}: {}", reason(&error))))?
        .into_os_string()
        .into_string()
        .map_err(|path| Failure::new(format!("cannot use {path:?}: the path is not UTF-8; choose another")))
}
