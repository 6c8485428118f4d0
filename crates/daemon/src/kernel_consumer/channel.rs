// SPDX-License-Identifier: MIT OR Apache-2.0
//! A channel of the kernel domain: a tracefs instance with the events that it records, and a ring for each CPU.
//!
//! CPUs that are not online have rings too: one that comes online is read without further ado.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use piste_control::RINGS_GONE;
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, LivingThreads, stream_class};
use piste_kernel::instance::{Instance, TraceClock};
use piste_kernel::probe::{Plans, Probes};
use piste_kernel::programs::{self, Programs};
use piste_kernel::ring::Ring;
use piste_kernel::selection::{Selection, apply};
use piste_kernel::shared_buffer::{RingKey, SharedBuffer};
use piste_kernel::spec::{ChannelSpec, Tracked};
use piste_kernel::tracked::{self, Hiding};
use piste_reason::reason;
use piste_ring::ClockSource;
use serde::{Deserialize, Serialize};

use super::Fullest;
use super::calls::{self, Calls, remove_instance};
use super::folders::{Folders, STATE_DUMP};
use super::hidden::hide_own;
use super::kept::Until;
use super::kernel::Kernel;
use super::metadata::Metadata;
use super::ring::{CpuRing, Desk, Home, Opening};
use crate::consumer::chunks::Chunks;
use crate::consumer::clock;
use crate::consumer::findings::Findings;
use crate::consumer::storage::StorageError;
use crate::link::{ChannelTotals, SessionId};
use crate::person::Person;

/// Of the file that names the instance: the BPF program records as well.
const WITH_CALLS: &str = "calls";

pub(super) struct Channel {
    pub(super) spec: ChannelSpec,
    pub(super) findings: Findings,
    instance: Instance,
    /// The file that names the instance while the channel records or its rings contain events.
    recording: PathBuf,
    /// It recorded when it was opened: another consumer had started it.
    was_on: bool,
    /// Before it was stopped; it recorded then.
    stopped_ticks: Option<u64>,
    probes: Probes,
    /// The events that there were when it was told what to record.
    catalog: Arc<Catalog>,
    converter: Converter,
    subbuf_bytes: u32,
    /// What people should know and were not told yet.
    notes: Vec<String>,
    /// Of tracefs. Absent once the channel is closed.
    rings: Vec<CpuRing>,
    /// Its system calls, where the BPF program records them.
    calls: Option<Calls>,
}

/// What the kernel is told to record. It is kept beside the rings: the kernel needs a while to be asked about thousands of events, while
/// nobody reads its rings.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Selected {
    channel: ChannelSpec,
    tracked: Tracked,
}

impl Selected {
    fn of(channel: &ChannelSpec, tracked: &Tracked) -> Selected {
        Selected {
            channel: channel.clone(),
            tracked: tracked.clone(),
        }
    }

    fn read(path: &Path) -> Option<Selected> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// What is not kept has to be asked for again.
    fn write(&self, path: &Path) {
        let _ = fs::write(path, serde_json::to_vec(self).unwrap_or_default());
    }
}

/// What a channel is part of.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) session: SessionId,
    /// Whose the trace is.
    pub(super) owner: &'a Person,
    pub(super) kernel: &'a Kernel,
    pub(super) folders: &'a Folders,
    pub(super) chunks: &'a Chunks,
    pub(super) clock: ClockSource,
    /// The clock's ticks per second.
    pub(super) frequency_hz: u64,
    pub(super) tracked: &'a Tracked,
    /// The processes of threads, and which threads run 32-bit programs; `None` unless a channel records forks or system calls.
    pub(super) programs: Option<&'a Arc<Mutex<Programs>>>,
    /// Packets are kept for snapshots.
    pub(super) is_recorder: bool,
}

/// What a channel is written with.
pub(super) struct Tools<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) metadata: &'a mut Metadata,
    pub(super) packet: &'a mut Vec<u8>,
}

