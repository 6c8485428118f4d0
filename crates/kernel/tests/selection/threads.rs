// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads are recorded: real processes that start others, change, and end.

use std::collections::BTreeSet;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use piste_kernel::catalog::Catalog;
use piste_kernel::spec::Tracked;
use piste_kernel::tracked::{self, Hiding};
use rustix::process::{Pid, Signal, getppid, kill_process};
use rustix::thread::gettid;

use super::recorder::{Kernel, Recorder, filtered, kernel, tracepoints};

/// A shell that waits for a line wherever its script says `read`.
struct Script {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Script {
    fn start(script: &str) -> Script {
        Script::start_as(Command::new("sh").args(["-c", script]))
    }

    fn start_as(command: &mut Command) -> Script {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Script { child, output }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on behind a `read`.
    fn go(&mut self) {
        self.child
            .stdin
            .as_mut()
            .expect("its input")
            .write_all(b"\n")
            .expect("a line");
    }

    /// The number that it prints next.
    fn number(&mut self) -> u32 {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim().parse().expect("a number")
    }

    /// The numbers that it prints until it ends.
    fn numbers(mut self) -> BTreeSet<u32> {
        drop(self.child.stdin.take());
        let lines = self
            .output
            .by_ref()
            .lines()
            .map(|line| line.expect("a line").trim().parse().expect("a number"));
        let numbers = lines.collect();
        self.child.wait().expect("its end");
        numbers
    }
}

/// A recorder of every system call of what is tracked.
fn recorder(catalog: &Catalog, tracked: &Tracked) -> Recorder {
    let recorder = Recorder::new(kernel().expect("it was there"), 64);
    recorder.apply(catalog, &[tracepoints("raw_syscalls:sys_enter")], tracked);
    recorder.instance().set_on(true).expect("on");
    recorder
}

fn recorded_threads(recorder: &Recorder) -> BTreeSet<u32> {
    recorder.records().iter().map(|record| record.thread()).collect()
}

fn pids(pids: &[u32], follow_children: bool) -> Tracked {
    Tracked {
        pids: pids.to_vec(),
        follow_children,
        ..Tracked::default()
    }
}

fn until(is_so: impl Fn() -> bool) {
    // A minute: a guard, no measure.
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it takes too long");
}

fn stat(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}

fn children(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children
        .split_ascii_whitespace()
        .map(|child| child.parse().expect("a number"))
        .collect()
}

#[test]
fn a_process_is_recorded_with_what_it_starts_and_nothing_else() {
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let mut script =
        Script::start("read x; echo $$; sh -c 'echo $$; sh -c \"echo \\$\\$\"; :' & wait; sh -c 'echo $$'; :");
    let recorder = recorder(&catalog, &pids(&[script.pid()], true));
    script.go();
    let expected = script.numbers();
    assert_eq!(expected.len(), 4);
    assert_eq!(recorded_threads(&recorder), expected);
}

#[test]
fn children_that_exist_already_are_followed() {
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let mut script = Script::start("sh -c 'sh -c \"read x; echo \\$\\$; :\"; sh -c \"echo \\$\\$\"; :' <&0; :");
    let outer = script.pid();
    let child = || children(outer).first().copied();
    until(|| child().is_some_and(|child| !children(child).is_empty()));
    let known = child().expect("a child");
    let recorder = recorder(&catalog, &pids(&[outer], true));
    script.go();
    let mut expected = script.numbers();
    assert_eq!(expected.len(), 2);
    expected.extend([outer, known]);
    assert_eq!(recorded_threads(&recorder), expected);
}

#[test]
fn children_of_a_process_alone_are_dropped_at_the_next_look() {
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let mut script = Script::start("read x; sh -c 'echo $$; read y; echo 1; read z; :'; echo $$");
    let tracked = pids(&[script.pid()], false);
    let recorder = recorder(&catalog, &tracked);
    script.go();
    let (parent, child) = (script.pid(), script.number());
    assert_eq!(tracked.refresh(recorder.instance()), <[String; 0]>::default());
    recorder.records();
    script.go();
    assert_eq!(script.number(), 1);
    assert!(!recorded_threads(&recorder).contains(&child));

    // What was dropped is taken in again when it is asked for.
    tracked::apply(recorder.instance(), &pids(&[child], false));
    // The parent may have begun to wait for its child late.
    recorder.records();
    script.go();
    assert_eq!(script.numbers(), [parent].into());
    let seen = recorded_threads(&recorder);
    assert!(seen.contains(&child) && !seen.contains(&parent), "{seen:?}");
}

#[test]
fn other_processes_can_take_the_place_of_the_first_and_back() {
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let script = || Script::start("while read x; do echo 1; sh -c :; done; echo 0");
    let (mut one, mut other) = (script(), script());
    let (one_pid, other_pid) = (one.pid(), other.pid());
    let recorder = recorder(&catalog, &pids(&[one_pid], true));
    let mut see = |tracked: &Tracked| {
        assert_eq!(tracked::apply(recorder.instance(), tracked), <[String; 0]>::default());
        recorder.records();
        for script in [&mut one, &mut other] {
            script.go();
            assert_eq!(script.number(), 1);
        }
        let seen = recorded_threads(&recorder);
        (seen.contains(&one_pid), seen.contains(&other_pid))
    };
    let (first, second) = (pids(&[one_pid], true), pids(&[other_pid], true));
    for _ in 0..3 {
        assert_eq!(see(&first), (true, false));
        assert_eq!(see(&second), (false, true));
        assert_eq!(see(&pids(&[one_pid, other_pid], false)), (true, true));
    }
}

#[test]
fn orphans_stay_recorded_when_a_new_consumer_asks_for_the_same() {
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let mut script =
        Script::start("exec 3<&0; read x; sh -c 'echo $$; read y; sh -c \"echo \\$\\$\"; :' <&3 & sleep 0");
    let tracked = pids(&[script.pid()], true);
    let recorder = recorder(&catalog, &tracked);
    script.go();
    let orphan = script.number();
    // It is not waited for, which would close its input.
    until(|| stat(script.pid()).contains(") Z "));
    assert!(!stat(orphan).contains(&format!(" {} ", script.pid())));
    for _ in 0..3 {
        tracked::apply(recorder.instance(), &tracked);
    }
    recorder.records();
    script.go();
    let grandchild = script.number();
    // Whoever inherited it may let it lie.
    until(|| matches!(stat(orphan), gone if gone.is_empty() || gone.contains(") Z ")));
    let seen = recorded_threads(&recorder);
    assert_eq!(seen, [orphan, grandchild].into());
}

#[test]
fn users_groups_and_sessions_are_found_by_looking() {
    const USER: u32 = 54_321;
    const NOBODY_HERE: u32 = 54_322;
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let text = "read x; echo $$; sh -c 'echo $$'; :";
    let check = |command: &mut Command, tracked: &dyn Fn(u32) -> Tracked| {
        // Before it is there: nobody is meant, and not everybody.
        let early = tracked(NOBODY_HERE);
        let recorder = recorder(&catalog, &early);
        let _ = getppid();
        assert_eq!(recorded_threads(&recorder), [].into(), "{early:?}");
        let mut script = Script::start_as(command);
        // It has become a shell, in its own session where it makes one, and waits for its line.
        until(|| stat(script.pid()).contains(" (sh) S "));
        let tracked = tracked(script.pid());
        assert_eq!(tracked::apply(recorder.instance(), &tracked), <[String; 0]>::default());
        recorder.records();
        script.go();
        let expected = script.numbers();
        assert_eq!(expected.len(), 2);
        assert_eq!(recorded_threads(&recorder), expected, "{tracked:?}");
        assert!(tracked.needs_refresh());
    };
    let user_of = |pid| if pid == NOBODY_HERE { NOBODY_HERE } else { USER };
    let mut sh = Command::new("sh");
    check(sh.args(["-c", text]).uid(USER).gid(USER + 2), &|pid| Tracked {
        uids: vec![user_of(pid)],
        ..Tracked::default()
    });
    check(&mut sh, &|pid| Tracked {
        gids: vec![if pid == NOBODY_HERE { pid } else { USER + 2 }],
        uids: vec![user_of(pid), 0],
        ..Tracked::default()
    });
    check(Command::new("sh").args(["-c", text]).process_group(0), &|pid| Tracked {
        process_groups: vec![pid],
        ..Tracked::default()
    });
    check(Command::new("setsid").args(["sh", "-c", text]), &|pid| Tracked {
        process_sessions: vec![pid],
        ..Tracked::default()
    });
}

#[test]
fn only_the_cpus_that_are_asked_for_are_recorded() {
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let recorder = Recorder::new(kernel, 256);
    let cpus = recorder.instance().cpus().expect("CPUs");
    let tracked = |cpus: &[u32]| Tracked {
        cpus: cpus.to_vec(),
        ..Tracked::default()
    };
    let seen = |cpus: &[u32]| {
        recorder.apply(&catalog, &[tracepoints("sched_switch")], &tracked(cpus));
        recorder.records();
        recorder.instance().set_on(true).expect("on");
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(2));
        }
        recorder.instance().set_on(false).expect("off");
        recorder
            .records()
            .iter()
            .map(|record| record.cpu)
            .collect::<BTreeSet<u32>>()
    };
    for &cpu in &cpus {
        assert!(seen(&[cpu]).is_subset(&[cpu].into()));
    }
    assert!(seen(&[]).is_subset(&cpus.iter().copied().collect()));
    let findings = recorder.findings(&catalog, &[], &tracked(&[cpus[0], 4095]));
    assert_eq!(findings, ["this machine has no CPU 4095"]);
    let findings = recorder.findings(&catalog, &[], &pids(&[u32::MAX >> 3], false));
    assert_eq!(findings, ["there is no process 536870911"]);
    recorder.apply(&catalog, &[], &Tracked::default());
    let left = ["set_event_pid", "set_event_notrace_pid"].map(|list| recorder.instance().read(list).expect("a list"));
    // Somebody is hidden until nobody is listed.
    assert_eq!(left, ["".to_owned(), format!("{}\n", gettid())]);
}

