// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts: how often and how long, of each handler and CPU; how many how long; and every one.

use std::collections::BTreeMap;

use super::{COUNT, INTERRUPTS, LIMIT, LOG_LIMIT, MAX, MEAN, MEDIAN, MIN, P99, TOTAL};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::facts::Interrupt;
use crate::measure::{Distribution, Times};
use crate::model::{Interruption, Listen, System};
use crate::report::{Report, Table, Unit, Value, column, counted};

const NEEDS: &[Need] = &[Need {
    is_essential: true,
    ..INTERRUPTS
}];

pub(super) static STATS: Description = Description {
    name: "irqstats",
    about: "interrupts: how many, how long they took, and how late soft interrupts were",
    tables: &["interrupts"],
    needs: NEEDS,
    begin: |options| {
        Box::new(Stats {
            options: options.clone(),
            by_interrupt: BTreeMap::new(),
        })
    },
};

pub(super) static FREQUENCIES: Description = Description {
    name: "irqfreq",
    about: "the distribution of the durations of interrupts",
    tables: &["frequencies"],
    needs: NEEDS,
    begin: |options| {
        Box::new(Frequencies {
            options: options.clone(),
            by_interrupt: BTreeMap::new(),
        })
    },
};

pub(super) static LOG: Description = Description {
    name: "irqlog",
    about: "every interrupt",
    tables: &["interrupts"],
    needs: NEEDS,
    begin: |options| {
        Box::new(Log {
            limit: options.limit.unwrap_or(LOG_LIMIT),
            options: options.clone(),
            kept: Vec::new(),
            count: 0,
        })
    },
};

/// Linux's names of soft interrupts.
const SOFT: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Linux's name of a soft interrupt.
pub(crate) fn soft_name(vector: u32) -> Option<&'static str> {
    SOFT.get(vector as usize).copied()
}

/// `irq 36 virtio1-req.0`, `softirq TIMER`, `vector local_timer`
pub fn interrupt_name(system: &System, interrupt: Interrupt) -> String {
    match interrupt {
        Interrupt::Device(number, name) => format!("irq {number} {}", system.names.text(name))
            .trim_end()
            .to_owned(),
        Interrupt::Soft(vector) => match soft_name(vector) {
            Some(name) => format!("softirq {name}"),
            None => format!("softirq {vector}"),
        },
        Interrupt::Vector(name) => format!("vector {}", system.names.text(name)),
        Interrupt::Timer => "timer".into(),
    }
}

fn is_wanted(options: &Options, interruption: &Interruption) -> bool {
    options.wants_ns(interruption.end_ns - interruption.begin_ns) && options.who.wants_cpu(interruption.cpu)
}

/// How many interrupts are missing in what is counted of some CPUs.
fn torn(system: &System, options: &Options) -> Option<String> {
    let cpus = system.cpus().filter(|cpu| options.who.wants_cpu(*cpu));
    counted(
        cpus.map(|cpu| system.torn_interrupts_on(cpu)).sum(),
        "interrupt is not counted, because events are missing and only its start or its end is known (see `piste stats`)",
        "interrupts are not counted, because events are missing and only their start or their end is known (see `piste stats`)",
    )
}

struct Stats {
    options: Options,
    by_interrupt: BTreeMap<Interrupt, OfInterrupt>,
}

#[derive(Default)]
struct OfInterrupt {
    all: Distribution,
    /// From being asked for to its begin.
    late: Times,
    by_cpu: BTreeMap<u32, u64>,
}

impl Listen for Stats {
    fn interruption(&mut self, _: &System, interruption: &Interruption) {
        if !is_wanted(&self.options, interruption) {
            return;
        }
        let own = self.by_interrupt.entry(interruption.interrupt).or_default();
        // What came on top of it is counted for itself.
        own.all
            .add(interruption.end_ns - interruption.begin_ns - interruption.nested_ns);
        if let Some(raised_ns) = interruption.raised_ns {
            own.late.add(interruption.begin_ns - raised_ns);
        }
        *own.by_cpu.entry(interruption.cpu).or_default() += 1;
    }
}

