// SPDX-License-Identifier: MIT OR Apache-2.0
//! A channel's rules, made true in its tracefs instance.
//!
//! ```text
//!   rules --plan-->  per event: filter, stack        what the instance has now (current)
//!                        \________________  ________________/
//!                                         \/
//!                              the writes between the two
//! ```
//!
//! What is there now is asked of the kernel each time, so a new consumer needs no memory of an old one. While the instance is on, nothing
//! that both the old and the new rules record is missed: an event that goes on stays enabled, and its filter is exchanged by one write. A new
//! event gets its filter before it is enabled.

mod current;
mod numbers;
mod plan;

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Catalog;
use crate::instance::Instance;
use crate::probe::ProbeEvent;
use crate::spec::{ChannelSpec, Tracked};
use crate::tracked;
use crate::turn_off::{EventName, turn_off};

use plan::{EventPlan, Plan};

/// What a channel is to record.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The events there are.
    pub catalog: &'a Catalog,
    /// The channel, with its rules.
    pub channel: &'a ChannelSpec,
    /// The events of its probes.
    pub probes: &'a [ProbeEvent],
    /// The threads it is about.
    pub tracked: &'a Tracked,
}

/// Makes `instance` record what `selection` says, and nothing else; at once, if it is on. Returns findings: what the kernel refused
/// and why, each a sentence.
pub fn apply(instance: &Instance, selection: &Selection) -> Vec<String> {
    let mut findings = tracked::apply(instance, selection.tracked);
    let Plan { events, user_stack } = Plan::of(selection, &mut findings);
    selection.catalog.learn_formats(events.keys());
    let current = match current::read(instance) {
        Ok(current) => current,
        Err(error) => {
            findings.push(format!("cannot read which events are recorded: {error}"));
            return findings;
        }
    };
    let mut writer = Writer {
        instance,
        findings: &mut findings,
    };
    writer.disable(current.iter().filter(|(name, _)| !events.contains_key(*name)).collect());
    writer.set_user_stack(user_stack);
    let mut new = BTreeSet::new();
    for (name, plan) in &events {
        let old = current.get(name);
        if writer.set_filter(name, old, plan) && old.is_none() {
            new.insert(name);
        }
    }
    writer.enable(&new, selection.catalog);
    for (name, plan) in &events {
        writer.set_stack(name, current.get(name), plan);
    }
    findings
}

/// Writes to the files of an instance's events; what the kernel refuses is a finding.
struct Writer<'a> {
    instance: &'a Instance,
    findings: &'a mut Vec<String>,
}

impl Writer<'_> {
    fn disable(&mut self, old: Vec<(&EventName, &EventPlan)>) {
        for (name, _) in old.iter().filter(|(_, plan)| plan.stack.is_some()) {
            self.write(name, "trigger", "!stacktrace");
        }
        let findings = turn_off(self.instance, old.iter().map(|(name, _)| *name));
        self.findings.extend(findings);
        for (name, _) in old.iter().filter(|(_, plan)| plan.filter.is_some()) {
            self.write(name, "filter", "0");
        }
    }

    /// Whether the event can be enabled: it has its filter.
    fn set_filter(&mut self, name: &EventName, old: Option<&EventPlan>, plan: &EventPlan) -> bool {
        if old.and_then(|old| old.filter.as_ref()) == plan.filter.as_ref() {
            return true;
        }
        self.write(name, "filter", plan.filter.as_deref().unwrap_or("0"))
    }

    /// Enables events; those of a group by one write when it is all of them.
    fn enable(&mut self, new: &BTreeSet<&EventName>, catalog: &Catalog) {
        let mut groups: BTreeMap<&str, Vec<&EventName>> = BTreeMap::new();
        for name in new {
            groups.entry(&name.0).or_default().push(name);
        }
        for (group, names) in groups {
            let is_whole =
                names.len() > 1 && catalog.names().filter(|(system, _)| *system == group).count() == names.len();
            if is_whole && self.instance.write(format!("events/{group}/enable"), "1").is_ok() {
                continue;
            }
            for name in names {
                self.write(name, "enable", "1");
            }
        }
    }

    /// The kernel records a stack behind each event whose trigger asks for it; also when the event's own filter discards it, so the
    /// trigger has the filter too. A trigger on an event that is not enabled records stacks of nothing: it comes last.
    fn set_stack(&mut self, name: &EventName, old: Option<&EventPlan>, plan: &EventPlan) {
        let old = old.and_then(|old| old.stack.as_ref());
        if old == plan.stack.as_ref() {
            return;
        }
        if old.is_some() {
            self.write(name, "trigger", "!stacktrace");
        }
        match &plan.stack {
            None => (),
            Some(None) => drop(self.write(name, "trigger", "stacktrace")),
            Some(Some(filter)) => drop(self.write(name, "trigger", &format!("stacktrace if {filter}"))),
        }
    }

    fn set_user_stack(&mut self, is_on: bool) {
        const FILE: &str = "options/userstacktrace";
        match self.instance.has(FILE) {
            true => {
                let is_so = self.instance.read(FILE).is_ok_and(|text| (text.trim() == "1") == is_on);
                if !is_so && let Err(error) = self.instance.write(FILE, if is_on { "1" } else { "0" }) {
                    self.findings
                        .push(format!("stacks of programs are not recorded: {error}"));
                }
            }
            false if is_on => {
                let finding =
                    "stacks of programs are not recorded: the kernel was built without CONFIG_USER_STACKTRACE_SUPPORT";
                self.findings.push(finding.to_owned());
            }
            false => (),
        }
    }

    fn write(&mut self, (system, name): &EventName, file: &str, text: &str) -> bool {
        // Opening a list of triggers to replace it removes them all.
        let written = self.instance.append(format!("events/{system}/{name}/{file}"), text);
        if let Err(error) = &written {
            self.findings.push(format!("{system}:{name}: {error}"));
        }
        written.is_ok()
    }
}
