// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names what lies at addresses: of a recording that says which files were mapped where, and of the files that are still on this computer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use piste_analysis::memory::{Memory, Object};
use piste_mappings::Mapped;
use piste_symbols::data::{self, Data};
use piste_symbols::functions::Code;
use piste_trace::Trace;

use crate::c_library;
use crate::mappings::{self, Mappings};

/// What perf events call code that a program made while it ran.
const ANONYMOUS: &str = "//anon";

/// By path and build id; absent when the file is gone or another one.
pub(crate) type Files<F> = HashMap<(String, String), Option<Arc<F>>>;

/// What was where in the memory of the processes of a recording.
#[derive(Debug)]
pub(crate) struct Recorded {
    paths: Vec<PathBuf>,
    /// Read when something is asked for.
    mappings: OnceLock<Mappings>,
    files: Mutex<Files<Data>>,
    /// Read when a function is asked for.
    code: Mutex<Files<Code>>,
}

impl Recorded {
    /// Of the recordings that these traces are of, where they have it.
    pub(crate) fn of(traces: &[Trace]) -> Option<Recorded> {
        let paths = mappings::paths(traces);
        (!paths.is_empty()).then(|| Recorded {
            paths,
            mappings: OnceLock::new(),
            files: Mutex::default(),
            code: Mutex::default(),
        })
    }

    /// Sentences about what could not be known of what was asked for.
    pub(crate) fn notes(&self) -> &[String] {
        self.mappings.get().map_or(&[], |mappings| &mappings.notes)
    }
}

impl Memory for Recorded {
    fn object(&self, pid: i32, ns: i64, address: u64) -> Option<Object> {
        let mappings = self.mappings.get_or_init(|| Mappings::read(&self.paths));
        let map = mappings.at(pid, ns);
        let mapped = &map.mapped;
        let mut is_sure = !mapped.is_empty() && !mappings.has_losses;
        // Most often a file's variables lie behind its code, and nothing else lies between.
        let (behind, before) = (mapped.range(..=address).rev(), mapped.range(address..));
        for part in behind.chain(before).map(|(_, part)| part) {
            if !is_file(part) {
                continue;
            }
            let Some(data) = self.data(part) else {
                is_sure = false;
                continue;
            };
            let extent = data.extent(data::Mapped {
                address: part.address,
                file_offset: part.file_offset,
            });
            let offset = extent.and_then(|extent| {
                let offset = address.checked_sub(extent.base)?;
                (offset < extent.bytes).then_some(offset)
            });
            if let Some(offset) = offset {
                return Some(object(part, &data, offset));
            }
        }
        is_sure.then_some(Object::Anonymous)
    }

    fn waiting(&self, pid: i32, ns: i64, stack: &[u64]) -> Option<String> {
        let mappings = self.mappings.get_or_init(|| Mappings::read(&self.paths));
        let map = mappings.at(pid, ns);
        let mapped = &map.mapped;
        for (place, address) in stack.iter().enumerate() {
            // A caller's address is where its call returns to, which may be behind its last byte.
            let is_return = place > 0;
            let last = address.checked_sub(u64::from(is_return))?;
            let (_, part) = mapped.range(..=last).next_back()?;
            if last - part.address >= part.bytes {
                return None;
            }
            if c_library::is_file(&part.path) {
                continue;
            }
            let extent = self.data(part)?.extent(data::Mapped {
                address: part.address,
                file_offset: part.file_offset,
            })?;
            let (offset, code) = (last.checked_sub(extent.base)?, self.code(part)?);
            // The frame of the function that is called here is missing, unless it is of those that were left out.
            let hidden = is_return.then(|| code.called(offset + 1)).flatten();
            let hidden = hidden.filter(|name| !c_library::is_lock(name));
            match hidden.or_else(|| code.name(offset)) {
                Some(name) if c_library::is_lock(&name) => {}
                Some(name) => return Some(in_source(&name).to_owned()),
                None => return Some(format!("{}+{offset:#x}", file_name(&part.path))),
            }
        }
        None
    }
}

/// A function's name without what compilers put behind it when they make variants: `serve.isra.0`, `serve(int) [clone .part.1]`.
fn in_source(name: &str) -> &str {
    const VARIANTS: [&str; 5] = [" [clone ", ".isra.", ".constprop.", ".part.", ".cold"];
    let begins = VARIANTS.iter().filter_map(|variant| name.find(variant));
    &name[..begins.min().unwrap_or(name.len())]
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn object(part: &Mapped, data: &Data, offset: u64) -> Object {
    let file = file_name(&part.path).to_owned();
    match data.variable(offset) {
        Some((name, offset)) => Object::Variable { name, offset, file },
        None => Object::InFile { offset, file },
    }
}

impl Recorded {
    fn data(&self, part: &Mapped) -> Option<Arc<Data>> {
        open(&self.files, part, Data::open)
    }

    fn code(&self, part: &Mapped) -> Option<Arc<Code>> {
        open(&self.code, part, Code::open)
    }
}

/// What is known of a file, which is opened once.
pub(crate) fn open<F>(
    files: &Mutex<Files<F>>,
    part: &Mapped,
    read: impl FnOnce(&Path, Option<&[u8]>) -> Option<F>,
) -> Option<Arc<F>> {
    let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (part.path.clone(), part.build_id.clone());
    let read = move || {
        let build_id = bytes(&part.build_id)?;
        let build_id = (!build_id.is_empty()).then_some(&build_id[..]);
        read(path(part)?, build_id).map(Arc::new)
    };
    files.entry(key).or_insert_with(read).clone()
}

/// What the kernel or a compiler at run time puts into memory is no file.
pub(crate) fn is_file(part: &Mapped) -> bool {
    part.path.starts_with('/') && part.path != ANONYMOUS
}

/// Where the file is, if it is known and still there.
fn path(part: &Mapped) -> Option<&Path> {
    // The kernel writes `//toolong` and `//enomem` for paths that it cannot find out.
    let is_known = !part.path.starts_with("//") && !part.path.ends_with(" (deleted)");
    is_known.then(|| Path::new(&part.path))
}

/// Of hex digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_a_function_have_its_name() {
        for (name, plain) in [
            ("serve", "serve"),
            ("serve.constprop.0.isra.0", "serve"),
            ("Till::serve(int) [clone .isra.0]", "Till::serve(int)"),
            ("main.serve", "main.serve"),
        ] {
            assert_eq!(in_source(name), plain);
        }
    }
}
