// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency that the kernel measures itself, with its tracers (Linux 5.14 and newer, where it was built with them):
//!
//! - `timerlat` wakes a thread of the kernel on each CPU, and writes how late the timer's interrupt and then the thread came
//! - `osnoise` runs a thread of the kernel on each CPU, and writes how much of its time something else took, and how often what
//!
//! The tracer runs in an instance of tracefs of its own, so it disturbs no other tracing. `parse` reads what it writes.

mod parse;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use piste_reason::reason;

use self::parse::Context;
pub use self::parse::Noise;
use crate::cpus::{list, named};
use crate::tally::Tally;

/// Between two looks at what the kernel has written, which it keeps for much longer.
const PAUSE: Duration = Duration::from_millis(20);

/// Which tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// Latency of timers.
    Timerlat,
    /// Time that is taken from a thread.
    Osnoise,
}

impl Tracer {
    /// As the kernel names it.
    pub fn name(self) -> &'static str {
        match self {
            Tracer::Timerlat => "timerlat",
            Tracer::Osnoise => "osnoise",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Tracer::Timerlat => "CONFIG_TIMERLAT_TRACER",
            Tracer::Osnoise => "CONFIG_OSNOISE_TRACER",
        }
    }
}

/// Why the kernel does not measure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such tracer.
    #[error(
        "this kernel has no tracer `{}`; boot one that is built with {}, such as Debian 13's, or measure from user space with `piste latency timer` or `npt`",
        tracer.name(),
        tracer.option()
    )]
    NoTracer {
        /// Which tracer.
        tracer: Tracer,
    },
    /// Another tracing has it.
    #[error(
        "cannot measure on {}: the tracer already runs in another instance of tracefs, as rtla's commands do; end it first",
        named(cpus)
    )]
    InUse {
        /// On these CPUs.
        cpus: Vec<u32>,
    },
    /// The system refuses.
    #[error(
        "cannot use {path:?}: {}; run piste as root, with tracefs mounted: `mount -t tracefs tracefs /sys/kernel/tracing`",
        reason(source)
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

fn refused(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}

/// When it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Measurements of each CPU at most.
    pub(crate) loops: u64,
    pub(crate) duration: Duration,
    /// Measurements of each CPU that are not counted, at the beginning.
    pub(crate) warm_up: u64,
}

/// What the kernel measures on a CPU.
pub(crate) struct OfCpu {
    pub(crate) cpu: u32,
    /// How late the threads were; the longest piece of noise of each period.
    pub(crate) main: Arc<Tally>,
    /// How late the interrupts were.
    pub(crate) irq: Tally,
    /// Sums of all periods.
    pub(crate) noise: Option<Noise>,
    /// Measurements so far, also those that are not counted.
    number: u64,
}

impl OfCpu {
    pub(crate) fn new(cpu: u32, main: Arc<Tally>) -> OfCpu {
        OfCpu {
            cpu,
            main,
            irq: Tally::new(0, 0),
            noise: None,
            number: 0,
        }
    }
}

/// A tracer that runs; it ends, and its instance is removed, when this is dropped.
pub(crate) struct Tracing {
    tracer: Tracer,
    instance: PathBuf,
    /// Absent while the tracer is changed, which the kernel refuses while somebody reads.
    pipe: Option<File>,
    /// The beginning of a line whose end was not read yet.
    rest: String,
    /// Settings of all instances, with what they were before.
    settings: Vec<(PathBuf, String)>,
    /// Measurements that were lost because they were not read in time.
    pub(crate) lost: u64,
}

impl Tracing {
    /// Starts a tracer on some CPUs. `tracefs` is where that is mounted.
    ///
    /// # Errors
    /// The kernel has no such tracer, or refuses.
    pub(crate) fn start(tracefs: &Path, tracer: Tracer, cpus: &[u32], interval: Duration) -> Result<Tracing, Error> {
        let available = tracefs.join("available_tracers");
        let all = fs::read_to_string(&available).map_err(|error| refused(&available, error))?;
        if !all.split_ascii_whitespace().any(|name| name == tracer.name()) {
            return Err(Error::NoTracer { tracer });
        }
        let name = format!("piste-latency-{}", std::process::id());
        let instance = tracefs.join("instances").join(name);
        fs::create_dir(&instance).map_err(|error| refused(&instance, error))?;
        let mut tracing = Tracing {
            tracer,
            instance,
            pipe: None,
            rest: String::new(),
            settings: Vec::new(),
            lost: 0,
        };
        let mut settings = vec![("cpus", list(cpus))];
        if tracer == Tracer::Timerlat {
            settings.push(("timerlat_period_us", interval.as_micros().to_string()));
        }
        for (name, value) in settings {
            tracing.set(&tracefs.join("osnoise").join(name), &value, cpus)?;
        }
        let current = tracing.instance.join("current_tracer");
        match fs::write(&current, tracer.name()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::ResourceBusy => return Err(Error::InUse { cpus: cpus.to_vec() }),
            Err(error) => return Err(refused(&current, error)),
        }
        let pipe = tracing.instance.join("trace_pipe");
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(&pipe);
        tracing.pipe = Some(opened.map_err(|error| refused(&pipe, error))?);
        Ok(tracing)
    }

