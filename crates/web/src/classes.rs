// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events a trace may have, and with which fields: for those who write a filter.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::pages::{Asked, Json, Refusal};
use crate::questions::Question;
use crate::tools;

/// The kernel has some two thousand, with its system calls.
const EVENTS_MAX: usize = 5000;
/// Of one event.
const FIELDS_MAX: usize = 100;

/// What can be named in a filter.
#[derive(Default, Serialize)]
pub(crate) struct Classes {
    /// Names of events with their fields.
    events: BTreeMap<String, BTreeSet<String>>,
    /// Fields of all events of a stream.
    contexts: BTreeSet<String>,
}

/// What `piste info` says, as far as it is needed.
#[derive(Deserialize)]
struct Info {
    traces: Vec<Trace>,
}

#[derive(Deserialize)]
struct Trace {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    name: String,
    event_context: Vec<Field>,
    specific_context: Vec<Field>,
    payload: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
}

/// `GET /api/N/classes`
pub(crate) async fn classes(
    State(house): Asked,
    Path(number): Path<usize>,
    question: Question,
) -> Result<Json<Classes>, Refusal> {
    let recording = house.recording(number)?;
    let failed = |why: String| Refusal(StatusCode::CONFLICT, why);
    let answer = tools::ask(&house.piste, &["info"], &recording.path, &question)
        .await
        .map_err(failed)?;
    let info: Info = serde_json::from_slice(&answer)
        .map_err(|error| failed(format!("cannot read the output of piste info: {error}")))?;
    Ok(Json(Classes::of(info)))
}

impl Classes {
    fn of(info: Info) -> Classes {
        let mut classes = Classes::default();
        for event in info.traces.into_iter().flat_map(|trace| trace.events) {
            add(&mut classes.contexts, event.event_context);
            let is_full = classes.events.len() >= EVENTS_MAX;
            let fields = match classes.events.entry(event.name) {
                Entry::Vacant(_) if is_full => continue,
                entry => entry.or_default(),
            };
            add(fields, event.specific_context);
            add(fields, event.payload);
        }
        classes
    }
}

fn add(names: &mut BTreeSet<String>, fields: Vec<Field>) {
    for Field { name } in fields {
        if names.len() < FIELDS_MAX {
            names.insert(name);
        }
    }
}
