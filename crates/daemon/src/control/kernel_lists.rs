// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists for people who look for something to trace: the kernel's events, system calls, places in programs; and what is missing.

use std::path::Path;

use piste_bpf::Program;
use piste_control::interface as shown;
use piste_kernel::layout::Layout;
use piste_kernel::list::{self, ListedEvent, ListedField, ListedSyscall};
use piste_kernel::probe::{self, ProbePlace, ProbePlaceKind};
use piste_kernel::{doctor, pattern};
use piste_syscalls::Architecture;

use super::kernel_checks::{not_entered, refused_probe};
use super::kernel_desk::Clerk;
use super::status::count;
use crate::person::Person;
use crate::session::Refusal;
use crate::session::rules::InvalidPattern;

fn check_pattern(text: Option<&str>) -> Result<(), Refusal> {
    match text.map(pattern::check) {
        Some(Err(invalid)) => Err(InvalidPattern::from(invalid).into()),
        _ => Ok(()),
    }
}

/// The kernel's events that a pattern means.
///
/// # Errors
/// The kernel cannot be asked, or the text is no pattern.
pub fn events(clerk: &mut Clerk, pattern: Option<&str>) -> Result<Vec<shown::KernelEvent>, Refusal> {
    check_pattern(pattern)?;
    let catalog = &clerk.catalog()?;
    let layout = Layout::new(catalog.names());
    let event = |event: ListedEvent| shown::KernelEvent {
        name: event.name,
        trace_name: event.trace_name,
        fields: fields(event.fields),
        help: event.help,
        // The catalog leaves those out that only other tracers can have.
        is_enabled_possible: true,
    };
    Ok(list::events(catalog, &layout, pattern).into_iter().map(event).collect())
}

/// The system calls whose name a pattern means.
///
/// # Errors
/// The text is no pattern.
pub fn syscalls(pattern: Option<&str>) -> Result<Vec<shown::Syscall>, Refusal> {
    check_pattern(pattern)?;
    let syscall = |syscall: ListedSyscall| shown::Syscall {
        name: syscall.name.to_owned(),
        number: syscall.number.map(i64::from),
        compat_number: syscall.compat_number.map(i64::from),
        arguments: fields(syscall.arguments),
    };
    Ok(list::syscalls(Architecture::HERE, pattern)
        .into_iter()
        .map(syscall)
        .collect())
}

fn fields(fields: Vec<ListedField>) -> Vec<shown::EventField> {
    let field = |field: ListedField| shown::EventField {
        name: field.name,
        r#type: field.type_text,
        recorded: Some(true),
    };
    fields.into_iter().map(field).collect()
}

/// The places in a binary whose name a pattern means, for somebody who may read it.
///
/// # Errors
/// The binary cannot be read, or is none.
pub fn probe_places(
    binary: &str,
    kind: &shown::ProbePlaceKind,
    pattern: Option<&str>,
    asking: &Person,
) -> Result<Vec<shown::ProbePlace>, Refusal> {
    if !binary.starts_with('/') {
        return Err(Refusal::InvalidProbe {
            probe: binary.to_owned(),
            reason: "the path of the binary must be absolute".into(),
        });
    }
    let kind = match kind {
        shown::ProbePlaceKind::symbol => ProbePlaceKind::Symbol,
        shown::ProbePlaceKind::usdt => ProbePlaceKind::Usdt,
    };
    let _as_asking = asking.enter().map_err(not_entered)?;
    let places =
        probe::places(Path::new(binary), kind, pattern).map_err(|error| refused_probe(binary.to_owned(), error))?;
    let place = |place: ProbePlace| shown::ProbePlace {
        name: place.name,
        demangled: place.demangled,
        offset: count(place.offset),
        arguments: place.arguments,
        semaphore: place.has_semaphore,
    };
    Ok(places.into_iter().map(place).collect())
}

/// What tracing here depends on.
pub fn checks(clerk: &Clerk) -> Vec<shown::Check> {
    let check = |check: doctor::Check| shown::Check {
        name: check.name,
        level: match check.level {
            doctor::Level::Ok => shown::CheckLevel::ok,
            doctor::Level::Note => shown::CheckLevel::note,
            doctor::Level::Lack => shown::CheckLevel::lack,
        },
        value: check.value,
        cost: check.cost,
        mend: check.mend,
    };
    let lack = Program::check()
        .err()
        .map(|failure| (failure.to_string(), failure.mend()));
    let checks = doctor::checks(clerk.run_folder()).into_iter();
    checks.chain([doctor::call_memory(lack)]).map(check).collect()
}
