// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters that name arguments of system calls, where tracefs records the calls: the kernel's own filters cannot compare arguments, so the kernel
//! records all calls, and those that the filter rejects do not become events.
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

/// Which entries or exits of a call become events: those that one of the enabled rules wants. `names` are those that rules may call it by.
pub(super) fn condition(
    rules: &[Rule],
    catalog: &Catalog,
    call: (Table, &Syscall),
    side: Side,
    names: [Subject<'_>; 2],
) -> Condition<Test> {
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
    if meant.is_empty() {
        return Condition::Always(true);
    }
    Condition::any(
        meant
            .into_iter()
            .map(|rule| of_rule(rule, catalog, call, side))
            .collect(),
    )
}

fn has_side(part: CallPart, side: Side) -> bool {
    match side {
        Side::Entry => part.has_entry(),
        Side::Exit => part.has_exit(),
    }
}

/// What one rule wants of a call. A rule whose filter the kernel can follow may share the kernel's event with one whose filter it cannot, and then the
/// kernel filters for neither.
fn of_rule(rule: &Rule, catalog: &Catalog, (table, call): (Table, &Syscall), side: Side) -> Condition<Test> {
    let all = Condition::Always(true);
    let (Ok(Some(filter)), EventSource::Syscall { .. }) = (resolve::parsed(rule), &rule.source) else {
        return all;
    };
    let is_of_kernel = !matches!(resolve::syscall_filters(rule, catalog), Ok(None));
    // Rules were checked before: what fails here is a rule of the kernel's that compares more than the records have.
    let Ok(translation) = translate_call(&filter, table, call, None) else {
        return all;
    };
    if is_of_kernel && !translation.missing.is_empty() {
        return all;
    }
    match side {
        Side::Entry => filters::of_entry(&translation.condition),
        Side::Exit => filters::of_exit(&translation.condition),
    }
}
