// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the measured programs make of the kernel's counters, which is C (`src/measured`), compiled as `piste bench` compiles it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

struct Counters {
    folder: TempDir,
}

impl Counters {
    fn compile() -> Counters {
        let folder = tempfile::tempdir().expect("a new folder");
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let measured = package.join("src/measured");
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(&measured)
            .arg(package.join("tests/counters.c"))
            .arg(measured.join("counters.c"))
            .arg("-o")
            .arg(folder.path().join("counters"))
            .status();
        assert!(compiled.expect("there is a compiler").success());
        Counters { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("counters")
    }

    fn ask(&self, question: &str, input: &str) -> String {
        let mut child = Command::new(self.program())
            .args(question.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was compiled");
        let mut stdin = child.stdin.take().expect("it is piped");
        let writing = std::thread::spawn({
            let input = input.to_owned();
            // A program that asks nothing reads nothing.
            move || drop(stdin.write_all(input.as_bytes()))
        });
        let output = child.wait_with_output().expect("it ends");
        writing.join().expect("it does not panic");
        assert!(output.status.success(), "{question}: {output:?}");
        String::from_utf8(output.stdout).expect("a number").trim().to_owned()
    }
}

/// /proc/interrupts of a machine: each CPU has one more interrupt of each kind than the CPU before it.
fn interrupts(cpus: &[u64], lines: usize) -> String {
    let mut text = " ".repeat(11);
    cpus.iter()
        .for_each(|cpu| write!(text, "CPU{cpu:<8}").expect("memory takes it"));
    text += "\n";
    for line in 0..lines {
        write!(text, "{line:>4}:").expect("memory takes it");
        cpus.iter()
            .for_each(|cpu| write!(text, " {:>10}", 10 * line as u64 + cpu).expect("memory takes it"));
        text += "  PCI-MSIX-0000:00:1f.2 524288-edge 7 nvme0q1\n";
    }
    text += " LOC:";
    cpus.iter()
        .for_each(|cpu| write!(text, " {:>10}", 1_000_000 + cpu).expect("memory takes it"));
    text + "   Local timer interrupts\n ERR:    7777777\n MIS:    7777777\n"
}

#[test]
fn interrupts_of_a_cpu_are_found_in_a_text_of_any_size() {
    let counters = Counters::compile();
    let small = interrupts(&[0, 1], 2);
    for piece in [1, 7, 4096] {
        assert_eq!(counters.ask(&format!("interrupts 0 {piece}"), &small), "1000010");
        assert_eq!(counters.ask(&format!("interrupts 1 {piece}"), &small), "1000013");
    }
    // CPU 2 is offline.
    let gap = interrupts(&[0, 1, 3], 2);
    assert_eq!(counters.ask("interrupts 3 64", &gap), "1000019");
    assert_eq!(counters.ask("interrupts 2 64", &gap), "0");
    let many: Vec<u64> = (0..512).collect();
    let large = interrupts(&many, 300);
    assert!(large.len() > 1 << 20);
    let expected = (0..300).map(|line| 10 * line + 511).sum::<u64>() + 1_000_511;
    assert_eq!(counters.ask("interrupts 511 4096", &large), expected.to_string());
}

#[test]
fn counts_of_the_processor_are_subtracted_and_then_extrapolated() {
    let counters = Counters::compile();
    let between = |before: &str, after: &str| counters.ask(&format!("between {before} {after}"), "");
    // Counted half of the time before, and all of the time since.
    assert_eq!(between("1000 2000 1000", "1500 3000 2000"), "500");
    // Counted a quarter of the time since.
    assert_eq!(between("1000 2000 2000", "1100 3000 2250"), "400");
    // It was not the counter's turn, or it cannot be read.
    assert_eq!(between("1000 2000 1000", "1000 3000 1000"), "unknown");
    assert_eq!(between("0 1 0", "0 1 0"), "unknown");
    // The kernel's own counters have no turns.
    assert_eq!(between("5 0 0", "8 0 0"), "3");
}
