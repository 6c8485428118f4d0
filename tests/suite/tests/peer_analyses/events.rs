// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a trace, from which both may be counted again.

use std::collections::BTreeMap;

use piste_support::Workplace;
use piste_support::report::number;
use serde_json::Value;

/// An event of the kernel or of the state dump.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) ns: i64,
    pub(crate) cpu: i64,
    /// Whose it is, as its own context says; absent in the state dump.
    pub(crate) thread: Option<i64>,
    /// The process of that thread.
    pub(crate) process: Option<i64>,
    pub(crate) name: String,
    pub(crate) fields: Vec<(&'static str, Value)>,
}

/// The fields that matter.
const FIELDS: [&str; 19] = [
    "clone_flags",
    "cpu_id",
    "dev",
    "diskname",
    "irq",
    "len",
    "name",
    "next_comm",
    "next_tid",
    "nr_sector",
    "order",
    "pid",
    "prev_state",
    "prev_tid",
    "ret",
    "rwbs_raw",
    "sector",
    "tid",
    "vec",
];

impl Event {
    fn of(line: &str) -> Event {
        let mut event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let mut payload = event["payload"].take();
        let fields = FIELDS
            .iter()
            .filter_map(|name| Some((*name, payload.get_mut(name)?.take())));
        Event {
            ns: number(&event["time_ns"]),
            cpu: event["cpu"].as_i64().expect("a CPU"),
            thread: event["event_context"]["tid"].as_i64(),
            process: event["event_context"]["pid"].as_i64(),
            name: event["name"].as_str().expect("a name").to_owned(),
            fields: fields.collect(),
        }
    }

    fn field(&self, name: &str) -> &Value {
        let field = self.fields.iter().find(|(own, _)| *own == name);
        let (_, value) = field.unwrap_or_else(|| panic!("{} has no {name}", self.name));
        value
    }

    /// A field that is a number.
    ///
    /// # Panics
    /// It is none, or there is no such field.
    pub(crate) fn number(&self, name: &str) -> i64 {
        let field = self.field(name);
        // A request without a place has the highest sector that there is, which is a text, as all large numbers are.
        let of_text = || Some(field.as_str()?.parse::<i128>().ok()? as i64);
        let number = field.as_i64().or_else(of_text);
        number.unwrap_or_else(|| panic!("{name} of {} is {field}", self.name))
    }

    /// A field that is text.
    ///
    /// # Panics
    /// It is none, or there is no such field.
    pub(crate) fn text(&self, name: &str) -> &str {
        let field = self.field(name);
        field
            .as_str()
            .unwrap_or_else(|| panic!("{name} of {} is {field}", self.name))
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// The system call that begins here.
    pub(crate) fn call_entry(&self) -> Option<&str> {
        self.name.strip_prefix("syscall_entry_")
    }

    pub(crate) fn is_call_exit(&self) -> bool {
        self.name.starts_with("syscall_exit_")
    }

    /// The thread to which its CPU turns.
    pub(crate) fn next(&self) -> Option<i64> {
        self.is("sched_switch").then(|| self.number("next_tid"))
    }
}

/// All of them, in the order of time.
pub(crate) fn read(place: &Workplace, trace: &str) -> Vec<Event> {
    let text = place.piste_succeeds(&["view", trace, "--format", "ndjson"]);
    text.lines().map(Event::of).collect()
}

/// Whose an event is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Whose {
    /// The thread's that the event itself names.
    Context,
    /// The thread's to which the CPU turned last, as far as a switch says; nobody's when that is the idle thread. The CPU is the one that a field of
    /// the event names `cpu_id`, if it has one: an argument of `membarrier`.
    LastSwitch,
}

/// The events in their order, each with the thread whose it is.
pub(crate) fn attributed(events: &[Event], whose: Whose) -> impl Iterator<Item = (&Event, Option<i64>)> {
    let mut current = BTreeMap::new();
    events.iter().map(move |event| {
        if let Some(next) = event.next() {
            current.insert(event.cpu, next);
        }
        let argument = event.fields.iter().find(|(name, _)| *name == "cpu_id");
        let cpu = argument.map_or(Some(event.cpu), |(_, cpu)| cpu.as_i64());
        let last = cpu
            .and_then(|cpu| current.get(&cpu).copied())
            .filter(|thread| *thread != 0);
        let thread = if whose == Whose::Context { event.thread } else { last };
        (event, thread)
    })
}
