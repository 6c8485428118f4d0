// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `add-trigger`, `list-triggers`, `remove-trigger` and `listen`.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use piste_control::interface::{CallPart, LevelRange};

use super::events::{parse_levels, parse_only_level};
use super::{PageOptions, ProbeOptions};
use crate::quantity::{parse_duration, parse_size};
use crate::trigger::OrderedActions;

/// Act on an event: notify, take a snapshot, start a session
///
/// A trigger waits for one event of programs or of the kernel, for a duration between two events, or for something that happens to a session. Each
/// time that this happens, the trigger notifies `piste listen` and performs its actions in the order of the command line, until you remove the
/// trigger. Each action option can be repeated. The actions run with your rights. The sessions need not exist yet.
#[derive(Args)]
#[command(
    mut_arg("uprobe", |probe| probe.help("Wait until execution reaches a place in a program or library: 'BINARY:SYMBOL[+OFFSET][ ARGUMENT]...'")),
    mut_arg("uretprobe", |probe| probe.help("Wait for a return from a function of a program or library: 'BINARY:SYMBOL[ ARGUMENT]...'")),
    mut_arg("usdt", |probe| probe.help("Wait for a static probe (USDT) of a program or library: BINARY:PROVIDER:NAME")),
    mut_arg("kprobe", |probe| probe.help("Wait until execution reaches a place in the kernel: 'SYMBOL[+OFFSET][ ARGUMENT]...'")),
    mut_arg("kretprobe", |probe| probe.help("Wait for a return from a kernel function: 'SYMBOL[ ARGUMENT]...'")),
    override_usage = "piste add-trigger [OPTIONS] [NAME] -e PATTERN
       \
                      piste add-trigger [OPTIONS] [NAME] -k PATTERN | --syscall PATTERN | --on-loss SESSION | ...",
    after_help = "\
Examples:
  piste add-trigger expensive -e shop:order --filter 'price > 1000'
  piste add-trigger slow -e shop:answer --filter 'latency_ns > 50ms' --snapshot web --at-most 3
  piste add-trigger -k sched_process_exit --filter 'comm == \"shop\"' --context tid,procname
  piste add-trigger denied --syscall 'open*' --exit --filter 'ret == -13' --per-second 1
  piste add-trigger slow -e shop:asked --end-event shop:answered --by id --over 50ms --snapshot web
  piste add-trigger --syscall fsync --over 100ms
  piste add-trigger stuck --syscall fsync --over 5s --overdue --snapshot web
  piste add-trigger cut --on-size web=1G --rotate web
  piste add-trigger tight --on-fill web=80%
  piste listen slow --run ./tell-the-team"
)]
pub(crate) struct AddTrigger {
    /// Name of the trigger [default: trigger-N]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) condition: ConditionOptions,
    #[command(flatten)]
    pub(crate) actions: OrderedActions,
    /// Act at most N times in any second, 1 to 1000; other matches are only counted [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_per_second)]
    pub(crate) per_second: Option<i64>,
    /// Act at most N times in total, then stop waiting [default: no limit]
    #[arg(long, value_name = "N", value_parser = parse_times::<i64>)]
    pub(crate) at_most: Option<i64>,
}

