// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze` beside /proc, where a program looks at what the kernel has counted for it: bytes, switches, time on a CPU.

use piste_support::kernel::{stolen_ns, workplace as kernel_workplace};
use piste_support::report::{analyze, number, record_whole, row};
use serde_json::Value;

/// Does a bit of everything between two looks at /proc. A call that it makes nowhere else marks each begin and end in the trace: 0 before the
/// first look, 1 behind it, 2 before the second, 3 behind that.
const MIXED: &str = "
import os, time
def read(name):
    fd = os.open('/proc/self/' + name, os.O_RDONLY)
    text = os.read(fd, 4096)
    os.close(fd)
    return text.decode()
def mark(number):
    os.getpriority(os.PRIO_PROCESS, 0)
def look(io_comes_first):
    names = ['schedstat', 'stat', 'status', 'io']
    return {name: read(name) for name in (reversed(names) if io_comes_first else names)}
marks = []
mark(0)
first = look(False)
mark(1)
source, target = os.pipe()
with open('file', 'wb', buffering=0) as file:
    for turn in range(50):
        os.write(target, bytes(1000 + turn))
        os.read(source, 4096)
        file.write(bytes(5000))
        os.pwrite(file.fileno(), b'ab', 0)
        os.writev(file.fileno(), [b'abc', b'de'])
        time.sleep(0.001)
        sum(range(20000))
with open('file', 'rb', buffering=0) as file, open('copy', 'wb', buffering=0) as copy:
    os.sendfile(copy.fileno(), file.fileno(), 0, 100000)
mark(2)
second = look(True)
mark(3)
def numbers(look):
    io = dict(line.split(': ') for line in look['io'].splitlines())
    status = dict(line.split(':') for line in look['status'].splitlines())
    stat = look['stat'].rsplit(') ', 1)[1].split()
    switches = int(status['voluntary_ctxt_switches']) + int(status['nonvoluntary_ctxt_switches'])
    return [int(io['rchar']), int(io['wchar']), switches, int(look['schedstat'].split()[2]),
            int(look['schedstat'].split()[0]), (int(stat[11]) + int(stat[12])) * 1000000000 // os.sysconf('SC_CLK_TCK')]
# The first look at io is itself in the second.
own = numbers(first)
own[0] += len(first['io'])
print(os.getpid(), *[after - before for before, after in zip(own, numbers(second))])
";

/// The kernel adds up what a thread used when it leaves its CPU, and at ticks, of which there are a hundred a second at least.
const TICK_NS: i64 = 10_000_000;

#[test]
fn bytes_switches_and_times_are_those_of_proc() {
    let Some(place) = kernel_workplace() else { return };
    let stolen_before_ns = stolen_ns();
    let (trace, said) = record_whole(&place, &[], &["python3", "-c", MIXED]);
    let stolen_ns = stolen_ns() - stolen_before_ns;
    let said: Vec<i64> = said
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    let [pid, read, written, switches, runs, ran_ns, ticked_ns] = said[..] else {
        panic!("{said:?}")
    };
    let view = [
        "view",
        &trace,
        "--format",
        "ndjson",
        "--event",
        "syscall_entry_getpriority",
    ];
    let marks: Vec<i64> = place
        .piste_succeeds(&view)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|event| event["event_context"]["tid"] == pid)
        .map(|event| number(&event["time_ns"]))
        .collect();
    let [before, begin, end, behind] = marks[..] else {
        panic!("{marks:?}")
    };
    let within = |name: &str, begin: i64, end: i64| {
        let span = [begin.to_string(), end.to_string()];
        let options = ["--limit", "100000", "--begin", &span[0], "--end", &span[1]];
        analyze(&place, name, &trace, &options)
    };
    let pid = Value::from(pid);

    // Up to the second look at io, whose own bytes come behind it; getpriority moves none.
    let files = within("iotop", begin, end);
    let own = row(&files, "processes", "pid", &pid);
    assert_eq!(
        [number(&own["read_bytes"]), number(&own["written_bytes"])],
        [read, written],
        "{own:#}"
    );

    // Between looking and marking it may lose its CPU, too.
    let of_thread = |begin: i64, end: i64| {
        let top = within("cputop", begin, end);
        let own = row(&top, "threads", "tid", &pid);
        (number(&own["switches"]), number(&own["on_cpu_ns"]))
    };
    let ((least, least_ns), (most, most_ns)) = (of_thread(begin, end), of_thread(before, behind));
    assert!(least >= 50, "it slept 50 times: {least}");
    for count in [switches, runs] {
        assert!((least..=most).contains(&count), "{count} of {least} to {most} switches");
    }
    // The clocks run alike to a thousandth; what the host of a virtual machine took is not used; each switch has its own moment for each.
    let apart_ns = TICK_NS + most_ns / 1000 + stolen_ns + 10_000 * most;
    for (ns, apart_ns) in [(ran_ns, apart_ns), (ticked_ns, apart_ns + 2 * TICK_NS)] {
        assert!(
            (least_ns - apart_ns..=most_ns + apart_ns).contains(&ns),
            "{ns} of {least_ns} to {most_ns} ns, {apart_ns} ns apart"
        );
    }
}
