// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types as they are written to types as they are: names looked up, attributes understood.

use std::sync::Arc;

use super::scopes::{Scopes, Space};
use super::syntax::{
    Attribute, Declaration, Declarator, Dimension, Enumerator, Member, Simple, Statement, StatementKind, TypeKind,
    TypeSyntax, Value,
};
use super::{MetadataError, Position};
use crate::read::extent::{Extent, Extents, extent};
use crate::read::schema::{
    Array, Base, ByteOrder, Count, Encoding, Enumeration, Float, Integer, Label, Meaning, Reference, Scope, Structure,
    Text, TextLength, Type, Variant, VariantOption, Width,
};

/// What types are built with.
pub(super) struct Types<'a> {
    pub(super) scopes: Scopes,
    /// Where no other byte order is said.
    pub(super) native: ByteOrder,
    /// Names of the clocks, by their index.
    pub(super) clocks: &'a [String],
}

type Built<T> = Result<T, MetadataError>;

/// Types within types. Deeper ones are nothing that a tracer writes; what is written without names is less deep already.
const DEPTH_MAX: u32 = 200;

/// Types in a type that has a name, or in a scope: a hundred times what the largest events have.
const TYPES_MAX: u64 = 100_000;

const ALIGNMENT_MAX: u64 = 1 << 20;

