// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests of the kernel domain: whether it can be tested here, and sessions that record it.
//!
//! These tests need root and a tracefs that answers. Where one is missing they say `skipped: REASON`, which tools/test counts.

use std::env;
use std::fs::{self, File};
use std::ops::Deref;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{getpriority_process, setpriority_process};
use serde_json::Value;

use crate::build_tree::repository;
use crate::{Trace, Workplace, process};

/// Nobody else who asks to be alone records the kernel on this machine until it is dropped: a test that floods the rings would make others lose
/// events. Since others wait, the thread that has it goes before those with a higher niceness, and so do programs that it starts.
pub struct Alone {
    file: File,
    niceness: i32,
}

/// Waits until one may record alone. Tests that compute for long with what they recorded ask for each recording.
///
/// # Panics
/// No file can be made in the folder for temporary ones.
pub fn alone() -> Alone {
    let file = File::create(env::temp_dir().join("piste-test-kernel.lock")).expect("a file can be made there");
    flock(&file, FlockOperation::LockExclusive).expect("nothing interrupts it");
    let niceness = getpriority_process(None).expect("this thread exists");
    // Only with the right to; without it, others wait longer.
    let _ = setpriority_process(None, niceness.min(0));
    Alone { file, niceness }
}

impl Alone {
    fn end(&self) {
        flock(&self.file, FlockOperation::Unlock).expect("nothing interrupts it");
        let _ = setpriority_process(None, self.niceness);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.end();
    }
}

/// A workplace that records the kernel, alone.
pub struct KernelWorkplace {
    place: Workplace,
    alone: Alone,
}

impl KernelWorkplace {
    /// Lets other tests record, once this one records no more.
    ///
    /// # Panics
    /// Never.
    pub fn let_others_record(&self) {
        self.alone.end();
    }
}

impl Deref for KernelWorkplace {
    type Target = Workplace;

    fn deref(&self) -> &Workplace {
        &self.place
    }
}

/// A workplace that alone records the kernel. Prints why and returns `None` where the kernel cannot be recorded.
pub fn workplace() -> Option<KernelWorkplace> {
    let place = shared_workplace()?;
    Some(KernelWorkplace { place, alone: alone() })
}

/// A workplace that records the kernel beside others, for few events with enough room, or alone while it says so.
pub fn shared_workplace() -> Option<Workplace> {
    static LACK: OnceLock<String> = OnceLock::new();
    let reason = LACK.get_or_init(|| {
        let lack = process::run(&mut Command::new(repository().join("tools/kernel-lack")));
        lack.expect_success().stdout.trim().to_owned()
    });
    if reason.is_empty() {
        return Some(Workplace::new());
    }
    println!("skipped: {reason}");
    None
}

/// The id of the owner that the run folder has: it is in the names of all that a pisted makes in tracefs.
///
/// # Panics
/// No pisted of root's ran there.
pub fn owner(place: &Workplace) -> String {
    let text = fs::read_to_string(place.run_folder().join("kernel/owner")).expect("a pisted of root's ran here");
    text.trim_end().to_owned()
}

/// Names of the tracefs instances of the pisted that runs there, or ran there.
///
/// # Panics
/// No pisted of root's ran there.
pub fn instances_of(place: &Workplace) -> Vec<String> {
    let prefix = format!("piste-{}-", owner(place));
    let entries = fs::read_dir("/sys/kernel/tracing/instances").expect("tracefs is mounted");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// All probes in programs, of everybody. While others remove some, the kernel leaves out one of those that follow if the list is read in pieces, so
/// it is read until it says the same twice.
///
/// # Panics
/// The kernel has no such list.
pub fn list_of_probes() -> String {
    let read = || fs::read_to_string("/sys/kernel/tracing/uprobe_events").expect("the kernel has a list of probes");
    let mut list = read();
    loop {
        let again = read();
        if again == list {
            return list;
        }
        list = again;
    }
}

/// Time that the host of this virtual machine took from its CPUs since it started.
///
/// # Panics
/// The kernel does not count it.
pub fn stolen_ns() -> i64 {
    const TICK_NS: i64 = 10_000_000;
    let text = fs::read_to_string("/proc/stat").expect("the kernel's counts");
    // cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL
    let ticks = text.split_whitespace().nth(8).expect("a count of what is stolen");
    TICK_NS * ticks.parse::<i64>().expect("a number")
}

/// A session of the kernel domain, with a channel `kernel` that the options describe.
pub struct KernelSession<'a> {
    place: &'a Workplace,
}

impl<'a> KernelSession<'a> {
    /// Creates it; nothing is enabled yet.
    pub fn create(place: &'a Workplace, channel_options: &[&str]) -> KernelSession<'a> {
        let output = place.path("trace");
        place.piste_succeeds(&["create", "kernel", "-o", output.to_str().expect("UTF-8")]);
        place.piste_succeeds(&[&["enable-channel", "-k", "kernel"], channel_options].concat());
        KernelSession { place }
    }

    /// Enables events in its channel.
    pub fn enable(&self, events: &[&str]) -> &Self {
        self.place
            .piste_succeeds(&[&["enable-event", "-k", "-c", "kernel"], events].concat());
        self
    }

    /// Records only these processes, from now on.
    pub fn track(&self, options: &[&str]) -> &Self {
        self.place.piste_succeeds(&[&["track", "-k"], options].concat());
        self
    }

    /// Starts recording.
    pub fn start(&self) -> &Self {
        self.place.piste_succeeds(&["start"]);
        self
    }

    /// Ends it: the status of its channel `kernel` as it was at the end, and the trace.
    pub fn end(self) -> (Value, Trace) {
        let status = self.place.piste_json(&["destroy"]);
        let channels = status["channels"].as_array().expect("channels");
        let is_ours = |channel: &&Value| channel["settings"]["name"] == "kernel";
        let channel = channels.iter().find(is_ours).unwrap_or_else(|| panic!("{status:#}"));
        (channel.clone(), Trace::at(self.place.path("trace")))
    }
}
