// SPDX-License-Identifier: MIT OR Apache-2.0
//! What system calls do with files: which descriptors they make and close, what they move.

use super::files::{AT_FDCWD, CLOSE_ON_EXEC, FileId, FileKind, Opened, Owner};
use super::state::{Call, ThreadId};
use super::{Listen, System};
use crate::facts::{Arguments, Found};
use crate::names::Name;

/// A system call that opens a file, moves bytes, or waits for bytes to be on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCall {
    /// The call.
    pub call: Call,
    /// What it does.
    pub operation: FileOperation,
    /// What it reads from.
    pub source: Option<Opened>,
    /// What it writes to, opens or makes lasting.
    pub target: Option<Opened>,
}

impl FileCall {
    /// Bytes that it read.
    pub fn read_bytes(&self) -> u64 {
        match self.operation {
            FileOperation::Read | FileOperation::Copy => self.moved_bytes(),
            _ => 0,
        }
    }

    /// Bytes that it wrote.
    pub fn written_bytes(&self) -> u64 {
        match self.operation {
            FileOperation::Write | FileOperation::Copy => self.moved_bytes(),
            _ => 0,
        }
    }

    fn moved_bytes(&self) -> u64 {
        self.call.result.max(0).cast_unsigned()
    }
}

/// What a system call does with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileOperation {
    /// It opens one.
    Open,
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads and writes, inside of the kernel.
    Copy,
    /// It waits for what was written to be on its device.
    Sync,
}

impl FileOperation {
    /// For people and programs.
    pub fn text(self) -> &'static str {
        match self {
            FileOperation::Open => "open",
            FileOperation::Read => "read",
            FileOperation::Write => "write",
            FileOperation::Copy => "copy",
            FileOperation::Sync => "sync",
        }
    }
}

/// A call that has been entered.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    effect: Effect,
    descriptor: Option<i32>,
    other: Option<i32>,
    flags: Option<i64>,
    value: Option<i64>,
    path: Box<[u8]>,
    peer: Option<String>,
}

/// What a call does to descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Operation(FileOperation),
    /// The same of what must be a socket.
    OnSocket(Option<FileOperation>),
    /// The answer is a number of messages: how many bytes is not said.
    Messages,
    Close,
    CloseRange,
    Duplicate,
    Control,
    /// Mostly something else, but it can also say what is closed when another program is executed.
    DeviceControl,
    /// Changes the working directory: to a path.
    ChangeFolder,
    /// To an open folder.
    ChangeToOpenFolder,
    /// Where that is, the call does not say.
    LeaveFolder,
    Socket,
    Connect,
    Accept,
    /// Makes a file that the kernel calls so.
    Make(&'static str, Marks),
    Unshare,
}

/// How a call says whether what it makes is closed when another program is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    Never,
    Always,
    /// By this bit of its flags.
    Bit(i64),
}

