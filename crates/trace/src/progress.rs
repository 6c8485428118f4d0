// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far this process has come with what it reads of traces, for those who show it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::folder::Trace;
use crate::merge::Span;

/// Of stream files, by all readers.
static BYTES_READ: AtomicU64 = AtomicU64::new(0);

/// Of stream files whose packets were not known, and those of them that were looked through.
static INDEXED_TOTAL: AtomicU64 = AtomicU64::new(0);
static INDEXED_DONE: AtomicU64 = AtomicU64::new(0);

// Relaxed, all of them: the numbers are only shown.

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Behind.
    pub done_bytes: u64,
    /// All of it, as far as that is known.
    pub total_bytes: u64,
}

/// Bytes of packets that were read since the process began. A few are read more than once.
pub fn bytes_read() -> u64 {
    BYTES_READ.load(Ordering::Relaxed)
}

/// Bytes of the packets that may hold events of a part of time: all that reading it once reads.
pub fn bytes_of(traces: &[Trace], span: Span) -> u64 {
    let of_trace = |trace: &Trace| -> u64 {
        let of_stream = |stream| {
            let Some((begin, end)) = span.cycles(trace.scale(stream).as_ref()) else {
                return 0;
            };
            let packets = &stream.packets[stream.packets_between(begin, end)];
            packets.iter().map(|packet| packet.bytes).sum()
        };
        trace.streams.iter().map(of_stream).sum()
    };
    traces.iter().map(of_trace).sum()
}

/// How far the indices are that have to be built, of all traces that were opened so far.
pub fn indexing() -> Way {
    Way {
        done_bytes: INDEXED_DONE.load(Ordering::Relaxed),
        total_bytes: INDEXED_TOTAL.load(Ordering::Relaxed),
    }
}

pub(crate) fn add(bytes: usize) {
    BYTES_READ.fetch_add(bytes as u64, Ordering::Relaxed);
}

pub(crate) fn will_index(bytes: u64) {
    INDEXED_TOTAL.fetch_add(bytes, Ordering::Relaxed);
}

pub(crate) fn indexed(bytes: u64) {
    INDEXED_DONE.fetch_add(bytes, Ordering::Relaxed);
}
