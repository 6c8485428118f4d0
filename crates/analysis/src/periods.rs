// SPDX-License-Identifier: MIT OR Apache-2.0
//! Periods between events that somebody chose: from one that begins to the one that ends it. Both have the same key, such as a thread and a
//! request's number; of several that are open under one key, the one that began last ends first.
//!
//! Where events are missing, the end of a period and the begin of another may be among them. So what is open there is forgotten, and an end
//! behind it that finds nothing open is not told to have had no begin.
//!
//! When too many are open, the next one's key gives up the one of it that began first. So whatever is given up, an end never takes a begin
//! that is not its own: it may only find none any more.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::analyses::{COUNT, FROM, LIMIT, LOG_LIMIT, MAX, MEAN, MEDIAN, MIN, P99, TOTAL, UNTIL};
use crate::analysis::Options;
use crate::measure::Distribution;
use crate::model::System;
use crate::process_gaps::{Lost, ProcessGaps};
use crate::report::{Column, Report, Table, Unit, Value, column, counted};
use crate::within::{self, Interval, Within};

/// More are not open at one time: what began and has no end in the trace must not take all memory.
pub const OPEN_MAX: usize = 1 << 20;
/// More values of what was captured are not told apart.
const GROUPS_MAX: usize = 10_000;

/// Pairs begins with ends, and measures.
pub struct Periods {
    options: Options,
    gaps: ProcessGaps,
    /// By key, as they began.
    open: FxHashMap<Box<str>, VecDeque<Open>>,
    open_count: usize,
    open_max: usize,
    /// By what was captured.
    groups: BTreeMap<Box<str>, Distribution>,
    /// Those of more values than are told apart.
    without_group: u64,
    all: Distribution,
    log: Vec<Period>,
    /// The longest so far, and some that are not.
    top: Vec<Period>,
    top_count: usize,
    log_count: u64,
    without_begin: u64,
    /// Begins that were not kept, and ends that may be of those.
    given_up: u64,
    ends_of_given_up: u64,
    /// Begins before gaps, and ends behind them.
    torn_begins: u64,
    torn_ends: u64,
    /// What recording took of each thread's time so far; absent: nobody knows.
    recording_ns: Option<FxHashMap<i64, f64>>,
}

/// What events have in common that begin and end the same periods.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// That.
    pub text: &'k str,
    /// The process, if events of another cannot have the same.
    pub pid: Option<i64>,
    /// The thread on which the event happened.
    pub tid: Option<i64>,
}

struct Open {
    begin_ns: i64,
    pid: Option<i64>,
    tid: Option<i64>,
    captured: Box<str>,
    /// What recording had taken of the thread's time by then.
    recording_ns: f64,
}

#[derive(Clone)]
struct Period {
    begin_ns: i64,
    duration_ns: i64,
    captured: Box<str>,
    /// The thread on which it began and ended; absent: they are two, or unknown.
    tid: Option<i64>,
    /// How many were open around it; absent when more may have been than the trace tells.
    depth: Option<i64>,
    /// What recording took of it; absent like the thread, or because nobody knows.
    recording_ns: Option<i64>,
}

impl Period {
    fn interval(&self) -> Option<Interval> {
        let tid = self.tid.and_then(|tid| i32::try_from(tid).ok())?;
        Some(Interval {
            tid,
            begin_ns: self.begin_ns,
            end_ns: self.begin_ns.saturating_add(self.duration_ns),
        })
    }
}

impl Periods {
    /// Before the first event.
    pub fn new(options: Options) -> Periods {
        Periods {
            options,
            gaps: ProcessGaps::default(),
            open: FxHashMap::default(),
            open_count: 0,
            open_max: OPEN_MAX,
            groups: BTreeMap::new(),
            without_group: 0,
            all: Distribution::default(),
            log: Vec::new(),
            top: Vec::new(),
            top_count: 0,
            log_count: 0,
            without_begin: 0,
            given_up: 0,
            ends_of_given_up: 0,
            torn_begins: 0,
            torn_ends: 0,
            recording_ns: None,
        }
    }

    /// And keeps so many of the longest.
    pub fn with_top(self, top_count: usize) -> Periods {
        Periods { top_count, ..self }
    }

    /// And tells what recording took of the longest: [`Periods::recorded`] is called for all events.
    pub fn with_costs(self) -> Periods {
        Periods {
            recording_ns: Some(FxHashMap::default()),
            ..self
        }
    }

