// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look at the first events of a trace, for what the model has to know before: whether events of some threads only were recorded, which
//! CPUs have no stream although something happens there, and of which ones the kernel does not tell all switches.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::Fact;
use crate::model::{At, Gaps, IdleEnds};

/// Events after which a survey knows enough.
pub const EVENTS_ENOUGH: u64 = 100_000;
/// Of so many switches one may contradict the one before it: tracers hide their own threads.
const CONTRADICTED_OF: u64 = 50;
/// And so many on each CPU, as recording does not begin at once.
const CONTRADICTED_MAX: u64 = 2;

/// What the first events tell.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// By CPU, the thread that it turned to last, and when.
    current: BTreeMap<u32, (i32, i64)>,
    seen: BTreeSet<u32>,
    /// Something happened and nobody says on which CPU.
    is_somewhere: bool,
    /// CPUs on which threads are to run.
    meant: BTreeSet<u32>,
    /// Threads that were recorded themselves: they make system calls, begin others, end.
    recorded: BTreeSet<i32>,
    /// Where threads are to run that were woken and have not been seen to run since.
    to_run: BTreeMap<i32, u32>,
    /// Threads that ran somewhere between being woken and what they did next, and did not begin it on a CPU that has events.
    ran_unseen: BTreeSet<(i32, u32)>,
    switches: u64,
    contradicted: u64,
    /// By CPU, of all threads.
    idle_ends: BTreeMap<u32, IdleEnds>,
    /// By CPU, of those that were recorded themselves.
    own_idle_ends: BTreeMap<u32, IdleEnds>,
    /// Wake-ups were seen.
    pub has_wakeups: bool,
    /// Their begins, too.
    pub has_waking: bool,
    /// The names of devices, which a state dump tells when the first requests are over.
    pub devices: BTreeMap<u32, Box<[u8]>>,
    /// By their ids, the processes and names of threads, which a state dump tells when they have done something.
    pub threads: BTreeMap<i32, (i32, Box<[u8]>)>,
    /// Threads of which the dump may not say what they were at first.
    changed: BTreeSet<i32>,
}