/// What calls do: their names, with `|` between them.
static EFFECTS: [(&str, Effect); 33] = {
    use FileOperation::{Copy, Open, Read, Sync, Write};
    let of_flags = Marks::Bit(CLOSE_ON_EXEC);
    [
        ("open|openat|openat2|creat", Effect::Operation(Open)),
        ("read|readv|pread64|pread|preadv|preadv2", Effect::Operation(Read)),
        (
            "write|writev|pwrite64|pwrite|pwritev|pwritev2",
            Effect::Operation(Write),
        ),
        (
            "sendfile|sendfile64|copy_file_range|splice|tee",
            Effect::Operation(Copy),
        ),
        ("fsync|fdatasync|sync|syncfs|sync_file_range", Effect::Operation(Sync)),
        ("recv|recvfrom|recvmsg", Effect::OnSocket(Some(Read))),
        ("send|sendto|sendmsg", Effect::OnSocket(Some(Write))),
        ("recvmmsg|sendmmsg", Effect::Messages),
        ("connect", Effect::Connect),
        (
            "bind|listen|getpeername|getsockname|getsockopt|setsockopt|shutdown",
            Effect::OnSocket(None),
        ),
        ("close", Effect::Close),
        ("close_range", Effect::CloseRange),
        ("dup|dup2|dup3", Effect::Duplicate),
        ("fcntl|fcntl64", Effect::Control),
        ("ioctl", Effect::DeviceControl),
        ("chdir", Effect::ChangeFolder),
        ("fchdir", Effect::ChangeToOpenFolder),
        ("chroot|pivot_root|setns", Effect::LeaveFolder),
        ("socket", Effect::Socket),
        ("accept|accept4", Effect::Accept),
        ("unshare", Effect::Unshare),
        ("epoll_create", Effect::Make("anon_inode:[eventpoll]", Marks::Never)),
        ("epoll_create1", Effect::Make("anon_inode:[eventpoll]", of_flags)),
        ("eventfd", Effect::Make("anon_inode:[eventfd]", Marks::Never)),
        ("eventfd2", Effect::Make("anon_inode:[eventfd]", of_flags)),
        ("inotify_init", Effect::Make("anon_inode:inotify", Marks::Never)),
        ("inotify_init1", Effect::Make("anon_inode:inotify", of_flags)),
        ("signalfd", Effect::Make("anon_inode:[signalfd]", Marks::Never)),
        ("signalfd4", Effect::Make("anon_inode:[signalfd]", of_flags)),
        ("timerfd_create", Effect::Make("anon_inode:[timerfd]", of_flags)),
        ("memfd_create", Effect::Make("/memfd", Marks::Bit(1))),
        ("pidfd_open", Effect::Make("anon_inode:[pidfd]", Marks::Always)),
        ("io_uring_setup", Effect::Make("anon_inode:[io_uring]", Marks::Always)),
    ]
};

impl Effect {
    fn of(call: &str) -> Option<Effect> {
        let call = call.strip_prefix("compat_").unwrap_or(call);
        let is_meant = |(names, _): &&(&str, Effect)| names.split('|').any(|name| name == call);
        EFFECTS.iter().find(is_meant).map(|(_, effect)| *effect)
    }

    /// Whether descriptors stand for something else afterwards.
    fn changes_descriptors(self) -> bool {
        match self {
            Effect::Operation(operation) => operation == FileOperation::Open,
            Effect::OnSocket(_) | Effect::Messages => false,
            _ => true,
        }
    }
}

/// The system calls that change what descriptors stand for.
pub fn descriptor_calls() -> impl Iterator<Item = &'static str> {
    let changing = EFFECTS.iter().filter(|(_, effect)| effect.changes_descriptors());
    changing.flat_map(|(names, _)| names.split('|'))
}

/// Linux's number of the error that there is no such descriptor.
const EBADF: i64 = 9;
/// And that a connection is on its way.
const EINPROGRESS: i64 = 115;
/// What `fcntl` can do to descriptors.
const F_DUPFD: i64 = 0;
const F_SETFD: i64 = 2;
const F_DUPFD_CLOEXEC: i64 = 1030;
const FD_CLOEXEC: i64 = 1;
/// And `ioctl`.
const FIONCLEX: i64 = 0x5450;
const FIOCLEX: i64 = 0x5451;
/// What `close_range` can do beside closing.
const CLOSE_RANGE_UNSHARE: i64 = 2;
const CLOSE_RANGE_CLOEXEC: i64 = 4;
/// The flag of `unshare` for descriptors.
const CLONE_FILES: i64 = 0x400;

impl System {
    /// What a call is about, if it has to do with files.
    #[inline]
    pub(super) fn asked(&mut self, call: Name, arguments: &Arguments<'_>) -> Option<Box<Asked>> {
        let names = &self.names;
        let effect = *self.effects.entry(call).or_insert_with(|| Effect::of(names.text(call)));
        Some(Box::new(Asked {
            effect: effect?,
            descriptor: arguments.descriptor.filter(|descriptor| *descriptor >= 0),
            other: arguments.other,
            flags: arguments.flags,
            value: arguments.value,
            path: arguments.path.into(),
            peer: arguments.peer.and_then(|peer| peer.text(true)),
        }))
    }

