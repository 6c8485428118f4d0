// SPDX-License-Identifier: MIT OR Apache-2.0
//! What made a thread late: each part of an interval of its time, by what kept the thread from getting on. That is the interrupt or the thread
//! that had its CPU, what a wait was for, or what the thread that it waited for did.

use rustc_hash::FxHashMap;

use super::super::irq::interrupt_name;
use super::super::named;
use super::graph::{Deed, Graph, Waiting};
use super::walk::{Segment, walk};
use crate::cause::Cause;
use crate::facts::Interrupt;
use crate::model::{Happening, Listen, Mode, Nature, Occurrence, Slice, State, System, ThreadId, Why};

/// No event tells how long a page fault takes: half a microsecond to five, in virtual machines. A thread with one at least so often mostly waits
/// for them; with fewer, it mostly works.
const PAGE_FAULTS_EVERY_NS: i64 = 10_000;
/// Priorities in traces below zero are of the real-time policies: -1 - 90 is priority 90. Beyond them are threads with deadlines.
const HIGHEST_PRIORITY: i32 = 99;

/// An interval of a thread's time in which it was late, in nanoseconds from the clock's origin.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// Which thread.
    pub tid: i32,
    /// When it should have got on.
    pub begin_ns: i64,
    /// When it did.
    pub end_ns: i64,
    /// The CPU where it always runs; absent if it has several, and does work of its own. Of a thread that always runs on one CPU, a wait is
    /// one for a timer of that CPU, which was late.
    pub cpu: Option<u32>,
    /// For so long, the hypervisor is known to have taken the CPU away meanwhile.
    pub steal_ns: i64,
}

/// What kept a thread from getting on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Culprit {
    /// An interrupt had the CPU.
    Interrupt(Interrupt),
    /// This thread took the CPU.
    Preempted(ThreadId),
    /// The thread was ready, and this one kept the CPU.
    Ready(ThreadId),
    /// The timer that was to wake the thread came late while this thread had the CPU.
    TimerHeldBack(ThreadId),
    /// The CPU was idle, and took that long to wake up.
    Idle,
    /// It waited; the thread that ended the wait, if there is one, could not be followed.
    Waited(Cause, Option<ThreadId>),
    /// It waited for this thread, which had a CPU.
    Other(ThreadId),
    /// It waited for this thread, which was ready; the second one had the CPU, if it is known.
    OtherReady(ThreadId, Option<ThreadId>),
    /// It was stopped.
    Stopped,
    /// It had the CPU, and page faults all the time.
    PageFault,
    /// It had the CPU, whose frequency changed.
    Frequency,
    /// It had the CPU, as far as the kernel knows; the hypervisor took it away.
    Hypervisor,
    /// It had the CPU, and nothing that the kernel sees kept it: firmware, hardware, or a hypervisor that does not say.
    NothingVisible,
    /// It had a CPU for its own work.
    Running,
    /// The trace does not tell.
    Unknown,
}

impl Culprit {
    /// For programs.
    pub fn kind(self) -> &'static str {
        match self {
            Culprit::Interrupt(Interrupt::Soft(_)) => "soft_interrupt",
            Culprit::Interrupt(_) => "interrupt",
            Culprit::Preempted(_) => "preempted",
            Culprit::Ready(_) => "ready",
            Culprit::TimerHeldBack(_) => "timer_held_back",
            Culprit::Idle => "idle",
            Culprit::Waited(..) => "waited",
            Culprit::Other(_) => "other",
            Culprit::OtherReady(..) => "other_ready",
            Culprit::Stopped => "stopped",
            Culprit::PageFault => "page_fault",
            Culprit::Frequency => "frequency",
            Culprit::Hypervisor => "hypervisor",
            Culprit::NothingVisible => "nothing_visible",
            Culprit::Running => "running",
            Culprit::Unknown => "unknown",
        }
    }

    /// For people.
    pub fn text(self, system: &System) -> String {
        let who = |id: ThreadId| match system.thread(id).priority().map(|priority| -1 - priority) {
            Some(priority @ 0..=HIGHEST_PRIORITY) => format!("{}, real-time priority {priority}", named(system, id)),
            Some(beyond) if beyond > HIGHEST_PRIORITY => format!("{}, policy deadline", named(system, id)),
            _ => named(system, id),
        };
        match self {
            Culprit::Interrupt(interrupt) => interrupt_name(system, interrupt),
            Culprit::Preempted(id) => format!("preempted by {}", who(id)),
            Culprit::Ready(id) => format!("ready to run, but {} had the CPU", who(id)),
            Culprit::TimerHeldBack(id) => format!("its timer came late while {} had the CPU", who(id)),
            Culprit::Idle => "the idle CPU woke up late".into(),
            Culprit::Waited(Cause::Unknown, None) => "waited, cause unknown".into(),
            Culprit::Waited(cause, None) => format!("waited for {}", waited_for_text(cause)),
            Culprit::Waited(Cause::Unknown, Some(id)) => {
                format!("waited until {} ended the wait, cause unknown", who(id))
            }
            Culprit::Waited(cause, Some(id)) => {
                format!("waited for {} until {} ended the wait", waited_for_text(cause), who(id))
            }
            Culprit::Other(id) => format!("waited for {}, which ran", who(id)),
            Culprit::OtherReady(id, Some(occupant)) => {
                format!(
                    "waited for {}, which was ready to run, but {} had the CPU",
                    who(id),
                    who(occupant)
                )
            }
            Culprit::OtherReady(id, None) => format!("waited for {}, which was ready to run", who(id)),
            Culprit::Stopped => "it was stopped".into(),
            Culprit::PageFault => "page faults".into(),
            Culprit::Frequency => "it had the CPU, and the CPU's frequency changed".into(),
            Culprit::Hypervisor => "the hypervisor had the CPU (steal)".into(),
            Culprit::NothingVisible => "it had the CPU, and nothing visible to the kernel delayed it".into(),
            Culprit::Running => "it had a CPU and did its own work".into(),
            Culprit::Unknown => "no event shows what happened".into(),
        }
    }
}

