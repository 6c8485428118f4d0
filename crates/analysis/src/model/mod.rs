// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the whole system at every instant, from the facts of a trace in their order.
//!
//! A state is known from the event that began it up to the event that ended it. Where events are missing ([`Gaps`]), where two of them
//! contradict each other, and for threads of which a trace has only a part, it is [`State::Unknown`]: never a guess. The first event of a
//! thread also tells what it did before, since nothing was said of it until then.
//!
//! - turn.rs: a thread turns from one thing to another; slices are handed out
//! - scheduling.rs: switches and wake-ups
//! - execution.rs: system calls and interrupts, on the thread that has the CPU
//! - life.rs: threads begin, become another program, end; the state dump
//! - files.rs, file_calls.rs: which file a descriptor is, and what system calls do with it
//! - requests.rs: requests to devices
//! - user_stacks.rs: where threads were in their programs when they began to wait
//! - occurrence.rs: what happens at an instant, and to whom: memory, packets
//!
//! Memory: about 200 bytes for each thread that the trace has, living or dead, and what files.rs says; nothing grows with the number of
//! events.

mod execution;
mod file_calls;
mod files;
mod gaps;
mod life;
mod listen;
mod occupancy;
mod occurrence;
mod requests;
mod scheduling;
#[cfg(test)]
#[path = "../../tests/unit/model/script.rs"]
pub(crate) mod script;
mod state;
mod thread;
mod turn;
mod user_stacks;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use self::file_calls::Effect;
pub use self::file_calls::{FileCall, FileOperation, descriptor_calls};
use self::files::Files;
pub use self::files::{File, FileId, FileKind, Opened};
pub use self::gaps::{Gap, Gaps};
pub use self::listen::{Listen, Nobody};
pub use self::occurrence::{Happening, Occurrence};
pub use self::requests::Request;
use self::requests::Requests;
pub(crate) use self::requests::device_number;
pub use self::state::{
    Call, Completed, Delay, Interruption, Mode, ProcessId, Slice, State, ThreadId, Wait, Wake, Waker, Why,
};
pub(crate) use self::thread::IdleEnds;
use self::thread::{Cpu, SOFT_VECTORS};
pub use self::thread::{Nature, Process, Thread};
pub(crate) use self::user_stacks::{UserStack, WaitBegin};
use crate::facts::Fact;
use crate::memory::Memory;
use crate::names::{Name, Names};

/// Numbers from here on are damage.
const CPUS_MAX: u32 = 1 << 14;

/// What has to be known of a trace before its first event.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// When it begins: the first event or earlier.
    pub begin_ns: i64,
    /// From here on, what is found out is told.
    pub tell_from_ns: i64,
    /// Up to here.
    pub tell_until_ns: i64,
    /// Where events are missing.
    pub gaps: Gaps,
    /// It has events of some threads only, so that others come and go unseen.
    pub is_partial: bool,
    /// It tells which threads have the CPUs.
    pub has_switches: bool,
    /// It tells who is woken.
    pub has_wakeups: bool,
    /// It tells when waking begins, on the CPU of who does it.
    pub has_waking: bool,
    /// It tells what devices interrupt threads for.
    pub has_interrupts: bool,
    /// It tells all switches to the threads that it has events of.
    pub has_arrivals: bool,
    /// CPUs whose switches away from the idle thread are not reported: Linux 6.18 no longer reports them on a CPU that was offline once. More
    /// such CPUs may be found in the trace.
    pub idle_ends_untold: BTreeSet<u32>,
    /// System calls of which only entries, or only exits, are recorded.
    pub half_calls: BTreeSet<String>,
    /// How the names of the tracer's own threads begin, when it leaves out what they do and what interrupts them.
    pub hidden: Option<&'static str>,
}

impl Circumstances {
    /// Of a trace that has everything.
    pub fn whole(begin_ns: i64) -> Circumstances {
        Circumstances {
            begin_ns,
            tell_from_ns: i64::MIN,
            tell_until_ns: i64::MAX,
            gaps: Gaps::default(),
            is_partial: false,
            has_switches: true,
            has_wakeups: true,
            has_waking: true,
            has_interrupts: true,
            has_arrivals: true,
            idle_ends_untold: BTreeSet::new(),
            half_calls: BTreeSet::new(),
            hidden: None,
        }
    }
}

