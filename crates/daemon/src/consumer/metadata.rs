// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata file of a trace: collects what control says about the trace, and writes the file before a packet needs it.
//!
//! The text is made in crates/ctf, and written as sink.rs says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use piste_ctf::metadata::{self, Form};
use piste_ctf::{EnvironmentValue, EventClass, StreamClass, Trace};

use super::clock::ClockError;
use super::sink::replace_metadata;
use super::storage::StorageError;
use crate::person::Person;

/// Why the trace could not be written for a while, as its environment says.
pub(crate) const WRITE_ERROR: &str = "piste_write_error";

/// What else was recorded with the trace, as its environment says: the other domain's trace lies beside it.
pub(crate) const BESIDE: &str = "piste_beside";

/// The other domain, if its trace lies beside the one in `folder`.
pub(crate) fn domain_beside(owner: &Person, folder: &Path) -> Option<&'static str> {
    let other = match folder.file_name()?.to_str()? {
        "user" => "kernel",
        "kernel" => "user",
        _ => return None,
    };
    let metadata = folder.with_file_name(other).join("metadata");
    owner.sees(&metadata).then_some(other)
}

/// What is known of a trace, and whether the file says it.
#[derive(Debug)]
pub(super) struct Metadata {
    trace: Trace,
    streams: BTreeMap<u32, Described>,
    written: bool,
    /// What the file has, once it is written.
    file_bytes: usize,
    clock_error: ClockError,
    /// Why packets could not be written, the first time.
    write_error: Option<String>,
    /// The other domain, if its trace lies beside this one.
    beside: Option<&'static str>,
    /// Something is not in the file, and no packet needs it.
    has_news: bool,
    /// Where a chunk of the trace ends that may yet need more classes.
    old: Option<OldChunk>,
}

/// A chunk whose streams move on to the next one.
#[derive(Debug)]
struct OldChunk {
    folder: PathBuf,
    trace_uuid: [u8; 16],
}

#[derive(Debug)]
struct Described {
    stream: StreamClass,
    classes: BTreeMap<u32, EventClass>,
}

