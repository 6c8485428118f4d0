// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of a trace that somebody removes, moves or cuts while it is recorded. What they had is counted as missing, the trace says so, and
//! recording goes on in new files.
//!
//! A ring looks at its own files before its first packet, now and then while it writes more, and in the end. The others, of rings that are done,
//! are looked at when a chunk or the session ends, and when the metadata is gone too: then most likely the whole folder is. So an idle session
//! costs nothing.

use piste_control::METADATA_GONE;

use super::clock;
use super::session::Session;
use super::sink::Paths;
use super::stream::{End, Identity, Seen, Stream};

/// A stream whose ring is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct PastStream {
    pub(super) identity: Identity,
    pub(super) end: End,
    /// In its packets.
    pub(super) events: u64,
}

impl Session {
    /// Looks at the files of all rings that are there, and notes what is gone.
    pub(super) fn look_at_files(&mut self) {
        if self.trace.metadata_is_gone() {
            // Where it cannot be written, the next packet says so.
            let _ = self.trace.write_metadata();
            if let Some(channel) = self.channels.values_mut().next() {
                channel.findings.note(METADATA_GONE);
            }
            self.look_at_past_files();
        }
        for ring_set in self.ring_sets.values_mut() {
            let Some(channel) = self.channels.get_mut(&ring_set.producer.stream_id) else {
                continue;
            };
            for what in ring_set.look_at_files() {
                channel.findings.note(what);
            }
        }
    }

    /// Looks at the files of the rings of this chunk that are done. A stream that is gone begins again, and says what is missing.
    pub(super) fn look_at_past_files(&mut self) {
        for channel in self.channels.values_mut() {
            let now_ticks = clock::now_ticks(channel.clock());
            for past in &mut channel.past_streams {
                let chunks = &self.trace.chunks;
                let instance_id = past.identity.stream_instance_id;
                let paths = Paths::new(chunks.owner(), chunks.folder(), &channel.name, instance_id);
                let mut stream = Stream::ended(paths, past.identity, past.end);
                let what = match stream.look_at_files() {
                    Seen::Everything => continue,
                    Seen::IndexMended => piste_control::INDEX_GONE,
                    Seen::Gone(gone) => {
                        let _ = self.trace.write_metadata();
                        // Where that cannot be written, the counts say it alone.
                        let _ = stream.settle(gone.discarded + past.events, now_ticks);
                        let (totals, end) = (&mut channel.past, *stream.end());
                        totals.discarded_late += past.events;
                        totals.events -= past.events;
                        totals.bytes = totals.bytes - gone.data_bytes + end.data_bytes;
                        totals.packets = totals.packets - gone.packets + end.packets;
                        (past.events, past.end) = (0, end);
                        piste_control::FILES_GONE
                    }
                };
                channel.findings.note(what);
            }
        }
    }
}
