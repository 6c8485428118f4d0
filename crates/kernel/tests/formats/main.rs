// SPDX-License-Identifier: MIT OR Apache-2.0
//! One ring of the real kernel, read both ways: as the text that the kernel makes of it, and as the trace that Piste makes of it. Every field
//! of every event must be the same. Needs root and tracefs.

mod compare;
#[path = "../handmade/mod.rs"]
mod handmade;
#[path = "../real/mod.rs"]
mod real;
mod text;
mod workload;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use compare::{Count, Known};
use handmade::decode;
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{self, Converter, LivingThreads};
use piste_kernel::format::EventFormat;
use piste_kernel::instance::{Instance, TraceClock};
use piste_kernel::layout::Layout;
use piste_kernel::page::{Page, PageLayout};
use piste_kernel::pattern;
use piste_kernel::spec::{Context, Loss};
use piste_syscalls::{Architecture, Table};
use real::Fixture;

/// Groups that would leave no room for others, or that record what the converter does not.
const LEFT_OUT: [&str; 4] = ["ftrace", "syscalls", "preemptirq", "initcall"];
/// Events that come in such numbers that the others would find no room: they are recorded for the first moments only.
const FLOODS: [&str; 21] = [
    "block:block_dirty_buffer",
    "block:block_touch_buffer",
    "exceptions:*",
    "ext4:ext4_da_reserve_space",
    "ext4:ext4_es_*",
    "ext4:ext4_ext_*",
    "filemap:*",
    "kmem:*",
    "maple_tree:*",
    "memcg:*",
    "mmap_lock:*",
    "msr:*",
    "pagemap:*",
    "percpu:*",
    "rcu:*",
    "sched:sched_stat_runtime",
    "tlb:*",
    "vmscan:*",
    "writeback:writeback_*dirty*",
    "writeback:track_foreign_dirty",
    "x86_fpu:*",
];

#[test]
fn every_field_is_what_the_kernel_says_it_is() {
    let Some(place) = Fixture::new() else { return };
    let catalog = Arc::new(Catalog::read(&place.tracefs).unwrap());
    let layout = Arc::new(Layout::new(catalog.names()));
    let instance = place.instance(Loss::Discard, 65536, 192);
    instance.set_on(false).unwrap();
    instance.set_clock(TraceClock::Tsc).unwrap();
    let all = record(&instance, &catalog);

    let channel = handmade::channel(&[Context::Tid, Context::InterruptState]);
    let mut converter = Converter::new(
        Arc::clone(&catalog),
        Arc::clone(&layout),
        &channel,
        &[],
        Box::new(LivingThreads::default()),
    );
    let known = Known::read(&place.tracefs);
    let mut classes = HashMap::new();
    let mut fired = BTreeMap::<String, u64>::new();
    let mut count = Count::default();
    let mut records = 0;
    for cpu in instance.cpus().unwrap() {
        let said = shown(&instance, cpu, "fields");
        let said_calls = shown(&instance, cpu, "print");
        let mut lines = text::lines(&said).into_iter().zip(text::lines(&said_calls));
        let page_layout = PageLayout::read(&place.tracefs).unwrap();
        let mut ring = place.ring(&instance, cpu);
        real::drain(&mut ring, &page_layout, |page: &Page| {
            let mut packet = Vec::new();
            let converted = converter.page(page, cpu, &mut packet);
            assert_eq!((converted.discarded, &*converted.findings), (0, &[][..]));
            for class in converter.take_new_classes() {
                classes.insert(class.id, class);
            }
            let contexts = convert::stream_class(&channel).contexts;
            let events = decode::events(&packet, converted.begin_ticks, &contexts, &classes).unwrap();
            assert_eq!(events.len() as u64, converted.events);
            assert_eq!(
                events.last().map_or(converted.begin_ticks, |event| event.ticks),
                converted.last_ticks
            );
            let mut events = events.into_iter();
            for record in page.records() {
                let id = u16::from_le_bytes([record.data[0], record.data[1]]);
                let format = catalog.by_id(id).unwrap();
                let (event, (line, call)) = (events.next().unwrap(), lines.next().unwrap());
                let class = &classes[&event.class_id];
                assert_eq!((line.event, line.cpu, line.ticks), (&*format.name, cpu, event.ticks));
                assert_eq!(line.tid as u64 & 0xffff_ffff, event.contexts[0].unsigned());
                let names = class.fields.iter().map(|field| field.name.as_str());
                let values: HashMap<_, _> = names.zip(&event.fields).collect();
                if format.system == "raw_syscalls" {
                    calls(format, &class.name, call.fields, &event, &mut count);
                } else {
                    compare::event(format, &layout, &known, record.data, line.fields, &values, &mut count);
                }
                *fired.entry(format!("{}:{}", format.system, format.name)).or_default() += 1;
                records += 1;
            }
            assert!(events.next().is_none());
        });
        assert!(lines.next().is_none(), "the kernel says more than the trace");
    }
    let mut kinds = BTreeMap::<&str, u64>::new();
    for difference in &count.differences {
        *kinds
            .entry(difference.split(':').nth(1).unwrap_or_default())
            .or_default() += 1;
    }
    eprintln!(
        "{} different events of {all} enabled ({} of the kernel); {records} records; {} fields compared with the kernel's text, {} more, of which it \
         shows no value, with the record; {} system calls; {} differences {kinds:?}",
        fired.len(),
        catalog.names().count(),
        count.said,
        count.unsaid,
        classes
            .values()
            .filter(|class| class.name.contains("syscall_entry_"))
            .count(),
        count.differences.len()
    );
    for difference in count.differences.iter().take(20) {
        eprintln!("{difference}");
    }
    assert!(count.differences.is_empty());
    assert!(fired.len() > 50, "the workload made few events: {fired:?}");
    instance.remove().unwrap();
}

