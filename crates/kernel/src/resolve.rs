// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events of the running kernel a rule means, or why none; and which fields they have, `resolve/fields.rs`.

mod fields;

use std::collections::BTreeSet;

use crate::catalog::Catalog;
use crate::filter::{self, FilterFault};
use crate::layout::Layout;
use crate::pattern::{self, InvalidPattern};
use crate::spec::{EventSource, Rule};
use crate::syscalls::{Architecture, Syscall, Table};
use piste_names::{matches, nearest};

pub use fields::{NoField, check_fields};

/// Something that a rule records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedEvent {
    /// A tracepoint.
    Tracepoint {
        /// Its group in tracefs.
        system: String,
        /// Its name there.
        name: String,
        /// The rule's filter for it, in the kernel's words.
        filter: Option<String>,
    },
    /// A system call: its entry and its exit.
    Syscall {
        /// Which numbers it is called by.
        table: Table,
        /// Its number.
        number: u32,
        /// The kernel's name for it.
        name: &'static str,
    },
}

/// Why a rule records nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kernel has no such event.
    #[error("this kernel has no event {pattern:?}{}", did_you_mean(.nearest))]
    NoEvent {
        /// What was asked for.
        pattern: String,
        /// Names that look like it, the most alike first.
        nearest: Vec<String>,
    },
    /// No event can have such a name.
    #[error(transparent)]
    InvalidPattern(#[from] InvalidPattern),
    /// The filter is not one.
    #[error("filter {filter:?} is invalid at byte {position}: {reason}")]
    InvalidFilter {
        /// The rule's filter.
        filter: String,
        /// Byte where it goes wrong.
        position: usize,
        /// What is wrong, and what is allowed there.
        reason: String,
    },
}

/// Filters of a rule of system calls, in the kernel's words; `None` records all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyscallFilters {
    /// For entries.
    pub entry: Option<String>,
    /// For exits.
    pub exit: Option<String>,
}

/// The events that `rule` means. An event that lacks a field of the rule's filter is left out: nothing of it fulfils the filter.
/// Rules of probes mean no event of the catalog; of them the filter's form is checked alone.
///
/// # Errors
/// When that is none, or a filter or pattern is wrong.
pub fn rule(rule: &Rule, catalog: &Catalog) -> Result<Vec<ResolvedEvent>, Refusal> {
    match &rule.source {
        EventSource::Tracepoint { pattern } => tracepoints(rule, pattern, catalog),
        EventSource::Syscall { pattern } => {
            let filters = syscall_filters(rule, catalog)?;
            match catalog.architecture() {
                architecture if architecture.has_tables() => calls(rule, pattern, architecture),
                architecture => unnamed_calls(rule, pattern, filters, architecture),
            }
        }
        EventSource::Uprobe { .. } | EventSource::Usdt { .. } | EventSource::Kprobe { .. } => {
            let filter = rule.filter.as_deref().unwrap_or_default();
            match rule.filter.as_deref().map(filter::check_form) {
                Some(Err(fault)) => Err(Refusal::filter(filter, fault)),
                _ => Ok(Vec::new()),
            }
        }
    }
}

/// What the filter of a rule of system calls means for their entries and exits. A filter that names the returned value is for exits
/// alone, and then entries are all recorded.
///
/// # Errors
/// The filter is wrong, or about arguments, which the kernel cannot compare.
pub fn syscall_filters(rule: &Rule, catalog: &Catalog) -> Result<SyscallFilters, Refusal> {
    let Some(filter) = &rule.filter else {
        return Ok(SyscallFilters::default());
    };
    let check = |name| match catalog.by_name("raw_syscalls", name) {
        Ok(event) => filter::check(filter, event),
        Err(_) => filter::check_form(filter).map(|()| filter.clone()),
    };
    match (check("sys_enter"), check("sys_exit")) {
        (Ok(entry), Ok(exit)) => Ok(SyscallFilters {
            entry: Some(entry),
            exit: Some(exit),
        }),
        (Err(fault), Ok(exit)) if fault.is_missing_field => Ok(SyscallFilters {
            entry: None,
            exit: Some(exit),
        }),
        (Err(fault), Err(other)) if fault.is_missing_field && other.is_missing_field => Err(Refusal::InvalidFilter {
            filter: filter.clone(),
            position: fault.position,
            reason: "for system calls, the kernel can compare id, ret (only at exits), $tid, $comm and cpu, but not arguments"
                .to_owned(),
        }),
        (Err(fault), _) if !fault.is_missing_field => Err(Refusal::filter(filter, fault)),
        (_, Err(fault)) | (Err(fault), _) => Err(Refusal::filter(filter, fault)),
    }
}

impl Refusal {
    fn filter(filter: &str, fault: FilterFault) -> Refusal {
        Refusal::InvalidFilter {
            filter: filter.to_owned(),
            position: fault.position,
            reason: fault.reason,
        }
    }
}