    /// Changes a setting that all instances share.
    fn set(&mut self, path: &Path, value: &str, cpus: &[u32]) -> Result<(), Error> {
        let old = read_at_once(path).map_err(|error| refused(path, error))?;
        if old.trim() == value {
            return Ok(());
        }
        // The kernel looks for the end of a list beyond the text, if it has no end of line.
        match fs::write(path, format!("{value}\n")) {
            Ok(()) => {
                self.settings.push((path.to_owned(), old.trim().to_owned()));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::ResourceBusy => Err(Error::InUse { cpus: cpus.to_vec() }),
            Err(error) => Err(refused(path, error)),
        }
    }

    /// Counts what the kernel measures until a limit is reached or `stop` is set; how long that took.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn count(
        &mut self,
        of_cpus: &mut [OfCpu],
        limits: &Limits,
        stop: &AtomicBool,
    ) -> Result<Duration, Error> {
        let begin = Instant::now();
        loop {
            let elapsed = begin.elapsed();
            self.take(of_cpus, limits, elapsed)?;
            let is_complete = |one: &OfCpu| one.number >= limits.loops.saturating_add(limits.warm_up);
            // Relaxed: nothing else is said by it.
            if elapsed >= limits.duration || of_cpus.iter().all(is_complete) || stop.load(Relaxed) {
                return Ok(elapsed);
            }
            sleep(PAUSE);
        }
    }

    /// Counts what there is.
    fn take(&mut self, of_cpus: &mut [OfCpu], limits: &Limits, elapsed: Duration) -> Result<(), Error> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let Some(pipe) = &mut self.pipe else { return Ok(()) };
            match pipe.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    let text = std::mem::take(&mut self.rest) + &String::from_utf8_lossy(&buffer[..bytes]);
                    let (lines, rest) = text.rsplit_once('\n').unwrap_or(("", &text));
                    rest.clone_into(&mut self.rest);
                    for line in lines.lines() {
                        self.lost += parse::lost(line).unwrap_or(0);
                        count_line(self.tracer, line, of_cpus, limits, elapsed);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(refused(&self.instance.join("trace_pipe"), error)),
            }
        }
    }
}

/// Reads a setting into a buffer that is larger than any: the kernel refuses (EINVAL) one that would be full, even at the end.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut buffer = [0; 4096];
    let bytes = File::open(path)?.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
}

fn count_line(tracer: Tracer, line: &str, of_cpus: &mut [OfCpu], limits: &Limits, elapsed: Duration) {
    let counts = |number: u64| number > limits.warm_up && number <= limits.loops.saturating_add(limits.warm_up);
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    match tracer {
        Tracer::Timerlat => {
            let Some(latency) = parse::timer_latency(line) else {
                return;
            };
            let Some(one) = of_cpus.iter_mut().find(|one| one.cpu == latency.cpu) else {
                return;
            };
            match latency.context {
                Context::Irq => {
                    if counts(one.number + 1) {
                        one.irq.add_long(latency.latency_ns, false);
                    }
                }
                Context::Thread => {
                    one.number += 1;
                    if counts(one.number) {
                        add(
                            &one.main,
                            latency.latency_ns,
                            elapsed_ns,
                            one.number - limits.warm_up - 1,
                        );
                    }
                }
                Context::User => {}
            }
        }
        Tracer::Osnoise => {
            let Some(noise) = parse::noise(line) else { return };
            let Some(one) = of_cpus.iter_mut().find(|one| one.cpu == noise.cpu) else {
                return;
            };
            one.number += 1;
            if counts(one.number) {
                add(
                    &one.main,
                    noise.longest_us * 1000,
                    elapsed_ns,
                    one.number - limits.warm_up - 1,
                );
                one.noise = Some(one.noise.map_or(noise, |sum| sum.plus(&noise)));
            }
        }
    }
}

fn add(tally: &Tally, ns: u64, elapsed_ns: u64, number: u64) {
    tally.add_long(ns, false);
    tally.add_microseconds(ns / 1000, number);
    tally.add_at(elapsed_ns, ns);
}

impl Drop for Tracing {
    fn drop(&mut self) {
        self.pipe = None;
        // Each of these fails only if another has done it before.
        let _ = fs::write(self.instance.join("current_tracer"), "nop");
        for (path, old) in self.settings.iter().rev() {
            let _ = fs::write(path, format!("{old}\n"));
        }
        let _ = fs::remove_dir(&self.instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_tracer_is_the_reason() {
        let tracefs = tempfile::tempdir().expect("a folder");
        let start = || Tracing::start(tracefs.path(), Tracer::Timerlat, &[0], Duration::from_millis(1)).map(drop);
        let missing = start().expect_err("it is not mounted").to_string();
        assert!(missing.contains("with tracefs mounted"), "{missing}");
        fs::write(tracefs.path().join("available_tracers"), "function osnoise nop\n").expect("writable");
        let none = start().expect_err("there is none").to_string();
        assert!(
            none.contains("no tracer `timerlat`") && none.contains("CONFIG_TIMERLAT_TRACER"),
            "{none}"
        );
    }

    #[test]
    fn measurements_are_counted_by_cpu_and_context() {
        let limits = Limits {
            loops: 2,
            duration: Duration::MAX,
            warm_up: 1,
        };
        let tally = || Arc::new(Tally::new(0, 0));
        let mut of_cpus = [OfCpu::new(0, tally()), OfCpu::new(3, tally())];
        for number in 1..=5_u64 {
            for (cpu, context, ns) in [(0, "   irq", 900), (0, "thread", 5000), (1, "thread", 1)] {
                let latency = ns + number;
                let line = format!(
                    "  <idle>-0   [{cpu:03}] d.h1    54.029328: #{number}     context {context} timer_latency {latency} ns"
                );
                count_line(Tracer::Timerlat, &line, &mut of_cpus, &limits, Duration::ZERO);
            }
        }
        let counted =
            |tally: &Tally| -> Vec<u64> { tally.look().buckets().iter().map(|bucket| bucket.count).collect() };
        assert_eq!(counted(&of_cpus[0].irq).iter().sum::<u64>(), 2);
        assert_eq!(counted(&of_cpus[0].main).iter().sum::<u64>(), 2);
        assert!(counted(&of_cpus[1].main).is_empty());
    }
}
