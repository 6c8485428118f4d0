// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which file a descriptor is: from the state dump and from the calls that open, duplicate and close.
//!
//! A descriptor is known from the event that tells of it up to the one that closes it, or up to a gap. What a tracer does not record (the paths
//! that `open` is given, the numbers that `pipe` gives) is unknown: the file has no name then. A name that the state dump gives later is that of
//! the file from its begin on.
//!
//! Memory: some 32 bytes for each open descriptor and each name. Files without a name are one file, once no dump will name them any more.

use rustc_hash::FxHashMap;

use super::gaps::Gaps;
use super::state::ThreadId;
use crate::names::{Name, Names};

/// A file of a model: all that is open under one name is one file, wherever the name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

impl FileId {
    /// For tables of what is known of each file.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct File {
    /// What it is.
    pub kind: FileKind,
    /// As the kernel or who opened it calls it; the empty name when that is unknown.
    pub name: Name,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// The trace does not tell.
    Unknown,
    /// What has a path: files, devices, folders.
    Path,
    /// An end of a connection.
    Socket,
    /// A pipe.
    Pipe,
    /// What the kernel gives out as files: timers, queues of events.
    Other,
}

impl FileKind {
    /// For people and programs.
    pub fn text(self) -> &'static str {
        match self {
            FileKind::Unknown => "unknown",
            FileKind::Path => "file",
            FileKind::Socket => "socket",
            FileKind::Pipe => "pipe",
            FileKind::Other => "other",
        }
    }

    /// By the name that the kernel gives a file.
    pub(super) fn of(name: &[u8]) -> FileKind {
        match name {
            [] => FileKind::Unknown,
            name if name.starts_with(b"socket:") => FileKind::Socket,
            name if name.starts_with(b"pipe:") => FileKind::Pipe,
            name if name.starts_with(b"/") => FileKind::Path,
            _ => FileKind::Other,
        }
    }
}

/// A descriptor and its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub descriptor: i32,
    /// What it is open for.
    pub file: FileId,
}

/// Linux's flag of what is to be closed when another program is executed.
pub(super) const CLOSE_ON_EXEC: i64 = 0o2_000_000;
/// What calls take for a descriptor of the working directory. It is in the tables as one.
pub(super) const AT_FDCWD: i32 = -100;
/// As many files without a name may wait for a state dump.
const NAMELESS_MAX: usize = 1 << 16;

/// Who has which files open.
#[derive(Debug, Default)]
pub(super) struct Files {
    all: Vec<File>,
    /// Files that are one wherever they are open.
    known: FxHashMap<File, FileId>,
    /// By process.
    tables: FxHashMap<i32, Descriptors>,
    /// Of threads that share with nobody.
    own: FxHashMap<ThreadId, Descriptors>,
    /// While the state dump lasts: by where the kernel has a table, the process whose it is.
    dumped_tables: FxHashMap<u64, i32>,
    /// The latest event of the state dump: who was asked before, was asked before then.
    dump_ns: Option<i64>,
    /// A dump has been complete: no other one is waited for.
    has_dump: bool,
}

/// Whose descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) thread: ThreadId,
    pub(super) process: i32,
}

/// A table of descriptors.
#[derive(Clone, Debug)]
struct Descriptors {
    by_number: FxHashMap<i32, Descriptor>,
    /// When one was closed last.
    closed_ns: i64,
}

