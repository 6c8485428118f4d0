// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste enable-event` and `disable-event`: the rules of a channel, of programs' events and of the kernel's.

use piste_control::Client;
use piste_control::client::programs;
use piste_control::interface::{
    Domain, EventRule, KernelEventKind, KernelRule, Level, Program, VarlinkClientInterface,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::arguments::{DisableEvent, EnableEvent};
use crate::channels::{disabled_notes, with_named};
use crate::failure::Failure;
use crate::kernel_rules;
use crate::screen::{self, STRONG, printable, show, show_json, styled};
use crate::session::connect;
use piste_patterns::matches;
use piste_patterns::nearest;

const DEFAULT_CHANNEL: &str = "default";

/// The rules of a channel that a command changed.
struct Changed {
    channel: String,
    /// For JSON.
    rules: Value,
    /// For people.
    texts: Vec<String>,
}

impl Changed {
    fn new<Rule: Serialize>(channel: String, rules: &[Rule], text: impl Fn(&Rule) -> String) -> Changed {
        Changed {
            channel,
            rules: json!(rules),
            texts: rules.iter().map(text).collect(),
        }
    }
}

/// `piste enable-event`
pub(crate) fn enable_event(arguments: EnableEvent, json: bool) -> Result<(), Failure> {
    if arguments.domain.chosen() == Domain::kernel {
        return enable_kernel_event(&arguments, json);
    }
    let patterns = if arguments.all {
        vec!["*".into()]
    } else {
        arguments.patterns
    };
    let mut client = connect()?;
    let session = arguments.session.session;
    let levels = arguments.level_only.or(arguments.level);
    let enable = |client: &mut Client, channel| {
        let mut reply = client
            .calls()
            .enable_event(
                session.clone(),
                channel,
                patterns.clone(),
                arguments.excluded.clone(),
                levels.clone(),
                arguments.filter.clone(),
            )
            .call()?;
        // The reply has all rules of the channel.
        reply.rules.retain(|rule| patterns.contains(&rule.pattern));
        Ok(Changed::new(reply.channel, &reply.rules, rule_text))
    };
    let enabled = with_named(
        &mut client,
        session.as_ref(),
        &Domain::user,
        &arguments.channels,
        enable,
    )?;
    told("enabled", &enabled, json)?;
    if !json {
        note_disabled(&mut client, session, &Domain::user, enabled)?;
        let programs = programs(client.calls())?;
        for doubt in patterns.iter().filter_map(|pattern| doubt(pattern, &programs)) {
            screen::tell_sentence(&doubt);
        }
    }
    Ok(())
}

fn enable_kernel_event(arguments: &EnableEvent, json: bool) -> Result<(), Failure> {
    let wanted = kernel_rules::of_enable_event(arguments)?;
    let named: Vec<_> = wanted.iter().map(|wanted| named(&wanted.rule)).collect();
    let mut client = connect()?;
    let session = arguments.session.session.clone();
    let mut lacking = vec![];
    let enable = |client: &mut Client, channel| {
        let mut enabled = kernel_rules::enable(client.calls(), session.clone(), channel, wanted.clone())?;
        enabled.rules.retain(|rule| named.contains(&self::named(rule)));
        lacking = enabled.lacking;
        Ok(Changed::new(enabled.channel, &enabled.rules, kernel_rules::text))
    };
    let enabled = with_named(
        &mut client,
        session.as_ref(),
        &Domain::kernel,
        &arguments.channels,
        enable,
    )?;
    told("enabled", &enabled, json)?;
    if !json {
        note_disabled(&mut client, session, &Domain::kernel, enabled)?;
        let lacking = lacking.iter();
        lacking.for_each(|lacking| screen::tell_sentence(&kernel_rules::lack_text(lacking)));
    }
    Ok(())
}

/// Says which of the channels record nothing.
fn note_disabled(
    client: &mut Client,
    session: Option<String>,
    domain: &Domain,
    changed: Vec<Changed>,
) -> Result<(), Failure> {
    let names: Vec<String> = changed.into_iter().map(|changed| changed.channel).collect();
    let notes = disabled_notes(client, session, domain, &names)?;
    notes.iter().for_each(|note| screen::tell_sentence(note));
    Ok(())
}

/// What a rule is known by.
fn named(rule: &KernelRule) -> (KernelEventKind, String) {
    (rule.kind.clone(), rule.pattern.clone())
}

/// A pattern that no running program's event matches is right when the program comes later, and a typing error when not.
pub(crate) fn doubt(pattern: &str, programs: &[Program]) -> Option<String> {
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
    let (session, domain) = (arguments.session.session, arguments.domain.chosen());
    let disable = |client: &mut Client, channel| {
        let (calls, session, patterns) = (client.calls(), session.clone(), patterns.clone());
        Ok(match domain {
            Domain::user => {
                let mut reply = calls.disable_event(session, channel, patterns).call()?;
                reply.rules.retain(|rule| is_wanted(&rule.pattern));
                Changed::new(reply.channel, &reply.rules, rule_text)
            }
            Domain::kernel => {
                let mut reply = calls.disable_kernel_event(session, channel, patterns).call()?;
                reply.rules.retain(|rule| is_wanted(&rule.pattern));
                Changed::new(reply.channel, &reply.rules, kernel_rules::text)
            }
        })
    };
    let disabled = with_named(&mut client, session.as_ref(), &domain, &arguments.channels, disable)?;
    told("disabled", &disabled, json)
}

/// Shows what was done with rules of channels.
fn told(verb: &str, changed: &[Changed], json: bool) -> Result<(), Failure> {
    if json {
        let of_channel = |changed: &Changed| json!({ "channel": changed.channel, "rules": changed.rules });
        return match changed {
            [one] => show_json(&of_channel(one)),
            several => show_json(&json!({ "channels": several.iter().map(of_channel).collect::<Vec<_>>() })),
        };
    }
    let mut lines = String::new();
    for Changed { channel, texts, .. } in changed {
        let of_channel = match &**channel {
            DEFAULT_CHANNEL => String::new(),
            other => format!(", in channel {}", printable(other)),
        };
        lines.extend(texts.iter().map(|text| format!("{verb} {text}{of_channel}\n")));
    }
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
