// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes through the whole: what a program did is in the trace, once and in its order; what cannot be probed is refused in one line; and
//! whatever ends the recording, the kernel's list of probes has nothing of ours afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread::{self, sleep};
use std::time::Duration;

use piste_support::kernel::{self, KernelSession};
use piste_support::process::{exists, send, wait_until};
use piste_support::{Compilation, Event, Running, Trace, Workplace};
use rustix::process::Signal;

/// The kernel's probes of programs.
const LIST: &str = "/sys/kernel/tracing/uprobe_events";
const CALLS: u64 = 1000;
/// What probed.c closes first.
const FIRST: u64 = 1_000_000;

#[test]
fn each_call_of_a_function_is_recorded_with_its_arguments() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let probe = at(&program, "work number=%di:s32 text=+0(%si):string");
    let session = record(&place, &["--uprobe", &probe, "--name", "worked"]);
    call(&place, &program, CALLS);
    let (channel, trace) = session.end();
    assert_eq!(channel["events"], CALLS, "{channel:#}");
    let events = named(&trace, "worked");
    assert_eq!(events.len() as u64, CALLS);
    for (number, event) in (0..).zip(&events) {
        assert_eq!(event.number("number"), number, "{event:?}");
        let text = if number % 2 == 1 { "odd" } else { "even" };
        assert_eq!(event.field("text"), Some(text), "{event:?}");
        assert!(event.field("ip").is_some_and(|ip| ip.starts_with("0x")), "{event:?}");
    }
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn a_recording_of_a_command_has_its_probes() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let (uprobe, usdt) = (at(&program, "work number=%di:s32"), at(&program, "shop:order"));
    let uretprobe = at(&program, "work result=$retval:s32");
    let script = format!("printf 'begin\\nend\\n' | {} {CALLS} 0", program.display());
    let options = ["record", "--no-user", "--uprobe", &uprobe, "--uretprobe", &uretprobe];
    let command = ["--usdt", &usdt, "-o", "trace", "--", "sh", "-c", &script];
    let recorded = place.piste(&[&options[..], &command[..]].concat());
    recorded.expect_success();
    assert!(
        recorded.stdout.contains(&format!("{CALLS}\n")),
        "somebody listens: {recorded}"
    );
    let trace = Trace::at(place.path("trace"));
    let expected = ["probed_work", "probed_work_return", "shop:order"].map(str::to_owned);
    assert_eq!(names(&trace), BTreeSet::from(expected));
    let numbers = numbers(&named(&trace, "probed_work"), "number");
    assert_eq!(numbers, (0..CALLS).collect::<Vec<_>>());
    assert_eq!(probes_of(&place), [""; 0]);

    let refused = place.piste(&["record", "--uprobe", &at(&program, "wrok"), "--", "true"]);
    refused.expect_status(125);
    assert!(refused.stderr.contains("similar: work"), "{refused}");
}

#[test]
fn parameters_are_recorded_by_the_names_of_the_source() {
    let Some(place) = workplace() else { return };
    for optimization in ["-O0", "-O2"] {
        let program = place.path(&format!("orders{optimization}"));
        Compilation::of(&["probed_orders.c"]).with(optimization).link(&program);
        let arguments = "sell count price=order->price order->code order->customer->name order->customer->number";
        let output = format!("trace{optimization}");
        let probe = at(&program, arguments);
        let options = ["record", "--no-user", "--uprobe", &probe, "-o", &output, "--"];
        place
            .piste(&[&options[..], &[program.to_str().expect("UTF-8"), "100"]].concat())
            .expect_success();
        let trace = Trace::at(place.path(&output));
        let name = format!("orders_{}_sell", &optimization[1..]);
        let events = named(&trace, &name);
        assert_eq!(events.len(), 100, "{:?}", names(&trace));
        for (turn, event) in events.iter().enumerate() {
            let (count, price) = ((turn % 3).to_string(), (-(turn as i64)).to_string());
            let expected = [
                ("count", &*count),
                ("price", &*price),
                ("code", "A1"),
                ("name", "ada"),
                ("number", "7"),
            ];
            for (field, value) in expected {
                assert_eq!(event.field(field), Some(value), "{optimization}: {event:?}");
            }
        }
    }
}

