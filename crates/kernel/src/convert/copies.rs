// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is copied of what the arguments of a call point to, and the fields that it becomes.
//!
//! The BPF program copies memory, by [`Call`]s; here it is decided which, and what readers find. Names and types are those of LTTng where it has
//! the field.

use piste_ctf::{Base, Element, FieldKind, Member};
use piste_syscalls::copies::{COPY_COUNT, Call, Copy, Kind, Size, When, record};
use piste_syscalls::filters::{Number, Text};
use piste_syscalls::{Count, Pointee, Syscall, Table, What};

use super::detail::Detail;
use super::event::scalar;
use super::syscall::{CallFormat, Side};
use crate::format::Location;
use crate::plan::{Builder, CopyName, TooFar};
use crate::spec::Memory;

/// Texts are cut here: no path is longer.
const TEXT_BYTES_MAX: u16 = 4096;
/// Lists are cut here.
const LIST_BYTES_MAX: u16 = 8192;
/// `struct sockaddr_storage`
const ADDRESS_BYTES_MAX: u16 = 128;

/// Something that is copied of a call.
pub(super) struct Copied<'a> {
    memory: Pointee,
    /// Of the argument, or of the part of a message.
    name: &'a str,
    copy: Copy,
}

/// What is copied of a call. At most as much as the program copies; the rest is known by its address only.
pub(super) fn of<'a>(table: Table, call: &'a Syscall, memory: &Memory) -> Vec<Copied<'a>> {
    let mut all = Vec::new();
    for pointee in &call.pointees {
        let Some(argument) = call.arguments.get(pointee.argument) else {
            continue;
        };
        match pointee.what {
            What::Message | What::Messages => all.extend(message(table, pointee, memory)),
            _ => all.extend(copied(table, call, *pointee, argument.name, memory)),
        }
        if let What::SourceVector | What::TargetVector = pointee.what {
            all.extend(vector_contents(table, pointee, argument.name, memory));
        }
    }
    all.truncate(COPY_COUNT);
    all
}

/// What the program is to record of a call whose entry and exit are recorded.
pub fn program_call(table: Table, call: &Syscall, memory: &Memory) -> Call {
    Call {
        entry: true,
        exit: true,
        copies: of(table, call, memory).iter().map(|copied| copied.copy).collect(),
        filter: None,
    }
}

fn copied<'a>(table: Table, call: &Syscall, memory: Pointee, name: &'a str, wanted: &Memory) -> Option<Copied<'a>> {
    let fixed = |bytes| Kind::Bytes(Size::Fixed(bytes));
    let (kind, limit_bytes) = match memory.what {
        What::Path | What::Text => (Kind::Text, TEXT_BYTES_MAX),
        What::Target => (Kind::Bytes(Size::Result { bytes_each: 1 }), TEXT_BYTES_MAX),
        What::Texts if name == "envp" && !wanted.environment => return None,
        What::Texts => (Kind::Texts, LIST_BYTES_MAX),
        What::Address => (Kind::Bytes(size(memory.count, 1)?), ADDRESS_BYTES_MAX),
        What::Bytes if wanted.buffer_bytes == 0 => return None,
        What::Bytes if memory.is_output => (Kind::Bytes(Size::Result { bytes_each: 1 }), wanted.buffer_bytes),
        What::Bytes => (Kind::Bytes(size(memory.count, 1)?), wanted.buffer_bytes),
        What::FdSet => {
            let (Count::Argument(argument), bytes_each) = (memory.count, word_bytes(table)) else {
                return None;
            };
            let argument = argument as u8;
            (Kind::Bytes(Size::Bits { argument, bytes_each }), LIST_BYTES_MAX)
        }
        what => match structure(what, table, call) {
            Some(structure) if is_single(&memory) => (fixed(structure.bytes), structure.bytes),
            // What the kernel wrote.
            Some(structure) if matches!(what, What::EpollEvent { .. }) => {
                let bytes_each = structure.bytes;
                (Kind::Bytes(Size::Result { bytes_each }), LIST_BYTES_MAX)
            }
            Some(structure) => (Kind::Bytes(size(memory.count, structure.bytes)?), LIST_BYTES_MAX),
            None => return None,
        },
    };
    let copy = Copy {
        argument: memory.argument as u8,
        when: when(&memory),
        kind,
        pointer_at: None,
        limit_bytes,
    };
    Some(Copied { memory, name, copy })
}

