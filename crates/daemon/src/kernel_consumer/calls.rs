// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of a channel, where the BPF program records them, with what their arguments point to.
//!
//! The program has a ring for each CPU, beside those of tracefs, and a stream for each. It records the threads that the channel's instance
//! records: who that is, is found out for tracefs (`piste_kernel::tracked`), and taken from its list.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use piste_bpf::{Program, Settings, Switches};
use piste_filter::Condition;
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{CALL_ENTRY, CALL_EXIT, CALL_LATE_EXIT, Converter, LivingThreads, program_call};
use piste_kernel::filled_ring::FilledRing;
use piste_kernel::instance::Instance;
use piste_kernel::resolve::{self, ResolvedEvent};
use piste_kernel::shared_buffer::{RingKey, SharedBuffer};
use piste_kernel::spec::{CallPart, ChannelSpec, EventSource, Loss, Memory, Rule, Tracked};
use piste_kernel::tracked;
use piste_reason::reason;
use piste_syscalls::Table;
use piste_syscalls::copies::{CALL_COUNT, Call, TABLE_COUNT};
use piste_syscalls::filters::{FILTER_COUNT, Filter, TEST_COUNT, Test};

use super::call_supply::CallSupply;
use super::channel::Frame;
use super::hidden;
use super::ring::{CpuRing, Home, Opening};

/// Of the pages that are made of its records.
pub(super) const PAGE_BYTES: u32 = 64 << 10;
/// Of a ring that is emptied all the time, because it cannot overwrite what is old.
const RECORDER_RING_BYTES: u64 = 8 << 20;

/// The program of a channel. The kernel keeps it under the name of the channel's instance, so that it outlives this process.
pub(super) struct Calls {
    program: Arc<Program>,
    pub(super) converter: Converter,
    pub(super) rings: Vec<CpuRing>,
    /// It was loaded here; no other consumer had it.
    is_new: bool,
}

/// Removes an instance, and the program that is kept for its channel.
///
/// # Errors
/// The kernel's.
pub fn remove_instance(instance: Instance) -> io::Result<()> {
    piste_bpf::remove(&instance.name())?;
    instance.remove()
}

/// What the program records of a channel; `None` when it has nothing to do there.
pub(super) fn memory_of(spec: &ChannelSpec) -> Option<Memory> {
    spec.memory
        .filter(|_| sees_to_calls(spec) && spec.rules.iter().any(is_of_calls))
}

/// The channel without the rules that the program sees to.
pub(super) fn without_calls(spec: &ChannelSpec) -> ChannelSpec {
    let mut rest = spec.clone();
    if sees_to_calls(spec) {
        rest.rules.retain(|rule| !is_of_calls(rule));
    }
    rest
}

/// Whether the program records the calls. Stacks are tracefs' affair; of two rules for a call, one with stacks and one without, both would record
/// it, so it is all calls or none.
fn sees_to_calls(spec: &ChannelSpec) -> bool {
    let mut calls = spec.rules.iter().filter(|rule| rule.enabled && is_of_calls(rule));
    calls.all(|rule| rule.stack.is_none())
}

fn is_of_calls(rule: &Rule) -> bool {
    matches!(rule.source, EventSource::Syscall { .. })
}

