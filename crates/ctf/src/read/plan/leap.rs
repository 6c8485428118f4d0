// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events are passed over in one leap, and how far it goes: those of whole bytes, whose size follows from nothing but themselves. The
//! leaps are made in [`crate::read::leap`]; an event without one is walked over.
//!
//! All places are in bytes from the event's aligned start. Alignments are known there up to the header's own.

use super::compile::{depends_on, slots};
use super::{CompactHeader, CompactNumber, EventPlan, FORMS_MAX, LongForm, Node, Slot, Step, Structure};
use crate::read::schema::{ByteOrder, Role, Width};

/// How the header of a stream's events is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct HeaderLeap {
    /// In bits; below 8: headers that begin within a byte have no leap.
    pub(in crate::read) alignment: u32,
    pub(in crate::read) byte_order: ByteOrder,
    /// From the shortest. No event has a leap behind a form that there is not.
    pub(in crate::read) forms: [Form; FORMS_MAX],
    /// What stands in the short form's id when one of the others comes.
    pub(in crate::read) selectors: [u64; FORMS_MAX - 1],
}

/// A form of a header.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::read) struct Form {
    pub(in crate::read) id: Number,
    pub(in crate::read) time: Number,
    /// The id of all events, where there is none in the header.
    pub(in crate::read) only_id: u64,
    /// Bits of the first eight bytes that tell the form and the id; absent when others do as well.
    pub(in crate::read) id_mask: Option<u64>,
    bytes: u32,
}

/// A number without a sign: bits of the eight bytes at a place. Without any, it is 0.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::read) struct Number {
    pub(in crate::read) at: u32,
    pub(in crate::read) shift: u32,
    pub(in crate::read) mask: u64,
}

/// The way over an event.
#[derive(Clone, Debug)]
pub(in crate::read) struct Leap {
    pub(in crate::read) context_at: u32,
    pub(in crate::read) specific_at: u32,
    pub(in crate::read) payload_at: u32,
    /// To the end, or to where the first part of `parts` begins.
    pub(in crate::read) bytes: u32,
    /// What has no fixed size.
    pub(in crate::read) parts: Box<[Part]>,
}

/// Something without a fixed size, and what is behind it.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Part {
    pub(in crate::read) what: What,
    /// Bytes behind it, to the end or to the next part.
    pub(in crate::read) then: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::read) enum What {
    /// A text that ends with a 0.
    Text,
    /// As many elements as a number says, which is `back` bytes before them.
    Elements { count: Count, back: u32, bytes: u32 },
    /// To a multiple of so many bytes from the packet's start.
    Align(u32),
}

/// How a number of elements is written.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Count {
    pub(in crate::read) bytes: u32,
    pub(in crate::read) byte_order: ByteOrder,
}

/// Leaps are short; whatever is larger is walked over.
const BYTES_MAX: u64 = 1 << 24;

impl Leap {
    /// 0 when it depends on what is in the event.
    pub(super) fn fixed_bytes(&self) -> u32 {
        if self.parts.is_empty() { self.bytes } else { 0 }
    }
}

/// What of a stream's plan leaps depend on, beside its classes.
pub(super) struct Ground<'s> {
    pub(super) compact_header: Option<&'s CompactHeader>,
    pub(super) event_header: Option<&'s Structure>,
    pub(super) event_context: Option<&'s Structure>,
    /// Header and context of packets.
    pub(super) packet: [Option<&'s Structure>; 2],
}

/// Finds the leaps of a stream's events.
pub(super) fn prepare(ground: &Ground<'_>, classes: &mut [EventPlan]) -> Option<HeaderLeap> {
    let mut header = match ground.compact_header {
        Some(header) => compact(header)?,
        None => plain(ground.event_header?, classes)?,
    };
    let [short, ..] = header.forms;
    let short_mask = in_first_word(&short.id, header.byte_order);
    for form in &mut header.forms {
        let mask = in_first_word(&form.id, header.byte_order);
        form.id_mask = short_mask.zip(mask).map(|(short, own)| short | own);
    }
    let mut of_packet = vec![];
    for structure in ground.packet.into_iter().flatten() {
        let fields = structure.fields.iter();
        fields.for_each(|(_, field)| slots(field, &mut of_packet));
    }
    for class in classes {
        class.leaps = leaps(&header, &of_packet, ground.event_context, class);
    }
    Some(header)
}

