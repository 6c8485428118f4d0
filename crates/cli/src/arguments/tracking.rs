// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `track` and `untrack`, of programs and of the kernel.

use clap::{ArgGroup, Args};

use crate::arguments::{DomainFlags, SessionOption};
use crate::ids::{parse_group, parse_id, parse_user};
use crate::tracked::{Cpus, parse_control_group, parse_cpus};

/// Choose the programs, threads and CPUs that a session records
///
/// Adds values, such as process or user IDs, to those that the session tracks. A session that tracks nothing records everything. If it tracks values
/// of several kinds, such as processes and users, it records only what matches every kind; within a kind, it is enough to match one value.
///
/// -u chooses programs; -k chooses the threads and CPUs whose kernel events are recorded. If you give neither, a program option or kernel option
/// selects its domain; otherwise, the command applies to the domain in which the session has channels. If the session has channels in both, you have
/// to give -u or -k.
#[derive(Args)]
#[command(
    mut_arg("of_programs", |flag| flag.help("Choose programs")),
    mut_arg("kernel", |flag| flag.help("Choose the threads and CPUs whose kernel events are recorded")),
    override_usage = "piste track [OPTIONS] [-u | -k] --pid PID | --uid UID | ...\n       piste track [OPTIONS] [-u | -k] --all",
    after_help = "\
Examples:
  piste track --pid 1234 --follow
  piste track -u --exec 'shop*,/usr/lib/shop/*'
  piste track -u --cgroup /system.slice/shop.service
  piste track -k --uid www-data --cpu 0-3
  piste track --all"
)]
pub(crate) struct Track {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    /// Record everything again
    #[arg(short, long, conflicts_with = "tracked", required_unless_present = "tracked")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) values: TrackedValues,
}

/// Remove programs, threads or CPUs that `track` added
///
/// Takes the same options as `track`. If you remove the last value of a kind, such as the last process or user, nothing is recorded until you track
/// another one. To record everything again, use `piste track --all`.
#[derive(Args)]
#[command(
    mut_arg("of_programs", |flag| flag.help("Change which programs are recorded")),
    mut_arg("kernel", |flag| flag.help("Change the threads and CPUs whose kernel events are recorded")),
    mut_arg("follow", |flag| flag.help("Stop following: keep the tracked processes, but not the processes that they started")),
    mut_group("tracked", |group| group.required(true)),
    override_usage = "piste untrack [OPTIONS] [-u | -k] --pid PID | --uid UID | ...",
    after_help = "\
Examples:
  piste untrack --pid 1234
  piste untrack -u --exec 'shop*'"
)]
pub(crate) struct Untrack {
    #[command(flatten)]
    pub(crate) session: SessionOption,
    #[command(flatten)]
    pub(crate) domain: DomainFlags,
    #[command(flatten)]
    pub(crate) values: TrackedValues,
}

/// What is tracked.
#[derive(Args)]
#[command(group = ArgGroup::new("tracked")
    .args(["pids", "follow", "uids", "gids", "executables", "control_groups", "process_groups", "process_sessions", "cpus"])
    .multiple(true))]
pub(crate) struct TrackedValues {
    /// Match processes by ID, with all their threads
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', value_parser = parse_id::<u32>)]
    pub(crate) pids: Vec<u32>,
    /// With --pid: also match the processes that these started or will start
    #[arg(long)]
    pub(crate) follow: bool,
    /// Match users, by ID or name
    #[arg(long = "uid", value_name = "UID", value_delimiter = ',', value_parser = parse_user)]
    pub(crate) uids: Vec<u32>,
    /// Match groups of users, by ID or name
    #[arg(long = "gid", value_name = "GID", value_delimiter = ',', value_parser = parse_group)]
    pub(crate) gids: Vec<u32>,
    /// Match executables by name or, if PATTERN has a slash, by path: shop*, /opt/shop/*
    #[arg(
        long = "exec",
        value_name = "PATTERN",
        value_delimiter = ',',
        conflicts_with = "kernel",
        help_heading = "Program options"
    )]
    pub(crate) executables: Vec<String>,
    /// Match control groups and the groups below them: /system.slice/shop.service
    #[arg(
        long = "cgroup",
        value_name = "PATH",
        value_delimiter = ',',
        value_parser = parse_control_group,
        conflicts_with = "kernel",
        help_heading = "Program options"
    )]
    pub(crate) control_groups: Vec<String>,
    /// Match process groups
    #[arg(
        long = "pgroup",
        value_name = "PGID",
        value_delimiter = ',',
        value_parser = parse_id::<u32>,
        conflicts_with_all = ["of_programs", "executables", "control_groups"],
        help_heading = "Kernel options"
    )]
    pub(crate) process_groups: Vec<u32>,
    /// Match process sessions (setsid)
    #[arg(
        long = "psession",
        value_name = "SID",
        value_delimiter = ',',
        value_parser = parse_id::<u32>,
        conflicts_with_all = ["of_programs", "executables", "control_groups"],
        help_heading = "Kernel options"
    )]
    pub(crate) process_sessions: Vec<u32>,
    /// Match CPUs: 0,2-3
    #[arg(
        long = "cpu",
        value_name = "LIST",
        value_parser = parse_cpus,
        conflicts_with_all = ["of_programs", "executables", "control_groups"],
        help_heading = "Kernel options"
    )]
    pub(crate) cpus: Option<Cpus>,
}
