// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that change sessions: create, set-session, start, stop, snapshot record, rotate, regenerate, destroy. Each is
//! one call to pisted and a line about what is so now. Those of channels are in channels.rs, those of events in rules.rs.

use std::path::Path;

use piste_control::interface::{Domain, SessionStatus, VarlinkClientInterface};
use piste_control::{Client, Places};
use piste_reason::reason;
use serde_json::json;

use crate::arguments::{Create, Destroy, OneSession, Regenerate, Snapshot};
use crate::failure::Failure;
use crate::folder::refuse_url;
use crate::json::of_pisted;
use crate::patience::wait_for;
use crate::quantity::{counted, size};
use crate::screen::{STRONG, printable, show, show_json, styled};
use crate::summary;
use crate::tracked;

/// A connection to pisted, which is started when none runs: it takes up the sessions of one that was killed.
pub(crate) fn connect() -> Result<Client, Failure> {
    Ok(Client::connect_or_start(&Places::for_commands()?)?)
}

/// `piste create`
pub(crate) fn create(arguments: Create, json: bool) -> Result<(), Failure> {
    let output = arguments.output.as_deref().map(absolute).transpose()?;
    let name = arguments.name.or(arguments.session);
    let session = connect()?
        .calls()
        .create_session(name, output, arguments.snapshot, None, None, None)
        .call()?
        .session;
    if json {
        return show_json(&of_pisted(&session)?);
    }
    let kind = if session.snapshot {
        "snapshot session"
    } else {
        "session"
    };
    show(&format!(
        "created {kind} {}; traces go to {}\n",
        name_of(&session),
        printable(&session.output)
    ))
}

/// `piste set-session`
pub(crate) fn set_current(name: String, json: bool) -> Result<(), Failure> {
    connect()?.calls().set_current(name.clone()).call()?;
    if json {
        return show_json(&json!({ "session": name }));
    }
    show(&format!(
        "{} is the current session\n",
        styled(STRONG, printable(&name))
    ))
}

/// `piste start`
pub(crate) fn start(arguments: OneSession, json: bool) -> Result<(), Failure> {
    let session = connect()?.calls().start(arguments.chosen()).call()?.session;
    if json {
        return show_json(&of_pisted(&session)?);
    }
    let enabled = || session.channels.iter().filter(|channel| channel.enabled);
    let has = |domain: Domain| enabled().any(|channel| channel.settings.domain == domain);
    let mut of = vec![];
    if has(Domain::kernel) {
        of.push(match tracked::text(&session.kernel_tracked) {
            Some(about) => format!("the kernel for {about}"),
            None => "the kernel".into(),
        });
    }
    if has(Domain::user) {
        of.push(match session.programs {
            0 => "no program with its events is running yet".into(),
            programs => format!("{} attached", counted(programs, "program")),
        });
    }
    show(&format!("{} is recording, {}\n", name_of(&session), of.join(", ")))
}

/// `piste stop`
pub(crate) fn stop(arguments: OneSession, json: bool) -> Result<(), Failure> {
    let session = connect()?.calls().stop(arguments.chosen()).call()?.session;
    if json {
        return show_json(&of_pisted(&session)?);
    }
    show(&summary::ended(&session, "stopped"))
}

/// `piste snapshot record`
pub(crate) fn snapshot(arguments: Snapshot, json: bool) -> Result<(), Failure> {
    let Snapshot::Record { session, output } = arguments;
    let output = output.as_deref().map(absolute).transpose()?;
    let reply = connect()?.calls().snapshot_record(session.session, output).call()?;
    if json {
        return show_json(&of_pisted(&reply)?);
    }
    show(&format!(
        "snapshot: {}, {}, in {}\n",
        counted(reply.events, "event"),
        size(reply.bytes),
        styled(STRONG, printable(&reply.output))
    ))
}

/// `piste rotate`
pub(crate) fn rotate(arguments: OneSession, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    let session = arguments.chosen();
    let reply = wait_for(
        "the chunk to be written",
        "pisted continues the rotation, and nothing is lost (see `piste status`)",
        move || Ok(client.calls().rotate(session).call()?),
    )?;
    if json {
        return show_json(&of_pisted(&reply)?);
    }
    show(&format!(
        "chunk {}: {}, {}, in {}\n",
        reply.number,
        counted(reply.events, "event"),
        size(reply.bytes),
        styled(STRONG, printable(&reply.output))
    ))
}

/// `piste regenerate statedump`
pub(crate) fn regenerate(arguments: Regenerate, json: bool) -> Result<(), Failure> {
    let Regenerate::Statedump(session) = arguments;
    connect()?.calls().regenerate_state_dump(session.chosen()).call()?;
    if json {
        return show_json(&json!({}));
    }
    show("wrote another state dump into the trace\n")
}

/// `piste destroy`
pub(crate) fn destroy(arguments: Destroy, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    if !arguments.all {
        let (_, session) = end_session(client, arguments.session.chosen())?;
        return if json {
            show_json(&of_pisted(&session)?)
        } else {
            show(&summary::ended(&session, "destroyed"))
        };
    }
    let mut ended: Vec<SessionStatus> = vec![];
    for SessionStatus { name, .. } in client.calls().list_sessions().call()?.sessions {
        let session;
        (client, session) = end_session(client, Some(name))?;
        ended.push(session);
    }
    if json {
        return show_json(&json!({ "sessions": of_pisted(&ended)? }));
    }
    if ended.is_empty() {
        return show("there are no sessions\n");
    }
    show(
        &ended
            .iter()
            .map(|session| summary::ended(session, "destroyed"))
            .collect::<String>(),
    )
}

/// Destroys a session; gives the connection back.
fn end_session(mut client: Client, session: Option<String>) -> Result<(Client, SessionStatus), Failure> {
    wait_for(
        "the rest of the trace to be written",
        "pisted continues to write it, and then ends the session (see `piste list`)",
        move || {
            let ended = client.calls().destroy_session(session).call()?.session;
            Ok((client, ended))
        },
    )
}

fn name_of(session: &SessionStatus) -> String {
    styled(STRONG, printable(&session.name))
}

/// A path as pisted, whose folder is another, understands it.
fn absolute(path: &Path) -> Result<String, Failure> {
    refuse_url(path)?;
    std::path::absolute(path)
        .map_err(|error| Failure::new(format!("cannot use the path {path:?}: {}", reason(&error))))?
        .into_os_string()
        .into_string()
        .map_err(|path| Failure::new(format!("cannot use the path {path:?}: it is not UTF-8; choose another")))
}
