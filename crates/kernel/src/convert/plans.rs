// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which plan is for which record. Plans are made when a record asks for one.

use std::collections::HashMap;
use std::sync::Arc;

use piste_ctf::metadata::{class_fingerprint, event_class};
use piste_ctf::{EventClass, Field, Label};

use super::detail::{Detail, Subject};
use super::event::{self, Event};
use super::returns::is_return;
use super::syscall::{self, CallFormat, Side};
use super::{Finding, call_filter, class_id, fields_of};
use crate::catalog::Catalog;
use crate::format::EventFormat;
use crate::layout::{CALLS, Layout};
use crate::plan::{Plan, TooFar};
use crate::probe::ProbeEvent;
use crate::shapes;
use crate::spec::{ChannelSpec, Context, Memory, Rule, Stack};
use crate::stacks::StackFormats;
use piste_filter::Condition;
use piste_syscalls::Table;
use piste_syscalls::filters::Test;

/// The plans of a channel.
pub(super) struct Plans {
    catalog: Arc<Catalog>,
    layout: Arc<Layout>,
    rules: Vec<Rule>,
    contexts: Vec<Context>,
    /// The last of them, which classes of events have.
    added: Vec<Field>,
    /// What is recorded of the memory that arguments of calls point to.
    memory: Option<Memory>,
    texts: Vec<Label>,
    /// With their formats, read at once: see [`Catalog::learn_formats`].
    probes: HashMap<u16, (ProbeEvent, Option<EventFormat>)>,
    pub(super) stacks: StackFormats,
    /// By the number that a record begins with.
    slots: Vec<Slot>,
    /// By table, side and number. Those of late exits follow.
    calls: Box<[Call; 8 * CALL_COUNT]>,
    all: Vec<Planned>,
    /// What is said of threads, by plan.
    watched: Vec<(u32, Watched)>,
    pub(super) new_classes: Vec<EventClass>,
    /// Fingerprints of the classes that the stream class has, by number.
    pub(super) classes: HashMap<u32, u64>,
    pub(super) findings: Vec<Finding>,
}

/// A plan, and what else there is to know of its event.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) class_id: u32,
    /// Name in the trace.
    pub(super) name: Box<str>,
    pub(super) stack: Option<Box<Stack>>,
    /// Which entries or exits of a system call become events; absent: all.
    pub(super) condition: Option<Box<Condition<Test>>>,
}

/// What to do with records of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// No record came so far.
    Unseen,
    /// The plan with this index.
    Plan(u32),
    /// The plan with this index; and the record says something of threads.
    Watched(u32),
    /// It is the entry or exit of a system call.
    Call(CallFormat),
    /// It is a stack and belongs to another record.
    Stack,
    /// Nothing is known of it.
    Unknown,
}

/// What a record says of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// Its thread made another: where that one's id and the flags are.
    Make { tid_from: u16, flags_from: u16 },
    /// Its thread executes a program.
    Exec,
    /// Its thread ends.
    Exit,
}

/// What to do with the entries, or the exits, of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Unseen,
    /// The plan with this index.
    Plan(u32),
    /// The plan with this index; and it is the entry of a return from a signal handler.
    Return(u32),
    /// The plan with this index, for those that satisfy its condition.
    Filtered(u32),
    /// No rule means it. Where both tables are recorded, the kernel's filter of numbers lets such calls through.
    Dropped,
}

/// Calls have smaller numbers; those that have not are kept together with this one.
const CALL_COUNT: usize = 1024;

