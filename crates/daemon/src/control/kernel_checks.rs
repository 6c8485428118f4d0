// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only the kernel, or a program's file, can say about rules that are wanted.

use std::io;

use piste_kernel::probe::{self, ProbeError};
use piste_kernel::resolve::{self, NoField};
use piste_kernel::spec::{ChannelSpec, EventSource, Memory, Rule};
use piste_reason::reason;

use super::kernel_desk::Clerk;
use crate::person::Person;
use crate::session::Refusal;
use crate::session::kernel::pattern;

/// Whether the kernel can do what the rules say, about files that all of these people may read, and whether all of them may ask for it. What
/// goes wrong later, because a file changes or a module goes, is a finding of the channel.
///
/// # Errors
/// The first thing that cannot be.
pub fn check_rules(clerk: &mut Clerk, rules: &[Rule], people: [&Person; 2]) -> Result<(), Refusal> {
    let tracefs = clerk.tracefs()?;
    let catalog = &clerk.catalog()?;
    // Filters of system calls depend on who records them: `check_calls`.
    let unfiltered = |rule: &Rule| Rule {
        filter: rule.filter.clone().filter(|_| !is_of_calls(rule)),
        ..rule.clone()
    };
    for rule in rules {
        let meant = resolve::rule(&unfiltered(rule), catalog, None)?;
        let mut of_probe = Vec::new();
        for person in people {
            let _as_person = person.enter().map_err(not_entered)?;
            of_probe = probe::check(&rule.source, person.asker())
                .map_err(|error| refused_probe(place(&rule.source), error))?;
        }
        probe::try_address(&tracefs, &rule.source).map_err(|error| refused_probe(place(&rule.source), error))?;
        resolve::check_fields(rule, &meant, of_probe, catalog).map_err(|NoField { field, nearest }| {
            Refusal::NoField {
                field,
                pattern: pattern(&rule.source),
                nearest,
            }
        })?;
    }
    Ok(())
}

/// Whether the filters of system calls can be followed, of the rules that are wanted and those that the channel has. The BPF program compares
/// arguments, and tracefs only numbers and results; call stacks are recorded by tracefs.
///
/// # Errors
/// The first filter that cannot be.
pub fn check_calls(clerk: &mut Clerk, rules: &[Rule], channel: Option<&ChannelSpec>) -> Result<(), Refusal> {
    let is_wanted_anew = |known: &Rule| rules.iter().any(|rule| rule.source == known.source);
    let known = channel.map_or(&[][..], |channel| &channel.rules).iter();
    let known = known.filter(|rule| rule.enabled && !is_wanted_anew(rule));
    let calls: Vec<&Rule> = known.chain(rules).filter(|rule| is_of_calls(rule)).collect();
    if calls.iter().all(|rule| rule.filter.is_none()) {
        return Ok(());
    }
    let memory = channel.map_or(Some(Memory::default()), |channel| channel.memory);
    let has_stacks = calls.iter().any(|rule| rule.stack.is_some());
    let memory = memory.filter(|_| !has_stacks && clerk.has_program());
    let catalog = &clerk.catalog()?;
    for rule in calls {
        resolve::rule(rule, catalog, memory.as_ref())?;
    }
    Ok(())
}

fn is_of_calls(rule: &Rule) -> bool {
    matches!(rule.source, EventSource::Syscall { .. })
}

impl From<resolve::Refusal> for Refusal {
    fn from(refusal: resolve::Refusal) -> Refusal {
        match refusal {
            resolve::Refusal::NoEvent { pattern, nearest } => Refusal::NoEvent { pattern, nearest },
            resolve::Refusal::InvalidPattern(invalid) => Refusal::InvalidPattern(invalid.into()),
            resolve::Refusal::InvalidFilter {
                filter,
                position,
                reason,
            } => Refusal::InvalidFilter {
                filter,
                position,
                reason,
            },
        }
    }
}

/// pisted could not do as somebody else would.
pub fn not_entered(error: io::Error) -> Refusal {
    Refusal::Internal {
        reason: format!("cannot access files as another user: {}", reason(&error)),
    }
}

/// A probe that is refused, as the interface has it.
pub fn refused_probe(probe: String, error: ProbeError) -> Refusal {
    match error {
        ProbeError::RootOnly { what, mend } => Refusal::NoPermission { what, mend },
        error => Refusal::InvalidProbe {
            probe,
            reason: error.to_string(),
        },
    }
}

/// Where a probe is to be, as people write it.
fn place(source: &EventSource) -> String {
    match source {
        EventSource::Uprobe { binary, place, .. } => format!("{binary}:{place}"),
        EventSource::Usdt { binary, .. } => format!("{binary}:{}", pattern(source)),
        EventSource::Kprobe { place, .. } => place.clone(),
        EventSource::Tracepoint { .. } | EventSource::Syscall { .. } => pattern(source),
    }
}
