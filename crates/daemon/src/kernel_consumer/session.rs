// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tracing session of the kernel domain: its channels and its state dump; start, stop, close (consumer/stage.rs).
//!
//! Events are written at once (streaming.rs) or kept by the kernel until a snapshot (recorder.rs).

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use piste_control::METADATA_GONE;
use piste_kernel::programs::Programs;
use piste_kernel::spec::{ChannelSpec, Tracked};
use piste_kernel::state_dump::STREAM_ID;
use piste_kernel::tracked::Hiding;
use piste_ring::ClockSource;

use super::Fullest;
use super::channel::{Channel, Frame, Tools, trace_clock};
use super::dump::StateDump;
use super::folders::{Folders, STATE_DUMP};
use super::hidden::is_own_hidden;
use super::kernel::Kernel;
use super::mappings::{self, MappingRecorder, Wanted};
use super::metadata::Metadata;
use super::recorder::Recorder;
use super::tracking::{self, Tracking};
use crate::consumer::chunks::Chunks;
use crate::consumer::clock;
use crate::consumer::findings::Findings;
use crate::consumer::flush::Flushes;
use crate::consumer::ladder::stream;
use crate::consumer::matches::{Matches, Unseen, is_of_ends};
use crate::consumer::outbox::Outbox;
use crate::consumer::service::{Recording, refuse_rotation, refuse_snapshot};
use crate::consumer::sink::Needs;
use crate::consumer::stage::{Again, Stage};
use crate::consumer::storage::Storage;
use crate::link::{ChannelTotals, Failure, Opening, Purpose, RequestId, Rotation, SessionId, ToControl};
use crate::person::{Output, Person};

/// The finding that the state dump was gone.
const DUMP_GONE: &str = "the state dump was removed during the recording, and was written again";
/// The same when nothing is recorded any more.
const DUMP_GONE_AT_END: &str = "the state dump was removed before the session ended";

/// How often to read which programs were started, at least: a ring has room for a few thousand of them.
const CATCH_UP_INTERVAL: Duration = Duration::from_secs(1);

/// The finding that some of them were not read.
const UNSURE: &str = "the processes of some new threads may be unknown, and some system calls of 32-bit programs may have the names of 64-bit \
                      ones, because programs and threads were started faster than pisted could follow";

/// How often to look whether the trace's files are still there.
const LOOK_AT_FILES_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Session {
    pub(super) id: SessionId,
    /// Or why it cannot be traced.
    kernel: Result<Arc<Kernel>, String>,
    pub(super) folders: Folders,
    pub(super) clock: ClockSource,
    /// The clock's ticks per second.
    frequency_hz: u64,
    /// Whose the trace is.
    owner: Person,
    pub(super) metadata: Metadata,
    pub(super) chunks: Chunks,
    tracked: Tracked,
    /// While it records threads that only looking can find.
    tracking: Option<Tracking>,
    /// The processes of threads, and which threads run 32-bit programs; `None` until a channel records forks or system calls.
    programs: Option<Arc<Mutex<Programs>>>,
    pub(super) channels: BTreeMap<u32, Channel>,
    /// Channels that could not be opened, and why.
    refused: BTreeMap<u32, (ChannelSpec, String)>,
    pub(super) dump: Option<StateDump>,
    /// To be answered when the dump is written.
    pub(super) dump_requests: Vec<RequestId>,
    pub(super) stage: Stage,
    pub(super) storage: Storage,
    /// What space was set aside for.
    aside: Option<Needs>,
    /// This consumer started it.
    was_started: bool,
    /// Of the session, beside those of its channels.
    findings: Findings,
    pub(super) recorder: Option<Recorder>,
    /// A flight recorder has it until it is closed, others while they record.
    pub(super) mappings: Option<MappingRecorder>,
    next_catch_up: Option<Instant>,
    next_look_at_files: Option<Instant>,
    /// Somebody follows: what was recorded until a time is to be written, in pages that are not full too.
    pub(super) flushes: Flushes<u64>,
    /// The last look left nothing in the rings that was there before it.
    pub(super) has_taken_all: bool,
    /// All events until then were told as matches, or are among those that wait.
    taken_until_ticks: u64,
}