impl Channel {
    /// Makes the instance, or goes on with the one that is there.
    ///
    /// # Errors
    /// Why there can be no such channel, as a sentence.
    pub(super) fn open(spec: ChannelSpec, frame: Frame<'_>, metadata: &mut Metadata) -> Result<Channel, String> {
        let refuse = |error: std::io::Error| format!("channel {}: {}", spec.name, reason(&error));
        for (reserved, what) in [
            (STATE_DUMP, "the state dump"),
            (programs::CHANNEL, "the record of executed programs"),
        ] {
            if spec.name == reserved {
                return Err(format!(
                    "channel {reserved}: this name is reserved for {what}; choose another"
                ));
            }
        }
        let Frame {
            session,
            kernel,
            folders,
            ..
        } = frame;
        folders.make().map_err(refuse)?;
        let instance = Instance::create_or_open(&kernel.tracefs, &kernel.owner, session, &spec.name).map_err(refuse)?;
        let was_on = !instance.is_new() && instance.read("tracing_on").map_err(refuse)?.trim() == "1";
        instance.set_clock(trace_clock(frame.clock)).map_err(refuse)?;
        let mut notes = instance
            .set_ring(spec.loss, spec.subbuf_bytes, spec.subbuf_count)
            .map_err(refuse)?;
        if frame.chunks.matches.is_some() {
            instance.wake_at_once().map_err(refuse)?;
        }
        let subbuf_bytes = instance.subbuf_bytes().map_err(refuse)?;
        let (probes, findings) = define(&spec, frame);
        notes.extend(findings);
        let mut converter = converter(&spec, frame, &probes);
        metadata.add_stream(&stream_class(&spec));
        say_derived_contexts(&spec, metadata);
        converter.restore_classes(metadata.classes_of(spec.stream_id));
        let home = Home {
            channel: &spec,
            folders,
            chunks: frame.chunks,
            is_recorder: frame.is_recorder,
        };
        let ring = |cpu: u32| {
            let key = RingKey {
                session,
                stream_id: spec.stream_id,
                cpu,
            };
            let buffer = SharedBuffer::open(&folders.file(&spec.name, cpu, "page"), key, subbuf_bytes)?;
            Ring::open(&instance, &kernel.pages, cpu, buffer)
        };
        let mut rings = Vec::new();
        for cpu in instance.cpus().map_err(refuse)? {
            let opened = ring(cpu).map_err(|error| format!("cannot open the ring of CPU {cpu}: {}", reason(&error)));
            let opened = opened.and_then(|ring| {
                let opening = Opening {
                    cpu,
                    pages: Box::new(ring),
                    instance_id: cpu.into(),
                    is_new: instance.is_new(),
                    loss: spec.loss,
                    files: "",
                };
                CpuRing::open(&home, opening, &mut converter, &mut notes)
            });
            rings.push(opened.map_err(|why| format!("channel {}: {why}", spec.name))?);
        }
        let recording = folders.recording(&spec.name);
        let mut channel = Channel {
            spec,
            findings: Findings::default(),
            instance,
            recording,
            was_on,
            stopped_ticks: None,
            probes,
            catalog: kernel.catalog.clone(),
            converter,
            subbuf_bytes,
            notes,
            rings,
            calls: None,
        };
        channel.open_calls(frame, metadata);
        channel
            .look_for_lost_rings()
            .map_err(|error| format!("channel {}: {error}", channel.spec.name))?;
        let wanted = Selected::of(&channel.spec, frame.tracked);
        if was_on && Selected::read(&folders.selected(&channel.spec.name)) == Some(wanted) {
            hide_own(&channel.instance, frame.tracked);
        } else {
            channel.select(frame);
        }
        Ok(channel)
    }