    /// An event of a thread was recorded, which took so long.
    pub fn recorded(&mut self, tid: i64, ns: f64) {
        if let Some(recording_ns) = &mut self.recording_ns {
            *recording_ns.entry(tid).or_default() += ns;
        }
    }

    /// What recording took of a thread's time so far.
    fn recording_ns(&self, tid: Option<i64>) -> Option<f64> {
        let by_tid = self.recording_ns.as_ref()?;
        Some(by_tid.get(&tid?).copied().unwrap_or_default())
    }

    /// Events that begin or end periods may be missing, later than the last one that was told.
    pub fn lose(&mut self, lost: &Lost<'_>) {
        self.gaps.add(lost);
    }

    /// A period begins, under a key; what was captured of its first event groups it.
    pub fn begin(&mut self, ns: i64, key: Key<'_>, captured: &str) {
        self.forget_torn(ns, key.text);
        let open = Open {
            begin_ns: ns,
            pid: key.pid,
            tid: key.tid,
            captured: captured.into(),
            recording_ns: self.recording_ns(key.tid).unwrap_or_default(),
        };
        let is_full = self.open_count == self.open_max;
        self.given_up += u64::from(is_full);
        match self.open.get_mut(key.text) {
            Some(under_key) if is_full => {
                under_key.pop_front();
                under_key.push_back(open);
                return;
            }
            // It is the first of its key.
            None if is_full => return,
            Some(under_key) => under_key.push_back(open),
            None => _ = self.open.insert(key.text.into(), VecDeque::from([open])),
        }
        self.open_count += 1;
    }

    /// The one of a key that began last ends.
    pub fn end(&mut self, ns: i64, key: Key<'_>) {
        self.forget_torn(ns, key.text);
        let Some(under_key) = self.open.get_mut(key.text) else {
            let count = if self.gaps.lie_within(i64::MIN, ns, key.pid) {
                &mut self.torn_ends
            } else if self.ends_of_given_up < self.given_up {
                &mut self.ends_of_given_up
            } else {
                &mut self.without_begin
            };
            *count += 1;
            return;
        };
        let depth = under_key.len() - 1;
        let Open {
            begin_ns,
            pid,
            tid,
            captured,
            recording_ns,
        } = under_key.pop_back().expect("empty ones are removed");
        if under_key.is_empty() {
            self.open.remove(key.text);
        }
        self.open_count -= 1;
        // Times of a damaged trace go back, and lie anywhere.
        let duration_ns = ns.saturating_sub(begin_ns).max(0);
        if !self.options.wants_ns(duration_ns) {
            return;
        }
        self.all.add(duration_ns);
        if self.groups.len() < GROUPS_MAX || self.groups.contains_key(&captured) {
            self.groups.entry(captured.clone()).or_default().add(duration_ns);
        } else {
            self.without_group += 1;
        }
        self.log_count += 1;
        let is_logged = self.log.len() < self.options.limit.unwrap_or(LOG_LIMIT);
        if !is_logged && self.top_count == 0 {
            return;
        }
        let is_depth_known = self.given_up == 0 && !self.gaps.lie_within(i64::MIN, begin_ns, pid);
        let tid = tid.filter(|tid| key.tid == Some(*tid));
        let recording_ns = self
            .recording_ns(tid)
            .map(|until_now| (until_now - recording_ns).round() as i64);
        let period = Period {
            begin_ns,
            duration_ns,
            captured,
            tid,
            depth: is_depth_known.then_some(depth as i64),
            recording_ns,
        };
        if self.top_count > 0 {
            self.top.push(period.clone());
            if self.top.len() > 2 * self.top_count + 100 {
                self.cut_top();
            }
        }
        if is_logged {
            self.log.push(period);
        }
    }

    /// Forgets what is open under a key, if events are missing since the last of it began: then they are since the others began.
    fn forget_torn(&mut self, ns: i64, key: &str) {
        let last = self.open.get(key).and_then(VecDeque::back);
        if last.is_some_and(|last| self.gaps.lie_within(last.begin_ns, ns, last.pid)) {
            let torn = self.open.remove(key).unwrap_or_default();
            self.open_count -= torn.len();
            self.torn_begins += torn.len() as u64;
        }
    }

