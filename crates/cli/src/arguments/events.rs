// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `enable-event` and `disable-event`, of programs' events and of the kernel's.

use clap::{ArgAction, Args};
use piste_control::interface::{self, CallPart, Level, LevelRange};
use piste_control::level::LEVELS;

use crate::arguments::{ProbeOptions, SessionOption};
use crate::call_stack::{self, AddressRange, StackChoice};
use crate::preset::{self, Preset};
use piste_patterns::nearest;

/// Record matching events of programs or of the kernel
///
/// Records the matching events of all programs, including programs that start later.
#[derive(Args)]
#[command(
    mut_arg("uprobe", |probe| probe.requires("kernel")),
    mut_arg("uretprobe", |probe| probe.requires("kernel")),
    mut_arg("usdt", |probe| probe.requires("kernel")),
    mut_arg("kprobe", |probe| probe.requires("kernel")),
    mut_arg("kretprobe", |probe| probe.requires("kernel")),
    override_usage = "piste enable-event [OPTIONS] [-u] PATTERN...\n       piste enable-event [OPTIONS] -k PATTERN...\n       \
                      piste enable-event [OPTIONS] -k --preset NAME | --syscall PATTERN | --uprobe PLACE | ...",
    after_help = "\
Examples:
  piste enable-event 'shop:*' -x 'shop:debug_*' --level info
  piste enable-event shop:order --filter 'price > 1000 && customer =~ \"a*\"'
  piste enable-event -k sched_switch --filter 'prev_prio < 0'
  piste enable-event -k sched_switch --callstack kernel,user:16
  piste enable-event -k --preset sched,syscalls
  piste enable-event -k --syscall 'open*,read,write'
  piste enable-event -k --syscall execve --entry
  piste enable-event -k --uprobe '/bin/bash:readline prompt=+0(%di):string'
  piste enable-event -k --usdt libstdc++.so.6:libstdcxx:throw"
)]
pub(crate) struct EnableEvent {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    /// Names of events, `provider:event`, or with -k of tracepoints; `*` matches any text
    #[arg(
        value_name = "PATTERN",
        value_delimiter = ',',
        required_unless_present_any = ["all", "syscalls", "presets", "uprobe", "uretprobe", "usdt", "kprobe", "kretprobe"]
    )]
    pub(crate) patterns: Vec<String>,
    /// Record all events
    #[arg(short, long, conflicts_with = "patterns")]
    pub(crate) all: bool,
    /// Channels to record the events in [default: default, created if missing]
    #[arg(short, long = "channel", value_name = "CHANNEL", value_delimiter = ',')]
    pub(crate) channels: Vec<String>,
    /// Exclude matching events
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) excluded: Vec<String>,
    /// Record only events at least as severe as LEVEL, or from A to B: emerg, alert, crit, err, warning, notice, info, debug_system ... debug_line, debug
    #[arg(long, alias = "loglevel", value_name = "LEVEL|A..B", value_parser = parse_levels, conflicts_with = "kernel")]
    pub(crate) level: Option<LevelRange>,
    /// Record only events of exactly this level
    #[arg(long, alias = "loglevel-only", value_name = "LEVEL", value_parser = parse_only_level, conflicts_with_all = ["level", "kernel"])]
    pub(crate) level_only: Option<LevelRange>,
    /// Record only events that satisfy EXPR: 'latency_ns > 5ms && customer =~ "a*"' (see piste-filter(7))
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) kernel: KernelEventOptions,
}

