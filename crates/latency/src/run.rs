// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that measure: one on each chosen CPU, prepared one after the other, started together. Whoever starts them can look at what they have
//! counted so far, end them early, and collects what they found.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use piste_reason::reason;
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, geteuid, getrlimit};

use crate::clock::{Clock, ClockKind, Counter, Monotonic};
use crate::cpus;
use crate::crossing::{Crossing, Limit, Reporter, Watcher};
use crate::event::{Event, LoadedEvent, NoEvent, RecordedEvent};
use crate::over_time::Stretch;
use crate::pace::{Pace, Paced, Unpaced};
use crate::policy::Policy;
use crate::preflight::is_virtual;
use crate::spin::{Cause, Found, GAPS_MAX, Gap, Gaps, Limits, Spin, look_above, look_above_more};
use crate::tally::{Histogram, Snapshot, Tally};
use crate::timer::{Slept, Timer, sleep_and_measure};
use crate::tracer::{self, Noise, OfCpu, Tracer, Tracing};
use crate::wakeup::{Waker, Wakeups, Woken, below};
use crate::witness::Witness;

/// Enough for a loop; locked memory must be there for all of it.
pub(crate) const STACK_BYTES: usize = 512 << 10;
/// Where the kernel's tracers are.
const TRACEFS: &str = "sys/kernel/tracing";
/// The largest value of each stretch of this length is kept; longer ones if it runs for more than some minutes.
const STRETCH: Duration = Duration::from_millis(100);

/// Which loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Reads the clock again and again, and counts the gaps between two reads.
    Npt,
    /// The same, and keeps each gap that is at least so long.
    Gaps {
        /// Shorter gaps are only counted.
        threshold: Duration,
    },
    /// Sleeps, and measures how late it wakes up.
    Timer {
        /// From one moment to wake up at to the next.
        interval: Duration,
    },
    /// Is woken by another thread of lower priority, and measures how long that takes.
    Wakeup {
        /// From one wake-up to the next.
        interval: Duration,
        /// The CPU of the waking threads; absent: each has the CPU of the thread that it wakes.
        from: Option<u32>,
    },
    /// The kernel measures how late its timers and the threads are that they wake.
    Timerlat {
        /// From one timer to the next.
        interval: Duration,
    },
    /// The kernel measures how much time something else takes from a thread.
    Osnoise,
}

