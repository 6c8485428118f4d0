// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations that a trigger waits for: how long after its beginning each end comes.
//!
//! Beginnings and ends come from the rings of all CPUs, in any order. So they wait until all events up to a time have been taken, and are
//! then compared in the order of time.

use std::collections::{BTreeSet, HashMap};

use piste_ctf::read::packet::StreamReader;
use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::{Encoding, Scope};
use piste_ctf::read::walk::Visitor;

use super::matches::Read;
use crate::link::{Lapse, Match};

/// Events that wait for others with earlier times; more are missed.
const WAITING_COUNT_MAX: usize = 1 << 16;
/// What has begun and not ended; more are missed.
const BEGUN_COUNT_MAX: usize = 1 << 16;
/// Of a text that beginning and end have in common; what follows is not compared.
const TEXT_BYTES_MAX: usize = 256;

/// Which of the two an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pair {
    Beginning,
    End,
}

impl Pair {
    /// The first channel has beginnings, the second ends.
    pub(super) fn of(stream_id: u32) -> Pair {
        if stream_id == 0 { Pair::Beginning } else { Pair::End }
    }
}

/// What has begun, and what has come since the last comparison.
#[derive(Debug)]
pub(super) struct Lapses {
    lapse: Lapse,
    waiting: Vec<Waiting>,
    /// When.
    begun: HashMap<Key, i64>,
    missed: u64,
    findings: Vec<String>,
    /// Events that have no such value, which people were told.
    without: BTreeSet<String>,
}

#[derive(Debug)]
struct Waiting {
    time_ns: i64,
    key: Key,
    /// Of an end that may come too late.
    end: Option<Option<Match>>,
}

/// What beginning and end have in common: the process, and the value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key(i32, Value);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Value {
    Integer(u64),
    Text(Box<[u8]>),
}

impl Lapses {
    pub(super) fn new(lapse: Lapse) -> Lapses {
        Lapses {
            lapse,
            waiting: Vec::new(),
            begun: HashMap::new(),
            missed: 0,
            findings: Vec::new(),
            without: BTreeSet::new(),
        }
    }

    /// An event came.
    pub(super) fn take<'r, 'p: 'r>(&mut self, pair: Pair, read: &Read<'p>, reader: &mut StreamReader<'r>) {
        if self.waiting.len() >= WAITING_COUNT_MAX {
            self.missed += 1;
            return;
        }
        let mut find = Find::new(&self.lapse.by);
        for scope in [Scope::Payload, Scope::EventContext] {
            if find.value.is_none() {
                let _ = reader.visit(&read.event, scope, read.packet, 0, &mut find);
            }
        }
        let Some(value) = find.value else {
            self.note_without(&read.event.class.name);
            return;
        };
        let key = Key(read.pid, value);
        let end = match pair {
            Pair::Beginning => None,
            // Most ends come in time. What it began with may yet be among those that wait.
            Pair::End => {
                let is_in_time = |begun: &i64| read.time_ns.saturating_sub(*begun) <= self.over_ns();
                let begun = self.begun.get(&key);
                Some((!begun.is_some_and(is_in_time)).then(|| read.as_match(reader)))
            }
        };
        self.waiting.push(Waiting {
            time_ns: read.time_ns,
            key,
            end,
        });
    }

    fn over_ns(&self) -> i64 {
        i64::try_from(self.lapse.over_ns).unwrap_or(i64::MAX)
    }

    fn note_without(&mut self, event: &str) {
        if self.without.len() < 16 && self.without.insert(event.to_owned()) {
            let by = &self.lapse.by;
            let what = format!("event {event} has no value {by:?}, so it is neither a beginning nor an end");
            self.findings.push(what);
        }
    }

    /// Whether something waits for a comparison.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Compares everything up to a time; all of that has been taken. Returns the ends that come too late, in the order of time.
    pub(super) fn compare(&mut self, until_ns: i64) -> Vec<Match> {
        // Beginnings are before ends of the same time.
        self.waiting
            .sort_by_key(|waiting| (waiting.time_ns, waiting.end.is_some()));
        let count = self.waiting.partition_point(|waiting| waiting.time_ns <= until_ns);
        let over_ns = self.over_ns();
        let mut late = Vec::new();
        for Waiting { time_ns, key, end } in self.waiting.drain(..count) {
            let Some(end) = end else {
                if self.begun.len() < BEGUN_COUNT_MAX || self.begun.contains_key(&key) {
                    self.begun.insert(key, time_ns);
                } else {
                    self.missed += 1;
                }
                continue;
            };
            let Some(begun) = self.begun.remove(&key) else { continue };
            let duration_ns = time_ns.saturating_sub(begun);
            if duration_ns > over_ns
                && let Some(found) = end
            {
                late.push(Match {
                    duration_ns: u64::try_from(duration_ns).ok(),
                    ..found
                });
            }
        }
        late
    }

    /// Events that were not compared.
    pub(super) fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }

    /// What people should know.
    pub(super) fn take_findings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.findings)
    }
}

