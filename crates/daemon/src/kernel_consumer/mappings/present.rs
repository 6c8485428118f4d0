// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is mapped in processes now, from /proc/PID/maps, as the owner of a trace can read it.
//!
//! Of processes of others, the owner must not learn where anything lies in memory. So /proc is read as the owner, for whom the kernel decides which
//! processes may be looked at (ptrace(2), PTRACE_MODE_READ_FSCREDS). Perf events tell of all processes: they say only when something was mapped,
//! and count where /proc says the same.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use piste_mappings::{Change, Line, Mapped};
use piste_symbols::binary;
use piste_symbols::local::LocalFiles;
use rustix::fs::{major, minor};

use super::digits;
use crate::person::Person;

/// A file, whatever it is called; with inode 0, none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) inode: u64,
}

/// Reads what is mapped in processes. Many have the same libraries, each of which is looked at once.
pub(super) struct Present {
    owner: Person,
    files: LocalFiles,
    build_ids: HashMap<FileId, String>,
}

impl Present {
    pub(super) fn new(owner: Person) -> Present {
        Present {
            owner,
            files: LocalFiles::new(),
            build_ids: HashMap::new(),
        }
    }

    /// What is mapped in a process; nothing of one that has ended meanwhile, or that the owner cannot look at.
    pub(super) fn of(&mut self, pid: i32) -> Vec<Mapped> {
        // The kernel lets each thread look at its own process, whoever it is at the moment.
        if self.owner.uid().is_some() && pid == std::process::id().cast_signed() {
            return Vec::new();
        }
        let Ok(_as_owner) = self.owner.enter() else {
            return Vec::new();
        };
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let mut parts = Vec::new();
        for (mut mapped, file) in maps.lines().filter_map(|line| part(pid, line)) {
            mapped.build_id = self.build_id(&mapped, file);
            parts.push(mapped);
        }
        parts
    }

    fn build_id(&mut self, mapped: &Mapped, file: FileId) -> String {
        if file.inode == 0 {
            return String::new();
        }
        let known = self.build_ids.entry(file);
        known
            .or_insert_with(|| build_id_of(&mut self.files, mapped, file))
            .clone()
    }

    /// Looks at files anew: another one may have the number of one that was removed.
    pub(super) fn forget_files(&mut self) {
        self.build_ids.clear();
    }

    /// What becomes of lines of perf events: the user who runs pisted may know all; of what is mapped, others get what they can read now.
    pub(super) fn permits(&mut self) -> impl FnMut((Line, FileId)) -> Option<Line> {
        let sees_all = self.owner.uid().is_none();
        let mut now: HashMap<i32, Vec<Mapped>> = HashMap::new();
        move |(Line { time_ns, change }, file)| {
            let change = match change {
                Change::Mapped(mut told) if sees_all => {
                    if file != FileId::default() {
                        told.build_id = self.build_id(&told, file);
                    }
                    Change::Mapped(told)
                }
                Change::Mapped(told) => {
                    let now = now.entry(told.pid).or_insert_with(|| self.of(told.pid));
                    let is_told = |found: &&Mapped| (found.address, &found.path) == (told.address, &told.path);
                    Change::Mapped(now.iter().find(is_told)?.clone())
                }
                change => change,
            };
            Some(Line { time_ns, change })
        }
    }
}

/// In hex digits; empty where the file has none, or cannot be read.
fn build_id_of(files: &mut LocalFiles, mapped: &Mapped, file: FileId) -> String {
    let Mapped {
        pid, address, bytes, ..
    } = mapped;
    // Root finds the very file here, also when another one has its name by now, or the process has another root.
    let link = format!("map_files/{address:x}-{:x}", address.saturating_add(*bytes));
    let found = files.open_link(*pid, &link);
    let found = found.or_else(|_| files.open(Path::new(&mapped.path), |found| is(found, file)));
    digits(&found.ok().and_then(binary::build_id).unwrap_or_default())
}

fn is(found: &fs::Metadata, file: FileId) -> bool {
    let device = found.dev();
    (major(device), minor(device), found.ino()) == (file.major, file.minor, file.inode)
}

