// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is refused, and what people are told.

use std::fs;
use std::path::Path;

use piste_kernel::probe::check;
use piste_kernel::spec::EventSource;

use crate::programs::compile;
use crate::rig::{uprobe, uretprobe, usdt};

fn reason(source: &EventSource) -> String {
    check(source).unwrap_err().to_string()
}

#[test]
fn places_that_are_not_there_name_what_is_like_them() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "static_probes.c", "static_probes", &[]);
    let path = program.display();
    for (source, expected) in [
        (
            uprobe(&program, "mian", &[]),
            format!("{path} has no function \"mian\" (similar: main"),
        ),
        (
            usdt(&program, "on"),
            format!("{path} has no static probe \"shop:on\" (similar: shop:one"),
        ),
    ] {
        let reason = reason(&source);
        assert!(reason.starts_with(&expected), "{reason}");
    }
}

#[test]
fn places_that_cannot_be_probed_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "calls.c", "calls", &[]);
    for (source, expected) in [
        (
            uprobe(&program, "indirect", &[]),
            "chosen among several functions when the program starts",
        ),
        (uprobe(&program, "work+0x1000", &[]), "is behind its end"),
        (uretprobe(&program, "work+1", &[]), "leave the offset out"),
        (uprobe(&program, "0x0", &[]), "is not in its code"),
        (uprobe(&program, "0xyz", &[]), "hexadecimal digits"),
        (uprobe(&program, "", &[]), "write SYMBOL, SYMBOL+OFFSET or 0xOFFSET"),
        (uprobe(&program, "work", &["%rdi"]), "calls this register %di"),
    ] {
        let reason = reason(&source);
        assert!(reason.contains(expected), "{reason}");
    }
    let stripped = compile(
        folder.path(),
        "library.c",
        "stripped",
        &["-shared", "-fPIC", "-s", "-fvisibility=hidden"],
    );
    let reason = reason(&uprobe(&stripped, "weigh", &[]));
    assert!(
        reason.contains("it was stripped, and its debug file is not installed"),
        "{reason}"
    );
    assert!(check(&uprobe(&program, "work+1", &["%di"])).is_ok());
    assert!(check(&uretprobe(&program, "work", &["$retval"])).is_ok());
}

#[test]
fn several_functions_of_one_name_are_probed_together_or_by_offset() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "names.cpp", "names", &[]);
    assert!(check(&uprobe(&program, "shop::order", &[])).is_ok());
    assert!(check(&uprobe(&program, "shop::order(int)+1", &[])).is_ok());
    let reason = reason(&uprobe(&program, "shop::order+1", &[]));
    assert!(reason.contains("is the name of 2 functions, at 0x"), "{reason}");
}

#[test]
fn files_that_cannot_be_probed_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "#!/bin/sh\n").unwrap();
    let object = compile(folder.path(), "library.c", "library.o", &["-c"]);
    for (binary, expected) in [
        (Path::new("ls"), "give the path from the root"),
        (Path::new("/nowhere/to/be/found"), "No such file"),
        (folder.path(), "is not a file"),
        (&text, "is no ELF program or library"),
        (&object, "link it first"),
    ] {
        let reason = reason(&uprobe(binary, "main", &[]));
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_kernel_without_kprobes_says_so() {
    let source = EventSource::Kprobe {
        name: "open".into(),
        place: "do_sys_openat2".into(),
        arguments: vec![],
        is_return: false,
    };
    if Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        return crate::real::skipped("this kernel has kprobes");
    }
    assert_eq!(
        reason(&source),
        "this kernel has no kprobes: it was built without CONFIG_KPROBE_EVENTS"
    );
}
