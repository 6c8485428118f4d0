// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as babeltrace2 reads it. That it complains about nothing is part of every reading.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{self, Finished};

/// A folder with a trace.
pub struct Trace {
    path: PathBuf,
}

/// An event as babeltrace2 prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Ticks of the trace clock.
    pub ticks: u64,
    /// `provider:event`
    pub name: String,
    /// `DEBUG_LINE (13)`, as babeltrace2 names it.
    pub level: String,
    /// Packet context and event contexts: their fields, in order.
    pub contexts: Vec<(String, String)>,
    /// The fields with the braces around them.
    pub fields: String,
}

impl Event {
    /// A number among the fields.
    ///
    /// # Panics
    /// The event has no such field, or it is no number.
    pub fn number(&self, field: &str) -> u64 {
        let text = self.fields.split([' ', ',']).skip_while(|&word| word != field).nth(2);
        text.and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("no number {field:?} in {self:?}"))
    }

    /// A context.
    ///
    /// # Panics
    /// The event does not have it.
    pub fn context(&self, name: &str) -> &str {
        let found = self.contexts.iter().find(|(context, _)| context == name);
        &found.unwrap_or_else(|| panic!("no context {name:?} in {self:?}")).1
    }

    /// The process that recorded it, by its own pid namespace.
    pub fn vpid(&self) -> i32 {
        self.context("vpid").parse().expect("a pid")
    }

    fn parse(line: &str) -> Event {
        let parsed = || {
            let (ticks, rest) = line.strip_prefix('[')?.split_once("] ")?;
            let (name, rest) = rest.split_once(": loglevel = ")?;
            let (level, rest) = rest.split_once(", {")?;
            // Contexts are plain numbers; the last group are the fields, which may hold anything.
            let mut contexts = vec![];
            let mut rest = rest;
            while let Some((group, behind)) = rest.split_once(" }, {") {
                if group.contains(['"', '{', '[', '(']) {
                    break;
                }
                let pairs = group.split(',').filter_map(|pair| pair.split_once(" = "));
                contexts.extend(pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())));
                rest = behind;
            }
            Some(Event {
                ticks: ticks.parse().ok()?,
                name: name.to_owned(),
                level: level.to_owned(),
                contexts,
                fields: format!("{{{rest}"),
            })
        };
        parsed().unwrap_or_else(|| panic!("babeltrace2 printed {line:?}"))
    }
}

impl Trace {
    /// The trace in that folder.
    pub fn at(path: impl Into<PathBuf>) -> Trace {
        Trace { path: path.into() }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every event of every stream, in the order of time.
    pub fn events(&self) -> Vec<Event> {
        let finished = self.babeltrace2(&[]);
        finished.expect_silent_success();
        events_of(&finished)
    }

    /// The events, and how many of them babeltrace2 says are missing.
    pub fn events_and_loss(&self) -> (Vec<Event>, u64) {
        let finished = self.babeltrace2(&[]);
        finished.expect_success();
        (events_of(&finished), finished.stderr.lines().map(discarded).sum())
    }

    /// How often each event occurs.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for event in self.events() {
            *counts.entry(event.name).or_default() += 1;
        }
        counts
    }

    /// Number of events, without their text: for large traces.
    pub fn event_count(&self) -> u64 {
        let finished = self.babeltrace2(&["--component=sink.utils.counter", "--params=step=+0"]);
        finished.expect_silent_success();
        let line = finished.stdout.lines().find(|line| line.contains("Event message"));
        let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        count.unwrap_or_else(|| panic!("no count: {finished}"))
    }

    /// The stream files, without their folder.
    pub fn streams(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path.join("user")).into_iter().flatten();
        let files = entries.filter_map(|entry| entry.ok().filter(|entry| entry.path().is_file()));
        let mut names: Vec<String> = files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name != "metadata");
        names.sort();
        names
    }

    /// The events of one stream file, in the order of the file: one that reads a single stream sorts nothing.
    pub fn events_of_stream(&self, stream: &str) -> Vec<Event> {
        let alone = tempfile::tempdir().expect("a temporary folder");
        for file in ["metadata", stream] {
            fs::copy(self.path.join("user").join(file), alone.path().join(file)).expect("the file is copied");
        }
        Trace::at(alone.path()).events()
    }

    fn babeltrace2(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new("babeltrace2");
        command.arg(&self.path).env("LC_ALL", "C.UTF-8");
        if arguments.is_empty() {
            command.args(["--clock-cycles", "--no-delta", "--fields=loglevel"]);
        }
        process::run(command.args(arguments))
    }
}

fn events_of(finished: &Finished) -> Vec<Event> {
    finished.stdout.lines().map(Event::parse).collect()
}

/// `[warning] Tracer discarded 24 events between ...`
fn discarded(line: &str) -> u64 {
    if line.trim().is_empty() {
        return 0;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let of_events = words.windows(3).find_map(|window| match window {
        ["discarded", count, "events" | "event"] => count.parse().ok(),
        _ => None,
    });
    of_events.unwrap_or_else(|| panic!("babeltrace2 complains: {line}"))
}
