// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata file of a kernel trace: classes are added when their first event comes.
//!
//! Numbers of classes follow from the kernel's and from the rules, so that a consumer which takes over keeps the text that is there and
//! needs to know only which classes it has. An event that got the number of another one is kept apart by the fingerprints of the classes. The
//! file is replaced as a whole, never changed in place.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use piste_ctf::metadata::{Form, class_fingerprint, environment_line, event_class, opening, stream_class, uuid_text};
use piste_ctf::{EnvironmentValue, EventClass, StreamClass, Trace};
use piste_kernel::spec::Context;

use crate::consumer::clock::ClockError;
use crate::consumer::matches::Matches;
use crate::consumer::metadata::{BESIDE, WRITE_ERROR, domain_beside};
use crate::consumer::sink::{is_gone, replace_metadata};
use crate::consumer::storage::StorageError;
use crate::person::Person;

#[derive(Debug)]
pub(super) struct Metadata {
    owner: Person,
    folder: PathBuf,
    trace_uuid: [u8; 16],
    text: String,
    streams: BTreeSet<u32>,
    /// By stream class and class: its fingerprint.
    classes: BTreeMap<(u32, u32), u64>,
    written: bool,
    clock_error: ClockError,
    /// It is not in the file, and no packet needs it.
    has_news: bool,
    /// The folder has the metadata of another trace.
    is_foreign: bool,
    /// Those who read the packets here.
    matches: Option<Matches>,
    /// Where a chunk of the trace ends that may yet need more classes, and its uuid.
    old: Option<(PathBuf, [u8; 16])>,
}

impl Metadata {
    /// Goes on with what the folder has, if it is of this trace; else nothing can be written.
    pub(super) fn open(owner: Person, folder: &Path, trace: &Trace) -> Metadata {
        let mut metadata = Metadata {
            owner,
            folder: folder.into(),
            trace_uuid: trace.uuid,
            text: opening(trace, Form::Kernel),
            streams: BTreeSet::new(),
            classes: BTreeMap::new(),
            written: false,
            clock_error: ClockError::new(trace.clock.clone()),
            has_news: false,
            is_foreign: false,
            matches: None,
            old: None,
        };
        let read = metadata.owner.read(&folder.join("metadata"));
        match read.and_then(|text| String::from_utf8(text).map_err(io::Error::other)) {
            Ok(text) if uuid_line(&text) == uuid_line(&metadata.text) => metadata.take(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) | Err(_) => metadata.is_foreign = true,
        }
        metadata
    }

    /// What is written is told there, too.
    pub(super) fn tell(&mut self, matches: Matches) {
        self.matches = Some(matches);
        self.written = false;
    }

    pub(super) fn trace_uuid(&self) -> [u8; 16] {
        self.trace_uuid
    }

    /// Says that events of some threads only are recorded, from now on or for a while: the events do not tell it, and who reads them must
    /// not take a CPU for idle that others had.
    pub(super) fn say_selected_threads(&mut self) {
        self.mark("piste_selected_threads");
    }

    /// The same of some CPUs.
    pub(super) fn say_selected_cpus(&mut self) {
        self.mark("piste_selected_cpus");
    }

    /// Says that some of the events that tell which threads have the CPUs are recorded and others are not.
    pub(super) fn say_selected_events(&mut self) {
        self.mark("piste_selected_events");
    }

    /// Says which contexts the kernel did not record: what the threads were when their events were read.
    pub(super) fn say_derived_contexts(&mut self) {
        let derived = Context::ALL.into_iter().filter(|context| context.is_derived());
        let names: Vec<&str> = derived.map(Context::name).collect();
        self.say("piste_derived_contexts", names.join(", "));
    }

    /// Packets could not be written. The file says so when the disk has space for it again, or in the end.
    pub(super) fn say_write_error(&mut self, reason: String) {
        self.say(WRITE_ERROR, reason);
    }

    /// Says something that no packet needs, once.
    fn say(&mut self, key: &str, text: String) {
        if !self.text.contains(&format!("\n\t{key} = ")) {
            let line = environment_line(key, &EnvironmentValue::Text(text));
            self.text = self.text.replacen("env {\n", &format!("env {{\n{line}"), 1);
            self.has_news = true;
        }
    }

