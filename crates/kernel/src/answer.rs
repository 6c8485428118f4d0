// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the kernel's tracing still answers.
//!
//! One fault inside it can leave a lock of it held for ever. Whoever then reads a file of it sleeps and cannot be killed, so the
//! question is put by a child, and a child that does not come back is left behind.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use piste_reason::reason;

use crate::tracefs::{Lack, Tracefs};

/// Reading the first takes the lock over tracers and instances, the second that over events.
const ASKED: [&str; 2] = ["current_tracer", "events/sched/enable"];
/// Of uninterruptible sleep without a break. A busy tracefs can keep a reader waiting for seconds.
const SLEEP_MAX: Duration = Duration::from_secs(10);
/// On a machine that is merely busy.
const WAIT_MAX: Duration = Duration::from_secs(30);
const MEND: &str = "restart the machine; `dmesg` may show what happened";

/// Asks for two small files. Returns after at most 30 s; if the kernel hangs, after 10 s.
///
/// # Errors
/// That it does not answer, or what it answered.
pub fn answers(tracefs: &Tracefs) -> Result<(), Lack> {
    let child = Command::new("cat")
        .args(ASKED.map(|file| tracefs.path(file)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child =
        child.map_err(|error| Lack::new(format!("cannot start `cat`: {}", reason(&error)), "install coreutils"))?;
    let asked = Instant::now();
    let mut awake = asked;
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => {
                return Err(Lack::new(
                    told(&mut child),
                    "check the file with `ls -l`; its owner must be root",
                ));
            }
            Err(error) => {
                return Err(Lack::new(
                    format!(
                        "cannot wait for the child process that checks tracefs: {}",
                        reason(&error)
                    ),
                    "try again",
                ));
            }
        }
        let now = Instant::now();
        if !sleeps_deeply(child.id()) {
            awake = now;
        }
        if now - awake > SLEEP_MAX || now - asked > WAIT_MAX {
            // It will not hear it before the kernel lets it go, if ever.
            let _ = child.kill();
            return Err(Lack::new(
                format!(
                    "{} does not respond: process {} hangs in the kernel",
                    tracefs.root().display(),
                    child.id()
                ),
                MEND,
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the process is in the state that no signal ends.
fn sleeps_deeply(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before the state may hold any text, parentheses too.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
}

fn told(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What `cat` cannot say is not worth an error of its own.
        let _ = stderr.read_to_string(&mut text);
    }
    text.lines()
        .next()
        .unwrap_or("`cat` failed without a message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let lack = answers(&Tracefs::at(folder.path())).unwrap_err();
        assert!(lack.reason.contains("current_tracer: No such file"), "{lack}");
    }

    #[test]
    fn only_the_state_counts_not_the_name() {
        assert!(!sleeps_deeply(std::process::id()));
        assert!(!sleeps_deeply(u32::MAX));
    }
}
