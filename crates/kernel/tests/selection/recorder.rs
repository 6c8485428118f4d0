// SPDX-License-Identifier: MIT OR Apache-2.0
//! An instance of its own for a test, and the records in it.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use piste_kernel::answer::answers;
use piste_kernel::catalog::Catalog;
use piste_kernel::instance::Instance;
use piste_kernel::owner::Owner;
use piste_kernel::page::{Page, PageLayout};
use piste_kernel::selection::{self, Selection};
use piste_kernel::spec::{CallPart, ChannelSpec, EventSource, Loss, Rule, Tracked};
use piste_kernel::tracefs::Tracefs;

use crate::real::skipped;

/// The machine's tracefs and its events.
pub(crate) struct Kernel {
    pub(crate) tracefs: Tracefs,
    owner: Owner,
    _run_folder: tempfile::TempDir,
}

/// Or why its tracing cannot be used.
static KERNEL: LazyLock<Result<Kernel, String>> = LazyLock::new(|| {
    let tracefs = Tracefs::find().map_err(|lack| lack.to_string())?;
    answers(&tracefs).map_err(|lack| lack.to_string())?;
    let run_folder = tempfile::tempdir().expect("a folder");
    let owner = Owner::claim(run_folder.path()).map_err(|error| error.to_string())?;
    Ok(Kernel {
        tracefs,
        owner,
        _run_folder: run_folder,
    })
});

/// The kernel; `None`, and says why, where its tracing cannot be used.
pub(crate) fn kernel() -> Option<&'static Kernel> {
    KERNEL.as_ref().inspect_err(|reason| skipped(*reason)).ok()
}

impl Kernel {
    pub(crate) fn catalog(&self) -> Catalog {
        Catalog::read(&self.tracefs).expect("the catalog")
    }
}

/// An instance that goes when the test ends.
pub(crate) struct Recorder {
    instance: Option<Instance>,
    layout: PageLayout,
}

/// A record of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) cpu: u32,
    pub(crate) ticks: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Record {
    /// Number of its event.
    pub(crate) fn id(&self) -> u16 {
        u16::from_ne_bytes([self.bytes[0], self.bytes[1]])
    }

    /// The thread it happened on.
    pub(crate) fn thread(&self) -> u32 {
        u32::from_ne_bytes(self.bytes[4..8].try_into().expect("four bytes"))
    }
}

impl Recorder {
    pub(crate) fn new(kernel: &Kernel, subbuf_count: u32) -> Recorder {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let session = NEXT.fetch_add(1, Ordering::Relaxed);
        let instance = Instance::create_or_open(&kernel.tracefs, &kernel.owner, session, "test").expect("an instance");
        instance.set_ring(Loss::Discard, 16384, subbuf_count).expect("rings");
        Recorder {
            instance: Some(instance),
            layout: PageLayout::read(&kernel.tracefs).expect("a layout"),
        }
    }

    pub(crate) fn instance(&self) -> &Instance {
        self.instance.as_ref().expect("it is there until dropped")
    }

    /// Applies rules; nothing may be found wrong.
    pub(crate) fn apply(&self, catalog: &Catalog, rules: &[Rule], tracked: &Tracked) {
        assert_eq!(
            self.findings(catalog, rules, tracked),
            <[String; 0]>::default(),
            "{rules:?}"
        );
    }

    pub(crate) fn findings(&self, catalog: &Catalog, rules: &[Rule], tracked: &Tracked) -> Vec<String> {
        let selection = Selection {
            catalog,
            channel: &channel(rules),
            probes: &[],
            tracked,
        };
        selection::apply(self.instance(), &selection)
    }

    /// Takes all records out of the rings, which must have lost none.
    pub(crate) fn records(&self) -> Vec<Record> {
        let instance = self.instance();
        let mut records = Vec::new();
        let mut bytes = vec![0; instance.subbuf_bytes().expect("a size") as usize];
        for cpu in instance.cpus().expect("CPUs") {
            let path = instance.path(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let mut pipe = OpenOptions::new()
                .read(true)
                .custom_flags(nonblocking)
                .open(path)
                .expect("a ring");
            while let Ok(1..) = pipe.read(&mut bytes) {
                let page = Page::parse(&self.layout, &bytes).expect("a page");
                records.extend(page.records().map(|record| Record {
                    cpu,
                    ticks: record.ticks,
                    bytes: record.data.to_vec(),
                }));
            }
            assert_eq!(
                instance.stats(cpu).expect("stats").lost(),
                0,
                "records were lost on CPU {cpu}"
            );
        }
        records.sort_by_key(|record| record.ticks);
        records
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.instance.take().map(Instance::remove) {
            println!("{error}");
        }
    }
}

fn channel(rules: &[Rule]) -> ChannelSpec {
    ChannelSpec {
        memory: None,
        stream_id: 0,
        name: "test".to_owned(),
        loss: Loss::Discard,
        subbuf_bytes: 16384,
        subbuf_count: 16,
        contexts: Vec::new(),
        added_contexts: Vec::new(),
        rules: rules.to_vec(),
    }
}

pub(crate) fn tracepoints(pattern: &str) -> Rule {
    rule(EventSource::Tracepoint {
        pattern: pattern.to_owned(),
    })
}

pub(crate) fn syscalls(pattern: &str) -> Rule {
    rule(EventSource::Syscall {
        part: CallPart::Both,
        pattern: pattern.to_owned(),
    })
}

fn rule(source: EventSource) -> Rule {
    Rule {
        source,
        excluded: Vec::new(),
        filter: None,
        fields: Vec::new(),
        stack: None,
        enabled: true,
    }
}

/// The rule, with a filter.
pub(crate) fn filtered(rule: Rule, filter: &str) -> Rule {
    Rule {
        filter: Some(filter.to_owned()),
        ..rule
    }
}