    /// Loads the BPF program, where the rules ask for what it records and it was not. Without it, tracefs records the calls.
    fn open_calls(&mut self, frame: Frame<'_>, metadata: &Metadata) {
        if self.calls.is_some() || calls::memory_of(&self.spec).is_none() {
            return;
        }
        match Calls::open(&self.spec, frame, &self.instance, &mut self.notes) {
            Ok(mut calls) => {
                calls
                    .converter
                    .restore_classes(metadata.classes_of(self.spec.stream_id));
                self.calls = Some(calls);
            }
            Err(why) => self.notes.push(why),
        }
    }

    /// Counts a loss if the rings were removed while no pisted was running.
    ///
    /// # Errors
    /// The next consumer would not know that they are lost.
    fn look_for_lost_rings(&mut self) -> Result<(), StorageError> {
        let Ok(noted) = fs::read_to_string(&self.recording) else {
            return Ok(());
        };
        let (instance, calls) = noted.split_once(' ').unwrap_or((&noted, ""));
        let is_instance_gone = Some(instance) != self.instance_number().as_deref();
        let is_program_gone = calls == WITH_CALLS && self.calls.as_ref().is_none_or(Calls::is_new);
        if is_instance_gone {
            self.rings.iter_mut().try_for_each(CpuRing::lose_unknown)?;
        }
        if is_program_gone && (self.calls.is_some() || !is_instance_gone) {
            let rings = match &mut self.calls {
                Some(calls) => &mut calls.rings,
                // It cannot be loaded any more.
                None => &mut self.rings,
            };
            rings.iter_mut().try_for_each(CpuRing::lose_unknown)?;
        }
        if is_instance_gone || is_program_gone {
            self.notes.push(RINGS_GONE.to_owned());
            self.note_instance();
        }
        Ok(())
    }

    /// The instance's inode number; an instance that is created again has another one.
    fn instance_number(&self) -> Option<String> {
        let folder = fs::metadata(self.instance.folder()).ok()?;
        Some(folder.ino().to_string())
    }

    /// Notes the instance, and whether there is a program too. If the consumer is killed meanwhile, the earlier note stays as it is.
    fn note_instance(&self) {
        let Some(mut note) = self.instance_number() else { return };
        if self.calls.is_some() {
            note += " ";
            note += WITH_CALLS;
        }
        if fs::read_to_string(&self.recording).is_ok_and(|noted| noted == note) {
            return;
        }
        let new = self.recording.with_extension("new");
        // Without it, nobody is told of rings that are removed.
        let _ = fs::write(&new, note).and_then(|()| fs::rename(&new, &self.recording));
    }

    /// Another consumer had started it.
    pub(super) fn was_on(&self) -> bool {
        self.was_on
    }

    /// Records other events from now on. What was recorded before is written first, as the rules of then have it.
    pub(super) fn change(&mut self, spec: ChannelSpec, frame: Frame<'_>, tools: &mut Tools<'_>) {
        if spec == self.spec && frame.kernel.catalog.has_same_events_as(&self.catalog) {
            return;
        }
        self.catalog = frame.kernel.catalog.clone();
        let (most, now_ticks) = (self.most(), clock::now_ticks(frame.clock));
        if let Err(error) = self.for_each_ring(tools, |ring, desk| ring.take_until(now_ticks, most, desk)) {
            self.notes.push(format!(
                "events from before a change of rules may be missing, because they could not be written: {error}"
            ));
        }
        self.spec = spec;
        say_derived_contexts(&self.spec, tools.metadata);
        let (probes, findings) = define(&self.spec, frame);
        self.probes = probes;
        self.notes.extend(findings);
        let classes = || tools.metadata.classes_of(self.spec.stream_id);
        self.converter = converter(&self.spec, frame, &self.probes);
        self.converter.restore_classes(classes());
        for ring in &self.rings {
            self.converter.restore(ring.cpu(), ring.kept());
        }
        match &mut self.calls {
            Some(calls) => {
                calls.converter = calls::converter(&self.spec, frame);
                calls.converter.restore_classes(classes());
            }
            None => {
                self.open_calls(frame, tools.metadata);
                if self.recording.exists() {
                    self.note_instance();
                }
            }
        }
        self.select(frame);
        self.set_calls_on(self.is_on(), frame.tracked);
    }

