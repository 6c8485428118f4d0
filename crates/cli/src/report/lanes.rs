// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lanes of a timeline a picture shows. Of all of the trace: the CPUs, the busiest threads, and what programs recorded. Around an
//! insight: whom it is about, who ended their waits, who ran meanwhile, and the CPUs.

use std::collections::{BTreeMap, BTreeSet};

use piste_analysis::insights::Insight;
use piste_timeline::{Class, Failure, Label, LaneId, Piece, Subject, Summary, Timeline};

/// CPUs of a picture.
const CPUS_MAX: usize = 8;
/// Whom an insight is about.
const MEANT_MAX: usize = 4;
/// Who ended their waits.
const WAKERS_MAX: usize = 3;
/// Threads around an insight, together.
const AROUND_MAX: usize = 8;
/// Threads of all of the trace.
const THREADS_MAX: usize = 10;
/// Threads of programs whose spans are shown, and how deep.
const PROGRAMS_MAX: usize = 6;
const DEPTHS_MAX: u32 = 3;
/// Lanes that are looked at one by one: the busiest.
const LOOKED_AT_MAX: usize = 2000;
/// Pieces that lie one over the other at a time, as requests to a device do.
const AT_ONCE_MAX: usize = 1000;
/// Pieces of a lane in which wakers are looked for.
const WAITS_MAX: usize = 5000;

/// A line of a picture.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) lane: LaneId,
    pub(super) title: String,
    /// Behind the title, less important.
    pub(super) note: String,
    /// An insight is about it.
    pub(super) is_meant: bool,
}

/// The process, the thread and the name of a program's lanes.
type Whose<'n> = (Option<i64>, Option<i64>, &'n str);

/// The lanes of a timeline.
pub(super) struct Lanes<'t> {
    pub(super) timeline: &'t Timeline,
    /// By number.
    cpus: Vec<LaneId>,
    /// The busiest first.
    threads: Vec<LaneId>,
    /// Devices and interrupts.
    others: Vec<LaneId>,
    /// Of programs: spans by their depth, then events. The threads with most of them first.
    programs: Vec<Vec<LaneId>>,
}

