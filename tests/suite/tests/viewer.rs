// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste web`: the viewer in a real browser, on a real trace, and what the server refuses.

#[path = "viewer/browser.rs"]
mod browser;
#[path = "viewer/causes.rs"]
mod causes;
#[path = "viewer/compare.rs"]
mod compare;
#[path = "viewer/flame.rs"]
mod flame;
#[path = "viewer/full_disk.rs"]
mod full_disk;
#[path = "viewer/hostile.rs"]
mod hostile;
#[path = "viewer/live.rs"]
mod live;
#[allow(dead_code, reason = "a part of another test")]
#[path = "../../../crates/ctf/tests/conformance/notation.rs"]
mod notation;
#[path = "viewer/processes.rs"]
mod processes;
#[path = "viewer/recorded.rs"]
mod recorded;
#[path = "viewer/scale.rs"]
mod scale;
#[path = "viewer/truth.rs"]
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use piste_support::Workplace;
use piste_support::build_tree::repository;
use piste_support::kernel;
use piste_support::process::{Running, run, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use self::browser::{browse, browse_with};
use self::recorded::recorded;

/// Three processes that want the same CPU, and one that sleeps: something stands out. One has markup as its name. Another one wakes one, now and
/// then.
const PROGRAM: &str = "
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for number in range(3):
    if os.fork() == 0:
        if number == 0:
            open('/proc/self/comm', 'w').write('<img src=x>')
        while time.process_time() < 0.2:
            for again in range(100):
                open('/dev/null').close()
        os._exit(0)
reads, writes = os.pipe()
for name in ['sleeper', 'waker']:
    if os.fork() == 0:
        open('/proc/self/comm', 'w').write(name)
        for number in range(20):
            if name == 'sleeper':
                os.read(reads, 1)
            else:
                time.sleep(0.03)
                os.write(writes, b'x')
        os._exit(0)
for number in range(5):
    os.wait()
time.sleep(0.05)
";

/// Whether the viewer was built. Prints why not.
fn has_viewer() -> bool {
    let is_there = repository().join("viewer/dist/viewer.js").exists();
    if !is_there {
        println!("skipped: the viewer, which needs Node.js, was not built");
    }
    is_there
}

/// `piste web`, which runs until it is dropped.
struct Server {
    running: Running,
    /// `http://127.0.0.1:PORT/TOKEN/`
    address: String,
}

impl Server {
    fn start(place: &Workplace, arguments: &[&str]) -> Server {
        let piste = repository().join("build/bin/piste");
        Server::of(place.start(piste, &[&["--json", "web"], arguments].concat()))
    }

    /// One that prints its address.
    fn of(mut running: Running) -> Server {
        let mut said = String::new();
        while !said.trim_end().ends_with('}') {
            said += &running.line();
        }
        let said: Value = serde_json::from_str(&said).expect("JSON");
        let address = said["url"].as_str().expect("an address").to_owned();
        Server { running, address }
    }

    /// `127.0.0.1:PORT` and `/TOKEN/`
    fn parts(&self) -> (&str, &str) {
        let rest = self.address.strip_prefix("http://").expect("HTTP");
        rest.split_at(rest.find('/').expect("a path"))
    }

    /// Asks, and returns the status and the whole answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        self.ask_with(method, path, headers, "")
    }

    fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let (host, _) = self.parts();
        let mut stream = TcpStream::connect(host).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request += &format!("Host: {host}\r\n");
        }
        headers
            .iter()
            .for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
        stream
            .write_all(format!("{request}\r\n{body}").as_bytes())
            .expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{answer:?}")), answer)
    }

    /// What the server says of its first recording.
    fn status(&self) -> Value {
        let (_, token) = self.parts();
        let (status, answer) = self.ask("GET", &format!("{token}api/recordings"), &[]);
        assert_eq!(status, 200, "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let all: Value = serde_json::from_str(body).expect("JSON");
        all[0].clone()
    }

    /// Waits until the timeline is there, or cannot be.
    fn settle(&self) -> Value {
        let (_, token) = self.parts();
        let (status, answer) = self.ask("POST", &format!("{token}api/0/open"), &[]);
        assert_eq!(status, 204, "{answer}");
        let is_settled = |status: &Value| ["whole", "failed"].contains(&status["state"].as_str().unwrap_or_default());
        wait_until("the timeline is there", || is_settled(&self.status()));
        self.status()
    }

    /// Asks the first recording, and returns the body of the answer.
    fn post(&self, what: &str, body: &Value) -> Vec<u8> {
        let (host, token) = self.parts();
        let body = body.to_string();
        let mut stream = TcpStream::connect(host).expect("it listens");
        let length = body.len();
        write!(
            stream,
            "POST {token}api/0/{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a body");
        answer.split_off(end + 4)
    }

    /// Asks the first recording for JSON: `Err` is the message of a refusal.
    fn json(&self, method: &str, what: &str, body: &str) -> Result<Value, String> {
        let (_, token) = self.parts();
        let (status, answer) = self.ask_with(method, &format!("{token}api/0/{what}"), &[], body);
        let (_, text) = answer.split_once("\r\n\r\n").expect("a body");
        let found: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {answer}"));
        match status {
            200 => Ok(found),
            _ => Err(found["error"]["message"].as_str().expect("a reason").to_owned()),
        }
    }

    /// A page of events: the time and name of each, and where the next one begins.
    fn events(&self, (begin_ns, end_ns): (i64, i64), limit: usize, more: &str) -> (Vec<(i64, String)>, Option<i64>) {
        let asked = format!("events?begin={begin_ns}&end={end_ns}&limit={limit}{more}");
        let page = self.json("GET", &asked, "").expect("a page");
        let ns = |value: &Value| value.as_str().map(|text| text.parse().expect("a number"));
        let events = page["events"].as_array().expect("events").iter();
        let events = events.map(|event| (ns(&event["time_ns"]).expect("a time"), event["name"].to_string()));
        (events.collect(), ns(&page["next"]))
    }

    /// By class: how long a lane was that in a range.
    fn sums(&self, lane: u64, range: (i64, i64)) -> BTreeMap<String, i64> {
        by_class(&self.sum(lane, range))
    }

    /// What the server says of a lane in a range.
    fn sum(&self, lane: u64, (begin_ns, end_ns): (i64, i64)) -> Value {
        let asked = json!({ "begin_ns": begin_ns.to_string(), "end_ns": end_ns.to_string(), "lanes": [lane] });
        let answer: Value = serde_json::from_slice(&self.post("sums", &asked)).expect("JSON");
        answer[0].clone()
    }

    /// What is drawn of a lane, in so many columns; `None`: piece by piece.
    fn columns(&self, lane: u64, (begin_ns, end_ns): (i64, i64), count: usize) -> Option<Vec<Column>> {
        let asked = json!({
            "begin_ns": begin_ns.to_string(), "end_ns": end_ns.to_string(), "lanes": [lane], "columns": count
        });
        let answer = self.post("view", &asked);
        let mut rest = &answer[8..];
        let mut take = |bytes: usize| {
            let (taken, left) = rest.split_at(bytes);
            rest = left;
            taken
                .iter()
                .rev()
                .fold(0_u32, |value, byte| value << 8 | u32::from(*byte))
        };
        if take(1) == 1 {
            return None;
        }
        assert_eq!(take(4) as usize, count);
        let mut columns = Vec::new();
        for _ in 0..count {
            let mask = take(2);
            let classes = (0..16).filter(|class| mask >> class & 1 == 1);
            let shares = classes.map(|class| (class, f64::from(take(1)) / 255.0)).collect();
            if mask != 0 {
                take(5);
            }
            let numbers = (mask >> VALUE & 1 == 1).then(|| {
                let amounts = take(4);
                let mut number = || f64::from_bits(u64::from(take(4)) | u64::from(take(4)) << 32);
                Numbers {
                    amounts,
                    least: number(),
                    most: number(),
                    total: number(),
                }
            });
            columns.push(Column { shares, numbers });
        }
        Some(columns)
    }

    fn end(mut self) {
        self.running.signal(Signal::INT);
        self.running.finish().expect_success();
    }
}

