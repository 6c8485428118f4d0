// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of the events that happened a trace was to have, as marks in its environment say: whoever makes a part of a trace, or records a part of
//! what happens, leaves them, and whoever follows threads heeds them.

use piste_ctf::read::schema::{EnvironmentValue, Schema};

use crate::folder::Trace;
use crate::select::Selection;

/// It has events of some threads only: [`ABOUT_THREADS`] or [`ON_THREADS`].
const THREADS: &str = "piste_selected_threads";
/// With who turns to them and who wakes them: as the kernel selects.
const ABOUT_THREADS: i64 = 1;
/// Only what happened on them.
const ON_THREADS: i64 = 2;
/// It has events of some CPUs only.
const CPUS: &str = "piste_selected_cpus";
/// Events are left out by what is in them.
const EVENTS: &str = "piste_selected_events";

/// What a trace was to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Events about some threads only.
    pub about_threads: bool,
    /// Only those that happened on some threads.
    pub on_threads: bool,
    /// Events of some CPUs only.
    pub of_cpus: bool,
    /// Some events only, whatever their names are.
    pub of_events: bool,
}

impl Part {
    /// As the trace says.
    pub fn of(trace: &Trace) -> Part {
        let number = |name: &str| match trace.schema().environment.iter().find(|(key, _)| key == name) {
            Some((_, EnvironmentValue::Integer(number))) => *number,
            _ => 0,
        };
        Part {
            about_threads: number(THREADS) == ABOUT_THREADS,
            on_threads: number(THREADS) == ON_THREADS,
            of_cpus: number(CPUS) != 0,
            of_events: number(EVENTS) != 0,
        }
    }

    /// Wherever one of the traces has a part only, so do all of them together.
    pub fn of_any(traces: &[Trace]) -> Part {
        traces.iter().map(Part::of).fold(Part::default(), |all, one| Part {
            about_threads: all.about_threads | one.about_threads,
            on_threads: all.on_threads | one.on_threads,
            of_cpus: all.of_cpus | one.of_cpus,
            of_events: all.of_events | one.of_events,
        })
    }

    /// What is left when a selection is taken of a whole trace. Names and times leave a trace as if only they had been recorded.
    pub fn selected(selection: &Selection) -> Part {
        let Selection {
            pids,
            tids,
            comms,
            cpus,
            ..
        } = selection;
        Part {
            about_threads: false,
            on_threads: [pids, tids].into_iter().any(|ids| !ids.is_empty()) || !comms.is_empty(),
            of_cpus: !cpus.is_empty(),
            of_events: selection.looks_into_events(),
        }
    }

    /// Adds its marks to those that a trace has.
    pub fn mark(self, schema: &mut Schema) {
        let marks = [
            (self.about_threads, THREADS, ABOUT_THREADS),
            (self.on_threads, THREADS, ON_THREADS),
            (self.of_cpus, CPUS, 1),
            (self.of_events, EVENTS, 1),
        ];
        for (_, name, number) in marks.into_iter().filter(|(is_said, ..)| *is_said) {
            schema.environment.retain(|(key, _)| key != name);
            schema
                .environment
                .push((name.to_owned(), EnvironmentValue::Integer(number)));
        }
    }
}