impl Analysis for Stats {
    fn report(&mut self, system: &System) -> Report {
        let columns = [
            column("interrupt", "INTERRUPT", Unit::Text),
            COUNT,
            TOTAL.with_bar(),
            MIN,
            MEAN,
            MAX,
            MEDIAN,
            P99,
            column("late_mean_ns", "MEAN LATE", Unit::Nanoseconds).minor(),
            column("late_max_ns", "MAX LATE", Unit::Nanoseconds),
            column("cpus", "CPUS", Unit::Text).minor(),
        ];
        let mut table = Table::new("interrupts", "Interrupts", &columns);
        for (interrupt, own) in &self.by_interrupt {
            let mut row = vec![interrupt_name(system, *interrupt).into()];
            row.extend(own.all.times.values());
            row.extend([own.all.percentile(50.0), own.all.percentile(99.0)]);
            row.extend(match own.late.count {
                0 => [Value::None, Value::None],
                _ => [Value::Number(own.late.mean_ns()), Value::Number(own.late.max_ns)],
            });
            let cpus: Vec<String> = own
                .by_cpu
                .iter()
                .map(|(cpu, count)| format!("{cpu}: {count}"))
                .collect();
            row.push(cpus.join(", ").into());
            table.row(row);
        }
        table.sort_by("total_ns");
        table.rows.truncate(self.options.limit.unwrap_or(LIMIT));
        Report {
            tables: vec![table],
            notes: Vec::from_iter(torn(system, &self.options)),
        }
    }
}

struct Frequencies {
    options: Options,
    by_interrupt: BTreeMap<Interrupt, Distribution>,
}

impl Listen for Frequencies {
    fn interruption(&mut self, _: &System, interruption: &Interruption) {
        if is_wanted(&self.options, interruption) {
            let own = self.by_interrupt.entry(interruption.interrupt).or_default();
            own.add(interruption.end_ns - interruption.begin_ns);
        }
    }
}

impl Analysis for Frequencies {
    fn report(&mut self, system: &System) -> Report {
        let columns = [
            column("interrupt", "INTERRUPT", Unit::Text),
            super::FROM,
            super::UNTIL,
            COUNT.with_bar(),
        ];
        let mut table = Table::new("frequencies", "Interrupts by duration", &columns);
        for (interrupt, own) in &self.by_interrupt {
            for (from, until, count) in own.octaves() {
                let name = interrupt_name(system, *interrupt).into();
                table.row([name, Value::Number(from), Value::Number(until), count.into()]);
            }
        }
        Report {
            tables: vec![table],
            notes: Vec::from_iter(torn(system, &self.options)),
        }
    }
}

struct Log {
    options: Options,
    limit: usize,
    kept: Vec<Interruption>,
    count: u64,
}

impl Listen for Log {
    fn interruption(&mut self, _: &System, interruption: &Interruption) {
        if is_wanted(&self.options, interruption) {
            self.count += 1;
            if self.kept.len() < self.limit {
                self.kept.push(*interruption);
            }
        }
    }
}

impl Analysis for Log {
    fn report(&mut self, system: &System) -> Report {
        let columns = [
            column("begin_ns", "BEGIN", Unit::Moment),
            column("duration_ns", "DURATION", Unit::Nanoseconds).with_bar(),
            column("cpu", "CPU", Unit::Id),
            column("interrupt", "INTERRUPT", Unit::Text),
            column("late_ns", "LATE", Unit::Nanoseconds),
        ];
        let mut table = Table::new("interrupts", "Interrupts", &columns);
        for one in &self.kept {
            table.row([
                Value::Number(one.begin_ns),
                Value::Number(one.end_ns - one.begin_ns),
                Value::Number(one.cpu.into()),
                interrupt_name(system, one.interrupt).into(),
                one.raised_ns.map(|raised_ns| one.begin_ns - raised_ns).into(),
            ]);
        }
        let left = self.count - self.kept.len() as u64;
        let mut notes = Vec::from_iter(torn(system, &self.options));
        notes.extend(counted(
            left,
            "more interrupt is not shown; choose others with --limit, --min and --begin",
            "more interrupts are not shown; choose others with --limit, --min and --begin",
        ));
        Report {
            tables: vec![table],
            notes,
        }
    }
}
