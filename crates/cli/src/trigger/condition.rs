// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trigger waits for: one rule, of an event of programs or of the kernel.

use piste_control::interface::{
    CallPart, EventRule, KernelEventKind, KernelRule, SessionEvent, SessionEventKind, TriggerCondition,
};

use crate::arguments::ConditionOptions;
use crate::failure::{Failure, USAGE};
use crate::kernel_rules;
use crate::quantity::{duration, size};
use crate::rules::rule_text;
use crate::screen::printable;

/// The condition that the options describe.
///
/// # Errors
/// They name no event or more than one, or a probe that is not possible.
pub(super) fn of(options: &ConditionOptions) -> Result<TriggerCondition, Failure> {
    let of_programs = options.events.iter().map(|pattern| EventRule {
        pattern: pattern.clone(),
        excluded: options.excluded.clone(),
        levels: options.level_only.clone().or_else(|| options.level.clone()),
        filter: options.filter.clone(),
        enabled: true,
    });
    let tracepoints = options.kernel.iter();
    let mut of_kernel: Vec<KernelRule> = tracepoints
        .map(|pattern| kernel_rules::rule(KernelEventKind::tracepoint, pattern))
        .collect();
    of_kernel.extend(options.syscalls.iter().map(|pattern| KernelRule {
        call_part: options.call_part(),
        ..kernel_rules::rule(KernelEventKind::syscall, pattern)
    }));
    of_kernel.extend(options.probes.rules(None)?);
    let mut of_sessions = session_events(options);
    let count = options.events.len() + of_kernel.len() + of_sessions.len();
    let mut of_programs = of_programs.peekable();
    if count != 1 {
        let sentence = match count {
            0 => "a trigger waits for an event; choose one with -e PATTERN, -k PATTERN, --syscall PATTERN, a probe option, or a session option such as --on-loss"
                .into(),
            _ => format!(
                "a trigger waits for one event, but there are {count} patterns or probes; add a trigger for each, or use one \
                 pattern with `*`"
            ),
        };
        return Err(Failure::with_status(sentence, USAGE));
    }
    let kernel_event = of_kernel.pop().map(|rule| KernelRule {
        excluded: options.excluded.clone(),
        filter: options.filter.clone(),
        ..rule
    });
    if let Some(event) = of_sessions.pop() {
        return of_session(options, event);
    }
    let event = of_programs.next();
    let end = options
        .over
        .map(|_| end(options, event.as_ref(), kernel_event.as_ref()))
        .transpose()?;
    let (end_event, end_kernel_event) = end.unwrap_or_default();
    let kernel_event = kernel_event.map(|rule| match (options.over, &rule.kind) {
        (Some(_), KernelEventKind::syscall) => KernelRule {
            call_part: Some(CallPart::entry),
            ..rule
        },
        _ => rule,
    });
    Ok(TriggerCondition {
        event,
        kernel_event,
        session_event: None,
        end_event,
        end_kernel_event,
        over_ns: options
            .over
            .map(|over| i64::try_from(over.as_nanos()).unwrap_or(i64::MAX)),
        by: options.by.clone(),
        overdue: options.overdue.then_some(true),
        contexts: options.contexts.as_ref().map(|contexts| {
            let named = contexts.iter().filter(|context| *context != "none");
            named.cloned().collect()
        }),
    })
}

fn session_events(options: &ConditionOptions) -> Vec<SessionEvent> {
    let event = |session: &String, kind, bytes| SessionEvent {
        session: session.clone(),
        kind,
        bytes,
        percent: None,
    };
    let rotated = options.on_rotation.iter();
    let rotated = rotated.map(|session| event(session, SessionEventKind::rotated, None));
    let lost = options.on_loss.iter();
    let lost = lost.map(|session| event(session, SessionEventKind::lost, None));
    let recorded = options.on_size.iter().map(|(session, bytes)| {
        let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
        event(session, SessionEventKind::recorded, Some(bytes))
    });
    let filled = options.on_fill.iter().map(|(session, percent)| SessionEvent {
        percent: Some(*percent),
        ..event(session, SessionEventKind::filled, None)
    });
    rotated.chain(lost).chain(recorded).chain(filled).collect()
}

