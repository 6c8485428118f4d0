// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: what a channel records with each event, compared with what the program itself says in the fields of its events.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use piste_support::process::{self, Running, wait_until};
use piste_support::{Compilation, Event, Trace, Workplace, build_tree, kernel};
use rustix::process::Signal;
use serde_json::{Map, Value};

/// Of the thread and its process, as events of the program have fields of the same names.
const OF_THREADS: &str = "vtid,vpid,procname,pthread_id,ip,nice,prio";
const IDS: &str = "vuid,veuid,vsuid,vgid,vegid,vsgid";
const NAMESPACES: &str = "cgroup_ns,ipc_ns,mnt_ns,net_ns,pid_ns,time_ns,user_ns,uts_ns,cgroup_path";

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A session that records a program into one channel.
struct Recorded {
    place: Workplace,
    program: PathBuf,
}

impl Recorded {
    fn new(contexts: &str, compilation: &Compilation) -> Recorded {
        let place = Workplace::new();
        let program = place.compile(compilation, "contexts");
        place.piste_succeeds(&["create", "web", "-o", text(&place.path("trace"))]);
        place.piste_succeeds(&["enable-channel", "default", "--context", contexts]);
        place.piste_succeeds(&["enable-event", "contexts:*", "piste:log_*"]);
        place.piste_succeeds(&["start"]);
        Recorded { place, program }
    }

    fn start(&self) -> Running {
        self.place.start(&self.program, &[])
    }

    /// Ends the session: its events, as Piste reads them, all of which babeltrace2 reads too.
    fn end(&self) -> Vec<Value> {
        self.place.piste_succeeds(&["destroy"]);
        let trace = self.place.path("trace");
        let shown = self.place.piste_succeeds(&["view", "--format", "ndjson", text(&trace)]);
        let events: Vec<Value> = shown
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect();
        assert_eq!(Trace::at(&trace).event_count(), events.len() as u64);
        events
    }
}

fn ask(program: &mut Running, lines: &[&str]) {
    for line in lines {
        assert_eq!(program.ask(line), "done", "{line}");
    }
}

fn object<'v>(event: &'v Value, key: &str) -> &'v Map<String, Value> {
    event[key].as_object().unwrap_or_else(|| panic!("no {key}: {event}"))
}

fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.strip_prefix("0x").map_or_else(
            || text.parse().expect("a number"),
            |digits| u64::from_str_radix(digits, 16).expect("a hexadecimal number"),
        ),
        _ => value.as_u64().unwrap_or_else(|| panic!("no number: {value}")),
    }
}

/// Every field that has the name of a context has its value.
fn check(events: &[&Value]) {
    assert!(!events.is_empty());
    for event in events {
        let contexts = object(event, "event_context");
        for (name, value) in object(event, "payload") {
            let Some(context) = contexts.get(name) else {
                continue;
            };
            assert_eq!(context, value, "{name} in {event}");
        }
    }
}

fn values(events: &[&Value], context: &str) -> BTreeSet<String> {
    events
        .iter()
        .map(|event| event["event_context"][context].to_string())
        .collect()
}

#[test]
fn contexts_of_the_thread_follow_what_it_does() {
    for optimization in ["-O2", "-O0"] {
        let recorded = Recorded::new(OF_THREADS, &Compilation::of(&["contexts.c"]).with(optimization));
        let mut program = recorded.start();
        let begin = [
            "say",
            "rename",
            "renice",
            "say",
            "log",
            "thread say",
            "fork say",
            "signal say",
            "thread log",
        ];
        ask(&mut program, &begin);
        if rustix::process::geteuid().is_root() {
            ask(&mut program, &["realtime", "say"]);
        }
        program.finish().expect_success();
        let events = recorded.end();
        let said = named(&events, "contexts:said");
        check(&said);
        assert!(said.len() >= 5);
        for event in &said {
            let (begin, ip) = (
                number(&event["payload"]["begin"]),
                number(&event["event_context"]["ip"]),
            );
            assert!((begin..begin + 4096).contains(&ip), "{event}");
        }
        // The program's own code, wherever the event was formatted.
        let logged = named(&events, "piste:log_INFO");
        assert_eq!(logged.len(), 2);
        for event in logged {
            let text = event["payload"]["text"].as_str().expect("a text");
            let (begin, ip) = (number(&text.into()), number(&event["event_context"]["ip"]));
            assert!(begin.abs_diff(ip) < 65536, "{event}");
        }
        assert_eq!(values(&said, "procname").len(), 2);
        assert_eq!(values(&said, "vpid").len(), 2);
        assert!(values(&said, "nice").len() >= 2);
        println!("{optimization}: {} events", said.len());
    }
}

