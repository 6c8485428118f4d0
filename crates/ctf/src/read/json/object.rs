// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of JSON objects, checked as they are asked for: errors say where in the metadata they are.

use super::FragmentError;
use super::value::Value;
use crate::read::schema::Identity;

pub(super) type Built<T> = Result<T, FragmentError>;

/// Where a value stands: a list of the steps to it, outermost last.
#[derive(Clone, Copy)]
pub(super) enum JsonPath<'a> {
    /// Number of the fragment, from 1.
    Fragment(u32),
    Property(&'a JsonPath<'a>, &'a str),
    Element(&'a JsonPath<'a>, usize),
}

impl JsonPath<'_> {
    pub(super) fn error(&self, what: impl Into<String>) -> FragmentError {
        let mut path = String::new();
        let fragment = self.describe(&mut path);
        FragmentError {
            fragment,
            path,
            what: what.into(),
        }
    }

    /// `wanted` is what may stand here.
    pub(super) fn wants<T>(&self, wanted: &str, value: &Value) -> Built<T> {
        Err(self.error(format!("expected {wanted}, not {}", value.shown())))
    }

    fn describe(&self, path: &mut String) -> u32 {
        match self {
            JsonPath::Fragment(number) => *number,
            JsonPath::Property(outer, name) => {
                let fragment = outer.describe(path);
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                fragment
            }
            JsonPath::Element(outer, index) => {
                let fragment = outer.describe(path);
                path.push_str(&format!("[{index}]"));
                fragment
            }
        }
    }
}

/// An object all of whose properties are known.
pub(super) struct Object<'a> {
    properties: &'a [(String, Value)],
    pub(super) place: &'a JsonPath<'a>,
}

impl<'a> Object<'a> {
    /// An object with properties of any name, none twice.
    pub(super) fn open(value: &'a Value, place: &'a JsonPath<'a>) -> Built<Object<'a>> {
        let Value::Object(properties) = value else {
            return place.wants("an object", value);
        };
        for (index, (name, _)) in properties.iter().enumerate() {
            if properties[..index].iter().any(|(known, _)| known == name) {
                return Err(JsonPath::Property(place, name).error("this property occurs twice"));
            }
        }
        Ok(Object { properties, place })
    }

    /// No other properties than these may be there.
    pub(super) fn only(&self, allowed: &[&[&str]]) -> Built<()> {
        for (name, _) in self.properties {
            if !allowed.iter().any(|names| names.contains(&name.as_str())) {
                let mut known: Vec<&str> = allowed.concat();
                known.sort_unstable();
                return Err(JsonPath::Property(self.place, name).error(format!(
                    "there is no such property here, only {}; anything else belongs in `attributes`",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }

    pub(super) fn properties(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.properties()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    pub(super) fn at<'s>(&'s self, name: &'s str) -> JsonPath<'s> {
        JsonPath::Property(self.place, name)
    }

    /// A property that must be there.
    pub(super) fn need<T>(&self, name: &str, found: Option<T>) -> Built<T> {
        found.ok_or_else(|| self.place.error(format!("the property `{name}` is missing")))
    }

    pub(super) fn text(&self, name: &str) -> Built<Option<&'a str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => self.at(name).wants("a text", other),
        }
    }

    pub(super) fn owned(&self, name: &str) -> Built<Option<String>> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    pub(super) fn unsigned(&self, name: &str) -> Built<Option<u64>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let wanted = "a whole number that is not negative";
        match value {
            Value::Integer(number) => match u64::try_from(*number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => self.at(name).wants(wanted, value),
            },
            other => self.at(name).wants(wanted, other),
        }
    }

    pub(super) fn signed(&self, name: &str) -> Built<Option<i64>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let wanted = "a whole number of 64 bits";
        match value {
            Value::Integer(number) => match i64::try_from(*number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => self.at(name).wants(wanted, value),
            },
            other => self.at(name).wants(wanted, other),
        }
    }

    pub(super) fn array(&self, name: &str) -> Built<Option<&'a [Value]>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Array(elements)) => Ok(Some(elements)),
            Some(other) => self.at(name).wants("an array", other),
        }
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Built<Option<T>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        if let Value::Text(text) = value
            && let Some((_, meaning)) = words.iter().find(|(word, _)| word == text)
        {
            return Ok(Some(*meaning));
        }
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.at(name).wants(&format!("one of {}", words.join(", ")), value)
    }

    /// A power of two.
    pub(super) fn alignment(&self, name: &str) -> Built<u32> {
        let Some(value) = self.get(name) else {
            return Ok(1);
        };
        let bits = self.unsigned(name)?.and_then(|bits| u32::try_from(bits).ok());
        match bits.filter(|bits| bits.is_power_of_two()) {
            Some(bits) => Ok(bits),
            None => self.at(name).wants("a power of two below 4294967296", value),
        }
    }

    pub(super) fn identity(&self) -> Built<Identity> {
        Ok(Identity {
            namespace: self.owned("namespace")?,
            name: self.owned("name")?,
            uid: self.owned("uid")?,
        })
    }

    /// Checks what every object may have besides: attributes, which change nothing, and extensions, of which none is known.
    pub(super) fn additions(&self) -> Built<()> {
        if let Some(attributes) = self.get("attributes") {
            Object::open(attributes, &self.at("attributes"))?;
        }
        let Some(extensions) = self.get("extensions") else {
            return Ok(());
        };
        let place = self.at("extensions");
        for (namespace, names) in Object::open(extensions, &place)?.properties() {
            let place = JsonPath::Property(&place, namespace);
            if let Some((name, _)) = Object::open(names, &place)?.properties().next() {
                return Err(JsonPath::Property(&place, name)
                    .error("unknown extension: it may change where fields are, so the trace cannot be read"));
            }
        }
        Ok(())
    }
}
