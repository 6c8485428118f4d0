// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions. The script that `piste completions SHELL` prints asks this command, at each Tab, what can come next: names of options, and
//! values that nobody knows beforehand, such as those of sessions and of the kernel's events. A Tab starts no pisted and reports no failure:
//! whatever cannot be found out is not offered.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use piste_control::client::programs;
use piste_control::contexts::{OF_KERNEL, OF_PROGRAMS};
use piste_control::interface::VarlinkClientInterface;
use piste_control::{Client, Places};

use crate::analyze::{self, Subject};
use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::preload::HELPERS;
use crate::screen::show;

/// Set by the scripts, to the name of the shell.
const ASKED: &str = "PISTE_COMPLETE";
/// The kernel's list of its events, one `SUBSYSTEM:EVENT` a line, for those who may read it.
const KERNEL_EVENTS: &str = "/sys/kernel/tracing/available_events";

/// Whom there are scripts for.
pub(crate) fn shells() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(Shells::builtins().names())
}

/// `piste completions SHELL`
pub(crate) fn script(shell: &str) -> Result<(), Failure> {
    let mut script = Vec::new();
    if shell == "bash" {
        // Names of events have colons, at which bash would begin a new word.
        writeln!(script, "COMP_WORDBREAKS=${{COMP_WORDBREAKS//:/}}")?;
    }
    if let Some(shell) = Shells::builtins().completer(shell) {
        shell.write_registration(ASKED, "piste", "piste", "piste", &mut script)?;
    }
    show(&String::from_utf8_lossy(&script))
}

/// Answers a shell that asks what can come next, and ends. Returns if this is an ordinary run.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command).var(ASKED).complete();
}

/// The command line, with what its values can be.
fn command() -> Command {
    Arguments::command().mut_subcommands(with_values)
}

fn with_values(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|argument| match values(&name, &argument) {
        Some(values) => argument.add(ArgValueCompleter::new(move |begun: &OsStr| candidates(values, begun))),
        None => argument,
    });
    command.mut_subcommands(with_values)
}

/// What is on the command line.
struct Line {
    words: Vec<String>,
    /// The start of the value.
    begun: String,
}

impl Line {
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }
}

/// What an argument can be, among it all that begins as the value does.
type Values = fn(&Line) -> Vec<String>;

fn values(command: &str, argument: &Arg) -> Option<Values> {
    let is_of_session = argument
        .get_value_names()
        .is_some_and(|names| names.iter().any(|name| name == "SESSION"));
    Some(match (command, argument.get_id().as_str()) {
        ("analyze" | "diff", "name") => |_| analyze::names().map(str::to_owned).collect(),
        ("analyze" | "diff", "table") => tables,
        (_, "contexts") => contexts,
        ("record", "preload") => |_| HELPERS.map(str::to_owned).to_vec(),
        ("record" | "add-trigger", "kernel") => kernel_events,
        ("record", "userspace") | ("add-trigger", "events") => |_| program_events(),
        ("remove-trigger" | "listen", "names") => |_| triggers(),
        ("enable-event", "patterns") | ("list", "pattern") => events,
        (_, "syscall" | "syscalls") => |_| syscalls(),
        // A new one.
        ("create", _) => return None,
        ("set-session", "name") | (_, "session") => |_| sessions(),
        _ if is_of_session => |_| sessions(),
        _ => return None,
    })
}

fn candidates(values: Values, begun: &OsStr) -> Vec<CompletionCandidate> {
    let line = Line {
        words: std::env::args().collect(),
        begun: begun.to_string_lossy().into_owned(),
    };
    let mut values = values(&line);
    values.retain(|value| value.starts_with(&line.begun));
    values.sort_unstable();
    values.dedup();
    values.into_iter().map(CompletionCandidate::new).collect()
}

/// Those of the analysis that is on the command line.
fn tables(line: &Line) -> Vec<String> {
    let named = line.words.iter().find_map(|word| Subject::find(word).ok());
    let tables = named.map_or(&[][..], Subject::tables);
    tables.iter().map(|table| (*table).to_owned()).collect()
}