/// What the session's thread has.
pub(super) struct Shared<'a> {
    pub(super) outbox: &'a Outbox,
    pub(super) packet: &'a mut Vec<u8>,
    pub(super) fullest: &'a mut Fullest,
    pub(super) now: Instant,
}

impl Session {
    pub(super) fn new(
        opening: Opening,
        kernel: Result<Arc<Kernel>, String>,
        run_folder: &Path,
        outbox: &Outbox,
        now: Instant,
    ) -> Session {
        let Opening {
            session: id,
            output,
            owner,
            purpose,
            mut trace,
            rotation,
            archived,
        } = opening;
        let folders = Folders::new(run_folder, id, &output, &purpose);
        // What is kept for snapshots lies in the run folder, as do the classes of a trigger's events.
        let keeper = match &purpose {
            Purpose::Trace => owner.clone(),
            Purpose::Snapshots | Purpose::Trigger { .. } => Person::default(),
        };
        let (mut chunks, unreadable) = Chunks::open(
            keeper.clone(),
            folders.streams.clone(),
            trace.uuid,
            (archived, rotation),
            now,
        );
        trace.uuid = chunks.trace_uuid();
        let mut metadata = Metadata::open(keeper, &folders.streams, &trace);
        if let Some(moving) = chunks.moving() {
            metadata.resume_chunk(&moving.old_folder, moving.old_uuid);
        }
        let is_recorder = purpose == Purpose::Snapshots;
        if let Some(matches) = Matches::of(purpose) {
            metadata.tell(matches.clone());
            chunks.matches = Some(matches);
        }
        let mut session = Session {
            id,
            clock: if trace.clock.name == "x86-tsc" {
                ClockSource::Tsc
            } else {
                ClockSource::Monotonic
            },
            frequency_hz: trace.clock.frequency_hz,
            owner,
            metadata,
            chunks,
            kernel,
            folders,
            tracked: Tracked::default(),
            tracking: None,
            programs: None,
            channels: BTreeMap::new(),
            refused: BTreeMap::new(),
            dump: None,
            dump_requests: Vec::new(),
            stage: Stage::Stopped,
            storage: Storage::default(),
            aside: None,
            was_started: false,
            findings: Findings::default(),
            recorder: is_recorder.then(Recorder::default),
            mappings: None,
            next_catch_up: None,
            next_look_at_files: None,
            flushes: Flushes::default(),
            has_taken_all: false,
            taken_until_ticks: 0,
        };
        if let Err(why) = &session.kernel {
            let what = format!("the kernel is not recorded: {why}");
            session.find(what, outbox);
        }
        if let Some(error) = unreadable {
            session.find(format!("parts of the trace may be written twice: {error}"), outbox);
        }
        session
    }

    pub(super) fn kernel(&self) -> Option<Arc<Kernel>> {
        self.kernel.as_ref().ok().cloned()
    }

    /// The kernel with the events that it has now, which the rules of a channel may be about.
    fn kernel_with_new_events(&mut self, outbox: &Outbox) -> Option<Arc<Kernel>> {
        match self.kernel()?.again() {
            Ok(kernel) => self.kernel = Ok(Arc::new(kernel)),
            Err(error) => self.find(format!("cannot list the kernel's events again: {error}"), outbox),
        }
        self.kernel()
    }

