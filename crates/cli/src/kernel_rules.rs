// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events of the kernel are recorded: the options of `record` and `enable-event` as rules, and rules as text.

use piste_control::interface::{KernelEventKind, KernelRule};

use crate::arguments::{EnableEvent, KernelOptions};
use crate::call_stack;
use crate::dynamic::probe;
use crate::failure::Failure;
use crate::preset::{self, Preset};
use crate::screen::{STRONG, printable, styled};
use piste_names::matches;

/// A rule without any condition.
pub(crate) fn rule(kind: KernelEventKind, pattern: &str) -> KernelRule {
    KernelRule {
        kind,
        pattern: pattern.into(),
        binary: None,
        place: None,
        arguments: vec![],
        excluded: vec![],
        filter: None,
        fields: vec![],
        stack: None,
        enabled: true,
    }
}

/// A rule of a recording, and the preset that it comes from.
#[derive(Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) rule: KernelRule,
    pub(crate) preset: Option<&'static str>,
}

/// The rules of a recording: what the presets have, then what was asked for by name, which replaces what it means of a preset: its
/// filter is the one that counts.
pub(crate) fn of_record(options: &KernelOptions) -> Vec<Wanted> {
    let tracepoints = &options.tracepoints;
    let mut wanted: Vec<Wanted> = vec![];
    let mut add = |rule: KernelRule, preset| {
        wanted.retain(|other| other.rule.kind != rule.kind || !means(&rule.pattern, &other.rule.pattern));
        wanted.push(Wanted { rule, preset });
    };
    for preset in presets(options) {
        for pattern in preset.tracepoints {
            let rule = KernelRule {
                excluded: preset.excluded.iter().map(|pattern| pattern.to_string()).collect(),
                filter: tracepoints.filter.clone(),
                ..rule(KernelEventKind::tracepoint, pattern)
            };
            add(rule, Some(preset.name));
        }
        for pattern in preset.syscalls {
            add(rule(KernelEventKind::syscall, pattern), Some(preset.name));
        }
    }
    for one in &tracepoints.patterns {
        let rule = KernelRule {
            filter: one.filter.clone().or_else(|| tracepoints.filter.clone()),
            stack: options.callstack.map(|stack| stack.request(None)),
            ..rule(KernelEventKind::tracepoint, &one.pattern)
        };
        add(rule, None);
    }
    for pattern in &options.syscalls {
        add(rule(KernelEventKind::syscall, pattern), None);
    }
    wanted
}

/// Whether `pattern` means all that `other` does: of a group and a name, or of the name alone.
fn means(pattern: &str, other: &str) -> bool {
    match (pattern.contains(':'), other.split_once(':')) {
        (false, Some((_, name))) => matches(pattern, name),
        _ => matches(pattern, other),
    }
}

fn presets(options: &KernelOptions) -> Vec<&'static Preset> {
    let nothing_named = options.tracepoints.patterns.is_empty() && options.syscalls.is_empty();
    match options.presets.is_empty() && nothing_named {
        true => preset::DEFAULT
            .into_iter()
            .filter_map(|name| preset::find(name))
            .collect(),
        false => options.presets.clone(),
    }
}

/// The rules of `enable-event -k`.
pub(crate) fn of_enable_event(arguments: &EnableEvent) -> Result<Vec<KernelRule>, Failure> {
    let options = &arguments.kernel;
    let mut rules = vec![];
    if arguments.all {
        rules.push(rule(KernelEventKind::tracepoint, "*"));
    }
    rules.extend(
        arguments
            .patterns
            .iter()
            .map(|pattern| rule(KernelEventKind::tracepoint, pattern)),
    );
    rules.extend(
        options
            .syscalls
            .iter()
            .map(|pattern| rule(KernelEventKind::syscall, pattern)),
    );
    let name = options.name.as_deref();
    let probes = [
        (KernelEventKind::uprobe, &options.uprobe),
        (KernelEventKind::uretprobe, &options.uretprobe),
        (KernelEventKind::usdt, &options.usdt),
        (KernelEventKind::kprobe, &options.kprobe),
        (KernelEventKind::kretprobe, &options.kretprobe),
    ];
    let count: usize = probes.iter().map(|(_, places)| places.len()).sum();
    if name.is_some() && count != 1 {
        return Err(Failure::new(format!(
            "--name can name only one probe, but there are {count}; enable each with a separate command"
        )));
    }
    for (kind, places) in &probes {
        for place in *places {
            rules.push(probe(kind.clone(), place, name)?);
        }
    }
    for rule in &mut rules {
        rule.excluded.clone_from(&arguments.excluded);
        rule.filter.clone_from(&options.filter);
        rule.fields.clone_from(&options.fields);
        rule.stack = options.callstack.map(|stack| stack.request(options.callstack_range));
    }
    Ok(rules)
}

