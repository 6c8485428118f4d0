// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switches and wake-ups.
//!
//! A thread is woken by `sched_waking`, on the CPU of who wakes it. That may be seen before the thread has left its own CPU, which it is just
//! about to do; then `sched_wakeup` comes behind its switch and ends the wait.

use super::execution::does_work;
use super::state::{Delay, State, ThreadId, Wait, Wake, Why};
use super::thread::{Calling, Nature};
use super::turn::{Next, Turn};
use super::{At, CPUS_MAX, Listen, System};
use crate::facts::{Interrupt, Left, Switch, Woken};

/// In more queues no thread waits until it has a CPU: what comes then counts as in the last one.
const QUEUES_MAX: usize = 64;

impl System {
    pub(super) fn switch(&mut self, switch: &Switch<'_>, cpu: u32, at: &At, to: &mut dyn Listen) {
        let previous = self.thread_on(cpu, switch.previous_tid, at, to);
        let next = self.thread_on(cpu, switch.next_tid, at, to);
        // Of a switch to or from idling, the other thread is the reason why it is in the trace.
        if self.circumstances.is_partial && self.circumstances.has_arrivals {
            match (switch.previous_tid, switch.next_tid) {
                (0, _) => self.follow(next, at, to),
                (_, 0) => self.follow(previous, at, to),
                _ => {}
            }
        }
        self.call_thread(previous, switch.previous_name);
        self.call_thread(next, switch.next_name);
        if self.threads[previous.index()].nature == Nature::Idle {
            self.cpu(cpu).idle_ends.tell();
        }
        self.evict(cpu, previous, to);
        let torn = self.cpu(cpu).without_hardware_interrupts();
        self.tear_interrupts(cpu, torn);
        self.leave_other_cpu(previous, cpu);
        if let known @ Some(_) = switch.previous_priority {
            self.threads[previous.index()].priority = known;
        }
        let occupied_ns = self.cpu(cpu).occupied_ns;
        self.occupy(cpu, occupied_ns, None);
        self.occupy(cpu, at.ns, Some(previous));
        self.leave(previous, switch.previous, cpu, at, to);
        self.leave_other_cpu(next, cpu);
        let torn = self.cpu(cpu).switch_out(previous, at.ns);
        self.tear_interrupts(cpu, torn);
        self.cpu(cpu).switch_in(next, at.ns);
        self.arrive(next, switch.next_priority, cpu, at, to);
        let known = self.cpu(cpu);
        known.current = Some(next);
        known.switched_from = Some(switch.previous_tid);
        known.occupied_ns = at.ns;
    }

    /// Another thread than this one has the CPU as far as is known; that was wrong since the CPU's last event.
    pub(super) fn evict(&mut self, cpu: u32, newcomer: ThreadId, to: &mut dyn Listen) {
        let Some(wrong) = self.cpu(cpu).current.filter(|known| *known != newcomer) else {
            return;
        };
        if self.cpu(cpu).is_idle() && self.circumstances.has_arrivals && self.threads[newcomer.index()].is_followed {
            self.cpu(cpu).idle_ends.miss();
            if self.cpu(cpu).idle_ends.are_untold {
                self.circumstances.idle_ends_untold.insert(cpu);
            }
        }
        let is_untold = self.cpu(cpu).is_idle() && self.cpu(cpu).idle_ends.are_untold;
        if is_untold && self.is_told() {
            self.idle_ends_missed.insert(cpu);
        }
        let sure_ns = self.cpu(cpu).last_ns;
        // Only the switch is not in the trace: interrupts are, and none is under way.
        if is_untold && self.cpu(cpu).stack.is_empty() {
            self.vacate(cpu);
        } else {
            self.lose_cpu(cpu);
        }
        self.lose(wrong, sure_ns, to);
    }

    /// Nobody knows any more who has the CPU, nor in which interrupts it is.
    pub(super) fn lose_cpu(&mut self, cpu: u32) {
        self.vacate(cpu);
        let torn = self.cpu(cpu).lose_interrupts();
        self.tear_interrupts(cpu, torn);
    }

