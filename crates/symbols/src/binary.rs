// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions and lines of a program or a library. Names come from its DWARF, else from its symbols; of a stripped file both are in its
//! debug file ([`debug_file`]).
//!
//! Everything is read, nothing mapped: a file that is cut while it is mapped ends the process that looks at it.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use gimli::{EndianRcSlice, RunTimeEndian};
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection};
use rustix::fs::OFlags;

use crate::debug_file;
use crate::demangle::demangle;
use crate::functions::Functions;

/// A file as it is read: no more of it in one piece than was said.
#[derive(Debug)]
pub struct Cache {
    file: Arc<fs::File>,
    pieces: ReadCache<Arc<fs::File>>,
    piece_bytes_max: u64,
}

/// A file that is understood.
pub type File<'a> = object::File<'a, &'a Cache>;

/// Headers and notes of a file in one piece: more is damage.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// What the code at an address is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The function, as its author wrote it.
    pub function: String,
    /// Where DWARF tells it.
    pub line: Option<Line>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file, as the compiler was given it.
    pub path: String,
    /// From 1 on.
    pub number: u32,
}

/// A program or a library.
pub struct Binary {
    functions: Functions,
    lines: Option<addr2line::Context<DwarfReader>>,
}

impl Binary {
    /// Opens the file at a path, when it has this build id; where it is gone, its debug file does. `None` when there is neither.
    pub fn open(path: &Path, build_id: Option<&[u8]>) -> Option<Binary> {
        let is_meant = |file: &File<'_>| match build_id {
            Some(wanted) => file.build_id().ok().flatten() == Some(wanted),
            None => true,
        };
        let cache = open(path).map(|file| Cache::new(file, u64::MAX));
        match cache
            .as_ref()
            .ok()
            .and_then(|cache| File::parse(cache).ok())
            .filter(is_meant)
        {
            Some(file) => Some(Binary::of(&file, path)),
            None => {
                let cache = debug_file::by_build_id(build_id, u64::MAX)?;
                Some(Binary::of(&File::parse(&cache).ok()?, path))
            }
        }
    }

    fn of(file: &File<'_>, path: &Path) -> Binary {
        let lacks = file.symbols().next().is_none() || file.section_by_name(".debug_info").is_none();
        let debug = lacks.then(|| debug_file::find(file, path, u64::MAX)).flatten();
        let debug = debug.as_ref().and_then(|cache| File::parse(cache).ok());
        let with_lines = debug
            .as_ref()
            .filter(|file| file.section_by_name(".debug_info").is_some());
        Binary {
            functions: Functions::of(file, debug.as_ref()),
            lines: lines(with_lines.unwrap_or(file)),
        }
    }

    /// What the code is called that lies so many bytes behind the first one that is loaded.
    pub fn code(&self, offset: u64) -> Option<Code> {
        let address = self.functions.address(offset)?;
        let (function, line) = self.frame(address).unwrap_or_default();
        Some(Code {
            function: function.or_else(|| self.functions.name(offset))?,
            line,
        })
    }

    /// Where the function begins that the code is of, in bytes behind the first one that is loaded.
    pub fn function_at(&self, offset: u64) -> Option<u64> {
        self.functions.begin(offset)
    }

    /// Of functions that were put into one another, the innermost.
    fn frame(&self, address: u64) -> Option<(Option<String>, Option<Line>)> {
        let mut frames = self.lines.as_ref()?.find_frames(address).skip_all_loads().ok()?;
        let frame = frames.next().ok()??;
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let name = name.map(|name| demangle(&name).unwrap_or_else(|| name.into_owned()));
        let line = frame.location.and_then(|place| {
            Some(Line {
                path: place.file?.to_owned(),
                number: place.line?,
            })
        });
        Some((name, line))
    }
}

impl Cache {
    /// `piece_bytes_max` is for files of strangers: they say how long their sections are, and take no disk for that.
    pub fn new(file: fs::File, piece_bytes_max: u64) -> Cache {
        let file = Arc::new(file);
        Cache {
            pieces: ReadCache::new(Arc::clone(&file)),
            file,
            piece_bytes_max,
        }
    }

    /// The file that is read, whatever lies at its path by now.
    pub fn file(&self) -> &Arc<fs::File> {
        &self.file
    }
}

impl<'a> ReadRef<'a> for &'a Cache {
    fn len(self) -> Result<u64, ()> {
        (&self.pieces).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        match size <= self.piece_bytes_max {
            true => (&self.pieces).read_bytes_at(offset, size),
            false => Err(()),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        (&self.pieces).read_bytes_at_until(range, delimiter)
    }
}

/// Opens a file, and nothing else. Strangers may choose the path.
///
/// # Errors
/// It cannot be opened, or is no file.
pub fn open(path: &Path) -> io::Result<fs::File> {
    // Opening alone waits for the writer of a pipe, makes a terminal ours, and is something to many devices. This only finds what is there.
    open_found(&open_with(path, OFlags::PATH)?, |_| true)
}

/// The same, if the file is wanted and the path does not end with a link.
///
/// # Errors
/// As [`open`], or it is not wanted.
pub(crate) fn open_itself(path: &Path, is_wanted: impl FnOnce(&fs::Metadata) -> bool) -> io::Result<fs::File> {
    open_found(&open_with(path, OFlags::PATH | OFlags::NOFOLLOW)?, is_wanted)
}

/// Opens what a descriptor without access stands for, if it is a file that is wanted.
pub(crate) fn open_found(found: &fs::File, is_wanted: impl FnOnce(&fs::Metadata) -> bool) -> io::Result<fs::File> {
    let metadata = found.metadata()?;
    if !metadata.is_file() || !is_wanted(&metadata) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    // The path may lead to something else by now. Nor do we wait for a program with a lease on the file.
    let found = format!("/proc/self/fd/{}", found.as_raw_fd());
    open_with(Path::new(&found), OFlags::NONBLOCK | OFlags::NOCTTY)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<fs::File> {
    let flags = flags.bits().cast_signed();
    fs::File::options().read(true).custom_flags(flags).open(path)
}

/// Reads what DWARF has.
pub(crate) type DwarfReader = EndianRcSlice<RunTimeEndian>;

/// The build id of a program or library that may be a stranger's; `None` where it has none, or is something else.
pub fn build_id(file: fs::File) -> Option<Vec<u8>> {
    let cache = Cache::new(file, HEADER_BYTES_MAX);
    let file = File::parse(&cache).ok()?;
    file.build_id().ok().flatten().map(<[u8]>::to_vec)
}

fn lines(file: &File<'_>) -> Option<addr2line::Context<DwarfReader>> {
    addr2line::Context::from_dwarf(dwarf(file)?).ok()
}

/// The debug information of a file, where it has some.
pub(crate) fn dwarf(file: &File<'_>) -> Option<gimli::Dwarf<DwarfReader>> {
    file.section_by_name(".debug_info")?;
    let endian = match file.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    };
    let load = |section: gimli::SectionId| -> Result<_, gimli::Error> {
        let data = file
            .section_by_name(section.name())
            .and_then(|section| section.uncompressed_data().ok())
            .unwrap_or_default();
        Ok(EndianRcSlice::new(Rc::from(&*data), endian))
    };
    gimli::Dwarf::load(load).ok()
}
