// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long threads that were woken or began waited for a CPU, and behind whom: of each thread, the longest, how many how long, and every one.

use super::totals::PerThread;
use super::{
    BEHIND, COMM, COUNT, LIMIT, LOG_LIMIT, MAX, MEAN, MEDIAN, MIN, P99, PID, SWITCHES, TID, TOTAL, WAKEUPS, comm,
    named, pid, tid, waker_named,
};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::durations::Durations;
use crate::measure::{Distribution, Times};
use crate::model::{Delay, Listen, Nature, Slice, State, System, ThreadId, Why};
use crate::report::{Report, Table, Unit, Value, column, counted};

const NEEDS: &[Need] = &[
    SWITCHES,
    Need {
        is_essential: true,
        ..WAKEUPS
    },
];

pub(super) static STATS: Description = Description {
    name: "schedstats",
    about: "how long threads waited for a CPU after they were woken or started, by thread",
    tables: &["all", "threads"],
    needs: NEEDS,
    begin: |options| Box::new(Stats::new(options)),
};

pub(super) static FREQUENCIES: Description = Description {
    name: "schedfreq",
    about: "the distribution of the waits for a CPU",
    tables: &["frequencies"],
    needs: NEEDS,
    begin: |options| {
        Box::new(Frequencies {
            options: options.clone(),
            all: Distribution::default(),
        })
    },
};

pub(super) static TOP: Description = Description {
    name: "schedtop",
    about: "the longest waits for a CPU",
    tables: &["delays"],
    needs: NEEDS,
    begin: |options| Box::new(Log::new(options, Order::Longest)),
};

pub(super) static LOG: Description = Description {
    name: "schedlog",
    about: "every wait for a CPU",
    tables: &["delays"],
    needs: NEEDS,
    begin: |options| Box::new(Log::new(options, Order::Time)),
};

fn is_wanted(options: &Options, system: &System, delay: &Delay) -> bool {
    options.wants_ns(delay.end_ns - delay.begin_ns)
        && options.who.wants_cpu(delay.cpu)
        && options.who.wants(system, delay.thread)
}

struct Stats {
    options: Options,
    all: Distribution,
    threads: PerThread<OfThread>,
}

#[derive(Default)]
struct OfThread {
    times: Times,
    /// Waits to get a CPU back.
    preempted_ns: i64,
    /// Of all waits.
    behind: Durations<ThreadId>,
}

/// Who had the CPU meanwhile.
fn behind(system: &System, delay: &Delay, to: &mut Durations<ThreadId>) {
    let span_ns = (delay.begin_ns, delay.end_ns);
    system.behind(delay.thread, span_ns, |who, ns| to.add(who, ns));
}

impl Stats {
    fn new(options: &Options) -> Stats {
        Stats {
            options: options.clone(),
            all: Distribution::default(),
            threads: PerThread::default(),
        }
    }
}

impl Listen for Stats {
    fn delay(&mut self, system: &System, delay: &Delay) {
        if is_wanted(&self.options, system, delay) {
            let ns = delay.end_ns - delay.begin_ns;
            self.all.add(ns);
            let own = self.threads.of(delay.thread);
            own.times.add(ns);
            behind(system, delay, &mut own.behind);
        }
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        let is_wanted = || self.options.who.wants(system, slice.thread) && self.options.who.cpus.is_empty();
        if slice.state == State::Runnable(Why::Preempted)
            && self.options.wants_ns(slice.duration_ns())
            && system.thread(slice.thread).nature != Nature::Idle
            && is_wanted()
        {
            let own = self.threads.of(slice.thread);
            own.preempted_ns += slice.duration_ns();
            system.behind(slice.thread, (slice.begin_ns, slice.end_ns), |who, ns| {
                own.behind.add(who, ns)
            });
        }
    }
}