/// The system as far as the trace has been read.
#[derive(Debug)]
pub struct System {
    /// Names of threads, system calls and handlers.
    pub names: Names,
    circumstances: Circumstances,
    /// CPUs of which it mattered, in the part of time that is told of, that ends of idling are untold.
    idle_ends_missed: BTreeSet<u32>,
    now_ns: i64,
    /// Events say on which thread they happened.
    has_tids: bool,
    threads: Vec<Thread>,
    by_tid: FxHashMap<i32, ThreadId>,
    processes: FxHashMap<ProcessId, Process>,
    /// How many processes with an id have begun.
    turns: FxHashMap<i32, u32>,
    /// Threads whose `task_newtask` was seen and whose fork was not yet: whether they join the process of their creator.
    new_tasks: FxHashMap<i32, bool>,
    /// Names of threads that are not in the trace so far.
    told_names: FxHashMap<i32, Name>,
    /// The first thread of processes whose ids others have now.
    leaders: FxHashMap<ProcessId, ThreadId>,
    cpus: Vec<Option<Cpu>>,
    /// Whose call lets others go first.
    sched_yield: Name,
    /// Calls by which a signal's handler goes back to what it interrupted.
    handler_returns: [Name; 2],
    /// Calls of which only entries, or only exits, are recorded.
    half_calls: BTreeSet<Name>,
    files: Files,
    /// What calls do to files.
    effects: FxHashMap<Name, Option<Effect>>,
    requests: Requests,
    memory: Option<Arc<dyn Memory + Send + Sync>>,
    /// By thread.
    user_stacks: Vec<UserStack>,
}

impl System {
    /// Before the first event.
    pub fn new(circumstances: Circumstances) -> System {
        let mut names = Names::default();
        let sched_yield = names.keep(b"sched_yield");
        let handler_returns = [b"rt_sigreturn".as_slice(), b"sigreturn"].map(|name| names.keep(name));
        let half_calls = circumstances.half_calls.iter();
        let half_calls = half_calls.map(|name| names.keep(name.as_bytes())).collect();
        System {
            names,
            now_ns: circumstances.begin_ns,
            circumstances,
            idle_ends_missed: BTreeSet::new(),
            has_tids: false,
            threads: Vec::new(),
            by_tid: FxHashMap::default(),
            processes: FxHashMap::default(),
            turns: FxHashMap::default(),
            new_tasks: FxHashMap::default(),
            told_names: FxHashMap::default(),
            leaders: FxHashMap::default(),
            cpus: Vec::new(),
            sched_yield,
            handler_returns,
            half_calls,
            files: Files::default(),
            effects: FxHashMap::default(),
            requests: Requests::default(),
            memory: None,
            user_stacks: Vec::new(),
        }
    }