#[test]
fn ids_and_namespaces_follow_what_the_thread_does() {
    let recorded = Recorded::new(&format!("{IDS},{NAMESPACES}"), &Compilation::of(&["contexts.c"]));
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root changes ids");
    }
    let mut program = recorded.start();
    ask(&mut program, &["say", "unshare", "say", "thread say", "become", "say"]);
    program.finish().expect_success();
    let events = recorded.end();
    let (ids, namespaces) = (named(&events, "contexts:ids"), named(&events, "contexts:namespaces"));
    assert_eq!((ids.len(), namespaces.len()), (4, 4));
    check(&ids);
    check(&namespaces);
    for context in ["veuid", "vgid", "vegid", "vsgid", "uts_ns", "ipc_ns", "net_ns"] {
        assert_eq!(
            values(&events.iter().collect::<Vec<_>>(), context).len(),
            2,
            "{context}"
        );
    }
    for context in NAMESPACES.split(',').filter(|name| name.ends_with("_ns")) {
        assert!(!values(&namespaces, context).contains("0"), "{context}");
    }
}

#[test]
fn values_of_the_program_are_recorded_from_when_it_registers_them() {
    let recorded = Recorded::new("vtid,app:shop:tenant,app:shop:other", &Compilation::of(&["contexts.c"]));
    let mut program = recorded.start();
    let long = "x".repeat(300);
    let lines = [
        "log",
        "register",
        "nothing",
        "log",
        "integer -7",
        "log",
        "unsigned 18446744073709551615",
        "signal log",
        "number 0.5",
        "thread log",
        "string ada",
        "fork log",
        &format!("string {long}"),
        "log",
        "unregister",
        "log",
        "register",
        "integer 8",
        "log",
        // That of the child was one of the child's.
        "calls 6",
    ];
    ask(&mut program, &lines);
    // Nobody is asked while nothing is recorded.
    recorded.place.piste_succeeds(&["stop"]);
    ask(&mut program, &["log", "calls 6"]);
    recorded.place.piste_succeeds(&["start"]);
    recorded.place.piste_succeeds(&["disable-event", "piste:log_*"]);
    ask(&mut program, &["log", "calls 6"]);
    program.finish().expect_success();
    let events = recorded.end();
    let said: Vec<String> = named(&events, "piste:log_INFO")
        .iter()
        .map(|event| event["event_context"]["app_shop_tenant"].to_string())
        .collect();
    let cut = format!("\"{}...\"", "x".repeat(252));
    assert_eq!(
        said,
        [
            "{}",
            "{}",
            "-7",
            "\"18446744073709551615\"",
            "0.5",
            "\"ada\"",
            &cut,
            "{}",
            "8"
        ]
    );
    // The function of the context recorded an event each time, which has no values of the program.
    let inner = named(&events, "contexts:inner");
    assert_eq!(inner.len(), 7);
    assert_eq!(values(&inner, "app_shop_tenant"), BTreeSet::from(["{}".to_owned()]));
    assert_eq!(values(&events.iter().collect::<Vec<_>>(), "app_shop_other").len(), 1);
}

