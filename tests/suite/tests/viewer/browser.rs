// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios in a browser (viewer/tests/browser.mjs). Starting one takes longer than most scenarios, so a browser that is idle runs the next scenario,
//! of whichever test: each has a page of its own, and shares nothing with those before it.

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use piste_support::build_tree::repository;
use piste_support::process::Running;
use serde_json::{Value, json};

use super::Server;

/// They end when their standard input ends, with this process.
static IDLE: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// Drives the viewer in a browser.
pub(crate) fn browse(scenario: &str, server: &Server) {
    browse_with(scenario, server, &Value::Null);
}

/// The same, with what the scenario is to find.
pub(crate) fn browse_with(scenario: &str, server: &Server, expected: &Value) {
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = idle().pop();
    let mut browser = taken.unwrap_or_else(start);
    let asked = json!({ "scenario": scenario, "address": server.address, "expected": expected });
    let failed: Value = serde_json::from_str(&browser.ask(&asked.to_string())).expect("JSON");
    if let Some(why) = failed.as_str() {
        panic!("{scenario}: {why}");
    }
    idle().push(browser);
}

fn start() -> Running {
    let mut node = Command::new("node");
    Running::start(
        node.arg(repository().join("viewer/tests/browser.mjs"))
            .stdin(Stdio::piped()),
    )
}
