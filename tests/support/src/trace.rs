// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as babeltrace2 reads it. That it complains about nothing is part of every reading.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{self, Running};

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
    /// `DEBUG_LINE (13)`, as babeltrace2 names it; empty for events of the kernel.
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

    /// The value of a field as it is printed, without the quotes of a text. Not for structures and arrays.
    pub fn field(&self, name: &str) -> Option<&str> {
        let start = self.fields.match_indices(name).find_map(|(index, _)| {
            let is_start = self.fields[..index].ends_with([' ', '{']);
            let value = self.fields[index + name.len()..].strip_prefix(" = ");
            value.filter(|_| is_start)
        })?;
        match start.strip_prefix('"') {
            Some(text) => text.split('"').next(),
            None => start.split([',', ' ']).next(),
        }
    }

    /// The thread it happened on, for events of the kernel.
    pub fn tid(&self) -> i32 {
        self.context("tid").parse().expect("a tid")
    }

    /// The process that recorded it, by its own pid namespace.
    pub fn vpid(&self) -> i32 {
        self.context("vpid").parse().expect("a pid")
    }

    fn parse(line: &str) -> Event {
        let parsed = || {
            let (ticks, rest) = line.strip_prefix('[')?.split_once("] ")?;
            let (level, rest) = match rest.strip_prefix("TRACE_") {
                Some(rest) => rest.split_once(')')?,
                None => ("", rest),
            };
            let (name, rest) = rest.trim_start().split_once(": {")?;
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
                level: if level.is_empty() {
                    String::new()
                } else {
                    format!("{level})")
                },
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

    /// Looks at every event of every stream, in the order of time.
    pub fn for_each(&self, mut look: impl FnMut(Event)) {
        let mut running = Running::start(self.as_text().stdin(Stdio::null()));
        while let Some(line) = running.next_line() {
            look(Event::parse(&line));
        }
        running.finish().expect_silent_success();
    }

    /// Every event of every stream, in the order of time.
    pub fn events(&self) -> Vec<Event> {
        let mut events = vec![];
        self.for_each(|event| events.push(event));
        events
    }

    /// The events, and how many of them babeltrace2 says are missing.
    pub fn events_and_loss(&self) -> (Vec<Event>, u64) {
        let finished = process::run(&mut self.as_text());
        finished.expect_success();
        let events = finished.stdout.lines().map(Event::parse).collect();
        // A hostile program may have written any number.
        let sum = finished.stderr.lines().map(discarded).fold(0, u64::saturating_add);
        (events, sum)
    }

    /// How often each event occurs.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        self.for_each(|event| *counts.entry(event.name).or_default() += 1);
        counts
    }

    /// Number of events, without their text: for large traces.
    pub fn event_count(&self) -> u64 {
        let finished = process::run(
            self.babeltrace2()
                .args(["--component=sink.utils.counter", "--params=step=+0"]),
        );
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

    /// Looks at the events of one stream file, in the order of the file: one that reads a single stream sorts nothing.
    pub fn for_each_of_stream(&self, stream: &str, look: impl FnMut(Event)) {
        let alone = tempfile::tempdir().expect("a temporary folder");
        for file in ["metadata", stream] {
            fs::copy(self.path.join("user").join(file), alone.path().join(file)).expect("the file is copied");
        }
        Trace::at(alone.path()).for_each(look);
    }

    /// The text of the metadata.
    pub fn metadata(&self) -> String {
        let path = self.path.join("user/metadata");
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    }

    fn babeltrace2(&self) -> Command {
        let mut command = Command::new("babeltrace2");
        command.arg(&self.path).env("LC_ALL", "C.UTF-8");
        command
    }

    fn as_text(&self) -> Command {
        let mut command = self.babeltrace2();
        command.args(["--clock-cycles", "--no-delta", "--fields=loglevel"]);
        command
    }
}

/// Events in `WARNING: Tracer discarded 24 events between ...`. That packets were overwritten is said too, in a sentence of its own.
fn discarded(line: &str) -> u64 {
    let counted = |what: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(3).find_map(|window| {
            let [verb, count, noun] = window else { return None };
            (["discarded", "lost"].contains(verb) && noun.starts_with(what)).then(|| count.parse().ok())?
        })
    };
    match (counted("event"), counted("packet")) {
        (Some(events), _) => events,
        (None, Some(0..)) => 0,
        (None, None) if line.trim().is_empty() => 0,
        (None, None) => panic!("babeltrace2 complains: {line}"),
    }
}
