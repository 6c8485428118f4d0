// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which traces tell of the kernel, and whether they have what is needed for an answer.

use std::collections::BTreeSet;

use piste_analysis::analyses::SWITCHES;
use piste_analysis::analysis::Need;
use piste_trace::Trace;

use crate::GroundError;

/// A trace of what a kernel did.
pub fn is_of_kernel(trace: &Trace) -> bool {
    match trace.environment("domain") {
        Some(domain) => domain == "kernel",
        None => class_names(std::slice::from_ref(trace)).any(|class| class == "sched_switch"),
    }
}

/// Those of a kernel.
///
/// # Errors
/// There is none, or they are of several machines.
pub fn kernel_traces(traces: Vec<Trace>) -> Result<Vec<Trace>, GroundError> {
    let kernel: Vec<Trace> = traces.into_iter().filter(is_of_kernel).collect();
    expect_one_kernel(&kernel)?;
    Ok(kernel)
}

/// Traces of a kernel must be of one machine: a thread's number means another thread on another machine.
///
/// # Errors
/// There is none, or they are of several machines.
pub fn expect_one_kernel(kernel: &[Trace]) -> Result<(), GroundError> {
    let mut hosts: Vec<&str> = kernel
        .iter()
        .filter_map(|trace| trace.environment("hostname"))
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    if kernel.is_empty() {
        return Err(GroundError::NoKernel);
    }
    match hosts.len() {
        0 | 1 => Ok(()),
        _ => Err(GroundError::SeveralMachines {
            hosts: hosts.join(", "),
        }),
    }
}

/// An answer depends on which threads have the CPUs.
pub(crate) fn have_switches(needs: &[Need]) -> bool {
    needs.iter().any(|need| need.any_of == SWITCHES.any_of)
}

/// What interrupts threads is in the traces. Some have only the classes of events that happened.
pub(crate) fn has_interrupts(traces: &[Trace]) -> bool {
    let is_one =
        |class: &str| class == "irq_handler_entry" || class.contains("irq_vectors_") && class.ends_with("_entry");
    class_names(traces).any(is_one)
}

/// Who is woken is in the traces; and if so, whether also on which CPU waking began.
pub(crate) fn records_wakeups(traces: &[Trace]) -> Option<bool> {
    let has = |name: &str| class_names(traces).any(|class| class == name);
    let has_waking = has("sched_waking");
    (has_waking || has("sched_wakeup")).then_some(has_waking)
}

/// System calls of which the traces have only one of the two events. Traces describe the exits of a call that may come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HalfCalls {
    entries_only: BTreeSet<String>,
    exits_only: BTreeSet<String>,
}

/// They have no exits, and last until their threads end.
const ENDS: [&str; 2] = ["exit", "exit_group"];
/// A note names so many.
const NAMED_MAX: usize = 8;

impl HalfCalls {
    pub(crate) fn of(traces: &[Trace]) -> HalfCalls {
        HalfCalls::of_classes(class_names(traces))
    }

    fn of_classes<'n>(classes: impl Iterator<Item = &'n str>) -> HalfCalls {
        let (mut entries, mut exits) = (BTreeSet::new(), BTreeSet::new());
        for class in classes {
            let (compat, native) = match class.strip_prefix("compat_") {
                Some(native) => ("compat_", native),
                None => ("", class),
            };
            if let Some(call) = native.strip_prefix("syscall_entry_") {
                entries.insert(format!("{compat}{call}"));
            } else if let Some(call) = native.strip_prefix("syscall_exit_") {
                exits.insert(format!("{compat}{call}"));
            }
        }
        let ends = |call: &String| ENDS.contains(&call.strip_prefix("compat_").unwrap_or(call));
        let entries_only = entries.difference(&exits).filter(|call| !ends(call));
        HalfCalls {
            entries_only: entries_only.cloned().collect(),
            exits_only: exits.difference(&entries).cloned().collect(),
        }
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.entries_only.union(&self.exits_only).cloned().collect()
    }

    /// Sentences about what is unknown because of that.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let sides = [("entries", &self.entries_only), ("exits", &self.exits_only)];
        sides
            .into_iter()
            .filter(|(_, calls)| !calls.is_empty())
            .map(|(side, calls)| {
                let named: Vec<&str> = calls.iter().map(String::as_str).take(NAMED_MAX).collect();
                let more = match calls.len() - named.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!(
                    "this trace has only the {side} of some system calls, so how long they took is unknown: {}{more}",
                    named.join(", ")
                )
            })
    }
}

/// The names of the classes of events that the traces have.
pub fn class_names(traces: &[Trace]) -> impl Iterator<Item = &str> + Clone {
    let streams = traces.iter().flat_map(|trace| trace.schema().streams.values());
    streams.flat_map(|stream| stream.events.values().map(|class| class.name.as_str()))
}

/// Sentences about what an answer misses.
///
/// # Errors
/// There is nothing to say without it.
pub fn missing(name: &str, needs: &[Need], traces: &[Trace]) -> Result<Vec<String>, GroundError> {
    let mut notes = Vec::new();
    let unmet = needs.iter().filter(|need| !need.is_met(class_names(traces)));
    for need in unmet {
        let record = format!("`piste record {} -o DIR -- CMD`", need.option);
        let any_of = need.any_of.join(", ");
        if need.is_essential {
            return Err(GroundError::Lacking {
                name: name.to_owned(),
                what: need.what,
                any_of,
                record,
            });
        }
        notes.push(format!(
            "this trace has no {any_of}, so the results do not show {}; {record} records them",
            need.what
        ));
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_described_exit_is_half() {
        let half = |classes: &[&str]| HalfCalls::of_classes(classes.iter().copied());
        let whole = [
            "syscall_entry_read",
            "syscall_exit_read",
            "syscall_entry_exit_group",
            "sched_switch",
        ];
        assert_eq!(half(&whole), HalfCalls::default());
        let mixed = half(&[
            "syscall_entry_read",
            "compat_syscall_exit_read",
            "syscall_exit_openat",
            "syscall_entry_execve",
        ]);
        assert_eq!(
            Vec::from_iter(mixed.names()),
            ["compat_read", "execve", "openat", "read"]
        );
        assert_eq!(
            Vec::from_iter(mixed.notes()),
            [
                "this trace has only the entries of some system calls, so how long they took is unknown: execve, read",
                "this trace has only the exits of some system calls, so how long they took is unknown: compat_read, openat",
            ]
        );
    }
}
