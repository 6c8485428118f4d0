// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with records, or cannot be said of them.

use crate::page::Damage;

/// What is wrong with records, or cannot be said of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The type of a field is not known. Said once.
    #[error("{event}: the type of its field {field} ({type_text}) is unknown; the field is recorded as bytes")]
    UnknownType {
        /// The event's name in the trace.
        event: String,
        /// The field's name.
        field: String,
        /// The type as the kernel writes it.
        type_text: String,
    },
    /// An event that analyses need has other fields on this kernel. Said once.
    #[error(
        "{event} has an unexpected format on this kernel: {what}; what analyses derive from it may be missing or wrong"
    )]
    OtherShape {
        /// The event's group and name.
        event: String,
        /// What is different.
        what: String,
    },
    /// System calls have numbers that no table knows. Said once.
    #[error(
        "system calls have no names, because their numbers on {architecture} are unknown; they are recorded with number and words"
    )]
    UnnamedCalls {
        /// What the kernel runs on.
        architecture: &'static str,
    },
    /// The kernel cannot compare arguments of system calls, so it records those that a filter rejects. Said once.
    #[error(
        "the kernel cannot compare arguments of system calls, so pisted applies the filter when it writes the trace: it saves space, but not the cost of the events that it rejects"
    )]
    FilteredLate,
    /// Of two filters of a call, one is for the kernel and one for the converter, and neither can follow both. Said once for each call.
    #[error(
        "{call}: one filter names its arguments, and another one what only the kernel can compare ($comm, id, or a tracepoint's filter), so all {call} calls are recorded; give the rules channels of their own"
    )]
    FilterGivenUp {
        /// The call.
        call: String,
    },
    /// Records of an event that the kernel does not describe. They are not in the trace and count as discarded.
    #[error("{records} records of event {id} were discarded: the kernel does not describe them")]
    UnknownEvent {
        /// Number in tracefs; zero also where a record has none.
        id: u16,
        /// How many.
        records: u64,
    },
    /// Records that contradict their format. They are not in the trace and count as discarded.
    #[error("{event}: {records} damaged records were discarded; the first: {fault}")]
    Damaged {
        /// The event's name in the trace.
        event: String,
        /// How many.
        records: u64,
        /// What is wrong with the first.
        fault: Fault,
    },
    /// A page that ends with something that is no record. What is behind it is lost, uncounted.
    #[error("a page is damaged, and the rest of it is lost: {0}")]
    Page(#[from] Damage),
    /// Times that are earlier than those of the records before, on the same CPU. They are written as the same.
    #[error("{records} records are earlier than the record before them; they were given its time")]
    BackInTime {
        /// How many.
        records: u64,
    },
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It has fewer bytes than its format says.
    #[error("it has {record_bytes} bytes, fewer than the {needed_bytes} bytes of its format")]
    Short {
        /// What it has.
        record_bytes: usize,
        /// What it should have at least.
        needed_bytes: usize,
    },
    /// A field's content is said to be where the record is not.
    #[error("the {content_bytes} bytes of a field at {offset} are outside its {record_bytes} bytes")]
    Outside {
        /// From the start of the record.
        offset: usize,
        /// Of the field's content.
        content_bytes: usize,
        /// Of the record.
        record_bytes: usize,
    },
}