    /// Makes the kernel record what the rules and the session's threads and CPUs ask for, from now on.
    pub(super) fn select(&mut self, frame: Frame<'_>) {
        self.while_unknown(frame, |channel| {
            let catalog = &frame.kernel.catalog;
            let (spec, mut findings) = match &channel.calls {
                Some(calls) => (
                    calls::without_calls(&channel.spec),
                    calls.select(&channel.spec, catalog),
                ),
                None => (channel.spec.clone(), Vec::new()),
            };
            let selection = Selection {
                catalog,
                channel: &spec,
                probes: channel.probes.events(),
                tracked: frame.tracked,
            };
            findings.extend(apply(&channel.instance, &selection));
            findings
        });
    }

    /// Lets the BPF program record or not.
    fn set_calls_on(&mut self, is_on: bool, tracked: &Tracked) {
        let Some(calls) = &self.calls else { return };
        if let Err(error) = calls.set_on(is_on, &self.instance, tracked) {
            self.notes
                .push(format!("system calls are not recorded correctly: {}", reason(&error)));
        }
    }

    /// Makes the kernel record the session's threads and CPUs, from now on; of the same events as before.
    pub(super) fn track(&mut self, frame: Frame<'_>) {
        self.while_unknown(frame, |channel| tracked::apply(&channel.instance, frame.tracked));
        self.set_calls_on(self.is_on(), frame.tracked);
    }

    /// Changes what the kernel records. A consumer that is killed in between leaves it to the next one to find out what that is.
    fn while_unknown(&mut self, frame: Frame<'_>, change: impl FnOnce(&Channel) -> Vec<String>) {
        let path = frame.folders.selected(&self.spec.name);
        let _ = fs::remove_file(&path);
        let findings = change(self);
        self.notes.extend(findings);
        Selected::of(&self.spec, frame.tracked).write(&path);
        if self.is_on() {
            hide_own(&self.instance, frame.tracked);
        }
    }

    /// Its instance in tracefs.
    pub(super) fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Records from now on. What cannot be done is a finding.
    pub(super) fn start(&mut self, clock: ClockSource, tracked: &Tracked) {
        let was_on = self.is_on();
        self.note_instance();
        if !was_on {
            hide_own(&self.instance, tracked);
        }
        let is_on = self.set_on(true);
        self.set_calls_on(true, tracked);
        if !is_on || was_on {
            return;
        }
        let now_ticks = clock::now_ticks(clock);
        self.stopped_ticks = None;
        self.rings_mut().for_each(|ring| ring.records_from(now_ticks));
    }

    /// Records no more. What cannot be done is a finding. `now_ticks` is before now.
    pub(super) fn stop(&mut self, now_ticks: u64) {
        let was_on = self.is_on();
        self.set_calls_on(false, &Tracked::default());
        self.note_untracked();
        if self.set_on(false) && was_on {
            self.stopped_ticks = Some(now_ticks);
        }
    }

    fn note_untracked(&mut self) {
        self.notes.extend(self.calls.as_ref().and_then(Calls::untracked));
    }

    fn set_on(&mut self, is_on: bool) -> bool {
        let set = self.instance.set_on(is_on);
        self.notes.extend(set.as_ref().err().map(ToString::to_string));
        set.is_ok()
    }

    /// The kernel may have stopped it.
    fn is_on(&self) -> bool {
        self.instance.read("tracing_on").is_ok_and(|text| text.trim() == "1")
    }

    /// It has recorded until then, if that is known, and what it recorded is in the rings.
    fn recorded_until(&self, clock: ClockSource) -> Option<u64> {
        let settled_ticks = clock::settled_ticks(clock);
        if self.is_on() {
            Some(settled_ticks)
        } else {
            self.stopped_ticks
        }
    }

