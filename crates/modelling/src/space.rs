// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where programs and libraries lie in the memory of a process, variables that are not in their files included.

use std::collections::BTreeMap;
use std::sync::Arc;

use piste_mappings::Mapped;
use piste_symbols::data;
use piste_symbols::image::Image;

use crate::mappings::Map;
use crate::memory::is_file;

/// The programs and libraries of a process, by where they begin.
#[derive(Debug, Default)]
pub(crate) struct Space(BTreeMap<u64, (u64, Arc<Image>)>);

impl Space {
    /// Of what is mapped, and of what the process says that it has loaded. `open` has each file's image.
    pub(crate) fn of(map: &Map, open: impl Fn(&Mapped) -> Option<Arc<Image>>) -> Space {
        let mut space = Space::default();
        for part in map.loaded.values() {
            if let Some(image) = open(part) {
                space.0.insert(part.address, (part.bytes, image));
            }
        }
        for part in map.mapped.values().filter(|part| is_file(part)) {
            let place = |image: Arc<Image>| {
                let extent = image.extent(data::Mapped {
                    address: part.address,
                    file_offset: part.file_offset,
                })?;
                Some((extent.base, (extent.bytes, image)))
            };
            space.0.extend(open(part).and_then(place));
        }
        space
    }

    /// What an address lies in, and how far behind its first byte.
    pub(crate) fn at(&self, address: u64) -> Option<(&Image, u64)> {
        let (base, (bytes, image)) = self.0.range(..=address).next_back()?;
        let offset = address - base;
        (offset < *bytes).then_some((&**image, offset))
    }
}
