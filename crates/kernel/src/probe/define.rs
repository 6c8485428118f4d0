// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracefs events that stand for a channel's probes.
//!
//! Each is defined once and has one place. A name that is defined again would be one event with two places, and removing such an
//! event is something that kernels have got wrong; what is in the kernel's list is therefore never written again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::asker::Asker;
use super::error::ProbeError;
use super::listed::List;
use super::plan::{self, Definition, Plan, Target, plan};
use super::{names, remove};
use crate::spec::Rule;
use crate::tracefs::Tracefs;

/// The probes of a channel, as the kernel has them.
#[derive(Debug)]
pub struct Probes {
    group: String,
    events: Vec<ProbeEvent>,
}

/// What the enabled rules of a channel take, as far as files of programs say it.
#[derive(Debug, Default)]
pub struct Plans(Vec<(usize, Result<Plan, ProbeError>)>);

impl Plans {
    /// Reads those files: to be done as `asker`, who may learn what is in them. Keeps them open, and writes nothing.
    pub fn of(rules: &[Rule], asker: Asker) -> Plans {
        let enabled = rules.iter().enumerate().filter(|(_, rule)| rule.enabled);
        Plans(
            enabled
                .map(|(index, rule)| (index, plan(&rule.source, asker)))
                .collect(),
        )
    }
}

/// One tracefs event: one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeEvent {
    /// Its group in tracefs; the same for all of a channel.
    pub group: String,
    /// Its name in tracefs; never that of another one.
    pub event: String,
    /// Its number in tracefs: what records in the ring carry.
    pub id: u16,
    /// The number of the event that gives this one its class in the trace: the lowest of those that have the same name and fields.
    /// Convert its records as if they had this number. A restarted consumer finds the same, since tracefs events and their numbers
    /// stay until [`Probes::remove`].
    pub class_id: u16,
    /// Its name in the trace; other events may have it too.
    pub trace_name: String,
    /// Index of the rule that it is from, as far as its name tells.
    pub rule: Option<usize>,
    /// Whether that rule asks for it. One that does not was changed or disabled, and records of then may be in the rings.
    pub is_wanted: bool,
}

impl ProbeEvent {
    /// Its folder, from that of tracefs or one of its instances.
    pub fn folder(&self) -> PathBuf {
        Path::new("events").join(&self.group).join(&self.event)
    }

    /// With the rule that has its name. A rule whose places are lost means what was defined when they were there: programs are replaced
    /// and removed while they run.
    fn of_name(self, rules: &[Rule], is_lost: impl Fn(usize) -> bool) -> ProbeEvent {
        let named = rules.iter().enumerate().filter_map(|(index, rule)| {
            let trace_name = plan::trace_name(&rule.source)?;
            let is_its = names::with_trace_name(&trace_name) == names::of_trace_name(&self.event);
            is_its.then_some((is_lost(index), index, trace_name))
        });
        match named.min_by_key(|(is_lost, ..)| !is_lost) {
            None => self,
            Some((is_wanted, index, trace_name)) => ProbeEvent {
                trace_name,
                rule: Some(index),
                is_wanted,
                ..self
            },
        }
    }

    /// What tracefs tells of an event: its class is its own, no rule is known, and its name is nearly that in the trace.
    fn read(tracefs: &Tracefs, group: &str, event: &str) -> Result<ProbeEvent, String> {
        let text = tracefs
            .read(format!("events/{group}/{event}/id"))
            .map_err(|error| error.to_string())?;
        let id = text
            .trim()
            .parse()
            .map_err(|_| format!("{:?} is not an event number", text.trim()))?;
        Ok(ProbeEvent {
            group: group.into(),
            event: event.into(),
            id,
            class_id: id,
            trace_name: names::trace_name(event).into(),
            rule: None,
            is_wanted: false,
        })
    }
}

/// The names of a group's events.
fn listed(tracefs: &Tracefs, group: &str) -> io::Result<BTreeSet<String>> {
    let mut events = BTreeSet::new();
    for list in List::ALL {
        let of_group = list.read(tracefs)?.into_iter().filter(|(of, _)| of == group);
        events.extend(of_group.map(|(_, event)| event));
    }
    Ok(events)
}

/// Joins events whose name in the trace and fields are the same. Only what is in tracefs counts, not the rules, so that an event keeps
/// its class when its rule goes.
fn give_classes(tracefs: &Tracefs, events: &mut [ProbeEvent]) {
    let mut classes: HashMap<(String, String), (u16, Option<String>)> = HashMap::new();
    let mut keys = Vec::with_capacity(events.len());
    for event in events.iter() {
        let format = tracefs.read(event.folder().join("format")).unwrap_or_default();
        let fields: String = format.lines().filter(|line| line.contains("field:")).collect();
        let key = (names::of_trace_name(&event.event).to_owned(), fields);
        let (class_id, trace_name) = classes.entry(key.clone()).or_insert((event.id, None));
        *class_id = event.id.min(*class_id);
        if event.rule.is_some() {
            *trace_name = Some(event.trace_name.clone());
        }
        keys.push(key);
    }
    for (event, key) in events.iter_mut().zip(keys) {
        let (class_id, trace_name) = &classes[&key];
        event.class_id = *class_id;
        if let Some(name) = trace_name {
            event.trace_name.clone_from(name);
        }
    }
}

/// Whether what is missing is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Told,
}

impl Probes {
    /// Makes the tracefs events that `rules` ask for and that a channel does not have yet; disabled in every instance. Rules of other
    /// kinds, and disabled ones, are passed over. Returns findings beside: what could not be made and why.
    ///
    /// An event stays when its rule goes, so that its number never means another one in the same trace.
    pub fn define(
        tracefs: &Tracefs,
        owner_id: &str,
        session: u64,
        channel: &str,
        rules: &[Rule],
        plans: Plans,
    ) -> (Probes, Vec<String>) {
        let group = names::group(owner_id, session, channel);
        Probes::new(tracefs, group, rules, plans, Missing::Made)
    }

