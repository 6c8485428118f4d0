// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of the documentation whose examples print what they say (tools/run-guide).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::build_tree::{build, repository};
use crate::process::run;

/// How pages begin whose examples record the kernel.
const NEEDS_KERNEL: &str = "<!-- These examples need root and tracefs. -->";

/// Runs the examples of all pages that do, or do not, record the kernel. Each command has a time limit.
pub fn check_examples(of_kernel: bool) {
    build();
    let mut command = Command::new("tools/run-guide");
    run(command.current_dir(repository()).args(pages(of_kernel))).expect_success();
}

fn pages(of_kernel: bool) -> Vec<PathBuf> {
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
        text.starts_with(NEEDS_KERNEL) == of_kernel
    });
    assert!(all.len() > 2, "{all:?}");
    all
}