/// What it is about is rare: a hidden thread has to wake another one while a list changes, and that is milliseconds.
#[test]
fn nothing_of_others_is_missing_while_it_changes_who_is_recorded_and_hidden() {
    const ROUNDS: usize = 20;
    const GETPPID: &str = "id == 110";
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let recorder = Recorder::new(kernel, 2048);
    let calls = filtered(tracepoints("raw_syscalls:sys_enter"), GETPPID);
    recorder.apply(&catalog, &[calls], &Tracked::default());
    let hiding = Hiding::of(recorder.instance()).expect("the kernel can");
    // They wake each other all the time.
    let mut waking = Script::start("read x; yes | tee /dev/null | cat > /dev/null");
    hiding.hide(&[waking.pid().cast_signed()]);
    waking.go();
    until(|| children(waking.pid()).len() == 3);
    let wakers = children(waking.pid());
    until(|| is_subset(&wakers, &hidden(&recorder)));
    let hide_by_hand = |thread: u32| {
        let list = recorder.instance().append("set_event_notrace_pid", &thread.to_string());
        list.expect("a number");
    };
    // A number that the kernel has forgotten.
    let mut child = Command::new("true").spawn().expect("a child");
    let ended = child.id();
    hide_by_hand(ended);
    child.wait().expect("its end");
    until(|| !hidden(&recorder).contains(&ended));
    recorder.instance().set_on(true).expect("on");

    let (is_over, called) = (AtomicBool::new(false), AtomicUsize::new(0));
    let seen = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let _ = getppid();
                called.fetch_add(1, Ordering::SeqCst);
                for number in 0..3000 {
                    black_box(number);
                }
            }
            gettid().as_raw_pid().cast_unsigned()
        });
        let mut records = Vec::new();
        for round in 0..ROUNDS {
            hide_by_hand(ended);
            hiding.hide(&[std::process::id().cast_signed()]);
            until(|| !hidden(&recorder).contains(&ended));
            assert!(is_subset(&wakers, &hidden(&recorder)), "{round}");
            let own = pids(&[std::process::id()], false);
            for tracked in [own, Tracked::default()] {
                assert_eq!(tracked::apply(recorder.instance(), &tracked), <[String; 0]>::default());
            }
            hiding.hide(&wakers.iter().map(|&waker| waker.cast_signed()).collect::<Vec<_>>());
            records.extend(recorder.records());
        }
        is_over.store(true, Ordering::SeqCst);
        let caller = caller.join().expect("a number");
        recorder.instance().set_on(false).expect("off");
        records.extend(recorder.records());
        records.iter().filter(|record| record.thread() == caller).count()
    });
    for waker in wakers {
        let waker = Pid::from_raw(waker.cast_signed()).expect("a number");
        let _ = kill_process(waker, Signal::KILL);
    }
    waking.numbers();
    assert_eq!(seen, called.into_inner());
}