    /// The tracefs events that the channel has already, matched with `rules`; makes none. For a consumer that goes on where another
    /// one ended.
    pub fn open(
        tracefs: &Tracefs,
        owner_id: &str,
        session: u64,
        channel: &str,
        rules: &[Rule],
        plans: Plans,
    ) -> (Probes, Vec<String>) {
        let group = names::group(owner_id, session, channel);
        Probes::new(tracefs, group, rules, plans, Missing::Told)
    }

    fn new(tracefs: &Tracefs, group: String, rules: &[Rule], plans: Plans, missing: Missing) -> (Probes, Vec<String>) {
        let mut findings = Vec::new();
        let mut events = Vec::new();
        let listed = match listed(tracefs, &group) {
            Ok(listed) => listed,
            Err(error) => {
                // Without the list nothing may be defined: it could be there.
                findings.push(format!("cannot set probes: {error}"));
                return (Probes { group, events }, findings);
            }
        };
        let mut wanted = HashSet::new();
        let mut lost = Vec::new();
        for (index, plan) in plans.0 {
            let plan = match plan {
                Ok(plan) => plan,
                Err(error) => {
                    lost.push((index, error));
                    continue;
                }
            };
            findings.extend(plan.findings);
            for definition in plan.definitions {
                let name = &definition.trace_name;
                let event = definition.event_name();
                if !wanted.insert(event.clone()) {
                    findings.push(format!("{name} was requested twice; it is recorded once"));
                    continue;
                }
                let made = match missing {
                    _ if listed.contains(&event) => Ok(()),
                    Missing::Made => make(tracefs, &group, &event, &definition),
                    Missing::Told => Err("the kernel no longer has it".into()),
                };
                match made.and_then(|()| ProbeEvent::read(tracefs, &group, &event)) {
                    Err(reason) => findings.push(format!("probe {name}: {reason}")),
                    Ok(event) => events.push(ProbeEvent {
                        trace_name: definition.trace_name,
                        rule: Some(index),
                        is_wanted: true,
                        ..event
                    }),
                }
            }
        }
        let is_lost = |index: usize| lost.iter().any(|(lost, _)| *lost == index);
        for event in listed.iter().filter(|event| !wanted.contains(*event)) {
            if let Ok(event) = ProbeEvent::read(tracefs, &group, event) {
                events.push(event.of_name(rules, is_lost));
            }
        }
        for (index, error) in &lost {
            let stays = events.iter().any(|event| event.rule == Some(*index) && event.is_wanted);
            let and_now = if stays {
                "; the previous probe stays in place"
            } else {
                ""
            };
            findings.push(format!("{error}{and_now}"));
        }
        give_classes(tracefs, &mut events);
        (Probes { group, events }, findings)
    }

    /// All of them, those without a rule too.
    pub fn events(&self) -> &[ProbeEvent] {
        &self.events
    }

    /// Disables the events everywhere and removes them from tracefs. Returns findings: what is still there and why.
    ///
    /// Call it when the channel's instance is gone or its rings are read: the kernel empties the rings of each instance in which a
    /// removed event was ever enabled.
    pub fn remove(self, tracefs: &Tracefs) -> Vec<String> {
        remove::groups(tracefs, |group| group == self.group)
    }
}

impl Definition {
    /// As the kernel reads it.
    fn command(&self, group: &str, event: &str) -> String {
        let place = match &self.target {
            Target::Kernel { place } => place.clone(),
            // The very file whose places are known, and no other that took its path; a path may also have blanks, which end a word for
            // the kernel.
            Target::File {
                file,
                offset,
                semaphore,
                ..
            } => {
                let file = file.as_raw_fd();
                let semaphore = semaphore.map_or(String::new(), |offset| format!("({offset:#x})"));
                format!("/proc/self/fd/{file}:{offset:#x}{semaphore}")
            }
        };
        let mut command = format!("{}:{group}/{event} {place}", self.kind());
        for argument in &self.arguments {
            command.push(' ');
            command.push_str(argument);
        }
        command
    }

    fn list(&self) -> List {
        match self.target {
            Target::File { .. } => List::Programs,
            Target::Kernel { .. } => List::Kernel,
        }
    }
}

/// Longest command, in bytes: what the kernel reads of one line.
const COMMAND_BYTES_MAX: usize = 4093;

fn make(tracefs: &Tracefs, group: &str, event: &str, definition: &Definition) -> Result<(), String> {
    let command = definition.command(group, event);
    if command.len() > COMMAND_BYTES_MAX {
        let bytes = command.len();
        return Err(format!(
            "its definition has {bytes} bytes; the kernel reads at most {COMMAND_BYTES_MAX}; record fewer arguments"
        ));
    }
    definition
        .list()
        .add(tracefs, &command)
        .map_err(|error| match complaint(tracefs, event) {
            Some(reason) => format!("the kernel refuses it: {reason} ({command})"),
            None => error.to_string(),
        })
}

/// The last thing that the kernel complained of, if it was about this event.
pub(super) fn complaint(tracefs: &Tracefs, event: &str) -> Option<String> {
    // [  123.4] trace_uprobe: error: Failed to parse fetch arg
    //   Command: p:group/event ...
    let log = tracefs.read("error_log").ok()?;
    let (before, _) = log.rsplit_once(event)?;
    let complaint = before.lines().rev().find_map(|line| line.split_once("error: "))?.1;
    Some(complaint.trim().to_owned())
}
