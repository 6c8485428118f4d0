// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel consumer as the control process has it, events that can be counted, and what babeltrace2 reads of the trace.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use piste_ctf::{Clock, EnvironmentValue, Trace};
use piste_daemon::kernel_consumer::remove_instance;
use piste_daemon::link::{ChannelTotals, Failure, Link, Opening, Purpose, RequestId, ToConsumer, ToControl};
use piste_daemon::person::Person;
use piste_kernel::cpu_stats::CpuStats;
use piste_kernel::instance::Instance;
use piste_kernel::owner::Owner;
use piste_kernel::spec::{CallPart, ChannelSpec, Context, EventSource, Loss, Rule, Tracked};
use piste_kernel::state_dump;
use piste_kernel::tracefs::Tracefs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use tempfile::TempDir;

use crate::skipping;

pub const SESSION: u64 = 7;
/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run folder with a kernel consumer. Dropping it ends the consumer and removes what it made in the kernel.
pub struct Consumer {
    /// Tests record this process, so that one makes events at a time.
    _turn: MutexGuard<'static, ()>,
    pub tracefs: Tracefs,
    pub folder: TempDir,
    /// Held as control holds it: or any pisted that starts while no consumer lives would take what is here for a dead one's.
    owner: Owner,
    listener: OwnedFd,
    child: Option<Child>,
    link: Option<Link>,
    next_request: RequestId,
    /// What the consumer said beside answers.
    pub findings: Vec<String>,
}

impl Consumer {
    /// `None`, and a line that says why, where the kernel cannot be traced.
    pub fn start() -> Option<Consumer> {
        let tracefs = skipping::tracefs()?;
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::claim(folder.path()).unwrap();
        let listener = seqpacket(SocketFlags::NONBLOCK);
        bind(&listener, &address(&folder)).unwrap();
        listen(&listener, 4).unwrap();
        let mut consumer = Consumer {
            _turn: turn,
            tracefs,
            folder,
            owner,
            listener,
            child: None,
            link: None,
            next_request: 1,
            findings: vec![],
        };
        consumer.start_process();
        Some(consumer)
    }

