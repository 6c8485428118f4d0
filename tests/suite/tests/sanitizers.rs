// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C side under the sanitizers of the compiler, while it is recorded (tools/sanitize).

use std::process::Command;

use piste_support::build_tree::repository;

/// Its runs have time limits of their own.
fn check(sanitizers: &str) {
    let mut command = Command::new("tools/sanitize");
    let ended = command.current_dir(repository()).arg(sanitizers).output();
    let ended = ended.expect("it can be run");
    let said = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn addresses_and_undefined_behaviour() {
    check("address");
}

#[test]
fn threads() {
    check("thread");
}
