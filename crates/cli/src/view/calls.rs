// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of system calls, one after the other, for those who print them as strace does.

use piste_ctf::read::schema::Scope;
use piste_strace::{Collector, Event, Fields, Options, TimeFormat};
use piste_trace::Trace;
use piste_trace::merge::{Merge, Merged};
use piste_trace::select::{Matcher, Selection};

use crate::arguments::Clock;

pub(crate) struct Calls<'t> {
    pub(crate) merge: Merge<'t>,
    matcher: Option<Matcher<'t>>,
}

impl<'t> Calls<'t> {
    /// Those that are selected.
    pub(crate) fn of(merge: Merge<'t>, traces: &'t [Trace], selection: &Selection) -> Calls<'t> {
        Calls {
            merge,
            matcher: (!selection.is_any()).then(|| selection.matcher(traces)),
        }
    }

    /// All of them.
    pub(crate) fn whole(merge: Merge<'t>) -> Calls<'t> {
        Calls { merge, matcher: None }
    }

    /// The next event and its fields.
    pub(crate) fn take_next(&mut self) -> Option<(Happened<'t>, Fields)> {
        while let Some(merged) = self.merge.next() {
            let merge = &mut self.merge;
            let is_wanted = self
                .matcher
                .as_mut()
                .is_none_or(|matcher| matcher.wants(merge, &merged));
            if !is_wanted {
                continue;
            }
            let context = self.fields(&merged, Scope::EventContext);
            let tid = context.integer("tid").or_else(|| context.integer("vtid")).unwrap_or(0);
            let happened = Happened {
                ns: self.merge.stream(merged.stream).ns(&merged.event).unwrap_or(0),
                tid: tid as i32,
                merged,
            };
            return Some((happened, self.fields(&merged, Scope::Payload)));
        }
        None
    }

    /// Those of an event; none of what cannot be read.
    fn fields(&mut self, merged: &Merged<'t>, scope: Scope) -> Fields {
        let mut collector = Collector::default();
        let stream = self.merge.stream(merged.stream);
        match stream.visit(&merged.event, scope, &mut collector) {
            Ok(true) => collector.into_fields(),
            Ok(false) | Err(_) => Fields::default(),
        }
    }
}

/// An event without its fields.
pub(crate) struct Happened<'t> {
    ns: i64,
    tid: i32,
    pub(crate) merged: Merged<'t>,
}

impl<'t> Happened<'t> {
    pub(crate) fn of<'f>(&self, fields: &'f Fields) -> Event<'f>
    where
        't: 'f,
    {
        Event {
            ns: self.ns,
            tid: self.tid,
            name: &self.merged.event.class.name,
            fields,
        }
    }
}

/// Lines with the thread and the time.
pub(crate) fn options(clock: &[Clock]) -> Options {
    let is_utc = clock.contains(&Clock::Utc);
    let now = jiff::Zoned::now();
    Options {
        times: match clock.contains(&Clock::Seconds) {
            true => TimeFormat::Epoch,
            false => TimeFormat::Microseconds,
        },
        durations: true,
        text_bytes: usize::MAX,
        threads: true,
        zone_seconds: if is_utc { 0 } else { now.offset().seconds().into() },
    }
}
