// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste listen --run`: a command for each match. It runs as the user who listens; pisted itself runs none.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use piste_reason::reason;

/// Runs `command` to its end, with `notice` on its stdin. A command that need not know the notice may leave it unread.
///
/// # Errors
/// A sentence: it could not be started, or did not succeed.
pub(super) fn run(command: &str, trigger: &str, event: &str, notice: &str) -> Result<(), String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("PISTE_TRIGGER", trigger)
        .env("PISTE_EVENT", event)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run the command with sh: {}", reason(&error)))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(notice.as_bytes());
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for the command: {}", reason(&error)))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the command failed: {}", how(status))),
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with status {code}"),
        (None, signal) => format!("signal {} killed it", signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_knows_the_match_and_its_failure_is_told() {
        let run = |command: &str| run(command, "late", "shop:order", "{}\n");
        assert_eq!(
            run("test \"$PISTE_TRIGGER $PISTE_EVENT $(cat)\" = 'late shop:order {}'"),
            Ok(())
        );
        assert_eq!(
            run("exit 3").unwrap_err(),
            "the command failed: it exited with status 3"
        );
        assert_eq!(
            run("kill -TERM $$").unwrap_err(),
            "the command failed: signal 15 killed it"
        );
    }

    #[test]
    fn a_command_may_leave_a_long_notice_unread() {
        assert_eq!(run("true", "late", "shop:order", &"x".repeat(1 << 20)), Ok(()));
    }
}
