// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way from something that depends on a number to that number.
//!
//! CTF 1.8 looks a name up in the structures around it, from the innermost, then in the scopes before (specification 7.3.2). CTF 2 says where
//! a way begins, and goes through the elements and options that are being read (CTF2-SPEC-2.0, 6.4.2).

use std::sync::Arc;

use super::references::{Root, Way};
use crate::read::schema::{Label, Reference, Structure, Type, Version};

/// A structure around.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) structure: &'a Structure,
    /// How much of the way leads to it.
    pub(super) start: usize,
}

/// A number that a way leads to.
pub(super) struct Target<'a> {
    pub(super) root: Root,
    pub(super) way: Way,
    pub(super) of_type: &'a Type,
}

/// Where ways begin.
pub(super) struct Ways<'a, 's> {
    pub(super) version: Version,
    /// The scopes that are read so far, with the one that is being read last.
    pub(super) roots: &'s [(Root, &'a Structure)],
    pub(super) root: Root,
    pub(super) frames: &'s [Frame<'a>],
    /// To what depends.
    pub(super) way: &'s [u32],
}

type Names<'n> = &'n [&'n str];

impl<'a> Ways<'a, '_> {
    /// All numbers that may be meant.
    pub(super) fn find(&self, reference: &Reference) -> Vec<Target<'a>> {
        let Some((ups, names)) = straight(&reference.path) else {
            return vec![];
        };
        if let Some(origin) = reference.origin {
            let found = self.roots.iter().rfind(|(root, _)| root.scope == origin);
            return match found {
                Some((root, structure)) if ups == 0 => self.search_scope(*root, structure, &names),
                _ => vec![],
            };
        }
        let frames = &self.frames[..self.frames.len().saturating_sub(ups)];
        if self.version == Version::Ctf2 {
            return frames
                .last()
                .map_or_else(Vec::new, |frame| self.search_frame(frame, &names));
        }
        let around = frames.iter().rev().map(|frame| self.search_frame(frame, &names));
        let (_, before) = self.roots.split_last().expect("one is being read");
        let earlier = before
            .iter()
            .rev()
            .map(|(root, structure)| self.search_scope(*root, structure, &names));
        around
            .chain(earlier)
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    fn search_scope(&self, root: Root, structure: &'a Structure, names: Names<'_>) -> Vec<Target<'a>> {
        let own = (root == self.root).then_some(self.way);
        self.search(root, structure, vec![], names, own)
    }

    fn search_frame(&self, frame: &Frame<'a>, names: Names<'_>) -> Vec<Target<'a>> {
        let (start, own) = self.way.split_at(frame.start);
        self.search(self.root, frame.structure, start.to_vec(), names, Some(own))
    }

    fn search(
        &self,
        root: Root,
        structure: &'a Structure,
        way: Way,
        names: Names<'_>,
        own: Option<&[u32]>,
    ) -> Vec<Target<'a>> {
        let mut search = Search {
            version: self.version,
            root,
            way,
            found: vec![],
        };
        search.structure(structure, names, own);
        search.found
    }
}

/// Steps to structures around, and names from there: a name that is followed by a step back is no step.
fn straight(path: &[Option<String>]) -> Option<(usize, Vec<&str>)> {
    let (mut ups, mut names) = (0, vec![]);
    for name in path {
        match name {
            Some(name) => names.push(name.as_str()),
            None => {
                if names.pop().is_none() {
                    ups += 1;
                }
            }
        }
    }
    (!names.is_empty()).then_some((ups, names))
}

struct Search<'a> {
    version: Version,
    root: Root,
    way: Way,
    found: Vec<Target<'a>>,
}

impl<'a> Search<'a> {
    /// `own`: the rest of the way to what depends, if it is in here.
    fn structure(&mut self, structure: &'a Structure, names: Names<'_>, own: Option<&[u32]>) {
        let Some((name, rest)) = names.split_first() else {
            return;
        };
        let own = own.and_then(<[u32]>::split_first);
        // Fields behind the one that is being read are not there yet.
        let before = own.map_or(structure.fields.len(), |(current, _)| *current as usize);
        if let Some(index) = self.position(&structure.fields[..before], name) {
            self.inner(&structure.fields[index].1, index, rest, None);
        } else if let Some((_, within)) = own
            && self.position(&structure.fields[before..=before], name).is_some()
        {
            self.inner(&structure.fields[before].1, before, rest, Some(within));
        }
    }

    fn inner(&mut self, of_type: &'a Type, index: usize, names: Names<'_>, own: Option<&[u32]>) {
        self.way.push(index as u32);
        self.of_type(of_type, names, own);
        self.way.pop();
    }

    fn of_type(&mut self, of_type: &'a Type, names: Names<'_>, own: Option<&[u32]>) {
        if own.is_some_and(<[u32]>::is_empty) {
            // It is what depends.
            return;
        }
        let is_ctf2 = self.version == Version::Ctf2;
        match of_type {
            Type::Structure(structure) => self.structure(structure, names, own),
            Type::Optional(optional) => self.inner(&optional.content, 0, names, own.map(|own| &own[1..])),
            // The element that is being read.
            Type::Array(array) if is_ctf2 && own.is_some() => {
                self.inner(&array.element, 0, names, own.map(|own| &own[1..]));
            }
            Type::Variant(variant) if is_ctf2 => {
                for (index, option) in variant.options.iter().enumerate() {
                    match own {
                        Some(own) if own[0] as usize == index => {
                            self.inner(&option.of_type, index, names, Some(&own[1..]))
                        }
                        Some(_) => {}
                        None => self.inner(&option.of_type, index, names, None),
                    }
                }
            }
            Type::Integer(_) | Type::Enumeration(_) | Type::Float(_) | Type::Text(_) | Type::Blob(_)
                if names.is_empty() =>
            {
                self.found.push(Target {
                    root: self.root,
                    way: self.way.clone(),
                    of_type,
                });
            }
            _ => {}
        }
    }

    fn position(&self, fields: &[(String, Arc<Type>)], name: &str) -> Option<usize> {
        let exact = fields.iter().position(|(known, _)| known == name);
        if self.version == Version::Ctf2 {
            return exact;
        }
        exact.or_else(|| fields.iter().position(|(known, _)| bare(known) == bare(name)))
    }
}

/// A name without the underscore that CTF 1.8 puts before names that may be keywords.
pub(crate) fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// Values whose label has the name of an option.
pub(crate) fn ranges_of(labels: &[Label], name: &str) -> Vec<(i128, i128)> {
    let exact = labels.iter().find(|label| label.name == name);
    let found = exact.or_else(|| labels.iter().find(|label| bare(&label.name) == bare(name)));
    found.map(|label| label.ranges.clone()).unwrap_or_default()
}
