// SPDX-License-Identifier: MIT OR Apache-2.0
//! What files offer to be probed.

use std::path::Path;
use std::process::Command;

use piste_kernel::probe::{ProbePlaceKind, places};

use crate::programs::{compile, run};

fn names(binary: &Path, pattern: &str) -> Vec<String> {
    places(binary, ProbePlaceKind::Symbol, Some(pattern))
        .unwrap()
        .into_iter()
        .map(|place| place.name)
        .collect()
}

/// The offset that binutils compute: the address less that of the code's section, plus where the section is in the file.
fn expected_offset(binary: &Path, symbol: &str) -> u64 {
    let output = |program: &str, option: &str| {
        let output = Command::new(program).arg(option).arg(binary).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let symbols = output("nm", "-D") + &output("nm", "--defined-only");
    let line = symbols
        .lines()
        .find(|line| line.ends_with(&format!(" {symbol}")))
        .unwrap();
    let address = number(line.split(' ').next().unwrap());
    let sections = output("objdump", "-h");
    let text: Vec<&str> = sections
        .lines()
        .map(str::trim)
        .find(|line| line.contains(" .text "))
        .unwrap()
        .split_whitespace()
        .collect();
    address - number(text[3]) + number(text[5])
}

#[test]
fn offsets_are_those_of_binutils_in_every_kind_of_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, source, symbol, options) in [
        ("pie", "calls.c", "work", &["-pie"][..]),
        ("fixed", "calls.c", "work", &["-no-pie"]),
        ("static", "calls.c", "work", &["-static"]),
        ("far", "calls.c", "work", &["-no-pie", "-Wl,-Ttext-segment=0x50000000"]),
        ("library.so", "library.c", "weigh", &["-shared", "-fPIC"]),
        ("stripped.so", "library.c", "weigh", &["-shared", "-fPIC", "-s"]),
    ] {
        let binary = compile(folder.path(), source, name, options);
        let places = places(&binary, ProbePlaceKind::Symbol, Some(symbol)).unwrap();
        let offsets: Vec<u64> = places.iter().map(|place| place.offset).collect();
        assert_eq!(offsets, [expected_offset(&binary, symbol)], "{name}");
    }
}

#[test]
fn aliases_are_listed_and_choosers_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path(), "calls.c", "calls", &[]);
    assert_eq!(names(&binary, "*work"), ["the_same_work", "work"]);
    assert_eq!(names(&binary, "indirect"), [""; 0]);
}

#[test]
fn names_of_cpp_are_found_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path(), "names.cpp", "names", &[]);
    let places = places(&binary, ProbePlaceKind::Symbol, Some("shop::*")).unwrap();
    let names: Vec<(&str, Option<&str>)> = places
        .iter()
        .map(|place| (place.name.as_str(), place.demangled.as_deref()))
        .collect();
    assert_eq!(
        names,
        [
            ("_ZN4shop5orderEi", Some("shop::order(int)")),
            ("_ZN4shop5orderEl", Some("shop::order(long)"))
        ]
    );
}

#[test]
fn a_debug_file_names_the_functions_of_a_stripped_program() {
    for options in [&[][..], &["-Wl,--build-id=none"]] {
        let folder = tempfile::tempdir().unwrap();
        let binary = compile(folder.path(), "calls.c", "calls", options);
        let whole = names(&binary, "*");
        let debug = folder.path().join(".debug/calls.debug");
        std::fs::create_dir(debug.parent().unwrap()).unwrap();
        run(Command::new("objcopy").arg("--only-keep-debug").args([&binary, &debug]));
        run(Command::new("strip").arg(&binary));
        assert_eq!(names(&binary, "work"), [""; 0]);
        run(Command::new("objcopy")
            .arg("--add-gnu-debuglink")
            .args([&debug, &binary]));
        assert_eq!(names(&binary, "*"), whole);
        assert_eq!(places(&binary, ProbePlaceKind::Symbol, Some("work")).unwrap().len(), 1);

        // A debug file of another program is not believed.
        let other = compile(folder.path(), "calls.c", "other", &["-O0", "-Wl,--build-id=none"]);
        std::fs::rename(other, &debug).unwrap();
        assert_eq!(names(&binary, "work"), [""; 0]);
    }
}

#[test]
fn static_probes_are_listed_with_their_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path(), "static_probes.c", "static_probes", &[]);
    let places = places(&binary, ProbePlaceKind::Usdt, None).unwrap();
    let names: Vec<(&str, usize)> = places
        .iter()
        .map(|place| (place.name.as_str(), place.arguments.len()))
        .collect();
    let expected = [
        ("none", 0),
        ("one", 1),
        ("six", 6),
        ("three", 3),
        ("twice", 1),
        ("twice", 1),
        ("two", 2),
        ("variable", 1),
    ];
    assert_eq!(
        names,
        expected
            .map(|(name, count)| (format!("shop:{name}"), count))
            .each_ref()
            .map(|(name, count)| (name.as_str(), *count))
    );
    assert!(places.iter().all(|place| !place.has_semaphore));

    let binary = compile(folder.path(), "semaphore.c", "semaphore", &[]);
    let places = piste_kernel::probe::places(&binary, ProbePlaceKind::Usdt, Some("shop:*")).unwrap();
    assert!(places.len() == 1 && places[0].has_semaphore, "{places:?}");
}