    /// An event happened. Times that go back are taken for the latest one.
    ///
    /// What the event's context says of the thread on which it happened is believed, whatever the events before it have told.
    #[inline]
    pub fn apply(&mut self, fact: &Fact<'_>, at: At, to: &mut dyn Listen) {
        self.now_ns = self.now_ns.max(at.ns);
        self.has_tids |= at.tid.is_some();
        // The state dump may come later than what happened meanwhile.
        let dumped_ns = at.ns;
        let at = At { ns: self.now_ns, ..at };
        if let Fact::Other | Fact::Migrate { .. } = *fact {
            self.glimpse(&at, to);
            if let Fact::Migrate { tid, cpu } = *fact {
                self.migrate(tid, cpu, &at);
            }
            return;
        }
        to.fact(self, fact, at.cpu, at.ns);
        // They tell of some thread, not of a CPU; but they happened on the one that has it. For an exec, where the thread may get another id,
        // `exec` does this.
        if let Fact::NewTask { .. }
        | Fact::Fork(_)
        | Fact::Exit { .. }
        | Fact::Free { .. }
        | Fact::Rename { .. }
        | Fact::Priority { .. } = *fact
        {
            self.see(&at, to);
        }
        match *fact {
            Fact::NewTask { tid, is_thread } => _ = self.new_tasks.insert(tid, is_thread),
            Fact::DumpBegin => {
                self.files.dump(dumped_ns);
            }
            Fact::DumpEnd => self.files.end_dump(),
            Fact::DumpedFile {
                owner,
                descriptor,
                flags,
                name,
            } => self.dumped_file(owner, (descriptor, flags), name, dumped_ns),
            Fact::DumpedDevice { device, name } => self.name_device(device, name),
            Fact::Fork(ref fork) => self.fork(fork, &at, to),
            Fact::Exec { tid, old_tid, file } => self.exec(tid, old_tid, file, &at, to),
            Fact::Exit { tid, has_others } => self.exit(tid, has_others, &at, to),
            Fact::Free { tid } => self.free(tid, &at, to),
            Fact::Rename { tid, name } => self.rename(tid, name),
            Fact::Priority { tid, priority } => {
                let id = self.thread_of(tid);
                self.threads[id.index()].priority = Some(priority);
            }
            Fact::DumpedName { tid, name } => self.dumped_name(tid, name),
            Fact::DumpedThread(ref thread) => {
                self.files.dump(dumped_ns);
                self.dumped(thread, &at, to);
            }
            Fact::DumpedProcess {
                pid,
                command_line,
                cgroup,
            } => {
                self.files.dump(dumped_ns);
                let process = self.latest(pid);
                self.processes.insert(
                    process,
                    Process {
                        command_line: String::from_utf8_lossy(command_line).into(),
                        cgroup: String::from_utf8_lossy(cgroup).into(),
                    },
                );
            }
            _ => {
                let Some(cpu) = at.cpu.filter(|cpu| *cpu < CPUS_MAX) else {
                    return;
                };
                self.enter_cpu(cpu, at.ns, to);
                if let Some(tid) = at.tid {
                    if !self.has_cpu(tid, cpu) {
                        self.current(cpu, &at, to);
                    }
                    self.cpu(cpu).switched_from = None;
                }
                match *fact {
                    // Only some of them.
                    Fact::Switch(_) if !self.circumstances.has_switches => {}
                    Fact::Switch(ref switch) => self.switch(switch, cpu, &at, to),
                    Fact::Waking(woken) => self.waking(woken, cpu, &at, to),
                    Fact::Wakeup(woken) => self.wakeup(woken, cpu, &at, to),
                    Fact::CallEntry { call, ref arguments } => self.call_entry(call, arguments, cpu, &at, to),
                    Fact::CallExit { call, result, found } => self.call_exit((call, result, found), cpu, &at, to),
                    Fact::Begin(interrupt) => self.begin_interrupt(interrupt, cpu, &at, to),
                    Fact::End(interrupt) => self.end_interrupt(interrupt, cpu, &at, to),
                    Fact::SoftirqRaise { vector } => self.raise(vector, cpu, &at, to),
                    Fact::Request(step, ref fact) => self.request(step, fact, cpu, &at, to),
                    _ => self.occurrence(fact, cpu, &at, to),
                }
                self.cpu(cpu).last_ns = at.ns;
            }
        }
    }

    /// An event happened that names a thread and tells nothing that this thread did. It has the CPU, or has just left it: the kernel traces a
    /// switch before it switches, and nothing follows from events in between.
    #[inline]
    fn glimpse(&mut self, at: &At, to: &mut dyn Listen) {
        if let Some((cpu, tid)) = self.enter(at, to)
            && self.cpu(cpu).switched_from != Some(tid)
        {
            self.believe(tid, cpu, at, to);
        }
    }

    /// An event happened that names the thread that has the CPU.
    #[inline]
    fn see(&mut self, at: &At, to: &mut dyn Listen) {
        if let Some((cpu, tid)) = self.enter(at, to) {
            self.believe(tid, cpu, at, to);
        }
    }

    /// The CPU and the thread of an event, if it names both.
    #[inline]
    fn enter(&mut self, at: &At, to: &mut dyn Listen) -> Option<(u32, i32)> {
        let cpu = at.cpu.filter(|cpu| *cpu < CPUS_MAX)?;
        let tid = at.tid?;
        self.enter_cpu(cpu, at.ns, to);
        Some((cpu, tid))
    }

    /// An event of the CPU says that this thread has it.
    #[inline]
    fn believe(&mut self, tid: i32, cpu: u32, at: &At, to: &mut dyn Listen) {
        if !self.has_cpu(tid, cpu) {
            self.current(cpu, at, to);
        }
        let known = self.cpu(cpu);
        known.switched_from = None;
        known.last_ns = at.ns;
    }

