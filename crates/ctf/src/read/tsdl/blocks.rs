// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of metadata, `trace { ... }` and its like, to a schema.

use std::sync::Arc;

use super::clocks;
use super::scopes::Scopes;
use super::syntax::{Statement, StatementKind, Value};
use super::types::{Types, byte_order, check_extent};
use super::{MetadataError, Position};
use crate::read::plan::ways::bare;
use crate::read::schema::{
    self, ByteOrder, Clock, EnvironmentValue, EventClass, Identity, Schema, StreamClass, Structure, Type, Version,
};

type Built<T> = Result<T, MetadataError>;

/// `native`: of whoever packed the metadata; said in the trace block otherwise.
///
/// Streams, events and types that are not sound are left out, and what is wrong with them is added to `faults`.
pub(super) fn schema(
    statements: &[Statement],
    native: Option<ByteOrder>,
    faults: &mut Vec<MetadataError>,
) -> Built<Schema> {
    // Types may stand before the blocks that say what they mean: byte order and clocks come first.
    let native = native_byte_order(statements)?.or(native).unwrap_or(ByteOrder::Little);
    let mut clocks = blocks(statements, "clock")
        .map(clocks::clock)
        .collect::<Built<Vec<Clock>>>()?;
    let clock_names: Vec<String> = clocks.iter().map(|clock| clock.name.clone()).collect();
    let mut builder = Builder {
        types: Types {
            scopes: Scopes::new(),
            native,
            clocks: &clock_names,
        },
        schema: Schema {
            version: Version::Ctf1,
            uuid: None,
            identity: Identity::default(),
            environment: vec![],
            clocks: vec![],
            packet_header: None,
            streams: Default::default(),
        },
        has_trace: false,
        contradiction: None,
        events: vec![],
    };
    for statement in statements {
        let Err(fault) = builder.statement(statement) else {
            continue;
        };
        builder.types.scopes.leave_all();
        match &statement.kind {
            StatementKind::Block { keyword, .. } if keyword == "trace" => return Err(fault),
            _ => faults.push(fault),
        }
    }
    builder.place_events(faults);
    if let Some(fault) = builder.contradiction {
        return Err(fault);
    }
    let mut schema = builder.schema;
    for stream in schema.streams.values_mut() {
        clocks::find(stream, &mut clocks);
    }
    schema.clocks = clocks;
    Ok(schema)
}

struct Builder<'a> {
    types: Types<'a>,
    schema: Schema,
    has_trace: bool,
    /// Two classes of one id: nobody can say which of them is meant.
    contradiction: Option<MetadataError>,
    /// They may stand before their stream.
    events: Vec<Event>,
}

struct Event {
    position: Position,
    stream_id: Option<u64>,
    id: Option<u64>,
    class: EventClass,
}

