// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel consumer on the real kernel: what the kernel counted is what the trace has. Needs root and tracefs.
//!
//! Being killed and having no space are kernel_accidents.rs.

mod kernel_support;
mod skipping;

use std::path::Path;
use std::time::Duration;

use kernel_support::{
    Consumer, Numbers, channel, events, events_of_state_dump, numbered, read, stay_on_this_cpu, this_process,
    tracepoint, wait_until,
};
use piste_kernel::spec::{Loss, Tracked};

#[test]
fn each_numbered_call_is_in_the_trace_once() {
    let Some(mut consumer) = Consumer::start() else { return };
    consumer.open("trace", false);
    consumer.set_tracked(this_process());
    consumer.set_channel(&channel("default", &[numbered()]));
    consumer.start_session().unwrap();
    let mut numbers = Numbers::new();
    (0..100_000).for_each(|number| numbers.make(number));
    let totals = consumer.stop();
    let read = read(&consumer.path("trace"));
    read.assert_silent();
    read.assert_numbers(0..100_000);
    assert_eq!(events(&totals), read.lines.len() as u64);
    assert_eq!(consumer.stats("default").read, totals[&0].events);
    assert_eq!(read.count("lttng_statedump_start"), 1);
    assert_eq!(read.count("lttng_statedump_end"), 1);
    assert!(consumer.findings.is_empty(), "{:?}", consumer.findings);
    let closed = consumer.close();
    assert_eq!(events(&closed), events(&totals));
    assert_eq!(consumer.instances(), []);
    assert!(!consumer.path("kernel/7").exists());
}

#[test]
fn whole_system_is_what_the_kernel_counted() {
    const SLEEPS: u64 = 4000;
    let Some(mut consumer) = Consumer::start() else { return };
    consumer.open("trace", false);
    consumer.set_channel(&channel(
        "default",
        &[tracepoint("sched:*"), tracepoint("irq:*"), tracepoint("timer:*")],
    ));
    consumer.start_session().unwrap();
    // Each time this thread leaves its CPU, and the timer brings it back.
    (0..SLEEPS).for_each(|_| std::thread::sleep(Duration::from_micros(50)));
    let totals = consumer.stop();
    let (stats, read) = (consumer.stats("default"), read(&consumer.path("trace")));
    read.assert_silent();
    assert_eq!((totals[&0].events, stats.lost(), stats.entries), (stats.read, 0, 0));
    assert_eq!(events(&totals), read.lines.len() as u64);
    assert!(read.count("sched_switch") > SLEEPS / 2);
    consumer.close();
}

#[test]
fn overload_loses_what_the_kernel_counted_and_the_trace_says_it() {
    for (loss, output) in [(Loss::Discard, "discard"), (Loss::Overwrite, "overwrite")] {
        let Some(mut consumer) = Consumer::start() else { return };
        consumer.open(output, false);
        consumer.set_tracked(this_process());
        let mut spec = channel("tiny", &[numbered()]);
        (spec.subbuf_bytes, spec.subbuf_count, spec.loss) = (4096, 4, loss);
        consumer.set_channel(&spec);
        consumer.start_session().unwrap();
        let mut numbers = Numbers::new();
        for round in 0..5 {
            stop_process(consumer.pid());
            (0..20_000).for_each(|number| numbers.make(20_000 * round + number));
            continue_process(consumer.pid());
            std::thread::sleep(Duration::from_millis(200));
            (0..100).for_each(|number| numbers.make(1_000_000 + 100 * round + number));
        }
        let totals = consumer.stop();
        let (stats, read) = (consumer.stats("tiny"), read(&consumer.path(output)));
        let (events, lost) = (totals[&0].events, stats.lost());
        assert!(lost > 10_000, "{stats:?}");
        // Everything was made, and each call has an entry and an exit.
        assert_eq!((events, stats.entries), (stats.read, 0));
        assert_eq!(totals[&0].discarded_full + totals[&0].overwritten_events, lost);
        assert_eq!(read.discarded(), lost, "{}", read.complaints);
        assert_eq!(read.lines.len() as u64, kernel_support::events(&totals));
        consumer.close();
    }
}

