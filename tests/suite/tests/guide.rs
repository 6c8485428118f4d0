// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of the documentation print what its pages say (tools/run-guide).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use piste_suite::build_tree::{build, repository};
use piste_suite::kernel;
use piste_suite::process::run;

/// How pages begin whose examples record the kernel.
const NEEDS_KERNEL: &str = "<!-- These examples need root and tracefs. -->";

/// The pages with examples that do, or do not, record the kernel.
fn pages(need_kernel: bool) -> Vec<PathBuf> {
    let others = [
        "README.md",
        "docs/reference/control.md",
        "docs/reference/trace-format.md",
    ];
    let guide = fs::read_dir(repository().join("docs/guide")).expect("a folder");
    let guide = guide.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = others.iter().map(|page| repository().join(page)).chain(guide).collect();
    all.sort();
    all.retain(|page| {
        let text = fs::read_to_string(page).expect("a page");
        text.starts_with(NEEDS_KERNEL) == need_kernel
    });
    assert!(all.len() > 2, "{all:?}");
    all
}

/// Each command has a time limit.
fn check(pages: Vec<PathBuf>) {
    build();
    let mut command = Command::new("tools/run-guide");
    run(command.current_dir(repository()).args(pages)).expect_success();
}

#[test]
fn examples_print_what_their_pages_say() {
    check(pages(false));
}

#[test]
fn examples_that_record_the_kernel_print_what_their_pages_say() {
    let Some(_alone) = kernel::workplace() else { return };
    check(pages(true));
}