    /// Adds a channel, or changes what it records.
    pub(super) fn set_channel(&mut self, spec: ChannelSpec, outbox: &Outbox) {
        let Some(kernel) = self.kernel_with_new_events(outbox) else {
            return;
        };
        let stream_id = spec.stream_id;
        if spec.filters_switches() {
            self.metadata.say_selected_events();
        }
        self.watch_programs(&spec, &kernel, outbox);
        self.tracking = None;
        let frame = Frame {
            session: self.id,
            owner: &self.owner,
            kernel: &kernel,
            folders: &self.folders,
            chunks: &self.chunks,
            clock: self.clock,
            frequency_hz: self.frequency_hz,
            tracked: &self.tracked,
            programs: self.programs.as_ref(),
            is_recorder: self.recorder.is_some(),
        };
        if let Some(channel) = self.channels.get_mut(&stream_id) {
            let mut tools = Tools {
                kernel: &kernel,
                metadata: &mut self.metadata,
                packet: &mut Vec::new(),
            };
            channel.change(spec, frame, &mut tools);
        } else {
            match Channel::open(spec.clone(), frame, &mut self.metadata) {
                Ok(mut channel) => {
                    self.refused.remove(&stream_id);
                    if self.stage.is_started() {
                        channel.start(self.clock, &self.tracked);
                    }
                    self.channels.insert(stream_id, channel);
                    self.open_dump(outbox);
                }
                Err(why) => {
                    self.find(why.clone(), outbox);
                    self.refused.insert(stream_id, (spec, why));
                }
            }
        }
        self.name_kernel();
        self.tell_notes(outbox);
    }

    /// Starts to track new threads and 32-bit programs when the first channel records system calls or forks.
    fn watch_programs(&mut self, spec: &ChannelSpec, kernel: &Kernel, outbox: &Outbox) {
        if self.programs.is_some() || !Programs::are_needed(&spec.rules, &kernel.catalog) {
            return;
        }
        let Kernel {
            tracefs,
            owner,
            catalog,
            pages,
            ..
        } = kernel;
        match Programs::open(tracefs, owner, self.id, trace_clock(self.clock), catalog, *pages) {
            Ok(programs) => self.programs = Some(Arc::new(Mutex::new(programs))),
            Err(error) => {
                let what = format!(
                    "the processes of new threads may be unknown, and system calls of 32-bit programs get the names of 64-bit ones: {error}"
                );
                self.find(what, outbox);
            }
        }
    }

    /// Records other threads and CPUs from now on.
    pub(super) fn set_tracked(&mut self, tracked: Tracked, outbox: &Outbox) {
        if tracked == self.tracked {
            return;
        }
        if tracked.selects_threads() {
            self.metadata.say_selected_threads();
        }
        if !tracked.cpus.is_empty() {
            self.metadata.say_selected_cpus();
        }
        self.tracked = tracked;
        // It knows the old ones, and two must not change the kernel's lists at once.
        self.tracking = None;
        let Some(kernel) = self.kernel() else { return };
        let frame = Frame {
            session: self.id,
            owner: &self.owner,
            kernel: &kernel,
            folders: &self.folders,
            chunks: &self.chunks,
            clock: self.clock,
            frequency_hz: self.frequency_hz,
            tracked: &self.tracked,
            programs: self.programs.as_ref(),
            is_recorder: self.recorder.is_some(),
        };
        for channel in self.channels.values_mut() {
            channel.track(frame);
        }
        if let Some(mappings) = &self.mappings {
            mappings.track(self.tracked.clone());
        }
        self.tell_notes(outbox);
    }

    /// Writes the state of the system once more; `request` is answered then.
    pub(super) fn dump_again(&mut self, request: RequestId, outbox: &Outbox) {
        if self.stage.is_started() && self.recorder.is_none() && self.begin_dump() {
            self.dump_requests.push(request);
            return;
        }
        let what = if self.recorder.is_some() {
            "each snapshot already contains its own state dump".into()
        } else {
            format!("session {} records nothing of the kernel", self.id)
        };
        let outcome = Err(Failure::Other { what });
        outbox.send(&ToControl::Done { request, outcome });
    }

