// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste record`: a session for one command and what it starts.
//!
//! The session has a record id, and only the command's environment has it too (PISTE_RECORD): other programs stay out. The
//! session ends with the command, also when the command could not be started or pisted was replaced meanwhile.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use piste_control::error::reason;
use piste_control::interface::{SessionStatus, VarlinkClientInterface};
use piste_control::{Client, Error, Places};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::arguments::Record;
use crate::child::Guard;
use crate::failure::{Failure, LOSS, NOT_EXECUTABLE, NOT_FOUND};
use crate::folder::TraceFolder;
use crate::nothing::Wanted;
use crate::preload;
use crate::screen;
use crate::summary::{self, Summary};

/// What a helper says about the program it was loaded into: where its code lies, for looking up addresses later.
const STATE_DUMP_PATTERN: &str = "lttng_ust_statedump:*";
const CHANNEL: &str = "default";

/// Runs the command; the status is the command's.
pub(crate) fn record(arguments: &Record, json: bool) -> Result<u8, Failure> {
    run(arguments, json).map_err(Failure::of_record)
}

fn run(arguments: &Record, json: bool) -> Result<u8, Failure> {
    let guard = Guard::new().map_err(|error| Failure::new(format!("cannot handle signals: {}", reason(&error))))?;
    // All that can be refused without a session is refused before there is one.
    let preloaded = preload::setting(&arguments.preload)?;
    let summary_file = arguments.summary.as_deref().map(create_summary).transpose()?;
    let folder = match &arguments.output {
        Some(path) => TraceFolder::chosen(path)?,
        None => TraceFolder::named_by_time(Path::new("."), &now())?,
    };

    let record_id = random_id();
    let mut command = Command::new(&arguments.command[0]);
    command.args(&arguments.command[1..]).env("PISTE_RECORD", &record_id);
    if let Some(setting) = preloaded {
        command.env("LD_PRELOAD", setting);
    }
    let (exit_status, ended) = match in_a_session(arguments, &record_id, folder.path(), &guard, &mut command) {
        Ok(result) => result,
        Err(failure) => {
            folder.abandon();
            return Err(failure);
        }
    };
    let status = ended.map_err(|error| {
        let sentence = format!(
            "the end of the recording failed: {error}; what was recorded is in {:?}",
            folder.path()
        );
        // The command has run: its own failure stays what matters to whoever called.
        if exit_status == 0 {
            Failure::new(sentence)
        } else {
            Failure::with_status(sentence, exit_status)
        }
    })?;

    let summary = Summary::new(&status, exit_status);
    if json {
        screen::tell(&format!("{}\n", summary.json()));
    } else {
        let wanted = Wanted {
            patterns: &arguments.patterns,
            preloaded: !arguments.preload.is_empty(),
        };
        screen::tell(&summary::recorded(&status, &wanted));
    }
    if let (Some(mut file), Some(path)) = (summary_file, &arguments.summary) {
        writeln!(file, "{}", summary.json())
            .map_err(|error| Failure::new(format!("cannot write {path:?}: {}", reason(&error))))?;
    }
    let failed_by_loss = arguments.fail_on_loss && exit_status == 0 && summary.lost_anything();
    Ok(if failed_by_loss { LOSS } else { exit_status })
}

/// Runs the command in a session of its own. Returns its exit status, and the session's status if its end succeeded.
///
/// # Errors
/// The command has not run.
fn in_a_session(
    arguments: &Record,
    record_id: &str,
    output: &str,
    guard: &Guard,
    command: &mut Command,
) -> Result<(u8, Result<SessionStatus, Error>), Failure> {
    let places = Places::from_environment()?;
    if let Some(run_folder) = places.setting() {
        // The command and what it starts may change to other folders.
        command.env("PISTE_RUNDIR", run_folder);
    }
    let name = format!("record-{}", &record_id[..8]);
    let mut client = Client::connect_or_start(&places)?;
    let (name_wanted, record_id) = (Some(name.clone()), Some(record_id.to_owned()));
    client
        .calls()
        .create_session(name_wanted, Some(output.into()), false, record_id)
        .call()?;

    let started = start(client, arguments, &name).map_err(Failure::from);
    let ran = started.and_then(|()| match guard.interrupted() {
        Some(status) => Err(Failure::with_status("interrupted before the command ran", status)),
        None => guard.run(command).map_err(|error| not_started(command, &error)),
    });
    let ended = destroy(&places, &name);
    Ok((ran?, ended))
}

/// Sets the session up and starts it. The connection ends here: pisted needs none of ours while the command runs.
fn start(mut client: Client, arguments: &Record, name: &str) -> Result<(), Error> {
    let calls = client.calls();
    let session = || Some(name.to_owned());
    calls
        .enable_channel(session(), arguments.channel.request(CHANNEL.into()))
        .call()?;
    let excluded = arguments.excluded.clone();
    calls
        .enable_event(
            session(),
            Some(CHANNEL.into()),
            patterns(arguments),
            excluded,
            None,
            false,
        )
        .call()?;
    calls.start(session()).call()?;
    Ok(())
}

fn patterns(arguments: &Record) -> Vec<String> {
    let mut patterns = arguments.patterns.clone();
    if patterns.is_empty() {
        patterns.push("*".into());
    } else if !arguments.preload.is_empty() {
        patterns.push(STATE_DUMP_PATTERN.into());
    }
    patterns
}

/// Ends the session. A pisted that was replaced, now or while the command ran, is asked again.
fn destroy(places: &Places, name: &str) -> Result<SessionStatus, Error> {
    let attempt = || {
        let mut client = Client::connect_or_start(places)?;
        let reply = client.calls().destroy_session(Some(name.into())).call()?;
        Ok(reply.session)
    };
    match attempt() {
        Err(Error::Gone) => attempt(),
        result => result,
    }
}

fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    let name = command.get_program();
    match error.kind() {
        ErrorKind::NotFound => Failure::with_status(format!("command {name:?} not found"), NOT_FOUND),
        _ => Failure::with_status(format!("cannot execute {name:?}: {}", reason(error)), NOT_EXECUTABLE),
    }
}

/// Opened before the command runs: a place that cannot be written to is known at once.
fn create_summary(path: &Path) -> Result<File, Failure> {
    File::create(path)
        .map_err(|error| Failure::new(format!("cannot write the summary to {path:?}: {}", reason(&error))))
}

/// Now, in this computer's time zone: `20260102-030405`.
fn now() -> String {
    jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// 128 random bits as 32 hex digits.
fn random_id() -> String {
    let mut bits = [0; 16];
    let filled = getrandom(&mut bits, GetRandomFlags::empty());
    // 16 bytes come whole or, before the kernel has collected any randomness, not yet; there is no other error.
    assert_eq!(filled, Ok(bits.len()), "getrandom");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}
