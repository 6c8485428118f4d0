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
    #[error("the write position is in sub-buffer {position}, further than a ring of {subbuf_count} ahead of {next}")]
    PositionAhead {
        /// The sub-buffer of the write position.
        position: u64,
        /// The next sub-buffer to take.
        next: u64,
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
    /// The commit word of an ended sub-buffer belongs to another lap, or counts more than the sub-buffer holds.
    #[error("the commit word of sub-buffer {sequence} is {found:#x}: another lap, or more than {subbuf_bytes} bytes")]
    Commit {
        /// The sub-buffer.
        sequence: u64,
        /// What the word is.
        found: u64,
        /// Bytes of a sub-buffer.
        subbuf_bytes: u32,
    },
    /// The content of a complete sub-buffer does not start behind its header, end within it, or count in units.
    #[error(
        "sub-buffer {sequence} claims {content_bytes} bytes of content; 88 to {subbuf_bytes} in steps of 8 are possible"
    )]
    Content {
        /// The sub-buffer.
        sequence: u64,
        /// What it claims.
        content_bytes: u64,
        /// Bytes of a sub-buffer.
        subbuf_bytes: u32,
    },
}