    /// A call has ended: what it did to descriptors, and what it moved.
    pub(super) fn answered(&mut self, call: &Call, asked: &Asked, found: &Found<'_>, to: &mut dyn Listen) {
        let (owner, now_ns) = (self.owner(call.thread), call.end_ns);
        let is_done = call.result >= 0;
        let result = call.result as i32;
        let makes_closed = |bit: i64| asked.flags.map(|flags| flags & bit != 0);
        match asked.effect {
            Effect::Operation(FileOperation::Open) => {
                let target = is_done.then(|| {
                    let path = if asked.path.is_empty() { found.path } else { &asked.path };
                    let file = self.file_of_path(owner, asked.descriptor, path);
                    self.files
                        .open(owner, result, file, makes_closed(CLOSE_ON_EXEC), now_ns);
                    Opened {
                        descriptor: result,
                        file,
                    }
                });
                self.tell_file_call(call, FileOperation::Open, (None, target), to);
            }
            Effect::Operation(operation) => self.moved(call, operation, asked, FileKind::Unknown, to),
            Effect::OnSocket(Some(operation)) => self.moved(call, operation, asked, FileKind::Socket, to),
            Effect::OnSocket(None) | Effect::Messages => {
                self.opened(call, asked.descriptor, FileKind::Socket);
            }
            // Also one that fails has closed it, unless there was none.
            Effect::Close => {
                if let Some(descriptor) = asked.descriptor.filter(|_| call.result != -EBADF) {
                    self.files.close(owner, descriptor, descriptor, now_ns);
                }
            }
            Effect::CloseRange if is_done => self.close_range(owner, asked, now_ns),
            // Onto itself it stays as it is.
            Effect::Duplicate if is_done && asked.descriptor != Some(result) => {
                self.duplicate(call, asked, makes_closed(CLOSE_ON_EXEC).unwrap_or(false));
            }
            Effect::Control if is_done => match asked.flags {
                Some(F_DUPFD) => self.duplicate(call, asked, false),
                Some(F_DUPFD_CLOEXEC) => self.duplicate(call, asked, true),
                Some(F_SETFD) => {
                    if let (Some(descriptor), Some(value)) = (asked.descriptor, asked.value) {
                        self.files.mark(owner, descriptor, value & FD_CLOEXEC != 0);
                    }
                }
                _ => {}
            },
            Effect::DeviceControl if is_done => {
                if let (Some(descriptor), Some(command @ (FIOCLEX | FIONCLEX))) = (asked.descriptor, asked.flags) {
                    self.files.mark(owner, descriptor, command == FIOCLEX);
                }
            }
            Effect::ChangeFolder if is_done => {
                let path = if asked.path.is_empty() { found.path } else { &asked.path };
                let file = self.file_of_path(owner, None, path);
                // A folder in an unknown one is unknown.
                match self.names.text(self.files.file(file).name).starts_with('/') {
                    true => self.files.open(owner, AT_FDCWD, file, Some(false), now_ns),
                    false => self.files.close(owner, AT_FDCWD, AT_FDCWD, now_ns),
                }
            }
            Effect::ChangeToOpenFolder if is_done => match self.opened(call, asked.descriptor, FileKind::Path) {
                Some(folder) => self.files.open(owner, AT_FDCWD, folder.file, Some(false), now_ns),
                None => self.files.close(owner, AT_FDCWD, AT_FDCWD, now_ns),
            },
            Effect::LeaveFolder if is_done => self.files.close(owner, AT_FDCWD, AT_FDCWD, now_ns),
            Effect::Socket if is_done => {
                let name = socket_name(asked.value, asked.flags);
                let name = self.names.keep(name.as_bytes());
                let file = self.files.named(FileKind::Socket, name);
                self.files
                    .open(owner, result, file, makes_closed(CLOSE_ON_EXEC), now_ns);
            }
            Effect::Connect => {
                let socket = self.opened(call, asked.descriptor, FileKind::Socket);
                let is_begun = is_done || call.result == -EINPROGRESS;
                if let (Some(socket), Some(peer), true) = (socket, &asked.peer, is_begun) {
                    let file = self.connected(socket.file, peer);
                    self.files.rename(owner, socket.descriptor, file);
                }
            }
            Effect::Accept if is_done => {
                // It is of the family of the one that listens; which connection that one is a name for, this one is not.
                let listening = self.opened(call, asked.descriptor, FileKind::Socket);
                let name = listening.map_or(Name::default(), |opened| self.files.file(opened.file).name);
                let is_family = self.names.text(name).starts_with(SOCKET);
                // Each connection has a port of its own, and who connects has only one address.
                let peer = found.peer.and_then(|peer| peer.text(false));
                let file = match (is_family, peer, listening) {
                    (true, Some(peer), Some(listening)) => self.connected(listening.file, &peer),
                    (true, ..) => self.files.named(FileKind::Socket, name),
                    (false, ..) => self.files.nameless(FileKind::Socket),
                };
                let is_closed = makes_closed(CLOSE_ON_EXEC).unwrap_or(false);
                self.files.open(owner, result, file, Some(is_closed), now_ns);
            }
            Effect::Make(name, marks) if is_done && asked.descriptor != Some(result) => {
                let name = self.names.keep(name.as_bytes());
                let file = self.files.named(FileKind::Other, name);
                let is_closed = match marks {
                    Marks::Never => Some(false),
                    Marks::Always => Some(true),
                    Marks::Bit(bit) => makes_closed(bit),
                };
                self.files.open(owner, result, file, is_closed, now_ns);
            }
            Effect::Unshare if is_done && makes_closed(CLONE_FILES) == Some(true) => self.files.unshare(owner),
            _ => {}
        }
    }

