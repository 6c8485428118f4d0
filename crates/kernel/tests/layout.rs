// SPDX-License-Identifier: MIT OR Apache-2.0
//! What analyses of Linux traces look for, by name and type, in the classes that this kernel's events get. Needs tracefs.

mod handmade;
mod real;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use piste_ctf::metadata::{self, Form};
use piste_ctf::packet::{KERNEL_HEADER_BYTES, KernelHeader};
use piste_ctf::{Clock, Element, EventClass, FieldKind, Trace};
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, stream_class};
use piste_kernel::layout::Layout;
use piste_kernel::spec::Context;
use piste_syscalls::{Architecture, Table};

/// Name in the trace, then each field and its type. Readers take no name for a number: only what no analysis reads may be named.
const WANTED: &str = "\
sched_switch prev_comm:text prev_tid:i32 prev_prio:i32 prev_state:i64 prev_state_raw:i64 next_comm:text next_tid:i32 next_prio:i32
sched_wakeup comm:text tid:i32 prio:i32 target_cpu:i32
sched_wakeup_new comm:text tid:i32 prio:i32 target_cpu:i32
sched_waking comm:text tid:i32 prio:i32 target_cpu:i32
sched_migrate_task comm:text tid:i32 prio:i32 orig_cpu:i32 dest_cpu:i32
sched_process_fork parent_comm:text parent_tid:i32 parent_pid:i32 child_comm:text child_tid:i32 child_pid:i32
sched_process_exec filename:text tid:i32 old_tid:i32
sched_process_exit comm:text tid:i32 prio:i32
sched_process_free comm:text tid:i32 prio:i32
sched_process_wait comm:text tid:i32 prio:i32
sched_wait_task comm:text tid:i32 prio:i32
sched_pi_setprio comm:text tid:i32 oldprio:i32 newprio:i32
sched_stat_runtime comm:text tid:i32 runtime:u64
irq_handler_entry irq:i32 name:text
irq_handler_exit irq:i32 ret:i32
irq_softirq_entry vec:u32
irq_softirq_exit vec:u32
irq_softirq_raise vec:u32
x86_irq_vectors_local_timer_entry vector:i32
x86_irq_vectors_local_timer_exit vector:i32
x86_irq_vectors_reschedule_entry vector:i32
x86_irq_vectors_call_function_single_entry vector:i32
x86_exceptions_page_fault_user address:u64 ip:u64 error_code:u64
timer_hrtimer_start hrtimer:u64 function:u64 expires:i64 softexpires:i64
timer_hrtimer_cancel hrtimer:u64
timer_hrtimer_expire_entry hrtimer:u64 now:i64 function:u64
timer_hrtimer_expire_exit hrtimer:u64
timer_itimer_expire which:i32 pid:i32
timer_itimer_state which:i32 value_sec:i64 interval_sec:i64
timer_start timer:u64 function:u64 expires:u64
net_dev_queue skbaddr:u64 len:u32 name:text
net_if_receive_skb skbaddr:u64 len:u32 name:text
skb_kfree skbaddr:u64 location:u64
skb_consume skbaddr:u64
block_rq_insert dev:u32 sector:u64 nr_sector:u32 bytes:u32 tid:i32 rwbs:u32 rwbs_raw:text comm:text
block_rq_issue dev:u32 sector:u64 nr_sector:u32 bytes:u32 tid:i32 rwbs:u32 rwbs_raw:text comm:text
block_rq_complete dev:u32 sector:u64 nr_sector:u32 error:i32 rwbs:u32
block_rq_requeue dev:u32 sector:u64 nr_sector:u32 rwbs:u32
block_rq_merge dev:u32 sector:u64 nr_sector:u32 tid:i32 rwbs:u32 comm:text
block_bio_queue dev:u32 sector:u64 nr_sector:u32 tid:i32 rwbs:u32 comm:text
block_bio_frontmerge dev:u32 sector:u64 nr_sector:u32 tid:i32 rwbs:u32 comm:text
block_bio_backmerge dev:u32 sector:u64 nr_sector:u32 tid:i32 rwbs:u32 comm:text
block_bio_complete dev:u32 sector:u64 nr_sector:u32 error:i32 rwbs:u32
block_getrq dev:u32 sector:u64 nr_sector:u32 tid:i32 rwbs:u32 comm:text
kmem_mm_page_alloc pfn:u64 order:u32 gfp_flags:named-u64 migratetype:i32
kmem_mm_page_free pfn:u64 order:u32
kmem_kmalloc call_site:u64 ptr:u64 bytes_req:u64 bytes_alloc:u64
kmem_kfree call_site:u64 ptr:u64
power_cpu_idle state:u32 cpu_id:u32
mm_vmscan_shrink_slab_start shr:u64
syscall_entry_read fd:u32 buf:u64 count:u64
syscall_exit_read ret:i64
syscall_entry_openat dfd:i32 filename:u64 flags:i32 mode:u16
syscall_entry_clone clone_flags:u64
syscall_exit_clone ret:i64
syscall_entry_futex uaddr:u64 op:i32 val:u32
compat_syscall_entry_read fd:u32 buf:u32 count:u32
compat_syscall_exit_read ret:i64
";

