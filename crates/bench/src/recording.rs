// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of a loop that is elsewhere: `piste latency` measures what recording an event does to its loop (crates/latency), and this is the
//! tracer beside it. For each measurement, everything is set up anew: the daemon, the session, the process of the loop. The tracer's consumer
//! writes to disk, and events that find no space are discarded and counted.
//!
//! - [`Recorders`]: the tracers of this machine; [`Recorder::measure`]: a measurement
//! - `piste`, `lttng`, `uprobe`: how each tracer is set up, and asked what it recorded

mod lttng;
mod piste;
mod uprobe;

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use piste_reason::reason;

use crate::error::{Absence, Error};
use crate::processes::{Daemon, Patience};
use crate::workshop::Workshop;

/// Between two looks for Ctrl-C.
const LOOK_FOR_INTERRUPTION: Duration = Duration::from_millis(50);
/// For the process to start and to prepare its loop, and for what it takes longer than it was to take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a consumer looks for events if nobody wakes it: pisted's period.
const READ_TIMER: Duration = Duration::from_millis(1);

/// Who records the events of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// Nobody: there is no event.
    None,
    /// Piste.
    Piste,
    /// LTTng-UST.
    Lttng,
    /// The kernel, with a probe at a function.
    Uprobe,
}

impl Tracer {
    /// All of them.
    pub const ALL: [Tracer; 4] = [Tracer::None, Tracer::Piste, Tracer::Lttng, Tracer::Uprobe];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Tracer::None => "none",
            Tracer::Piste => "piste",
            Tracer::Lttng => "lttng",
            Tracer::Uprobe => "uprobe",
        }
    }

    /// Why its events cannot be read like this; `None` if they can.
    pub fn lacks(self, reader: Reader) -> Option<&'static str> {
        let is_lacking = self == Tracer::Piste && reader == Reader::Wake;
        is_lacking.then_some("programs never wake pisted, which looks at their bells every millisecond")
    }
}

/// How the tracer's consumer learns of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It looks every millisecond.
    Timer,
    /// The writer wakes it when a sub-buffer is full.
    Wake,
}

impl Reader {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Reader::Timer => "timer",
            Reader::Wake => "wake",
        }
    }
}

/// Which events of the kernel are recorded beside those of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEvents {
    /// None.
    None,
    /// System calls.
    Syscalls,
    /// All.
    All,
}

impl KernelEvents {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            KernelEvents::None => "none",
            KernelEvents::Syscalls => "syscalls",
            KernelEvents::All => "all",
        }
    }
}

/// The ring of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Of each sub-buffer.
    pub subbuf_bytes: u64,
    /// How many there are.
    pub subbuf_count: u32,
}

/// How a tracer records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How its consumer learns of events.
    pub reader: Reader,
    /// The rings of the loop's events.
    pub rings: Rings,
    /// What else is recorded.
    pub kernel: KernelEvents,
}

/// The process of the loop. It reads a line, answers with a line, and ends when its standard input does; if that is before it answers, it answers early.
pub struct Process<'p> {
    /// The program.
    pub program: &'p Path,
    /// Its arguments.
    pub arguments: &'p [&'p str],
    /// What it is asked, without the end of the line.
    pub request: &'p str,
    /// How long the answer takes at most, once the process is ready; absent: as long as it likes.
    pub duration: Option<Duration>,
}

/// What a tracer has of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Events of the loop in the recording, if they were counted.
    pub recorded: Option<u64>,
    /// Events of the loop that it says it had no space for.
    pub lost: u64,
    /// The same of the kernel's events.
    pub kernel_lost: u64,
}

/// The tracers of this machine, and the folder for everything that is made.
pub struct Recorders {
    workshop: Workshop,
    payload_bytes: u32,
}

/// A tracer that can record.
pub struct Recorder<'w> {
    workshop: &'w Workshop,
    /// What has the event, for the process to load; there is none without a tracer.
    library: Option<PathBuf>,
    setting_up: Box<dyn SettingUp>,
    /// How many measurements there were, of which each has a folder.
    started: Cell<u32>,
    name: &'static str,
}

/// How a tracer is set up.
trait SettingUp {
    /// Why it cannot record like this.
    fn lacks(&self, _setup: &Setup) -> Option<Absence> {
        None
    }
    /// Starts recording, with all files in a folder. What is returned ends everything when it is dropped.
    fn start<'w>(&self, workshop: &'w Workshop, folder: &Path, setup: &Setup) -> Result<Box<dyn Session + 'w>, Error>;
}

/// A tracer that records.
trait Session {
    /// A program whose events are recorded.
    fn command(&self, program: &Path) -> Command;
    /// Ends recording; all events are on disk then. If they are to be counted, the trace is read.
    fn stop(&mut self, counts_events: bool) -> Result<Kept, Error>;
    /// Its CTF trace, complete when recording has ended; absent if it writes none.
    fn trace(&self) -> Option<PathBuf> {
        None
    }
}

impl Recorders {
    /// None is looked for yet. `piste` is the program of the installation that is measured; events have `payload_bytes` bytes of fields.
    ///
    /// # Errors
    /// The temporary folder cannot be written.
    pub fn new(piste: &Path, payload_bytes: u32, interrupted: Arc<AtomicBool>) -> Result<Recorders, Error> {
        Workshop::remove_leftovers();
        let workshop = Workshop::new(piste, &[], Patience::new(interrupted))?;
        Ok(Recorders {
            workshop,
            payload_bytes,
        })
    }

