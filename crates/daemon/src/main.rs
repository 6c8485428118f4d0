// SPDX-License-Identifier: MIT OR Apache-2.0
//! The executable `pisted`: arguments, and which of the three processes to be.

use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use piste_control::Places;
use piste_daemon::remains::Predecessors;
use piste_daemon::{consumer, control, kernel_consumer};
use piste_reason::reason;
use sd_notify::NotifyState;

/// Manage tracing sessions, and write what programs and the kernel record: the daemon of the Piste tracing suite
///
/// The `piste` command starts pisted when it needs one. The sockets and the state of pisted are in the run folder: $PISTE_RUNDIR, or by default
/// /run/piste for root, and /run/user/UID/piste for other users (/tmp/piste-UID if there is no /run/user/UID).
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Run in the background: return as soon as programs and clients can connect
    #[arg(long)]
    background: bool,
    /// Exit after SECONDS with no session and no client [default: do not exit]
    #[arg(long, value_name = "SECONDS")]
    exit_when_idle: Option<u32>,
    /// Run as the consumer, on the listening socket on standard input
    #[arg(long, hide = true)]
    consumer: bool,
    /// Run as the kernel consumer of this run folder, on the listening socket on standard input
    #[arg(long, hide = true, value_name = "RUN_FOLDER")]
    kernel_consumer: Option<PathBuf>,
    /// Earlier consumers that have not ended
    #[arg(long, hide = true, value_name = "PID")]
    after: Vec<i32>,
    /// Run as the process that `--background` starts: report on standard output when ready
    #[arg(long, hide = true)]
    in_background: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = if arguments.consumer {
        be_consumer(Predecessors(arguments.after))
    } else if let Some(run_folder) = &arguments.kernel_consumer {
        be_kernel_consumer(run_folder, Predecessors(arguments.after))
    } else if arguments.background {
        start_in_background(&arguments)
    } else {
        be_control(&arguments)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pisted: {}", reason(&error));
            ExitCode::FAILURE
        }
    }
}

fn be_consumer(predecessors: Predecessors) -> io::Result<()> {
    name_process(c"pisted-consumer");
    leave_terminal();
    consumer::run(rustix::io::dup(io::stdin())?, predecessors)
}

fn be_kernel_consumer(run_folder: &Path, predecessors: Predecessors) -> io::Result<()> {
    name_process(c"pisted-kernel");
    leave_terminal();
    kernel_consumer::run(rustix::io::dup(io::stdin())?, run_folder.into(), predecessors)
}

fn be_control(arguments: &Arguments) -> io::Result<()> {
    name_process(c"pisted");
    if arguments.in_background {
        leave_terminal();
    }
    let places = Places::from_environment().map_err(io::Error::other)?;
    let exit_when_idle = arguments
        .exit_when_idle
        .map(|seconds| Duration::from_secs(seconds.into()));
    control::run(places, exit_when_idle, || {
        if arguments.in_background {
            // Whoever started it may be gone.
            let _ = writeln!(io::stdout(), "ready");
        }
        if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
            eprintln!("pisted: cannot tell systemd that it is ready: {}", reason(&error));
        }
    })
}

/// What `ps` and `top` show: both processes are started as /proc/self/exe.
fn name_process(name: &CStr) {
    // It fails for no name that fits.
    let _ = rustix::thread::set_name(name);
}

/// A session of its own: signals of the terminal do not reach it.
fn leave_terminal() {
    // It fails only for the leader of a group, which `start_in_background` and the consumer's parent do not make of it.
    let _ = rustix::process::setsid();
}

fn start_in_background(arguments: &Arguments) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("pisted")
        .arg("--in-background")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(seconds) = arguments.exit_when_idle {
        command.arg("--exit-when-idle").arg(seconds.to_string());
    }
    if let Some(setting) = std::env::var_os("PISTE_RUNDIR").filter(|setting| !setting.is_empty()) {
        // It may be relative to this folder; the daemon's is another.
        command.env("PISTE_RUNDIR", std::path::absolute(setting)?);
    }
    // A descriptor that some ancestor left open, such as a pipe that somebody reads to its end, is not pisted's.
    close_fds::set_fds_cloexec(3, &[]);
    let mut child = command.spawn()?;
    let mut ready = [0];
    // It writes when it is ready, or ends and says why on standard error, which it has from here.
    match child.stdout.take().map(|mut stdout| stdout.read(&mut ready)) {
        Some(Ok(1)) => Ok(()),
        _ => {
            let status = child.wait()?;
            Err(io::Error::other(format!("cannot start in the background: {status}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_reference_has_the_options_with_their_help() {
        let page = include_str!("../../../docs/reference/pisted.md");
        let command = Arguments::command();
        let visible = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let rows: Vec<String> = visible
            .map(|argument| {
                let values = argument.get_value_names().unwrap_or_default().iter();
                let values: String = values
                    .filter(|_| argument.get_action().takes_values())
                    .map(|value| format!(" {value}"))
                    .collect();
                let name = argument.get_long().unwrap_or_default();
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                format!("| `--{name}{values}` | {help} |")
            })
            .collect();
        let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `--")).collect();
        assert_eq!(listed, rows);
    }
}