/// Finds a value of an event by its name: a number or a text.
struct Find<'n> {
    name: &'n str,
    /// Structures and arrays around.
    depth: u32,
    comes: bool,
    value: Option<Value>,
}

impl<'n> Find<'n> {
    fn new(name: &'n str) -> Find<'n> {
        Find {
            name,
            depth: 0,
            comes: false,
            value: None,
        }
    }

    fn found(&mut self, value: impl FnOnce() -> Value) {
        if std::mem::take(&mut self.comes) {
            self.value = Some(value());
        }
    }

    fn enter(&mut self) {
        self.comes = false;
        self.depth += 1;
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }
}

impl Visitor for Find<'_> {
    fn field(&mut self, name: &str) {
        self.comes = self.depth == 0 && name == self.name;
    }

    fn integer(&mut self, _: &IntegerNode, value: u64) {
        self.found(|| Value::Integer(value));
    }

    fn text(&mut self, bytes: &[u8], _: Encoding) {
        self.found(|| Value::Text(bytes[..bytes.len().min(TEXT_BYTES_MAX)].into()));
    }

    fn begin_structure(&mut self) {
        self.enter();
    }

    fn end_structure(&mut self) {
        self.leave();
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.enter();
    }

    fn end_array(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: &str = "id";

    fn lapses(over_ns: u64) -> Lapses {
        let by = BY.into();
        Lapses::new(Lapse { over_ns, by })
    }

    impl Lapses {
        fn add(&mut self, pair: Pair, time_ns: i64, process: i32, value: u64) {
            let found = Match {
                event: format!("end {value}"),
                time_ns,
                pid: process,
                contexts: String::new(),
                fields: String::new(),
                duration_ns: None,
            };
            self.waiting.push(Waiting {
                time_ns,
                key: Key(process, Value::Integer(value)),
                end: (pair == Pair::End).then_some(Some(found)),
            });
        }

        /// Names and durations of what is late.
        fn late(&mut self, until_ns: i64) -> Vec<(String, u64)> {
            let late = self.compare(until_ns).into_iter();
            late.map(|found| (found.event, found.duration_ns.unwrap())).collect()
        }
    }

    #[test]
    fn ends_are_late_that_come_after_more_than_so_long() {
        let mut lapses = lapses(10);
        for (value, duration_ns) in [(1, 10), (2, 11), (3, 0), (4, 500)] {
            lapses.add(Pair::Beginning, 100, 7, value);
            lapses.add(Pair::End, 100 + duration_ns, 7, value);
        }
        assert_eq!(lapses.late(1000), [("end 2".into(), 11), ("end 4".into(), 500)]);
        assert!(lapses.begun.is_empty() && !lapses.are_waiting());
    }

    #[test]
    fn rings_may_be_read_in_any_order() {
        let mut lapses = lapses(10);
        // The end is on a CPU that is read first, the beginning on one that was read before it was recorded.
        lapses.add(Pair::End, 130, 7, 1);
        assert_eq!(lapses.late(105), []);
        assert!(lapses.are_waiting());
        lapses.add(Pair::Beginning, 110, 7, 1);
        assert_eq!(lapses.late(120), []);
        assert_eq!(lapses.late(200), [("end 1".into(), 20)]);
    }

    #[test]
    fn the_same_value_in_another_process_is_another() {
        let mut lapses = lapses(10);
        lapses.add(Pair::Beginning, 100, 7, 1);
        lapses.add(Pair::End, 200, 8, 1);
        assert_eq!(lapses.late(1000), []);
        lapses.add(Pair::End, 1100, 7, 1);
        assert_eq!(lapses.late(2000), [("end 1".into(), 1000)]);
        lapses.add(Pair::End, 2100, 7, 1);
        assert_eq!(lapses.late(3000), [], "it has ended");
    }

    #[test]
    fn a_second_beginning_replaces_the_first() {
        let mut lapses = lapses(10);
        lapses.add(Pair::Beginning, 100, 7, 1);
        lapses.add(Pair::Beginning, 195, 7, 1);
        lapses.add(Pair::End, 200, 7, 1);
        assert_eq!(lapses.late(1000), []);
    }

    #[test]
    fn what_never_ends_takes_no_more_than_so_much() {
        let mut lapses = lapses(10);
        for value in 0..BEGUN_COUNT_MAX as u64 + 5 {
            lapses.add(Pair::Beginning, 100, 7, value);
        }
        assert_eq!(lapses.late(1000), []);
        assert_eq!((lapses.begun.len(), lapses.take_missed()), (BEGUN_COUNT_MAX, 5));
        // Of those that are known, a new beginning counts.
        lapses.add(Pair::Beginning, 2000, 7, 0);
        lapses.add(Pair::End, 2100, 7, 0);
        assert_eq!(lapses.late(3000), [("end 0".into(), 100)]);
        assert_eq!(lapses.take_missed(), 0);
    }
}
