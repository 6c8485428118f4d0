// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs' own events say: of their heap, of their functions, of what is loaded where.

use super::classes::Kind;
use super::values::Values;

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

/// Names of classes, what they say, and the fields that are asked for, in the order in which [`fact`] takes them.
pub(super) const CLASSES: [(&str, Kind, &[&str]); 14] = [
    ("lttng_ust_libc:malloc", Kind::Allocated, &["ptr", "size"]),
    ("lttng_ust_libc:calloc", Kind::Allocated, &["ptr", "size", "nmemb"]),
    ("lttng_ust_libc:memalign", Kind::Allocated, &["ptr", "size"]),
    (
        "lttng_ust_libc:posix_memalign",
        Kind::Allocated,
        &["out_ptr", "size", "nmemb", "result"],
    ),
    ("lttng_ust_libc:realloc", Kind::Reallocated, &["ptr", "size", "in_ptr"]),
    ("lttng_ust_libc:free", Kind::Freed, &["ptr"]),
    (
        "lttng_ust_cyg_profile:func_entry|lttng_ust_cyg_profile_fast:func_entry",
        Kind::Entered,
        &["addr|func_addr", "call_site"],
    ),
    (
        "lttng_ust_cyg_profile:func_exit|lttng_ust_cyg_profile_fast:func_exit",
        Kind::Left,
        &["addr|func_addr"],
    ),
    ("lttng_ust_statedump:start", Kind::ProgramDumpBegin, &[]),
    ("lttng_ust_statedump:end", Kind::ProgramDumpEnd, &[]),
    ("lttng_ust_statedump:procname", Kind::Named, &["procname"]),
    (
        "lttng_ust_statedump:bin_info|lttng_ust_lib:load|lttng_ust_dl:dlopen|lttng_ust_dl:dlmopen",
        Kind::Loaded,
        &["baddr", "memsz", "path"],
    ),
    (
        "lttng_ust_statedump:build_id|lttng_ust_lib:build_id|lttng_ust_dl:build_id",
        Kind::BuildId,
        &["baddr", "build_id"],
    ),
    ("lttng_ust_lib:unload", Kind::Unloaded, &["baddr"]),
];

/// `None` when a field is missing without which there is no fact, and for events that say something else.
pub(super) fn fact(kind: Kind, values: &Values) -> Option<ProgramFact<'_>> {
    let number = |field: usize| values.number(field).map(i64::cast_unsigned);
    Some(match kind {
        Kind::Allocated => {
            let has_failed = number(3).is_some_and(|result| result != 0);
            ProgramFact::Allocated {
                address: if has_failed { 0 } else { number(0)? },
                bytes: number(1)?.saturating_mul(number(2).unwrap_or(1)),
            }
        }
        Kind::Reallocated => ProgramFact::Reallocated {
            from: number(2)?,
            address: number(0)?,
            bytes: number(1)?,
        },
        Kind::Freed => ProgramFact::Freed { address: number(0)? },
        Kind::Entered => ProgramFact::Entered {
            function: number(0)?,
            call_site: number(1),
        },
        Kind::Left => ProgramFact::Left { function: number(0) },
        Kind::ProgramDumpBegin => ProgramFact::DumpBegin,
        Kind::ProgramDumpEnd => ProgramFact::DumpEnd,
        Kind::Named => ProgramFact::Named { name: values.text(0) },
        Kind::Loaded => ProgramFact::Loaded {
            base: number(0)?,
            bytes: number(1)?,
            path: values.text(2),
        },
        Kind::BuildId => ProgramFact::BuildId {
            base: number(0)?,
            id: values.elements(1),
        },
        Kind::Unloaded => ProgramFact::Unloaded { base: number(0)? },
        _ => return None,
    })
}
