// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of the running kernel, by name and by number.
//!
//! Names are listed at once, formats are read when they are first asked for. Two groups are left out: `syscalls`, which
//! [`piste_syscalls`] knows and the raw tracepoints record, and the groups of probes that Piste itself defined, which come
//! and go; [`Catalog::read_format`] reads the format of one of those.
//!
//! The events of another kernel, of which somebody kept the formats, are a catalog too: [`Catalog::of_texts`]. It leaves nothing out.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use piste_ctf::Label;
use piste_reason::reason;

use crate::format::{EventFormat, NoFormat};
use crate::tracefs::Tracefs;
use piste_syscalls::Architecture;

/// The events of the running kernel, or of another one.
#[derive(Debug)]
pub struct Catalog {
    origin: Origin,
    /// In the order of group and name.
    entries: Vec<Entry>,
    architecture: Architecture,
    /// Index of each number's entry.
    ids: OnceLock<HashMap<u16, usize>>,
}

/// Where formats come from.
#[derive(Debug)]
enum Origin {
    /// The folder `events`.
    Folder(PathBuf),
    /// Texts that entries have, and the text of `printk_formats`.
    Texts { constants: String },
}

#[derive(Debug)]
struct Entry {
    system: String,
    name: String,
    /// Of the file `format`, unless it is in the folder.
    text: Option<Box<str>>,
    /// A channel can have it. Some formats are only of records that the kernel adds to others, such as stacks.
    is_recordable: bool,
    format: OnceLock<EventFormat>,
}

/// What the groups of our own probes begin with.
pub(crate) const PROBE_GROUPS: &str = "piste_";

/// Why the format of an event cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum NoEvent {
    /// The kernel does not have it.
    #[error("this kernel has no event {system}:{name}")]
    Unknown {
        /// Its group.
        system: String,
        /// Its name.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read the format of {system}:{name}: {}", reason(.error))]
    Unreadable {
        /// Its group.
        system: String,
        /// Its name.
        name: String,
        /// Why not.
        error: io::Error,
    },
    /// The file is in no known form.
    #[error("cannot understand the format of {system}:{name}: {fault}")]
    NotUnderstood {
        /// Its group.
        system: String,
        /// Its name.
        name: String,
        /// Why not.
        fault: NoFormat,
    },
}

impl Catalog {
    /// The events of the kernel.
    ///
    /// # Errors
    /// When the folder of the events cannot be read.
    pub fn read(tracefs: &Tracefs) -> io::Result<Catalog> {
        Catalog::read_folder(&tracefs.path("events"))
    }