    /// The model already knows that this thread has the CPU, and follows the thread.
    #[inline]
    fn has_cpu(&self, tid: i32, cpu: u32) -> bool {
        let known = self.cpus[cpu as usize].as_ref().and_then(|cpu| cpu.current);
        known.is_some_and(|id| {
            let thread = &self.threads[id.index()];
            thread.tid == tid && thread.is_followed
        })
    }

    /// Events turn out to be missing, from the latest one on or later.
    pub fn add_gap(&mut self, gap: Gap) {
        self.circumstances.gaps.add(gap);
    }

    /// The trace ends; what is not over yet is told as far as it got.
    pub fn finish(&mut self, end_ns: i64, to: &mut dyn Listen) {
        self.now_ns = self.now_ns.max(end_ns);
        self.give_up_requests(to);
        for index in 0..self.threads.len() as u32 {
            self.end(ThreadId(index), self.now_ns, to);
        }
    }

    /// From now on it is known what lies where in the memory of processes.
    pub fn set_memory(&mut self, memory: Arc<dyn Memory + Send + Sync>) {
        self.memory = Some(memory);
    }

    /// Who knows what lies where in the memory of processes.
    pub(crate) fn memory(&self) -> Option<&dyn Memory> {
        self.memory.as_deref().map(|memory| memory as &dyn Memory)
    }

