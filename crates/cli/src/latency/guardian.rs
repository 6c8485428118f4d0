// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--prepare` and `--restore`. While the machine is prepared, a second process, the guardian, waits for the end of piste: it reads a pipe that only
//! piste can write to. If piste ends without having restored the machine (it was killed, or Ctrl-C came twice), the guardian does that. If both are
//! killed, the journal is still there (crates/latency/src/prepare/journal.rs), and `piste latency` restores the machine the next time.

use std::env;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use piste_latency::prepare::{Error, Preparation, Restored, restore_left};
use piste_reason::reason;
use rustix::process::setsid;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::ROOT;
use crate::failure::Failure;
use crate::quantity::counted;
use crate::screen::{show, show_json, tell_sentence};

/// What the guardian writes once nothing but the end of piste ends it.
const READY: &[u8] = b"ready\n";
/// What piste writes once the machine is restored.
const RESTORED: &[u8] = b"restored\n";

/// A machine that is prepared, and restored when this is dropped.
pub(super) struct Prepared {
    /// `None` once it is restored.
    preparation: Option<Preparation>,
    guardian: Child,
}

impl Prepared {
    /// Takes all steps that are possible for measuring on some CPUs. Also what a process that was killed has left, as sentences without their ends.
    pub(super) fn new(cpus: &[u32]) -> Result<(Prepared, Vec<String>), Failure> {
        let root = Path::new(ROOT);
        let (mut preparation, left) = Preparation::begin(root).map_err(Failure::new)?;
        let guardian = start_guardian().map_err(|error| {
            Failure::new(format!(
                "cannot start the process that restores the machine if piste is killed: {}",
                reason(&error)
            ))
        })?;
        preparation.take_steps(root, cpus);
        let prepared = Prepared {
            preparation: Some(preparation),
            guardian,
        };
        Ok((prepared, left.map(|left| sentences(&left)).unwrap_or_default()))
    }

    /// The steps; none of a machine that is restored.
    pub(super) fn preparation(&self) -> Option<&Preparation> {
        self.preparation.as_ref()
    }

    /// Restores the machine; what could not be, as sentences without their ends.
    pub(super) fn restore(mut self) -> Vec<String> {
        self.restore_now()
    }

    fn restore_now(&mut self) -> Vec<String> {
        let Some(preparation) = self.preparation.take() else {
            return Vec::new();
        };
        let restored = preparation.restore();
        let stdin = self.guardian.stdin.take();
        if !restored.problems.is_empty() {
            // The guardian tries again once piste has ended: what could not be restored may be what piste still uses.
            std::mem::forget(stdin);
            return restored.problems;
        }
        // If it is gone, it cannot be told, and need not be.
        let _ = stdin.map(|mut stdin| stdin.write_all(RESTORED));
        let _ = self.guardian.wait();
        Vec::new()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for problem in self.restore_now() {
            tell_sentence(&problem);
        }
    }
}

/// Starts it, and waits until signals no longer end it.
fn start_guardian() -> io::Result<Child> {
    let mut guardian = Command::new(env::current_exe()?)
        .arg("latency-guardian")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = [0; READY.len()];
    let ready = guardian.stdout.take().map(|mut stdout| stdout.read_exact(&mut said));
    match (ready, said == *READY) {
        (Some(Ok(())), true) => Ok(guardian),
        _ => {
            let _ = guardian.kill();
            let _ = guardian.wait();
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
}

/// `piste latency-guardian`: waits until piste has restored the machine, or restores it if piste is gone.
pub(crate) fn guard() -> Result<(), Failure> {
    // What ends piste is not to end it: signals of the terminal go to its session.
    let _ = setsid();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let _ = flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let _ = io::stdout().write_all(READY).and_then(|()| io::stdout().flush());
    let mut said = Vec::new();
    let _ = io::stdin().read_to_end(&mut said);
    if said == RESTORED {
        return Ok(());
    }
    let restored = restore_left(Path::new(ROOT), true).map_err(Failure::new)?;
    for sentence in restored.iter().flat_map(sentences) {
        tell_sentence(&sentence);
    }
    Ok(())
}

/// Before something is measured: restores what a process that was killed has left. If that is not possible, it is a remark.
pub(super) fn restore_before() -> Vec<String> {
    match restore_left(Path::new(ROOT), false) {
        Ok(left) => left.map(|left| sentences(&left)).unwrap_or_default(),
        // Its changes are wanted.
        Err(Error::Busy) => {
            vec![
                "another `piste latency --prepare` is running, so the machine's settings will change when it ends"
                    .into(),
            ]
        }
        Err(Error::Journal { .. }) => {
            vec!["root's `piste latency --prepare` is running or was killed, so the machine's settings are changed; if it was killed, restore them with `sudo piste latency --restore`".into()]
        }
    }
}

/// `piste latency --restore`
pub(super) fn restore(json: bool) -> Result<(), Failure> {
    let restored = restore_left(Path::new(ROOT), false).map_err(Failure::new)?;
    let restored = restored.unwrap_or_default();
    if json {
        show_json(&json!({ "restored": restored.undone, "problems": restored.problems }))?;
    } else {
        show(&match restored.undone {
            0 => "there is nothing to restore\n".into(),
            undone => format!("{} restored\n", counted(undone as i64, "setting")),
        })?;
    }
    match restored.problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(restored.problems.join("; "))),
    }
}

fn sentences(restored: &Restored) -> Vec<String> {
    let mut sentences = Vec::new();
    if restored.undone > 0 {
        let settings = counted(restored.undone as i64, "setting");
        sentences.push(format!(
            "piste latency --prepare was killed; {settings} of the machine restored"
        ));
    }
    sentences.extend(restored.problems.iter().cloned());
    sentences
}
