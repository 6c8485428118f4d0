// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of the documentation whose examples print what they say (tools/run-guide).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::build_tree::{build, repository};
use crate::process::run;

/// What the examples of a page need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Only programs are recorded.
    Nothing,
    /// The kernel is recorded.
    Kernel,
    /// The kernel is recorded, and says something else if other programs run.
    IdleCpus,
}

impl Needs {
    fn of_page(text: &str) -> Needs {
        match text.lines().next() {
            Some("<!-- These examples need root and tracefs. -->") => Needs::Kernel,
            Some("<!-- These examples need root, tracefs and idle CPUs. -->") => Needs::IdleCpus,
            _ => Needs::Nothing,
        }
    }
}

/// Runs the examples of all pages with these needs. Each command has a time limit.
pub fn check_examples(needs: Needs) {
    build();
    let mut command = Command::new("tools/run-guide");
    run(command.current_dir(repository()).args(pages(needs))).expect_success();
}

fn pages(needs: Needs) -> Vec<PathBuf> {
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
        Needs::of_page(&text) == needs
    });
    assert!(!all.is_empty(), "no page needs {needs:?}");
    all
}