impl Plans {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        layout: Arc<Layout>,
        channel: &ChannelSpec,
        probes: &[ProbeEvent],
    ) -> Plans {
        let format = |probe: &ProbeEvent| catalog.read_format(&probe.group, &probe.event).ok();
        let with_format = |probe: &ProbeEvent| (probe.id, (probe.clone(), format(probe)));
        let probes = probes.iter().map(with_format).collect();
        Plans {
            stacks: StackFormats::of(&catalog),
            texts: catalog.constant_texts(),
            catalog,
            layout,
            rules: channel.rules.clone(),
            contexts: channel.all_contexts().collect(),
            added: fields_of(&channel.added_contexts),
            memory: channel.memory,
            probes,
            slots: Vec::new(),
            calls: Box::new([Call::Unseen; 8 * CALL_COUNT]),
            watched: Vec::new(),
            all: Vec::new(),
            new_classes: Vec::new(),
            classes: HashMap::new(),
            findings: Vec::new(),
        }
    }

    /// For records of the BPF program: [`CALL_ENTRY`](super::CALL_ENTRY), [`CALL_EXIT`](super::CALL_EXIT) and
    /// [`CALL_LATE_EXIT`](super::CALL_LATE_EXIT).
    pub(super) fn of_calls(catalog: Arc<Catalog>, layout: Arc<Layout>, channel: &ChannelSpec) -> Plans {
        let kinds = [(Side::Entry, false), (Side::Exit, false), (Side::Exit, true)];
        Plans {
            slots: kinds
                .map(|(side, is_late)| Slot::Call(CallFormat::copied(side, is_late)))
                .to_vec(),
            ..Plans::new(catalog, layout, channel, &[])
        }
    }

    /// What to do with records that begin with `id`.
    #[inline(always)]
    pub(super) fn slot(&mut self, id: u16) -> Slot {
        match self.slots.get(usize::from(id)) {
            None | Some(Slot::Unseen) => self.new_slot(id),
            Some(slot) => *slot,
        }
    }

    /// What to do with an entry or exit of a call.
    #[inline(always)]
    pub(super) fn call(&mut self, table: Table, number: u64, format: CallFormat) -> Call {
        let number = number.min(CALL_COUNT as u64 - 1) as usize;
        match self.calls[call_index(table, number, format)] {
            Call::Unseen => self.new_call(table, number, format),
            call => call,
        }
    }

    /// What the records of a plan say of threads.
    pub(super) fn watched(&self, index: u32) -> Option<Watched> {
        let (_, watched) = self.watched.iter().find(|(plan, _)| *plan == index)?;
        Some(*watched)
    }

    /// The plan with this index.
    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> &Planned {
        &self.all[index as usize]
    }

    #[cold]
    fn new_slot(&mut self, id: u16) -> Slot {
        let slot = self.slot_of_format(id);
        let index = usize::from(id);
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::Unseen);
        }
        self.slots[index] = slot;
        slot
    }

    fn slot_of_format(&mut self, id: u16) -> Slot {
        if self.stacks.has(id) {
            return Slot::Stack;
        }
        if let Some((probe, format)) = self.probes.get(&id) {
            let rule = probe.rule.map(|rule| Subject::Probe { rule });
            let detail = rule.and_then(|rule| Detail::of(&self.rules, rule));
            let (class_id, name) = (class_id::of_probe(probe.class_id), probe.trace_name.clone());
            let Some(format) = format.clone() else {
                return Slot::Unknown;
            };
            return self
                .new_plan(&format, name, class_id, detail)
                .map_or(Slot::Unknown, Slot::Plan);
        }
        let catalog = Arc::clone(&self.catalog);
        let Some(format) = catalog.by_id(id) else {
            return Slot::Unknown;
        };
        self.findings.extend(other_shape(format));
        if let Some(format) = CallFormat::of(format) {
            self.findings.extend(unnamed_calls(&catalog, format.side));
            return Slot::Call(format);
        }
        let (system, name) = (&format.system, &format.name);
        let trace_name = self.layout.event_name(system, name);
        let subject = Subject::Tracepoint {
            system,
            name,
            trace_name: &trace_name,
        };
        let detail = Detail::of(&self.rules, subject);
        let class_id = match system.as_str() {
            // The numbers of frequent calls are those of calls whose fields the table tells.
            CALLS => class_id::of_probe(id),
            _ => class_id::of_event(&trace_name, id),
        };
        let Some(plan) = self.new_plan(format, trace_name, class_id, detail) else {
            return Slot::Unknown;
        };
        match Watched::of(format) {
            Some(watched) => {
                self.watched.push((plan, watched));
                Slot::Watched(plan)
            }
            None => Slot::Plan(plan),
        }
    }

    /// An event that no rule means is recorded as it is: somebody asked the instance for it.
    fn new_plan(&mut self, format: &EventFormat, name: String, class_id: u32, detail: Option<Detail>) -> Option<u32> {
        let detail = detail.unwrap_or_default();
        let event = Event {
            format,
            name: &name,
            class_id,
            detail: &detail,
            contexts: &self.contexts,
            texts: &self.texts,
        };
        let planned = event::plan(&event, &self.layout, &mut self.findings);
        self.add(planned, detail)
    }

    #[cold]
    fn new_call(&mut self, table: Table, number: usize, format: CallFormat) -> Call {
        let call = self.plan_call(table, number, format);
        self.calls[call_index(table, number, format)] = call;
        call
    }

    fn plan_call(&mut self, table: Table, number: usize, format: CallFormat) -> Call {
        const OTHERS: usize = CALL_COUNT - 1;
        let side = format.side;
        let architecture = self.catalog.architecture();
        let call = architecture.by_number(table, number as u32);
        if call.is_none() && number != OTHERS {
            return self.call(table, OTHERS as u64, format);
        }
        let trace_name = syscall::event_name(table, call, side);
        let subject = Subject::Syscall {
            name: call.map_or("unknown", |call| call.name),
            program_name: call.map_or("unknown", |call| call.program_name),
        };
        let raw = Subject::Tracepoint {
            system: "raw_syscalls",
            name: match side {
                Side::Entry => "sys_enter",
                Side::Exit => "sys_exit",
            },
            trace_name: &trace_name,
        };
        let detail = Detail::of(&self.rules, subject).or_else(|| Detail::of(&self.rules, raw));
        let Some(detail) = detail else {
            return Call::Dropped;
        };
        let mut condition = Condition::Always(true);
        if let Some(call) = call.filter(|_| !format.has_copies) {
            let chosen = call_filter::chosen(&self.rules, &self.catalog, (table, call), side, [subject, raw]);
            if chosen.is_given_up {
                let call = call.name.to_owned();
                self.findings.push(Finding::FilterGivenUp { call });
            }
            condition = chosen.condition;
        }
        if condition == Condition::Always(false) {
            return Call::Dropped;
        }
        let returns = side == Side::Entry && call.is_some_and(|call| is_return(call.name));
        match syscall::plan(table, call, format, self.memory.as_ref(), &detail, &self.contexts) {
            Ok(planned) => {
                let Some(index) = self.add(planned, detail) else {
                    return Call::Dropped;
                };
                if side == Side::Entry && Detail::has_exits(&self.rules, subject) {
                    self.describe_exit(table, number, format);
                }
                let is_filtered = condition != Condition::Always(true);
                if is_filtered {
                    if self.all.iter().all(|planned| planned.condition.is_none()) {
                        self.findings.push(Finding::FilteredLate);
                    }
                    self.all[index as usize].condition = Some(Box::new(condition));
                }
                match (returns, is_filtered) {
                    (true, _) => Call::Return(index),
                    (false, true) => Call::Filtered(index),
                    (false, false) => Call::Plan(index),
                }
            }
            Err(TooFar) => Call::Dropped,
        }
    }

    /// The trace describes the exit of a call together with its entry, though no exit may come: of a call without one, readers know that exits are
    /// not recorded.
    fn describe_exit(&mut self, table: Table, number: usize, entry: CallFormat) {
        let exit = match entry.has_copies {
            true => Some(CallFormat::copied(Side::Exit, false)),
            false => {
                let format = self.catalog.by_name("raw_syscalls", "sys_exit");
                format.ok().and_then(CallFormat::of)
            }
        };
        if let Some(exit) = exit {
            self.call(table, number as u64, exit);
        }
    }

    /// `None` when every number that the class may have is that of another one.
    fn add(&mut self, (plan, mut class): (Plan, EventClass), detail: Detail) -> Option<u32> {
        let index = self.all.len() as u32;
        class.contexts.clone_from(&self.added);
        let fingerprint = class_fingerprint(&event_class(0, &class));
        let mut ids = class_id::candidates(class.id, fingerprint);
        class.id = ids.find(|id| *self.classes.entry(*id).or_insert(fingerprint) == fingerprint)?;
        self.all.push(Planned {
            plan,
            class_id: class.id,
            name: class.name.as_str().into(),
            stack: detail.stack.map(Box::new),
            condition: None,
        });
        // The places of a probe have one class.
        if !self.new_classes.iter().any(|other| other.id == class.id) {
            self.new_classes.push(class);
        }
        Some(index)
    }
}