impl Survey {
    /// An event, in the order of the trace.
    pub fn look(&mut self, fact: &Fact<'_>, &At { ns, cpu, tid }: &At, gaps: &Gaps) {
        // Whoever writes the state dump has a CPU, which the dump is not about.
        let is_dump = matches!(
            fact,
            Fact::DumpBegin
                | Fact::DumpEnd
                | Fact::DumpedThread(_)
                | Fact::DumpedName { .. }
                | Fact::DumpedProcess { .. }
                | Fact::DumpedFile { .. }
                | Fact::DumpedDevice { .. }
        );
        if !is_dump {
            self.seen.extend(cpu);
            self.is_somewhere |= cpu.is_none();
        }
        match fact {
            Fact::Switch(switch) => {
                let Some(cpu) = cpu else { return };
                self.to_run.remove(&switch.next_tid);
                self.went_on(switch.previous_tid);
                self.switches += 1;
                let before = self.current.insert(cpu, (switch.next_tid, ns));
                let is_contradicted = |(tid, since_ns): &(i32, i64)| {
                    *tid != switch.previous_tid && gaps.within(*since_ns, ns + 1, Some(cpu)).is_none()
                };
                let wrong = before.filter(is_contradicted);
                self.contradicted += u64::from(wrong.is_some());
                let idle_ends = self.idle_ends.entry(cpu).or_default();
                let own_idle_ends = self.own_idle_ends.entry(cpu).or_default();
                if switch.previous_tid == 0 {
                    idle_ends.tell();
                    own_idle_ends.tell();
                } else if wrong.is_some_and(|(tid, _)| tid == 0) {
                    idle_ends.miss();
                    if self.recorded.contains(&switch.previous_tid) {
                        own_idle_ends.miss();
                    }
                }
            }
            Fact::Waking(woken) => {
                (self.has_waking, self.has_wakeups) = (true, true);
                self.meant.extend(woken.cpu);
            }
            Fact::Wakeup(woken) => {
                self.has_wakeups = true;
                self.meant.extend(woken.cpu);
                self.went_on(woken.tid);
                if let Some(cpu) = woken.cpu {
                    self.to_run.insert(woken.tid, cpu);
                }
            }
            Fact::DumpedThread(thread) if !self.changed.contains(&thread.tid) => {
                self.threads
                    .entry(thread.tid)
                    .or_insert_with(|| (thread.pid, thread.name.into()));
            }
            Fact::Rename { tid, .. } => _ = self.changed.insert(*tid),
            Fact::DumpedDevice { device, name } => _ = self.devices.insert(*device, (*name).into()),
            Fact::CallEntry { .. } | Fact::CallExit { .. } | Fact::Fork(_) | Fact::Exec { .. } | Fact::Exit { .. } => {
                self.recorded.extend(tid);
                match fact {
                    Fact::Fork(fork) => _ = self.changed.insert(fork.tid),
                    Fact::Exec { tid, old_tid, .. } => self.changed.extend([*tid, *old_tid]),
                    Fact::Exit { tid, .. } => _ = self.changed.insert(*tid),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn went_on(&mut self, tid: i32) {
        if let Some(cpu) = self.to_run.remove(&tid) {
            self.ran_unseen.insert((tid, cpu));
        }
    }

    /// Only some threads were recorded: others come and go between two switches of a CPU.
    pub fn is_partial(&self) -> bool {
        let is_often = self.contradicted * CONTRADICTED_OF > self.switches;
        is_often && self.contradicted > CONTRADICTED_MAX * self.current.len() as u64
    }

    /// CPUs of which no switch away from the idle thread is told; in a trace of all threads, or of some with all switches to them.
    pub fn idle_ends_untold(&self, is_partial: bool) -> impl Iterator<Item = u32> {
        let ends = if is_partial {
            &self.own_idle_ends
        } else {
            &self.idle_ends
        };
        let untold = ends.iter().filter(|(_, ends)| ends.are_untold);
        untold.map(|(cpu, _)| *cpu)
    }

    /// Things happened, and no event says on which CPU it was.
    pub fn lacks_cpus(&self) -> bool {
        self.is_somewhere && self.seen.is_empty()
    }

    /// It tells which threads have the CPUs.
    pub fn has_switches(&self) -> bool {
        self.switches > 0
    }

    /// CPUs on which threads are to run, and that no event is of; in a trace of all threads, or of some only.
    pub fn unseen_cpus(&self, is_partial: bool) -> impl Iterator<Item = u32> {
        let highest = self.seen.iter().chain(&self.meant).max().copied();
        let all = highest.map_or(0..0, |highest| 0..highest.min(4096) + 1);
        // Where some threads only are recorded, the others' CPUs may well be without events, also when recorded ones wake them there.
        let is_missed = move |cpu: &u32| {
            let ran = |&(tid, on): &(i32, u32)| on == *cpu && self.recorded.contains(&tid);
            !is_partial || self.ran_unseen.iter().any(ran)
        };
        all.filter(move |cpu| !self.seen.contains(cpu) && is_missed(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{DumpedThread, Left, Switch, Woken};

    fn at(cpu: u32, ns: i64, tid: Option<i32>) -> At {
        At {
            ns,
            cpu: Some(cpu),
            tid,
        }
    }

    fn survey(switches: &[(i32, i32)]) -> Survey {
        let mut survey = Survey::default();
        for (ns, &(previous_tid, next_tid)) in switches.iter().enumerate() {
            let switch = Fact::Switch(Switch {
                previous_tid,
                previous_name: b"",
                previous: Left::Waiting,
                next_tid,
                next_name: b"",
                next_priority: 0,
                previous_priority: None,
            });
            survey.look(&switch, &at(0, ns as i64, None), &Gaps::default());
        }
        survey
    }

    #[test]
    fn a_trace_of_some_threads_contradicts_itself() {
        let whole = [(1, 2), (2, 3), (3, 1)].repeat(10);
        assert!(!survey(&whole).is_partial());
        let partial = [(1, 2), (3, 1)].repeat(10);
        assert!(survey(&partial).is_partial());
        assert!(!survey(&partial[..4]).is_partial(), "recording may begin like that");
    }

    #[test]
    fn switches_away_from_an_idle_thread_may_be_untold() {
        let is_untold = |switches: &[(i32, i32)]| survey(switches).idle_ends_untold(false).any(|cpu| cpu == 0);
        assert!(is_untold(&[(1, 0), (2, 0), (1, 0)]));
        assert!(!is_untold(&[(1, 0), (2, 0)]), "recording may begin like that");
        assert!(!is_untold(&[(1, 0), (2, 0), (0, 1), (1, 0), (2, 0)]));
        assert!(!is_untold(&[(1, 3), (2, 3), (1, 3)]));
    }

    #[test]
    fn a_thread_is_known_from_the_state_dump_unless_it_was_another_one_before() {
        let mut survey = Survey::default();
        let rename = Fact::Rename { tid: 8, name: b"new" };
        survey.look(&rename, &at(0, 1, None), &Gaps::default());
        for tid in [7, 8] {
            let dumped = Fact::DumpedThread(DumpedThread {
                tid,
                pid: 5,
                parent_pid: None,
                name: b"worker",
                is_kernel: Some(false),
                is_waiting: false,
                uid: None,
                namespace: None,
                file_table: None,
            });
            survey.look(&dumped, &at(0, 2, None), &Gaps::default());
        }
        assert_eq!(Vec::from_iter(survey.threads), [(7, (5, Box::from(&b"worker"[..])))]);
    }

    #[test]
    fn a_cpu_is_missed_when_somebody_is_to_run_there() {
        let mut survey = survey(&[(1, 2)]);
        assert_eq!(survey.unseen_cpus(false).count(), 0);
        // The state dump is written on some CPU; that is not an event of it.
        survey.look(&Fact::DumpBegin, &at(3, 8, None), &Gaps::default());
        let woken = Fact::Waking(Woken { tid: 1, cpu: Some(2) });
        survey.look(&woken, &at(0, 9, None), &Gaps::default());
        assert_eq!(survey.unseen_cpus(false).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn of_some_threads_only_their_cpus_are_missed() {
        // Of 1, which was recorded, and 2, which was not; each is woken twice on CPU 2 and never seen to run.
        for (recorded, expected) in [(1, vec![2]), (2, vec![])] {
            let mut survey = survey(&[(9, 8)]);
            let exit = Fact::Exit {
                tid: recorded,
                has_others: false,
            };
            survey.look(&exit, &at(0, 8, Some(recorded)), &Gaps::default());
            let woken = Fact::Wakeup(Woken { tid: 1, cpu: Some(2) });
            survey.look(&woken, &at(0, 9, Some(9)), &Gaps::default());
            assert_eq!(survey.unseen_cpus(true).count(), 0, "it may still come");
            survey.look(&woken, &at(0, 10, Some(9)), &Gaps::default());
            assert_eq!(survey.unseen_cpus(true).collect::<Vec<_>>(), expected);
        }
    }
}
