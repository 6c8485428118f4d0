// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program can have done to a ring that no correct program does. The caller closes the ring and reports the sentence.

/// Why nothing more can be read from a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Corruption {
    /// The position lies before a sub-buffer that was taken already.
    #[error("the write position is in sub-buffer {position}, but sub-buffers before {next} were already taken")]
    PositionBehind {
        /// The sub-buffer of the write position.
        position: u64,
        /// The next sub-buffer to take.
        next: u64,
    },
    /// The position lies further ahead than the ring is long, though nothing may be overwritten.
    #[error("the write position is in sub-buffer {position}, further than a ring of {subbuf_count} ahead of {oldest}")]
    PositionAhead {
        /// The sub-buffer of the write position.
        position: u64,
        /// The oldest sub-buffer that is not consumed.
        oldest: u64,
        /// Sub-buffers of the ring.
        subbuf_count: u32,
    },
    /// Somebody else moved or claimed `consumed` against R4.
    #[error("the consumed word is {found:#x} where {expected:#x} was left")]
    Consumed {
        /// What it should have been.
        expected: u64,
        /// What it is.
        found: u64,
    },
    /// The content of an ended sub-buffer does not reach behind its header, or goes on behind its end.
    #[error(
        "sub-buffer {sequence} claims {content_units} units of content; {header_units} to {subbuf_units} are possible"
    )]
    Content {
        /// The sub-buffer.
        sequence: u64,
        /// What it claims.
        content_units: u32,
        /// Units of the packet header.
        header_units: u32,
        /// Units of a sub-buffer.
        subbuf_units: u32,
    },
}