/// By class: for how many nanoseconds.
fn by_class(sum: &Value) -> BTreeMap<String, i64> {
    let sums = sum["ns"].as_object().expect("sums by class").iter();
    sums.map(|(class, ns)| (class.clone(), ns.as_i64().expect("a number")))
        .collect()
}

/// What is drawn in a column.
struct Column {
    /// By the number of the class.
    shares: BTreeMap<u32, f64>,
    numbers: Option<Numbers>,
}

/// Numbers of a column together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Numbers {
    amounts: u32,
    least: f64,
    most: f64,
    /// The sum of amounts, or the mean of a level.
    total: f64,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_recording_is_seen_in_a_browser() {
    let Some((place, trace)) = recorded() else { return };
    let server = Server::start(&place, &[text(&trace)]);
    for scenario in [
        "insights",
        "timeline",
        "moves",
        "selects",
        "wakers",
        "creators",
        "groups",
        "flow",
        "range",
        "sql",
        "events",
        "statistics",
        "markup",
        "search",
        "notes",
        "exports",
        "palette",
        "pinch",
        "keyboard",
        "dark",
        "old",
    ] {
        browse(scenario, &server);
    }
    server.end();
}

#[test]
fn what_needs_no_browser_is_tested_without_one() {
    if !has_viewer() {
        return;
    }
    run(Command::new("node").arg(repository().join("viewer/tests/logic.mjs"))).expect_success();
}

