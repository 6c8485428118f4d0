// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste strace`: a recording of system calls that is printed while it grows, and then removed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;
use piste_analysis::model::descriptor_calls;
use piste_following::{Followed, Follower};
use piste_reason::reason;
use piste_strace::{Descriptors, Event, Options, Order, Printer, Summary, TimeFormat, Undecoded};
use piste_syscalls::{Architecture, Class, Syscall, Table};
use piste_trace::{OpenError, Span};

use crate::arguments::{Arguments, Command, Record, SortBy, Strace};
use crate::descriptors::OpenFiles;
use crate::failure::{Failure, USAGE};
use crate::quantity::counted;
use crate::record;
use crate::screen::{printable, tell_sentence};
use crate::view::{Calls, Disorder};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two flushes.
const FLUSH_PAUSE: Duration = Duration::from_millis(200);
/// What is recorded of texts that are read and written.
const STRING_BYTES_MAX: u16 = 4096;

/// `piste strace`. The status is the command's.
pub(crate) fn strace(arguments: &Strace) -> Result<u8, Failure> {
    let mut calls = traced_calls(&arguments.traced)?;
    let is_all = calls.iter().any(|call| call == "*");
    let open_files = match arguments.decode_fds && !arguments.summary_only {
        true => Some(
            OpenFiles::new()
                .map_err(|error| Failure::new(format!("cannot find out which files are open: {}", reason(&error))))?,
        ),
        false => None,
    };
    // The command begins with the one, and the other tells the status.
    let mut needed = vec!["execve", "exit_group"];
    if open_files.is_some() {
        let known: BTreeSet<&str> = every_call().map(|call| call.program_name).collect();
        needed.extend(descriptor_calls().filter(|call| known.contains(call)));
    }
    let unwanted: BTreeSet<String> = needed
        .into_iter()
        .map(str::to_owned)
        .filter(|call| !is_all && !calls.contains(call))
        .collect();
    calls.extend(unwanted.iter().cloned());
    let out: Box<dyn Write + Send> = match &arguments.output {
        Some(path) => Box::new(create(path)?),
        None => Box::new(io::stderr()),
    };
    let folder = tempfile::Builder::new()
        .prefix("piste-strace-")
        .tempdir()
        .map_err(|error| Failure::new(format!("cannot create a temporary folder: {}", reason(&error))))?;
    let trace = folder.path().join("trace");
    let recording = recording(arguments, &calls, &trace);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let printing = scope.spawn(|| Printing::new(arguments, unwanted, open_files, out).follow(&trace, &is_over));
        let recorded = record::record_quietly(&recording);
        is_over.store(true, Ordering::Release);
        let printed = printing.join().expect("printing does not panic");
        let recorded = recorded?;
        printed.map_err(Failure::of_record)?;
        if recorded.lost_events > 0 {
            tell_sentence(&format!(
                "{} lost; trace fewer calls (-e), or use `piste record --kernel-subbuf-count N` and `piste view --format strace`",
                counted(recorded.lost_events, "event")
            ));
        }
        Ok(recorded.exit_status)
    })
}

fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    let file = File::create(path);
    let file = file.map_err(|error| Failure::new(format!("cannot create {path:?}: {}", reason(&error))))?;
    Ok(BufWriter::new(file))
}

/// The recording: as a command line of `piste record`.
fn recording(arguments: &Strace, calls: &[String], trace: &Path) -> Box<Record> {
    let limit = arguments.string_limit.min(STRING_BYTES_MAX).to_string();
    let events = match arguments.decode_fds {
        true => "signal_deliver,sched_process_exit,task_newtask,sched_process_fork,sched_process_exec",
        false => "signal_deliver,sched_process_exit",
    };
    let mut words: Vec<OsString> = ["piste", "record", "--no-user", "-k", events, "--insights", "never"]
        .map(OsString::from)
        .to_vec();
    words.extend([
        "--strings".into(),
        limit.into(),
        "--syscall".into(),
        calls.join(",").into(),
    ]);
    words.extend(["-o".into(), trace.into()]);
    for pid in &arguments.pids {
        words.extend(["-p".into(), pid.to_string().into()]);
    }
    words.push("--".into());
    words.extend(arguments.command.iter().cloned());
    match Arguments::try_parse_from(words).map(|arguments| arguments.command) {
        Ok(Command::Record(record)) => record,
        _ => unreachable!("it is a command line of record"),
    }
}

