// SPDX-License-Identifier: MIT OR Apache-2.0
//! One channel of a session: its shape, its rules, and the event classes that programs gave it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use piste_ctf::{EventClass, Field, FieldKind, Label, StreamClass};
use serde::{Deserialize, Serialize};

use super::rules::Rule;
use crate::contexts::Contexts;
use crate::link::Geometry;
use crate::shares::Holdings;

/// A channel of a session.
#[derive(Debug)]
pub struct Channel {
    /// Name and shape.
    pub settings: ChannelSettings,
    /// Which events it records while it is enabled.
    pub rules: Vec<Rule>,
    /// The channel that has taken the place of this one, which has no rules then.
    pub replaced_by: Option<u32>,
    /// A disabled channel records nothing, and keeps its rules.
    pub enabled: bool,
    /// The index is the class's id.
    pub classes: Vec<EventClass>,
    /// Ring sets whose memory was lost with what was in it.
    pub lost_ring_set_count: u64,
    /// By the hash of name and fields, which nobody outside can foresee: a program may have thousands of one name.
    classes_by_hash: HashMap<u64, Vec<u32>>,
    hasher: RandomState,
    /// Whose program brought each class.
    class_users: Vec<u32>,
    /// Classes, and bytes of them, by user.
    pub(super) class_counts: Holdings,
    pub(super) class_bytes: Holdings,
}

/// A channel's name and shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSettings {
    /// Unique in the session.
    pub name: String,
    /// Of its rings.
    pub geometry: Geometry,
    /// What records carry beside their fields.
    pub contexts: Contexts,
}

impl Channel {
    pub(super) fn new(settings: ChannelSettings) -> Channel {
        Channel {
            settings,
            rules: Vec::new(),
            replaced_by: None,
            enabled: true,
            classes: Vec::new(),
            lost_ring_set_count: 0,
            classes_by_hash: HashMap::new(),
            hasher: RandomState::new(),
            class_users: Vec::new(),
            class_counts: Holdings::default(),
            class_bytes: Holdings::default(),
        }
    }

    /// What the trace says about the channel's streams.
    pub fn stream_class(&self, id: u32) -> StreamClass {
        StreamClass {
            id,
            channel: self.settings.name.clone(),
            contexts: self.settings.contexts.fields(),
        }
    }

    /// The rules that apply now: none while the channel is disabled.
    pub fn effective_rules(&self) -> &[Rule] {
        if self.enabled { &self.rules } else { &[] }
    }

    /// Whether an enabled rule wants an event.
    pub fn wants(&self, name: &str, level: u8) -> bool {
        self.effective_rules().iter().any(|rule| rule.matches(name, level))
    }

    /// Whether an enabled rule wants events of a name, of some level.
    pub fn names(&self, name: &str) -> bool {
        self.effective_rules().iter().any(|rule| rule.names(name))
    }

    /// The class of an event, by name and fields: two programs that agree on both have the same.
    pub fn class_of(&self, name: &str, fields: &[Field]) -> Option<u32> {
        let ids = self.classes_by_hash.get(&self.hasher.hash_one((name, fields)))?;
        let is_it = |class: &EventClass| class.name == name && class.fields == fields;
        ids.iter().copied().find(|&id| is_it(&self.classes[id as usize]))
    }

    pub(super) fn add(&mut self, class: EventClass, user: u32) -> Result<(), String> {
        if class.id as usize != self.classes.len() {
            return Err(format!(
                "event class {} follows {} others",
                class.id,
                self.classes.len()
            ));
        }
        self.class_counts.add(user, 1);
        self.class_bytes.add(user, bytes_of(&class.name, &class.fields));
        let hash = self.hasher.hash_one((&*class.name, &*class.fields));
        self.classes_by_hash.entry(hash).or_default().push(class.id);
        self.classes.push(class);
        self.class_users.push(user);
        Ok(())
    }

    /// The classes, with the users whose programs brought them.
    pub(super) fn classes_with_users(&self) -> impl Iterator<Item = (&EventClass, u32)> {
        self.classes.iter().zip(self.class_users.iter().copied())
    }
}

/// What an event of that name with these fields takes, roughly.
pub fn bytes_of(name: &str, fields: &[Field]) -> usize {
    let labels = |field: &Field| match &field.kind {
        FieldKind::Enum { labels } => labels.iter().map(|label| size_of::<Label>() + label.name.len()).sum(),
        _ => 0,
    };
    let fields = fields
        .iter()
        .map(|field| size_of::<Field>() + field.name.len() + labels(field));
    size_of::<EventClass>() + name.len() + fields.sum::<usize>()
}