#[test]
fn a_timeline_is_made_once_and_again_when_it_is_damaged() {
    let Some((place, trace)) = recorded() else { return };
    let kept = trace.join(".piste-timeline");
    let server = Server::start(&place, &[text(&trace)]);
    let status = server.settle();
    assert_eq!(status["state"], "whole", "{status}");
    server.end();
    let made = fs::read(&kept).expect("it is kept");
    let modified = || {
        fs::metadata(&kept)
            .and_then(|about| about.modified())
            .expect("it is there")
    };
    let first = modified();
    let hidden = fs::read_dir(&trace).expect("a folder").flatten();
    let drafts: Vec<_> = hidden
        .filter(|entry| text(&entry.path()).contains(".piste-timeline-"))
        .collect();
    assert!(drafts.is_empty(), "{drafts:?}");

    let server = Server::start(&place, &[text(&trace)]);
    assert_eq!(server.settle()["state"], "whole");
    server.end();
    assert_eq!(modified(), first, "it was made again");

    fs::write(&kept, &made[..made.len() - 5]).expect("it can be written");
    let server = Server::start(&place, &[text(&trace)]);
    assert_eq!(server.settle()["state"], "whole");
    server.end();
    assert_eq!(fs::read(&kept).expect("it is kept"), made);

    // A fault that only shows when it is asked.
    let mut damaged = made.clone();
    damaged[100..made.len() / 2].fill(0xff);
    fs::write(&kept, &damaged).expect("it can be written");
    let server = Server::start(&place, &[text(&trace)]);
    assert_eq!(server.settle()["state"], "whole");
    let (_, token) = server.parts();
    let wanted = r#"{"begin_ns":"0","end_ns":"4000000000000000000","columns":7,"lanes":[0,1,2,3,4,5,6,7,8,9]}"#;
    let (status, answer) = server.ask_with("POST", &format!("{token}api/0/view"), &[], wanted);
    assert_eq!(status, 409, "{answer}");
    assert_eq!(server.settle()["state"], "whole");
    let (status, answer) = server.ask_with("POST", &format!("{token}api/0/view"), &[], wanted);
    assert_eq!(status, 200, "{answer}");
    server.end();
    assert_eq!(fs::read(&kept).expect("it is kept"), made);

    // Other readers do not see it.
    let counted = piste_support::Trace::at(&trace).event_count();
    assert!(counted > 100, "{counted}");
}

/// In the order of the server's numbers.
const CLASSES: [&str; 11] = [
    "unknown",
    "idle",
    "running",
    "user",
    "kernel",
    "interrupted",
    "runnable",
    "blocked",
    "stopped",
    "other",
    "value",
];

/// The number of the class of numbers.
const VALUE: u32 = 10;

/// Times are text, so that no reader rounds them.
fn whole_number(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().expect("a number"),
        number => number.as_i64().expect("a number"),
    }
}

