// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs' own events say: of their heap, of their functions, of what is loaded where.

/// What an event of a program says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramFact<'f> {
    /// It asked for memory.
    Allocated {
        /// Where it is; 0 when there was none.
        address: u64,
        /// How much it asked for.
        bytes: u64,
    },
    /// It asked for another size of what it has.
    Reallocated {
        /// Where it was; 0 when that is new.
        from: u64,
        /// Where it is from now on; 0 when it got none.
        address: u64,
        /// How much it asked for.
        bytes: u64,
    },
    /// It is about to give memory back.
    Freed {
        /// Where it is; 0 is nothing.
        address: u64,
    },
    /// A function begins.
    Entered {
        /// Where its code begins.
        function: u64,
        /// Where it returns to; of one that was put into another one, where that returns to.
        call_site: Option<u64>,
    },
    /// A function ends.
    Left {
        /// Where its code begins; `None` of the innermost one.
        function: Option<u64>,
    },
    /// The list of what is loaded begins.
    DumpBegin,
    /// It is complete.
    DumpEnd,
    /// What the program is called.
    Named {
        /// That.
        name: &'f [u8],
    },
    /// A program or library is loaded.
    Loaded {
        /// Where it begins.
        base: u64,
        /// From its beginning to its end.
        bytes: u64,
        /// Its file.
        path: &'f [u8],
    },
    /// And has this build id.
    BuildId {
        /// Where it begins.
        base: u64,
        /// The bytes of the id.
        id: &'f [u64],
    },
    /// It is gone.
    Unloaded {
        /// Where it began.
        base: u64,
    },
}