    /// Starts a process that listens where the one before did, and connects to it.
    pub fn start_process(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_pisted"))
            .arg("--kernel-consumer")
            .arg(self.folder.path())
            .stdin(Stdio::from(self.listener.try_clone().unwrap()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let socket = seqpacket(SocketFlags::CLOEXEC);
        connect(&socket, &address(&self.folder)).unwrap();
        self.link = Some(Link::new(socket));
        self.send(&ToConsumer::Adopt);
        while !matches!(self.receive(), ToControl::Adopted { .. }) {}
    }

    /// SIGKILL, as an accident would.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        self.link = None;
    }

    pub fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id() as i32
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn send(&mut self, message: &ToConsumer) {
        self.link.as_mut().unwrap().send(message, None).unwrap();
    }

    /// Tells of a session; `output` is a folder's name in the run folder.
    pub fn open(&mut self, output: &str, snapshot: bool) {
        let output = self.path(output);
        self.send(&ToConsumer::OpenSession(Opening {
            session: SESSION,
            owner: Person::default(),
            output,
            purpose: match snapshot {
                true => Purpose::Snapshots,
                false => Purpose::Trace,
            },
            trace: trace(),
            rotation: None,
            archived: vec![],
        }));
    }

    pub fn set_channel(&mut self, spec: &ChannelSpec) {
        let (session, spec) = (SESSION, spec.clone());
        self.send(&ToConsumer::SetKernelChannel { session, spec });
    }

    pub fn set_tracked(&mut self, tracked: Tracked) {
        let session = SESSION;
        self.send(&ToConsumer::SetTracked { session, tracked });
    }

    pub fn start_session(&mut self) -> Result<Totals, Failure> {
        self.ask(|request| ToConsumer::Start {
            session: SESSION,
            request,
        })
    }

    pub fn stop(&mut self) -> Totals {
        self.ask(|request| ToConsumer::Stop {
            session: SESSION,
            request,
        })
        .unwrap()
    }

    /// Asks until the disk, which others use as well, lets the session answer.
    pub fn report(&mut self) -> Totals {
        let begun = Instant::now();
        loop {
            let totals = self.ask(|request| ToConsumer::Report {
                session: SESSION,
                request,
                confirms: true,
            });
            match totals {
                Err(Failure::Other { what }) if what.contains("waiting for the disk") && begun.elapsed() < PATIENCE => {
                }
                totals => return totals.unwrap(),
            }
        }
    }

    pub fn close(&mut self) -> Totals {
        self.ask(|request| ToConsumer::CloseSession {
            session: SESSION,
            request,
        })
        .unwrap()
    }

    pub fn snapshot(&mut self, output: &str) -> Result<Totals, Failure> {
        let output = self.path(output);
        self.ask(|request| ToConsumer::Snapshot {
            session: SESSION,
            owner: Person::default(),
            output,
            request,
        })
    }

    pub fn regenerate_state_dump(&mut self) -> Result<Totals, Failure> {
        self.ask(|request| ToConsumer::RegenerateStateDump {
            session: SESSION,
            request,
        })
    }

    /// What the kernel counted for a channel, summed over CPUs.
    pub fn stats(&self, channel: &str) -> CpuStats {
        let instance = Instance::create_or_open(&self.tracefs, &self.owner, SESSION, channel).unwrap();
        let mut sum = CpuStats::default();
        for cpu in instance.cpus().unwrap() {
            let stats = instance.stats(cpu).unwrap();
            sum.entries += stats.entries;
            sum.read += stats.read;
            sum.dropped += stats.dropped;
            sum.overrun += stats.overrun;
            sum.commit_overrun += stats.commit_overrun;
        }
        sum
    }

    /// This run folder's instances that are there.
    pub fn instances(&self) -> Vec<(u64, String)> {
        self.owner.instances(&self.tracefs).unwrap()
    }

    pub fn ask(&mut self, message: impl FnOnce(RequestId) -> ToConsumer) -> Result<Totals, Failure> {
        let wanted = self.next_request;
        self.next_request += 1;
        self.send(&message(wanted));
        loop {
            if let ToControl::Done { request, outcome } = self.receive()
                && request == wanted
            {
                return outcome.map(|totals| totals.into_iter().map(|one| (one.stream_id, one)).collect());
            }
        }
    }

    fn receive(&mut self) -> ToControl {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let link = self.link.as_mut().unwrap();
            match link
                .receive()
                .unwrap_or_else(|error| panic!("the consumer is gone: {error}"))
            {
                Some((ToControl::Finding { what, .. }, _)) => self.findings.push(what),
                Some((message, _)) => return message,
                None => {
                    assert!(Instant::now() < deadline, "waited {PATIENCE:?} for the consumer");
                    let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
                    poll(&mut [PollFd::new(&*link, PollFlags::IN)], Some(&timeout)).unwrap();
                }
            }
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("consumer: {}", fs::read_to_string(self.path("log")).unwrap_or_default());
            eprintln!("findings: {:#?}", self.findings);
        }
        for (session, channel) in self.owner.instances(&self.tracefs).unwrap_or_default() {
            let instance = Instance::create_or_open(&self.tracefs, &self.owner, session, &channel);
            let _ = instance.and_then(remove_instance);
        }
    }
}

pub type Totals = BTreeMap<u32, ChannelTotals>;

/// Events of all channels and the state dump.
pub fn events(totals: &Totals) -> u64 {
    totals.values().map(|totals| totals.events).sum()
}

pub fn events_of_state_dump(totals: &Totals) -> u64 {
    totals.get(&state_dump::STREAM_ID).map_or(0, |totals| totals.events)
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// From now on this thread runs nowhere else.
pub fn stay_on_this_cpu() {
    let mut only = CpuSet::new();
    only.set(sched_getcpu());
    sched_setaffinity(None, &only).unwrap();
}

fn seqpacket(flags: SocketFlags) -> OwnedFd {
    socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags | SocketFlags::CLOEXEC,
        None,
    )
    .unwrap()
}

fn address(folder: &TempDir) -> SocketAddrUnix {
    SocketAddrUnix::new(folder.path().join("kernel-consumer.sock")).unwrap()
}

