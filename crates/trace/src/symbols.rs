// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the addresses in events: who an event with addresses is of, for a [`SymbolSource`] that knows what lies where in its memory.
//!
//! What an event says itself about its process and thread is all that is looked at, so events may come in any order.

use std::fmt;

use piste_ctf::read::packet::Event;
use piste_ctf::read::plan::{EventPlan, Plan};
use piste_ctf::read::schema::Scope;
use piste_ctf::read::symbols::{Symbols, WithSymbols};
use piste_ctf::read::walk::{Fault, Visitor};

use crate::folder::Trace;
use crate::process::Ids;
use crate::select::per_class::PerClass;
use crate::stream::Stream;

/// The parts of an event that may have addresses.
const SCOPES: [Scope; 3] = [Scope::EventContext, Scope::SpecificContext, Scope::Payload];
/// Those that say who it is of, the farthest first.
const CONTEXTS: [Scope; 3] = [Scope::PacketContext, Scope::EventContext, Scope::SpecificContext];

/// In whose memory an address lies, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Which of the traces the event is of.
    pub trace: usize,
    /// In nanoseconds since the clock's origin.
    pub ns: i64,
    /// The process: the context `pid`, else `vpid`.
    pub pid: Option<i32>,
    /// The thread: the context `tid`, else `vtid`.
    pub tid: Option<i32>,
    /// The user: the context `uid`.
    pub uid: Option<u32>,
}

/// Knows what lies at addresses.
pub trait SymbolSource: fmt::Debug + Send {
    /// What lies at an address that has so many bits; `None` when nobody knows.
    fn symbol(&mut self, origin: &Origin, address: u64, bits: u32) -> Option<&str>;
}

/// Finds names for the addresses in events of some traces.
#[derive(Debug)]
pub struct EventSymbols<'t> {
    traces: &'t [Trace],
    /// By trace: the process that all its events are of, as traces of one process say.
    own_pids: Vec<Option<i32>>,
    source: Box<dyn SymbolSource + 't>,
    /// The classes with addresses.
    classes: PerClass<Option<ClassContexts>>,
}

/// Which contexts of a class say who its events are of.
#[derive(Debug, Default)]
struct ClassContexts(Vec<Scope>);

/// Names the addresses of one event.
pub struct OfEvent<'s> {
    source: &'s mut dyn SymbolSource,
    origin: Origin,
}

impl Symbols for OfEvent<'_> {
    fn symbol(&mut self, address: u64, bits: u32) -> Option<&str> {
        self.source.symbol(&self.origin, address, bits)
    }
}

impl<'t> EventSymbols<'t> {
    /// Of traces, whose numbers in [`Origin`] are their places here.
    pub fn new(traces: &'t [Trace], source: Box<dyn SymbolSource + 't>) -> EventSymbols<'t> {
        EventSymbols {
            traces,
            own_pids: traces.iter().map(own_pid).collect(),
            source,
            classes: PerClass::default(),
        }
    }

    /// The names in the event that was read last of a stream of a trace; `None` when its class has no addresses.
    #[inline]
    pub fn of(&mut self, trace: usize, stream: &mut Stream<'t>, event: &Event<'t>) -> Option<OfEvent<'_>> {
        let plan = &self.traces[trace].plan;
        let class_id = stream.index.class_id;
        let contexts = self
            .classes
            .get(event.class, || ClassContexts::new(plan, class_id, event.class));
        let ClassContexts(contexts) = contexts.as_ref()?;
        let origin = Origin::read(stream, event, contexts);
        let pid = origin.pid.or(self.own_pids[trace]);
        Some(OfEvent {
            source: &mut *self.source,
            origin: Origin { trace, pid, ..origin },
        })
    }
}

impl Origin {
    /// Of the event that was read last of a stream of a trace, whose number stays open.
    pub fn of<'t>(trace: &Trace, stream: &mut Stream<'t>, event: &Event<'t>) -> Origin {
        let origin = Origin::read(stream, event, &CONTEXTS);
        Origin {
            pid: origin.pid.or_else(|| own_pid(trace)),
            ..origin
        }
    }

    fn read<'t>(stream: &mut Stream<'t>, event: &Event<'t>, contexts: &[Scope]) -> Origin {
        let mut ids = Ids::default();
        for scope in contexts {
            // What cannot be read says nothing.
            let _ = stream.visit(event, *scope, &mut ids);
        }
        Origin {
            trace: 0,
            ns: stream.ns(event).unwrap_or(0),
            pid: ids.process(),
            tid: ids.thread(),
            uid: ids.uid,
        }
    }
}

/// In the form of an [`Origin`].
fn own_pid(trace: &Trace) -> Option<i32> {
    trace.own_process().and_then(|process| i32::try_from(process).ok())
}

/// As [`Stream::visit`], with names where there are some.
///
/// # Errors
/// As [`Stream::visit`].
pub fn visit<'t>(
    stream: &mut Stream<'t>,
    event: &Event<'t>,
    scope: Scope,
    visitor: &mut impl Visitor,
    symbols: Option<&mut OfEvent<'_>>,
) -> Result<bool, Fault> {
    match symbols {
        Some(symbols) => stream.visit(event, scope, &mut WithSymbols { visitor, symbols }),
        None => stream.visit(event, scope, visitor),
    }
}

impl ClassContexts {
    fn new(plan: &Plan, class_id: u64, event: &EventPlan) -> Option<ClassContexts> {
        let structure = |scope| plan.structure(class_id, event, scope);
        let has_addresses = SCOPES
            .into_iter()
            .any(|scope| structure(scope).is_some_and(|structure| structure.has_addresses()));
        let says = |scope: &Scope| {
            let fields = structure(*scope).map_or(&[][..], |structure| structure.fields());
            fields
                .iter()
                .any(|(name, _)| ["pid", "vpid", "tid", "vtid", "uid"].contains(&&**name))
        };
        has_addresses.then(|| ClassContexts(CONTEXTS.into_iter().filter(says).collect()))
    }
}
