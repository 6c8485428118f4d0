// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which program a process is, and which files lie where in it. Both change: processes execute other programs, libraries come and go.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::code::{File, FileId, Place};
use crate::facts::ProgramFact;

/// A program that a process is or was. What is not known to be of a process is one, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageId(u32);

/// What is known of a program that a process is or was.
#[derive(Debug, Default)]
pub struct Image {
    /// The process.
    pub pid: Option<i64>,
    /// Empty when nothing says it.
    pub name: String,
    /// By where they begin.
    parts: BTreeMap<u64, Part>,
    /// How many lists of what is loaded have begun.
    dumps: u32,
    /// One of them has begun and is not complete.
    is_listed: bool,
    /// The next file that is listed is the program.
    awaits_program: bool,
    /// The name of that program, which may be another one.
    announced: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: u64,
    file: FileId,
    /// The last list that it was in, or the one before it came.
    dump: u32,
}

/// All programs and files of a trace.
#[derive(Debug, Default)]
pub struct Images {
    images: Vec<Image>,
    current: FxHashMap<Option<i64>, ImageId>,
    files: Vec<File>,
    by_file: FxHashMap<File, FileId>,
}

impl Images {
    /// The program that a process is now.
    pub fn current(&mut self, pid: Option<i64>) -> ImageId {
        match self.current.get(&pid) {
            Some(image) => *image,
            None => self.begin(pid),
        }
    }

    /// The program that a thread runs. Of a thread whose process is not known it is that of the process which it would be the first thread of,
    /// as the only one of many commands is: a process has the number of its first thread.
    pub fn of_thread(&mut self, pid: Option<i64>, tid: Option<i64>) -> ImageId {
        self.current(pid.or(tid))
    }

    /// What is known of it.
    pub fn get(&self, image: ImageId) -> &Image {
        &self.images[image.0 as usize]
    }

    /// Whether anything says which files lie where in it.
    pub fn has_files(&self, image: ImageId) -> bool {
        !self.get(image).parts.is_empty()
    }

    /// What is known of a file.
    pub fn file(&self, file: FileId) -> &File {
        &self.files[file.0 as usize]
    }

    /// Where the code of an address lies.
    pub fn place(&self, image: ImageId, address: u64) -> Place {
        match self.get(image).parts.range(..=address).next_back() {
            Some((base, part)) if address - base < part.bytes => Place::InFile {
                file: part.file,
                offset: address - base,
            },
            _ => Place::Unknown { image, address },
        }
    }

    /// A program tells of itself.
    pub fn apply(&mut self, pid: Option<i64>, fact: &ProgramFact<'_>) {
        let mut id = self.current(pid);
        match *fact {
            ProgramFact::DumpBegin => {
                let image = self.get_mut(id);
                image.dumps += 1;
                image.is_listed = true;
                image.awaits_program = true;
            }
            ProgramFact::DumpEnd => {
                let image = self.get_mut(id);
                let dump = image.dumps;
                if std::mem::take(&mut image.is_listed) {
                    image.parts.retain(|_, part| part.dump == dump);
                }
                if let Some(name) = image.announced.take() {
                    image.name = name;
                }
            }
            ProgramFact::Named { name } => self.get_mut(id).announced = Some(String::from_utf8_lossy(name).into()),
            ProgramFact::Loaded { base, bytes, path } => {
                let file = self.keep(File {
                    path: String::from_utf8_lossy(path).into(),
                    build_id: None,
                });
                if std::mem::take(&mut self.get_mut(id).awaits_program) {
                    let announced = self.get_mut(id).announced.take();
                    if self.is_other_program(id, base, file) {
                        id = self.begin(pid);
                    }
                    if let Some(name) = announced {
                        self.get_mut(id).name = name;
                    }
                }
                self.load(id, base, bytes, file);
            }
            ProgramFact::BuildId { base, id: build_id } => {
                let Some(part) = self.get(id).parts.get(&base) else {
                    return;
                };
                let file = self.keep(File {
                    path: self.file(part.file).path.clone(),
                    build_id: Some(build_id.iter().map(|byte| *byte as u8).collect()),
                });
                if let Some(part) = self.get_mut(id).parts.get_mut(&base) {
                    part.file = file;
                }
            }
            ProgramFact::Unloaded { base } => _ = self.get_mut(id).parts.remove(&base),
            _ => {}
        }
    }

    fn get_mut(&mut self, image: ImageId) -> &mut Image {
        &mut self.images[image.0 as usize]
    }

    fn begin(&mut self, pid: Option<i64>) -> ImageId {
        let id = ImageId(self.images.len() as u32);
        self.images.push(Image {
            pid,
            ..Image::default()
        });
        self.current.insert(pid, id);
        id
    }

    fn keep(&mut self, file: File) -> FileId {
        if let Some(known) = self.by_file.get(&file) {
            return *known;
        }
        let id = FileId(self.files.len() as u32);
        self.files.push(file.clone());
        self.by_file.insert(file, id);
        id
    }

    /// A list of what is loaded begins with the program: with another one, after a process has executed one.
    fn is_other_program(&self, id: ImageId, base: u64, file: FileId) -> bool {
        let parts = &self.get(id).parts;
        let is_same = |part: &Part| self.file(part.file).path == self.file(file).path;
        !parts.is_empty() && !parts.get(&base).is_some_and(is_same)
    }