#[test]
fn each_return_is_recorded_with_its_value() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let session = record(&place, &["--uretprobe", &at(&program, "work result=$retval:s32")]);
    call(&place, &program, CALLS);
    let (_, trace) = session.end();
    let results = texts(&named(&trace, "probed_work_return"), "result");
    let expected: Vec<String> = (0..CALLS as i64).map(|number| (-2 * number).to_string()).collect();
    assert_eq!(results, expected);
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn a_static_probe_in_two_places_is_one_event_and_the_program_knows_that_somebody_listens() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    assert_eq!(call(&place, &program, 10), 0, "nobody listens");
    // One runs already when the probe comes.
    let mut running = begin(&place, &program, CALLS, 0);
    let session = record(&place, &["--usdt", &at(&program, "shop:order")]);
    assert_eq!(probes_of(&place).len(), 2, "a place is a probe of the kernel");
    assert_eq!(go_on(&mut running), CALLS);
    let (_, trace) = session.end();
    let orders = named(&trace, "shop:order");
    assert_eq!(orders.len() as u64, CALLS);
    for (number, order) in (0_i64..).zip(&orders) {
        assert_eq!(order.field("arg1"), Some(&*number.to_string()), "{order:?}");
        let price = if number % 2 == 1 { -1 - number } else { 1 << 40 };
        assert_eq!(order.field("arg2"), Some(&*price.to_string()), "{order:?}");
    }
    assert_eq!(call(&place, &program, 10), 0, "nobody listens any more");
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn a_function_of_a_library_is_recorded_in_the_process_that_is_tracked() {
    let Some(place) = workplace() else { return };
    let library = place.compile(&Compilation::of(&["parcels_library.c"]).shared(), "libparcels.so");
    let folder = format!("-L{}", place.path("").display());
    let user = Compilation::of(&["parcels.c"]).with(folder).linking("parcels");
    let program = place.compile(&user, "parcels");
    let calls = CALLS.to_string();
    let [mut one, mut other] = [(); 2].map(|()| place.start(&program, &[&calls]));
    assert_eq!((one.line(), other.line()), ("ready".into(), "ready".into()));
    let session = KernelSession::create(&place, &[]);
    session
        .enable(&["--uprobe", &at(&library, "parcels_weigh parcels=%di:s32")])
        .track(&["--pid", &one.pid().to_string()])
        .start();
    one.say("begin");
    other.say("begin");
    let weight = 3 * (0..CALLS).sum::<u64>();
    for running in [&mut one, &mut other] {
        assert_eq!(running.line(), weight.to_string());
        running.finish().expect_success();
    }
    let (_, trace) = session.end();
    let events = named(&trace, "libparcels_so_parcels_weigh");
    assert!(events.iter().all(|event| event.tid() == one.pid()), "the other's too");
    assert_eq!(numbers(&events, "parcels"), (0..CALLS).collect::<Vec<_>>());
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn probes_and_system_calls_of_one_channel_are_in_the_order_of_time() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let mut running = begin(&place, &program, CALLS, 0);
    let session = KernelSession::create(&place, &[]);
    session
        .enable(&["--uprobe", &at(&program, "work number=%di:s32"), "--name", "called"])
        .enable(&[
            "--uretprobe",
            &at(&program, "work result=$retval:s32"),
            "--name",
            "returned",
        ])
        .enable(&["--syscall", "close"])
        .track(&["--pid", &running.pid().to_string()])
        .start();
    go_on(&mut running);
    let (_, trace) = session.end();
    let (mut ticks, mut seen) = (0, vec![]);
    trace.for_each(|event| {
        let value = match event.name.as_str() {
            "called" => event.number("number").to_string(),
            "returned" => event.field("result").unwrap_or_default().to_owned(),
            "syscall_entry_close" => (event.number("fd") - FIRST).to_string(),
            "syscall_exit_close" => event.field("ret").unwrap_or_default().to_owned(),
            _ => return,
        };
        assert!(event.ticks >= ticks, "{event:?}");
        ticks = event.ticks;
        seen.push((event.name, value));
    });
    let of_call = |number: i64| {
        [
            ("called", number),
            ("returned", -2 * number),
            ("syscall_entry_close", number),
            ("syscall_exit_close", -9),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_string()))
    };
    assert_eq!(seen, (0..CALLS as i64).flat_map(of_call).collect::<Vec<_>>());
}

