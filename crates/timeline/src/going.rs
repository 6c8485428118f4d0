// SPDX-License-Identifier: MIT OR Apache-2.0
//! A timeline that grows: what was recorded so far, with what has begun and goes on. Pieces are written when they end; those that go on are kept
//! beside them, and replaced whenever the model has got further.

use std::fs::File;
use std::io::Write;

use piste_analysis::model::System;
use piste_analysis::spans::Span;
use rustc_hash::FxHashMap;

use crate::Failure;
use crate::file::Writer;
use crate::lane::{Label, LaneId, Subject};
use crate::piece::{Piece, Summary};
use crate::recorder::{OfCpu, Recorder, advance};
use crate::tree::{Columns, Place, add, touches};

/// What goes on, by lane.
#[derive(Default)]
pub(crate) struct Going(FxHashMap<LaneId, Vec<Piece>>);

impl Going {
    fn of(&self, lane: LaneId) -> &[Piece] {
        self.0.get(&lane).map_or(&[], Vec::as_slice)
    }

    /// What went on there has ended.
    #[inline]
    pub(crate) fn end(&mut self, lane: LaneId) {
        if !self.0.is_empty() {
            self.0.remove(&lane);
        }
    }

    fn put(&mut self, lane: LaneId, piece: Piece) {
        if piece.begin_ns < piece.end_ns {
            self.0.entry(lane).or_default().push(piece);
        }
    }
}

impl<W: Write> Recorder<W> {
    /// Notes what goes on at `now_ns`; everything up to then has been told. Of the kernel, that is what threads and CPUs are doing: system calls,
    /// interrupts and requests are shown when they end. Of programs, it is where events may be missing; spans come one by one
    /// ([`Recorder::span_goes_on`]).
    pub fn goes_on(&mut self, system: Option<&System>, (begin_ns, now_ns): (i64, i64)) {
        let mut going = Going::default();
        for (lane, piece) in self.losses((begin_ns, now_ns)) {
            going.put(lane, piece);
        }
        let mut on_cpus: Vec<(u32, Piece)> = Vec::new();
        if let Some(system) = system {
            self.name_lanes(system);
            system.so_far(now_ns, |slice| {
                let (of_thread, on_cpu) = self.pieces(system, slice);
                if let Some(piece) = of_thread {
                    going.put(self.thread_lane(system, slice.thread), piece);
                }
                on_cpus.extend(on_cpu);
            });
            for (cpu, piece) in &on_cpus {
                self.of_cpu(system, *cpu, piece.begin_ns);
            }
        }
        for (cpu, OfCpu { lane, open }) in &self.cpus {
            let mut open = *open;
            for (_, piece) in on_cpus.iter().filter(|(other, _)| other == cpu) {
                let ended = advance(&mut open, *piece);
                ended.into_iter().flatten().for_each(|piece| going.put(*lane, piece));
            }
            going.put(*lane, open);
        }
        self.going = going;
    }

    /// A span has begun and goes on at `now_ns`. `comm` is the name of its thread, empty if it is not known.
    pub fn span_goes_on<V>(&mut self, span: &Span<'_, V>, comm: &[u8], now_ns: i64) {
        if let Some((lane, piece)) = self.span_piece(span, comm, Some(now_ns)) {
            self.going.put(lane, piece);
        }
    }
}

impl Recorder<File> {
    /// What was recorded so far.
    pub fn so_far(&self) -> SoFar<'_> {
        SoFar {
            writer: &self.writer,
            going: &self.going,
            subjects: &self.subjects,
            labels: &self.labels,
        }
    }
}

/// A timeline that grows. Threads have the names that they had at first, or when it was noted last what goes on.
pub struct SoFar<'r> {
    writer: &'r Writer<File>,
    going: &'r Going,
    /// By [`LaneId`].
    pub subjects: &'r [Subject],
    /// As in [`crate::Directory::labels`].
    pub labels: &'r [Label],
}

impl SoFar<'_> {
    /// As [`crate::Timeline::whole`].
    pub fn whole(&self, lane: LaneId) -> Option<Summary> {
        let mut whole = self.writer.whole(lane)?;
        self.going.of(lane).iter().for_each(|piece| whole.add(piece));
        Some(whole)
    }

    /// As [`crate::Timeline::columns`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn columns(&self, lane: LaneId, range_ns: (i64, i64), count: usize) -> Result<Vec<Summary>, Failure> {
        let mut sums = self.writer.columns(lane, range_ns, count)?;
        if let Some(columns) = Columns::of(range_ns, count) {
            self.going
                .of(lane)
                .iter()
                .for_each(|piece| add(piece, &columns, &mut Place::default(), &mut sums));
        }
        Ok(sums)
    }

    /// As [`crate::Timeline::each`]; what goes on comes last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each(&self, lane: LaneId, range_ns: (i64, i64), mut to: impl FnMut(Piece) -> bool) -> Result<bool, Failure> {
        let is_there = |piece: &&Piece| touches(piece.begin_ns, piece.end_ns, range_ns.0, range_ns.1);
        let goes_on = self.writer.each(lane, range_ns, &mut to)?;
        Ok(goes_on && self.going.of(lane).iter().filter(is_there).all(|piece| to(*piece)))
    }

    /// As [`crate::Timeline::pieces`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pieces(&self, lane: LaneId, range_ns: (i64, i64), most: usize) -> Result<Option<Vec<Piece>>, Failure> {
        let Some(mut pieces) = self.writer.pieces(lane, range_ns, most)? else {
            return Ok(None);
        };
        let is_there = |piece: &&Piece| touches(piece.begin_ns, piece.end_ns, range_ns.0, range_ns.1);
        pieces.extend(self.going.of(lane).iter().filter(is_there));
        pieces.sort_by_key(|piece| piece.begin_ns);
        Ok((pieces.len() <= most).then_some(pieces))
    }
}
