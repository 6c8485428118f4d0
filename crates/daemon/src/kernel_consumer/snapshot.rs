// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes what the rings of a flight recorder hold to a trace of its own, while the kernel goes on recording.
//!
//! All rings are read first, each at most once around, and then written one after the other. A snapshot ends on all CPUs at the same time: it waits
//! until the records from before that time are in the rings, and leaves out later ones. Packets are kept (kept.rs), since reading takes them out of
//! the ring and the next snapshot shows them too. Each snapshot has a state dump, taken meanwhile. The metadata comes last: a folder without it is a
//! snapshot that was interrupted.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use piste_kernel::spec::Loss;

use super::channel::Tools;
use super::dump::StateDump;
use super::folders::{STATE_DUMP, kernel_folder};
use super::kept::{self, Until};
use super::mappings::{self, Writing};
use super::session::{Session, Shared};
use crate::consumer::clock;
use crate::consumer::sink::Paths;
use crate::consumer::storage::StorageError;
use crate::consumer::stream::{Identity, Origin, Stream};
use crate::link::{ChannelTotals, Failure, RequestId};
use crate::person::{Output, Person};

/// Rings that are read in less time have little that is newer.
const QUICK: Duration = Duration::from_millis(2);
/// A machine may always be too busy for that.
const READ_TIMES_MAX: usize = 8;

/// A snapshot that is being written.
pub(super) struct SnapshotJob {
    request: RequestId,
    output: Output,
    begun: bool,
    /// When it ends, once the rings have little that is newer.
    end_ticks: Option<u64>,
    /// What is to be written, once all rings were read: channel, index of the ring, and where it ends.
    rings: Option<VecDeque<(u32, usize, Until)>>,
    dump: Option<StateDump>,
    mappings: Option<Writing>,
    totals: BTreeMap<u32, ChannelTotals>,
}

/// The answer to a request.
type Outcome = Result<Vec<ChannelTotals>, Failure>;

impl SnapshotJob {
    /// A snapshot of everything that was recorded until now, to be written to `output`.
    pub(super) fn new(request: RequestId, output: Output, session: &Session) -> Self {
        let totals = |&stream_id: &u32| {
            let none = ChannelTotals {
                stream_id,
                ..ChannelTotals::default()
            };
            (stream_id, none)
        };
        Self {
            request,
            output,
            begun: false,
            end_ticks: None,
            rings: None,
            dump: None,
            mappings: None,
            totals: session.channels.keys().map(totals).collect(),
        }
    }

    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    /// It waits for records that are being made, or for the state dump.
    pub(super) fn is_waiting(&self) -> bool {
        match &self.rings {
            None => self.end_ticks.is_some(),
            Some(rings) => rings.is_empty(),
        }
    }

    /// Writes the next ring. Returns the totals of the snapshot once everything is written, or what could not be; then nothing
    /// of it is left.
    pub(super) fn step(&mut self, session: &mut Session, shared: &mut Shared<'_>) -> Option<Outcome> {
        let folder = kernel_folder(&self.output.folder);
        if !std::mem::replace(&mut self.begun, true) {
            if self.output.owner.sees(&folder.join("metadata")) {
                let output = self.output.folder.display();
                let what = format!("{output} already contains a trace; choose another folder for the snapshot");
                return Some(Err(Failure::Other { what }));
            }
            // Not the folder that both domains are in: the other consumer may be making its own there.
            if let Ok(_as_owner) = self.output.owner.enter() {
                let _ = fs::remove_dir_all(&folder);
            }
        }
        match self.write_next(&folder, session, shared) {
            Ok(false) => None,
            Ok(true) => Some(Ok(self.outcome(session))),
            Err(error) => {
                self.remove(&folder);
                Some(Err(error.failure()))
            }
        }
    }

    /// True when everything is written.
    fn write_next(
        &mut self,
        folder: &Path,
        session: &mut Session,
        shared: &mut Shared<'_>,
    ) -> Result<bool, StorageError> {
        if self.dump.is_none() {
            self.dump = Some(begin_dump(&self.output.owner, folder, session)?);
        }
        let Some(end_ticks) = self.end_ticks else {
            self.end_ticks = Some(read_rings(session, shared)?);
            return Ok(false);
        };
        let Some(rings) = &mut self.rings else {
            if clock::settled_ticks(session.clock) >= end_ticks {
                self.rings = Some(take_rings(end_ticks, session, shared)?);
                let mappings = session.mappings.as_ref();
                self.mappings = mappings.map(|mappings| mappings.write(self.output.clone()));
            }
            return Ok(false);
        };
        if let Some((stream_id, index, until)) = rings.pop_front() {
            self.write_ring(folder, stream_id, index, &until, session)?;
            return Ok(false);
        }
        let dump = self.dump.as_mut().expect("it was begun above");
        if !dump.write(&mut session.metadata)? {
            return Ok(false);
        }
        if self.mappings.as_ref().is_some_and(|mappings| !mappings.is_over()) {
            return Ok(false);
        }
        session.metadata.look_at_clock();
        session.metadata.write_to(&self.output.owner, folder)?;
        Ok(true)
    }

