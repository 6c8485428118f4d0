// SPDX-License-Identifier: MIT OR Apache-2.0
//! A probe at the function that a turn calls, recorded by a tracefs instance whose pages a thread writes to a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use piste_kernel::cpu_stats::CpuStats;
use piste_kernel::probe::{ProbePlaceKind, places};
use piste_kernel::tracefs::Tracefs;
use piste_reason::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::{Kept, KernelEvents, READ_TIMER, Reader, Recorders, Session, SettingUp, Setup, Tracer};
use crate::error::{Absence, Error};
use crate::instance::{Instance, Place, remove_leftovers};
use crate::peers::{PAYLOAD_BYTES, PROBED_ARGUMENT};
use crate::workshop::{C_LIBRARY, Workshop};

const FUNCTION: &str = "piste_bench_turn";
/// A consumer that nobody wakes looks whether it is to end.
const WAKE_PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Read at once: a page of the ring, or a sub-buffer of several.
const READ_BYTES: usize = 64 << 10;

pub(super) struct Uprobe {
    tracefs: Tracefs,
    pub(super) library: PathBuf,
    offset: u64,
}

impl Uprobe {
    pub(super) fn find(recorders: &Recorders) -> Result<Uprobe, Absence> {
        if recorders.payload_bytes != PAYLOAD_BYTES {
            return Err(Absence::for_good(format!(
                "its event has the argument of a function, {PAYLOAD_BYTES} bytes, not {}",
                recorders.payload_bytes
            )));
        }
        let tracefs = recorders.workshop.tracefs()?;
        remove_leftovers(&tracefs);
        let library = recorders.compile(
            Tracer::Uprobe,
            "turn-probed.c",
            &["-fno-omit-frame-pointer".to_owned()],
            C_LIBRARY,
        )?;
        let found = places(&library, ProbePlaceKind::Symbol, Some(FUNCTION)).unwrap_or_default();
        let [place] = &found[..] else {
            return Err(Absence::for_good(format!(
                "the compiled library has no function {FUNCTION}"
            )));
        };
        Ok(Uprobe {
            tracefs,
            offset: place.offset,
            library,
        })
    }
}

impl SettingUp for Uprobe {
    fn start<'w>(&self, _workshop: &'w Workshop, folder: &Path, setup: &Setup) -> Result<Box<dyn Session + 'w>, Error> {
        let mut turns = Consumed::start(&self.tracefs, "turns", folder, setup)?;
        let place = Place {
            file: &self.library,
            offset: self.offset,
            arguments: PROBED_ARGUMENT,
        };
        let probe = turns.instance.add_probe("turn", &place)?;
        let kernel = match setup.kernel {
            KernelEvents::None => None,
            _ => Some(Consumed::start(&self.tracefs, "kernel", folder, setup)?),
        };
        match (&kernel, setup.kernel) {
            (Some(kernel), KernelEvents::Syscalls) => kernel.instance.enable("raw_syscalls")?,
            (Some(kernel), _) => {
                kernel.instance.write("events/enable", "1")?;
                // Enabled with all others; it has an instance of its own.
                kernel.instance.write(&format!("events/{probe}/enable"), "0")?;
            }
            (None, _) => {}
        }
        turns.instance.enable(&probe)?;
        Ok(Box::new(Recording { turns, kernel }))
    }
}

struct Recording {
    turns: Consumed,
    kernel: Option<Consumed>,
}

impl Session for Recording {
    fn command(&self, program: &Path) -> Command {
        Command::new(program)
    }

    fn stop(&mut self, _counts_events: bool) -> Result<Kept, Error> {
        let (recorded, lost) = self.turns.stop()?;
        let (_, kernel_lost) = self.kernel.as_mut().map_or(Ok((0, 0)), Consumed::stop)?;
        Ok(Kept {
            recorded: Some(recorded),
            lost,
            kernel_lost,
        })
    }
}

/// An instance, and the thread that writes its pages to a file. The thread ends before the instance does.
struct Consumed {
    consumer: Option<JoinHandle<io::Result<()>>>,
    stop: Arc<AtomicBool>,
    instance: Instance,
}

impl Consumed {
    fn start(tracefs: &Tracefs, name: &str, folder: &Path, setup: &Setup) -> Result<Consumed, Error> {
        let instance = Instance::new(tracefs)?;
        instance.write("options/overwrite", "0")?;
        let ring_bytes = setup.rings.subbuf_bytes * u64::from(setup.rings.subbuf_count);
        instance.write("buffer_size_kb", &ring_bytes.div_ceil(1024).to_string())?;
        // The kernel's sub-buffers are pages, so it wakes its reader when as much of the ring is full as others have in a sub-buffer.
        let percent = (100 / setup.rings.subbuf_count).max(1);
        instance.write("buffer_percent", &percent.to_string())?;
        let open = || -> io::Result<(Vec<File>, File)> {
            let mut pages = Vec::new();
            for cpu in fs::read_dir(instance.path("per_cpu"))? {
                let mut options = OpenOptions::new();
                options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
                pages.push(options.open(cpu?.path().join("trace_pipe_raw"))?);
            }
            Ok((pages, File::create(folder.join(name))?))
        };
        let (pages, file) = open().map_err(|error| cannot_record(&error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (reader, of_thread) = (setup.reader, Arc::clone(&stop));
        let consumer = thread::Builder::new()
            .name("consumer".into())
            .spawn(move || consume(&pages, file, reader, &of_thread))
            .map_err(|error| cannot_record(&error))?;
        Ok(Consumed {
            consumer: Some(consumer),
            stop,
            instance,
        })
    }

    /// Ends recording; how many events were recorded and lost.
    fn stop(&mut self) -> Result<(u64, u64), Error> {
        self.instance.write("tracing_on", "0")?;
        self.end().map_err(|error| cannot_record(&error))?;
        let sum = |(recorded, lost): (u64, u64), stats: CpuStats| {
            (recorded + stats.entries + stats.read, lost + stats.lost())
        };
        Ok(self.instance.stats().fold((0, 0), sum))
    }

    fn end(&mut self) -> io::Result<()> {
        // Relaxed: what the ring has is in the kernel.
        self.stop.store(true, Relaxed);
        let consumer = self.consumer.take();
        consumer.map_or(Ok(()), |consumer| consumer.join().expect("reading does not panic"))
    }
}

impl Drop for Consumed {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn cannot_record(error: &io::Error) -> Error {
    Error::new(format!("cannot record the probe: {}", reason(error)))
}

/// Writes pages to a file, until it is to stop and there are no more.
fn consume(pages: &[File], mut file: File, reader: Reader, stop: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        // Before the pages are read, so that those that were there are read.
        let is_last = stop.load(Relaxed);
        for mut of_cpu in pages {
            loop {
                match of_cpu.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(bytes) => file.write_all(&buffer[..bytes])?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if is_last {
            return Ok(());
        }
        match reader {
            Reader::Timer => thread::sleep(READ_TIMER),
            Reader::Wake => wait_for(pages)?,
        }
    }
}

/// Until the kernel wakes it, or it is time to look whether it is to end.
fn wait_for(pages: &[File]) -> io::Result<()> {
    let mut polled: Vec<PollFd<'_>> = pages.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&WAKE_PATIENCE)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
