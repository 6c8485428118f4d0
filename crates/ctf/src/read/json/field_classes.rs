// SPDX-License-Identifier: MIT OR Apache-2.0
//! Field classes to types (specification 5.3), and the aliases that name them.
//!
//! A class that only has a number of bytes or bits is made here; those that contain others are made in [`compound`].

mod compound;

use std::collections::HashMap;
use std::sync::Arc;

use super::object::{Built, JsonPath, Object};
use super::value::Value;
use crate::read::roles;
use crate::read::schema::{
    Base, Blob, ByteOrder, Count, Encoding, Enumeration, Float, Integer, Label, Meaning, Reference, Role, Scope, Text,
    TextLength, Type, Width,
};

const ADDITIONS: &[&str] = &["type", "attributes", "extensions"];
const BITS: &[&str] = &["length", "byte-order", "bit-order", "alignment"];
const NUMBER: &[&str] = &["preferred-display-base", "mappings"];

/// Classes within classes, aliases counted as what they stand for. Deeper ones are nothing that a tracer writes.
const DEPTH_MAX: u32 = 100;

/// Aliases so far.
#[derive(Default)]
pub(super) struct FieldClasses {
    aliases: HashMap<String, Class>,
}

/// A type that was made.
#[derive(Clone)]
pub(super) struct Class {
    pub(super) of_type: Arc<Type>,
    /// Types within types, itself counted.
    depth: u32,
}

impl FieldClasses {
    /// Names a class; false when the name has one already.
    pub(super) fn name(&mut self, name: &str, class: Class) -> bool {
        self.aliases.insert(name.to_owned(), class).is_none()
    }

    /// The type of a field class, or of the alias of one.
    pub(super) fn build(&self, value: &Value, place: &JsonPath<'_>) -> Built<Class> {
        match value {
            Value::Text(alias) => {
                let found = self.aliases.get(alias).cloned();
                found
                    .ok_or_else(|| place.error(format!("there is no field-class-alias {alias:?} before this fragment")))
            }
            Value::Object(_) => self.class(&Object::open(value, place)?),
            other => place.wants("a field class or the name of a field-class-alias", other),
        }
    }

    fn class(&self, object: &Object<'_>) -> Built<Class> {
        let kind = object.need("type", object.text("type")?)?;
        object.additions()?;
        let simple = match kind {
            "fixed-length-bit-array" => Type::Integer(bits(object, Meaning::Bits, false, &[])?),
            "fixed-length-bit-map" => Type::Integer(bit_map(object)?),
            "fixed-length-boolean" => Type::Integer(bits(object, Meaning::Boolean, false, &[])?),
            "fixed-length-unsigned-integer" => {
                number(object, bits(object, Meaning::Number, false, &[NUMBER, &["roles"]])?)?
            }
            "fixed-length-signed-integer" => number(object, bits(object, Meaning::Number, true, &[NUMBER])?)?,
            "fixed-length-floating-point-number" => Type::Float(float(object)?),
            "variable-length-unsigned-integer" => {
                object.only(&[ADDITIONS, NUMBER, &["roles"]])?;
                number(object, variable(false))?
            }
            "variable-length-signed-integer" => {
                object.only(&[ADDITIONS, NUMBER])?;
                number(object, variable(true))?
            }
            "null-terminated-string" => text(object, &[], |_| Ok(TextLength::Terminated))?,
            "static-length-string" => text(object, &["length"], |object| {
                Ok(TextLength::Bytes(object.need("length", object.unsigned("length")?)?))
            })?,
            "dynamic-length-string" => text(object, &["length-field-location"], |object| {
                Ok(TextLength::From(location(object, "length-field-location")?))
            })?,
            "static-length-blob" => static_blob(object)?,
            "dynamic-length-blob" => {
                object.only(&[ADDITIONS, &["length-field-location", "media-type"]])?;
                Type::Blob(Blob {
                    count: Count::From(location(object, "length-field-location")?),
                    media_type: object.owned("media-type")?,
                    roles: vec![],
                })
            }
            _ => return self.compound(kind, object),
        };
        Ok(Class {
            of_type: Arc::new(simple),
            depth: 1,
        })
    }
}

