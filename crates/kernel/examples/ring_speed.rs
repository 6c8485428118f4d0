// SPDX-License-Identifier: MIT OR Apache-2.0
//! What reading a ring costs: nanoseconds of CPU time for each event, by size of sub-buffers. Needs root and tracefs.
//!
//! ```text
//! cargo run --release -p piste-kernel --example ring_speed [ROUNDS]
//! ```
//!
//! Expected: taking a page out is a swap in the kernel, a copy of its bytes at about 0.1 ns each, and two system calls; the walk is
//! a load and two branches a record. Events are `sys_enter` of this process, large and frequent: 64 bytes of data.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::{env, fs};

use piste_kernel::answer::answers;
use piste_kernel::instance::{Instance, TraceClock};
use piste_kernel::owner::Owner;
use piste_kernel::page::{Page, PageLayout};
use piste_kernel::page_ring::PageRing;
use piste_kernel::ring::Ring;
use piste_kernel::shared_buffer::{RingKey, SharedBuffer};
use piste_kernel::spec::Loss;
use piste_kernel::tracefs::Tracefs;
use rustix::process::{getpid, getppid};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

const CPU: u32 = 0;
const RING_BYTES: u32 = 16 << 20;
/// More than an event takes, so that a round fits into the ring.
const EVENT_BYTES_MAX: u32 = 80;
const SWITCH: &str = "events/raw_syscalls/sys_enter/enable";

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let tracefs = Tracefs::find()?;
    answers(&tracefs)?;
    let mut cpus = CpuSet::new();
    cpus.set(CPU as usize);
    sched_setaffinity(None, &cpus)?;
    let run = tempfile::tempdir_in("/dev/shm")?;
    let owner = Owner::claim(run.path())?;
    println!("                                ns of CPU time");
    println!("sub-buffer  events bytes/event  page taken  event read  event walked  event, sum");
    for subbuf_bytes in [4096, 16384, 65536, 262_144, 524_288] {
        let instance = Instance::create_or_open(&tracefs, &owner, u64::from(subbuf_bytes), "ring_speed")?;
        let costs = measure(&tracefs, &instance, run.path(), subbuf_bytes, rounds);
        instance.remove()?;
        println!("{subbuf_bytes:>10} {}", costs?.line());
    }
    fs::remove_file(format!("/run/piste-owners/{}", owner.id()))?;
    Ok(())
}

fn measure(
    tracefs: &Tracefs,
    instance: &Instance,
    run: &Path,
    subbuf_bytes: u32,
    rounds: u32,
) -> Result<Costs, Box<dyn Error>> {
    for finding in instance.set_ring(Loss::Discard, subbuf_bytes, RING_BYTES / subbuf_bytes)? {
        eprintln!("{finding}");
    }
    instance.set_clock(TraceClock::Monotonic)?;
    instance.write("set_event_pid", &getpid().as_raw_pid().to_string())?;
    let layout = PageLayout::read(tracefs)?;
    let key = RingKey {
        session: 0,
        stream_id: 0,
        cpu: CPU,
    };
    let buffer = SharedBuffer::open(&run.join(subbuf_bytes.to_string()), key, instance.subbuf_bytes()?)?;
    let mut ring = Ring::open(instance, &layout, CPU, buffer)?;
    let mut costs = Costs::default();
    for _ in 0..rounds {
        instance.set_on(true)?;
        instance.write(SWITCH, "1")?;
        for _ in 0..RING_BYTES / EVENT_BYTES_MAX {
            black_box(getppid());
        }
        instance.write(SWITCH, "0")?;
        instance.set_on(false)?;
        costs.read_full_pages(&mut ring, &layout)?;
        while ring.next(true)?.is_some() {
            ring.done();
        }
    }
    if ring.lost_at_end()? > 0 {
        return Err("the ring was too small".into());
    }
    Ok(costs)
}

#[derive(Default)]
struct Costs {
    pages: u64,
    events: u64,
    bytes: u64,
    read_ns: u64,
    walk_ns: u64,
}

impl Costs {
    fn read_full_pages(&mut self, ring: &mut Ring, layout: &PageLayout) -> Result<(), Box<dyn Error>> {
        let clock_ns = clock_ns();
        let mut begun = cpu_ns();
        while let Some(bytes) = ring.next(false)? {
            let taken = cpu_ns();
            let page = Page::parse(layout, bytes)?;
            let mut records = page.records();
            let (mut seen, mut count) = (0, 0);
            for record in records.by_ref() {
                // What whoever converts it looks at first: when, and which event.
                seen ^= record.ticks
                    ^ record
                        .data
                        .first_chunk()
                        .map_or(0, |id| u64::from(u16::from_ne_bytes(*id)));
                count += 1;
            }
            black_box(seen);
            let walked = cpu_ns();
            if let Some(damage) = records.damage() {
                return Err(damage.into());
            }
            self.pages += 1;
            self.events += count;
            self.bytes += page.record_bytes() as u64;
            self.read_ns += taken.saturating_sub(begun + clock_ns);
            self.walk_ns += walked.saturating_sub(taken + clock_ns);
            begun = cpu_ns();
            ring.done();
        }
        Ok(())
    }

    fn line(&self) -> String {
        let for_each = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        let (read, walk) = (for_each(self.read_ns, self.events), for_each(self.walk_ns, self.events));
        format!(
            "{:>7} {:>11.1} {:>11.0} {read:>11.1} {walk:>13.1} {:>11.1}",
            self.events,
            for_each(self.bytes, self.events),
            for_each(self.read_ns, self.pages),
            read + walk
        )
    }
}

/// What asking for the time takes: a page of 4 KiB is walked in less.
fn clock_ns() -> u64 {
    const CALLS: u64 = 1000;
    let begun = cpu_ns();
    (0..CALLS).for_each(|_| _ = cpu_ns());
    (cpu_ns() - begun) / CALLS
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}