/// What is said of an event that the analyses know in another shape.
fn other_shape(format: &EventFormat) -> Option<Finding> {
    let what = shapes::strange(format);
    (!what.is_empty()).then(|| Finding::OtherShape {
        event: format!("{}:{}", format.system, format.name),
        what: what.join(", "),
    })
}

/// What is said, once, where calls have no names.
fn unnamed_calls(catalog: &Catalog, side: Side) -> Option<Finding> {
    let architecture = catalog.architecture();
    let is_unnamed = side == Side::Entry && !architecture.has_tables();
    is_unnamed.then(|| Finding::UnnamedCalls {
        architecture: architecture.name(),
    })
}

#[inline(always)]
fn call_index(table: Table, number: usize, format: CallFormat) -> usize {
    let kind = usize::from(format.is_late) * 2 + table as usize;
    (kind * 2 + format.side as usize) * CALL_COUNT + number
}

impl Watched {
    fn of(format: &EventFormat) -> Option<Watched> {
        let from = |name| u16::try_from(format.field(name)?.offset).ok();
        match (format.system.as_str(), format.name.as_str()) {
            ("task", "task_newtask") => Some(Watched::Make {
                tid_from: from("pid")?,
                flags_from: from("clone_flags")?,
            }),
            ("sched", "sched_process_exec") => Some(Watched::Exec),
            ("sched", "sched_process_exit") => Some(Watched::Exit),
            _ => None,
        }
    }
}
