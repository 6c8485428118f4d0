// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variables of a program or a library: which one lies at an address of its data, and which part of memory a loaded file takes.
//!
//! A stripped file still has the names of what it exports; those of its static variables are in its debug file ([`debug_file`]).

use std::path::Path;

use object::elf::{PF_X, STT_OBJECT};
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags, Symbol, SymbolFlags};

use crate::binary::{Cache, File, open};
use crate::debug_file;
use crate::demangle::demangle;

/// Segments lie at multiples of it.
const PAGE_BYTES: u64 = 4096;

/// Where a file that is loaded lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Of its first byte.
    pub base: u64,
    /// From there to its end, variables that are not in the file included.
    pub bytes: u64,
}

/// The code of a file, or a part of it, that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Where it is in memory.
    pub address: u64,
    /// Where it is in the file, in bytes.
    pub file_offset: u64,
}

/// What has to be known of a program or library to place it in memory, and the names of its variables.
#[derive(Debug)]
pub struct Data {
    /// Of the first byte that is loaded, as the file counts.
    first_address: u64,
    bytes: u64,
    /// Segments that are executed: others may share a page of the file with them.
    code: Vec<Segment>,
    /// By address.
    variables: Vec<Variable>,
}

#[derive(Debug)]
struct Segment {
    address: u64,
    bytes: u64,
    file_offset: u64,
    file_bytes: u64,
}

#[derive(Debug)]
struct Variable {
    address: u64,
    bytes: u64,
    name: Box<str>,
}

impl Data {
    /// Reads the file at a path, when it has this build id, and its debug file. `None` when it is gone or another one.
    pub fn open(path: &Path, build_id: Option<&[u8]>) -> Option<Data> {
        let cache = Cache::new(open(path).ok()?, u64::MAX);
        let file = File::parse(&cache).ok()?;
        if build_id.is_some_and(|wanted| file.build_id().ok().flatten() != Some(wanted)) {
            return None;
        }
        let debug = debug_file::find(&file, path, u64::MAX);
        let debug = debug.as_ref().and_then(|cache| File::parse(cache).ok());
        Data::of(&file, debug.as_ref())
    }

    pub(crate) fn of(file: &File<'_>, debug: Option<&File<'_>>) -> Option<Data> {
        let segments = || file.segments();
        let first_address = segments().map(|segment| segment.address()).min()? / PAGE_BYTES * PAGE_BYTES;
        let end = segments()
            .map(|segment| segment.address().saturating_add(segment.size()))
            .max()?;
        let mut variables: Vec<Variable> = [Some(file), debug].into_iter().flatten().flat_map(variables).collect();
        // Of several at one address, the longest, which the others are parts or aliases of, by its shortest name.
        variables.sort_by(|one, other| {
            let key = |variable: &Variable| (variable.address, u64::MAX - variable.bytes, variable.name.len());
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        });
        variables.dedup_by_key(|variable| variable.address);
        Some(Data {
            first_address,
            bytes: end.checked_next_multiple_of(PAGE_BYTES)?.checked_sub(first_address)?,
            code: segments().filter_map(|segment| code(&segment)).collect(),
            variables,
        })
    }

    /// Where all of the file lies, of which a part is mapped.
    pub fn extent(&self, mapped: Mapped) -> Option<Extent> {
        let is_in = |segment: &&Segment| {
            let begin = segment.file_offset / PAGE_BYTES * PAGE_BYTES;
            let end = segment.file_offset.saturating_add(segment.file_bytes);
            (begin..end).contains(&mapped.file_offset)
        };
        let segment = self.code.iter().find(is_in)?;
        let address = segment
            .address
            .wrapping_add(mapped.file_offset)
            .wrapping_sub(segment.file_offset);
        let moved = mapped.address.wrapping_sub(address);
        Some(Extent {
            base: self.first_address.wrapping_add(moved),
            bytes: self.bytes,
        })
    }

    /// What lies so many bytes behind the first one that is loaded is executed.
    pub fn is_code(&self, offset: u64) -> bool {
        let address = self.first_address.wrapping_add(offset);
        let is_in = |segment: &Segment| address.wrapping_sub(segment.address) < segment.bytes;
        self.code.iter().any(is_in)
    }

    /// The variable that lies so many bytes behind the first one that is loaded, and how far behind its begin that is.
    pub fn variable(&self, offset: u64) -> Option<(String, u64)> {
        let address = self.first_address.checked_add(offset)?;
        let place = self.variables.partition_point(|variable| variable.address <= address);
        let variable = &self.variables[place.checked_sub(1)?];
        let behind = address - variable.address;
        let name = || demangle(&variable.name).unwrap_or_else(|| variable.name.to_string());
        (behind < variable.bytes.max(1)).then(|| (name(), behind))
    }
}

fn code<'a>(segment: &impl ObjectSegment<'a>) -> Option<Segment> {
    let SegmentFlags::Elf { p_flags, .. } = segment.flags() else {
        return None;
    };
    let (file_offset, file_bytes) = segment.file_range();
    (p_flags.0 & PF_X.0 != 0).then(|| Segment {
        address: segment.address(),
        bytes: segment.size(),
        file_offset,
        file_bytes,
    })
}

fn variables(file: &File<'_>) -> Vec<Variable> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let variable = |symbol: Symbol<'_, '_, &Cache>| {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            return None;
        };
        if st_info.st_type() != STT_OBJECT || symbol.is_undefined() || symbol.section_index().is_none() {
            return None;
        }
        let name = symbol.name().ok()?;
        let name = name.split_once('@').map_or(name, |(name, _version)| name);
        (!name.is_empty()).then(|| Variable {
            address: symbol.address(),
            bytes: symbol.size(),
            name: name.into(),
        })
    };
    symbols.filter_map(variable).collect()
}
