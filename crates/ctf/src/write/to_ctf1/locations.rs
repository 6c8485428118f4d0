// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways to lengths and selectors, as CTF 1.8 writes them: a name that is looked up in the structures around, or all names from the start of a
//! scope.

use super::{Translated, Translation};
use crate::read::plan::references::{Root, Way};
use crate::read::plan::ways::bare;
use crate::read::schema::{Reference, Structure};
use crate::write::names;

impl Translation<'_> {
    pub(super) fn reference(&self, root: Root, way: &Way) -> Translated<Reference> {
        let [(target_root, target)] = &self.references.resolved(root, way).targets[..] else {
            return Err(self.wrong(
                root,
                way,
                "CTF 1.8 cannot refer to a length or selector inside a variant",
            ));
        };
        let structure = names::structure(self.schema, *target_root).expect("it was found there");
        let mut found: Vec<(usize, String)> = vec![];
        names::follow(structure, target, &mut |structure, before, index| {
            let name = names::for_ctf1(structure, target_root.scope, before.is_empty())[index].clone();
            found.push((before.len(), name));
        });
        if *target_root == root
            && let Some(path) = self.looked_up(structure, root, way, target, &found)
        {
            return Ok(Reference { origin: None, path });
        }
        if !names::is_straight(structure, target) {
            return Err(self.wrong(
                root,
                way,
                "CTF 1.8 cannot refer to a field inside an element, an option or an optional from outside",
            ));
        }
        Ok(Reference {
            origin: Some(target_root.scope),
            path: found.into_iter().map(|(_, name)| Some(name)).collect(),
        })
    }

    /// Names from the innermost structure that is around both, if no structure further in has the first of them.
    fn looked_up(
        &self,
        structure: &Structure,
        root: Root,
        way: &Way,
        target: &Way,
        found: &[(usize, String)],
    ) -> Option<Vec<Option<String>>> {
        let shared = way.iter().zip(target).take_while(|(one, other)| one == other).count();
        let start = found.iter().position(|(before, _)| *before == shared)?;
        // Behind it there are only structures.
        let names = &found[start..];
        if !names
            .iter()
            .enumerate()
            .all(|(step, (before, _))| *before == shared + step)
            || names.len() != target.len() - shared
        {
            return None;
        }
        let first = &names[0].1;
        let mut hidden = false;
        names::follow(structure, way, &mut |structure, before, index| {
            if before.len() > shared {
                let inner = names::for_ctf1(structure, root.scope, before.is_empty());
                hidden |= inner[..index].iter().any(|name| bare(name) == bare(first));
            }
        });
        (!hidden).then(|| names.iter().map(|(_, name)| Some(name.clone())).collect())
    }
}