    /// Does what there is to do.
    pub(super) fn work(&mut self, shared: &mut Shared<'_>) -> Again {
        let settled_ticks = clock::settled_ticks(self.clock);
        let tracking = self.keep_tracking(shared.outbox);
        let catch_up = self.catch_up_with_programs(shared.now);
        let again = if self.recorder.is_some() {
            self.record(shared)
        } else {
            stream(self, shared)
        };
        self.tell_notes(shared.outbox);
        if let Some(matches) = &self.chunks.matches {
            if self.has_taken_all {
                self.taken_until_ticks = settled_ticks;
            }
            matches.tell(self.taken_until_ticks, || self.unseen(), self.id, shared.outbox);
        }
        let matches = self.chunks.matches.as_ref().filter(|_| self.stage.is_started());
        let due_in = matches.and_then(|matches| matches.due_in(settled_ticks));
        // Then it certainly is.
        let due_in = due_in.map(|due_in| due_in + Duration::from_millis(1));
        match (again, tracking.into_iter().chain(catch_up).chain(due_in).min()) {
            (Again::Closed, _) | (_, None) => again,
            // The pace is shorter than that, or as good.
            (Again::AtPace, Some(_)) => again,
            (again, Some(after)) => again.sooner(Again::After(after), None),
        }
    }

    /// Ends of durations that nobody will see, as the kernel counts them.
    fn unseen(&self) -> Unseen {
        let of_ends = self.channels.iter().filter(|(id, _)| is_of_ends(**id));
        let counts = of_ends.map(|(_, channel)| channel.totals().missed());
        Unseen::count(counts, || clock::now_ticks(self.clock))
    }

