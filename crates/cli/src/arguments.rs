// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: every command with its options. The texts here are the help, the man pages and the completions.
//!
//! - [`record`]: the options of `piste record`
//! - [`events`]: those of `enable-event` and `disable-event`
//! - [`analysis`]: those of `insights`, `analyze` and `diff`
//! - [`view`]: those of `view`
//! - [`reading`]: those of `stats` and `info`
//! - [`writing`]: those of `trim` and `export`
//! - [`selection`]: which events are meant, for all commands that read events
//! - here: all others

mod analysis;
mod events;
mod query;
mod reading;
mod record;
mod selection;
mod view;
mod writing;

use std::path::PathBuf;

use clap::builder::Styles;
use clap::{Args, Parser, Subcommand, ValueHint};

pub(crate) use self::analysis::{Analyze, Diff, Insights, PeriodsOptions};
pub(crate) use self::events::{DisableEvent, DomainFlags, EnableEvent};
pub(crate) use self::query::{Query, QueryFormat};
pub(crate) use self::reading::{Info, Stats};
pub(crate) use self::record::{KernelOptions, Record, SnapshotOn, Tell};
pub(crate) use self::selection::{filter, tell_absent};
pub(crate) use self::view::{Clock, Color, View, ViewFormat};
pub(crate) use self::writing::{Export, Format, Trim};
use crate::channel_options::ChannelOptions;
use crate::gate::GateArguments;
use crate::ids::parse_id;
use crate::screen::{BAD, STRONG};
use crate::tracked::TrackedOptions;

/// Records what programs and the kernel did, on one clock
#[derive(Parser)]
#[command(
    name = "piste",
    version,
    styles = Styles::plain().header(STRONG).usage(STRONG).literal(STRONG).invalid(BAD).valid(STRONG),
    propagate_version = false,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Most used: `piste record -- CMD` records a command and what it starts; `piste view DIR` shows the trace."
)]
pub(crate) struct Arguments {
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Record(Record),
    Create(Create),
    /// Make a session the current one, which commands without -s mean
    SetSession {
        /// Name of the session
        name: String,
    },
    EnableChannel(EnableChannel),
    EnableEvent(EnableEvent),
    DisableEvent(DisableEvent),
    Track(Track),
    /// Start recording, or go on after a stop
    Start(OneSession),
    /// Stop recording; the session and its channels stay
    Stop(OneSession),
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Make what was recorded so far a complete trace of its own, a chunk, and go on recording into the next
    ///
    /// The chunk is moved to the folder archives/NUMBER-BEGIN-END in the session's, and nobody writes to it any more. Each event is in one
    /// chunk, and each chunk begins with a state dump.
    Rotate(OneSession),
    #[command(subcommand)]
    Regenerate(Regenerate),
    Destroy(Destroy),
    List(List),
    /// Show a session: its channels, rules, counts, losses and findings
    Status(OneSession),
    View(View),
    Stats(Stats),
    Info(Info),
    Trim(Trim),
    Export(Export),
    Insights(Insights),
    Analyze(Analyze),
    Diff(Diff),
    Query(Query),
    /// Look at what tracing depends on here, and say what mends what is missing
    ///
    /// Exit status: 0, or 1 when something is missing.
    Doctor,
    /// Print the version of this command and of the running pisted
    Version,
    /// Print a shell's completions
    ///
    /// For example: piste completions bash > /etc/bash_completion.d/piste
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Wait until a recording has begun, and become its command
    #[command(hide = true)]
    Gate(GateArguments),
    /// Write the man pages
    #[command(hide = true)]
    Man {
        /// Folder to write them to
        folder: PathBuf,
    },
}

/// Create a session and make it the current one
#[derive(Args)]
pub(crate) struct Create {
    /// Name of the session [default: auto-YYYYmmdd-HHMMSS]
    pub(crate) name: Option<String>,
    /// Name of the session, as for the other commands
    #[arg(short, long, value_name = "SESSION", conflicts_with = "name", hide = true)]
    pub(crate) session: Option<String>,
    /// Folder for the trace: a new or empty one [default: ~/piste-traces/NAME-YYYYmmdd-HHMMSS]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Keep the newest events in memory and write them only with `piste snapshot record`
    #[arg(long)]
    pub(crate) snapshot: bool,
}

/// Make a channel: rings of their own for some events, with their own settings
#[derive(Args)]
#[command(override_usage = "piste enable-channel [OPTIONS] [-u | -k] NAME")]
pub(crate) struct EnableChannel {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    /// Name of the channel
    pub(crate) name: String,
    /// What each event carries beside its fields: vtid,cpu_id; with -k: tid,cpu_id,interrupt_state; or none
    #[arg(
        long = "context",
        value_name = "CONTEXT",
        value_delimiter = ',',
        conflicts_with = "no_default_contexts"
    )]
    pub(crate) contexts: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) options: ChannelOptions,
}

/// Take snapshots of a `--snapshot` session
#[derive(Subcommand)]
pub(crate) enum Snapshot {
    /// Write what the session has in memory as a trace of its own; recording goes on
    Record {
        #[command(flatten)]
        session: SessionOption,
        /// Folder for it: a new or empty one [default: the next snapshot-N-... in the session's folder]
        #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        output: Option<PathBuf>,
    },
}

/// Say what the kernel's events of a session are about: threads and CPUs
///
/// Replaces what was said before. A thread is recorded that every one of the options allows.
#[derive(Args)]
pub(crate) struct Track {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    /// Only these processes, with all their threads
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', value_parser = parse_id::<u32>)]
    pub(crate) pids: Vec<u32>,
    /// And what these processes start from now on
    #[arg(long, requires = "pids")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) options: TrackedOptions,
    /// The whole system
    #[arg(
        short,
        long,
        conflicts_with_all = ["pids", "follow", "uids", "gids", "process_groups", "process_sessions", "cpus"],
        required_unless_present_any = ["pids", "uids", "gids", "process_groups", "process_sessions", "cpus"]
    )]
    pub(crate) all: bool,
}

