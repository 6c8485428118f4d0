// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pictures of the documentation, in a browser.

use std::process::Command;

use piste_support::build_tree::repository;
use piste_support::process;

#[test]
fn a_browser_shows_what_the_terminals_of_the_pictures_showed() {
    let made = process::run(&mut Command::new(repository().join("tools/python-packages")));
    let mut check = Command::new(made.expect_success().stdout.trim());
    check.arg(repository().join("tests/python/check_pictures.py"));
    let checked = process::run(&mut check);
    assert!(checked.expect_success().stdout.contains("lines"), "{checked}");
}
