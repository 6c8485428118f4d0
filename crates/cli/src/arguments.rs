// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: every command with its options. The texts here are the help, the man pages and the completions.
//!
//! - [`record`]: the options of `piste record`
//! - [`events`]: those of `enable-event` and `disable-event`
//! - [`analysis`]: those of `insights`, `analyze` and `diff`
//! - [`strace`]: those of `strace`
//! - [`view`]: those of `view`
//! - [`web`]: those of `web`
//! - [`report`]: those of `report`
//! - [`top`]: those of `top`
//! - [`bench`], [`calibrate`]: those of the commands of these names
//! - [`latency`]: those of `latency`
//! - [`tracking`]: those of `track` and `untrack`
//! - [`triggers`]: those of `add-trigger`, `list-triggers`, `remove-trigger` and `listen`
//! - [`reading`]: those of `stats` and `info`
//! - [`writing`]: those of `trim`, `import` and `export`
//! - [`symbols`]: names for addresses, for all commands that show events
//! - [`selection`]: which events are meant, for all commands that read events
//! - [`groups`]: the groups in which `piste --help` lists the commands
//! - here: all others

mod analysis;
mod bench;
mod calibrate;
mod events;
mod groups;
mod latency;
mod probes;
mod query;
mod reading;
mod record;
mod report;
mod selection;
mod strace;
mod symbols;
mod top;
mod tracking;
mod triggers;
mod view;
mod web;
mod writing;

use std::path::PathBuf;

use clap::builder::Styles;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};

pub(crate) use self::analysis::{Analyze, Diff, Insights, PeriodsOptions};
pub(crate) use self::bench::{Bench, BenchAction, RecordOptions, TimeCommand};
pub(crate) use self::calibrate::Calibrate;
pub(crate) use self::events::{DisableEvent, DomainFlags, EnableEvent};
pub(crate) use self::latency::{
    ClockOption, GenerateLoad, KernelOption, Latency, LoadChoice, LoopKind, PolicyChoice, ReaderOption, TracerOption,
};
pub(crate) use self::probes::ProbeOptions;
pub(crate) use self::query::{Query, QueryFormat};
pub(crate) use self::reading::{Info, PageOptions, PagerOption, Stats};
pub(crate) use self::record::{KernelOptions, Record, SnapshotOn, Tell};
pub(crate) use self::report::Report;
pub(crate) use self::selection::{filter, tell_absent};
pub(crate) use self::strace::{SortBy, Strace};
pub(crate) use self::top::{Sort, Top};
pub(crate) use self::tracking::{Track, TrackedValues, Untrack};
pub(crate) use self::triggers::{AddTrigger, ConditionOptions, ListTriggers, Listen, RemoveTrigger};
pub(crate) use self::view::{Clock, Color, View, ViewFormat};
pub(crate) use self::web::Web;
pub(crate) use self::writing::{Export, Format, Import, Trim};
use crate::channel_options::ChannelOptions;
use crate::completion;
use crate::gate::GateArguments;
use crate::screen::{BAD, STRONG};