/// Numbers as if by chance, the same each time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Two CPUs whose frequencies change, and packets, of which CPU 1 sends more: on a machine that has no frequencies, no recording has those.
/// Thread 50 begins in the middle.
const NUMBERS: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; };
env { domain = \"kernel\"; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 8; align = 8; } := uint8_t;
stream { event.header := struct { uint8_t id; clock_t timestamp; }; };
event { name = sched_switch; id = 0; fields := struct {
	uint32_t _cpu_id; string _prev_comm; uint32_t _prev_tid; uint32_t _prev_state; string _next_comm; uint32_t _next_tid;
}; };
event { name = power_cpu_frequency; id = 1; fields := struct { uint32_t _cpu_id; uint32_t _state; }; };
event { name = net_dev_queue; id = 2; fields := struct { uint32_t _cpu_id; uint32_t _len; string _name; }; };
event { name = net_if_receive_skb; id = 3; fields := struct { uint32_t _cpu_id; uint32_t _len; string _name; }; };
event { name = sched_process_fork; id = 4; fields := struct {
	uint32_t _cpu_id; uint32_t _parent_tid; uint32_t _parent_pid; string _child_comm; uint32_t _child_tid; uint32_t _child_pid;
}; };
--- stream s
";

/// A trace with numbers, which a generator makes.
fn numbers(place: &Workplace) -> PathBuf {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut described = NUMBERS.to_owned();
    let mut ns = 1_000_000_000_u64;
    let (mut running, names) = ([false; 2], ["server", "client"]);
    for number in 0..20_000 {
        ns += 1 + random.below(100_000);
        let cpu = random.below(2) as usize;
        let (tid, name) = (42 + cpu, names[cpu]);
        _ = match (number, random.below(10)) {
            (10_000, _) => writeln!(
                described,
                "u8:4 u64:{ns} u32:{cpu} u32:{tid} u32:{tid} \"worker\\0\" u32:50 u32:{tid}"
            ),
            (_, 0..3) => {
                running[cpu] = !running[cpu];
                let sides = [(0, 0, "swapper"), (tid, 1, name)];
                let (from, to) = (sides[usize::from(!running[cpu])], sides[usize::from(running[cpu])]);
                writeln!(
                    described,
                    "u8:0 u64:{ns} u32:{cpu} \"{}\\0\" u32:{} u32:{} \"{}\\0\" u32:{}",
                    from.2, from.0, from.1, to.2, to.0
                )
            }
            (_, 3) => {
                let khz = 800_000 + 100_000 * random.below(20);
                writeln!(described, "u8:1 u64:{ns} u32:{cpu} u32:{khz}")
            }
            (_, kind) => {
                let (id, bytes) = (if kind < 6 + cpu as u64 { 2 } else { 3 }, 60 + random.below(1441));
                writeln!(described, "u8:{id} u64:{ns} u32:{cpu} u32:{bytes} \"eth0\\0\"")
            }
        };
    }
    let trace = notation::Trace::parse(&described, Path::new("")).expect("it is a trace");
    let folder = place.path("numbers");
    fs::create_dir(&folder).expect("a new folder");
    fs::write(folder.join("metadata"), &trace.metadata).expect("it can be written");
    for (stream, bytes) in &trace.streams {
        fs::write(folder.join(stream), bytes).expect("it can be written");
    }
    folder
}

/// What a lane of numbers has in a range: how many amounts, the least, the most, and the sum, of levels times how long they last.
type Said = Option<(u64, u64, u64, u128)>;

/// The same of events with their times and numbers, and how long anything is known. Levels last until the next one.
fn counted(events: &[(i64, u64)], is_level: bool, trace_end_ns: i64, (begin_ns, end_ns): (i64, i64)) -> (Said, i64) {
    let (mut said, mut known_ns): (Said, i64) = (None, 0);
    for (place, (ns, value)) in events.iter().enumerate() {
        let until_ns = events.get(place + 1).map_or(trace_end_ns, |(next_ns, _)| *next_ns);
        let times = match is_level {
            true => (until_ns.min(end_ns) - (*ns).max(begin_ns)).max(0),
            false => i64::from((begin_ns..end_ns).contains(ns)),
        };
        if times > 0 {
            known_ns += times;
            let (amounts, least, most, total) = said.unwrap_or((0, *value, *value, 0));
            let total = total + u128::from(*value) * times as u128;
            said = Some((
                amounts + u64::from(!is_level),
                least.min(*value),
                most.max(*value),
                total,
            ));
        }
    }
    (said, if is_level { known_ns } else { 1 })
}

#[test]
fn numbers_are_what_the_events_say() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let trace = numbers(&place);
    let server = Server::start(&place, &[text(&trace)]);
    let status = server.settle();
    assert_eq!(status["state"], "whole", "{status}");
    let whole = (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]));
    let queried = |sql: &str| -> Vec<(i64, u64)> {
        let answer = place.piste_json(&["query", text(&trace), sql]);
        let rows = answer.as_array().expect("rows").iter();
        let of = |row: &Value| (whole_number(&row["time_ns"]), whole_number(&row["number"]) as u64);
        rows.map(of).collect()
    };
    let listed = server.json("GET", "lanes", "").expect("lanes");
    let lanes = listed["lanes"].as_array().expect("lanes").iter();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut compared, mut drawn) = (0, 0);
    for lane in lanes.filter(|lane| lane["kind"] == "counter") {
        let is_level = lane["quantity"] == "frequency";
        let events = match lane["quantity"].as_str().expect("a name") {
            "frequency" => queried(&format!(
                "SELECT time_ns, state AS number FROM power_cpu_frequency WHERE cpu_id = {} ORDER BY time_ns",
                lane["cpu"]
            )),
            "queued" => queried("SELECT time_ns, len AS number FROM net_dev_queue ORDER BY time_ns"),
            "received" => queried("SELECT time_ns, len AS number FROM net_if_receive_skb ORDER BY time_ns"),
            other => panic!("{other}"),
        };
        assert!(events.len() > 500, "{lane}: {}", events.len());
        let id = lane["id"].as_u64().expect("a number");
        for number in 0..60 {
            let width = (whole.1 - whole.0) >> random.below(16);
            let begin = whole.0 + random.below((whole.1 - whole.0) as u64) as i64;
            let range = if number == 0 {
                whole
            } else {
                (begin, begin + width.max(1))
            };
            let values = &server.sum(id, range)["values"];
            let text_of = |name: &str| -> u128 { values[name].as_str().expect("a number").parse().expect("a number") };
            let found: Said = (!values.is_null()).then(|| {
                let amounts = values["amounts"].as_u64().expect("a number");
                (
                    amounts,
                    text_of("least") as u64,
                    text_of("most") as u64,
                    text_of("total"),
                )
            });
            assert_eq!(found, counted(&events, is_level, whole.1, range).0, "{lane} {range:?}");
            compared += 1;
            let count = 2 + random.below(39) as usize;
            for (index, column) in server.columns(id, range, count).into_iter().flatten().enumerate() {
                let at =
                    |index: usize| range.0 + (i128::from(range.1 - range.0) * index as i128 / count as i128) as i64;
                let (said, known_ns) = counted(&events, is_level, whole.1, (at(index), at(index + 1)));
                let expected = said.map(|(amounts, least, most, total)| Numbers {
                    amounts: amounts as u32,
                    least: least as f64,
                    most: most as f64,
                    total: total as f64 / known_ns as f64,
                });
                assert_eq!(column.numbers, expected, "{lane} {range:?} {index}");
                drawn += 1;
            }
        }
    }
    assert!(compared >= 240 && drawn > 100, "{compared} ranges, {drawn} columns");
    browse("counters", &server);
    server.end();
}