impl Default for Descriptors {
    fn default() -> Descriptors {
        Descriptors {
            by_number: FxHashMap::default(),
            closed_ns: i64::MIN,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    file: FileId,
    /// Absent when nobody said.
    is_close_on_exec: Option<bool>,
    /// It was this from here on.
    since_ns: i64,
}

impl Files {
    /// A file.
    pub(super) fn file(&self, id: FileId) -> File {
        self.all[id.index()]
    }

    /// The file of this kind and name.
    pub(super) fn named(&mut self, kind: FileKind, name: Name) -> FileId {
        let file = File { kind, name };
        *self.known.entry(file).or_insert_with(|| {
            self.all.push(file);
            FileId(self.all.len() as u32 - 1)
        })
    }

    /// A file whose name may still be told.
    pub(super) fn nameless(&mut self, kind: FileKind) -> FileId {
        if self.has_dump || self.all.len() >= NAMELESS_MAX {
            return self.named(kind, Name::default());
        }
        self.all.push(File {
            kind,
            name: Name::default(),
        });
        FileId(self.all.len() as u32 - 1)
    }

    fn is_shared(&self, id: FileId) -> bool {
        self.known.get(&self.file(id)) == Some(&id)
    }

    fn table(&mut self, owner: Owner) -> &mut Descriptors {
        if !self.own.is_empty()
            && let Some(own) = self.own.get_mut(&owner.thread)
        {
            return own;
        }
        self.tables.entry(owner.process).or_default()
    }

    /// What a descriptor is, if that is known.
    pub(super) fn find(&self, owner: Owner, descriptor: i32, now_ns: i64, gaps: &Gaps) -> Option<FileId> {
        let known = self.descriptor(owner, descriptor)?;
        let is_sure = gaps.within(known.since_ns, now_ns, None).is_none();
        is_sure.then_some(known.file)
    }

    /// Since when a descriptor is what it is.
    pub(super) fn since_ns(&self, owner: Owner, descriptor: i32) -> Option<i64> {
        self.descriptor(owner, descriptor).map(|known| known.since_ns)
    }

    fn descriptor(&self, owner: Owner, descriptor: i32) -> Option<&Descriptor> {
        let own = self.own.get(&owner.thread);
        let table = own.or_else(|| self.tables.get(&owner.process))?;
        table.by_number.get(&descriptor)
    }

    /// What a descriptor is that was used just now. It is remembered, also when it is not known: it may get a name.
    pub(super) fn used(&mut self, owner: Owner, descriptor: i32, kind: FileKind, now_ns: i64, gaps: &Gaps) -> FileId {
        let known = self.find(owner, descriptor, now_ns, gaps);
        match known {
            Some(file) if self.file(file).kind != FileKind::Unknown || kind == FileKind::Unknown => file,
            // How it is used tells what it is.
            Some(file) if !self.is_shared(file) => {
                self.all[file.index()].kind = kind;
                file
            }
            _ => {
                let file = self.nameless(kind);
                let table = self.table(owner);
                let before = table.by_number.get(&descriptor).filter(|_| known.is_some());
                let is_close_on_exec = before.and_then(|before| before.is_close_on_exec);
                table.by_number.insert(
                    descriptor,
                    Descriptor {
                        file,
                        is_close_on_exec,
                        since_ns: now_ns,
                    },
                );
                file
            }
        }
    }

    /// A descriptor is open for this from now on.
    pub(super) fn open(
        &mut self,
        owner: Owner,
        descriptor: i32,
        file: FileId,
        is_close_on_exec: Option<bool>,
        now_ns: i64,
    ) {
        let opened = Descriptor {
            file,
            is_close_on_exec,
            since_ns: now_ns,
        };
        self.table(owner).by_number.insert(descriptor, opened);
    }

    /// More is known of what a descriptor is open for: it is this file.
    pub(super) fn rename(&mut self, owner: Owner, descriptor: i32, file: FileId) {
        if let Some(known) = self.table(owner).by_number.get_mut(&descriptor) {
            known.file = file;
        }
    }

    /// A descriptor is to be closed, or not, when another program is executed.
    pub(super) fn mark(&mut self, owner: Owner, descriptor: i32, is_close_on_exec: bool) {
        if let Some(known) = self.table(owner).by_number.get_mut(&descriptor) {
            known.is_close_on_exec = Some(is_close_on_exec);
        }
    }

    /// Descriptors are closed.
    pub(super) fn close(&mut self, owner: Owner, first: i32, last: i32, now_ns: i64) {
        let table = self.table(owner);
        table.closed_ns = now_ns;
        if first == last {
            table.by_number.remove(&first);
        } else {
            table.by_number.retain(|number, _| !(first..=last).contains(number));
        }
    }

    /// Descriptors are to be closed when another program is executed.
    pub(super) fn mark_range(&mut self, owner: Owner, first: i32, last: i32) {
        for (_, known) in self
            .table(owner)
            .by_number
            .iter_mut()
            .filter(|(number, _)| (first..=last).contains(*number))
        {
            known.is_close_on_exec = Some(true);
        }
    }

    /// A thread shares its descriptors with nobody from now on.
    pub(super) fn unshare(&mut self, owner: Owner) {
        let copy = self.table(owner).clone();
        self.own.insert(owner.thread, copy);
    }

    /// A process begins with what its parent has.
    pub(super) fn fork(&mut self, parent: Owner, process: i32) {
        let copy = self.table(parent).clone();
        self.tables.insert(process, copy);
    }

    /// A thread begins in a process, which has other descriptors than its parent if that shares with nobody. Whose it has is unknown then.
    pub(super) fn begin_thread(&mut self, parent: ThreadId, thread: ThreadId) {
        if self.own.contains_key(&parent) {
            self.own.insert(thread, Descriptors::default());
        }
    }

    /// It turns out that a thread is one of this process. What was known of the process's descriptors may be what they were before the thread
    /// changed them.
    pub(super) fn join(&mut self, thread: ThreadId, (tid, process): (i32, i32), now_ns: i64) {
        if tid != process && self.tables.remove(&tid).is_some() {
            self.forget(Owner { thread, process }, now_ns);
        }
    }

    /// Nothing is known of these descriptors any more.
    pub(super) fn forget(&mut self, owner: Owner, now_ns: i64) {
        let table = self.table(owner);
        table.by_number.clear();
        table.closed_ns = now_ns;
    }

    /// A process becomes another program, as this process. What may be closed by that is not known any more.
    pub(super) fn execute(&mut self, owner: Owner, process: i32, now_ns: i64) {
        let own = self.own.remove(&owner.thread);
        let mut table = match own {
            Some(own) => own,
            None => std::mem::take(self.table(owner)),
        };
        table.by_number.retain(|_, known| known.is_close_on_exec == Some(false));
        table.closed_ns = now_ns;
        self.tables.insert(process, table);
    }

    /// A thread ends, and with it its process if it is the last one.
    pub(super) fn end(&mut self, owner: Owner, is_last: bool) {
        self.own.remove(&owner.thread);
        if is_last {
            self.tables.remove(&owner.process);
        }
    }

    /// An event of a state dump comes; tells when the one before it came.
    pub(super) fn dump(&mut self, now_ns: i64) -> Option<i64> {
        self.dump_ns.replace(now_ns)
    }

    /// The state dump says which table of descriptors a process has. Threads that are gone have none, at address 0.
    pub(super) fn dump_table(&mut self, table: u64, process: i32) {
        if table != 0 {
            self.dumped_tables.entry(table).or_insert(process);
        }
    }

    /// The process whose table that is, as the state dump has it.
    pub(super) fn owner_of(&self, table: u64) -> Option<i32> {
        self.dumped_tables.get(&table).copied()
    }

    /// A state dump is complete.
    pub(super) fn end_dump(&mut self) {
        self.dumped_tables = FxHashMap::default();
        self.dump_ns = None;
        self.has_dump = true;
    }

    /// A process has a file open. It was asked between these two times: what changed in between may be as it was before or after.
    pub(super) fn dumped(
        &mut self,
        process: i32,
        opened: (i32, Option<i64>),
        name: (&[u8], &mut Names),
        (asked_ns, now_ns): (i64, i64),
        gaps: &Gaps,
    ) {
        let (descriptor, flags) = opened;
        let (name, names) = name;
        if gaps.within(asked_ns, now_ns, None).is_some() {
            return;
        }
        let is_close_on_exec = flags.map(|flags| flags & CLOSE_ON_EXEC != 0);
        let table = self.tables.entry(process).or_default();
        let known = table.by_number.get_mut(&descriptor);
        let file = match known {
            Some(known) if known.since_ns > asked_ns => return,
            Some(known) if gaps.within(known.since_ns, now_ns, None).is_none() => {
                known.is_close_on_exec = known.is_close_on_exec.or(is_close_on_exec);
                Some(known.file)
            }
            _ if table.closed_ns > asked_ns => return,
            _ => None,
        };
        let named = File {
            kind: FileKind::of(name),
            name: names.keep(name),
        };
        match file {
            Some(file) if self.all[file.index()].name != Name::default() => {}
            Some(file) if !self.is_shared(file) => self.all[file.index()] = named,
            _ => {
                let file = self.named(named.kind, named.name);
                let known = Descriptor {
                    file,
                    is_close_on_exec,
                    since_ns: now_ns,
                };
                self.tables
                    .entry(process)
                    .or_default()
                    .by_number
                    .insert(descriptor, known);
            }
        }
    }
}