fn hidden(recorder: &Recorder) -> BTreeSet<u32> {
    let list = recorder.instance().read("set_event_notrace_pid").expect("a list");
    list.lines()
        .map(|line| line.trim().parse().expect("a number"))
        .collect()
}

fn is_subset(some: &[u32], all: &BTreeSet<u32>) -> bool {
    some.iter().all(|one| all.contains(one))
}

#[test]
fn threads_that_start_threads_while_they_are_listed_are_all_found() {
    let Some(kernel) = kernel() else { return };
    let (are_all_there, findings) = follow_chains(kernel);
    assert_eq!(findings, <[String; 0]>::default());
    assert!(are_all_there);
}

/// While others change what the kernel records, reading its lists takes longer than these threads live.
#[test]
fn threads_that_are_not_found_while_others_use_tracefs_are_told() {
    let Some(kernel) = kernel() else { return };
    let other = Recorder::new(kernel, 4);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                other
                    .instance()
                    .append("set_event_notrace_pid", "1\n")
                    .expect("a number");
            }
        });
        let (are_all_there, findings) = follow_chains(kernel);
        is_over.store(true, Ordering::SeqCst);
        assert!(are_all_there || !findings.is_empty());
    });
}

/// Follows this process while some of its threads do nothing but start the next one and end. Returns whether everything that they did from then on
/// was recorded, and the findings.
fn follow_chains(kernel: &Kernel) -> (bool, Vec<String>) {
    const CALLS: usize = 20;
    const THREADS: usize = 200;
    let catalog = kernel.catalog();
    let recorder = Recorder::new(kernel, 512);
    recorder.apply(&catalog, &[tracepoints("raw_syscalls:sys_enter")], &Tracked::default());
    let (is_counted, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let counted = Mutex::new(Vec::new());
    struct Chain<'a> {
        is_counted: &'a AtomicBool,
        is_over: &'a AtomicBool,
        counted: &'a Mutex<Vec<u32>>,
    }
    /// A thread that starts the next one after a while, and ends.
    fn link<'scope>(scope: &'scope Scope<'scope, '_>, chain: &'scope Chain<'scope>) {
        let counts = chain.is_counted.load(Ordering::SeqCst);
        if !chain.is_over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
            scope.spawn(move || link(scope, chain));
        }
        if counts {
            for _ in 0..CALLS {
                let _ = getppid();
            }
            chain
                .counted
                .lock()
                .expect("a list")
                .push(gettid().as_raw_nonzero().get() as u32);
        }
    }
    let chain = Chain {
        is_counted: &is_counted,
        is_over: &is_over,
        counted: &counted,
    };
    let findings = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| link(scope, &chain));
        }
        let findings = tracked::apply(recorder.instance(), &pids(&[std::process::id()], true));
        recorder.instance().set_on(true).expect("on");
        is_counted.store(true, Ordering::SeqCst);
        until(|| counted.lock().expect("a list").len() >= THREADS);
        is_over.store(true, Ordering::SeqCst);
        findings
    });
    recorder.instance().set_on(false).expect("off");
    let calls = |thread: u32, records: &[super::recorder::Record]| {
        let of_it = records.iter().filter(|record| record.thread() == thread);
        of_it
            .filter(|record| record.bytes[8..16] == 110_u64.to_ne_bytes())
            .count()
    };
    let records = recorder.records();
    let counted = counted.into_inner().expect("a list");
    // A number may come again within the time: its calls are those of all that had it.
    let threads: BTreeSet<u32> = counted.iter().copied().collect();
    let seen: usize = threads.iter().map(|&thread| calls(thread, &records)).sum();
    println!("{seen} of {}", counted.len() * CALLS);
    (seen >= counted.len() * CALLS, findings)
}