/// What a trigger waits for. Each kind of event is a list, although there must be one in all: `condition::of` explains that.
#[derive(Args)]
pub(crate) struct ConditionOptions {
    /// Wait for an event of programs whose name matches PATTERN, `provider:event`; `*` matches any text
    #[arg(
        short = 'e',
        long = "event",
        short_alias = 'u',
        alias = "userspace",
        value_name = "PATTERN",
        value_delimiter = ','
    )]
    pub(crate) events: Vec<String>,
    /// Ignore matching events
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) excluded: Vec<String>,
    /// Wait only for events at least as severe as LEVEL, or from A to B: emerg, alert, crit, err, warning, notice, info, debug_system ... debug_line,
    /// debug
    #[arg(long, value_name = "LEVEL|A..B", value_parser = parse_levels, requires = "events")]
    pub(crate) level: Option<LevelRange>,
    /// Wait only for events of exactly this level
    #[arg(long, value_name = "LEVEL", value_parser = parse_only_level, requires = "events", conflicts_with = "level")]
    pub(crate) level_only: Option<LevelRange>,
    /// Wait only for events that satisfy EXPR: 'latency_ns > 5ms && customer =~ "a*"' (see piste-filter(7))
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
    /// Wait for something that takes longer than DURATION: from the event to the --end-event, or from the entry of a system call to its exit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["entry", "exit"])]
    pub(crate) over: Option<Duration>,
    /// End a duration at an event whose name matches PATTERN: an event of programs if the first event is one, otherwise a tracepoint
    #[arg(long, value_name = "PATTERN", requires = "over")]
    pub(crate) end_event: Option<String>,
    /// End a duration only at events that satisfy EXPR
    #[arg(long, value_name = "EXPR", requires = "over")]
    pub(crate) end_filter: Option<String>,
    /// End a duration only at an event with the same value of this field or context and, for events of programs, in the same process [default: at an
    /// event of the same thread]
    #[arg(long, value_name = "NAME", requires = "over")]
    pub(crate) by: Option<String>,
    /// Match as soon as DURATION is over, without waiting for the end: once for each duration, with the fields of the first event
    #[arg(long, requires = "over")]
    pub(crate) overdue: bool,
    /// Report these values with each match, in addition to the fields of the event, or `none`; `piste add-context --list` lists them [default:
    /// vtid,procname; for kernel events tid,procname]
    #[arg(long = "context", value_name = "CONTEXT", value_delimiter = ',')]
    pub(crate) contexts: Option<Vec<String>>,
    /// Wait for a tracepoint of the kernel whose name matches PATTERN: sched_process_exit, oom:*
    #[arg(
        short,
        long,
        value_name = "PATTERN",
        value_delimiter = ',',
        help_heading = "Kernel options"
    )]
    pub(crate) kernel: Vec<String>,
    /// Wait for system calls with matching names: open*
    #[arg(
        long = "syscall",
        value_name = "PATTERN",
        value_delimiter = ',',
        help_heading = "Kernel options"
    )]
    pub(crate) syscalls: Vec<String>,
    /// Wait only for the entries of the system calls of --syscall; with --exit, both
    #[arg(long, requires = "syscalls", help_heading = "Kernel options")]
    entry: bool,
    /// Wait only for the exits of the system calls of --syscall; with --entry, both
    #[arg(long, requires = "syscalls", help_heading = "Kernel options")]
    exit: bool,
    #[command(flatten, next_help_heading = "Kernel options")]
    pub(crate) probes: ProbeOptions,
    /// Match at the end of each rotation of SESSION
    #[arg(
        long,
        value_name = "SESSION",
        value_delimiter = ',',
        help_heading = "Session options"
    )]
    pub(crate) on_rotation: Vec<String>,
    /// Match each time that SESSION loses events
    #[arg(
        long,
        value_name = "SESSION",
        value_delimiter = ',',
        help_heading = "Session options"
    )]
    pub(crate) on_loss: Vec<String>,
    /// Match each time that SESSION has recorded another SIZE bytes: web=100M
    #[arg(long, value_name = "SESSION=SIZE", value_parser = parse_session_size, value_delimiter = ',', help_heading = "Session options")]
    pub(crate) on_size: Vec<(String, u64)>,
    /// Match each time that a program's ring in SESSION becomes PERCENT full: web=80%
    #[arg(long, value_name = "SESSION=PERCENT", value_parser = parse_session_percent, value_delimiter = ',', help_heading = "Session options")]
    pub(crate) on_fill: Vec<(String, i64)>,
}

impl ConditionOptions {
    /// The only part of system calls that is waited for; `None` for both.
    pub(crate) fn call_part(&self) -> Option<CallPart> {
        match (self.entry, self.exit) {
            (true, false) => Some(CallPart::entry),
            (false, true) => Some(CallPart::exit),
            _ => None,
        }
    }
}

/// List triggers, with their actions and counts
///
/// Lists the triggers of all users. MATCHED counts the events that matched, ACTED the matches on which the trigger acted, and MISSED the events that
/// may have matched but came too fast to be checked.
#[derive(Args)]
pub(crate) struct ListTriggers {
    #[command(flatten)]
    pub(crate) page: PageOptions,
}

/// Remove triggers, and print their last counts
///
/// Actions that have begun are completed. Only root can remove the triggers of other users.
#[derive(Args)]
pub(crate) struct RemoveTrigger {
    /// Names of the triggers
    #[arg(value_name = "NAME", required = true, value_delimiter = ',')]
    pub(crate) names: Vec<String>,
}

/// Print what triggers report, or run a command for each match
///
/// Prints a line for each match that a trigger acts on, and one for the outcome of each of its actions, as they happen. --json prints one object per
/// line. Ends on Ctrl-C.
#[derive(Args)]
#[command(after_help = "\
Exit status: 0 after --count matches or Ctrl-C; 1 if pisted ends; 2 if the arguments are wrong.

Examples:
  piste listen
  piste listen slow --run 'mail -s \"$PISTE_TRIGGER: $PISTE_EVENT\" ops@example.com'
  piste listen --json | jq 'select(.notice == \"match\").payload'")]
pub(crate) struct Listen {
    /// Names of the triggers [default: all that you may listen to, including those that are added later]
    #[arg(value_name = "NAME", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    /// End after N matches
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_times::<u64>)]
    pub(crate) count: Option<u64>,
    /// Run COMMAND with `sh -c` for each match, one at a time, with the match as JSON on its stdin, and the names of the trigger and the event in
    /// PISTE_TRIGGER and PISTE_EVENT
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// Do not print messages when listening begins and ends
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// `web=100M`
fn parse_session_size(text: &str) -> Result<(String, u64), String> {
    let (session, size) = text.rsplit_once('=').ok_or("must be SESSION=SIZE")?;
    match parse_size(size)? {
        0 => Err("the size must be 1 or more".into()),
        bytes => Ok((session.into(), bytes)),
    }
}

/// `web=80%`
fn parse_session_percent(text: &str) -> Result<(String, i64), String> {
    let (session, percent) = text.rsplit_once('=').ok_or("must be SESSION=PERCENT")?;
    let number = percent.strip_suffix('%').unwrap_or(percent).parse().ok();
    let percent = number.filter(|number| (1..=100).contains(number));
    Ok((session.into(), percent.ok_or("the percentage must be from 1 to 100")?))
}

/// How often a trigger may act in a second.
fn parse_per_second(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| "must be a number from 1 to 1000".into())
}

/// How often something may happen at most.
fn parse_times<T: FromStr + Ord + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| "must be a number, 1 or more".into())
}
