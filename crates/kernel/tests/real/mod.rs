// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real kernel, for tests: instances of their own that go away with the test, and events with a number in each.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use piste_kernel::answer::answers;
use piste_kernel::instance::{Instance, TraceClock};
use piste_kernel::owner::Owner;
use piste_kernel::page::{Page, PageLayout};
use piste_kernel::page_ring::PageRing;
use piste_kernel::ring::Ring;
use piste_kernel::shared_buffer::{RingKey, SharedBuffer};
use piste_kernel::spec::Loss;
use piste_kernel::tracefs::Tracefs;
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::TempDir;

/// The tracing of this machine, if a test can use it; else the test says so and passes.
pub(crate) fn tracefs() -> Option<Tracefs> {
    let found = Tracefs::find().and_then(|tracefs| answers(&tracefs).map(|()| tracefs));
    found.inspect_err(skipped).ok()
}

/// Says why the test that calls it does no more. tools/test counts these lines: one for each test.
pub(crate) fn skipped(reason: &(impl Display + ?Sized)) {
    println!("skipped: {reason}");
}

/// An owner with a run folder, and its instances; all gone with it.
pub(crate) struct Fixture {
    pub(crate) tracefs: Tracefs,
    pub(crate) run: TempDir,
    pub(crate) owner: Owner,
}

impl Fixture {
    /// None where the kernel cannot be traced.
    pub(crate) fn new() -> Option<Self> {
        let tracefs = tracefs()?;
        let run = tempfile::Builder::new()
            .prefix("piste-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let owner = Owner::claim(run.path()).unwrap();
        Some(Self { tracefs, run, owner })
    }

    /// An instance that records nothing but what is written to its marker.
    pub(crate) fn instance(&self, loss: Loss, subbuf_bytes: u32, subbuf_count: u32) -> Instance {
        let instance = Instance::create_or_open(&self.tracefs, &self.owner, 1, "test").unwrap();
        let findings = instance.set_ring(loss, subbuf_bytes, subbuf_count).unwrap();
        for finding in findings {
            eprintln!("{finding}");
        }
        instance.set_clock(TraceClock::Monotonic).unwrap();
        instance.set_on(true).unwrap();
        instance
    }

    /// The ring of a CPU, with its buffer in the run folder.
    pub(crate) fn ring(&self, instance: &Instance, cpu: u32) -> Ring {
        open_ring(
            self.run.path(),
            instance,
            &PageLayout::read(&self.tracefs).unwrap(),
            cpu,
        )
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for (session, channel) in self.owner.instances(&self.tracefs).unwrap() {
            let instance = Instance::create_or_open(&self.tracefs, &self.owner, session, &channel).unwrap();
            instance.remove().unwrap();
        }
        // The lock file: nobody can find an owner whose run folder is gone.
        std::fs::remove_file(Path::new("/run/piste-owners").join(self.owner.id())).unwrap();
    }
}

/// The ring of a CPU, with its buffer in a folder.
pub(crate) fn open_ring(folder: &Path, instance: &Instance, layout: &PageLayout, cpu: u32) -> Ring {
    let key = RingKey {
        session: 1,
        stream_id: 0,
        cpu,
    };
    let buffer = SharedBuffer::open(
        &folder.join(format!("buffer_{cpu}")),
        key,
        instance.subbuf_bytes().unwrap(),
    )
    .unwrap();
    Ring::open(instance, layout, cpu, buffer).unwrap()
}

/// Writes numbers as events.
pub(crate) struct Marker(File);

impl Marker {
    pub(crate) fn open(instance: &Instance) -> Self {
        Self(
            OpenOptions::new()
                .write(true)
                .open(instance.path("trace_marker"))
                .unwrap(),
        )
    }

    /// One event, also where the ring has no room for it.
    pub(crate) fn write(&mut self, number: u64) {
        let text = format!("number {number:012}");
        let written = self.0.write(text.as_bytes());
        assert!(matches!(written, Ok(19)) || written.is_err_and(|error| error.raw_os_error() == Some(libc_ebadf())));
    }
}

/// What the kernel says to a write that it has no room for.
fn libc_ebadf() -> i32 {
    rustix::io::Errno::BADF.raw_os_error()
}

/// The numbers in a page, in its order.
pub(crate) fn numbers(page: &Page<'_>) -> Vec<u64> {
    let mut records = page.records();
    let found = records.by_ref().filter_map(|record| number(record.data)).collect();
    assert_eq!(records.damage(), None);
    found
}

/// The number of an event that a [`Marker`] wrote.
pub(crate) fn number(record: &[u8]) -> Option<u64> {
    // Behind fields whose number differs from kernel to kernel.
    const PREFIX: &[u8] = b"number ";
    let from = record.windows(PREFIX.len()).position(|bytes| bytes == PREFIX)?;
    let text = record.get(from + PREFIX.len()..)?.get(..12)?;
    str::from_utf8(text).ok()?.parse().ok()
}

/// Runs on one CPU from now on.
pub(crate) fn run_on(cpu: u32) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu as usize);
    sched_setaffinity(None, &cpus).unwrap();
}

/// All pages that there are, read to the end: what `each` makes of them.
pub(crate) fn drain<T>(ring: &mut Ring, layout: &PageLayout, mut each: impl FnMut(&Page<'_>) -> T) -> Vec<T> {
    let mut made = Vec::new();
    while let Some(bytes) = ring.next(true).unwrap() {
        made.push(each(&Page::parse(layout, bytes).unwrap()));
        ring.done();
    }
    made
}