/// A line about code: `BEGIN-END r-xp OFFSET MAJOR:MINOR INODE PATH`. The kernel marks paths whose file was removed, ` (deleted)`, here and in
/// its events: nobody finds another file there that has the name by now.
fn part(pid: i32, line: &str) -> Option<(Mapped, FileId)> {
    let mut words = line.splitn(6, ' ');
    let (begin, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.as_bytes().get(2) == Some(&b'x');
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let (begin, end, file_offset) = (number(begin)?, number(end)?, number(words.next()?)?);
    let (major, minor) = words.next()?.split_once(':')?;
    let file = FileId {
        major: u32::from_str_radix(major, 16).ok()?,
        minor: u32::from_str_radix(minor, 16).ok()?,
        inode: words.next()?.parse().ok()?,
    };
    let path = words.next()?.trim_start();
    let mapped = || Mapped {
        pid,
        path: path.to_owned(),
        address: begin,
        bytes: end.saturating_sub(begin),
        file_offset,
        build_id: String::new(),
    };
    (is_code && !path.is_empty()).then(|| (mapped(), file))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn lines_of_maps_about_code_are_read() {
        let read = |line| {
            part(7, line).map(|(mapped, file)| {
                let Mapped {
                    address,
                    bytes,
                    file_offset,
                    path,
                    ..
                } = mapped;
                (address, bytes, file_offset, path, (file.major, file.minor, file.inode))
            })
        };
        for (line, expected) in [
            (
                "0041f000-00420000 r-xp 0001f000 fe:10 12345                      /usr/bin/a b",
                Some((
                    0x41f000,
                    0x1000,
                    0x1f000,
                    "/usr/bin/a b".to_owned(),
                    (0xfe, 0x10, 12345),
                )),
            ),
            (
                "7f00-7f10 r-xp 00000000 00:00 0                          [vdso]",
                Some((0x7f00, 0x10, 0, "[vdso]".to_owned(), (0, 0, 0))),
            ),
            (
                "7f00-7f10 r-xp 00000000 00:1f 7                          /lib/old.so (deleted)",
                Some((0x7f00, 0x10, 0, "/lib/old.so (deleted)".to_owned(), (0, 0x1f, 7))),
            ),
            ("7f00-7f10 r--p 00000000 fe:00 1 /usr/bin/a", None),
            ("7f00-7f10 rwxp 00000000 00:00 0 ", None),
            ("7f00-7f10 r-xp", None),
            ("", None),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_mapped_has_the_build_id_of_its_file() {
        let pid = std::process::id().cast_signed();
        let program = std::env::current_exe().unwrap();
        let expected = digits(&binary::build_id(binary::open(&program).unwrap()).unwrap_or_default());
        let present = Present::new(Person::default()).of(pid);
        let own = present.iter().find(|mapped| Path::new(&mapped.path) == program);
        assert_eq!(own.expect("it runs").build_id, expected);
        // The C library has one wherever there is one.
        assert!(present.iter().any(|mapped| !mapped.build_id.is_empty()), "{present:?}");
    }

    #[test]
    fn only_what_the_owner_can_read_is_told() {
        const NOBODY: u32 = 65534;
        if !geteuid().is_root() {
            println!("skipped: only root can do as another user does");
            return;
        }
        let start = |uid| {
            let mut command = Command::new("/bin/cat");
            // Its answer says that it is no longer the program that started it.
            let cat = command.uid(uid).gid(uid).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut cat = cat.spawn().unwrap();
            cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            cat
        };
        let (mut roots, mut own) = (start(0), start(NOBODY));
        let pids = [roots.id(), own.id(), std::process::id()].map(u32::cast_signed);
        let told = |owner: Person| {
            let mut present = Present::new(owner);
            let read = pids.map(|pid| present.of(pid));
            let mut lines: Vec<Line> = read.iter().flatten().cloned().map(line).collect();
            // Mapped by nobody at that place.
            lines.extend(
                read[0]
                    .first()
                    .cloned()
                    .map(|mapped| line(Mapped { address: 1, ..mapped })),
            );
            (read, lines)
        };
        let (all, lines) = told(Person::default());
        assert!(all.iter().all(|mapped| !mapped.is_empty()), "{all:?}");
        let (of_nobody, _) = told(Person::of_user(NOBODY));
        let are_told = of_nobody.each_ref().map(|mapped| !mapped.is_empty());
        assert_eq!(are_told, [false, true, false], "{of_nobody:?}");
        let permitted = |owner: Person| {
            let mut present = Present::new(owner);
            let told = lines.iter().cloned().map(|line| (line, FileId::default()));
            let permitted = told.filter_map(present.permits());
            permitted.collect::<Vec<Line>>()
        };
        assert_eq!(permitted(Person::default()), lines);
        let of_nobody: Vec<Line> = of_nobody.into_iter().flatten().map(line).collect();
        assert_eq!(permitted(Person::of_user(NOBODY)), of_nobody);
        for cat in [&mut roots, &mut own] {
            drop(cat.stdin.take());
            cat.wait().unwrap();
        }
    }

    fn line(mapped: Mapped) -> Line {
        let (time_ns, change) = (7, Change::Mapped(mapped));
        Line { time_ns, change }
    }
}
