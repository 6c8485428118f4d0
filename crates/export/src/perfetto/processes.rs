// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and threads that the kernel tells of, as Perfetto's process tree: from the state dump, and from forks.

use std::collections::HashMap;

use crate::protobuf::Message;
use crate::reader::Seen;

/// What was told since the tree was written last.
#[derive(Default)]
pub(super) struct Processes {
    pub(super) tree: Message,
    /// Processes that started others.
    parents: HashMap<i64, i64>,
    told: u32,
}

/// A tree is written when it has so many.
const TOLD_MAX: u32 = 256;

impl Processes {
    /// Takes what an event says of processes; true when that is all that it says. `has_new_tasks`: forks are told by events that say more.
    pub(super) fn see(&mut self, event: &Seen<'_>, has_new_tasks: bool) -> bool {
        match &*event.class.name {
            "lttng_statedump_process_state" => {
                let number = |name| event.number(name);
                let (Some(tid), Some(pid)) = (number("tid"), number("pid")) else {
                    return false;
                };
                let name = event.text("name").unwrap_or_default();
                if tid == pid {
                    let parent = number("ppid").unwrap_or(0);
                    self.parents.insert(pid, parent);
                    self.process(pid, Some(parent), name, true);
                }
                self.thread(tid, pid, name);
                true
            }
            // Switches tell names, too.
            "piste_statedump_thread_name" => true,
            // All of the command line, where the state of a thread has its name.
            "lttng_statedump_process" => {
                if let (Some(pid), Some(line)) = (event.number("pid"), event.text("cmdline"))
                    && !line.is_empty()
                {
                    self.process(pid, self.parents.get(&pid).copied(), line, false);
                }
                true
            }
            "sched_process_fork" if !has_new_tasks => {
                // Piste says -1 where the process could not be known any more.
                let process = |field| event.number(field).filter(|pid| *pid >= 0);
                if let (Some(tid), Some(pid)) = (event.number("child_tid"), process("child_pid")) {
                    let name = event.text("child_comm").unwrap_or_default();
                    if tid == pid {
                        let parent = process("parent_pid");
                        self.process(pid, parent, name, true);
                    }
                    self.thread(tid, pid, name);
                }
                false
            }
            _ => false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.told >= TOLD_MAX
    }

    pub(super) fn clear(&mut self) {
        self.tree.clear();
        self.told = 0;
    }

    fn process(&mut self, pid: i64, parent: Option<i64>, line: &[u8], is_name: bool) {
        self.told += 1;
        self.tree.message(1, |process| {
            process.signed(1, pid);
            if let Some(parent) = parent {
                process.signed(2, parent);
            }
            process.text(3, line);
            process.number(9, is_name.into());
        });
    }

    fn thread(&mut self, tid: i64, pid: i64, name: &[u8]) {
        self.told += 1;
        self.tree.message(2, |thread| {
            thread.signed(1, tid);
            thread.text(2, name);
            thread.signed(3, pid);
        });
    }
}
