// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs as the control interface shows them. A program may have 65,536 events, and making their text takes as long as serving a hundred
//! programs: the daemon's thread hands over what it knows, and whoever asked makes the text.

use std::collections::BTreeMap;
use std::sync::Arc;

use piste_control::interface as shown;
use piste_ctf::{Base, Element, FieldKind, Label};

use super::host;
use super::status::findings;
use crate::description::EventDescription;
use crate::link::Finding;
use crate::message::Hello;
use crate::session::programs::Program;
use crate::session::{Machine, ProgramId};

/// What is known of one program.
#[derive(Debug)]
#[allow(missing_docs, reason = "as in Program")]
pub struct KnownProgram {
    pub id: ProgramId,
    pub uid: u32,
    pub hello: Hello,
    pub events: Vec<Arc<[EventDescription]>>,
    pub channels: Vec<String>,
    pub findings: Vec<Finding>,
}

/// The connected programs, in the order of their process ids.
pub fn known_programs(machine: &Machine) -> Vec<KnownProgram> {
    machine
        .programs()
        .map(|(id, program)| KnownProgram::new(machine, id, program))
        .collect()
}

/// Their text.
pub fn shown_programs(programs: Vec<KnownProgram>) -> Vec<shown::Program> {
    let mut user_names = BTreeMap::new();
    let mut name_of = |uid| user_names.entry(uid).or_insert_with(|| host::user_name(uid)).clone();
    programs
        .into_iter()
        .map(|program| {
            let user = name_of(program.uid);
            program.shown(user)
        })
        .collect()
}

impl KnownProgram {
    fn new(machine: &Machine, id: ProgramId, program: &Program) -> KnownProgram {
        let channels = machine.sessions().ring_sets_of(id).map(|(_, ring_set)| {
            let session = machine.session(ring_set.session);
            let channel = &session.channels[ring_set.channel as usize];
            format!("{}/{}", session.identity.name, channel.settings.name)
        });
        KnownProgram {
            id,
            uid: program.facts.uid,
            hello: program.hello.clone(),
            events: program.event_lists().cloned().collect(),
            channels: channels.collect(),
            findings: program.findings.list(),
        }
    }

    fn shown(self, user: String) -> shown::Program {
        shown::Program {
            pid: self.id.pid.into(),
            vpid: self.hello.vpid.into(),
            events: self.events(),
            name: self.hello.name,
            path: self.hello.path,
            uid: self.uid.into(),
            user,
            record_id: self.hello.record_id.map(host::hex),
            channels: self.channels,
            findings: findings(&self.findings),
        }
    }

    /// By name; an event that several files of a program have is shown once.
    fn events(&self) -> Vec<shown::Event> {
        let mut by_name: Vec<&EventDescription> = self.events.iter().flat_map(|list| list.iter()).collect();
        by_name.sort_by(|a, b| a.name.cmp(&b.name));
        by_name.dedup_by(|a, b| a.name == b.name && a.level == b.level && a.fields == b.fields);
        by_name.into_iter().map(event).collect()
    }
}

fn event(event: &EventDescription) -> shown::Event {
    let fields = event.fields.iter().map(|field| shown::EventField {
        name: field.name.clone(),
        r#type: type_name(&field.kind),
    });
    shown::Event {
        name: event.name.clone(),
        level: shown::Level::from_number(event.level).unwrap_or(shown::Level::debug),
        fields: fields.collect(),
    }
}

fn type_name(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Scalar { element, base } => element_name(*element, *base).to_owned(),
        FieldKind::Enum { labels } => enum_name("enum", labels),
        FieldKind::Named { element, base, labels } => {
            enum_name(&format!("enum {}", element_name(*element, *base)), labels)
        }
        FieldKind::Array { element, base, count } => format!("{}[{count}]", element_name(*element, *base)),
        FieldKind::Sequence { element, base } => format!("{}[]", element_name(*element, *base)),
        FieldKind::FixedText { bytes } => format!("char[{bytes}]"),
        FieldKind::Text => "text".into(),
        FieldKind::String => "string".into(),
        FieldKind::Strings => "string[]".into(),
        FieldKind::Structures { .. } => "struct[]".into(),
    }
}

/// `enum uint8 {red = 0, green = 1}`
fn enum_name(kind: &str, labels: &[Label]) -> String {
    let label = |label: &Label| format!("{} = {}", label.name, label.value);
    let labels: Vec<String> = labels.iter().map(label).collect();
    format!("{kind} {{{}}}", labels.join(", "))
}

fn element_name(element: Element, base: Base) -> &'static str {
    match (element, base) {
        (Element::Int8, _) => "int8",
        (Element::Int16, _) => "int16",
        (Element::Int32, _) => "int32",
        (Element::Int64, _) => "int64",
        (Element::Uint8, Base::Decimal | Base::Octal) => "uint8",
        (Element::Uint16, Base::Decimal | Base::Octal) => "uint16",
        (Element::Uint32, Base::Decimal | Base::Octal) => "uint32",
        (Element::Uint64, Base::Decimal | Base::Octal) => "uint64",
        (Element::Uint8, Base::Hex) => "hex8",
        (Element::Uint16, Base::Hex) => "hex16",
        (Element::Uint32, Base::Hex) => "hex32",
        (Element::Uint64, Base::Hex) => "hex64",
        (Element::Float32, _) => "float",
        (Element::Float64, _) => "double",
    }
}