fn when(memory: &Pointee) -> When {
    match (memory.is_input, memory.is_output) {
        (true, true) => When::EntryAndSuccess,
        (true, false) => When::Entry,
        // What is left of the time matters when the call was interrupted.
        (false, _) if memory.what == What::Timespec => When::Exit,
        (false, _) => When::Success,
    }
}

/// The elements of a vector are an input even where what they point to is not.
fn vector_contents<'a>(table: Table, vector: &Pointee, name: &'a str, wanted: &Memory) -> Option<Copied<'a>> {
    let is_output = vector.what == What::TargetVector;
    let memory = contents(vector, is_output);
    let kind = Kind::Vector {
        size: size(vector.count, 2 * word_bytes(table))?,
        up_to_result: is_output,
    };
    let copy = Copy {
        argument: vector.argument as u8,
        when: when(&memory),
        kind,
        pointer_at: None,
        limit_bytes: wanted.buffer_bytes,
    };
    (wanted.buffer_bytes > 0).then_some(Copied { memory, name, copy })
}

fn contents(of: &Pointee, is_output: bool) -> Pointee {
    Pointee {
        what: What::Bytes,
        is_input: !is_output,
        is_output,
        ..*of
    }
}

/// A message is sent to an address or comes from one, and has a vector. Of several messages, the first.
fn message<'a>(table: Table, message: &Pointee, wanted: &Memory) -> Vec<Copied<'a>> {
    let word_bytes = word_bytes(table);
    // `struct msghdr`: msg_name, msg_namelen, msg_iov, msg_iovlen.
    let [name_at, name_bytes_at, vector_at, vector_count_at] = [0, 1, 2, 3].map(|index| index * word_bytes as u8);
    let part = |memory: Pointee, name, kind, pointer_at, limit_bytes| Copied {
        memory,
        name,
        copy: Copy {
            argument: memory.argument as u8,
            when: when(&memory),
            kind,
            pointer_at: Some(pointer_at),
            limit_bytes,
        },
    };
    let address = Pointee {
        what: What::Address,
        ..*message
    };
    let address_size = Size::IntInStructure {
        offset: name_bytes_at,
        bytes_each: 1,
    };
    // The program makes it, also where the kernel fills what it points to. It has several elements.
    let vector = Pointee {
        what: What::IoVector,
        is_input: true,
        is_output: false,
        count: Count::Argument(message.argument),
        ..*message
    };
    let vector_size = Size::InStructure {
        offset: vector_count_at,
        bytes_each: 2 * word_bytes,
    };
    let mut parts = vec![
        part(address, "name", Kind::Bytes(address_size), name_at, ADDRESS_BYTES_MAX),
        part(vector, "iov", Kind::Bytes(vector_size), vector_at, LIST_BYTES_MAX),
    ];
    // A call that receives several messages does not return how long they are.
    let is_bounded = !message.is_output || message.what == What::Message;
    if wanted.buffer_bytes > 0 && is_bounded {
        let kind = Kind::Vector {
            size: vector_size,
            up_to_result: message.is_output,
        };
        let memory = contents(message, message.is_output);
        parts.push(part(memory, "iov", kind, vector_at, wanted.buffer_bytes));
    }
    parts
}

