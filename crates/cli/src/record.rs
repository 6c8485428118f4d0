// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste record`: a session for one command and what it starts, or for the whole system for a while.
//!
//! The session has a record id, and only the command's environment has it too (PISTE_RECORD): other programs stay out. The
//! kernel is told the command's process id, while the command is held at a gate (gate.rs). The session ends with the command,
//! also when the command could not be started or pisted was replaced meanwhile; pisted ends it when this process is killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};

use piste_control::interface::SessionStatus;
use piste_control::{Error, Places};
use piste_reason::reason;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::arguments::{Record, SnapshotOn, Web};
use crate::attendant::{Attendant, Charge, Order, snapshot};
use crate::child::{self, Guard};
use crate::failure::{Failure, LOSS, NOT_EXECUTABLE, NOT_FOUND, USAGE};
use crate::folder::TraceFolder;
use crate::gate::Gate;
use crate::insights;
use crate::nothing::Wanted;
use crate::preload;
use crate::recording::{KernelSide, Recording, Subject};
use crate::screen;
use crate::summary::{self, Summary};
use crate::web::{expect_viewer, web};

/// Runs the command; the status is the command's.
pub(crate) fn record(arguments: &Record, json: bool) -> Result<u8, Failure> {
    record_and_tell(arguments, json).map_err(Failure::of_record)
}

/// A recording of which nothing was told.
pub(crate) struct Recorded {
    pub(crate) exit_status: u8,
    pub(crate) lost_events: i64,
}

/// Runs the command, and tells nothing of what was recorded.
pub(crate) fn record_quietly(arguments: &Record) -> Result<Recorded, Failure> {
    let ended = run(arguments).map_err(Failure::of_record)?;
    let summary = Summary::new(&ended.status, ended.exit_status, &ended.kernel);
    Ok(Recorded {
        exit_status: ended.exit_status,
        lost_events: summary.lost_events(),
    })
}

/// A recording whose command has ended.
struct Outcome {
    exit_status: u8,
    /// The session's status if its end succeeded.
    ended: Result<SessionStatus, Error>,
    kernel: KernelSide,
}

/// A recording that has ended.
struct Ended {
    exit_status: u8,
    status: SessionStatus,
    kernel: KernelSide,
}

fn record_and_tell(arguments: &Record, json: bool) -> Result<u8, Failure> {
    if arguments.web {
        expect_viewer()?;
    }
    let summary_file = arguments.summary.as_deref().map(create_summary).transpose()?;
    let Ended {
        exit_status,
        status,
        kernel,
    } = run(arguments)?;
    let summary = Summary::new(&status, exit_status, &kernel);
    if json {
        screen::tell(&format!("{}\n", summary.json()));
    } else {
        let wanted = Wanted {
            patterns: &arguments.user_patterns(),
            preloaded: !arguments.preload.is_empty(),
        };
        let verbose = arguments.verbose.then_some(&kernel);
        screen::tell(&summary::recorded(&status, &wanted, verbose));
        if kernel.is_recorded && !status.snapshot {
            insights::tell_of_recording(Path::new(&status.output), arguments.insights);
        }
    }
    if let (Some(mut file), Some(path)) = (summary_file, &arguments.summary) {
        writeln!(file, "{}", summary.json())
            .map_err(|error| Failure::new(format!("cannot write the summary to {path:?}: {}", reason(&error))))?;
    }
    if arguments.web {
        web(&Web::opening(PathBuf::from(&status.output)), json)?;
    }
    let failed_by_loss = arguments.fail_on_loss && exit_status == 0 && summary.lost_anything();
    Ok(if failed_by_loss { LOSS } else { exit_status })
}

fn run(arguments: &Record) -> Result<Ended, Failure> {
    let (orders, received) = channel();
    let at_signal = arguments.has_snapshot_on(&SnapshotOn::Signal);
    let guard = Guard::new(at_signal.then(|| orders.clone()))
        .map_err(|error| Failure::new(format!("cannot handle signals: {}", reason(&error))))?;
    // All that can be refused without a session is refused before there is one.
    if arguments.kernel.no_kernel && arguments.kernel.tracepoints.filter.is_some() {
        return Err(Failure::new(
            "the filter applies to nothing that is recorded; write --filter after the -u PATTERN whose events it selects",
        ));
    }
    if !arguments.pids.is_empty() && arguments.snapshot_events().next().is_some() {
        let sentence = "with -p, a snapshot cannot be taken on an event, because other programs may record the event too; use a session with `piste track` \
                        and `piste add-trigger`, or record the command";
        return Err(Failure::with_status(sentence, USAGE));
    }
    let preloaded = preload::setting(&arguments.preload)?;
    let folder = TraceFolder::of_output(arguments.output.as_deref())?;
    let outcome = match in_a_session(arguments, preloaded, folder.path(), &guard, (orders, received)) {
        Ok(outcome) => outcome,
        Err(failure) => {
            folder.abandon();
            return Err(failure);
        }
    };
    let exit_status = outcome.exit_status;
    let status = outcome.ended.map_err(|error| {
        let sentence = format!(
            "cannot complete the recording: {error}; what was recorded so far is in {:?}",
            folder.path()
        );
        // The command has run: its own failure stays what matters to whoever called.
        if exit_status == 0 {
            Failure::new(sentence)
        } else {
            Failure::with_status(sentence, exit_status)
        }
    })?;
    Ok(Ended {
        exit_status,
        status,
        kernel: outcome.kernel,
    })
}

