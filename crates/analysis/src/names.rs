// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that come again and again, kept once.

use rustc_hash::FxHashMap;

/// A name that [`Names`] keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

/// Keeps names.
#[derive(Debug)]
pub struct Names {
    by_bytes: FxHashMap<Box<[u8]>, Name>,
    texts: Vec<Box<str>>,
}

impl Default for Names {
    fn default() -> Names {
        let mut names = Names {
            by_bytes: FxHashMap::default(),
            texts: Vec::new(),
        };
        names.keep(b"");
        names
    }
}

impl Names {
    /// The name with these bytes. What is no text in them is replaced when it is shown.
    pub fn keep(&mut self, bytes: &[u8]) -> Name {
        if let Some(known) = self.by_bytes.get(bytes) {
            return *known;
        }
        let name = Name(self.texts.len() as u32);
        self.texts.push(String::from_utf8_lossy(bytes).into());
        self.by_bytes.insert(bytes.into(), name);
        name
    }

    /// The name as text.
    pub fn text(&self, name: Name) -> &str {
        &self.texts[name.0 as usize]
    }
}
