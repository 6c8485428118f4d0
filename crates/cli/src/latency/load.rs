// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--load`: generators of load, each in a process of its own that runs `piste generate-load`, and stress-ng.
//!
//! A generator ends when its standard input does, so it ends with piste however piste ends; besides, the kernel kills it when piste is gone. It
//! writes a line when it is ready, and one with what it has done.
//!
//! - [`Loads`]: the processes of all kinds, seen from piste
//! - [`generate`]: one of them, from within

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use piste_latency::cpus;
use piste_latency::load::{self, Kind, Task, Work, is_in_memory};
use piste_reason::reason;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use tempfile::NamedTempFile;

use crate::arguments::{GenerateLoad, LoadChoice};
use crate::failure::Failure;

/// A generator that has not ended so long after it was told to is killed. A disk may take its time.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Generators at work.
pub(super) struct Loads {
    generators: Vec<Generator>,
    stress_ng: Option<StressNg>,
    /// Where they run.
    cpus: Vec<u32>,
    notes: Vec<String>,
}

struct Generator {
    kind: Kind,
    child: Child,
    output: BufReader<ChildStdout>,
}

struct StressNg {
    arguments: Vec<String>,
    child: Child,
    /// It writes what it has done into it.
    report: NamedTempFile,
}

/// What all generators of a kind have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// `cpu`, or `stress-ng cpu`.
    pub(super) name: String,
    /// How many there were; 0 if that is up to stress-ng.
    pub(super) processes: u64,
    pub(super) work: Work,
}

/// What kept the machine busy while it was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy {
    pub(super) cpus: Vec<u32>,
    pub(super) done: Vec<Done>,
}

impl Loads {
    /// Starts a generator of each kind on each CPU, and waits until all work. None if no load is wanted.
    pub(super) fn start(choices: &[LoadChoice], cpus: &[u32]) -> Result<Option<Loads>, Failure> {
        if choices.is_empty() {
            return Ok(None);
        }
        let mut loads = Loads {
            generators: Vec::new(),
            stress_ng: None,
            cpus: cpus.to_vec(),
            notes: Vec::new(),
        };
        let mut kinds: Vec<Kind> = Vec::new();
        for choice in choices {
            match choice {
                LoadChoice::All => kinds.extend(Kind::ALL),
                LoadChoice::Kind(kind) => kinds.push(*kind),
                LoadChoice::StressNg(arguments) => loads.stress_ng = Some(StressNg::start(arguments, cpus)?),
            }
        }
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.contains(&Kind::Disk) && is_in_memory(&folder()) {
            let folder = folder();
            loads.notes.push(format!(
                "the load `disk` reaches no disk, because {} is in memory; choose a folder on a disk with the environment variable TMPDIR",
                folder.display()
            ));
        }
        for kind in kinds {
            for cpu in cpus {
                let generator = Generator::start(kind, *cpu, cpus.len()).map_err(|error| {
                    Failure::new(format!("cannot start the load `{}`: {}", kind.name(), reason(&error)))
                })?;
                loads.generators.push(generator);
            }
        }
        for generator in &mut loads.generators {
            let mut line = String::new();
            let _ = generator.output.read_line(&mut line);
            if line.trim() != READY {
                let why = match line.trim() {
                    "" => "it ended before it began",
                    why => why,
                };
                return Err(Failure::new(format!(
                    "cannot run the load `{}`: {why}",
                    generator.kind.name()
                )));
            }
        }
        Ok(Some(loads))
    }