fn tracepoints(rule: &Rule, pattern: &str, catalog: &Catalog) -> Result<Vec<ResolvedEvent>, Refusal> {
    check_patterns(rule, pattern)?;
    let layout = Layout::new(catalog.names());
    let names: Vec<(&str, &str, String)> = catalog
        .names()
        .filter(|(system, _)| *system != "ftrace")
        .map(|(system, name)| (system, name, layout.event_name(system, name)))
        .collect();
    let mut meant: Vec<&(&str, &str, String)> = names
        .iter()
        .filter(|(system, name, trace_name)| pattern::matches_event(pattern, system, name, trace_name))
        .collect();
    if meant.is_empty() {
        return Err(no_tracepoint(pattern, &names));
    }
    meant.retain(|(system, name, trace_name)| {
        let mut excluded = rule.excluded.iter();
        !excluded.any(|excluded| pattern::matches_event(excluded, system, name, trace_name))
    });
    if meant.is_empty() {
        return Err(all_excluded(pattern));
    }
    let mut resolved = Vec::new();
    let mut missing = None;
    for (system, name, _) in meant {
        let filter = match &rule.filter {
            None => None,
            Some(filter) => match filter_of(filter, system, name, catalog) {
                Ok(words) => Some(words),
                Err(fault) if fault.is_missing_field => {
                    missing.get_or_insert((filter, fault));
                    continue;
                }
                Err(fault) => return Err(Refusal::filter(filter, fault)),
            },
        };
        resolved.push(ResolvedEvent::Tracepoint {
            system: (*system).to_owned(),
            name: (*name).to_owned(),
            filter,
        });
    }
    match missing {
        Some((filter, fault)) if resolved.is_empty() => Err(Refusal::filter(filter, fault)),
        _ => Ok(resolved),
    }
}

/// An event whose format cannot be read has no field that a filter could name.
fn filter_of(filter: &str, system: &str, name: &str, catalog: &Catalog) -> Result<String, FilterFault> {
    let event = catalog.by_name(system, name).map_err(|error| FilterFault {
        position: 0,
        reason: error.to_string(),
        is_missing_field: true,
    })?;
    filter::check(filter, event)
}

/// Where no call has a name, all are recorded or none.
fn unnamed_calls(
    rule: &Rule,
    pattern: &str,
    filters: SyscallFilters,
    architecture: Architecture,
) -> Result<Vec<ResolvedEvent>, Refusal> {
    check_patterns(rule, pattern)?;
    let named = std::iter::once(pattern).filter(|pattern| *pattern != "*");
    if let Some(named) = named.chain(rule.excluded.iter().map(String::as_str)).next() {
        return Err(Refusal::InvalidPattern(InvalidPattern {
            pattern: named.to_owned(),
            position: 0,
            reason: format!(
                "the names of system calls are unknown on {}; only all of them can be recorded (`--syscall '*'`)",
                architecture.name()
            ),
        }));
    }
    let raw = |name: &str, filter| ResolvedEvent::Tracepoint {
        system: "raw_syscalls".to_owned(),
        name: name.to_owned(),
        filter,
    };
    Ok(vec![raw("sys_enter", filters.entry), raw("sys_exit", filters.exit)])
}

fn calls(rule: &Rule, pattern: &str, architecture: Architecture) -> Result<Vec<ResolvedEvent>, Refusal> {
    check_patterns(rule, pattern)?;
    let all = || {
        [Table::Native, Table::Compat]
            .into_iter()
            .flat_map(|table| architecture.all(table).map(move |call| (table, call)))
    };
    // By the kernel's name or by that which programs know: `newfstat`, `fstat`.
    let is_like = |pattern: &str, call: &Syscall| matches(pattern, call.name) || matches(pattern, call.program_name);
    let mut meant: Vec<_> = all().filter(|(_, call)| is_like(pattern, call)).collect();
    if meant.is_empty() {
        let names: BTreeSet<&str> = all().flat_map(|(_, call)| [call.name, call.program_name]).collect();
        return Err(Refusal::NoEvent {
            pattern: pattern.to_owned(),
            nearest: nearest(pattern, names, 3),
        });
    }
    meant.retain(|(_, call)| !rule.excluded.iter().any(|excluded| is_like(excluded, call)));
    if meant.is_empty() {
        return Err(all_excluded(pattern));
    }
    let resolved = meant.into_iter().map(|(table, call)| ResolvedEvent::Syscall {
        table,
        number: call.number,
        name: call.name,
    });
    Ok(resolved.collect())
}

fn check_patterns(rule: &Rule, pattern: &str) -> Result<(), InvalidPattern> {
    std::iter::once(pattern)
        .chain(rule.excluded.iter().map(String::as_str))
        .try_for_each(pattern::check)
}

fn no_tracepoint(pattern: &str, names: &[(&str, &str, String)]) -> Refusal {
    if pattern.starts_with("syscalls:") || pattern.starts_with("syscall_") {
        return Refusal::InvalidPattern(InvalidPattern {
            pattern: pattern.to_owned(),
            position: 0,
            reason: "system calls are selected by their own names (`--syscall NAME`)".to_owned(),
        });
    }
    let known: BTreeSet<String> = match pattern.contains(':') {
        true => names
            .iter()
            .map(|(system, name, _)| format!("{system}:{name}"))
            .collect(),
        false => names
            .iter()
            .flat_map(|(_, name, trace_name)| [(*name).to_owned(), trace_name.clone()])
            .collect(),
    };
    Refusal::NoEvent {
        pattern: pattern.to_owned(),
        nearest: nearest(pattern, known.iter().map(String::as_str), 3),
    }
}

fn all_excluded(pattern: &str) -> Refusal {
    Refusal::InvalidPattern(InvalidPattern {
        pattern: pattern.to_owned(),
        position: pattern.len(),
        reason: "the exclusions leave no event".to_owned(),
    })
}

fn did_you_mean(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; similar: {}", names.join(", ")),
    }
}
