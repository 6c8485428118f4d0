// SPDX-License-Identifier: MIT OR Apache-2.0
//! Field classes that contain others: structures, arrays, optionals, variants.

use std::collections::HashSet;
use std::sync::Arc;

use super::{ADDITIONS, Class, DEPTH_MAX, FieldClasses, location, ranges};
use crate::read::json::object::{Built, JsonPath, Object};
use crate::read::json::value::Value;
use crate::read::schema::{Array, Count, Optional, Structure, Type, Variant, VariantOption};

const LEAST: i128 = i64::MIN as i128;
const MOST: i128 = u64::MAX as i128;

impl FieldClasses {
    pub(super) fn compound(&self, kind: &str, object: &Object<'_>) -> Built<Class> {
        let (of_type, within) = match kind {
            "structure" => self.structure(object)?,
            "static-length-array" => {
                object.only(&[ADDITIONS, &["element-field-class", "minimum-alignment", "length"]])?;
                let length = object.need("length", object.unsigned("length")?)?;
                self.array(object, Count::Fixed(length))?
            }
            "dynamic-length-array" => {
                object.only(&[
                    ADDITIONS,
                    &["element-field-class", "minimum-alignment", "length-field-location"],
                ])?;
                self.array(object, Count::From(location(object, "length-field-location")?))?
            }
            "optional" => self.optional(object)?,
            "variant" => self.variant(object)?,
            _ => {
                return Err(object
                    .at("type")
                    .error(format!("there is no field class of type {kind:?}")));
            }
        };
        if within >= DEPTH_MAX {
            let what = format!("field classes are nested more than {DEPTH_MAX} deep, including aliases");
            return Err(object.place.error(what));
        }
        Ok(Class {
            of_type: Arc::new(of_type),
            depth: within + 1,
        })
    }

    /// A class that is a property, by itself or as the name of an alias.
    fn inner(&self, object: &Object<'_>, name: &str) -> Built<Class> {
        let value = object.need(name, object.get(name))?;
        self.build(value, &object.at(name))
    }

    fn structure(&self, object: &Object<'_>) -> Built<(Type, u32)> {
        object.only(&[ADDITIONS, &["member-classes", "minimum-alignment"]])?;
        let members = object.array("member-classes")?.unwrap_or_default();
        let at = object.at("member-classes");
        let mut structure = Structure {
            alignment: object.alignment("minimum-alignment")?,
            fields: Vec::with_capacity(members.len()),
        };
        let (mut names, mut depth) = (HashSet::new(), 0);
        for (index, member) in members.iter().enumerate() {
            let place = JsonPath::Element(&at, index);
            let member = Object::open(member, &place)?;
            member.only(&[&["name", "field-class", "attributes", "extensions"]])?;
            member.additions()?;
            let name = member.need("name", member.text("name")?)?;
            if !names.insert(name.to_owned()) {
                return Err(member
                    .at("name")
                    .error(format!("the structure already has a member {name:?}")));
            }
            let class = self.inner(&member, "field-class")?;
            depth = depth.max(class.depth);
            structure.fields.push((name.to_owned(), class.of_type));
        }
        Ok((Type::Structure(structure), depth))
    }

    fn array(&self, object: &Object<'_>, count: Count) -> Built<(Type, u32)> {
        let class = self.inner(object, "element-field-class")?;
        let array = Array {
            element: class.of_type,
            count,
            alignment: object.alignment("minimum-alignment")?,
        };
        Ok((Type::Array(array), class.depth))
    }

    fn optional(&self, object: &Object<'_>) -> Built<(Type, u32)> {
        object.only(&[
            ADDITIONS,
            &["field-class", "selector-field-location", "selector-field-ranges"],
        ])?;
        let class = self.inner(object, "field-class")?;
        let ranges = match object.get("selector-field-ranges") {
            None => vec![],
            Some(value) => ranges(value, &object.at("selector-field-ranges"), LEAST, MOST)?,
        };
        let optional = Optional {
            selector: location(object, "selector-field-location")?,
            ranges,
            content: class.of_type,
        };
        Ok((Type::Optional(optional), class.depth))
    }

    fn variant(&self, object: &Object<'_>) -> Built<(Type, u32)> {
        object.only(&[ADDITIONS, &["options", "selector-field-location"]])?;
        let members = object.need("options", object.array("options")?)?;
        let at = object.at("options");
        if members.is_empty() {
            return Err(at.error("a variant needs at least one option"));
        }
        let (mut names, mut depth) = (HashSet::new(), 0);
        // Ranges of all options, with the option's index, in the order of values.
        let mut taken: Vec<(i128, i128, usize)> = vec![];
        let mut options = Vec::with_capacity(members.len());
        for (index, member) in members.iter().enumerate() {
            let place = JsonPath::Element(&at, index);
            let member = Object::open(member, &place)?;
            member.only(&[&[
                "name",
                "field-class",
                "selector-field-ranges",
                "attributes",
                "extensions",
            ]])?;
            member.additions()?;
            let name = member.text("name")?;
            if let Some(name) = name
                && !names.insert(name.to_owned())
            {
                return Err(member
                    .at("name")
                    .error(format!("the variant already has an option {name:?}")));
            }
            let value: &Value = member.need("selector-field-ranges", member.get("selector-field-ranges"))?;
            let ranges = ranges(value, &member.at("selector-field-ranges"), LEAST, MOST)?;
            taken.extend(ranges.iter().map(|&(first, last)| (first, last, index)));
            let class = self.inner(&member, "field-class")?;
            depth = depth.max(class.depth);
            options.push(VariantOption {
                name: name.map(str::to_owned),
                ranges,
                of_type: class.of_type,
            });
        }
        taken.sort_unstable();
        // The last value so far, and whose it is.
        let mut reached: Option<(i128, usize)> = None;
        for (first, last, index) in taken {
            if let Some((before, other)) = reached
                && first <= before
                && other != index
            {
                return Err(at.error(format!("the options {other} and {index} both have the value {first}")));
            }
            if reached.is_none_or(|(before, _)| last > before) {
                reached = Some((last, index));
            }
        }
        let selector = location(object, "selector-field-location")?;
        Ok((Type::Variant(Variant { selector, options }), depth))
    }
}