    /// What cannot be as it was asked for.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Ends all generators; what they have done, and what went wrong, as sentences without their ends.
    pub(super) fn finish(mut self) -> (Busy, Vec<String>) {
        let mut busy = Busy {
            cpus: self.cpus.clone(),
            done: Vec::new(),
        };
        let mut problems = Vec::new();
        for generator in &mut self.generators {
            // This tells it to end.
            drop(generator.child.stdin.take());
        }
        let begin = Instant::now();
        for mut generator in self.generators.drain(..) {
            let name = generator.kind.name();
            let has_ended = wait(&mut generator.child, begin);
            let mut line = String::new();
            let _ = generator.output.read_to_string(&mut line);
            let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [loops, bytes] = numbers[..] else {
                let why = match (has_ended, line.trim()) {
                    (false, _) => "it did not end when it was told to, and was killed",
                    (true, "") => "it ended early",
                    (true, why) => why,
                };
                problems.push(format!("a generator of the load `{name}` failed: {why}"));
                continue;
            };
            match busy.done.last_mut().filter(|done| done.name == name) {
                Some(done) => {
                    done.processes += 1;
                    done.work.loops += loops;
                    done.work.bytes += bytes;
                }
                None => busy.done.push(Done {
                    name: name.into(),
                    processes: 1,
                    work: Work { loops, bytes },
                }),
            }
        }
        if let Some(stress_ng) = self.stress_ng.take() {
            match stress_ng.finish() {
                Ok(done) => busy.done.extend(done),
                Err(why) => problems.push(why),
            }
        }
        (busy, problems)
    }
}

impl Drop for Loads {
    /// Ends what is left, if piste fails.
    fn drop(&mut self) {
        for generator in &mut self.generators {
            let _ = generator.child.kill();
            let _ = generator.child.wait();
        }
        if let Some(stress_ng) = &mut self.stress_ng {
            stress_ng.end();
        }
    }
}

/// Waits for the end, but only so long since `begin`; `false` if it had to be killed.
fn wait(child: &mut Child, begin: Instant) -> bool {
    while begin.elapsed() < PATIENCE {
        match child.try_wait() {
            Ok(None) => thread::sleep(PAUSE),
            _ => return true,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// The last piece of the command line of a generator; the parent's ID is in it.
fn own_command() -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("generate-load").arg(std::process::id().to_string());
    Ok(command)
}

impl Generator {
    fn start(kind: Kind, cpu: u32, sharing: usize) -> io::Result<Generator> {
        let mut child = own_command()?
            .arg(cpu.to_string())
            .arg("--kind")
            .arg(kind.name())
            .arg("--sharing")
            .arg(sharing.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Generator {
            kind,
            child,
            output: BufReader::new(output),
        })
    }
}

impl StressNg {
    fn start(arguments: &[String], cpus: &[u32]) -> Result<StressNg, Failure> {
        let cannot = |error: io::Error| Failure::new(format!("cannot start stress-ng: {}", reason(&error)));
        let found = Command::new("stress-ng")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match found {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Failure::new(
                    "stress-ng is not installed; install it (Debian: `apt install stress-ng`), or use the loads of piste: `--load all`",
                ));
            }
            Err(error) => return Err(cannot(error)),
        }
        let report = NamedTempFile::new().map_err(cannot)?;
        let mut command = own_command().map_err(cannot)?;
        command.arg(cpus::list(cpus)).arg("--stress-ng").arg("--");
        command
            .args(arguments)
            .arg("--metrics-brief")
            .arg("--yaml")
            .arg(report.path());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let mut stress_ng = StressNg {
            arguments: arguments.to_vec(),
            child,
            report,
        };
        stress_ng.wait_until_it_works();
        Ok(stress_ng)
    }

    /// Returns once it has started processes of its own, or has ended, which `finish` tells.
    fn wait_until_it_works(&mut self) {
        let pid = self.child.id();
        let begin = Instant::now();
        let has_children = || {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            children.is_ok_and(|children| !children.is_empty())
        };
        while !has_children() && matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
        }
    }

    fn end(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        wait(&mut self.child, Instant::now());
    }

    /// # Errors
    /// It had ended before, as a sentence without its end.
    fn finish(mut self) -> Result<Vec<Done>, String> {
        let before = self.child.try_wait().ok().flatten();
        self.end();
        if let Some(status) = before {
            let mut said = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                let _ = stderr.read_to_string(&mut said);
            }
            let said = said.trim().lines().next_back().unwrap_or_default().to_owned();
            let command = self.arguments.join(" ");
            return Err(format!(
                "stress-ng {command} ended before the measurement ({status}): {}",
                if said.is_empty() { "it says nothing" } else { &said }
            ));
        }
        let report = fs::read_to_string(self.report.path()).unwrap_or_default();
        Ok(of_stress_ng(&report))
    }
}

