// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as facts about the system. A class of events is looked up once, by the names of it and of its fields; then an event costs the
//! decoding of the fields that are asked for.
//!
//! What a trace does not have (a class, a field) is absent here; nothing is made up for it.

mod classes;
mod fact;
mod programs;
mod translate;
mod values;

use piste_ctf::read::packet::{Event, StreamReader};
use piste_ctf::read::schema::Scope;
use piste_ctf::read::walk::Visitor;

use self::classes::Kind;
pub use self::fact::{
    Arguments, DeviceOperation, DumpedThread, Fact, FileOwner, Fork, Futex, FutexOperation, Interrupt, Left, Packet,
    RequestFact, RequestStep, Switch, Woken,
};
pub use self::programs::ProgramFact;
use self::translate::fact;
use self::values::{FieldNames, Order, Outermost, Take, Values};
use crate::names::Names;

/// An event as a reader of traces has it: the event, the reader that it came from, and the bytes that it is in.
pub struct Incoming<'i, 't> {
    /// The event.
    pub event: Event<'t>,
    /// Who read it.
    pub reader: &'i mut StreamReader<'t>,
    /// A part of its packet.
    pub window: &'i [u8],
    /// Where in the packet that part begins.
    pub base_bytes: u64,
    /// Which stream it is of: a small number that no other stream has.
    pub stream: usize,
    /// When it was, in nanoseconds.
    pub ns: i64,
}

impl Incoming<'_, '_> {
    /// Shows a part of the event; `None` when it cannot be read.
    #[inline]
    fn visit(&mut self, scope: Scope, visitor: &mut impl Visitor) -> Option<()> {
        let seen = self
            .reader
            .visit(&self.event, scope, self.window, self.base_bytes, visitor);
        seen.ok().map(drop)
    }

    /// The names of a part's fields.
    fn fields(&mut self, scope: Scope) -> Option<Vec<String>> {
        let mut found = Outermost::<FieldNames>::default();
        self.visit(scope, &mut found)?;
        Some(found.to.0)
    }
}

/// Makes facts of events.
#[derive(Debug, Default)]
pub struct FactReader {
    streams: Vec<Stream>,
    values: Values,
}

/// What is known of a stream.
#[derive(Debug, Default)]
struct Stream {
    /// By id: the class that [`Stream::classes`] has there. Ids from [`DENSE_IDS`] on are looked up.
    dense: Vec<u32>,
    sparse: rustc_hash::FxHashMap<u64, u32>,
    classes: Vec<Class>,
    /// Where the context has the thread.
    context: Option<Order>,
    /// By id: where an event has who called.
    callers: rustc_hash::FxHashMap<u64, Callers>,
}

/// Where an event has who called: in its fields, else in its context.
#[derive(Debug)]
struct Callers {
    scope: Scope,
    order: Order,
}

/// What [`Callers`] asks for.
const CALLERS: &[&str] = &["ip", "callstack_kernel", "callstack_user"];

/// Who called, as far as an event says it. Addresses of code, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Caller<'f> {
    pub address: Option<u64>,
    pub kernel: &'f [u64],
    pub user: &'f [u64],
}

/// Ids are mostly small.
const DENSE_IDS: u64 = 4096;

#[derive(Debug)]
struct Class {
    kind: Kind,
    order: Order,
}

impl FactReader {
    /// What an event says; `None` when it is nothing that is looked at here.
    #[inline]
    pub fn fact<'f>(&'f mut self, incoming: &mut Incoming<'_, '_>, names: &mut Names) -> Option<Fact<'f>> {
        let stream = stream(&mut self.streams, incoming.stream);
        let number = stream.class(incoming, names);
        let class = &stream.classes[number as usize];
        if class.kind == Kind::Other {
            return None;
        }
        self.values.clear();
        if !class.order.is_empty() {
            incoming.visit(Scope::Payload, &mut Take::new(&class.order, &mut self.values))?;
        }
        fact(class.kind, &self.values, names)
    }

    /// Who called. Events of most traces do not say.
    pub fn caller<'f>(&'f mut self, incoming: &mut Incoming<'_, '_>) -> Option<Caller<'f>> {
        let stream = stream(&mut self.streams, incoming.stream);
        let id = incoming.event.class.id;
        let callers = stream.callers.entry(id).or_insert_with(|| {
            let of_scope = |scope| Callers {
                scope,
                order: Order::new(&incoming.fields(scope).unwrap_or_default(), CALLERS),
            };
            let [fields, context] = [Scope::Payload, Scope::EventContext].map(of_scope);
            if fields.order.is_empty() { context } else { fields }
        });
        if callers.order.is_empty() {
            return None;
        }
        self.values.clear();
        incoming.visit(callers.scope, &mut Take::new(&callers.order, &mut self.values))?;
        Some(Caller {
            address: self.values.number(0).map(i64::cast_unsigned),
            kernel: self.values.elements(1),
            user: self.values.elements(2),
        })
    }

    /// On which thread the event happened, as its context says: `tid`. Not `vtid`, which is another thread's `tid` where there are containers.
    pub fn tid(&mut self, incoming: &mut Incoming<'_, '_>) -> Option<i32> {
        let stream = stream(&mut self.streams, incoming.stream);
        if stream.context.is_none() {
            stream.context = Some(Order::new(&incoming.fields(Scope::EventContext)?, &["tid"]));
        }
        let order = stream.context.as_ref().filter(|order| !order.is_empty())?;
        self.values.clear();
        incoming.visit(Scope::EventContext, &mut Take::new(order, &mut self.values))?;
        self.values.id(0)
    }
}

fn stream(streams: &mut Vec<Stream>, number: usize) -> &mut Stream {
    if streams.len() <= number {
        streams.resize_with(number + 1, Stream::default);
    }
    &mut streams[number]
}

impl Stream {
    #[inline]
    fn class(&mut self, incoming: &mut Incoming<'_, '_>, names: &mut Names) -> u32 {
        let id = incoming.event.class.id;
        let known = match id < DENSE_IDS {
            true => self.dense.get(id as usize).copied().filter(|known| *known != u32::MAX),
            false => self.sparse.get(&id).copied(),
        };
        known.unwrap_or_else(|| self.add(id, incoming, names))
    }

    fn add(&mut self, id: u64, incoming: &mut Incoming<'_, '_>, names: &mut Names) -> u32 {
        let (mut kind, asked) = classes::of(&incoming.event.class.name, names);
        let fields = incoming.fields(Scope::Payload);
        if fields.is_none() {
            kind = Kind::Other;
        }
        let number = self.classes.len() as u32;
        let order = Order::new(&fields.unwrap_or_default(), asked);
        self.classes.push(Class { kind, order });
        if id < DENSE_IDS {
            let place = id as usize;
            if self.dense.len() <= place {
                self.dense.resize(place + 1, u32::MAX);
            }
            self.dense[place] = number;
        } else {
            self.sparse.insert(id, number);
        }
        number
    }
}
