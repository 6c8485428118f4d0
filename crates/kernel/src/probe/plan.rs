// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wish -> the definitions that the kernel takes for it. Reads files, writes nothing.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::arguments::{self, Site};
use super::asker::Asker;
use super::elf::Elf;
use super::error::ProbeError;
use super::fetch::{self, Probed};
use super::kernel_place;
use super::usdt::{self, Note};
use super::{names, place};
use crate::spec::EventSource;
use piste_patterns::nearest;

/// What one source takes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) definitions: Vec<Definition>,
    /// What is left out of it and why.
    pub(super) findings: Vec<String>,
}

/// One tracefs event to be, at one place.
#[derive(Debug)]
pub(super) struct Definition {
    /// Its name in the trace.
    pub(super) trace_name: String,
    pub(super) is_return: bool,
    pub(super) target: Target,
    /// `NAME=FETCH:TYPE` each.
    pub(super) arguments: Vec<String>,
}

/// The place.
#[derive(Debug)]
pub(super) enum Target {
    File {
        /// The file that was looked at: by its path the kernel could find another one.
        file: Arc<File>,
        /// What the kernel knows the file by.
        identity: (u64, u64),
        offset: u64,
        /// Offset of a counter of listeners.
        semaphore: Option<u64>,
    },
    Kernel {
        /// `SYMBOL+OFFSET`.
        place: String,
    },
}

impl Definition {
    /// Its name in tracefs.
    pub(super) fn event_name(&self) -> String {
        let kind = self.kind().to_string();
        let place = match &self.target {
            // A file that took another one's place is another place, though the path is the same.
            Target::File {
                identity,
                offset,
                semaphore,
                ..
            } => format!("{identity:x?} {offset:x} {semaphore:x?}"),
            Target::Kernel { place } => place.clone(),
        };
        let mut parts = vec![kind.as_str(), self.trace_name.as_str(), place.as_str()];
        parts.extend(self.arguments.iter().map(String::as_str));
        names::event(&self.trace_name, &parts)
    }

    /// Names of its fields: where it happens, and its arguments.
    pub(super) fn field_names(&self) -> Vec<String> {
        let places: &[&str] = if self.is_return { &["func", "ret_ip"] } else { &["ip"] };
        let arguments = self.arguments.iter().filter_map(|argument| argument.split('=').next());
        places.iter().copied().chain(arguments).map(str::to_owned).collect()
    }

    /// `p`, or `r` at returns.
    pub(super) fn kind(&self) -> char {
        if self.is_return { 'r' } else { 'p' }
    }
}

/// The name in the trace of a source's event; absent for one that is no probe.
pub(super) fn trace_name(source: &EventSource) -> Option<String> {
    match source {
        EventSource::Tracepoint { .. } | EventSource::Syscall { .. } => None,
        EventSource::Uprobe { name, .. } | EventSource::Kprobe { name, .. } => Some(name.clone()),
        EventSource::Usdt { provider, probe, .. } => Some(format!("{provider}:{probe}")),
    }
}

/// The definitions for a source; none for one that is no probe.
pub(super) fn plan(source: &EventSource, asker: Asker) -> Result<Plan, ProbeError> {
    match source {
        EventSource::Tracepoint { .. } | EventSource::Syscall { .. } => Ok(Plan::default()),
        EventSource::Uprobe {
            name,
            binary,
            place,
            arguments,
            is_return,
        } => {
            names::check(name)?;
            let elf = Elf::open(Path::new(binary))?;
            let is_return = *is_return;
            let is_kernel = false;
            let arguments = fetch::checked(arguments, Probed { is_kernel, is_return })?;
            if let Some(argument) = arguments.iter().find(|argument| fetch::reads_memory(argument)) {
                asker.must_be_root(
                    format!("an argument that is read from memory, \"{argument}\","),
                    "it would reveal data of other users' programs; registers can be recorded",
                )?;
            }
            let definitions = place::offsets(&elf, place, is_return, asker)?
                .into_iter()
                .map(|offset| Definition {
                    trace_name: name.clone(),
                    is_return,
                    target: Target::file(&elf, offset, None),
                    arguments: arguments.clone(),
                });
            Ok(Plan {
                definitions: definitions.collect(),
                findings: Vec::new(),
            })
        }
        EventSource::Usdt {
            binary,
            provider,
            probe,
        } => static_probe(binary, provider, probe, asker),
        EventSource::Kprobe {
            name,
            place,
            arguments,
            is_return,
        } => {
            names::check(name)?;
            asker.must_be_root(
                format!("a probe in the kernel, \"{place}\","),
                "record tracepoints and system calls instead (`piste list -k`)",
            )?;
            let is_return = *is_return;
            let is_kernel = true;
            let place = kernel_place::checked(place, is_return)?;
            let definition = Definition {
                trace_name: name.clone(),
                is_return,
                target: Target::Kernel { place },
                arguments: fetch::checked(arguments, Probed { is_kernel, is_return })?,
            };
            Ok(Plan {
                definitions: vec![definition],
                findings: Vec::new(),
            })
        }
    }
}