impl Builder<'_> {
    fn statement(&mut self, statement: &Statement) -> Built<()> {
        let position = statement.position;
        match &statement.kind {
            StatementKind::Block { keyword, statements } => {
                self.types.scopes.enter();
                match keyword.as_str() {
                    "trace" if self.has_trace => return Err(position.error("there already is a trace block")),
                    "trace" => self.trace(statements)?,
                    "stream" => self.stream(statements, position)?,
                    "event" => self.event(statements, position)?,
                    "env" => self.environment(statements)?,
                    // Clocks are known already, call sites change nothing.
                    _ => {}
                }
                self.types.scopes.leave();
                Ok(())
            }
            StatementKind::Assign { path, .. } | StatementKind::AssignType { path, .. } => {
                Err(position.error(format!("`{}` cannot be set outside of a block", path.join("."))))
            }
            _ => self.types.define(statement).map(drop),
        }
    }

    fn trace(&mut self, statements: &[Statement]) -> Built<()> {
        self.has_trace = true;
        for statement in statements {
            if self.types.define(statement)? {
                continue;
            }
            match &statement.kind {
                StatementKind::Assign { path, value } if path.len() == 1 && path[0] == "uuid" => {
                    self.schema.uuid = Some(uuid(value, statement.position)?);
                }
                StatementKind::Assign { path, value }
                    if path.len() == 1 && path[0] == "major" && !matches!(value, Value::Number(1)) =>
                {
                    let what = format!("CTF {} is not CTF 1.8", value.shown());
                    return Err(statement.position.error(what));
                }
                StatementKind::AssignType { path, of_type } if path.join(".") == "packet.header" => {
                    let header = self.types.of_type(of_type)?;
                    self.schema.packet_header = Some(structure(header, "packet.header", statement.position)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn stream(&mut self, statements: &[Statement], position: Position) -> Built<()> {
        let mut class = StreamClass {
            id: 0,
            namespace: None,
            name: None,
            uid: None,
            clock: None,
            packet_context: None,
            event_header: None,
            event_context: None,
            events: Default::default(),
        };
        for statement in statements {
            if self.types.define(statement)? {
                continue;
            }
            let position = statement.position;
            match &statement.kind {
                StatementKind::Assign { path, value } if path.join(".") == "id" => class.id = id(value, position)?,
                StatementKind::Assign {
                    path,
                    value: Value::Text(name),
                } if path.join(".") == "name" => {
                    class.name = Some(name.clone());
                }
                StatementKind::AssignType { path, of_type } => {
                    let of_type = self.types.of_type(of_type)?;
                    let place = match path.join(".").as_str() {
                        "packet.context" => &mut class.packet_context,
                        "event.header" => &mut class.event_header,
                        "event.context" => &mut class.event_context,
                        // Of a later version, or a mistake that changes nothing.
                        _ => continue,
                    };
                    *place = Some(structure(of_type, &path.join("."), position)?);
                }
                _ => {}
            }
        }
        let id = class.id;
        match self.schema.streams.insert(id, class) {
            None => Ok(()),
            Some(_) => {
                let fault = position.error(format!("there already is a stream with id {id}"));
                Err(self.contradiction.get_or_insert(fault).clone())
            }
        }
    }

    fn event(&mut self, statements: &[Statement], position: Position) -> Built<()> {
        let mut event = Event {
            position,
            stream_id: None,
            id: None,
            class: EventClass {
                id: 0,
                namespace: None,
                name: String::new(),
                uid: None,
                log_level: None,
                emf_uri: None,
                specific_context: None,
                payload: None,
            },
        };
        let class = &mut event.class;
        for statement in statements {
            if self.types.define(statement)? {
                continue;
            }
            let position = statement.position;
            match &statement.kind {
                StatementKind::Assign { path, value } => match path.join(".").as_str() {
                    "name" => {
                        class.name = match value {
                            Value::Text(name) => name.clone(),
                            Value::Words(words) => words.join("."),
                            Value::Number(_) => return Err(position.error("the name of an event must be a text")),
                        }
                    }
                    "id" => event.id = Some(id(value, position)?),
                    "stream_id" => event.stream_id = Some(id(value, position)?),
                    "loglevel" => {
                        if let Value::Number(level) = value {
                            class.log_level = i64::try_from(*level).ok();
                        }
                    }
                    "model.emf.uri" => {
                        if let Value::Text(uri) = value {
                            class.emf_uri = Some(uri.clone());
                        }
                    }
                    _ => {}
                },
                StatementKind::AssignType { path, of_type } => {
                    let of_type = self.types.of_type(of_type)?;
                    let place = match path.join(".").as_str() {
                        "context" => &mut class.specific_context,
                        "fields" => &mut class.payload,
                        _ => continue,
                    };
                    *place = Some(structure(of_type, &path.join("."), position)?);
                }
                _ => {}
            }
        }
        self.events.push(event);
        Ok(())
    }

    /// Events go to their streams; one that names none goes to the only one.
    fn place_events(&mut self, faults: &mut Vec<MetadataError>) {
        for event in std::mem::take(&mut self.events) {
            faults.extend(self.place_event(event).err());
        }
    }

    fn place_event(&mut self, event: Event) -> Built<()> {
        let streams = &mut self.schema.streams;
        let stream_id = match event.stream_id {
            Some(id) => id,
            None if streams.len() == 1 => *streams.keys().next().expect("there is one"),
            // Packets that do not say of which stream they are are of stream 0.
            None if streams.is_empty() || !names_streams(self.schema.packet_header.as_deref()) => 0,
            None => {
                let what = format!(
                    "the event does not say which of the {} streams it belongs to: `stream_id` is missing",
                    streams.len()
                );
                return Err(event.position.error(what));
            }
        };
        if streams.is_empty() {
            streams.insert(stream_id, bare_stream(stream_id));
        }
        let position = event.position;
        let stream = streams
            .get_mut(&stream_id)
            .ok_or_else(|| position.error(format!("the stream of the event, {stream_id}, is not described")))?;
        let id = event.id.unwrap_or(stream.events.len() as u64);
        let class = EventClass { id, ..event.class };
        if stream.events.insert(id, class).is_some() {
            let fault = position.error(format!("stream {stream_id} already has an event with id {id}"));
            return Err(self.contradiction.get_or_insert(fault).clone());
        }
        Ok(())
    }

    fn environment(&mut self, statements: &[Statement]) -> Built<()> {
        for statement in statements {
            let StatementKind::Assign { path, value } = &statement.kind else {
                continue;
            };
            let key = path.join(".");
            let value = match value {
                Value::Number(number) => EnvironmentValue::Integer(*number as i64),
                Value::Text(text) => EnvironmentValue::Text(text.clone()),
                Value::Words(words) => EnvironmentValue::Text(words.join(".")),
            };
            let environment = &mut self.schema.environment;
            match environment.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = value,
                None => environment.push((key, value)),
            }
        }
        Ok(())
    }
}

fn blocks<'a>(statements: &'a [Statement], wanted: &'a str) -> impl Iterator<Item = (&'a [Statement], Position)> {
    statements.iter().filter_map(move |statement| match &statement.kind {
        StatementKind::Block { keyword, statements } if keyword == wanted => {
            Some((&statements[..], statement.position))
        }
        _ => None,
    })
}

fn native_byte_order(statements: &[Statement]) -> Built<Option<ByteOrder>> {
    for (statements, _) in blocks(statements, "trace") {
        for statement in statements {
            if let StatementKind::Assign { path, value } = &statement.kind
                && path.join(".") == "byte_order"
            {
                // A trace cannot be native to itself.
                let found = byte_order(value, ByteOrder::Little);
                let wrong = || {
                    statement
                        .position
                        .error(format!("`byte_order` must be le or be, not {}", value.shown()))
                };
                return found.ok_or_else(wrong).map(Some);
            }
        }
    }
    Ok(None)
}

/// Packets say of which stream they are.
fn names_streams(packet_header: Option<&Type>) -> bool {
    let Some(Type::Structure(header)) = packet_header else {
        return false;
    };
    header.fields.iter().any(|(name, _)| bare(name) == "stream_id")
}

fn bare_stream(id: u64) -> StreamClass {
    StreamClass {
        id,
        namespace: None,
        name: None,
        uid: None,
        clock: None,
        packet_context: None,
        event_header: None,
        event_context: None,
        events: Default::default(),
    }
}

fn structure(of_type: Arc<Type>, what: &str, position: Position) -> Built<Arc<Type>> {
    check_extent(&of_type, position)?;
    match &*of_type {
        Type::Structure(Structure { .. }) => Ok(of_type),
        _ => Err(position.error(format!("`{what}` must be a structure"))),
    }
}

fn id(value: &Value, position: Position) -> Built<u64> {
    let number = match value {
        Value::Number(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    number.ok_or_else(|| position.error(format!("an id must be a number, not {}", value.shown())))
}

pub(super) fn uuid(value: &Value, position: Position) -> Built<[u8; 16]> {
    let parsed = match value {
        Value::Text(text) => schema::uuid(text),
        _ => None,
    };
    parsed.ok_or_else(|| {
        position.error(format!(
            "{} is not a UUID such as \"01234567-89ab-cdef-0123-456789abcdef\"",
            value.shown()
        ))
    })
}