    /// Nobody knows any more who has the CPU.
    fn vacate(&mut self, cpu: u32) {
        let now_ns = self.now_ns;
        let known = self.cpu(cpu);
        if let before @ Some(_) = known.current.take() {
            known.occupancy.add(known.last_ns, before);
        }
        known.contradictions += 1;
        known.occupied_ns = now_ns;
    }

    /// A thread has one CPU; that it had another one was wrong.
    pub(super) fn leave_other_cpu(&mut self, id: ThreadId, cpu: u32) {
        let State::Running { cpu: other, .. } = self.threads[id.index()].state else {
            return;
        };
        if other == cpu {
            return;
        }
        if self.cpu(other).current == Some(id) {
            self.lose_cpu(other);
        }
    }

    fn leave(&mut self, id: ThreadId, left: Left, cpu: u32, at: &At, to: &mut dyn Listen) {
        let before = self.running(id, cpu);
        let thread = &self.threads[id.index()];
        let call = thread.system_call();
        let is_dead = match left {
            Left::Dead => true,
            Left::DeadOrParked => thread.is_exiting,
            // It may be sent off its CPU, or wait, on the way to its end.
            Left::Runnable | Left::Preempted | Left::Waiting | Left::WaitingForSure | Left::Stopped => false,
        };
        let next = match left {
            _ if is_dead => State::Dead,
            _ if thread.nature == Nature::Idle => State::Runnable(Why::Preempted),
            Left::Runnable if call == Some(self.sched_yield) => State::Runnable(Why::Yielded),
            Left::Runnable | Left::Preempted => State::Runnable(Why::Preempted),
            Left::Waiting | Left::WaitingForSure | Left::DeadOrParked => State::Blocked(Wait {
                call,
                is_sure: left == Left::WaitingForSure,
            }),
            Left::Stopped => State::Stopped,
            Left::Dead => State::Dead,
        };
        let turn = Turn {
            at_ns: at.ns,
            before,
            next: Next::State(next),
            wake: None,
        };
        self.turn(id, turn, to);
        if matches!(next, State::Runnable(_)) && self.threads[id.index()].nature != Nature::Idle {
            self.begin_queue(id, Some(cpu), at.ns);
        }
        let thread = &mut self.threads[id.index()];
        if !matches!(next, State::Blocked(_)) {
            thread.wake = None;
        }
        if is_dead && thread.died_ns.is_none() {
            thread.died_ns = Some(at.ns);
            if self.is_told() {
                to.died(self, id, at.ns);
            }
        }
    }

    fn arrive(&mut self, id: ThreadId, priority: i32, cpu: u32, at: &At, to: &mut dyn Listen) {
        if let Some(wake) = self.threads[id.index()].woken.take() {
            // It may have been woken just before it left its last CPU.
            let ns = wake.ns.max(self.threads[id.index()].since_ns);
            self.make_runnable(id, wake, ns, to);
            self.begin_queue(id, None, ns);
        }
        let is_idle_end_untold = self.cpu(cpu).idle_ends.are_untold;
        let thread = &self.threads[id.index()];
        let (state, begin_ns) = (thread.state, thread.since_ns);
        let wake = thread.wake;
        // No event said in which queue it was: in that of the CPU that it gets.
        if matches!(state, State::Runnable(_) | State::Unknown) && thread.queues.is_empty() {
            self.begin_queue(id, Some(cpu), begin_ns);
        }
        let thread = &self.threads[id.index()];
        let before = match state {
            // It may have come and gone before.
            State::Unknown if thread.nature == Nature::Idle && is_idle_end_untold => State::Unknown,
            // Nobody says when it became runnable.
            State::Blocked(_) | State::Unknown | State::Stopped if !self.circumstances.has_wakeups => State::Unknown,
            _ => State::Runnable(Why::Unknown),
        };
        let turn = Turn {
            at_ns: at.ns,
            before,
            next: Next::On(cpu),
            wake: None,
        };
        let is_known = self.turn(id, turn, to);
        let thread = &mut self.threads[id.index()];
        thread.priority = Some(priority);
        thread.wake = None;
        // One that has begun waits from when it was given to the scheduler.
        let is_wait = match state {
            State::Runnable(Why::Woken) => true,
            State::Runnable(Why::New) => wake.is_some(),
            _ => false,
        };
        if is_wait && is_known && thread.nature != Nature::Idle && self.is_told() {
            let delay = Delay {
                thread: id,
                cpu,
                begin_ns,
                end_ns: at.ns,
                wake,
                priority,
            };
            to.delay(self, &delay);
        }
        self.threads[id.index()].queues.clear();
    }