#[test]
fn sub_buffers_of_4_kib_and_two_channels() {
    let Some(mut consumer) = Consumer::start() else { return };
    consumer.open("trace", false);
    consumer.set_tracked(this_process());
    let mut small = channel("small", &[numbered()]);
    (small.subbuf_bytes, small.subbuf_count) = (4096, 4096);
    let mut other = channel("other", &[tracepoint("sched_*")]);
    other.stream_id = 1;
    consumer.set_channel(&small);
    consumer.set_channel(&other);
    consumer.start_session().unwrap();
    let mut numbers = Numbers::new();
    (0..50_000).for_each(|number| numbers.make(number));
    std::thread::sleep(Duration::from_millis(10));
    let totals = consumer.stop();
    let read = read(&consumer.path("trace"));
    read.assert_silent();
    read.assert_numbers(0..50_000);
    assert_eq!(totals[&0].events, 100_000);
    assert_eq!(totals[&1].events, consumer.stats("other").read);
    assert!(totals[&1].events > 0);
    assert_eq!(events(&totals), read.lines.len() as u64);
    consumer.close();
}

#[test]
fn changes_take_effect_while_it_records() {
    let Some(mut consumer) = Consumer::start() else { return };
    consumer.open("trace", false);
    let nobody = Tracked {
        pids: vec![1],
        ..Tracked::default()
    };
    consumer.set_tracked(nobody.clone());
    consumer.set_channel(&channel("default", &[numbered()]));
    consumer.start_session().unwrap();
    let mut numbers = Numbers::new();
    let mut make = |range: std::ops::Range<u64>| range.for_each(|number| numbers.make(number));
    make(0..100);
    consumer.set_tracked(this_process());
    consumer.report();
    make(100..200);
    let mut without = channel("default", &[numbered()]);
    without.rules[0].enabled = false;
    consumer.set_channel(&without);
    consumer.report();
    make(200..300);
    consumer.set_channel(&channel("default", &[numbered(), tracepoint("sched_switch")]));
    consumer.report();
    make(300..400);
    consumer.set_channel(&without);
    consumer.set_tracked(nobody);
    consumer.report();
    make(400..500);
    consumer.stop();
    let read_first = read(&consumer.path("trace"));
    read_first.assert_silent();
    read_first.assert_numbers((100..200).chain(300..400));

    consumer.set_tracked(this_process());
    consumer.set_channel(&channel("default", &[numbered()]));
    consumer.start_session().unwrap();
    make(500..600);
    let totals = consumer.stop();
    let read = read(&consumer.path("trace"));
    read.assert_silent();
    read.assert_numbers((100..200).chain(300..400).chain(500..600));
    assert_eq!(read.count("lttng_statedump_start"), 2);
    assert_eq!(events(&totals), read.lines.len() as u64);
    consumer.close();
}

#[test]
fn snapshot_has_what_the_rings_hold_and_what_the_last_one_showed() {
    let Some(mut consumer) = Consumer::start() else { return };
    consumer.open("unused", true);
    consumer.set_tracked(this_process());
    let mut spec = channel("default", &[numbered()]);
    spec.loss = Loss::Overwrite;
    consumer.set_channel(&spec);
    consumer.start_session().unwrap();
    let mut numbers = Numbers::new();
    let mut make = |range: std::ops::Range<u64>| range.for_each(|number| numbers.make(number));
    make(0..1000);
    let totals = consumer.snapshot("first").unwrap();
    let first = read(&consumer.path("first"));
    first.assert_silent();
    first.assert_numbers(0..1000);
    assert_eq!(events(&totals), first.lines.len() as u64);
    assert_eq!(first.count("lttng_statedump_end"), 1);
    assert_eq!(events_of_state_dump(&totals) + 2000, first.lines.len() as u64);

    make(1000..1500);
    consumer.kill();
    make(1500..2000);
    consumer.start_process();
    consumer.open("unused", true);
    consumer.set_tracked(this_process());
    consumer.set_channel(&spec);
    consumer.start_session().unwrap();
    make(2000..2500);
    let totals_of_second = consumer.snapshot("second").unwrap();
    // More than the rings hold. Nobody reads the second one before: a reader seeks too, in its first moments as a child of this process.
    make(2500..200_000);
    let totals = consumer.snapshot("third").unwrap();

    let second = read(&consumer.path("second"));
    second.assert_silent();
    second.assert_numbers(0..2500);
    assert_eq!(events(&totals_of_second), second.lines.len() as u64);
    let third = read(&consumer.path("third"));
    let shown = third.numbers();
    assert_eq!(*shown.last().unwrap(), 199_999);
    assert!(shown.len() > 10_000, "{} calls", shown.len());
    // What the second one took may be there too; then the trace says how much is missing in between. Each call is two events.
    let missing: u64 = shown.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
    assert!(
        third.discarded().abs_diff(2 * missing) <= 1,
        "{missing} calls missing: {}",
        third.complaints
    );
    assert_eq!(events(&totals), third.lines.len() as u64);
    assert!(consumer.snapshot("third").is_err(), "there is one already");
    assert!(!consumer.path("unused").exists());
    consumer.close();
}