impl Types<'_> {
    /// Takes what a statement defines; false when it defines no type.
    pub(super) fn define(&mut self, statement: &Statement) -> Built<bool> {
        match &statement.kind {
            StatementKind::Typedef(Declaration { of_type, declarators }) => {
                for declarator in declarators {
                    let declared = self.declared(of_type, declarator)?;
                    self.name(Space::Alias, &declarator.name, declared, declarator.position)?;
                }
            }
            StatementKind::Typealias { of_type, name } => {
                let position = of_type.position;
                let of_type = self.of_type(of_type)?;
                self.name(Space::Alias, name, of_type, position)?;
            }
            StatementKind::Define(of_type) => {
                self.of_type(of_type)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn name(&mut self, space: Space, name: &str, of_type: Arc<Type>, position: Position) -> Built<()> {
        check_extent(&of_type, position)?;
        match self.scopes.define(space, name, of_type) {
            true => Ok(()),
            false => Err(position.error(format!("there already is a type `{name}`"))),
        }
    }

    /// The type that a piece of syntax means.
    pub(super) fn of_type(&mut self, syntax: &TypeSyntax) -> Built<Arc<Type>> {
        let position = syntax.position;
        match &syntax.kind {
            TypeKind::Named(name) => {
                let found = self.scopes.find(Space::Alias, name);
                found.ok_or_else(|| position.error(format!("there is no type `{name}`")))
            }
            TypeKind::Simple { keyword, attributes } => {
                let of_type = match keyword {
                    Simple::Integer => Type::Integer(self.integer(attributes, position)?),
                    Simple::Float => Type::Float(self.float(attributes, position)?),
                    Simple::Text => Type::Text(text(attributes)?),
                };
                Ok(Arc::new(of_type))
            }
            TypeKind::Structure { name, body, alignment } => {
                let name = name.as_deref();
                self.structure(name, body.as_deref(), *alignment, position)
            }
            TypeKind::Variant { name, tag, body } => {
                self.variant(name.as_deref(), tag.as_deref(), body.as_deref(), position)
            }
            TypeKind::Enumeration { name, container, body } => {
                self.enumeration(name.as_deref(), container.as_deref(), body.as_deref(), position)
            }
        }
    }

    /// Finds the type of a name, or gives the name to a new type.
    fn named(
        &mut self,
        space: Space,
        name: Option<&str>,
        made: Option<Arc<Type>>,
        position: Position,
    ) -> Built<Arc<Type>> {
        match (name, made) {
            (Some(name), Some(made)) => {
                self.name(space, name, made.clone(), position)?;
                Ok(made)
            }
            (None, Some(made)) => Ok(made),
            (Some(name), None) => {
                let found = self.scopes.find(space, name);
                let kind = match space {
                    Space::Structure => "structure",
                    Space::Variant => "variant",
                    Space::Enumeration => "enumeration",
                    Space::Alias => "type",
                };
                found.ok_or_else(|| position.error(format!("there is no {kind} `{name}`")))
            }
            (None, None) => unreachable!("the parser wants one of the two"),
        }
    }

    fn structure(
        &mut self,
        name: Option<&str>,
        body: Option<&[Member]>,
        alignment: Option<u64>,
        position: Position,
    ) -> Built<Arc<Type>> {
        let made = match body {
            None => None,
            Some(body) => Some(Arc::new(Type::Structure(Structure {
                alignment: 1,
                fields: self.members(body)?,
            }))),
        };
        let of_type = self.named(Space::Structure, name, made, position)?;
        let Some(alignment) = alignment else {
            return Ok(of_type);
        };
        let alignment = check_alignment(alignment, position)?;
        match &*of_type {
            Type::Structure(structure) => {
                let aligned = Arc::new(Type::Structure(Structure {
                    alignment,
                    ..structure.clone()
                }));
                if let (Some(name), Some(_)) = (name, body) {
                    self.scopes.define(Space::Structure, name, aligned.clone());
                }
                Ok(aligned)
            }
            _ => Ok(of_type),
        }
    }

    fn variant(
        &mut self,
        name: Option<&str>,
        tag: Option<&[String]>,
        body: Option<&[Member]>,
        position: Position,
    ) -> Built<Arc<Type>> {
        let made = match body {
            None => None,
            Some(body) => {
                let options = self.members(body)?.into_iter().map(|(name, of_type)| VariantOption {
                    name: Some(name),
                    ranges: vec![],
                    of_type,
                });
                Some(Arc::new(Type::Variant(Variant {
                    selector: Reference {
                        origin: None,
                        path: vec![],
                    },
                    options: options.collect(),
                })))
            }
        };
        let of_type = self.named(Space::Variant, name, made, position)?;
        match (tag, &*of_type) {
            (Some(tag), Type::Variant(variant)) => Ok(Arc::new(Type::Variant(Variant {
                selector: reference(tag),
                ..variant.clone()
            }))),
            _ => Ok(of_type),
        }
    }

    fn enumeration(
        &mut self,
        name: Option<&str>,
        container: Option<&TypeSyntax>,
        body: Option<&[Enumerator]>,
        position: Position,
    ) -> Built<Arc<Type>> {
        let made = match body {
            None => None,
            Some(body) => {
                let container = match container {
                    Some(container) => self.of_type(container)?,
                    None => {
                        let int = self.scopes.find(Space::Alias, "int");
                        int.ok_or_else(|| {
                            position
                                .error("an enumeration without a type has the type `int`, but there is no type `int`")
                        })?
                    }
                };
                let Type::Integer(integer) = &*container else {
                    return Err(position.error("the type of an enumeration must be an integer"));
                };
                Some(Arc::new(Type::Enumeration(Enumeration {
                    integer: integer.clone(),
                    labels: labels(body),
                })))
            }
        };
        self.named(Space::Enumeration, name, made, position)
    }

    fn members(&mut self, members: &[Member]) -> Built<Vec<(String, Arc<Type>)>> {
        self.scopes.enter();
        let mut fields: Vec<(String, Arc<Type>)> = Vec::new();
        for member in members {
            match member {
                Member::Local(statement) => {
                    self.define(statement)?;
                }
                Member::Fields(Declaration { of_type, declarators }) => {
                    for declarator in declarators {
                        let declared = self.declared(of_type, declarator)?;
                        if lacks_selector(&declared) {
                            let what = "a variant needs a selector, an enumeration before it: `variant <name> { ... }`";
                            return Err(declarator.position.error(what));
                        }
                        if fields.iter().any(|(name, _)| *name == declarator.name) {
                            let what = format!("there already is a field `{}`", declarator.name);
                            return Err(declarator.position.error(what));
                        }
                        fields.push((declarator.name.clone(), declared));
                    }
                }
            }
        }
        self.scopes.leave();
        Ok(fields)
    }

    /// The type of `type name[2][3]`: two elements, each of three.
    fn declared(&mut self, of_type: &TypeSyntax, declarator: &Declarator) -> Built<Arc<Type>> {
        let mut declared = self.of_type(of_type)?;
        for dimension in declarator.dimensions.iter().rev() {
            declared = Arc::new(array(declared, dimension));
        }
        Ok(declared)
    }

    fn integer(&self, attributes: &[Attribute], position: Position) -> Built<Integer> {
        let mut integer = Integer {
            width: Width::Bits(0),
            is_signed: false,
            alignment: 0,
            byte_order: self.native,
            is_reversed: false,
            base: Base::Decimal,
            meaning: Meaning::Number,
            clock: None,
            roles: vec![],
            labels: vec![],
        };
        for attribute in attributes {
            match attribute.name.as_str() {
                "size" => integer.width = Width::Bits(attribute.number(1, 64)? as u32),
                "align" => integer.alignment = attribute.alignment()?,
                "signed" => integer.is_signed = attribute.boolean()?,
                "byte_order" => integer.byte_order = attribute.byte_order(self.native)?,
                "base" => integer.base = attribute.base()?,
                "encoding" if attribute.has_encoding()? => integer.meaning = Meaning::Character,
                "map" => integer.clock = self.clock(attribute)?,
                // An attribute of a later version changes nothing that is known.
                _ => {}
            }
        }
        let Width::Bits(bits @ 1..) = integer.width else {
            return Err(position.error("an integer needs a `size`"));
        };
        if integer.alignment == 0 {
            integer.alignment = if bits.is_multiple_of(8) { 8 } else { 1 };
        }
        Ok(integer)
    }

    /// `clock.NAME.value`
    fn clock(&self, attribute: &Attribute) -> Built<Option<usize>> {
        let Value::Words(words) = &attribute.value else {
            return Err(attribute.wrong("clock.NAME.value"));
        };
        match &words[..] {
            [clock, name, value] if clock == "clock" && value == "value" => {
                let found = self.clocks.iter().position(|known| known == name);
                let missing = || attribute.position.error(format!("there is no clock `{name}`"));
                found.ok_or_else(missing).map(Some)
            }
            _ => Err(attribute.wrong("clock.NAME.value")),
        }
    }

    fn float(&self, attributes: &[Attribute], position: Position) -> Built<Float> {
        let (mut exponent, mut mantissa, mut alignment, mut byte_order) = (0, 0, 0, self.native);
        for attribute in attributes {
            match attribute.name.as_str() {
                "exp_dig" => exponent = attribute.number(1, 15)?,
                "mant_dig" => mantissa = attribute.number(1, 113)?,
                "align" => alignment = attribute.alignment()?,
                "byte_order" => byte_order = attribute.byte_order(self.native)?,
                _ => {}
            }
        }
        let bits = match (exponent, mantissa) {
            (5, 11) => 16,
            (8, 24) => 32,
            (11, 53) => 64,
            (15, 113) => 128,
            _ => {
                let what = "a number with `exp_dig` and `mant_dig` 8 and 24, 11 and 53, 5 and 11, or 15 and 113";
                return Err(position.error(format!("expected {what}, not {exponent} and {mantissa}")));
            }
        };
        Ok(Float {
            bits,
            alignment: if alignment == 0 { 8 } else { alignment },
            byte_order,
            is_reversed: false,
        })
    }
}

fn lacks_selector(of_type: &Type) -> bool {
    match of_type {
        Type::Variant(variant) => variant.selector.path.is_empty(),
        Type::Array(array) => lacks_selector(&array.element),
        _ => false,
    }
}

/// Refuses types that nobody could walk over.
pub(super) fn check_extent(of_type: &Arc<Type>, position: Position) -> Built<()> {
    let Extent { depth, types } = extent(of_type, &mut Extents::new());
    let what = "including the types that names stand for";
    if depth > DEPTH_MAX {
        return Err(position.error(format!("types are nested more than {DEPTH_MAX} deep, {what}")));
    }
    match types > TYPES_MAX {
        true => Err(position.error(format!("this type contains more than {TYPES_MAX} types, {what}"))),
        false => Ok(()),
    }
}

/// An array of characters is a text.
fn array(element: Arc<Type>, dimension: &Dimension) -> Type {
    let count = match dimension {
        Dimension::Number(number) => Count::Fixed(*number),
        Dimension::Path(path) => Count::From(reference(path)),
    };
    match &*element {
        Type::Integer(Integer {
            width: Width::Bits(8),
            alignment: 8,
            meaning: Meaning::Character,
            ..
        }) => Type::Text(Text {
            length: match count {
                Count::Fixed(bytes) => TextLength::Bytes(bytes),
                Count::From(reference) => TextLength::From(reference),
            },
            encoding: Encoding::Utf8,
        }),
        _ => Type::Array(Array {
            element,
            count,
            alignment: 1,
        }),
    }
}

/// `stream.event.header.id` begins at the header, `length` at the structure around.
fn reference(path: &[String]) -> Reference {
    const SCOPES: [(&[&str], Scope); 6] = [
        (&["trace", "packet", "header"], Scope::PacketHeader),
        (&["stream", "packet", "context"], Scope::PacketContext),
        (&["stream", "event", "header"], Scope::EventHeader),
        (&["stream", "event", "context"], Scope::EventContext),
        (&["event", "context"], Scope::SpecificContext),
        (&["event", "fields"], Scope::Payload),
    ];
    let names = |path: &[String]| path.iter().cloned().map(Some).collect();
    for (prefix, scope) in &SCOPES {
        if path.len() > prefix.len() && path.iter().zip(*prefix).all(|(word, wanted)| word == wanted) {
            return Reference {
                origin: Some(*scope),
                path: names(&path[prefix.len()..]),
            };
        }
    }
    Reference {
        origin: None,
        path: names(path),
    }
}

/// One that says nothing follows the one before; the first is 0.
fn labels(body: &[Enumerator]) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::new();
    let mut next = 0;
    for Enumerator { label, range } in body {
        let range = range.unwrap_or((next, next));
        next = range.1 + 1;
        match labels.iter_mut().find(|known| known.name == *label) {
            Some(known) => known.ranges.push(range),
            None => labels.push(Label {
                name: label.clone(),
                ranges: vec![range],
            }),
        }
    }
    labels
}

fn text(attributes: &[Attribute]) -> Built<Text> {
    for attribute in attributes {
        if attribute.name == "encoding" {
            attribute.has_encoding()?;
        }
    }
    Ok(Text {
        length: TextLength::Terminated,
        encoding: Encoding::Utf8,
    })
}

fn check_alignment(bits: u64, position: Position) -> Built<u32> {
    match bits.is_power_of_two() && bits <= ALIGNMENT_MAX {
        true => Ok(bits as u32),
        false => Err(position.error(format!(
            "an alignment must be a power of two up to {ALIGNMENT_MAX}, not {bits}"
        ))),
    }
}

impl Attribute {
    fn wrong(&self, allowed: &str) -> MetadataError {
        let (name, value) = (&self.name, self.value.shown());
        self.position.error(format!("`{name}` must be {allowed}, not {value}"))
    }

    fn number(&self, least: u64, most: u64) -> Built<u64> {
        let number = match self.value {
            Value::Number(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let fits = number.filter(|number| (least..=most).contains(number));
        fits.ok_or_else(|| self.wrong(&format!("{least} to {most}")))
    }

    fn alignment(&self) -> Built<u32> {
        check_alignment(self.number(0, u64::MAX)?, self.position)
    }

    pub(super) fn boolean(&self) -> Built<bool> {
        boolean(&self.value).ok_or_else(|| self.wrong("true or false"))
    }

    pub(super) fn byte_order(&self, native: ByteOrder) -> Built<ByteOrder> {
        byte_order(&self.value, native).ok_or_else(|| self.wrong("le, be, network or native"))
    }

    fn base(&self) -> Built<Base> {
        let word = match &self.value {
            Value::Number(number) => number.to_string(),
            Value::Text(word) => word.clone(),
            Value::Words(words) => words.join("."),
        };
        Ok(match word.as_str() {
            "2" | "binary" | "b" => Base::Binary,
            "8" | "octal" | "oct" | "o" => Base::Octal,
            "10" | "decimal" | "dec" | "d" | "i" | "u" => Base::Decimal,
            "16" | "hexadecimal" | "hex" | "x" | "X" | "p" => Base::Hexadecimal,
            _ => return Err(self.wrong("2, 8, 10 or 16")),
        })
    }

    /// False for `none`.
    fn has_encoding(&self) -> Built<bool> {
        let word = match &self.value {
            Value::Text(word) => word.clone(),
            Value::Words(words) => words.join("."),
            Value::Number(_) => return Err(self.wrong("none, UTF8 or ASCII")),
        };
        match word.to_ascii_uppercase().as_str() {
            "NONE" => Ok(false),
            "UTF8" | "UTF-8" | "ASCII" => Ok(true),
            _ => Err(self.wrong("none, UTF8 or ASCII")),
        }
    }
}

pub(super) fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Number(number) => Some(*number != 0),
        Value::Words(words) => match words.join(".").to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        Value::Text(_) => None,
    }
}

pub(super) fn byte_order(value: &Value, native: ByteOrder) -> Option<ByteOrder> {
    let word = match value {
        Value::Text(word) => word.clone(),
        Value::Words(words) => words.join("."),
        Value::Number(_) => return None,
    };
    match word.as_str() {
        "le" => Some(ByteOrder::Little),
        "be" | "network" => Some(ByteOrder::Big),
        "native" => Some(native),
        _ => None,
    }
}
