// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks of the real kernel: each belongs to one event, and is in it, wherever pages and readers end. Needs root and tracefs.

mod handmade;
mod real;

use std::collections::HashMap;
use std::sync::Arc;

use handmade::decode::{self, Event};
use piste_ctf::EventClass;
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, stream_class};
use piste_kernel::instance::{Instance, TraceClock};
use piste_kernel::layout::Layout;
use piste_kernel::page::PageLayout;
use piste_kernel::page_ring::PageRing;
use piste_kernel::spec::{ChannelSpec, Context, EventSource, Loss, Stack};
use real::Fixture;

const CPU: u32 = 0;
/// How often a thread calls and sleeps. A sleep that a busy host makes late may be over before it has begun: without a switch.
const ROUNDS: u64 = 1000;

#[test]
fn each_stack_is_in_its_event() {
    let Some(trace) = Trace::record() else { return };
    let (events, classes) = trace.convert(&trace.channel, false);
    let mut counts = HashMap::<&str, Counts>::new();
    for event in &events {
        let class = &classes[&event.class_id];
        let counts = counts.entry(class.name.as_str()).or_default();
        counts.events += 1;
        for (field, value) in class.fields.iter().zip(&event.fields) {
            let (frames, _) = value.bytes().as_chunks::<8>();
            let frames: Vec<_> = frames.iter().map(|frame| u64::from_le_bytes(*frame)).collect();
            match field.name.as_str() {
                "callstack_kernel" => {
                    counts.kernel += u64::from(!frames.is_empty());
                    assert!(frames.iter().all(|frame| *frame >> 63 == 1), "{frames:x?}");
                }
                "callstack_user" => {
                    counts.user += u64::from(!frames.is_empty());
                    assert!(
                        frames.len() <= 3 && frames.iter().all(|frame| frame >> 47 == 0),
                        "{frames:x?}"
                    );
                }
                _ => {}
            }
        }
    }
    eprintln!(
        "{} pages: {counts:?}; records of stacks: {:?}",
        trace.pages.len(),
        trace.stack_records
    );
    let (switch, entry, waking) = (
        &counts["sched_switch"],
        &counts["syscall_entry_getppid"],
        &counts["sched_waking"],
    );
    assert!(switch.events > ROUNDS / 2 && switch.kernel == switch.events && switch.user == 0);
    assert!(entry.events >= ROUNDS && entry.user == entry.events && entry.kernel == 0);
    assert!(waking.events > ROUNDS / 2 && waking.kernel + waking.user == 0);
    // The kernel's stacks come with sched_switch alone.
    assert_eq!(trace.stack_records.0, switch.kernel);
    assert!(
        classes
            .values()
            .all(|class| class.name != "kernel_stack" && class.name != "user_stack")
    );
}

#[test]
fn a_reader_that_takes_over_loses_no_event_that_waits() {
    let Some(trace) = Trace::record() else { return };
    let (one, _) = trace.convert(&trace.channel, false);
    let (many, _) = trace.convert(&trace.channel, true);
    assert_eq!(format!("{one:?}"), format!("{many:?}"));
}

#[test]
fn frames_outside_of_a_range_are_left_out() {
    let Some(trace) = Trace::record() else { return };
    let (all, classes) = trace.convert(&trace.channel, false);
    let stack_of = |events: &[Event]| -> Vec<Vec<u64>> {
        let switches = events
            .iter()
            .filter(|event| classes[&event.class_id].name == "sched_switch");
        let last = switches.map(|event| event.fields.last().unwrap().bytes().as_chunks::<8>().0.to_vec());
        last.map(|frames| frames.into_iter().map(u64::from_le_bytes).collect())
            .collect()
    };
    let all = stack_of(&all);
    let middle = all[0][1];
    let mut channel = trace.channel.clone();
    channel.rules[0].stack = Some(Stack {
        kernel: true,
        user: false,
        depth: Some(2),
        range: Some((middle, middle + 1)),
    });
    let (events, _) = trace.convert(&channel, false);
    let some = stack_of(&events);
    for (all, some) in all.iter().zip(&some) {
        let wanted: Vec<_> = all.iter().copied().filter(|frame| *frame == middle).take(2).collect();
        assert_eq!(*some, wanted);
    }
    let switch = events
        .iter()
        .find(|event| classes[&event.class_id].name == "sched_switch")
        .unwrap();
    assert_eq!(
        switch.fields[switch.fields.len() - 2].unsigned(),
        middle,
        "it is the event's ip"
    );
}

#[derive(Debug, Default)]
struct Counts {
    events: u64,
    kernel: u64,
    user: u64,
}

/// What a CPU recorded, in pages that are so small that many events are away from their stacks.
struct Trace {
    catalog: Arc<Catalog>,
    layout: Arc<Layout>,
    channel: ChannelSpec,
    pages: Vec<Vec<u8>>,
    /// Of the kernel, and of programs.
    stack_records: (u64, u64),
}

