// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces are written once more, with fewer events or with other metadata for the same bytes.
//!
//! Packets of which everything is wanted are copied as they are, but for their numbers. Of others the wanted events are written into
//! packets with the same header ([`stream`], [`packet`]): as they are where they can be, else field by field, with the whole time in
//! their headers or in a packet of their own when the few bits of a time do not suffice any more.
//!
//! Losses keep their places: a packet that tells one is written also when nothing else of it is wanted, and what was lost before the
//! first packet that is written is not told. Of a part of time, packets without events say that its begin and its end were recorded, where
//! nothing happened there.

mod output;
mod packet;
mod stream;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::file_reader::are_too_many;
use crate::finding::{Finding, Findings, Kind};
use crate::folder::Trace;
use crate::merge::Span;
use crate::privacy;
use crate::select::Selection;
use crate::stream::{Stream, StreamFile};
use piste_reason::reason;
use stream::{Form, StreamCopy};

const WINDOW_BYTES: usize = 1 << 20;
/// Of packets that are being written, all together.
const PACKETS_BYTES: usize = 32 << 20;
const PACKET_BYTES_MIN: usize = 16 << 10;
const PACKET_BYTES_MAX: usize = 256 << 10;

/// Of each stream: read in the order of time, read for the heads of packets, written.
const FILES_EACH: usize = 3;

/// Where a trace is written to.
#[derive(Clone, Debug)]
pub struct Target {
    /// A folder that is there, and empty.
    pub folder: PathBuf,
    /// Its file `metadata`: it must describe the same bytes as that of the trace.
    pub metadata: Vec<u8>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Packets.
    pub packets: u64,
    /// Of them those that were copied as they were, but for their numbers.
    pub whole_packets: u64,
    /// Of all stream files.
    pub bytes: u64,
}

/// Why a trace cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file that cannot be read.
    #[error("cannot read {}: {}", path.display(), reason(.error))]
    Unreadable {
        /// It.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// A file or folder that cannot be written.
    #[error("cannot write {}: {}", path.display(), reason(.error))]
    Unwritable {
        /// It.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// An event that its format does not let stand anywhere else.
    #[error("cannot write the event at byte {offset} of {} without the events before it: {why}", path.display())]
    Bound {
        /// The stream file.
        path: PathBuf,
        /// Byte of the file.
        offset: u64,
        /// A sentence.
        why: String,
    },
}

/// Writes the wanted events of traces, a target for each. What cannot be read is added to `findings`.
///
/// # Errors
/// A file that cannot be read or written, or an event that cannot stand without others. What was written is no trace then.
///
/// # Panics
/// There are not as many targets as traces.
pub fn copy(
    traces: &[Trace],
    targets: &[Target],
    selection: &Selection,
    findings: &mut Findings,
) -> Result<Copied, CopyError> {
    assert_eq!(traces.len(), targets.len());
    for (trace, target) in traces.iter().zip(targets) {
        begin(trace, target)?;
    }
    match selection.is_any() {
        true => copy_times(traces, targets, selection.span, findings),
        false => copy_chosen(traces, targets, selection, findings),
    }
}

/// Every event of a part of time: streams do not depend on one another, and most packets are wanted as they are.
fn copy_times(traces: &[Trace], targets: &[Target], span: Span, findings: &mut Findings) -> Result<Copied, CopyError> {
    let mut copied = Copied::default();
    for (trace, target) in traces.iter().zip(targets) {
        for index in &trace.streams {
            let form = Form {
                packet_bytes: PACKET_BYTES_MAX,
                keeps_open: true,
            };
            let Some(mut copy) = StreamCopy::open(trace, index, target, span, form)? else {
                continue;
            };
            let plan = &trace.plan;
            let stream = Stream::open(&StreamFile { plan, index }, 0..0, WINDOW_BYTES);
            let mut stream = stream.map_err(|error| unreadable(&index.path, error))?;
            if span != Span::ALL {
                copy.tell_quiet(trace);
            }
            copy.all(&mut stream, findings)?;
            copied.add(copy.finish()?);
        }
    }
    Ok(copied)
}

/// Events that are chosen one by one, for which they are needed in the order of time.
fn copy_chosen(
    traces: &[Trace],
    targets: &[Target],
    selection: &Selection,
    findings: &mut Findings,
) -> Result<Copied, CopyError> {
    let count: usize = traces.iter().map(|trace| trace.streams.len()).sum();
    let form = Form {
        packet_bytes: (PACKETS_BYTES / count.max(1)).clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX),
        keeps_open: !are_too_many(FILES_EACH * count),
    };
    let mut copies = HashMap::new();
    for (trace, target) in traces.iter().zip(targets) {
        for index in &trace.streams {
            if let Some(mut copy) = StreamCopy::open(trace, index, target, selection.span, form)? {
                copy.tell_quiet(trace);
                copies.insert(index.path.as_path(), copy);
            }
        }
    }
    let merge = selection.merge(traces);
    let mut merge = merge.map_err(|error| unreadable(Path::new("a stream file"), error))?;
    let mut matcher = selection.matcher(traces);
    while let Some(merged) = merge.next() {
        if matcher.wants(&mut merge, &merged) {
            let stream = merge.stream(merged.stream);
            if let Some(copy) = copies.get_mut(stream.index.path.as_path()) {
                copy.event(stream, &merged.event)?;
            }
        }
    }
    findings.extend(std::mem::take(&mut merge.findings));
    let mut copied = Copied::default();
    for copy in copies.into_values() {
        copied.add(copy.finish()?);
    }
    Ok(copied)
}

impl Copied {
    fn add(&mut self, more: Copied) {
        self.packets += more.packets;
        self.whole_packets += more.whole_packets;
        self.bytes += more.bytes;
    }
}

/// The folder of index files beside the streams, where a tracer wrote them.
const INDEX: &str = "index";

fn begin(trace: &Trace, target: &Target) -> Result<(), CopyError> {
    let unwritable = |path: PathBuf| move |error| CopyError::Unwritable { path, error };
    if trace.folder.join(INDEX).is_dir() {
        let index = target.folder.join(INDEX);
        privacy::folder().create(&index).map_err(unwritable(index.clone()))?;
    }
    let metadata = target.folder.join("metadata");
    privacy::write(&metadata, &target.metadata).map_err(unwritable(metadata.clone()))
}

fn unreadable(path: &Path, error: io::Error) -> CopyError {
    CopyError::Unreadable {
        path: path.to_owned(),
        error,
    }
}

impl Findings {
    /// A packet of which nothing can be written.
    fn lost_packet(&mut self, path: &Path, offset: u64, what: String) {
        self.add(Finding {
            kind: Kind::DamagedPacket,
            file: path.to_owned(),
            count: 1,
            offset,
            what,
        });
    }
}
