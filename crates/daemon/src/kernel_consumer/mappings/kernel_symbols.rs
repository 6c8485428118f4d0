// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own part: what it calls its code and data, in a file of a recording.
//!
//! The addresses are others after each start of the kernel, and those of BPF programs already when the next program is loaded. So what the kernel
//! says when the recording begins is written then, and when it ends, what has joined it since.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use piste_mappings::KERNEL_SYMBOLS;

use crate::person::{Output, Person};

/// What the kernel tells.
const LIST: &str = "/proc/kallsyms";

/// So much of it is read or written at once.
const PART_BYTES: usize = 256 << 10;

/// The symbols, for the files of a recording.
pub(super) struct KernelSymbols {
    owner: Person,
    /// Absent in a flight recorder.
    folder: Option<PathBuf>,
    are_wanted: bool,
    begun: Option<Begun>,
    /// The last list, as it was written: the next file most often has the same.
    packed: Packed,
}

/// A file that has what the kernel said when it began.
struct Begun {
    file: File,
    /// The lines that come and go: those of modules, BPF programs and the like.
    passing: HashSet<Box<str>>,
}

#[derive(Default)]
struct Packed {
    /// Of the list.
    hash: u64,
    bytes: Vec<u8>,
}

impl KernelSymbols {
    /// They are not wanted yet.
    pub(super) fn new(owner: Person, folder: Option<PathBuf>) -> KernelSymbols {
        KernelSymbols {
            owner,
            folder,
            are_wanted: false,
            begun: None,
            packed: Packed::default(),
        }
    }

    /// Writes them from now on, all that the owner can read. That takes a tenth of a second; `meanwhile` is called often.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub(super) fn want(&mut self, meanwhile: &mut impl FnMut()) -> io::Result<()> {
        self.are_wanted = true;
        if self.begun.is_some() || self.folder.is_none() {
            return Ok(());
        }
        let list = read(&self.owner, meanwhile)?;
        self.begin(&list, meanwhile)
    }

    /// Ends the file: what is new since it began follows an empty line. Returns what the kernel says, for the next file; nothing where there is none.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub(super) fn end(&mut self, meanwhile: &mut impl FnMut()) -> io::Result<String> {
        if !self.are_wanted {
            return Ok(String::new());
        }
        let list = read(&self.owner, meanwhile)?;
        self.end_with(&list, meanwhile)?;
        Ok(list)
    }

    fn end_with(&mut self, list: &str, meanwhile: &mut impl FnMut()) -> io::Result<()> {
        if let Some(mut begun) = self.begun.take() {
            let is_new = |line: &&str| is_passing(line) && !begun.passing.contains(*line);
            let new: String = list.lines().filter(is_new).flat_map(|line| ["\n", line]).collect();
            if !new.is_empty() {
                let packed = Packed::new(&format!("{new}\n"), meanwhile)?;
                begun.write(&packed, &self.owner)?;
            }
        }
        Ok(())
    }

    /// Goes on in another folder, with what the kernel said at the end of the last one.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn go_on(&mut self, folder: PathBuf, list: &str, meanwhile: &mut impl FnMut()) -> io::Result<()> {
        self.folder = Some(folder);
        self.begin(list, meanwhile)
    }

    /// Writes a file of its own.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub(super) fn write(&mut self, output: &Output, meanwhile: &mut impl FnMut()) -> io::Result<()> {
        if self.are_wanted {
            let list = read(&output.owner, meanwhile)?;
            self.create(&output.owner, &output.folder, &list, meanwhile)?;
        }
        Ok(())
    }

    fn begin(&mut self, list: &str, meanwhile: &mut impl FnMut()) -> io::Result<()> {
        if let Some(folder) = self.folder.clone() {
            self.begun = self.create(&self.owner.clone(), &folder, list, meanwhile)?;
        }
        Ok(())
    }

    /// `None` where there is nothing to be written.
    fn create(
        &mut self,
        owner: &Person,
        folder: &Path,
        list: &str,
        meanwhile: &mut impl FnMut(),
    ) -> io::Result<Option<Begun>> {
        if list.is_empty() {
            return Ok(None);
        }
        if self.packed.hash != hash(list) {
            self.packed = Packed::new(list, meanwhile)?;
        }
        owner.make_folder(folder)?;
        let path = folder.join(KERNEL_SYMBOLS);
        let mut begun = Begun {
            file: owner.open(&path, OpenOptions::new().write(true).create(true).truncate(true))?,
            passing: list.lines().filter(|line| is_passing(line)).map(Box::from).collect(),
        };
        begun.write(&self.packed, owner)?;
        Ok(Some(begun))
    }
}