impl<'t> Lanes<'t> {
    pub(super) fn new(timeline: &'t Timeline) -> Lanes<'t> {
        let (mut cpus, mut threads, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut programs: BTreeMap<Whose<'_>, Vec<(u32, LaneId)>> = BTreeMap::new();
        for (number, subject) in (0..).zip(&timeline.directory.subjects) {
            let lane = LaneId(number);
            match subject {
                Subject::Cpu(cpu) => cpus.push((*cpu, lane)),
                Subject::Thread(_) => threads.push(lane),
                Subject::Interrupt(_) | Subject::Device(_) => others.push(lane),
                Subject::Spans(thread, depth) => {
                    let own = programs.entry((thread.pid, thread.tid, &thread.name)).or_default();
                    own.push((*depth, lane));
                }
                Subject::Events(thread) => {
                    let own = programs.entry((thread.pid, thread.tid, &thread.name)).or_default();
                    own.push((u32::MAX, lane));
                }
                // Not in pictures.
                Subject::Calls(_) | Subject::Counter(_) => {}
            }
        }
        cpus.sort_unstable();
        let whole = |lane: LaneId| timeline.whole(lane).unwrap_or_default();
        threads.sort_by_cached_key(|lane| std::cmp::Reverse(busy_ns(&whole(*lane))));
        let mut programs: Vec<Vec<LaneId>> = programs
            .into_values()
            .map(|mut own| {
                own.sort_unstable();
                own.into_iter().map(|(_, lane)| lane).collect()
            })
            .collect();
        programs.sort_by_cached_key(|own| std::cmp::Reverse(own.iter().map(|lane| whole(*lane).count).sum::<u64>()));
        Lanes {
            timeline,
            cpus: cpus.into_iter().map(|(_, lane)| lane).collect(),
            threads,
            others,
            programs,
        }
    }

    /// Of all of the trace, or a long part of it.
    pub(super) fn of_all(&self, range_ns: (i64, i64)) -> Result<Vec<Row>, Failure> {
        let busiest = |lanes: &[LaneId], most: usize| self.busiest(lanes, range_ns, most);
        let mut cpus = busiest(&self.cpus, CPUS_MAX)?;
        cpus.sort_by_key(|cpu| self.cpus.iter().position(|other| other == cpu));
        let threads = busiest(&self.threads, THREADS_MAX)?;
        let programs = self.programs.iter().take(PROGRAMS_MAX);
        let lanes = cpus.into_iter().chain(threads);
        let lanes = lanes.chain(programs.flat_map(|own| self.shown_of_program(own)));
        Ok(lanes.map(|lane| self.row(lane, false)).collect())
    }

    /// Around an insight.
    pub(super) fn around(&self, insight: &Insight, range_ns: (i64, i64)) -> Result<Vec<Row>, Failure> {
        let meant = self.meant(insight, range_ns)?;
        let mut shown = meant.clone();
        let mut add = |lanes: Vec<LaneId>, most: usize| {
            let fresh: Vec<LaneId> = lanes.into_iter().filter(|lane| !shown.contains(lane)).collect();
            shown.extend(fresh.into_iter().take(most));
            shown.len()
        };
        let known = add(self.wakers(&meant, range_ns)?, WAKERS_MAX);
        let busiest = self.busiest(&self.threads, range_ns, AROUND_MAX)?;
        add(busiest, AROUND_MAX.saturating_sub(known));
        let cpus = self.cpus_of(&shown, range_ns)?;
        let is_shown = |lane: &LaneId| !cpus.contains(lane);
        let mut rows: Vec<Row> = cpus.iter().map(|lane| self.row(*lane, meant.contains(lane))).collect();
        for lane in shown.iter().copied().filter(is_shown) {
            rows.push(self.row(lane, meant.contains(&lane)));
            let own = self.programs.iter().find(|own| self.is_of_thread(own, lane));
            let own = own.filter(|_| meant.contains(&lane));
            rows.extend(
                own.into_iter()
                    .flat_map(|own| self.shown_of_program(own))
                    .map(|lane| self.row(lane, false)),
            );
        }
        Ok(rows)
    }

    fn shown_of_program<'l>(&'l self, own: &'l [LaneId]) -> impl Iterator<Item = LaneId> + 'l {
        let has_spans = matches!(self.subject(own[0]), Some(Subject::Spans(..)));
        own.iter().copied().filter(move |lane| match self.subject(*lane) {
            Some(Subject::Spans(_, depth)) => *depth < DEPTHS_MAX,
            _ => !has_spans,
        })
    }

    fn is_of_thread(&self, own: &[LaneId], lane: LaneId) -> bool {
        match (own.first().and_then(|own| self.subject(*own)), self.subject(lane)) {
            (Some(Subject::Spans(program, _) | Subject::Events(program)), Some(Subject::Thread(thread))) => {
                program.tid == Some(thread.tid.into())
                    && (program.pid.is_none() || thread.pid.is_none() || program.pid == thread.pid.map(i64::from))
            }
            _ => false,
        }
    }

    /// Whom an insight is about: the thread or CPU that its command names, or whoever did what took longest, or threads of its process.
    fn meant(&self, insight: &Insight, range_ns: (i64, i64)) -> Result<Vec<LaneId>, Failure> {
        let number = |option: &str| -> Option<i64> {
            let options = &insight.closer.options;
            let place = options.iter().position(|known| known == option)?;
            options.get(place + 1)?.parse().ok()
        };
        let (tid, pid) = (number("--tid"), number("--pid"));
        let is_meant = |lane: &LaneId| match self.subject(*lane) {
            Some(Subject::Thread(thread)) => {
                tid.is_none_or(|tid| tid == i64::from(thread.tid))
                    && pid.is_none_or(|pid| pid == i64::from(thread.pid.unwrap_or(thread.tid)))
            }
            Some(Subject::Cpu(cpu)) => number("--cpu") == Some((*cpu).into()),
            _ => tid.is_none() && pid.is_none(),
        };
        let is_named = tid.is_some() || pid.is_some();
        let threads = self.threads.iter().copied().filter(is_meant).take(LOOKED_AT_MAX);
        let others = self.others.iter().copied().filter(is_meant);
        let mut found: Vec<LaneId> = self.cpus.iter().copied().filter(is_meant).collect();
        for lane in threads.clone().chain(others) {
            if let Some(longest_ns) = insight.longest_ns
                && self.has_piece(lane, longest_ns)?
            {
                found.push(lane);
            }
        }
        if is_named {
            let mut rest: Vec<(u64, LaneId)> = Vec::new();
            for lane in threads.filter(|lane| !found.contains(lane)) {
                let sum = self.sum(lane, range_ns)?;
                // A thread of the same number may have been there at another time.
                if sum.span_ns.is_some() {
                    rest.push((busy_ns(&sum).saturating_add(sum.of(Class::Runnable)), lane));
                }
            }
            rest.sort_by_key(|(ns, lane)| (std::cmp::Reverse(*ns), *lane));
            found.extend(rest.into_iter().map(|(_, lane)| lane));
        }
        found.truncate(MEANT_MAX);
        Ok(found)
    }

    fn has_piece(&self, lane: LaneId, (begin_ns, end_ns): (i64, i64)) -> Result<bool, Failure> {
        let pieces = self
            .timeline
            .pieces(lane, (begin_ns, begin_ns.saturating_add(1)), AT_ONCE_MAX)?;
        let is_it = |piece: &Piece| (piece.begin_ns, piece.end_ns) == (begin_ns, end_ns);
        Ok(pieces.unwrap_or_default().iter().any(is_it))
    }

    /// Threads that ended waits of others, or asked a device, longest waits first.
    fn wakers(&self, lanes: &[LaneId], range_ns: (i64, i64)) -> Result<Vec<LaneId>, Failure> {
        let mut ended_ns: BTreeMap<LaneId, u64> = BTreeMap::new();
        for lane in lanes {
            let pieces = self.timeline.pieces(*lane, range_ns, WAITS_MAX)?;
            for piece in pieces.unwrap_or_default() {
                if let Some(waker) = self.thread(piece.by) {
                    *ended_ns.entry(waker).or_default() += piece.duration_ns();
                }
            }
        }
        let mut wakers: Vec<(u64, LaneId)> = ended_ns.into_iter().map(|(lane, ns)| (ns, lane)).collect();
        wakers.sort_by_key(|(ns, lane)| (std::cmp::Reverse(*ns), *lane));
        Ok(wakers.into_iter().map(|(_, lane)| lane).collect())
    }

    /// CPUs, those first that the lanes' threads had longest; if there are few, all.
    fn cpus_of(&self, lanes: &[LaneId], range_ns: (i64, i64)) -> Result<Vec<LaneId>, Failure> {
        if self.cpus.len() <= CPUS_MAX {
            return Ok(self.cpus.clone());
        }
        let mut had: Vec<(u64, LaneId)> = Vec::new();
        for cpu in self.cpus.iter().copied() {
            let pieces = self.timeline.pieces(cpu, range_ns, WAITS_MAX)?.unwrap_or_default();
            let is_theirs = |piece: &&Piece| self.thread(piece.what).is_some_and(|lane| lanes.contains(&lane));
            let ns = pieces.iter().filter(is_theirs).map(Piece::duration_ns).sum::<u64>();
            had.push((if lanes.contains(&cpu) { u64::MAX } else { ns }, cpu));
        }
        had.sort_by_key(|(ns, cpu)| (std::cmp::Reverse(*ns), *cpu));
        had.truncate(CPUS_MAX);
        let known: BTreeSet<LaneId> = had.iter().filter(|(ns, _)| *ns > 0).map(|(_, cpu)| *cpu).collect();
        match known.is_empty() {
            true => self.busiest(&self.cpus, range_ns, CPUS_MAX / 2),
            false => Ok(self.cpus.iter().copied().filter(|cpu| known.contains(cpu)).collect()),
        }
    }

    /// Those that did something in a range, the busiest first.
    fn busiest(&self, lanes: &[LaneId], range_ns: (i64, i64), most: usize) -> Result<Vec<LaneId>, Failure> {
        let mut busy: Vec<(u64, LaneId)> = Vec::new();
        for lane in lanes.iter().copied().take(LOOKED_AT_MAX) {
            let sum = self.sum(lane, range_ns)?;
            if sum.span_ns.is_some() {
                busy.push((busy_ns(&sum), lane));
            }
        }
        // A CPU without anything to do is shown; a thread is not.
        let is_cpu = |lane: LaneId| matches!(self.subject(lane), Some(Subject::Cpu(_)));
        busy.retain(|(ns, lane)| *ns > 0 || is_cpu(*lane));
        busy.sort_by_key(|(ns, lane)| (std::cmp::Reverse(*ns), *lane));
        busy.truncate(most);
        Ok(busy.into_iter().map(|(_, lane)| lane).collect())
    }

    fn sum(&self, lane: LaneId, range_ns: (i64, i64)) -> Result<Summary, Failure> {
        Ok(self.timeline.columns(lane, range_ns, 1)?.pop().unwrap_or_default())
    }

    pub(super) fn subject(&self, lane: LaneId) -> Option<&'t Subject> {
        self.timeline.directory.subjects.get(lane.0 as usize)
    }

    /// The thread that a number in a piece stands for.
    fn thread(&self, number: u32) -> Option<LaneId> {
        match self.timeline.label(number)? {
            Label::Thread(lane) => Some(*lane),
            Label::Text(_) => None,
        }
    }

    /// What a number in a piece stands for.
    pub(super) fn said(&self, number: u32) -> Option<String> {
        match self.timeline.label(number)? {
            Label::Text(text) => Some(text.clone()),
            Label::Thread(lane) => Some(self.row(*lane, false).title),
        }
    }

    fn row(&self, lane: LaneId, is_meant: bool) -> Row {
        let (title, note) = self
            .subject(lane)
            .map_or_else(Default::default, |subject| match subject {
                Subject::Cpu(cpu) => (format!("CPU {cpu}"), String::new()),
                Subject::Thread(thread) => match thread.name.as_str() {
                    "" => (format!("thread {}", thread.tid), String::new()),
                    name => (name.to_owned(), thread.tid.to_string()),
                },
                Subject::Spans(thread, depth) => match depth {
                    0 => (program_named(thread), "spans".to_owned()),
                    depth => (String::new(), format!("spans, depth {depth}")),
                },
                Subject::Events(thread) => (program_named(thread), "events".to_owned()),
                Subject::Interrupt(name) | Subject::Device(name) => (name.clone(), String::new()),
                Subject::Calls(_) => (String::new(), "system calls".to_owned()),
                Subject::Counter(_) => (String::new(), "numbers".to_owned()),
            });
        Row {
            lane,
            title,
            note,
            is_meant,
        }
    }
}

fn program_named(thread: &piste_timeline::ProgramThread) -> String {
    let id = thread.tid.or(thread.pid).map_or(String::new(), |id| id.to_string());
    match (thread.name.as_str(), id.as_str()) {
        ("", "") => "unknown thread".to_owned(),
        ("", id) => format!("thread {id}"),
        (name, "") => name.to_owned(),
        (name, id) => format!("{name} {id}"),
    }
}

/// How long something had a CPU, or a CPU had something to do.
fn busy_ns(sum: &Summary) -> u64 {
    let busy = [Class::Running, Class::User, Class::Kernel, Class::Interrupted];
    busy.iter().fold(0, |ns, class| sum.of(*class).saturating_add(ns))
}