    /// The events in the folder `events` of tracefs, or in a picture of it.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read_folder(events: &Path) -> io::Result<Catalog> {
        let mut entries = Vec::new();
        for system in folders(events)? {
            if system == "syscalls" || system.starts_with(PROBE_GROUPS) {
                continue;
            }
            let group = events.join(&system);
            // A group of probes may go while it is read.
            for name in folders(&group).unwrap_or_default() {
                entries.push(Entry {
                    is_recordable: is_recordable(&system),
                    system: system.clone(),
                    name,
                    text: None,
                    format: OnceLock::new(),
                });
            }
        }
        Ok(Catalog {
            origin: Origin::Folder(events.to_owned()),
            entries,
            architecture: Architecture::HERE,
            ids: OnceLock::new(),
        })
    }

    /// The events of a kernel that is not here: the group of each and the text of its file `format`, and the text of `printk_formats`. A text
    /// without a name is left out; of two events with the same name the first counts.
    pub fn of_texts(formats: impl IntoIterator<Item = (String, String)>, constants: String) -> Catalog {
        let entry = |(system, text): (String, String)| {
            let name = text.lines().find_map(|line| line.trim_start().strip_prefix("name:"))?;
            Some(Entry {
                name: name.trim().to_owned(),
                is_recordable: is_recordable(&system),
                system,
                text: Some(text.into()),
                format: OnceLock::new(),
            })
        };
        let mut entries: Vec<Entry> = formats.into_iter().filter_map(entry).collect();
        entries.sort_by(|one, other| (&one.system, &one.name).cmp(&(&other.system, &other.name)));
        entries.dedup_by(|later, first| (&later.system, &later.name) == (&first.system, &first.name));
        Catalog {
            origin: Origin::Texts { constants },
            entries,
            architecture: Architecture::HERE,
            ids: OnceLock::new(),
        }
    }

    /// The same events, of a kernel on another processor.
    pub fn on(self, architecture: Architecture) -> Catalog {
        Catalog { architecture, ..self }
    }

    /// What the kernel runs on.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Group and name of every event that can be recorded, in the order of both.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let recordable = self.entries.iter().filter(|entry| entry.is_recordable);
        recordable.map(|entry| (entry.system.as_str(), entry.name.as_str()))
    }

    /// Whether both have the same names with the same numbers.
    pub fn has_same_events_as(&self, other: &Catalog) -> bool {
        self.names().eq(other.names()) && self.ids() == other.ids()
    }

    /// Learns the numbers of all events now: some thousand small files, for which there is no time while rings fill.
    pub fn learn_ids(&self) {
        self.ids();
    }

    /// Reads the formats of these events now, if they are events of the catalog. Reading one waits for whoever changes what is recorded,
    /// which can take a tenth of a second, and meanwhile rings fill.
    pub fn learn_formats<'a>(&self, events: impl IntoIterator<Item = &'a (String, String)>) {
        for (system, name) in events {
            // Of an event that is not understood, the conversion says so.
            let _ = self.by_name(system, name);
        }
    }

    /// The event with this number, if it was there when the catalog was read and its format is understood.
    pub fn by_id(&self, id: u16) -> Option<&EventFormat> {
        self.format(&self.entries[*self.ids().get(&id)?]).ok()
    }

    fn ids(&self) -> &HashMap<u16, usize> {
        self.ids.get_or_init(|| {
            let entries = self.entries.iter().enumerate();
            entries
                .filter_map(|(index, entry)| Some((self.read_id(entry)?, index)))
                .collect()
        })
    }

    /// The event of this group and name.
    ///
    /// # Errors
    /// When the kernel did not have it when the catalog was read, or says of it what is not understood.
    pub fn by_name(&self, system: &str, name: &str) -> Result<&EventFormat, NoEvent> {
        match self.entry(system, name) {
            Some(entry) => self.format(entry),
            None => Err(NoEvent::Unknown {
                system: system.to_owned(),
                name: name.to_owned(),
            }),
        }
    }

    /// Reads the format of an event now, whatever its group: of a probe that was just defined.
    ///
    /// # Errors
    /// As [`Catalog::by_name`].
    pub fn read_format(&self, system: &str, name: &str) -> Result<EventFormat, NoEvent> {
        let (system_name, event_name) = (system.to_owned(), name.to_owned());
        let unknown = |system, name| NoEvent::Unknown { system, name };
        let folder = match &self.origin {
            Origin::Folder(folder) => folder.join(system).join(name),
            Origin::Texts { .. } => {
                let entry = self.entry(system, name);
                return self.parse_entry(entry.ok_or_else(|| unknown(system_name, event_name))?);
            }
        };
        match fs::read_to_string(folder.join("format")) {
            Ok(text) => parse(system, name, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unknown(system_name, event_name)),
            Err(error) => Err(NoEvent::Unreadable {
                system: system_name,
                name: event_name,
                error,
            }),
        }
    }

    /// Texts that events tell by their address: those that the kernel keeps for tracing. Empty where it does not say them.
    pub(crate) fn constant_texts(&self) -> Vec<Label> {
        let listed = match &self.origin {
            Origin::Folder(folder) => fs::read_to_string(folder.with_file_name("printk_formats")).unwrap_or_default(),
            Origin::Texts { constants } => constants.clone(),
        };
        let mut labels: Vec<_> = listed.lines().filter_map(constant_text).collect();
        labels.sort_by(|one, other| (one.value, &one.name).cmp(&(other.value, &other.name)));
        labels.dedup();
        labels
    }

    /// The format of an entry, read when it is first asked for. What failed is tried again.
    fn format<'a>(&self, entry: &'a Entry) -> Result<&'a EventFormat, NoEvent> {
        if let Some(format) = entry.format.get() {
            return Ok(format);
        }
        let format = self.parse_entry(entry)?;
        Ok(entry.format.get_or_init(|| format))
    }

    fn parse_entry(&self, entry: &Entry) -> Result<EventFormat, NoEvent> {
        match &entry.text {
            Some(text) => parse(&entry.system, &entry.name, text),
            None => self.read_format(&entry.system, &entry.name),
        }
    }

    fn entry(&self, system: &str, name: &str) -> Option<&Entry> {
        let compared = |entry: &Entry| (entry.system.as_str(), entry.name.as_str()).cmp(&(system, name));
        let index = self.entries.binary_search_by(compared).ok()?;
        Some(&self.entries[index])
    }

    fn read_id(&self, entry: &Entry) -> Option<u16> {
        let folder = match &self.origin {
            Origin::Folder(folder) => folder.join(&entry.system).join(&entry.name),
            Origin::Texts { .. } => return entry.text.as_deref().and_then(id_line),
        };
        // The formats of stacks and the like have no such file.
        id_in(&folder.join("id")).or_else(|| self.format(entry).ok().map(|format| format.id))
    }
}