fn waited_for_text(cause: Cause) -> &'static str {
    match cause {
        Cause::Io => "a disk or a similar device",
        Cause::Network => "the network",
        Cause::Timer => "a timer",
        Cause::Lock => "a lock",
        Cause::Thread => "another thread",
        Cause::Unknown => "an unknown cause",
    }
}

/// What was kept from getting on, by whom, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// By whom.
    pub culprit: Culprit,
    /// For how long.
    pub ns: i64,
}

/// What is found out about an interval.
#[derive(Debug)]
pub struct Found {
    /// What kept the thread, most of all first. All of it is as long as the interval.
    pub shares: Vec<Share>,
    /// Page faults of the thread in the interval.
    pub page_faults: u64,
}

/// Finds out what made a thread late.
pub struct Delay {
    late: Late,
    graph: Graph,
    /// Who had which CPU for what, in the interval.
    on_cpus: Vec<OnCpu>,
    /// What the thread did in the interval.
    own: Vec<Slice>,
    page_faults: u64,
    frequency_changes: u64,
}

#[derive(Clone, Copy)]
struct OnCpu {
    cpu: u32,
    thread: ThreadId,
    mode: Mode,
    begin_ns: i64,
    end_ns: i64,
}

impl Delay {
    /// Before the first event.
    pub fn new(late: Late) -> Delay {
        Delay {
            late,
            graph: Graph::default(),
            on_cpus: Vec::new(),
            own: Vec::new(),
            page_faults: 0,
            frequency_changes: 0,
        }
    }

    /// The trace is over.
    pub fn found(&self, system: &System) -> Found {
        let mut shares = Shares::default();
        let mut told_ns = self.late.begin_ns;
        let mut on_cpu_ns = 0;
        for (place, slice) in self.own.iter().enumerate() {
            let (begin_ns, end_ns) = (slice.begin_ns.max(told_ns), slice.end_ns.min(self.late.end_ns));
            if begin_ns >= end_ns {
                continue;
            }
            shares.add(Culprit::Unknown, begin_ns - told_ns);
            told_ns = end_ns;
            match slice.state {
                State::Running {
                    mode: Mode::Interrupt(interrupt),
                    ..
                } => shares.add(Culprit::Interrupt(interrupt), end_ns - begin_ns),
                State::Running { .. } => on_cpu_ns += end_ns - begin_ns,
                State::Runnable(why) => {
                    let cpu = self.late.cpu.or_else(|| self.next_cpu(place));
                    let by = match why {
                        Why::Preempted | Why::Yielded => Culprit::Preempted,
                        Why::New | Why::Woken | Why::Unknown => Culprit::Ready,
                    };
                    self.occupants(system, cpu, (begin_ns, end_ns), by, &mut shares);
                }
                State::Blocked(_) => self.waited(system, slice.thread, (begin_ns, end_ns), &mut shares),
                State::Stopped => shares.add(Culprit::Stopped, end_ns - begin_ns),
                State::Unknown | State::Unborn | State::Dead => shares.add(Culprit::Unknown, end_ns - begin_ns),
            }
        }
        shares.add(Culprit::Unknown, self.late.end_ns - told_ns);
        self.on_cpu(on_cpu_ns, &mut shares);
        Found {
            shares: shares.sorted(),
            page_faults: self.page_faults,
        }
    }