/// The names of the calls that are traced.
fn traced_calls(sets: &[String]) -> Result<Vec<String>, Failure> {
    let mut all = BTreeSet::new();
    for set in sets {
        let set = set.strip_prefix("trace=").unwrap_or(set);
        let (is_inverted, set) = set.strip_prefix('!').map_or((false, set), |set| (true, set));
        if let Some((what, _)) = set.split_once('=') {
            let sentence = format!("-e {what}=...: only `trace=` is supported");
            return Err(Failure::with_status(sentence, USAGE));
        }
        if set == "all" && !is_inverted {
            return Ok(vec!["*".to_owned()]);
        }
        let mut named = BTreeSet::new();
        for name in set.split(',') {
            named.extend(called(name)?);
        }
        match is_inverted {
            true => all.extend(
                every_call()
                    .map(|call| call.program_name)
                    .filter(|name| !named.contains(name)),
            ),
            false => all.extend(named),
        }
    }
    match (sets.is_empty(), all.is_empty()) {
        (true, _) => Ok(vec!["*".to_owned()]),
        (false, true) => Err(Failure::with_status("-e selects no system calls", USAGE)),
        (false, false) => Ok(all.into_iter().map(str::to_owned).collect()),
    }
}

/// The calls that a name or a class means.
fn called(name: &str) -> Result<Vec<&'static str>, Failure> {
    let refused = |sentence: String| Err(Failure::with_status(sentence, USAGE));
    // A `?` in front: it need not be there.
    let (is_optional, name) = name.strip_prefix('?').map_or((false, name), |name| (true, name));
    if name.starts_with('/') {
        return refused(format!(
            "-e {}: regular expressions are not supported; name the calls, or use a class such as %file",
            printable(name)
        ));
    }
    if let Some(class) = Class::named(name.strip_prefix('%').unwrap_or(name)) {
        return Ok(every_call()
            .filter(|call| class.has(call))
            .map(|call| call.program_name)
            .collect());
    }
    let is_meant = |call: &&Syscall| call.name == name || call.program_name == name;
    let found: Vec<&str> = every_call().filter(is_meant).map(|call| call.program_name).collect();
    if found.is_empty() && !is_optional {
        let names = every_call().map(|call| call.program_name);
        let near = match piste_patterns::nearest(name, names, 1).as_slice() {
            [near, ..] => format!("; did you mean {near}?"),
            [] => String::new(),
        };
        return refused(format!("-e {}: there is no such system call{near}", printable(name)));
    }
    Ok(found)
}

fn every_call() -> impl Iterator<Item = &'static Syscall> {
    let tables = [Table::Native, Table::Compat].into_iter();
    tables.flat_map(|table| Architecture::HERE.all(table))
}

/// What prints.
struct Printing {
    out: Box<dyn Write + Send>,
    printer: Printer,
    summary: Option<(Summary, Order)>,
    choice: Choice,
    /// With -y.
    open_files: Option<OpenFiles>,
}

/// Which of the recorded events are printed.
struct Choice {
    /// The command was not executed so far: calls are those of piste's own child.
    is_early: bool,
    /// Without -f, only the calls of the thread that executes the command.
    is_single: bool,
    only: Option<i32>,
    /// Calls that are recorded and not printed.
    unwanted: BTreeSet<String>,
}

impl Choice {
    /// Whether this event executes the command.
    fn begins_with(&mut self, call: Option<&str>, tid: i32) -> bool {
        if !self.is_early || call != Some("execve") {
            return false;
        }
        self.is_early = false;
        self.only = self.is_single.then_some(tid);
        true
    }

    /// An event that is not a call is a signal or the end of a thread. These come only after the command was executed, even if they are
    /// read before.
    fn has(&self, call: Option<&str>, tid: i32) -> bool {
        let is_early = self.is_early && call.is_some();
        let is_meant = self.only.is_none_or(|only| only == tid);
        let is_unwanted = call.is_some_and(|call| self.unwanted.contains(call));
        !is_early && is_meant && !is_unwanted
    }
}

impl Printing {
    fn new(
        arguments: &Strace,
        unwanted: BTreeSet<String>,
        open_files: Option<OpenFiles>,
        out: Box<dyn Write + Send>,
    ) -> Printing {
        let order = match arguments.summary_sort_by {
            SortBy::Time => Order::Time,
            SortBy::Calls => Order::Calls,
            SortBy::Errors => Order::Errors,
            SortBy::Name => Order::Name,
        };
        Printing {
            out,
            printer: Printer::new(options(arguments)),
            summary: arguments.summary_only.then(|| (Summary::default(), order)),
            choice: Choice {
                is_early: arguments.pids.is_empty(),
                is_single: !arguments.follow_forks && arguments.pids.is_empty(),
                only: None,
                unwanted,
            },
            open_files,
        }
    }