    /// The longest first.
    fn cut_top(&mut self) {
        self.top.sort_by_key(|period| (-period.duration_ns, period.begin_ns));
        self.top.truncate(self.top_count);
    }

    /// When the longest were, and on which threads; those of which it is known.
    pub fn intervals_of_top(&mut self) -> Vec<Interval> {
        self.cut_top();
        self.top.iter().filter_map(Period::interval).collect()
    }

    /// The longest, with what their threads did meanwhile, where that is known.
    pub fn top(&mut self, within: Option<(&System, &Within)>) -> Table {
        self.cut_top();
        let columns = [
            column("begin_ns", "BEGIN", Unit::Moment),
            column("duration_ns", "DURATION", Unit::Nanoseconds).major().with_bar(),
            column("captured", "OF", Unit::Text).major(),
            column("tid", "TID", Unit::Id).minor(),
        ];
        let recording: &[Column] = match self.recording_ns {
            Some(_) => &[column("recording_ns", "RECORDING", Unit::Nanoseconds).minor()],
            None => &[],
        };
        let mut columns = [&columns[..], recording, &within::COLUMNS].concat();
        if let Some((_, within)) = within {
            within.rank(&mut columns);
        }
        let mut table = Table::new(
            "top",
            "The longest periods, and what their threads did meanwhile",
            &columns,
        );
        let mut place = 0;
        for period in &self.top {
            let mut row = vec![
                Value::Number(period.begin_ns),
                Value::Number(period.duration_ns),
                Value::from(&*period.captured),
                period.tid.into(),
            ];
            row.extend(self.recording_ns.as_ref().map(|_| period.recording_ns.into()));
            match (period.interval(), within) {
                (Some(_), Some((system, within))) => {
                    row.extend(within.values(system, place));
                    place += 1;
                }
                _ => row.extend(within::COLUMNS.map(|_| Value::None)),
            }
            table.row(row);
        }
        table
    }

    /// The names of its tables, with that of [`Periods::top`].
    pub const TABLES: &[&str] = &["top", "periods", "frequencies", "log"];