fn compact(header: &CompactHeader) -> Option<HeaderLeap> {
    let known = header.alignment.max(8);
    let order = header.byte_order;
    let id = number(0, header.id_bits, order)?;
    let behind = |place: u64, part: &CompactNumber| {
        let place = aligned(place, part.alignment, known)?;
        Some((number(place, part.bits, order)?, place + u64::from(part.bits)))
    };
    let start = |alignment: u32| aligned(header.id_bits.into(), alignment, known);
    let form = |id, time, end| {
        Some(Form {
            id,
            time,
            bytes: whole_bytes(end)?,
            ..Form::default()
        })
    };
    let long = |long: &LongForm| {
        let (first, end) = behind(start(long.structure_alignment)?, &long.numbers[0])?;
        let (second, end) = behind(end, &long.numbers[1])?;
        match long.id_is_first {
            true => form(first, second, end),
            false => form(second, first, end),
        }
    };
    let (time, end) = behind(start(header.structure_alignment)?, &header.time)?;
    let mut leap = HeaderLeap::of_one(header.alignment, order, form(id, time, end)?);
    for (index, long_form) in header.long_forms.iter().flatten().enumerate() {
        leap.forms[1 + index] = long(long_form)?;
        leap.selectors[index] = long_form.selector;
    }
    Some(leap)
}

impl HeaderLeap {
    fn of_one(alignment: u32, byte_order: ByteOrder, short: Form) -> HeaderLeap {
        HeaderLeap {
            alignment,
            byte_order,
            forms: [short, Form::default(), Form::default()],
            selectors: [u64::MAX; FORMS_MAX - 1],
        }
    }
}

/// Numbers only: an id, a time, and others.
fn plain(header: &Structure, classes: &[EventPlan]) -> Option<HeaderLeap> {
    let known = header.alignment.max(8);
    let mut place = 0;
    let mut byte_order = None;
    let (mut id, mut time) = (None, None);
    for (_, node) in &header.fields {
        let Node::Integer(integer) = node else { return None };
        let Width::Bits(bits) = integer.width else { return None };
        place = aligned(place, integer.alignment, known)?;
        // Numbers that share bytes have the same order.
        if *byte_order.get_or_insert(integer.byte_order) != integer.byte_order {
            return None;
        }
        let is_id = match integer.roles[..] {
            [] => false,
            [Role::EventClassId] => true,
            _ => return None,
        };
        if is_id || integer.updates_clock {
            let number = number(place, bits, integer.byte_order)?;
            let is_usual = !integer.is_signed && !integer.is_reversed && is_id != integer.updates_clock;
            let known = if is_id { &mut id } else { &mut time };
            if !is_usual || known.replace(number).is_some() {
                return None;
            }
        }
        place += u64::from(bits);
    }
    let only_id = match id {
        Some(_) => 0,
        // It has one class, or that of 0 is meant.
        None => match classes {
            [class] => class.id,
            _ => 0,
        },
    };
    let short = Form {
        id: id.unwrap_or_default(),
        time: time.unwrap_or_default(),
        only_id,
        id_mask: None,
        bytes: whole_bytes(place)?,
    };
    (short.bytes > 0).then_some(HeaderLeap::of_one(header.alignment, byte_order?, short))
}

/// Of an event, behind each form of the header.
fn leaps(
    header: &HeaderLeap,
    of_packet: &[Slot],
    event_context: Option<&Structure>,
    class: &EventPlan,
) -> [Option<Leap>; FORMS_MAX] {
    let contexts = [event_context, class.specific_context.as_ref()];
    let payload = class.payload.as_ref();
    // What is passed over in a leap leaves no numbers for others.
    let mut scopes = contexts.iter().chain([&payload]);
    if !scopes.all(|scope| stands_alone(*scope, of_packet)) {
        return [const { None }; FORMS_MAX];
    }
    let known = header.alignment.max(8);
    let is_there = |form: &&Form| form.bytes > 0;
    let behind = |form: &Form| leap(form.bytes, known, contexts, payload);
    header
        .forms
        .each_ref()
        .map(|form| Some(form).filter(is_there).and_then(behind))
}

fn leap(header_bytes: u32, known: u32, contexts: [Option<&Structure>; 2], payload: Option<&Structure>) -> Option<Leap> {
    let mut way = Way {
        known,
        place: 8 * u64::from(header_bytes),
        first: None,
        parts: vec![],
        counts: vec![],
        order: None,
    };
    let context_at = whole_bytes(way.place)?;
    way.over(contexts[0])?;
    let specific_at = whole_bytes(way.place)?;
    way.over(contexts[1])?;
    let payload_at = whole_bytes(way.place)?;
    if way.first.is_some() {
        // Nobody would know where the payload begins.
        return None;
    }
    way.over(payload)?;
    let last = whole_bytes(way.place)?;
    let bytes = match way.parts.last_mut() {
        Some(part) => {
            part.then = last;
            way.first?
        }
        None => last,
    };
    Some(Leap {
        context_at,
        specific_at,
        payload_at,
        bytes,
        parts: way.parts.into(),
    })
}

