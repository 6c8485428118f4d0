// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of an event's class in its stream class.
//!
//! It follows from the event and from what is recorded of it, not from the order in which events come: a consumer that takes over from
//! another one needs nothing of it, and the metadata that is there stays true.
//!
//! ```text
//!   0..29                                         events of data/frequent.txt: their records have the compact header
//!   32 + number in tracefs                        other events, if that is less than 1 << 14
//!   1 << 14 | number << 1 | 1 for the exit        system calls; all ones is a number that is in no table
//!   3 << 13 | number << 1 | 1 for the exit        likewise, of 32-bit programs
//!   1 << 16 | number in tracefs                   events with larger numbers: their records have the extended header, as have those below
//!   1 << 17 | one of those                        an exit that has what could not be read at the entry
//!   a hash of the fields << 17 | one of those     an event of which not all fields, or stacks too, are recorded
//! ```
//!
//! Readers may have a table by number (babeltrace 1 has), so usual numbers are small.
//!
//! With a hash, two choices of fields for one event could have the same number. And the kernel gives the number of an event that is gone to
//! another one. The first class of a stream class keeps the number; another one gets one of the other [`candidates`].

use std::collections::HashMap;
use std::sync::LazyLock;

use piste_ctf::Field;

use piste_syscalls::Table;

/// Classes below this have the compact header.
pub(crate) const COMPACT_COUNT: u32 = 30;
/// Classes below this have the compact or the medium header.
pub(crate) const MEDIUM_COUNT: u32 = 1 << 16;

const EVENT_BASE: u32 = 32;
const NATIVE_BASE: u32 = 1 << 14;
const COMPAT_BASE: u32 = 3 << 13;
const FAR_EVENT_BASE: u32 = MEDIUM_COUNT;
const NO_NUMBER: u32 = 0xfff;
const HASH_SHIFT: u32 = 17;
const HASH_COUNT: u64 = (1 << 15) - 1;

static FREQUENT: LazyLock<HashMap<&'static str, u32>> = LazyLock::new(|| {
    let names = include_str!("../../data/frequent.txt").lines();
    let ids: HashMap<_, _> = names.filter(|line| !line.starts_with('#')).zip(0..).collect();
    assert!(ids.len() <= COMPACT_COUNT as usize, "frequent.txt has too many names");
    ids
});

/// Of a kernel's event by its name in the trace and its number.
pub(crate) fn of_event(trace_name: &str, number: u16) -> u32 {
    let frequent = FREQUENT.get(trace_name).copied();
    frequent.unwrap_or_else(|| of_probe(number))
}

/// Of a probe, by its number; its name is free, and may be that of a frequent event.
pub(crate) fn of_probe(number: u16) -> u32 {
    let number = u32::from(number);
    let near = EVENT_BASE + number;
    if near < NATIVE_BASE {
        near
    } else {
        FAR_EVENT_BASE | number
    }
}

/// Of a system call by its event's name in the trace and its number; `None` when it is in no table.
pub(crate) fn of_syscall(trace_name: &str, table: Table, number: Option<u32>, is_exit: bool) -> u32 {
    let base = match table {
        Table::Native => NATIVE_BASE,
        Table::Compat => COMPAT_BASE,
    };
    let frequent = FREQUENT.get(trace_name).copied();
    let number = number.map_or(NO_NUMBER, |number| number.min(NO_NUMBER));
    frequent.unwrap_or(base | number << 1 | u32::from(is_exit))
}

/// Of the exit whose number is `id`, when it has what could not be read at the entry.
pub(crate) fn of_late_exit(id: u32) -> u32 {
    id | 1 << HASH_SHIFT
}

/// Of the event whose number is `id` when all of it is recorded, and of which `fields` are.
pub(crate) fn of_fields(id: u32, fields: &[Field]) -> u32 {
    // FNV-1a: the same in every version of this program.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in fields.iter().flat_map(|field| field.name.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    id | (1 + (hash % HASH_COUNT) as u32) << HASH_SHIFT
}

/// The numbers that a class with this fingerprint may have: `id`, unless another class has it, and then the others in this order.
pub(crate) fn candidates(id: u32, fingerprint: u64) -> impl Iterator<Item = u32> {
    let event = id & ((1 << HASH_SHIFT) - 1);
    let others = (0..HASH_COUNT).map(move |tried| (fingerprint % HASH_COUNT + tried) % HASH_COUNT);
    std::iter::once(id).chain(others.map(move |hash| event | (1 + hash as u32) << HASH_SHIFT))
}

#[cfg(test)]
mod tests {
    use piste_ctf::FieldKind;

    use super::*;

    #[test]
    fn ids_follow_from_the_event_alone() {
        assert_eq!(of_event("sched_switch", 372), 0);
        assert_eq!(of_event("sched_process_exec", 365), 397);
        assert_eq!(of_probe((1 << 14) - 33), (1 << 14) - 1);
        assert_eq!(of_probe((1 << 14) - 32), (1 << 16) + (1 << 14) - 32);
        assert_eq!(of_probe(u16::MAX), (1 << 17) - 1);
        assert_eq!(of_syscall("syscall_entry_read", Table::Native, Some(0), false), 22);
        assert_eq!(
            of_syscall("syscall_exit_mmap", Table::Native, Some(9), true),
            (1 << 14) + 19
        );
        assert_eq!(
            of_syscall("compat_syscall_entry_open", Table::Compat, Some(5), false),
            (1 << 14) + (1 << 13) + 10
        );
        assert_eq!(
            of_syscall("syscall_exit_unknown", Table::Native, None, true),
            (1 << 14) + (1 << 13) - 1
        );
        let exit = of_syscall("syscall_exit_mmap", Table::Native, Some(9), true);
        assert_eq!(of_late_exit(exit), (1 << 17) + (1 << 14) + 19);
    }

    #[test]
    fn a_class_may_have_any_number_of_its_event() {
        for first in [7, of_fields(7, &[])] {
            let mut ids: Vec<u32> = candidates(first, 12_345).collect();
            assert_eq!(ids[0], first);
            assert!(ids.iter().all(|id| id & ((1 << HASH_SHIFT) - 1) == 7));
            ids.sort_unstable();
            ids.dedup();
            assert!(ids.len() as u64 >= HASH_COUNT);
        }
    }

    #[test]
    fn other_fields_make_another_class() {
        let fields = |names: &[&str]| -> Vec<Field> {
            let field = |name: &&str| Field {
                name: (*name).to_owned(),
                kind: FieldKind::String,
            };
            names.iter().map(field).collect()
        };
        let ids = [&["a", "b"][..], &["ab"], &["b", "a"], &[]].map(|names| of_fields(7, &fields(names)));
        for (index, id) in ids.iter().enumerate() {
            assert_eq!(id & ((1 << HASH_SHIFT) - 1), 7);
            assert!(id >> HASH_SHIFT > 0);
            assert!(!ids[..index].contains(id));
        }
    }
}
