// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of a schema of CTF 2: one fragment a line.

use std::sync::Arc;

use crate::read::json::value::Value;
use crate::read::json::{LOG_LEVELS, ORIGINS, RECORD_SEPARATOR};
use crate::read::roles;
use crate::read::schema::{
    Base, ByteOrder, Clock, Count, Encoding, EnvironmentValue, EventClass, Float, Identity, Integer, Label, Meaning,
    Reference, Role, Schema, Scope, StreamClass, TextLength, Type, Width,
};

/// Properties of an object in their order.
#[derive(Default)]
struct Object(Vec<(String, Value)>);

impl Object {
    fn of(kind: &str) -> Object {
        Object::default().with("type", text_value(kind))
    }

    fn with(mut self, name: &str, value: Value) -> Object {
        self.0.push((name.into(), value));
        self
    }

    fn with_some(self, name: &str, value: Option<Value>) -> Object {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn with_identity(self, identity: &Identity) -> Object {
        let text = |text: &Option<String>| text.as_deref().map(text_value);
        self.with_some("namespace", text(&identity.namespace))
            .with_some("name", text(&identity.name))
            .with_some("uid", text(&identity.uid))
    }

    fn value(self) -> Value {
        Value::Object(self.0)
    }
}

fn text_value(text: &str) -> Value {
    Value::Text(text.into())
}

fn number(number: impl Into<i128>) -> Value {
    Value::Integer(number.into())
}

pub(super) fn text(schema: &Schema) -> String {
    let mut text = String::new();
    let mut add = |object: Object| {
        text.push(char::from(RECORD_SEPARATOR));
        text += &serde_json::to_string(&object.value()).expect("texts and numbers are JSON");
        text.push('\n');
    };
    let uuid = |uuid: [u8; 16]| Value::Array(uuid.into_iter().map(number).collect());
    add(Object::of("preamble")
        .with("version", number(2))
        .with_some("uuid", schema.uuid.map(uuid)));
    add(trace(schema));
    schema.clocks.iter().map(clock).for_each(&mut add);
    for class in schema.streams.values() {
        add(stream(schema, class));
        for event_class in class.events.values() {
            add(event(class.id, event_class));
        }
    }
    text
}

fn trace(schema: &Schema) -> Object {
    let environment = schema.environment.iter().map(|(key, value)| {
        let value = match value {
            EnvironmentValue::Integer(value) => number(*value),
            EnvironmentValue::Text(text) => text_value(text),
        };
        (key.clone(), value)
    });
    let environment: Vec<(String, Value)> = environment.collect();
    Object::of("trace-class")
        .with_identity(&schema.identity)
        .with_some(
            "environment",
            (!environment.is_empty()).then_some(Value::Object(environment)),
        )
        .with_some(
            "packet-header-field-class",
            schema
                .packet_header
                .as_ref()
                .map(|of_type| field_class(of_type, Scope::PacketHeader)),
        )
}

fn clock(clock: &Clock) -> Object {
    let origin = match &clock.origin {
        _ if clock.is_unix_epoch => Some(text_value("unix-epoch")),
        Some(identity) => Some(Object::default().with_identity(identity).value()),
        None => None,
    };
    let offset = Object::default()
        .with("seconds", number(clock.offset_seconds))
        .with("cycles", number(clock.offset_cycles));
    let description = (!clock.description.is_empty()).then(|| text_value(&clock.description));
    Object::of("clock-class")
        .with("id", text_value(&clock.name))
        .with_identity(&clock.identity)
        .with_some("description", description)
        .with("frequency", number(clock.frequency_hz))
        .with_some("precision", clock.precision_cycles.map(number))
        .with_some("accuracy", clock.accuracy_cycles.map(number))
        .with_some("origin", origin)
        .with("offset-from-origin", offset.value())
}

fn stream(schema: &Schema, class: &StreamClass) -> Object {
    let identity = Identity {
        namespace: class.namespace.clone(),
        name: class.name.clone(),
        uid: class.uid.clone(),
    };
    let clock = class.clock.and_then(|clock| schema.clocks.get(clock));
    let mut object = Object::of("data-stream-class")
        .with("id", number(class.id))
        .with_identity(&identity)
        .with_some("default-clock-class-id", clock.map(|clock| text_value(&clock.name)));
    for (name, of_type, scope) in [
        (
            "packet-context-field-class",
            &class.packet_context,
            Scope::PacketContext,
        ),
        (
            "event-record-header-field-class",
            &class.event_header,
            Scope::EventHeader,
        ),
        (
            "event-record-common-context-field-class",
            &class.event_context,
            Scope::EventContext,
        ),
    ] {
        object = object.with_some(name, of_type.as_ref().map(|of_type| field_class(of_type, scope)));
    }
    object
}

fn event(stream_id: u64, class: &EventClass) -> Object {
    let identity = Identity {
        namespace: class.namespace.clone(),
        name: (!class.name.is_empty()).then(|| class.name.clone()),
        uid: class.uid.clone(),
    };
    let level = class.log_level.map(|level| {
        let name = usize::try_from(level).ok().and_then(|level| LOG_LEVELS.get(level));
        name.map_or_else(|| number(level), |name| text_value(name))
    });
    let attributes = Object::default()
        .with_some("log-level", level)
        .with_some("emf-uri", class.emf_uri.as_deref().map(text_value));
    let attributes =
        (!attributes.0.is_empty()).then(|| Object::default().with("lttng.org,2009", attributes.value()).value());
    let scope = |of_type: &Option<Arc<Type>>, scope| of_type.as_ref().map(|of_type| field_class(of_type, scope));
    Object::of("event-record-class")
        .with("id", number(class.id))
        .with("data-stream-class-id", number(stream_id))
        .with_identity(&identity)
        .with_some("attributes", attributes)
        .with_some(
            "specific-context-field-class",
            scope(&class.specific_context, Scope::SpecificContext),
        )
        .with_some("payload-field-class", scope(&class.payload, Scope::Payload))
}

fn field_class(of_type: &Type, scope: Scope) -> Value {
    let object = match of_type {
        Type::Integer(integer) => whole_number(integer, &[], scope),
        Type::Enumeration(enumeration) => whole_number(&enumeration.integer, &enumeration.labels, scope),
        Type::Float(float) => floating(float),
        Type::Text(text) => {
            let object = match &text.length {
                TextLength::Terminated => Object::of("null-terminated-string"),
                TextLength::Bytes(bytes) => Object::of("static-length-string").with("length", number(*bytes)),
                TextLength::From(reference) => {
                    Object::of("dynamic-length-string").with("length-field-location", location(reference))
                }
            };
            object.with_some("encoding", encoding(text.encoding).map(text_value))
        }
        Type::Blob(blob) => {
            let object = match &blob.count {
                Count::Fixed(bytes) => Object::of("static-length-blob").with("length", number(*bytes)),
                Count::From(reference) => {
                    Object::of("dynamic-length-blob").with("length-field-location", location(reference))
                }
            };
            object
                .with_some("media-type", blob.media_type.as_deref().map(text_value))
                .with_some("roles", role_names(&blob.roles, false))
        }
        Type::Structure(structure) => {
            let members = structure.fields.iter().map(|(name, field)| {
                let member = Object::default().with("name", text_value(name));
                member.with("field-class", field_class(field, scope)).value()
            });
            let members: Vec<Value> = members.collect();
            Object::of("structure")
                .with_some("minimum-alignment", above_one(structure.alignment))
                .with_some("member-classes", (!members.is_empty()).then_some(Value::Array(members)))
        }
        Type::Array(array) => {
            let object = match &array.count {
                Count::Fixed(count) => Object::of("static-length-array").with("length", number(*count)),
                Count::From(reference) => {
                    Object::of("dynamic-length-array").with("length-field-location", location(reference))
                }
            };
            object
                .with_some("minimum-alignment", above_one(array.alignment))
                .with("element-field-class", field_class(&array.element, scope))
        }
        Type::Variant(variant) => {
            let options = variant.options.iter().map(|option| {
                let object = Object::default().with_some("name", option.name.as_deref().map(text_value));
                object
                    .with("selector-field-ranges", ranges(&option.ranges))
                    .with("field-class", field_class(&option.of_type, scope))
                    .value()
            });
            Object::of("variant")
                .with("selector-field-location", location(&variant.selector))
                .with("options", Value::Array(options.collect()))
        }
        Type::Optional(optional) => {
            let ranges = (!optional.ranges.is_empty()).then(|| ranges(&optional.ranges));
            Object::of("optional")
                .with("selector-field-location", location(&optional.selector))
                .with_some("selector-field-ranges", ranges)
                .with("field-class", field_class(&optional.content, scope))
        }
    };
    object.value()
}

fn whole_number(integer: &Integer, mappings: &[Label], scope: Scope) -> Object {
    let kind = match (integer.width, integer.meaning, integer.is_signed) {
        (Width::Variable, _, false) => "variable-length-unsigned-integer",
        (Width::Variable, _, true) => "variable-length-signed-integer",
        (_, Meaning::Boolean, _) => "fixed-length-boolean",
        (_, Meaning::Bits, _) if integer.labels.is_empty() => "fixed-length-bit-array",
        (_, Meaning::Bits, _) => "fixed-length-bit-map",
        (_, _, false) => "fixed-length-unsigned-integer",
        (_, _, true) => "fixed-length-signed-integer",
    };
    let mut object = Object::of(kind);
    if let Width::Bits(bits) = integer.width {
        object = bit_array(object, bits, integer.byte_order, integer.is_reversed, integer.alignment);
    }
    if integer.meaning == Meaning::Bits {
        return object.with_some("flags", labels(&integer.labels));
    }
    if integer.meaning == Meaning::Boolean {
        return object;
    }
    let base = match integer.base {
        Base::Binary => Some(number(2)),
        Base::Octal => Some(number(8)),
        Base::Decimal => None,
        Base::Hexadecimal => Some(number(16)),
    };
    let is_time = scope == Scope::EventHeader && integer.clock.is_some();
    object
        .with_some("preferred-display-base", base)
        .with_some("mappings", labels(mappings))
        .with_some("roles", role_names(&integer.roles, is_time))
}

fn floating(float: &Float) -> Object {
    let object = Object::of("fixed-length-floating-point-number");
    bit_array(object, float.bits, float.byte_order, float.is_reversed, float.alignment)
}

fn bit_array(object: Object, bits: u32, order: ByteOrder, is_reversed: bool, alignment: u32) -> Object {
    let (order_name, unusual) = match order {
        ByteOrder::Little => ("little-endian", "last-to-first"),
        ByteOrder::Big => ("big-endian", "first-to-last"),
    };
    object
        .with("length", number(bits))
        .with("byte-order", text_value(order_name))
        .with_some("bit-order", is_reversed.then(|| text_value(unusual)))
        .with_some("alignment", above_one(alignment))
}

fn above_one(alignment: u32) -> Option<Value> {
    (alignment > 1).then(|| number(alignment))
}

fn labels(labels: &[Label]) -> Option<Value> {
    let properties = labels.iter().map(|label| (label.name.clone(), ranges(&label.ranges)));
    (!labels.is_empty()).then(|| Value::Object(properties.collect()))
}

fn ranges(ranges: &[(i128, i128)]) -> Value {
    let pairs = ranges
        .iter()
        .map(|&(first, last)| Value::Array(vec![number(first), number(last)]));
    Value::Array(pairs.collect())
}

fn role_names(tasks: &[Role], is_time: bool) -> Option<Value> {
    let time = is_time.then_some(roles::TIME);
    let names = tasks.iter().map(|role| roles::role_name(*role)).chain(time);
    let names: Vec<Value> = names.map(text_value).collect();
    (!names.is_empty()).then_some(Value::Array(names))
}

fn location(reference: &Reference) -> Value {
    let origin = ORIGINS.iter().find(|(_, scope)| Some(*scope) == reference.origin);
    let path = reference
        .path
        .iter()
        .map(|name| name.as_deref().map_or(Value::Null, text_value));
    Object::default()
        .with_some("origin", origin.map(|(name, _)| text_value(name)))
        .with("path", Value::Array(path.collect()))
        .value()
}

fn encoding(encoding: Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Utf8 => None,
        Encoding::Utf16Be => Some("utf-16be"),
        Encoding::Utf16Le => Some("utf-16le"),
        Encoding::Utf32Be => Some("utf-32be"),
        Encoding::Utf32Le => Some("utf-32le"),
    }
}