    fn write_ring(
        &mut self,
        folder: &Path,
        stream_id: u32,
        index: usize,
        until: &Until,
        session: &Session,
    ) -> Result<(), StorageError> {
        let Some(channel) = session.channels.get(&stream_id) else {
            return Ok(());
        };
        let Some(ring) = channel.rings().nth(index) else {
            return Ok(());
        };
        let Some(counts) = ring.counts() else { return Ok(()) };
        let identity = Identity {
            trace_uuid: session.metadata.trace_uuid(),
            stream_id,
            stream_instance_id: ring.instance_id(),
            origin: Origin::Cpu(ring.cpu()),
        };
        let paths = Paths::new(&self.output.owner, folder, &channel.spec.name, ring.instance_id());
        let mut stream = Stream::open(paths, identity)?;
        kept::copy(ring.stream().paths(), counts, channel.ring_bytes(), until, &mut stream)?;
        let end = stream.end();
        let totals = self.totals.entry(stream_id).or_default();
        totals.events += end.events;
        totals.bytes += end.data_bytes;
        totals.packets += end.packets;
        match ring.loss() {
            Loss::Discard => totals.discarded_full += end.discarded,
            Loss::Overwrite => totals.overwritten_events += end.discarded,
        }
        Ok(())
    }

    fn outcome(&mut self, session: &Session) -> Vec<ChannelTotals> {
        let mut all = std::mem::take(&mut self.totals);
        for (stream_id, totals) in &mut all {
            if let Some(channel) = session.channels.get(stream_id) {
                totals.findings = channel.findings.list().to_vec();
            }
        }
        let dump = self.dump.as_ref().map(StateDump::totals);
        all.into_values().chain(dump).collect()
    }

    /// Removes what was written. The folder itself goes when nothing else is in it.
    fn remove(&self, folder: &Path) {
        if let Ok(_as_owner) = self.output.owner.enter() {
            let _ = fs::remove_dir_all(folder);
            mappings::remove(&self.output);
            let _ = fs::remove_dir(&self.output.folder);
        }
    }
}

/// Takes what all rings have, again until that is quickly done. Returns the time at which it is done, where the snapshot is to end.
///
/// # Errors
/// As `take_rings`.
fn read_rings(session: &mut Session, shared: &mut Shared<'_>) -> Result<u64, StorageError> {
    for _ in 0..READ_TIMES_MAX {
        let begin = Instant::now();
        take_rings(clock::now_ticks(session.clock), session, shared)?;
        if begin.elapsed() < QUICK {
            break;
        }
    }
    Ok(clock::now_ticks(session.clock))
}

/// Takes what all rings have recorded until then. Returns where a snapshot of each ends.
///
/// # Errors
/// The file that could not be written.
fn take_rings(
    end_ticks: u64,
    session: &mut Session,
    shared: &mut Shared<'_>,
) -> Result<VecDeque<(u32, usize, Until)>, StorageError> {
    let mut rings = VecDeque::new();
    let Some(kernel) = session.kernel() else {
        return Ok(rings);
    };
    for (&stream_id, channel) in &mut session.channels {
        let mut tools = Tools {
            kernel: &kernel,
            metadata: &mut session.metadata,
            packet: shared.packet,
        };
        let ends = channel.take_for_snapshot(end_ticks, &mut tools)?.into_iter();
        rings.extend(ends.enumerate().map(|(index, until)| (stream_id, index, until)));
    }
    Ok(rings)
}

fn begin_dump(owner: &Person, folder: &Path, session: &Session) -> Result<StateDump, StorageError> {
    let tally = session.folders.run.join("snapshot.tally");
    // Each snapshot has a dump of its own.
    let _ = fs::remove_file(&tally);
    let marker = session.folders.run.join("snapshot.dumping");
    let stream = Stream::open(
        Paths::new(owner, folder, STATE_DUMP, 0),
        StateDump::identity(session.metadata.trace_uuid()),
    )?;
    let mut dump = StateDump::open(stream, &tally, marker)?;
    dump.begin(session.clock, session.hidings());
    Ok(dump)
}