fn size(count: Count, bytes_each: u16) -> Option<Size> {
    Some(match count {
        Count::One => return None,
        Count::Argument(argument) => Size::Argument {
            argument: argument as u8,
            bytes_each,
        },
        Count::AtArgument(argument) => Size::AtArgument {
            argument: argument as u8,
            bytes_each,
        },
    })
}

/// Signal sets say how long they are, and always are as long as the kernel's.
fn is_single(memory: &Pointee) -> bool {
    memory.count == Count::One || memory.what == What::SignalSet
}

/// A member without a meaning. It is recorded in lists only, whose elements are copied whole.
const PADDING: &str = "padding";

/// A structure, as it lies in the memory of the program.
struct Structure {
    members: Vec<(&'static str, Element, Base)>,
    bytes: u16,
}

/// The structures that are recorded with their members; `None` for all else.
fn structure(what: What, table: Table, call: &Syscall) -> Option<Structure> {
    use Base::{Decimal, Hex};
    use Element::{Int16, Int32, Int64, Uint32, Uint64};
    let word = match table {
        Table::Native => Uint64,
        Table::Compat => Uint32,
    };
    // Times of 32-bit programs are short, but in calls that were made for longer ones.
    let time = match table {
        Table::Compat if !call.name.contains("64") => Int32,
        _ => Int64,
    };
    let limit = match call.name {
        "prlimit64" => Uint64,
        _ => word,
    };
    let members = match what {
        What::IntPair => vec![("0", Int32, Decimal), ("1", Int32, Decimal)],
        What::Integer { bytes: 4 } => vec![("value", Int32, Decimal)],
        What::Integer { .. } => vec![("value", Int64, Decimal)],
        What::Word => vec![("value", word, Decimal)],
        What::Timespec => vec![("tv_sec", time, Decimal), ("tv_nsec", time, Decimal)],
        What::Timeval => vec![("tv_sec", time, Decimal), ("tv_usec", time, Decimal)],
        What::Limit => vec![("rlim_cur", limit, Decimal), ("rlim_max", limit, Decimal)],
        What::TimespecPair => vec![
            ("atime_sec", time, Decimal),
            ("atime_nsec", time, Decimal),
            ("mtime_sec", time, Decimal),
            ("mtime_nsec", time, Decimal),
        ],
        What::TimevalPair => vec![
            ("atime_sec", time, Decimal),
            ("atime_usec", time, Decimal),
            ("mtime_sec", time, Decimal),
            ("mtime_usec", time, Decimal),
        ],
        What::TimerSpec => vec![
            ("interval_sec", time, Decimal),
            ("interval_nsec", time, Decimal),
            ("value_sec", time, Decimal),
            ("value_nsec", time, Decimal),
        ],
        What::TimerVal => vec![
            ("interval_sec", time, Decimal),
            ("interval_usec", time, Decimal),
            ("value_sec", time, Decimal),
            ("value_usec", time, Decimal),
        ],
        What::OpenHow => vec![
            ("flags", Uint64, Hex),
            ("mode", Uint64, Base::Octal),
            ("resolve", Uint64, Hex),
        ],
        What::SignalSet => vec![("set", Uint64, Hex)],
        What::PollFd => vec![
            ("fd", Int32, Decimal),
            ("raw_events", Int16, Hex),
            ("raw_revents", Int16, Hex),
        ],
        What::EpollEvent { is_packed: true } => vec![("raw_events", Uint32, Hex), ("data", Uint64, Hex)],
        What::EpollEvent { is_packed: false } => {
            vec![
                ("raw_events", Uint32, Hex),
                (PADDING, Uint32, Hex),
                ("data", Uint64, Hex),
            ]
        }
        What::IoVector | What::SourceVector | What::TargetVector => {
            vec![("iov_base", word, Hex), ("iov_len", word, Decimal)]
        }
        _ => return None,
    };
    let bytes = members.iter().map(|(_, element, _)| element.bytes() as u16).sum();
    Some(Structure { members, bytes })
}

fn word_bytes(table: Table) -> u16 {
    match table {
        Table::Native => 8,
        Table::Compat => 4,
    }
}

impl Copied<'_> {
    /// Whether the field takes the place of the argument with this index at the entry: nobody needs the address of a text.
    pub(super) fn replaces(&self, argument: usize) -> bool {
        self.memory.argument == argument && self.memory.is_input && self.is_text()
    }

