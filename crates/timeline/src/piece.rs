// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lanes consist of, and what is left of it where there is no room to show each.

use crate::Damaged;
use crate::varint::{Reader, put, put_signed};

/// What a piece is of. The meaning of [`Piece::what`] and [`Piece::by`] depends on it and on the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// The trace does not tell.
    Unknown,
    /// A CPU has nothing to do.
    Idle,
    /// A thread has a CPU; for what, the trace does not tell.
    Running,
    /// The same, for its own program.
    User,
    /// The same, for a system call, or as a thread of the kernel.
    Kernel,
    /// The same, and an interrupt is on top of it.
    Interrupted,
    /// A thread would run if it had a CPU.
    Runnable,
    /// A thread waits for something else.
    Blocked,
    /// Somebody stopped a thread.
    Stopped,
    /// Something that is none of these: a system call, an interrupt, a request.
    Other,
    /// A number, see [`Piece::value`].
    Value,
}

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Class; 11] = [
        Class::Unknown,
        Class::Idle,
        Class::Running,
        Class::User,
        Class::Kernel,
        Class::Interrupted,
        Class::Runnable,
        Class::Blocked,
        Class::Stopped,
        Class::Other,
        Class::Value,
    ];

    fn of(number: u8) -> Result<Class, Damaged> {
        Class::ALL.get(usize::from(number)).copied().ok_or(Damaged)
    }
}

/// A lane is one thing for a time. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From here on,
    pub begin_ns: i64,
    /// up to here, which is not earlier.
    pub end_ns: i64,
    /// What kind of thing.
    pub class: Class,
    /// What exactly; 0: nothing more is known.
    pub what: u32,
    /// Who ended it; 0: nobody, or nobody knows.
    pub by: u32,
    /// Of [`Class::Value`]: the number. A piece with a length is a level, which lasts; one without is an amount, which is added to others.
    pub value: u64,
}

impl Piece {
    /// How long it lasted.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.abs_diff(self.begin_ns)
    }
}

/// Of a head byte: a piece does not begin where the one before it ends; its `what` follows; its `by` follows; its `what` is that of the last piece
/// of its class in the leaf.
const APART: u8 = 0x80;
const WHAT: u8 = 0x40;
const BY: u8 = 0x20;
const AGAIN: u8 = 0x10;
const CLASS: u8 = 0x0f;

/// By the numbers of classes.
type Whats = [u32; Class::ALL.len()];

/// Pieces of a lane that are written together.
#[derive(Debug, Default)]
pub(crate) struct Leaf {
    pub(crate) bytes: Vec<u8>,
    pub(crate) summary: Summary,
    /// Where the last one ends.
    end_ns: i64,
    latest: Whats,
}

impl Leaf {
    pub(crate) fn put(&mut self, piece: &Piece) {
        let is_first = self.bytes.is_empty();
        let is_apart = is_first || piece.begin_ns != self.end_ns;
        let latest = &mut self.latest[piece.class as usize];
        let is_again = piece.what != 0 && *latest == piece.what;
        *latest = piece.what;
        let what = if is_again { 0 } else { piece.what };
        let flag = |is_so: bool, flag: u8| if is_so { flag } else { 0 };
        let flags = flag(is_apart, APART) | flag(what != 0, WHAT) | flag(piece.by != 0, BY) | flag(is_again, AGAIN);
        let head = piece.class as u8 | flags;
        self.bytes.push(head);
        if is_apart {
            put_signed(&mut self.bytes, piece.begin_ns.wrapping_sub(self.end_ns));
        }
        put(&mut self.bytes, piece.duration_ns());
        for value in [what, piece.by].into_iter().filter(|value| *value != 0) {
            put(&mut self.bytes, value.into());
        }
        if piece.class == Class::Value {
            put(&mut self.bytes, piece.value);
        }
        self.end_ns = piece.end_ns;
        self.summary.add(piece);
    }
}

/// The pieces of a leaf, in the order in which they were put.
pub(crate) struct Pieces<'b> {
    reader: Reader<'b>,
    end_ns: i64,
    latest: Whats,
}

impl<'b> Pieces<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Pieces<'b> {
        Pieces {
            reader: Reader::new(bytes),
            end_ns: 0,
            latest: Whats::default(),
        }
    }

    #[inline]
    fn read(&mut self) -> Result<Piece, Damaged> {
        let head = self.reader.byte()?;
        let gap_ns = if head & APART == 0 { 0 } else { self.reader.signed()? };
        let begin_ns = self.end_ns.wrapping_add(gap_ns);
        let duration_ns = self.reader.number()?;
        let end_ns = begin_ns.checked_add_unsigned(duration_ns).ok_or(Damaged)?;
        let class = Class::of(head & CLASS)?;
        let latest = &mut self.latest[class as usize];
        let what = match head & (WHAT | AGAIN) {
            0 => 0,
            AGAIN => *latest,
            _ => self.reader.small()?,
        };
        *latest = what;
        let by = if head & BY == 0 { 0 } else { self.reader.small()? };
        let value = match class {
            Class::Value => self.reader.number()?,
            _ => 0,
        };
        self.end_ns = end_ns;
        Ok(Piece {
            begin_ns,
            end_ns,
            class,
            what,
            by,
            value,
        })
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, Damaged>;

    #[inline]
    fn next(&mut self) -> Option<Result<Piece, Damaged>> {
        (!self.reader.is_over()).then(|| self.read())
    }
}