/// Events of other kernels than this one.
const NOT_EVERYWHERE: [&str; 2] = ["x86_irq_vectors_call_function_single_entry", "skb_consume"];

#[test]
fn names_and_types_are_those_that_analyses_know() {
    let Some(classes) = classes() else { return };
    let mut wrong = Vec::new();
    for line in WANTED.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let Some(class) = classes.get(name) else {
            if !NOT_EVERYWHERE.contains(&name) {
                wrong.push(format!("{name}: no such event"));
            }
            continue;
        };
        for (field, kind) in words.map(|word| word.split_once(':').unwrap()) {
            let found = class.fields.iter().find(|found| found.name == field);
            let found = found.map(|found| kind_name(&found.kind));
            if found.as_deref() != Some(kind) {
                wrong.push(format!("{name}: {field} is {found:?}, {kind} is wanted"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_event_has_one_class_and_each_class_one_number() {
    let Some(catalog) = catalog() else { return };
    let classes = all(&catalog);
    let mut ids = BTreeMap::new();
    let mut names = BTreeMap::new();
    for class in &classes {
        if let Some(other) = ids.insert(class.id, &class.name) {
            panic!("{other} and {} have the number {}", class.name, class.id);
        }
        if names.insert(&class.name, class.id).is_some() {
            panic!("{} has two classes", class.name);
        }
    }
    let compact = classes.iter().filter(|class| class.id < 31).count();
    assert!(
        compact >= 25,
        "{compact} events have the short header: are they called otherwise?"
    );
    // Another consumer finds the same.
    assert_eq!(classes, all(&catalog));
}

#[test]
fn babeltrace2_reads_an_event_of_every_class() {
    let Some(catalog) = catalog() else { return };
    let (classes, packets) = convert(&catalog);
    let trace = Trace {
        uuid: [0; 16],
        clock: Clock {
            name: "monotonic".to_owned(),
            uuid: [8; 16],
            frequency_hz: 1_000_000_000,
            offset_seconds: 0,
            offset_ticks: 0,
            description: String::new(),
        },
        environment: Vec::new(),
    };
    let stream = stream_class(&handmade::channel(&[Context::Tid]));
    let mut metadata = metadata::opening(&trace, Form::Kernel) + &metadata::stream_class(&stream);
    metadata.extend(classes.iter().map(|class| metadata::event_class(stream.id, class)));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("metadata"), metadata).unwrap();
    std::fs::write(folder.path().join("test_0"), packets.concat()).unwrap();
    let output = Command::new("babeltrace2").arg(folder.path()).output();
    let output = output.expect("babeltrace2 is needed (Debian: apt install babeltrace2)");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut shown: Vec<_> = text.lines().map(event_name).collect();
    let mut expected: Vec<_> = classes.iter().map(|class| class.name.as_str()).collect();
    shown.sort_unstable();
    expected.sort_unstable();
    assert_eq!(shown, expected);
}

/// `[01:00:00.000001000] (+?.?????????) sched_switch: { cpu_id = 0 }, ...`
fn event_name(line: &str) -> &str {
    let rest = line.split_once(") ").map_or(line, |(_, rest)| rest);
    rest.split_once(": {").map_or(rest, |(name, _)| name)
}

fn kind_name(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Scalar { element, .. } => element_name(*element).to_owned(),
        FieldKind::Named { element, .. } => format!("named-{}", element_name(*element)),
        FieldKind::FixedText { .. } | FieldKind::String => "text".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The time of all events.
const BEGIN_TICKS: u64 = 1000;

fn element_name(element: Element) -> &'static str {
    match element {
        Element::Int8 => "i8",
        Element::Int16 => "i16",
        Element::Int32 => "i32",
        Element::Int64 => "i64",
        Element::Uint8 => "u8",
        Element::Uint16 => "u16",
        Element::Uint32 => "u32",
        Element::Uint64 => "u64",
        Element::Float32 | Element::Float64 => "float",
    }
}

fn catalog() -> Option<Arc<Catalog>> {
    let tracefs = real::tracefs()?;
    Some(Arc::new(Catalog::read(&tracefs).unwrap()))
}

fn classes() -> Option<BTreeMap<String, EventClass>> {
    let catalog = catalog()?;
    Some(
        all(&catalog)
            .into_iter()
            .map(|class| (class.name.clone(), class))
            .collect(),
    )
}

/// The classes of all events of the kernel, and of all system calls: one empty record of each is converted.
fn all(catalog: &Arc<Catalog>) -> Vec<EventClass> {
    convert(catalog).0
}

/// The classes, and packets with an event of each.
fn convert(catalog: &Arc<Catalog>) -> (Vec<EventClass>, Vec<Vec<u8>>) {
    let layout = Arc::new(Layout::new(catalog.names()));
    let channel = handmade::channel(&[Context::Tid]);
    let mut converter = Converter::new(Arc::clone(catalog), layout, &channel, &[], Box::new(handmade::Numbered));
    let mut records = Vec::new();
    for (system, name) in catalog.names() {
        // Events of others' probes come and go.
        let Ok(format) = catalog.by_name(system, name) else {
            continue;
        };
        let end = format.fields.iter().map(|field| field.offset + field.bytes).max();
        let mut record = vec![0; end.unwrap_or(8) as usize];
        record[..2].copy_from_slice(&format.id.to_le_bytes());
        if system != "raw_syscalls" {
            records.push(record);
            continue;
        }
        for (table, tid) in [(Table::Native, 1_i32), (Table::Compat, 3200)] {
            for call in Architecture::HERE.all(table) {
                record[4..8].copy_from_slice(&tid.to_le_bytes());
                record[8..12].copy_from_slice(&call.number.to_le_bytes());
                records.push(record.clone());
            }
        }
    }
    let mut packets = Vec::new();
    for records in records.chunks(100) {
        let page = handmade::page(
            BEGIN_TICKS,
            records.iter().map(|record| (BEGIN_TICKS, record.as_slice())),
        );
        let mut packet = vec![0; KERNEL_HEADER_BYTES];
        let converted = converter.page(&handmade::parse(&page), 0, &mut packet);
        assert_eq!(
            (converted.events, converted.discarded),
            (records.len() as u64, 0),
            "{converted:?}"
        );
        let header = KernelHeader {
            timestamp_begin: converted.begin_ticks,
            timestamp_end: converted.last_ticks,
            content_bits: 8 * packet.len() as u64,
            packet_bits: 8 * packet.len() as u64,
            packet_seq_num: packets.len() as u64,
            ..KernelHeader::default()
        };
        packet[..KERNEL_HEADER_BYTES].copy_from_slice(&header.encode());
        packets.push(packet);
    }
    (converter.take_new_classes(), packets)
}