fn byte_order(object: &Object<'_>) -> Built<(ByteOrder, bool)> {
    let words = [("little-endian", ByteOrder::Little), ("big-endian", ByteOrder::Big)];
    let order = object.need("byte-order", object.word("byte-order", &words)?)?;
    let usual = if order == ByteOrder::Little {
        "first-to-last"
    } else {
        "last-to-first"
    };
    let bits = object.word(
        "bit-order",
        &[("first-to-last", "first-to-last"), ("last-to-first", "last-to-first")],
    )?;
    Ok((order, bits.is_some_and(|bits| bits != usual)))
}

fn bits(object: &Object<'_>, meaning: Meaning, is_signed: bool, others: &[&[&str]]) -> Built<Integer> {
    object.only(&[&[ADDITIONS, BITS], others].concat())?;
    let length = object.need("length", object.get("length"))?;
    let bits = match object.unsigned("length")? {
        Some(bits @ 1..=64) => bits as u32,
        _ => return object.at("length").wants("a length of 1 to 64 bits", length),
    };
    let (byte_order, is_reversed) = byte_order(object)?;
    Ok(Integer {
        width: Width::Bits(bits),
        is_signed,
        alignment: object.alignment("alignment")?,
        byte_order,
        is_reversed,
        base: match meaning {
            Meaning::Bits => Base::Hexadecimal,
            _ => Base::Decimal,
        },
        meaning,
        clock: None,
        roles: vec![],
        labels: vec![],
    })
}

fn variable(is_signed: bool) -> Integer {
    Integer {
        width: Width::Variable,
        is_signed,
        alignment: 8,
        byte_order: ByteOrder::Little,
        is_reversed: false,
        base: Base::Decimal,
        meaning: Meaning::Number,
        clock: None,
        roles: vec![],
        labels: vec![],
    }
}

/// What all whole numbers have; one whose values have names is an enumeration.
fn number(object: &Object<'_>, mut integer: Integer) -> Built<Type> {
    integer.base = match object.get("preferred-display-base") {
        None | Some(Value::Integer(10)) => Base::Decimal,
        Some(Value::Integer(2)) => Base::Binary,
        Some(Value::Integer(8)) => Base::Octal,
        Some(Value::Integer(16)) => Base::Hexadecimal,
        Some(other) => return object.at("preferred-display-base").wants("2, 8, 10 or 16", other),
    };
    integer.roles = roles(object, |role| role != Role::Uuid)?;
    let least = if integer.is_signed { i128::from(i64::MIN) } else { 0 };
    let most = if integer.is_signed {
        i128::from(i64::MAX)
    } else {
        i128::from(u64::MAX)
    };
    let labels = labels(object, "mappings", least, most)?.unwrap_or_default();
    Ok(match labels.is_empty() {
        true => Type::Integer(integer),
        false => Type::Enumeration(Enumeration { integer, labels }),
    })
}

fn bit_map(object: &Object<'_>) -> Built<Integer> {
    let mut integer = bits(object, Meaning::Bits, false, &[&["flags"]])?;
    let Width::Bits(length) = integer.width else {
        unreachable!("it was made of bits")
    };
    let labels = labels(object, "flags", 0, i128::from(length) - 1)?;
    integer.labels = object.need("flags", labels)?;
    match integer.labels.is_empty() {
        true => Err(object.at("flags").error("a bit map needs at least one flag")),
        false => Ok(integer),
    }
}

fn labels(object: &Object<'_>, name: &str, least: i128, most: i128) -> Built<Option<Vec<Label>>> {
    let Some(value) = object.get(name) else {
        return Ok(None);
    };
    let place = object.at(name);
    let names = Object::open(value, &place)?;
    let labels = names.properties().map(|(name, value)| {
        Ok(Label {
            name: name.to_owned(),
            ranges: ranges(value, &JsonPath::Property(&place, name), least, most)?,
        })
    });
    labels.collect::<Built<Vec<Label>>>().map(Some)
}