#[test]
fn filters_fields_and_stacks_hold_for_probes() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let work = at(&program, "work number=%di:s32 text=+0(%si):string");
    let session = KernelSession::create(&place, &[]);
    let by_number = ["--filter", "number > 989 && text == \"odd\"", "--fields", "number"];
    session
        .enable(&[&["--uprobe", &work, "--name", "few"][..], &by_number].concat())
        .enable(&["--uprobe", &work, "--name", "stacked", "--callstack", "kernel,user:4"])
        .enable(&["--usdt", &at(&program, "shop:order"), "--filter", "arg2 == -8"])
        .start();
    call(&place, &program, CALLS);
    let (_, trace) = session.end();
    let few = named(&trace, "few");
    assert_eq!(numbers(&few, "number"), [991, 993, 995, 997, 999]);
    assert!(few.iter().all(|event| event.field("text").is_none()), "{few:?}");
    assert_eq!(numbers(&named(&trace, "shop:order"), "arg1"), [7]);
    let stacked = named(&trace, "stacked");
    assert_eq!(numbers(&stacked, "number"), (0..CALLS).collect::<Vec<_>>());
    // At a probe the kernel lets the thread go to another CPU before it writes the stack.
    let stacks = ["callstack_kernel = [ [0] = 0x", "callstack_user = [ [0] = 0x"];
    let has_stacks = |event: &&Event| stacks.iter().all(|stack| event.fields.contains(stack));
    let count = stacked.iter().filter(has_stacks).count() as u64;
    assert!(count > CALLS * 9 / 10, "{count} have their stacks");
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn a_probe_is_disabled_enabled_and_changed_while_it_records() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let work = at(&program, "work number=%di:s32");
    let session = record(&place, &["--uprobe", &work, "--name", "work"]);
    let defined = probes_of(&place);
    assert_eq!(defined.len(), 1);
    call(&place, &program, 10);
    place.piste_succeeds(&["disable-event", "-k", "-c", "kernel", "work"]);
    call(&place, &program, 20);
    session.enable(&["--uprobe", &work, "--name", "work"]);
    call(&place, &program, 30);
    assert_eq!(probes_of(&place), defined, "what is there is not defined again");
    session.enable(&["--uprobe", &at(&program, "work text=+0(%si):string"), "--name", "work"]);
    call(&place, &program, 40);
    assert_eq!(probes_of(&place).len(), 2);
    let (_, trace) = session.end();
    let work = named(&trace, "work");
    assert_eq!(numbers(&work[..40], "number"), (0..10).chain(0..30).collect::<Vec<_>>());
    assert_eq!(texts(&work[40..], "text").len(), 40);
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn two_sessions_probe_one_place_and_one_ends_before_the_other() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let probes = [
        "--uprobe",
        &at(&program, "work number=%di:s32"),
        "--usdt",
        &at(&program, "shop:order"),
    ];
    let (early, late) = (place.path("early"), place.path("late"));
    for (name, output) in [("early", &early), ("late", &late)] {
        place.piste_succeeds(&["create", name, "-o", output.to_str().expect("UTF-8")]);
        place.piste_succeeds(&[&["enable-event", "-s", name, "-k"], &probes[..]].concat());
        place.piste_succeeds(&["start", name]);
    }
    assert_eq!(call(&place, &program, 10), 10);
    place.piste_succeeds(&["destroy", "early"]);
    assert_eq!(call(&place, &program, 20), 20);
    place.piste_succeeds(&["destroy", "late"]);
    assert_eq!(call(&place, &program, 30), 0);
    for (output, expected) in [(early, 10), (late, 30)] {
        let counts = Trace::at(output).counts();
        assert_eq!(
            (counts["probed_work"], counts["shop:order"]),
            (expected, expected),
            "{counts:?}"
        );
    }
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn what_a_program_offers_is_listed() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let program = program.to_str().expect("UTF-8");
    let names = |arguments: &[&str]| -> Vec<String> {
        let listed = place.piste_json(&[&["list"], arguments].concat());
        let places = listed["places"].as_array().unwrap_or_else(|| panic!("{listed:#}"));
        places
            .iter()
            .filter_map(|place| Some(place["name"].as_str()?.to_owned()))
            .collect()
    };
    assert_eq!(names(&["--symbols", program, "w*k"]), ["work"]);
    assert_eq!(names(&["--usdt", program]), ["shop:order"; 2]);
    let listed = place.piste_succeeds(&["list", "--usdt", program, "shop:*"]);
    assert_eq!(listed.matches("(semaphore)").count(), 2, "{listed}");
    assert_eq!(listed.matches("arg2=").count(), 2, "{listed}");
}

