// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste list`: the registered programs with their events, and the sessions.

use std::thread;
use std::time::Duration;

use anstyle::Style;
use piste_control::client::programs;
use piste_control::interface::{Event, ProbePlaceKind, Program, SessionState, SessionStatus, VarlinkClientInterface};

use crate::arguments::List;
use crate::columns::{Align, Cell, Columns};
use crate::failure::Failure;
use crate::json::of_pisted;
use crate::kernel_list;
use crate::page::{Page, Width};
use crate::quantity::{count, size};
use crate::screen::{BAD, FAINT, STRONG, printable, styled};
use crate::session::connect;
use crate::status;
use crate::summary::{Total, finding_text};
use piste_patterns::matches;

/// Programs that waited for a pisted register as soon as one appears. They are given this long before they are listed.
const REGISTRATION_TIME: Duration = Duration::from_millis(300);

/// `piste list`
pub(crate) fn list(arguments: List, json: bool) -> Result<(), Failure> {
    let pattern = arguments.pattern.clone();
    let page = Page::new(&arguments.page);
    if arguments.kernel {
        return kernel_list::events(pattern, arguments.fields, &page, json);
    }
    if arguments.syscalls {
        return kernel_list::syscalls(pattern, &page, json);
    }
    if let Some(binary) = &arguments.symbols {
        return kernel_list::places(binary, ProbePlaceKind::symbol, pattern, &page, json);
    }
    if let Some(binary) = &arguments.usdt {
        return kernel_list::places(binary, ProbePlaceKind::usdt, pattern, &page, json);
    }
    let mut client = connect()?;
    if let Some(session) = arguments.session {
        return status::show_one(&client.calls().status(Some(session)).call()?.session, &page, json);
    }
    if client.started_pisted() && !arguments.sessions {
        thread::sleep(REGISTRATION_TIME);
    }
    let programs_wanted = !arguments.sessions;
    let sessions_wanted = !arguments.programs && arguments.pattern.is_none();
    let programs = match programs_wanted {
        true => Some(select(programs(client.calls())?, arguments.pattern.as_deref())),
        false => None,
    };
    let sessions = if sessions_wanted {
        Some(client.calls().list_sessions().call()?.sessions)
    } else {
        None
    };
    if json {
        let mut lists = serde_json::Map::new();
        if let Some(programs) = programs {
            lists.insert("programs".to_owned(), of_pisted(&programs)?);
        }
        if let Some(sessions) = sessions {
            lists.insert("sessions".to_owned(), of_pisted(&sessions)?);
        }
        return page.show_json(&lists);
    }
    let mut text = String::new();
    if let Some(programs) = programs {
        text += &programs_text(&programs, arguments.pattern.as_deref(), page.width());
    }
    if let Some(sessions) = sessions {
        text += if text.is_empty() { "" } else { "\n" };
        text += &sessions_text(&sessions, page.width());
    }
    page.show(&text)
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

fn programs_text(programs: &[Program], pattern: Option<&str>, width: Width) -> String {
    if programs.is_empty() {
        return match pattern {
            Some(pattern) => format!("no running program has an event that matches {}\n", printable(pattern)),
            None => "no program with events is running\n".into(),
        };
    }
    let mut text = String::new();
    for (index, group) in groups(programs).iter().enumerate() {
        let first = group[0];
        text += if index > 0 { "\n" } else { "" };
        text += &group_line(group);
        text += &events_text(&first.events, width);
        for finding in &first.findings {
            text += &format!("  {}\n", styled(BAD, finding_text(finding)));
        }
    }
    text
}

/// Processes that differ in nothing but their ids, together; in the order of the first of each.
fn groups(programs: &[Program]) -> Vec<Vec<&Program>> {
    let mut groups: Vec<Vec<&Program>> = vec![];
    for program in programs {
        let same = |other: &Program| {
            (&other.path, &other.name, &other.user) == (&program.path, &program.name, &program.user)
                && (&other.events, &other.channels) == (&program.events, &program.channels)
                && other.findings == program.findings
        };
        match groups.iter_mut().find(|group| same(group[0])) {
            Some(group) => group.push(program),
            None => groups.push(vec![program]),
        }
    }
    groups
}

/// `shop, pid 1234 1240, user ada, /usr/bin/shop, recorded by web/default`
fn group_line(group: &[&Program]) -> String {
    const SHOWN: usize = 12;
    let program = group[0];
    let mut line = format!("{}, pid", styled(STRONG, printable(&program.name)));
    for program in group.iter().take(SHOWN) {
        line += &match program.vpid == program.pid {
            true => format!(" {}", program.pid),
            false => format!(" {} ({} in its container)", program.pid, program.vpid),
        };
    }
    if group.len() > SHOWN {
        line += &format!(" and {} more", count((group.len() - SHOWN) as i64));
    }
    line += &format!(", user {}, {}", printable(&program.user), printable(&program.path));
    if !program.channels.is_empty() {
        line += &format!(", recorded by {}", printable(&program.channels.join(", ")));
    }
    line + "\n"
}

fn events_text(events: &[Event], width: Width) -> String {
    if events.is_empty() {
        return format!("  {}\n", styled(FAINT, "no events"));
    }
    let mut columns = Columns::new(&[("EVENT", Align::Left), ("LEVEL", Align::Left), ("FIELDS", Align::Left)]);
    for event in events {
        let fields: Vec<String> = event
            .fields
            .iter()
            .map(|field| {
                let only = if field.recorded == Some(false) {
                    " (for filters)"
                } else {
                    ""
                };
                format!("{}: {}{only}", field.name, field.r#type)
            })
            .collect();
        columns.row([
            Cell::from(&event.name),
            Cell::styled(FAINT, event.level.name()),
            Cell::styled(Style::new(), fields.join(", ")),
        ]);
    }
    columns.lines(2, width)
}

fn sessions_text(sessions: &[SessionStatus], width: Width) -> String {
    if sessions.is_empty() {
        return "there are no sessions\n".into();
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
        let lost = total.discarded_events.saturating_add(total.lost_packets);
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
    columns.lines(0, width)
        + if current {
            "* the current session, the default for -s\n"
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

    fn shop(pid: i64, vpid: i64) -> Program {
        let field = |name: &str, kind: &str| EventField {
            name: name.into(),
            r#type: kind.into(),
            recorded: None,
        };
        let for_filters = EventField {
            recorded: Some(false),
            ..field("cost", "int64")
        };
        Program {
            pid,
            vpid,
            name: "shop".into(),
            path: "/usr/bin/shop".into(),
            uid: 1000,
            user: "ada".into(),
            record_id: None,
            events: vec![
                Event {
                    name: "shop:order".into(),
                    level: Level::debug_line,
                    fields: vec![field("id", "int32"), for_filters, field("customer", "string")],
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
        }
    }

    fn seen(programs: &[Program]) -> String {
        anstream::adapter::strip_str(&programs_text(programs, None, Width::ANY)).to_string()
    }

    #[test]
    fn a_program_is_shown_with_its_events_levels_and_fields() {
        assert_eq!(
            seen(&[shop(12, 1)]),
            "\
shop, pid 12 (1 in its container), user ada, /usr/bin/shop, recorded by web/default
  EVENT           LEVEL       FIELDS
  shop:order      debug_line  id: int32, cost: int64 (for filters), customer: string
  shop:bad\\u{1b}  err
  a description was too long (2 times)
"
        );
    }

    #[test]
    fn processes_of_one_program_are_shown_together() {
        let mut other = shop(7, 7);
        other.user = "eve".into();
        let mut programs: Vec<Program> = (20..40).map(|pid| shop(pid, pid)).collect();
        programs.insert(1, other);
        let seen = seen(&programs);
        let lines: Vec<&str> = seen.lines().filter(|line| line.starts_with("shop,")).collect();
        assert_eq!(
            lines,
            [
                "shop, pid 20 21 22 23 24 25 26 27 28 29 30 31 and 8 more, user ada, /usr/bin/shop, recorded by web/default",
                "shop, pid 7, user eve, /usr/bin/shop, recorded by web/default"
            ]
        );
    }
}