/// A way, as far as it has come.
struct Way {
    /// Alignment of the place that `place` counts from.
    known: u32,
    /// Bits from the event's start, or from the end of the last part.
    place: u64,
    /// Bytes to the first part.
    first: Option<u32>,
    parts: Vec<Part>,
    /// Numbers that others depend on, by their places.
    counts: Vec<(Slot, u64, Count)>,
    /// Of numbers that share bytes: they all have the same, or nobody can say which bits are whose.
    order: Option<ByteOrder>,
}

impl Way {
    fn over(&mut self, structure: Option<&Structure>) -> Option<()> {
        let Some(structure) = structure else { return Some(()) };
        self.align(structure.alignment)?;
        for step in &structure.steps {
            match *step {
                Step::Skip(bits) => self.place = self.place.checked_add(bits).filter(|place| *place < 8 * BYTES_MAX)?,
                Step::Align(bits) => self.align(bits)?,
                Step::Terminated => self.part(What::Text)?,
                Step::Elements { count, bits } => {
                    let (_, at, count) = *self.counts.iter().find(|(slot, ..)| *slot == count)?;
                    let bytes = whole_bytes(bits).filter(|bytes| *bytes > 0)?;
                    let back = whole_bytes(self.place - at)?;
                    self.part(What::Elements { count, back, bytes })?;
                }
                Step::Field(index) => self.number(&structure.fields[index].1)?,
            }
        }
        Some(())
    }

    fn align(&mut self, alignment: u32) -> Option<()> {
        if alignment <= self.known {
            self.place = self.place.next_multiple_of(alignment.into());
            return Some(());
        }
        self.part(What::Align(whole_bytes(alignment.into())?))?;
        self.known = alignment;
        Some(())
    }

    fn part(&mut self, what: What) -> Option<()> {
        let before = whole_bytes(self.place)?;
        match self.parts.last_mut() {
            Some(last) => last.then = before,
            None => self.first = Some(before),
        }
        self.parts.push(Part { what, then: 0 });
        self.counts.clear();
        (self.place, self.known) = (0, 8);
        Some(())
    }

    /// A number that says how many of something there are, or that shares bytes with others.
    fn number(&mut self, node: &Node) -> Option<()> {
        let Node::Integer(integer) = node else { return None };
        let Width::Bits(bits) = integer.width else { return None };
        if integer.updates_clock || !integer.roles.is_empty() {
            return None;
        }
        self.align(integer.alignment)?;
        let is_whole_bytes = bits.is_multiple_of(8) && self.place.is_multiple_of(8);
        if !is_whole_bytes && *self.order.get_or_insert(integer.byte_order) != integer.byte_order {
            return None;
        }
        if let Some(slot) = integer.slot {
            if !is_whole_bytes || !matches!(bits, 8 | 16 | 32 | 64) || integer.is_signed || integer.is_reversed {
                return None;
            }
            let count = Count {
                bytes: bits / 8,
                byte_order: integer.byte_order,
            };
            self.counts.push((slot, self.place, count));
        }
        self.place += u64::from(bits);
        Some(())
    }
}

/// Nothing in it depends on numbers of other parts of the event.
fn stands_alone(structure: Option<&Structure>, of_packet: &[Slot]) -> bool {
    let Some(structure) = structure else { return true };
    let mut known = of_packet.to_vec();
    let fields = structure.fields.iter().map(|(_, field)| field);
    fields.clone().for_each(|field| slots(field, &mut known));
    fields.clone().all(|field| depends_on(field, &known))
}

fn aligned(place: u64, alignment: u32, known: u32) -> Option<u64> {
    (alignment <= known).then(|| place.next_multiple_of(alignment.into()))
}

fn whole_bytes(bits: u64) -> Option<u32> {
    (bits.is_multiple_of(8) && bits < 8 * BYTES_MAX).then_some((bits / 8) as u32)
}

/// `None` when the eight bytes at its place do not hold it.
fn number(place: u64, bits: u32, order: ByteOrder) -> Option<Number> {
    let before = (place % 8) as u32;
    if bits == 0 || before + bits > 64 {
        return None;
    }
    Some(Number {
        at: whole_bytes(place - u64::from(before))?,
        shift: match order {
            ByteOrder::Little => before,
            ByteOrder::Big => 64 - before - bits,
        },
        mask: u64::MAX >> (64 - bits),
    })
}

/// The bits of a number in the first eight bytes; `None` when there are others.
fn in_first_word(number: &Number, order: ByteOrder) -> Option<u64> {
    let bits = number.mask << number.shift;
    let before = number.at.checked_mul(8).filter(|before| *before < 64)?;
    let (moved, back) = match order {
        ByteOrder::Little => (bits << before, bits << before >> before),
        ByteOrder::Big => (bits >> before, bits >> before << before),
    };
    (back == bits).then_some(moved)
}
