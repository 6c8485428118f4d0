// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel says about the memory of processes, in perf events: which code is mapped, and which processes start or become another program.
//!
//! The events could have the build IDs of files. But the kernel then marks the records of all other perf events about the same mapping as if they
//! had them too (up to Linux 6.18 at least), and programs that read those, such as `perf record`, crash or take numbers for build IDs. So build IDs
//! are read from the files (present.rs), and that mark is ignored here, where only other programs can have caused it.

use std::fs;
use std::io;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, ReadFormat, SampleFlag, Sampler};
use piste_mappings::{Change, Line, Mapped};

use super::present::FileId;

/// Of each CPU. As much as perf_event_mlock_kb allows a user by default.
const RING_BYTES: usize = 512 << 10;
/// A process has changed its name because it has become another program.
const COMM_EXEC: u16 = 1 << 13;
/// A mapping, with its file.
const MMAP2: u32 = 10;

/// The mappings that processes make, as the kernel reports them on each CPU.
pub(super) struct Rings(Vec<Ring>);

/// The ring of one CPU.
struct Ring {
    records: Sampler,
    /// How many records had been lost at the last look, because the ring was full.
    lost: u64,
}

impl Rings {
    /// No rings, for a kernel that reports no mappings.
    pub(super) fn none() -> Rings {
        Rings(Vec::new())
    }

    /// Opens a ring on each CPU.
    ///
    /// # Errors
    /// This kernel reports no mappings.
    pub(super) fn open() -> io::Result<Rings> {
        open().map(Rings)
    }

    /// Takes the changes that they have, in no order, each with the file that is mapped.
    pub(super) fn take(&mut self) -> Vec<(Line, FileId)> {
        let mut lines = Vec::new();
        for ring in &mut self.0 {
            while let Some(record) = ring.records.next_record() {
                lines.extend(line(&record));
            }
        }
        lines
    }

    /// Whether records were lost since the last call.
    pub(super) fn have_lost(&mut self) -> bool {
        self.0.iter_mut().fold(false, |any, ring| any | ring.has_lost())
    }

    /// Whether this kernel reports no mappings.
    pub(super) fn are_missing(&self) -> bool {
        self.0.is_empty()
    }
}

fn open() -> io::Result<Vec<Ring>> {
    let mut rings = Vec::new();
    for cpu in 0..cpu_count() {
        // Since 6.0, the kernel counts the records that did not fit into the ring. Records of loss say so as well, but come with the next one that
        // fits.
        match open_ring(cpu, true).or_else(|_| open_ring(cpu, false)) {
            Ok(records) => rings.push(Ring { records, lost: 0 }),
            // It is offline.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

fn open_ring(cpu: usize, counts_lost: bool) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    builder
        .any_pid()
        .one_cpu(cpu)
        .mmap(true)
        .mmap2(true)
        .comm(true)
        .comm_exec(true)
        .task(true)
        .sample_id_all(true)
        .sample(SampleFlag::TIME)
        .clockid(Clock::REALTIME)
        .enabled(true);
    if counts_lost {
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

impl Ring {
    fn has_lost(&mut self) -> bool {
        let read = self.records.as_counter_mut().read_full();
        let lost = read.ok().and_then(|read| read.lost()).unwrap_or(self.lost);
        std::mem::replace(&mut self.lost, lost) < lost
    }
}

/// What a record of the kernel says, if it matters here.
fn line(record: &perf_event::Record<'_>) -> Option<(Line, FileId)> {
    let bytes = record.to_contiguous();
    // The kernel adds the time to every record.
    let time_ns = i64::from_ne_bytes(*bytes.last_chunk()?);
    if record.ty() == MMAP2 {
        let (mapped, file) = mapped(&bytes)?;
        let change = Change::Mapped(mapped);
        return Some((Line { time_ns, change }, file));
    }
    let change = match record.parse_record() {
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
    Some((Line { time_ns, change }, FileId::default()))
}

/// What a record of a mapping says without build IDs, whatever it is marked as: `struct perf_record_mmap2` of the kernel, without its header.
fn mapped(bytes: &[u8]) -> Option<(Mapped, FileId)> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
    let long = |at: usize| bytes.get(at..)?.first_chunk().map(|long| u64::from_ne_bytes(*long));
    let path = bytes.get(64..)?.split(|byte| *byte == 0).next()?;
    let mapped = Mapped {
        pid: word(0)?.cast_signed(),
        path: String::from_utf8_lossy(path).into(),
        address: long(8)?,
        bytes: long(16)?,
        file_offset: long(24)?,
        build_id: String::new(),
    };
    let file = FileId {
        major: word(32)?,
        minor: word(36)?,
        inode: long(40)?,
    };
    Some((mapped, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_is_mapped_and_of_which_file() {
        let mut bytes = Vec::new();
        bytes.extend([7_u32, 8].iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend([0x4000_u64, 0x1000, 0x2000].iter().flat_map(|long| long.to_ne_bytes()));
        bytes.extend([0xfe_u32, 1].iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend([12345_u64, 0].iter().flat_map(|long| long.to_ne_bytes()));
        bytes.extend([5_u32, 2].iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(b"/lib/a b\0\0\0\0\0\0\0\0time....");
        let (mapped, file) = mapped(&bytes).expect("it is whole");
        assert_eq!((mapped.pid, mapped.path.as_str()), (7, "/lib/a b"));
        assert_eq!(
            (mapped.address, mapped.bytes, mapped.file_offset),
            (0x4000, 0x1000, 0x2000)
        );
        assert_eq!((file.major, file.minor, file.inode), (0xfe, 1, 12345));
        assert!(super::mapped(&bytes[..60]).is_none());
    }
}
