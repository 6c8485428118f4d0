// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who called: records of stacks, folded into the events that they belong to.
//!
//! The kernel writes a stack as a record of its own, behind the event, on the same CPU, and lets no other thread run in between. An
//! interrupt can put events and stacks of its own there: of the same thread, but of a deeper level. So an event's stacks are those behind
//! it that have its thread and its level, and the look for them ends with the first record that is neither such a stack nor deeper.
//! At probes of programs another thread can run in between, and the rest be written on another CPU: what does not follow is missing then.
//!
//! A trigger of one event takes the kernel's stack; the program's stack comes with every event of an instance, and is left out where no rule
//! wants it.

use piste_ctf::{Base, Element, Field, FieldKind};

use crate::catalog::Catalog;
use crate::convert::{Cursor, NoRoom};
use crate::format::EventFormat;
use crate::page::Record;
use crate::spec::Stack;

/// Where the frames are in records of stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StackFormats {
    kernel: Option<StackFormat>,
    user: Option<StackFormat>,
}

#[derive(Clone, Copy, Debug)]
struct StackFormat {
    id: u16,
    /// Of the first frame, from the start of the record; the others follow.
    frames_from: usize,
    /// Of the int32 that says how many frames there are, if one does.
    count_from: Option<usize>,
}

/// The stacks of an event, as far as they were found: frames as they are in the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks<'a> {
    kernel: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
}

/// What a look behind an event found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look<'a> {
    /// All that there is.
    Whole(Stacks<'a>),
    /// The records ended before that was certain.
    Open(Stacks<'a>),
}

const FRAME_BYTES: usize = 8;
/// Set in common_flags while the kernel serves an interrupt, a softirq or an NMI.
const LEVEL_FLAGS: u8 = 0x08 | 0x10 | 0x40;

/// What the fields of an event with stacks are, behind those of the kernel's format.
pub(crate) fn fields(stack: &Stack) -> Vec<Field> {
    let (element, base) = (Element::Uint64, Base::Hex);
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
    };
    let mut fields = vec![field("ip", FieldKind::Scalar { element, base })];
    if stack.kernel {
        fields.push(field("callstack_kernel", FieldKind::Sequence { element, base }));
    }
    if stack.user {
        fields.push(field("callstack_user", FieldKind::Sequence { element, base }));
    }
    fields
}

impl StackFormats {
    pub(crate) fn of(catalog: &Catalog) -> StackFormats {
        let format = |name| {
            let format = catalog.by_name("ftrace", name).ok()?;
            StackFormat::of(format)
        };
        StackFormats {
            kernel: format("kernel_stack"),
            user: format("user_stack"),
        }
    }

    /// Whether this is the number of a record of a stack.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.kernel.is_some_and(|format| format.id == id) || self.user.is_some_and(|format| format.id == id)
    }

    /// Looks for the stacks of the event that `record` is about in the records behind it.
    pub(crate) fn look<'a>(&self, record: &[u8], behind: impl Iterator<Item = Record<'a>>, stack: &Stack) -> Look<'a> {
        let mut found = Stacks::default();
        let Some(place) = ThreadLevel::of(record) else {
            return Look::Whole(found);
        };
        let kernel = self.kernel.filter(|_| stack.kernel);
        let user = self.user.filter(|_| stack.user);
        for Record { data, .. } in behind {
            if found.kernel.is_some() >= kernel.is_some() && found.user.is_some() >= user.is_some() {
                return Look::Whole(found);
            }
            let (Some(here), Some(id)) = (ThreadLevel::of(data), data.first_chunk()) else {
                return Look::Whole(found);
            };
            if here.is_within(place) {
                continue;
            }
            let id = u16::from_le_bytes(*id);
            if here != place {
                return Look::Whole(found);
            }
            if let Some(format) = kernel.filter(|format| format.id == id) {
                found.kernel.get_or_insert(format.frames(data));
            } else if let Some(format) = user.filter(|format| format.id == id) {
                found.user.get_or_insert(format.frames(data));
            } else if !self.has(id) {
                return Look::Whole(found);
            }
        }
        match found.kernel.is_some() >= kernel.is_some() && found.user.is_some() >= user.is_some() {
            true => Look::Whole(found),
            false => Look::Open(found),
        }
    }
}

impl StackFormat {
    fn of(format: &EventFormat) -> Option<StackFormat> {
        let frames = format.field("caller")?;
        let count = format.field("size").filter(|field| field.bytes == 4);
        Some(StackFormat {
            id: format.id,
            frames_from: frames.offset as usize,
            count_from: count.map(|field| field.offset as usize),
        })
    }

    fn frames(self, record: &[u8]) -> &[u8] {
        let frames = record.get(self.frames_from..).unwrap_or_default();
        let count = self.count_from.and_then(|from| record.get(from..)?.first_chunk());
        let count = count.map_or(usize::MAX, |count| u32::from_le_bytes(*count) as usize);
        &frames[..frames.len().min(count.saturating_mul(FRAME_BYTES))]
    }
}

/// Thread and level that a record is from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ThreadLevel {
    tid: [u8; 4],
    level: u8,
}

impl ThreadLevel {
    fn of(record: &[u8]) -> Option<ThreadLevel> {
        let [_, _, flags, _, tid @ ..] = *record.first_chunk::<8>()?;
        let level = flags & LEVEL_FLAGS;
        Some(ThreadLevel { tid, level })
    }

    /// Whether this interrupted the other one.
    fn is_within(self, other: ThreadLevel) -> bool {
        self.tid == other.tid && self.level != other.level && self.level & other.level == other.level
    }
}

impl Stacks<'_> {
    /// Bytes that [`Stacks::write`] takes at most.
    pub(crate) fn event_bytes(&self) -> usize {
        let bytes = |frames: Option<&[u8]>| 4 + frames.map_or(0, <[u8]>::len);
        FRAME_BYTES + bytes(self.kernel) + bytes(self.user)
    }

    /// Writes what [`fields`] says.
    pub(crate) fn write(&self, stack: &Stack, at: &mut Cursor) -> Result<(), NoRoom> {
        let kernel = || frames(self.kernel, stack);
        let user = || frames(self.user, stack);
        let innermost = user().next().filter(|_| stack.user).or_else(|| kernel().next());
        at.put(innermost.unwrap_or(0).to_le_bytes())?;
        if stack.kernel {
            put(kernel(), at)?;
        }
        if stack.user {
            put(user(), at)?;
        }
        Ok(())
    }
}

/// The frames that are wanted, from the innermost. Zero, or all ones, is behind the last.
fn frames<'a>(bytes: Option<&'a [u8]>, stack: &Stack) -> impl Iterator<Item = u64> + Clone + use<'a> {
    let (begin, end) = stack.range.unwrap_or((0, u64::MAX));
    let depth = stack.depth.map_or(usize::MAX, |depth| depth as usize);
    let (frames, _) = bytes.unwrap_or_default().as_chunks::<FRAME_BYTES>();
    let frames = frames.iter().map(|frame| u64::from_le_bytes(*frame));
    let frames = frames.take_while(|frame| *frame != 0 && *frame != u64::MAX);
    frames.filter(move |frame| (begin..end).contains(frame)).take(depth)
}

fn put(frames: impl Iterator<Item = u64> + Clone, at: &mut Cursor) -> Result<(), NoRoom> {
    at.put((frames.clone().count() as u32).to_le_bytes())?;
    for frame in frames {
        at.put(frame.to_le_bytes())?;
    }
    Ok(())
}
