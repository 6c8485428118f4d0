// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel says about the memory of processes, in perf events: which code is mapped, and which processes start or become another program.

use std::fs;
use std::io;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, ReadFormat, SampleFlag, Sampler};
use piste_mappings::{Change, Line, Mapped};

use super::digits;

/// Of each CPU.
const RING_BYTES: usize = 64 << 10;
/// A process has changed its name because it has become another program.
const COMM_EXEC: u16 = 1 << 13;

/// A ring of each CPU, with the changes of all processes.
pub(super) struct Rings(Vec<Sampler>);

impl Rings {
    /// None: the kernel does not tell.
    pub(super) fn none() -> Rings {
        Rings(Vec::new())
    }

    /// Opens them.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(super) fn open() -> io::Result<Rings> {
        open().map(Rings)
    }

    /// Takes the changes that they have, in no order.
    pub(super) fn take(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        for ring in &mut self.0 {
            while let Some(record) = ring.next_record() {
                lines.extend(line(&record));
            }
        }
        lines
    }

    /// Whether some had no room.
    pub(super) fn have_lost(&mut self) -> bool {
        self.0.iter_mut().any(has_lost)
    }
}

fn open() -> io::Result<Vec<Sampler>> {
    let mut rings = Vec::new();
    for cpu in 0..cpu_count() {
        let mut ring = Err(io::ErrorKind::Unsupported.into());
        for offered in OFFERED {
            ring = ring.or_else(|_| open_ring(cpu, offered));
        }
        match ring {
            Ok(ring) => rings.push(ring),
            // It is offline.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

/// What only newer kernels offer.
#[derive(Clone, Copy)]
struct Offer {
    /// Since 5.12.
    build_ids: bool,
    /// Since 6.0: how many records did not fit into the ring. Records of loss say so as well, but come with the next record that fits.
    lost: bool,
}

/// The newest first.
const OFFERED: [Offer; 3] = [
    Offer {
        build_ids: true,
        lost: true,
    },
    Offer {
        build_ids: true,
        lost: false,
    },
    Offer {
        build_ids: false,
        lost: false,
    },
];

fn open_ring(cpu: usize, offered: Offer) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    builder
        .any_pid()
        .one_cpu(cpu)
        .mmap(true)
        .mmap2(true)
        .build_id(offered.build_ids)
        .comm(true)
        .comm_exec(true)
        .task(true)
        .sample_id_all(true)
        .sample(SampleFlag::TIME)
        .clockid(Clock::REALTIME)
        .enabled(true);
    if offered.lost {
        builder.read_format(ReadFormat::LOST);
    }
    builder.build()?.sampled(RING_BYTES)
}

/// How many CPUs there may be: the last number of `0-7`.
fn cpu_count() -> usize {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok());
    last.map_or(1, |last: usize| last + 1)
}

fn has_lost(ring: &mut Sampler) -> bool {
    let read = ring.as_counter_mut().read_full();
    read.is_ok_and(|read| read.lost().is_some_and(|lost| lost > 0))
}

/// What a record of the kernel says, if it matters here.
fn line(record: &perf_event::Record<'_>) -> Option<Line> {
    let bytes = record.to_contiguous();
    // The kernel adds the time to every record.
    let time_ns = i64::from_ne_bytes(*bytes.last_chunk()?);
    let change = match record.parse_record() {
        Ok(Record::Mmap2(mapped)) => Change::Mapped(Mapped {
            pid: mapped.pid.cast_signed(),
            path: String::from_utf8_lossy(&mapped.filename).into(),
            address: mapped.addr,
            bytes: mapped.len,
            file_offset: mapped.pgoff,
            build_id: digits(mapped.build_id().unwrap_or_default()),
        }),
        Ok(Record::Comm(comm)) if record.misc() & COMM_EXEC != 0 => Change::Executed {
            pid: comm.pid.cast_signed(),
        },
        Ok(Record::Fork(fork)) if fork.pid != fork.ppid => Change::Forked {
            pid: fork.pid.cast_signed(),
            parent_pid: fork.ppid.cast_signed(),
        },
        Ok(Record::Lost(_)) | Err(_) => Change::Lost,
        Ok(_) => return None,
    };
    Some(Line { time_ns, change })
}