/// Records in a session of its own.
///
/// # Errors
/// Nothing was recorded; the command has not run.
fn in_a_session(
    arguments: &Record,
    preloaded: Option<OsString>,
    output: &str,
    guard: &Guard,
    (orders, received): (Sender<Order>, Receiver<Order>),
) -> Result<Outcome, Failure> {
    let places = Places::for_commands()?;
    let id = random_id();
    let subject = Subject {
        output,
        record_id: id.clone(),
        // Processes that run already know nothing of the recording: their own events are recorded where they are named.
        records_programs: !arguments.no_user && (arguments.pids.is_empty() || !arguments.user_patterns().is_empty()),
        takes_everyone: arguments.all_system || !arguments.pids.is_empty(),
    };
    let session = format!("record-{}", &id[..8]);
    let mut recording = Recording::create(places.clone(), session.clone(), arguments, &subject)?;
    let at_exit = arguments.has_snapshot_on(&SnapshotOn::Exit);
    let charge = Charge {
        duration: arguments.duration.filter(|_| !arguments.command.is_empty()),
        snapshot_at_stop: at_exit,
        places: places.clone(),
        session,
    };
    let attend = || Attendant::begin(charge.clone(), orders, received);
    let ran = match arguments.command.split_first() {
        Some((name, rest)) => {
            let mut command = Command::new(name);
            command
                .args(rest)
                .envs(preloaded.map(|setting| ("LD_PRELOAD", setting)));
            // It and what it starts may change to other folders.
            command.envs(places.setting().map(|run_folder| ("PISTE_RUNDIR", run_folder)));
            command.env("PISTE_RECORD", subject.record_id);
            run_command(arguments, &mut recording, guard, &mut command, attend)
        }
        None => wait(arguments, &mut recording, guard, attend),
    };
    recording.end_triggers();
    let last = match &ran {
        Ok(Ran { stopped: false, .. }) if at_exit => snapshot(&charge),
        _ => Ok(()),
    };
    let ended = recording.destroy();
    Ok(Outcome {
        exit_status: ran?.exit_status,
        ended: last.and(ended),
        kernel: recording.into_kernel_side(),
    })
}

/// What came of the time while it was recorded.
struct Ran {
    exit_status: u8,
    /// Recording was stopped before the end.
    stopped: bool,
}

/// Runs the command to its end.
fn run_command(
    arguments: &Record,
    recording: &mut Recording,
    guard: &Guard,
    command: &mut Command,
    attend: impl FnOnce() -> Attendant,
) -> Result<Ran, Failure> {
    let gate = match recording.kernel().is_recorded {
        true => Some(Gate::hold(command).map_err(|error| not_held(guard, &error))?),
        false => None,
    };
    let held: Vec<u32> = gate.iter().map(Gate::pid).filter(|_| !arguments.all_system).collect();
    recording.start(arguments, &held)?;
    if let Some(status) = guard.interrupted() {
        return Err(Failure::with_status("interrupted before the command ran", status));
    }
    let attendant = attend();
    let status = guard.run(|| match gate {
        Some(gate) => gate.open(),
        None => command.spawn(),
    });
    let stopped = attendant.end();
    match status {
        Ok(exit_status) => Ok(Ran { exit_status, stopped }),
        Err(error) => Err(not_started(command, &error)),
    }
}

/// Waits until the time is over, somebody ends it, or the processes have ended.
fn wait(
    arguments: &Record,
    recording: &mut Recording,
    guard: &Guard,
    attend: impl FnOnce() -> Attendant,
) -> Result<Ran, Failure> {
    let processes = arguments
        .pids
        .iter()
        .map(|pid| child::process(*pid).ok_or_else(|| Failure::new(format!("there is no process {pid}"))))
        .collect::<Result<Vec<_>, _>>()?;
    recording.start(arguments, &arguments.pids)?;
    if arguments.duration.is_none() {
        screen::tell_sentence("recording; press Ctrl-C to stop");
    }
    let attendant = attend();
    let waited = guard.wait(arguments.duration, processes);
    attendant.end();
    waited.map_err(|error| Failure::new(format!("cannot wait for the end of the recording: {}", reason(&error))))?;
    Ok(Ran {
        exit_status: 0,
        stopped: false,
    })
}

fn not_held(guard: &Guard, error: &std::io::Error) -> Failure {
    match guard.interrupted() {
        Some(status) => Failure::with_status("interrupted before the command ran", status),
        None => Failure::new(format!(
            "cannot hold the command until recording starts: {}",
            reason(error)
        )),
    }
}

fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    let name = command.get_program();
    match error.kind() {
        ErrorKind::NotFound => Failure::with_status(format!("cannot find the command {name:?}"), NOT_FOUND),
        _ => Failure::with_status(format!("cannot execute {name:?}: {}", reason(error)), NOT_EXECUTABLE),
    }
}

/// Opened before the command runs: a place that cannot be written to is known at once.
fn create_summary(path: &Path) -> Result<File, Failure> {
    File::create(path)
        .map_err(|error| Failure::new(format!("cannot write the summary to {path:?}: {}", reason(&error))))
}

/// 128 random bits as 32 hex digits.
fn random_id() -> String {
    let mut bits = [0; 16];
    let filled = getrandom(&mut bits, GetRandomFlags::empty());
    // 16 bytes come whole or, before the kernel has collected any randomness, not yet; there is no other error.
    assert_eq!(filled, Ok(bits.len()), "getrandom");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}
