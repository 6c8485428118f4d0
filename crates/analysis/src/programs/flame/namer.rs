// SPDX-License-Identifier: MIT OR Apache-2.0
//! What paths consist of, by name.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::Frame;
use crate::names::Names;
use crate::programs::code::{Code, Place, Resolve};
use crate::programs::images::Images;

/// Gives each frame its name once.
pub(super) struct Namer<'n> {
    pub(super) names: &'n Names,
    pub(super) images: &'n Images,
    pub(super) resolve: &'n mut dyn Resolve,
    pub(super) known: FxHashMap<Frame, Code>,
}

impl Namer<'_> {
    /// How many programs have nameless functions, as nothing says which files lie where in them.
    pub(super) fn unlisted_programs(&self) -> usize {
        let unlisted = self.known.keys().filter_map(|frame| match frame {
            Frame::Code(Place::Unknown { image, .. }, _) if !self.images.has_files(*image) => Some(*image),
            _ => None,
        });
        unlisted.collect::<BTreeSet<_>>().len()
    }

    pub(super) fn code(&mut self, frame: Frame) -> Code {
        if let Some(known) = self.known.get(&frame) {
            return known.clone();
        }
        let nameless = |function: String| Code {
            function,
            line: String::new(),
        };
        let code = match frame {
            Frame::Code(place, stands) => place.name(stands, self.images, self.resolve),
            Frame::Unknown => nameless("(unknown)".to_owned()),
            Frame::Named(name) => nameless(self.names.text(name).to_owned()),
            Frame::Program(image) => {
                let image = self.images.get(image);
                nameless(match (&*image.name, image.pid) {
                    ("", Some(pid)) => format!("({pid})"),
                    ("", None) => "?".to_owned(),
                    (name, _) => name.to_owned(),
                })
            }
        };
        self.known.insert(frame, code.clone());
        code
    }
}
