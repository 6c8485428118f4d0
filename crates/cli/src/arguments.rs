// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: every command with its options. The texts here are the help, the man pages and the completions.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use piste_control::interface::Level;
use piste_control::level::LEVELS;

use crate::channel_options::ChannelOptions;
use crate::nearest::nearest;
use crate::screen::{BAD, STRONG};

/// Records what programs did, on one clock
#[derive(Parser)]
#[command(
    name = "piste",
    version,
    styles = Styles::plain().header(STRONG).usage(STRONG).literal(STRONG).invalid(BAD).valid(STRONG),
    propagate_version = false,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Most used: `piste record -- CMD` records a command and what it starts; `babeltrace2 DIR` shows the trace."
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
    /// Start recording, or go on after a stop
    Start(OneSession),
    /// Stop recording; the session and its channels stay
    Stop(OneSession),
    #[command(subcommand)]
    Snapshot(Snapshot),
    Destroy(Destroy),
    List(List),
    /// Show a session: its channels, rules, counts, losses and findings
    Status(OneSession),
    /// Print the version of this command and of the running pisted
    Version,
    /// Print a shell's completions
    ///
    /// For example: piste completions bash > /etc/bash_completion.d/piste
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages
    #[command(hide = true)]
    Man {
        /// Folder to write them to
        folder: PathBuf,
    },
}

/// Record a command and everything it starts
///
/// Runs CMD with the input, output and error of this command, and exits with CMD's status. Only CMD and what it starts is
/// recorded. The summary goes to stderr.
#[derive(Args)]
#[command(
    override_usage = "piste record [OPTIONS] [--] CMD [ARG]...",
    after_help = "\
Exit status: CMD's own, or
  128 + N  signal N killed CMD
  127      CMD is not found
  126      CMD cannot be executed
  125      piste failed
  90       CMD succeeded and something was lost, with --fail-on-loss

Examples:
  piste record -- ./shop
  piste record -u 'shop:*' -x 'shop:debug_*' -o trace -- ./shop --port 80
  piste record --preload libc --preload pthread -- python3 script.py"
)]
pub(crate) struct Record {
    /// Folder for the trace: a new or empty one [default: ./piste-YYYYmmdd-HHMMSS]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Record the events that match, `*` stands for any text [default: all]
    #[arg(short = 'u', long = "userspace", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) patterns: Vec<String>,
    /// Leave out the events that match
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) excluded: Vec<String>,
    /// Load a helper into CMD, for programs without events of their own: libc, pthread, dl, functions
    #[arg(long, value_name = "HELPER", value_delimiter = ',')]
    pub(crate) preload: Vec<String>,
    /// Write the summary to FILE as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) summary: Option<PathBuf>,
    /// Exit with status 90 if CMD succeeded and any event or packet was lost
    #[arg(long)]
    pub(crate) fail_on_loss: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) channel: ChannelOptions,
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
#[command(override_usage = "piste enable-channel [OPTIONS] [-u] NAME")]
pub(crate) struct EnableChannel {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: Domain,
    /// Name of the channel
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) options: ChannelOptions,
}

/// Record the events that match, in programs of now and later
#[derive(Args)]
#[command(override_usage = "piste enable-event [OPTIONS] [-u] PATTERN...")]
pub(crate) struct EnableEvent {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: Domain,
    /// Names of events, `provider:event`, `*` stands for any text
    #[arg(value_name = "PATTERN", required_unless_present = "all", value_delimiter = ',')]
    pub(crate) patterns: Vec<String>,
    /// All events
    #[arg(short, long, conflicts_with = "patterns")]
    pub(crate) all: bool,
    /// Channel that records them, made if missing [default: default]
    #[arg(short, long)]
    pub(crate) channel: Option<String>,
    /// Leave out the events that match
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) excluded: Vec<String>,
    /// Only events at least as grave: emerg, alert, crit, err, warning, notice, info, debug_system ... debug_line, debug
    #[arg(long, alias = "loglevel", value_parser = parse_level)]
    pub(crate) level: Option<Level>,
    /// Only events of exactly this level
    #[arg(long, alias = "loglevel-only", value_name = "LEVEL", value_parser = parse_level, conflicts_with = "level")]
    pub(crate) level_only: Option<Level>,
}

/// Stop recording the events of a rule
#[derive(Args)]
#[command(override_usage = "piste disable-event [OPTIONS] [-u] PATTERN...")]
pub(crate) struct DisableEvent {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: Domain,
    /// Patterns as they were enabled
    #[arg(value_name = "PATTERN", required_unless_present = "all", value_delimiter = ',')]
    pub(crate) patterns: Vec<String>,
    /// All rules of the channel
    #[arg(short, long, conflicts_with = "patterns")]
    pub(crate) all: bool,
    /// The channel [default: default]
    #[arg(short, long)]
    pub(crate) channel: Option<String>,
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

/// End a session; its trace stays
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    pub(crate) session: OneSession,
    /// All sessions
    #[arg(short, long, conflicts_with_all = ["name", "session"])]
    pub(crate) all: bool,
}

/// List the programs with their events, and the sessions
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

/// `-u`, which is understood before, after and between names; there is no other domain to choose.
#[derive(Args)]
pub(crate) struct Domain {
    /// User space events
    #[arg(short = 'u', long = "userspace", action = ArgAction::Count)]
    _userspace: u8,
}

fn parse_level(name: &str) -> Result<Level, String> {
    Level::from_name(name).ok_or_else(|| {
        let names = LEVELS.iter().map(|(_, name)| *name);
        match nearest(name, names.clone(), 1).first() {
            Some(near) => format!("no such level; did you mean {near:?}?"),
            None => format!("no such level; there are {}", names.collect::<Vec<_>>().join(", ")),
        }
    })
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