    pub(super) fn hiding(&self) -> Option<Hiding> {
        Hiding::of(&self.instance)
    }

    /// Looks whether the files of its streams are still there.
    pub(super) fn look_at_files(&mut self) {
        let found = self.rings_mut().filter_map(CpuRing::look_at_files);
        let found: Vec<String> = found.map(str::to_owned).collect();
        self.notes.extend(found);
    }

    /// People should know this.
    pub(super) fn note(&mut self, what: &str) {
        self.notes.push(what.to_owned());
    }

    /// What people should know and were not told yet.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Those of tracefs, then those of the BPF program.
    pub(super) fn rings(&self) -> impl Iterator<Item = &CpuRing> {
        self.rings
            .iter()
            .chain(self.calls.iter().flat_map(|calls| &calls.rings))
    }

    fn rings_mut(&mut self) -> impl Iterator<Item = &mut CpuRing> {
        let calls = self.calls.iter_mut().flat_map(|calls| &mut calls.rings);
        self.rings.iter_mut().chain(calls)
    }

    pub(super) fn ring_bytes(&self) -> u64 {
        u64::from(self.spec.subbuf_bytes) * u64::from(self.spec.subbuf_count)
    }

    /// Writes the full pages of each ring, at most a ring's worth, and what was recorded until `flush_ticks`. True when there is no more of that.
    ///
    /// # Errors
    /// The file that could not be written.
    pub(super) fn take(
        &mut self,
        fullest: &mut Fullest,
        flush_ticks: Option<u64>,
        tools: &mut Tools<'_>,
    ) -> Result<bool, StorageError> {
        let (most, ring_bytes, subbuf_bytes) = (self.most(), self.ring_bytes(), self.subbuf_bytes);
        self.for_each_ring(tools, |ring, desk| {
            let before = ring.stream().end().next_sequence;
            let taken = ring.take(most, desk)?;
            let is_all = flush_ticks.map_or(Ok(true), |ticks| ring.flush(ticks, most, desk))?;
            // A page that is not full counts as something: more may have come while it was taken.
            let is_any = u64::from(ring.stream().end().next_sequence > before);
            fullest.observe((u64::from(taken) * u64::from(subbuf_bytes)).max(is_any), ring_bytes);
            Ok(is_all)
        })
    }