    /// It had the CPU for so long.
    fn on_cpu(&self, ns: i64, shares: &mut Shares) {
        let stolen_ns = self.late.steal_ns.min(ns);
        shares.add(Culprit::Hypervisor, stolen_ns);
        let ns = ns - stolen_ns;
        let page_faults = i64::try_from(self.page_faults).unwrap_or(i64::MAX);
        if self.late.cpu.is_none() {
            let is_often = page_faults.saturating_mul(PAGE_FAULTS_EVERY_NS) >= ns;
            shares.add(if is_often { Culprit::PageFault } else { Culprit::Running }, ns);
        } else {
            // The loop does nothing else that takes time, but a page fault takes no milliseconds.
            let faults_ns = page_faults.saturating_mul(PAGE_FAULTS_EVERY_NS).min(ns);
            let rest = match self.frequency_changes {
                0 => Culprit::NothingVisible,
                _ => Culprit::Frequency,
            };
            shares.add(Culprit::PageFault, faults_ns);
            shares.add(rest, ns - faults_ns);
        }
    }

    /// Where it ran next.
    fn next_cpu(&self, place: usize) -> Option<u32> {
        self.own[place..].iter().find_map(|slice| slice.state.cpu())
    }

    /// Who had a CPU in a part of time, and what for.
    fn occupants(
        &self,
        system: &System,
        cpu: Option<u32>,
        (begin_ns, end_ns): (i64, i64),
        by: fn(ThreadId) -> Culprit,
        shares: &mut Shares,
    ) {
        let mut told_ns = begin_ns;
        for on in self.on_cpus.iter().filter(|on| Some(on.cpu) == cpu) {
            let (from_ns, until_ns) = (on.begin_ns.max(told_ns), on.end_ns.min(end_ns));
            if from_ns >= until_ns {
                continue;
            }
            shares.add(Culprit::Unknown, from_ns - told_ns);
            told_ns = until_ns;
            let culprit = match on.mode {
                Mode::Interrupt(interrupt) => Culprit::Interrupt(interrupt),
                _ if system.thread(on.thread).nature == Nature::Idle => Culprit::Idle,
                _ => by(on.thread),
            };
            shares.add(culprit, until_ns - from_ns);
        }
        shares.add(Culprit::Unknown, end_ns - told_ns);
    }

    /// It waited: what whoever ended the wait did meanwhile matters.
    fn waited(&self, system: &System, thread: ThreadId, span_ns: (i64, i64), shares: &mut Shares) {
        for segment in walk(&self.graph, thread, span_ns) {
            let ns = segment.end_ns - segment.begin_ns;
            let culprit = match segment.deed {
                Deed::Blocked(_) if segment.depth == 0 && self.late.cpu.is_some() => {
                    let span_ns = (segment.begin_ns, segment.end_ns);
                    self.occupants(system, self.late.cpu, span_ns, Culprit::TimerHeldBack, shares);
                    continue;
                }
                Deed::Blocked(waiting) => waited_for(&segment, waiting),
                Deed::Stopped(_) => Culprit::Stopped,
                Deed::Interrupted(interrupt) => Culprit::Interrupt(interrupt),
                Deed::Running => Culprit::Other(segment.thread),
                Deed::Runnable | Deed::Preempted => Culprit::OtherReady(segment.thread, segment.by),
                Deed::Unknown | Deed::Absent => Culprit::Unknown,
            };
            shares.add(culprit, ns);
        }
    }
}

fn waited_for(segment: &Segment, waiting: Waiting) -> Culprit {
    Culprit::Waited(waiting.cause, segment.by)
}

impl Listen for Delay {
    fn looks_ahead(&self) -> bool {
        true
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        self.graph.add(system, slice);
        let is_own = system.thread(slice.thread).tid == self.late.tid;
        if slice.end_ns <= self.late.begin_ns {
            return;
        }
        let is_within = slice.begin_ns < self.late.end_ns;
        // Behind the interval, where it runs next.
        if is_own && (is_within || self.own.last().is_some_and(|last| last.state.cpu().is_none())) {
            self.own.push(*slice);
        }
        if let State::Running { cpu, mode } = slice.state
            && is_within
        {
            self.on_cpus.push(OnCpu {
                cpu,
                thread: slice.thread,
                mode,
                begin_ns: slice.begin_ns,
                end_ns: slice.end_ns,
            });
        }
    }

    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {
        if occurrence.ns < self.late.begin_ns || occurrence.ns > self.late.end_ns {
            return;
        }
        match occurrence.what {
            Happening::PageFault { .. } => {
                let is_own = |id: ThreadId| system.thread(id).tid == self.late.tid;
                let is_own = occurrence.interrupt.is_none() && occurrence.thread.is_some_and(is_own);
                self.page_faults += u64::from(is_own);
            }
            Happening::Frequency { cpu, .. } if Some(cpu) == self.late.cpu => self.frequency_changes += 1,
            _ => {}
        }
    }

