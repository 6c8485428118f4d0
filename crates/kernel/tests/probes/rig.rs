// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tracefs instance and an owner of one test's own; both are gone, with all probes, when the test ends.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use piste_kernel::probe::{self, Asker, Plans, ProbeEvent, Probes};
use piste_kernel::spec::{EventSource, Rule};
use piste_kernel::tracefs::Tracefs;
use tempfile::TempDir;

use crate::real;

pub(crate) const SESSION: u64 = 1;
pub(crate) const CHANNEL: &str = "default";
const REMOVAL_MAX: Duration = Duration::from_secs(3);

pub(crate) struct Rig {
    pub(crate) tracefs: Tracefs,
    pub(crate) owner: String,
    pub(crate) folder: TempDir,
    instance: PathBuf,
    /// One test at a time works on the kernel's list.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Rig {
    /// None, once said why, where probes cannot be tried.
    pub(crate) fn new() -> Option<Rig> {
        let tracefs = real::tracefs()?;
        if !tracefs.has("uprobe_events") {
            real::skipped("this kernel has no uprobes");
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = new_owner();
        let instance = tracefs.path(format!("instances/piste-{owner}-{SESSION}-{CHANNEL}"));
        fs::create_dir(&instance).unwrap();
        Some(Rig {
            tracefs,
            owner,
            folder: tempfile::tempdir().unwrap(),
            instance,
            _turn: turn,
        })
    }

    /// Defines the probes of sources; nothing may be missing.
    pub(crate) fn define(&self, sources: &[EventSource]) -> Probes {
        let (probes, findings) = self.try_define(sources);
        assert_eq!(findings, [""; 0]);
        probes
    }

    pub(crate) fn try_define(&self, sources: &[EventSource]) -> (Probes, Vec<String>) {
        let rules = rules(sources);
        Probes::define(
            &self.tracefs,
            &self.owner,
            SESSION,
            CHANNEL,
            &rules,
            Plans::of(&rules, Asker::Root),
        )
    }

    /// Records the events in the instance.
    pub(crate) fn enable(&self, events: &[ProbeEvent]) {
        for event in events {
            fs::write(self.instance.join(event.folder()).join("enable"), "1").unwrap();
        }
    }

    /// Runs a program that waits for a line; records no other, with `is_tracked` it and nothing else. Returns what it printed.
    pub(crate) fn run(&self, program: &Path, arguments: &[&str], is_tracked: bool) -> String {
        let child = wait_at_the_gate(program, arguments);
        if is_tracked {
            fs::write(self.instance.join("set_event_pid"), child.id().to_string()).unwrap();
        }
        pass_the_gate(child)
    }

    /// What was recorded of an event: what tracefs prints behind its name, without the address.
    pub(crate) fn records(&self, event: &ProbeEvent) -> Vec<String> {
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        let mark = format!(" {}: (", event.event);
        let fields = |line: &str| Some(line.split_once(&mark)?.1.split_once(')')?.1.trim().to_owned());
        text.lines().filter_map(fields).collect()
    }

    /// The lines of the kernel's list that are of this rig's owner.
    pub(crate) fn listed(&self) -> Vec<String> {
        listed(&self.tracefs, &self.owner)
    }

    pub(crate) fn instance(&self) -> &Path {
        &self.instance
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        let left = probe::leftovers(&self.tracefs, &[&self.owner]);
        let removed = remove(&self.instance);
        if !thread::panicking() {
            assert_eq!(left, [""; 0]);
            removed.unwrap();
        }
    }
}

/// Whoever removes probes of their own looks for a moment into every instance, which is busy then.
fn remove(instance: &Path) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match fs::remove_dir(instance) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && begun.elapsed() < REMOVAL_MAX => {
                thread::sleep(Duration::from_millis(10));
            }
            removed => return removed,
        }
    }
}

pub(crate) fn rules(sources: &[EventSource]) -> Vec<Rule> {
    let rule = |source: &EventSource| Rule {
        source: source.clone(),
        excluded: vec![],
        filter: None,
        fields: vec![],
        stack: None,
        enabled: true,
    };
    sources.iter().map(rule).collect()
}

pub(crate) fn uprobe(binary: &Path, place: &str, arguments: &[&str]) -> EventSource {
    function(binary, place, arguments, false)
}

pub(crate) fn uretprobe(binary: &Path, place: &str, arguments: &[&str]) -> EventSource {
    function(binary, place, arguments, true)
}

fn function(binary: &Path, place: &str, arguments: &[&str], is_return: bool) -> EventSource {
    EventSource::Uprobe {
        name: "probed".into(),
        binary: binary.to_str().unwrap().into(),
        place: place.into(),
        arguments: arguments.iter().map(|&argument| argument.into()).collect(),
        is_return,
    }
}

pub(crate) fn usdt(binary: &Path, probe: &str) -> EventSource {
    EventSource::Usdt {
        binary: binary.to_str().unwrap().into(),
        provider: "shop".into(),
        probe: probe.into(),
    }
}

pub(crate) fn listed(tracefs: &Tracefs, owner: &str) -> Vec<String> {
    let list = tracefs.read("uprobe_events").unwrap();
    list.lines()
        .filter(|line| line.contains(&format!("piste_{owner}_")))
        .map(String::from)
        .collect()
}

/// An id that nobody had: names of probes are never used again.
pub(crate) fn new_owner() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let count = u64::from(COUNT.fetch_add(1, Ordering::Relaxed));
    format!(
        "{:016x}",
        time.rotate_left(20) ^ u64::from(std::process::id()) ^ (count << 56)
    )
}

pub(crate) fn wait_at_the_gate(program: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", program.parent().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn pass_the_gate(mut child: Child) -> String {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
