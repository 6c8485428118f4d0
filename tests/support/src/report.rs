// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste analyze` finds out, as JSON, for tests that know the answer from elsewhere.

use std::path::Path;

use serde_json::Value;

use crate::Workplace;

/// What `ltt` says of a thread or a process while it is there.
pub const STATES: [&str; 9] = [
    "on_cpu_ns",
    "runnable_ns",
    "io_ns",
    "network_ns",
    "timer_ns",
    "lock_ns",
    "thread_ns",
    "other_ns",
    "unknown_ns",
];

/// Python that reads the file of its argument, which it makes, past the page cache, and says its pid and how many bytes that were; nothing
/// where the file system cannot.
pub const READ_DIRECTLY: &str = "
import mmap, os, sys, time
# On a CPU that was always online: Linux 6.18 no longer reports switches away from the idle thread on a CPU that was offline once.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, bytes(1 << 20))
os.fsync(fd)
os.close(fd)
try:
    fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
except OSError:
    sys.exit()
page = mmap.mmap(-1, 65536)
total = 0
for read in range(16):
    total += os.readv(fd, [page])
    # A completion that arrives while pisted has this CPU is not recorded, and pisted may have it for milliseconds.
    time.sleep(0.001 * read)
print(os.getpid(), total)
";

/// A path as an argument.
///
/// # Panics
/// It is not UTF-8.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Records a command without loss, for what was lost, nobody knows: the trace, and what the command said. The machine may be too busy for
/// that now and then.
///
/// # Panics
/// The command fails, or the machine is always too busy.
pub fn record_whole(place: &Workplace, options: &[&str], command: &[&str]) -> (String, String) {
    for _ in 1..=5 {
        let mut folders = (1..).map(|number| place.path(&format!("trace-{number}")));
        let free = folders.find(|folder| !folder.exists()).expect("numbers are many");
        let trace = text(&free).to_owned();
        let arguments = [&["record", "--no-user", "-o", &trace], options, &["--"], command].concat();
        let recorded = place.piste(&arguments);
        recorded.expect_success();
        if recorded.stderr.contains("nothing lost") {
            return (trace, recorded.stdout);
        }
    }
    panic!("no recording without loss: {command:?}");
}

/// What an analysis finds out of a trace.
///
/// # Panics
/// It fails.
pub fn analyze(place: &Workplace, name: &str, trace: &str, options: &[&str]) -> Value {
    place.piste_json(&[&["analyze", name, trace], options].concat())
}

/// The rows of a table.
///
/// # Panics
/// There is no such table.
pub fn rows<'v>(report: &'v Value, table: &str) -> &'v Vec<Value> {
    let rows = report[table].as_array();
    rows.unwrap_or_else(|| panic!("no {table}: {report:#}"))
}

/// The first row that has this value in a column.
///
/// # Panics
/// There is none.
pub fn row<'v>(report: &'v Value, table: &str, key: &str, wanted: &Value) -> &'v Value {
    let found = rows(report, table).iter().find(|row| row[key] == *wanted);
    found.unwrap_or_else(|| panic!("no {key} {wanted} in {table}: {report:#}"))
}

/// Checks that what each thread of a report of `ltt` did fills its time exactly, with what is unknown; how many threads there are.
///
/// # Panics
/// One's does not.
pub fn time_is_filled(report: &Value) -> usize {
    let duration = number(&report["end_ns"]) - number(&report["begin_ns"]);
    let threads = rows(report, "threads");
    for thread in threads {
        let there_ns: i64 = STATES.iter().map(|state| number(&thread[*state])).sum();
        assert_eq!(there_ns + number(&thread["absent_ns"]), duration, "{thread:#}");
    }
    threads.len()
}

/// A number. Times and other large numbers are texts in JSON.
///
/// # Panics
/// It is none.
pub fn number(value: &Value) -> i64 {
    let of_text = || value.as_str().and_then(|text| text.parse().ok());
    value
        .as_i64()
        .or_else(of_text)
        .unwrap_or_else(|| panic!("{value} is no number"))
}