    /// What the call that a thread is in reads from, or writes to or makes lasting, if that is known.
    pub(super) fn file_in_hand(&mut self, thread: ThreadId, is_read: bool, now_ns: i64) -> Option<FileId> {
        let asked = self.threads[thread.index()].asked.as_ref()?;
        let descriptor = match asked.effect {
            Effect::Operation(FileOperation::Read) if is_read => asked.descriptor,
            Effect::Operation(FileOperation::Copy) if is_read => asked.descriptor,
            Effect::Operation(FileOperation::Copy) => asked.other,
            // Also what has to be read for that.
            Effect::Operation(FileOperation::Write | FileOperation::Sync) => asked.descriptor,
            _ => None,
        };
        let owner = self.owner(thread);
        self.files.find(owner, descriptor?, now_ns, &self.circumstances.gaps)
    }

    pub(super) fn owner(&self, thread: ThreadId) -> Owner {
        Owner {
            thread,
            process: self.threads[thread.index()].process().pid,
        }
    }

    /// The file with this path, which may begin at an open folder, or else at the working directory.
    fn file_of_path(&mut self, owner: Owner, folder: Option<i32>, path: &[u8]) -> FileId {
        if path.is_empty() {
            return self.files.nameless(FileKind::Path);
        }
        let descriptor = folder.unwrap_or(AT_FDCWD);
        let gaps = &self.circumstances.gaps;
        let folder = self.files.find(owner, descriptor, self.now_ns, gaps);
        let folder = folder.map_or("", |file| self.names.text(self.files.file(file).name));
        let name = match folder.starts_with('/') && path[0] != b'/' {
            true => joined(folder, path),
            false => path.to_vec(),
        };
        let name = self.names.keep(&name);
        self.files.named(FileKind::Path, name)
    }

    /// A socket that has another end: `socket inet stream 127.0.0.1:80`.
    fn connected(&mut self, socket: FileId, peer: &str) -> FileId {
        let name = self.names.text(self.files.file(socket).name);
        // It may have had another one before.
        let words: Vec<&str> = name.split(' ').take(3).collect();
        let kind = if name.starts_with(SOCKET) {
            words.join(" ")
        } else {
            SOCKET.trim_end().to_owned()
        };
        let name = self.names.keep(format!("{kind} {peer}").as_bytes());
        self.files.named(FileKind::Socket, name)
    }

    /// What a call was about.
    fn opened(&mut self, call: &Call, descriptor: Option<i32>, kind: FileKind) -> Option<Opened> {
        let descriptor = descriptor.filter(|_| call.result != -EBADF)?;
        let owner = self.owner(call.thread);
        let gaps = &self.circumstances.gaps;
        let file = self.files.used(owner, descriptor, kind, call.end_ns, gaps);
        Some(Opened { descriptor, file })
    }