impl Metadata {
    pub(super) fn new(trace: Trace) -> Self {
        Self {
            clock_error: ClockError::new(trace.clock.clone()),
            trace,
            streams: BTreeMap::new(),
            written: false,
            file_bytes: 0,
            write_error: None,
            beside: None,
            has_news: false,
            old: None,
        }
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Adds a channel, or describes it anew; one that has event classes stays as it is.
    pub(super) fn add_stream(&mut self, stream: StreamClass) {
        let known = self.streams.get(&stream.id);
        if known.is_none_or(|known| known.classes.is_empty() && known.stream != stream) {
            self.written = false;
            let classes = BTreeMap::new();
            self.streams.insert(stream.id, Described { stream, classes });
        }
    }

    /// Whether a channel has event classes.
    pub(super) fn has_classes(&self, stream_id: u32) -> bool {
        let stream = self.streams.get(&stream_id);
        stream.is_some_and(|stream| !stream.classes.is_empty())
    }

    /// Adds an event class; one that is known stays as it is, as does a channel that is not known.
    pub(super) fn add_class(&mut self, stream_id: u32, class: EventClass) {
        if let Some(described) = self.streams.get_mut(&stream_id) {
            described.classes.entry(class.id).or_insert_with(|| {
                self.written = false;
                class
            });
        }
    }

    /// Looks how far the trace's clock is from the wall clock. That, and why packets could not be written, is written next.
    pub(super) fn look_at_clock(&mut self) {
        if self.clock_error.look() | std::mem::take(&mut self.has_news) {
            self.written = false;
        }
    }

    /// Looks what lies beside the trace in a folder. That is written next.
    pub(super) fn look_beside(&mut self, owner: &Person, folder: &Path) {
        if self.beside.is_none() {
            self.beside = domain_beside(owner, folder);
            self.has_news |= self.beside.is_some();
        }
    }

    /// Goes on saying what an earlier consumer said in the file that is there: it alone knew.
    pub(super) fn recall(&mut self, owner: &Person, folder: &Path) {
        let begin = format!("\t{WRITE_ERROR} = \"");
        let text = owner.read(&folder.join("metadata")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let said = text
            .lines()
            .find_map(|line| line.strip_prefix(&*begin)?.strip_suffix("\";"));
        self.write_error = said.map(str::to_owned);
    }

    /// Packets could not be written. The file says so when the disk has space for it again, or in the end.
    pub(super) fn say_write_error(&mut self, reason: String) {
        if self.write_error.is_none() {
            self.write_error = Some(reason);
            self.has_news = true;
        }
    }

    /// The file says everything.
    pub(super) fn is_written(&self) -> bool {
        self.written
    }

    /// Whoever needs it knows everything.
    pub(super) fn need_not_be_written(&mut self) {
        self.written = true;
    }

    /// The file is gone.
    pub(super) fn forget_file(&mut self) {
        self.written = false;
    }

    /// Writes the file, unless it says everything already.
    ///
    /// # Errors
    /// The file that could not be written.
    pub(super) fn write(&mut self, owner: &Person, folder: &Path) -> Result<(), StorageError> {
        if !self.written {
            if let Some(OldChunk { folder, trace_uuid }) = &self.old {
                replace_metadata(owner, folder, &self.text(*trace_uuid))?;
            }
            let text = self.current_text();
            replace_metadata(owner, folder, &text)?;
            self.file_bytes = text.len();
            self.written = true;
        }
        Ok(())
    }

    /// Bytes of the file that was written last.
    pub(super) fn file_bytes(&self) -> usize {
        self.file_bytes
    }

    /// The trace's next chunk has another uuid. In the `old` folder, what a stream needs that has not moved on is still written.
    pub(super) fn begin_chunk(&mut self, trace_uuid: [u8; 16], old: &Path) {
        let old_uuid = std::mem::replace(&mut self.trace.uuid, trace_uuid);
        self.old = Some(OldChunk {
            folder: old.into(),
            trace_uuid: old_uuid,
        });
    }

    /// All streams have moved on.
    pub(super) fn end_chunk(&mut self) {
        self.old = None;
    }

    /// Writes the file of a chunk that is about to begin.
    ///
    /// # Errors
    /// The file that could not be written.
    pub(super) fn write_next(&self, owner: &Person, folder: &Path, trace_uuid: [u8; 16]) -> Result<(), StorageError> {
        replace_metadata(owner, folder, &self.text(trace_uuid))
    }

    /// Writes the file to any folder, as for a snapshot.
    ///
    /// # Errors
    /// The file that could not be written.
    pub(super) fn write_to(&self, owner: &Person, folder: &Path) -> Result<(), StorageError> {
        replace_metadata(owner, folder, &self.text(self.trace.uuid))
    }

    /// What the file is to say.
    pub(super) fn current_text(&self) -> String {
        self.text(self.trace.uuid)
    }

    fn text(&self, trace_uuid: [u8; 16]) -> String {
        let mut trace = self.trace.clone();
        trace.uuid = trace_uuid;
        trace.environment.push(self.clock_error.entry());
        let beside = self.beside.map(|domain| (BESIDE, domain.to_owned()));
        let write_error = self.write_error.clone().map(|reason| (WRITE_ERROR, reason));
        let said = beside.into_iter().chain(write_error);
        let said = said.map(|(key, text)| (key.to_owned(), EnvironmentValue::Text(text)));
        trace.environment.extend(said);
        let mut text = metadata::opening(&trace, Form::Program);
        for Described { stream, classes } in self.streams.values() {
            text += &metadata::stream_class(stream);
            for class in classes.values() {
                text += &metadata::event_class(stream.id, class);
            }
        }
        text
    }
}
