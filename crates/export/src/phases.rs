// SPDX-License-Identifier: MIT OR Apache-2.0
//! What begins and ends something: events come in pairs by their names, and what they enclose nests on each track.
//!
//! | begins | ends |
//! |---|---|
//! | `syscall_entry_read` | `syscall_exit_read` |
//! | `shop:order_begin`, `work:begin` | `shop:order_end`, `work:end` |
//! | `..._entry`, `..._enter` | `..._exit` |
//! | `..._start` | `..._end`, `..._stop` |
//!
//! An event is one of a pair only if the traces have events of the other name too.

use std::collections::{HashMap, HashSet};
use std::ptr;

use piste_ctf::read::plan::EventPlan;
use piste_trace::Trace;

use crate::places::ByPlace;

const PAIRS: [(&str, &str); 5] = [
    ("begin", "end"),
    ("entry", "exit"),
    ("enter", "exit"),
    ("start", "end"),
    ("start", "stop"),
];
const CALL: (&str, &str) = ("syscall_entry_", "syscall_exit_");

/// What an event does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Begins what is called so.
    Begin(String),
    /// Ends the last of that name.
    End(String),
    /// Nothing of the kind.
    Instant,
}

/// Tells what the events of traces do.
pub(crate) struct Phases<'t> {
    names: HashSet<&'t str>,
    known: ByPlace<Phase>,
}

impl<'t> Phases<'t> {
    pub(crate) fn new(traces: &'t [Trace]) -> Phases<'t> {
        let streams = traces.iter().flat_map(|trace| trace.schema().streams.values());
        let classes = streams.flat_map(|stream| stream.events.values());
        Phases {
            names: classes.map(|class| &*class.name).collect(),
            known: ByPlace::default(),
        }
    }

    pub(crate) fn of(&mut self, class: &EventPlan) -> &Phase {
        let names = &self.names;
        let known = self.known.entry(ptr::from_ref(class).addr());
        known.or_insert_with(|| phase(&class.name, |name| names.contains(name)))
    }
}

fn phase(name: &str, is_there: impl Fn(&str) -> bool) -> Phase {
    // A call that does not return, or was entered before, is one all the same.
    if let Some(call) = name.strip_prefix(CALL.0) {
        return Phase::Begin(call.to_owned());
    }
    if let Some(call) = name.strip_prefix(CALL.1) {
        return Phase::End(call.to_owned());
    }
    for (begin, end) in PAIRS {
        for (own, other) in [(begin, end), (end, begin)] {
            let Some(stem) = name.strip_suffix(own) else { continue };
            if !stem.ends_with([':', '_']) || !is_there(&format!("{stem}{other}")) {
                continue;
            }
            let stem = stem.trim_end_matches([':', '_']).to_owned();
            return if own == begin {
                Phase::Begin(stem)
            } else {
                Phase::End(stem)
            };
        }
    }
    Phase::Instant
}

/// What is open on the tracks of some kind, the innermost last.
pub(crate) struct Stacks<T> {
    open: HashMap<T, Vec<String>>,
}

impl<T: std::hash::Hash + Eq + Clone> Stacks<T> {
    pub(crate) fn new() -> Stacks<T> {
        Stacks { open: HashMap::new() }
    }

    pub(crate) fn begin(&mut self, track: T, name: &str) {
        self.open.entry(track).or_default().push(name.to_owned());
    }

    /// How many end when the last of that name does: those within it whose ends are missing too. 0 when there is none.
    pub(crate) fn end(&mut self, track: &T, name: &str) -> usize {
        let Some(open) = self.open.get_mut(track) else { return 0 };
        let Some(last) = open.iter().rposition(|open| open == name) else {
            return 0;
        };
        let count = open.len() - last;
        open.truncate(last);
        count
    }

    /// How many are open; none is any more.
    pub(crate) fn end_all(&mut self, track: &T) -> usize {
        self.open.get_mut(track).map_or(0, |open| std::mem::take(open).len())
    }

    /// Tracks with how many are open on them.
    pub(crate) fn tracks(&self) -> impl Iterator<Item = (&T, usize)> {
        self.open.iter().map(|(track, open)| (track, open.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_known_by_their_names() {
        let names = [
            "work:begin",
            "work:end",
            "a_entry",
            "a_exit",
            "late_end",
            "x:y_start",
            "x:y_stop",
            "weekend",
            "we_begin",
        ];
        let of = |name: &str| phase(name, |other| names.contains(&other));
        assert_eq!(of("work:begin"), Phase::Begin("work".into()));
        assert_eq!(of("work:end"), Phase::End("work".into()));
        assert_eq!(of("a_exit"), Phase::End("a".into()));
        assert_eq!(of("x:y_stop"), Phase::End("x:y".into()));
        assert_eq!(of("late_end"), Phase::Instant);
        assert_eq!(of("weekend"), Phase::Instant);
        assert_eq!(of("syscall_exit_read"), Phase::End("read".into()));
    }

    #[test]
    fn the_end_of_something_ends_what_is_within() {
        let mut stacks = Stacks::new();
        for name in ["a", "b", "c"] {
            stacks.begin(1, name);
        }
        assert_eq!(stacks.end(&1, "d"), 0);
        assert_eq!(stacks.end(&2, "a"), 0);
        assert_eq!(stacks.end(&1, "b"), 2);
        assert_eq!(stacks.end(&1, "c"), 0);
        assert_eq!(stacks.end_all(&1), 1);
    }
}