#[test]
fn the_kernels_counts_of_a_thread_grow_as_it_runs() {
    let counts = [
        "perf:thread:task-clock",
        "perf:thread:faults",
        "perf:thread:minor-faults",
        "perf:thread:cs",
    ];
    let recorded = Recorded::new(&counts.join(","), &Compilation::of(&["contexts.c"]));
    let mut program = recorded.start();
    ask(&mut program, &["log", "log", "say", "log"]);
    program.finish().expect_success();
    let events = recorded.end();
    let mut before = BTreeMap::new();
    for event in named(&events, "piste:log_INFO") {
        for (name, value) in object(event, "event_context") {
            let value = number(value);
            let earlier = before.insert(name.clone(), value).unwrap_or(0);
            assert!(
                value >= earlier && (value > earlier || name != "perf_thread_task_clock"),
                "{name}"
            );
        }
    }
    let names =
        ["context_switches", "minor_faults", "page_faults", "task_clock"].map(|name| format!("perf_thread_{name}"));
    assert_eq!(before.keys().cloned().collect::<Vec<_>>(), names);
    // It waited for a line three times at least.
    assert!(before["perf_thread_context_switches"] >= 3);
}

#[test]
fn counters_of_the_processor_are_recorded_or_refused_with_the_reason() {
    let place = Workplace::new();
    let program = place.program("contexts.c");
    let trace = place.path("trace");
    place.piste_succeeds(&["create", "web", "-o", text(&trace)]);
    let made = place.piste(&["enable-channel", "default", "--context", "perf:thread:cycles"]);
    if !made.success() {
        let complaint = made.stderr.clone();
        assert!(
            complaint.contains("\"perf:thread:cycles\" is not possible"),
            "{complaint}"
        );
        let reasons = [
            "does not offer this counter",
            "perf_event_paranoid",
            "does not let programs read",
        ];
        assert!(reasons.iter().any(|reason| complaint.contains(reason)), "{complaint}");
        return println!("refused: {complaint}");
    }
    place.piste_succeeds(&["enable-event", "piste:log_*"]);
    place.piste_succeeds(&["start"]);
    let mut program = place.start(program, &[]);
    ask(&mut program, &["log", "log", "thread log", "fork log"]);
    program.finish().expect_success();
    place.piste_succeeds(&["destroy"]);
    let shown = place.piste_succeeds(&["view", "--format", "ndjson", text(&trace)]);
    let cycles: Vec<u64> = shown
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"))
        .map(|event| number(&event["event_context"]["perf_thread_cycles"]))
        .collect();
    assert!(cycles.len() == 4 && cycles[1] > cycles[0], "{cycles:?}");
}

#[test]
fn counters_are_read_as_the_kernels_page_says() {
    let place = Workplace::new();
    let header = Compilation::of(&["counter_page.c"])
        .with("-I")
        .with(build_tree::repository().join("include"));
    let program = place.compile(&header, "counter_page");
    assert_eq!(place.run(&program, &[]).expect_success().stdout, "done\n");
}

#[test]
fn contexts_that_there_are_none_of_are_refused() {
    let place = Workplace::new();
    place.piste_succeeds(&["create", "web", "-o", text(&place.path("trace"))]);
    for context in ["tid", "app:shop", "perf:thread:nonsense"] {
        let complaint = place.piste(&["enable-channel", "other", "--context", context]).stderr;
        let expected = format!("context {context:?} is not possible; allowed: what `piste add-context --list` shows");
        assert!(complaint.contains(&expected), "{complaint}");
    }
    let complaint = place.piste(&["add-context", "vpid"]).stderr;
    assert!(complaint.contains("no channel \"default\""), "{complaint}");
    let list = place.piste_succeeds(&["add-context", "--list"]);
    let (of_programs, of_kernel) = list.split_once("\n\n").expect("two lists");
    let names = |list: &str| {
        let names = list
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
        let names = names.filter(|name| !name.starts_with("perf:") && !name.starts_with("app:"));
        names.collect::<Vec<_>>().join(",")
    };
    place.piste_succeeds(&["enable-channel", "all", "--context", &names(of_programs)]);
    if kernel::shared_workplace().is_some() {
        place.piste_succeeds(&["enable-channel", "-k", "kernel", "--context", &names(of_kernel)]);
    }
}