impl Calls {
    /// Loads the program, or goes on with the one that is kept.
    ///
    /// # Errors
    /// Why there can be none, as a sentence.
    pub(super) fn open(
        spec: &ChannelSpec,
        frame: Frame<'_>,
        instance: &Instance,
        notes: &mut Vec<String>,
    ) -> Result<Calls, String> {
        let refuse = |error: io::Error| {
            format!(
                "cannot record the memory behind arguments of system calls: {}",
                reason(&error)
            )
        };
        let cpus = instance.cpus().map_err(refuse)?;
        let cpu_count = cpus.iter().max().map_or(1, |last| last + 1);
        let kept = match instance.is_new() {
            true => None,
            false => Program::kept(&instance.name()).map_err(refuse)?,
        };
        let is_new = kept.is_none();
        let program = match kept {
            Some(program) => program,
            None => load(spec, frame, cpu_count, instance, notes)?,
        };
        let program = Arc::new(program);
        let mut converter = converter(spec, frame);
        let home = Home {
            channel: spec,
            folders: frame.folders,
            chunks: frame.chunks,
            is_recorder: frame.is_recorder,
        };
        let mut rings = Vec::new();
        for &cpu in &cpus {
            let key = RingKey {
                session: frame.session,
                stream_id: spec.stream_id,
                cpu,
            };
            let supply = CallSupply::open(program.clone(), cpu, frame.clock, frame.frequency_hz).map_err(refuse)?;
            let buffer = SharedBuffer::open(&frame.folders.file(&spec.name, cpu, "calls"), key, PAGE_BYTES);
            let opening = Opening {
                cpu,
                pages: Box::new(FilledRing::open(supply, &frame.kernel.pages, buffer.map_err(refuse)?)),
                // Behind the streams of tracefs.
                instance_id: u64::from(cpu_count + cpu),
                is_new,
                loss: Loss::Discard,
                files: "calls_",
            };
            rings.push(CpuRing::open(&home, opening, &mut converter, notes)?);
        }
        Ok(Calls {
            program,
            converter,
            rings,
            is_new,
        })
    }

    /// The finding that the calls of threads may be missing, because the kernel had no memory to note that they started.
    pub(super) fn untracked(&self) -> Option<String> {
        // What cannot be read is a finding already: that it is not known what was lost.
        let counts = self
            .rings
            .iter()
            .filter_map(|ring| self.program.counts(ring.cpu()).ok());
        let threads: u64 = counts.map(|counts| counts.untracked).sum();
        (threads > 0).then(|| {
            format!("system calls of {threads} new threads may be missing: the kernel had no memory to note that they are to be recorded")
        })
    }

    /// Of each of its rings.
    pub(super) fn ring_bytes(&self) -> u64 {
        self.program.ring_bytes()
    }

    /// It was loaded here; no other consumer had it.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Records what the rules say, of the threads that the instance records. Returns findings.
    pub(super) fn select(&self, spec: &ChannelSpec, catalog: &Catalog) -> Vec<String> {
        let mut wanted = Wanted::of(spec, catalog, &spec.memory.unwrap_or_default());
        let mut findings = std::mem::take(&mut wanted.findings);
        let mut set = |table: usize, number: usize, call: &Call| {
            if let Err(error) = self.program.set_call(table, number, call) {
                findings.push(format!(
                    "cannot change what is recorded of system call {number}: {}",
                    reason(&error)
                ));
            }
        };
        // A call must not have another one's filter, not even for a moment: it has none while filters change.
        for (table, calls) in wanted.calls.iter().enumerate() {
            for (number, call) in calls.iter().enumerate() {
                let unfiltered = Call {
                    filter: None,
                    ..call.clone()
                };
                set(table, number, &unfiltered);
            }
        }
        let mut failed = Vec::new();
        for (index, filter) in (0..).zip(&wanted.filters) {
            if let Err(error) = self.program.set_filter(index, filter) {
                failed.push(format!("cannot apply a filter on system calls: {}", reason(&error)));
            }
        }
        for (table, number, call) in wanted.filtered() {
            set(table, number, call);
        }
        findings.extend(failed);
        findings
    }

    /// Records or not, of the threads that the instance records by now.
    pub(super) fn set_on(&self, is_on: bool, instance: &Instance, tracked: &Tracked) -> io::Result<()> {
        self.program.choose_cpus(&tracked.cpus)?;
        let wanted = Switches {
            is_on,
            selects_cpus: !tracked.cpus.is_empty(),
            is_selective: tracked.selects_threads(),
            follows: tracked.follow_children || !tracked.pids.is_empty() && tracked.needs_refresh(),
            hides: tracked.pids.is_empty(),
        };
        // The threads are to be known when it begins to look at them, and those that they start meanwhile.
        self.program.switch(Switches {
            follows: wanted.follows,
            ..self.program.switches()?
        })?;
        if wanted.hides {
            for pid in hidden::own_processes() {
                self.program.hide(pid)?;
            }
        }
        self.follow(instance, tracked)?;
        self.program.switch(wanted)
    }

