// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations that a trigger waits for: how long after its beginning each end comes, or that it has not come after so long.
//!
//! Beginnings and ends come from the rings of all CPUs, in any order. So they wait until all events up to a time have been taken, and are
//! then compared in the order of time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use piste_ctf::read::packet::StreamReader;
use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::{Encoding, Scope};
use piste_ctf::read::walk::Visitor;

use super::matches::{Process, Read};
use crate::link::{Lapse, Match};

/// Events that wait for others with earlier times; more are missed.
const WAITING_COUNT_MAX: usize = 1 << 16;
/// What has begun and not ended. When there is more, the older half is forgotten, and missed.
const BEGUN_COUNT_MAX: usize = 1 << 16;
/// The last events of a program that has ended are compared within this time.
const FORGET_AFTER: Duration = Duration::from_secs(2);
/// Of events that wait; more are missed.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Of beginnings that are told when they are overdue; more are missed.
const BEGUN_BYTES_MAX: usize = 16 << 20;
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
    begun: HashMap<Key, Begun>,
    /// When what began, in the order of time; some of it has ended. Only if something can become overdue.
    order: VecDeque<(i64, Key)>,
    /// Of the events that wait.
    bytes: usize,
    /// Of those that have begun.
    begun_bytes: usize,
    /// Processes that are gone, and since when.
    gone: VecDeque<(Instant, Process)>,
    missed: u64,
    /// Ends that nobody will see, and a time after the last of them was lost.
    unseen: u64,
    unseen_until_ns: i64,
    findings: Vec<String>,
    /// Events that have no such value, which people were told.
    without: BTreeSet<String>,
}

#[derive(Debug)]
struct Waiting {
    time_ns: i64,
    key: Key,
    pair: Pair,
    /// What may have to be told.
    found: Option<Match>,
}

#[derive(Debug)]
struct Begun {
    time_ns: i64,
    /// What is told if it becomes overdue.
    found: Option<Match>,
}

fn bytes_of(found: Option<&Match>) -> usize {
    found.map_or(0, Match::bytes)
}

/// What beginning and end have in common: the process, and the value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key(Process, Value);