    /// Whether records of a format have the copy: what could not be read at the entry comes at a late exit.
    pub(super) fn is_due(&self, format: CallFormat) -> bool {
        match format.side {
            Side::Entry => self.memory.is_input,
            Side::Exit => self.memory.is_output || format.is_late,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self.copy.kind, Kind::Text | Kind::Texts)
    }

    /// What can be compared of one of its fields. It is the copy with this index.
    fn comparable(&self, index: u8, table: Table, call: &Syscall, field: &str) -> Option<Comparable> {
        let name = self.name;
        let member = |offset, element| Comparable::Number(Number::Member { copy: index, offset }, element);
        match (self.copy.kind, self.memory.what) {
            (Kind::Text, _) if field == name => Some(Comparable::Text(Text::Copy(index))),
            (_, What::Address) => match field {
                "family" => Some(member(0, Element::Uint16)),
                "dport" if self.memory.is_input => Some(Comparable::Number(Number::Port(index), Element::Uint16)),
                "sport" if !self.memory.is_input => Some(Comparable::AtExit),
                "sun_path" => Some(Comparable::Text(Text::Path(index))),
                "v4addr" | "v6addr" => Some(Comparable::Nothing),
                _ => None,
            },
            (Kind::Texts, _) if field == name => Some(Comparable::Nothing),
            (_, What::Target) if field == "target" => Some(Comparable::AtExit),
            (_, what) if is_single(&self.memory) => {
                let mut offset = 0;
                structure(what, table, call)?
                    .members
                    .iter()
                    .find_map(|(member_name, element, _)| {
                        let own = offset;
                        offset += element.bytes() as u16;
                        (field.strip_prefix(name)?.strip_prefix('_')? == *member_name).then(|| member(own, *element))
                    })
            }
            _ => None,
        }
    }

    /// What is said where it is not there: nothing, if its pointer or the failure of the call tells.
    fn absent(&self, format: CallFormat) -> Option<&'static str> {
        match format.side {
            Side::Entry => self.is_text().then_some("null"),
            Side::Exit => self.memory.is_input.then_some("at entry"),
        }
    }
}

/// What a filter can compare of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparable {
    /// A number.
    Number(Number, Element),
    /// A text.
    Text(Text),
    /// It is there when the call has returned.
    AtExit,
    /// It is a list, or a part of an address.
    Nothing,
    /// Only the BPF program reads it, and here it does not record the call.
    NotHere,
}

/// What can be compared of a field of a call; `None` if the call does not have it. `memory` is what the BPF program records; absent: tracefs records
/// the call, so there are numbers only.
pub(crate) fn comparable(table: Table, call: &Syscall, memory: Option<&Memory>, field: &str) -> Option<Comparable> {
    if field == "ret" {
        return Some(Comparable::Number(Number::Result, Element::Int64));
    }
    let all = of(table, call, memory.unwrap_or(&Memory::default()));
    let found = all.iter().enumerate().find_map(|(index, copied)| {
        let comparable = copied.comparable(index as u8, table, call, field)?;
        Some(if memory.is_none() {
            Comparable::NotHere
        } else if copied.memory.is_input {
            comparable
        } else {
            Comparable::AtExit
        })
    });
    found.or_else(|| {
        let index = call.arguments.iter().position(|argument| argument.name == field)?;
        let element = call.arguments[index].element;
        Some(Comparable::Number(Number::Argument(index as u8), element))
    })
}

