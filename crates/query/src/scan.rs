// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads events into batches, packet by packet. The packets of all streams are dealt out in pieces, so that several threads read one
//! trace; rows come in the order of their streams, not of time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use piste_reason::reason;
use piste_trace::progress::{Way, bytes_read};
use piste_trace::{Finding, Findings, Kind, Span, Stream, StreamFile};

use crate::layout::Layout;
use crate::rows::{Origin, Rows};

/// Packets are taken by so many bytes.
const PIECE_BYTES: u64 = 4 << 20;
/// Of a stream in memory.
const WINDOW_BYTES: usize = 1 << 20;

/// Of the packets that queries wanted read so far.
static BYTES_WANTED: AtomicU64 = AtomicU64::new(0);

/// How far the queries are from now on: more is wanted when they are planned.
pub(crate) fn way() -> impl Fn() -> Way + Send + 'static {
    // Relaxed: only shown.
    let wanted = || BYTES_WANTED.load(Ordering::Relaxed);
    let (begun, wanted_before) = (bytes_read(), wanted());
    move || Way {
        done_bytes: bytes_read() - begun,
        total_bytes: wanted() - wanted_before,
    }
}

/// So much more is wanted.
pub(crate) fn will_read(bytes: u64) {
    BYTES_WANTED.fetch_add(bytes, Ordering::Relaxed);
}

/// Some packets of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) trace: usize,
    /// Index into the trace's streams.
    pub(crate) index: usize,
    /// Row of the table `streams`.
    pub(crate) stream: usize,
    pub(crate) packets: Range<usize>,
}

/// The packets that may hold events of a part of time, of the streams that are wanted, in pieces: the earliest first.
pub(crate) fn pieces(layout: &Layout, span: Span, is_wanted: impl Fn(usize) -> bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut stream, mut all_bytes) = (0, 0);
    for (trace, of_trace) in layout.traces.iter().enumerate() {
        for (index, of_stream) in of_trace.streams.iter().enumerate() {
            let number = stream;
            stream += 1;
            let scale = of_trace.scale(of_stream);
            let Some((begin, end)) = span.cycles(scale.as_ref()).filter(|_| is_wanted(number)) else {
                continue;
            };
            let packets = of_stream.packets_between(begin, end);
            let (mut first, mut bytes) = (packets.start, 0);
            for packet in packets.clone() {
                bytes += of_stream.packets[packet].bytes;
                all_bytes += of_stream.packets[packet].bytes;
                if bytes >= PIECE_BYTES || packet + 1 == packets.end {
                    let begin_ns = of_stream.packets[first]
                        .begin
                        .and_then(|begin| scale?.nanoseconds(begin));
                    let piece = Piece {
                        trace,
                        index,
                        stream: number,
                        packets: first..packet + 1,
                    };
                    pieces.push((begin_ns, piece));
                    (first, bytes) = (packet + 1, 0);
                }
            }
        }
    }
    will_read(all_bytes);
    pieces.sort_by_key(|(begin_ns, piece)| (*begin_ns, piece.stream, piece.packets.start));
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// What was found while reading, each place once, however often it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    findings: BTreeMap<FindingKey, Finding>,
    /// Sentences about what rows cannot say.
    notes: BTreeSet<String>,
}

/// File, what it is, byte of the file.
type FindingKey = (PathBuf, Kind, u64);

impl Found {
    pub(crate) fn add(&self, findings: &Findings) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for finding in findings.iter() {
            let place = (finding.file.clone(), finding.kind, finding.offset);
            known.findings.insert(place, finding.clone());
        }
    }

    pub(crate) fn note(&self, sentences: Vec<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.notes.extend(sentences);
    }

    /// Sentences about what rows cannot say.
    pub(crate) fn notes(&self) -> Vec<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.notes.iter().cloned().collect()
    }

    /// All of it.
    pub(crate) fn findings(&self) -> Findings {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut findings = Findings::default();
        known
            .findings
            .values()
            .cloned()
            .for_each(|finding| findings.add(finding));
        findings
    }
}

