// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events one at a time, with each tracer: how long most of them take, and the slow ones by what made them slow. What matters to a thread with
//! deadlines is the slowest event, and whether the program can avoid it.

use std::collections::BTreeSet;
use std::path::Path;

use piste_bench::recording::Kept;

use super::looper::{Asked, Measure, Singles};
use super::packets::first_events;
use super::{COUNTED_EVENTS_MAX, Error, InRounds, Part, Plan, ROUNDS, Step, Traced, Tracer, in_rounds, is_set};
use crate::tally::{Snapshot, Tally};

/// Events of each tracer, unless another number is asked for.
const EVENTS: u64 = 1_000_000;
/// No more can be asked for: each is kept, and the traces are read.
pub const EVENTS_MAX: u64 = COUNTED_EVENTS_MAX * ROUNDS as u64;
/// Events a second at most, unless another rate is asked for: slow enough for any consumer.
const RATE_HZ: u64 = 1_000_000;
/// After so many events the thread moves to another CPU for one.
const MOVE_EVERY: usize = 200;
/// Ticks of an event that are counted one by one, in the tables that are made of them.
const SHORT_TICKS: usize = 4096;

/// What an event was. Each counts once, as the first of these that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Interrupted, or something else had the CPU meanwhile.
    Disturbed,
    /// The first event of the thread.
    NewThread,
    /// One with a page fault.
    PageFault,
    /// The first one of a sub-buffer.
    NewSubBuffer,
    /// The first one after the thread came to another CPU.
    NewCpu,
    /// Any other.
    Ordinary,
}

impl Kind {
    /// All of them, in their order.
    pub const ALL: [Kind; 6] = [
        Kind::Disturbed,
        Kind::NewThread,
        Kind::PageFault,
        Kind::NewSubBuffer,
        Kind::NewCpu,
        Kind::Ordinary,
    ];
}

/// All rounds of a tracer.
#[derive(Debug)]
pub struct Row {
    /// The tracer.
    pub traced: Traced,
    /// Whether all memory of the process was locked before the tracer mapped its rings; absent if it maps none. Where memory cannot be locked, it was
    /// not.
    pub is_locked: Option<bool>,
    /// How many rounds there were.
    pub rounds: u32,
    /// The events of each of [`Kind::ALL`], in ticks of the clock. Each has its two readings of the clock in it.
    pub by_kind: [Snapshot; Kind::ALL.len()],
    /// Whether interrupts were counted in all rounds.
    pub interrupts_counted: bool,
    /// How many events there were.
    pub events: u64,
    /// Of these, those that the trace contains; unknown if it was too long to count them.
    pub recorded: Option<u64>,
    /// Of these, those that the tracer had no space for.
    pub lost: u64,
}

impl Row {
    fn of(traced: Traced, is_locked: Option<bool>) -> Row {
        Row {
            traced,
            is_locked,
            rounds: 0,
            by_kind: Default::default(),
            interrupts_counted: true,
            events: 0,
            recorded: Some(0),
            lost: 0,
        }
    }

