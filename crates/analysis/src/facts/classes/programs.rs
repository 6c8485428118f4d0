// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs' own events say: of their heap, of their functions, of what is loaded where.

use super::{Class, class};
use crate::facts::fact::Fact;
use crate::facts::programs::ProgramFact;
use crate::facts::values::Values;
use crate::names::{Name, Names};

/// A class whose events say something of their program.
macro_rules! program {
    ($spellings:literal, [$($field:ident: $asked:literal),*], |$values:ident| $fact:expr) => {
        class!($spellings, [$($field: $asked),*], |$values| Fact::Program($fact))
    };
}

pub(super) static CLASSES: [Class; 13] = [
    program!("lttng_ust_libc:malloc|lttng_ust_libc:memalign", [address: "ptr", bytes: "size"], |values| {
        ProgramFact::Allocated {
            address: unsigned(values, address)?,
            bytes: unsigned(values, bytes)?,
        }
    }),
    program!("lttng_ust_libc:calloc", [address: "ptr", bytes: "size", count: "nmemb"], |values| {
        ProgramFact::Allocated {
            address: unsigned(values, address)?,
            bytes: unsigned(values, bytes)?.saturating_mul(unsigned(values, count).unwrap_or(1)),
        }
    }),
    program!(
        "lttng_ust_libc:posix_memalign",
        [address: "out_ptr", bytes: "size", result: "result"],
        |values| {
            let has_failed = values.number(result).is_some_and(|result| result != 0);
            ProgramFact::Allocated {
                address: if has_failed { 0 } else { unsigned(values, address)? },
                bytes: unsigned(values, bytes)?,
            }
        }
    ),
    program!("lttng_ust_libc:realloc", [address: "ptr", bytes: "size", from: "in_ptr"], |values| {
        ProgramFact::Reallocated {
            from: unsigned(values, from)?,
            address: unsigned(values, address)?,
            bytes: unsigned(values, bytes)?,
        }
    }),
    program!("lttng_ust_libc:free", [address: "ptr"], |values| ProgramFact::Freed {
        address: unsigned(values, address)?,
    }),
    program!(
        "lttng_ust_cyg_profile:func_entry|lttng_ust_cyg_profile_fast:func_entry",
        [function: "addr|func_addr", call_site: "call_site"],
        |values| ProgramFact::Entered {
            function: unsigned(values, function)?,
            call_site: unsigned(values, call_site),
        }
    ),
    program!(
        "lttng_ust_cyg_profile:func_exit|lttng_ust_cyg_profile_fast:func_exit",
        [function: "addr|func_addr"],
        |values| ProgramFact::Left {
            function: unsigned(values, function),
        }
    ),
    program!("lttng_ust_statedump:start", [], |_values| ProgramFact::DumpBegin),
    program!("lttng_ust_statedump:end", [], |_values| ProgramFact::DumpEnd),
    program!("lttng_ust_statedump:procname", [name: "procname"], |values| ProgramFact::Named {
        name: values.text(name),
    }),
    program!(
        "lttng_ust_statedump:bin_info|lttng_ust_lib:load|lttng_ust_dl:dlopen|lttng_ust_dl:dlmopen",
        [base: "baddr", bytes: "memsz", path: "path"],
        |values| ProgramFact::Loaded {
            base: unsigned(values, base)?,
            bytes: unsigned(values, bytes)?,
            path: values.text(path),
        }
    ),
    program!(
        "lttng_ust_statedump:build_id|lttng_ust_lib:build_id|lttng_ust_dl:build_id",
        [base: "baddr", id: "build_id"],
        |values| ProgramFact::BuildId {
            base: unsigned(values, base)?,
            id: values.elements(id),
        }
    ),
    program!("lttng_ust_lib:unload", [base: "baddr"], |values| ProgramFact::Unloaded {
        base: unsigned(values, base)?,
    }),
];

fn unsigned(values: &Values<'_>, field: usize) -> Option<u64> {
    values.number(field).map(i64::cast_unsigned)
}