/// While a program records from two threads, again and again.
#[test]
fn contexts_are_added_while_the_session_records_and_no_event_is_lost() {
    let place = Workplace::new();
    let program = place.program("progress.c");
    let (trace, page) = (place.path("trace"), place.path("page"));
    place.piste_succeeds(&["create", "web", "-o", text(&trace)]);
    place.piste_succeeds(&["enable-channel", "default", "--block", "forever"]);
    // Nothing has been recorded: the channel itself gets it.
    place.piste_succeeds(&["add-context", "pthread_id"]);
    place.piste_succeeds(&["enable-event", "progress:*"]);
    place.piste_succeeds(&["start"]);
    let mut running = place.start(&program, &[text(&page), "2", "0", "20000", "fixed"]);
    let returned = || -> Vec<u64> {
        let bytes = fs::read(&page).unwrap_or_default();
        let words = bytes.as_chunks::<8>().0.iter().take(2);
        words.map(|bytes| u64::from_le_bytes(*bytes)).collect()
    };
    let goes_on = |before: &[u64]| {
        let before = before.to_vec();
        wait_until("both threads record", || {
            let now = returned();
            now.len() == 2 && now.iter().zip(&before).all(|(now, before)| *now > before + 100)
        });
    };
    goes_on(&[0, 0]);
    let mut added = Vec::new();
    for context in [
        "procname",
        "vtid,nice",
        "perf:thread:page-faults",
        "cgroup_path,app:shop:tenant",
    ] {
        let told = place.piste_json(&["add-context", context]);
        let contexts = told["contexts"].as_array().expect("contexts").len();
        added.push((context, returned(), contexts));
        goes_on(&returned());
        // Once more changes nothing.
        assert_eq!(
            place.piste_json(&["add-context", context])["contexts"],
            told["contexts"]
        );
    }
    let status = place.piste_json(&["status"]);
    assert_eq!(status["channels"].as_array().expect("channels").len(), 1);
    running.signal(rustix::process::Signal::KILL);
    running.finish();
    let last = returned();
    let ended = place.piste_json(&["destroy"]);
    assert_eq!(piste_support::counts::sum(&ended, "discarded_events"), 0);

    let mut numbers: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    let mut counts = BTreeMap::new();
    Trace::at(&trace).for_each(|event| {
        let (thread, number) = (event.number("thread") as usize, event.number("number"));
        assert!(has(&event, "pthread_id"), "{event:?}");
        for (context, returned, _) in &added {
            let first = field(context);
            let has_it = has(&event, &first);
            // What was called after the command returned has it.
            assert!(has_it || number <= returned[thread], "{event:?} has no {context}");
        }
        let added_count = added.iter().filter(|(context, ..)| has(&event, &field(context)));
        *counts.entry(added_count.count()).or_insert(0_u64) += 1;
        numbers[thread].push(number);
    });
    for (numbers, last) in numbers.iter_mut().zip(&last) {
        numbers.sort_unstable();
        let count = numbers.len() as u64;
        assert!(count >= *last, "{count} of {last}");
        assert!(
            numbers.iter().copied().eq(0..count),
            "an event is missing, or there twice"
        );
    }
    assert_eq!(counts.len(), 5, "{counts:?}");
    let told = ended["channels"][0]["events"].as_u64().expect("a count");
    assert_eq!(told, counts.values().sum::<u64>());
    println!("events by number of contexts: {counts:?}");
}

fn has(event: &Event, context: &str) -> bool {
    let is_context = |(name, _): &(String, String)| name == context;
    // Behind values in braces, the rest of the contexts stands with the fields.
    event.contexts.iter().any(is_context) || event.fields.contains(&format!("{context} = "))
}

/// The trace's name of the last of these contexts, which no other has begun with.
fn field(contexts: &str) -> String {
    contexts.rsplit(',').next().expect("a name").replace([':', '-'], "_")
}

