// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that provoke each kind of insight, and whom the suggested command has to name.

use std::fs;
use std::path::PathBuf;

use piste_support::Compilation;
use piste_support::build_tree::programs;
use piste_support::control_group::{COMPUTE_THERE, Group};
use piste_support::disk::{Disk, LoopDevice};
use piste_support::kernel::KernelWorkplace;
use piste_support::process::{allowed_cpu, wait_until};
use piste_support::report::{analyze, row, text};

/// A kind of insight, and a recording that has it.
pub(crate) struct Case {
    pub(crate) kind: &'static str,
    /// Records. `None` where that cannot be provoked.
    pub(crate) record: fn(&KernelWorkplace) -> Option<Seen>,
}

/// A recording.
pub(crate) struct Seen {
    pub(crate) trace: String,
    /// The insight's sentence has it.
    pub(crate) of: String,
    /// The answer of the suggested command has it.
    pub(crate) culprit: String,
}

/// Every kind; some in several ways.
pub(crate) const CASES: &[Case] = &[
    case("losses", losses),
    case("late real-time thread", late_real_time),
    case("priority inversion", inversion),
    case("late wake-ups", late_wake_ups),
    case("long interrupt", long_interrupt),
    case("interrupts in a row", interrupts),
    case("interrupt load", interrupts),
    case("uninterruptible wait", kernel_lock),
    case("throttled", throttled),
    case("no CPU", starved),
    case("busy thread", busy),
    case("lock convoy", static_lock),
    case("lock convoy", heap_lock),
    case("lock convoy", interpreter_lock),
    case("event loop stall", stall),
    case("slow call", slow_work),
    case("slow call", slow_wait),
    case("slow file", slow_file),
    case("slow request", slow_request),
    case("fault storm", faults),
];

const fn case(kind: &'static str, record: fn(&KernelWorkplace) -> Option<Seen>) -> Case {
    Case { kind, record }
}

/// Records a command: whose insight is meant, and who is to be named.
fn record(place: &KernelWorkplace, options: &[&str], command: &[&str], (of, culprit): (&str, &str)) -> Option<Seen> {
    let mut folders = (1..).map(|number| place.path(&format!("trace-{number}")));
    let free = folders.find(|folder| !folder.exists()).expect("numbers are many");
    let trace = text(&free).to_owned();
    let arguments = [&["record", "--no-user", "-o", &trace], options, &["--"], command].concat();
    place.piste(&arguments).expect_success();
    Some(Seen {
        trace,
        of: of.to_owned(),
        culprit: culprit.to_owned(),
    })
}

/// A shell of that name, which computes.
fn hog(place: &KernelWorkplace) -> PathBuf {
    let hog = place.path("hog");
    fs::copy("/bin/sh", &hog).expect("a copy of a shell");
    hog
}

fn losses(place: &KernelWorkplace) -> Option<Seen> {
    let cpu = allowed_cpu();
    let rings = ["--kernel-subbuf-size", "4K", "--kernel-subbuf-count", "2"];
    let command = [
        "taskset",
        "-c",
        &cpu,
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=1",
        "count=100000",
    ];
    // The list of what is missing ends with the CPU.
    record(place, &rings, &command, ("events are missing", &format!("  {cpu}\n")))
}

fn late_real_time(place: &KernelWorkplace) -> Option<Seen> {
    let (hog, cpu) = (hog(place), allowed_cpu());
    if !place.run("chrt", &["-f", "10", "true"]).success() {
        return None;
    }
    let script = format!(
        "chrt -f 10 taskset -c {cpu} python3 -c '
import time
for _ in range(100): time.sleep(0.005)' &
         sleep 0.3
         for turn in 1 2 3; do
             chrt -f 50 taskset -c {cpu} {} -c 'n=0; while [ $n -lt 30000 ]; do n=$((n + 1)); done'
         done
         wait",
        text(&hog)
    );
    record(place, &["-a"], &["sh", "-c", &script], ("python3 (", "hog ("))
}

fn inversion(place: &KernelWorkplace) -> Option<Seen> {
    let program = place.path("inversion");
    Compilation::of(&["inversion.c"]).link(&program);
    if !place.run("chrt", &["-f", "10", "true"]).success() {
        return None;
    }
    let mut seen = record(place, &[], &[text(&program), "plain"], ("inversion (", ""))?;
    let threads = fs::read_to_string(place.path("threads")).expect("it names its threads");
    seen.culprit = format!(" {} ", threads.lines().nth(2).expect("three threads"));
    Some(seen)
}

