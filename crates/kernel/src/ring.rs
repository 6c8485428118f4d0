// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU: takes pages out of the kernel, each once, and loses none when the reader is killed.
//!
//! One `read` of `trace_pipe_raw` takes a page out of the kernel's ring and copies it into a [`SharedBuffer`], and no signal comes between
//! the two: the buffer's memory is there. So at any instant a page is in the kernel, or in the buffer, or both in the buffer and on the disk.
//!
//! ```text
//!   buffer   commit word 0       !=0, no position       !=0, position noted                                   commit word 0
//!   next() ------------->  read  ----> set_position() ----------------------> write the packet and its index ----> done()
//!   killed here:  nothing is missing      write the page        write it unless the output has that packet
//! ```
//!
//! A full page is swapped out of the ring by the kernel without a look at its records, one that is being written is copied record by
//! record; so without `flush` the kernel is asked first whether one is full.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::cpu_stats::CpuStats;
use crate::instance::Instance;
use crate::losses::Losses;
use crate::page::{Lost, PageLayout};
use crate::page_ring::{Hand, PageRing};
use crate::shared_buffer::SharedBuffer;
use crate::tracefs::named;

/// Far more than the text of the counts takes.
const STATS_BYTES_MAX: usize = 1024;

/// The ring of one CPU, and the buffer that its pages go through.
#[derive(Debug)]
pub struct Ring {
    cpu: u32,
    pages: File,
    stats: File,
    hand: Hand,
    discards: bool,
    losses: Losses,
    /// Whether what was told of them is the sum of what pages said, so that the next page's may be added.
    told_by_pages: bool,
}

impl Ring {
    /// Opens the ring of a CPU, also of one that is not online. A page that the last reader took and did not finish is the next one again.
    /// The instance's rings have the form that they keep.
    ///
    /// # Errors
    /// The kernel's; or the buffer is of another size than the sub-buffers.
    pub fn open(instance: &Instance, layout: &PageLayout, cpu: u32, buffer: SharedBuffer) -> io::Result<Self> {
        let (given_bytes, room_bytes) = (instance.subbuf_bytes()? as usize, buffer.page().len());
        if given_bytes != room_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("CPU {cpu}: a sub-buffer has {given_bytes} bytes, but its buffer has {room_bytes}"),
            ));
        }
        let mut hand = Hand::open(layout, buffer);
        if instance.is_new() {
            hand.empty();
        }
        let open = |file: String| {
            let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
            let path = instance.path(file);
            let opened = OpenOptions::new()
                .read(true)
                .custom_flags(flags.cast_signed())
                .open(&path);
            opened.map_err(|error| named(&error, path.display()))
        };
        let overwrites = instance.read("options/overwrite")?.starts_with('1');
        Ok(Self {
            cpu,
            pages: open(format!("per_cpu/cpu{cpu}/trace_pipe_raw"))?,
            stats: open(CpuStats::file(cpu))?,
            hand,
            discards: !overwrites,
            losses: Losses::default(),
            told_by_pages: overwrites,
        })
    }

    /// The CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    fn is_page_full(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.pages, PollFlags::IN)];
        match poll(&mut asked, Some(&Timespec::default())) {
            Ok(_) => Ok(asked[0].revents().contains(PollFlags::IN)),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(self.named(error)),
        }
    }

    fn take(&mut self) -> io::Result<()> {
        self.hand.empty();
        self.hand.buffer.touch();
        match rustix::io::read(&self.pages, self.hand.buffer.page_mut()) {
            // A read of nothing leaves the cleared header.
            Ok(_) => self.hand.look(),
            // NODEV: the CPU was never online and has no ring yet.
            Err(Errno::AGAIN | Errno::INTR | Errno::NODEV) => {}
            Err(error) => return Err(self.named(error)),
        }
        Ok(())
    }

    /// What was counted in this ring.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stats(&self) -> io::Result<CpuStats> {
        let mut text = [0; STATS_BYTES_MAX];
        let bytes = self.stats.read_at(&mut text, 0)?;
        Ok(CpuStats::parse(&String::from_utf8_lossy(&text[..bytes])))
    }

    fn named(&self, error: Errno) -> io::Error {
        named(&error.into(), format!("ring of CPU {}", self.cpu))
    }
}

impl PageRing for Ring {
    fn next(&mut self, flush: bool) -> io::Result<Option<&[u8]>> {
        if !self.hand.has_page() && (flush || self.is_page_full()?) {
            // Whoever asks for the end is told when the counts cannot be read.
            let space_ticks = self.stats().ok().filter(|_| self.discards).map(|stats| stats.now_ticks);
            self.take()?;
            if let (Some(space_ticks), Ok(stats)) = (space_ticks, self.stats()) {
                self.losses.find(stats.lost(), space_ticks);
            }
        }
        Ok(self.hand.page())
    }

    /// A ring that discards does not say the place.
    fn newly_lost(&mut self, lost: Lost) -> io::Result<u64> {
        if self.discards {
            return Ok(self.losses.tell_before(self.hand.begin_ticks()));
        }
        match lost {
            Lost::None if self.told_by_pages => Ok(0),
            Lost::Count(records) if self.told_by_pages => {
                self.losses.tell(records);
                Ok(records)
            }
            _ => self.lost_at_end(),
        }
    }

    fn lost_at_end(&mut self) -> io::Result<u64> {
        let lost = self.stats()?.lost();
        let records = self.losses.tell_rest(lost);
        // The counts may be ahead of the pages, so what those say is part of it from now on.
        self.told_by_pages &= records == 0;
        Ok(records)
    }

    fn set_told(&mut self, lost_records: u64) {
        self.losses.set_told(lost_records);
        self.told_by_pages &= lost_records == 0;
    }

    fn missing(&self) -> u64 {
        self.losses.missing()
    }

    fn untold(&self) -> u64 {
        self.stats().map_or(0, |stats| self.losses.untold(stats.lost()))
    }

    fn left(&self) -> u64 {
        self.stats().map_or(0, |stats| stats.entries)
    }

    fn hand(&self) -> &Hand {
        &self.hand
    }

    fn hand_mut(&mut self) -> &mut Hand {
        &mut self.hand
    }
}

impl AsFd for Ring {
    /// Readable when a page is full: for poll.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pages.as_fd()
    }
}