impl Begun {
    fn write(&mut self, packed: &Packed, owner: &Person) -> io::Result<()> {
        let _as_owner = owner.enter()?;
        self.file.write_all(&packed.bytes)
    }
}

impl Packed {
    fn new(list: &str, meanwhile: &mut impl FnMut()) -> io::Result<Packed> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        for part in list.as_bytes().chunks(PART_BYTES) {
            packed.write_all(part)?;
            meanwhile();
        }
        Ok(Packed {
            hash: hash(list),
            bytes: packed.finish()?,
        })
    }
}

fn hash(list: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    list.hash(&mut hasher);
    hasher.finish()
}

/// As that person, for the kernel decides who may see addresses. Empty where it shows none.
fn read(owner: &Person, meanwhile: &mut impl FnMut()) -> io::Result<String> {
    let mut file = {
        let _as_owner = owner.enter()?;
        File::open(LIST)?
    };
    let mut list = Vec::new();
    while (&mut file).take(PART_BYTES as u64).read_to_end(&mut list)? > 0 {
        meanwhile();
    }
    let list = String::from_utf8(list).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    // Where addresses are shown, those of a CPU's own memory may begin at 0.
    let is_hidden = |line: &str| line.starts_with("0000000000000000 ");
    Ok(if list.lines().all(is_hidden) {
        String::new()
    } else {
        list
    })
}

/// Of a module: `ffffffffc0001000 t name [module]`
fn is_passing(line: &str) -> bool {
    line.ends_with(']')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flate2::read::MultiGzDecoder;
    use piste_symbols::kernel;

    use super::*;

    #[test]
    fn a_file_names_what_was_there_and_what_came() {
        const FIRST: &str = "\
ffffffff81000000 T _stext
ffffffff81000100 t schedule
ffffffffc0001000 t ended\t[bpf]
ffffffffc0002000 t stays\t[bpf]
";
        let last = FIRST.replace("c0001000 t ended", "c0003000 t other") + "ffffffffc0005000 t came\t[bpf]\n";
        let folder = tempfile::tempdir().unwrap();
        let mut symbols = KernelSymbols::new(Person::default(), Some(folder.path().to_owned()));
        symbols.begin(FIRST, &mut || ()).unwrap();
        symbols.end_with(&last, &mut || ()).unwrap();
        let mut list = String::new();
        let file = File::open(folder.path().join(KERNEL_SYMBOLS)).unwrap();
        MultiGzDecoder::new(file).read_to_string(&mut list).unwrap();
        let symbols = kernel::KernelSymbols::of_list(&list);
        for (address, name) in [
            (0xffff_ffff_8100_0110, "schedule"),
            (0xffff_ffff_c000_1010, "ended"),
            (0xffff_ffff_c000_2010, "stays"),
            (0xffff_ffff_c000_3010, "other"),
            (0xffff_ffff_c000_5010, "came"),
        ] {
            assert_eq!(symbols.function(address), Some(name), "{list}");
        }
    }

    #[test]
    fn a_list_is_the_kernels_or_hidden() {
        let mut pieces = 0;
        let list = read(&Person::default(), &mut || pieces += 1).unwrap();
        let whole = fs::read_to_string(LIST).unwrap();
        match &*list {
            "" => assert!(whole.lines().all(|line| line.starts_with("0000000000000000 "))),
            list => assert!(list.contains(" schedule\n") && list.len().abs_diff(whole.len()) < 100_000 && pieces > 3),
        }
    }

    #[test]
    fn the_next_file_has_what_the_last_one_had() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| place.path().join(name);
        let packed = |name: &str| fs::read(folder(name).join(KERNEL_SYMBOLS)).unwrap();
        let mut symbols = KernelSymbols::new(Person::default(), Some(folder("first")));
        let mut parts = 0;
        let list = symbols.end(&mut || parts += 1).unwrap();
        symbols.go_on(folder("first"), &list, &mut || parts += 1).unwrap();
        assert!(parts == 0 && !folder("first").exists(), "they are not wanted yet");
        symbols.want(&mut || ()).unwrap();
        let list = symbols.end(&mut || ()).unwrap();
        symbols.go_on(folder("second"), &list, &mut || parts += 1).unwrap();
        if list.is_empty() {
            println!("skipped: the kernel shows no addresses here");
            return;
        }
        // Others load BPF programs now and then.
        if packed("first") == packed("second") {
            assert_eq!(parts, 0);
        }
    }
}