    /// What says that a ring has a full page.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_read = self.stage.is_started() && self.recorder.is_none();
        let channels = is_read.then(|| self.channels.values()).into_iter().flatten();
        channels.flat_map(Channel::descriptors)
    }

    /// Nothing more is written: answers, and is stopped or closed.
    pub(super) fn finish_ending(&mut self, shared: &mut Shared<'_>) -> Again {
        let Some(ending) = self.stage.ended() else {
            return Again::Never;
        };
        if ending.close || self.recorder.is_none() {
            self.end_mappings();
        }
        if self.recorder.is_none() {
            self.look_at_files();
            self.metadata.note_clock();
        }
        self.answer_dumps(shared.outbox);
        self.flushes.end_all(&Ok(()), shared.outbox);
        self.tell_notes(shared.outbox);
        if let Some(matches) = &self.chunks.matches {
            matches.tell(u64::MAX, || self.unseen(), self.id, shared.outbox);
        }
        if !ending.close {
            self.answer(ending.requests, shared.outbox);
            return Again::Never;
        }
        let totals = self.totals();
        if let Some(kernel) = self.kernel() {
            let channels = std::mem::take(&mut self.channels).into_values();
            let mut left: Vec<String> = channels.flat_map(|channel| channel.close(&kernel)).collect();
            for (spec, _) in self.refused.values() {
                left.extend(Channel::clear_away(spec, self.id, &kernel));
            }
            if let Some(programs) = self.programs.take() {
                let removed = programs.lock().unwrap_or_else(PoisonError::into_inner).remove();
                left.extend(removed.err().map(|error| error.to_string()));
            }
            for what in left {
                self.find(what, shared.outbox);
            }
        }
        self.folders.remove();
        self.chunks.give_back();
        for request in ending.requests {
            let outcome = Ok(totals.clone());
            shared.outbox.send(&ToControl::Done { request, outcome });
        }
        Again::Closed
    }

    /// Its events are told to control, and nothing is written: no state either.
    pub(super) fn is_of_trigger(&self) -> bool {
        self.chunks.matches.is_some()
    }

    /// Records what is mapped where from now on.
    fn record_mappings(&mut self, is_continued: bool) {
        let wanted = Wanted {
            owner: &self.owner,
            tracked: &self.tracked,
            is_continued,
            hidings: self.hidings(),
        };
        self.mappings = match (&self.recorder, self.chunks.folder().parent()) {
            (None, Some(folder)) => MappingRecorder::begin(wanted, folder),
            _ => MappingRecorder::keep(wanted),
        };
        self.name_kernel();
    }

    /// Has the kernel's symbols written as well, if events have the kernel's stacks. Without stacks, the few addresses of the kernel are not worth it.
    fn name_kernel(&self) {
        if let Some(mappings) = &self.mappings
            && self.channels.values().any(|channel| channel.spec.has_kernel_stacks())
        {
            mappings.name_kernel();
        }
    }

    /// Has the last mappings written.
    pub(super) fn end_mappings(&mut self) {
        if let Some(mappings) = self.mappings.take() {
            mappings.end();
        }
    }

    /// Lets the mappings go on in the next chunk.
    pub(super) fn move_mappings(&mut self, chunk: &Path) {
        let Some(folder) = self.chunks.folder().parent() else {
            return;
        };
        mappings::move_to(chunk, folder, &self.owner);
        if let Some(mappings) = &mut self.mappings
            && !mappings.move_on(&self.owner, folder)
        {
            self.record_mappings(false);
        }
    }

    /// Answers those who wait for a state dump.
    pub(super) fn answer_dumps(&mut self, outbox: &Outbox) {
        let requests = std::mem::take(&mut self.dump_requests);
        self.answer(requests, outbox);
    }

    pub(super) fn hidings(&self) -> Vec<Hiding> {
        match is_own_hidden(&self.tracked) {
            true => self.channels.values().filter_map(Channel::hiding).collect(),
            false => Vec::new(),
        }
    }

    /// Notes something that people should know about the session, and tells control when it is new.
    pub(super) fn find(&mut self, what: String, outbox: &Outbox) {
        if self.findings.note(&what) {
            outbox.send(&ToControl::Finding { session: self.id, what });
        }
    }

    fn answer(&mut self, requests: Vec<RequestId>, outbox: &Outbox) {
        if requests.is_empty() {
            return;
        }
        let totals = self.totals();
        for request in requests {
            let outcome = Ok(totals.clone());
            outbox.send(&ToControl::Done { request, outcome });
        }
    }

    /// Tells control what was noted and people were not told yet.
    fn tell_notes(&mut self, outbox: &Outbox) {
        let programs = self.programs.as_ref();
        if programs.is_some_and(|programs| programs.lock().unwrap_or_else(PoisonError::into_inner).take_is_unsure()) {
            self.find(UNSURE.to_owned(), outbox);
        }
        for channel in self.channels.values_mut() {
            for what in channel.take_notes() {
                if channel.findings.note(&what) {
                    outbox.send(&ToControl::Finding { session: self.id, what });
                }
            }
        }
    }

    fn open_dump(&mut self, outbox: &Outbox) {
        if self.dump.is_some() || self.recorder.is_some() || self.is_of_trigger() {
            return;
        }
        let stream = self
            .chunks
            .open_stream(STATE_DUMP, StateDump::identity(self.chunks.trace_uuid()));
        let opened = stream
            .and_then(|stream| StateDump::open(stream, &self.folders.run.join("dump.tally"), self.folders.dumping()));
        match opened {
            Ok(dump) => self.dump = Some(dump),
            Err(error) => self.find(format!("cannot write the state dump: {error}"), outbox),
        }
    }

    /// False when there can be none.
    pub(super) fn begin_dump(&mut self) -> bool {
        let (clock, hidings) = (self.clock, self.hidings());
        match &mut self.dump {
            Some(dump) => {
                dump.begin(clock, hidings);
                true
            }
            None => false,
        }
    }

    /// Nobody else looks at the metadata and the state dump.
    pub(super) fn look_at_files_now_and_then(&mut self, now: Instant) {
        if self.stage.is_started() && self.next_look_at_files.is_none_or(|next| now >= next) {
            self.look_at_files();
            self.next_look_at_files = Some(now + LOOK_AT_FILES_INTERVAL);
        }
    }

    /// Has a thread look for what is to be recorded, while something is and only looking can find it. Returns when to ask again what was found.
    fn keep_tracking(&mut self, outbox: &Outbox) -> Option<Duration> {
        if !self.stage.is_started() || !self.tracked.needs_refresh() {
            self.tracking = None;
            return None;
        }
        match &self.tracking {
            Some(tracking) => {
                for found in tracking.found() {
                    if let Some(channel) = self.channels.get_mut(&found.stream_id) {
                        found.findings.iter().for_each(|what| channel.note(what));
                    }
                }
            }
            None => self.begin_tracking(outbox),
        }
        Some(tracking::INTERVAL)
    }

    fn begin_tracking(&mut self, outbox: &Outbox) {
        let instance = |(id, channel): (&u32, &Channel)| (*id, channel.instance().clone());
        let instances = self.channels.iter().map(instance).collect();
        match Tracking::begin(self.tracked.clone(), instances) {
            Ok(tracking) => self.tracking = Some(tracking),
            Err(error) => {
                let what =
                    format!("processes that start or end from now on may be missing or recorded by mistake: {error}");
                self.find(what, outbox);
            }
        }
    }

    /// Pages of calls may be converted much later, or not at all: a flight recorder's, and those of a channel in which little happens. Returns
    /// when to do so again.
    fn catch_up_with_programs(&mut self, now: Instant) -> Option<Duration> {
        let programs = self.programs.as_ref()?;
        let next = *self.next_catch_up.get_or_insert(now);
        if now < next {
            return Some(next - now);
        }
        programs.lock().unwrap_or_else(PoisonError::into_inner).catch_up();
        self.next_catch_up = Some(now + CATCH_UP_INTERVAL);
        Some(CATCH_UP_INTERVAL)
    }

    /// Looks whether somebody has removed files of the trace, and notes it. What is gone begins again; the state is dumped once more.
    pub(super) fn look_at_files(&mut self) {
        if self.recorder.is_some() {
            return;
        }
        let metadata_is_gone = self.metadata.is_gone();
        if metadata_is_gone {
            // Where it cannot be written, the next packet says so.
            let _ = self.metadata.write();
        }
        let dump_is_gone = self.dump.as_mut().is_some_and(StateDump::is_gone);
        if dump_is_gone && self.stage.is_started() {
            self.begin_dump();
        }
        self.channels.values_mut().for_each(Channel::look_at_files);
        let dump_gone = match self.stage.is_started() {
            true => DUMP_GONE,
            false => DUMP_GONE_AT_END,
        };
        let seen = [(metadata_is_gone, METADATA_GONE), (dump_is_gone, dump_gone)];
        if let Some(channel) = self.channels.values_mut().next() {
            let seen = seen.into_iter().filter(|(is_so, _)| *is_so);
            seen.for_each(|(_, what)| channel.note(what));
        }
    }

    /// The streams of the trace, the state dump apart.
    pub(super) fn stream_count(&self) -> usize {
        self.channels.values().map(|channel| channel.rings().count()).sum()
    }

    /// Sets space aside for what is written in the end, should the disk be full.
    pub(super) fn set_aside(&mut self) {
        let needs = Needs {
            stream_count: self.stream_count(),
            metadata_bytes: self.metadata.text().map_or(0, str::len),
        };
        if self.aside.replace(needs) != Some(needs) && !self.is_of_trigger() {
            self.chunks.set_aside(needs);
        }
    }

    /// Tries again what could not be opened.
    ///
    /// # Errors
    /// There is no channel that could record.
    fn open_refused(&mut self, outbox: &Outbox) -> Result<(), Failure> {
        if let Err(why) = &self.kernel {
            let what = format!("the kernel is not recorded: {why}");
            return Err(Failure::Other { what });
        }
        for (spec, _) in std::mem::take(&mut self.refused).into_values() {
            self.set_channel(spec, outbox);
        }
        match self.refused.values().next() {
            Some((_, why)) if self.channels.is_empty() => Err(Failure::Other { what: why.clone() }),
            _ => Ok(()),
        }
    }
}

