// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the BPF program copies for each call, and the form of its records: `bpf/calls.h` for Rust.

/// Calls have smaller numbers; all others count as the last one.
pub const CALL_COUNT: usize = 1024;
/// Tables of calls: of native programs, and of 32-bit ones.
pub const TABLE_COUNT: usize = 2;
/// What a call can have copied at most.
pub const COPY_COUNT: usize = 6;
/// No record is longer.
pub const RECORD_BYTES: usize = 32768;
/// Bytes of a [`Call`] for the program.
pub const CALL_BYTES: usize = 8 + COPY_COUNT * COPY_BYTES;
const COPY_BYTES: usize = 12;

/// Where records have what, in bytes from their beginning.
pub mod record {
    use super::COPY_COUNT;

    /// `u16`: the type.
    pub const TYPE: usize = 0;
    /// `u8`: the table.
    pub const TABLE: usize = 2;
    /// `i32`: the thread.
    pub const TID: usize = 4;
    /// `i64`: the number of the call.
    pub const NUMBER: usize = 8;
    /// Of an entry: six `u64`. Of an exit: an `i64`, the result.
    pub const WORDS: usize = 16;
    /// Of an entry: where each copy is, as `__data_loc` of tracefs says it.
    pub const ENTRY_PLACES: usize = 64;
    /// The same of an exit.
    pub const EXIT_PLACES: usize = 24;
    /// `u16` behind the places: what became of each copy, two bits each.
    pub const STATES: usize = 4 * COPY_COUNT;
}

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All of it is there.
    Whole,
    /// There is more of it.
    Cut,
    /// The memory could not be read.
    Unreadable,
    /// It was not asked for; or the pointer was null, or the call failed.
    Absent,
}

impl State {
    /// Of the copy with this index.
    pub fn of(states: u16, index: usize) -> State {
        match states >> (2 * index) & 3 {
            0 => State::Whole,
            1 => State::Cut,
            2 => State::Unreadable,
            _ => State::Absent,
        }
    }
}

/// What is recorded of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its entry is recorded.
    pub entry: bool,
    /// Its exit is recorded.
    pub exit: bool,
    /// What is copied. At most [`COPY_COUNT`].
    pub copies: Vec<Copy>,
    /// The index of its filter.
    pub filter: Option<u16>,
}

/// Something that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Index of the argument.
    pub argument: u8,
    /// When it is there.
    pub when: When,
    /// What is there.
    pub kind: Kind,
    /// The argument points to a structure that has the pointer at this offset.
    pub pointer_at: Option<u8>,
    /// No more bytes are copied.
    pub limit_bytes: u16,
}

/// When something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the call begins. What cannot be read then is read when it ends.
    Entry,
    /// When it has ended.
    Exit,
    /// When it has ended and did not fail.
    Success,
    /// When it begins, and once more when it has ended and did not fail.
    EntryAndSuccess,
}

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text that ends with a zero byte.
    Text,
    /// Pointers to texts, up to a null pointer. The copy has their count as a `u32`, then each with its zero byte.
    Texts,
    /// Memory as it is.
    Bytes(Size),
    /// What the elements of an array of `struct iovec` point to, one behind the other.
    Vector {
        /// Of the array.
        size: Size,
        /// No more bytes than the call returned.
        up_to_result: bool,
    },
}

/// How much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So many bytes.
    Fixed(u16),
    /// As many times `bytes_each` as the argument says.
    Argument {
        /// Its index.
        argument: u8,
        /// Of an element.
        bytes_each: u16,
    },
    /// As many times `bytes_each` as the int says that the argument points to.
    AtArgument {
        /// Its index.
        argument: u8,
        /// Of an element.
        bytes_each: u16,
    },
    /// As many times `bytes_each` as the result of the call says.
    Result {
        /// Of an element.
        bytes_each: u16,
    },
    /// As many times `bytes_each` as the word says that the structure has at `offset`.
    InStructure {
        /// In the structure that the argument points to.
        offset: u8,
        /// Of an element.
        bytes_each: u16,
    },
    /// As many bits as the argument says, in words of `bytes_each`.
    Bits {
        /// Its index.
        argument: u8,
        /// Of a word.
        bytes_each: u16,
    },
    /// As many times `bytes_each` as the int says that the structure has at `offset`.
    IntInStructure {
        /// In the structure that the argument points to.
        offset: u8,
        /// Of an element.
        bytes_each: u16,
    },
}

impl Call {
    /// As the program has it.
    pub fn bytes(&self) -> [u8; CALL_BYTES] {
        let mut bytes = [0; CALL_BYTES];
        let mask = |is_meant: fn(When) -> bool| {
            let meant = self.copies.iter().take(COPY_COUNT).enumerate();
            let meant = meant.filter(|(_, copy)| is_meant(copy.when));
            meant.fold(0, |mask, (index, _)| mask | 1 << index)
        };
        bytes[0] = u8::from(self.entry) | u8::from(self.exit) << 1;
        bytes[1] = mask(|when| matches!(when, When::Entry | When::EntryAndSuccess));
        bytes[2] = mask(|when| when == When::Exit);
        bytes[3] = mask(|when| matches!(when, When::Success | When::EntryAndSuccess));
        bytes[4..6].copy_from_slice(&self.filter.map_or(0, |index| index + 1).to_ne_bytes());
        for (copy, to) in self.copies.iter().zip(bytes[8..].chunks_exact_mut(COPY_BYTES)) {
            to.copy_from_slice(&copy.bytes());
        }
        bytes
    }
}

impl Copy {
    fn bytes(&self) -> [u8; COPY_BYTES] {
        const INDIRECT: u8 = 1;
        const UP_TO_RESULT: u8 = 2;
        let (kind, size, is_up_to_result) = match self.kind {
            Kind::Text => (0, Size::Fixed(0), false),
            Kind::Texts => (1, Size::Fixed(0), false),
            Kind::Bytes(size) => (2, size, false),
            Kind::Vector { size, up_to_result } => (3, size, up_to_result),
        };
        let (from, argument, offset, bytes_each) = match size {
            Size::Fixed(bytes) => (0, 0, 0, bytes),
            Size::Argument { argument, bytes_each } => (1, argument, 0, bytes_each),
            Size::AtArgument { argument, bytes_each } => (2, argument, 0, bytes_each),
            Size::Result { bytes_each } => (3, 0, 0, bytes_each),
            Size::InStructure { offset, bytes_each } => (4, 0, offset, bytes_each),
            Size::Bits { argument, bytes_each } => (5, argument, 0, bytes_each),
            Size::IntInStructure { offset, bytes_each } => (6, 0, offset, bytes_each),
        };
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(INDIRECT, self.pointer_at.is_some()) | flag(UP_TO_RESULT, is_up_to_result);
        let pointer_at = self.pointer_at.unwrap_or(0);
        let mut bytes = [
            kind,
            flags,
            self.argument,
            from,
            argument,
            pointer_at,
            offset,
            0,
            0,
            0,
            0,
            0,
        ];
        bytes[8..10].copy_from_slice(&bytes_each.to_ne_bytes());
        bytes[10..12].copy_from_slice(&self.limit_bytes.to_ne_bytes());
        bytes
    }
}
