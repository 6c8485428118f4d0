// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names what lies at the addresses in events: functions and variables of the programs and libraries that were in memory, of the kernel, and code
//! that processes made while they ran. Names come from files that are on this computer, or, if that is wanted, from debuginfod.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use piste_mappings::Mapped;
use piste_symbols::debuginfod::Debuginfod;
use piste_symbols::image::Image;
use piste_trace::symbols::{EventSymbols, Origin, SymbolSource};
use piste_trace::{Span, Trace};

use crate::kernel_names::{KernelNames, is_of_this_boot};
use crate::mappings::{self, Map, Mappings};
use crate::memory::{Files, is_file, open};
use crate::perf_maps::{PerfMaps, Process};
use crate::processes::Processes;
use crate::space::Space;

/// The kernel's memory begins here.
const KERNEL: u64 = 0xffff_8000_0000_0000;
/// Nothing lies below: it is a small number, or a null pointer with a small offset.
const LOWEST: u64 = 0x1000;
/// Answers that are kept.
const KNOWN_MAX: usize = 1 << 18;

/// Where names may come from besides the files on this computer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nowhere.
    #[default]
    No,
    /// The servers that the user has set for debuginfod.
    Debuginfod,
}

/// Names for the addresses in some traces.
#[derive(Clone, Debug)]
pub struct Symbols<'t>(Arc<Shared<'t>>);

/// What all who ask have in common.
#[derive(Debug)]
struct Shared<'t> {
    traces: &'t [Trace],
    /// By trace: its machine.
    machine_of: Vec<usize>,
    machines: Vec<Machine>,
    kernel: KernelNames,
    is_of_this_boot: bool,
    files: Mutex<Files<Image>>,
    /// Of the files that are not here, those that an address may have been in.
    missing: Mutex<BTreeSet<String>>,
    debuginfod: Option<Debuginfod>,
    perf_maps: PerfMaps,
    end_ns: i64,
}

/// The processes of a machine.
#[derive(Debug, Default)]
struct Machine {
    /// Read when a name is asked for.
    told: OnceLock<Told>,
    /// An address of a program was asked for.
    is_wanted: AtomicBool,
}

#[derive(Debug)]
struct Told {
    processes: Processes,
    mappings: Mappings,
}

impl Machine {
    /// Nothing is known of any process, but an address of one was asked for.
    fn lacks_mappings(&self) -> bool {
        // Relaxed: those who ask have ended.
        self.is_wanted.load(Ordering::Relaxed) && self.told.get().is_some_and(|told| told.mappings.is_empty())
    }
}

impl<'t> Symbols<'t> {
    /// For some traces. Nothing is read before the first name is asked for.
    pub fn new(traces: &'t [Trace], network: Network) -> Symbols<'t> {
        let mut hosts: Vec<Option<&str>> = Vec::new();
        let machine_of = traces.iter().map(|trace| {
            let host = trace.environment("hostname");
            // Traces that do not say which machine they are of may each be of another one.
            let known = hosts.iter().position(|known| host.is_some() && *known == host);
            known.unwrap_or_else(|| {
                hosts.push(host);
                hosts.len() - 1
            })
        });
        Symbols(Arc::new(Shared {
            traces,
            machine_of: machine_of.collect(),
            machines: hosts.iter().map(|_| Machine::default()).collect(),
            kernel: KernelNames::new(traces),
            is_of_this_boot: is_of_this_boot(traces),
            files: Mutex::default(),
            missing: Mutex::default(),
            debuginfod: (network == Network::Debuginfod).then(Debuginfod::default),
            perf_maps: PerfMaps::default(),
            end_ns: Span::of(traces).map_or(i64::MAX, |span| span.end_ns),
        }))
    }

    /// For a reader of the traces' events. Several may read at once.
    pub fn of_events(&self) -> EventSymbols<'t> {
        let source = Source {
            shared: Arc::clone(&self.0),
            known: HashMap::new(),
        };
        EventSymbols::new(self.0.traces, Box::new(source))
    }

    /// Sentences about names that are not known, of those that were asked for.
    pub fn notes(&self) -> Vec<String> {
        let shared = &self.0;
        let mut notes = Vec::from_iter(shared.kernel.note("the addresses of the kernel"));
        let told = shared.machines.iter().filter_map(|machine| machine.told.get());
        notes.extend(told.flat_map(|told| told.mappings.notes.iter().cloned()));
        if shared.machines.iter().any(Machine::lacks_mappings) {
            let note = "addresses of programs have no names: the trace does not say which files were mapped where; record the kernel as \
                 well, or add `-u 'lttng_ust_statedump:*'`";
            notes.push(note.to_owned());
        }
        let missing = shared.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if !missing.is_empty() {
            let paths = Vec::from_iter(missing.iter().map(String::as_str)).join(", ");
            notes.push(format!(
                "addresses in these files have no names, because the files are gone or have changed: {paths}"
            ));
        }
        if let Some(why) = shared.debuginfod.as_ref().and_then(Debuginfod::failure) {
            notes.push(format!("debuginfod is not used: {why}"));
        }
        notes.extend(shared.perf_maps.notes());
        notes
    }
}

