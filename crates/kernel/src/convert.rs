// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the kernel's ring, made into CTF events.
//!
//! A record is what the kernel wrote, in the form that tracefs describes; an event is what readers of the trace find, in the layout that
//! they know. For each event a plan is made when its first record comes (`plan.rs`), and carried out for every record.
//!
//! Nothing in a record is believed. One that contradicts its format is left out and counted.

mod call_filter;
mod class_id;
pub(crate) mod copies;
mod detail;
mod event;
mod facts;
pub(crate) mod field_names;
mod finding;
mod kept;
mod new_threads;
mod plans;
mod returns;
mod room;
mod syscall;
mod threads;
mod walk;

use std::collections::HashMap;
use std::sync::Arc;

use piste_ctf::{Base, Element, EventClass, Field, FieldKind, StreamClass};

use crate::catalog::Catalog;
use crate::layout::Layout;
use crate::page::{Page, Record};
use crate::plan::{Builder, Surroundings, TooFar};
use crate::probe::ProbeEvent;
use crate::spec::{ChannelSpec, Context};

pub use copies::program_call;
pub use facts::Fact;
pub(crate) use facts::NAME_BYTES;
pub use finding::{Fault, Finding};
pub use threads::{LivingThreads, RecordedThreads, Threads};

use kept::Kept;
pub(crate) use new_threads::NewThreads;
use plans::Plans;
use returns::Returns;
pub(crate) use room::{Cursor, NoRoom};
use walk::{Behind, Walk};

/// Makes events of a channel's records.
///
/// A page becomes (the rest of) a packet. Only with rules that ask for stacks, events can stay behind: the stack of an event is a record
/// of its own, and may be on the next page. Such an event is kept for the packet of that page. A consumer that is to survive notes what is
/// [`kept`](Converter::kept) beside the page that it came from, and its successor gives it [back](Converter::restore).
pub struct Converter {
    plans: Plans,
    returns: Returns,
    new_threads: NewThreads,
    threads: Box<dyn Threads + Send>,
    /// By CPU.
    kept: Vec<Vec<u8>>,
    /// Packets say what of them is earlier than this.
    cut_ticks: u64,
}

/// What became of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// Events that were written.
    pub events: u64,
    /// Records that should have become events and did not; findings say why.
    pub discarded: u64,
    /// No event is earlier: the begin of the packet.
    pub begin_ticks: u64,
    /// Time of the first record, `begin_ticks` if there is none: the packet may begin as late as this.
    pub first_ticks: u64,
    /// Time of the last event, `begin_ticks` if there is none: the end of the packet.
    pub last_ticks: u64,
    /// What of the packet is earlier than the time of [`Converter::cut_at`]; absent when all is.
    pub cut: Option<Cut>,
    /// What was wrong.
    pub findings: Vec<Finding>,
}

/// The part of a packet that is earlier than a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// It ends behind so many bytes of the packet.
    pub content_bytes: usize,
    /// Events in it.
    pub events: u64,
    /// Time of its last event; when there is none, the begin of the packet.
    pub last_ticks: u64,
}

/// Type of the BPF program's records of entries.
pub const CALL_ENTRY: u16 = 0;
/// Type of the BPF program's records of exits.
pub const CALL_EXIT: u16 = 1;
/// Type of those that have what could not be read at the entry.
pub const CALL_LATE_EXIT: u16 = 2;

/// Events do not wait any longer when this much waits. Between an event and its stack there is an interrupt's work at most.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What records of every kernel begin with, and where. Only from here on do formats differ.
pub(crate) const COMMON: [(&str, u16); 4] = [
    ("common_type", 0),
    ("common_flags", FLAGS_FROM),
    ("common_preempt_count", FLAGS_FROM + 1),
    ("common_pid", TID_FROM),
];
const FLAGS_FROM: u16 = 2;
pub(crate) const TID_FROM: u16 = 4;

/// The class of the streams of `channel`.
pub fn stream_class(channel: &ChannelSpec) -> StreamClass {
    StreamClass {
        id: channel.stream_id,
        channel: channel.name.clone(),
        contexts: fields_of(&channel.contexts),
    }
}

fn fields_of(contexts: &[Context]) -> Vec<Field> {
    contexts.iter().flat_map(|context| context_fields(*context)).collect()
}

fn context_fields(context: Context) -> Vec<Field> {
    let field = |name: &str, element, base| Field {
        name: name.to_owned(),
        kind: FieldKind::Scalar { element, base },
    };
    match context {
        Context::Tid => vec![field("tid", Element::Int32, Base::Decimal)],
        Context::CpuId => vec![field("cpu_id", Element::Uint16, Base::Decimal)],
        Context::InterruptState => vec![
            field("interrupt_state", Element::Uint8, Base::Hex),
            field("preempt_count", Element::Uint8, Base::Hex),
        ],
        derived => vec![Field {
            name: derived.name().to_owned(),
            kind: FieldKind::Dynamic,
        }],
    }
}

/// Puts a channel's contexts at the begin of an event: those of its [`stream_class`], then those that were added.
fn put_contexts(contexts: &[Context], builder: &mut Builder) {
    for context in contexts {
        let within: Result<(), TooFar> = match context {
            Context::Tid => builder.copy(TID_FROM.into(), 4),
            Context::CpuId => {
                builder.cpu();
                Ok(())
            }
            Context::InterruptState => builder.copy(FLAGS_FROM.into(), 2),
            derived => builder.fact(TID_FROM.into(), *derived),
        };
        within.expect("the first bytes of a record are no longer than any");
    }
}

