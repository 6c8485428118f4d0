// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads begin, become another program, and end; and what the state dump says of those that are there.

use super::files::FileKind;
use super::state::{State, ThreadId, Wait, Why};
use super::thread::{Calling, Nature};
use super::turn::{Next, Turn};
use super::{At, Listen, System};
use crate::facts::{DumpedThread, FileOwner, Fork};

impl System {
    pub(super) fn fork(&mut self, fork: &Fork<'_>, at: &At, to: &mut dyn Listen) {
        let parent = self.living(fork.parent_tid, at, to);
        if at.tid == Some(fork.parent_tid) {
            self.acts(parent, at, to);
        }
        if let Some(old) = self.by_tid.get(&fork.tid).copied() {
            self.bury(old, at, to);
        }
        let id = self.succeed(fork.tid);
        let of_parent = &self.threads[parent.index()];
        let (nature, uid, namespace, call) = (of_parent.nature, of_parent.uid, of_parent.namespace, of_parent.call);
        let parent_pid = fork.parent_pid.unwrap_or(of_parent.process().pid);
        let is_followed = of_parent.is_followed;
        let name = self.names.keep(fork.name);
        // A tracer that looked up the process too late may report the thread as a process of its own.
        let pid = match self.new_tasks.remove(&fork.tid) {
            Some(true) => Some(self.threads[parent.index()].process().pid),
            Some(false) => Some(fork.tid),
            None => fork.pid,
        };
        if pid.is_some_and(|pid| pid != fork.tid)
            && let Some(first) = pid.and_then(|pid| self.leader(self.process_seen_by(parent, pid)))
        {
            self.threads[first.index()].is_first = true;
        }
        let parent_process = self.process_seen_by(parent, parent_pid);
        let own_turn = self.threads[id.index()].turn;
        let thread_of = pid.filter(|pid| *pid != fork.tid);
        let turn = thread_of.map_or(own_turn, |pid| self.process_seen_by(parent, pid).turn);
        let thread = &mut self.threads[id.index()];
        (thread.pid, thread.turn) = (pid, turn);
        thread.parent_pid = Some(parent_pid);
        thread.name = name;
        thread.nature = nature;
        thread.uid = uid;
        thread.namespace = namespace;
        thread.born_ns = Some(at.ns);
        thread.state = State::Unborn;
        // That it was not there before is known in any case.
        thread.is_followed = true;
        // It begins inside of its parent's system call.
        thread.call = match call {
            Calling::Inside(call, _) => Calling::Inside(call, None),
            other => other,
        };
        // A new process is where its parent is, until somebody moves it.
        let own = self.threads[id.index()].process();
        if let Some(process) = self.processes.get(&parent_process).filter(|_| own != parent_process) {
            let process = process.clone();
            self.processes.insert(own, process);
        }
        let turn = Turn {
            at_ns: at.ns,
            before: State::Unborn,
            next: Next::State(if is_followed {
                State::Runnable(Why::New)
            } else {
                State::Unknown
            }),
            wake: None,
        };
        self.turn(id, turn, to);
        self.threads[id.index()].is_followed = is_followed;
        let parent_owner = self.owner(parent);
        match pid {
            Some(pid) if pid != fork.tid => self.files.begin_thread(parent, id),
            _ => self.files.fork(parent_owner, fork.tid),
        }
        if self.is_told() {
            to.born(self, id, Some(parent), at.ns);
        }
    }

    /// A thread has ended, and its end is not in the trace.
    fn bury(&mut self, id: ThreadId, at: &At, to: &mut dyn Listen) {
        if self.threads[id.index()].state == State::Dead {
            return;
        }
        if let State::Running { cpu, .. } = self.threads[id.index()].state
            && self.cpu(cpu).current == Some(id)
        {
            self.lose_cpu(cpu);
        }
        let since_ns = self.threads[id.index()].since_ns;
        self.lose(id, since_ns, to);
        let turn = Turn {
            at_ns: at.ns,
            before: State::Unknown,
            next: Next::State(State::Dead),
            wake: None,
        };
        self.turn(id, turn, to);
    }

    pub(super) fn exec(&mut self, tid: i32, old_tid: i32, file: &[u8], at: &At, to: &mut dyn Listen) {
        let id = self.living(old_tid, at, to);
        if at.tid == Some(tid) {
            let tid = Some(old_tid);
            self.see(&At { tid, ..*at }, to);
            self.acts(id, at, to);
        }
        let owner = self.owner(id);
        self.files.execute(owner, tid, at.ns);
        if tid != old_tid {
            // The thread that executes takes over the id of the process's first one, which has ended.
            if let Some(first) = self.by_tid.get(&tid).copied() {
                self.bury(first, at, to);
            }
            self.by_tid.remove(&old_tid);
            self.by_tid.insert(tid, id);
            self.threads[id.index()].tid = tid;
        }
        self.join(id, tid);
        self.threads[id.index()].is_first = true;
        let base = file.rsplit(|byte| *byte == b'/').next().unwrap_or(file);
        // As the kernel cuts it.
        self.call_thread(id, &base[..base.len().min(15)]);
        if let Some(process) = self.processes.get_mut(&self.threads[id.index()].process()) {
            process.command_line = String::from_utf8_lossy(file).into();
        }
        if self.is_told() {
            to.executed(self, id, file, at.ns);
        }
    }

