// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that keeps the machine busy while something is measured: each kind makes the kernel do other things that may delay a thread. A generator
//! works in a process of its own, on one CPU, until it is told to stop, and counts its turns.
//!
//! Generators have the priority of ordinary programs, as the loads of rteval have: they stand for the programs that run beside the one with deadlines.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use piste_reason::reason;
use rustix::fs::{Advice, fadvise, statvfs};

use crate::cpus;

const MIB: u64 = 1 << 20;
/// What one turn of the memory load copies, where there is room: more than caches hold, and more than the C library would keep for reuse.
const COPY_BYTES: u64 = 33 * MIB;
/// All generators of a kind together use at most this part of the free memory or of the free space.
const PART_OF_FREE: u64 = 4;
/// All files together.
const FILES_BYTES_MAX: u64 = 256 * MIB;
/// What is written at once.
const BLOCK_BYTES: u64 = MIB;
const MESSAGE_BYTES: usize = 64 << 10;
/// Rows and columns of a matrix.
const SIZE: usize = 64;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Multiplies matrices.
    Cpu,
    /// Copies memory into memory that is new each time.
    Memory,
    /// Writes a file, waits until it is on the disk, and reads it from there.
    Disk,
    /// Starts processes.
    Fork,
    /// Sends through the loopback interface.
    Network,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Cpu, Kind::Memory, Kind::Disk, Kind::Fork, Kind::Network];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Memory => "memory",
            Kind::Disk => "disk",
            Kind::Fork => "fork",
            Kind::Network => "network",
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What one generator does.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which kind.
    pub kind: Kind,
    /// How many generators of its kind share what is free.
    pub sharing: u64,
    /// Where files are made.
    pub folder: PathBuf,
}

/// What a generator has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Turns.
    pub loops: u64,
    /// Bytes that were copied, written, or sent; 0 for the others.
    pub bytes: u64,
}

/// Lets this process run on these CPUs only.
///
/// # Errors
/// Why it cannot, as a sentence without its end.
pub fn pin(cpus: &[u32]) -> Result<(), String> {
    cpus::pin(cpus).map_err(|error| format!("cannot run on {}: {}", cpus::named(cpus), reason(&error)))
}

/// Works until `stop` is set; calls `ready` before the first turn.
///
/// # Errors
/// Why it cannot work, as a sentence without its end.
pub fn generate(task: &Task, stop: &AtomicBool, ready: impl FnOnce()) -> Result<Work, String> {
    match task.kind {
        Kind::Cpu => Ok(until(stop, ready, multiplications())),
        Kind::Memory => Ok(until(stop, ready, copies(task))),
        Kind::Disk => {
            let cannot =
                |error: io::Error| format!("cannot write a file in {}: {}", task.folder.display(), reason(&error));
            let mut write = writes(task).map_err(cannot)?;
            try_until(stop, ready, &mut write).map_err(cannot)
        }
        Kind::Fork => {
            let cannot = |error: io::Error| format!("cannot start the program `true`: {}", reason(&error));
            // Before it says that it is ready.
            start_process().map_err(cannot)?;
            try_until(stop, ready, start_process).map_err(cannot)
        }
        Kind::Network => {
            let cannot = |error: io::Error| format!("cannot send through the loopback interface: {}", reason(&error));
            let mut exchange = exchanges().map_err(cannot)?;
            try_until(stop, ready, &mut exchange).map_err(cannot)
        }
    }
}

/// Takes at least one turn. Each says how many bytes it was.
fn try_until(stop: &AtomicBool, ready: impl FnOnce(), mut turn: impl FnMut() -> io::Result<u64>) -> io::Result<Work> {
    ready();
    let mut work = Work::default();
    loop {
        work.bytes += turn()?;
        work.loops += 1;
        // Relaxed: nothing else is said by it.
        if stop.load(Relaxed) {
            return Ok(work);
        }
    }
}

fn until(stop: &AtomicBool, ready: impl FnOnce(), mut turn: impl FnMut() -> u64) -> Work {
    try_until(stop, ready, || Ok(turn())).unwrap_or_default()
}

