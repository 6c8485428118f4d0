// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a packet that a program wrote.

use crate::packet::HEADER_BYTES;

/// What is wrong with a packet, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset}: {what}")]
pub struct Fault {
    /// Bytes from the start of the packet to the record or value that is wrong.
    pub offset: u32,
    /// What is wrong with it.
    pub what: Wrong,
}

/// What can be wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The packet ends inside its header.
    #[error("the packet has {bytes} bytes, fewer than the {HEADER_BYTES} bytes of its header")]
    NoHeader {
        /// Bytes of the packet.
        bytes: u32,
    },
    /// No class has this id.
    #[error("the channel has no event with id {id}")]
    UnknownEvent {
        /// The id in the record's header.
        id: u32,
    },
    /// The record goes on behind the end of the content.
    #[error("the record needs at least {needed_bytes} bytes, but only {left_bytes} are left")]
    Cut {
        /// Bytes that the record takes at least, as far as it could be read.
        needed_bytes: u64,
        /// Bytes from its start to the end of the content.
        left_bytes: u32,
    },
    /// A string has no zero byte up to the end of the content.
    #[error("a string of the record does not end within the {left_bytes} bytes that are left")]
    EndlessString {
        /// Bytes from the start of the record to the end of the content.
        left_bytes: u32,
    },
    /// A value whose type the record tells is of none.
    #[error("a value of the record is of type {tag}, which is none")]
    UnknownType {
        /// What stands before the value.
        tag: u8,
    },
    /// A time in the future.
    #[error("its time is {ticks}, later than {limit_ticks}, when the packet was read")]
    TooLate {
        /// The time; of a compact record the earliest that it can mean.
        ticks: u64,
        /// The latest time allowed.
        limit_ticks: u64,
    },
    /// A time before that of the record before it.
    #[error("its time is {ticks}, before {previous_ticks}, the time of the record before it")]
    BackInTime {
        /// The time.
        ticks: u64,
        /// The earliest time allowed.
        previous_ticks: u64,
    },
}
