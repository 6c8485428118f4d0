// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tracing session as the consumer has it: its channels and ring sets; start, stop, close (stage.rs).
//!
//! A session either streams its events to a trace (streaming.rs) or is a flight recorder (recorder.rs). The loop (service.rs) calls
//! `work` again and again; what is done with one ring is ring.rs.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use piste_ctf::{EventClass, StreamClass};
use piste_ring::{ChannelMemory, Key};

use super::attention::Attention;
use super::channel::Channel;
use super::clock;
use super::flush::Flushes;
use super::ladder::stream;
use super::matches::{Matches, Unseen, is_of_ends};
use super::metadata::Metadata;
use super::outbox::Outbox;
use super::recorder::{GONE_MAX, Recorder};
use super::ring::Buffers;
use super::ring_set::{Ears, Fullest, Life, Producer, RingSet};
use super::service::{self, Recording};
use super::snapshot::SnapshotJob;
use super::stage::{Again, Stage};
use super::storage::Storage;
use super::streaming::Flush;
use super::trace::{TraceFolder, add_counted};
use crate::link::{
    self, ChannelTotals, Failure, Opening, Purpose, RequestId, RingSetKey, Rotation, SessionId, ToControl,
};
use crate::person::Output;

pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) trace: TraceFolder,
    pub(super) channels: BTreeMap<u32, Channel>,
    pub(super) ring_sets: BTreeMap<RingSetKey, RingSet>,
    pub(super) attention: Attention,
    pub(super) stage: Stage,
    pub(super) storage: Storage,
    pub(super) flushes: Flushes<Flush>,
    /// All events until then were told as matches, or are among those that wait.
    taken_until_ticks: u64,
    mode: Mode,
}

/// What becomes of the events.
enum Mode {
    /// They are written at once.
    Streaming,
    /// They stay in the rings.
    Recorder(Recorder),
}

/// What the session's thread has.
pub(super) struct Shared<'a> {
    pub(super) outbox: &'a Outbox,
    pub(super) buffers: &'a mut Buffers,
    pub(super) fullest: &'a mut Fullest,
    pub(super) now: Instant,
}

impl Session {
    pub(super) fn new(opening: Opening, outbox: &Outbox, now: Instant) -> Self {
        let Opening {
            session: id,
            output,
            owner,
            purpose,
            trace,
            rotation,
            archived,
        } = opening;
        let (mut trace, error) = TraceFolder::open(&output, owner, Metadata::new(trace), (archived, rotation), now);
        if let Some(error) = error {
            outbox.send(&ToControl::Finding {
                session: id,
                what: format!("events that were already in the trace are not counted: {error}"),
            });
        }
        let mode = match &purpose {
            Purpose::Snapshots => Mode::Recorder(Recorder::default()),
            Purpose::Trace | Purpose::Trigger { .. } => Mode::Streaming,
        };
        trace.chunks.matches = Matches::of(purpose);
        Self {
            id,
            trace,
            channels: BTreeMap::new(),
            ring_sets: BTreeMap::new(),
            attention: Attention::default(),
            stage: Stage::Stopped,
            storage: Storage::default(),
            flushes: Flushes::default(),
            taken_until_ticks: 0,
            mode,
        }
    }

    /// # Errors
    /// Why there can be no such channel, as a sentence.
    pub(super) fn add_channel(&mut self, stream: StreamClass, geometry: &link::Geometry) -> Result<(), String> {
        // One without classes has recorded nothing, and may have got other contexts.
        if !self.trace.metadata.has_classes(stream.id) {
            let channel = Channel::new(&stream, geometry);
            let channel = channel.map_err(|error| format!("channel {}: {error}", stream.channel))?;
            self.channels.insert(stream.id, channel);
            self.trace.metadata.add_stream(stream);
        }
        Ok(())
    }

    /// # Errors
    /// Why there can be no such class, as a sentence.
    pub(super) fn add_class(&mut self, stream_id: u32, class: EventClass) -> Result<(), String> {
        let channel = self.channels.get_mut(&stream_id);
        let channel = channel.ok_or_else(|| format!("event {}: there is no channel {stream_id}", class.name))?;
        channel.add_class(&class)?;
        self.trace.metadata.add_class(stream_id, class);
        Ok(())
    }

