// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste strace` prints what strace prints.

use std::collections::BTreeMap;
use std::fs;

use piste_suite::process::{self, wait_until};
use piste_suite::{Workplace, kernel};
use rustix::process::Signal;

/// Does what can fail and what cannot, always in the same order.
const SCRIPT: &str = r#"
import os, socket
for path in ("/none/a\n\"b\"\x01", "x" * 300): 
    try: os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o640)
    except OSError: pass
os.mkdir("d", 0o700); os.rename("d", "e"); os.symlink("e", "l"); os.readlink("l"); os.chmod("e", 0o755); os.rmdir("e"); os.unlink("l")
r, w = os.pipe2(os.O_CLOEXEC); os.write(w, b"hello\0world"); os.read(r, 100); os.dup2(r, 50); os.lseek(os.open("/etc/passwd", 0), 1, 2)
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC); s.bind(("::1", 0))
for name in ("/none.sock", "\0none"): socket.socket(socket.AF_UNIX).connect_ex(name)
socket.socket().connect_ex(("127.0.0.1", 9)); os.getcwd(); os.kill(os.getpid(), 0)
"#;

const CALLS: &str = "openat,mkdir,rename,symlink,readlink,chmod,rmdir,unlink,pipe2,write,dup2,lseek,socket,connect,close,kill,getpid,access";

/// The lines of a program from where the script begins, without what differs from run to run: process ids.
fn of_script(log: &str) -> Vec<String> {
    let lines = log.lines().skip_while(|line| !line.contains("/none/a"));
    let without_pid = |line: &str| match line.starts_with("kill(") || line.starts_with("getpid(") {
        true => line.split(|letter: char| letter.is_ascii_digit()).collect(),
        false => line.to_owned(),
    };
    lines.filter(|line| !line.starts_with("+++")).map(without_pid).collect()
}

fn run_both(place: &Workplace, options: &[&str]) -> (String, String) {
    let log = place.path("log");
    let rest = ["-o", log.to_str().expect("UTF-8"), "python3", "-S", "-c", SCRIPT];
    let arguments = [options, &rest].concat();
    let read = || fs::read_to_string(&log).expect("it is written");
    place.run("strace", &arguments).expect_success();
    let expected = read();
    place
        .piste(&[&["strace"], arguments.as_slice()].concat())
        .expect_success();
    (expected, read())
}

#[test]
fn lines_are_those_of_strace() {
    let Some(place) = kernel::workplace() else { return };
    let (expected, printed) = run_both(&place, &["-e", &format!("trace={CALLS}"), "-s", "40"]);
    let (expected, printed) = (of_script(&expected), of_script(&printed));
    assert!(expected.len() > 25, "{expected:#?}");
    for (expected, printed) in expected.iter().zip(&printed) {
        assert_eq!(printed, expected);
    }
    assert_eq!(printed.len(), expected.len(), "{printed:#?}");
}

#[test]
fn the_table_counts_as_strace_does() {
    let Some(place) = kernel::workplace() else { return };
    let (expected, printed) = run_both(&place, &["-c", "-e", &format!("trace={CALLS}")]);
    // name, calls, errors
    let counts = |table: &str| -> BTreeMap<String, (String, String)> {
        let rows = table
            .lines()
            .filter(|line| !line.starts_with(['-', '%']) && !line.trim().is_empty());
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let errors = if words.len() > 5 { words[4] } else { "" };
            (
                words[words.len() - 1].to_owned(),
                (words[3].to_owned(), errors.to_owned()),
            )
        };
        rows.map(row).collect()
    };
    let (expected, printed) = (counts(&expected), counts(&printed));
    assert!(expected.len() > 10, "{expected:?}");
    assert_eq!(printed, expected);
}