    /// Takes over the list of threads of the instance. One that starts meanwhile is found in the list or followed, so it is read until nothing is
    /// new.
    pub(super) fn follow(&self, instance: &Instance, tracked: &Tracked) -> io::Result<()> {
        if !tracked.selects_threads() {
            return Ok(());
        }
        let mut known: Vec<i32> = self.program.tracked();
        known.sort_unstable();
        loop {
            let listed = tracked::recorded_threads(instance)?;
            let new: Vec<i32> = listed
                .iter()
                .copied()
                .filter(|tid| known.binary_search(tid).is_err())
                .collect();
            for tid in known.iter().filter(|tid| listed.binary_search(tid).is_err()) {
                self.program.untrack(*tid)?;
            }
            if new.is_empty() {
                return Ok(());
            }
            for tid in &new {
                self.program.track(*tid)?;
            }
            known = listed;
        }
    }
}

fn load(
    spec: &ChannelSpec,
    frame: Frame<'_>,
    cpu_count: u32,
    instance: &Instance,
    notes: &mut Vec<String>,
) -> Result<Program, String> {
    let mut program = Program::load(&settings(spec, frame), cpu_count)
        .map_err(|error| format!("cannot record strings and structures of system calls, only addresses: {error}"))?;
    if let Err(error) = program.keep(&instance.name()) {
        notes.push(format!(
            "cannot pin the BPF program in /sys/fs/bpf: {}; if pisted is killed, system calls that are not written yet will be lost",
            reason(&error)
        ));
    }
    Ok(program)
}

/// Makes events of its records.
pub(super) fn converter(spec: &ChannelSpec, frame: Frame<'_>) -> Converter {
    let threads = Box::new(LivingThreads::new(frame.programs.cloned()));
    let kernel = frame.kernel;
    Converter::of_calls(kernel.catalog.clone(), kernel.layout.clone(), spec, threads)
}

fn settings(spec: &ChannelSpec, frame: Frame<'_>) -> Settings {
    // A power of two, as large as the ring of tracefs.
    let bytes = u64::from(spec.subbuf_bytes) * u64::from(spec.subbuf_count);
    let bytes = if frame.is_recorder {
        bytes.max(RECORDER_RING_BYTES)
    } else {
        bytes
    };
    let ring_bytes = bytes.next_power_of_two().clamp(1 << 18, 1 << 27) as u32;
    Settings {
        entry_type: CALL_ENTRY,
        exit_type: CALL_EXIT,
        late_type: CALL_LATE_EXIT,
        user: frame.owner.uid(),
        ring_bytes,
        // A trigger is told of the first call in an empty ring.
        wake_bytes: if frame.chunks.matches.is_some() {
            1
        } else {
            PAGE_BYTES / 2
        },
    }
}

/// What is to be recorded.
#[derive(Default)]
struct Wanted {
    /// By table and number.
    calls: [Vec<Call>; TABLE_COUNT],
    /// By the index that calls have.
    filters: Vec<Filter>,
    findings: Vec<String>,
}

