// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long it takes to make an event of a record, on pages that the kernel really recorded: `cargo run --release --example convert_speed`.
//! Needs root and tracefs. The best of many rounds counts: other work on the machine only adds.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, LivingThreads};
use piste_kernel::instance::{Instance, TraceClock};
use piste_kernel::layout::Layout;
use piste_kernel::owner::Owner;
use piste_kernel::page::{Page, PageLayout};
use piste_kernel::page_ring::PageRing;
use piste_kernel::ring::Ring;
use piste_kernel::shared_buffer::{RingKey, SharedBuffer};
use piste_kernel::spec::{CallPart, ChannelSpec, Context, EventSource, Loss, Rule};
use piste_kernel::tracefs::Tracefs;

const SUBBUF_BYTES: u32 = 65536;
const SUBBUF_COUNT: u32 = 64;
const ROUNDS: usize = 200;

fn main() {
    let tracefs = match Tracefs::find() {
        Ok(tracefs) => tracefs,
        Err(lack) => return println!("skipped: {lack}"),
    };
    let run = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let owner = Owner::claim(run.path()).expect("an owner");
    let instance = Instance::create_or_open(&tracefs, &owner, 1, "speed").expect("an instance");
    let catalog = Arc::new(Catalog::read(&tracefs).expect("events"));
    let layout = Arc::new(Layout::new(catalog.names()));
    instance.set_clock(TraceClock::Tsc).expect("the clock");
    println!(
        "{:24} {:>9} {:>12} {:>13} {:>13}",
        "events", "records", "walk, ns", "convert, ns", "bytes/event"
    );
    for (name, events, work) in [
        ("sched_switch", "sched/sched_switch", switches as fn()),
        ("syscalls, entry", "raw_syscalls/sys_enter", calls),
        ("syscalls, exit", "raw_syscalls/sys_exit", calls),
        ("syscalls, both", "raw_syscalls", calls),
        ("sched, all", "sched", switches),
    ] {
        instance
            .set_ring(Loss::Discard, SUBBUF_BYTES, SUBBUF_COUNT)
            .expect("rings");
        let pages = record(&tracefs, &instance, run.path(), events, work);
        let mut converter = Converter::new(
            Arc::clone(&catalog),
            Arc::clone(&layout),
            &channel(),
            &[],
            Box::new(LivingThreads::default()),
        );
        measure(name, &tracefs, &pages, &mut converter);
    }
    instance.remove().expect("nobody else has it");
    let _ = std::fs::remove_file(std::path::Path::new("/run/piste-owners").join(owner.id()));
}

fn measure(name: &str, tracefs: &Tracefs, pages: &[Vec<u8>], converter: &mut Converter) {
    let page_layout = PageLayout::read(tracefs).expect("a known form of pages");
    let mut packet = Vec::new();
    let (mut walk, mut convert) = (Duration::MAX, Duration::MAX);
    let (mut records, mut events, mut bytes) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        records = 0;
        for page in pages {
            let page = Page::parse(&page_layout, page).expect("a page");
            let ids = page.records().map(|record| u64::from(record.data[0]));
            records += ids.fold(0, |count, id| count + 1 + std::hint::black_box(id & 1 << 9));
        }
        walk = walk.min(start.elapsed());
        let start = Instant::now();
        (events, bytes) = (0, 0);
        for page in pages {
            packet.clear();
            let page = Page::parse(&page_layout, page).expect("a page");
            events += converter.page(&page, 0, &mut packet).events;
            bytes += packet.len();
        }
        convert = convert.min(start.elapsed());
    }
    let each = |duration: Duration| duration.as_secs_f64() * 1e9 / records as f64;
    println!(
        "{name:24} {records:9} {:12.1} {:13.1} {:13.1}",
        each(walk),
        each(convert),
        bytes as f64 / events as f64
    );
}

/// The pages of CPU 0 while `work` is done on it.
fn record(tracefs: &Tracefs, instance: &Instance, run: &std::path::Path, events: &str, work: fn()) -> Vec<Vec<u8>> {
    let key = RingKey {
        session: 1,
        stream_id: 0,
        cpu: 0,
    };
    let buffer = SharedBuffer::open(&run.join("buffer"), key, SUBBUF_BYTES).expect("a buffer");
    let layout = PageLayout::read(tracefs).expect("a known form of pages");
    let mut ring = Ring::open(instance, &layout, 0, buffer).expect("the ring of CPU 0");
    let enable = format!("events/{events}/enable");
    instance.write(&enable, "1").expect("events that every kernel has");
    instance.set_on(true).expect("an instance");
    work();
    instance.set_on(false).expect("an instance");
    instance.write(&enable, "0").expect("events that every kernel has");
    let mut pages = Vec::new();
    while let Some(page) = ring.next(true).expect("a page") {
        pages.push(page.to_vec());
        ring.done();
    }
    pages
}

/// Two threads of one CPU wake each other.
fn switches() {
    let (mut one, mut other) = UnixStream::pair().expect("sockets");
    let echo = thread::spawn(move || {
        on_first_cpu();
        let mut byte = [0];
        while other.read(&mut byte).is_ok_and(|bytes| bytes == 1) {
            let _ = other.write_all(&byte);
        }
    });
    let here = thread::spawn(move || {
        on_first_cpu();
        for _ in 0..20_000 {
            one.write_all(&[1]).expect("the other one reads");
            one.read_exact(&mut [0]).expect("the other one writes");
        }
    });
    here.join().expect("it ends");
    echo.join().expect("it ends");
}

/// One thread calls the kernel for little things.
fn calls() {
    let here = thread::spawn(|| {
        on_first_cpu();
        let mut zero = std::fs::File::open("/dev/zero").expect("a file that Linux has");
        for _ in 0..30_000 {
            let _ = zero.read(&mut [0; 8]);
            let _ = rustix::process::getppid();
        }
    });
    here.join().expect("it ends");
}

fn on_first_cpu() {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(0);
    rustix::thread::sched_setaffinity(None, &cpus).expect("CPU 0 is there");
}

fn channel() -> ChannelSpec {
    let rule = |source| Rule {
        source,
        excluded: Vec::new(),
        filter: None,
        fields: Vec::new(),
        stack: None,
        enabled: true,
    };
    let pattern = || "*".to_owned();
    ChannelSpec {
        memory: None,
        stream_id: 0,
        name: "speed".into(),
        loss: Loss::Discard,
        subbuf_bytes: SUBBUF_BYTES,
        subbuf_count: SUBBUF_COUNT,
        contexts: vec![Context::Tid],
        added_contexts: Vec::new(),
        rules: vec![
            rule(EventSource::Tracepoint { pattern: pattern() }),
            rule(EventSource::Syscall {
                pattern: pattern(),
                part: CallPart::Both,
            }),
        ],
    }
}
