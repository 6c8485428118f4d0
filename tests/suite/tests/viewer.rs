// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste web`: the viewer in a real browser, on a real trace, and what the server refuses.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use piste_suite::Workplace;
use piste_suite::build_tree::repository;
use piste_suite::kernel::{self, KernelWorkplace};
use piste_suite::process::{Running, run, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Three processes that want the same CPU, and one that sleeps: something stands out.
const PROGRAM: &str = "
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for number in range(3):
    if os.fork() == 0:
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            open('/dev/null').close()
        os._exit(0)
for number in range(3):
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

/// A place with a recording of the kernel. `None`: the kernel cannot be recorded here, or there is no viewer.
fn recorded() -> Option<(KernelWorkplace, PathBuf)> {
    if !has_viewer() {
        return None;
    }
    let place = kernel::workplace()?;
    let recording = place.record_with_kernel(&["--no-user"], "python3", &["-c", PROGRAM]);
    recording.finished.expect_success();
    place.let_others_record();
    let trace = recording.trace().path().to_owned();
    Some((place, trace))
}

/// `piste web`, which runs until it is dropped.
struct Server {
    running: Running,
    /// `http://127.0.0.1:PORT/TOKEN/`
    address: String,
}

impl Server {
    fn start(place: &Workplace, arguments: &[&str]) -> Server {
        let mut running = place.start(
            repository().join("build/bin/piste"),
            &[&["--json", "web"], arguments].concat(),
        );
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

    fn end(mut self) {
        self.running.signal(Signal::INT);
        self.running.finish().expect_success();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_recording_is_seen_in_a_browser() {
    let Some((place, trace)) = recorded() else { return };
    let server = Server::start(&place, &[text(&trace)]);
    for scenario in ["insights", "timeline", "moves", "selects", "dark"] {
        let mut command = Command::new("node");
        command.arg(repository().join("viewer/tests/browser.mjs"));
        let seen = run(command.args([scenario, &server.address]));
        assert!(seen.success(), "{scenario}: {seen}");
    }
    server.end();
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
    let counted = piste_suite::Trace::at(&trace).event_count();
    assert!(counted > 100, "{counted}");
}

#[test]
fn what_has_no_kernel_or_is_no_trace_is_said() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let recording = place.record(&[], place.program("puppet.c"), &[]);
    let trace = recording.trace().path().to_owned();
    let server = Server::start(&place, &[text(&trace)]);
    let status = server.settle();
    assert_eq!(status["state"], "failed");
    assert!(
        status["problem"]
            .as_str()
            .expect("a reason")
            .contains("nothing of the kernel"),
        "{status}"
    );
    server.end();

    let missing = place.piste(&["web", "/nonexistent/trace"]);
    missing.expect_status(1);
    assert!(missing.stderr.contains("no such file"), "{missing}");
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
