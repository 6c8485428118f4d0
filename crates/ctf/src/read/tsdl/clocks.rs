// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks, and which fields count them.
//!
//! A field says so with `map = clock.NAME.value`. Tracers from before that attribute have fields called `timestamp`, `timestamp_begin` and
//! `timestamp_end` that say nothing; readers take them for the trace's only clock, or for nanoseconds.

use std::sync::Arc;

use super::blocks::uuid;
use super::syntax::{Statement, StatementKind, Value};
use super::types::boolean;
use super::{MetadataError, Position};
use crate::read::schema::{Clock, Identity, Integer, StreamClass, Type};

type Built<T> = Result<T, MetadataError>;

const FREQUENCY_DEFAULT_HZ: u64 = 1_000_000_000;

/// One of which nothing is said.
fn plain(name: &str) -> Clock {
    Clock {
        name: name.to_owned(),
        uuid: None,
        identity: Identity::default(),
        description: String::new(),
        frequency_hz: FREQUENCY_DEFAULT_HZ,
        precision_cycles: None,
        accuracy_cycles: None,
        offset_seconds: 0,
        offset_cycles: 0,
        is_unix_epoch: false,
        origin: None,
    }
}

/// A `clock` block.
pub(super) fn clock((statements, position): (&[Statement], Position)) -> Built<Clock> {
    let mut clock = plain("");
    let mut offset_cycles: i128 = 0;
    for statement in statements {
        let StatementKind::Assign { path, value } = &statement.kind else {
            continue;
        };
        let position = statement.position;
        let wrong =
            |allowed: &str| position.error(format!("`{}` must be {allowed}, not {}", path.join("."), value.shown()));
        let number = || match value {
            Value::Number(number) => Ok(*number),
            _ => Err(wrong("a number")),
        };
        match path.join(".").as_str() {
            "name" => {
                clock.name = match value {
                    Value::Words(words) => words.join("."),
                    Value::Text(name) => name.clone(),
                    Value::Number(_) => return Err(wrong("a name")),
                }
            }
            "uuid" => clock.uuid = Some(uuid(value, position)?),
            "description" => {
                if let Value::Text(text) = value {
                    clock.description = text.clone();
                }
            }
            "freq" => {
                let hz = u64::try_from(number()?).ok().filter(|&hz| hz > 0);
                clock.frequency_hz = hz.ok_or_else(|| wrong("a frequency above 0"))?;
            }
            "precision" => clock.precision_cycles = u64::try_from(number()?).ok(),
            "offset_s" => clock.offset_seconds = i64::try_from(number()?).map_err(|_| wrong("seconds of 64 bits"))?,
            "offset" => offset_cycles = number()?,
            "absolute" => clock.is_unix_epoch = boolean(value).ok_or_else(|| wrong("true or false"))?,
            _ => {}
        }
    }
    if clock.name.is_empty() {
        return Err(position.error("the clock has no name"));
    }
    // Cycles of a second or more, and below 0, are seconds.
    let frequency = i128::from(clock.frequency_hz);
    let seconds = i128::from(clock.offset_seconds) + offset_cycles.div_euclid(frequency);
    clock.offset_seconds = i64::try_from(seconds).map_err(|_| position.error("the clock's offset exceeds 64 bits"))?;
    clock.offset_cycles = offset_cycles.rem_euclid(frequency) as u64;
    Ok(clock)
}

/// Finds the clock of a stream: the first one that a field counts.
pub(super) fn find(stream: &mut StreamClass, clocks: &mut Vec<Clock>) {
    stream.clock = counted(stream);
    let (context, header) = (&mut stream.packet_context, &mut stream.event_header);
    for (scope, names) in [
        (context, &["timestamp_begin", "timestamp_end"][..]),
        (header, &["timestamp"]),
    ] {
        let Some(scope) = scope else { continue };
        for name in names {
            if !has_unmapped(scope, name) {
                continue;
            }
            if clocks.is_empty() {
                clocks.push(plain("default"));
            }
            // Which of several clocks it is, other fields of the stream say.
            let clock = if clocks.len() == 1 { Some(0) } else { stream.clock };
            if let Some(clock) = clock {
                map(scope, name, clock);
            }
        }
    }
    stream.clock = counted(stream);
}

fn counted(stream: &StreamClass) -> Option<usize> {
    let scopes = [&stream.packet_context, &stream.event_header, &stream.event_context];
    let events = stream.events.values();
    let events = events.flat_map(|event| [&event.specific_context, &event.payload]);
    let mut scopes = scopes.into_iter().chain(events).flatten();
    scopes.find_map(|scope| clock_in(scope))
}

fn clock_in(of_type: &Type) -> Option<usize> {
    match of_type {
        Type::Integer(integer) => integer.clock,
        Type::Enumeration(enumeration) => enumeration.integer.clock,
        Type::Structure(structure) => structure.fields.iter().find_map(|(_, field)| clock_in(field)),
        Type::Variant(variant) => variant.options.iter().find_map(|option| clock_in(&option.of_type)),
        Type::Array(array) => clock_in(&array.element),
        Type::Optional(optional) => clock_in(&optional.content),
        Type::Float(_) | Type::Text(_) | Type::Blob(_) => None,
    }
}

fn has_unmapped(of_type: &Type, wanted: &str) -> bool {
    let is_one = |name: &str, of_type: &Type| {
        name == wanted && of_type.integer().is_some_and(|integer| integer.clock.is_none())
            || has_unmapped(of_type, wanted)
    };
    match of_type {
        Type::Structure(structure) => structure.fields.iter().any(|(name, field)| is_one(bare(name), field)),
        Type::Variant(variant) => variant
            .options
            .iter()
            .any(|option| is_one(option.name.as_deref().map_or("", bare), &option.of_type)),
        _ => false,
    }
}

/// Fields of that name in structures and variants count a clock from now on.
fn map(of_type: &mut Arc<Type>, wanted: &str, clock: usize) {
    let visit = |name: &str, of_type: &mut Arc<Type>| {
        if name == wanted
            && let Some(integer) = integer_of(of_type)
        {
            integer.clock = integer.clock.or(Some(clock));
        }
        map(of_type, wanted, clock);
    };
    match &**of_type {
        Type::Structure(_) | Type::Variant(_) => {}
        _ => return,
    }
    match Arc::make_mut(of_type) {
        Type::Structure(structure) => {
            for (name, field) in &mut structure.fields {
                visit(bare(name), field);
            }
        }
        Type::Variant(variant) => {
            for option in &mut variant.options {
                visit(option.name.as_deref().map_or("", bare), &mut option.of_type);
            }
        }
        _ => {}
    }
}

fn integer_of(of_type: &mut Arc<Type>) -> Option<&mut Integer> {
    match Arc::make_mut(of_type) {
        Type::Integer(integer) => Some(integer),
        Type::Enumeration(enumeration) => Some(&mut enumeration.integer),
        _ => None,
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}
