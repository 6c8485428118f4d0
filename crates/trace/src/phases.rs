// SPDX-License-Identifier: MIT OR Apache-2.0
//! What begins and ends something: events come in pairs by their names. How what they enclose nests is the business of
//! crates/analysis/src/spans/mod.rs.
//!
//! | begins | ends |
//! |---|---|
//! | `syscall_entry_read` | `syscall_exit_read` |
//! | `shop:order_begin`, `work:begin` | `shop:order_end`, `work:end` |
//! | `..._entry`, `..._enter` | `..._exit` |
//! | `..._start` | `..._end`, `..._stop` |
//!
//! An event is one of a pair only if the traces have events of the other name too.

use std::collections::HashSet;

use piste_ctf::read::plan::EventPlan;

use crate::folder::Trace;
use crate::select::per_class::PerClass;

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
pub enum Phase {
    /// Begins what is called so.
    Begin(String),
    /// Ends the last of that name.
    End(String),
    /// Nothing of the kind.
    Instant,
}

/// Tells what the events of traces do.
#[derive(Debug)]
pub struct Phases<'t> {
    names: HashSet<&'t str>,
    known: PerClass<Phase>,
}

impl<'t> Phases<'t> {
    /// Of these traces.
    pub fn new(traces: &'t [Trace]) -> Phases<'t> {
        let streams = traces.iter().flat_map(|trace| trace.schema().streams.values());
        let classes = streams.flat_map(|stream| stream.events.values());
        Phases {
            names: classes.map(|class| &*class.name).collect(),
            known: PerClass::default(),
        }
    }

    /// What the events of a class of those traces do.
    pub fn of(&mut self, class: &EventPlan) -> &Phase {
        let names = &self.names;
        self.known
            .get(class, || phase(&class.name, |name| names.contains(name)))
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
}