    fn born(&mut self, _: &System, thread: ThreadId, parent: Option<ThreadId>, _: i64) {
        self.graph.add_birth(thread, parent);
    }
}

/// Sums by culprit.
#[derive(Default)]
struct Shares(FxHashMap<Culprit, i64>);

impl Shares {
    fn add(&mut self, culprit: Culprit, ns: i64) {
        if ns > 0 {
            *self.0.entry(culprit).or_default() += ns;
        }
    }

    fn sorted(self) -> Vec<Share> {
        let shares = self.0.into_iter().map(|(culprit, ns)| Share { culprit, ns });
        let mut shares: Vec<Share> = shares.collect();
        shares.sort_by_key(|share| (std::cmp::Reverse(share.ns), share.culprit.kind()));
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Circumstances, script};

    /// The shares of what was found, one after the other.
    fn found(late: Late, lines: &str) -> String {
        let mut delay = Delay::new(late);
        let mut system = System::new(Circumstances::whole(0));
        script::apply(&mut system, lines, &mut delay);
        system.finish(200, &mut delay);
        let found = delay.found(&system);
        let total: i64 = found.shares.iter().map(|share| share.ns).sum();
        assert_eq!(total, late.end_ns - late.begin_ns, "{found:?}");
        let shares = found.shares.iter();
        let shares =
            shares.map(|share| format!("{} {}: {}", share.ns, share.culprit.kind(), share.culprit.text(&system)));
        shares.collect::<Vec<_>>().join("\n")
    }

    const LOOP: Late = Late {
        tid: 1,
        begin_ns: 10,
        end_ns: 100,
        cpu: Some(0),
        steal_ns: 0,
    };

    #[test]
    fn a_loop_loses_its_cpu_to_interrupts_and_threads() {
        let lines = "
            1 cpu0 switch 0 runs 1
            20 cpu0 timer
            30 cpu0 irq 3
            35 cpu0 irqend 3
            40 cpu0 timerend
            41 cpu0 switch 1 runs 7/-91
            91 cpu0 switch 7/-91 waits 1";
        assert_eq!(
            found(LOOP, lines),
            "50 preempted: preempted by (7), real-time priority 90\n20 nothing_visible: it had the CPU, and nothing visible to the kernel delayed it\n15 interrupt: timer\n5 soft_interrupt: softirq NET_RX"
        );
        let stolen = Late {
            end_ns: 20,
            steal_ns: 7,
            ..LOOP
        };
        assert_eq!(
            found(stolen, lines),
            "7 hypervisor: the hypervisor had the CPU (steal)\n3 nothing_visible: it had the CPU, and nothing visible to the kernel delayed it"
        );
    }

    #[test]
    fn a_timer_is_late_for_whoever_had_the_cpu() {
        let idle = "
            1 cpu0 switch 1 waits 0
            40 cpu0 timer
            50 cpu0 waking 1
            60 cpu0 timerend
            90 cpu0 switch 0 runs 1";
        assert_eq!(
            found(LOOP, idle),
            "60 idle: the idle CPU woke up late\n20 interrupt: timer\n10 nothing_visible: it had the CPU, and nothing visible to the kernel delayed it"
        );
        let busy = "
            1 cpu0 switch 1 waits 7
            40 cpu0 timer
            50 cpu0 waking 1
            60 cpu0 timerend
            90 cpu0 switch 7 runs 1";
        assert_eq!(
            found(LOOP, busy),
            "30 ready: ready to run, but (7) had the CPU\n30 timer_held_back: its timer came late while (7) had the CPU\n20 interrupt: timer\n10 nothing_visible: it had the CPU, and nothing visible to the kernel delayed it"
        );
    }

    #[test]
    fn a_lock_is_late_for_what_keeps_its_holder() {
        let lines = "
            1 cpu1 switch 8 waits 5
            1 cpu0 switch 9 waits 1
            5 cpu0 futex wait 64
            15 cpu0 switch 1 waits 0
            20 cpu1 switch 5 runs 6
            70 cpu1 switch 6 waits 5
            80 cpu1 waking 1
            85 cpu0 switch 0 runs 1";
        let work = Late { cpu: None, ..LOOP };
        assert_eq!(
            found(work, lines),
            "50 other_ready: waited for (5), which was ready to run, but (6) had the CPU\n20 running: it had a CPU and did its own work\n15 other: waited for (5), which ran\n5 idle: the idle CPU woke up late"
        );
    }

    #[test]
    fn what_the_trace_does_not_tell_is_unknown() {
        assert_eq!(found(LOOP, ""), "90 unknown: no event shows what happened");
    }
}