/// By thread id and depth: the spans whose begin and end are known. By thread id: the times of single events.
struct Recorded {
    spans: BTreeMap<(i64, i64), Vec<(i64, i64)>>,
    events: BTreeMap<i64, Vec<i64>>,
}

fn queried_programs(place: &Workplace, trace: &Path) -> Recorded {
    let ask = |sql: &str| {
        let answer = place.piste_json(&["query", text(trace), sql]);
        answer.as_array().expect("rows").clone()
    };
    let mut recorded = Recorded {
        spans: BTreeMap::new(),
        events: BTreeMap::new(),
    };
    for row in ask(
        "SELECT tid, COALESCE(depth, 0) AS depth, begin_ns, end_ns FROM spans WHERE duration_ns IS NOT NULL AND name NOT LIKE 'lttng%'",
    ) {
        let number = |name: &str| whole_number(&row[name]);
        let of_lane = recorded.spans.entry((number("tid"), number("depth"))).or_default();
        of_lane.push((number("begin_ns"), number("end_ns")));
    }
    for row in ask("SELECT tid, time_ns FROM events WHERE name = 'step:begin'") {
        let of_thread = recorded.events.entry(whole_number(&row["tid"])).or_default();
        of_thread.push(whole_number(&row["time_ns"]));
    }
    recorded
}

/// The lanes of programs are what queries answer, in random ranges. How long events may be missing on all of them.
fn compare_programs(place: &Workplace, trace: &Path) -> i64 {
    let recorded = queried_programs(place, trace);
    assert!(!recorded.spans.is_empty());
    let server = Server::start(place, &[text(trace)]);
    let status = server.settle();
    assert_eq!(status["state"], "whole", "{status}");
    let whole = (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]));
    let (_, token) = server.parts();
    let (_, answer) = server.ask("GET", &format!("{token}api/0/lanes"), &[]);
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let lanes: Value = serde_json::from_str(body).expect("JSON");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut lost_ns, mut compared) = (0, 0);
    for lane in lanes["lanes"].as_array().expect("lanes") {
        let (id, tid) = (
            lane["id"].as_u64().expect("a number"),
            lane["tid"].as_i64().unwrap_or(-1),
        );
        let spans = match lane["kind"].as_str() {
            Some("spans") => recorded.spans.get(&(tid, lane["depth"].as_i64().expect("a depth"))),
            Some("events") => None,
            _ => continue,
        };
        let events = recorded.events.get(&tid).filter(|_| lane["kind"] == "events");
        lost_ns += server.sums(id, whole).get("unknown").copied().unwrap_or(0);
        for _ in 0..20 {
            let width = (whole.1 - whole.0) >> random.below(8);
            let begin = whole.0 + random.below((whole.1 - whole.0) as u64) as i64;
            let range = (begin, begin + width + 1);
            let answer = server.sum(id, range);
            let sums = by_class(&answer);
            let parts = spans.into_iter().flatten();
            let expected: i64 = parts
                .map(|(begin, end)| (end.min(&range.1) - begin.max(&range.0)).max(0))
                .sum();
            assert_eq!(sums.get("other").copied().unwrap_or(0), expected, "{lane} {range:?}");
            let happened = events.map(|events| events.iter().filter(|ns| range.0 <= **ns && **ns < range.1).count());
            if let Some(happened) = happened.filter(|_| !sums.contains_key("unknown")) {
                assert_eq!(answer["pieces"], happened, "{lane} {range:?}");
            }
            compared += 1;
        }
    }
    server.end();
    assert!(compared >= 40, "{compared}");
    lost_ns
}