/// Write once more what is written at the start
#[derive(Subcommand)]
pub(crate) enum Regenerate {
    /// Write the state of the system into the kernel trace: processes, open files, devices
    Statedump(OneSession),
}

/// End a session; its trace stays
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    pub(crate) session: OneSession,
    /// All sessions
    #[arg(short, long, conflicts_with_all = ["name", "session"])]
    pub(crate) all: bool,
}

/// List the programs with their events, and the sessions; or what of the kernel and of binaries can be recorded
#[derive(Args)]
pub(crate) struct List {
    /// Only events that match, and programs that have any
    pub(crate) pattern: Option<String>,
    /// Only the programs
    #[arg(short = 'u', long = "programs", visible_alias = "userspace")]
    pub(crate) programs: bool,
    /// Only the sessions
    #[arg(long, conflicts_with_all = ["programs", "pattern"])]
    pub(crate) sessions: bool,
    /// Only this session, with its channels
    #[arg(short, long, conflicts_with_all = ["programs", "sessions", "pattern"])]
    pub(crate) session: Option<String>,
    /// The kernel's events; one that is named is shown with its fields
    #[arg(short, long, conflicts_with_all = ["programs", "sessions", "session"])]
    pub(crate) kernel: bool,
    /// With -k: each with its fields
    #[arg(long, requires = "kernel")]
    pub(crate) fields: bool,
    /// The system calls with their arguments
    #[arg(long, conflicts_with_all = ["programs", "sessions", "session", "kernel"])]
    pub(crate) syscalls: bool,
    /// The functions of a program or library, for --uprobe
    #[arg(long, value_name = "BINARY", value_hint = ValueHint::FilePath, conflicts_with_all = ["programs", "sessions", "session", "kernel", "syscalls"])]
    pub(crate) symbols: Option<String>,
    /// The probes that the authors of a program or library left in it, for --usdt
    #[arg(long, value_name = "BINARY", value_hint = ValueHint::FilePath, conflicts_with_all = ["programs", "sessions", "session", "kernel", "syscalls", "symbols"])]
    pub(crate) usdt: Option<String>,
}

/// A session by option.
#[derive(Args)]
pub(crate) struct SessionOption {
    /// The session [default: the current one]
    #[arg(short, long)]
    pub(crate) session: Option<String>,
}

/// A session by name or option.
#[derive(Args)]
pub(crate) struct OneSession {
    /// The session [default: the current one]
    #[arg(value_name = "SESSION", conflicts_with = "session")]
    name: Option<String>,
    /// The same, as an option
    #[arg(short, long)]
    session: Option<String>,
}

impl OneSession {
    /// The session that was named, either way.
    pub(crate) fn chosen(self) -> Option<String> {
        self.name.or(self.session)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Command {
        Arguments::try_parse_from(line.split(' '))
            .unwrap_or_else(|error| panic!("{error}"))
            .command
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_flag_of_the_domain_stands_anywhere() {
        for line in ["-u a:* b:*", "-u a:* -u b:*", "a:*,b:* -u", "a:* b:*"] {
            let Command::EnableEvent(event) = parse(&format!("piste enable-event {line}")) else {
                panic!()
            };
            assert_eq!(event.patterns, ["a:*", "b:*"], "{line}");
        }
    }

    #[test]
    fn everything_after_the_command_belongs_to_it() {
        for line in ["-u a:* -- ls -u --json", "-u a:* ls -u --json"] {
            let Command::Record(record) = parse(&format!("piste record {line}")) else {
                panic!()
            };
            assert_eq!(record.patterns, ["a:*"], "{line}");
            assert_eq!(record.command, ["ls", "-u", "--json"], "{line}");
        }
    }

    #[test]
    fn the_kernel_is_a_flag_for_rules_and_has_patterns_for_recordings() {
        for line in ["-k a,b", "a b -k", "a -k b"] {
            let Command::EnableEvent(event) = parse(&format!("piste enable-event {line}")) else {
                panic!()
            };
            assert_eq!(event.patterns, ["a", "b"], "{line}");
            assert_eq!(
                event.domain.chosen(),
                piste_control::interface::Domain::kernel,
                "{line}"
            );
        }
        let refused = |line: &str| Arguments::try_parse_from(line.split(' ')).is_err();
        for line in [
            "piste enable-event -k",
            "piste enable-event -u -k a",
            "piste enable-event --syscall open",
            "piste enable-event -k a --level err",
            "piste record -k a",
            "piste record --no-kernel -k a -- true",
            "piste record --no-kernel --no-user -- true",
            "piste record -a -p 1",
            "piste track",
            "piste track -a --uid 1",
        ] {
            assert!(refused(line), "{line}");
        }
        for line in [
            "piste record -a -d 1s",
            "piste record -p 1,2",
            "piste track --pid 1 --follow",
            "piste track -a",
        ] {
            assert!(!refused(line), "{line}");
        }
    }

    #[test]
    fn a_session_is_named_either_way_but_not_both() {
        for line in ["stop web", "stop -s web"] {
            let Command::Stop(session) = parse(&format!("piste {line}")) else {
                panic!()
            };
            assert_eq!(session.chosen().as_deref(), Some("web"));
        }
        assert!(Arguments::try_parse_from(["piste", "stop", "web", "-s", "web"]).is_err());
    }
}
