// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste strace` prints what strace prints.

use std::collections::BTreeMap;
use std::fs;

use piste_support::process::{self, wait_until};
use piste_support::{Workplace, kernel};
use rustix::process::Signal;

/// Does what can fail and what cannot, always in the same order.
const SCRIPT: &str = r#"
import fcntl, os, socket
for path in ("/none/a\n\"b\"\x01", "x" * 300): 
    try: os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o640)
    except OSError: pass
os.mkdir("d", 0o700); os.rename("d", "e"); os.symlink("e", "l"); os.readlink("l"); os.chmod("e", 0o755); os.rmdir("e"); os.unlink("l")
r, w = os.pipe2(os.O_CLOEXEC); os.write(w, b"hello\0world"); os.read(r, 100); os.dup2(r, 50); os.lseek(os.open("/etc/passwd", 0), 1, 2)
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC); s.bind(("::1", 0))
for name in ("/none.sock", "\0none"): socket.socket(socket.AF_UNIX).connect_ex(name)
socket.socket().connect_ex(("127.0.0.1", 9)); os.getcwd(); os.kill(os.getpid(), 0)
for mode in (os.F_OK, os.R_OK | os.X_OK, os.R_OK | os.W_OK): os.access("/none", mode)
for command in (fcntl.F_GETFD, fcntl.F_GETFL): fcntl.fcntl(50, command)
fcntl.fcntl(50, fcntl.F_SETFL, os.O_NONBLOCK); fcntl.fcntl(50, fcntl.F_SETFD, 0); os.umask(0o22)
"#;

const CALLS: &str = "openat,mkdir,rename,symlink,readlink,chmod,rmdir,unlink,pipe2,write,dup2,lseek,socket,connect,close,kill,getpid,access,fcntl,umask,getcwd";

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

/// Opens, duplicates, inherits and closes, always in the same order.
const OPENER: &str = r#"
import fcntl, os, select, socket
os.write(1, b"/none/a")
try: os.open("/none/a", os.O_RDONLY)
except OSError: pass
etc = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
passwd = os.open("passwd", os.O_RDONLY, dir_fd=etc)
os.close(etc); os.read(passwd, 10); os.lseek(passwd, 3, os.SEEK_SET)
copy = os.dup(passwd); os.dup2(copy, 40); fcntl.fcntl(40, fcntl.F_DUPFD, 50); fcntl.fcntl(40, fcntl.F_GETFD); os.close(copy)
os.mkdir("a<b>"); os.chdir("a<b>"); new = os.open("./new", os.O_RDWR | os.O_CREAT, 0o600); os.write(new, b"x")
os.open("/", os.O_RDONLY); os.chdir("/etc"); os.open("group", os.O_RDONLY)
poll = select.epoll(); os.close(poll.fileno()); r, w = os.pipe(); os.write(w, b"x"); os.read(r, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.1", 9)); s.send(b"x"); s.close()
os.set_inheritable(new, True); os.set_inheritable(40, False)
if os.fork() == 0:
    os.close(passwd); os.open("hosts", os.O_RDONLY); os.dup2(new, 0)
    os.execve("/bin/cat", ["cat"], {"LC_ALL": "C"})
os.wait(); os.read(passwd, 10); os.close(passwd)
"#;

const OF_DESCRIPTORS: &str =
    "openat,read,write,lseek,dup,dup2,fcntl,ioctl,close,chdir,pipe,pipe2,socket,connect,sendto,mkdir";

/// The lines of the script and of what it executes, without threads and what a trace does not tell: which number a pipe and a socket has, and what
/// a file is called that was opened through a symbolic link.
fn of_opener(log: &str) -> Vec<String> {
    let lines = log.lines().skip_while(|line| !line.contains("/none/a"));
    let is_meant = |line: &&str| !line.contains("+++") && !line.contains("---") && !line.contains("/lib/");
    lines
        .filter(is_meant)
        .map(|line| {
            let mut line = line
                .trim_start_matches(|letter: char| letter.is_ascii_digit())
                .trim_start()
                .to_owned();
            for end in ["<pipe:", "<socket", "<anon_inode:[event"] {
                while let Some(begin) = line.find(end) {
                    let length = line[begin..].find('>').expect("it has an end");
                    line.replace_range(begin..=begin + length, "");
                }
            }
            // Results begin at a column.
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn descriptors_are_printed_as_strace_prints_them() {
    let Some(place) = kernel::workplace() else { return };
    let log = place.path("log");
    let run = |selected: &str, piste: bool| {
        let rest = ["-o", log.to_str().expect("UTF-8"), "python3", "-S", "-c", OPENER];
        let arguments = [&["-y", "-f", "-e", selected], &rest[..]].concat();
        match piste {
            true => place.piste(&[&["strace"], arguments.as_slice()].concat()),
            false => place.run("strace", &arguments),
        }
        .expect_success();
        fs::remove_dir_all(place.path("a<b>")).expect("the script makes it");
        of_opener(&fs::read_to_string(&log).expect("it is written"))
    };
    // What the calls that are not printed do is known all the same.
    for selected in [OF_DESCRIPTORS, "read,write"] {
        let (expected, printed) = (run(selected, false), run(selected, true));
        for (expected, printed) in expected.iter().zip(&printed) {
            assert_eq!(printed, expected);
        }
        assert_eq!(printed.len(), expected.len(), "{printed:#?}");
        let named = printed.iter().filter(|line| line.contains("</etc/passwd>")).count();
        assert!(named >= 2, "{printed:#?}");
    }
}

#[test]
fn descriptors_of_a_running_process_are_those_of_the_state_dump() {
    let Some(place) = kernel::workplace() else { return };
    const READER: &str = "
import os, time
file = os.open('/etc/passwd', os.O_RDONLY)
print('ready', flush=True)
while True: os.pread(file, 1, 0); time.sleep(0.001)
";
    let mut running = place.start("python3", &["-S", "-c", READER]);
    assert_eq!(running.line(), "ready");
    let log = place.path("attached");
    let (pid, log_text) = (running.pid().to_string(), log.to_str().expect("UTF-8"));
    let arguments = ["strace", "-y", "-e", "pread64", "-o", log_text, "-p", &pid];
    let mut attached = place.start(piste_support::build_tree::binary("piste"), &arguments);
    wait_until("the descriptor is known", || {
        let printed = fs::read_to_string(&log).unwrap_or_default();
        printed.contains("pread64(3</etc/passwd>, ")
    });
    running.signal(Signal::KILL);
    attached.finish().expect_success();
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
        piste_support::build_tree::binary("piste"),
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
    let mut calls = calls.lines().peekable();
    // The call that it was in.
    calls.next_if(|line| line.contains("<... close resumed>"));
    let mut numbers: Vec<_> = calls.map(|line| number(line).expect(line)).collect();
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
    let mut attached = place.start(
        piste_support::build_tree::binary("piste"),
        &["strace", "-c", "-p", &pid],
    );
    wait_until("it is recorded", || {
        place.piste_json(&["list", "--sessions"])["sessions"][0]["state"] == "active"
    });
    attached.signal(Signal::INT);
    let finished = attached.finish();
    assert!(finished.stderr.contains("% time"), "{finished}");
    process::send(running.pid(), Signal::KILL);
}
