// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fragments in their order to a schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::field_classes::FieldClasses;
use super::object::{Built, JsonPath, Object};
use super::scope::{self, Clocked};
use super::value::Value;
use crate::read::schema::{Clock, EnvironmentValue, EventClass, Identity, Schema, Scope, StreamClass, Type, Version};

const ADDITIONS: &[&str] = &["type", "attributes", "extensions"];
const IDENTITY: &[&str] = &["namespace", "name", "uid"];

/// Where tracers say how grave an event is, and where its model is described.
const ATTRIBUTES_OF_EVENTS: [&str; 2] = ["lttng.org,2009", "babeltrace.org,2020"];

/// Names of the levels of those attributes, by their number.
pub(crate) const LOG_LEVELS: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug:system",
    "debug:program",
    "debug:process",
    "debug:module",
    "debug:unit",
    "debug:function",
    "debug:line",
    "debug",
];

/// What the fragments so far say.
#[derive(Default)]
pub(super) struct Fragments {
    schema: Option<Schema>,
    has_trace: bool,
    field_classes: FieldClasses,
}

impl Fragments {
    pub(super) fn add(&mut self, value: &Value, place: &JsonPath<'_>) -> Built<()> {
        let object = Object::open(value, place)?;
        let kind = object.need("type", object.text("type")?)?;
        if (kind == "preamble") != self.schema.is_none() {
            return Err(object.at("type").error(match kind {
                "preamble" => "only the first fragment can be the preamble",
                _ => "the first fragment must be the preamble",
            }));
        }
        object.additions()?;
        match kind {
            "preamble" => self.schema = Some(preamble(&object)?),
            "field-class-alias" => self.alias(&object)?,
            "trace-class" => self.trace(&object)?,
            "clock-class" => self.clock(&object)?,
            "data-stream-class" => self.stream(&object)?,
            "event-record-class" => self.event(&object)?,
            _ => {
                let known =
                    "preamble, field-class-alias, trace-class, clock-class, data-stream-class, event-record-class";
                return object
                    .at("type")
                    .wants(&format!("one of {known}"), &Value::Text(kind.into()));
            }
        }
        Ok(())
    }

    pub(super) fn has_streams(&self) -> bool {
        self.schema.as_ref().is_some_and(|schema| !schema.streams.is_empty())
    }

    /// `last`: the last fragment.
    pub(super) fn finish(self, last: JsonPath<'_>) -> Built<Schema> {
        let schema = self
            .schema
            .ok_or_else(|| JsonPath::Fragment(1).error("there is no fragment, not even the preamble"))?;
        match schema.streams.is_empty() {
            true => Err(last.error("no fragment is a data-stream-class, so the contents of streams are not described")),
            false => Ok(schema),
        }
    }

    fn schema(&mut self) -> &mut Schema {
        self.schema.as_mut().expect("the preamble was first")
    }

    fn alias(&mut self, object: &Object<'_>) -> Built<()> {
        object.only(&[ADDITIONS, &["name", "field-class"]])?;
        let name = object.need("name", object.text("name")?)?;
        let value = object.need("field-class", object.get("field-class"))?;
        let built = self.field_classes.build(value, &object.at("field-class"))?;
        match self.field_classes.name(name, built) {
            true => Ok(()),
            false => Err(object.at("name").error(format!("there already is an alias {name:?}"))),
        }
    }

    fn trace(&mut self, object: &Object<'_>) -> Built<()> {
        object.only(&[ADDITIONS, IDENTITY, &["environment", "packet-header-field-class"]])?;
        if self.has_trace {
            return Err(object.at("type").error("there already is a trace-class"));
        }
        if !self.schema().streams.is_empty() {
            return Err(object
                .at("type")
                .error("the trace-class must come before every data-stream-class"));
        }
        self.has_trace = true;
        let header = self.scope(object, "packet-header-field-class", Scope::PacketHeader, Clocked::Never)?;
        let environment = environment(object)?;
        let identity = object.identity()?;
        let schema = self.schema();
        schema.identity = identity;
        schema.environment = environment;
        schema.packet_header = header;
        Ok(())
    }