    /// Prints what is recorded, until it is over.
    fn follow(mut self, folder: &Path, is_over: &AtomicBool) -> Result<(), Failure> {
        let mut follower: Option<Follower> = None;
        let mut disorder = Disorder::default();
        let unreadable = |error: io::Error| Failure::new(format!("cannot read what was recorded: {}", reason(&error)));
        let unopened = |error: OpenError| Failure::new(printable(&error.to_string()));
        loop {
            // Asked before the files are looked at: what is written until then is seen.
            let is_last = is_over.load(Ordering::Acquire);
            if follower.is_none() && folder.exists() {
                // The folder is there before the session that writes it.
                let followed = Followed::find(folder).filter(|followed| is_last || followed.session().is_some());
                follower = followed.map(|followed| Follower::new(vec![followed], FLUSH_PAUSE));
            }
            let news = follower.as_mut().map(|follower| follower.look(is_last)).transpose();
            disorder.tell(follower.as_ref().and_then(Follower::disorder));
            if let Some(news) = news.map_err(unopened)?.flatten() {
                if let Some(open_files) = &mut self.open_files {
                    open_files.model.reopen(&news.traces);
                }
                let merge = news.round.merge(&news.traces, Span::ALL).map_err(unreadable)?;
                self.print(&mut Calls::whole(merge), is_last)
                    .map_err(|error| Failure::new(format!("cannot write the calls: {}", reason(&error))))?;
            }
            if is_last {
                return self
                    .end()
                    .map_err(|error| Failure::new(format!("cannot write the calls: {}", reason(&error))));
            }
            thread::sleep(PAUSE);
        }
    }

    fn print(&mut self, calls: &mut Calls<'_>, is_last: bool) -> io::Result<()> {
        let mut text = Vec::new();
        while let Some((happened, fields)) = calls.take_next() {
            let event = happened.of(&fields);
            if let Some(open_files) = &mut self.open_files {
                open_files.model.event(&mut calls.merge, &happened.merged, event.tid);
            }
            if !self.is_wanted(&event) {
                self.printer.note(&event);
                continue;
            }
            match &mut self.summary {
                Some((summary, _)) => summary.event(&event),
                None => {
                    let open_files = self.open_files.as_ref().map(|known| known as &dyn Descriptors);
                    self.printer.event(&event, open_files.unwrap_or(&Undecoded), &mut text);
                }
            }
            if text.len() > 64 << 10 {
                self.out.write_all(&text)?;
                text.clear();
            }
        }
        if is_last && self.summary.is_none() {
            self.printer.finish(&mut text);
        }
        self.out.write_all(&text)?;
        self.out.flush()
    }

    fn is_wanted(&mut self, event: &Event<'_>) -> bool {
        let (call, tid) = (event.call(), event.tid);
        if self.choice.begins_with(call, tid)
            && let Some(open_files) = &mut self.open_files
        {
            open_files.begin_command(tid);
        }
        self.choice.has(call, tid)
    }

    fn end(mut self) -> io::Result<()> {
        if let Some((summary, order)) = &self.summary {
            self.out.write_all(summary.table(*order).as_bytes())?;
        }
        self.out.flush()
    }
}

fn options(arguments: &Strace) -> Options {
    let times = match (arguments.relative_timestamps, arguments.time) {
        (true, _) => TimeFormat::Relative,
        (false, 0) => TimeFormat::None,
        (false, 1) => TimeFormat::Seconds,
        (false, 2) => TimeFormat::Microseconds,
        (false, _) => TimeFormat::Epoch,
    };
    Options {
        times,
        durations: arguments.syscall_times,
        text_bytes: arguments.string_limit.into(),
        threads: arguments.follow_forks || !arguments.pids.is_empty(),
        zone_seconds: jiff::Zoned::now().offset().seconds().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(is_single: bool) -> Choice {
        Choice {
            is_early: true,
            is_single,
            only: None,
            unwanted: BTreeSet::from(["close".to_owned()]),
        }
    }

    #[test]
    fn calls_before_the_command_is_executed_are_left_out() {
        let mut choice = choice(false);
        assert!(!choice.has(Some("dup2"), 7));
        assert!(!choice.begins_with(Some("dup2"), 7));
        assert!(choice.begins_with(Some("execve"), 7));
        assert!(choice.has(Some("execve"), 7));
        assert!(choice.has(Some("dup2"), 8));
        assert!(!choice.has(Some("close"), 7));
        assert!(
            !choice.begins_with(Some("execve"), 8),
            "the command was executed before"
        );
    }

    /// They are in other streams than the calls.
    #[test]
    fn signals_and_ends_of_threads_that_are_read_before_any_call_are_printed() {
        assert!(choice(false).has(None, 7));
        assert!(choice(true).has(None, 7));
    }

    #[test]
    fn without_children_only_the_thread_that_executes_the_command_is_printed() {
        let mut choice = choice(true);
        assert!(choice.begins_with(Some("execve"), 7));
        assert!(choice.has(Some("read"), 7) && choice.has(None, 7));
        assert!(!choice.has(Some("read"), 8) && !choice.has(None, 8));
    }
}