    pub(super) fn exit(&mut self, tid: i32, has_others: bool, at: &At, to: &mut dyn Listen) {
        self.new_tasks.remove(&tid);
        let id = self.living(tid, at, to);
        let thread = &mut self.threads[id.index()];
        thread.is_exiting = true;
        // Tracers that find out late whose thread it is take one that is gone for a process.
        if has_others
            && !thread.is_first
            && thread.born_ns.is_some()
            && thread.pid == Some(tid)
            && let Some(parent_pid) = thread.parent_pid
        {
            self.join(id, parent_pid);
        }
        if at.tid == Some(tid) {
            self.acts(id, at, to);
        }
        // Its last call never returns; without its last switch only this tells it from a later thread of the same id.
        if !self.circumstances.has_switches {
            self.threads[id.index()].call = Calling::Unknown;
        }
        let owner = self.owner(id);
        self.files.end(owner, !has_others && owner.process == tid);
    }

    pub(super) fn free(&mut self, tid: i32, at: &At, to: &mut dyn Listen) {
        // One that has not ended is a later thread of the same id.
        if let Some(id) = self
            .by_tid
            .get(&tid)
            .copied()
            .filter(|id| self.threads[id.index()].is_exiting)
        {
            self.bury(id, at, to);
        }
    }

    /// Whose a thread is and what it is called from the begin on, as a state dump will tell. Before the first event.
    pub fn foretell(&mut self, tid: i32, pid: i32, name: &[u8]) {
        if tid != 0 {
            let id = self.thread_of(tid);
            self.join(id, pid);
            self.call_thread(id, name);
        }
    }

    /// What a process that begins to be recorded has open, and keeps when it executes another program.
    pub fn foretell_file(&mut self, pid: i32, descriptor: i32, name: &[u8]) {
        let id = self.thread_of(pid);
        self.join(id, pid);
        let file = self.files.named(FileKind::of(name), self.names.keep(name));
        self.files
            .open(self.owner(id), descriptor, file, Some(false), self.now_ns);
    }

    pub(super) fn rename(&mut self, tid: i32, name: &[u8]) {
        let id = self.thread_of(tid);
        self.call_thread(id, name);
    }

    /// The name of a thread that may come. An id that another thread has later has no name of it.
    pub(super) fn dumped_name(&mut self, tid: i32, name: &[u8]) {
        match self.by_tid.get(&tid).copied() {
            None => _ = self.told_names.insert(tid, self.names.keep(name)),
            Some(id) if self.names.text(self.threads[id.index()].name).is_empty() => self.call_thread(id, name),
            Some(_) => {}
        }
    }

    /// What a process has open, says the state dump.
    pub(super) fn dumped_file(&mut self, owner: FileOwner, opened: (i32, Option<i64>), name: &[u8], now_ns: i64) {
        let pid = match owner {
            FileOwner::Process(pid) => Some(pid),
            FileOwner::Table(table) => self.files.owner_of(table),
        };
        // Without an event of the dump before it nobody knows when the process was asked.
        if let (Some(asked_ns), Some(pid)) = (self.files.dump(now_ns), pid) {
            let gaps = &self.circumstances.gaps;
            let name = (name, &mut self.names);
            self.files.dumped(pid, opened, name, (asked_ns, now_ns), gaps);
        }
    }

    pub(super) fn dumped(&mut self, dumped: &DumpedThread<'_>, at: &At, to: &mut dyn Listen) {
        if dumped.tid == 0 {
            return;
        }
        if let Some(table) = dumped.file_table {
            self.files.dump_table(table, dumped.pid);
        }
        let id = self.thread_of(dumped.tid);
        let begin_ns = self.circumstances.begin_ns;
        let is_blind = self.circumstances.gaps.within(begin_ns, at.ns, None).is_some();
        let is_partial = self.circumstances.is_partial;
        self.join(id, dumped.pid);
        let thread = &mut self.threads[id.index()];
        thread.parent_pid = dumped.parent_pid.or(thread.parent_pid);
        thread.uid = dumped.uid.or(thread.uid);
        thread.namespace = dumped.namespace.or(thread.namespace);
        match dumped.is_kernel {
            Some(true) if thread.nature == Nature::Unknown => thread.nature = Nature::Kernel,
            Some(false) => thread.nature = Nature::User,
            _ => {}
        }
        let is_nameless = self.names.text(thread.name).is_empty();
        // Nothing was said of it since the trace began: it was then as it is now.
        let is_untouched = thread.state == State::Unknown && !thread.is_dark && thread.since_ns == begin_ns;
        if is_nameless {
            self.call_thread(id, dumped.name);
        }
        if dumped.is_waiting && is_untouched && !is_partial {
            let wait = State::Blocked(Wait {
                call: None,
                is_sure: false,
            });
            let turn = Turn {
                at_ns: if is_blind { at.ns } else { begin_ns },
                before: State::Unknown,
                next: Next::State(wait),
                wake: None,
            };
            self.turn(id, turn, to);
        }
    }
}