/// What happens to a session has no more to it.
fn of_session(options: &ConditionOptions, event: SessionEvent) -> Result<TriggerCondition, Failure> {
    let others = [
        ("--filter", options.filter.is_some()),
        ("--exclude", !options.excluded.is_empty()),
        ("--context", options.contexts.is_some()),
        ("--over", options.over.is_some()),
    ];
    if let Some((option, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
        let sentence = format!(
            "{option} works only with events of programs and of the kernel, not with session options such as --on-loss"
        );
        return Err(Failure::with_status(sentence, USAGE));
    }
    Ok(TriggerCondition {
        event: None,
        kernel_event: None,
        session_event: Some(event),
        end_event: None,
        end_kernel_event: None,
        over_ns: None,
        overdue: None,
        by: None,
        contexts: None,
    })
}

/// What ends a duration that begins with an event: an event of the same kind, or the exit of the same system call.
fn end(
    options: &ConditionOptions,
    event: Option<&EventRule>,
    kernel_event: Option<&KernelRule>,
) -> Result<(Option<EventRule>, Option<KernelRule>), Failure> {
    let filter = options.end_filter.clone();
    match (event, kernel_event, options.end_event.clone()) {
        (Some(event), _, Some(pattern)) => {
            let rule = EventRule {
                pattern,
                filter,
                excluded: vec![],
                levels: None,
                enabled: event.enabled,
            };
            Ok((Some(rule), None))
        }
        (_, Some(event), None) if event.kind == KernelEventKind::syscall => {
            let rule = KernelRule {
                call_part: Some(CallPart::exit),
                filter,
                ..event.clone()
            };
            Ok((None, Some(rule)))
        }
        (_, Some(_), Some(pattern)) => {
            let rule = KernelRule {
                filter,
                ..kernel_rules::rule(KernelEventKind::tracepoint, &pattern)
            };
            Ok((None, Some(rule)))
        }
        _ => Err(Failure::with_status(
            "a duration needs an end; choose it with --end-event PATTERN",
            USAGE,
        )),
    }
}

fn session_event_text(event: &SessionEvent) -> String {
    let session = printable(&event.session);
    match event.kind {
        SessionEventKind::rotated => format!("each rotation of session {session}"),
        SessionEventKind::lost => format!("lost events in session {session}"),
        SessionEventKind::recorded => {
            let bytes = event.bytes.unwrap_or_default();
            format!("each {} that session {session} records", size(bytes))
        }
        SessionEventKind::filled => {
            let percent = event.percent.unwrap_or_default();
            format!("a ring of session {session} that is {percent} % full")
        }
    }
}

/// A system call, from its entry to its exit.
fn call_text(entry: Option<&KernelRule>, exit: &KernelRule) -> String {
    let whole = |rule: &KernelRule| KernelRule {
        call_part: None,
        ..rule.clone()
    };
    let call = kernel_rules::text(&whole(entry.unwrap_or(exit)));
    match &exit.filter {
        Some(filter) => format!("{call}, until its exit, where {}", printable(filter)),
        None => call,
    }
}

/// `shop:order, where price > 1000, with vpid, prio`
pub(super) fn text(condition: &TriggerCondition) -> String {
    let of_programs = condition.event.as_ref().map(rule_text);
    let of_kernel = condition.kernel_event.as_ref().map(kernel_rules::text);
    if let Some(event) = &condition.session_event {
        return session_event_text(event);
    }
    let mut text = of_programs.or(of_kernel).unwrap_or_default();
    if let Some(over_ns) = condition.over_ns {
        let end = condition.end_event.as_ref().map(rule_text);
        let of_kernel = condition.end_kernel_event.as_ref();
        let (end, over) = (end.or(of_kernel.map(kernel_rules::text)), duration(over_ns));
        text = match of_kernel.filter(|end| end.kind == KernelEventKind::syscall) {
            Some(exit) => call_text(condition.kernel_event.as_ref(), exit),
            None => format!("{text} until {}", end.unwrap_or_default()),
        };
        text += &match condition.overdue {
            Some(true) => format!(", not ended after {over}"),
            _ => format!(", longer than {over}"),
        };
        if let Some(by) = condition
            .by
            .as_ref()
            .filter(|by| !["vtid", "tid"].contains(&by.as_str()))
        {
            text += &format!(", with the same {}", printable(by));
        }
    }
    match condition.contexts.as_deref() {
        None => {}
        Some([]) => text += ", without contexts",
        Some(contexts) => text += &format!(", with {}", printable(&contexts.join(", "))),
    }
    text
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn of_line(words: &[&str]) -> Result<TriggerCondition, Failure> {
        let words = [&["piste", "add-trigger"], words].concat();
        let Command::AddTrigger(arguments) = Arguments::try_parse_from(words).unwrap().command else {
            panic!()
        };
        of(&arguments.condition)
    }

    fn check(words: &[&str], expected: &str) {
        let condition = of_line(words).unwrap();
        assert!(condition.session_event.is_some() || condition.event.is_some() != condition.kernel_event.is_some());
        assert_eq!(strip_str(&text(&condition)).to_string(), expected);
    }

    #[test]
    fn options_become_one_rule() {
        check(
            &[
                "-e",
                "shop:*",
                "-x",
                "shop:noise",
                "--level",
                "err",
                "--filter",
                "price > 9",
            ],
            "shop:*, not shop:noise, level err and more severe, where price > 9",
        );
        check(&["-u", "shop:*", "--level-only", "info"], "shop:*, level info only");
        check(
            &[
                "late",
                "-k",
                "sched_*",
                "-x",
                "sched_stat*",
                "--filter",
                "prev_prio < 0",
            ],
            "sched_*, not sched_stat*, where prev_prio < 0",
        );
        check(&["--syscall", "open*", "--exit"], "system call open*, exit only");
        check(
            &["--uprobe", "/bin/sh:main", "--context", "tid,pid"],
            "sh_main at /bin/sh:main, with tid, pid",
        );
        check(&["-e", "a:b", "--context", "none"], "a:b, without contexts");
        check(
            &[
                "-e",
                "a:b",
                "--end-event",
                "a:c",
                "--over",
                "5ms",
                "--by",
                "id",
                "--end-filter",
                "x > 1",
            ],
            "a:b until a:c, where x > 1, longer than 5.00 ms, with the same id",
        );
        check(
            &["--syscall", "fsync", "--over", "2s"],
            "system call fsync, longer than 2.00 s",
        );
        check(
            &[
                "--syscall",
                "read",
                "--over",
                "2s",
                "--overdue",
                "--end-filter",
                "ret > 0",
            ],
            "system call read, until its exit, where ret > 0, not ended after 2.00 s",
        );
        check(
            &["-e", "a:b", "--end-event", "a:c", "--over", "5ms", "--overdue"],
            "a:b until a:c, not ended after 5.00 ms",
        );
        check(&["--on-rotation", "web"], "each rotation of session web");
        check(&["--on-loss", "web"], "lost events in session web");
        check(&["--on-size", "w=b=1M"], "each 1 MiB that session w=b records");
        check(&["--on-fill", "w=b=80%"], "a ring of session w=b that is 80 % full");
        check(&["--on-fill", "web=1"], "a ring of session web that is 1 % full");
        for wrong in ["web", "web=0", "web=101%", "web=%", "web=-1"] {
            let words = ["piste", "add-trigger", "--on-fill", wrong];
            assert!(Arguments::try_parse_from(words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_happens_to_a_session_has_no_filter() {
        for option in [
            &["--filter", "x > 1"][..],
            &["-x", "a:b"],
            &["--context", "tid"],
            &["--over", "1s"],
        ] {
            assert!(
                of_line(&[&["--on-loss", "web"], option].concat()).is_err(),
                "{option:?}"
            );
        }
    }

    #[test]
    fn a_trigger_waits_for_one_event() {
        for words in [
            &["-e", "a:b,a:c"][..],
            &["-e", "a:b", "-k", "sched_switch"],
            &["--syscall", "read", "--syscall", "write"],
            &["-k", "a", "--uprobe", "/bin/sh:main"],
        ] {
            match of_line(words) {
                Err(Failure::Told { sentence, status }) => {
                    assert_eq!(status, USAGE);
                    assert!(
                        sentence.starts_with("a trigger waits for one event, but there are 2"),
                        "{sentence}"
                    );
                }
                other => panic!("{words:?}: {other:?}"),
            }
        }
    }
}