    fn load(&mut self, id: ImageId, base: u64, bytes: u64, file: FileId) {
        let is_known = |part: &Part| self.file(part.file).path == self.file(file).path;
        let known = self
            .get(id)
            .parts
            .get(&base)
            .filter(|part| is_known(part))
            .map(|part| part.file);
        let image = self.get_mut(id);
        let end = base.saturating_add(bytes);
        // What lay there is gone: nothing else can be. Parts do not overlap, so what ends last begins last.
        while let Some((other, part)) = image.parts.range(..end).next_back()
            && other.saturating_add(part.bytes) > base
        {
            let other = *other;
            image.parts.remove(&other);
        }
        let part = Part {
            bytes,
            file: known.unwrap_or(file),
            dump: image.dumps,
        };
        image.parts.insert(base, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines `start`, `end`, `name NAME`, `load BASE BYTES PATH`, `build BASE ID`, `unload BASE`, or `at ADDRESS EXPECTED`.
    fn check(lines: &str) -> Images {
        let mut images = Images::default();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |place: usize| u64::from_str_radix(words[place], 16).expect("a number");
            let id;
            let fact = match words[0] {
                "start" => ProgramFact::DumpBegin,
                "end" => ProgramFact::DumpEnd,
                "name" => ProgramFact::Named {
                    name: words[1].as_bytes(),
                },
                "load" => ProgramFact::Loaded {
                    base: number(1),
                    bytes: number(2),
                    path: words[3].as_bytes(),
                },
                "build" => {
                    id = [number(2)];
                    ProgramFact::BuildId {
                        base: number(1),
                        id: &id,
                    }
                }
                "unload" => ProgramFact::Unloaded { base: number(1) },
                _ => {
                    let image = images.current(Some(7));
                    let seen = match images.place(image, number(1)) {
                        Place::InFile { file, offset } => {
                            let build_id = images.file(file).build_id.as_ref().map_or(0, |id| id[0]);
                            format!("{}+{offset:x} {build_id:x}", images.file(file).path)
                        }
                        place => format!("{place:?}").split(' ').next().expect("a word").to_owned(),
                    };
                    assert_eq!(seen, words[2..].join(" "), "{line}");
                    continue;
                }
            };
            images.apply(Some(7), &fact);
        }
        images
    }

    #[test]
    fn the_first_thread_of_a_process_is_known_by_its_number() {
        let mut images = check("start\nload 1000 100 shop\nend");
        let of_process = images.of_thread(Some(7), Some(9));
        assert_eq!(images.of_thread(None, Some(7)), of_process);
        assert_ne!(images.of_thread(None, Some(9)), of_process);
        assert_ne!(images.of_thread(None, None), of_process);
    }

    #[test]
    fn libraries_come_and_go() {
        check(
            "start
            load 1000 100 shop
            build 1000 aa
            end
            at 1000 shop+0 aa
            at 10ff shop+ff aa
            at 1100 Unknown
            load 5000 100 plugin
            at 5001 plugin+1 0
            unload 5000
            at 5001 Unknown
            load 4f80 100 other
            at 5001 other+81 0
            load 5000 10 third
            at 5001 third+1 0
            at 4fff Unknown",
        );
    }

    #[test]
    fn what_many_libraries_cover_is_gone_however_they_lie_there() {
        check(
            "start
            load 1000 100 shop
            load 3000 10 a
            load 3010 10 b
            load 3020 0 c
            load 3030 10 d
            load 3008 28 e
            at 3000 Unknown
            at 3010 e+8 0
            at 3030 d+0 0
            load 3018 20 f
            at 3010 Unknown
            at 3030 f+18 0
            at 3038 Unknown
            load 3020 0 g
            at 3018 Unknown
            load 3020 8 h
            at 3020 h+0 0
            at 1000 shop+0 0",
        );
    }

    #[test]
    fn many_libraries_and_many_lists_of_them_take_no_time() {
        let mut images = Images::default();
        for base in 0..100_000 {
            let path = b"plugin";
            let (base, bytes) = (base * 0x1000, 0x1000);
            images.apply(Some(7), &ProgramFact::Loaded { base, bytes, path });
        }
        for _ in 0..100_000 {
            images.apply(Some(7), &ProgramFact::DumpEnd);
        }
        let image = images.current(Some(7));
        assert_eq!(images.get(image).parts.len(), 100_000);
    }

    #[test]
    fn another_list_of_the_same_program_takes_away_what_is_gone() {
        let images = check(
            "start
            load 1000 100 shop
            build 1000 aa
            load 3000 100 gone
            end
            start
            load 1000 100 shop
            at 3000 gone+0 0
            end
            at 1000 shop+0 aa
            at 3000 Unknown",
        );
        assert_eq!(images.images.len(), 1);
    }

    #[test]
    fn a_process_that_executes_is_another_program_from_then_on() {
        let images = check(
            "start
            name sh
            load 1000 100 /bin/sh
            load 3000 100 libc
            end
            start
            name ls
            load 2000 100 /bin/ls
            end
            at 2000 /bin/ls+0 0
            at 3000 Unknown",
        );
        let names: Vec<&str> = images.images.iter().map(|image| &*image.name).collect();
        assert_eq!(names, ["sh", "ls"]);
    }
}
