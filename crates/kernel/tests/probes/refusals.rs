// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is refused, and what people are told.

use std::fs;
use std::path::Path;

use piste_kernel::probe::{Asker, ProbeError, check};
use piste_kernel::spec::EventSource;

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use crate::programs::{compile, run};
use crate::rig::{uprobe, uretprobe, usdt};

fn reason(source: &EventSource) -> String {
    check(source, Asker::Root).unwrap_err().to_string()
}

/// The bytes behind the beginning of a function at which binutils see instructions.
fn boundaries(binary: &Path, function: &str) -> Vec<u64> {
    let mut objdump = Command::new("objdump");
    let output = objdump.arg("-d").arg(format!("--disassemble={function}")).arg(binary);
    let text = String::from_utf8(output.output().unwrap().stdout).unwrap();
    let address = |line: &str| u64::from_str_radix(line.trim_start().split_once(":\t")?.0, 16).ok();
    // A line of bytes alone goes on with the instruction before.
    let has_words = |line: &&str| line.split('\t').count() > 2;
    let addresses: Vec<u64> = text.lines().filter(has_words).filter_map(address).collect();
    addresses.iter().map(|address| address - addresses[0]).collect()
}

#[test]
fn a_function_is_probed_where_its_instructions_begin_and_nowhere_else() {
    if !cfg!(target_arch = "x86_64") {
        return crate::real::skipped("instructions are known of x86 programs only");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "calls.c", "calls", &["-O0"]);
    let expected = boundaries(&program, "main");
    assert!(expected.len() > 20, "{expected:?}");
    for plus in 0..=*expected.last().unwrap() {
        let place = format!("main+{plus}");
        for asker in [Asker::Root, Asker::Other] {
            let checked = check(&uprobe(&program, &place, &[]), asker);
            assert_eq!(checked.is_ok(), expected.contains(&plus), "{place}: {checked:?}");
        }
    }
    let reason = reason(&uprobe(&program, &format!("main+{}", expected[1] + 1), &[]));
    assert!(
        reason.contains("is inside the instruction") && reason.contains("is probed without this check"),
        "{reason}"
    );

    // A file may say nothing of a function's length.
    run(Command::new("objcopy")
        .args(["--add-symbol", "endless=.text:0x0,function,global"])
        .arg(&program));
    assert!(check(&uprobe(&program, "endless", &[]), Asker::Other).is_ok());
    let reason = check(&uprobe(&program, "endless+4", &[]), Asker::Other)
        .unwrap_err()
        .to_string();
    assert!(reason.contains("does not say how long"), "{reason}");
}

#[test]
fn what_changes_programs_or_reads_memory_is_for_root() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "calls.c", "calls", &[]);
    run(Command::new("objcopy")
        .args(["--add-symbol", "mark=.text:0x4,global"])
        .arg(&program));
    let kind = piste_kernel::probe::ProbePlaceKind::Symbol;
    let offset = piste_kernel::probe::places(&program, kind, Some("work")).unwrap()[0].offset;
    for source in [
        uprobe(&program, &format!("{offset:#x}"), &[]),
        uprobe(&program, &format!("{:#x}", offset + 1), &[]),
        uprobe(&program, "mark", &[]),
        uprobe(&program, "work", &["%di", "+0(%si):string"]),
        uprobe(&program, "work", &["$stack0"]),
        uprobe(&program, "work", &["@+0x40"]),
        uretprobe(&program, "work", &[]),
    ] {
        assert!(check(&source, Asker::Root).is_ok(), "{source:?}");
        let refused = check(&source, Asker::Other);
        assert!(
            matches!(refused, Err(ProbeError::RootOnly { .. })),
            "{source:?}: {refused:?}"
        );
    }
    let kernel = EventSource::Kprobe {
        name: "open".into(),
        place: "do_sys_openat2".into(),
        arguments: vec![],
        is_return: false,
    };
    assert!(matches!(check(&kernel, Asker::Other), Err(ProbeError::RootOnly { .. })));
    let fields = check(&uprobe(&program, "work", &["number=%di:s32", "$comm"]), Asker::Other).unwrap();
    assert_eq!(fields, ["ip", "number", "arg2"]);
}

#[test]
fn static_probes_are_for_all_and_what_they_read_from_memory_for_root() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "static_probes.c", "static_probes", &[]);
    for (name, of_root, of_others) in [
        ("one", &["ip", "arg1"][..], &["ip", "arg1"][..]),
        ("variable", &["ip", "arg1"], &["ip"]),
    ] {
        assert_eq!(check(&usdt(&program, name), Asker::Root).unwrap(), of_root);
        assert_eq!(check(&usdt(&program, name), Asker::Other).unwrap(), of_others);
    }
}

#[test]
fn a_debug_file_that_others_may_write_is_believed_for_root_only() {
    if !rustix::process::geteuid().is_root() {
        return crate::real::skipped("only root gives files away");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "calls.c", "calls", &[]);
    let debug = folder.path().join("calls.debug");
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .args([&program, &debug]));
    run(Command::new("strip").arg(&program));
    run(Command::new("objcopy")
        .arg("--add-gnu-debuglink")
        .args([&debug, &program]));
    let work = uprobe(&program, "work", &[]);
    let set = |path: &Path, owner: u32, mode: u32| {
        chown(path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (of_program, of_debug, mode, expected) in [
        (0, 0, 0o644, true),
        (65534, 0, 0o644, true),
        (65534, 65534, 0o644, true),
        (0, 65534, 0o644, false),
        (0, 0, 0o666, false),
        (0, 0, 0o664, false),
    ] {
        set(&program, of_program, 0o755);
        set(&debug, of_debug, mode);
        assert!(check(&work, Asker::Root).is_ok());
        let checked = check(&work, Asker::Other);
        assert_eq!(
            checked.is_ok(),
            expected,
            "{of_program} {of_debug} {mode:o}: {checked:?}"
        );
    }
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
            "chooses among several functions when the program starts",
        ),
        (uprobe(&program, "work+0x1000", &[]), "is beyond its end"),
        (uretprobe(&program, "work+1", &[]), "omit the offset"),
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
    assert!(check(&uprobe(&program, "work", &["%di"]), Asker::Root).is_ok());
    assert!(check(&uretprobe(&program, "work", &["$retval"]), Asker::Root).is_ok());
}

#[test]
fn several_functions_of_one_name_are_probed_together_or_by_offset() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "names.cpp", "names", &[]);
    assert!(check(&uprobe(&program, "shop::order", &[]), Asker::Root).is_ok());
    let place = format!("shop::order(int)+{}", boundaries(&program, "_ZN4shop5orderEi")[1]);
    assert!(check(&uprobe(&program, &place, &[]), Asker::Root).is_ok());
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
        (Path::new("ls"), "the path must be absolute"),
        (Path::new("/nowhere/to/be/found"), "no such file"),
        (folder.path(), "is not a file"),
        (&text, "not an ELF program or library"),
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