    /// # Errors
    /// Why the memory cannot be read, as a sentence.
    pub(super) fn add_ring_set(
        &mut self,
        producer: Producer,
        memory: &impl AsFd,
        ears: Option<Ears>,
    ) -> Result<(), String> {
        let key = producer.key;
        if self.ring_sets.contains_key(&key) {
            return Ok(());
        }
        let channel = self.channels.get_mut(&producer.stream_id);
        let channel = channel.ok_or_else(|| format!("there is no channel {}", producer.stream_id))?;
        if producer.inherited {
            channel.forget_stated();
        }
        let ring_key = Key::new(key).ok_or("0 is not a valid key")?;
        let memory = ChannelMemory::open(memory, channel.geometry, ring_key).map_err(|error| error.to_string())?;
        // Of a flight recorder, nothing is taken.
        let ears = ears.filter(|_| matches!(self.mode, Mode::Streaming));
        let mut ring_set = RingSet::new(producer, memory, ears);
        if self.stage.is_started() {
            ring_set.set_recording(true);
        }
        self.ring_sets.insert(key, ring_set);
        self.attention.attract(key);
        Ok(())
    }

    /// The programs of these rang.
    pub(super) fn have_rung(&mut self, keys: Vec<RingSetKey>) {
        keys.into_iter().for_each(|key| self.attention.attract(key));
    }

    /// The program is dead, or has other memory: what is in the ring set is the last of it.
    pub(super) fn end_ring_set(&mut self, key: RingSetKey, life: Life, outbox: &Outbox) {
        let Some(ring_set) = self.ring_sets.get_mut(&key) else {
            // It was done before; the message was lost.
            return outbox.send(&ToControl::RingSetDone { key });
        };
        self.attention.attract(key);
        let was_current = ring_set.life == Life::Current;
        if ring_set.life != Life::Gone {
            ring_set.life = life;
        }
        if life == Life::Gone {
            ring_set.set_recording(false);
        }
        ring_set.resume();
        if let Mode::Recorder(recorder) = &mut self.mode
            && was_current
            && let Some(dropped) = recorder.keep(key, ring_set)
        {
            if dropped != key {
                self.find_dropped(dropped, outbox);
            }
            self.drop_ring_set(dropped, outbox);
        }
    }

    /// Does what there is to do with the rings.
    pub(super) fn work(&mut self, shared: &mut Shared<'_>) -> Again {
        let Mode::Recorder(recorder) = &mut self.mode else {
            return self.stream_and_tell(shared);
        };
        if recorder.write_snapshot(&self.trace.metadata, &mut self.channels, &self.ring_sets, shared) {
            return Again::After(Duration::ZERO);
        }
        let has_programs = self.ring_sets.values().any(|ring_set| ring_set.life == Life::Current);
        match self.stage {
            Stage::Started if has_programs => Again::After(recorder.look(&self.ring_sets, shared)),
            Stage::Started | Stage::Stopped => Again::Never,
            Stage::Ending(_) => self.finish_ending(shared),
        }
    }

    /// Streams. Durations can be compared up to a time at which all rings were taken whole later.
    fn stream_and_tell(&mut self, shared: &mut Shared<'_>) -> Again {
        let matches = self.trace.chunks.matches.clone();
        let matches = matches.filter(Matches::has_lapses);
        let clock = self.channels.values().next().map(Channel::clock);
        let now_ticks = clock.filter(|_| matches.is_some()).map_or(0, clock::now_ticks);
        let is_due = |matches: &Matches| matches.due_in(now_ticks) == Some(Duration::ZERO);
        let takes_all = matches
            .as_ref()
            .is_some_and(|matches| matches.are_untold() || is_due(matches));
        if takes_all {
            // A program that has rung may not have been heard.
            self.attention.attract_all(&self.ring_sets);
        }
        let again = stream(self, shared);
        if takes_all && !self.ring_sets.values().any(RingSet::is_behind) {
            self.taken_until_ticks = now_ticks;
        }
        self.tell_matches(self.taken_until_ticks, shared.outbox);
        let is_awake = again == Again::AtPace || !matches!(self.stage, Stage::Started);
        match matches
            .filter(|_| !is_awake)
            .and_then(|matches| matches.due_in(now_ticks))
        {
            // Then it certainly is.
            Some(due_in) => again.sooner(Again::After(due_in + Duration::from_millis(1)), None),
            None => again,
        }
    }