/// A program without a connection gets the contexts when it is back: here after pisted was killed and started anew.
#[test]
fn contexts_are_added_to_what_pisted_knows_after_it_was_killed() {
    let recorded = Recorded::new("vtid", &Compilation::of(&["contexts.c"]));
    let place = &recorded.place;
    let mut program = recorded.start();
    ask(&mut program, &["log"]);
    place.piste_succeeds(&["add-context", "procname"]);
    ask(&mut program, &["log"]);
    let pisted = place.pisted();
    piste_support::process::send(pisted, rustix::process::Signal::KILL);
    wait_until("pisted is gone", || !piste_support::process::exists(pisted));
    let settings = place.piste_json(&["enable-channel", "default"]);
    assert_eq!(settings["contexts"], serde_json::json!(["vtid", "procname"]));
    ask(&mut program, &["rename", "log"]);
    place.piste_succeeds(&["add-context", "prio"]);
    ask(&mut program, &["log"]);
    program.finish().expect_success();
    let events = recorded.end();
    let shown: Vec<String> = events
        .iter()
        .map(|event| {
            object(event, "event_context")
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(shown, ["vtid", "procname vtid", "procname vtid", "prio procname vtid"]);
    assert_eq!(events[2]["event_context"]["procname"], "another name");
}

/// What a flight recorder holds when contexts are added is in the next snapshot.
#[test]
fn a_flight_recorder_keeps_what_it_holds_when_contexts_are_added() {
    let place = Workplace::new();
    let program = place.program("contexts.c");
    place.piste_succeeds(&["create", "flight", "--snapshot", "-o", text(&place.path("trace"))]);
    place.piste_succeeds(&["enable-event", "piste:log_*"]);
    place.piste_succeeds(&["start"]);
    let mut program = place.start(program, &[]);
    ask(&mut program, &["log", "log"]);
    place.piste_succeeds(&["add-context", "procname"]);
    ask(&mut program, &["log"]);
    let snapshot = place.path("snapshot");
    place.piste_succeeds(&["snapshot", "record", "-o", text(&snapshot)]);
    program.finish().expect_success();
    assert_eq!(Trace::at(&snapshot).event_count(), 3);
}

/// A filter that a program evaluates finds what it finds in a trace that has the contexts.
#[test]
fn filters_use_contexts_in_programs_as_in_traces() {
    let place = Workplace::new();
    let program = place.program("contexts.c");
    let namespace = fs::metadata("/proc/self/ns/uts").map(|file| file.ino());
    let namespace = namespace.expect("a namespace");
    let is_root = rustix::process::geteuid().is_root();
    let mut filters = vec![
        r#"procname == "another name""#.to_owned(),
        r#"procname =~ "a*" && nice > 0"#.to_owned(),
        "prio == 25 || vpid == 1".to_owned(),
        "perf_thread_task_clock > 1 && perf_thread_page_faults > 1".to_owned(),
        format!("uts_ns != {namespace}"),
        format!("cgroup_path =~ \"/*\" && uts_ns == {namespace}"),
        "veuid == 12 && vuid == 0 || vsgid == 23".to_owned(),
        "vgid & 1".to_owned(),
        "pthread_id == 0 || cgroup_ns == 0".to_owned(),
    ];
    filters.truncate(if is_root { filters.len() } else { 4 });
    let contexts = format!("vtid,{OF_THREADS},{IDS},{NAMESPACES},perf:thread:task-clock,perf:thread:page-faults");
    let session = |name: &str, options: &[&str]| {
        place.piste_succeeds(&["create", name, "-o", text(&place.path(name))]);
        place.piste_succeeds(&["enable-channel", "default", "--context", &contexts]);
        place.piste_succeeds(&[&["enable-event", "contexts:inner", "piste:log_*"], options].concat());
        place.piste_succeeds(&["start"]);
    };
    session("all", &[]);
    for (number, filter) in filters.iter().enumerate() {
        session(&number.to_string(), &["--filter", filter]);
    }
    let mut program = place.start(program, &[]);
    ask(
        &mut program,
        &[
            "log",
            "rename",
            "log",
            "thread log",
            "renice",
            "log",
            "fork log",
            "signal log",
        ],
    );
    if is_root {
        ask(&mut program, &["unshare", "log", "become", "log", "thread log"]);
    }
    program.finish().expect_success();
    place.piste_succeeds(&["destroy", "--all"]);
    let view = |name: &str, options: &[&str]| {
        let trace = place.path(name);
        let shown = place.piste_succeeds(&[&["view", "--format", "ndjson", text(&trace)], options].concat());
        shown.lines().count()
    };
    let all = view("all", &[]);
    assert!(all >= 6);
    let mut some = 0;
    for (number, filter) in filters.iter().enumerate() {
        let expected = view("all", &["--filter", filter]);
        assert_eq!(view(&number.to_string(), &[]), expected, "{filter}");
        some += usize::from(expected > 0 && expected < all);
        println!("{filter}: {expected} of {all}");
    }
    assert!(some + 2 >= filters.len());
    let refused = place.piste(&[
        "enable-event",
        "x:*",
        "--filter",
        "app_shop_tenant == 1 && $ctx.ip == 0",
    ]);
    assert!(!refused.success());
}

/// What the kernel does not record is derived from what `/proc` says of the thread.
#[test]
fn contexts_of_kernel_channels_say_what_the_thread_is() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let program = place.program("contexts.c");
    let trace = place.path("trace");
    let contexts = "tid,pid,ppid,procname,prio,nice,uid,euid,suid,gid,egid,sgid,cgroup_ns,ipc_ns,mnt_ns,net_ns,pid_ns,time_ns,user_ns,uts_ns";
    place.piste_succeeds(&["create", "web", "-o", text(&trace)]);
    place.piste_succeeds(&["enable-channel", "-k", "calls", "--context", contexts]);
    place.piste_succeeds(&["enable-event", "-k", "-c", "calls", "--syscall", "getresgid"]);
    place.piste_succeeds(&["enable-event", "contexts:*"]);
    let mut program = place.start(program, &[]);
    let pid = program.pid();
    place.piste_succeeds(&["track", "-k", "--pid", &pid.to_string()]);
    place.piste_succeeds(&["start"]);
    // What was read of the thread is taken for true for a tenth of a second.
    let mut known = BTreeMap::new();
    for change in ["rename", "renice", "unshare", "become"] {
        ask(&mut program, &[change]);
        let read = || {
            let status = place.piste_json(&["status"]);
            let mut channels = status["channels"].as_array().expect("channels").iter();
            let calls = channels
                .find(|channel| channel["settings"]["name"] == "calls")
                .expect("a channel");
            calls["events"].as_u64().expect("a count")
        };
        let before = read();
        ask(&mut program, &["say"]);
        wait_until("the entry and the exit were read", || read() == before + 2);
        known.insert(change, namespaces_of(pid));
        thread::sleep(Duration::from_millis(300));
    }
    program.finish().expect_success();
    place.piste_succeeds(&["destroy"]);
    let shown = place.piste_succeeds(&["view", "--format", "ndjson", text(&trace)]);
    let events: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let calls = named(&events, "syscall_entry_getresgid");
    let own = |key: &str, call: &Value, value: Value| assert_eq!(call["event_context"][key], value, "{key} in {call}");
    assert_eq!(calls.len(), 4);
    let own_nice = rustix::process::getpriority_process(None).expect("a nice value");
    let last = namespaces_of(std::process::id() as i32);
    assert_ne!(last, known["unshare"]);
    for (call, change) in calls.into_iter().zip(["rename", "renice", "unshare", "become"]) {
        own("tid", call, pid.into());
        own("pid", call, pid.into());
        own("ppid", call, std::process::id().into());
        own("procname", call, "another name".into());
        let nice = if change == "rename" { own_nice } else { 5 };
        own("nice", call, nice.into());
        own("prio", call, (20 + nice).into());
        let ids = if change == "become" {
            [0, 12, 0, 21, 22, 23]
        } else {
            [0; 6]
        };
        for (key, id) in ["uid", "euid", "suid", "gid", "egid", "sgid"].into_iter().zip(ids) {
            own(key, call, id.into());
        }
        for (key, number) in &known[change] {
            own(key, call, (*number).into());
        }
    }
    let metadata = fs::read_to_string(trace.join("kernel/metadata")).expect("it is there");
    assert!(
        metadata.contains("piste_derived_contexts = \"pid, ppid, procname, "),
        "{metadata}"
    );
}

/// The stream stays; the classes of its events have what was added.
#[test]
fn contexts_are_added_to_a_kernel_channel_while_it_records() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let trace = place.path("trace");
    place.piste_succeeds(&["create", "web", "-o", text(&trace)]);
    place.piste_succeeds(&["enable-event", "-k", "--syscall", "getresgid"]);
    place.piste_succeeds(&["enable-event", "contexts:*"]);
    let mut program = place.start(place.program("contexts.c"), &[]);
    let pid = program.pid();
    place.piste_succeeds(&["track", "-k", "--pid", &pid.to_string()]);
    place.piste_succeeds(&["start"]);
    let of_kernel = || {
        let status = place.piste_json(&["status"]);
        let channels = status["channels"].as_array().expect("channels").clone();
        let mut of_kernel = channels
            .into_iter()
            .filter(|channel| channel["settings"]["domain"] == "kernel");
        of_kernel.next().expect("a channel")
    };
    let say = |program: &mut Running| {
        let read = || of_kernel()["events"].as_u64().expect("a count");
        let before = read();
        ask(program, &["say"]);
        wait_until("the entry and the exit were read", || read() == before + 2);
    };
    say(&mut program);
    place.piste_succeeds(&["add-context", "-k", "ppid,cpu_id"]);
    say(&mut program);
    let consumer = place.kernel_consumer();
    process::send(consumer, Signal::KILL);
    wait_until("another consumer is there", || {
        !process::exists(consumer) && place.kernel_consumer() != consumer
    });
    say(&mut program);
    place.piste_succeeds(&["add-context", "-k", "ppid,uid"]);
    say(&mut program);
    place.piste_succeeds(&["rotate"]);
    say(&mut program);
    program.finish().expect_success();
    assert_eq!(
        of_kernel()["settings"]["contexts"],
        serde_json::json!(["tid", "cpu_id", "ppid", "uid"])
    );
    let refused = place.piste(&["add-context", "-k", "ppidd"]);
    refused.expect_status(1);
    place.piste_succeeds(&["destroy"]);
    let own = i64::from(std::process::id());
    let with_parent = serde_json::json!({ "cpu_id": null, "ppid": own });
    let with_user = serde_json::json!({ "cpu_id": null, "ppid": own, "uid": 0 });
    let expected = [
        Value::Null,
        with_parent.clone(),
        with_parent,
        with_user.clone(),
        with_user,
    ];
    for name in ["syscall_entry_getresgid", "syscall_exit_getresgid"] {
        let shown = place.piste_succeeds(&["view", "--format", "ndjson", text(&trace)]);
        let events: Vec<Value> = shown
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect();
        let calls = named(&events, name);
        let added: Vec<Value> = calls
            .iter()
            .map(|call| {
                assert_eq!(call["event_context"]["tid"], pid, "{call}");
                let mut added = call["specific_context"].clone();
                if let Some(fields) = added.as_object_mut() {
                    fields.retain(|name, _| !name.ends_with("_tag"));
                }
                if let Some(cpu) = added.get_mut("cpu_id") {
                    assert_eq!(*cpu, call["packet_context"]["cpu_id"], "{call}");
                    *cpu = Value::Null;
                }
                added
            })
            .collect();
        assert_eq!(added, expected, "{name}");
    }
    let filter = format!("ppid == {own} && $name =~ 'syscall_*'");
    let filtered = place.piste_succeeds(&["stats", "--json", "--filter", &filter, text(&trace)]);
    let stats: Value = serde_json::from_str(&filtered).expect("JSON");
    assert_eq!(stats["events"], 8, "{stats:#}");
}

fn namespaces_of(pid: i32) -> BTreeMap<String, u64> {
    let names = NAMESPACES
        .split(',')
        .filter_map(|name| Some((name, name.strip_suffix("_ns")?)));
    names
        .map(|(name, file)| {
            let file = fs::metadata(format!("/proc/{pid}/ns/{file}")).expect("a namespace");
            (name.to_owned(), file.ino())
        })
        .collect()
}