    /// Says how far the trace's clock is from the wall clock now, and what lies beside the trace. That, and why packets could not be written, is
    /// written next.
    pub(super) fn look_at_clock(&mut self) {
        if let Some(domain) = domain_beside(&self.owner, &self.folder) {
            self.say(BESIDE, domain.to_owned());
        }
        if self.clock_error.look() {
            self.text = self.clock_error.put_into(&self.text);
            self.written = false;
        }
        if std::mem::take(&mut self.has_news) {
            self.written = false;
        }
    }

    /// Whether somebody has removed the file. It is written again then, before the next packet or in the end.
    pub(super) fn is_gone(&mut self) -> bool {
        let is_gone = self.written && is_gone(&self.owner, &self.folder.join("metadata"));
        self.written &= !is_gone;
        is_gone
    }

    /// The same, in the file that is there: a chunk or the session ends.
    pub(super) fn note_clock(&mut self) {
        let is_gone = self.is_gone();
        self.look_at_clock();
        if is_gone || self.exists() {
            // Without space, it says what was known before; packets that need a new class have it written again.
            let _ = self.write();
        }
    }

    fn mark(&mut self, name: &str) {
        let line = format!("\t{name} = 1;\n");
        if !self.text.contains(&line) {
            self.text = self.text.replacen("env {\n", &format!("env {{\n{line}"), 1);
            self.written = false;
        }
    }

    pub(super) fn add_stream(&mut self, class: &StreamClass) {
        if self.streams.insert(class.id) {
            self.text += &stream_class(class);
            self.written = false;
        }
    }

    pub(super) fn add_class(&mut self, stream_id: u32, class: &EventClass) {
        if let Entry::Vacant(entry) = self.classes.entry((stream_id, class.id)) {
            let text = event_class(stream_id, class);
            entry.insert(class_fingerprint(&text));
            self.text += &text;
            self.written = false;
        }
    }

    /// The classes of a stream class by their number: the fingerprint of each.
    pub(super) fn classes_of(&self, stream_id: u32) -> HashMap<u32, u64> {
        let classes = self.classes.range((stream_id, 0)..=(stream_id, u32::MAX));
        classes.map(|((_, id), fingerprint)| (*id, *fingerprint)).collect()
    }

    /// Writes what is new; to be called before a packet that needs it.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn write(&mut self) -> Result<(), StorageError> {
        if self.is_foreign {
            let what = "it is the metadata of another trace; move it away, or record to another folder";
            let error = io::Error::new(io::ErrorKind::InvalidData, what);
            return Err(StorageError::new(&self.folder.join("metadata"), error));
        }
        if !self.written {
            if let Some((folder, trace_uuid)) = &self.old {
                self.write_next(folder, *trace_uuid)?;
            }
            self.write_to(&self.owner, &self.folder)?;
            if let Some(matches) = &self.matches {
                matches.describe(&self.text);
            }
            self.written = true;
        }
        Ok(())
    }

    /// The trace's next chunk has another uuid. In the `old` folder, what a stream needs that has not moved on is still written.
    pub(super) fn begin_chunk(&mut self, trace_uuid: [u8; 16], old: &Path) {
        self.text = self.text_of(trace_uuid);
        let old_uuid = std::mem::replace(&mut self.trace_uuid, trace_uuid);
        self.old = Some((old.into(), old_uuid));
    }

    /// As `begin_chunk`, where an earlier consumer began: what is here is the next chunk's.
    pub(super) fn resume_chunk(&mut self, old: &Path, old_uuid: [u8; 16]) {
        self.old = Some((old.into(), old_uuid));
    }

    /// All streams have moved on.
    pub(super) fn end_chunk(&mut self) {
        self.old = None;
    }

    /// Writes the file of another chunk of the trace to its folder.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn write_next(&self, folder: &Path, trace_uuid: [u8; 16]) -> Result<(), StorageError> {
        replace_metadata(&self.owner, folder, &self.text_of(trace_uuid))
    }

    fn text_of(&self, trace_uuid: [u8; 16]) -> String {
        self.text
            .replacen(&uuid_text(&self.trace_uuid), &uuid_text(&trace_uuid), 1)
    }

    /// What the file is to say, if it is this trace's.
    pub(super) fn text(&self) -> Option<&str> {
        (!self.is_foreign).then_some(&self.text)
    }

    /// Writes the file to any folder, as for a snapshot.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn write_to(&self, owner: &Person, folder: &Path) -> Result<(), StorageError> {
        replace_metadata(owner, folder, &self.text)
    }

    /// The trace was begun, by this consumer or an earlier one.
    pub(super) fn exists(&self) -> bool {
        !self.is_foreign && self.owner.sees(&self.folder.join("metadata"))
    }

    /// Takes text that an earlier consumer wrote, and finds what it describes: blocks that begin at the start of a line, with ids in
    /// lines of their own. Names are quoted, so that no other line looks like one.
    fn take(&mut self, text: String) {
        let (mut block, mut block_from, mut id) = ("", 0, None);
        let mut from = 0;
        for line in text.split('\n') {
            let begin = from;
            from += line.len() + 1;
            let number = |key: &str| line.strip_prefix(key)?.strip_suffix(';')?.parse::<u32>().ok();
            if let "stream {" | "event {" = line {
                (block, block_from, id) = (line, begin, None);
            } else if let Some(number) = number("\tid = ") {
                id = Some(number);
                if block == "stream {" {
                    self.streams.insert(number);
                }
            } else if let (Some(stream_id), Some(id), "event {") = (number("\tstream_id = "), id, block) {
                let fingerprint = class_fingerprint(&text[block_from..]);
                self.classes.insert((stream_id, id), fingerprint);
            }
        }
        self.clock_error.take(&text);
        self.text = text;
        self.written = true;
    }
}

