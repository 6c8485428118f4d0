// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of users other than root, whom only root can become.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::Workplace;

/// Puts what was built where every user can run it. False, once said why, where nobody can become another user.
pub fn enter(place: &Workplace) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        place.copy_build();
    } else {
        println!("skipped: only root can become another user");
    }
    is_root
}

/// Lets every user ask the workplace's pisted, which runs, as if all were in the group.
pub fn let_everybody_ask(place: &Workplace) {
    let control = place.run_folder().join("control.sock");
    fs::set_permissions(&control, Permissions::from_mode(0o666)).expect("it is ours");
}

/// A command of a user; `groups` is setpriv's option about groups.
pub fn command(place: &Workplace, user: u32, groups: &str, program: &Path, arguments: &[&str]) -> Command {
    let mut command = place.command("setpriv");
    command
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .args([groups, "--"])
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", place.path("lib"));
    command
}
