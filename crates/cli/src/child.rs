// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the recorded command and takes care of signals meanwhile.
//!
//! The command is in this process's group, so what the terminal sends (Ctrl-C, Ctrl-\, hang-up) reaches it without help;
//! piste only has to survive, to finish the trace. What another process sends to piste alone is passed on, as sudo(8) does.
//!
//!   before the command   the first signal is noted: the caller asks `interrupted` and gives up; the second ends piste
//!   while it runs        nothing from the terminal, everything else is passed on
//!   after it             for a moment nothing: that signal was meant for the command; then the first says what piste is
//!                        doing, and the second leaves that to pisted

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, exit};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::failure::KILLED;
use crate::screen;

/// A signal so soon after the command's end was meant for the command, and may have been what ended it.
const MOMENT: Duration = Duration::from_millis(300);

/// From its creation on, piste survives the signals that end a command.
pub(crate) struct Guard {
    phase: Arc<Mutex<Phase>>,
}

enum Phase {
    Before {
        noted: Option<i32>,
    },
    /// A descriptor of the process, not its id: that may be another's by the time a signal is passed on.
    Running(OwnedFd),
    After {
        end: Instant,
        told: bool,
    },
}

impl Guard {
    /// Takes over the signals; those that piste was started to ignore (nohup) stay ignored, also for the command.
    pub(crate) fn new() -> io::Result<Guard> {
        let ignored = ignored_signals(&fs::read_to_string("/proc/self/status")?);
        let taken = [SIGINT, SIGQUIT, SIGTERM, SIGHUP]
            .into_iter()
            .filter(|signal| ignored & 1 << (signal - 1) == 0);
        let mut signals = SignalsInfo::<WithOrigin>::new(taken)?;
        let phase = Arc::new(Mutex::new(Phase::Before { noted: None }));
        let of_thread = phase.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in signals.forever() {
                arrived(&mut lock(&of_thread), &origin);
            }
        })?;
        Ok(Guard { phase })
    }

    /// The status to end with when a signal came before the command ran.
    pub(crate) fn interrupted(&self) -> Option<u8> {
        match *lock(&self.phase) {
            Phase::Before { noted: Some(signal) } => Some(killed_by(signal)),
            _ => None,
        }
    }

    /// Runs the command to its end and returns its exit status as a shell would.
    ///
    /// # Errors
    /// The command could not be started.
    pub(crate) fn run(&self, command: &mut Command) -> io::Result<u8> {
        let mut child = {
            // A signal that arrives in between waits for the lock, and is then passed on.
            let mut phase = lock(&self.phase);
            let child = command.spawn()?;
            if let Some(descriptor) =
                Pid::from_raw(child.id().cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            {
                *phase = Phase::Running(descriptor);
            }
            child
        };
        let status = child.wait()?;
        *lock(&self.phase) = Phase::After {
            end: Instant::now(),
            told: false,
        };
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => code as u8,
            (None, signal) => killed_by(signal.unwrap_or(0)),
        })
    }
}

fn lock(phase: &Mutex<Phase>) -> MutexGuard<'_, Phase> {
    phase.lock().unwrap_or_else(PoisonError::into_inner)
}

fn killed_by(signal: i32) -> u8 {
    KILLED.saturating_add(u8::try_from(signal).unwrap_or(0))
}

fn arrived(phase: &mut Phase, origin: &Origin) {
    match phase {
        Phase::Before { noted: noted @ None } => *noted = Some(origin.signal),
        Phase::Before { noted: Some(_) } => exit(killed_by(origin.signal).into()),
        Phase::Running(process) => {
            if matches!(origin.cause, Cause::Sent(_))
                && let Some(signal) = Signal::from_named_raw(origin.signal)
            {
                // It fails only when the command has just ended.
                let _ = pidfd_send_signal(process, signal);
            }
        }
        Phase::After { end, .. } if end.elapsed() < MOMENT => {}
        Phase::After { told: told @ false, .. } => {
            *told = true;
            screen::tell_sentence("pisted is writing the rest of the trace; once more, and it goes on alone");
        }
        Phase::After { .. } => exit(killed_by(origin.signal).into()),
    }
}

/// The set of ignored signals in the text of /proc/self/status: bit n - 1 is signal n.
fn ignored_signals(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_kernels_text() {
        let ignored = ignored_signals("Name:\tpiste\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n");
        assert_eq!(ignored, 1 << (SIGHUP - 1) | 1 << (signal_hook::consts::SIGPIPE - 1));
        assert_eq!(ignored_signals(""), 0);
    }

    #[test]
    fn the_status_is_the_one_a_shell_would_give() {
        let guard = Guard::new().unwrap();
        let status = |script: &str| guard.run(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(status("exit 7"), 7);
        assert_eq!(status("kill -KILL $$"), 137);
        let missing = guard.run(&mut Command::new("/no/such/command")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