    pub(super) fn waking(&mut self, woken: Woken, cpu: u32, at: &At, to: &mut dyn Listen) {
        let wake = self.waker(cpu, at, to);
        let id = self.thread_of(woken.tid);
        self.settle(id, at.ns, to);
        let thread = &mut self.threads[id.index()];
        match thread.state {
            State::Running { .. } => thread.wake = Some(wake),
            State::Unknown => {
                thread.wake = Some(wake);
                thread.woken.get_or_insert(wake);
            }
            State::Blocked(_) | State::Stopped => {
                self.make_runnable(id, wake, at.ns, to);
                self.begin_queue(id, woken.cpu, at.ns);
            }
            State::Runnable(_) | State::Unborn | State::Dead => {}
        }
    }

    /// A thread that waits for a CPU goes to the queue of another one.
    pub(super) fn migrate(&mut self, tid: i32, cpu: u32, at: &At) {
        if let Some(id) = self.find(tid) {
            self.requeue(id, cpu, at.ns);
        }
    }

    /// A thread is runnable from now on, in the queue of this CPU if that is known.
    fn begin_queue(&mut self, id: ThreadId, cpu: Option<u32>, ns: i64) {
        let queues = &mut self.threads[id.index()].queues;
        queues.clear();
        queues.extend(cpu.map(|cpu| (cpu, ns)));
    }

    fn requeue(&mut self, id: ThreadId, cpu: u32, ns: i64) {
        let thread = &mut self.threads[id.index()];
        let is_elsewhere = thread.queues.last().is_none_or(|(known, _)| *known != cpu);
        if matches!(thread.state, State::Runnable(_)) && is_elsewhere && thread.queues.len() < QUEUES_MAX {
            thread.queues.push((cpu, ns));
        }
    }

    pub(super) fn wakeup(&mut self, woken: Woken, cpu: u32, at: &At, to: &mut dyn Listen) {
        let id = self.thread_of(woken.tid);
        self.settle(id, at.ns, to);
        let thread = &mut self.threads[id.index()];
        if thread.state == State::Runnable(Why::New) {
            let wake = self.waker(cpu, at, to);
            self.let_run(id, wake, at, to);
            self.begin_queue(id, woken.cpu, at.ns);
            return;
        }
        if let (State::Runnable(_), Some(cpu)) = (thread.state, woken.cpu) {
            self.requeue(id, cpu, at.ns);
            return;
        }
        if matches!(thread.state, State::Runnable(_) | State::Unborn | State::Dead) {
            return;
        }
        // What waking began is done, whether the thread had left its CPU or not.
        let pending = thread.wake.take();
        if matches!(thread.state, State::Running { .. }) {
            return;
        }
        let is_unknown = thread.state == State::Unknown;
        let wake = match (pending, self.circumstances.has_waking) {
            (Some(wake), _) => wake,
            (None, false) => self.waker(cpu, at, to),
            // It may have had a CPU when waking began, which is missing; since now it has one or waits for one.
            (None, true) if is_unknown => {
                if self.threads[id.index()].woken.is_none() {
                    self.forget(id, at.ns, to);
                }
                return;
            }
            // This event may be on another CPU than the waker's.
            (None, true) => Wake {
                ns: at.ns,
                cpu: None,
                thread: None,
                interrupt: None,
                asked_by: None,
                completed: None,
            },
        };
        match is_unknown {
            true => _ = self.threads[id.index()].woken.get_or_insert(wake),
            false => {
                self.make_runnable(id, wake, at.ns, to);
                self.begin_queue(id, woken.cpu, at.ns);
            }
        }
    }

