// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that mean harm, or that came to harm: whatever is in them, the server answers, and the viewer shows it or says why not.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use piste_support::Workplace;
use piste_support::made_trace::{Shape, write};
use piste_support::process::wait_until;
use serde_json::{Value, json};

use super::{Random, Server, browse_with, has_viewer, notation, text};

/// Damaged copies of a trace.
const DAMAGED: usize = 24;

const DESCRIPTION: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; };
env { domain = \"kernel\"; };
clock { name = c; freq = FREQUENCY; offset_s = OFFSET; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 8; align = 8; } := uint8_t;
stream { event.header := struct { uint8_t id; clock_t timestamp; }; };
event { name = sched_switch; id = 0; fields := struct {
	uint32_t _cpu_id; string _prev_comm; uint32_t _prev_tid; int64_t _prev_state; string _next_comm; uint32_t _next_tid;
}; };
event { name = power_cpu_frequency; id = 1; fields := struct { uint32_t _cpu_id; uint32_t _state; }; };
event { name = net_dev_queue; id = 2; fields := struct { uint32_t _cpu_id; uint32_t _len; string _name; }; };
event { name = sched_process_fork; id = 3; fields := struct {
	uint32_t _cpu_id; uint32_t _parent_tid; uint32_t _parent_pid; string _child_comm; uint32_t _child_tid; uint32_t _child_pid;
}; };
event { name = \"syscall_entry_read\"; id = 4; fields := struct { uint32_t _cpu_id; uint32_t _fd; int64_t _count; }; };
event { name = \"syscall_exit_read\"; id = 5; fields := struct { uint32_t _cpu_id; int64_t _ret; }; };
event { name = irq_handler_entry; id = 6; fields := struct { uint32_t _cpu_id; uint32_t _irq; string _name; }; };
event { name = block_rq_issue; id = 7; fields := struct {
	uint32_t _cpu_id; uint32_t _dev; int64_t _sector; uint32_t _nr_sector; uint32_t _tid;
}; };
--- stream s
";

/// Numbers at the ends of their types, and names that no program should have.
fn absurd(folder: &Path, (frequency, offset_s): (u64, u64), times: impl Fn(&mut Random, u64) -> u64) {
    let long = "A".repeat(70_000);
    let names = [
        "",
        "<img src=x>",
        "</script><script>throw 1</script>",
        "\u{202e}gnp.exe",
        "\u{1b}[2J\u{7}",
        "a,b;c&d=e#f",
        "../../etc",
        "\u{1f40c}\u{fe0f}\u{0301}\u{0301}\u{0301}",
        "__proto__",
        &long,
    ];
    let numbers = [0_u32, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    let long_numbers = [0_i64, -1, i64::MIN, i64::MAX, 1 << 53];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut described = DESCRIPTION
        .replace("FREQUENCY", &frequency.to_string())
        .replace("OFFSET", &offset_s.to_string());
    let mut ticks = 0;
    for _ in 0..3000 {
        ticks = times(&mut random, ticks);
        let kind = random.below(8);
        let mut number = || format!("u32:{}", numbers[random.below(numbers.len() as u64) as usize]);
        let (cpu, one, other, third) = (number(), number(), number(), number());
        let mut name = || format!("\"{}\\0\"", names[random.below(names.len() as u64) as usize]);
        let (first, second) = (name(), name());
        let mut long = || format!("i64:{}", long_numbers[random.below(long_numbers.len() as u64) as usize]);
        let (amount, place) = (long(), long());
        _ = write!(described, "u8:{kind} u64:{ticks} {cpu} ");
        _ = match kind {
            0 => writeln!(described, "{first} {one} {amount} {second} {other}"),
            1 => writeln!(described, "{one}"),
            2 | 6 => writeln!(described, "{one} {first}"),
            3 => writeln!(described, "{one} {other} {first} {third} {one}"),
            4 => writeln!(described, "{one} {amount}"),
            5 => writeln!(described, "{amount}"),
            _ => writeln!(described, "{one} {place} {other} {third}"),
        };
    }
    let trace = notation::Trace::parse(&described, Path::new("")).expect("it is a trace");
    fs::create_dir(folder).expect("a new folder");
    fs::write(folder.join("metadata"), &trace.metadata).expect("it can be written");
    for (stream, bytes) in &trace.streams {
        fs::write(folder.join(stream), bytes).expect("it can be written");
    }
}

/// Changes bytes of the files of a trace, cuts one off, or empties it.
fn damage(trace: &Path, random: &mut Random) {
    let folder = trace.join("kernel");
    let mut files: Vec<PathBuf> = [folder.clone(), folder.join("index")]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for _ in 0..=random.below(3) {
        let file = &files[random.below(files.len() as u64) as usize];
        let mut bytes = fs::read(file).expect("it is there");
        let length = bytes.len() as u64;
        match random.below(4) {
            0 => bytes.truncate(random.below(length + 1) as usize),
            1 => bytes.clear(),
            _ if length == 0 => {}
            _ => {
                for _ in 0..=random.below(20) {
                    bytes[random.below(length) as usize] = random.below(256) as u8;
                }
            }
        }
        fs::write(file, bytes).expect("it can be written");
    }
}

/// Everything that the viewer asks, about one recording. Returns whether it has a timeline.
fn question(server: &Server, recording: usize) -> bool {
    let (_, token) = server.parts();
    let ask = |method, what: &str, body: &str| {
        let (status, answer) = server.ask_with(method, &format!("{token}api/{what}"), &[], body);
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (status, body.expect("a body"))
    };
    let own = |method, what: &str, body: &str| {
        let (status, body) = ask(method, &format!("{recording}/{what}"), body);
        // What went wrong is said.
        let is_said = || serde_json::from_str::<Value>(&body).is_ok_and(|said| said["error"]["message"].is_string());
        assert!(status < 300 || is_said(), "{recording}/{what}: {status} {body}");
        (status, body)
    };
    assert_eq!(own("POST", "open", "").0, 204);
    let status = || {
        let all: Value = serde_json::from_str(&ask("GET", "recordings", "").1).expect("JSON");
        all[recording].clone()
    };
    wait_until("the timeline is there, or it is said why not", || {
        let state = &status()["state"];
        state == "whole" || state == "failed"
    });
    let status = status();
    if status["state"] == "failed" {
        assert!(
            status["problem"].as_str().is_some_and(|problem| !problem.is_empty()),
            "{status}"
        );
        return false;
    }
    let (begin, end) = (&status["begin_ns"], &status["end_ns"]);
    let lanes: Value = serde_json::from_str(&own("GET", "lanes", "").1).expect("JSON");
    let lanes: Vec<&Value> = lanes["lanes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|lane| &lane["id"])
        .collect();
    let some = &lanes[..lanes.len().min(16)];
    let range = json!({ "begin_ns": begin, "end_ns": end, "lanes": some, "columns": 512 }).to_string();
    own("POST", "view", &range);
    own("POST", "sums", &range);
    let range = format!(
        "begin={}&end={}",
        begin.as_str().unwrap_or("0"),
        end.as_str().unwrap_or("0")
    );
    for what in [
        "insights".to_owned(),
        format!("events?{range}&limit=100"),
        format!("search?text=a&columns=100&{range}"),
    ]
    .into_iter()
    .chain(["cputop", "syscallstats", "flame", "iotop"].map(|name| format!("analysis/{name}?{range}&limit=10")))
    {
        own("GET", &what, "");
    }
    for lane in some {
        own(
            "GET",
            &format!("piece?lane={lane}&at={}", begin.as_str().unwrap_or("0")),
            "",
        );
    }
    true
}

#[test]
fn hostile_traces_hang_nothing() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let mut traces = Vec::new();
    for (name, clock) in [
        ("numbers", (1_000_000_000, 0)),
        ("late", (1_000_000_000, 9_000_000_000)),
        ("slow-clock", (1, 0)),
    ] {
        absurd(&place.path(name), clock, |random, ticks| ticks + random.below(1000));
        traces.push(place.path(name));
    }
    absurd(&place.path("far"), (1_000_000_000, 0), |random, ticks| {
        ticks + random.below(1 << 52)
    });
    absurd(&place.path("back"), (1_000_000_000, 0), |random, _| {
        random.below(u64::MAX)
    });
    traces.extend([place.path("far"), place.path("back")]);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for number in 0..DAMAGED {
        let trace = place.path(&format!("damaged-{number}"));
        let shape = Shape {
            cpus: 3,
            threads: 50,
            events: 4000,
        };
        write(&trace, shape).expect("it can be written");
        damage(&trace, &mut random);
        traces.push(trace);
    }
    let paths: Vec<&str> = traces.iter().map(|trace| text(trace)).collect();
    let server = Server::start(&place, &paths);
    let mut seen = 0;
    for (recording, path) in paths.iter().enumerate() {
        println!("{path}");
        seen += usize::from(question(&server, recording));
    }
    println!("{seen} of {} have timelines", paths.len());
    assert!(seen > DAMAGED / 2, "{seen}");
    browse_with("hostile", &server, &json!(paths.len()));
    server.end();
}