impl Loop {
    /// The kernel's tracer that measures, if it is the kernel that does.
    pub fn tracer(self) -> Option<Tracer> {
        match self {
            Loop::Timerlat { .. } => Some(Tracer::Timerlat),
            Loop::Osnoise => Some(Tracer::Osnoise),
            Loop::Npt | Loop::Gaps { .. } | Loop::Timer { .. } | Loop::Wakeup { .. } => None,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which loop.
    pub kind: Loop,
    /// On which CPUs, each with a thread of its own.
    pub cpus: Vec<u32>,
    /// How the scheduler treats the threads.
    pub policy: Policy,
    /// What the loops read; CLOCK_MONOTONIC for a loop that sleeps.
    pub clock: Clock,
    /// How long it takes at most.
    pub duration: Option<Duration>,
    /// Loops of each thread at most.
    pub loops: Option<u64>,
    /// Loops that are not counted, at the beginning.
    pub warm_up: u32,
    /// For [`Loop::Npt`]: what each turn records.
    pub event: Option<LoadedEvent>,
    /// For [`Loop::Npt`]: turns a second at most, evenly spaced. A value is then the time of a turn without the waiting.
    pub max_rate_hz: Option<u64>,
    /// For loops that read the clock: whether they look for what explains long gaps.
    pub explains: bool,
    /// What happens to long values, besides being counted.
    pub limit: Option<Limit>,
    /// Microseconds up to which a histogram is made; 0: none.
    pub histogram_us: usize,
    /// Files of control groups that the loops' threads join, by writing 0 into them.
    pub join: Vec<PathBuf>,
    /// Where the machine's /proc and /sys are.
    pub root: PathBuf,
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A thread cannot run on its CPU.
    #[error(
        "cannot run on CPU {cpu}: {}; the CPUs that piste may use are {allowed}",
        reason(source)
    )]
    Cpu {
        /// Which CPU.
        cpu: u32,
        /// What the system says.
        source: io::Error,
        /// A list of CPUs.
        allowed: String,
    },
    /// A thread does not get its policy.
    #[error("cannot get the scheduling policy {policy}: {}{}", reason(source), policy.remedy(source))]
    Policy {
        /// Which policy.
        policy: Policy,
        /// What the system says.
        source: io::Error,
    },
    /// A thread cannot join a control group.
    #[error("cannot join the control group of {path:?}: {}", reason(source))]
    Join {
        /// The group's list of threads.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The kernel does not measure.
    #[error(transparent)]
    Tracer(#[from] tracer::Error),
    /// There is no thread.
    #[error("cannot start a thread: {}", reason(.0))]
    Thread(io::Error),
    /// A loop cannot sleep.
    #[error("cannot sleep on CPU {cpu}: {}", reason(source))]
    Sleep {
        /// Which CPU.
        cpu: u32,
        /// What the system says.
        source: io::Error,
    },
}

/// What was measured on a CPU.
#[derive(Debug)]
pub struct Measured {
    /// Which CPU.
    pub cpu: u32,
    /// All values, in ticks of the clock.
    pub values: Snapshot,
    /// How long the loop ran.
    pub duration: Duration,
    /// For a loop that sleeps or is woken: wake-ups that were skipped because the thread ran later than a whole interval.
    pub overruns: u64,
    /// For a loop that is woken.
    pub woken: Woken,
    /// For the tracer timerlat: how late the timers' interrupts were.
    pub irq: Option<Snapshot>,
    /// For the tracer osnoise: sums of all periods.
    pub noise: Option<Noise>,
    /// Measurements that were lost.
    pub lost: u64,
    /// The largest value of each stretch of time.
    pub stretches: Vec<Stretch>,
    /// What [`Plan::event`] recorded, also in turns that are not counted.
    pub events: u64,
    /// For a loop that reads the clock: how long it looked for causes, and so measured nothing.
    pub blind: Duration,
    /// The gaps of each of [`Cause::ALL`].
    pub by_cause: [Gaps; Cause::ALL.len()],
    /// The gaps that were to be kept, in order of time.
    pub gaps: Vec<Gap>,
    /// How many more there were than are kept.
    pub gaps_left_out: u64,
    /// When the loop began.
    pub begin: SystemTime,
    /// Gaps from this on are looked at, in ticks.
    pub looked_from: u64,
    /// The names of interrupts, for [`crate::Seen::interrupt`]; empty if interrupts are not counted.
    pub interrupt_names: Vec<String>,
    /// The histogram that was asked for; empty otherwise.
    pub histogram: Histogram,
}

impl Measured {
    /// Of a loop that has not begun.
    fn nothing(begin: SystemTime) -> Measured {
        Measured {
            cpu: 0,
            values: Snapshot::default(),
            duration: Duration::ZERO,
            overruns: 0,
            woken: Woken::default(),
            irq: None,
            noise: None,
            lost: 0,
            stretches: Vec::new(),
            events: 0,
            blind: Duration::ZERO,
            by_cause: Default::default(),
            gaps: Vec::new(),
            gaps_left_out: 0,
            begin,
            looked_from: 0,
            interrupt_names: Vec::new(),
            histogram: Histogram::default(),
        }
    }
}

/// A measurement that goes on.
pub struct Running {
    plan: Plan,
    threads: Vec<Thread>,
    tracing: Option<Reader>,
    stop: Arc<AtomicBool>,
    reporter: Arc<Reporter>,
    crossings: Receiver<Crossing>,
    ended: Receiver<()>,
    running: usize,
    notes: Vec<String>,
    /// As long as this is open, CPUs that are idle wake up at once.
    _awake: Option<File>,
}

struct Thread {
    cpu: u32,
    tally: Arc<Tally>,
    /// `None` if it was sent home.
    handle: JoinHandle<Option<Result<Measured, Error>>>,
}

/// A thread that counts what the kernel measures.
struct Reader {
    tallies: Vec<(u32, Arc<Tally>)>,
    handle: JoinHandle<Result<Vec<Measured>, Error>>,
}

/// What threads that are ready wait for.
#[derive(Default)]
struct Gate {
    order: Mutex<Option<Order>>,
    opened: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Measure,
    GoHome,
}

impl Gate {
    fn open(&self, order: Order) {
        *self.order.lock().expect("nobody panics with it") = Some(order);
        self.opened.notify_all();
    }

    fn wait(&self) -> Order {
        let order = self.order.lock().expect("nobody panics with it");
        let order = self.opened.wait_while(order, |order| order.is_none());
        order.expect("nobody panics with it").expect("waited for")
    }
}

impl Running {
    /// Prepares all threads and starts them.
    ///
    /// # Errors
    /// One of them does not get what was asked for; then none measures.
    pub fn start(plan: Plan) -> Result<Running, Error> {
        let mut notes = Vec::new();
        notes.extend(lock_memory().err());
        let awake = match plan.kind {
            Loop::Timer { .. } | Loop::Wakeup { .. } => keep_awake(),
            _ => Ok(None),
        };
        let awake = awake.unwrap_or_else(|note| {
            notes.push(note);
            None
        });
        let mut measured_cpus = plan.cpus.clone();
        if let Loop::Wakeup { from: Some(cpu), .. } = plan.kind {
            measured_cpus.push(cpu);
        }
        let allowed = cpus::allowed().unwrap_or_default();
        let (to, ended) = channel();
        let (reporter, crossings) = Reporter::new(plan.limit);
        let mut running = Running {
            threads: Vec::new(),
            tracing: None,
            stop: Arc::new(AtomicBool::new(false)),
            reporter: Arc::new(reporter),
            crossings,
            ended,
            running: plan.cpus.len(),
            notes,
            _awake: awake,
            plan,
        };
        let started = match running.plan.kind.tracer() {
            None => running.start_threads(&to),
            Some(tracer) => running.start_tracer(tracer, &to),
        };
        // Whatever else piste does is not to disturb them, where there is another CPU.
        let others: Vec<u32> = allowed.into_iter().filter(|cpu| !measured_cpus.contains(cpu)).collect();
        if !others.is_empty() {
            let _ = cpus::pin(&others);
        } else if running.plan.policy.is_realtime() && matches!(running.plan.kind, Loop::Npt | Loop::Gaps { .. }) {
            let note = "every CPU that piste may use runs a loop with a real-time policy, so other programs, piste's own display among them, hardly run meanwhile; leave a CPU out with --cpus";
            running.notes.push(note.into());
        }
        started.map(|()| running)
    }

    /// Before any loop starts, all threads are ready: one that has to be prepared would disturb the others.
    fn start_threads(&mut self, ended: &Sender<()>) -> Result<(), Error> {
        let gate = Arc::new(Gate::default());
        for cpu in self.plan.cpus.clone() {
            let ordered = Ordered {
                plan: self.plan.clone(),
                cpu,
                stop: Arc::clone(&self.stop),
                reporter: Arc::clone(&self.reporter),
            };
            let started = ordered.start(&gate, ended);
            match started {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    gate.open(Order::GoHome);
                    self.threads.drain(..).for_each(|thread| drop(thread.handle.join()));
                    return Err(error);
                }
            }
        }
        gate.open(Order::Measure);
        Ok(())
    }

    /// Starts a tracer, and a thread that counts what it writes.
    fn start_tracer(&mut self, tracer: Tracer, ended: &Sender<()>) -> Result<(), Error> {
        let plan = self.plan.clone();
        let interval = match plan.kind {
            Loop::Timerlat { interval } => interval,
            _ => Duration::ZERO,
        };
        let mut tracing = Tracing::start(&plan.root.join(TRACEFS), tracer, &plan.cpus, interval)?;
        let tally = || Arc::new(Tally::new(0, plan.histogram_us).with_stretches(plan.clock.ticks(STRETCH)));
        let tallies: Vec<(u32, Arc<Tally>)> = plan.cpus.iter().map(|cpu| (*cpu, tally())).collect();
        let of_cpu = |(cpu, tally): &(u32, Arc<Tally>)| OfCpu::new(*cpu, Arc::clone(tally));
        let mut of_cpus: Vec<OfCpu> = tallies.iter().map(of_cpu).collect();
        let limits = tracer::Limits {
            loops: plan.loops.unwrap_or(u64::MAX),
            duration: plan.duration.unwrap_or(Duration::MAX),
            warm_up: plan.warm_up.into(),
        };
        let (stop, ended) = (Arc::clone(&self.stop), ended.clone());
        let body = move || {
            let begin = SystemTime::now();
            let counted = tracing.count(&mut of_cpus, &limits, &stop);
            let _ = ended.send(());
            let duration = counted?;
            let lost = tracing.lost;
            let measured = of_cpus.into_iter().map(|one| Measured {
                cpu: one.cpu,
                values: one.main.look(),
                duration,
                irq: (tracer == Tracer::Timerlat).then(|| one.irq.look()),
                noise: one.noise,
                lost,
                stretches: one.main.stretches(),
                histogram: one.main.microseconds(&plan.clock),
                ..Measured::nothing(begin)
            });
            Ok(measured.collect())
        };
        let handle = thread::Builder::new().name("tracer".into()).spawn(body);
        let handle = handle.map_err(Error::Thread)?;
        self.running = 1;
        self.tracing = Some(Reader { tallies, handle });
        Ok(())
    }

    /// Remarks on what could not be prepared.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What is measured.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Ends all loops soon.
    pub fn stop(&self) {
        // Relaxed: nothing else is said by it.
        self.stop.store(true, Relaxed);
    }

    /// Waits until all loops have ended, but only so long; whether they have.
    pub fn wait(&mut self, patience: Duration) -> bool {
        while self.running > 0 {
            match self.ended.recv_timeout(patience) {
                Ok(()) => self.running -= 1,
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
        true
    }

    /// The values as long as the limit that came since this was last called, each CPU's in their order.
    pub fn crossings(&self) -> Vec<Crossing> {
        self.crossings.try_iter().collect()
    }

    /// How many more there were, because nobody took them in time.
    pub fn crossings_left_out(&self) -> u64 {
        self.reporter.left_out()
    }

    /// What each CPU's loop has counted so far.
    pub fn look(&self) -> Vec<(u32, Snapshot)> {
        if let Some(reader) = &self.tracing {
            let look = |(cpu, tally): &(u32, Arc<Tally>)| (*cpu, tally.look());
            return reader.tallies.iter().map(look).collect();
        }
        let look = |thread: &Thread| (thread.cpu, thread.tally.look());
        self.threads.iter().map(look).collect()
    }

    /// Waits for the loops to end; what they found, in the order of their CPUs.
    ///
    /// # Errors
    /// A loop failed.
    ///
    /// # Panics
    /// A loop panicked.
    pub fn finish(mut self) -> Result<Vec<Measured>, Error> {
        if let Some(reader) = self.tracing.take() {
            return reader.handle.join().expect("the reader does not panic");
        }
        let join = |thread: Thread| {
            let measured = thread.handle.join().expect("loops do not panic");
            measured.expect("the gate was opened to measure")
        };
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().map(join).collect()
    }
}

impl Drop for Running {
    /// Whoever gives up early leaves no loop behind.
    fn drop(&mut self) {
        self.stop();
        if let Some(reader) = self.tracing.take() {
            let _ = reader.handle.join();
        }
        self.threads.drain(..).for_each(|thread| drop(thread.handle.join()));
    }
}

/// What a thread is told.
struct Ordered {
    plan: Plan,
    cpu: u32,
    stop: Arc<AtomicBool>,
    reporter: Arc<Reporter>,
}

/// A thread that can start at once.
struct Prepared {
    ordered: Ordered,
    tally: Arc<Tally>,
    witness: Option<Witness>,
    event: Option<RecordedEvent>,
    waker: Option<Waker>,
    limits: Limits,
    found: Found,
    looked_from: u64,
}

impl Ordered {
    /// Starts the thread, and waits until it is ready.
    fn start(self, gate: &Arc<Gate>, ended: &Sender<()>) -> Result<Thread, Error> {
        let (gate, ended) = (Arc::clone(gate), ended.clone());
        let (ready_to, ready) = channel();
        let cpu = self.cpu;
        let body = move || {
            let prepared = match self.prepare() {
                Ok(prepared) => prepared,
                Err(error) => {
                    let _ = ready_to.send(Err(error));
                    return None;
                }
            };
            let _ = ready_to.send(Ok(Arc::clone(&prepared.tally)));
            if gate.wait() == Order::GoHome {
                return None;
            }
            let measured = prepared.measure();
            let _ = ended.send(());
            Some(measured)
        };
        let thread = thread::Builder::new()
            .name(format!("latency/{cpu}"))
            .stack_size(STACK_BYTES);
        let handle = thread.spawn(body).map_err(Error::Thread)?;
        let tally = ready.recv().expect("a thread says whether it is ready")?;
        Ok(Thread { cpu, tally, handle })
    }

    /// Moves this thread to its CPU and into its policy, and gets all memory that it will use.
    fn prepare(self) -> Result<Prepared, Error> {
        let plan = &self.plan;
        // Before this thread has its policy, which the waker would inherit.
        let waker = self.start_waker()?;
        place(plan, self.cpu, plan.policy)?;
        let mut event = plan.event.map(LoadedEvent::recorded);
        let (looked_from, witness, room) = match plan.kind {
            Loop::Timer { .. } | Loop::Wakeup { .. } | Loop::Timerlat { .. } | Loop::Osnoise => (0, None, 0),
            Loop::Npt | Loop::Gaps { .. } => {
                let witness = || Witness::new(self.cpu, &plan.root, is_virtual(&plan.root));
                let room = if plan.kind == Loop::Npt { 0 } else { GAPS_MAX };
                (self.looked_from(event.as_mut()), plan.explains.then(witness), room)
            }
        };
        let keep_from = match plan.kind {
            Loop::Gaps { threshold } => plan.clock.ticks(threshold),
            _ => u64::MAX,
        };
        // A limit below the usual one means that shorter gaps matter.
        let looked_from = looked_from.min(keep_from).min(self.report_from());
        let limits = Limits {
            loops: plan.loops.unwrap_or(u64::MAX),
            ticks: plan.duration.map_or(u64::MAX, |duration| plan.clock.ticks(duration)),
            warm_up: plan.warm_up,
            keep_from,
            look_max: witness
                .as_ref()
                .map_or(looked_from, |witness| plan.clock.ticks(witness.look_max())),
        };
        Ok(Prepared {
            tally: Arc::new(
                Tally::new(usize::try_from(looked_from).unwrap_or(usize::MAX), plan.histogram_us)
                    .with_stretches(plan.clock.ticks(STRETCH)),
            ),
            witness,
            event,
            waker,
            limits,
            found: Found::with_room(room),
            looked_from,
            ordered: self,
        })
    }

    /// For a loop that is woken: who wakes it.
    fn start_waker(&self) -> Result<Option<Waker>, Error> {
        let Loop::Wakeup { interval, from } = self.plan.kind else {
            return Ok(None);
        };
        let plan = self.plan.clone();
        let wakeups = Wakeups {
            interval,
            loops: plan.loops.unwrap_or(u64::MAX),
            duration: plan.duration.unwrap_or(Duration::MAX),
            warm_up: plan.warm_up,
        };
        let (name, stop) = (format!("wakes/{}", self.cpu), Arc::clone(&self.stop));
        let cpu = from.unwrap_or(self.cpu);
        let kind = plan.clock.kind;
        let prepare = move || place(&plan, cpu, below(plan.policy));
        let started = match kind {
            #[cfg(target_arch = "x86_64")]
            ClockKind::Tsc => Waker::start(name, wakeups, crate::tsc::Tsc, stop, prepare),
            _ => Waker::start(name, wakeups, Monotonic, stop, prepare),
        };
        started.map_err(Error::Thread)?.map(Some)
    }

    /// Values as long as the limit, in ticks.
    fn report_from(&self) -> u64 {
        let limit = self.plan.limit;
        limit.map_or(u64::MAX, |limit| self.plan.clock.ticks(limit.from))
    }

    fn watcher(&self) -> Watcher<'_> {
        Watcher {
            from: self.report_from(),
            cpu: self.cpu,
            clock: &self.plan.clock,
            reporter: &self.reporter,
            stop: &self.stop,
        }
    }

    fn looked_from(&self, event: Option<&mut RecordedEvent>) -> u64 {
        match self.plan.clock.kind {
            #[cfg(target_arch = "x86_64")]
            ClockKind::Tsc => self.looked_from_with(&mut crate::tsc::Tsc, event),
            _ => self.looked_from_with(&mut Monotonic, event),
        }
    }

    fn looked_from_with(&self, counter: &mut impl Counter, event: Option<&mut RecordedEvent>) -> u64 {
        let of_loop = look_above(counter, &self.plan.clock);
        of_loop + event.map_or(0, |event| look_above_more(counter, event))
    }
}

impl Prepared {
    /// Runs the loop.
    fn measure(mut self) -> Result<Measured, Error> {
        let begin = SystemTime::now();
        let plan = &self.ordered.plan;
        if let Loop::Timer { interval } = plan.kind {
            let timer = Timer {
                interval,
                loops: self.limits.loops,
                duration: plan.duration.unwrap_or(Duration::MAX),
                warm_up: plan.warm_up,
            };
            let slept = sleep_and_measure(&timer, &self.tally, &self.ordered.watcher());
            let cpu = self.ordered.cpu;
            let slept = slept.map_err(|source| Error::Sleep {
                cpu,
                source: source.into(),
            })?;
            return Ok(self.measured(begin, Found::default(), slept));
        }
        if let Some(waker) = self.waker.take() {
            let woken = match plan.clock.kind {
                #[cfg(target_arch = "x86_64")]
                ClockKind::Tsc => waker.run(&self.tally, &self.ordered.watcher(), crate::tsc::Tsc),
                _ => waker.run(&self.tally, &self.ordered.watcher(), Monotonic),
            };
            let cpu = self.ordered.cpu;
            let woken = woken.map_err(|source| Error::Sleep {
                cpu,
                source: source.into(),
            })?;
            let slept = Slept {
                overruns: woken.overruns,
                duration: woken.duration,
            };
            return Ok(Measured {
                woken,
                ..self.measured(begin, Found::default(), slept)
            });
        }
        let found = match plan.clock.kind {
            #[cfg(target_arch = "x86_64")]
            ClockKind::Tsc => self.spin(&mut crate::tsc::Tsc),
            _ => self.spin(&mut Monotonic),
        };
        Ok(self.measured(begin, found, Slept::default()))
    }

    /// Runs the loop that does what the plan asks for, and nothing else.
    fn spin(&mut self, counter: &mut impl Counter) -> Found {
        let plan = &self.ordered.plan;
        let pace = plan
            .max_rate_hz
            .map(|rate_hz| Paced::new(rate_hz, &plan.clock, self.looked_from));
        match (self.event.take(), pace) {
            (None, None) => self.spin_with(counter, &mut NoEvent, &mut Unpaced),
            (None, Some(mut pace)) => self.spin_with(counter, &mut NoEvent, &mut pace),
            (Some(mut event), None) => self.spin_with(counter, &mut event, &mut Unpaced),
            (Some(mut event), Some(mut pace)) => self.spin_with(counter, &mut event, &mut pace),
        }
    }

    fn spin_with(&mut self, counter: &mut impl Counter, event: &mut impl Event, pace: &mut impl Pace) -> Found {
        let found = std::mem::take(&mut self.found);
        let mut spin = Spin {
            counter,
            event,
            pace,
            watch: &mut self.witness,
            limits: &self.limits,
            tally: &self.tally,
            watcher: &self.ordered.watcher(),
        };
        let found = spin.run(found);
        Found {
            events: event.count(),
            ..found
        }
    }

    fn measured(self, begin: SystemTime, found: Found, slept: Slept) -> Measured {
        let clock = &self.ordered.plan.clock;
        let duration = |ticks: u64| Duration::from_nanos(clock.whole_ns(ticks));
        Measured {
            cpu: self.ordered.cpu,
            values: self.tally.look(),
            duration: duration(found.ticks).max(slept.duration),
            overruns: slept.overruns,
            woken: Woken::default(),
            irq: None,
            noise: None,
            lost: 0,
            stretches: self.tally.stretches(),
            events: found.events,
            blind: duration(found.blind_ticks),
            by_cause: found.by_cause,
            gaps: found.gaps,
            gaps_left_out: found.gaps_left_out,
            begin,
            looked_from: self.looked_from,
            interrupt_names: self.witness.as_ref().map(Witness::interrupt_names).unwrap_or_default(),
            histogram: self.tally.microseconds(clock),
        }
    }
}

/// Moves this thread into control groups.
fn join(files: &[PathBuf]) -> Result<(), Error> {
    for path in files {
        let joined = OpenOptions::new().write(true).open(path);
        joined
            .and_then(|mut file| file.write_all(b"0"))
            .map_err(|source| Error::Join {
                path: path.clone(),
                source,
            })?;
    }
    Ok(())
}

/// Moves this thread to its CPU and into its policy.
pub(crate) fn place(plan: &Plan, cpu: u32, policy: Policy) -> Result<(), Error> {
    // Nobody may run elsewhere who joins them.
    if plan.cpus.contains(&cpu) {
        join(&plan.join)?;
    }
    let allowed = cpus::allowed().unwrap_or_default();
    cpus::pin(&[cpu]).map_err(|source| Error::Cpu {
        cpu,
        source,
        allowed: cpus::list(&allowed),
    })?;
    policy.apply().map_err(|source| Error::Policy { policy, source })
}

/// Keeps all memory of this process in memory, also what it will ask for.
pub(crate) fn lock_memory() -> Result<(), String> {
    // Under a limit, a later allocation would fail that is beyond it.
    let is_limited = getrlimit(Resource::Memlock).current.is_some() && !geteuid().is_root();
    let locked = match is_limited {
        true => Err(Errno::PERM),
        false => mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE),
    };
    locked.map_err(|error| {
        let why = reason(&error.into());
        format!("memory is not locked, so page faults may add latency: {why}; run piste as root, or without a limit of locked memory (`ulimit -l unlimited`)")
    })
}

/// Tells the kernel to wake idle CPUs up at once, until the file is closed.
fn keep_awake() -> Result<Option<File>, String> {
    let path = Path::new("/dev/cpu_dma_latency");
    let opened = OpenOptions::new().write(true).open(path).and_then(|mut file| {
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(file)
    });
    opened.map(Some).map_err(|error| {
        let why = reason(&error);
        format!("/dev/cpu_dma_latency cannot be held at 0, so idle CPUs may sleep deeply and wake up late: {why}; run piste as root")
    })
}
