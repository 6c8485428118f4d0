// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a stream: what each says about itself, and its events.

use std::ops::RangeInclusive;
use std::ptr;

use super::cursor::Cursor;
use super::leap::Ground;
use super::leap::guess::{At, Guesses};
use super::plan::{CompactHeader, CompactNumber, EventPlan, Plan, StreamPlan, Structure};
use super::schema::{ByteOrder, Role, Scope, Version};
use super::walk::{Fault, SlotValue, State, Visitor, skip, visit};

mod copy;

pub use copy::{HeaderForm, PacketNumbers, PacketPosition};

/// First number of every packet that has one.
pub const MAGIC: u64 = 0xc1fc_1fc1;

/// What a packet says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// Class of its stream.
    pub stream_class_id: u64,
    /// Which stream of its class.
    pub stream_id: Option<u64>,
    /// The trace's.
    pub uuid: Option<[u8; 16]>,
    /// Where its events begin, in bits.
    pub events_at: u64,
    /// Bits that hold something; absent: all there are.
    pub content_bits: Option<u64>,
    /// Bits in all; absent: all there are.
    pub total_bits: Option<u64>,
    /// Cycles.
    pub begin: Option<u64>,
    /// Cycles.
    pub end: Option<u64>,
    /// Its number in its stream.
    pub sequence_number: Option<u64>,
    /// Events discarded since the start of the stream.
    pub discarded_events: Option<u64>,
    /// The CPU, for traces with a stream for each.
    pub cpu_id: Option<u64>,
}

/// Why a packet is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketFault {
    /// Another number stands where the magic should.
    #[error("it begins with {0:#x} instead of {MAGIC:#x}")]
    Magic(u64),
    /// It is cut, or more of it is needed.
    #[error("its header does not fit into the bytes that are left")]
    Short,
    /// The class is not in the metadata.
    #[error("the metadata has no stream class {0}")]
    UnknownStream(u64),
    /// A size that contradicts another.
    #[error("it claims {content_bits} bits of content in {total_bits} bits, {events_at} of which are header")]
    Sizes {
        /// Of content.
        content_bits: u64,
        /// In all.
        total_bits: u64,
        /// Of header and context.
        events_at: u64,
    },
    /// Its header cannot be read.
    #[error("its header cannot be read: {0}")]
    Header(Fault),
}

impl From<Fault> for PacketFault {
    fn from(fault: Fault) -> PacketFault {
        match fault {
            Fault::Short => PacketFault::Short,
            fault => PacketFault::Header(fault),
        }
    }
}

/// Reads the packets of one stream file, one after the other.
#[derive(Debug)]
pub struct StreamReader<'p> {
    plan: &'p Plan,
    state: State,
    stream: Option<&'p StreamPlan>,
    info: PacketInfo,
    /// Of the stream's classes; absent before its first leap.
    guesses: Option<Box<Guesses<'p>>>,
    /// Where the next event is, in bits.
    position: u64,
    /// Where content ends; `u64::MAX` when the packet does not say.
    end: u64,
}

/// An event of a packet. Its fields are decoded when they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Event<'p> {
    /// Its class.
    pub class: &'p EventPlan,
    /// Cycles of the stream's clock; 0 when it has none.
    pub ticks: u64,
    /// Where its header begins, in bits of the packet.
    pub position: u64,
    pub(super) context_at: u64,
    pub(super) specific_at: u64,
    pub(super) payload_at: u64,
}

/// An event that was passed over: what is known of it then.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'p> {
    /// Its class.
    pub class: &'p EventPlan,
    /// Cycles of the stream's clock; 0 when it has none.
    pub ticks: u64,
    /// Where its header begins, in bits of the packet.
    pub position: u64,
}

impl<'p> From<Event<'p>> for Passed<'p> {
    fn from(event: Event<'p>) -> Passed<'p> {
        let Event {
            class, ticks, position, ..
        } = event;
        Passed { class, ticks, position }
    }
}

impl Event<'_> {
    /// Where a part of it begins, in bits of the packet.
    #[inline]
    pub(super) fn start(&self, scope: Scope) -> u64 {
        match scope {
            Scope::PacketHeader | Scope::PacketContext => 0,
            Scope::EventHeader => self.position,
            Scope::EventContext => self.context_at,
            Scope::SpecificContext => self.specific_at,
            Scope::Payload => self.payload_at,
        }
    }
}

