// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as facts about the system. A class of events is looked up once, by the names of it and of its fields; then an event costs the
//! decoding of the fields that are asked for.
//!
//! What a trace does not have (a class, a field) is absent here; nothing is made up for it.
//!
//! Reading fields and making facts of them are two steps, so that one thread can read events ahead of another one that models them: what was
//! read waits in a batch (batch.rs). Only the second step knows the model's names.

mod batch;
mod classes;
mod fact;
mod programs;
mod values;

use piste_ctf::read::packet::{Event, StreamReader};
use piste_ctf::read::schema::Scope;
use piste_ctf::read::walk::Visitor;

pub use self::batch::{Batch, FactMaker};
use self::batch::{Item, Spoken};
use self::classes::Make;
pub use self::fact::{
    Arguments, DeviceOperation, DumpedThread, Fact, FileOwner, Fork, Found, Futex, FutexOperation, Interrupt, Left,
    Packet, Peer, RequestFact, RequestStep, Switch, Woken,
};
pub use self::programs::ProgramFact;
use self::values::{FieldNames, Order, Outermost, Slots, Store, Take, Values};
use crate::model::At;
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

/// Reads what events say.
#[derive(Debug, Default)]
pub struct FactReader {
    streams: Vec<Stream>,
    /// How many names in those of classes there are so far.
    names: u32,
    /// Of contexts.
    context: Scratch,
    /// Of who called.
    caller: Scratch,
    /// For those who take one fact at a time.
    one: Batch,
    maker: FactMaker,
}

/// Values of a part of an event that nobody needs for long.
#[derive(Debug, Default)]
struct Scratch {
    slots: Slots,
    store: Store,
}

impl Scratch {
    /// Looks at a part of an event, where it has what is asked for.
    #[inline]
    fn look(&mut self, incoming: &mut Incoming<'_, '_>, scope: Scope, order: &Order) -> Option<Values<'_>> {
        self.slots = Slots::default();
        self.store.clear();
        incoming.visit(scope, &mut Take::new(order, &mut self.slots, &mut self.store))?;
        Some(Values::new(&self.slots, &self.store))
    }
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
    /// By id: where events say their CPU.
    cpus: rustc_hash::FxHashMap<u64, Lookup>,
    /// By id: where an event has who called.
    callers: rustc_hash::FxHashMap<u64, Lookup>,
}

/// Where an event has what is asked for.
#[derive(Debug)]
struct Lookup {
    scope: Scope,
    order: Order,
}

impl Lookup {
    /// In the first of two parts of the event, else in the second.
    fn find(incoming: &mut Incoming<'_, '_>, scopes: [Scope; 2], asked: &[&str]) -> Lookup {
        let [first, second] = scopes.map(|scope| Lookup {
            scope,
            order: Order::new(&incoming.fields(scope).unwrap_or_default(), asked),
        });
        if first.order.is_empty() { second } else { first }
    }
}

/// Who called.
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

#[derive(Debug, Default)]
struct Class {
    /// Absent when they say nothing that is looked at here.
    says: Option<Says>,
    order: Order,
}

/// What is made of the events of a class.
#[derive(Clone, Copy, Debug)]
struct Says {
    fact: Make,
    /// The name in that of the class.
    name: Spoken,
    is_switch: bool,
    may_wait: bool,
}