/// Record what programs and the Linux kernel do, in one trace with a common clock
#[derive(Parser)]
#[command(
    name = "piste",
    version,
    styles = Styles::plain().header(STRONG).usage(STRONG).literal(STRONG).invalid(BAD).valid(STRONG),
    propagate_version = false,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Start with `piste record -- CMD`, then `piste view DIR`. `piste help COMMAND` describes a command."
)]
pub(crate) struct Arguments {
    /// Print the result as JSON
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Those of this process.
    ///
    /// # Errors
    /// What is wrong with them, or the help that was asked for.
    pub(crate) fn of_process() -> Result<Arguments, clap::Error> {
        let mut command = groups::grouped(Arguments::command());
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// A new command also goes into a group: see [`groups`].
#[derive(Subcommand)]
pub(crate) enum Command {
    Record(Box<Record>),
    Strace(Box<Strace>),
    Create(Create),
    /// Make a session the current one, the default for -s
    SetSession {
        /// Name of the session
        name: String,
    },
    EnableChannel(EnableChannel),
    AddContext(AddContext),
    DisableChannel(DisableChannel),
    EnableEvent(EnableEvent),
    DisableEvent(DisableEvent),
    Track(Track),
    Untrack(Untrack),
    /// Start or resume recording
    Start(OneSession),
    /// Stop recording; keep the session and its channels
    Stop(OneSession),
    #[command(subcommand, disable_help_subcommand = true)]
    Snapshot(Snapshot),
    /// Save the recording so far as a separate trace, and continue
    ///
    /// Everything recorded so far becomes a complete, separate trace, called a chunk, and recording continues in a new chunk. The complete chunk is
    /// moved to archives/NUMBER-BEGIN-END in the session's folder, and does not change any more. Each event is in exactly one chunk. In each chunk,
    /// the kernel trace begins with a state dump: events that describe the processes, open files and devices.
    Rotate(OneSession),
    #[command(subcommand, disable_help_subcommand = true)]
    Regenerate(Regenerate),
    Destroy(Destroy),
    List(List),
    /// Show a session's channels, rules, counts, losses and findings
    Status {
        #[command(flatten)]
        session: OneSession,
        #[command(flatten)]
        page: PageOptions,
    },
    AddTrigger(Box<AddTrigger>),
    ListTriggers(ListTriggers),
    RemoveTrigger(RemoveTrigger),
    Listen(Listen),
    Top(Top),
    Web(Web),
    View(View),
    Stats(Stats),
    Info(Info),
    Trim(Trim),
    Import(Import),
    Export(Export),
    Insights(Insights),
    Report(Report),
    Analyze(Analyze),
    Diff(Diff),
    Query(Query),
    Latency(Box<Latency>),
    Bench(Box<Bench>),
    Calibrate(Calibrate),
    /// Check what tracing needs on this system, and show fixes
    ///
    /// Exit status: 0, or 1 if something is missing.
    Doctor(PagerOption),
    /// Print the versions of piste and of the running daemon, pisted
    Version,
    /// Print completions for a shell
    ///
    /// Example: piste completions bash > /etc/bash_completion.d/piste
    Completions {
        /// Shell to print completions for
        #[arg(value_parser = completion::shells())]
        shell: String,
    },
    /// Wait until recording has started, then execute the command
    #[command(hide = true)]
    Gate(GateArguments),
    /// Keep CPUs, memory, a disk or another part of the system busy until standard input ends
    #[command(hide = true)]
    GenerateLoad(GenerateLoad),
    /// Restore the machine's settings if `piste latency --prepare` is killed
    #[command(hide = true)]
    LatencyGuardian,
    /// Run a command and write to a file how long it took
    #[command(hide = true)]
    TimeCommand(TimeCommand),
    /// Run the loop of `piste latency npt --tracer` once, with the settings from standard input
    #[command(hide = true)]
    LatencyLoop,
    /// Write the man pages
    #[command(hide = true)]
    Man {
        /// Folder to write the pages to
        folder: PathBuf,
    },
}

/// Create a session and make it the current one
#[derive(Args)]
pub(crate) struct Create {
    /// Name of the session [default: auto-YYYYmmdd-HHMMSS]
    pub(crate) name: Option<String>,
    /// Same as the argument NAME
    #[arg(short, long, value_name = "SESSION", conflicts_with = "name", hide = true)]
    pub(crate) session: Option<String>,
    /// Write the trace to DIR, which must be new or empty [default: ~/piste-traces/NAME-YYYYmmdd-HHMMSS]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Keep the newest events in memory, and write them to disk only on `piste snapshot record`
    #[arg(long)]
    pub(crate) snapshot: bool,
}

/// Create a channel with its own rings, or enable a disabled one
///
/// The settings of a channel cannot be changed: if the channel exists and an option contradicts its settings, the command fails.
#[derive(Args)]
#[command(override_usage = "piste enable-channel [OPTIONS] [-u | -k] NAME...")]
pub(crate) struct EnableChannel {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    /// Names of the channels
    #[arg(value_name = "NAME", required = true, value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) options: ChannelOptions,
}

/// Record more values with each event of a channel
///
/// You can add values while the session records: all later events of the channel then have them. Each value costs time and space for every event of
/// the channel; most values need a system call.
#[derive(Args)]
#[command(
    override_usage = "piste add-context [OPTIONS] [-u | -k] CONTEXT...\n       piste add-context --list",
    after_help = "Examples:
  piste add-context procname,prio
  piste add-context -c hot perf:thread:task-clock perf:thread:page-faults
  piste add-context app:shop:tenant
  piste add-context -k ppid,uid"
)]
pub(crate) struct AddContext {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    /// Channels whose events get the values [default: default]
    #[arg(short, long = "channel", value_name = "CHANNEL", value_delimiter = ',')]
    pub(crate) channels: Vec<String>,
    /// Names of the values; app:PROVIDER:NAME is a value that programs define (see piste(3))
    #[arg(value_name = "CONTEXT", value_delimiter = ',', required_unless_present = "list")]
    pub(crate) contexts: Vec<String>,
    /// List the values that can be recorded
    #[arg(long, conflicts_with_all = ["contexts", "channels", "session"])]
    pub(crate) list: bool,
}

/// Disable a channel, but keep its rules and recorded events
///
/// A disabled channel records nothing until `piste enable-channel` enables it again. You can change its rules in the meantime.
#[derive(Args)]
#[command(override_usage = "piste disable-channel [OPTIONS] [-u | -k] NAME...")]
pub(crate) struct DisableChannel {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    /// Names of the channels
    #[arg(value_name = "NAME", required = true, value_delimiter = ',')]
    pub(crate) names: Vec<String>,
}

