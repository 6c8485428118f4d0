// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program or library in memory: where all of it lies, and the names of its functions and variables, by its symbols alone.

use std::path::Path;

use object::Object;

use crate::binary::{Cache, File, open};
use crate::data::{Data, Extent, Mapped};
use crate::debug_file;
use crate::debuginfod::{Debuginfod, Part};
use crate::functions::Functions;

/// What is known of a program or library.
#[derive(Debug)]
pub struct Image {
    functions: Functions,
    data: Data,
    /// Of its addresses: 32 or 64.
    pub bits: u32,
}

impl Image {
    /// Of the file at a path, when it has this build id, else of a server's or of its debug file; names also come from the debug file of a
    /// stripped one. `None` when the file is gone or another one.
    pub fn open(path: &Path, build_id: Option<&[u8]>, debuginfod: Option<&Debuginfod>) -> Option<Image> {
        let is_meant = |cache: &Cache| {
            let file = File::parse(cache).ok();
            file.is_some_and(|file| build_id.is_none_or(|wanted| file.build_id().ok().flatten() == Some(wanted)))
        };
        let fetch = |part| debuginfod?.find(part, build_id?);
        let here = || open(path).ok().map(|file| Cache::new(file, u64::MAX)).filter(is_meant);
        let cache = here()
            .or_else(|| fetch(Part::Executable))
            .or_else(|| debug_file::by_build_id(build_id, u64::MAX))?;
        let file = File::parse(&cache).ok()?;
        let is_stripped = file.symbols().next().is_none();
        let debug = || debug_file::find(&file, path, u64::MAX).or_else(|| fetch(Part::DebugFile));
        let debug = is_stripped.then(debug).flatten();
        let debug = debug.as_ref().and_then(|cache| File::parse(cache).ok());
        Some(Image {
            functions: Functions::of(&file, debug.as_ref()),
            data: Data::of(&file, debug.as_ref())?,
            bits: if file.is_64() { 64 } else { 32 },
        })
    }

    /// Where all of it lies, of which a part is mapped.
    pub fn extent(&self, mapped: Mapped) -> Option<Extent> {
        self.data.extent(mapped)
    }

    /// The function or variable that lies so many bytes behind the first one that is loaded, and how far behind its begin that is.
    pub fn symbol(&self, offset: u64) -> Option<(String, u64)> {
        let function = || {
            // A function that does not say how long it is ends with the code.
            let offset = Some(offset).filter(|offset| self.data.is_code(*offset))?;
            let behind = offset - self.functions.begin(offset)?;
            Some((self.functions.name(offset)?, behind))
        };
        self.data.variable(offset).or_else(function)
    }
}
