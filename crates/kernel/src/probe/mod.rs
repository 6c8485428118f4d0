// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: places in programs, libraries and the kernel at which the kernel is asked to make an event.
//!
//! ```text
//!   EventSource --plan-->  places of a file (elf, usdt), arguments in tracefs words  --define-->  tracefs events
//! ```
//!
//! - [`places`] lists what a file offers; [`check`] says what is wrong with a wish before anything is written.
//! - [`Probes`] are the tracefs events of a channel. One wish can take several: a static probe that was inlined in three functions is
//!   three places. Each place is an event of its own in tracefs, and all of them are one event of the trace
//!   ([`ProbeEvent::class_id`]).
//! - [`try_address`] asks the kernel about a place that is an address.
//! - [`leftovers`] removes what a dead owner left.
//!
//! A place in a function must be where an instruction begins (boundary): the kernel puts its breakpoint anywhere, and a program that runs over
//! one in the middle of an instruction fails or computes something else. Root may give `0xOFFSET` of the file, which nobody checks; what
//! others may ask for is in the table of [`Asker`].
//!
//! The kernel is given the file that was looked at, not its path. Whoever may write the file can still change it: it is theirs, and does what
//! they want with and without a probe.

mod arguments;
mod asker;
mod boundary;
mod define;
mod elf;
mod error;
mod fetch;
mod kernel_place;
mod listed;
mod names;
mod place;
mod plan;
mod remove;
mod trial;
mod usdt;

use std::path::Path;

pub use asker::Asker;
pub use define::{Plans, ProbeEvent, Probes};
pub use error::ProbeError;
pub use remove::leftovers;
pub use trial::try_address;

use elf::{Elf, Symbol, SymbolKind};
use plan::Definition;
use usdt::Note;

use crate::spec::EventSource;
use piste_patterns::matches;
use piste_symbols::demangle::demangle;

/// What kind of place to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePlaceKind {
    /// Functions.
    Symbol,
    /// Static probes.
    Usdt,
}

/// A place at which a file can be probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlace {
    /// Name of the function as the linker knows it, or `PROVIDER:NAME` of a static probe. Not unique: several functions have one
    /// name, and a static probe is wherever the compiler copied it.
    pub name: String,
    /// The function's name as its author wrote it, if that differs.
    pub demangled: Option<String>,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// What a static probe records, in the words of tracefs.
    pub arguments: Vec<String>,
    /// Whether the program asks if anybody listens before it computes the arguments; the kernel tells it so.
    pub has_semaphore: bool,
}

/// The places of `binary` whose name (or name as its author wrote it) matches `pattern`, in which `*` stands for any text; by name,
/// then offset.
///
/// # Errors
/// The file cannot be read or is not one that Linux runs.
pub fn places(binary: &Path, kind: ProbePlaceKind, pattern: Option<&str>) -> Result<Vec<ProbePlace>, ProbeError> {
    let elf = Elf::open(binary)?;
    let is_meant = |name: &str| pattern.is_none_or(|pattern| matches(pattern, name));
    let mut places: Vec<ProbePlace> = match kind {
        ProbePlaceKind::Symbol => elf
            .symbols(Asker::Root)
            .into_iter()
            .filter_map(|symbol| function(&elf, symbol))
            .collect(),
        ProbePlaceKind::Usdt => usdt::notes(&elf)
            .iter()
            .filter_map(|note| static_probe(&elf, note))
            .collect(),
    };
    places.retain(|place| is_meant(&place.name) || place.demangled.as_deref().is_some_and(is_meant));
    places.sort_by(|a, b| (&a.name, a.offset).cmp(&(&b.name, b.offset)));
    Ok(places)
}

/// Says what is wrong with a probe, without writing anything: the file, the place, the arguments, or that this kernel has no such
/// probes, or that `asker` may not have it; else the names in the trace of its event's fields. Other sources than probes are always well,
/// and have none.
///
/// # Errors
/// What [`Probes::define`] would meet, apart from what only the kernel knows.
pub fn check(source: &EventSource, asker: Asker) -> Result<Vec<String>, ProbeError> {
    let definitions = plan::plan(source, asker)?.definitions;
    Ok(definitions.iter().flat_map(Definition::field_names).collect())
}

/// Functions that are chosen among when the program starts are left out: they cannot be probed.
fn function(elf: &Elf, symbol: Symbol) -> Option<ProbePlace> {
    if symbol.kind != SymbolKind::Function {
        return None;
    }
    Some(ProbePlace {
        offset: elf.code_offset(symbol.address)?,
        demangled: demangle(&symbol.name),
        name: symbol.name,
        arguments: Vec::new(),
        has_semaphore: false,
    })
}

fn static_probe(elf: &Elf, note: &Note) -> Option<ProbePlace> {
    let offset = elf.code_offset(note.address)?;
    Some(ProbePlace {
        name: format!("{}:{}", note.provider, note.probe),
        demangled: None,
        offset,
        arguments: plan::note_arguments(elf, note, offset).0,
        has_semaphore: note.semaphore.is_some(),
    })
}
