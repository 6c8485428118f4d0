// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel consumer is killed, or has no space to write to: each event is in the trace once, or counted as lost. Needs root and tracefs.

mod kernel_support;
mod skipping;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use kernel_support::{
    Consumer, Numbers, Totals, channel, events, numbered, read, stay_on_this_cpu, this_process, tracepoint, wait_until,
};
use piste_daemon::link::ToConsumer;
use piste_daemon::person::Person;
use piste_kernel::spec::{ChannelSpec, Loss, Tracked};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

/// What control says to a consumer that takes over.
fn tell(consumer: &mut Consumer, tracked: &Tracked, channels: &[ChannelSpec]) {
    consumer.open("trace", false);
    consumer.set_tracked(tracked.clone());
    for spec in channels {
        consumer.set_channel(spec);
    }
}

/// Numbers that are not the same in each run, and need not be good ones.
fn random() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn killed_at_random_each_event_is_written_once() {
    let Some(mut consumer) = Consumer::start() else { return };
    const KILLS: usize = 40;
    let tracked = this_process();
    let mut tiny = channel("tiny", &[numbered()]);
    // Many pages, so that kills meet every part of the way.
    (tiny.subbuf_bytes, tiny.subbuf_count) = (4096, 8192);
    let mut other = channel("other", &[tracepoint("sched_*")]);
    other.stream_id = 1;
    let channels = [tiny, other];
    tell(&mut consumer, &tracked, &channels);
    consumer.start_session().unwrap();

    let (end, made) = (AtomicBool::new(false), AtomicU64::new(0));
    let totals = thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let mut numbers = Numbers::new();
            while !end.load(Ordering::Relaxed) {
                let first = made.fetch_add(10, Ordering::Relaxed);
                (first..first + 10).for_each(|number| numbers.make(number));
                thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..KILLS {
            thread::sleep(Duration::from_micros(random() % 100_000));
            consumer.kill();
            consumer.start_process();
            tell(&mut consumer, &tracked, &channels);
            consumer.start_session().unwrap();
        }
        end.store(true, Ordering::Relaxed);
        maker.join().unwrap();
        consumer.stop()
    });
    let (stats, other) = (consumer.stats("tiny"), consumer.stats("other"));
    assert_eq!((stats.lost(), other.lost()), (0, 0));
    let read = read(&consumer.path("trace"));
    read.assert_silent();
    read.assert_numbers(0..made.into_inner());
    assert_eq!(totals[&1].events, other.read);
    assert_eq!(events(&totals), read.lines.len() as u64);
    assert!(read.count("lttng_statedump_end") >= 1);
    assert!(consumer.findings.is_empty(), "{:?}", consumer.findings);
    consumer.close();
}

#[test]
fn killed_under_overload_what_is_not_written_is_counted() {
    let Some(mut consumer) = Consumer::start() else { return };
    const KILLS: u64 = 15;
    let tracked = this_process();
    let mut tiny = channel("tiny", &[numbered()]);
    (tiny.subbuf_bytes, tiny.subbuf_count) = (4096, 8);
    for loss in [Loss::Discard, Loss::Overwrite] {
        tiny.loss = loss;
        let channels = [tiny.clone()];
        tell(&mut consumer, &tracked, &channels);
        consumer.start_session().unwrap();
        let mut numbers = Numbers::new();
        for round in 0..KILLS {
            (0..5000).for_each(|number| numbers.make(round * 5000 + number));
            thread::sleep(Duration::from_micros(random() % 10_000));
            consumer.kill();
            consumer.start_process();
            tell(&mut consumer, &tracked, &channels);
            consumer.start_session().unwrap();
        }
        let totals = consumer.stop();
        let (stats, read) = (consumer.stats("tiny"), read(&consumer.path("trace")));
        let numbers = read.numbers();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "each once");
        let lost = totals[&0].discarded_full + totals[&0].overwritten_events;
        assert_eq!((totals[&0].events, lost), (stats.read, stats.lost()));
        assert!(lost > 0);
        assert_eq!(read.discarded(), lost);
        assert_eq!(events(&totals), read.lines.len() as u64);
        consumer.close();
        fs::remove_dir_all(consumer.path("trace")).unwrap();
    }
}