/// `sched_*, not sched_stat*, where prev_prio < 10`
pub(crate) fn text(rule: &KernelRule) -> String {
    let name = styled(STRONG, printable(&rule.pattern));
    let mut text = match &rule.kind {
        KernelEventKind::tracepoint => name,
        KernelEventKind::syscall => format!("system call {name}"),
        KernelEventKind::usdt => format!("{name} of {}", printable(rule.binary.as_deref().unwrap_or_default())),
        probe => format!("{name} at {}", place(probe, rule)),
    };
    for argument in &rule.arguments {
        text += &format!(" {}", printable(argument));
    }
    for excluded in &rule.excluded {
        text += &format!(", not {}", printable(excluded));
    }
    if let Some(filter) = &rule.filter {
        text += &format!(", where {}", printable(filter));
    }
    if !rule.fields.is_empty() {
        text += &format!(", fields {}", printable(&rule.fields.join(" ")));
    }
    if let Some(stack) = &rule.stack {
        text += &format!(", with {}", call_stack::text(stack));
    }
    text
}

/// `/bin/bash:readline`, `return of /bin/bash:readline`
fn place(kind: &KernelEventKind, rule: &KernelRule) -> String {
    let returns = matches!(kind, KernelEventKind::uretprobe | KernelEventKind::kretprobe);
    let parts = [rule.binary.as_deref(), rule.place.as_deref()];
    let place: Vec<&str> = parts.into_iter().flatten().collect();
    format!(
        "{}{}",
        if returns { "the return of " } else { "" },
        printable(&place.join(":"))
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn of_line(line: &str) -> Vec<(String, Option<&'static str>, Option<String>)> {
        let words = ["piste", "record"]
            .into_iter()
            .chain(line.split_whitespace())
            .chain(["true"]);
        let Command::Record(record) = Arguments::try_parse_from(words).unwrap().command else {
            panic!()
        };
        of_record(&record.kernel)
            .into_iter()
            .map(|wanted| (wanted.rule.pattern, wanted.preset, wanted.rule.filter))
            .collect()
    }

    #[test]
    fn a_recording_has_what_viewers_need_unless_something_is_chosen() {
        let default = of_line("");
        assert!(default.iter().any(|(pattern, ..)| pattern == "sched:sched_switch"));
        assert!(default.contains(&("*".into(), Some("syscalls"), None)));

        let chosen = of_line("-k sched_switch --syscall read");
        assert_eq!(
            chosen,
            [("sched_switch".into(), None, None), ("read".into(), None, None)]
        );

        let both = of_line("--preset sched -k block:*");
        assert_eq!(both.last(), Some(&("block:*".into(), None, None)));
        assert_eq!(both[0].1, Some("sched"));
    }

    #[test]
    fn stacks_are_of_what_was_named() {
        let line = [
            "piste",
            "record",
            "--preset",
            "irq",
            "-k",
            "sched_switch",
            "--callstack",
            "kernel:4",
            "true",
        ];
        let Command::Record(record) = Arguments::try_parse_from(line).unwrap().command else {
            panic!()
        };
        let rules = of_record(&record.kernel);
        let with_stack: Vec<_> = rules.iter().filter(|wanted| wanted.rule.stack.is_some()).collect();
        assert_eq!(with_stack.len(), 1);
        assert_eq!(with_stack[0].rule.pattern, "sched_switch");
        assert!(rules.len() > 1);
        assert!(Arguments::try_parse_from(["piste", "record", "--callstack", "kernel", "true"]).is_err());
    }

    #[test]
    fn what_was_named_replaces_what_it_means_of_a_preset() {
        let switches = |line: &str| -> Vec<(String, Option<String>)> {
            of_line(line)
                .into_iter()
                .filter(|(pattern, ..)| pattern.contains("switch") || pattern == "sched_*")
                .map(|(pattern, _, filter)| (pattern, filter))
                .collect()
        };
        let expected = |pattern: &str| [(pattern.to_owned(), Some("x<1".to_owned()))];
        for pattern in ["sched:sched_switch", "sched_switch", "sched_*"] {
            let line = format!("--preset sched,ltt -k {pattern} --filter x<1");
            assert_eq!(switches(&line), expected(pattern));
        }
        // A part of what a preset has is not all of it.
        let calls = of_line("--preset syscalls --syscall read");
        assert_eq!(calls.len(), 2, "{calls:?}");
    }

    #[test]
    fn an_enabled_event_says_all_that_was_chosen() {
        let line = [
            "piste",
            "enable-event",
            "-k",
            "sched_*",
            "-x",
            "sched_stat*",
            "--filter",
            "prev_prio < 10",
            "--fields",
            "prev_tid,next_tid",
            "--callstack",
            "kernel:4",
            "--syscall",
            "open*",
        ];
        let Command::EnableEvent(event) = Arguments::try_parse_from(line).unwrap().command else {
            panic!()
        };
        let rules = of_enable_event(&event).unwrap();
        let seen: Vec<String> = rules
            .iter()
            .map(|rule| anstream::adapter::strip_str(&text(rule)).to_string())
            .collect();
        let conditions =
            ", not sched_stat*, where prev_prio < 10, fields prev_tid next_tid, with kernel stack, 4 frames";
        assert_eq!(
            seen,
            [format!("sched_*{conditions}"), format!("system call open*{conditions}")]
        );
    }

    #[test]
    fn a_name_is_for_one_probe() {
        let line = [
            "piste",
            "enable-event",
            "-k",
            "--kprobe",
            "a",
            "--kprobe",
            "b",
            "--name",
            "c",
        ];
        let Command::EnableEvent(event) = Arguments::try_parse_from(line).unwrap().command else {
            panic!()
        };
        assert!(of_enable_event(&event).is_err());
    }
}
