// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of a 32-bit program have the names of its own table, also when it is gone before anybody looks, and when it has moved to a CPU whose
//! ring is read first. Needs root, tracefs and a kernel that runs such programs.

mod handmade;
mod real;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

use handmade::decode;
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, LivingThreads, stream_class};
use piste_kernel::instance::TraceClock;
use piste_kernel::layout::Layout;
use piste_kernel::page::PageLayout;
use piste_kernel::programs::Programs;
use piste_kernel::spec::{Context, Loss};
use real::Fixture;

#[test]
fn calls_of_a_32_bit_program_have_the_names_of_its_table() {
    let Some(place) = Fixture::new() else { return };
    let program = place.run.path().join("program");
    fs::write(&program, program_that_moves_and_asks_for_its_process()).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    if let Err(error) = Command::new(&program).status() {
        return real::skipped(&format!("this kernel runs no 32-bit programs: {error}"));
    }
    let instance = place.instance(Loss::Discard, 65536, 64);
    let catalog = Arc::new(Catalog::read(&place.tracefs).unwrap());
    let page_layout = PageLayout::read(&place.tracefs).unwrap();
    let clock = TraceClock::Monotonic;
    instance.set_clock(clock).unwrap();
    let programs = Programs::open(&place.tracefs, &place.owner, 1, clock, &catalog, page_layout).unwrap();
    instance.write("events/raw_syscalls/enable", "1").unwrap();
    real::run_on(0);
    let mut child = Command::new(&program).spawn().unwrap();
    let tid = child.id();
    assert!(child.wait().unwrap().success());
    instance.set_on(false).unwrap();

    let layout = Arc::new(Layout::new(catalog.names()));
    let channel = handmade::channel(&[Context::Tid]);
    let programs = Arc::new(Mutex::new(programs));
    let threads = LivingThreads::new(Some(programs.clone()));
    let mut converter = Converter::new(catalog, layout, &channel, &[], Box::new(threads));
    let mut classes = HashMap::new();
    let mut seen = Vec::new();
    for cpu in instance.cpus().unwrap().into_iter().rev() {
        let mut ring = place.ring(&instance, cpu);
        real::drain(&mut ring, &page_layout, |page| {
            let mut packet = Vec::new();
            let converted = converter.page(page, cpu, &mut packet);
            classes.extend(converter.take_new_classes().into_iter().map(|class| (class.id, class)));
            let contexts = stream_class(&channel).contexts;
            let events = decode::events(&packet, converted.begin_ticks, &contexts, &classes).unwrap();
            let own = events
                .iter()
                .filter(|event| event.contexts[0].unsigned() == u64::from(tid));
            seen.extend(own.map(|event| (event.ticks, classes[&event.class_id].name.clone())));
        });
    }
    seen.sort();
    let names: Vec<_> = seen.iter().map(|(_, name)| name.as_str()).collect();
    let exec = names.iter().rposition(|name| *name == "syscall_entry_execve").unwrap();
    let wanted = [
        "compat_syscall_exit_execve",
        "compat_syscall_entry_sched_setaffinity",
        "compat_syscall_exit_sched_setaffinity",
        "compat_syscall_entry_getpid",
        "compat_syscall_exit_getpid",
        "compat_syscall_entry_exit",
    ];
    assert_eq!(names[exec + 1..], wanted);
    programs.lock().unwrap().remove().unwrap();
    instance.remove().unwrap();
}

#[test]
fn threads_that_were_started_too_fast_to_follow_are_noticed() {
    let Some(place) = Fixture::new() else { return };
    let catalog = Catalog::read(&place.tracefs).unwrap();
    let pages = PageLayout::read(&place.tracefs).unwrap();
    let clock = TraceClock::Monotonic;
    let mut programs = Programs::open(&place.tracefs, &place.owner, 2, clock, &catalog, pages).unwrap();
    programs.catch_up();
    assert!(!programs.take_is_unsure());
    // All of them on one CPU, whose ring has room for some 2,000.
    real::run_on(0);
    for _ in 0..5000 {
        std::thread::spawn(|| ()).join().unwrap();
    }
    programs.catch_up();
    assert!(programs.take_is_unsure());
    assert!(!programs.take_is_unsure());
    programs.remove().unwrap();
}

/// A program for Linux on i386: sched_setaffinity to CPU 1, getpid, then exit with 0.
fn program_that_moves_and_asks_for_its_process() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const CODE_FROM: u32 = 52 + 32;
    let code = [
        0x6a, 2, 0xb8, 241, 0, 0, 0, 0x31, 0xdb, // push $2; mov $241, %eax; xor %ebx, %ebx
        0xb9, 4, 0, 0, 0, 0x89, 0xe2, 0xcd, 0x80, // mov $4, %ecx; mov %esp, %edx; int $0x80
        0xb8, 20, 0, 0, 0, 0xcd, 0x80, // mov $20, %eax; int $0x80
        0x31, 0xdb, 0xb8, 1, 0, 0, 0, 0xcd, 0x80, // xor %ebx, %ebx; mov $1, %eax; int $0x80
    ];
    let half = |number: u16| number.to_le_bytes().to_vec();
    let word = |number: u32| number.to_le_bytes().to_vec();
    let bytes = CODE_FROM + code.len() as u32;
    [
        b"\x7fELF\x01\x01\x01".to_vec(),
        vec![0; 9],
        half(2), // It can be executed,
        half(3), // on i386.
        word(1),
        word(BASE + CODE_FROM),
        word(52), // Program headers; no sections.
        word(0),
        word(0),
        half(52),
        half(32),
        half(1),
        vec![0; 6],
        word(1), // Load everything, to be read and executed.
        word(0),
        word(BASE),
        word(BASE),
        word(bytes),
        word(bytes),
        word(5),
        word(4096),
        code.to_vec(),
    ]
    .concat()
}
