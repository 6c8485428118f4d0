// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the compilers say about programs with events: nothing when they are right, what to write when they are wrong. Runs none of
//! them.

use std::fs;
use std::path::Path;

use piste_support::build_tree::programs;
use piste_support::compiler::{Compilation, WARNINGS};

const C: &str = "-std=c11";
const CPP: &str = "-std=c++17";

/// The programs that show what is allowed. Those with other aims are compiled by the tests that run them.
const RIGHT: [&str; 4] = ["every_field.c", "every_field.cc", "uses.c", "uses.cc"];

#[test]
fn gcc_compiles_right_programs_without_a_warning() {
    compiles("gcc", "g++");
}

#[test]
fn clang_compiles_right_programs_without_a_warning() {
    compiles("clang", "clang++");
}

#[test]
fn the_cross_compilers_compile_right_programs_for_arm64_without_a_warning() {
    compiles("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++");
}

#[test]
fn c_programs_are_c_plus_plus_programs_too() {
    for source in ["every_field.c", "uses.c"] {
        for compiler in ["g++", "clang++"] {
            expect_silence(&right(compiler, &["-xc++", CPP, "-O2"], source));
        }
    }
}

#[test]
fn newer_standards_compile_too() {
    for compiler in ["gcc", "clang"] {
        for standard in ["-std=c17", "-std=gnu2x"] {
            expect_silence(&right(compiler, &[standard, "-O1"], "uses.c"));
        }
    }
    for compiler in ["g++", "clang++"] {
        expect_silence(&right(compiler, &["-std=c++20", "-O1"], "uses.cc"));
    }
}

#[test]
fn wrong_programs_are_refused_by_gcc_with_a_sentence() {
    are_refused("gcc", &["-xc", C]);
}

#[test]
fn wrong_programs_are_refused_by_gcc_as_c_plus_plus_with_a_sentence() {
    are_refused("g++", &["-xc++", CPP]);
}

#[test]
fn wrong_programs_are_refused_by_clang_with_a_sentence() {
    are_refused("clang", &["-xc", C]);
}

#[test]
fn wrong_programs_are_refused_by_clang_as_c_plus_plus_with_a_sentence() {
    are_refused("clang++", &["-xc++", CPP]);
}

fn compiles(c_compiler: &str, cpp_compiler: &str) {
    for source in RIGHT {
        let (compiler, standard) = if source.ends_with(".cc") {
            (cpp_compiler, CPP)
        } else {
            (c_compiler, C)
        };
        for optimisation in ["-O0", "-O2"] {
            expect_silence(&right(compiler, &[standard, optimisation], source));
        }
    }
}

fn right(compiler: &str, arguments: &[&str], source: &str) -> Compilation {
    Compilation::by(compiler, &[arguments, &WARNINGS].concat(), &programs().join(source))
}

fn expect_silence(compilation: &Compilation) {
    compilation.try_compile().expect_silent_success();
}

/// The first line of each program has the sentence, or those of several compilers.
fn are_refused(compiler: &str, arguments: &[&str]) {
    let mut refused = 0;
    for entry in fs::read_dir(programs().join("wrong")).expect("the folder is there") {
        let source = entry.expect("the folder is readable").path();
        let expected = expectation(&source);
        let arguments = [arguments, &["-Wall", "-Werror"]].concat();
        let finished = Compilation::by(compiler, &arguments, &source).try_check();
        assert!(!finished.success(), "{compiler} compiles {}", source.display());
        // gcc prints quotes in the text of an assertion with a backslash.
        let said = finished.stderr.replace("\\'", "'");
        assert!(
            expected.iter().any(|sentence| said.contains(sentence)),
            "{compiler} does not say any of {expected:?}:\n{said}"
        );
        refused += 1;
    }
    assert!(refused >= 20, "only {refused} programs were found");
}

fn expectation(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source).expect("the program is readable");
    let first = text.lines().next().unwrap_or_default();
    let sentences = first
        .strip_prefix("/* Expected: ")
        .and_then(|rest| rest.strip_suffix(" */"));
    let sentences = sentences.unwrap_or_else(|| panic!("{}: no expectation in {first:?}", source.display()));
    sentences.split(" | ").map(str::to_owned).collect()
}