    /// Where traces are written to.
    pub fn folder(&self) -> PathBuf {
        self.workshop.path("")
    }

    /// Finds a tracer and compiles its event.
    ///
    /// # Errors
    /// What is missing.
    pub fn find(&self, tracer: Tracer) -> Result<Recorder<'_>, Absence> {
        let (library, setting_up): (Option<PathBuf>, Box<dyn SettingUp>) = match tracer {
            Tracer::None => (None, Box::new(Nobody)),
            Tracer::Piste => (Some(piste::library(self)?), Box::new(piste::Piste::new(self))),
            Tracer::Lttng => (Some(lttng::library(self)?), Box::new(lttng::Lttng::new(self))),
            Tracer::Uprobe => {
                let probed = uprobe::Uprobe::find(self)?;
                (Some(probed.library.clone()), Box::new(probed))
            }
        };
        Ok(Recorder {
            workshop: &self.workshop,
            library,
            setting_up,
            started: Cell::new(0),
            name: tracer.name(),
        })
    }

    /// The event of the loop.
    fn event(&self) -> &'static str {
        match self.payload_bytes {
            crate::peers::PAYLOAD_BYTES => "bench:plain",
            _ => "bench:payload",
        }
    }

    /// `package` is Debian's with what the event needs.
    fn compile(&self, tracer: Tracer, source: &str, flags: &[String], package: &str) -> Result<PathBuf, Absence> {
        let flags = [flags, &[format!("-DPAYLOAD_BYTES={}", self.payload_bytes)]].concat();
        self.workshop
            .compile_library(&format!("turn-{}.so", tracer.name()), source, &flags, package)
    }
}

impl Recorder<'_> {
    /// What has the event, for the process to load.
    pub fn library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// Why it cannot record like this; `None` if it can.
    pub fn lacks(&self, setup: &Setup) -> Option<Absence> {
        self.setting_up.lacks(setup)
    }

    /// Sets everything up, lets the process answer, and removes everything. `counts_events` is asked with the answer; if it is true and the tracer
    /// writes a CTF trace, `read` gets that, and its error, a sentence without its end, ends the measurement.
    ///
    /// # Errors
    /// Something failed, or Ctrl-C came before the process had started.
    pub fn measure(
        &self,
        setup: &Setup,
        process: &Process<'_>,
        counts_events: impl Fn(&str) -> bool,
        read: &mut dyn FnMut(&Path) -> Result<(), String>,
    ) -> Result<(String, Kept), Error> {
        self.started.set(self.started.get() + 1);
        let folder = Folder::new(self.workshop.path(&format!("{}-{}", self.name, self.started.get())))?;
        let patience = &self.workshop.patience;
        let mut session = self.setting_up.start(self.workshop, &folder.0, setup)?;
        let mut asked = Asked::start(session.command(process.program), process)?;
        let answer = asked.answer(process.duration, patience)?;
        // While the process is there: what its rings still have is not to depend on how a tracer handles those that have ended.
        let counts_events = counts_events(&answer);
        let kept = session.stop(counts_events)?;
        drop(asked);
        if let Some(trace) = session.trace().filter(|_| counts_events) {
            read(&trace).map_err(Error::Failed)?;
        }
        Ok((answer, kept))
    }
}

/// A folder that is removed.
struct Folder(PathBuf);

impl Folder {
    fn new(path: PathBuf) -> Result<Folder, Error> {
        fs::create_dir(&path)
            .map_err(|error| Error::new(format!("cannot create {}: {}", path.display(), reason(&error))))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left goes with the workshop's folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that was asked.
struct Asked {
    daemon: Daemon,
    answers: Receiver<String>,
}

impl Asked {
    fn start(mut command: Command, process: &Process<'_>) -> Result<Asked, Error> {
        command
            .args(process.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut daemon = Daemon::start(&mut command)?;
        let output = daemon.child().stdout.take().expect("it is piped");
        let (to, answers) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(output).read_line(&mut line);
            if read.is_ok_and(|bytes| bytes > 0) {
                let _ = to.send(line);
            }
        });
        let input = daemon.child().stdin.as_mut().expect("it is piped");
        if writeln!(input, "{}", process.request).is_err() {
            return Err(daemon.ended());
        }
        Ok(Asked { daemon, answers })
    }

    fn answer(&mut self, duration: Option<Duration>, patience: &Patience) -> Result<String, Error> {
        let deadline = duration.and_then(|duration| Instant::now().checked_add(duration + PATIENCE));
        loop {
            match self.answers.recv_timeout(LOOK_FOR_INTERRUPTION) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(self.daemon.ended()),
                // Then it answers with what it has.
                Err(RecvTimeoutError::Timeout) if patience.is_interrupted() => {
                    drop(self.daemon.child().stdin.take());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(Error::new("the process of the loop does not answer"));
            }
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.daemon.child().stdin.take());
    }
}

/// No tracer.
struct Nobody;

impl SettingUp for Nobody {
    fn start<'w>(
        &self,
        _workshop: &'w Workshop,
        _folder: &Path,
        _setup: &Setup,
    ) -> Result<Box<dyn Session + 'w>, Error> {
        Ok(Box::new(Nobody))
    }
}

impl Session for Nobody {
    fn command(&self, program: &Path) -> Command {
        Command::new(program)
    }

    fn stop(&mut self, _counts_events: bool) -> Result<Kept, Error> {
        Ok(Kept::default())
    }
}