impl Recording for Session {
    fn is_started(&self) -> bool {
        self.stage.is_started()
    }

    /// The state dump begins when the rings record: what changes while it is taken is in the trace. A session that another consumer
    /// started goes on without.
    fn start(&mut self, outbox: &Outbox) -> Result<(), Failure> {
        self.open_refused(outbox)?;
        self.metadata.look_at_clock();
        if self.recorder.is_none()
            && let Err(error) = self.metadata.write()
            && !self.metadata.exists()
        {
            return Err(error.failure());
        }
        if self.recorder.is_none() {
            self.set_aside();
        }
        let was_recording = self.stage.is_started() || !self.was_started && self.channels.values().any(Channel::was_on);
        for channel in self.channels.values_mut() {
            channel.start(self.clock, &self.tracked);
        }
        if self.mappings.is_none() && !self.is_of_trigger() {
            self.record_mappings(was_recording);
        }
        self.was_started = true;
        let overtaken = self.stage.start();
        let was_interrupted = self.dump.as_ref().is_some_and(StateDump::was_interrupted);
        if !was_recording || was_interrupted {
            self.begin_dump();
        }
        self.tell_notes(outbox);
        self.answer(overtaken, outbox);
        Ok(())
    }

    fn totals(&mut self) -> Vec<ChannelTotals> {
        self.look_at_files();
        for channel in self.channels.values_mut() {
            for what in channel.take_notes() {
                channel.findings.note(&what);
            }
        }
        let mut all: Vec<ChannelTotals> = self.channels.values().map(Channel::totals).collect();
        match &self.recorder {
            Some(recorder) => all.iter_mut().for_each(|totals| recorder.replace(totals)),
            None => {
                // Whoever asks now finds them neither in the trace nor anywhere else: a disk that is full may stay so.
                if matches!(self.stage, Stage::Stopped) || self.storage.is_failing() {
                    for (totals, channel) in all.iter_mut().zip(self.channels.values()) {
                        totals.discarded_late += channel.left();
                    }
                }
                all.extend(self.dump.as_ref().map(StateDump::totals));
            }
        }
        for totals in &mut all {
            // The tallies count the events of all chunks.
            let archived = self.chunks.archived_of(totals.stream_id);
            totals.bytes += archived.bytes;
            totals.packets += archived.packets;
            totals.lost_packets += archived.lost_packets;
        }
        all.retain(|totals| totals.stream_id != STREAM_ID || totals.packets > 0);
        all
    }