/// A turn multiplies two matrices.
fn multiplications() -> impl FnMut() -> u64 {
    let filled = |factor: f64| -> Vec<f64> { (0..SIZE * SIZE).map(|index| index as f64 * factor).collect() };
    let (one, other) = (filled(1e-3), filled(1e-4));
    let mut product = vec![0.0; SIZE * SIZE];
    move || {
        let (one, other) = (black_box(&one), black_box(&other));
        for row in 0..SIZE {
            for column in 0..SIZE {
                let terms = (0..SIZE).map(|index| one[row * SIZE + index] * other[index * SIZE + column]);
                product[row * SIZE + column] = terms.sum();
            }
        }
        black_box(&product);
        0
    }
}

/// A turn copies into new memory, which comes page by page, and gives it back.
fn copies(task: &Task) -> impl FnMut() -> u64 {
    let share = available_memory().map_or(COPY_BYTES, |free| free / PART_OF_FREE / 2 / task.sharing.max(1));
    let bytes = share.clamp(MIB, COPY_BYTES) as usize;
    let source = vec![7_u8; bytes];
    move || {
        let copy = black_box(black_box(&source).clone());
        copy.len() as u64
    }
}

/// A turn writes a block, waits until it is on the disk, and reads one from there. The file has no name, so it is gone with the process.
fn writes(task: &Task) -> io::Result<impl FnMut() -> io::Result<u64>> {
    let file: File = tempfile::tempfile_in(&task.folder)?;
    let space = statvfs(&task.folder)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize) / PART_OF_FREE;
    let blocks = (free.min(FILES_BYTES_MAX) / task.sharing.max(1) / BLOCK_BYTES).max(1);
    let mut block = vec![7_u8; BLOCK_BYTES as usize];
    let mut number = 0;
    Ok(move || {
        let begin = number % blocks * BLOCK_BYTES;
        file.write_all_at(&block, begin)?;
        file.sync_data()?;
        // Otherwise it would come from memory.
        fadvise(&file, begin, NonZeroU64::new(BLOCK_BYTES), Advice::DontNeed)?;
        file.read_exact_at(&mut block, begin)?;
        number += 1;
        Ok(BLOCK_BYTES)
    })
}

/// A turn starts a program and waits for its end.
fn start_process() -> io::Result<u64> {
    Command::new("true").stdin(Stdio::null()).status().map(|_| 0)
}

/// A turn sends a message to another thread, which sends it back.
fn exchanges() -> io::Result<impl FnMut() -> io::Result<u64>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    for end in [&here, &there] {
        end.set_nodelay(true)?;
    }
    thread::Builder::new().name("echo".into()).spawn(move || {
        let mut message = vec![0; MESSAGE_BYTES];
        // It ends with the other end.
        while let Ok(count @ 1..) = there.read(&mut message) {
            if there.write_all(&message[..count]).is_err() {
                break;
            }
        }
    })?;
    let mut message = vec![7_u8; MESSAGE_BYTES];
    Ok(move || {
        here.write_all(&message)?;
        here.read_exact(&mut message)?;
        Ok(2 * MESSAGE_BYTES as u64)
    })
}

/// Memory that programs can still have, according to /proc/meminfo.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Whether files in a folder are only in memory, so that writing them reaches no disk.
pub fn is_in_memory(folder: &Path) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    rustix::fs::statfs(folder).is_ok_and(|system| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(system.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_takes_a_turn_before_it_stops() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            let task = Task {
                kind,
                sharing: 64,
                folder: std::env::temp_dir(),
            };
            let mut is_ready = false;
            let work = generate(&task, &AtomicBool::new(true), || is_ready = true);
            let work = work.unwrap_or_else(|why| panic!("{kind:?}: {why}"));
            let has_bytes = [Kind::Memory, Kind::Disk, Kind::Network].contains(&kind);
            assert!(is_ready && work.loops == 1, "{kind:?}: {work:?}");
            assert_eq!(work.bytes > 0, has_bytes, "{kind:?}: {work:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_the_reason() {
        let task = Task {
            kind: Kind::Disk,
            sharing: 1,
            folder: "/no/such".into(),
        };
        let why = generate(&task, &AtomicBool::new(true), || {}).expect_err("there is none");
        assert!(why.starts_with("cannot write a file in /no/such: "), "{why}");
    }
}