/// What comes in a packet.
#[derive(Clone, Copy, Debug)]
pub enum Next<'p> {
    /// An event.
    Event(Event<'p>),
    /// No more.
    End,
    /// More bytes of the packet are needed, from [`StreamReader::position`] on; there is nothing wrong if there are more.
    Short,
    /// The rest of the packet cannot be read.
    Fault(Fault),
}

impl<'p> StreamReader<'p> {
    /// For a stream whose packets the plan describes.
    pub fn new(plan: &'p Plan) -> StreamReader<'p> {
        StreamReader {
            plan,
            state: State {
                slots: vec![SlotValue::default(); plan.slot_count],
                ..State::default()
            },
            stream: None,
            info: PacketInfo::default(),
            guesses: None,
            position: 0,
            end: 0,
        }
    }

    /// Reads the start of a packet, of which `bytes` is the first part: a few kilobytes are more than enough.
    ///
    /// # Errors
    /// Why it is none.
    pub fn packet(&mut self, bytes: &[u8]) -> Result<&PacketInfo, PacketFault> {
        let state = &mut self.state;
        match self.plan.schema.version {
            // Times of few bits go on from the end of the packet before.
            Version::Ctf1 => state.clock = state.clock.max(self.info.end.unwrap_or(0)),
            // Packets stand for themselves (specification of CTF 2, 6.1).
            Version::Ctf2 => state.clock = 0,
        }
        state.begin();
        state.roles.clear();
        state.uuid = None;
        let mut cursor = Cursor::new(bytes);
        let mut found = Found::default();
        if let Some(header) = &self.plan.packet_header {
            visit(header, &mut cursor, state, &mut found)?;
        }
        // CTF 1.8 tells it by its name.
        let named_uuid = found.uuid().filter(|_| self.plan.schema.version == Version::Ctf1);
        let uuid = state.uuid.or(named_uuid);
        let magic = state.roles.get(Role::Magic);
        if let Some(magic) = magic.filter(|&magic| magic != MAGIC) {
            return Err(PacketFault::Magic(magic));
        }
        let streams = &self.plan.streams;
        let stream_class_id = match state.roles.get(Role::StreamClassId) {
            Some(id) => id,
            None if streams.len() == 1 => *streams.keys().next().expect("there is one"),
            None => 0,
        };
        let stream = streams
            .get(&stream_class_id)
            .ok_or(PacketFault::UnknownStream(stream_class_id))?;
        if let Some(context) = &stream.packet_context {
            visit(context, &mut cursor, state, &mut found)?;
        }
        let events_at = cursor.position();
        let role = |role| state.roles.get(role);
        let (content, total) = (role(Role::ContentBits), role(Role::TotalBits));
        let content_bits = content.or(total);
        let total_bits = total.or(content);
        if let (Some(content_bits), Some(total_bits)) = (content_bits, total_bits)
            && (content_bits > total_bits || content_bits < events_at || total_bits % 8 != 0)
        {
            return Err(PacketFault::Sizes {
                content_bits,
                total_bits,
                events_at,
            });
        }
        self.info = PacketInfo {
            stream_class_id,
            stream_id: role(Role::StreamId),
            uuid,
            events_at,
            content_bits,
            total_bits,
            begin: role(Role::BeginTime),
            end: role(Role::EndTime),
            sequence_number: role(Role::SequenceNumber),
            discarded_events: role(Role::DiscardedEvents),
            cpu_id: found.cpu_id,
        };
        if self.stream.is_none_or(|known| !ptr::eq(known, stream)) {
            self.guesses = None;
        }
        self.stream = Some(stream);
        self.position = events_at;
        self.end = content_bits.unwrap_or(u64::MAX);
        Ok(&self.info)
    }

    /// What the packet says about itself.
    pub fn info(&self) -> &PacketInfo {
        &self.info
    }

    /// Where the next event is, in bits of the packet.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Says where the packet ends, in bits, when it does not say so itself: with its file.
    pub fn end_at(&mut self, bits: u64) {
        self.end = self.end.min(bits);
    }

    /// The stream has a clock, so that its events have times.
    pub fn has_clock(&self) -> bool {
        self.stream.is_some_and(|stream| stream.has_clock)
    }

    /// The next event of the packet, of which `bytes` begins at `base_bytes`.
    #[inline]
    pub fn next(&mut self, bytes: &[u8], base_bytes: u64) -> Next<'p> {
        match self.usual(bytes, base_bytes, 0..=u64::MAX) {
            Some(event) => Next::Event(event),
            None => self.walk(bytes, base_bytes),
        }
    }