    fn tell_matches(&self, until_ticks: u64, outbox: &Outbox) {
        if let Some(matches) = &self.trace.chunks.matches {
            matches.tell(until_ticks, || self.unseen(), self.id, outbox);
        }
    }

    /// Ends of durations that nobody will see, in the rings that are here and in those that were.
    fn unseen(&self) -> Unseen {
        let past = self.channels.iter().filter(|(id, _)| is_of_ends(**id));
        let past = past.map(|(_, channel)| channel.past.missed());
        let current = self.ring_sets.values();
        let current = current.filter(|ring_set| is_of_ends(ring_set.producer.stream_id));
        let counts = past.chain(current.map(RingSet::missed));
        let clock = self.channels.values().next().map(Channel::clock);
        Unseen::count(counts, || clock.map_or(0, clock::now_ticks))
    }

    /// Its events are told to control, and nothing is written.
    pub(super) fn is_of_trigger(&self) -> bool {
        self.trace.is_of_trigger()
    }

    /// Nothing more is written: answers, and is stopped or closed.
    pub(super) fn finish_ending(&mut self, shared: &mut Shared<'_>) -> Again {
        let Some(ending) = self.stage.ended() else {
            return Again::Never;
        };
        if matches!(self.mode, Mode::Streaming) {
            self.look_at_files();
            self.look_at_past_files();
            self.trace.note_clock();
        }
        if ending.close && !self.is_of_trigger() {
            self.trace.chunks.give_back();
        }
        // Before the answer.
        self.tell_matches(u64::MAX, shared.outbox);
        self.flushes.end_all(&Ok(()), shared.outbox);
        self.answer(ending.requests, shared.outbox);
        if ending.close { Again::Closed } else { Again::Never }
    }

    /// The ring set is done; what it wrote and lost stays in the totals.
    pub(super) fn drop_ring_set(&mut self, key: RingSetKey, outbox: &Outbox) {
        self.attention.forget(key);
        if let (Some(matches), Some(ring_set)) = (&self.trace.chunks.matches, self.ring_sets.get(&key))
            && ring_set.life == Life::Gone
        {
            // What it ended is told before.
            matches.forget_process(ring_set.producer.program.ids.pid);
        }
        if let Some(mut ring_set) = self.ring_sets.remove(&key)
            && let Some(channel) = self.channels.get_mut(&ring_set.producer.stream_id)
        {
            let mut past = std::mem::take(&mut channel.past);
            match self.mode {
                Mode::Streaming => {
                    ring_set.add_to(&mut past, channel);
                    if !self.trace.is_of_trigger() {
                        let streams = ring_set.legacy(channel);
                        channel.past_streams.extend(streams);
                    }
                }
                Mode::Recorder(_) => ring_set.add_losses_to(&mut past),
            }
            channel.past = past;
        }
        outbox.send(&ToControl::RingSetDone { key });
    }

    fn answer(&mut self, requests: Vec<RequestId>, outbox: &Outbox) {
        let totals = self.totals();
        for request in requests {
            outbox.send(&ToControl::Done {
                request,
                outcome: Ok(totals.clone()),
            });
        }
    }

    /// Memory is bounded: the programs that died first go first.
    fn find_dropped(&mut self, key: RingSetKey, outbox: &Outbox) {
        if let Some(RingSet { producer, .. }) = self.ring_sets.get(&key) {
            let why = format!("it has ended, and {GONE_MAX} programs ended after it");
            let what = format!("the events of {} are no longer kept: {why}", producer.program);
            self.find(producer.stream_id, what, outbox);
        }
    }

