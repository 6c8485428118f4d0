// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file becomes traces. A buffer is a channel, as an instance of tracefs is one where Piste records; all buffers with the same clock are one
//! trace.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use piste_ctf::{EnvironmentValue, Trace};
use piste_mappings::KERNEL_SYMBOLS;

use super::channel::{Channel, Named};
use super::clock::clock;
use super::contents::Contents;
use super::names;
use super::options::{Buffer, CpuPart};
use super::survey::{Seen, Stop, Survey};
use crate::folder::{TraceFolder, create, unwritable};
use crate::notes::Notes;
use crate::{ImportError, Watch};

/// A file that is converted.
pub(super) struct Work<'a> {
    pub(super) path: &'a Path,
    pub(super) file: &'a File,
    pub(super) contents: &'a Contents,
    pub(super) watch: &'a Watch,
    pub(super) notes: Notes,
    /// Events in the traces so far.
    pub(super) events: u64,
}

/// The name of the top instance's channel, as that of the only channel of a recording of Piste.
const TOP: &str = "channel0";

impl Work<'_> {
    /// Makes the traces in `folder`.
    pub(super) fn convert(&mut self, folder: &Path) -> Result<(), ImportError> {
        let metadata = self.file.metadata();
        let file_bytes = metadata.map_err(|error| self.unreadable(error))?.len();
        let parts = self.contents.buffers.iter().flat_map(|buffer| &buffer.cpus);
        let expected = parts
            .map(|part| part.bytes.min(file_bytes))
            .fold(0, u64::saturating_add);
        if expected > file_bytes {
            return Err(ImportError::NotUnderstood {
                path: self.path.to_owned(),
                what: "it claims to have more events than there is room for in the file".to_owned(),
            });
        }
        self.watch.expect(2 * expected);
        let mut by_clock: BTreeMap<&str, Vec<&Buffer>> = BTreeMap::new();
        for buffer in &self.contents.buffers {
            let clock = buffer.clock.as_deref().or(self.contents.options.clock.as_deref());
            by_clock.entry(clock.unwrap_or_default()).or_default().push(buffer);
        }
        let is_single = by_clock.len() == 1;
        for (clock, buffers) in by_clock {
            let name = match is_single {
                true => "kernel".to_owned(),
                false => format!("kernel-{}", file_name(clock)),
            };
            self.trace(clock, &buffers, &folder.join(name))?;
        }
        self.name_kernel(folder)
    }

    /// Names for the kernel's addresses, beside the traces, unless the kernel hid its addresses from whoever recorded.
    fn name_kernel(&self, folder: &Path) -> Result<(), ImportError> {
        let list = &self.contents.kernel_symbols;
        if list.lines().all(|line| line.starts_with("0000000000000000 ")) {
            return Ok(());
        }
        let path = folder.join(KERNEL_SYMBOLS);
        let mut packed = GzEncoder::new(create(&path)?, Compression::fast());
        let written = packed
            .write_all(list.as_bytes())
            .and_then(|()| packed.finish().map(drop));
        written.map_err(|error| unwritable(&path, error))
    }

    fn trace(&mut self, clock_name: &str, buffers: &[&Buffer], folder: &Path) -> Result<(), ImportError> {
        let mut survey = Survey::new();
        let mut channels = Vec::new();
        for buffer in buffers {
            let look = |part: &CpuPart| Ok((*part, self.look(&mut survey, buffer, part)?));
            let parts: Result<Vec<(CpuPart, Seen)>, ImportError> = buffer.cpus.iter().map(look).collect();
            channels.push((*buffer, parts?));
        }
        let uuid = uuid(survey.hash);
        let mut trace = TraceFolder::create(folder, uuid)?;
        let mut clock = clock(clock_name, &self.contents.options, survey.first_ticks, &mut self.notes);
        clock.uuid = uuid;
        clock.uuid[15] ^= 1;
        let mut names_taken = Vec::new();
        for (stream_id, (buffer, parts)) in (0..).zip(&channels) {
            let name = channel_name(buffer, &mut names_taken);
            let named = Named { stream_id, name };
            Channel::new(named, buffer, &survey, self).write(parts, &mut trace)?;
        }
        if survey.has_events() {
            names::write(&self.contents.names, survey.first_ticks, &mut trace)?;
        }
        trace.finish(&Trace {
            uuid,
            clock,
            environment: self.environment(),
        })
    }

    fn look(&self, survey: &mut Survey, buffer: &Buffer, part: &CpuPart) -> Result<Seen, ImportError> {
        let seen = survey.look(self.contents, buffer, part, self.file, self.watch);
        seen.map_err(|stop| match stop {
            Stop::Unreadable(error) => self.unreadable(error),
            Stop::Import(error) => error,
        })
    }

    pub(super) fn unreadable(&self, error: std::io::Error) -> ImportError {
        ImportError::Unreadable {
            path: self.path.to_owned(),
            error,
        }
    }

    /// What the trace says about where it comes from: what the file says, and nothing else.
    fn environment(&self) -> Vec<(String, EnvironmentValue)> {
        let options = &self.contents.options;
        let text = |key: &str, value: &str| (key.to_owned(), EnvironmentValue::Text(value.to_owned()));
        let mut environment = vec![text("domain", "kernel"), text("tracer_name", "trace-cmd")];
        let version = options.version.as_deref().unwrap_or_default();
        let numbers = version.split([' ', '-']).next().unwrap_or_default().split('.');
        for (key, number) in ["tracer_major", "tracer_minor", "tracer_patchlevel"]
            .into_iter()
            .zip(numbers)
        {
            let number = number.parse().map(EnvironmentValue::Integer);
            environment.extend(number.ok().map(|number| (key.to_owned(), number)));
        }
        let words: Vec<&str> = options
            .uname
            .as_deref()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        if let [system, host, release, .., machine] = words[..] {
            environment.extend([
                text("hostname", host),
                text("sysname", system),
                text("kernel_release", release),
                text("machine", machine),
            ]);
        }
        environment.push(text(
            "imported_from",
            &format!("trace.dat, version {}", self.contents.version),
        ));
        environment
    }
}

/// The name of a buffer's channel, which no other one has.
fn channel_name(buffer: &Buffer, taken: &mut Vec<String>) -> String {
    let mut name = match buffer.name.is_empty() {
        true => TOP.to_owned(),
        false => file_name(&buffer.name),
    };
    while taken.contains(&name) || name == names::CHANNEL {
        name.push('_');
    }
    taken.push(name.clone());
    name
}

/// A name that a file or folder can have.
fn file_name(name: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => character,
        _ => '_',
    };
    name.chars().take(CHARACTERS_MAX).map(plain).collect()
}

/// The same for the same events: a file that is imported twice is the same trace twice.
fn uuid(hash: u64) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&hash.to_le_bytes());
    uuid[8..].copy_from_slice(&hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    // Version 8, variant 1: of one's own making.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_names_of_their_own_that_files_can_have() {
        let named = |name: &str| Buffer {
            name: name.to_owned(),
            ..Buffer::default()
        };
        let mut taken = Vec::new();
        let names =
            ["", "a/b", "a.b", "channel0", "statedump", "../.."].map(|name| channel_name(&named(name), &mut taken));
        assert_eq!(names, ["channel0", "a_b", "a_b_", "channel0_", "statedump_", "_____"]);
    }
}