impl Key {
    /// Of events of the kernel, the process is not known, and values mean the same in all of them: the thread, above all. But thread 0 is one on each
    /// CPU.
    fn new(process: Process, value: Value) -> Key {
        match process {
            Process::Kernel { .. } if value != Value::Integer(0) => Key(Process::Pid(0), value),
            process => Key(process, value),
        }
    }
}

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
            order: VecDeque::new(),
            bytes: 0,
            begun_bytes: 0,
            gone: VecDeque::new(),
            missed: 0,
            unseen: 0,
            unseen_until_ns: i64::MIN,
            findings: Vec::new(),
            without: BTreeSet::new(),
        }
    }

    /// An event came.
    pub(super) fn take<'r, 'p: 'r>(&mut self, pair: Pair, read: &Read<'p>, reader: &mut StreamReader<'r>) {
        if self.waiting.len() >= WAITING_COUNT_MAX {
            return self.miss(pair);
        }
        if self.lapse.overdue && pair == Pair::Beginning && has_no_end(&read.event.class.name) {
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
        let key = Key::new(read.process, value);
        let may_be_told = match pair {
            Pair::Beginning => self.lapse.overdue,
            Pair::End if self.lapse.overdue => false,
            // Most ends come in time. What it began with may yet be among those that wait.
            Pair::End => {
                let is_in_time = |begun: &Begun| read.time_ns.saturating_sub(begun.time_ns) <= self.over_ns();
                !self.begun.get(&key).is_some_and(is_in_time)
            }
        };
        if may_be_told && self.bytes >= self.waiting_bytes_max() {
            return self.miss(pair);
        }
        let found = may_be_told.then(|| read.as_match(reader));
        self.bytes += bytes_of(found.as_ref());
        self.waiting.push(Waiting {
            time_ns: read.time_ns,
            key,
            pair,
            found,
        });
    }

    fn waiting_bytes_max(&self) -> usize {
        match self.lapse.overdue {
            true => BEGUN_BYTES_MAX,
            false => WAITING_BYTES_MAX,
        }
    }

    /// An event was not looked at. If it was an end, nobody knows of what.
    fn miss(&mut self, pair: Pair) {
        self.missed += 1;
        if pair == Pair::End {
            self.ends_are_missing();
        }
    }

    /// Whether something could look overdue because its end is missing.
    pub(super) fn waits_for_ends(&self) -> bool {
        self.lapse.overdue
    }

    /// Nobody will see so many ends, all lost before a time. If there are more than before, everything that began before that time may have ended.
    pub(super) fn note_unseen(&mut self, count: u64, until_ns: i64) {
        if count > self.unseen {
            self.unseen = count;
            self.unseen_until_ns = until_ns;
            self.ends_are_missing();
        }
    }

    /// What has begun may have ended, and must not be taken for overdue.
    fn ends_are_missing(&mut self) {
        if self.lapse.overdue {
            self.missed += self.begun.len() as u64;
            self.begun.clear();
            self.order.clear();
            self.begun_bytes = 0;
        }
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

    /// When the first of what has begun is overdue, unless it ends before.
    pub(super) fn due_ns(&mut self) -> Option<i64> {
        while self.order.front().is_some_and(|first| !is_open(&self.begun, first)) {
            self.order.pop_front();
        }
        let first = self.order.front();
        first.map(|(time_ns, _)| time_ns.saturating_add(self.over_ns()))
    }

    /// Compares everything up to a time; all of that has been taken. Returns what took too long, in the order of time.
    pub(super) fn compare(&mut self, until_ns: i64, now: Instant) -> Vec<Match> {
        self.forget_gone(now);
        // Beginnings are before ends of the same time.
        self.waiting
            .sort_by_key(|waiting| (waiting.time_ns, waiting.pair == Pair::End));
        let count = self.waiting.partition_point(|waiting| waiting.time_ns <= until_ns);
        let waiting: Vec<Waiting> = self.waiting.drain(..count).collect();
        let mut late = Vec::new();
        for Waiting {
            time_ns,
            key,
            pair,
            found,
        } in waiting
        {
            self.bytes -= bytes_of(found.as_ref());
            self.take_overdue(time_ns, &mut late);
            match pair {
                Pair::Beginning => self.begin(key, Begun { time_ns, found }),
                Pair::End => {
                    let Some(begun) = self.remove_begun(&key) else { continue };
                    let duration_ns = time_ns.saturating_sub(begun.time_ns);
                    if duration_ns > self.over_ns()
                        && let Some(found) = found
                    {
                        late.push(Match {
                            duration_ns: u64::try_from(duration_ns).ok(),
                            ..found
                        });
                    }
                }
            }
        }
        late
    }

    /// What should have ended before a time up to which everything was compared.
    pub(super) fn overdue(&mut self, until_ns: i64) -> Vec<Match> {
        let mut overdue = Vec::new();
        self.take_overdue(until_ns, &mut overdue);
        overdue
    }

    fn begin(&mut self, key: Key, begun: Begun) {
        self.remove_begun(&key);
        let bytes = bytes_of(begun.found.as_ref());
        let may_have_ended = self.lapse.overdue && begun.time_ns <= self.unseen_until_ns;
        if may_have_ended || self.begun_bytes + bytes > BEGUN_BYTES_MAX {
            self.missed += 1;
            return;
        }
        if self.lapse.overdue {
            self.order.push_back((begun.time_ns, key.clone()));
            if self.order.len() > 2 * BEGUN_COUNT_MAX {
                let this = self.order.pop_back();
                self.order.retain(|other| is_open(&self.begun, other));
                self.order.extend(this);
            }
        }
        self.begun_bytes += bytes;
        self.begun.insert(key, begun);
        if self.begun.len() > BEGUN_COUNT_MAX {
            self.missed += forget_older_half(&mut self.begun);
            self.count_begun_bytes();
        }
    }

    fn remove_begun(&mut self, key: &Key) -> Option<Begun> {
        let begun = self.begun.remove(key)?;
        self.begun_bytes -= bytes_of(begun.found.as_ref());
        Some(begun)
    }

    fn count_begun_bytes(&mut self) {
        let begun = self.begun.values();
        self.begun_bytes = begun.map(|begun| bytes_of(begun.found.as_ref())).sum();
    }

    /// What has not ended at this time, although it should have before.
    fn take_overdue(&mut self, time_ns: i64, late: &mut Vec<Match>) {
        while let Some(due_ns) = self.due_ns()
            && due_ns < time_ns
            && let Some((_, key)) = self.order.pop_front()
        {
            let begun = self.remove_begun(&key);
            // What a process has begun that is gone ends no more.
            let begun = begun.filter(|_| self.gone.iter().all(|(_, process)| *process != key.0));
            late.extend(begun.and_then(|begun| begun.found).map(|found| Match {
                time_ns: due_ns,
                duration_ns: Some(self.lapse.over_ns),
                ..found
            }));
        }
    }

    /// A process is gone. What it has begun is forgotten once its last events have certainly been compared.
    pub(super) fn forget(&mut self, process: Process, now: Instant) {
        self.gone.push_back((now, process));
    }

    fn forget_gone(&mut self, now: Instant) {
        while let Some(&(since, process)) = self.gone.front()
            && now.saturating_duration_since(since) > FORGET_AFTER
        {
            self.gone.pop_front();
            self.begun.retain(|key, _| key.0 != process);
            self.count_begun_bytes();
        }
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

/// A system call of which no exit is ever recorded.
fn has_no_end(event: &str) -> bool {
    [
        "_entry_exit",
        "_entry_exit_group",
        "_entry_rt_sigreturn",
        "_entry_sigreturn",
    ]
    .iter()
    .any(|call| event.ends_with(call))
}

/// Whether what began then has neither ended nor begun again.
fn is_open(begun: &HashMap<Key, Begun>, (time_ns, key): &(i64, Key)) -> bool {
    begun.get(key).is_some_and(|begun| begun.time_ns == *time_ns)
}

/// Returns how many are forgotten.
fn forget_older_half(begun: &mut HashMap<Key, Begun>) -> u64 {
    let mut times: Vec<i64> = begun.values().map(|begun| begun.time_ns).collect();
    let middle = times.len() / 2;
    let (_, middle_ns, _) = times.select_nth_unstable(middle);
    let (middle_ns, before) = (*middle_ns, begun.len());
    begun.retain(|_, begun| begun.time_ns > middle_ns);
    (before - begun.len()) as u64
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
        Lapses::new(Lapse {
            over_ns,
            by: BY.into(),
            overdue: false,
        })
    }

    fn overdue(over_ns: u64) -> Lapses {
        let mut lapses = lapses(over_ns);
        lapses.lapse.overdue = true;
        lapses
    }

    impl Lapses {
        fn add(&mut self, pair: Pair, time_ns: i64, pid: i32, value: u64) {
            let found = Match {
                event: format!("{} {value}", if pair == Pair::End { "end" } else { "begin" }),
                time_ns,
                pid,
                contexts: String::new(),
                fields: String::new(),
                duration_ns: None,
            };
            let found = Some(found).filter(|_| (pair == Pair::End) != self.lapse.overdue);
            self.bytes += bytes_of(found.as_ref());
            self.waiting.push(Waiting {
                time_ns,
                key: Key(Process::Pid(pid), Value::Integer(value)),
                pair,
                found,
            });
        }

        /// Names and durations of what is late.
        fn late(&mut self, until_ns: i64) -> Vec<(String, u64)> {
            let late = self.compare(until_ns, Instant::now()).into_iter();
            let late = late.chain(self.overdue(until_ns));
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
        let count = BEGUN_COUNT_MAX as u64 + 1;
        for value in 0..count {
            lapses.add(Pair::Beginning, value as i64, 7, value);
        }
        assert_eq!(lapses.late(i64::MAX), []);
        let missed = lapses.take_missed();
        assert_eq!(missed + lapses.begun.len() as u64, count);
        assert!((count / 2..count / 2 + 2).contains(&missed), "{missed}");
        // The newest are known.
        let last = count - 1;
        lapses.add(Pair::End, last as i64 + 100, 7, last);
        assert_eq!(lapses.late(i64::MAX), [(format!("end {last}"), 100)]);
        assert_eq!(lapses.bytes, 0);
    }

    #[test]
    fn what_a_process_has_begun_is_forgotten_a_while_after_its_end() {
        let (mut lapses, now) = (lapses(10), Instant::now());
        for pid in [7, 8] {
            lapses.add(Pair::Beginning, 100, pid, 1);
        }
        assert_eq!(lapses.compare(200, now), []);
        lapses.forget(Process::Pid(7), now);
        // Its last event came from another ring.
        lapses.add(Pair::Beginning, 300, 7, 2);
        lapses.add(Pair::End, 320, 7, 2);
        assert_eq!(lapses.compare(400, now + FORGET_AFTER).len(), 1);
        assert_eq!(lapses.begun.len(), 2);
        assert_eq!(lapses.compare(400, now + 2 * FORGET_AFTER), []);
        assert_eq!(
            lapses.begun.keys().map(|key| key.0).collect::<Vec<_>>(),
            [Process::Pid(8)]
        );
    }

    #[test]
    fn what_is_overdue_is_told_once_whether_its_end_comes_or_not() {
        let mut lapses = overdue(10);
        for (value, begin_ns) in [(1, 100), (2, 101), (3, 102), (4, 103)] {
            lapses.add(Pair::Beginning, begin_ns, 7, value);
        }
        assert_eq!(lapses.late(110), []);
        assert_eq!(lapses.due_ns(), Some(110));
        lapses.add(Pair::End, 109, 7, 4);
        // In time, to the last moment.
        lapses.add(Pair::End, 110, 7, 1);
        // Too late, and known at once.
        lapses.add(Pair::End, 112, 7, 2);
        assert_eq!(lapses.late(112), [("begin 2".into(), 10)]);
        assert_eq!(lapses.due_ns(), Some(112));
        assert_eq!(lapses.late(113), [("begin 3".into(), 10)]);
        lapses.add(Pair::End, 900, 7, 3);
        assert_eq!(lapses.late(1000), []);
        assert_eq!((lapses.due_ns(), lapses.bytes, lapses.begun_bytes), (None, 0, 0));
    }

    #[test]
    fn what_may_have_ended_is_not_overdue() {
        let mut lapses = overdue(10);
        lapses.add(Pair::Beginning, 100, 7, 1);
        lapses.add(Pair::Beginning, 100, 8, 1);
        assert_eq!(lapses.late(105), []);
        lapses.forget(Process::Pid(7), Instant::now());
        assert_eq!(lapses.late(150), [("begin 1".into(), 10)], "the one of process 8");
        lapses.add(Pair::Beginning, 200, 8, 2);
        assert_eq!(lapses.late(205), []);
        lapses.add(Pair::Beginning, 207, 8, 3);
        lapses.add(Pair::Beginning, 208, 8, 4);
        lapses.note_unseen(1, 207);
        lapses.note_unseen(1, 208);
        assert_eq!(lapses.late(300), [("begin 4".into(), 10)]);
        assert_eq!((lapses.take_missed(), lapses.begun_bytes), (2, 0));
        assert!(has_no_end("syscall_entry_exit") && !has_no_end("syscall_entry_exit_now"));
    }

    #[test]
    fn what_begins_again_is_overdue_from_then_on() {
        let mut lapses = overdue(10);
        for begin_ns in (0..=100).step_by(10) {
            lapses.add(Pair::Beginning, begin_ns, 7, 1);
        }
        assert_eq!(lapses.late(105), []);
        assert_eq!(lapses.compare(111, Instant::now()), []);
        let late = lapses.overdue(111);
        assert_eq!(late.iter().map(|late| late.time_ns).collect::<Vec<_>>(), [110]);
    }

    #[test]
    fn the_order_of_what_begins_and_ends_takes_no_more_than_so_much() {
        let mut lapses = overdue(u64::MAX);
        lapses.add(Pair::Beginning, 0, 7, 0);
        for round in 1..5 * BEGUN_COUNT_MAX as i64 {
            lapses.add(Pair::Beginning, 2 * round, 7, 1);
            lapses.add(Pair::End, 2 * round + 1, 7, 1);
            if round % 1000 == 0 {
                assert_eq!(lapses.late(2 * round + 1), []);
                assert!(lapses.order.len() <= 2 * BEGUN_COUNT_MAX);
            }
        }
        assert_eq!(lapses.late(i64::MAX), []);
        assert_eq!((lapses.begun.len(), lapses.due_ns()), (1, Some(i64::MAX)));
    }

    #[test]
    fn idle_threads_are_one_on_each_cpu() {
        let key = |cpu, value| Key::new(Process::Kernel { cpu }, Value::Integer(value));
        assert_eq!(key(1, 77), key(2, 77));
        assert_ne!(key(1, 0), key(2, 0));
    }
}