/// Puts the fields of a copy, the one with this `index`.
pub(super) fn put(
    copied: &Copied<'_>,
    index: usize,
    table: Table,
    call: &Syscall,
    side: Side,
    detail: &Detail,
    builder: &mut Builder,
) -> Result<(), TooFar> {
    let from = places(side) + 4 * index as u32;
    let name = copied.name;
    let (field, kind) = match (copied.copy.kind, copied.memory.what) {
        (_, What::Address) => return put_address(copied, from, detail, builder),
        (Kind::Text, _) => (name.to_owned(), FieldKind::String),
        (_, What::Target) => ("target".to_owned(), FieldKind::String),
        (Kind::Texts, _) => (name.to_owned(), FieldKind::Strings),
        (_, What::Bytes) => (format!("{name}_bytes"), FieldKind::Text),
        (_, What::IntPair) => {
            let (element, base, count) = (Element::Int32, Base::Decimal, 2);
            (name.to_owned(), FieldKind::Array { element, base, count })
        }
        (_, What::FdSet) => {
            let (element, base) = (Element::Uint8, Base::Hex);
            (fd_set_name(name).to_owned(), FieldKind::Sequence { element, base })
        }
        (_, what) => {
            return match structure(what, table, call) {
                Some(structure) => put_structure(copied, &structure, from, detail, builder),
                None => Ok(()),
            };
        }
    };
    if !detail.has(&field) {
        return Ok(());
    }
    builder.field(&field, kind.clone());
    match kind {
        FieldKind::String => builder.text(from, Location::FromRecord),
        FieldKind::Strings => builder.texts(from),
        FieldKind::Array { .. } => builder.part(from, 0, 8),
        _ => builder.elements(from, Location::FromRecord, 1),
    }
}

/// One structure becomes fields, several a list of structures.
fn put_structure(
    copied: &Copied<'_>,
    structure: &Structure,
    from: u32,
    detail: &Detail,
    builder: &mut Builder,
) -> Result<(), TooFar> {
    let name = copied.name;
    if is_single(&copied.memory) {
        let mut offset = 0;
        for (member, element, base) in &structure.members {
            let (field, bytes) = (format!("{name}_{member}"), element.bytes() as u8);
            if *member != PADDING && detail.has(&field) {
                builder.field(&field, scalar(*element, *base));
                builder.part(from, offset, bytes)?;
            }
            offset += bytes;
        }
        return Ok(());
    }
    let member = |(name, element, base): &(&str, Element, Base)| Member {
        name: (*name).to_owned(),
        element: *element,
        base: *base,
    };
    let members = structure.members.iter().map(member).collect();
    // The pointer has the argument's name; `fds` is LTTng's.
    let field = match copied.memory.what {
        What::PollFd | What::EpollEvent { .. } if name != "fds" => "fds".to_owned(),
        _ => format!("{name}_list"),
    };
    if !detail.has(&field) {
        return Ok(());
    }
    builder.field(&field, FieldKind::Structures { members });
    builder.elements(from, Location::FromRecord, structure.bytes.into())
}

/// LTTng's names for them.
fn fd_set_name(argument: &str) -> &str {
    match argument {
        "inp" => "readfds",
        "outp" => "writefds",
        _ => "exceptfds",
    }
}