fn trace() -> Trace {
    Trace {
        uuid: *b"a trace's uuid..",
        clock: Clock {
            name: "monotonic".into(),
            uuid: *b"a clock's uuid..",
            frequency_hz: 1_000_000_000,
            offset_seconds: 1_700_000_000,
            offset_ticks: 0,
            description: "a clock".into(),
        },
        environment: vec![("domain".into(), EnvironmentValue::Text("kernel".into()))],
    }
}

/// A channel that records what `sources` say.
pub fn channel(name: &str, sources: &[EventSource]) -> ChannelSpec {
    let rule = |source: &EventSource| Rule {
        source: source.clone(),
        excluded: vec![],
        filter: None,
        fields: vec![],
        stack: None,
        enabled: true,
    };
    ChannelSpec {
        stream_id: 0,
        name: name.into(),
        loss: Loss::Discard,
        subbuf_bytes: 64 << 10,
        // Room for all that a test makes, however busy the machine is.
        subbuf_count: 256,
        contexts: vec![Context::Tid],
        added_contexts: Vec::new(),
        rules: sources.iter().map(rule).collect(),
        memory: None,
    }
}

/// The call whose argument is a number that the program chooses.
pub fn numbered() -> EventSource {
    let pattern = "lseek".into();
    EventSource::Syscall {
        pattern,
        part: CallPart::Both,
    }
}

pub fn tracepoint(pattern: &str) -> EventSource {
    let pattern = pattern.into();
    EventSource::Tracepoint { pattern }
}

/// This process and none of what it starts.
pub fn this_process() -> Tracked {
    Tracked {
        pids: vec![std::process::id()],
        ..Tracked::default()
    }
}

/// The library seeks too, but never so far.
const FIRST: u64 = 1 << 40;

/// Makes numbered events.
pub struct Numbers(File);

impl Numbers {
    pub fn new() -> Numbers {
        Numbers(File::open("/dev/zero").unwrap())
    }

    pub fn make(&mut self, number: u64) {
        self.0.seek(SeekFrom::Start(FIRST + number)).unwrap();
    }
}

/// What babeltrace2 says about a trace.
pub struct Read {
    pub lines: Vec<String>,
    pub complaints: String,
}

pub fn read(output: &Path) -> Read {
    let result = Command::new("babeltrace2").arg(output).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(result.status.success(), "{}", text(&result.stderr));
    Read {
        lines: text(&result.stdout).lines().map(str::to_owned).collect(),
        complaints: text(&result.stderr),
    }
}

impl Read {
    pub fn assert_silent(&self) {
        assert_eq!(self.complaints, "");
    }

    /// The arguments of the numbered calls, in the order of time.
    pub fn numbers(&self) -> Vec<u64> {
        let number = |line: &String| {
            let (_, rest) = line.split_once(" syscall_entry_lseek:")?;
            let (_, rest) = rest.split_once(" offset = ")?;
            let offset: u64 = rest.split([',', ' ']).next()?.parse().ok()?;
            offset.checked_sub(FIRST)
        };
        self.lines.iter().filter_map(number).collect()
    }

    /// They are these, each once and in order.
    pub fn assert_numbers(&self, expected: impl IntoIterator<Item = u64>) {
        let (numbers, expected) = (self.numbers(), Vec::from_iter(expected));
        let differ = numbers
            .iter()
            .zip(&expected)
            .position(|(number, expected)| number != expected);
        let at = differ.unwrap_or(numbers.len().min(expected.len()));
        let around = |numbers: &[u64]| numbers[at.saturating_sub(3)..numbers.len().min(at + 10)].to_vec();
        assert!(
            numbers == expected,
            "{} numbers, {} expected; from index {at}: {:?}, expected {:?}",
            numbers.len(),
            expected.len(),
            around(&numbers),
            around(&expected)
        );
    }

    pub fn count(&self, event: &str) -> u64 {
        let marked = format!(" {event}: ");
        self.lines.iter().filter(|line| line.contains(&marked)).count() as u64
    }

    /// What the trace says was discarded: babeltrace2 warns of each gap.
    pub fn discarded(&self) -> u64 {
        let counts = self.complaints.lines().filter_map(|line| {
            let (_, rest) = line.split_once("Tracer discarded ")?;
            rest.split(' ').next()?.parse::<u64>().ok()
        });
        counts.sum()
    }
}
