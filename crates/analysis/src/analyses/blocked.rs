// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads waited for, and who ended their waits.

use rustc_hash::FxHashMap;

use super::{COMM, COUNT, LIMIT, MAX, MEAN, MIN, PID, SWITCHES, TID, TOTAL, WAKEUPS, comm, pid, tid, waker_named};
use crate::analysis::{Analysis, Description, Options};
use crate::cause::{Cause, Causes};
use crate::measure::Times;
use crate::model::{Listen, Nature, Slice, State, System, ThreadId, Waker};
use crate::names::Name;
use crate::report::{Report, Table, Unit, Value, column, counted};

pub(super) static BLOCKED: Description = Description {
    name: "blocked",
    about: "what threads waited for, in which system calls, and who ended their waits",
    tables: &["causes", "waits"],
    needs: &[SWITCHES, WAKEUPS, super::CALLS, super::INTERRUPTS],
    begin: |options| {
        Box::new(Blocked {
            options: options.clone(),
            causes: Causes::default(),
            waits: FxHashMap::default(),
            asleep: 0,
        })
    },
};

struct Blocked {
    options: Options,
    causes: Causes,
    waits: FxHashMap<Key, Times>,
    /// Threads that waited all the time.
    asleep: u64,
}

/// Waits that are summed up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    thread: ThreadId,
    cause: Cause,
    call: Option<Name>,
    waker: Option<Waker>,
}

impl Listen for Blocked {
    fn slice(&mut self, system: &System, slice: &Slice) {
        let State::Blocked(wait) = slice.state else { return };
        let ns = slice.duration_ns();
        if !self.options.wants_ns(ns) || !self.options.who.wants(system, slice.thread) {
            return;
        }
        let is_whole = slice.begin_ns <= system.told().0 && slice.wake.is_none();
        if is_whole && slice.end_ns >= system.told().1 {
            self.asleep += 1;
            return;
        }
        let key = Key {
            thread: slice.thread,
            cause: self.causes.of(system, wait, slice.wake),
            call: wait.call,
            waker: slice.wake.and_then(|wake| wake.waker()),
        };
        self.waits.entry(key).or_default().add(ns);
    }
}

impl Analysis for Blocked {
    fn report(&mut self, system: &System) -> Report {
        let cause = column("cause", "FOR", Unit::Text);
        let mut causes = Table::new(
            "causes",
            "Threads of programs, by what they waited for",
            &[cause, COUNT, TOTAL.with_bar(), MIN, MEAN, MAX],
        );
        for wanted in Cause::ALL {
            let mut times = Times::default();
            let is_meant = |key: &Key| key.cause == wanted && system.thread(key.thread).nature != Nature::Kernel;
            self.waits
                .iter()
                .filter(|(key, _)| is_meant(key))
                .for_each(|(_, own)| times.merge(own));
            if times.count > 0 {
                let mut row = vec![wanted.text().into()];
                row.extend(times.values());
                causes.row(row);
            }
        }
        causes.sort_by("total_ns");
        let columns = [
            TID,
            PID.minor(),
            COMM,
            cause.major(),
            column("syscall", "SYSCALL", Unit::Text),
            column("waker", "WOKEN BY", Unit::Text),
            COUNT,
            TOTAL.major().with_bar(),
            MIN,
            MEAN,
            MAX,
        ];
        let mut waits = Table::new("waits", "Waits", &columns);
        let mut sorted: Vec<(&Key, &Times)> = self.waits.iter().collect();
        sorted.sort_by_key(|(key, times)| (-times.total_ns, **key));
        for (key, times) in sorted.into_iter().take(self.options.limit.unwrap_or(LIMIT)) {
            let waker = key.waker.map(|waker| waker_named(system, waker));
            let mut row = vec![
                tid(system, key.thread),
                pid(system, key.thread),
                comm(system, key.thread),
                key.cause.text().into(),
                key.call.map_or(Value::None, |call| system.names.text(call).into()),
                waker.map_or(Value::None, Value::from),
            ];
            row.extend(times.values());
            waits.row(row);
        }
        waits.notes.extend(counted(
            self.asleep,
            "more thread waited the whole time",
            "more threads waited the whole time",
        ));
        Report {
            tables: vec![causes, waits],
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Circumstances, script};

    #[test]
    fn a_wait_for_the_loopback_interface_was_ended_by_who_sent() {
        // 2 sends to 1, and asks for the soft interrupt; or it does not.
        let lines = "
            1 cpu0 switch 9 waits 1
            1 cpu1 switch 8 waits 2
            10 cpu0 call recvfrom
            12 cpu0 switch 1 waits 0
            40 cpu1 call sendto
            42 cpu1 raise 3
            43 cpu1 irq 3
            44 cpu1 waking 1
            45 cpu1 irqend 3
            50 cpu0 switch 0 runs 1";
        let wakers = |lines: &str| {
            let mut blocked = (BLOCKED.begin)(&Options::default());
            let mut system = System::new(Circumstances::whole(0));
            script::apply(&mut system, lines, blocked.as_mut());
            system.finish(51, blocked.as_mut());
            blocked.report(&system).tables[1].csv()
        };
        let waits = |lines| {
            wakers(lines)
                .lines()
                .filter(|row| row.contains("recvfrom"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(waits(lines), ["1,,,network,recvfrom,(2),1,32,32,32,32"]);
        let from_outside = lines.replace("42 cpu1 raise 3", "");
        assert_eq!(
            waits(&from_outside),
            ["1,,,network,recvfrom,softirq NET_RX,1,32,32,32,32"]
        );
    }
}