    fn moved(&mut self, call: &Call, operation: FileOperation, asked: &Asked, kind: FileKind, to: &mut dyn Listen) {
        let first = self.opened(call, asked.descriptor, kind);
        let second = asked.other.filter(|_| operation == FileOperation::Copy);
        let second = self.opened(call, second, FileKind::Unknown);
        let ends = match operation {
            FileOperation::Read => (first, None),
            FileOperation::Copy => (first, second),
            _ => (None, first),
        };
        self.tell_file_call(call, operation, ends, to);
    }

    fn duplicate(&mut self, call: &Call, asked: &Asked, is_close_on_exec: bool) {
        let owner = self.owner(call.thread);
        let descriptor = call.result as i32;
        if let Some(source) = self.opened(call, asked.descriptor, FileKind::Unknown) {
            self.files
                .open(owner, descriptor, source.file, Some(is_close_on_exec), call.end_ns);
        } else {
            self.files.close(owner, descriptor, descriptor, call.end_ns);
        }
    }

    fn close_range(&mut self, owner: Owner, asked: &Asked, now_ns: i64) {
        let flags = asked.flags.unwrap_or(0);
        if flags & CLOSE_RANGE_UNSHARE != 0 {
            self.files.unshare(owner);
        }
        // Numbers beyond what a descriptor can be mean: up to the last one.
        let first = asked.descriptor.unwrap_or(i32::MAX);
        let last = asked.other.filter(|last| *last >= 0).unwrap_or(i32::MAX);
        match flags & CLOSE_RANGE_CLOEXEC != 0 {
            true => self.files.mark_range(owner, first, last),
            false => self.files.close(owner, first, last, now_ns),
        }
    }

    fn tell_file_call(
        &mut self,
        call: &Call,
        operation: FileOperation,
        (source, target): (Option<Opened>, Option<Opened>),
        to: &mut dyn Listen,
    ) {
        if self.is_told() {
            let call = FileCall {
                call: *call,
                operation,
                source,
                target,
            };
            to.file_call(self, &call);
        }
    }
}

/// A path in a folder. A `.` in it means nothing.
fn joined(folder: &str, path: &[u8]) -> Vec<u8> {
    let mut whole = folder.trim_end_matches('/').as_bytes().to_vec();
    for part in path.split(|byte| *byte == b'/') {
        if !matches!(part, b"" | b".") {
            whole.push(b'/');
            whole.extend_from_slice(part);
        }
    }
    if whole.is_empty() { b"/".to_vec() } else { whole }
}

/// How names of sockets begin that calls made; those of the state dump have a number.
const SOCKET: &str = "socket ";

/// `socket inet stream`
fn socket_name(family: Option<i64>, kind: Option<i64>) -> String {
    const FAMILIES: [(i64, &str); 7] = [
        (1, "unix"),
        (2, "inet"),
        (10, "inet6"),
        (16, "netlink"),
        (17, "packet"),
        (38, "alg"),
        (40, "vsock"),
    ];
    const KINDS: [&str; 6] = ["", "stream", "dgram", "raw", "rdm", "seqpacket"];
    let family = family.map_or(String::new(), |family| {
        let known = FAMILIES.iter().find(|(number, _)| *number == family);
        known.map_or_else(|| family.to_string(), |(_, name)| (*name).to_owned())
    });
    // Above are flags.
    let kind = kind.and_then(|kind| KINDS.get((kind & 0xf) as usize)).unwrap_or(&"");
    format!("{SOCKET}{family} {kind}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_change_descriptors_are_told_from_others() {
        let all: Vec<&str> = descriptor_calls().collect();
        for call in [
            "openat", "close", "dup3", "fcntl", "socket", "connect", "accept4", "chdir", "unshare",
        ] {
            assert!(all.contains(&call), "{call}");
        }
        for call in ["read", "sendfile", "fsync", "recvmsg", "listen", "getpid"] {
            assert!(!all.contains(&call), "{call}");
        }
    }
}
