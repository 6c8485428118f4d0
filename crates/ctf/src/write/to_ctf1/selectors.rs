// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the values of selectors. A variant of CTF 1.8 selects by the label of its selector's value; one of CTF 2 by the value, which may
//! have no name, or another.

use std::collections::HashMap;

use super::Unwritable;
use crate::read::plan::references::{References, Root, Way};
use crate::read::plan::ways::bare;
use crate::read::schema::{Label, Schema, Type, Width};
use crate::write::names;

type Ranges = Vec<(i128, i128)>;

#[derive(Default)]
pub(super) struct Selectors {
    /// By selector: labels that it needs besides its own.
    added: HashMap<(Root, Way), Vec<Label>>,
    /// By variant or optional: names of its options, which are labels of its selector.
    options: HashMap<(Root, Way), Vec<String>>,
}

impl Selectors {
    pub(super) fn find(schema: &Schema, references: &References) -> Result<Selectors, Unwritable> {
        let mut finder = Finder {
            schema,
            references,
            found: Selectors::default(),
        };
        for root in names::roots(schema) {
            if let Some(structure) = names::structure(schema, root) {
                for (index, (_, field)) in structure.fields.iter().enumerate() {
                    finder.walk(root, field, &mut vec![index as u32])?;
                }
            }
        }
        Ok(finder.found)
    }

    pub(super) fn option_names(&self, root: Root, way: &Way) -> &[String] {
        self.options.get(&(root, way.clone())).map_or(&[], |names| names)
    }

    /// Labels of a number: its own, and those that it needs.
    pub(super) fn labels(&self, root: Root, way: &Way, own: &[Label]) -> Vec<Label> {
        let added = self.added.get(&(root, way.clone())).map_or(&[][..], |labels| labels);
        own.iter().chain(added).cloned().collect()
    }
}

struct Finder<'a> {
    schema: &'a Schema,
    references: &'a References,
    found: Selectors,
}

impl Finder<'_> {
    fn walk(&mut self, root: Root, of_type: &Type, way: &mut Way) -> Result<(), Unwritable> {
        match of_type {
            Type::Structure(structure) => {
                for (index, (_, field)) in structure.fields.iter().enumerate() {
                    self.inner(root, field, index, way)?;
                }
            }
            Type::Array(array) => self.inner(root, &array.element, 0, way)?,
            Type::Variant(variant) => {
                let options = variant.options.iter().enumerate().map(|(index, option)| {
                    let name = option.name.clone().unwrap_or_else(|| format!("option_{index}"));
                    (name, option.ranges.clone())
                });
                self.select(root, way, options.collect())?;
                for (index, option) in variant.options.iter().enumerate() {
                    self.inner(root, &option.of_type, index, way)?;
                }
            }
            Type::Optional(optional) => {
                let (least, most) = self.values(root, way)?;
                let some: Ranges = match optional.ranges.is_empty() {
                    // A boolean is true whichever bit is set.
                    true => vec![(1, most)],
                    false => optional.ranges.clone(),
                };
                let none = complement(&some, least, most);
                self.select(root, way, vec![("none".into(), none), ("some".into(), some)])?;
                self.inner(root, &optional.content, 0, way)?;
            }
            Type::Integer(_) | Type::Enumeration(_) | Type::Float(_) | Type::Text(_) | Type::Blob(_) => {}
        }
        Ok(())
    }

    fn inner(&mut self, root: Root, of_type: &Type, index: usize, way: &mut Way) -> Result<(), Unwritable> {
        way.push(index as u32);
        let walked = self.walk(root, of_type, way);
        way.pop();
        walked
    }

    /// Finds a label of the selector for each option, or adds one.
    fn select(&mut self, root: Root, way: &Way, options: Vec<(String, Ranges)>) -> Result<(), Unwritable> {
        let (target, _) = self.selector(root, way)?;
        let mut chosen = vec![];
        for (name, ranges) in options {
            let own = &self.references.resolved(root, way).labels;
            // Readers take an underscore off the option, and leave it on the label.
            let is_its = |label: &&Label| {
                let is_name = label.name == names::option(&label.name);
                let is_same = label.name == name || bare(&label.name) == name;
                is_name && is_same && sorted(&label.ranges) == sorted(&ranges) && !chosen.contains(&label.name)
            };
            if let Some(label) = own.iter().find(is_its) {
                chosen.push(label.name.clone());
                continue;
            }
            let added = self.found.added.entry(target.clone()).or_default();
            let stem = names::option(&name);
            let numbered = (2..).map(|number| format!("{stem}_{number}"));
            for candidate in std::iter::once(stem.clone()).chain(numbered) {
                let known = own.iter().chain(&*added).find(|label| label.name == candidate);
                match known {
                    Some(label) if sorted(&label.ranges) != sorted(&ranges) || chosen.contains(&candidate) => continue,
                    Some(_) => {}
                    None => added.push(Label {
                        name: candidate.clone(),
                        ranges: ranges.clone(),
                    }),
                }
                chosen.push(candidate);
                break;
            }
        }
        self.found.options.insert((root, way.clone()), chosen);
        Ok(())
    }

    fn selector(&self, root: Root, way: &Way) -> Result<((Root, Way), &Type), Unwritable> {
        let wrong = |what: &str| Unwritable {
            place: names::place(self.schema, root, way),
            what: what.into(),
        };
        let [target] = &self.references.resolved(root, way).targets[..] else {
            return Err(wrong("CTF 1.8 cannot refer to a selector inside a variant"));
        };
        let of_type = names::of_type(self.schema, target.0, &target.1);
        let of_type = of_type.ok_or_else(|| wrong("its selector is not described"))?;
        Ok((target.clone(), of_type))
    }

    /// The least and the greatest value of the selector.
    fn values(&self, root: Root, way: &Way) -> Result<(i128, i128), Unwritable> {
        let (_, of_type) = self.selector(root, way)?;
        let integer = of_type.integer().expect("selectors are numbers");
        let bits = match integer.width {
            Width::Bits(bits) => bits,
            Width::Variable => 64,
        };
        Ok(match integer.is_signed {
            true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        })
    }
}

fn sorted(ranges: &[(i128, i128)]) -> Ranges {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    sorted
}

/// The values that are in none of the ranges.
fn complement(ranges: &[(i128, i128)], least: i128, most: i128) -> Ranges {
    let mut free = vec![];
    let mut next = least;
    for (first, last) in sorted(ranges) {
        if first > next {
            free.push((next, (first - 1).min(most)));
        }
        next = next.max(last + 1);
    }
    if next <= most {
        free.push((next, most));
    }
    free
}