impl Wanted {
    fn of(spec: &ChannelSpec, catalog: &Catalog, memory: &Memory) -> Wanted {
        let mut wanted = Wanted {
            calls: [(); TABLE_COUNT].map(|()| vec![Call::default(); CALL_COUNT]),
            ..Wanted::default()
        };
        let mut meant: BTreeMap<(usize, u32), Meant> = BTreeMap::new();
        let rules = spec.rules.iter().filter(|rule| rule.enabled && is_of_calls(rule));
        for rule in rules.filter(|_| sees_to_calls(spec)) {
            // Control has refused rules that mean nothing.
            for event in resolve::rule(rule, catalog, Some(memory)).unwrap_or_default() {
                let ResolvedEvent::Syscall {
                    part,
                    table,
                    number,
                    condition,
                    ..
                } = event
                else {
                    continue;
                };
                let new = Meant { part, condition };
                let known = meant.remove(&(table as usize, number));
                let all = match known {
                    Some(known) => known.or(new),
                    None => new,
                };
                meant.insert((table as usize, number), all);
            }
            match &rule.source {
                EventSource::Syscall { pattern, part } if pattern == "*" && rule.filter.is_none() => {
                    wanted.add_unknown(*part, catalog);
                }
                _ => {}
            }
        }
        for ((table, number), meant) in meant {
            wanted.add(table, number, meant, catalog, memory);
        }
        wanted
    }

    /// The calls that have filters: table, number, and what is to be recorded.
    fn filtered(&self) -> impl Iterator<Item = (usize, usize, &Call)> {
        let tables = self.calls.iter().enumerate();
        let all = tables.flat_map(|(table, calls)| {
            calls
                .iter()
                .enumerate()
                .map(move |(number, call)| (table, number, call))
        });
        all.filter(|(_, _, call)| call.filter.is_some())
    }

    /// Calls that are in no table.
    fn add_unknown(&mut self, part: CallPart, catalog: &Catalog) {
        let architecture = catalog.architecture();
        for (table, calls) in TABLES.into_iter().zip(&mut self.calls) {
            let numbered = (0..).zip(calls.iter_mut());
            for (_, call) in numbered.filter(|(number, _)| architecture.by_number(table, *number).is_none()) {
                call.entry |= part.has_entry();
                call.exit |= part.has_exit();
            }
        }
    }

    fn add(&mut self, table: usize, number: u32, meant: Meant, catalog: &Catalog, memory: &Memory) {
        let Meant { part, condition } = meant;
        let call = catalog.architecture().by_number(TABLES[table], number);
        let (Some(call), true) = (call, (number as usize) < CALL_COUNT - 1) else {
            return;
        };
        let filter = condition.and_then(|condition| self.filter(call.name, &condition));
        let calls = &mut self.calls[table];
        calls[number as usize] = Call {
            entry: part.has_entry(),
            exit: part.has_exit(),
            filter,
            ..program_call(TABLES[table], call, memory)
        };
        if call.name.ends_with("sigreturn") && part.has_exit() {
            // Its exit has lost its number.
            calls[CALL_COUNT - 1].exit = true;
        }
    }

    /// The index of the filter. Without it, all calls are recorded.
    fn filter(&mut self, call: &str, condition: &Condition<Test>) -> Option<u16> {
        let Ok(filter) = Filter::of(condition) else {
            self.findings.push(format!(
                "{call}: its filters have more than {TEST_COUNT} comparisons together, so all {call} calls are recorded; simplify them"
            ));
            return None;
        };
        let known = self.filters.iter().position(|known| *known == filter);
        let index = known.unwrap_or(self.filters.len());
        if index >= FILTER_COUNT {
            self.findings.push(format!(
                "{call}: there are more than {FILTER_COUNT} different filters, so all {call} calls are recorded; simplify them"
            ));
            return None;
        }
        if known.is_none() {
            self.filters.push(filter);
        }
        Some(index as u16)
    }
}

/// What rules want of a call.
struct Meant {
    part: CallPart,
    /// Which of its calls; absent: all of them.
    condition: Option<Condition<Test>>,
}

impl Meant {
    /// What one of two rules wants. The program has one filter for a call, so both parts are recorded wherever one rule passes.
    fn or(self, other: Meant) -> Meant {
        let part = match self.part == other.part {
            true => self.part,
            false => CallPart::Both,
        };
        let either = |one, other| Some(Condition::any(vec![one?, other?]));
        Meant {
            part,
            condition: either(self.condition, other.condition),
        }
    }
}

const TABLES: [Table; TABLE_COUNT] = [Table::Native, Table::Compat];