/// What the longest piece of some is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// How long it is, as far as it lies in the part of time that was asked for.
    pub ns: u64,
    /// Of the piece.
    pub class: Class,
    /// Of the piece.
    pub what: u32,
}

/// What is known of the numbers of some pieces together. All of them are levels, or all are amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// How many amounts there are; none of levels.
    pub amounts: u64,
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
    /// The sum of amounts; or of levels, each times the nanoseconds for which it lasted.
    pub total: u128,
}

impl Values {
    fn merge(&mut self, other: Values) {
        self.amounts = self.amounts.saturating_add(other.amounts);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.total = self.total.saturating_add(other.total);
    }
}

/// What is known of some pieces together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// When the first one begins, and the last one ends. Absent: there are none.
    pub span_ns: Option<(i64, i64)>,
    /// How many begin there.
    pub count: u64,
    /// How long, by the numbers of classes.
    pub ns: [u64; Class::ALL.len()],
    /// The longest of them.
    pub longest: Option<Longest>,
    /// The numbers of those that have one.
    pub values: Option<Values>,
}

impl Summary {
    /// How long there was something of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.ns[class as usize]
    }

    pub(crate) fn add(&mut self, piece: &Piece) {
        self.count += 1;
        self.add_part(piece, piece.begin_ns, piece.end_ns);
    }

    /// Adds the part of a piece between two times, not that it begins.
    pub(crate) fn add_part(&mut self, piece: &Piece, begin_ns: i64, end_ns: i64) {
        let ns = end_ns.abs_diff(begin_ns);
        self.ns[piece.class as usize] = self.ns[piece.class as usize].saturating_add(ns);
        self.reach(begin_ns, end_ns);
        self.lengthen(Longest {
            ns,
            class: piece.class,
            what: piece.what,
        });
        let is_amount = piece.begin_ns == piece.end_ns;
        if piece.class == Class::Value && (is_amount || ns > 0) {
            let times = if is_amount { 1 } else { ns };
            self.count_in(Values {
                amounts: is_amount.into(),
                least: piece.value,
                most: piece.value,
                total: u128::from(piece.value) * u128::from(times),
            });
        }
    }

    pub(crate) fn merge(&mut self, other: &Summary) {
        let Some((begin_ns, end_ns)) = other.span_ns else {
            return;
        };
        self.count += other.count;
        for (own, other) in self.ns.iter_mut().zip(other.ns) {
            *own = own.saturating_add(other);
        }
        self.reach(begin_ns, end_ns);
        other.longest.into_iter().for_each(|longest| self.lengthen(longest));
        other.values.into_iter().for_each(|values| self.count_in(values));
    }

    fn count_in(&mut self, other: Values) {
        match &mut self.values {
            Some(values) => values.merge(other),
            None => self.values = Some(other),
        }
    }

    fn reach(&mut self, begin_ns: i64, end_ns: i64) {
        let (own_begin_ns, own_end_ns) = self.span_ns.unwrap_or((begin_ns, end_ns));
        self.span_ns = Some((own_begin_ns.min(begin_ns), own_end_ns.max(end_ns)));
    }

    /// The first of several that are equally long stays.
    fn lengthen(&mut self, other: Longest) {
        if self.longest.is_none_or(|longest| longest.ns < other.ns) {
            self.longest = Some(other);
        }
    }

    /// Writes it; there are pieces.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let (begin_ns, end_ns) = self.span_ns.unwrap_or_default();
        put_signed(bytes, begin_ns);
        put(bytes, end_ns.abs_diff(begin_ns));
        put(bytes, self.count);
        // Numbers follow if it has the bit of their class. Amounts take no time.
        let is_known = |class: &Class| self.of(*class) != 0 || *class == Class::Value && self.values.is_some();
        let known = Class::ALL.into_iter().filter(is_known);
        put(bytes, known.clone().fold(0, |mask, class| mask | 1 << class as u16));
        known.for_each(|class| put(bytes, self.of(class)));
        if let Some(longest) = self.longest {
            put(bytes, longest.ns);
            bytes.push(longest.class as u8);
            put(bytes, longest.what.into());
        }
        if let Some(values) = self.values {
            put(bytes, values.amounts);
            put(bytes, values.least);
            put(bytes, values.most);
            put(bytes, (values.total >> 64) as u64);
            put(bytes, values.total as u64);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Summary, Damaged> {
        let begin_ns = reader.signed()?;
        let end_ns = begin_ns.checked_add_unsigned(reader.number()?).ok_or(Damaged)?;
        let mut summary = Summary {
            span_ns: Some((begin_ns, end_ns)),
            count: reader.number()?,
            ..Summary::default()
        };
        let mask = reader.number()?;
        for class in Class::ALL.into_iter().filter(|class| mask & 1 << *class as u16 != 0) {
            summary.ns[class as usize] = reader.number()?;
        }
        summary.longest = Some(Longest {
            ns: reader.number()?,
            class: Class::of(reader.byte()?)?,
            what: reader.small()?,
        });
        if mask & 1 << Class::Value as u16 != 0 {
            summary.values = Some(Values {
                amounts: reader.number()?,
                least: reader.number()?,
                most: reader.number()?,
                total: u128::from(reader.number()?) << 64 | u128::from(reader.number()?),
            });
        }
        Ok(summary)
    }
}
