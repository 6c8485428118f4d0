// SPDX-License-Identifier: MIT OR Apache-2.0
//! The debug file of a stripped program: found where distributions put them, used only if it is of that very program.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::Object;

use crate::binary::{Cache, File, open};

const ROOT: &str = "/usr/lib/debug";

/// The debug file of `file`, which lies at `path`, to be read in pieces of so many bytes.
pub fn find(file: &File<'_>, path: &Path, piece_bytes_max: u64) -> Option<Cache> {
    let build_id = file.build_id().ok().flatten();
    by_build_id(build_id, piece_bytes_max).or_else(|| by_link(file, path, build_id, piece_bytes_max))
}

pub(crate) fn by_build_id(build_id: Option<&[u8]>, piece_bytes_max: u64) -> Option<Cache> {
    let (first, rest) = build_id?.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("{ROOT}/.build-id/{first:02x}/{rest}.debug");
    let cache = Cache::new(open(Path::new(&path)).ok()?, piece_bytes_max);
    has_build_id(&cache, build_id?).then_some(cache)
}

fn by_link(file: &File<'_>, path: &Path, build_id: Option<&[u8]>, piece_bytes_max: u64) -> Option<Cache> {
    let (name, checksum) = file.gnu_debuglink().ok().flatten()?;
    // A name, not a path: a file may not send us elsewhere.
    let name = OsStr::from_bytes(name);
    if Path::new(name).file_name() != Some(name) {
        return None;
    }
    let path = fs::canonicalize(path).ok()?;
    let folder = path.parent()?;
    let beneath_root = Path::new(ROOT).join(folder.strip_prefix("/").ok()?);
    let candidates = [
        folder.join(name),
        folder.join(".debug").join(name),
        beneath_root.join(name),
    ];
    candidates
        .into_iter()
        .filter(|candidate| *candidate != path)
        .find_map(|candidate| {
            let candidate = open(&candidate).ok()?;
            // The sum is that of all of it.
            let is_of_file = build_id.is_some() || has_checksum(&candidate, checksum, piece_bytes_max);
            let cache = Cache::new(candidate, piece_bytes_max);
            (is_of_file && build_id.is_none_or(|id| has_build_id(&cache, id))).then_some(cache)
        })
}

pub(crate) fn has_build_id(cache: &Cache, wanted: &[u8]) -> bool {
    File::parse(cache).is_ok_and(|file| file.build_id().ok().flatten() == Some(wanted))
}

fn has_checksum(mut file: &fs::File, wanted: u32, bytes_max: u64) -> bool {
    let mut checksum = || -> io::Result<u32> {
        if file.metadata()?.len() > bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut hasher = crc32fast::Hasher::new();
        let mut part = vec![0; 1 << 16];
        loop {
            match file.read(&mut part)? {
                0 => return Ok(hasher.finalize()),
                bytes => hasher.update(&part[..bytes]),
            }
        }
    };
    checksum().is_ok_and(|found| found == wanted)
}
