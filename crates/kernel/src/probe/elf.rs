// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is asked of an ELF file: its functions, and where in the file an address lies.
//!
//! The kernel wants offsets of the file, symbols have addresses; the program headers say how they belong together, in programs at
//! fixed addresses and anywhere as well as in libraries. Symbols come from the file and, when it was stripped, from its debug file
//! ([`debug_file`]).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::elf::{PF_X, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, SymbolType};
use object::{Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SegmentFlags, SymbolFlags};

use piste_reason::reason;
use piste_symbols::binary::{self, Cache, File};
use piste_symbols::debug_file;

use super::asker::Asker;
use super::error::ProbeError;

/// The symbols of the largest programs take half of it.
const PIECE_BYTES_MAX: u64 = 256 << 20;

/// An ELF file that the kernel of this machine runs.
pub(super) struct Elf {
    path: PathBuf,
    metadata: fs::Metadata,
    architecture: Architecture,
    cache: Cache,
    segments: Vec<Segment>,
}

/// A part of the file that is mapped.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    offset: u64,
    file_bytes: u64,
    is_executable: bool,
}

/// A named address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    /// As the linker knows it, without a version.
    pub(super) name: String,
    /// In the address space of the file.
    pub(super) address: u64,
    /// Zero when unknown.
    pub(super) bytes: u64,
    pub(super) kind: SymbolKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SymbolKind {
    Function,
    /// A function that, when the program starts, says which of several is called by the symbol's name.
    Chooser,
    /// Said to be nothing: functions written in assembly, and marks in the code.
    Unknown,
    Data,
}

impl Elf {
    pub(super) fn open(path: &Path) -> Result<Elf, ProbeError> {
        let refused = |reason: String| ProbeError::Binary {
            binary: path.into(),
            reason,
        };
        if !path.is_absolute() {
            return Err(refused("the path must be absolute (/...)".into()));
        }
        let file = binary::open(path).map_err(|error| {
            let mend = match error.kind() {
                io::ErrorKind::PermissionDenied => "; only users who can read a file can probe it",
                _ => "",
            };
            refused(reason(&error) + mend)
        })?;
        let metadata = file.metadata().map_err(|error| refused(reason(&error)))?;
        let cache = Cache::new(file, PIECE_BYTES_MAX);
        let (architecture, segments) = {
            let file = File::parse(&cache)
                .map_err(|_| refused("it is not an ELF program or library, or it is damaged".into()))?;
            if !runs_here(file.architecture()) {
                return Err(refused(format!(
                    "it is built for {:?}, but this machine is {}",
                    file.architecture(),
                    std::env::consts::ARCH
                )));
            }
            let segments: Vec<_> = file.segments().map(|segment| Segment::of(&segment)).collect();
            (file.architecture(), segments)
        };
        if !segments.iter().any(|segment| segment.is_executable) {
            return Err(refused("it has no code that is loaded; link it first".into()));
        }
        Ok(Elf {
            path: path.into(),
            metadata,
            architecture,
            cache,
            segments,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the kernel knows the file by, whatever its path: device and inode.
    pub(super) fn identity(&self) -> (u64, u64) {
        (self.metadata.dev(), self.metadata.ino())
    }

    /// The file itself: another one may have its path by now.
    pub(super) fn file(&self) -> Arc<fs::File> {
        Arc::clone(self.cache.file())
    }

    pub(super) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// So many bytes of code, or those that there are, from an offset of the file.
    pub(super) fn code(&self, offset: u64, bytes: u64) -> Option<&[u8]> {
        let mut code = self.segments.iter().filter(|segment| segment.is_executable);
        let rest = code.find_map(|segment| {
            let into = offset.checked_sub(segment.offset)?;
            segment.file_bytes.checked_sub(into).filter(|rest| *rest > 0)
        })?;
        (&self.cache).read_bytes_at(offset, bytes.min(rest)).ok()
    }

    pub(super) fn parse(&self) -> Option<File<'_>> {
        File::parse(&self.cache).ok()
    }

    /// Defined symbols by name, then address; each pair once. Those of a debug file only if `asker` may rely on it.
    pub(super) fn symbols(&self, asker: Asker) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        if let Some(file) = self.parse() {
            collect(&file, &mut symbols);
            if file.symbols().next().is_none()
                && let Some(debug) = debug_file::find(&file, &self.path, PIECE_BYTES_MAX)
                && (asker == Asker::Root || self.is_as_trusted(debug.file()))
                && let Ok(file) = File::parse(&debug)
            {
                collect(&file, &mut symbols);
            }
        }
        symbols.sort_unstable();
        symbols.dedup_by(|a, b| (&a.name, a.address) == (&b.name, b.address));
        symbols
    }

    /// Whether only root and the program's owner could write the debug file. Anybody can make one that seems to belong to a program, with
    /// symbols in the middle of its instructions.
    fn is_as_trusted(&self, debug: &fs::File) -> bool {
        let is_owners = |debug: fs::Metadata| {
            let is_writable_for_others = debug.mode() & 0o022 != 0;
            (debug.uid() == 0 || debug.uid() == self.metadata.uid()) && !is_writable_for_others
        };
        debug.metadata().is_ok_and(is_owners)
    }

    /// A section's bytes and address; none when the file has no such section or it is cut off.
    pub(super) fn section(&self, name: &str) -> Option<(Vec<u8>, u64)> {
        let file = self.parse()?;
        let section = file.section_by_name(name)?;
        Some((section.data().ok()?.to_vec(), section.address()))
    }

    /// Where in the file the code of an address lies.
    pub(super) fn code_offset(&self, address: u64) -> Option<u64> {
        self.offset_in(address, |segment| segment.is_executable)
    }

    /// Where in the file an address lies, be it code or data.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        self.offset_in(address, |_| true)
    }