/// Puts which of the copies, with their indexes, are not whole, and why. A text, for one event in a thousand has anything to say.
pub(super) fn put_incomplete(
    copies: &[(usize, &Copied<'_>)],
    format: CallFormat,
    detail: &Detail,
    builder: &mut Builder,
) -> Result<(), TooFar> {
    if copies.is_empty() || !detail.has(INCOMPLETE) {
        return Ok(());
    }
    let names = copies.iter().map(|(index, copied)| CopyName {
        index: *index,
        name: copied.name.into(),
        absent: copied.absent(format),
    });
    builder.field(INCOMPLETE, FieldKind::String);
    builder.incomplete(places(format.side) + record::STATES as u32, names.collect())
}

const INCOMPLETE: &str = "incomplete";

fn places(side: Side) -> u32 {
    match side {
        Side::Entry => record::ENTRY_PLACES as u32,
        Side::Exit => record::EXIT_PLACES as u32,
    }
}

/// The kernel's side is the destination of what goes out, and the source of what comes in. All of an address, or nothing.
fn put_address(copied: &Copied<'_>, from: u32, detail: &Detail, builder: &mut Builder) -> Result<(), TooFar> {
    let sequence = |element, base| FieldKind::Sequence { element, base };
    let port = if copied.memory.is_input { "dport" } else { "sport" };
    let fields = [
        ("family", scalar(Element::Int32, Base::Decimal)),
        (port, scalar(Element::Uint16, Base::Decimal)),
        ("v4addr", sequence(Element::Uint8, Base::Decimal)),
        ("v6addr", sequence(Element::Uint16, Base::Hex)),
        ("sun_path", FieldKind::String),
    ];
    if !fields.iter().any(|(name, _)| detail.has(name)) {
        return Ok(());
    }
    for (name, kind) in fields {
        builder.field(name, kind);
    }
    builder.address(from)
}

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::types::{MemberAttr, Struct};
    use libbpf_rs::btf::{Btf, HasSize};
    use piste_syscalls::Architecture;

    use super::*;

    fn call(table: Table, name: &str) -> &'static Syscall {
        Architecture::named("x86_64")
            .by_name(table, name)
            .expect("it is in the table")
    }

    /// Of those that have structures as members, only the size is compared.
    #[test]
    fn structures_are_those_that_the_kernel_says_it_has() {
        let Ok(btf) = Btf::from_vmlinux() else {
            println!("skipped: this kernel does not describe its types (/sys/kernel/btf/vmlinux)");
            return;
        };
        if !cfg!(target_arch = "x86_64") {
            println!("skipped: these structures are those of x86-64");
            return;
        }
        let any = call(Table::Native, "read");
        for (what, name) in [
            (What::Timespec, "__kernel_timespec"),
            (What::Timeval, "__kernel_old_timeval"),
            (What::Limit, "rlimit64"),
            (What::TimerSpec, "__kernel_itimerspec"),
            (What::TimerVal, "__kernel_old_itimerval"),
            (What::OpenHow, "open_how"),
            (What::PollFd, "pollfd"),
            (What::EpollEvent { is_packed: true }, "epoll_event"),
            (What::IoVector, "iovec"),
        ] {
            let kernels: Struct<'_> = btf.type_by_name(name).unwrap_or_else(|| panic!("{name} is not there"));
            let own = structure(what, Table::Native, any).expect("it has members");
            assert_eq!(usize::from(own.bytes), kernels.size(), "{name}");
            let mut at = 0;
            let members = own.members.iter().map(|(member, element, _)| {
                let offset = at;
                at += element.bytes();
                (member.strip_prefix("raw_").unwrap_or(member).to_owned(), offset)
            });
            let known = kernels.iter().map(|member| {
                let offset = match member.attr {
                    MemberAttr::Normal { offset } | MemberAttr::BitField { offset, .. } => offset / 8,
                };
                (
                    member.name.expect("it has a name").to_string_lossy().into_owned(),
                    offset,
                )
            });
            let (members, known): (Vec<_>, Vec<_>) = (members.collect(), known.collect());
            let is_nested = members.len() > known.len();
            assert!(is_nested || members == known, "{name}: {members:?} {known:?}");
        }
    }

    #[test]
    fn limits_of_32_bit_programs_are_as_long_as_the_call_says() {
        let bytes = |name| structure(What::Limit, Table::Compat, call(Table::Compat, name)).map(|limit| limit.bytes);
        assert_eq!((bytes("prlimit64"), bytes("setrlimit")), (Some(16), Some(8)));
    }
}