#[test]
fn full_disk_is_waited_for() {
    let Some(mut consumer) = Consumer::start() else { return };
    let folder = consumer.path("disk");
    fs::create_dir(&folder).unwrap();
    let options = |bytes: u64| std::ffi::CString::new(format!("size={bytes}")).unwrap();
    mount(
        "piste-test",
        &folder,
        "tmpfs",
        MountFlags::empty(),
        // A tenth of what one ring takes: it is full even when nothing is read before all events are made.
        options(400 << 10).as_c_str(),
    )
    .unwrap();
    let unmount = Unmount(folder.clone());

    let mut spec = channel("default", &[numbered()]);
    (spec.subbuf_bytes, spec.subbuf_count) = (4096, 1024);
    consumer.open("disk/trace", false);
    consumer.set_tracked(this_process());
    consumer.set_channel(&spec);
    consumer.start_session().unwrap();
    let mut numbers = Numbers::new();
    // Several times what the disk and the rings take.
    (0..200_000).for_each(|number| numbers.make(number));
    wait_until("it is told that the disk is full", || {
        consumer.report();
        let is_told = |what: &String| what.contains("cannot write the trace");
        consumer.findings.iter().any(is_told)
    });
    mount_remount(&folder, MountFlags::empty(), options(64 << 20).as_c_str()).unwrap();
    // What the rings held is written. On each CPU some pages stay until the end: a ring says that it has something from a hundredth on.
    wait_until("there is room in the rings again", || {
        consumer.stats("default").entries < 5000
    });
    (200_000..210_000).for_each(|number| numbers.make(number));
    let totals = consumer.stop();

    let (stats, read) = (consumer.stats("default"), read(&folder.join("trace")));
    let lost = totals[&0].discarded_full;
    assert!(lost > 0, "{stats:?}");
    assert_eq!((totals[&0].events, lost, stats.entries), (stats.read, stats.lost(), 0));
    assert_eq!(read.discarded(), lost);
    assert_eq!(events(&totals), read.lines.len() as u64);
    let written = read.numbers();
    assert!(written.windows(2).all(|pair| pair[0] < pair[1]), "each once");
    assert_eq!(
        written[written.len() - 10_000..],
        Vec::from_iter(200_000..210_000),
        "all after there was space"
    );
    consumer.close();
    drop(unmount);
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn session_that_cannot_be_written_ends_and_counts_what_is_not_in_the_trace() {
    let Some(mut consumer) = Consumer::start() else { return };
    // The stream of a CPU has room to tell what it lacks, in its last page, once it has any.
    stay_on_this_cpu();
    // Each call is two events.
    const CALLS: u64 = 50_000;
    const MADE: u64 = 2 * CALLS;
    // Rings that have room for all of it, and rings that have not; the disk has not even for what these hold.
    for subbuf_count in [256, 24] {
        let folder = consumer.path("disk");
        fs::create_dir(&folder).unwrap();
        mount("piste-test", &folder, "tmpfs", MountFlags::empty(), c"size=512k").unwrap();
        let unmount = Unmount(folder.clone());
        consumer.open("disk/trace", false);
        consumer.set_tracked(this_process());
        let mut spec = channel("default", &[numbered()]);
        spec.subbuf_count = subbuf_count;
        consumer.set_channel(&spec);
        consumer.start_session().unwrap();
        let mut numbers = Numbers::new();
        (0..CALLS).for_each(|number| numbers.make(number));
        let missing = |totals: &Totals| totals[&0].discarded_full + totals[&0].discarded_late;
        let stopped = consumer.stop();
        assert_eq!(stopped[&0].events + missing(&stopped), MADE, "{stopped:?}");
        let stats = consumer.stats("default");
        assert_eq!(stats.lost() > 0, subbuf_count == 24, "{stats:?}");
        let closed = consumer.close();
        assert_eq!(closed[&0].events + missing(&closed), MADE, "{closed:?}");
        assert_eq!(closed[&0].discarded_full, stats.lost());
        assert!(closed[&0].discarded_late > 0);
        let is_told = |what: &String| what.contains("are not in the trace: they could not be written");
        assert!(consumer.findings.iter().any(is_told), "{:?}", consumer.findings);
        assert_eq!(consumer.instances(), []);
        let read = read(&folder.join("trace"));
        assert_eq!(read.discarded(), missing(&closed), "the trace tells it too");
        drop(unmount);
        fs::remove_dir(&folder).unwrap();
    }
}

#[test]
fn what_a_full_disk_kept_from_a_stopped_session_is_written_when_there_is_room() {
    let Some(mut consumer) = Consumer::start() else { return };
    let folder = consumer.path("disk");
    fs::create_dir(&folder).unwrap();
    mount("piste-test", &folder, "tmpfs", MountFlags::empty(), c"size=512k").unwrap();
    let unmount = Unmount(folder.clone());
    consumer.open("disk/trace", false);
    consumer.set_tracked(this_process());
    consumer.set_channel(&channel("default", &[numbered()]));
    consumer.start_session().unwrap();
    let mut numbers = Numbers::new();
    (0..50_000).for_each(|number| numbers.make(number));
    wait_until("it is counted", || consumer.report()[&0].discarded_late > 0);
    assert!(consumer.stop()[&0].discarded_late > 0);
    mount_remount(&folder, MountFlags::empty(), c"size=64m").unwrap();
    let totals = consumer.close();
    assert_eq!(
        (totals[&0].events, totals[&0].discarded_late),
        (100_000, 0),
        "two for each call"
    );
    read(&folder.join("trace")).assert_numbers(0..50_000);
    drop(unmount);
}

#[test]
fn killed_while_it_takes_a_snapshot_it_keeps_what_it_took() {
    let Some(mut consumer) = Consumer::start() else { return };
    const KILLS: u64 = 15;
    let mut spec = channel("default", &[numbered()]);
    spec.loss = Loss::Overwrite;
    (spec.subbuf_bytes, spec.subbuf_count) = (4096, 2048);
    let begin = |consumer: &mut Consumer| {
        consumer.open("unused", true);
        consumer.set_tracked(this_process());
        consumer.set_channel(&spec);
        consumer.start_session().unwrap();
    };
    begin(&mut consumer);
    let mut numbers = Numbers::new();
    for round in 0..KILLS {
        (0..1000).for_each(|number| numbers.make(1000 * round + number));
        let output = consumer.path("snapshot");
        consumer.send(&ToConsumer::Snapshot {
            session: kernel_support::SESSION,
            owner: Person::default(),
            output,
            request: 0,
        });
        thread::sleep(Duration::from_micros(random() % 30_000));
        consumer.kill();
        consumer.start_process();
        begin(&mut consumer);
        // One that was ready before the kill would be in the way of the next.
        let _ = fs::remove_dir_all(consumer.path("snapshot"));
    }
    let totals = consumer.snapshot("snapshot").unwrap();
    let read = read(&consumer.path("snapshot"));
    read.assert_silent();
    read.assert_numbers(0..1000 * KILLS);
    assert_eq!(events(&totals), read.lines.len() as u64);
    consumer.close();
}
