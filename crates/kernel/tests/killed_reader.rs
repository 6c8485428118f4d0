// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reader that is killed at any instant: the next one goes on, and every event is on the disk exactly once. Needs root and tracefs.
//!
//! The reader is this program started again. It writes packets to one file and, when a packet is whole, its end to another: the
//! journal, as a consumer does with stream and index.

mod real;

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use piste_kernel::instance::Instance;
use piste_kernel::page::{Page, PageLayout};
use piste_kernel::page_ring::PageRing;
use piste_kernel::ring::Ring;
use piste_kernel::shared_buffer::Position;
use piste_kernel::spec::Loss;
use real::{Fixture, Marker, numbers, open_ring, run_on};
use rustix::process::{Pid, Signal, kill_process};

const KILLS: u64 = 80;
/// Of the reader with each packet, from 0.
const STEPS: u64 = 6;
const READER_FOLDER: &str = "PISTE_TEST_READER_FOLDER";
/// The step at which the reader kills itself, and after how many times of it; absent for one that lives until it is done.
const READER_DEATH: &str = "PISTE_TEST_READER_DEATH";

#[test]
fn whenever_the_reader_is_killed_each_event_is_read_once() {
    let Some(place) = Fixture::new() else { return };
    for subbuf_bytes in [4096, 65536] {
        let instance = place.instance(Loss::Discard, subbuf_bytes, (16 << 20) / subbuf_bytes);
        let cpus = instance.cpus().unwrap();
        let folder = place.run.path().join(format!("reader_{subbuf_bytes}"));
        fs::create_dir(&folder).unwrap();
        let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (mut whole, mut fruitful) = (0, 0);
        thread::scope(|scope| {
            for cpu in cpus.iter().copied().take(2) {
                let (instance, next, is_over) = (&instance, &next, &is_over);
                scope.spawn(move || write_numbers(instance, cpu, next, is_over));
            }
            for round in 0..KILLS {
                let at_a_step = round % 2 == 0;
                let death = if at_a_step {
                    format!("{} {}", round / 2 % STEPS, 1 + round % 7)
                } else {
                    "none".into()
                };
                let mut reader = start_reader(&place, &folder, &death);
                // At a step, which it comes to as long as numbers are written, or in whatever it does: at its start, in a read, between two.
                if !at_a_step {
                    thread::sleep(Duration::from_micros(1000 + round * 7919 % 20_000));
                    kill_process(Pid::from_child(&reader), Signal::KILL).unwrap();
                }
                let status = reader.wait().unwrap();
                assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
                let on_disk = cpus.iter().map(|&cpu| ends(&folder, cpu).len()).sum();
                fruitful += usize::from(on_disk > whole);
                whole = on_disk;
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let status = start_reader(&place, &folder, "end").wait().unwrap();
        assert!(status.success(), "the last reader: {status}");
        let layout = PageLayout::read(&place.tracefs).unwrap();
        let mut seen: Vec<u64> = Vec::new();
        for &cpu in &cpus {
            assert_eq!(instance.stats(cpu).unwrap().lost(), 0, "the ring is large enough");
            for packet in packets(&folder, cpu) {
                seen.extend(numbers(&Page::parse(&layout, &packet).unwrap()));
            }
        }
        let written = next.into_inner();
        seen.sort_unstable();
        let first_wrong = seen.iter().zip(0..).find(|&(number, expected)| *number != expected);
        assert_eq!((first_wrong, seen.len() as u64), (None, written));
        assert!(
            fruitful > 10,
            "too few readers lived long enough to mean anything: {fruitful}"
        );
        eprintln!(
            "sub-buffers of {subbuf_bytes}: {written} events, {KILLS} kills, {fruitful} of them after some packets"
        );
        instance.remove().unwrap();
    }
}

/// Writes numbers, slowly enough that the ring holds what comes while nobody reads.
fn write_numbers(instance: &Instance, cpu: u32, next: &AtomicU64, is_over: &AtomicBool) {
    run_on(cpu);
    let mut marker = Marker::open(instance);
    while !is_over.load(Ordering::Relaxed) {
        (0..50).for_each(|_| marker.write(next.fetch_add(1, Ordering::Relaxed)));
        thread::sleep(Duration::from_micros(500));
    }
}

fn start_reader(place: &Fixture, folder: &Path, death: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "reader", "--ignored", "--nocapture"])
        .env(READER_FOLDER, folder)
        .env(READER_DEATH, death)
        .env("PISTE_TEST_RUN", place.run.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What is on the disk of a CPU.
fn packets(folder: &Path, cpu: u32) -> Vec<Vec<u8>> {
    let stream = fs::read(stream_file(folder, cpu)).unwrap_or_default();
    let mut begin = 0;
    let ends = ends(folder, cpu);
    ends.iter()
        .map(|&end| {
            let packet = stream[begin..end as usize].to_vec();
            begin = end as usize;
            packet
        })
        .collect()
}

fn ends(folder: &Path, cpu: u32) -> Vec<u64> {
    let journal = fs::read(journal_file(folder, cpu)).unwrap_or_default();
    journal
        .chunks_exact(8)
        .map(|end| u64::from_ne_bytes(end.try_into().unwrap()))
        .collect()
}

fn stream_file(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(format!("stream_{cpu}"))
}

fn journal_file(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(format!("journal_{cpu}"))
}

/// The other process; does nothing where nobody asked for it.
#[test]
#[ignore = "started by the other test"]
fn reader() {
    let Ok(folder) = env::var(READER_FOLDER) else { return };
    let death = env::var(READER_DEATH).unwrap();
    let mut death = Death::parse(&death);
    let tracefs = piste_kernel::tracefs::Tracefs::find().unwrap();
    let owner = piste_kernel::owner::Owner::claim(Path::new(&env::var("PISTE_TEST_RUN").unwrap())).unwrap();
    let instance = Instance::create_or_open(&tracefs, &owner, 1, "test").unwrap();
    let layout = PageLayout::read(&tracefs).unwrap();
    let cpus = instance.cpus().unwrap();
    let folder = Path::new(&folder);
    let mut outputs: Vec<Output> = cpus
        .iter()
        .map(|&cpu| Output::open(folder, &instance, &layout, cpu))
        .collect();
    let mut is_flushing = false;
    loop {
        let mut is_empty = true;
        for output in &mut outputs {
            while output.write_next(is_flushing || death.ends_when_empty, &mut death) {
                is_empty = false;
            }
        }
        if is_empty && death.ends_when_empty {
            return;
        }
        thread::sleep(Duration::from_micros(300));
        is_flushing = !is_flushing;
    }
}

/// One CPU's ring and files.
struct Output {
    ring: Ring,
    stream: File,
    journal: File,
    packets: u64,
    end: u64,
}

impl Output {
    fn open(folder: &Path, instance: &Instance, layout: &PageLayout, cpu: u32) -> Self {
        let ring = open_ring(folder, instance, layout, cpu);
        let open = |path: PathBuf| OpenOptions::new().create(true).append(true).open(path).unwrap();
        let (mut stream, journal) = (open(stream_file(folder, cpu)), open(journal_file(folder, cpu)));
        let ends = ends(folder, cpu);
        let end = ends.last().copied().unwrap_or(0);
        // What is behind the last whole packet, or the last whole entry, was cut off.
        stream.set_len(end).unwrap();
        stream.seek(std::io::SeekFrom::End(0)).unwrap();
        journal.set_len(8 * ends.len() as u64).unwrap();
        let packets = ends.len() as u64;
        let mut output = Self {
            ring,
            stream,
            journal,
            packets,
            end,
        };
        if output.ring.position().is_some_and(|position| position.packet < packets) {
            output.ring.done();
        }
        output
    }

    fn write_next(&mut self, flush: bool, death: &mut Death) -> bool {
        death.step(0);
        let Some(page) = self.ring.next(flush).unwrap() else {
            return false;
        };
        let page = page.to_vec();
        death.step(1);
        self.ring.set_position(Position {
            step: 0,
            packet: self.packets,
        });
        death.step(2);
        let (first, second) = page.split_at(page.len() / 3);
        self.stream.write_all(first).unwrap();
        death.step(3);
        self.stream.write_all(second).unwrap();
        death.step(4);
        self.end += page.len() as u64;
        self.journal.write_all(&self.end.to_ne_bytes()).unwrap();
        death.step(5);
        self.packets += 1;
        self.ring.done();
        true
    }
}

/// When a reader ends.
struct Death {
    ends_when_empty: bool,
    step: Option<u64>,
    times: u64,
}

impl Death {
    fn parse(text: &str) -> Self {
        let (step, times) = text.split_once(' ').unwrap_or((text, "0"));
        Self {
            ends_when_empty: text == "end",
            step: step.parse().ok(),
            times: times.parse().unwrap(),
        }
    }

    fn step(&mut self, step: u64) {
        if self.step == Some(step) {
            self.times -= 1;
            if self.times == 0 {
                kill_process(Pid::from_raw(id().cast_signed()).unwrap(), Signal::KILL).unwrap();
            }
        }
    }
}