/// What only the kernel's events have.
#[derive(Args)]
#[command(next_help_heading = "Kernel options")]
pub(crate) struct KernelEventOptions {
    /// Record system calls with matching names, at their entry and exit: open*,read
    #[arg(long = "syscall", value_name = "PATTERN", value_delimiter = ',', requires = "kernel")]
    pub(crate) syscalls: Vec<String>,
    /// Record only the entries of the system calls of --syscall; with --exit, both
    #[arg(long, requires = "syscalls")]
    pub(crate) entry: bool,
    /// Record only the exits of the system calls of --syscall; with --entry, both
    #[arg(long, requires = "syscalls")]
    pub(crate) exit: bool,
    /// Record a set of kernel events
    #[arg(long = "preset", value_name = "NAME", value_delimiter = ',', value_parser = preset::parser(), requires = "kernel")]
    pub(crate) presets: Vec<&'static Preset>,
    #[command(flatten)]
    pub(crate) probes: ProbeOptions,
    /// Set the name of the probe's event in the trace [default: derived from the place]
    #[arg(long, requires = "kernel", conflicts_with_all = ["patterns", "all", "syscalls", "presets", "usdt"])]
    pub(crate) name: Option<String>,
    /// Record only these fields, by their names in the trace
    #[arg(long, value_name = "FIELD", value_delimiter = ',', requires = "kernel")]
    pub(crate) fields: Vec<String>,
    /// Record the call stack of each event: kernel, user or kernel,user; append :DEPTH to limit the number of frames: kernel:8
    #[arg(long, value_name = "STACKS[:DEPTH]", value_parser = call_stack::parse_choice, requires = "kernel")]
    pub(crate) callstack: Option<StackChoice>,
    /// Record only stack frames with addresses from A up to, but not including, B
    #[arg(long, value_name = "A-B", value_parser = call_stack::parse_range, requires = "callstack")]
    pub(crate) callstack_range: Option<AddressRange>,
}

impl KernelEventOptions {
    /// The only part of system calls that is recorded; `None` for both.
    pub(crate) fn call_part(&self) -> Option<CallPart> {
        match (self.entry, self.exit) {
            (true, false) => Some(CallPart::entry),
            (false, true) => Some(CallPart::exit),
            _ => None,
        }
    }
}

/// Disable a rule that enable-event added
#[derive(Args)]
#[command(override_usage = "piste disable-event [OPTIONS] [-u | -k] PATTERN...")]
pub(crate) struct DisableEvent {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    /// Patterns as given to enable-event; for a probe, the name of its event
    #[arg(value_name = "PATTERN", required_unless_present = "all", value_delimiter = ',')]
    pub(crate) patterns: Vec<String>,
    /// Disable all rules of the channels
    #[arg(short, long, conflicts_with = "patterns")]
    pub(crate) all: bool,
    /// Channels that have the rule [default: default]
    #[arg(short, long = "channel", value_name = "CHANNEL", value_delimiter = ',')]
    pub(crate) channels: Vec<String>,
}

/// `-u` or `-k`, which are understood before, after and between names.
#[derive(Args)]
pub(crate) struct DomainFlags {
    /// Use events of programs (the default)
    #[arg(id = "of_programs", short = 'u', long = "userspace", action = ArgAction::Count, conflicts_with = "kernel")]
    userspace: u8,
    /// Use events of the kernel
    #[arg(short, long, action = ArgAction::Count)]
    kernel: u8,
}

impl DomainFlags {
    /// The domain that was chosen; programs by default.
    pub(crate) fn chosen(&self) -> interface::Domain {
        self.named().unwrap_or(interface::Domain::user)
    }

    /// The domain that was named.
    pub(crate) fn named(&self) -> Option<interface::Domain> {
        match (self.userspace, self.kernel) {
            (0, 0) => None,
            (_, 0) => Some(interface::Domain::user),
            _ => Some(interface::Domain::kernel),
        }
    }
}

/// `info`, which means this and more severe, or `err..info`, in any order.
pub(super) fn parse_levels(text: &str) -> Result<LevelRange, String> {
    let (one, other) = match text.split_once("..") {
        Some((one, other)) => (parse_level(one)?, parse_level(other)?),
        None => (Level::emerg, parse_level(text)?),
    };
    let (most_severe, least_severe) = match one.number() <= other.number() {
        true => (one, other),
        false => (other, one),
    };
    Ok(LevelRange {
        most_severe,
        least_severe,
    })
}

pub(super) fn parse_only_level(name: &str) -> Result<LevelRange, String> {
    let level = parse_level(name)?;
    Ok(LevelRange {
        most_severe: level.clone(),
        least_severe: level,
    })
}

fn parse_level(name: &str) -> Result<Level, String> {
    Level::from_name(name).ok_or_else(|| {
        let names = LEVELS.iter().map(|(_, name)| *name);
        match nearest(name, names.clone(), 1).first() {
            Some(near) => format!("there is no such level; did you mean {near:?}?"),
            None => format!(
                "there is no such level; use one of {}",
                names.collect::<Vec<_>>().join(", ")
            ),
        }
    })
}