impl Converter {
    /// For the records of `channel`, whose probes are `probes`. Make a new one when the rules or the probes change, and give it what the
    /// old one kept.
    pub fn new(
        catalog: Arc<Catalog>,
        layout: Arc<Layout>,
        channel: &ChannelSpec,
        probes: &[ProbeEvent],
        threads: Box<dyn Threads + Send>,
    ) -> Converter {
        Converter {
            plans: Plans::new(catalog, layout, channel, probes),
            returns: Returns::default(),
            new_threads: NewThreads::default(),
            threads,
            kept: Vec::new(),
            cut_ticks: u64::MAX,
        }
    }

    /// For the records of the calls of `channel` that the BPF program makes: [`CALL_ENTRY`] and [`CALL_EXIT`].
    pub fn of_calls(
        catalog: Arc<Catalog>,
        layout: Arc<Layout>,
        channel: &ChannelSpec,
        threads: Box<dyn Threads + Send>,
    ) -> Converter {
        Converter {
            plans: Plans::of_calls(catalog, layout, channel),
            returns: Returns::default(),
            new_threads: NewThreads::default(),
            threads,
            kept: Vec::new(),
            cut_ticks: u64::MAX,
        }
    }

    /// Takes the classes that the metadata has: the fingerprint of each (`piste_ctf::metadata::class_fingerprint`) by its number. Call it before
    /// the first page. An event of another class than the one that has its number gets another number.
    pub fn restore_classes(&mut self, classes: HashMap<u32, u64>) {
        self.plans.classes = classes;
    }

    /// From now on, packets say what of them is earlier than `ticks`; with `None`, none does.
    pub fn cut_at(&mut self, ticks: Option<u64>) {
        self.cut_ticks = ticks.unwrap_or(u64::MAX);
    }

    /// Appends the events of a page that `cpu` recorded to `packet`, which has room for its header already.
    pub fn page(&mut self, page: &Page, cpu: u32, packet: &mut Vec<u8>) -> Converted {
        let kept = self.take_kept(cpu);
        let behind = match kept.len() {
            ..KEPT_BYTES_MAX => Behind::MorePages,
            _ => Behind::Nothing,
        };
        let mut records = page.records();
        let (mut converted, kept) = if kept.is_empty() {
            self.walk(&mut records, page.begin_ticks(), behind, cpu, packet)
        } else {
            let begin_ticks = Kept(&kept).next().map_or(u64::MAX, |first| first.ticks);
            let begin_ticks = begin_ticks.min(page.begin_ticks());
            let mut both = Kept(&kept).chain(records.clone());
            records.by_ref().for_each(drop);
            self.walk(&mut both, begin_ticks, behind, cpu, packet)
        };
        self.keep(cpu, kept);
        converted.findings.extend(records.damage().map(Finding::from));
        converted
    }

    /// Appends what is kept of `cpu`: no page will follow. `None` when nothing is.
    pub fn finish(&mut self, cpu: u32, packet: &mut Vec<u8>) -> Option<Converted> {
        let kept = self.take_kept(cpu);
        let begin_ticks = Kept(&kept).next()?.ticks;
        let (converted, _) = self.walk(&mut Kept(&kept), begin_ticks, Behind::Nothing, cpu, packet);
        Some(converted)
    }

    /// Records of the last page of `cpu` that its packet does not have; empty nearly always. To be noted where a successor finds it,
    /// before the page is done.
    pub fn kept(&self, cpu: u32) -> &[u8] {
        self.kept.get(cpu as usize).map_or(&[], Vec::as_slice)
    }

    /// The time of the first record that is kept of `cpu`.
    pub fn kept_since(&self, cpu: u32) -> Option<u64> {
        Kept(self.kept(cpu)).next().map(|record| record.ticks)
    }

    /// Goes on with what another converter of the channel kept of `cpu`.
    pub fn restore(&mut self, cpu: u32, kept: &[u8]) {
        self.keep(cpu, kept.to_owned());
    }

    /// Classes of events that were written for the first time. They follow from the event and the rules: a converter that is made later
    /// makes the same again, and the metadata may have them already.
    pub fn take_new_classes(&mut self) -> Vec<EventClass> {
        std::mem::take(&mut self.plans.new_classes)
    }

    fn walk<'r>(
        &mut self,
        records: &mut (impl Iterator<Item = Record<'r>> + Clone),
        begin_ticks: u64,
        behind: Behind,
        cpu: u32,
        packet: &mut Vec<u8>,
    ) -> (Converted, Vec<u8>) {
        let threads = &mut *self.threads;
        let has_compat = threads.catch_up();
        let new_threads = &mut self.new_threads;
        let around = Surroundings {
            cpu,
            threads,
            new_threads,
        };
        let first_ticks = records.clone().next().map_or(begin_ticks, |first| first.ticks);
        let mut walk = Walk::new(&mut self.plans, &mut self.returns, around, begin_ticks, packet);
        walk.has_compat = has_compat;
        walk.cut_ticks = self.cut_ticks;
        walk.converted.first_ticks = first_ticks.max(begin_ticks);
        let kept = walk.records(records, behind);
        (walk.finish(), kept)
    }

    fn take_kept(&mut self, cpu: u32) -> Vec<u8> {
        self.kept.get_mut(cpu as usize).map(std::mem::take).unwrap_or_default()
    }

    fn keep(&mut self, cpu: u32, kept: Vec<u8>) {
        let index = cpu as usize;
        if kept.is_empty() && self.kept.len() <= index {
            return;
        }
        if self.kept.len() <= index {
            self.kept.resize(index + 1, Vec::new());
        }
        self.kept[index] = kept;
    }
}