#[test]
fn what_cannot_be_probed_is_refused_in_one_line() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let _session = KernelSession::create(&place, &[]);
    let has_kprobes = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    let of_kernel = if has_kprobes {
        "no function"
    } else {
        "built without CONFIG_KPROBE_EVENTS"
    };
    let at_no_code = if has_kprobes { "not in the code" } else { of_kernel };
    let here = |what: &str| at(&program, what);
    let long = format!("work %{}", "x".repeat(70));
    for (option, probe, words) in [
        ("--uprobe", here("wrok"), "has no function \"wrok\" (similar: work)"),
        ("--uprobe", here("work+0x1000"), "is beyond its end"),
        ("--uprobe", here("0x7fffffff"), "is not in its code"),
        (
            "--uprobe",
            here("work number=%rdi"),
            "the kernel calls this register %di",
        ),
        ("--uprobe", here("work number=%di:int"), "use u8 u16 u32 u64"),
        ("--uprobe", here("work text=%di:string"), "+0(%di):string"),
        ("--uprobe", here("work a=%di a=%si"), "two arguments have the name a"),
        ("--uprobe", here("work $retval"), "available only at returns"),
        ("--uprobe", here("work number=+0(%di"), "a ) is missing"),
        ("--uprobe", here(&long), "63 are allowed"),
        ("--uprobe", here("work 5number"), "does not begin with % $ @"),
        ("--uprobe", program.display().to_string(), "form BINARY:SYMBOL"),
        ("--uprobe", "/no/such/program:work".into(), "there is no file"),
        (
            "--uprobe",
            "/proc/self/status:work".into(),
            "not an ELF program or library",
        ),
        (
            "--uretprobe",
            here("work+4"),
            "returns are probed at the beginning of a function",
        ),
        ("--usdt", here("shop:oder"), "(similar: shop:order)"),
        ("--usdt", here("order"), "form BINARY:PROVIDER:NAME"),
        ("--kprobe", "no_such_function_of_this_kernel".into(), of_kernel),
        ("--kprobe", "0x1000".into(), at_no_code),
        (
            "--kretprobe",
            "no_such_function_of_this_kernel $retval".into(),
            of_kernel,
        ),
    ] {
        let refused = place.piste(&["enable-event", "-k", "-c", "kernel", option, &probe]);
        refused.expect_status(1);
        assert!(refused.stderr.contains(words), "{words}: {refused}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused}");
    }
    let status = place.piste_json(&["status"]);
    assert_eq!(
        status["channels"][0]["kernel_rules"].as_array().map(Vec::len),
        Some(0),
        "{status:#}"
    );
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn a_killed_consumer_loses_no_probe_and_writes_none_twice() {
    const MANY: u64 = 20_000;
    // After each hundred calls: about six seconds in all.
    const REST_US: u64 = 30_000;
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let mut running = begin(&place, &program, MANY, REST_US);
    let probes = [
        "--uprobe",
        &at(&program, "work number=%di:s32"),
        "--usdt",
        &at(&program, "shop:order"),
    ];
    let session = record(&place, &probes);
    let defined = probes_of(&place);
    running.say("begin");
    for kill in 0..15 {
        // Odd steps, so that the kills do not fall into step with anything.
        sleep(Duration::from_micros(200_000 + 37_123 * (kill % 7)));
        kill_kernel_consumer(&place);
        if kill % 3 == 2 {
            place.kill_pisted();
            place.start_pisted();
        }
    }
    assert_eq!(running.line(), MANY.to_string(), "somebody listened all the time");
    running.say("end");
    running.finish().expect_success();
    assert_eq!(probes_of(&place), defined, "what is there is not defined again");
    let (channel, trace) = session.end();
    let (mut worked, mut ordered) = (0, 0);
    trace.for_each(|event| {
        let (next, field) = match event.name.as_str() {
            "probed_work" => (&mut worked, "number"),
            "shop:order" => (&mut ordered, "arg1"),
            _ => return,
        };
        assert_eq!(event.number(field), *next, "missing or twice: {event:?}");
        *next += 1;
    });
    assert_eq!((worked, ordered), (MANY, MANY), "{channel:#}");
    assert_eq!(
        (&channel["discarded_events"], &channel["events"]),
        (&0.into(), &(2 * MANY).into())
    );
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn the_next_pisted_removes_the_probes_of_one_that_was_killed() {
    let Some(place) = kernel::shared_workplace().filter(|_| has_uprobes()) else {
        return;
    };
    let program = place.program("probed.c");
    let mut running = begin(&place, &program, CALLS, 0);
    let probes = [
        "--uprobe",
        &at(&program, "work"),
        "--uretprobe",
        &at(&program, "work"),
        "--usdt",
        &at(&program, "shop:order"),
    ];
    let _session = record(&place, &probes);
    // Before anything is killed: any pisted that starts then removes them.
    assert_eq!(probes_of(&place).len(), 4);
    let consumer = place.kernel_consumer();
    for pid in [place.pisted(), consumer] {
        send(pid, Signal::KILL);
        wait_until("it is dead", || !exists(pid));
    }
    // The next pisted of anybody finds that their owner is gone.
    let other = Workplace::new();
    other.start_pisted();
    wait_until("the probes of a dead pisted are removed", || {
        probes_of(&place).is_empty()
    });
    assert_eq!(go_on(&mut running), 0, "nobody listens any more");
}

#[test]
fn destroying_leaves_no_probe_whatever_became_of_the_program() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let mut running = begin(&place, &program, CALLS, 0);
    let probes = [
        "--uprobe",
        &at(&program, "work"),
        "--uretprobe",
        &at(&program, "work"),
        "--usdt",
        &at(&program, "shop:order"),
    ];
    let session = record(&place, &probes);
    place.piste_succeeds(&["disable-event", "-k", "-c", "kernel", "probed_work"]);
    fs::remove_file(&program).expect("it is ours");
    // A new consumer does not find the program, and goes on with the probes that are there.
    kill_kernel_consumer(&place);
    assert_eq!(go_on(&mut running), CALLS);
    let (_, trace) = session.end();
    assert_eq!(
        names(&trace),
        ["probed_work_return", "shop:order"].map(String::from).into()
    );
    assert_eq!(probes_of(&place), [""; 0]);
}

