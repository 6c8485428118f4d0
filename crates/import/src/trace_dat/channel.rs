// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a buffer become the streams of a channel: a page is a packet.
//!
//! A CPU whose ring is known to be there from its begin on has a first packet with the number 0, and one that is known to be there to its end has a
//! last packet, without events, that reaches to the end of the trace: nothing happened there. All CPUs of a recording start and stop at once.

use std::collections::HashSet;
use std::sync::Arc;

use piste_ctf::StreamClass;
use piste_ctf::packet::KERNEL_HEADER_BYTES;
use piste_kernel::convert::{Converted, Converter, RecordedThreads, stream_class};
use piste_kernel::cpu_stats::CpuStats;
use piste_kernel::layout::Layout;
use piste_kernel::page::{Lost, Page};
use piste_kernel::spec::{CallPart, ChannelSpec, Context, EventSource, Loss, Rule, Stack};

use super::contents::Contents;
use super::convert::Work;
use super::options::{Buffer, CpuPart};
use super::pages::Next;
use super::survey::{Known, Seen, Survey};
use crate::ImportError;
use crate::folder::{PacketFacts, Stream, TraceFolder};

/// The channel of a buffer.
pub(super) struct Channel<'a, 'w> {
    buffer: &'a Buffer,
    survey: &'a Survey,
    class: StreamClass,
    converter: Converter,
    work: &'a mut Work<'w>,
}

/// By what a channel is known.
pub(super) struct Named {
    pub(super) stream_id: u32,
    pub(super) name: String,
}

/// A CPU's stream on its way.
struct Writing {
    cpu: u32,
    stream: Stream,
    known: Known,
    packet: Vec<u8>,
    /// Events that are missing, as far as pages told, and records that became none.
    discarded: u64,
}

impl<'a, 'w> Channel<'a, 'w> {
    pub(super) fn new(named: Named, buffer: &'a Buffer, survey: &'a Survey, work: &'a mut Work<'w>) -> Channel<'a, 'w> {
        let contents = work.contents;
        let spec = spec(named, contents, survey);
        let layout = Layout::new(contents.catalog.names());
        let layout = match has(contents, survey, "raw_syscalls", "sys_enter") {
            true => layout,
            false => layout.with_calls(),
        };
        let catalog = Arc::clone(&contents.catalog);
        Channel {
            buffer,
            survey,
            class: stream_class(&spec),
            converter: Converter::new(catalog, Arc::new(layout), &spec, &[], Box::new(RecordedThreads)),
            work,
        }
    }

    /// Writes the streams of all CPUs.
    pub(super) fn write(mut self, parts: &[(CpuPart, Seen)], trace: &mut TraceFolder) -> Result<(), ImportError> {
        trace.add_channel(self.class.clone());
        let mut written = HashSet::new();
        for (part, seen) in parts {
            if !written.insert(part.cpu) {
                let cpu = part.cpu;
                self.work.notes.say(format!(
                    "CPU {cpu} is there more than once, of which only the first is read"
                ));
                continue;
            }
            let stats = self
                .work
                .contents
                .options
                .stats
                .get(&(self.buffer.name.clone(), part.cpu));
            let known = seen.known(stats);
            if seen.is_silent() && !(known.has_begin && known.has_end && self.survey.has_events()) {
                continue;
            }
            let mut writing = Writing {
                cpu: part.cpu,
                stream: trace.stream(&self.class, part.cpu, u64::from(!known.has_begin))?,
                known,
                packet: Vec::new(),
                discarded: 0,
            };
            self.write_pages(part, &mut writing, trace)?;
            self.finish(writing, stats, trace)?;
        }
        Ok(())
    }

