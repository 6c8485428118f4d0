// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste list`: the registered programs with their events, and the sessions.

use std::thread;
use std::time::Duration;

use anstyle::Style;
use piste_control::interface::{Event, Program, SessionState, SessionStatus, VarlinkClientInterface};
use serde_json::json;

use crate::arguments::List;
use crate::columns::{Align, Cell, Columns};
use crate::failure::Failure;
use crate::pattern::matches;
use crate::quantity::{count, size};
use crate::screen::{BAD, FAINT, STRONG, printable, show, show_json, styled};
use crate::session::connect;
use crate::status;
use crate::summary::{Total, finding_text};

/// Programs that waited for a pisted register as soon as one appears. They are given this long before they are listed.
const REGISTRATION_TIME: Duration = Duration::from_millis(300);

/// `piste list`
pub(crate) fn list(arguments: List, json: bool) -> Result<(), Failure> {
    let mut client = connect()?;
    if let Some(session) = arguments.session {
        return status::show_one(&client.calls().status(Some(session)).call()?.session, json);
    }
    if client.started_pisted() && !arguments.sessions {
        thread::sleep(REGISTRATION_TIME);
    }
    let programs_wanted = !arguments.sessions;
    let sessions_wanted = !arguments.programs && arguments.pattern.is_none();
    let programs = match programs_wanted {
        true => Some(select(
            client.calls().list_programs().call()?.programs,
            arguments.pattern.as_deref(),
        )),
        false => None,
    };
    let sessions = if sessions_wanted {
        Some(client.calls().list_sessions().call()?.sessions)
    } else {
        None
    };
    if json {
        let mut lists = serde_json::Map::new();
        lists.extend(programs.map(|programs| ("programs".to_owned(), json!(programs))));
        lists.extend(sessions.map(|sessions| ("sessions".to_owned(), json!(sessions))));
        return show_json(&lists);
    }
    let mut text = String::new();
    if let Some(programs) = programs {
        text += &programs_text(&programs, arguments.pattern.as_deref());
    }
    if let Some(sessions) = sessions {
        text += if text.is_empty() { "" } else { "\n" };
        text += &sessions_text(&sessions);
    }
    show(&text)
}

/// With a pattern: the programs that have matching events, with these alone.
fn select(mut programs: Vec<Program>, pattern: Option<&str>) -> Vec<Program> {
    if let Some(pattern) = pattern {
        for program in &mut programs {
            program.events.retain(|event| matches(pattern, &event.name));
        }
        programs.retain(|program| !program.events.is_empty());
    }
    programs
}

fn programs_text(programs: &[Program], pattern: Option<&str>) -> String {
    if programs.is_empty() {
        return match pattern {
            Some(pattern) => format!("no running program has an event that matches {}\n", printable(pattern)),
            None => "no program with events runs\n".into(),
        };
    }
    let mut text = String::new();
    for (index, program) in programs.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text += &program_line(program);
        text += &events_text(&program.events);
        for finding in &program.findings {
            text += &format!("  {}\n", styled(BAD, finding_text(finding)));
        }
    }
    text
}

/// `1234 shop, user ada, /usr/bin/shop, recorded by web/default`
fn program_line(program: &Program) -> String {
    let mut line = format!(
        "{} {}, user {}",
        program.pid,
        styled(STRONG, printable(&program.name)),
        printable(&program.user)
    );
    if program.vpid != program.pid {
        line += &format!(", pid {} in its container", program.vpid);
    }
    line += &format!(", {}", printable(&program.path));
    if !program.channels.is_empty() {
        line += &format!(", recorded by {}", printable(&program.channels.join(", ")));
    }
    line + "\n"
}

fn events_text(events: &[Event]) -> String {
    if events.is_empty() {
        return format!("  {}\n", styled(FAINT, "no events"));
    }
    let mut columns = Columns::new(&[("EVENT", Align::Left), ("LEVEL", Align::Left), ("FIELDS", Align::Left)]);
    for event in events {
        let fields: Vec<String> = event
            .fields
            .iter()
            .map(|field| format!("{}: {}", field.name, field.r#type))
            .collect();
        columns.row([
            Cell::from(&event.name),
            Cell::styled(FAINT, event.level.name()),
            Cell::styled(Style::new(), fields.join(", ")),
        ]);
    }
    columns.lines(2)
}

fn sessions_text(sessions: &[SessionStatus]) -> String {
    if sessions.is_empty() {
        return "no session exists\n".into();
    }
    let mut columns = Columns::new(&[
        ("SESSION", Align::Left),
        ("STATE", Align::Left),
        ("EVENTS", Align::Right),
        ("SIZE", Align::Right),
        ("LOST", Align::Right),
        ("TRACE", Align::Left),
    ]);
    for session in sessions {
        let total = Total::of(session);
        let lost = total.discarded_events + total.lost_packets;
        columns.row([
            if session.current {
                Cell::styled(STRONG, format!("{} *", session.name))
            } else {
                Cell::from(&session.name)
            },
            Cell::from(state(&session.state)),
            Cell::from(count(total.events)),
            Cell::from(size(total.bytes)),
            if lost > 0 {
                Cell::styled(BAD, count(lost))
            } else {
                Cell::from("0")
            },
            Cell::from(&session.output),
        ]);
    }
    let current = sessions.iter().any(|session| session.current);
    columns.lines(0)
        + if current {
            "* the current session, which commands without -s mean\n"
        } else {
            ""
        }
}

/// What people call the state.
pub(crate) fn state(state: &SessionState) -> &'static str {
    match state {
        SessionState::inactive => "inactive",
        SessionState::active => "recording",
        SessionState::stopped => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use piste_control::interface::{EventField, Finding, Level};

    use super::*;

    #[test]
    fn a_program_is_shown_with_its_events_levels_and_fields() {
        let field = |name: &str, kind: &str| EventField {
            name: name.into(),
            r#type: kind.into(),
        };
        let program = Program {
            pid: 12,
            vpid: 1,
            name: "shop".into(),
            path: "/usr/bin/shop".into(),
            uid: 1000,
            user: "ada".into(),
            record_id: None,
            events: vec![
                Event {
                    name: "shop:order".into(),
                    level: Level::debug_line,
                    fields: vec![field("id", "int32"), field("customer", "string")],
                },
                Event {
                    name: "shop:bad\u{1b}".into(),
                    level: Level::err,
                    fields: vec![],
                },
            ],
            channels: vec!["web/default".into()],
            findings: vec![Finding {
                what: "a description was too long".into(),
                count: 2,
            }],
        };
        let seen = anstream::adapter::strip_str(&programs_text(&[program], None)).to_string();
        assert_eq!(
            seen,
            "\
12 shop, user ada, pid 1 in its container, /usr/bin/shop, recorded by web/default
  EVENT           LEVEL       FIELDS
  shop:order      debug_line  id: int32, customer: string
  shop:bad\\u{1b}  err
  a description was too long (2 times)
"
        );
    }
}