    fn clock(&mut self, object: &Object<'_>) -> Built<()> {
        let clock = clock(object)?;
        let clocks = &mut self.schema().clocks;
        if clocks.iter().any(|known| known.name == clock.name) {
            return Err(object
                .at("id")
                .error(format!("there already is a clock-class {:?}", clock.name)));
        }
        clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self, object: &Object<'_>) -> Built<()> {
        object.only(&[
            ADDITIONS,
            IDENTITY,
            &[
                "id",
                "default-clock-class-id",
                "packet-context-field-class",
                "event-record-header-field-class",
                "event-record-common-context-field-class",
            ],
        ])?;
        let id = object.unsigned("id")?.unwrap_or(0);
        if self.schema().streams.contains_key(&id) {
            return Err(object
                .at("id")
                .error(format!("there already is a data-stream-class {id}")));
        }
        let clock = match object.text("default-clock-class-id")? {
            None => None,
            Some(name) => {
                let found = self.schema().clocks.iter().position(|clock| clock.name == name);
                let missing = || format!("there is no clock-class {name:?} before this fragment");
                let place = object.at("default-clock-class-id");
                Some(found.ok_or_else(|| place.error(missing()))?)
            }
        };
        let clocked = Clocked::By(clock);
        let packet_context = self.scope(object, "packet-context-field-class", Scope::PacketContext, clocked)?;
        let event_header = self.scope(object, "event-record-header-field-class", Scope::EventHeader, clocked)?;
        let name = "event-record-common-context-field-class";
        let event_context = self.scope(object, name, Scope::EventContext, Clocked::Never)?;
        let Identity { namespace, name, uid } = object.identity()?;
        let class = StreamClass {
            id,
            namespace,
            name,
            uid,
            clock,
            packet_context,
            event_header,
            event_context,
            events: BTreeMap::new(),
        };
        self.schema().streams.insert(id, class);
        Ok(())
    }

    fn event(&mut self, object: &Object<'_>) -> Built<()> {
        object.only(&[
            ADDITIONS,
            IDENTITY,
            &[
                "id",
                "data-stream-class-id",
                "specific-context-field-class",
                "payload-field-class",
            ],
        ])?;
        let id = object.unsigned("id")?.unwrap_or(0);
        let stream_id = object.unsigned("data-stream-class-id")?.unwrap_or(0);
        let Some(stream) = self.schema().streams.get(&stream_id) else {
            let place = object.at("data-stream-class-id");
            return Err(place.error(format!(
                "there is no data-stream-class {stream_id} before this fragment"
            )));
        };
        if stream.events.contains_key(&id) {
            let what = format!("data-stream-class {stream_id} already has an event-record-class {id}");
            return Err(object.at("id").error(what));
        }
        let name = "specific-context-field-class";
        let specific_context = self.scope(object, name, Scope::SpecificContext, Clocked::Never)?;
        let payload = self.scope(object, "payload-field-class", Scope::Payload, Clocked::Never)?;
        let Identity { namespace, name, uid } = object.identity()?;
        let class = EventClass {
            id,
            namespace,
            name: name.unwrap_or_default(),
            uid,
            log_level: attribute(object, "log-level").and_then(log_level),
            emf_uri: attribute(object, "emf-uri").and_then(|value| match value {
                Value::Text(uri) => Some(uri.clone()),
                _ => None,
            }),
            specific_context,
            payload,
        };
        let stream = self.schema().streams.get_mut(&stream_id).expect("it was found above");
        stream.events.insert(id, class);
        Ok(())
    }

    /// The structure of a scope.
    fn scope(&mut self, object: &Object<'_>, name: &str, scope: Scope, clocked: Clocked) -> Built<Option<Arc<Type>>> {
        let Some(value) = object.get(name) else {
            return Ok(None);
        };
        let place = object.at(name);
        let built = self.field_classes.build(value, &place)?;
        let Type::Structure(_) = &*built.of_type else {
            return Err(place.error("the field class of a whole scope must be a structure"));
        };
        let has_uuid = self.schema().uuid.is_some();
        let placed = scope::place(&built.of_type, scope, clocked, has_uuid).map_err(|what| place.error(what))?;
        Ok(Some(placed))
    }
}

fn preamble(object: &Object<'_>) -> Built<Schema> {
    object.only(&[ADDITIONS, &["version", "uuid"]])?;
    let version = object.need("version", object.get("version"))?;
    if *version != Value::Integer(2) {
        return object.at("version").wants("2", version);
    }
    let uuid = match object.get("uuid") {
        None => None,
        Some(value) => match uuid(value) {
            Some(uuid) => Some(uuid),
            None => return object.at("uuid").wants("an array of 16 whole numbers up to 255", value),
        },
    };
    Ok(Schema {
        version: Version::Ctf2,
        uuid,
        identity: Identity::default(),
        environment: vec![],
        clocks: vec![],
        packet_header: None,
        streams: BTreeMap::new(),
    })
}