#[test]
fn a_channel_that_could_not_be_opened_leaves_no_probe() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    // Where the page in hand is to be kept.
    fs::create_dir_all(place.run_folder().join("kernel/1/kernel_0.page")).expect("the folder can be written to");
    let session = KernelSession::create(&place, &[]);
    session.enable(&["--uprobe", &at(&program, "work")]);
    let refused = place.piste(&["start"]);
    assert!(refused.stderr.contains("kernel_0.page"), "{refused}");
    place.piste_succeeds(&["destroy"]);
    assert_eq!(probes_of(&place), [""; 0]);
    assert_eq!(kernel::instances_of(&place), [""; 0]);
}

/// A workplace where probes can be set; `None`, once said why, where they cannot.
fn workplace() -> Option<Workplace> {
    kernel::shared_workplace().filter(|_| has_uprobes())
}

fn has_uprobes() -> bool {
    let has_list = Path::new(LIST).exists();
    if !has_list {
        println!("skipped: this kernel has no uprobes");
    }
    has_list
}

/// `BINARY:WHAT`
fn at(binary: &Path, what: &str) -> String {
    format!("{}:{what}", binary.display())
}

/// Modules and other tools bring events, take them away, and may bring others with the same names.
#[test]
fn an_event_that_comes_while_pisted_runs_is_recorded_as_it_is_then() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let session = record(&place, &["sched_process_exit"]);
    for (count, argument) in [(10, "number=%di:s32"), (20, "text=+0(%si):string")] {
        let _theirs = Theirs::define(&place, &program, "others/worked", argument);
        session.enable(&["others:worked"]);
        call(&place, &program, count);
        place.piste_succeeds(&["disable-event", "-k", "-c", "kernel", "others:worked"]);
    }
    let (channel, trace) = session.end();
    assert_eq!(channel["discarded_events"], 0, "{channel:#}");
    let events = named(&trace, "worked");
    let (first, second) = events.split_at(10);
    assert_eq!(numbers(first, "number"), (0..10).collect::<Vec<_>>());
    let texts: Vec<_> = second.iter().map(|event| event.field("text")).collect();
    assert_eq!(texts, [Some("even"), Some("odd")].repeat(10));
}