impl Analysis for Stats {
    fn report(&mut self, system: &System) -> Report {
        let mut all = Table::new("all", "Waits for a CPU", &[COUNT, TOTAL, MIN, MEAN, MAX, MEDIAN, P99]);
        let mut row = self.all.times.values().to_vec();
        row.extend([self.all.percentile(50.0), self.all.percentile(99.0)]);
        all.row(row);
        let preempted = column("preempted_ns", "PREEMPTED", Unit::Nanoseconds);
        let columns = [
            TID,
            PID.minor(),
            COMM,
            COUNT,
            TOTAL.major(),
            MIN,
            MEAN,
            MAX.major().with_bar(),
            preempted,
            BEHIND,
        ];
        let mut table = Table::new("threads", "Threads", &columns);
        for (id, _) in system.threads() {
            let has_waited = |own: &&OfThread| own.times.count > 0 || own.preempted_ns > 0;
            if let Some(own) = self.threads.get(id).filter(has_waited) {
                let mut row = vec![tid(system, id), pid(system, id), comm(system, id)];
                row.extend(own.times.values());
                row.push(Value::Number(own.preempted_ns));
                row.push(own.behind.value(|who| named(system, who)));
                table.row(row);
            }
        }
        table.sort_by("max_ns");
        table.rows.truncate(self.options.limit.unwrap_or(LIMIT));
        Report {
            tables: vec![all, table],
            notes: Vec::new(),
        }
    }
}

struct Frequencies {
    options: Options,
    all: Distribution,
}

impl Listen for Frequencies {
    fn delay(&mut self, system: &System, delay: &Delay) {
        if is_wanted(&self.options, system, delay) {
            self.all.add(delay.end_ns - delay.begin_ns);
        }
    }
}

impl Analysis for Frequencies {
    fn report(&mut self, _: &System) -> Report {
        Report {
            tables: vec![super::frequencies("Waits for a CPU", &self.all)],
            notes: Vec::new(),
        }
    }
}

#[derive(PartialEq)]
enum Order {
    Longest,
    Time,
}

struct Log {
    options: Options,
    order: Order,
    limit: usize,
    kept: Vec<(Delay, Durations<ThreadId>)>,
    count: u64,
}

impl Log {
    fn new(options: &Options, order: Order) -> Log {
        let limit = if order == Order::Longest { LIMIT } else { LOG_LIMIT };
        Log {
            limit: options.limit.unwrap_or(limit),
            options: options.clone(),
            order,
            kept: Vec::new(),
            count: 0,
        }
    }

    /// Keeps the longest.
    fn cut(&mut self) {
        self.kept.sort_by_key(|(delay, _)| delay.begin_ns - delay.end_ns);
        self.kept.truncate(self.limit);
    }
}

impl Listen for Log {
    fn delay(&mut self, system: &System, delay: &Delay) {
        if !is_wanted(&self.options, system, delay) {
            return;
        }
        self.count += 1;
        if self.order == Order::Time && self.kept.len() >= self.limit {
            return;
        }
        let mut whom = Durations::default();
        behind(system, delay, &mut whom);
        self.kept.push((*delay, whom));
        if self.order == Order::Longest && self.kept.len() > 2 * self.limit + 100 {
            self.cut();
        }
    }
}

impl Analysis for Log {
    fn report(&mut self, system: &System) -> Report {
        if self.order == Order::Longest {
            self.cut();
        }
        let columns = [
            column("woken_ns", "WOKEN", Unit::Moment),
            column("delay_ns", "WAITED", Unit::Nanoseconds).major().with_bar(),
            TID,
            PID.minor(),
            COMM,
            column("cpu", "CPU", Unit::Id).minor(),
            column("priority", "PRIO", Unit::Id).minor(),
            column("waker", "WOKEN BY", Unit::Text).minor(),
            BEHIND,
        ];
        let mut table = Table::new("delays", "Waits for a CPU", &columns);
        for (delay, behind) in &self.kept {
            let id = delay.thread;
            let waker = delay.wake.and_then(|wake| wake.waker());
            table.row([
                Value::Number(delay.begin_ns),
                Value::Number(delay.end_ns - delay.begin_ns),
                tid(system, id),
                pid(system, id),
                comm(system, id),
                Value::Number(delay.cpu.into()),
                Value::Number(delay.priority.into()),
                waker.map_or(Value::None, |waker| waker_named(system, waker).into()),
                behind.value(|who| named(system, who)),
            ]);
        }
        let left = self.count - self.kept.len() as u64;
        if self.order == Order::Time {
            table.notes.extend(counted(
                left,
                "more wait is not shown; choose others with --limit, --min and --begin",
                "more waits are not shown; choose others with --limit, --min and --begin",
            ));
        }
        Report {
            tables: vec![table],
            notes: Vec::new(),
        }
    }
}