    /// Its parent has made it, and gives it to the scheduler. Of tracers that do not tell that it begins with the fork.
    fn let_run(&mut self, id: ThreadId, wake: Wake, at: &At, to: &mut dyn Listen) {
        self.threads[id.index()].state = State::Unborn;
        let turn = Turn {
            at_ns: at.ns,
            before: State::Unborn,
            next: Next::State(State::Runnable(Why::New)),
            wake: None,
        };
        self.turn(id, turn, to);
        self.threads[id.index()].wake = Some(wake);
    }

    fn make_runnable(&mut self, id: ThreadId, mut wake: Wake, at_ns: i64, to: &mut dyn Listen) {
        let thread = &self.threads[id.index()];
        if let State::Blocked(Wait { is_sure: true, .. }) = thread.state
            && wake.interrupt.is_none()
        {
            let is_of_kernel = |id: &ThreadId| self.threads[id.index()].nature == Nature::Kernel;
            let involved = [Some(id), wake.thread.filter(is_of_kernel)].into_iter().flatten();
            let mut latest = involved.filter_map(|id| self.threads[id.index()].completed);
            let meanwhile = latest.find(|(ns, _)| *ns >= thread.since_ns);
            wake.completed = meanwhile.map(|(_, completed)| completed);
        }
        let before = match thread.state {
            known @ (State::Blocked(_) | State::Stopped) => known,
            _ => State::Blocked(Wait {
                call: thread.system_call(),
                is_sure: false,
            }),
        };
        let turn = Turn {
            at_ns,
            before,
            next: Next::State(State::Runnable(Why::Woken)),
            wake: Some(wake),
        };
        self.turn(id, turn, to);
        let thread = &mut self.threads[id.index()];
        thread.wake = Some(wake);
        if let Some(completed) = wake.by_device() {
            thread.completed = Some((at_ns, completed));
        }
    }

    /// Who does what happens on this CPU.
    fn waker(&mut self, cpu: u32, at: &At, to: &mut dyn Listen) -> Wake {
        let current = self.current(cpu, at, to);
        let innermost = self.cpu(cpu).stack.last().copied();
        let is_told = innermost.is_some() || self.cpu(cpu).is_of_thread();
        let thread = current.filter(|id| is_told && self.is_recorded(*id));
        // What a thread asks for is done on top of it, as soon as it can be.
        let only = innermost.filter(|_| self.cpus[cpu as usize].as_ref().is_some_and(|cpu| cpu.stack.len() == 1));
        let is_asked_by = |id: &ThreadId| {
            only.is_some_and(|pending| {
                pending.raised.and_then(|raised| raised.by) == Some(*id)
                    || self.does_soft_interrupts(*id, pending.interrupt)
            })
        };
        Wake {
            ns: at.ns,
            cpu: Some(cpu),
            interrupt: innermost.map(|pending| pending.interrupt),
            asked_by: thread.filter(is_asked_by),
            completed: innermost.and_then(|pending| pending.completed),
            thread,
        }
    }

    /// What it does is in the trace. Of threads that were not recorded nobody knows what interrupted them.
    pub(super) fn is_recorded(&self, id: ThreadId) -> bool {
        self.threads[id.index()].is_followed && !self.is_hidden(id)
    }

    /// What is left of soft interrupts is done by a thread of the kernel: then it is its work.
    fn does_soft_interrupts(&self, id: ThreadId, interrupt: Interrupt) -> bool {
        matches!(interrupt, Interrupt::Soft(vector) if does_work(vector)) && self.name_of(id).starts_with("ksoftirqd/")
    }

    /// Of the tracer itself.
    pub(super) fn is_hidden(&self, id: ThreadId) -> bool {
        let hidden = self.circumstances.hidden;
        hidden.is_some_and(|begin| self.names.text(self.thread(id).name).starts_with(begin))
    }