    /// The same, if it is an event of a usual shape, all of it is in memory, and its time is one of `ticks`; otherwise nothing happens.
    #[inline(always)]
    pub fn usual(&mut self, bytes: &[u8], base_bytes: u64, ticks: RangeInclusive<u64>) -> Option<Event<'p>> {
        let ground = Ground::new(self.stream?, bytes, base_bytes, self.end)?;
        let (event, behind) = ground.event(self.position, self.state.clock)?;
        if !ticks.contains(&event.ticks) {
            return None;
        }
        (self.position, self.state.clock) = (behind, event.ticks);
        Some(event)
    }

    /// Passes over the next events of the packet, as many as are of a usual shape and in memory: none, a few, or all. What comes then,
    /// or why there is no more, says [`StreamReader::next`].
    #[inline]
    pub fn leap(&mut self, bytes: &[u8], base_bytes: u64, look: impl FnMut(Passed<'p>)) {
        let ground = self
            .stream
            .and_then(|stream| Ground::new(stream, bytes, base_bytes, self.end));
        let Some(ground) = ground else { return };
        match ground.byte_order() {
            ByteOrder::Little => self.leap_over::<false>(ground, look),
            ByteOrder::Big => self.leap_over::<true>(ground, look),
        }
    }

    #[inline]
    fn leap_over<const BIG: bool>(&mut self, ground: Ground<'p, '_>, mut look: impl FnMut(Passed<'p>)) {
        let Some(before) = ground.place(self.position) else {
            return;
        };
        let guesses = self.guesses.get_or_insert_default();
        let mut at = At::new(&ground, before, self.state.clock);
        while let Some((class, next)) = guesses.over::<BIG>(&ground, at) {
            look(Passed {
                class,
                ticks: next.clock,
                position: ground.position(at.place),
            });
            at = next;
        }
        if at.place > before {
            (self.position, self.state.clock) = (ground.position(at.place), at.clock);
        }
    }

    fn walk(&mut self, bytes: &[u8], base_bytes: u64) -> Next<'p> {
        let Some(stream) = self.stream else {
            return Next::End;
        };
        if self.position >= self.end {
            return Next::End;
        }
        let in_memory = 8 * (base_bytes + bytes.len() as u64);
        if self.position >= in_memory {
            return Next::Short;
        }
        let clock = self.state.clock;
        let mut cursor = Cursor::within(bytes, base_bytes, self.position, self.end);
        match event(stream, &mut cursor, &mut self.state) {
            Ok(event) if cursor.position() > self.position => {
                self.position = cursor.position();
                Next::Event(event)
            }
            Ok(_) => Next::Fault(Fault::EmptyEvent),
            Err(fault) => {
                if fault == Fault::Short && in_memory < self.end {
                    self.state.clock = clock;
                    return Next::Short;
                }
                Next::Fault(fault)
            }
        }
    }

    /// Looks at the values of one part of an event that [`StreamReader::next`] has just returned, with the same bytes. False when the
    /// event has no such part.
    ///
    /// # Errors
    /// As `next` had none, none.
    pub fn visit(
        &mut self,
        event: &Event<'p>,
        scope: Scope,
        bytes: &[u8],
        base_bytes: u64,
        visitor: &mut impl Visitor,
    ) -> Result<bool, Fault> {
        let Some(stream) = self.stream else {
            return Ok(false);
        };
        let structure: Option<&Structure> = match scope {
            Scope::PacketHeader | Scope::PacketContext => None,
            Scope::EventHeader => stream.event_header.as_ref(),
            Scope::EventContext => stream.event_context.as_ref(),
            Scope::SpecificContext => event.class.specific_context.as_ref(),
            Scope::Payload => event.class.payload.as_ref(),
        };
        let Some(structure) = structure else {
            return Ok(false);
        };
        self.quietly(bytes, base_bytes, event.start(scope), |cursor, state| {
            visit(structure, cursor, state, visitor)
        })?;
        Ok(true)
    }

    /// Goes over what was read before, from `position`: the clock stands still.
    #[inline]
    pub(super) fn quietly<T>(
        &mut self,
        bytes: &[u8],
        base_bytes: u64,
        position: u64,
        look: impl FnOnce(&mut Cursor<'_>, &mut State) -> T,
    ) -> T {
        let clock = self.state.clock;
        self.state.begin();
        let mut cursor = Cursor::within(bytes, base_bytes, position, self.end);
        let seen = look(&mut cursor, &mut self.state);
        self.state.clock = clock;
        seen
    }

    /// Looks at the values of the packet's header or context. `bytes` is the packet's start.
    ///
    /// # Errors
    /// As [`StreamReader::packet`] had none, none.
    pub fn visit_packet(&mut self, scope: Scope, bytes: &[u8], visitor: &mut impl Visitor) -> Result<bool, Fault> {
        let mut cursor = Cursor::new(bytes);
        let header = self.plan.packet_header.as_ref();
        let context = self.stream.and_then(|stream| stream.packet_context.as_ref());
        let clock = self.state.clock;
        let visited = match (scope, header, context) {
            (Scope::PacketHeader, Some(header), _) => {
                visit(header, &mut cursor, &mut self.state, visitor).map(|()| true)
            }
            (Scope::PacketContext, header, Some(context)) => {
                if let Some(header) = header {
                    skip(header, &mut cursor, &mut self.state)?;
                }
                visit(context, &mut cursor, &mut self.state, visitor).map(|()| true)
            }
            _ => Ok(false),
        };
        self.state.clock = clock;
        visited
    }
}

#[inline]
fn event<'p>(stream: &'p StreamPlan, cursor: &mut Cursor<'_>, state: &mut State) -> Result<Event<'p>, Fault> {
    let position = cursor.position();
    state.begin();
    let id = match (&stream.compact_header, &stream.event_header) {
        (Some(header), _) => compact(header, cursor, state)?,
        (None, Some(header)) => {
            state.roles.clear();
            skip(header, cursor, state)?;
            state.roles.get(Role::EventClassId)
        }
        (None, None) => None,
    };
    let class = match id {
        Some(id) => stream.events.get(id).ok_or(Fault::UnknownEvent(id))?,
        None => {
            let class = stream.events.only().or_else(|| stream.events.get(0));
            class.ok_or(Fault::UnknownEvent(0))?
        }
    };
    let ticks = state.clock;
    let context_at = cursor.position();
    if let Some(context) = &stream.event_context {
        skip(context, cursor, state)?;
    }
    let specific_at = cursor.position();
    if let Some(context) = &class.specific_context {
        skip(context, cursor, state)?;
    }
    let payload_at = cursor.position();
    if let Some(payload) = &class.payload {
        skip(payload, cursor, state)?;
    }
    Ok(Event {
        class,
        ticks,
        position,
        context_at,
        specific_at,
        payload_at,
    })
}

#[inline]
fn compact(header: &CompactHeader, cursor: &mut Cursor<'_>, state: &mut State) -> Result<Option<u64>, Fault> {
    let order = header.byte_order;
    let number = |cursor: &mut Cursor<'_>, part: &CompactNumber| -> Result<u64, Fault> {
        cursor.align(part.alignment)?;
        Ok(cursor.number(part.bits, order)?)
    };
    cursor.align(header.alignment)?;
    let id = cursor.number(header.id_bits, order)?;
    state.set_slot(header.id_slot, id);
    let mut long_forms = header.long_forms.iter().flatten();
    let Some(form) = long_forms.find(|form| form.selector == id) else {
        cursor.align(header.structure_alignment)?;
        let time = number(cursor, &header.time)?;
        state.update_clock(header.time.bits, time);
        return Ok(Some(id));
    };
    cursor.align(form.structure_alignment)?;
    let [first, second] = &form.numbers;
    let (first_number, second_number) = (number(cursor, first)?, number(cursor, second)?);
    let (id, time, bits) = match form.id_is_first {
        true => (first_number, second_number, second.bits),
        false => (second_number, first_number, first.bits),
    };
    state.update_clock(bits, time);
    Ok(Some(id))
}

/// What is looked for in a packet's header and context by name.
#[derive(Default)]
struct Found {
    depth: u32,
    name_is: Name,
    uuid: Vec<u8>,
    cpu_id: Option<u64>,
}

#[derive(Default, PartialEq, Eq)]
enum Name {
    #[default]
    Other,
    Uuid,
    CpuId,
}

impl Found {
    fn uuid(&self) -> Option<[u8; 16]> {
        self.uuid[..].try_into().ok()
    }
}

impl Visitor for Found {
    fn field(&mut self, name: &str) {
        if self.depth == 0 {
            self.name_is = match name {
                "uuid" => Name::Uuid,
                "cpu_id" => Name::CpuId,
                _ => Name::Other,
            };
        }
    }

    fn integer(&mut self, _: &super::plan::IntegerNode, value: u64) {
        match self.name_is {
            Name::Uuid if self.uuid.len() < 17 => self.uuid.push(value as u8),
            Name::CpuId if self.depth == 0 => self.cpu_id = Some(value),
            _ => {}
        }
    }

    fn begin_structure(&mut self) {
        self.depth += 1;
    }

    fn end_structure(&mut self) {
        self.depth -= 1;
    }
}