    fn write_pages(&mut self, part: &CpuPart, to: &mut Writing, trace: &mut TraceFolder) -> Result<(), ImportError> {
        let mut pages = self.buffer.pages(self.work.contents, part, self.work.file);
        while let Some(next) = pages.next().map_err(|error| self.work.unreadable(error))? {
            let work = &mut *self.work;
            work.watch.read(pages.take_read_bytes())?;
            let bytes = match next {
                Next::Page(bytes) => bytes,
                Next::Damaged(what) => {
                    work.notes.say(format!("CPU {}: {what}; events are missing", to.cpu));
                    to.stream.lose_packet();
                    continue;
                }
            };
            let page = match Page::parse(&work.contents.layout, &bytes) {
                Ok(page) => page,
                Err(damage) => {
                    work.notes.say(format!("CPU {}: a page is lost: {damage}", to.cpu));
                    to.stream.lose_packet();
                    continue;
                }
            };
            to.discarded += match page.lost() {
                Lost::None => 0,
                Lost::Count(count) => count,
                // One at least: the ring's own count is for the end of the stream.
                Lost::Unknown => 1,
            };
            to.prepare();
            let converted = self.converter.page(&page, to.cpu, &mut to.packet);
            self.append(&converted, to, trace)?;
        }
        Ok(())
    }

    fn append(&mut self, converted: &Converted, to: &mut Writing, trace: &mut TraceFolder) -> Result<(), ImportError> {
        converted
            .findings
            .iter()
            .for_each(|finding| self.work.notes.find(finding));
        trace.add_classes(self.class.id, self.converter.take_new_classes());
        to.discarded = to.discarded.saturating_add(converted.discarded);
        if converted.events == 0 {
            return Ok(());
        }
        self.work.events += converted.events;
        let begin_ticks = converted.begin_ticks.max(to.stream.end_ticks());
        let facts = PacketFacts {
            begin_ticks: begin_ticks.min(converted.first_ticks),
            end_ticks: converted.last_ticks,
            discarded: to.discarded,
        };
        to.stream.append(&mut to.packet, facts)
    }

    fn finish(
        &mut self,
        mut to: Writing,
        stats: Option<&CpuStats>,
        trace: &mut TraceFolder,
    ) -> Result<(), ImportError> {
        to.prepare();
        if let Some(converted) = self.converter.finish(to.cpu, &mut to.packet) {
            self.append(&converted, &mut to, trace)?;
        }
        let lost = stats.map_or(0, CpuStats::lost);
        to.discarded = to.discarded.max(lost);
        to.settle(self.survey)
    }
}

impl Writing {
    /// An empty packet, with space for its header.
    fn prepare(&mut self) {
        self.packet.clear();
        self.packet.resize(KERNEL_HEADER_BYTES, 0);
    }

    /// Says to where the CPU was recorded, and what was lost by then.
    fn settle(mut self, survey: &Survey) -> Result<(), ImportError> {
        let begin_ticks = match self.stream.end_ticks() {
            0 => survey.first_ticks,
            end_ticks => end_ticks,
        };
        let end_ticks = match self.known.has_end {
            true => survey.last_ticks.max(begin_ticks),
            false => begin_ticks,
        };
        let discarded = self.discarded;
        if end_ticks > begin_ticks || discarded > self.stream.discarded() {
            self.stream.append_quiet(PacketFacts {
                begin_ticks,
                end_ticks,
                discarded,
            })?;
        }
        self.stream.finish()
    }
}

/// Everything is to be read, with the stacks that were recorded behind events.
fn spec(named: Named, contents: &Contents, survey: &Survey) -> ChannelSpec {
    let has_stacks = |name| has(contents, survey, "ftrace", name);
    let (kernel, user) = (has_stacks("kernel_stack"), has_stacks("user_stack"));
    let stack = (kernel || user).then_some(Stack {
        kernel,
        user,
        depth: None,
        range: None,
    });
    let all = || "*".to_owned();
    let rule = |source| Rule {
        source,
        excluded: Vec::new(),
        filter: None,
        fields: Vec::new(),
        stack: stack.clone(),
        enabled: true,
    };
    ChannelSpec {
        memory: None,
        stream_id: named.stream_id,
        name: named.name,
        loss: Loss::Overwrite,
        subbuf_bytes: 0,
        subbuf_count: 0,
        contexts: vec![Context::Tid],
        added_contexts: Vec::new(),
        rules: vec![
            rule(EventSource::Syscall {
                pattern: all(),
                part: CallPart::Both,
            }),
            rule(EventSource::Tracepoint { pattern: all() }),
        ],
    }
}

/// Whether there are records of an event.
fn has(contents: &Contents, survey: &Survey, system: &str, name: &str) -> bool {
    let format = contents.catalog.by_name(system, name);
    format.is_ok_and(|format| survey.has(format.id))
}