/// The group `ftrace` has formats of what the kernel adds to other records, and of records that are not events.
fn is_recordable(system: &str) -> bool {
    system != "ftrace"
}

/// The number in a file `id`. There are some thousand, so it is read at once.
fn id_in(path: &Path) -> Option<u16> {
    let mut text = [0; 16];
    let bytes = fs::File::open(path).and_then(|mut file| file.read(&mut text)).ok()?;
    std::str::from_utf8(&text[..bytes]).ok()?.trim().parse().ok()
}

fn parse(system: &str, name: &str, text: &str) -> Result<EventFormat, NoEvent> {
    EventFormat::parse(system, text).map_err(|fault| NoEvent::NotUnderstood {
        system: system.to_owned(),
        name: name.to_owned(),
        fault,
    })
}

/// The number in the text of a format.
fn id_line(text: &str) -> Option<u16> {
    let number = text.lines().find_map(|line| line.trim_start().strip_prefix("ID:"))?;
    number.trim().parse().ok()
}

/// `0xffffffff8281a5a4 : "End context switch"`
fn constant_text(line: &str) -> Option<Label> {
    let (address, text) = line.split_once(" : \"")?;
    let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    let name = text.strip_suffix('"')?.to_owned();
    let value = address as i64;
    Some(Label { name, value })
}