    /// Notes something that people should know about a channel, and tells control when it is new.
    pub(super) fn find(&mut self, stream_id: u32, what: String, outbox: &Outbox) {
        if self
            .channels
            .get_mut(&stream_id)
            .is_some_and(|channel| channel.findings.note(&what))
        {
            outbox.send(&ToControl::Finding { session: self.id, what });
        }
    }
}

impl Recording for Session {
    fn is_started(&self) -> bool {
        self.stage.is_started()
    }

    fn start(&mut self, outbox: &Outbox) -> Result<(), Failure> {
        self.trace.look_around();
        if matches!(self.mode, Mode::Streaming)
            && let Err(error) = self.trace.write_metadata()
            && !self.trace.exists()
        {
            return Err(error.failure());
        }
        let overtaken = self.stage.start();
        self.answer(overtaken, outbox);
        self.ring_sets
            .values_mut()
            .for_each(|ring_set| ring_set.set_recording(true));
        self.attention.attract_all(&self.ring_sets);
        Ok(())
    }

    fn end(&mut self, request: RequestId, close: bool, now: Instant) {
        for ring_set in self.ring_sets.values_mut() {
            ring_set.set_recording(false);
            // A ring set that came while the session could not be started has let its program record until now.
            ring_set.resume();
        }
        self.stage.end(request, close, now);
    }

    /// A session that streams has nothing to take a snapshot of.
    fn snapshot(&mut self, request: RequestId, output: Output, outbox: &Outbox) {
        self.trace.metadata.look_at_clock();
        match &mut self.mode {
            Mode::Recorder(recorder) => {
                recorder.begin_snapshot(SnapshotJob::new(request, output, &self.channels, &self.ring_sets))
            }
            Mode::Streaming => service::refuse_snapshot(request, outbox),
        }
    }

    fn rotate(&mut self, request: RequestId, rotation: Rotation, outbox: &Outbox) {
        match self.mode {
            Mode::Recorder(_) => service::refuse_rotation(request, outbox),
            Mode::Streaming => self.trace.chunks.ask(request, rotation),
        }
    }

    /// A flight recorder keeps what it has, and of a session that is stopped everything is written.
    fn flush(&mut self, request: RequestId, outbox: &Outbox) {
        self.flushes.ask(request);
        if matches!(self.stage, Stage::Stopped) || matches!(self.mode, Mode::Recorder(_)) {
            self.flushes.end_all(&Ok(()), outbox);
        } else if let Some(why) = self.storage.failure() {
            self.flushes.end_all(&Err(why.clone()), outbox);
        }
    }

    fn totals(&mut self) -> Vec<ChannelTotals> {
        if matches!(self.mode, Mode::Streaming) {
            self.look_at_files();
        }
        let mut totals: BTreeMap<u32, ChannelTotals> = self
            .channels
            .iter()
            .map(|(stream_id, channel)| (*stream_id, channel.past.clone()))
            .collect();
        for (stream_id, totals) in &mut totals {
            totals.add(self.trace.chunks.archived_of(*stream_id));
        }
        for ring_set in self.ring_sets.values_mut() {
            let channel = &self.channels[&ring_set.producer.stream_id];
            let totals = totals.entry(channel.stream_id).or_default();
            match self.mode {
                Mode::Streaming => ring_set.add_to(totals, channel),
                Mode::Recorder(_) => ring_set.add_losses_to(totals),
            }
        }
        let layouts = |stream_id| self.channels.get(&stream_id).map(|channel: &Channel| &channel.layouts);
        for counted in self.trace.count_earlier(layouts) {
            let stream_id = counted.stream.0;
            if let (Some(totals), Some(channel)) = (totals.get_mut(&stream_id), self.channels.get_mut(&stream_id)) {
                add_counted(totals, &counted, channel);
            }
        }
        for (stream_id, totals) in &mut totals {
            if let Some(channel) = self.channels.get_mut(stream_id) {
                totals.fill = channel.state_fill(totals.discarded_full);
                totals.findings = channel.findings.list().to_vec();
            }
        }
        totals.into_values().collect()
    }
}