    fn offset_in(&self, address: u64, is_wanted: impl Fn(&Segment) -> bool) -> Option<u64> {
        self.segments
            .iter()
            .filter(|segment| is_wanted(segment))
            .find_map(|segment| {
                let into = address.checked_sub(segment.address)?;
                (into < segment.file_bytes)
                    .then(|| segment.offset.checked_add(into))
                    .flatten()
            })
    }

    /// The address of code at an offset of the file; the reverse of [`code_offset`](Elf::code_offset).
    pub(super) fn code_address(&self, offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .filter(|segment| segment.is_executable)
            .find_map(|segment| {
                let into = offset.checked_sub(segment.offset)?;
                (into < segment.file_bytes).then(|| segment.address.wrapping_add(into))
            })
    }
}

impl Segment {
    fn of<'a>(segment: &impl ObjectSegment<'a>) -> Segment {
        let (offset, file_bytes) = segment.file_range();
        Segment {
            address: segment.address(),
            offset,
            file_bytes,
            is_executable: matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0),
        }
    }
}

fn runs_here(architecture: Architecture) -> bool {
    if cfg!(target_arch = "x86_64") {
        matches!(architecture, Architecture::X86_64 | Architecture::I386)
    } else if cfg!(target_arch = "aarch64") {
        matches!(architecture, Architecture::Aarch64)
    } else {
        true
    }
}

fn collect(file: &File<'_>, symbols: &mut Vec<Symbol>) {
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            continue;
        };
        let Some(kind) = kind_of(st_info.st_type()) else {
            continue;
        };
        if symbol.is_undefined() || symbol.section_index().is_none() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let name = name.split_once('@').map_or(name, |(name, _version)| name);
        if name.is_empty() {
            continue;
        }
        symbols.push(Symbol {
            name: name.into(),
            address: symbol.address(),
            bytes: symbol.size(),
            kind,
        });
    }
}

fn kind_of(elf_type: SymbolType) -> Option<SymbolKind> {
    match elf_type {
        STT_FUNC => Some(SymbolKind::Function),
        STT_GNU_IFUNC => Some(SymbolKind::Chooser),
        STT_NOTYPE => Some(SymbolKind::Unknown),
        STT_OBJECT => Some(SymbolKind::Data),
        _ => None,
    }
}