    /// The slowest event that nothing disturbed: of which kind it was, and its ticks. Absent if there is none.
    pub fn worst(&self) -> Option<(Kind, u64)> {
        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Disturbed);
        let worst = kinds.map(|kind| (kind, self.by_kind[kind as usize].sums()));
        let worst = worst.filter(|(_, sums)| sums.count > 0);
        worst
            .map(|(kind, sums)| (kind, sums.max))
            .max_by_key(|(_, ticks)| *ticks)
    }

    fn add(&mut self, singles: &Singles, first_of_packets: &BTreeSet<u32>, kept: &Kept) {
        self.rounds += 1;
        self.is_locked = self
            .is_locked
            .map(|is_locked| is_locked && singles.why_not_locked.is_none());
        for (sum, more) in self.by_kind.iter_mut().zip(by_kind(singles, first_of_packets)) {
            sum.merge(&more);
        }
        self.interrupts_counted &= singles.interrupts_counted;
        self.events += singles.samples.ticks.len() as u64;
        self.recorded = self.recorded.zip(kept.recorded).map(|(sum, more)| sum + more);
        self.lost += kept.lost;
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Table {
    /// For each tracer that has a round: with locked memory, and without.
    pub rows: Vec<Row>,
    /// How many events started a second, at most.
    pub rate_hz: u64,
    /// What could not be prepared.
    pub notes: Vec<String>,
    /// Ctrl-C came before the end.
    pub was_interrupted: bool,
}

impl InRounds for Row {
    fn traced(&self) -> Traced {
        self.traced
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// Measures all tracers, in turn. `tell` is called before each step.
///
/// # Errors
/// A tracer is not there, or failed; or Ctrl-C came before there was a round.
pub fn measure(plan: &Plan, tell: &mut dyn FnMut(Step)) -> Result<Table, Error> {
    let rate_hz = plan.max_rate_hz.unwrap_or(RATE_HZ);
    let events = plan.loops.unwrap_or(EVENTS).div_ceil(ROUNDS.into());
    let mut rows: Vec<Row> = plan.traced.iter().flat_map(|traced| rows_of(*traced)).collect();
    let notes = in_rounds(plan, &mut rows, tell, &mut |tracers, row| {
        let part = Part {
            duration: None,
            loops: Some(events),
            max_rate_hz: Some(rate_hz),
            explains: true,
            measure: Measure::Singles(Asked {
                events: usize::try_from(events.min(COUNTED_EVENTS_MAX)).unwrap_or(usize::MAX),
                rate_hz,
                move_every: MOVE_EVERY,
                locks_memory: row.is_locked.unwrap_or(true),
            }),
        };
        let mut first_of_packets = BTreeSet::new();
        let mut read = |trace: &Path| {
            first_of_packets = first_events(trace)?;
            Ok(())
        };
        let (singles, kept) = tracers.measure::<Singles>(row.traced, &part, &mut read)?;
        row.add(&singles, &first_of_packets, &kept);
        Ok(singles.why_not_locked.into_iter().collect())
    })?;
    Ok(Table {
        rows,
        rate_hz,
        notes,
        was_interrupted: is_set(&plan.interrupted),
    })
}

/// A ring of the kernel is always in memory.
fn rows_of(traced: Traced) -> Vec<Row> {
    let memory: &[Option<bool>] = match traced.tracer {
        Tracer::None | Tracer::Uprobe => &[None],
        Tracer::Piste | Tracer::Lttng => &[Some(true), Some(false)],
    };
    memory.iter().map(|is_locked| Row::of(traced, *is_locked)).collect()
}

/// The events of each kind. Those that reading the kernel's counters may have slowed down are not counted as ordinary ones, nor are the first ones.
fn by_kind(singles: &Singles, first_of_packets: &BTreeSet<u32>) -> [Snapshot; Kind::ALL.len()] {
    let tallies = Kind::ALL.map(|_| Tally::new(SHORT_TICKS, 0));
    let samples = &singles.samples;
    let mut is_disturbed = Marked::new(&samples.disturbed);
    let mut has_fault = Marked::new(&samples.faulted);
    let mut has_moved = Marked::new(&samples.moved);
    let mut is_after_look = Marked::new(&samples.after_look);
    for (number, ticks) in samples.ticks.iter().enumerate() {
        let number = number as u32;
        // Each is asked for each number.
        let (is_disturbed, has_fault) = (is_disturbed.has(number), has_fault.has(number));
        let (has_moved, is_after_look) = (has_moved.has(number), is_after_look.has(number));
        let kind = if is_disturbed {
            Kind::Disturbed
        } else if number == 0 {
            Kind::NewThread
        } else if has_fault {
            Kind::PageFault
        } else if first_of_packets.contains(&number) {
            Kind::NewSubBuffer
        } else if has_moved {
            Kind::NewCpu
        } else if is_after_look {
            continue;
        } else {
            Kind::Ordinary
        };
        let tally = &tallies[kind as usize];
        if !tally.add_short(u64::from(*ticks)) {
            tally.add_long(u64::from(*ticks), false);
        }
    }
    tallies.map(|tally| tally.look())
}

/// Numbers in ascending order, which are asked for in ascending order.
struct Marked<'n>(std::iter::Peekable<std::slice::Iter<'n, u32>>);

impl<'n> Marked<'n> {
    fn new(numbers: &'n [u32]) -> Marked<'n> {
        Marked(numbers.iter().peekable())
    }

    fn has(&mut self, number: u32) -> bool {
        self.0.next_if(|next| **next == number).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::single::Samples;
    use crate::statistics::Summary;

    #[test]
    fn each_event_counts_once() {
        let singles = Singles {
            samples: Samples {
                ticks: vec![900, 10, 5000, 700, 300, 60, 11, 6000, 950],
                disturbed: vec![2, 7],
                faulted: vec![0, 3, 7],
                moved: vec![2, 4, 5],
                after_look: vec![0, 5, 8],
            },
            interrupts_counted: true,
            why_not_locked: Some("nobody may".into()),
        };
        let mut row = Row::of(
            Traced {
                tracer: Tracer::Piste,
                reader: piste_bench::recording::Reader::Timer,
            },
            Some(true),
        );
        row.add(&singles, &BTreeSet::from([3, 4]), &Kept::default());
        let maxima: Vec<(u64, f64)> = row
            .by_kind
            .iter()
            .map(|one| Summary::of(one, &Clock::MONOTONIC))
            .map(|summary| (summary.count, summary.max_ns))
            .collect();
        let expected = [(2, 6000.0), (1, 900.0), (1, 700.0), (1, 300.0), (1, 60.0), (2, 11.0)];
        assert_eq!(maxima, expected);
        assert_eq!((row.worst(), row.events), (Some((Kind::NewThread, 900)), 9));
        assert_eq!(row.is_locked, Some(false));
    }
}