impl Target {
    fn file(elf: &Elf, offset: u64, semaphore: Option<u64>) -> Target {
        Target::File {
            file: elf.file(),
            identity: elf.identity(),
            offset,
            semaphore,
        }
    }
}

fn static_probe(binary: &str, provider: &str, probe: &str, asker: Asker) -> Result<Plan, ProbeError> {
    let trace_name = format!("{provider}:{probe}");
    names::check(&trace_name)?;
    let elf = Elf::open(Path::new(binary))?;
    let notes = usdt::notes(&elf);
    let of_name: Vec<&Note> = notes
        .iter()
        .filter(|note| note.provider == provider && note.probe == probe)
        .collect();
    if of_name.is_empty() {
        let known: Vec<String> = notes
            .iter()
            .map(|note| format!("{}:{}", note.provider, note.probe))
            .collect();
        return Err(ProbeError::NoPlace {
            binary: binary.into(),
            wanted: format!("static probe \"{trace_name}\""),
            nearest: nearest(&trace_name, known.iter().map(String::as_str), 3),
        });
    }
    let mut plan = Plan::default();
    for note in of_name {
        let Some(offset) = elf.code_offset(note.address) else {
            let address = note.address;
            plan.findings.push(format!(
                "{binary}: {trace_name} at {address:#x} is not in the code; it is not probed"
            ));
            continue;
        };
        let (mut arguments, mut left_out) = note_arguments(&elf, note, offset);
        if asker == Asker::Other {
            let of_memory = arguments.extract_if(.., |argument| fetch::reads_memory(argument));
            left_out.extend(
                of_memory.map(|argument| format!("{argument} is read from memory, which only root may record")),
            );
        }
        plan.findings.extend(
            left_out
                .iter()
                .map(|reason| format!("{binary}: {trace_name} at {offset:#x}: {reason}")),
        );
        let semaphore = note.semaphore.and_then(|address| elf.offset(address));
        if note.semaphore.is_some() && semaphore.is_none() {
            plan.findings.push(format!(
                "{binary}: {trace_name} at {offset:#x}: its semaphore is not in the file; the program may not generate the event"
            ));
        }
        plan.definitions.push(Definition {
            trace_name: trace_name.clone(),
            is_return: false,
            target: Target::file(&elf, offset, semaphore),
            arguments,
        });
    }
    if plan.definitions.is_empty() {
        return Err(ProbeError::Place {
            place: trace_name,
            reason: format!("none of its places is in the code of {binary}"),
        });
    }
    Ok(plan)
}

/// A note's arguments in the words of tracefs, and why some are left out.
pub(super) fn note_arguments(elf: &Elf, note: &Note, offset: u64) -> (Vec<String>, Vec<String>) {
    if !cfg!(target_arch = "x86_64") {
        let reason =
            "arguments of static probes can be read only on x86-64; it is recorded without arguments".to_owned();
        return (
            Vec::new(),
            if note.arguments.is_empty() {
                Vec::new()
            } else {
                vec![reason]
            },
        );
    }
    let site = Site {
        address: note.address,
        offset,
        symbols: &|| elf.symbols(Asker::Root),
    };
    let mut words = Vec::new();
    let mut left_out = Vec::new();
    for argument in arguments::translate(&note.arguments, &site) {
        match argument {
            Ok(argument) => words.push(argument),
            Err(reason) => left_out.push(reason),
        }
    }
    (words, left_out)
}