    /// What it comes to.
    pub fn report(&self) -> Report {
        let captured = column("captured", "OF", Unit::Text).major();
        let columns = [captured, COUNT, TOTAL.with_bar(), MIN, MEAN, MAX, MEDIAN, P99];
        let mut periods = Table::new("periods", "Periods", &columns);
        for (captured, own) in &self.groups {
            let mut row = vec![Value::from(&**captured)];
            row.extend(own.times.values());
            row.extend([own.percentile(50.0), own.percentile(99.0)]);
            periods.row(row);
        }
        periods.sort_by("total_ns");
        periods.rows.truncate(self.options.limit.unwrap_or(LIMIT));
        let first = format!("this table: only the first {GROUPS_MAX} captured values are distinguished");
        periods.notes.extend(counted(
            self.without_group,
            &format!("period is not in {first}"),
            &format!("periods are not in {first}"),
        ));
        let mut frequencies = Table::new(
            "frequencies",
            "Distribution of the durations",
            &[FROM, UNTIL, COUNT.with_bar()],
        );
        for (from, until, count) in self.all.octaves() {
            frequencies.row([Value::Number(from), Value::Number(until), count.into()]);
        }
        let columns = [
            column("begin_ns", "BEGIN", Unit::Moment),
            column("duration_ns", "DURATION", Unit::Nanoseconds).with_bar(),
            column("depth", "DEPTH", Unit::Count).minor(),
            captured,
        ];
        let mut log = Table::new("log", "Every period", &columns);
        log.excerpt_by = Some("duration_ns");
        for period in &self.log {
            log.row([
                Value::Number(period.begin_ns),
                Value::Number(period.duration_ns),
                period.depth.into(),
                Value::from(&*period.captured),
            ]);
        }
        log.notes.extend(counted(
            self.log_count - self.log.len() as u64,
            "more period is not in the log; choose others with --limit, --min and --begin",
            "more periods are not in the log; choose others with --limit, --min and --begin",
        ));
        Report {
            tables: vec![periods, frequencies, log],
            notes: self.notes(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let is_torn = |open: &&Open| self.gaps.lie_within(open.begin_ns, i64::MAX, open.pid);
        let torn = self.open.values().flatten().filter(is_torn).count();
        let without_end = (self.open_count - torn) as u64;
        let many = self.open_max;
        let given_up = [
            format!("period was dropped, because more than {many} were open: its end is unknown"),
            format!("periods were dropped, because more than {many} were open: their ends are unknown"),
        ];
        let notes = [
            counted(
                self.torn_begins + torn as u64,
                "period begins before a place where events are missing: its end is unknown (see `piste stats`)",
                "periods begin before a place where events are missing: their ends are unknown (see `piste stats`)",
            ),
            counted(
                self.torn_ends,
                "period ends after a place where events are missing: its start is unknown (see `piste stats`)",
                "periods end after a place where events are missing: their starts are unknown (see `piste stats`)",
            ),
            counted(self.given_up, &given_up[0], &given_up[1]),
            counted(
                self.ends_of_given_up,
                "end event has no begin event in the trace, or belongs to a dropped period",
                "end events have no begin event in the trace, or belong to dropped periods",
            ),
            counted(
                without_end,
                "begin event has no end event in the trace",
                "begin events have no end event in the trace",
            ),
            counted(
                self.without_begin,
                "end event has no begin event in the trace",
                "end events have no begin event in the trace",
            ),
        ];
        notes.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// Lines `TIME begin|end KEY CAPTURED` of the process with the number of the key, and `TIME lost END PROCESS`, where events up to `END`
    /// are missing; expected: those of the log, `BEGIN DURATION DEPTH CAPTURED`.
    fn check(lines: &[&str], options: Options, expected: &[&str], notes: &[&str]) -> Report {
        let mut periods = Periods::new(options);
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let ns = words[0].parse().expect("a time");
            let number = |place: usize| words.get(place).and_then(|word: &&str| word.parse().ok());
            let key = Key {
                text: words[2],
                pid: number(2),
                tid: number(2),
            };
            match words[1] {
                "begin" => periods.begin(ns, key, words.get(3).unwrap_or(&"")),
                "end" => periods.end(ns, key),
                _ => periods.lose(&Lost {
                    classes: &[],
                    pid: number(3),
                    begin_ns: ns,
                    end_ns: number(2).expect("a time"),
                }),
            }
        }
        let report = periods.report();
        let text = |value: &Value| match value {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::None => "-".to_owned(),
            other => format!("{other:?}"),
        };
        let seen: Vec<String> = report.tables[2]
            .rows
            .iter()
            .map(|row| row.iter().map(text).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(seen, expected);
        assert_eq!(report.all_notes().collect::<Vec<_>>(), notes);
        report
    }

    #[test]
    fn the_last_that_began_under_a_key_ends_first() {
        let report = check(
            &[
                "10 begin 7 a",
                "20 begin 7 b",
                "25 begin 8 a",
                "30 end 7",
                "50 end 7",
                "55 end 8",
            ],
            Options::default(),
            &["20 10 1 b", "10 40 0 a", "25 30 0 a"],
            &[],
        );
        let rows = &report.tables[0].rows;
        // Of a: two, 70 in all, 30 at least, 40 at most.
        assert_eq!(
            rows[0][..4],
            ["a".into(), Value::Number(2), Value::Number(70), Value::Number(30)]
        );
        assert_eq!(rows[1][..3], ["b".into(), Value::Number(1), Value::Number(10)]);
    }

    #[test]
    fn what_recording_took_of_a_period_is_that_of_its_thread() {
        let key = |tid| Key {
            text: "k",
            pid: None,
            tid,
        };
        let shown = |mut periods: Periods| {
            periods.recorded(7, 50.0);
            periods.begin(100, key(Some(7)), "a");
            periods.recorded(7, 20.4);
            periods.recorded(8, 1000.0);
            periods.recorded(7, 20.3);
            periods.end(400, key(Some(7)));
            periods.begin(500, key(Some(7)), "b");
            periods.end(600, key(Some(8)));
            let table = periods.top(None);
            let at = table.columns.iter().position(|column| column.key == "recording_ns")?;
            Some(table.rows.iter().map(|row| row[at].csv()).collect::<Vec<_>>())
        };
        let periods = || Periods::new(Options::default()).with_top(5);
        assert_eq!(shown(periods()), None);
        assert_eq!(
            shown(periods().with_costs()),
            Some(vec!["41".to_owned(), String::new()])
        );
    }

    #[test]
    fn what_has_no_partner_is_counted() {
        let notes = [
            "1 begin event has no end event in the trace",
            "2 end events have no begin event in the trace",
        ];
        check(
            &["5 end 7", "10 begin 7 a", "20 end 8"],
            Options::default(),
            &[],
            &notes,
        );
    }

    #[test]
    fn what_is_open_where_events_are_missing_is_forgotten() {
        check(
            &[
                "10 begin 7 a",
                "11 begin 7 b",
                "12 end 7",
                "15 lost 20",
                // The end of the first, or of another whose begin is lost; behind that, nothing was open around what begins.
                "30 end 7",
                "31 begin 7 c",
                "33 end 7",
                "34 begin 7 d",
                "40 lost 50",
                "51 begin 7 e",
                "52 end 7",
                "53 end 7",
                "54 begin 8 f",
                "60 lost 61",
            ],
            Options::default(),
            &["11 1 1 b", "31 2 - c", "51 1 - e"],
            &[
                "3 periods begin before a place where events are missing: their ends are unknown (see `piste stats`)",
                "2 periods end after a place where events are missing: their starts are unknown (see `piste stats`)",
            ],
        );
    }

    #[test]
    fn a_process_loses_events_of_its_own_only() {
        check(
            &[
                "15 lost 20 7",
                "10 begin 7 a",
                "11 begin 8 b",
                "30 end 7",
                "31 end 8",
                "32 end 8",
            ],
            Options::default(),
            &["11 20 0 b"],
            &[
                "1 period begins before a place where events are missing: its end is unknown (see `piste stats`)",
                "1 period ends after a place where events are missing: its start is unknown (see `piste stats`)",
                "1 end event has no begin event in the trace",
            ],
        );
    }

    #[test]
    fn what_is_lost_between_two_periods_harms_neither() {
        check(
            &["10 begin 7 a", "20 end 7", "20 lost 30", "30 begin 7 a", "35 end 7"],
            Options::default(),
            &["10 10 0 a", "30 5 - a"],
            &[],
        );
    }

    #[test]
    fn too_short_ones_are_left_out() {
        let options = Options {
            min_ns: Some(20),
            limit: Some(1),
            ..Options::default()
        };
        let lines = [
            "0 begin 7 a",
            "5 end 7",
            "10 begin 7 a",
            "40 end 7",
            "50 begin 7 a",
            "80 end 7",
        ];
        let left = ["1 more period is not in the log; choose others with --limit, --min and --begin"];
        check(&lines, options, &["10 30 0 a"], &left);
    }

    #[test]
    fn what_began_last_is_measured_however_many_are_open() {
        let mut periods = Periods::new(Options::default());
        periods.open_max = 3;
        let key = |text| Key {
            text,
            pid: None,
            tid: None,
        };
        for ns in 0..5 {
            periods.begin(ns, key("7"), "");
        }
        periods.begin(100, key("7"), "late");
        periods.end(105, key("7"));
        // Nothing is open under this key that could be given up for it.
        periods.begin(110, key("6"), "other");
        periods.begin(111, key("7"), "again");
        periods.begin(112, key("8"), "unlucky");
        periods.end(113, key("8"));
        periods.end(114, key("7"));
        periods.end(115, key("7"));
        periods.end(116, key("6"));
        for ns in 120..125 {
            periods.end(ns, key("7"));
        }
        let report = periods.report();
        let seen: Vec<_> = report.tables[2].rows.iter().map(|row| row[..3].to_vec()).collect();
        let row = |begin_ns, duration_ns| vec![Value::Number(begin_ns), Value::Number(duration_ns), Value::None];
        assert_eq!(seen, [row(100, 5), row(111, 3), row(4, 111), row(110, 6)]);
        assert_eq!(
            report.notes,
            [
                "5 periods were dropped, because more than 3 were open: their ends are unknown",
                "5 end events have no begin event in the trace, or belong to dropped periods",
                "1 end event has no begin event in the trace",
            ]
        );
    }

    #[test]
    fn whatever_is_given_up_no_end_takes_another_begin() {
        let mut random = Rng::with_seed(1);
        for _ in 0..2000 {
            let mut periods = Periods::new(Options::default());
            periods.open_max = random.u64(..6) as usize;
            let mut open: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
            let mut pairs = Vec::new();
            let (mut begins, mut ends) = (0, 0);
            let begins_of_ten = 2 + random.u64(..7);
            for ns in 0..60 {
                let number = random.u64(..3);
                let text = number.to_string();
                let key = Key {
                    text: &text,
                    pid: None,
                    tid: None,
                };
                if random.u64(..10) < begins_of_ten {
                    periods.begin(ns, key, "");
                    open.entry(number).or_default().push(ns);
                    begins += 1;
                } else {
                    periods.end(ns, key);
                    pairs.extend(open.get_mut(&number).and_then(Vec::pop).map(|begin_ns| (begin_ns, ns)));
                    ends += 1;
                }
            }
            for period in &periods.log {
                let pair = (period.begin_ns, period.begin_ns + period.duration_ns);
                assert!(pairs.contains(&pair), "{pair:?} of {pairs:?}");
            }
            let told = periods.log_count;
            assert_eq!(told + periods.given_up + periods.open_count as u64, begins);
            assert_eq!(told + periods.ends_of_given_up + periods.without_begin, ends);
            assert!(pairs.len() as u64 <= told + periods.given_up);
        }
    }

    #[test]
    fn values_that_are_not_told_apart_are_counted() {
        let options = Options {
            limit: Some(20_000),
            ..Options::default()
        };
        let mut periods = Periods::new(options);
        let key = Key {
            text: "7",
            pid: None,
            tid: None,
        };
        for number in 0..GROUPS_MAX as i64 + 2 {
            periods.begin(10 * number, key, &number.to_string());
            periods.end(10 * number + 1, key);
        }
        periods.begin(1_000_000, key, "0");
        periods.end(1_000_001, key);
        let report = periods.report();
        assert_eq!(report.tables[0].rows.len(), GROUPS_MAX);
        assert_eq!(
            report.tables[0].notes,
            ["2 periods are not in this table: only the first 10000 captured values are distinguished"]
        );
    }

    #[test]
    fn an_end_before_its_begin_takes_no_time() {
        let lines = ["50 begin 7 a", "40 end 7", "41 begin 7 a", "42 end 7"];
        check(&lines, Options::default(), &["50 0 0 a", "41 1 0 a"], &[]);
        let furthest = [
            "-9223372036854775808 begin 7 a",
            "9223372036854775807 end 7",
            "0 begin 7 a",
            "9223372036854775807 end 7",
        ];
        let report = check(
            &furthest,
            Options::default(),
            &[
                "-9223372036854775808 9223372036854775807 0 a",
                "0 9223372036854775807 0 a",
            ],
            &[],
        );
        // Number, sum, least, mean, most, median.
        let row = &report.tables[0].rows[0];
        let most = Value::Number(i64::MAX);
        assert_eq!(row[2], most);
        assert_eq!(row[5..7], [most.clone(), most]);
        let octaves = &report.tables[1].rows;
        assert_eq!(octaves.last().expect("one")[2], Value::Number(2));
    }

    #[test]
    fn the_longest_are_kept_with_their_threads() {
        let mut periods = Periods::new(Options::default()).with_top(2);
        for number in 0..1000 {
            let key = |tid| Key {
                text: "7",
                pid: None,
                tid: Some(tid),
            };
            let begin_ns = number * 1000;
            periods.begin(begin_ns, key(7), "a");
            // Of each hundred, one ends elsewhere.
            periods.end(begin_ns + number % 500, key(if number % 100 == 99 { 8 } else { 7 }));
        }
        let intervals = periods.intervals_of_top();
        assert_eq!(intervals.len(), 0);
        let table = periods.top(None);
        let begins: Vec<&Value> = table.rows.iter().map(|row| &row[0]).collect();
        assert_eq!(begins, [&Value::Number(499_000), &Value::Number(999_000)]);

        let mut periods = Periods::new(Options::default()).with_top(2);
        for (begin_ns, end_ns) in [(10, 20), (30, 35), (40, 70)] {
            let key = Key {
                text: "7",
                pid: None,
                tid: Some(7),
            };
            periods.begin(begin_ns, key, "a");
            periods.end(end_ns, key);
        }
        let intervals = periods.intervals_of_top();
        let spans: Vec<(i64, i64)> = intervals.iter().map(|one| (one.begin_ns, one.end_ns)).collect();
        assert_eq!(spans, [(40, 70), (10, 20)]);
    }
}