/// The names of the folders in a folder, sorted.
fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of events: `SYSTEM/NAME`, with a number; negative for one that cannot be recorded.
    fn picture(events: &[(&str, i32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("enable"), "0").unwrap();
        for (event, id) in events {
            let event_folder = folder.path().join(event);
            fs::create_dir_all(&event_folder).unwrap();
            let name = event.rsplit('/').next().unwrap();
            let text = format!("name: {name}\nID: {}\nformat:\n\nprint fmt: \"\"\n", id.abs());
            fs::write(event_folder.join("format"), text).unwrap();
            if *id >= 0 {
                fs::write(event_folder.join("enable"), "0").unwrap();
                fs::write(event_folder.join("id"), format!("{id}\n")).unwrap();
            }
        }
        folder
    }

    #[test]
    fn events_are_found_by_name_and_number() {
        let folder = picture(&[("sched/sched_switch", 372), ("ftrace/kernel_stack", -4), ("a/z", 5)]);
        let catalog = Catalog::read_folder(folder.path()).unwrap();
        let names: Vec<_> = catalog.names().collect();
        assert_eq!(names, [("a", "z"), ("sched", "sched_switch")]);
        assert_eq!(catalog.by_name("sched", "sched_switch").unwrap().id, 372);
        let name = |id| {
            catalog
                .by_id(id)
                .map(|format| format!("{}:{}", format.system, format.name))
        };
        assert_eq!(name(4).as_deref(), Some("ftrace:kernel_stack"));
        assert_eq!(name(5).as_deref(), Some("a:z"));
        assert_eq!(name(6), None);
        let error = catalog.by_name("sched", "gone").unwrap_err().to_string();
        assert_eq!(error, "this kernel has no event sched:gone");
    }

    #[test]
    fn texts_are_a_catalog_too() {
        let format = |name: &str, id| format!("name: {name}\nID: {id}\nformat:\n\nprint fmt: \"\"\n");
        let texts = [
            ("syscalls", "b", 7),
            ("ftrace", "kernel_stack", 4),
            ("syscalls", "b", 8),
            ("a", "z", 5),
        ];
        let texts = texts.map(|(system, name, id)| (system.to_owned(), format(name, id)));
        let nameless = ("a".to_owned(), "ID: 6\n".to_owned());
        let catalog = Catalog::of_texts(texts.into_iter().chain([nameless]), "0x10 : \"thaw\"\n".to_owned());
        assert_eq!(catalog.names().collect::<Vec<_>>(), [("a", "z"), ("syscalls", "b")]);
        assert_eq!(catalog.by_name("syscalls", "b").unwrap().id, 7);
        assert_eq!(catalog.read_format("ftrace", "kernel_stack").unwrap().id, 4);
        let name = |id| catalog.by_id(id).map(|format| format.name.as_str());
        assert_eq!(
            [name(4), name(5), name(6), name(8)],
            [Some("kernel_stack"), Some("z"), None, None]
        );
        assert!(matches!(catalog.read_format("a", "gone"), Err(NoEvent::Unknown { .. })));
        assert_eq!(catalog.constant_texts()[0].value, 0x10);
    }

    #[test]
    fn syscalls_and_our_probes_are_not_listed_and_can_be_read() {
        let folder = picture(&[("syscalls/sys_enter_read", 7), ("piste_1/malloc", 2400), ("a/b", 1)]);
        let catalog = Catalog::read_folder(folder.path()).unwrap();
        assert_eq!(catalog.names().collect::<Vec<_>>(), [("a", "b")]);
        assert!(catalog.by_name("piste_1", "malloc").is_err());
        assert_eq!(catalog.read_format("piste_1", "malloc").unwrap().id, 2400);
    }

    #[test]
    fn constant_texts_have_their_addresses() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("events")).unwrap();
        let listed = "0xffffffff8281972f : \"thaw\"\n0xffffffff8281972f : \"thaw\"\n0x10 : \"a\\n\"\n";
        fs::write(folder.path().join("printk_formats"), listed).unwrap();
        let catalog = Catalog::read_folder(&folder.path().join("events")).unwrap();
        let texts = catalog.constant_texts();
        let texts: Vec<_> = texts.iter().map(|text| (text.value as u64, &*text.name)).collect();
        assert_eq!(texts, [(0xffff_ffff_8281_972f, "thaw"), (0x10, "a\\n")]);
    }

    #[test]
    fn a_format_that_is_not_understood_is_said() {
        let folder = picture(&[("a/b", 1)]);
        fs::write(folder.path().join("a/b/format"), "name: b\n").unwrap();
        let catalog = Catalog::read_folder(folder.path()).unwrap();
        let error = catalog.by_name("a", "b").unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot understand the format of a:b: line 1 of the format: it does not contain the number of the event"
        );
    }
}
