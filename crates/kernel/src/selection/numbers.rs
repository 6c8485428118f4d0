// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter for chosen system calls by their numbers.
//!
//! The kernel's record has the number and not whose it is, the native or the compat one: the filter lets through what either table calls so,
//! and the conversion drops what no rule means. Numbers that no table knows stand between others as if they were chosen, which makes ranges
//! longer and the filter shorter.

use std::collections::BTreeSet;

use piste_syscalls::{Architecture, Table};

/// The number of an exit when a signal handler's return has replaced it.
const REPLACED: i64 = -1;

/// Chosen numbers.
pub(super) struct Numbers {
    chosen: BTreeSet<u32>,
    has_sigreturn: bool,
    architecture: Architecture,
}

impl Numbers {
    pub(super) fn of(calls: &[(Table, u32)], architecture: Architecture) -> Numbers {
        let is_sigreturn = |&(table, number): &(Table, u32)| {
            let call = architecture.by_number(table, number);
            call.is_some_and(|call| call.name.ends_with("sigreturn"))
        };
        Numbers {
            chosen: calls.iter().map(|&(_, number)| number).collect(),
            has_sigreturn: calls.iter().any(is_sigreturn),
            architecture,
        }
    }

    /// For `sys_enter`; `None` when it is every number.
    pub(super) fn filter_of_entries(&self) -> Option<String> {
        let all = |table| self.architecture.all(table);
        let known = [Table::Native, Table::Compat].into_iter().flat_map(all);
        shortest(&known.map(|call| call.number).collect(), &self.chosen)
    }

    /// For `sys_exit`: the exit of a return from a signal handler has lost its number.
    pub(super) fn filter_of_exits(&self) -> Option<String> {
        let filter = self.filter_of_entries()?;
        Some(match self.has_sigreturn {
            true => format!("id == {REPLACED} || {filter}"),
            false => format!("id >= 0 && ({filter})"),
        })
    }
}

/// The filter that names the fewest numbers: the chosen ones or the others.
fn shortest(known: &BTreeSet<u32>, chosen: &BTreeSet<u32>) -> Option<String> {
    let others: BTreeSet<u32> = known.difference(chosen).copied().collect();
    if others.is_empty() {
        return None;
    }
    let (wanted, unwanted) = (ranges(known, chosen), ranges(known, &others));
    if wanted.len() <= unwanted.len() {
        let parts = wanted.iter().map(|&(first, last)| match first == last {
            true => format!("id == {first}"),
            false => format!("id >= {first} && id <= {last}"),
        });
        return Some(parts.collect::<Vec<_>>().join(" || "));
    }
    let parts = unwanted.iter().map(|&(first, last)| match first == last {
        true => format!("id != {first}"),
        false => format!("(id < {first} || id > {last})"),
    });
    Some(parts.collect::<Vec<_>>().join(" && "))
}

/// First and last of each run of `chosen` numbers that no other of `known` interrupts.
fn ranges(known: &BTreeSet<u32>, chosen: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut is_open = false;
    for &number in known {
        let is_chosen = chosen.contains(&number);
        match ranges.last_mut() {
            Some(range) if is_chosen && is_open => range.1 = number,
            _ if is_chosen => ranges.push((number, number)),
            _ => (),
        }
        is_open = is_chosen;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chosen: &[u32], expected: Option<&str>) {
        let known = [0, 1, 2, 3, 4, 7, 8, 100].into();
        let chosen = chosen.iter().copied().collect();
        assert_eq!(shortest(&known, &chosen).as_deref(), expected, "{chosen:?}");
    }

    #[test]
    fn the_shorter_way_to_say_it_is_taken() {
        check(&[0, 1, 2, 3, 4, 7, 8, 100], None);
        check(&[3], Some("id == 3"));
        check(&[3, 4, 7], Some("id >= 3 && id <= 7"));
        check(&[1, 8], Some("id == 1 || id == 8"));
        check(&[0, 1, 2, 4, 7, 8, 100], Some("id != 3"));
        check(&[0, 4, 7, 8, 100], Some("(id < 1 || id > 3)"));
    }
}