/// Reads pieces.
pub(crate) struct Reader {
    layout: Arc<Layout>,
    span: Span,
    found: Found,
}

/// A piece that is being read.
pub(crate) struct Reading {
    stream: Stream<'static>,
    origin: Origin,
    packets_begun: u64,
    ticks: (u64, u64),
    findings: Findings,
}

impl Reader {
    pub(crate) fn new(layout: &Arc<Layout>, span: Span, found: &Found) -> Reader {
        Reader {
            layout: layout.clone(),
            span,
            found: found.clone(),
        }
    }

    /// Begins a piece; `None` when its file is gone, which is found.
    pub(crate) fn open(&self, piece: &Piece) -> Option<Reading> {
        let trace = &self.layout.traces[piece.trace];
        let index = &trace.streams[piece.index];
        let file = StreamFile {
            plan: &trace.plan,
            index,
        };
        match Stream::open(&file, piece.packets.clone(), WINDOW_BYTES) {
            Ok(stream) => Some(Reading {
                ticks: self.span.cycles(stream.scale.as_ref())?,
                stream,
                origin: Origin {
                    trace: piece.trace,
                    stream: piece.stream,
                    cpu: None,
                },
                packets_begun: 0,
                findings: Findings::default(),
            }),
            Err(error) => {
                let mut findings = Findings::default();
                findings.add(Finding {
                    kind: Kind::UnreadableFile,
                    file: index.path.clone(),
                    count: 1,
                    offset: 0,
                    what: reason(&error),
                });
                self.found.add(&findings);
                None
            }
        }
    }

    /// Gives each event of a piece to `push` with its class, until that says that it is enough; false at the end of the piece.
    #[inline]
    pub(crate) fn read(
        &self,
        reading: &mut Reading,
        mut push: impl FnMut(usize, &piste_ctf::read::packet::Event<'static>, &mut Stream<'static>, Origin) -> bool,
    ) -> bool {
        let (begin, end) = reading.ticks;
        while let Some(event) = reading.stream.next(&mut reading.findings) {
            if event.ticks < begin || event.ticks > end {
                continue;
            }
            if reading.packets_begun != reading.stream.packet_count() {
                reading.packets_begun = reading.stream.packet_count();
                let (reader, ..) = reading.stream.parts();
                reading.origin.cpu = reader.info().cpu_id;
            }
            if let Some(class) = self.layout.class(reading.origin.trace, event.class)
                && push(class, &event, &mut reading.stream, reading.origin)
            {
                return true;
            }
        }
        self.found.add(&reading.findings);
        false
    }
}

/// Batches of the rows of some pieces.
pub(crate) struct Scan {
    reader: Reader,
    rows: Rows,
    pieces: std::vec::IntoIter<Piece>,
    reading: Option<Reading>,
    /// Rows that are still wanted.
    left: usize,
}

impl Scan {
    pub(crate) fn new(reader: Reader, rows: Rows, pieces: Vec<Piece>, limit: Option<usize>) -> Scan {
        Scan {
            reader,
            rows,
            pieces: pieces.into_iter(),
            reading: None,
            left: limit.unwrap_or(usize::MAX),
        }
    }

    fn fill(&mut self) {
        while self.rows.len() < self.left && !self.rows.is_full() {
            if self.reading.is_none() {
                let Some(piece) = self.pieces.next() else { return };
                self.reading = self.reader.open(&piece);
            }
            let Some(reading) = &mut self.reading else { continue };
            let (rows, left) = (&mut self.rows, self.left);
            let is_full = self.reader.read(reading, |class, event, stream, origin| {
                if rows.wants(class) {
                    rows.push(class, event, stream, origin);
                }
                rows.is_full() || rows.len() >= left
            });
            if !is_full {
                self.reading = None;
            }
        }
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.fill();
        if self.rows.len() == 0 {
            return None;
        }
        self.left -= self.rows.len();
        Some(self.rows.finish().map_err(DataFusionError::from))
    }
}