    /// A flight recorder keeps what it has, and of a session that is stopped everything is written.
    fn flush(&mut self, request: RequestId, outbox: &Outbox) {
        self.flushes.ask(request);
        if matches!(self.stage, Stage::Stopped) || self.recorder.is_some() || self.kernel.is_err() {
            self.flushes.end_all(&Ok(()), outbox);
        } else if let Some(why) = self.storage.failure() {
            self.flushes.end_all(&Err(why.clone()), outbox);
        }
    }

    fn end(&mut self, request: RequestId, close: bool, now: Instant) {
        let now_ticks = clock::now_ticks(self.clock);
        for channel in self.channels.values_mut() {
            channel.stop(now_ticks);
        }
        self.tracking = None;
        self.stage.end(request, close, now);
    }

    /// A session that streams has nothing to take a snapshot of.
    fn snapshot(&mut self, request: RequestId, output: Output, outbox: &Outbox) {
        if self.recorder.is_none() {
            refuse_snapshot(request, outbox);
            return;
        }
        self.begin_snapshot(request, output);
    }

    fn rotate(&mut self, request: RequestId, rotation: Rotation, outbox: &Outbox) {
        match self.recorder {
            Some(_) => refuse_rotation(request, outbox),
            None => self.chunks.ask(request, rotation),
        }
    }
}
