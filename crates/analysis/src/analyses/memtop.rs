// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who was given memory and gave it back, in pages; and who touched what was not there yet.

use super::totals::PerThread;
use super::{COMM, LIMIT, PID, TID, comm, pid, tid};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::model::{Happening, Listen, Occurrence, System};
use crate::report::{Column, Report, Table, Unit, Value, column};

pub(super) static MEMTOP: Description = Description {
    name: "memtop",
    about: "pages of memory allocated and freed, and page faults, by thread",
    tables: &["all", "threads"],
    needs: &[
        Need {
            any_of: &[
                "kmem_mm_page_alloc",
                "mm_page_alloc",
                "*exceptions_page_fault_user",
                "page_fault_user",
            ],
            what: "pages of memory or page faults",
            option: "-a --preset mem",
            is_essential: true,
        },
        Need {
            any_of: &["kmem_mm_page_alloc", "mm_page_alloc"],
            what: "pages of memory",
            option: "-a --preset mem",
            is_essential: false,
        },
        Need {
            any_of: &["*exceptions_page_fault_user", "page_fault_user"],
            what: "page faults",
            option: "--preset mem",
            is_essential: false,
        },
        Need {
            what: "interrupts (what they do is counted with the threads that they interrupt)",
            ..super::INTERRUPTS
        },
    ],
    begin: |options| {
        Box::new(MemTop {
            options: options.clone(),
            threads: PerThread::default(),
            interrupts: Memory::default(),
            unknown: Memory::default(),
        })
    },
};

struct MemTop {
    options: Options,
    threads: PerThread<Memory>,
    /// Of no thread.
    interrupts: Memory,
    unknown: Memory,
}

#[derive(Clone, Copy, Default)]
struct Memory {
    allocated: u64,
    freed: u64,
    user_faults: u64,
    kernel_faults: u64,
}

impl Memory {
    fn add(&mut self, what: Happening) {
        match what {
            Happening::PagesAllocated(pages) => self.allocated += pages,
            Happening::PagesFreed(pages) => self.freed += pages,
            Happening::PageFault { is_kernel: false } => self.user_faults += 1,
            Happening::PageFault { is_kernel: true } => self.kernel_faults += 1,
            _ => {}
        }
    }

    fn merge(&mut self, other: &Memory) {
        self.allocated += other.allocated;
        self.freed += other.freed;
        self.user_faults += other.user_faults;
        self.kernel_faults += other.kernel_faults;
    }

    fn is_nothing(&self) -> bool {
        self.allocated + self.freed + self.user_faults + self.kernel_faults == 0
    }

    fn values(&self) -> [Value; 5] {
        [
            self.allocated.into(),
            self.freed.into(),
            Value::Number(self.allocated.cast_signed() - self.freed.cast_signed()),
            self.user_faults.into(),
            self.kernel_faults.into(),
        ]
    }
}

const COLUMNS: [Column; 5] = [
    column("allocated_pages", "ALLOCATED", Unit::Count).with_bar(),
    column("freed_pages", "FREED", Unit::Count).with_bar(),
    column("net_pages", "NET", Unit::Count),
    column("user_faults", "FAULTS", Unit::Count),
    column("kernel_faults", "KERNEL FAULTS", Unit::Count).minor(),
];

impl Listen for MemTop {
    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {
        let who = &self.options.who;
        if !who.wants_cpu(occurrence.cpu) {
            return;
        }
        let own = match (occurrence.interrupt, occurrence.thread) {
            (None, Some(thread)) if who.wants(system, thread) => self.threads.of(thread),
            (None, Some(_)) => return,
            _ if !who.wants_everybody() => return,
            (Some(_), _) => &mut self.interrupts,
            (None, None) => &mut self.unknown,
        };
        own.add(occurrence.what);
    }
}

impl Analysis for MemTop {
    fn report(&mut self, system: &System) -> Report {
        let columns = [&[TID, PID.minor(), COMM], &COLUMNS[..]].concat();
        let mut threads = Table::new("threads", "Threads, in pages", &columns);
        let mut sum = Memory::default();
        for (id, _) in system.threads() {
            if let Some(own) = self.threads.get(id).filter(|own| !own.is_nothing()) {
                sum.merge(own);
                let mut row = vec![tid(system, id), pid(system, id), comm(system, id)];
                row.extend(own.values());
                threads.row(row);
            }
        }
        threads.sort_by("allocated_pages");
        threads.rows.truncate(self.options.limit.unwrap_or(LIMIT));
        let columns = [&[column("by", "BY", Unit::Text)], &COLUMNS[..]].concat();
        let mut all = Table::new("all", "Memory, in pages", &columns);
        for (by, own) in [
            ("threads", sum),
            ("interrupts", self.interrupts),
            ("unknown", self.unknown),
        ] {
            if !own.is_nothing() {
                let mut row = vec![by.into()];
                row.extend(own.values());
                all.row(row);
            }
        }
        Report {
            tables: vec![all, threads],
            notes: Vec::new(),
        }
    }
}