#[test]
fn pages_of_events_hold_each_event_once() {
    let Some((place, trace)) = recorded() else { return };
    let server = Server::start(&place, &[text(&trace)]);
    let viewed = |arguments: &[&str]| -> Vec<(i64, String)> {
        let seen = place.piste(&[&["--json", "view", text(&trace)], arguments].concat());
        seen.expect_success();
        let events = seen
            .stdout
            .lines()
            .map(|line| -> Value { serde_json::from_str(line).expect("JSON") });
        let time_ns = |event: &Value| event["time_ns"].as_str().expect("a time").parse().expect("a number");
        events
            .map(|event| (time_ns(&event), event["name"].to_string()))
            .collect()
    };
    let some = viewed(&["-n", "3000"]);
    let range = (some[0].0, some[some.len() - 1].0);
    for filter in [None, Some("name == \"sched_switch\"")] {
        let (begin, end) = (range.0.to_string(), range.1.to_string());
        let mut arguments = vec!["--begin", &begin, "--end", &end];
        arguments.extend(filter.iter().flat_map(|filter| ["--filter", *filter]));
        let expected = viewed(&arguments);
        let more = filter.map_or_else(String::new, |_| "&filter=name+%3D%3D+%22sched_switch%22".to_owned());
        let (mut found, mut next) = (Vec::new(), Some(range.0));
        while let Some(begin) = next {
            let (page, after) = server.events((begin, range.1), 250, &more);
            assert!(
                page.len() <= 250 && after.is_none_or(|after| after > begin),
                "{after:?}"
            );
            found.extend(page);
            next = after;
        }
        assert_eq!(found, expected, "{filter:?}");
        // The last ones, which are looked for from the end.
        let (last, _) = server.events(range, 250, &format!("{more}&last=true"));
        assert_eq!(last, expected[expected.len().saturating_sub(250)..], "{filter:?}");
    }
    let said = server.json("GET", "events?begin=0&end=1&limit=5&filter=name+%3D%3D", "");
    assert!(said.is_err_and(|why| why.starts_with("the filter is invalid")));
    for wrong in ["events?begin=x&end=1&limit=5", "events?begin=0&end=1"] {
        let (_, token) = server.parts();
        let (status, answer) = server.ask("GET", &format!("{token}api/0/{wrong}"), &[]);
        assert_eq!(status, 400, "{answer}");
    }
    server.end();
}

#[test]
fn a_search_finds_each_piece_once() {
    let Some((place, trace)) = recorded() else { return };
    let server = Server::start(&place, &[text(&trace)]);
    let status = server.settle();
    let whole = (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]) + 1);
    let search = |name: &str, (begin, end): (i64, i64), columns: usize, more: &str| {
        let asked = format!("search?text={name}&begin={begin}&end={end}&columns={columns}{more}");
        server.json("GET", &asked, "").expect("an answer")
    };
    let key = |found: &Value| {
        let lane = found["lane"].as_i64()?;
        Some((whole_number(&found["begin_ns"]), lane))
    };
    let all = search("openat", whole, 100, "");
    let counts = all["columns"].as_array().expect("columns").iter();
    assert_eq!(
        counts.map(|count| count.as_u64().expect("a number")).sum::<u64>(),
        all["count"]
    );
    assert_eq!(all["is_cut"], false);
    let calls = "SELECT count(*) AS calls FROM syscalls WHERE name LIKE '%openat%'";
    let queried = place.piste_json(&["query", text(&trace), calls]);
    assert_eq!(all["count"], queried[0]["calls"], "{queried}");
    // In both directions, one after the other.
    let mut forwards = vec![key(&all["first"]).expect("one")];
    while let Some((begin, lane)) = forwards.last().copied().filter(|_| forwards.len() < 60) {
        let found = search("openat", (begin, whole.1), 1, &format!("&after_lane={lane}"));
        let Some(next) = key(&found["first"]) else { break };
        assert!(next > (begin, lane), "{next:?}");
        forwards.push(next);
    }
    let mut backwards = vec![forwards[forwards.len() - 1]];
    while let Some((end, lane)) = backwards.last().copied() {
        let found = search("openat", (whole.0, end), 1, &format!("&before_lane={lane}"));
        backwards.extend(key(&found["last"]));
        if found["count"] == 0 {
            break;
        }
    }
    backwards.reverse();
    assert_eq!(backwards, forwards);
    // In upper case, with two words, and nothing.
    assert_eq!(search("OPEN+At", whole, 1, "")["count"], all["count"]);
    assert_eq!(search("nothing+openat", whole, 1, "")["count"], 0);
    for wrong in ["text=+&columns=1", "text=a&columns=0", "text=a&columns=5000"] {
        let asked = format!("search?begin=0&end=1&{wrong}");
        assert!(server.json("GET", &asked, "").is_err(), "{wrong}");
    }
    server.end();
}