/// Options of `add-trigger` that choose an event of the kernel, beside `-k`.
const OF_KERNEL_EVENTS: [&str; 6] = [
    "--syscall",
    "--uprobe",
    "--uretprobe",
    "--usdt",
    "--kprobe",
    "--kretprobe",
];

fn contexts(line: &Line) -> Vec<String> {
    let is_of_kernel = || OF_KERNEL_EVENTS.into_iter().any(|option| line.has(option));
    match line.has("-k") || line.has("--kernel") || line.has("add-trigger") && is_of_kernel() {
        true => OF_KERNEL.map(|context| context.name.to_owned()).to_vec(),
        false => OF_PROGRAMS.map(|context| context.name.to_owned()).to_vec(),
    }
}

fn events(line: &Line) -> Vec<String> {
    match line.has("-k") || line.has("--kernel") {
        true => kernel_events(line),
        false => program_events(),
    }
}

/// Subsystems (`sched:`) and events without them (`sched_switch`); within a subsystem, its events.
fn kernel_events(line: &Line) -> Vec<String> {
    let text = fs::read_to_string(KERNEL_EVENTS).unwrap_or_default();
    let events = text.lines().filter_map(|event| Some((event, event.split_once(':')?)));
    match (line.begun.contains(':'), line.begun.is_empty()) {
        (true, _) => events.map(|(event, _)| event.to_owned()).collect(),
        (false, true) => events.map(|(_, (subsystem, _))| format!("{subsystem}:")).collect(),
        (false, false) => events
            .flat_map(|(_, (subsystem, name))| [format!("{subsystem}:"), name.to_owned()])
            .collect(),
    }
}

fn syscalls() -> Vec<String> {
    let text = fs::read_to_string(KERNEL_EVENTS).unwrap_or_default();
    let names = text
        .lines()
        .filter_map(|event| event.strip_prefix("syscalls:sys_enter_"));
    names.map(str::to_owned).collect()
}

fn program_events() -> Vec<String> {
    let programs = pisted().and_then(|mut pisted| programs(pisted.calls()).ok());
    let events = programs.into_iter().flatten().flat_map(|program| program.events);
    events.map(|event| event.name).collect()
}

fn sessions() -> Vec<String> {
    let sessions = pisted().and_then(|mut pisted| Some(pisted.calls().list_sessions().call().ok()?.sessions));
    sessions.into_iter().flatten().map(|session| session.name).collect()
}

fn triggers() -> Vec<String> {
    let triggers = pisted().and_then(|mut pisted| Some(pisted.calls().list_triggers().call().ok()?.triggers));
    triggers.into_iter().flatten().map(|trigger| trigger.name).collect()
}

/// The one that runs, if one does.
fn pisted() -> Option<Client> {
    Client::connect(&Places::for_commands().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn completed(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let last = words.len() - 1;
        let candidates = clap_complete::engine::complete(&mut command(), words, last, None).expect("candidates");
        let names = candidates
            .iter()
            .map(|candidate| candidate.get_value().to_string_lossy());
        names.map(|name| name.into_owned()).collect()
    }

    #[test]
    fn values_that_are_known_beforehand_are_offered() {
        assert_eq!(completed("piste analyze critical"), ["critical-path"]);
        assert_eq!(completed("piste record --preload libc"), ["libc", "libc-callers"]);
        assert_eq!(
            completed("piste record --preload pthread,li"),
            ["pthread,libc", "pthread,libc-callers"]
        );
        assert_eq!(completed("piste record --preset sch"), ["sched"]);
        assert_eq!(completed("piste completions ba"), ["bash"]);
    }

    #[test]
    fn tables_are_those_of_the_analysis() {
        let line = Line {
            words: ["piste", "analyze", "critical-path", "trace", "--table", ""]
                .map(str::to_owned)
                .to_vec(),
            begun: String::new(),
        };
        assert_eq!(tables(&line), ["causes", "threads", "behind", "path"]);
    }
}