#[test]
fn children_are_printed_with_their_threads_and_times() {
    let Some(place) = kernel::workplace() else { return };
    let script = "cat /etc/hostname; exit 3";
    let printed = place.piste(&["strace", "-f", "-tt", "-T", "-e", "%file,%process", "sh", "-c", script]);
    assert_eq!(printed.status, 3, "{printed}");
    let lines: Vec<&str> = printed.stderr.lines().collect();
    let threads: std::collections::BTreeSet<&str> =
        lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(threads.len(), 2, "{printed}");
    let opened = lines
        .iter()
        .find(|line| line.contains("openat(AT_FDCWD, \"/etc/hostname\", O_RDONLY)"));
    let opened = opened.unwrap_or_else(|| panic!("{printed}"));
    let words: Vec<&str> = opened.split_whitespace().collect();
    assert_eq!(
        (words[1].len(), words[1].matches(':').count()),
        ("09:41:07.123456".len(), 2),
        "{opened}"
    );
    assert!(
        words
            .last()
            .is_some_and(|time| time.starts_with("<0.") && time.ends_with('>')),
        "{opened}"
    );
    assert!(printed.stderr.contains("+++ exited with 3 +++"), "{printed}");
    assert!(printed.stderr.contains("--- SIGCHLD"), "{printed}");
}

#[test]
fn a_running_process_is_printed_while_it_runs() {
    let Some(place) = kernel::workplace() else { return };
    let mut running = place.start(place.program("numbered_calls.c"), &["100000000", "1000"]);
    assert_eq!(running.line(), "ready");
    running.say("begin");
    let log = place.path("attached");
    let pid = running.pid().to_string();
    let log_text = log.to_str().expect("UTF-8");
    let mut attached = place.start(
        piste_suite::build_tree::binary("piste"),
        &["strace", "-e", "close", "-o", log_text, "-p", &pid],
    );
    let printed = || fs::read_to_string(&log).unwrap_or_default();
    wait_until("calls are printed", || printed().lines().count() > 100);
    running.signal(Signal::KILL);
    attached.finish().expect_success();
    let printed = printed();
    let (calls, end) = printed.trim_end().rsplit_once('\n').expect("lines");
    let number = |line: &str| -> Option<u64> {
        let (number, rest) = line.strip_prefix(&format!("{pid:<5} close("))?.split_once(')')?;
        assert!(rest.trim_start() == "= -1 EBADF (Bad file descriptor)", "{line}");
        number.parse().ok()
    };
    let mut numbers: Vec<_> = calls.lines().map(|line| number(line).expect(line)).collect();
    // Where the machine is busy, those of one CPU may come after later ones of another.
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{printed}");
    assert_eq!(end, format!("{pid:<5} +++ killed by SIGKILL +++"));
}

#[test]
fn a_trace_is_printed_in_the_same_form() {
    let Some(place) = kernel::workplace() else { return };
    let recording = place.record_with_kernel(&["--no-user", "--syscall", "openat"], "cat", &["/etc/hostname"]);
    recording.expect_whole();
    let trace = recording.trace();
    let printed = place.piste_succeeds(&["view", "--format", "strace", trace.path().to_str().expect("UTF-8")]);
    assert!(
        printed.contains("openat(AT_FDCWD, \"/etc/hostname\", O_RDONLY) = 3 <0."),
        "{printed}"
    );
}

#[test]
fn what_does_not_exist_is_refused() {
    let place = Workplace::new();
    for (options, reason) in [
        (
            &["-e", "opena", "true"][..],
            "there is no such system call; did you mean openat?",
        ),
        (&["-e", "/open", "true"], "regular expressions are not supported"),
        (&["-S", "calls", "true"], "--summary-only"),
    ] {
        let refused = place.piste(&[&["strace"], options].concat());
        assert!(refused.status == 2 && refused.stderr.contains(reason), "{refused}");
    }
}

#[test]
fn an_interrupt_ends_it() {
    let Some(place) = kernel::workplace() else { return };
    let running = place.start("sleep", &["100"]);
    let pid = running.pid().to_string();
    let mut attached = place.start(piste_suite::build_tree::binary("piste"), &["strace", "-c", "-p", &pid]);
    wait_until("it is recorded", || {
        place.piste_json(&["list", "--sessions"])["sessions"][0]["state"] == "active"
    });
    attached.signal(Signal::INT);
    let finished = attached.finish();
    assert!(finished.stderr.contains("% time"), "{finished}");
    process::send(running.pid(), Signal::KILL);
}
