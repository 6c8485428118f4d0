// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each event of a channel is to do: the rules, put together.

use std::collections::BTreeMap;

use super::{Selection, numbers};
use crate::filter::{self, Translation, Words};
use crate::format::EventFormat;
use crate::probe::ProbeEvent;
use crate::resolve::{self, ResolvedEvent};
use crate::spec::{CallPart, Rule};
use crate::turn_off::EventName;
use piste_filter::FilterError;

/// What is to be recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The events to enable.
    pub(super) events: BTreeMap<EventName, EventPlan>,
    /// Whether the program's stack is recorded. The kernel does it for all events of an instance or for none.
    pub(super) user_stack: bool,
}

/// What is to be recorded of an event. Filters are in the kernel's words; `None` is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EventPlan {
    pub(super) filter: Option<String>,
    /// For which of its records the kernel's stack is recorded.
    pub(super) stack: Option<Option<String>>,
}

/// What one rule wants of an event.
struct Wish {
    filter: Option<String>,
    is_stack_wanted: bool,
}

/// Bytes of `stacktrace if `, which the kernel counts with the filter.
const TRIGGER_BYTES: usize = 14;

impl Plan {
    /// The plan of a channel. Rules that cannot be followed are findings.
    pub(super) fn of(selection: &Selection, findings: &mut Vec<String>) -> Plan {
        let mut wishes: BTreeMap<EventName, Vec<Wish>> = BTreeMap::new();
        let mut user_stack = false;
        for (index, rule) in selection
            .channel
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.enabled)
        {
            match wanted(selection, index, rule, findings) {
                Ok(events) => {
                    let stack = rule.stack.as_ref();
                    user_stack |= stack.is_some_and(|stack| stack.user);
                    let is_stack_wanted = stack.is_some_and(|stack| stack.kernel);
                    for (name, filter) in events {
                        wishes.entry(name).or_default().push(Wish {
                            filter,
                            is_stack_wanted,
                        });
                    }
                }
                Err(refusal) => findings.push(refusal.to_string()),
            }
        }
        let events = wishes
            .into_iter()
            .map(|(name, wishes)| {
                let plan = together(&name, &wishes, findings);
                (name, plan)
            })
            .collect();
        Plan { events, user_stack }
    }
}

/// The events of a rule and their filters.
fn wanted(
    selection: &Selection,
    index: usize,
    rule: &Rule,
    findings: &mut Vec<String>,
) -> Result<Vec<(EventName, Option<String>)>, resolve::Refusal> {
    let resolved = resolve::rule(rule, selection.catalog, None)?;
    let mut events = Vec::new();
    let (mut called, mut parts) = (Vec::new(), CallPart::Both);
    for event in resolved {
        match event {
            ResolvedEvent::Tracepoint { system, name, filter } => events.push(((system, name), filter)),
            ResolvedEvent::Syscall {
                part, table, number, ..
            } => {
                // They are all of one rule.
                parts = part;
                called.push((table, number));
            }
        }
    }
    if !called.is_empty() {
        let filters = resolve::syscall_filters(rule, selection.catalog)?.unwrap_or_default();
        let raw = |name: &str| ("raw_syscalls".to_owned(), name.to_owned());
        let numbers = numbers::Numbers::of(&called, selection.catalog.architecture());
        if parts.has_entry() {
            events.push((raw("sys_enter"), both(numbers.filter_of_entries(), filters.entry)));
        }
        if parts.has_exit() {
            events.push((raw("sys_exit"), both(numbers.filter_of_exits(), filters.exit)));
        }
    }
    let is_meant = |probe: &&ProbeEvent| probe.rule == Some(index) && probe.is_wanted;
    for probe in selection.probes.iter().filter(is_meant) {
        match probe_filter(selection, rule, probe) {
            Ok(filter) => events.push(((probe.group.clone(), probe.event.clone()), filter)),
            Err(reason) => findings.push(format!("{} is not recorded: {reason}", probe.trace_name)),
        }
    }
    Ok(events)
}

fn probe_filter(selection: &Selection, rule: &Rule, probe: &ProbeEvent) -> Result<Option<String>, String> {
    let filter = resolve::parsed(rule).map_err(|refusal| refusal.to_string())?;
    let Some(filter) = filter else { return Ok(None) };
    let format = selection.catalog.read_format(&probe.group, &probe.event);
    let format = EventFormat {
        name: probe.trace_name.clone(),
        ..format.map_err(|error| error.to_string())?
    };
    let translation = filter::translate(&filter, &format, Some(&probe.trace_name));
    let refused = |error: FilterError| format!("the filter {:?} is invalid: {error}", filter.to_string());
    let Translation { words, missing } = translation.map_err(refused)?;
    if let Some(missing) = missing.first() {
        return Err(refused(filter::no_such_field(missing, &format)));
    }
    match words {
        Words::Everything => Ok(None),
        Words::Some(words) => Ok(Some(words)),
        Words::Nothing => Err(refused(filter::never_true(&filter, &format))),
    }
}

/// The filter that is fulfilled when both are.
fn both(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("({one}) && ({other})")),
        (one, other) => one.or(other),
    }
}

/// What several rules want of one event: what one of them wants.
fn together(name: &EventName, wishes: &[Wish], findings: &mut Vec<String>) -> EventPlan {
    let event = || format!("{}:{}", name.0, name.1);
    let filter = match any(wishes.iter()) {
        Filter::Fits(filter) => filter,
        Filter::TooLong => {
            findings.push(format!(
                "{}: the combined filters of its rules are longer than the kernel allows; all its events are recorded",
                event()
            ));
            None
        }
    };
    let with_stack: Vec<&Wish> = wishes.iter().filter(|wish| wish.is_stack_wanted).collect();
    let stack = match any(with_stack.iter().copied()) {
        _ if with_stack.is_empty() => None,
        Filter::Fits(Some(filter)) if filter.len() + TRIGGER_BYTES > filter::KERNEL_BYTES_MAX => {
            findings.push(format!(
                "{}: its filter is too long to combine with stacks; no stacks are recorded",
                event()
            ));
            None
        }
        Filter::Fits(filter) => Some(filter),
        Filter::TooLong => {
            findings.push(format!(
                "{}: the filters of its rules are too long to combine with stacks; no stacks are recorded",
                event()
            ));
            None
        }
    };
    EventPlan { filter, stack }
}

enum Filter {
    Fits(Option<String>),
    TooLong,
}

fn any<'w>(wishes: impl Iterator<Item = &'w Wish>) -> Filter {
    let mut filters: Vec<String> = Vec::new();
    for wish in wishes {
        match &wish.filter {
            None => return Filter::Fits(None),
            Some(filter) if filters.contains(filter) => (),
            Some(filter) => filters.push(filter.clone()),
        }
    }
    filter::any(&filters).map_or(Filter::TooLong, |filter| Filter::Fits(Some(filter)))
}
