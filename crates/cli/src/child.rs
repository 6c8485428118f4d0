// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the recorded command, or waits where there is none, and takes care of signals meanwhile.
//!
//! The command is in this process's group, so what the terminal sends (Ctrl-C, Ctrl-\, hang-up) reaches it without help;
//! piste only has to survive, to finish the trace. What another process sends to piste alone is passed on, as sudo(8) does.
//!
//!   before the command   the first signal is noted: the caller asks `interrupted` and gives up, or it is passed on, or ends the
//!                        recording, once there is what it is meant for; the second ends piste
//!   while it runs        nothing from the terminal, everything else is passed on
//!   without a command    the first ends the recording
//!   after it             for a moment nothing: that signal was meant for the command; then the first says what piste is
//!                        doing, and the second leaves that to pisted
//!
//! SIGUSR1, where a snapshot is wanted at it, orders one at any time and is not passed on.

use std::fs;
use std::io::{self, PipeWriter, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, exit};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::attendant::Order;
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
    /// No command; who waits reads the other end.
    Alone(PipeWriter),
    After {
        end: Instant,
        told: bool,
    },
}

impl Guard {
    /// Takes over the signals; those that piste was started to ignore (nohup) stay ignored, also for the command. `snapshots`
    /// gets an order for each SIGUSR1.
    pub(crate) fn new(snapshots: Option<Sender<Order>>) -> io::Result<Guard> {
        let mut taken = not_ignored([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        taken.extend(snapshots.is_some().then_some(SIGUSR1));
        let mut signals = SignalsInfo::<WithOrigin>::new(taken)?;
        let phase = Arc::new(Mutex::new(Phase::Before { noted: None }));
        let of_thread = phase.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in signals.forever() {
                match &snapshots {
                    // Nobody takes them any more at the end of a recording.
                    Some(orders) if origin.signal == SIGUSR1 => drop(orders.send(Order::Snapshot)),
                    _ => arrived(&mut lock(&of_thread), &origin),
                }
            }
        })?;
        Ok(Guard { phase })
    }

    /// The status to end with when a signal came before the command ran.
    pub(crate) fn interrupted(&self) -> Option<u8> {
        lock(&self.phase).noted().map(killed_by)
    }

    /// Runs the command that `start` starts to its end and returns its exit status as a shell would.
    ///
    /// # Errors
    /// The command could not be started.
    pub(crate) fn run(&self, start: impl FnOnce() -> io::Result<Child>) -> io::Result<u8> {
        let mut child = {
            // A signal that arrives in between waits for the lock, and is then passed on, as one is that came after `interrupted`.
            let mut phase = lock(&self.phase);
            let child = start()?;
            if let Some(process) = process(child.id()) {
                if let Some(signal) = phase.noted() {
                    pass_on(&process, signal);
                }
                *phase = Phase::Running(process);
            }
            child
        };
        let status = child.wait()?;
        self.end();
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => code as u8,
            (None, signal) => killed_by(signal.unwrap_or(0)),
        })
    }

    /// Waits for a signal, the end of the time, or the end of the last of `processes` where there are any. A signal that came before ends it
    /// at once.
    pub(crate) fn wait(&self, time: Option<Duration>, mut processes: Vec<OwnedFd>) -> io::Result<()> {
        let deadline = time.map(|time| Instant::now() + time);
        let (signal, mut noting) = pipe()?;
        let has_processes = !processes.is_empty();
        {
            let mut phase = lock(&self.phase);
            if phase.noted().is_some() {
                noting.write_all(&[0])?;
            }
            *phase = Phase::Alone(noting);
        }
        while !(has_processes && processes.is_empty()) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut any: Vec<PollFd> = vec![PollFd::new(&signal, PollFlags::IN)];
            any.extend(processes.iter().map(|process| PollFd::new(process, PollFlags::IN)));
            match poll(&mut any, left.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) if !any[0].revents().is_empty() => break,
                Ok(_) => {}
            }
            let mut ended: Vec<bool> = any[1..].iter().map(|process| !process.revents().is_empty()).collect();
            processes.retain(|_| !ended.remove(0));
        }
        self.end();
        Ok(())
    }

    fn end(&self) {
        *lock(&self.phase) = Phase::After {
            end: Instant::now(),
            told: false,
        };
    }
}

