// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of programs that waited, by the stacks that some events have. Stacks are told apart while the trace is read, and get names when
//! they are shown: files of programs are opened only then.

use rustc_hash::FxHashMap;

use crate::durations::Durations;
use crate::model::{ProcessId, System, ThreadId, UserStack};
use crate::report::Value;

/// Further stacks are not told apart: their functions are unknown.
const STACKS_MAX: usize = 1 << 16;

/// A stack that [`Waiting`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StackId(u32);

/// Knows with which stacks threads have waited.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    known: FxHashMap<(Program, UserStack), StackId>,
    stacks: Vec<Seen>,
    /// How many programs a process has become.
    executed: FxHashMap<ProcessId, u32>,
}

/// A process while it is one program: other functions lie at the same addresses in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Program {
    process: ProcessId,
    turn: u32,
}

/// A stack, and when it was seen.
#[derive(Debug)]
struct Seen {
    process: ProcessId,
    ns: i64,
    stack: UserStack,
}

impl Waiting {
    /// The stack with which a thread waits, or has waited up to now; `None` where nobody knows.
    pub(crate) fn of(&mut self, system: &System, thread: ThreadId) -> Option<StackId> {
        let stack = system.user_stack(thread);
        if stack.frames().is_empty() {
            return None;
        }
        let process = system.thread(thread).process();
        let turn = self.executed.get(&process).copied().unwrap_or(0);
        let key = (Program { process, turn }, stack);
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        if self.stacks.len() >= STACKS_MAX {
            return None;
        }
        let id = StackId(self.stacks.len() as u32);
        let ns = system.now_ns();
        self.stacks.push(Seen { process, ns, stack });
        self.known.insert(key, id);
        Some(id)
    }

    /// The process of a thread has become another program.
    pub(crate) fn executed(&mut self, system: &System, thread: ThreadId) {
        *self.executed.entry(system.thread(thread).process()).or_default() += 1;
    }

    /// How long each function has waited; nothing where none is known.
    pub(crate) fn value(&self, system: &System, waited: &Durations<StackId>) -> Value {
        let (mut names, mut by_name) = (Vec::new(), Durations::default());
        for (stack, ns) in waited.sorted() {
            let name = stack.and_then(|stack| self.name(system, stack));
            let place = name.map(|name| {
                let known = names.iter().position(|known| *known == name);
                known.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                })
            });
            by_name.add(place, ns);
        }
        match names.is_empty() {
            true => Value::None,
            false => by_name.value(|place| names[place].clone()),
        }
    }

    fn name(&self, system: &System, stack: StackId) -> Option<String> {
        let Seen { process, ns, stack } = &self.stacks[stack.0 as usize];
        system.memory()?.waiting(process.pid, *ns, stack.frames())
    }
}