impl FactReader {
    /// What an event says; `None` when it is nothing that is looked at here. For those who do not read batches.
    #[inline]
    pub fn fact<'f>(&'f mut self, incoming: &mut Incoming<'_, '_>, names: &mut Names) -> Option<Fact<'f>> {
        let FactReader {
            streams,
            names: count,
            one,
            maker,
            ..
        } = self;
        one.clear();
        let class = stream(streams, incoming.stream).class(incoming, count, one);
        maker.learn(one);
        let says = class.says?;
        let slots = values(incoming, class, one)?;
        one.items.push(Item {
            at: At {
                ns: incoming.ns,
                cpu: None,
                tid: None,
            },
            fact: says.fact,
            name: says.name,
            slots,
            stack: (0, 0),
        });
        maker.fact(one, 0, names)
    }

    /// Reads what the next event says, on which CPU it happened, and on which thread, see [`FactReader::tid`]: that is absent for a switch, whose
    /// fields say it. An event of a class that is not used otherwise still yields its thread, as [`Fact::Other`]. `wants_stacks`: also where
    /// its thread was in its program, if it may wait from then on.
    #[inline]
    pub fn read(&mut self, incoming: &mut Incoming<'_, '_>, wants_stacks: bool, to: &mut Batch) {
        let stream = stream(&mut self.streams, incoming.stream);
        let class = stream.class(incoming, &mut self.names, to);
        let Some(says) = class.says else {
            let tid = self.tid(incoming);
            if tid.is_some() {
                let at = self.at(incoming, tid);
                to.items.push(Item::other(at));
            }
            return;
        };
        let Some(slots) = values(incoming, class, to) else {
            return;
        };
        let tid = if says.is_switch { None } else { self.tid(incoming) };
        let at = self.at(incoming, tid);
        let stack = match wants_stacks && says.may_wait {
            true => to.add_stack(self.caller(incoming).map_or(&[][..], |caller| caller.user)),
            false => (0, 0),
        };
        to.items.push(Item {
            at,
            fact: says.fact,
            name: says.name,
            slots,
            stack,
        });
    }

    #[inline]
    fn at(&mut self, incoming: &mut Incoming<'_, '_>, tid: Option<i32>) -> At {
        At {
            ns: incoming.ns,
            cpu: self.cpu(incoming),
            tid,
        }
    }

    /// Who called. Events of most traces do not say.
    pub fn caller<'f>(&'f mut self, incoming: &mut Incoming<'_, '_>) -> Option<Caller<'f>> {
        let stream = stream(&mut self.streams, incoming.stream);
        let id = incoming.event.class.id;
        let scopes = [Scope::Payload, Scope::EventContext];
        let find = || Lookup::find(incoming, scopes, CALLERS);
        let callers = stream.callers.entry(id).or_insert_with(find);
        if callers.order.is_empty() {
            return None;
        }
        let values = self.caller.look(incoming, callers.scope, &callers.order)?;
        Some(Caller {
            address: values.number(0).map(i64::cast_unsigned),
            kernel: values.elements(1),
            user: values.elements(2),
        })
    }

    /// On which CPU the event happened: its packet says it, else its context or a field of its own.
    #[inline]
    pub fn cpu(&mut self, incoming: &mut Incoming<'_, '_>) -> Option<u32> {
        let of_packet = incoming.reader.info().cpu_id;
        let cpu = match of_packet {
            Some(cpu) => cpu,
            None => self.own_cpu(incoming)?,
        };
        u32::try_from(cpu).ok()
    }

    fn own_cpu(&mut self, incoming: &mut Incoming<'_, '_>) -> Option<u64> {
        let stream = stream(&mut self.streams, incoming.stream);
        let id = incoming.event.class.id;
        let scopes = [Scope::EventContext, Scope::Payload];
        let find = || Lookup::find(incoming, scopes, &["cpu_id"]);
        let place = stream.cpus.entry(id).or_insert_with(find);
        if place.order.is_empty() {
            return None;
        }
        let values = self.context.look(incoming, place.scope, &place.order)?;
        values.number(0).and_then(|cpu| u64::try_from(cpu).ok())
    }

    /// On which thread the event happened, as its context says: `tid`. Not `vtid`, which is another thread's `tid` where there are containers.
    #[inline]
    pub fn tid(&mut self, incoming: &mut Incoming<'_, '_>) -> Option<i32> {
        let stream = stream(&mut self.streams, incoming.stream);
        if stream.context.is_none() {
            stream.context = Some(Order::new(&incoming.fields(Scope::EventContext)?, &["tid"]));
        }
        let order = stream.context.as_ref().filter(|order| !order.is_empty())?;
        self.context.look(incoming, Scope::EventContext, order)?.id(0)
    }
}

/// The values of an event's fields.
#[inline]
fn values(incoming: &mut Incoming<'_, '_>, class: &Class, to: &mut Batch) -> Option<Slots> {
    let mut slots = Slots::default();
    if !class.order.is_empty() {
        incoming.visit(Scope::Payload, &mut Take::new(&class.order, &mut slots, &mut to.store))?;
    }
    Some(slots)
}

#[inline]
fn stream(streams: &mut Vec<Stream>, number: usize) -> &mut Stream {
    if streams.len() <= number {
        streams.resize_with(number + 1, Stream::default);
    }
    &mut streams[number]
}

impl Stream {
    /// The class of an event. What a new one is called goes to `to`.
    #[inline]
    fn class(&mut self, incoming: &mut Incoming<'_, '_>, names: &mut u32, to: &mut Batch) -> &Class {
        let id = incoming.event.class.id;
        let known = match id < DENSE_IDS {
            true => self.dense.get(id as usize).copied().filter(|known| *known != u32::MAX),
            false => self.sparse.get(&id).copied(),
        };
        let number = known.unwrap_or_else(|| self.add(id, incoming, names, to));
        &self.classes[number as usize]
    }

    fn add(&mut self, id: u64, incoming: &mut Incoming<'_, '_>, names: &mut u32, to: &mut Batch) -> u32 {
        let known = classes::of(&incoming.event.class.name);
        let known = known.and_then(|(class, name)| Some((class, name, incoming.fields(Scope::Payload)?)));
        let class = known.map_or_else(Class::default, |(class, name, fields)| Class {
            says: Some(Says {
                fact: class.fact,
                name: to.speak(name, names),
                is_switch: classes::is_switch(class),
                may_wait: classes::may_wait(class),
            }),
            order: Order::new(&fields, class.fields),
        });
        let number = self.classes.len() as u32;
        self.classes.push(class);
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