impl Trace {
    fn record() -> Option<Trace> {
        let place = Fixture::new()?;
        let catalog = Arc::new(Catalog::read(&place.tracefs).unwrap());
        let instance = place.instance(Loss::Discard, 4096, 2048);
        instance.set_on(false).unwrap();
        instance.set_clock(TraceClock::Tsc).unwrap();
        if instance.write("options/userstacktrace", "1").is_err() {
            real::skipped("this kernel records no stacks of programs");
            return None;
        }
        for event in ["sched/sched_switch", "sched/sched_waking", "raw_syscalls/sys_enter"] {
            instance.write(format!("events/{event}/enable"), "1").unwrap();
        }
        // Other programs' calls are of no interest.
        instance
            .write("events/raw_syscalls/sys_enter/filter", "id == 110")
            .unwrap();
        instance
            .write("events/sched/sched_switch/trigger", "stacktrace")
            .unwrap();
        let layout = PageLayout::read(&place.tracefs).unwrap();
        let mut ring = place.ring(&instance, CPU);
        record_work(&instance);
        assert_eq!(instance.stats(CPU).unwrap().dropped, 0);
        let mut pages = Vec::new();
        while let Some(page) = ring.next(true).unwrap() {
            pages.push(page.to_vec());
            ring.done();
        }
        drop(ring);
        instance
            .write("events/sched/sched_switch/trigger", "!stacktrace")
            .unwrap();
        instance.remove().unwrap();
        let id = |name| catalog.by_name("ftrace", name).unwrap().id;
        let count = |id: u16| {
            let records = pages.iter().map(|page| {
                let page = piste_kernel::page::Page::parse(&layout, page).unwrap();
                page.records()
                    .filter(|record| record.data[..2] == id.to_le_bytes())
                    .count() as u64
            });
            records.sum()
        };
        Some(Trace {
            stack_records: (count(id("kernel_stack")), count(id("user_stack"))),
            layout: Arc::new(Layout::new(catalog.names())),
            catalog,
            channel: channel(),
            pages,
        })
    }

    /// The events, by one converter or by a new one for each page.
    fn convert(&self, channel: &ChannelSpec, is_killed: bool) -> (Vec<Event>, HashMap<u32, EventClass>) {
        let new = || {
            let (catalog, layout) = (Arc::clone(&self.catalog), Arc::clone(&self.layout));
            Converter::new(catalog, layout, channel, &[], Box::new(handmade::Numbered))
        };
        let contexts = stream_class(channel).contexts;
        let mut classes = HashMap::new();
        let mut events = Vec::new();
        let mut converter = new();
        let mut waited = 0;
        let mut last_ticks = 0;
        for page in &self.pages {
            let mut packet = Vec::new();
            let converted = converter.page(&handmade::parse(page), CPU, &mut packet);
            assert_eq!((converted.discarded, &*converted.findings), (0, &[][..]));
            assert!(converted.begin_ticks >= last_ticks, "packets follow each other");
            last_ticks = converted.last_ticks;
            classes.extend(converter.take_new_classes().into_iter().map(|class| (class.id, class)));
            events.extend(decode::events(&packet, converted.begin_ticks, &contexts, &classes).unwrap());
            let kept = converter.kept(CPU).to_vec();
            waited += u64::from(!kept.is_empty());
            if is_killed {
                converter = new();
                converter.restore(CPU, &kept);
            }
        }
        let mut packet = Vec::new();
        if let Some(converted) = converter.finish(CPU, &mut packet) {
            classes.extend(converter.take_new_classes().into_iter().map(|class| (class.id, class)));
            events.extend(decode::events(&packet, converted.begin_ticks, &contexts, &classes).unwrap());
        }
        eprintln!(
            "{waited} of {} pages ended between an event and its stack",
            self.pages.len()
        );
        assert!(waited > 0);
        (events, classes)
    }
}

/// On the CPU that works: another one would stop the recording between an event and its stack.
fn record_work(instance: &Instance) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            real::run_on(CPU);
            instance.set_on(true).unwrap();
            for _ in 0..ROUNDS {
                let _ = rustix::process::getppid();
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            instance.set_on(false).unwrap();
        });
    });
}

fn channel() -> ChannelSpec {
    let mut channel = handmade::channel(&[Context::Tid]);
    let stack = |kernel| {
        Some(Stack {
            kernel,
            user: !kernel,
            depth: (!kernel).then_some(3),
            range: None,
        })
    };
    let pattern = "sched_switch".to_owned();
    channel.rules[0] = handmade::rule(EventSource::Tracepoint { pattern });
    channel.rules[0].stack = stack(true);
    channel.rules[1].stack = stack(false);
    channel
}