    /// The thread that has the CPU: the one that is known to, or the one that the event's context names.
    pub(super) fn current(&mut self, cpu: u32, at: &At, to: &mut dyn Listen) -> Option<ThreadId> {
        let known = self.cpu(cpu).current;
        let is_named = |id: ThreadId| {
            let thread = &self.threads[id.index()];
            at.tid.is_none_or(|tid| thread.tid == tid && thread.is_followed)
        };
        let (Some(tid), false) = (at.tid, known.is_some_and(is_named)) else {
            if let Some(known) = known {
                self.settle(known, at.ns, to);
            }
            return known;
        };
        let named = self.thread_on(cpu, tid, at, to);
        if known == Some(named) && self.threads[named.index()].is_followed {
            return known;
        }
        self.evict(cpu, named, to);
        self.leave_other_cpu(named, cpu);
        let before = self.running(named, cpu);
        let turn = Turn {
            at_ns: at.ns,
            before,
            next: Next::On(cpu),
            wake: None,
        };
        self.turn(named, turn, to);
        self.cpu(cpu).current = Some(named);
        Some(named)
    }

    /// The thread of an id, on some CPU.
    pub(super) fn thread_of(&mut self, tid: i32) -> ThreadId {
        match self.by_tid.get(&tid) {
            Some(known) => *known,
            None => {
                let id = self.add_thread(tid);
                self.by_tid.insert(tid, id);
                id
            }
        }
    }

    /// The thread of an id, which has this CPU now or had it just now.
    pub(super) fn thread_on(&mut self, cpu: u32, tid: i32, at: &At, to: &mut dyn Listen) -> ThreadId {
        if tid == 0 {
            let idle = self.cpu(cpu).idle;
            self.settle(idle, at.ns, to);
            return idle;
        }
        self.living(tid, at, to)
    }

    /// The thread of an id, which does something: it is alive.
    pub(super) fn living(&mut self, tid: i32, at: &At, to: &mut dyn Listen) -> ThreadId {
        let id = self.thread_of(tid);
        self.settle(id, at.ns, to);
        match self.threads[id.index()].state {
            State::Dead => {
                // Another thread under the same id, whose begin is missing.
                let new = self.succeed(tid);
                self.threads[new.index()].is_dark = true;
                new
            }
            State::Unborn => {
                self.lose(id, at.ns, to);
                id
            }
            _ => id,
        }
    }

    /// It has this name now.
    #[inline]
    pub(super) fn call_thread(&mut self, id: ThreadId, name: &[u8]) {
        let thread = &mut self.threads[id.index()];
        if name.is_empty() || thread.nature == Nature::Idle || self.names.text(thread.name).as_bytes() == name {
            return;
        }
        thread.name = self.names.keep(name);
    }

    /// An event says what a thread does itself: it has the CPU, and everything that it does is in the trace from now on.
    pub(super) fn acts(&mut self, id: ThreadId, at: &At, to: &mut dyn Listen) {
        if self.threads[id.index()].is_followed {
            return;
        }
        self.follow(id, at, to);
        if let Some(cpu) = at.cpu.filter(|cpu| *cpu < CPUS_MAX) {
            self.enter_cpu(cpu, at.ns, to);
            self.evict(cpu, id, to);
            self.leave_other_cpu(id, cpu);
            let turn = Turn {
                at_ns: at.ns,
                before: State::Unknown,
                next: Next::On(cpu),
                wake: None,
            };
            self.turn(id, turn, to);
            let known = self.cpu(cpu);
            (known.current, known.last_ns) = (Some(id), at.ns);
        }
    }

    /// Everything that a thread does is in the trace from now on.
    pub(super) fn follow(&mut self, id: ThreadId, at: &At, to: &mut dyn Listen) {
        let thread = &mut self.threads[id.index()];
        if thread.is_followed {
            return;
        }
        thread.is_followed = true;
        thread.call = Calling::Unknown;
        self.lose(id, at.ns, to);
    }
}
