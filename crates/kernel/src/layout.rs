// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of events and fields in the trace.
//!
//! Readers of Linux traces know events by names, and fields by names and units, that are older than some of the kernel's own. Where the
//! two differ is data: `data/names.tsv` and `data/fields.tsv`. All else has the kernel's names, so an event that nobody has heard of yet
//! is recorded as well.

use std::collections::{HashMap, HashSet};

/// Names of events and fields in the trace.
#[derive(Clone, Debug)]
pub struct Layout {
    names: HashMap<(&'static str, &'static str), &'static str>,
    fields: HashMap<(&'static str, &'static str), Vec<FieldRule>>,
    /// Names in the trace that several events of the kernel would have.
    shared: HashSet<String>,
    /// Events of the group `syscalls` are the system calls.
    has_calls: bool,
}

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// Its name in the kernel's record.
    pub field: &'static str,
    /// Its name in the trace.
    pub trace_name: &'static str,
    /// What is done to its value.
    pub change: Change,
}

/// What is done to a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// Nothing, and its values have no names.
    Plain,
    /// 100 is taken away: real-time threads are below zero.
    Priority,
    /// Bits of a thread's state that readers know; the value as it was is beside it.
    TaskState,
    /// Letters of a block request, as bits; the letters are beside them.
    Request,
    /// A thread; the process that it belongs to is beside it, under the kernel's name of the field.
    Thread,
}

const NAMES: &str = include_str!("../data/names.tsv");
const FIELDS: &str = include_str!("../data/fields.tsv");

/// Stands for every event of a group, and in a name for the kernel's name of the event.
const ANY: &str = "*";
/// The group that has two events for each system call.
pub(crate) const CALLS: &str = "syscalls";

impl Layout {
    /// The layout for a kernel with these events, given by group and name. Two that would have the same name in the trace are told apart
    /// by their groups: `GROUP:NAME`.
    pub fn new<'a>(events: impl IntoIterator<Item = (&'a str, &'a str)>) -> Layout {
        let mut layout = Layout {
            names: columns(NAMES)
                .map(|[system, event, name]| ((system, event), name))
                .collect(),
            fields: HashMap::new(),
            shared: HashSet::new(),
            has_calls: false,
        };
        for [system, event, field, trace_name, change] in columns(FIELDS) {
            layout.fields.entry((system, event)).or_default().push(FieldRule {
                field,
                trace_name,
                change: Change::of_word(change),
            });
        }
        let mut taken = HashSet::new();
        for (system, event) in events {
            let name = layout.bare_name(system, event);
            if let Some(name) = taken.replace(name) {
                layout.shared.insert(name);
            }
        }
        layout
    }

    /// The same, where system calls were recorded as events of the group `syscalls`, and not as those of `raw_syscalls`: `sys_enter_read`
    /// is what readers know as `syscall_entry_read`.
    pub fn with_calls(self) -> Layout {
        Layout {
            has_calls: true,
            ..self
        }
    }

    /// The name in the trace of a kernel's event.
    pub fn event_name(&self, system: &str, event: &str) -> String {
        let name = self.bare_name(system, event);
        if self.shared.contains(&name) {
            return format!("{system}:{name}");
        }
        name
    }

    /// What becomes of a field of a kernel's event; `None` when it is written as it is, under its own name. Fields of all events
    /// (`common_...`) are written only where there is a rule.
    pub fn field(&self, system: &str, event: &str, field: &str) -> Option<FieldRule> {
        [event, ANY].into_iter().find_map(|event| {
            let rules = self.fields.get(&(system, event))?;
            rules.iter().find(|rule| rule.field == field).copied()
        })
    }

    fn bare_name(&self, system: &str, event: &str) -> String {
        if self.has_calls && system == CALLS {
            let call = [("sys_enter_", "syscall_entry_"), ("sys_exit_", "syscall_exit_")];
            let mut call = call
                .iter()
                .filter_map(|(kernel, trace)| Some((trace, event.strip_prefix(kernel)?)));
            if let Some((side, name)) = call.next() {
                return format!("{side}{name}");
            }
        }
        let own = self.names.get(&(system, event)).copied();
        let name = own.or_else(|| self.names.get(&(system, ANY)).copied());
        name.map_or_else(|| event.to_owned(), |name| name.replace(ANY, event))
    }
}

impl Change {
    fn of_word(word: &str) -> Change {
        match word {
            "same" => Change::Same,
            "plain" => Change::Plain,
            "priority" => Change::Priority,
            "task_state" => Change::TaskState,
            "request" => Change::Request,
            "thread" => Change::Thread,
            _ => panic!("fields.tsv: {word} is no change"),
        }
    }
}

/// The lines of a table that is part of this program.
fn columns<const COUNT: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; COUNT]> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        columns
            .try_into()
            .unwrap_or_else(|_| panic!("{COUNT} columns are wanted: {line}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_readers_know_replace_the_kernels() {
        let layout = Layout::new([]);
        for (system, event, name) in [
            ("sched", "sched_switch", "sched_switch"),
            ("irq", "softirq_entry", "irq_softirq_entry"),
            ("kmem", "mm_page_alloc", "kmem_mm_page_alloc"),
            ("net", "netif_receive_skb", "net_if_receive_skb"),
            ("timer", "hrtimer_expire_entry", "timer_hrtimer_expire_entry"),
            ("vmscan", "mm_shrink_slab_end", "mm_vmscan_shrink_slab_end"),
            ("irq_vectors", "reschedule_entry", "x86_irq_vectors_reschedule_entry"),
            ("exceptions", "page_fault_user", "x86_exceptions_page_fault_user"),
            ("mine", "new_event", "new_event"),
        ] {
            assert_eq!(layout.event_name(system, event), name);
        }
    }

    #[test]
    fn events_of_calls_have_the_names_of_calls_where_they_are_the_calls() {
        let layout = Layout::new([]);
        assert_eq!(layout.event_name("syscalls", "sys_enter_read"), "sys_enter_read");
        let layout = layout.with_calls();
        assert_eq!(layout.event_name("syscalls", "sys_enter_read"), "syscall_entry_read");
        assert_eq!(layout.event_name("syscalls", "sys_exit_read"), "syscall_exit_read");
        assert_eq!(layout.event_name("mine", "sys_exit_read"), "sys_exit_read");
    }

    #[test]
    fn events_of_the_same_name_are_told_apart_by_their_groups() {
        let layout = Layout::new([("a", "begin"), ("b", "begin"), ("b", "end")]);
        assert_eq!(layout.event_name("a", "begin"), "a:begin");
        assert_eq!(layout.event_name("b", "begin"), "b:begin");
        assert_eq!(layout.event_name("b", "end"), "end");
    }

    #[test]
    fn an_events_own_line_comes_before_that_of_its_group() {
        let layout = Layout::new([]);
        let rule = layout.field("sched", "sched_switch", "prev_prio");
        assert_eq!(rule.map(|rule| rule.change), Some(Change::Priority));
        let rule = layout.field("sched", "sched_wakeup", "pid").expect("a rule");
        assert_eq!((rule.trace_name, rule.change), ("tid", Change::Same));
        assert_eq!(layout.field("signal", "signal_generate", "pid"), None);
        assert_eq!(layout.field("sched", "sched_wakeup", "common_pid"), None);
    }
}