    /// A thread.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    /// All threads, living and dead.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        (0..).map(ThreadId).zip(&self.threads)
    }

    /// The thread's name.
    pub fn name_of(&self, id: ThreadId) -> &str {
        self.names.text(self.thread(id).name)
    }

    /// The thread that has an id now, or had it last.
    pub fn find(&self, tid: i32) -> Option<ThreadId> {
        self.by_tid.get(&tid).copied()
    }

    /// The thread that has a CPU, if that is known.
    #[inline]
    pub fn current_on(&self, cpu: u32) -> Option<ThreadId> {
        self.cpus.get(cpu as usize)?.as_ref()?.current
    }

    /// The thread that is known to have a CPU since the CPU's latest event, and from when on that will be told at least.
    #[inline]
    pub fn running_on(&self, cpu: u32) -> Option<(ThreadId, i64)> {
        let id = self.current_on(cpu)?;
        let thread = &self.threads[id.index()];
        let is_running = matches!(thread.state, State::Running { cpu: same, .. } if same == cpu);
        (is_running && self.circumstances.has_switches).then_some((id, thread.since_ns))
    }

    /// Behind whom a thread waits for a CPU: who had the CPU in whose queue it was, and for how long at a time, in a part of that wait. Absent
    /// where nobody knows. To be asked when the wait is told.
    pub fn behind(&self, thread: ThreadId, (begin_ns, end_ns): (i64, i64), mut to: impl FnMut(Option<ThreadId>, i64)) {
        let queues = &self.threads[thread.index()].queues;
        let first_ns = queues.first().map_or(end_ns, |(_, since_ns)| *since_ns).min(end_ns);
        if begin_ns < first_ns {
            to(None, first_ns - begin_ns);
        }
        for (place, (cpu, since_ns)) in queues.iter().enumerate() {
            let next_ns = queues.get(place + 1).map_or(end_ns, |(_, next_ns)| *next_ns);
            let (from_ns, until_ns) = (begin_ns.max(*since_ns), end_ns.min(next_ns));
            if from_ns >= until_ns {
                continue;
            }
            let Some(known) = self.cpus.get(*cpu as usize).and_then(Option::as_ref) else {
                to(None, until_ns - from_ns);
                continue;
            };
            known.occupancy.within((from_ns, until_ns), &mut to);
            let told_ns = known.occupancy.end_ns().max(from_ns);
            let sure_ns = known.occupied_ns.clamp(told_ns, until_ns.max(told_ns));
            if told_ns < sure_ns {
                to(None, sure_ns - told_ns);
            }
            if sure_ns < until_ns {
                to(known.current, until_ns - sure_ns);
            }
        }
    }

    /// How often an event said that another thread had a CPU than the events before it.
    pub fn contradictions_on(&self, cpu: u32) -> u64 {
        let known = self.cpus.get(cpu as usize).and_then(Option::as_ref);
        known.map_or(0, |cpu| cpu.contradictions)
    }

    /// How many interrupts of a CPU have a begin or an end in the trace and are not told, as events are missing there: at least.
    pub fn torn_interrupts_on(&self, cpu: u32) -> u64 {
        let known = self.cpus.get(cpu as usize).and_then(Option::as_ref);
        known.map_or(0, |cpu| cpu.torn_interrupts)
    }

    /// What the state dump says of a process.
    pub fn process(&self, process: ProcessId) -> Option<&Process> {
        self.processes.get(&process)
    }

    /// The first thread of a process.
    pub fn leader(&self, process: ProcessId) -> Option<ThreadId> {
        let latest = self.find(process.pid);
        let latest = latest.filter(|id| self.thread(*id).process() == process);
        latest.or_else(|| self.leaders.get(&process).copied())
    }

    /// The process that has an id now, or had it last.
    fn latest(&self, pid: i32) -> ProcessId {
        ProcessId {
            pid,
            turn: self.turns.get(&pid).copied().unwrap_or(0),
        }
    }

    /// The process of this id that a thread can name: its own, or the one that has it now.
    fn process_seen_by(&self, id: ThreadId, pid: i32) -> ProcessId {
        let own = self.thread(id).process();
        if own.pid == pid { own } else { self.latest(pid) }
    }

    /// It turns out which process a thread is of.
    fn join(&mut self, id: ThreadId, pid: i32) {
        let process = self.process_seen_by(id, pid);
        let thread = &mut self.threads[id.index()];
        if thread.pid.is_none() {
            self.files.join(id, (thread.tid, process.pid), self.now_ns);
        }
        (thread.pid, thread.turn) = (Some(process.pid), process.turn);
    }

    /// Another thread has this id from now on: as far as is known, a process that begins.
    fn succeed(&mut self, tid: i32) -> ThreadId {
        let id = self.add_thread(tid);
        let turn = self.turns.entry(tid).or_default();
        *turn += 1;
        self.threads[id.index()].turn = *turn;
        if let Some(old) = self.by_tid.insert(tid, id)
            && self.thread(old).leads()
        {
            self.leaders.insert(self.thread(old).process(), old);
        }
        id
    }

    /// A file.
    pub fn file(&self, id: FileId) -> File {
        self.files.file(id)
    }

    /// What a descriptor of a thread is open for, if that is known: it has a name then. That of the working directory is `AT_FDCWD`.
    pub fn file_of(&self, tid: i32, descriptor: i32) -> Option<File> {
        let id = self.find(tid)?;
        // A thread of an unknown process may have the descriptors of others.
        self.thread(id).pid?;
        let gaps = &self.circumstances.gaps;
        let file = self.files.find(self.owner(id), descriptor, self.now_ns, gaps)?;
        Some(self.file(file)).filter(|file| file.name != Name::default())
    }

    /// The same, if the latest event has opened it.
    pub fn file_opened(&self, tid: i32, descriptor: i32) -> Option<File> {
        let since_ns = self.files.since_ns(self.owner(self.find(tid)?), descriptor);
        self.file_of(tid, descriptor).filter(|_| since_ns == Some(self.now_ns))
    }

    /// Events of a thread came in another order than they happened in: what its process has open is not known any more.
    pub fn forget_files_of(&mut self, tid: i32) {
        if let Some(id) = self.find(tid) {
            self.files.forget(self.owner(id), self.now_ns);
        }
    }

    /// What was known before the first event.
    pub fn circumstances(&self) -> &Circumstances {
        &self.circumstances
    }

    /// CPUs of which it mattered that the ends of idling are untold: some of what threads did is unknown for this reason, in the part of time
    /// that is told of.
    pub fn idle_ends_missed(&self) -> &BTreeSet<u32> {
        &self.idle_ends_missed
    }

    /// The time of the latest event.
    pub fn now_ns(&self) -> i64 {
        self.now_ns
    }

    /// The CPUs that have events.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        let seen = (0..).zip(&self.cpus).filter(|(_, cpu)| cpu.is_some());
        seen.map(|(number, _)| number)
    }

    /// The part of time that is told: the trace's, cut by what was asked for.
    pub fn told(&self) -> (i64, i64) {
        let Circumstances {
            begin_ns,
            tell_from_ns,
            tell_until_ns,
            ..
        } = self.circumstances;
        let begin = begin_ns.max(tell_from_ns);
        (begin, self.now_ns.min(tell_until_ns).max(begin))
    }

    fn add_thread(&mut self, tid: i32) -> ThreadId {
        let id = ThreadId(self.threads.len() as u32);
        let mut thread = Thread::new(tid, self.circumstances.begin_ns);
        thread.is_followed = !self.circumstances.is_partial;
        thread.turn = self.latest(tid).turn;
        if let Some(name) = self.told_names.remove(&tid) {
            thread.name = name;
        }
        self.threads.push(thread);
        id
    }

    /// Up to then, this thread had the CPU.
    #[inline]
    fn occupy(&mut self, cpu: u32, end_ns: i64, thread: Option<ThreadId>) {
        let occupancy = &mut self.cpu(cpu).occupancy;
        occupancy.add(end_ns, thread);
        if occupancy.is_full() {
            self.forget_occupants(cpu);
        }
    }

    /// No thread that waits for the CPU asks for what was before it did.
    #[cold]
    fn forget_occupants(&mut self, cpu: u32) {
        let waiting = self
            .threads
            .iter()
            .filter(|thread| matches!(thread.state, State::Runnable(_)));
        let since = waiting
            .flat_map(|thread| &thread.queues)
            .filter(|(queue, _)| *queue == cpu);
        let needed_ns = since.map(|(_, since_ns)| *since_ns).min().unwrap_or(i64::MAX);
        self.cpu(cpu).occupancy.forget(needed_ns);
    }

    /// The CPU; its events have been announced by `enter_cpu`.
    #[inline]
    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        self.cpus[cpu as usize].as_mut().expect("it was entered")
    }

    /// An event of this CPU comes.
    #[inline]
    fn enter_cpu(&mut self, cpu: u32, ns: i64, to: &mut dyn Listen) {
        let place = cpu as usize;
        if self.cpus.len() <= place || self.cpus[place].is_none() {
            self.add_cpu(cpu, ns);
        }
        if self.circumstances.gaps.is_empty() {
            return;
        }
        let begin_ns = self.circumstances.begin_ns;
        let known = self.cpus[place].as_mut().expect("it was added");
        let blind = self
            .circumstances
            .gaps
            .within(known.last_ns.max(begin_ns), ns + 1, Some(cpu))
            // An event where a gap begins is the last one before it.
            .filter(|(blind_ns, end_ns)| *blind_ns < ns || *end_ns <= ns);
        if let Some((_, end_ns)) = blind {
            known.blind_until_ns = known.blind_until_ns.max(end_ns);
            let before = known.current.take();
            if before.is_some() {
                known.occupancy.add(known.last_ns, before);
            }
            let since_ns = if known.idle_ends.are_untold { ns } else { end_ns.min(ns) };
            known.occupied_ns = known.occupied_ns.max(since_ns);
            known.raised = [None; SOFT_VECTORS];
            let torn = known.lose_interrupts();
            self.tear_interrupts(cpu, torn);
            // What it had begun is told before anything that comes after the gap.
            if let Some(before) = before {
                self.settle(before, ns, to);
            }
        }
    }

    fn add_cpu(&mut self, cpu: u32, ns: i64) {
        let idle = self.add_thread(0);
        self.threads[idle.index()].nature = Nature::Idle;
        self.threads[idle.index()].name = self.names.keep(format!("swapper/{cpu}").as_bytes());
        let idle_ends = IdleEnds::new(self.circumstances.idle_ends_untold.contains(&cpu));
        let place = cpu as usize;
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, None);
        }
        let begin_ns = self.circumstances.begin_ns;
        let occupied_ns = if idle_ends.are_untold { ns } else { begin_ns };
        self.cpus[place] = Some(Cpu::new(idle, idle_ends, occupied_ns, begin_ns));
    }
}

/// Where and when an event happened.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// In nanoseconds.
    pub ns: i64,
    /// The CPU, if the trace says so.
    pub cpu: Option<u32>,
    /// The thread, if the event's context says so.
    pub tid: Option<i32>,
}

#[cfg(test)]
#[path = "../../tests/unit/model/device_script.rs"]
pub(crate) mod device_script;
#[cfg(test)]
#[path = "../../tests/unit/model/device_tests.rs"]
mod device_tests;
#[cfg(test)]
#[path = "../../tests/unit/model/machine.rs"]
mod machine;
#[cfg(test)]
#[path = "../../tests/unit/model/request_tests.rs"]
mod request_tests;
#[cfg(test)]
#[path = "../../tests/unit/model/tests.rs"]
mod tests;
#[cfg(test)]
#[path = "../../tests/unit/model/truth.rs"]
mod truth;