fn uuid(value: &Value) -> Option<[u8; 16]> {
    let Value::Array(elements) = value else { return None };
    let bytes = elements.iter().map(|element| match element {
        Value::Integer(byte) => u8::try_from(*byte).ok(),
        _ => None,
    });
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

fn environment(object: &Object<'_>) -> Built<Vec<(String, EnvironmentValue)>> {
    let Some(value) = object.get("environment") else {
        return Ok(vec![]);
    };
    let place = object.at("environment");
    let entries = Object::open(value, &place)?;
    let entries = entries.properties().map(|(key, value)| {
        let value = match value {
            Value::Text(text) => EnvironmentValue::Text(text.clone()),
            Value::Integer(number) => match i64::try_from(*number) {
                Ok(number) => EnvironmentValue::Integer(number),
                Err(_) => EnvironmentValue::Text(number.to_string()),
            },
            other => return JsonPath::Property(&place, key).wants("a text or a whole number", other),
        };
        Ok((key.to_owned(), value))
    });
    entries.collect()
}

fn clock(object: &Object<'_>) -> Built<Clock> {
    object.only(&[
        ADDITIONS,
        IDENTITY,
        &[
            "id",
            "frequency",
            "origin",
            "offset-from-origin",
            "precision",
            "accuracy",
            "description",
        ],
    ])?;
    let name = object.need("id", object.owned("id")?)?;
    let identity = object.identity()?;
    let frequency_hz = object.need("frequency", object.unsigned("frequency")?)?;
    if frequency_hz == 0 {
        return Err(object.at("frequency").error("a frequency must be above 0"));
    }
    let (is_unix_epoch, origin) = origin(object)?;
    let (offset_seconds, offset_cycles) = offset(object, frequency_hz)?;
    Ok(Clock {
        name,
        uuid: identity.uid.as_deref().and_then(crate::read::schema::uuid),
        identity,
        description: object.owned("description")?.unwrap_or_default(),
        frequency_hz,
        precision_cycles: object.unsigned("precision")?,
        accuracy_cycles: object.unsigned("accuracy")?,
        offset_seconds,
        offset_cycles,
        is_unix_epoch,
        origin,
    })
}

fn origin(object: &Object<'_>) -> Built<(bool, Option<Identity>)> {
    let place = object.at("origin");
    match object.get("origin") {
        None => Ok((false, None)),
        Some(Value::Text(text)) if text == "unix-epoch" => Ok((true, None)),
        Some(value @ Value::Object(_)) => {
            let object = Object::open(value, &place)?;
            object.only(&[IDENTITY])?;
            let identity = object.identity()?;
            object.need("name", identity.name.as_ref())?;
            object.need("uid", identity.uid.as_ref())?;
            Ok((false, Some(identity)))
        }
        Some(other) => place.wants("\"unix-epoch\" or an object", other),
    }
}

fn offset(object: &Object<'_>, frequency_hz: u64) -> Built<(i64, u64)> {
    let Some(value) = object.get("offset-from-origin") else {
        return Ok((0, 0));
    };
    let place = object.at("offset-from-origin");
    let object = Object::open(value, &place)?;
    object.only(&[&["seconds", "cycles"]])?;
    let cycles = object.unsigned("cycles")?.unwrap_or(0);
    if cycles >= frequency_hz {
        let what = format!("{cycles} cycles are not less than a second, which has {frequency_hz} cycles");
        return Err(object.at("cycles").error(what));
    }
    Ok((object.signed("seconds")?.unwrap_or(0), cycles))
}

/// An attribute of a tracer that is known.
fn attribute<'a>(object: &Object<'a>, name: &str) -> Option<&'a Value> {
    let Some(Value::Object(namespaces)) = object.get("attributes") else {
        return None;
    };
    let known = namespaces
        .iter()
        .filter(|(namespace, _)| ATTRIBUTES_OF_EVENTS.contains(&namespace.as_str()));
    let mut attributes = known.filter_map(|(_, value)| match value {
        Value::Object(attributes) => Some(attributes),
        _ => None,
    });
    attributes.find_map(|attributes| {
        let found = attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    })
}

fn log_level(value: &Value) -> Option<i64> {
    match value {
        Value::Text(name) => {
            let found = LOG_LEVELS.iter().position(|known| known == name);
            found.map(|level| level as i64)
        }
        Value::Integer(level) => i64::try_from(*level).ok(),
        _ => None,
    }
}