fn uuid_line(text: &str) -> Option<&str> {
    text.lines().find(|line| line.trim_start().starts_with("uuid = "))
}

#[cfg(test)]
mod tests {
    use piste_ctf::{Clock, Field, FieldKind, NO_LEVEL};

    use std::fs;

    use super::*;

    fn trace(uuid: u8) -> Trace {
        let clock = Clock {
            name: "monotonic".into(),
            uuid: [1; 16],
            frequency_hz: 1_000_000_000,
            offset_seconds: 0,
            offset_ticks: 0,
            description: String::new(),
        };
        Trace {
            uuid: [uuid; 16],
            clock,
            environment: vec![],
        }
    }

    fn class(id: u32) -> EventClass {
        let field = Field {
            name: "event {\n\tid = 9;".into(),
            kind: FieldKind::String,
        };
        EventClass {
            id,
            name: "a\n\tid = 77;\n".into(),
            level: NO_LEVEL,
            contexts: vec![],
            fields: vec![field],
        }
    }

    fn stream(id: u32) -> StreamClass {
        StreamClass {
            id,
            channel: "default".into(),
            contexts: vec![],
        }
    }

    #[test]
    fn consumer_that_takes_over_adds_only_what_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Metadata::open(Person::default(), folder.path(), &trace(1));
        first.add_stream(&stream(0));
        first.add_class(0, &class(3));
        first.add_class(0, &class(70_000));
        assert!(!first.exists());
        first.write().unwrap();
        let text = fs::read_to_string(folder.path().join("metadata")).unwrap();

        let mut second = Metadata::open(Person::default(), folder.path(), &trace(1));
        second.add_stream(&stream(0));
        second.add_class(0, &class(3));
        second.add_class(0, &class(70_000));
        second.write().unwrap();
        assert_eq!(second.text, text);
        assert_eq!(second.classes, first.classes, "the text tells what other classes are");
        second.add_class(0, &class(4));
        second.add_stream(&stream(1));
        second.add_class(1, &class(3));
        second.write().unwrap();
        let longer = fs::read_to_string(folder.path().join("metadata")).unwrap();
        assert!(
            longer.starts_with(&text) && longer.matches("event {\n\tname").count() == 4,
            "{longer}"
        );
    }

    #[test]
    fn selected_threads_are_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut of_some = trace(1);
        of_some.environment = vec![("domain".into(), piste_ctf::EnvironmentValue::Text("kernel".into()))];
        let mut metadata = Metadata::open(Person::default(), folder.path(), &of_some);
        metadata.write().unwrap();
        metadata.say_selected_threads();
        metadata.say_selected_threads();
        metadata.write().unwrap();
        let text = fs::read_to_string(folder.path().join("metadata")).unwrap();
        assert_eq!(text.matches("piste_selected_threads = 1;").count(), 1, "{text}");
    }

    #[test]
    fn another_trace_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        Metadata::open(Person::default(), folder.path(), &trace(1))
            .write()
            .unwrap();
        let mut other = Metadata::open(Person::default(), folder.path(), &trace(2));
        assert!(!other.exists());
        let error = other.write().unwrap_err();
        assert!(error.to_string().contains("another trace"), "{error}");
    }
}