#[test]
fn only_the_viewer_writes_beside_a_trace() {
    let Some((place, trace)) = recorded() else { return };
    let server = Server::start(&place, &[text(&trace)]);
    let status = server.settle();
    let kept = trace.join(".piste-notes.json");
    let none = server.json("GET", "notes", "").expect("no notes");
    assert_eq!(none["notes"], json!([]));
    let note = json!({ "begin_ns": "5", "end_ns": "7", "text": "here" });
    let body = json!({ "version": none["version"], "notes": [note] }).to_string();
    // A page of another site.
    let (_, token) = server.parts();
    let (begin, end) = (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]));
    let range = format!("begin={}&end={}", begin + (end - begin) / 4, begin + (end - begin) / 2);
    for header in [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")] {
        for path in ["notes".to_owned(), format!("trim?{range}")] {
            let (status, answer) = server.ask_with("POST", &format!("{token}api/0/{path}"), &[header], &body);
            assert_eq!(status, 403, "{answer}");
        }
    }
    assert!(!kept.exists());
    let first = server.json("POST", "notes", &body).expect("it is kept");
    assert_eq!(first["notes"], json!([note]));
    let mode = fs::metadata(&kept).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Whoever has seen the notes before that does not replace them.
    let said = server.json("POST", "notes", &body).expect_err("it has changed");
    assert!(said.contains("changed in another window"), "{said}");
    let read: Value = serde_json::from_slice(&fs::read(&kept).expect("a file")).expect("JSON");
    assert_eq!(read, json!({ "piste_notes": 1, "notes": [note] }));
    // Readers of the trace do not see it.
    place.piste_succeeds(&["stats", text(&trace)]);

    let written = server.json("POST", &format!("trim?{range}"), "").expect("a trace");
    let part = written["path"].as_str().expect("a path");
    assert!(part.ends_with("-part1"), "{part}");
    place.piste_succeeds(&["stats", part]);
    let again = server.json("POST", &format!("trim?{range}"), "").expect("a trace");
    assert!(again["path"].as_str().expect("a path").ends_with("-part2"), "{again}");

    let (status, answer) = server.ask("GET", &format!("{token}api/0/perfetto?{range}"), &[]);
    assert_eq!(status, 200, "{answer}");
    assert!(answer.len() > 1000, "{}", answer.len());
    let said = server.json("GET", "perfetto?begin=9&end=5", "").expect_err("no range");
    assert!(!said.is_empty());
    server.end();
}

#[test]
fn a_query_of_the_page_only_reads_the_trace() {
    let Some((place, trace)) = recorded() else { return };
    let server = Server::start(&place, &[text(&trace)]);
    let query = |sql: &str| server.json("POST", "query?limit=3", sql);
    let answer = query("SELECT name, time_ns, NULL AS nothing FROM sched_switch").expect("rows");
    assert_eq!(answer["columns"], json!(["name", "time_ns", "nothing"]));
    assert_eq!(answer["rows"].as_array().map(Vec::len), Some(3), "{answer}");
    assert_eq!(answer["has_more"], json!(true));
    let none = query("-- No rows.\nSELECT 1 AS one WHERE false").expect("rows");
    assert_eq!(
        (&none["columns"], &none["rows"]),
        (&json!(["one"]), &json!([])),
        "{none}"
    );
    assert_eq!(none["has_more"], json!(false));

    let secret = place.path("secret.csv");
    fs::write(&secret, "word\nhush\n").expect("it can be written");
    let made = place.path("made");
    let (secret, written) = (text(&secret), text(&made));
    let set = format!("SET datafusion.runtime.temp_directory = '{written}'");
    for sql in [
        format!("COPY (SELECT 1) TO '{written}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{written}'"),
        format!("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{secret}'"),
        format!("SELECT * FROM '{secret}'"),
        format!("SELECT * FROM read_csv('{secret}')"),
        "CREATE VIEW x AS SELECT 1".to_owned(),
        "INSERT INTO streams SELECT * FROM streams".to_owned(),
        set.clone(),
        format!("SELECT 1; {set}"),
        format!("/* /* */ SELECT */ {set}"),
        format!("-- SELECT\r{set}"),
        format!("EXPLAIN ANALYZE {set}"),
        // The path of another trace.
        secret.to_owned(),
        text(&trace).to_owned(),
    ] {
        let said = query(&sql).expect_err(&sql);
        assert!(!said.contains("hush"), "{sql}: {said}");
        assert!(!made.exists(), "{sql}: {said}");
    }
    let several = query("SELECT 1; SELECT 2").expect_err("two statements");
    assert_eq!(several, "there are several statements; run them one at a time");
    let wrong = query("SELECT nothing FROM syscalls").expect_err("no column");
    assert!(wrong.contains("there is no column \"nothing\""), "{wrong}");
    server.end();
}