/// An integer range set.
fn ranges(value: &Value, place: &JsonPath<'_>, least: i128, most: i128) -> Built<Vec<(i128, i128)>> {
    let Value::Array(elements) = value else {
        return place.wants("an array of ranges", value);
    };
    if elements.is_empty() {
        return Err(place.error("at least one range is needed"));
    }
    let pairs = elements.iter().enumerate().map(|(index, element)| {
        let place = JsonPath::Element(place, index);
        let pair = match element {
            Value::Array(pair) => &pair[..],
            _ => &[],
        };
        let [Value::Integer(first), Value::Integer(last)] = *pair else {
            return place.wants("an array of two whole numbers", element);
        };
        if first > last {
            return Err(place.error(format!("the range begins at {first}, after its end, {last}")));
        }
        if first < least || last > most {
            return Err(place.error(format!(
                "the range {first} to {last} exceeds the possible values, {least} to {most}"
            )));
        }
        Ok((first, last))
    });
    pairs.collect()
}

fn roles(object: &Object<'_>, fits: impl Fn(Role) -> bool) -> Built<Vec<Role>> {
    let elements = object.array("roles")?.unwrap_or_default();
    let at = object.at("roles");
    let mut found: Vec<Role> = vec![];
    for (index, element) in elements.iter().enumerate() {
        let place = JsonPath::Element(&at, index);
        let Value::Text(name) = element else {
            return place.wants("the name of a role", element);
        };
        match roles::of_role(name).filter(|role| fits(*role)) {
            Some(role) if found.contains(&role) => {}
            Some(role) => found.push(role),
            None => return Err(place.error(format!("a field of this class has no role {name:?}"))),
        }
    }
    Ok(found)
}

fn float(object: &Object<'_>) -> Built<Float> {
    object.only(&[ADDITIONS, BITS])?;
    let length = object.need("length", object.get("length"))?;
    let bits = match object.unsigned("length")? {
        Some(bits @ (16 | 32 | 64 | 128)) => bits as u32,
        _ => return object.at("length").wants("16, 32, 64 or 128", length),
    };
    let (byte_order, is_reversed) = byte_order(object)?;
    Ok(Float {
        bits,
        alignment: object.alignment("alignment")?,
        byte_order,
        is_reversed,
    })
}

fn text(object: &Object<'_>, others: &[&str], length: impl Fn(&Object<'_>) -> Built<TextLength>) -> Built<Type> {
    object.only(&[ADDITIONS, &["encoding"], others])?;
    let encodings = [
        ("utf-8", Encoding::Utf8),
        ("utf-16be", Encoding::Utf16Be),
        ("utf-16le", Encoding::Utf16Le),
        ("utf-32be", Encoding::Utf32Be),
        ("utf-32le", Encoding::Utf32Le),
    ];
    Ok(Type::Text(Text {
        length: length(object)?,
        encoding: object.word("encoding", &encodings)?.unwrap_or(Encoding::Utf8),
    }))
}

fn static_blob(object: &Object<'_>) -> Built<Type> {
    object.only(&[ADDITIONS, &["length", "media-type", "roles"]])?;
    Ok(Type::Blob(Blob {
        count: Count::Fixed(object.need("length", object.unsigned("length")?)?),
        media_type: object.owned("media-type")?,
        roles: roles(object, |role| role == Role::Uuid)?,
    }))
}

/// Names of the scopes, and what they are.
pub(crate) const ORIGINS: [(&str, Scope); 6] = [
    ("packet-header", Scope::PacketHeader),
    ("packet-context", Scope::PacketContext),
    ("event-record-header", Scope::EventHeader),
    ("event-record-common-context", Scope::EventContext),
    ("event-record-specific-context", Scope::SpecificContext),
    ("event-record-payload", Scope::Payload),
];

/// The way to another field.
fn location(object: &Object<'_>, name: &str) -> Built<Reference> {
    let value = object.need(name, object.get(name))?;
    let place = object.at(name);
    let object = Object::open(value, &place)?;
    object.only(&[&["origin", "path"]])?;
    let elements = object.need("path", object.array("path")?)?;
    let at = object.at("path");
    let path = elements.iter().enumerate().map(|(index, element)| match element {
        Value::Text(name) => Ok(Some(name.clone())),
        Value::Null => Ok(None),
        other => JsonPath::Element(&at, index).wants("a name or null", other),
    });
    let path = path.collect::<Built<Vec<Option<String>>>>()?;
    match path.last() {
        Some(Some(_)) => {}
        Some(None) => return Err(at.error("the last element must be a name, not null")),
        None => return Err(at.error("the path to a field needs at least one name")),
    }
    Ok(Reference {
        origin: object.word("origin", &ORIGINS)?,
        path,
    })
}