/// Answers one reader, and keeps the answers.
#[derive(Debug)]
struct Source<'t> {
    shared: Arc<Shared<'t>>,
    known: HashMap<Key, Option<Box<str>>>,
}

/// What an answer holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    memory: Memory,
    address: u64,
    bits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Memory {
    /// By number of the list of names.
    Kernel(usize),
    Process(Place),
}

/// The memory of a process between two changes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    machine: usize,
    pid: i32,
    changes: usize,
}

impl SymbolSource for Source<'_> {
    fn symbol(&mut self, origin: &Origin, address: u64, bits: u32) -> Option<&str> {
        let shared = &self.shared;
        let memory = match address {
            ..LOWEST => return None,
            KERNEL.. => Memory::Kernel(shared.kernel.list_of(origin.trace)),
            _ => Memory::Process(shared.place(origin)?),
        };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let find = || match memory {
            Memory::Kernel(list) => {
                let symbol = shared.kernel.symbols(list).symbol(address);
                symbol.map(|(name, behind)| shown(name, behind))
            }
            Memory::Process(place) => shared.user_symbol(place, origin, address, bits),
        };
        let known = self.known.entry(Key { memory, address, bits }).or_insert_with(find);
        known.as_deref()
    }
}

impl Shared<'_> {
    /// In whose memory an event's addresses are.
    fn place(&self, origin: &Origin) -> Option<Place> {
        let machine = self.machine_of[origin.trace];
        let Told { processes, mappings } = self.told(machine);
        let pid = origin.pid.or_else(|| processes.of_thread(origin.tid?, origin.ns));
        // A process has the number of its first thread.
        let pid = pid.or(origin.tid)?;
        Some(Place {
            machine,
            pid,
            changes: mappings.count(pid, origin.ns),
        })
    }

    fn told(&self, machine: usize) -> &Told {
        self.machines[machine].told.get_or_init(|| {
            let of_machine = self.traces.iter().zip(&self.machine_of);
            let of_machine = of_machine
                .filter(|(_, known)| **known == machine)
                .map(|(trace, _)| trace);
            let mut processes = Processes::read(of_machine.clone());
            let loads = std::mem::take(&mut processes.loads);
            let mappings = Mappings::with_events(&mappings::paths(of_machine), loads);
            Told { processes, mappings }
        })
    }

    fn user_symbol(&self, place: Place, origin: &Origin, address: u64, bits: u32) -> Option<Box<str>> {
        let Place { machine, pid, changes } = place;
        let Told { processes, mappings } = self.told(machine);
        let map = (changes > 0).then(|| mappings.at(pid, origin.ns));
        if let Some(map) = &map {
            let space = map.space.get_or_init(|| Space::of(map, |part| self.image(part)));
            if let Some((image, offset)) = space.at(address) {
                let (name, behind) = image.symbol(offset).filter(|_| image.bits <= bits)?;
                return Some(shown(&name, behind));
            }
        }
        let process = Process {
            pid,
            user: origin.uid.or_else(|| processes.user(pid)),
            begin_ns: mappings.begin_ns(pid, origin.ns),
            end_ns: self.end_ns,
        };
        let of_perf_map = || self.perf_maps.symbol(&process, address);
        let symbol = (self.is_of_this_boot && bits == 64).then(of_perf_map).flatten();
        if symbol.is_none() {
            if let Some(map) = &map {
                self.note_missing(map, address);
            }
            // Relaxed: nothing else depends on it.
            self.machines[machine].is_wanted.store(true, Ordering::Relaxed);
        }
        symbol.map(|(name, behind)| shown(&name, behind))
    }

    /// Notes the files that are not here and nearest before an address without a name: behind a file's code lie its variables.
    fn note_missing(&self, map: &Map, address: u64) {
        for parts in [&map.mapped, &map.loaded] {
            if let Some((_, part)) = parts.range(..=address).next_back()
                && is_file(part)
                && self.image(part).is_none()
            {
                let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
                missing.insert(part.path.clone());
            }
        }
    }

    fn image(&self, part: &Mapped) -> Option<Arc<Image>> {
        if !is_file(part) {
            return None;
        }
        open(&self.files, part, |path, build_id| {
            Image::open(path, build_id, self.debuginfod.as_ref())
        })
    }
}

/// `greet`, `greet+0x4`. Names are of files that anybody may have made: they cannot send anything to a terminal.
fn shown(name: &str, behind: u64) -> Box<str> {
    let plain = |character: char| {
        if character.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            character
        }
    };
    let mut text: String = name.chars().map(plain).collect();
    if behind > 0 {
        // Writing to memory does not fail.
        let _ = write!(text, "+{behind:#x}");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_followed_by_how_far_behind_it_an_address_is() {
        for (name, behind, expected) in [
            ("greet", 0, "greet"),
            ("greet", 4, "greet+0x4"),
            ("Till::serve(int)", 0x1f, "Till::serve(int)+0x1f"),
            ("\x1b[31mred\n", 1, "\u{fffd}[31mred\u{fffd}+0x1"),
        ] {
            assert_eq!(&*shown(name, behind), expected);
        }
    }
}
