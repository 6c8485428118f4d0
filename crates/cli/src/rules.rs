// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste enable-event` and `disable-event`: the rules of a channel, of programs' events and of the kernel's.

use piste_control::client::programs;
use piste_control::interface::{
    Domain, EventRule, KernelEventKind, KernelRule, Level, Program, VarlinkClientInterface,
};
use serde::Serialize;
use serde_json::json;

use crate::arguments::{DisableEvent, EnableEvent};
use crate::failure::Failure;
use crate::kernel_rules;
use crate::screen::{self, STRONG, printable, show, show_json, styled};
use crate::session::connect;
use piste_patterns::matches;
use piste_patterns::nearest;

const DEFAULT_CHANNEL: &str = "default";

/// `piste enable-event`
pub(crate) fn enable_event(arguments: EnableEvent, json: bool) -> Result<(), Failure> {
    if arguments.domain.chosen() == Domain::kernel {
        return enable_kernel_event(arguments, json);
    }
    let patterns = if arguments.all {
        vec!["*".into()]
    } else {
        arguments.patterns
    };
    let mut client = connect()?;
    let mut reply = client
        .calls()
        .enable_event(
            arguments.session.session,
            arguments.channel,
            patterns.clone(),
            arguments.excluded,
            arguments.level_only.or(arguments.level),
            arguments.filter,
        )
        .call()?;
    // The reply has all rules of the channel.
    reply.rules.retain(|rule| patterns.contains(&rule.pattern));
    let texts = reply.rules.iter().map(rule_text);
    told("enabled", &reply.channel, &reply.rules, texts, json)?;
    if !json {
        let programs = programs(client.calls())?;
        for doubt in reply.rules.iter().filter_map(|rule| doubt(&rule.pattern, &programs)) {
            screen::tell_sentence(&doubt);
        }
    }
    Ok(())
}

fn enable_kernel_event(arguments: EnableEvent, json: bool) -> Result<(), Failure> {
    let wanted = kernel_rules::of_enable_event(&arguments)?;
    let named: Vec<_> = wanted.iter().map(|wanted| named(&wanted.rule)).collect();
    let mut client = connect()?;
    let (session, channel) = (arguments.session.session, arguments.channel);
    let mut enabled = kernel_rules::enable(client.calls(), session, channel, wanted)?;
    enabled.rules.retain(|rule| named.contains(&self::named(rule)));
    let texts = enabled.rules.iter().map(kernel_rules::text);
    told("enabled", &enabled.channel, &enabled.rules, texts, json)?;
    if !json {
        let lacking = enabled.lacking.iter();
        lacking.for_each(|lacking| screen::tell_sentence(&kernel_rules::lack_text(lacking)));
    }
    Ok(())
}

/// What a rule is known by.
fn named(rule: &KernelRule) -> (KernelEventKind, String) {
    (rule.kind.clone(), rule.pattern.clone())
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
            "note: no running program has an event that matches {}; similar: {}",
            printable(pattern),
            printable(&near.join(", "))
        )),
    }
}

/// `piste disable-event`
pub(crate) fn disable_event(arguments: DisableEvent, json: bool) -> Result<(), Failure> {
    let patterns = if arguments.all { vec![] } else { arguments.patterns };
    let is_wanted = |pattern: &String| patterns.is_empty() || patterns.contains(pattern);
    let mut client = connect()?;
    let (session, channel) = (arguments.session.session, arguments.channel);
    if arguments.domain.chosen() == Domain::kernel {
        let mut reply = client
            .calls()
            .disable_kernel_event(session, channel, patterns.clone())
            .call()?;
        reply.rules.retain(|rule| is_wanted(&rule.pattern));
        let texts = reply.rules.iter().map(kernel_rules::text);
        return told("disabled", &reply.channel, &reply.rules, texts, json);
    }
    let mut reply = client
        .calls()
        .disable_event(session, channel, patterns.clone())
        .call()?;
    reply.rules.retain(|rule| is_wanted(&rule.pattern));
    let texts = reply.rules.iter().map(rule_text);
    told("disabled", &reply.channel, &reply.rules, texts, json)
}

/// Shows what was done with these rules of a channel.
fn told(
    verb: &str,
    channel: &str,
    rules: &impl Serialize,
    texts: impl Iterator<Item = String>,
    json: bool,
) -> Result<(), Failure> {
    if json {
        return show_json(&json!({ "channel": channel, "rules": rules }));
    }
    let of_channel = match channel {
        DEFAULT_CHANNEL => String::new(),
        other => format!(", in channel {}", printable(other)),
    };
    let lines: String = texts.map(|text| format!("{verb} {text}{of_channel}\n")).collect();
    show(&lines)
}

/// `shop:*, not shop:noise, level err and more severe`
pub(crate) fn rule_text(rule: &EventRule) -> String {
    let mut text = styled(STRONG, printable(&rule.pattern));
    for excluded in &rule.excluded {
        text += &format!(", not {}", printable(excluded));
    }
    if let Some(levels) = &rule.levels {
        let (most, least) = (levels.most_severe.name(), levels.least_severe.name());
        text += &match levels.most_severe {
            _ if most == least => format!(", level {least} only"),
            Level::emerg => format!(", level {least} and more severe"),
            _ => format!(", levels {most} to {least}"),
        };
    }
    if let Some(filter) = &rule.filter {
        text += &format!(", where {}", printable(filter));
    }
    text
}