/// A call's number and arguments as the kernel prints them: ` NR 257 (ffffff9c, ...)`, ` NR 257 = 3`.
fn calls(format: &EventFormat, class: &str, said: &[u8], event: &decode::Event, count: &mut Count) {
    let said = str::from_utf8(said).unwrap();
    let words = said.split([' ', '(', ')', ',', '=']);
    let mut words = words.filter(|word| !word.is_empty()).skip(1).peekable();
    let number: i64 = words.peek().unwrap().parse().unwrap();
    let side = if format.name == "sys_exit" { "exit" } else { "entry" };
    let call = match number {
        // The exit of a return from a signal handler, which has lost its number.
        -1 if class == "syscall_exit_rt_sigreturn" => Architecture::HERE.by_name(Table::Native, "rt_sigreturn"),
        number => u32::try_from(number)
            .ok()
            .and_then(|number| Architecture::HERE.by_number(Table::Native, number)),
    };
    let mut is_same = class == format!("syscall_{side}_{}", call.map_or("unknown", |call| call.name));
    if call.is_some() {
        words.next();
    }
    for (value, word) in event.fields.iter().zip(words) {
        let word = match side {
            "exit" => word.parse::<i64>().unwrap() as u64,
            _ => u64::from_str_radix(word, 16).unwrap(),
        };
        is_same &= word.to_le_bytes().starts_with(value.bytes());
        count.said += 1;
    }
    if !is_same {
        count
            .differences
            .push(format!("{class}:{class}: {:?}; the kernel says {said:?}", event.fields));
    }
}

/// Records a moment of the floods, then seconds of everything else. Returns how many events that is.
fn record(instance: &Instance, catalog: &Catalog) -> usize {
    let folder = tempfile::Builder::new()
        .prefix("piste-formats-")
        .tempdir_in("/var/tmp")
        .unwrap();
    // Probes come and go with those who defined them, who cannot remove one that is recorded here.
    let wanted =
        |system: &str| !LEFT_OUT.contains(&system) && !system.contains("probe") && !system.starts_with("piste");
    let is_flood = |(system, name): &(&str, &str)| {
        FLOODS
            .iter()
            .any(|flood| pattern::matches_event(flood, system, name, name))
    };
    let (floods, others): (Vec<_>, Vec<_>) = catalog.names().filter(|(system, _)| wanted(system)).partition(is_flood);
    let set = |events: &[(&str, &str)], text: &str| {
        let files = events
            .iter()
            .map(|(system, name)| format!("events/{system}/{name}/enable"));
        files.filter(|file| instance.write(file, text).is_ok()).count()
    };
    let count = set(&floods, "1");
    instance.set_on(true).unwrap();
    workload::moment(folder.path());
    instance.set_on(false).unwrap();
    set(&floods, "0");
    let count = count + set(&others, "1");
    instance.set_on(true).unwrap();
    workload::run(folder.path());
    instance.set_on(false).unwrap();
    count
}

/// The kernel's text of a ring, in one of its forms.
fn shown(instance: &Instance, cpu: u32, form: &str) -> Vec<u8> {
    let fields = if form == "fields" { "1" } else { "0" };
    instance.write("options/fields", fields).unwrap();
    std::fs::read(instance.path(format!("per_cpu/cpu{cpu}/trace"))).unwrap()
}