    /// Keeps the newest events of the rings that do not overwrite old ones by themselves, those of the BPF program. False when there is none.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn keep_newest(&mut self, fullest: &mut Fullest, tools: &mut Tools<'_>) -> Result<bool, StorageError> {
        let Some(calls) = &self.calls else {
            return Ok(false);
        };
        let calls_bytes = calls.ring_bytes();
        let (most, ring_bytes, first) = (self.most(), self.ring_bytes(), self.rings.len());
        for index in first.. {
            let Some((ring, mut desk)) = self.desk(index, tools) else {
                break;
            };
            let taken = ring.take(most, &mut desk)?;
            fullest.observe(u64::from(taken) * u64::from(calls::PAGE_BYTES), calls_bytes);
            ring.forget_old(ring_bytes)?;
        }
        Ok(true)
    }

    /// Writes what was recorded until now, where a chunk of the trace is to end.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn end_in_chunk(
        &mut self,
        clock: ClockSource,
        chunks: &Chunks,
        tools: &mut Tools<'_>,
    ) -> Result<(), StorageError> {
        if !self.is_behind(chunks) {
            return Ok(());
        }
        let most = self.most();
        let (now_ticks, until_ticks) = (clock::now_ticks(clock), self.recorded_until(clock));
        self.for_each_ring(tools, |ring, desk| {
            ring.end_in_chunk(most, now_ticks, until_ticks, chunks, desk)
                .map(|()| true)
        })?;
        Ok(())
    }

    /// Lets every ring go on in the next chunk of the trace.
    ///
    /// # Errors
    /// The file that could not be made. What was not done is the next call's.
    pub(super) fn move_on(&mut self, chunks: &mut Chunks, tools: &mut Tools<'_>) -> Result<(), StorageError> {
        if self.is_behind(chunks) {
            self.for_each_ring(tools, |ring, _| ring.move_on(chunks).map(|()| true))?;
        }
        Ok(())
    }

    fn is_behind(&self, chunks: &Chunks) -> bool {
        self.rings().any(|ring| ring.is_behind(chunks))
    }

    /// A chunk of the trace ends: its rings' files were moved.
    pub(super) fn moved(&mut self, chunks: &Chunks) {
        self.rings_mut().for_each(|ring| ring.moved(chunks));
    }

    /// Writes everything that is in the rings, which record no more. False when there may be more.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn finish(&mut self, clock: ClockSource, tools: &mut Tools<'_>) -> Result<bool, StorageError> {
        let most = self.most();
        if !self.for_each_ring(tools, |ring, desk| ring.finish(most, desk))? {
            return Ok(false);
        }
        // All stop at once: when one has an event, the others recorded still.
        let last_ticks = self.rings().map(|ring| ring.stream().end().end_ticks).max();
        let until_ticks = last_ticks.filter(|ticks| *ticks > 0).max(self.stopped_ticks);
        let until_ticks = until_ticks.unwrap_or_else(|| clock::now_ticks(clock));
        self.for_each_ring(tools, |ring, desk| ring.settle(until_ticks, desk).map(|()| true))?;
        let _ = fs::remove_file(&self.recording);
        Ok(true)
    }

    /// Writes what each ring has recorded until then, at most a ring's worth. Returns where a snapshot of each ends, in which nothing is later.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn take_for_snapshot(
        &mut self,
        end_ticks: u64,
        tools: &mut Tools<'_>,
    ) -> Result<Vec<Until>, StorageError> {
        self.note_untracked();
        let most = self.most();
        let recorded_until = if self.is_on() {
            Some(end_ticks)
        } else {
            self.stopped_ticks.map(|ticks| ticks.min(end_ticks))
        };
        let mut ends = Vec::new();
        self.for_each_ring(tools, |ring, desk| {
            let mut until = ring.take_for_snapshot(end_ticks, most, desk)?;
            until.ticks = until.ticks.and(recorded_until);
            ends.push(until);
            Ok(true)
        })?;
        Ok(ends)
    }

    /// What was recorded and lost.
    pub(super) fn totals(&self) -> ChannelTotals {
        let mut totals = ChannelTotals {
            stream_id: self.spec.stream_id,
            findings: self.findings.list().to_vec(),
            ..ChannelTotals::default()
        };
        for ring in self.rings() {
            ring.add_to(&mut totals);
        }
        totals
    }

    /// Events that were recorded and are not in the trace so far.
    pub(super) fn left(&self) -> u64 {
        self.rings().map(CpuRing::left).sum()
    }

    /// Gives up what is left, and says so in the trace where there is room for that.
    pub(super) fn abandon(&mut self, clock: ClockSource) {
        let until_ticks = self.stopped_ticks.unwrap_or_else(|| clock::now_ticks(clock));
        self.rings_mut().for_each(|ring| ring.abandon(until_ticks));
    }

    /// Removes the instance and the probes. Returns what could not be removed.
    pub(super) fn close(self, kernel: &Kernel) -> Vec<String> {
        // Whoever reads a ring holds its instance.
        drop((self.rings, self.calls));
        remove(remove_instance(self.instance), self.probes, kernel)
    }

    /// Removes what a channel has in the kernel that could not be opened. Returns what could not be removed.
    pub(super) fn clear_away(spec: &ChannelSpec, session: SessionId, kernel: &Kernel) -> Vec<String> {
        let Kernel { tracefs, owner, .. } = kernel;
        let channel = (session, spec.name.clone());
        if !owner.instances(tracefs).is_ok_and(|all| all.contains(&channel)) {
            return Vec::new();
        }
        let removed = Instance::create_or_open(tracefs, owner, session, &spec.name).and_then(remove_instance);
        let (probes, _) = Probes::open(tracefs, owner.id(), session, &spec.name, &[], Plans::default());
        remove(removed, probes, kernel)
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings().map(AsFd::as_fd)
    }

    /// Pages that a ring can have, and the one in hand.
    fn most(&self) -> u32 {
        let ring_bytes = self.ring_bytes();
        u32::try_from(ring_bytes / u64::from(self.subbuf_bytes)).unwrap_or(u32::MAX - 2) + 2
    }

    /// The ring with this index among [`Channel::rings`].
    fn desk<'a>(&'a mut self, index: usize, tools: &'a mut Tools<'_>) -> Option<(&'a mut CpuRing, Desk<'a>)> {
        let (ring, converter) = match index.checked_sub(self.rings.len()) {
            None => (self.rings.get_mut(index)?, &mut self.converter),
            Some(index) => {
                let calls = self.calls.as_mut()?;
                (calls.rings.get_mut(index)?, &mut calls.converter)
            }
        };
        let desk = Desk {
            stream_id: self.spec.stream_id,
            pages: &tools.kernel.pages,
            converter,
            metadata: tools.metadata,
            packet: tools.packet,
            notes: &mut self.notes,
        };
        Some((ring, desk))
    }

    /// Calls `visit` for every ring; true when all calls returned true. After a failed one the others are still visited, and the first
    /// failure is returned.
    fn for_each_ring(
        &mut self,
        tools: &mut Tools<'_>,
        mut visit: impl FnMut(&mut CpuRing, &mut Desk<'_>) -> Result<bool, StorageError>,
    ) -> Result<bool, StorageError> {
        let (mut all, mut failed) = (true, None);
        for index in 0.. {
            let Some((ring, mut desk)) = self.desk(index, tools) else {
                break;
            };
            match visit(ring, &mut desk) {
                Ok(finished) => all &= finished,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(all), Err)
    }
}

/// Probes go after the instance: the kernel empties the rings in which a removed one was enabled.
fn remove(removed: std::io::Result<()>, probes: Probes, kernel: &Kernel) -> Vec<String> {
    let mut findings: Vec<String> = removed.err().map(|error| error.to_string()).into_iter().collect();
    findings.extend(probes.remove(&kernel.tracefs));
    findings
}

pub(super) fn trace_clock(clock: ClockSource) -> TraceClock {
    match clock {
        ClockSource::Tsc => TraceClock::Tsc,
        ClockSource::Monotonic => TraceClock::Monotonic,
    }
}

fn define(spec: &ChannelSpec, frame: Frame<'_>) -> (Probes, Vec<String>) {
    let kernel = frame.kernel;
    let asker = frame.owner.asker();
    let planned = frame.owner.enter().map(|_as_owner| Plans::of(&spec.rules, asker));
    let failed = planned
        .as_ref()
        .err()
        .map(|error| format!("cannot set probes: {error}"));
    let (probes, mut findings) = Probes::define(
        &kernel.tracefs,
        kernel.owner.id(),
        frame.session,
        &spec.name,
        &spec.rules,
        planned.unwrap_or_default(),
    );
    findings.extend(failed);
    (probes, findings)
}

fn say_derived_contexts(spec: &ChannelSpec, metadata: &mut Metadata) {
    if spec.all_contexts().any(|context| context.is_derived()) {
        metadata.say_derived_contexts();
    }
}

fn converter(spec: &ChannelSpec, frame: Frame<'_>, probes: &Probes) -> Converter {
    let kernel = frame.kernel;
    let threads = Box::new(LivingThreads::new(frame.programs.cloned()));
    Converter::new(
        kernel.catalog.clone(),
        kernel.layout.clone(),
        spec,
        probes.events(),
        threads,
    )
}
