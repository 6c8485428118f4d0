// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tracefs instance: rings of its own for each CPU, with events, filters and options of their own. One for each channel.
//!
//! Everything is set so that it can be set again: a setting that is as wanted is not written, because the kernel empties rings when it is.
//! Which events it records is `selection/mod.rs`; what is in its rings comes out of `ring.rs`; how it goes, `instance/removal.rs`.

mod removal;

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::param::page_size;

use crate::cpu_stats::CpuStats;
use crate::instance_name::InstanceName;
use crate::owner::Owner;
use crate::page::PageLayout;
use crate::spec::Loss;
use crate::tracefs::{self, Tracefs, named};
use crate::turn_off::EventName;

/// Only since Linux 6.8.
const SUBBUF_FILE: &str = "buffer_subbuf_size_kb";
const KIB: u64 = 1024;

/// The clock that an instance stamps records with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceClock {
    /// The CPU's counter, as programs read it.
    Tsc,
    /// CLOCK_MONOTONIC, in nanoseconds.
    Monotonic,
}

impl TraceClock {
    /// As tracefs calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tsc => "x86-tsc",
            Self::Monotonic => "mono",
        }
    }
}

/// An instance that is there, and is this owner's.
#[derive(Debug, Clone)]
pub struct Instance {
    folder: PathBuf,
    is_new: bool,
}

impl Instance {
    /// Makes the instance of a channel, with everything off, or takes the one that is there as it is.
    ///
    /// # Errors
    /// The channel's name cannot be a file name, or the kernel makes no instance.
    pub fn create_or_open(tracefs: &Tracefs, owner: &Owner, session: u64, channel: &str) -> io::Result<Self> {
        let owner = owner.id();
        let name = InstanceName {
            owner,
            session,
            channel,
        }
        .text()?;
        let mut instance = Self::at(tracefs, &name);
        match fs::create_dir(&instance.folder) {
            Ok(()) => {
                instance.is_new = true;
                instance
                    .set_on(false)
                    .inspect_err(|_| drop(fs::remove_dir(&instance.folder)))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(named(&error, format!("cannot create {}", instance.folder.display()))),
        }
        Ok(instance)
    }

    pub(crate) fn at(tracefs: &Tracefs, name: &str) -> Self {
        Self {
            folder: tracefs.path("instances").join(name),
            is_new: false,
        }
    }

    /// Whether `create_or_open` made it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its name, which no other instance has.
    pub fn name(&self) -> Cow<'_, str> {
        self.folder.file_name().unwrap_or_default().to_string_lossy()
    }