impl Phase {
    /// A signal that nobody has acted on.
    fn noted(&self) -> Option<i32> {
        match *self {
            Phase::Before { noted } => noted,
            _ => None,
        }
    }
}

/// A descriptor of a process that runs.
pub(crate) fn process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
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
            if matches!(origin.cause, Cause::Sent(_)) {
                pass_on(process, origin.signal);
            }
        }
        Phase::Alone(noting) => {
            // A pipe that is full has said it often enough.
            let _ = noting.write_all(&[0]);
        }
        Phase::After { end, .. } if end.elapsed() < MOMENT => {}
        Phase::After { told: told @ false, .. } => {
            *told = true;
            screen::tell_sentence("pisted is writing the rest of the trace; interrupt again to leave it to pisted");
        }
        Phase::After { .. } => exit(killed_by(origin.signal).into()),
    }
}

fn pass_on(process: &OwnedFd, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // It fails only when the command has just ended.
        let _ = pidfd_send_signal(process, signal);
    }
}

/// Those that piste was not started to ignore, as nohup starts it.
pub(crate) fn not_ignored(signals: impl IntoIterator<Item = i32>) -> io::Result<Vec<i32>> {
    let ignored = ignored_signals(&fs::read_to_string("/proc/self/status")?);
    let is_taken = |signal: &i32| ignored & 1 << (signal - 1) == 0;
    Ok(signals.into_iter().filter(is_taken).collect())
}

/// The set of ignored signals in the text of /proc/self/status: bit n - 1 is signal n.
fn ignored_signals(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_kernels_text() {
        let ignored = ignored_signals("Name:\tpiste\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n");
        assert_eq!(ignored, 1 << (SIGHUP - 1) | 1 << (signal_hook::consts::SIGPIPE - 1));
        assert_eq!(ignored_signals(""), 0);
    }

    #[test]
    fn the_status_is_the_one_a_shell_would_give() {
        let guard = Guard::new(None).unwrap();
        let status = |script: &str| guard.run(|| Command::new("sh").args(["-c", script]).spawn()).unwrap();
        assert_eq!(status("exit 7"), 7);
        assert_eq!(status("kill -KILL $$"), 137);
        let missing = guard.run(|| Command::new("/no/such/command").spawn()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_signal_before_the_command_runs_is_the_commands() {
        let guard = noting(SIGTERM);
        assert_eq!(guard.interrupted(), Some(128 + 15));
        let status = guard.run(|| Command::new("sleep").arg("600").spawn()).unwrap();
        assert_eq!(status, 128 + 15);
        assert_eq!(guard.interrupted(), None);
    }

    #[test]
    fn a_signal_before_it_waits_ends_the_recording() {
        noting(SIGINT).wait(None, vec![]).unwrap();
    }

    /// A guard that a signal has come to.
    fn noting(signal: i32) -> Guard {
        Guard {
            phase: Arc::new(Mutex::new(Phase::Before { noted: Some(signal) })),
        }
    }

    #[test]
    fn without_a_command_it_waits_for_the_time_or_the_last_process() {
        let guard = Guard::new(None).unwrap();
        guard.wait(Some(Duration::from_millis(1)), vec![]).unwrap();
        let mut children: Vec<Child> = ["0", "0.01"]
            .iter()
            .map(|time| Command::new("sleep").arg(time).spawn().unwrap())
            .collect();
        let processes = children.iter().map(|child| process(child.id()).unwrap()).collect();
        guard.wait(None, processes).unwrap();
        assert!(children.iter_mut().all(|child| child.try_wait().unwrap().is_some()));
    }
}
