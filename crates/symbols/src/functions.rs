// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of a program or a library by its symbols, without its debug information: their names, and which one a call calls.
//!
//! The kernel follows frame pointers to find who called. A C library has none on most distributions, and hides the function that called it: its
//! frame is missing from the stack. But the call in the frame behind it says which function that is.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use object::elf::{STT_FUNC, STT_GNU_IFUNC};
use object::{Architecture, Object, ObjectSegment, ObjectSymbol, SymbolFlags};

use crate::binary::{Cache, File, open};
use crate::debug_file;
use crate::demangle::demangle;

/// Segments lie at multiples of it.
const PAGE_BYTES: u64 = 4096;

/// The functions of a program or library.
#[derive(Debug)]
pub struct Functions {
    /// Of the first byte that is loaded, as the file counts.
    first_address: u64,
    /// By address.
    all: Vec<Function>,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) address: u64,
    /// Behind it.
    end: u64,
    pub(crate) name: Box<str>,
}

/// The functions of a program or library, and the calls in its code.
#[derive(Debug)]
pub struct Code {
    functions: Functions,
    file: Arc<fs::File>,
    /// Where the segments that are in the file begin, in it and as it counts, and how long they are. Empty where calls are of another form.
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    address: u64,
    file_offset: u64,
    file_bytes: u64,
}

impl Functions {
    pub(crate) fn of(file: &File<'_>, debug: Option<&File<'_>>) -> Functions {
        let mut all = Vec::new();
        for file in [Some(file), debug].into_iter().flatten() {
            collect(file, &mut all);
        }
        // Of several at one address, the one that says how long it is, by its shortest name: others are aliases.
        all.sort_by(|one: &Function, other| {
            let key = |function: &Function| (function.address, function.end == function.address, function.name.len());
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        });
        all.dedup_by_key(|function| function.address);
        let first_address = file.segments().map(|segment| segment.address()).min().unwrap_or(0);
        Functions {
            first_address: first_address / PAGE_BYTES * PAGE_BYTES,
            all,
        }
    }

    /// Of what lies so many bytes behind the first one that is loaded, as the file counts.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        self.first_address.checked_add(offset)
    }

    /// The function that lies so many bytes behind the first one that is loaded, by the name that its author gave it.
    pub fn name(&self, offset: u64) -> Option<String> {
        let name = &self.at(self.address(offset)?)?.name;
        Some(demangle(name).unwrap_or_else(|| name.to_string()))
    }

    /// Where that function begins, in bytes behind the first one that is loaded.
    pub fn begin(&self, offset: u64) -> Option<u64> {
        let function = self.at(self.address(offset)?)?;
        function.address.checked_sub(self.first_address)
    }

    fn at(&self, address: u64) -> Option<&Function> {
        let place = self.all.partition_point(|function| function.address <= address);
        let function = &self.all[place.checked_sub(1)?];
        let next = self.all.get(place).map_or(u64::MAX, |next| next.address);
        // Functions in assembly often do not say how long they are.
        let end = if function.end > function.address {
            function.end
        } else {
            next
        };
        (address < end).then_some(function)
    }
}

impl Code {
    /// Reads the file at a path, when it has this build id, and its debug file. `None` when it is gone or another one.
    pub fn open(path: &Path, build_id: Option<&[u8]>) -> Option<Code> {
        let cache = Cache::new(open(path).ok()?, u64::MAX);
        let file = File::parse(&cache).ok()?;
        if build_id.is_some_and(|wanted| file.build_id().ok().flatten() != Some(wanted)) {
            return None;
        }
        let is_stripped = file.symbols().next().is_none();
        let debug = is_stripped.then(|| debug_file::find(&file, path, u64::MAX)).flatten();
        let debug = debug.as_ref().and_then(|cache| File::parse(cache).ok());
        let is_understood = file.architecture() == Architecture::X86_64;
        let segments = file.segments().filter(|_| is_understood).map(|segment| Segment {
            address: segment.address(),
            file_offset: segment.file_range().0,
            file_bytes: segment.file_range().1,
        });
        Some(Code {
            functions: Functions::of(&file, debug.as_ref()),
            segments: segments.collect(),
            file: Arc::clone(cache.file()),
        })
    }

    /// The function that lies so many bytes behind the first one that is loaded, by the name that its author gave it.
    pub fn name(&self, offset: u64) -> Option<String> {
        self.functions.name(offset)
    }

    /// The function that is called by the call before the byte that lies so many bytes behind the first one that is loaded. `None` where there is
    /// no call, or one that leads to another file or says by a register where it leads.
    pub fn called(&self, return_offset: u64) -> Option<String> {
        /// `call rel32`
        const CALL: u8 = 0xe8;
        const CALL_BYTES: u64 = 5;
        let behind = self.functions.address(return_offset)?;
        let address = behind.checked_sub(CALL_BYTES)?;
        let mut code = [0; CALL_BYTES as usize];
        let segment = self.segments.iter().find(|segment| {
            let offset = address.checked_sub(segment.address);
            let end = offset.and_then(|offset| offset.checked_add(CALL_BYTES));
            end.is_some_and(|end| end <= segment.file_bytes)
        })?;
        let place = segment.file_offset.checked_add(address - segment.address)?;
        self.file.read_exact_at(&mut code, place).ok()?;
        let [CALL, distance @ ..] = code else { return None };
        let target = behind.wrapping_add_signed(i32::from_le_bytes(distance).into());
        let function = self.functions.at(target)?;
        // These bytes may also be the end of another instruction: they hardly lead to where a function begins then.
        (function.address == target).then(|| self.functions.name(target - self.functions.first_address))?
    }
}

/// Adds the functions of a file that it has under a name; those with several names come several times.
pub(crate) fn collect(file: &File<'_>, functions: &mut Vec<Function>) {
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            continue;
        };
        let is_function = matches!(st_info.st_type(), STT_FUNC | STT_GNU_IFUNC);
        if !is_function || symbol.is_undefined() || symbol.section_index().is_none() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let name = name.split_once('@').map_or(name, |(name, _version)| name);
        if !name.is_empty() {
            functions.push(Function {
                address: symbol.address(),
                end: symbol.address().saturating_add(symbol.size()),
                name: name.into(),
            });
        }
    }
}
