// SPDX-License-Identifier: MIT OR Apache-2.0
//! One channel of a session: its shape, its rules, and the event classes that programs gave it.

use std::collections::HashMap;

use piste_ctf::{Contexts, EventClass, Field, FieldKind, Label, StreamClass};
use serde::{Deserialize, Serialize};

use super::rules::Rule;
use crate::link::Geometry;

/// A channel of a session.
#[derive(Debug)]
pub struct Channel {
    /// Name and shape.
    pub settings: ChannelSettings,
    /// Which events it records.
    pub rules: Vec<Rule>,
    /// The index is the class's id.
    pub classes: Vec<EventClass>,
    /// What the classes take, roughly.
    pub class_bytes: usize,
    /// Ring sets whose memory was lost with what was in it.
    pub lost_ring_set_count: u64,
    classes_by_name: HashMap<String, Vec<u32>>,
}

/// A channel's name and shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSettings {
    /// Unique in the session.
    pub name: String,
    /// Of its rings.
    pub geometry: Geometry,
}

impl Channel {
    pub(super) fn new(settings: ChannelSettings) -> Channel {
        Channel {
            settings,
            rules: Vec::new(),
            classes: Vec::new(),
            class_bytes: 0,
            lost_ring_set_count: 0,
            classes_by_name: HashMap::new(),
        }
    }

    /// What the trace says about the channel's streams.
    pub fn stream_class(&self, id: u32) -> StreamClass {
        let Geometry {
            context_vtid: vtid,
            context_cpu_id: cpu_id,
            ..
        } = self.settings.geometry;
        StreamClass {
            id,
            channel: self.settings.name.clone(),
            contexts: Contexts { vtid, cpu_id },
        }
    }

    /// Whether an enabled rule wants an event.
    pub fn wants(&self, name: &str, level: u8) -> bool {
        self.rules.iter().any(|rule| rule.matches(name, level))
    }

    /// Whether an enabled rule wants events of a name, of some level.
    pub fn names(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.names(name))
    }

    /// The class of an event, by name and fields: two programs that agree on both have the same.
    pub fn class_of(&self, name: &str, fields: &[Field]) -> Option<u32> {
        let ids = self.classes_by_name.get(name)?;
        ids.iter()
            .copied()
            .find(|&id| self.classes[id as usize].fields == fields)
    }

    pub(super) fn add(&mut self, class: EventClass) -> Result<(), String> {
        if class.id as usize != self.classes.len() {
            return Err(format!(
                "event class {} follows {} others",
                class.id,
                self.classes.len()
            ));
        }
        self.class_bytes += bytes_of(&class);
        self.classes_by_name
            .entry(class.name.clone())
            .or_default()
            .push(class.id);
        self.classes.push(class);
        Ok(())
    }
}

/// What a class takes, roughly.
fn bytes_of(class: &EventClass) -> usize {
    let labels = |field: &Field| match &field.kind {
        FieldKind::Enum { labels } => labels.iter().map(|label| size_of::<Label>() + label.name.len()).sum(),
        _ => 0,
    };
    let fields = class
        .fields
        .iter()
        .map(|field| size_of::<Field>() + field.name.len() + labels(field));
    size_of::<EventClass>() + class.name.len() + fields.sum::<usize>()
}
