// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events of the kernel are recorded: the options of `record` and `enable-event` as rules, and rules as text.

use piste_control::Error;
use piste_control::interface::{
    CallPart, ErrorKind, KernelEventKind, KernelRule, VarlinkClient, VarlinkClientInterface,
};

use crate::arguments::{EnableEvent, KernelOptions};
use crate::call_stack;
use crate::dynamic::kernel_symbol;
use crate::failure::Failure;
use crate::preset::{self, Preset};
use crate::screen::{STRONG, printable, styled};
use piste_patterns::matches;

/// A rule without any condition.
pub(crate) fn rule(kind: KernelEventKind, pattern: &str) -> KernelRule {
    KernelRule {
        kind,
        pattern: pattern.into(),
        call_part: None,
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
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) rule: KernelRule,
    pub(crate) preset: Option<&'static str>,
}

/// The rules of a recording: what the presets have, then what was asked for by name, which replaces what it means of a preset: its
/// filter is the one that counts.
///
/// # Errors
/// A probe's place does not have the form that its kind needs, or its binary is not found.
pub(crate) fn of_record(options: &KernelOptions) -> Result<Vec<Wanted>, Failure> {
    let tracepoints = &options.tracepoints;
    let mut wanted: Vec<Wanted> = vec![];
    let mut add = |rule: KernelRule, preset| {
        wanted.retain(|other| other.rule.kind != rule.kind || !means(&rule.pattern, &other.rule.pattern));
        wanted.push(Wanted { rule, preset });
    };
    for preset in presets(options) {
        for rule in of_preset(preset, tracepoints.filter.as_ref()) {
            add(rule, Some(preset.name));
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
    for one in &tracepoints.syscalls {
        let rule = KernelRule {
            filter: one.filter.clone(),
            ..rule(KernelEventKind::syscall, &one.pattern)
        };
        add(rule, None);
    }
    for mut rule in options.probes.rules(None)? {
        rule.filter.clone_from(&tracepoints.filter);
        rule.stack = options.callstack.map(|stack| stack.request(None));
        wanted.push(Wanted { rule, preset: None });
    }
    Ok(wanted)
}

/// The rules of a preset. A filter is for its tracepoints.
fn of_preset(preset: &Preset, filter: Option<&String>) -> Vec<KernelRule> {
    let tracepoint = |pattern: &&str| KernelRule {
        excluded: preset.excluded.iter().map(|pattern| pattern.to_string()).collect(),
        filter: filter.cloned(),
        ..rule(KernelEventKind::tracepoint, pattern)
    };
    let calls = preset
        .syscalls
        .iter()
        .map(|pattern| rule(KernelEventKind::syscall, pattern));
    preset.tracepoints.iter().map(tracepoint).chain(calls).collect()
}

/// Whether `pattern` means all that `other` does: of a group and a name, or of the name alone.
fn means(pattern: &str, other: &str) -> bool {
    match (pattern.contains(':'), other.split_once(':')) {
        (false, Some((_, name))) => matches(pattern, name),
        _ => matches(pattern, other),
    }
}

/// The rules of presets, by their names.
pub(crate) fn of_presets(names: &[&str]) -> Vec<Wanted> {
    let presets = names.iter().filter_map(|name| preset::find(name));
    presets
        .flat_map(|preset| {
            let wanted = |rule| Wanted {
                rule,
                preset: Some(preset.name),
            };
            of_preset(preset, None).into_iter().map(wanted)
        })
        .collect()
}

fn presets(options: &KernelOptions) -> Vec<&'static Preset> {
    let nothing_named = options.tracepoints.is_empty() && options.probes.is_empty();
    match options.presets.is_empty() && nothing_named {
        true => preset::DEFAULT
            .into_iter()
            .filter_map(|name| preset::find(name))
            .collect(),
        false => options.presets.clone(),
    }
}

/// The rules of `enable-event -k`: what the presets have, then what was asked for by name.
///
/// # Errors
/// Those of [`of_record`], or a name for several probes.
pub(crate) fn of_enable_event(arguments: &EnableEvent) -> Result<Vec<Wanted>, Failure> {
    let options = &arguments.kernel;
    let mut named = vec![];
    if arguments.all {
        named.push(rule(KernelEventKind::tracepoint, "*"));
    }
    let tracepoints = arguments.patterns.iter();
    named.extend(tracepoints.map(|pattern| rule(KernelEventKind::tracepoint, pattern)));
    let calls = options.syscalls.iter();
    named.extend(calls.map(|pattern| KernelRule {
        call_part: options.call_part(),
        ..rule(KernelEventKind::syscall, pattern)
    }));
    named.extend(options.probes.rules(options.name.as_deref())?);
    for rule in &mut named {
        rule.filter.clone_from(&arguments.filter);
    }
    let mut wanted: Vec<Wanted> = vec![];
    for preset in &options.presets {
        for rule in of_preset(preset, arguments.filter.as_ref()) {
            // What is named replaces it, and so does what another preset has of it.
            let is_same = |other: &KernelRule| other.kind == rule.kind && means(&other.pattern, &rule.pattern);
            if !named
                .iter()
                .chain(wanted.iter().map(|wanted| &wanted.rule))
                .any(is_same)
            {
                let preset = Some(preset.name);
                wanted.push(Wanted { rule, preset });
            }
        }
    }
    wanted.extend(named.into_iter().map(|rule| Wanted { rule, preset: None }));
    for Wanted { rule, .. } in &mut wanted {
        rule.excluded.extend_from_slice(&arguments.excluded);
        rule.fields.clone_from(&options.fields);
        rule.stack = options.callstack.map(|stack| stack.request(options.callstack_range));
    }
    Ok(wanted)
}

/// What came of enabling rules.
pub(crate) struct Enabled {
    pub(crate) channel: String,
    /// All rules of the channel.
    pub(crate) rules: Vec<KernelRule>,
    /// What presets have and this kernel has not: pattern and preset.
    pub(crate) lacking: Vec<(String, &'static str)>,
}

/// Enables the rules in a channel of a session, as far as this kernel has what presets have.
///
/// # Errors
/// The session is not there, or what was asked for by name is refused, or everything.
pub(crate) fn enable(
    calls: &mut VarlinkClient,
    session: Option<String>,
    channel: Option<String>,
    mut wanted: Vec<Wanted>,
) -> Result<Enabled, Error> {
    let mut lacking = vec![];
    loop {
        let rules: Vec<KernelRule> = wanted.iter().map(|wanted| wanted.rule.clone()).collect();
        let reply = calls
            .enable_kernel_event(session.clone(), channel.clone(), rules)
            .call();
        let error = match reply {
            Ok(reply) => {
                return Ok(Enabled {
                    channel: reply.channel,
                    rules: reply.rules,
                    lacking,
                });
            }
            Err(error) => Error::from(error),
        };
        // Each refusal takes a pattern away, the last one is told.
        match without_refused(&mut wanted, &error) {
            Some(pattern) if !wanted.is_empty() => lacking.push(pattern),
            _ => return Err(error),
        }
    }
}

/// Takes away what a preset has and the kernel has not. What somebody named is an error.
fn without_refused(wanted: &mut Vec<Wanted>, error: &Error) -> Option<(String, &'static str)> {
    let Some(ErrorKind::NoEvent(Some(refused))) = error.refusal() else {
        return None;
    };
    let index = wanted
        .iter()
        .position(|wanted| wanted.rule.pattern == refused.pattern)?;
    let preset = wanted[index].preset?;
    let lacking = wanted.remove(index);
    Some((lacking.rule.pattern, preset))
}

/// `this kernel has no event irq:tasklet_* (preset irq)`
pub(crate) fn lack_text((pattern, preset): &(String, &str)) -> String {
    format!("this kernel has no event {pattern} (preset {preset})")
}

/// `sched_*, not sched_stat*, where prev_prio < 10`
pub(crate) fn text(rule: &KernelRule) -> String {
    let name = styled(STRONG, printable(&rule.pattern));
    let mut text = match &rule.kind {
        KernelEventKind::tracepoint => name,
        KernelEventKind::syscall => match &rule.call_part {
            None => format!("system call {name}"),
            Some(CallPart::entry) => format!("system call {name}, entry only"),
            Some(CallPart::exit) => format!("system call {name}, exit only"),
        },
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

/// `/bin/bash:readline`, `the return of /bin/bash:readline`, `0xffffffff81234567 (do_exit+0x10)`
fn place(kind: &KernelEventKind, rule: &KernelRule) -> String {
    let returns = matches!(kind, KernelEventKind::uretprobe | KernelEventKind::kretprobe);
    let parts = [rule.binary.as_deref(), rule.place.as_deref()];
    let place: Vec<&str> = parts.into_iter().flatten().collect();
    let symbol = match (&rule.binary, &rule.place) {
        (None, Some(place)) => kernel_symbol(place).map(|symbol| format!(" ({symbol})")),
        _ => None,
    };
    format!(
        "{}{}{}",
        if returns { "the return of " } else { "" },
        printable(&place.join(":")),
        symbol.unwrap_or_default()
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
            .unwrap()
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
        let rules = of_record(&record.kernel).unwrap();
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
            .map(|wanted| anstream::adapter::strip_str(&text(&wanted.rule)).to_string())
            .collect();
        let conditions =
            ", not sched_stat*, where prev_prio < 10, fields prev_tid next_tid, with kernel stack, 4 frames";
        assert_eq!(
            seen,
            [format!("sched_*{conditions}"), format!("system call open*{conditions}")]
        );
    }

    fn of_session(line: &str) -> Vec<(String, Option<&'static str>, Vec<String>)> {
        let words = ["piste", "enable-event", "-k"]
            .into_iter()
            .chain(line.split_whitespace());
        let Command::EnableEvent(event) = Arguments::try_parse_from(words).unwrap().command else {
            panic!()
        };
        let rules = of_enable_event(&event).unwrap().into_iter();
        rules
            .map(|wanted| (wanted.rule.pattern, wanted.preset, wanted.rule.excluded))
            .collect()
    }

    #[test]
    fn sessions_know_presets() {
        let rules = of_session("--preset sched,syscalls -x sched_process_wait");
        let excluded = vec!["sched_process_wait".to_owned()];
        assert_eq!(rules[0], ("sched:sched_switch".into(), Some("sched"), excluded.clone()));
        assert_eq!(rules.last(), Some(&("*".into(), Some("syscalls"), excluded)));
        // What is named, or is in two presets, comes once.
        let count = |line, pattern| {
            let rules = of_session(line).into_iter();
            rules.filter(|(known, ..)| known.ends_with(pattern)).count()
        };
        assert_eq!(count("--preset sched,ltt", "sched_switch"), 1);
        assert_eq!(count("--preset sched sched_switch", "sched_switch"), 1);
        assert!(Arguments::try_parse_from(["piste", "enable-event", "--preset", "sched"]).is_err());
    }

    #[test]
    fn recordings_have_probes_instead_of_the_default_presets() {
        let probe = ("sh_main".into(), None, None);
        assert_eq!(of_line("--uprobe /bin/sh:main"), [probe]);
        let both = of_line("--preset sched --uprobe /bin/sh:main --uretprobe /bin/sh:main --filter x<1");
        let names: Vec<&str> = both[both.len() - 2..].iter().map(|(name, ..)| &**name).collect();
        assert_eq!(names, ["sh_main", "sh_main_return"]);
        assert!(
            both.iter().all(|(.., filter)| filter.as_deref() == Some("x<1")),
            "{both:?}"
        );
        let with_stack = [
            "piste",
            "record",
            "--uprobe",
            "/bin/sh:main",
            "--callstack",
            "user",
            "true",
        ];
        assert!(Arguments::try_parse_from(with_stack).is_ok());
        assert!(Arguments::try_parse_from(["piste", "record", "--uprobe", "a:b", "--no-kernel", "true"]).is_err());
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
