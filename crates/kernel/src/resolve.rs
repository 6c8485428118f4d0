// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events of the running kernel a rule means, or why none; and which fields they have, `resolve/fields.rs`.

mod fields;

use std::collections::BTreeSet;

use crate::catalog::Catalog;
use crate::convert::field_names;
use crate::filter::{self, MissingField, Words};
use crate::layout::Layout;
use crate::pattern::{self, InvalidPattern};
use crate::spec::{CallPart, EventSource, Memory, Rule};
use piste_filter::{Condition, Filter, FilterError};
use piste_patterns::{matches, nearest};
use piste_syscalls::filters::{self, TEST_COUNT};
use piste_syscalls::{Architecture, Syscall, Table};

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
    /// A system call: its entry, its exit, or both.
    Syscall {
        /// Which of them.
        part: CallPart,
        /// Which numbers it is called by.
        table: Table,
        /// Its number.
        number: u32,
        /// The kernel's name for it.
        name: &'static str,
        /// Which of its calls are recorded, where the BPF program or the converter chooses them; absent: all that the kernel lets through.
        condition: Option<Condition<filters::Test>>,
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
    #[error("the filter {filter:?} is invalid: {reason}, at byte {position}")]
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
/// Rules of probes mean no event of the catalog; of them the filter's form is checked alone. `memory` is what the BPF program records of system
/// calls; absent: tracefs records them.
///
/// # Errors
/// When that is none, or a filter or pattern is wrong.
pub fn rule(rule: &Rule, catalog: &Catalog, memory: Option<&Memory>) -> Result<Vec<ResolvedEvent>, Refusal> {
    match &rule.source {
        EventSource::Tracepoint { pattern } => tracepoints(rule, pattern, catalog),
        EventSource::Syscall { pattern, part } => {
            let part = *part;
            check_part(rule, part, catalog)?;
            let architecture = catalog.architecture();
            let memory = memory.filter(|_| architecture.has_tables());
            if memory.is_some() {
                return filtered_calls(rule, (pattern, part), architecture, memory);
            }
            match syscall_filters(rule, catalog)? {
                None => {
                    let resolved = filtered_calls(rule, (pattern, part), architecture, memory)?;
                    check_exits(rule, part, &resolved)?;
                    Ok(resolved)
                }
                Some(_) if architecture.has_tables() => calls(rule, (pattern, part), architecture),
                Some(filters) => unnamed_calls(rule, (pattern, part), filters, architecture),
            }
        }
        EventSource::Uprobe { .. } | EventSource::Usdt { .. } | EventSource::Kprobe { .. } => {
            // The event is not there yet.
            parsed(rule)?;
            Ok(Vec::new())
        }
    }
}

/// At the entry of a call it is not known what the call will return.
fn check_part(rule: &Rule, part: CallPart, catalog: &Catalog) -> Result<(), Refusal> {
    let (Some(filter), false) = (parsed(rule)?, part.has_exit()) else {
        return Ok(());
    };
    let Ok(entry) = catalog.by_name("raw_syscalls", "sys_enter") else {
        return Ok(());
    };
    let translation = filter::translate(&filter, entry, None).map_err(|error| Refusal::filter(&filter, error))?;
    match translation.missing.iter().find(|missing| missing.name == "ret") {
        None => Ok(()),
        Some(ret) => {
            let reason = "`ret` is known only at the exit of a system call; leave out --entry";
            Err(Refusal::filter(&filter, FilterError::at(ret.position, reason)))
        }
    }
}

/// Where tracefs records the calls, arguments are known only at the entry of a call.
fn check_exits(rule: &Rule, part: CallPart, resolved: &[ResolvedEvent]) -> Result<(), Refusal> {
    let rejects_none = |event: &ResolvedEvent| match event {
        ResolvedEvent::Syscall {
            condition: Some(condition),
            ..
        } => filters::of_exit(condition) == Condition::Always(true),
        _ => true,
    };
    let (Some(filter), false) = (parsed(rule)?, part.has_entry()) else {
        return Ok(());
    };
    if !resolved.iter().all(rejects_none) {
        return Ok(());
    }
    let reason = "without BPF, arguments are known only at the entry of a system call: the filter would reject no exit; leave out --exit, or filter by `ret`";
    Err(Refusal::filter(&filter, FilterError::at(0, reason)))
}

/// What the filter of a rule of system calls means for the kernel's events of their entries and exits. A filter that names the returned value is for
/// exits alone, and then entries are all recorded. `None` if it names arguments, which the kernel cannot compare: then the kernel records all, and the
/// converter filters.
///
/// # Errors
/// The filter is wrong, or names arguments where system calls have no names.
pub fn syscall_filters(rule: &Rule, catalog: &Catalog) -> Result<Option<SyscallFilters>, Refusal> {
    let Some(filter) = parsed(rule)? else {
        return Ok(Some(SyscallFilters::default()));
    };
    let refused = |error| Refusal::filter(&filter, error);
    let translated = |name| match catalog.by_name("raw_syscalls", name) {
        Ok(event) => filter::translate(&filter, event, None).map(Some),
        Err(_) => Ok(None),
    };
    let (entry, exit) = (
        translated("sys_enter").map_err(refused)?,
        translated("sys_exit").map_err(refused)?,
    );
    let missing = exit.as_ref().and_then(|exit| exit.missing.first());
    if let Some(missing) = missing {
        let architecture = catalog.architecture();
        if architecture.has_tables() {
            return Ok(None);
        }
        let reason = format!(
            "on {}, filters on system calls can compare id, ret (only at exits), $tid, $comm and $cpu",
            architecture.name()
        );
        return Err(refused(FilterError::at(missing.position, reason)));
    }
    let words = |words: Option<Words>| match words {
        Some(Words::Some(words)) => Ok(Some(words)),
        Some(Words::Nothing) => Err(refused(FilterError::at(0, "no system call can match it"))),
        Some(Words::Everything) | None => Ok(None),
    };
    let entry = entry.filter(|entry| entry.missing.is_empty());
    Ok(Some(SyscallFilters {
        entry: words(entry.map(|entry| entry.words))?,
        exit: words(exit.map(|exit| exit.words))?,
    }))
}

/// The filter of a rule.
///
/// # Errors
/// Its text is not a filter.
pub(crate) fn parsed(rule: &Rule) -> Result<Option<Filter>, Refusal> {
    let Some(text) = &rule.filter else { return Ok(None) };
    let filter = Filter::parse(text);
    filter.map(Some).map_err(|error| Refusal::InvalidFilter {
        filter: text.clone(),
        position: error.position,
        reason: error.reason,
    })
}

impl Refusal {
    fn filter(filter: &Filter, error: FilterError) -> Refusal {
        Refusal::InvalidFilter {
            filter: filter.to_string(),
            position: error.position,
            reason: error.reason,
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
    let filter = parsed(rule)?;
    let mut without = Without::default();
    let mut resolved = Vec::new();
    for (system, name, trace_name) in meant {
        let filter = match &filter {
            None => Words::Everything,
            Some(filter) => filter_of(filter, (system, name, trace_name), catalog, &mut without)?,
        };
        let filter = match filter {
            Words::Nothing => continue,
            Words::Everything => None,
            Words::Some(words) => Some(words),
        };
        resolved.push(ResolvedEvent::Tracepoint {
            system: (*system).to_owned(),
            name: (*name).to_owned(),
            filter,
        });
    }
    match without.error(resolved.is_empty()) {
        Some(error) => Err(Refusal::InvalidFilter {
            filter: rule.filter.clone().unwrap_or_default(),
            position: error.position,
            reason: error.reason,
        }),
        None => Ok(resolved),
    }
}

/// What the events of a rule lack of its filter, so far.
#[derive(Default)]
struct Without {
    /// Fields that none of them has, and what to say of each.
    missing: Option<Vec<(MissingField, FilterError)>>,
    /// Why the first of them that has all fields cannot fulfil it.
    never: Option<FilterError>,
    /// Why the first format that cannot be read cannot.
    unreadable: Option<FilterError>,
}

impl Without {
    /// The filter is wrong: a field is nowhere, or no event can fulfil it.
    fn error(self, is_nothing_left: bool) -> Option<FilterError> {
        let mut missing = self.missing.unwrap_or_default().into_iter();
        let never = self.never.or(self.unreadable).filter(|_| is_nothing_left);
        missing.next().map(|(_, error)| error).or(never)
    }
}

/// What the kernel is told for an event of a rule.
fn filter_of(
    filter: &Filter,
    (system, name, trace_name): (&str, &str, &str),
    catalog: &Catalog,
    without: &mut Without,
) -> Result<Words, Refusal> {
    let event = match catalog.by_name(system, name) {
        Ok(event) => event,
        Err(error) => {
            without.unreadable.get_or_insert(FilterError::at(0, error.to_string()));
            return Ok(Words::Nothing);
        }
    };
    let translation =
        filter::translate(filter, event, Some(trace_name)).map_err(|error| Refusal::filter(filter, error))?;
    match &mut without.missing {
        None => {
            let told = |missing: MissingField| {
                let error = filter::no_such_field(&missing, event);
                (missing, error)
            };
            without.missing = Some(translation.missing.into_iter().map(told).collect());
        }
        Some(missing) => missing.retain(|(known, _)| translation.missing.contains(known)),
    }
    if translation.words == Words::Nothing && without.never.is_none() {
        without.never = Some(filter::never_true(filter, event));
    }
    Ok(translation.words)
}

/// Where no call has a name, all are recorded or none.
fn unnamed_calls(
    rule: &Rule,
    (pattern, part): (&str, CallPart),
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
    let entry = part.has_entry().then(|| raw("sys_enter", filters.entry));
    let exit = part.has_exit().then(|| raw("sys_exit", filters.exit));
    Ok(entry.into_iter().chain(exit).collect())
}

fn calls(
    rule: &Rule,
    (pattern, part): (&str, CallPart),
    architecture: Architecture,
) -> Result<Vec<ResolvedEvent>, Refusal> {
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
        part,
        table,
        number: call.number,
        name: call.name,
        condition: None,
    });
    Ok(resolved.collect())
}

/// The calls that a rule means, with its filter for each.
fn filtered_calls(
    rule: &Rule,
    (pattern, part): (&str, CallPart),
    architecture: Architecture,
    memory: Option<&Memory>,
) -> Result<Vec<ResolvedEvent>, Refusal> {
    let mut meant = calls(rule, (pattern, part), architecture)?;
    let Some(filter) = parsed(rule)? else { return Ok(meant) };
    let refused = |error| Refusal::filter(&filter, error);
    // Fields that none of them has, so far.
    let mut missing: Option<Vec<MissingField>> = None;
    let mut names = BTreeSet::new();
    let mut resolved = Vec::new();
    for event in &mut meant {
        let ResolvedEvent::Syscall {
            table,
            number,
            condition: found,
            ..
        } = event
        else {
            continue;
        };
        let Some(call) = architecture.by_number(*table, *number) else {
            continue;
        };
        let translation = filter::translate_call(&filter, *table, call, memory).map_err(refused)?;
        match &mut missing {
            None => missing = Some(translation.missing),
            Some(missing) => missing.retain(|field| translation.missing.contains(field)),
        }
        if missing.as_ref().is_some_and(|missing| !missing.is_empty()) {
            names.extend(field_names::of_call(*table, *number, architecture));
        }
        *found = match translation.condition {
            Condition::Always(false) => continue,
            Condition::Always(true) => None,
            condition => {
                filters::Filter::of(&condition).map_err(|filters::TooMany| {
                    let reason = format!("a filter on system calls can have at most {TEST_COUNT} comparisons");
                    refused(FilterError::at(0, reason))
                })?;
                Some(condition)
            }
        };
        resolved.push(event.clone());
    }
    if let Some(missing) = missing.unwrap_or_default().first() {
        let near = match nearest(&missing.name, names.iter().map(String::as_str), 1).as_slice() {
            [near, ..] => format!(" (did you mean {near}?)"),
            [] => String::new(),
        };
        let reason = match missing.name.as_str() {
            "id" => "`id` cannot be compared together with arguments, or by BPF: choose calls by name with --syscall"
                .to_owned(),
            name => format!("no system call matching {pattern:?} has a field `{name}`{near}"),
        };
        return Err(refused(FilterError::at(missing.position, reason)));
    }
    if resolved.is_empty() {
        return Err(refused(FilterError::at(0, "no system call can satisfy it")));
    }
    Ok(resolved)
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
