// SPDX-License-Identifier: MIT OR Apache-2.0
//! The viewer's files, as they were built into this program.

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// A file of the viewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    /// Its media type.
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
}

/// The file with this name.
pub(crate) fn asset(name: &str) -> Option<Asset> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    found.map(|(_, kind, bytes)| Asset { kind, bytes })
}

/// Whether the viewer was built in.
pub fn has_viewer() -> bool {
    !FILES.is_empty()
}