#[test]
fn state_dump_can_be_taken_again() {
    let Some(mut consumer) = Consumer::start() else { return };
    consumer.open("trace", false);
    consumer.set_tracked(this_process());
    consumer.set_channel(&channel("default", &[numbered()]));
    assert!(consumer.regenerate_state_dump().is_err(), "nothing is recorded");
    consumer.start_session().unwrap();
    let mut dumps = 0;
    for _ in 0..3 {
        // The first one may still be going on.
        let totals = consumer.regenerate_state_dump().unwrap();
        assert!(events_of_state_dump(&totals) > dumps);
        dumps = events_of_state_dump(&totals);
    }
    consumer.stop();
    let read = read(&consumer.path("trace"));
    read.assert_silent();
    assert_eq!(read.count("lttng_statedump_start"), read.count("lttng_statedump_end"));
    let own = format!("pid = {}", std::process::id());
    for event in ["process_state", "file_descriptor"] {
        let marked = format!("lttng_statedump_{event}: ");
        let is_own = |line: &&String| line.contains(&marked) && line.contains(&own);
        assert!(read.lines.iter().any(|line| is_own(&line)), "{event}");
    }
    consumer.close();
}

#[test]
fn what_pisted_does_is_left_out() {
    let Some(mut consumer) = Consumer::start() else { return };
    consumer.open("trace", false);
    let all_calls = tracepoint("raw_syscalls:*");
    consumer.set_channel(&channel("default", &[all_calls]));
    consumer.start_session().unwrap();
    let mut numbers = Numbers::new();
    (0..10_000).for_each(|number| numbers.make(number));
    consumer.report();
    consumer.stop();
    let read = read(&consumer.path("trace"));
    let own = format!("tid = {} ", consumer.pid());
    let of_consumer = read
        .lines
        .iter()
        .filter(|line| line.contains(" sys_") && line.contains(&own));
    assert_eq!(of_consumer.count(), 0);
    consumer.close();
}

#[test]
fn trace_of_somebody_else_is_left_alone() {
    let Some(mut consumer) = Consumer::start() else { return };
    let folder = consumer.path("trace").join("kernel");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("metadata"), "/* CTF 1.8 */ another").unwrap();
    consumer.open("trace", false);
    consumer.set_channel(&channel("default", &[numbered()]));
    assert!(consumer.start_session().is_err());
    consumer.close();
    assert_eq!(
        std::fs::read_to_string(folder.join("metadata")).unwrap(),
        "/* CTF 1.8 */ another"
    );
}

#[test]
fn flight_recorder_follows_the_programs_that_are_started() {
    let Some(mut consumer) = Consumer::start() else { return };
    if !Path::new("/proc/sys/abi/vsyscall32").exists() {
        return skipping::skipped("this kernel runs no 32-bit programs");
    }
    consumer.open("unused", true);
    consumer.set_tracked(this_process());
    consumer.set_channel(&channel("default", &[numbered()]));
    consumer.start_session().unwrap();
    let start_thread = || std::thread::spawn(|| ()).join().unwrap();
    start_thread();
    wait_until("it is read which programs were started", || {
        consumer.stats("programs").read > 0
    });
    consumer.report();
    assert!(consumer.findings.is_empty(), "{:?}", consumer.findings);

    // More than the ring of a CPU has room for.
    stay_on_this_cpu();
    stop_process(consumer.pid());
    (0..5000).for_each(|_| start_thread());
    continue_process(consumer.pid());
    wait_until("it is said that some were not read", || {
        consumer.report();
        consumer.findings.iter().any(|what| what.contains("32-bit programs"))
    });
    consumer.close();
}

fn stop_process(pid: i32) {
    signal(pid, rustix::process::Signal::STOP);
}

fn continue_process(pid: i32) {
    signal(pid, rustix::process::Signal::CONT);
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}