#[test]
fn a_pattern_that_is_enabled_again_means_what_came_since() {
    let Some(place) = workplace() else { return };
    let program = place.program("probed.c");
    let _first = Theirs::define(&place, &program, "guests/first", "");
    let session = record(&place, &["guests:*"]);
    let _second = Theirs::define(&place, &program, "guests/second", "");
    call(&place, &program, 5);
    session.enable(&["guests:*"]);
    call(&place, &program, 7);
    let (channel, trace) = session.end();
    assert_eq!(channel["discarded_events"], 0, "{channel:#}");
    let counts = ["first", "second"].map(|name| named(&trace, name).len());
    assert_eq!(counts, [12, 7]);
}

/// A probe of another tool on the function `work`; it goes with this value.
struct Theirs {
    event: &'static str,
}

impl Theirs {
    fn define(place: &Workplace, program: &Path, event: &'static str, argument: &str) -> Theirs {
        let path = program.to_str().expect("UTF-8");
        let places = place.piste_json(&["list", "--symbols", path, "work"]);
        let offset = places["places"][0]["offset_bytes"].as_u64().expect("a number");
        Theirs::write(&format!("p:{event} {path}:{offset:#x} {argument}")).expect("the kernel takes it");
        Theirs { event }
    }

    fn write(line: &str) -> io::Result<()> {
        fs::OpenOptions::new()
            .append(true)
            .open(LIST)?
            .write_all(line.as_bytes())
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let removed = Theirs::write(&format!("-:{}", self.event));
        // While a test fails, a session may still record it.
        assert!(removed.is_ok() || thread::panicking(), "{removed:?}");
    }
}

/// A session that records probes of all processes.
fn record<'a>(place: &'a Workplace, probes: &[&str]) -> KernelSession<'a> {
    let session = KernelSession::create(place, &[]);
    session.enable(probes).start();
    session
}

/// A run of probed.c that waits to begin.
fn begin(place: &Workplace, program: &Path, calls: u64, rest_us: u64) -> Running {
    let mut running = place.start(program, &[&calls.to_string(), &rest_us.to_string()]);
    assert_eq!(running.line(), "ready");
    running
}

/// Lets it begin, and waits for its end: how often somebody listened to its static probe.
fn go_on(running: &mut Running) -> u64 {
    let listened = running.ask("begin");
    running.say("end");
    running.finish().expect_success();
    listened.parse().expect("a count")
}

fn call(place: &Workplace, program: &Path, calls: u64) -> u64 {
    go_on(&mut begin(place, program, calls, 0))
}

fn kill_kernel_consumer(place: &Workplace) {
    let consumer = place.kernel_consumer();
    send(consumer, Signal::KILL);
    wait_until("the kernel consumer is dead", || !exists(consumer));
}

fn named(trace: &Trace, name: &str) -> Vec<Event> {
    let mut events = trace.events();
    events.retain(|event| event.name == name);
    events
}

/// Names of all events, but for the state dump's.
fn names(trace: &Trace) -> BTreeSet<String> {
    let names = trace.counts().into_keys();
    names.filter(|name| !name.starts_with("lttng_statedump_")).collect()
}

fn numbers(events: &[Event], field: &str) -> Vec<u64> {
    events.iter().map(|event| event.number(field)).collect()
}

fn texts(events: &[Event], field: &str) -> Vec<String> {
    let text = |event: &Event| event.field(field).unwrap_or_else(|| panic!("{event:?}")).to_owned();
    events.iter().map(text).collect()
}

/// What is in the kernel's list of probes of the pisted that runs here, or ran here.
fn probes_of(place: &Workplace) -> Vec<String> {
    let group = format!(":piste_{}_", kernel::owner(place));
    let list = kernel::list_of_probes();
    list.lines()
        .filter(|line| line.contains(&group))
        .map(str::to_owned)
        .collect()
}
