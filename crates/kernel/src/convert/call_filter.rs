// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters that name arguments of system calls, where tracefs records the calls. The kernel's own filters cannot compare arguments. So the kernel
//! records every call that the rule names, and the converter leaves out those that the filter rejects.
//!
//! Entry and exit of a call may be recorded on two CPUs and are judged separately, each by what it has: the entry by the arguments, the exit by the
//! result.

use piste_filter::Condition;
use piste_syscalls::filters::{self, Test};
use piste_syscalls::{Syscall, Table};

use super::detail::Subject;
use super::syscall::Side;
use crate::catalog::Catalog;
use crate::filter::translate_call;
use crate::resolve;
use crate::spec::{CallPart, EventSource, Rule};

/// What becomes of the entries or exits of a call.
#[derive(Debug, PartialEq)]
pub(super) struct Chosen {
    /// Which of them become events.
    pub(super) condition: Condition<Test>,
    /// They all do, because one of the rules compares what only the kernel can, and another one what only the converter can.
    pub(super) is_given_up: bool,
}

/// Which entries or exits of a call become events: those that one of the enabled rules wants. `names` are those that rules may call it by.
pub(super) fn chosen(
    rules: &[Rule],
    catalog: &Catalog,
    call: (Table, &Syscall),
    side: Side,
    names: [Subject<'_>; 2],
) -> Chosen {
    let all = Chosen {
        condition: Condition::Always(true),
        is_given_up: false,
    };
    let is_meant = |(index, rule): &(usize, &Rule)| {
        let has_side = match rule.source {
            EventSource::Syscall { part, .. } => has_side(part, side),
            _ => true,
        };
        rule.enabled && has_side && names.iter().any(|name| name.is_meant(*index, rule))
    };
    let meant: Vec<&Rule> = rules
        .iter()
        .enumerate()
        .filter(is_meant)
        .map(|(_, rule)| rule)
        .collect();
    let is_of_converter = |rule: &&Rule| matches!(resolve::syscall_filters(rule, catalog), Ok(None));
    if !meant.iter().any(is_of_converter) {
        return all;
    }
    let mut conditions = Vec::new();
    let mut is_given_up = false;
    for rule in meant {
        let condition = of_rule(rule, catalog, call, side);
        is_given_up |= condition.is_none();
        conditions.push(condition.unwrap_or(Condition::Always(true)));
    }
    Chosen {
        condition: Condition::any(conditions),
        is_given_up,
    }
}

fn has_side(part: CallPart, side: Side) -> bool {
    match side {
        Side::Entry => part.has_entry(),
        Side::Exit => part.has_exit(),
    }
}

/// What one rule wants of a call; absent if only the kernel can tell. A rule whose filter the kernel can follow may share the kernel's event with one
/// whose filter it cannot, and then the kernel filters for neither.
fn of_rule(rule: &Rule, catalog: &Catalog, (table, call): (Table, &Syscall), side: Side) -> Option<Condition<Test>> {
    let Ok(Some(filter)) = resolve::parsed(rule) else {
        return Some(Condition::Always(true));
    };
    let EventSource::Syscall { .. } = &rule.source else {
        return None;
    };
    let is_of_kernel = !matches!(resolve::syscall_filters(rule, catalog), Ok(None));
    // Rules were checked before: what fails here is a rule of the kernel's that compares more than the records have.
    let translation = translate_call(&filter, table, call, None).ok()?;
    if is_of_kernel && !translation.missing.is_empty() {
        return None;
    }
    Some(match side {
        Side::Entry => filters::of_entry(&translation.condition),
        Side::Exit => filters::of_exit(&translation.condition),
    })
}
