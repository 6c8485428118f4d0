// SPDX-License-Identifier: MIT OR Apache-2.0
//! What commands that measure for minutes have in common: `piste bench`, `piste calibrate`, and `piste latency` with tracers.

use std::env;
use std::io::{Write, stderr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use piste_reason::reason;
use piste_terminal::Size;
use piste_terminal::fit::start;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::child::not_ignored;
use crate::failure::{Failure, INTERRUPTED};

/// The program that runs, which is of the installation that is measured.
pub(crate) fn own_program() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|error| Failure::new(format!("cannot find the program piste: {}", reason(&error))))
}

/// The command line, for a report.
pub(crate) fn own_command() -> Vec<String> {
    env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_nanos()
}

/// From now on, the first signal ends the run in order. It removes what it set up, so that the next ones must not end it at once.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let register = || {
        for signal in not_ignored([SIGINT, SIGTERM, SIGHUP])? {
            flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(())
    };
    register().map_err(|error: std::io::Error| Failure::new(format!("cannot handle signals: {}", reason(&error))))?;
    Ok(interrupted)
}

/// Ctrl-C came too early.
pub(crate) fn without_result() -> Failure {
    Failure::with_status("the measurement was interrupted before there was a result", INTERRUPTED)
}

/// Where a run is: on a terminal one line that is written over and over, otherwise nothing.
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new(json: bool) -> Progress {
        Progress { is_shown: !json }
    }

    /// Shows what it does now. Ctrl-C ends it with the results so far.
    pub(crate) fn say(&self, what: &str) {
        self.write(&format!("{what}; press Ctrl-C to stop early"));
    }

    pub(crate) fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if let Some(size) = Size::of_stderr().filter(|_| self.is_shown) {
            // A second line would remain. A terminal that is gone ends nothing.
            let _ = write!(stderr(), "\r\x1b[K{}", start(text, size.columns - 1));
        }
    }
}