/// Take snapshots of a session created with --snapshot
#[derive(Subcommand)]
pub(crate) enum Snapshot {
    /// Write the events held in memory to a separate trace; recording continues
    Record {
        #[command(flatten)]
        session: SessionOption,
        /// Write the snapshot to DIR, which must be new or empty [default: the next snapshot-N-... in the session's folder]
        #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        output: Option<PathBuf>,
    },
}

/// Record the system's state again in the kernel trace
#[derive(Subcommand)]
pub(crate) enum Regenerate {
    /// Write another state dump (processes, open files, devices) into the kernel trace
    Statedump(OneSession),
}

/// End a session and keep its trace
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    pub(crate) session: OneSession,
    /// End all sessions
    #[arg(short, long, conflicts_with_all = ["name", "session"])]
    pub(crate) all: bool,
}

/// List programs, sessions, and the events that can be recorded
///
/// By default, lists the running programs with their events, and the sessions. -k and --syscalls list what the kernel can record. --symbols and
/// --usdt list the places where a program or library can be probed.
#[derive(Args)]
pub(crate) struct List {
    /// List only matching events (or system calls, functions, static probes), and only programs with a matching event; `*` matches any text
    pub(crate) pattern: Option<String>,
    /// List only programs
    #[arg(short = 'u', long = "programs", visible_alias = "userspace")]
    pub(crate) programs: bool,
    /// List only sessions
    #[arg(long, conflicts_with_all = ["programs", "pattern"])]
    pub(crate) sessions: bool,
    /// List only this session, with its channels
    #[arg(short, long, conflicts_with_all = ["programs", "sessions", "pattern"])]
    pub(crate) session: Option<String>,
    /// List the kernel's events; if only one matches, show its fields
    #[arg(short, long, conflicts_with_all = ["programs", "sessions", "session"])]
    pub(crate) kernel: bool,
    /// With -k: show the fields of each event
    #[arg(long, requires = "kernel")]
    pub(crate) fields: bool,
    /// List the system calls with their arguments
    #[arg(long, conflicts_with_all = ["programs", "sessions", "session", "kernel"])]
    pub(crate) syscalls: bool,
    /// List the functions of a program or library, for --uprobe
    #[arg(long, value_name = "BINARY", value_hint = ValueHint::FilePath, conflicts_with_all = ["programs", "sessions", "session", "kernel", "syscalls"])]
    pub(crate) symbols: Option<String>,
    /// List the static probes that a program or library contains, for --usdt
    #[arg(long, value_name = "BINARY", value_hint = ValueHint::FilePath, conflicts_with_all = ["programs", "sessions", "session", "kernel", "syscalls", "symbols"])]
    pub(crate) usdt: Option<String>,
    #[command(flatten)]
    pub(crate) page: PageOptions,
}

/// A session by option.
#[derive(Args)]
pub(crate) struct SessionOption {
    /// Session to use [default: the current one]
    #[arg(short, long)]
    pub(crate) session: Option<String>,
}

/// A session by name or option.
#[derive(Args)]
pub(crate) struct OneSession {
    /// Session to use [default: the current one]
    #[arg(value_name = "SESSION", conflicts_with = "session")]
    name: Option<String>,
    /// Same as the argument SESSION
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
    fn a_command_has_the_same_help_either_way() {
        let help = |line: [&str; 3]| {
            let mut command = groups::grouped(Arguments::command());
            command.try_get_matches_from_mut(line).unwrap_err().to_string()
        };
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            assert_eq!(help(["piste", "help", name]), help(["piste", name, "--help"]));
        }
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
            assert_eq!(record.user_patterns(), ["a:*"], "{line}");
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
            "piste track -a --follow",
            "piste track -u -k --pid 1",
            "piste track -u --cpu 1",
            "piste track -k --exec a",
            "piste track --exec a --cpu 1",
            "piste untrack",
            "piste untrack -k",
            "piste untrack -a",
            "piste add-trigger -k a --level err",
            "piste add-trigger -e a --per-second 0",
            "piste add-trigger -e a --per-second 1001",
            "piste add-trigger -e a --at-most 0",
            "piste add-trigger -e a --entry",
            "piste remove-trigger",
            "piste listen --count 0",
        ] {
            assert!(refused(line), "{line}");
        }
        for line in [
            "piste record -a -d 1s",
            "piste record -p 1,2",
            "piste track --pid 1 --follow",
            "piste track -a",
            "piste track --follow",
            "piste track -u --exec a --cgroup /a",
            "piste track --cpu 0",
            "piste untrack -k --cpu 0",
            "piste untrack --follow",
            "piste add-trigger late -e a --level err --per-second 1000 --at-most 1",
            "piste add-trigger --syscall open --exit --snapshot web",
            "piste add-trigger --uprobe /bin/sh:main --stop web",
            "piste remove-trigger a b,c",
            "piste listen",
            "piste listen a b --count 1 --run true",
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