    /// A file or folder of it.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.folder.join(file)
    }

    /// Whether this kernel's instances have a file.
    pub fn has(&self, file: impl AsRef<Path>) -> bool {
        self.path(file).exists()
    }

    /// The whole text of a file.
    ///
    /// # Errors
    /// The kernel's, with the file's path.
    pub fn read(&self, file: impl AsRef<Path>) -> io::Result<String> {
        tracefs::read(&self.path(file))
    }

    /// Replaces what a file says by one write.
    ///
    /// # Errors
    /// The kernel's, with the file's path and the text.
    pub fn write(&self, file: impl AsRef<Path>, text: &str) -> io::Result<()> {
        tracefs::write(&self.path(file), text)
    }

    /// Adds to what a file says by one write.
    ///
    /// # Errors
    /// The kernel's, with the file's path and the text.
    pub fn append(&self, file: impl AsRef<Path>, text: &str) -> io::Result<()> {
        tracefs::append(&self.path(file), text)
    }

    /// Records, or stops to; what is in the rings stays.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_on(&self, is_on: bool) -> io::Result<()> {
        self.write("tracing_on", if is_on { "1" } else { "0" })
    }

    /// Sets the clock. Empties the rings if it was another.
    ///
    /// # Errors
    /// The kernel has no such clock.
    pub fn set_clock(&self, clock: TraceClock) -> io::Result<()> {
        let clocks = self.read("trace_clock")?;
        let wanted = clock.name();
        if clocks
            .split_whitespace()
            .any(|name| name.strip_prefix('[') == Some(&format!("{wanted}]")))
        {
            return Ok(());
        }
        self.write("trace_clock", wanted)
            .map_err(|error| named(&error, format!("none of the clocks {} is {wanted}", clocks.trim_end())))
    }

    /// Gives each CPU a ring of `subbuf_count` sub-buffers, or of as many bytes where the kernel has sub-buffers of one size only.
    /// Empties the rings if they were others. Returns what is not as asked, as sentences.
    ///
    /// # Errors
    /// The memory cannot be had, or somebody reads the rings.
    pub fn set_ring(&self, loss: Loss, subbuf_bytes: u32, subbuf_count: u32) -> io::Result<Vec<String>> {
        let mut findings = Vec::new();
        let wanted_kib = u64::from(subbuf_bytes) / KIB;
        if self.has(SUBBUF_FILE) && first_number(&self.read(SUBBUF_FILE)?) != Some(wanted_kib) {
            match self.write(SUBBUF_FILE, &wanted_kib.to_string()) {
                // A size that the kernel does not have; it shows below.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                result => result?,
            }
        }
        let given_bytes = self.subbuf_bytes()?;
        let mut count = u64::from(subbuf_count);
        if given_bytes != subbuf_bytes {
            count = (count * u64::from(subbuf_bytes)).div_ceil(u64::from(given_bytes));
            findings.push(format!(
                "the kernel's sub-buffers have {given_bytes} bytes instead of {subbuf_bytes} (only Linux 6.8 and later allows 4 to \
                 512 KiB); each ring has {count} of them"
            ));
        }
        // The kernel counts room for records only, and rounds up to whole sub-buffers.
        let room_bytes = u64::from(given_bytes) - PageLayout::USUAL.header_bytes() as u64;
        let wanted_kib = (count * room_bytes / KIB).max(1);
        if first_number(&self.read("buffer_size_kb")?) != Some(wanted_kib) {
            self.write("buffer_size_kb", &wanted_kib.to_string()).map_err(|error| {
                named(
                    &error,
                    format!("not enough memory for {count} sub-buffers of {given_bytes} bytes for each CPU"),
                )
            })?;
        }
        self.set_if_other("options/overwrite", u64::from(loss == Loss::Overwrite))?;
        if self.has("buffer_percent") {
            self.set_if_other("buffer_percent", one_full_page_percent(count))?;
        }
        Ok(findings)
    }

    /// Has whoever waits for a ring woken by its first event, instead of a full page.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wake_at_once(&self) -> io::Result<()> {
        match self.has("buffer_percent") {
            true => self.write("buffer_percent", "0"),
            false => Ok(()),
        }
    }

    fn set_if_other(&self, file: &str, value: u64) -> io::Result<()> {
        if first_number(&self.read(file)?) == Some(value) {
            return Ok(());
        }
        self.write(file, &value.to_string())
    }

    /// Bytes of a sub-buffer, as the kernel has it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn subbuf_bytes(&self) -> io::Result<u32> {
        if !self.has(SUBBUF_FILE) {
            return Ok(u32::try_from(page_size()).expect("a page is smaller than 4 GiB"));
        }
        let text = self.read(SUBBUF_FILE)?;
        let bytes = first_number(&text).and_then(|kib| u32::try_from(kib * KIB).ok());
        bytes.ok_or_else(|| io::Error::other(format!("{} says {text:?}", self.path(SUBBUF_FILE).display())))
    }

    /// The CPUs that there can ever be, sorted: each has a ring as soon as it was online once, and keeps it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn cpus(&self) -> io::Result<Vec<u32>> {
        let folder = self.path("per_cpu");
        let entries = fs::read_dir(&folder).map_err(|error| named(&error, folder.display()))?;
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
        let mut cpus: Vec<u32> = numbers.collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// What was counted in the ring of a CPU.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stats(&self, cpu: u32) -> io::Result<CpuStats> {
        Ok(CpuStats::parse(&self.read(CpuStats::file(cpu))?))
    }

    /// Group and name of each event that is on.
    pub(crate) fn events_on(&self) -> io::Result<Vec<EventName>> {
        let text = self.read("set_event")?;
        let names = text.lines().filter_map(|line| line.trim().split_once(':'));
        Ok(names
            .map(|(system, name)| (system.to_owned(), name.to_owned()))
            .collect())
    }

    /// Another one of this kernel.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self {
            folder: self.folder.with_file_name(name),
            is_new: false,
        }
    }
}

/// How full a ring is, for the kernel's poll, when one page of it is full and another is being written. Where a ring is too small to say it in
/// percent, any record will do; of more than a hundred sub-buffers, a hundredth has to be full. Kernels before 6.7 do not count the page that is
/// being written: they wait for one more.
fn one_full_page_percent(subbuf_count: u64) -> u64 {
    if subbuf_count < 4 { 0 } else { 100 / subbuf_count + 1 }
}

/// Of what the kernel says in `4095`, in `7 (expanded: 1408)`; it says `X` where CPUs differ.
fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_that_cannot_be_turned_off_is_not_left_behind() {
        let (folder, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join("instances")).unwrap();
        let owner = Owner::claim(run.path()).unwrap();
        // There is no file to turn it off in what only looks like the kernel's.
        Instance::create_or_open(&Tracefs::at(folder.path()), &owner, 1, "test").unwrap_err();
        assert_eq!(fs::read_dir(folder.path().join("instances")).unwrap().count(), 0);
    }
}
