// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste list -k`, `--syscalls`, `--symbols`, `--usdt`: what of the kernel and of binaries can be recorded.

use piste_control::interface::{EventField, KernelEvent, ProbePlace, ProbePlaceKind, Syscall, VarlinkClientInterface};
use serde_json::json;

use crate::columns::{Align, Cell, Columns};
use crate::dynamic;
use crate::failure::Failure;
use crate::json::of_pisted;
use crate::page::{Page, Width};
use crate::screen::{FAINT, STRONG, printable, styled};
use crate::session::connect;

/// The kernel's events: names; with `fields`, or when there is one alone, in full.
pub(crate) fn events(pattern: Option<String>, fields: bool, page: &Page, json: bool) -> Result<(), Failure> {
    let mut events = vec![];
    for part in connect()?.calls().list_kernel_events(pattern.clone()).more()? {
        events.extend(part?.events);
    }
    if json {
        return page.show_json(&json!({ "events": events }));
    }
    if events.is_empty() {
        return page.show(&none("kernel event", pattern.as_deref()));
    }
    if fields || events.len() == 1 {
        return page.show(
            &events
                .iter()
                .map(|event| event_text(event, page.width()))
                .collect::<Vec<_>>()
                .join("\n"),
        );
    }
    page.show(&events.iter().map(event_line).collect::<String>())
}

/// `sched:sched_switch`, and what the trace calls it where that differs.
fn event_line(event: &KernelEvent) -> String {
    let own = event.name.rsplit(':').next().unwrap_or_default();
    let mut line = printable(&event.name).into_owned();
    if event.trace_name != own {
        line += &styled(FAINT, format!("  as {}", printable(&event.trace_name)));
    }
    if !event.is_enabled_possible {
        line += &styled(FAINT, "  (for other tracers only)");
    }
    line + "\n"
}

fn event_text(event: &KernelEvent, width: Width) -> String {
    let mut text = styled(STRONG, printable(&event.name));
    if event.is_enabled_possible {
        text += &format!(", in the trace {}\n", printable(&event.trace_name));
    } else {
        text += ", for other tracers only\n";
    }
    if !event.fields.is_empty() {
        let mut columns = Columns::new(&[("FIELD", Align::Left), ("TYPE", Align::Left)]);
        for field in &event.fields {
            columns.row([Cell::from(&field.name), Cell::from(&field.r#type)]);
        }
        text += &columns.lines(2, width);
    }
    for line in event.help.lines() {
        text += &format!("  {}\n", printable(line));
    }
    text
}

/// The system calls with their numbers and arguments.
pub(crate) fn syscalls(pattern: Option<String>, page: &Page, json: bool) -> Result<(), Failure> {
    let mut syscalls = vec![];
    for part in connect()?.calls().list_syscalls(pattern.clone()).more()? {
        syscalls.extend(part?.syscalls);
    }
    if json {
        return page.show_json(&json!({ "syscalls": syscalls }));
    }
    if syscalls.is_empty() {
        return page.show(&none("system call", pattern.as_deref()));
    }
    page.show(&syscalls_text(&syscalls, page.width()))
}

fn syscalls_text(syscalls: &[Syscall], width: Width) -> String {
    let mut columns = Columns::new(&[
        ("SYSCALL", Align::Left),
        ("NUMBER", Align::Right),
        ("32-BIT", Align::Right),
        ("ARGUMENTS", Align::Left),
    ]);
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    for syscall in syscalls {
        columns.row([
            Cell::from(&syscall.name),
            Cell::from(number(syscall.number)),
            Cell::from(number(syscall.compat_number)),
            Cell::from(fields_text(&syscall.arguments)),
        ]);
    }
    columns.lines(0, width)
}

/// `dfd: int32, filename: string`
fn fields_text(fields: &[EventField]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|field| format!("{}: {}", field.name, field.r#type))
        .collect();
    fields.join(", ")
}

/// The functions, or the probes, of a binary.
pub(crate) fn places(
    binary: &str,
    kind: ProbePlaceKind,
    pattern: Option<String>,
    page: &Page,
    json: bool,
) -> Result<(), Failure> {
    let path = dynamic::find(binary)?;
    let mut places = vec![];
    for part in connect()?
        .calls()
        .list_probe_places(path.clone(), kind.clone(), pattern.clone())
        .more()?
    {
        places.extend(part?.places);
    }
    if json {
        return page.show_json(&json!({ "binary": path, "places": of_pisted(&places)? }));
    }
    let what = match kind {
        ProbePlaceKind::symbol => "function",
        ProbePlaceKind::usdt => "probe",
    };
    if places.is_empty() {
        return page.show(&format!("{}: {}", printable(&path), none(what, pattern.as_deref())));
    }
    page.show(&places_text(&places, &kind, page.width()))
}

fn places_text(places: &[ProbePlace], kind: &ProbePlaceKind, width: Width) -> String {
    let last = match kind {
        ProbePlaceKind::symbol => "DEMANGLED",
        ProbePlaceKind::usdt => "ARGUMENTS",
    };
    let mut columns = Columns::new(&[("NAME", Align::Left), ("OFFSET", Align::Right), (last, Align::Left)]);
    for place in places {
        let more = match kind {
            ProbePlaceKind::symbol => place.demangled.clone().unwrap_or_default(),
            ProbePlaceKind::usdt if place.semaphore => format!("{} (semaphore)", place.arguments.join(" ")),
            ProbePlaceKind::usdt => place.arguments.join(" "),
        };
        columns.row([
            Cell::from(&place.name),
            Cell::from(format!("{:#x}", place.offset)),
            Cell::from(more.trim()),
        ]);
    }
    columns.lines(0, width)
}

fn none(what: &str, pattern: Option<&str>) -> String {
    match pattern {
        Some(pattern) => format!("no {what} matches {}\n", printable(pattern)),
        None => format!("no {what}s\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, kind: &str) -> EventField {
        EventField {
            name: name.into(),
            r#type: kind.into(),
            recorded: None,
        }
    }

    fn seen(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn an_event_is_a_name_or_all_that_is_known_of_it() {
        let event = KernelEvent {
            name: "irq:softirq_raise".into(),
            trace_name: "irq_softirq_raise".into(),
            fields: vec![field("vec", "uint32")],
            help: "vec: 0=HI 1=TIMER".into(),
            is_enabled_possible: true,
        };
        assert_eq!(seen(&event_line(&event)), "irq:softirq_raise  as irq_softirq_raise\n");
        assert_eq!(
            seen(&event_text(&event, Width::ANY)),
            "irq:softirq_raise, in the trace irq_softirq_raise\n  FIELD  TYPE\n  vec    uint32\n  vec: 0=HI 1=TIMER\n"
        );
    }

    #[test]
    fn system_calls_and_places_are_tables() {
        let syscall = Syscall {
            name: "close".into(),
            number: Some(3),
            compat_number: None,
            arguments: vec![field("fd", "uint32")],
        };
        assert_eq!(
            seen(&syscalls_text(&[syscall], Width::ANY)),
            "SYSCALL  NUMBER  32-BIT  ARGUMENTS\nclose         3       -  fd: uint32\n"
        );
        let place = ProbePlace {
            name: "libc:setjmp".into(),
            demangled: None,
            offset: 0x100,
            arguments: vec!["8@%rdi".into()],
            semaphore: true,
        };
        assert_eq!(
            seen(&places_text(&[place], &ProbePlaceKind::usdt, Width::ANY)),
            "NAME         OFFSET  ARGUMENTS\nlibc:setjmp   0x100  8@%rdi (semaphore)\n"
        );
    }
}