#[test]
fn what_programs_recorded_is_what_queries_answer() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let recording = place.record(
        &["-u", "work:*,step:begin", "--block", "forever"],
        place.program("spans.c"),
        &["100"],
    );
    recording.expect_whole();
    assert_eq!(compare_programs(&place, recording.trace().path()), 0);

    // One that lost events says so.
    let small = ["-u", "work:*,step:*", "--subbuf-size", "4K", "--num-subbuf", "2"];
    let recording = place.record(&small, place.program("spans.c"), &["20000"]);
    recording.finished.expect_success();
    assert!(compare_programs(&place, recording.trace().path()) > 0);
}

#[test]
fn what_is_no_trace_is_said() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let folder = place.path("empty");
    fs::create_dir(&folder).expect("a folder can be made there");
    let server = Server::start(&place, &[text(&folder)]);
    let status = server.settle();
    assert_eq!(status["state"], "failed", "{status}");
    server.end();

    let missing = place.piste(&["web", "/nonexistent/trace"]);
    missing.expect_status(1);
    assert!(missing.stderr.contains("there is no trace and no session"), "{missing}");
}

#[test]
fn a_recording_is_opened_when_it_ends() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let trace = place.path("trace");
    let command = [
        "--json",
        "record",
        "--web",
        "--no-kernel",
        "-o",
        text(&trace),
        "--",
        "sh",
        "-c",
        "exit 7",
    ];
    let server = Server::of(place.start(repository().join("build/bin/piste"), &command));
    assert_eq!(server.settle()["path"], text(&trace));
    let mut running = server.running;
    running.signal(Signal::INT);
    running.finish().expect_status(7);
}

#[test]
fn programs_are_seen_in_a_browser() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let options = ["-u", "work:*,step:begin", "--block", "forever"];
    let recording = place.record(&options, place.program("spans.c"), &["100"]);
    recording.expect_whole();
    let server = Server::start(&place, &[text(recording.trace().path())]);
    browse("programs", &server);
    server.end();
}

#[test]
fn strangers_learn_nothing() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let folder = place.path("empty");
    fs::create_dir(&folder).expect("a folder can be made there");
    let server = Server::start(&place, &[text(&folder)]);
    let (host, token) = server.parts();
    let recordings = format!("{token}api/recordings");
    let (status, answer) = server.ask("GET", &recordings, &[]);
    assert_eq!(status, 200, "{answer}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self';",
        "x-content-type-options: nosniff",
        "cross-origin-resource-policy: same-origin",
        "cross-origin-opener-policy: same-origin-allow-popups",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(answer.contains(header), "{header}: {answer}");
    }
    // Without the token, or with another one.
    for path in [
        "/",
        "/api/recordings",
        "/00000000000000000000000000000000/api/recordings",
        "//",
    ] {
        assert_eq!(server.ask("GET", path, &[]).0, 404, "{path}");
    }
    // A name of somebody else's that means this machine (DNS rebinding), and pages of other sites.
    let own = format!("http://{host}");
    for headers in [
        &[("Host", "evil.example")][..],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
        &[
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "navigate"),
            ("Sec-Fetch-Dest", "document"),
        ],
    ] {
        let (status, answer) = server.ask("GET", &recordings, headers);
        assert_eq!(status, 403, "{headers:?}");
        assert!(!answer.contains(text(&folder)), "{answer}");
    }
    // Numbers and names that nothing has.
    for path in [
        "api/7/lanes",
        "api/-1/lanes",
        "api/0/analysis/--help",
        "api/0/analysis/..%2f",
        "nothing.js",
        "../etc/passwd",
    ] {
        let (status, answer) = server.ask("GET", &format!("{token}{path}"), &[]);
        assert!((400..500).contains(&status), "{path}: {answer}");
    }
    let (_, token) = server.parts();
    assert_eq!(token.len(), 34, "128 bits between slashes");
    server.end();
}