/// What stress-ng has done, by the pairs of `stressor: NAME` and `bogo-ops: COUNT` in its report.
fn of_stress_ng(report: &str) -> Vec<Done> {
    let mut done = Vec::new();
    let mut name = None;
    for line in report.lines() {
        let Some((key, value)) = line.trim().trim_start_matches("- ").split_once(": ") else {
            continue;
        };
        match (key, value.trim().parse(), name.take()) {
            ("stressor", _, _) => name = Some(value.trim().to_owned()),
            ("bogo-ops", Ok(loops), Some(name)) => done.push(Done {
                name: format!("stress-ng {name}"),
                processes: 0,
                work: Work { loops, bytes: 0 },
            }),
            (_, _, before) => name = before,
        }
    }
    done
}

/// As `--json` has it.
pub(super) fn answer(busy: &Busy) -> Value {
    let done = busy.done.iter().map(|done| {
        json!({ "name": done.name, "processes": done.processes, "loops": done.work.loops, "bytes": done.work.bytes })
    });
    json!({ "cpus": busy.cpus, "kinds": done.collect::<Vec<_>>() })
}

/// What a generator writes when it works.
const READY: &str = "ready";

/// Where files of the load `disk` are made: where files are kept for longer, because /tmp is often in memory.
fn folder() -> PathBuf {
    env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// `piste generate-load`: works until standard input ends, or becomes stress-ng.
pub(crate) fn generate(arguments: &GenerateLoad) -> Result<(), Failure> {
    // It ends with its parent; stress-ng ends its own processes when it is told to end.
    let signal = if arguments.stress_ng {
        Signal::TERM
    } else {
        Signal::KILL
    };
    let prepared = set_parent_process_death_signal(Some(signal)).map_err(io::Error::from);
    if prepared.is_err() || parent_id() != arguments.parent {
        return Err(Failure::new("generators of load are started by piste latency"));
    }
    let Ok(cpus) = cpus::parse(&arguments.cpus) else {
        return Err(Failure::new("not a list of CPUs"));
    };
    let pinned = load::pin(&cpus);
    if arguments.stress_ng {
        pinned.map_err(Failure::new)?;
        let arguments: Vec<&OsString> = arguments.arguments.iter().collect();
        let error = Command::new("stress-ng").args(arguments).exec();
        return Err(Failure::new(format!("cannot start stress-ng: {}", reason(&error))));
    }
    let Some(kind) = arguments.kind.as_deref().and_then(Kind::named) else {
        return Err(Failure::new("not a kind of load"));
    };
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C reaches it, too: piste ends it.
    let _ = flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
    let of_thread = Arc::clone(&stop);
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        // Relaxed: nothing else is said by it.
        of_thread.store(true, Ordering::Relaxed);
    });
    let task = Task {
        kind,
        sharing: arguments.sharing,
        folder: folder(),
    };
    let mut stdout = io::stdout();
    let ready = || {
        let _ = writeln!(io::stdout(), "{READY}").and_then(|()| io::stdout().flush());
    };
    let done = pinned.and_then(|()| load::generate(&task, &stop, ready));
    let line = match done {
        Ok(work) => format!("{} {}", work.loops, work.bytes),
        Err(why) => why,
    };
    // Whoever wanted to know may be gone.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stress_ng_did_is_read_from_its_report() {
        let report = "\
---
system-info:
      stress-ng-version: 0.15.06
metrics:
    - stressor: cpu
      bogo-ops: 1234
      bogo-ops-per-second-usr-sys-time: 100.5
    - stressor: vm
      bogo-ops: 56
...
";
        let done = of_stress_ng(report);
        let done: Vec<(&str, u64)> = done.iter().map(|done| (&*done.name, done.work.loops)).collect();
        assert_eq!(done, [("stress-ng cpu", 1234), ("stress-ng vm", 56)]);
    }
}