fn late_wake_ups(place: &KernelWorkplace) -> Option<Seen> {
    let (hog, cpu) = (hog(place), allowed_cpu());
    if !place.run("chrt", &["-f", "10", "true"]).success() {
        return None;
    }
    let script = format!(
        "taskset -c {cpu} python3 -c '
import time
for _ in range(400): time.sleep(0.001)' & sleeper=$!
         while kill -0 $sleeper 2>/dev/null; do
             chrt -f 50 taskset -c {cpu} {} -c 'n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done'
             sleep 0.02
         done
         wait",
        text(&hog)
    );
    record(
        place,
        &[],
        &["sh", "-c", &script],
        ("threads waited for a CPU", "hog ("),
    )
}

/// Sends packets to itself that many sockets look at with a long filter each: so many sockets, filters that count or that ask for random
/// numbers, so many milliseconds. Those that ask for random numbers are as many as it takes to keep any CPU busy for long with one packet. In the
/// end it closes the sockets, for each of which the kernel waits for all CPUs.
const FILTERS: &str = "
import ctypes, socket, struct, sys, time
count, kind, ms = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
code, value = {'count': (0x04, 1), 'random': (0x20, 0xfffff038)}[kind]
filter = 2000 * struct.pack('HBBI', code, 0, 0, value) + struct.pack('HBBI', 0x06, 0, 0, 0)
buffer = ctypes.create_string_buffer(filter)
for _ in range(3000):
    socket.socket().close()
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(('127.0.0.1', 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(receiver.getsockname())
sockets = []
def add(count):
    for _ in range(count):
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        one.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HxxxxxxP', 2001, ctypes.addressof(buffer)))
        sockets.append(one)
def send():
    begin = time.monotonic()
    sender.send(b'x')
    return time.monotonic() - begin
add(count)
while kind == 'random' and min(send() for _ in range(3)) < 0.008 and len(sockets) < 900:
    add(50)
end = time.monotonic() + ms / 1000
while time.monotonic() < end:
    send()
";

fn filters(place: &KernelWorkplace, (count, kind, ms): (&str, &str, &str), names: (&str, &str)) -> Option<Seen> {
    record(place, &["-a"], &["python3", "-c", FILTERS, count, kind, ms], names)
}

fn long_interrupt(place: &KernelWorkplace) -> Option<Seen> {
    filters(place, ("100", "random", "200"), ("softirq NET_RX", "softirq NET_RX"))
}

fn interrupts(place: &KernelWorkplace) -> Option<Seen> {
    filters(place, ("50", "count", "600"), ("interrupts", "softirq NET_RX"))
}

fn kernel_lock(place: &KernelWorkplace) -> Option<Seen> {
    filters(place, ("40", "count", "1"), ("python3 (", "close"))
}

/// The same closes, as system calls that take long.
fn slow_wait(place: &KernelWorkplace) -> Option<Seen> {
    filters(
        place,
        ("20", "count", "1"),
        ("close took unusually long, longest in python3 (", "rcu_"),
    )
}

fn slow_work(place: &KernelWorkplace) -> Option<Seen> {
    let script = "
import os
for _ in range(200): os.getrandom(8)
os.getrandom(50_000_000)";
    record(place, &[], &["python3", "-c", script], ("getrandom took", "getrandom"))
}

/// A limit shows only where the CPU is idle meanwhile.
fn throttled(place: &KernelWorkplace) -> Option<Seen> {
    let group = Group::make(place)?;
    let command = ["python3", "-c", COMPUTE_THERE, text(&group.folder), text(&group.mount)];
    for _ in 1..=3 {
        let seen = record(place, &["-a", "--preset", "sched"], &command, ("python3 (", "python3"))?;
        let top = analyze(place, "cputop", &seen.trace, &[]);
        let own = row(
            &top,
            "cpus",
            "cpu",
            &allowed_cpu().parse::<i64>().expect("a number").into(),
        );
        if own["busy_percent"].as_f64().expect("a number") < 40.0 {
            return Some(seen);
        }
    }
    None
}

fn starved(place: &KernelWorkplace) -> Option<Seen> {
    let (hog, cpu) = (hog(place), allowed_cpu());
    let victim = place.path("victim");
    fs::copy("/bin/sh", &victim).expect("a copy of a shell");
    let script = format!(
        "nice -n -10 taskset -c {cpu} {} -c 'while :; do :; done' & hog=$!
         nice -n 5 taskset -c {cpu} {} -c 'n=0; while [ $n -lt 30000 ]; do n=$((n + 1)); done'
         kill $hog",
        text(&hog),
        text(&victim)
    );
    record(place, &["-a"], &["sh", "-c", &script], ("victim (", "hog ("))
}

fn busy(place: &KernelWorkplace) -> Option<Seen> {
    let hog = hog(place);
    // Few others are more urgent.
    let count = "n=0; while [ $n -lt 900000 ]; do n=$((n + 1)); done";
    record(
        place,
        &[],
        &["chrt", "-f", "10", text(&hog), "-c", count],
        ("hog (", "hog"),
    )
}

fn convoy(place: &KernelWorkplace, argument: &str, culprit: &str) -> Option<Seen> {
    let program = place.path("convoy");
    Compilation::of(&["convoy.c"]).link(&program);
    record(place, &[], &[text(&program), argument], (culprit, culprit))
}

fn static_lock(place: &KernelWorkplace) -> Option<Seen> {
    convoy(place, "static", "till_lock in convoy")
}

fn heap_lock(place: &KernelWorkplace) -> Option<Seen> {
    convoy(place, "heap", "heap or stack of convoy")
}

fn interpreter_lock(place: &KernelWorkplace) -> Option<Seen> {
    let script = "
import threading
def work():
    total = 0
    for number in range(3_000_000):
        total += number * number
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()";
    record(place, &[], &["python3", "-c", script], ("_PyRuntime", "_PyRuntime"))
}

fn stall(place: &KernelWorkplace) -> Option<Seen> {
    let script = programs().join("event_loop.py");
    record(place, &[], &["python3", text(&script)], ("python3 (", "python3"))
}

/// Writes pages to a file or device past the page cache once a file `go` is there, and makes a file `done` in the end. In between, the file
/// system of its first argument is frozen for 200 ms.
const WRITE_AND_FREEZE: &str = "
import fcntl, mmap, os, sys, threading, time
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
folder, target = sys.argv[1:]
frozen = os.open(folder, os.O_RDONLY)
file = os.open(target, os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
is_frozen = threading.Event()
def freeze():
    fcntl.ioctl(frozen, FIFREEZE, 0)
    is_frozen.set()
    time.sleep(0.2)
    fcntl.ioctl(frozen, FITHAW, 0)
while not os.path.exists('go'):
    time.sleep(0.01)
for turn in range(150):
    if turn == 100:
        thread = threading.Thread(target=freeze)
        thread.start()
        is_frozen.wait()
    os.pwritev(file, [page], 4096 * turn)
thread.join()
open('done', 'w').close()
";

/// Its writer has the file open before the recording begins: then the trace knows the file's name.
fn frozen(
    place: &KernelWorkplace,
    device_of: impl FnOnce(&KernelWorkplace, PathBuf) -> Option<(String, Option<LoopDevice>)>,
    of: &str,
) -> Option<Seen> {
    for old in ["disk", "disk.memory", "go", "done"] {
        place.run("rm", &["-rf", text(&place.path(old))]).expect_success();
    }
    let disk = Disk::new(place, 64 << 20, 0)?;
    let file = disk.folder.join("journal");
    fs::write(&file, vec![1; 4096 * 200]).expect("there is room");
    place.run("sync", &["-f", text(&file)]).expect_success();
    let (target, _device) = device_of(place, file)?;
    let mut writer = place.start("python3", &["-c", WRITE_AND_FREEZE, text(&disk.folder), &target]);
    let has_opened = format!("/proc/{}/fd/4", writer.pid());
    wait_until("it has opened its file", || fs::exists(&has_opened).unwrap_or(false));
    let wait = "touch go; while [ ! -e done ]; do sleep 0.05; done";
    let name = target.rsplit('/').next().unwrap_or_default();
    let seen = record(
        place,
        &["-a", "--preset", "io,sched,syscalls"],
        &["sh", "-c", wait],
        (of, name),
    );
    writer.finish();
    seen
}

fn slow_file(place: &KernelWorkplace) -> Option<Seen> {
    frozen(place, |_, file| Some((text(&file).to_owned(), None)), "python3 (")
}

fn slow_request(place: &KernelWorkplace) -> Option<Seen> {
    let device_of = |place: &KernelWorkplace, file: PathBuf| {
        let device = LoopDevice::of(place, &file)?;
        Some((device.0.clone(), Some(device)))
    };
    frozen(place, device_of, "took")
}

fn faults(place: &KernelWorkplace) -> Option<Seen> {
    let program = place.path("faults");
    Compilation::of(&["faults.c"]).link(&program);
    record(
        place,
        &["--preset", "mem,sched,syscalls"],
        &[text(&program)],
        ("faults (", "faults"),
    )
}
