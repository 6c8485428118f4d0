// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs as the control interface shows them. A program may have 65,536 events, and making their text takes as long as serving a hundred
//! programs: the daemon's thread hands over what it knows, and whoever asked makes the text.
//!
//! A user may have a thousand such programs, and ask for all of them on dozens of connections: each has one small part in memory at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use piste_control::interface::{self as shown, Call_ListPrograms};
use piste_ctf::{Base, Element, Field, FieldKind, Label};

use super::host;
use super::replies::refuse;
use super::status::findings;
use crate::description::EventDescription;
use crate::link::Finding;
use crate::message::Hello;
use crate::session::programs::Program;
use crate::session::{Machine, ProgramId, Refusal};

/// What is known of one program.
#[derive(Debug)]
#[allow(missing_docs, reason = "as in Program")]
pub struct KnownProgram {
    pub id: ProgramId,
    pub uid: u32,
    pub hello: Arc<Hello>,
    pub events: Vec<Arc<[EventDescription]>>,
    pub channels: Vec<String>,
    pub findings: Vec<Finding>,
}

/// How many are asked for at once.
pub const KNOWN_AT_ONCE: usize = 64;

/// Connected programs in the order of their ids: so many of those that come after the given one.
pub fn known_programs(machine: &Machine, after: Option<ProgramId>) -> Vec<KnownProgram> {
    machine
        .programs_after(after)
        .take(KNOWN_AT_ONCE)
        .map(|(id, program)| KnownProgram::new(machine, id, program))
        .collect()
}

/// What a part of the reply takes at most while it is made, in bytes. An event that takes more is a part of its own.
const PART_BYTES_MAX: usize = 2 << 20;
/// What an object takes beside its texts.
const OBJECT_BYTES: usize = 768;
/// What is beside the name in a label: ` = -9223372036854775808, `.
const LABEL_BYTES: usize = 25;
/// Texts are there as they are, as JSON's values, and as JSON.
const COPY_COUNT: usize = 3;

/// Replies with them: in parts, if the client takes several. `ask` returns those that come after a program.
pub fn reply(
    call: &mut dyn Call_ListPrograms,
    ask: impl Fn(Option<ProgramId>) -> Result<Vec<KnownProgram>, Refusal>,
) -> varlink::Result<()> {
    let mut user_names = BTreeMap::new();
    let mut parts = Parts {
        call,
        part: Vec::new(),
        bytes: 0,
        continued: false,
    };
    let mut last = None;
    loop {
        let programs = match ask(last) {
            Ok(programs) if programs.is_empty() => return parts.send(false),
            Ok(programs) => programs,
            Err(refusal) => return refuse(parts.call, refusal),
        };
        for program in programs {
            last = Some(program.id);
            let user = user_names
                .entry(program.uid)
                .or_insert_with(|| host::user_name(program.uid));
            if !parts.add(&program, user)? {
                return parts.call.reply_too_long();
            }
        }
    }
}

/// A reply in parts.
struct Parts<'a> {
    call: &'a mut dyn Call_ListPrograms,
    /// The one that is being made ...
    part: Vec<shown::Program>,
    /// ... what that takes ...
    bytes: usize,
    /// ... and whether its first program was in the one before.
    continued: bool,
}

impl Parts<'_> {
    /// False: it does not fit, and the client takes no other part.
    fn add(&mut self, program: &KnownProgram, user: &str) -> varlink::Result<bool> {
        if !self.part.is_empty() && !self.has_room(program.head_bytes()) && !self.send_on(false)? {
            return Ok(false);
        }
        self.bytes += program.head_bytes();
        let mut begun = program.head(user);
        for description in program.events() {
            let bytes = event_bytes(description);
            let is_first = self.part.is_empty() && begun.events.is_empty();
            if !is_first && !self.has_room(bytes) {
                self.part.push(std::mem::replace(&mut begun, program.head(user)));
                if !self.send_on(true)? {
                    return Ok(false);
                }
                self.bytes = program.head_bytes();
            }
            self.bytes += bytes;
            begun.events.push(event(description));
        }
        self.part.push(begun);
        Ok(true)
    }

    /// Sends a part that others follow; the next one may begin with its last program. False: the client takes one only.
    fn send_on(&mut self, with_last: bool) -> varlink::Result<bool> {
        if !self.call.wants_more() {
            return Ok(false);
        }
        self.send(true)?;
        self.continued = with_last;
        Ok(true)
    }

    fn send(&mut self, continues: bool) -> varlink::Result<()> {
        self.call.set_continues(continues);
        self.bytes = 0;
        self.call
            .reply(std::mem::take(&mut self.part), std::mem::take(&mut self.continued))
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= PART_BYTES_MAX
    }
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

    /// Without its events.
    fn head(&self, user: &str) -> shown::Program {
        shown::Program {
            pid: self.id.pid.into(),
            vpid: self.hello.vpid.into(),
            events: Vec::new(),
            name: self.hello.name.clone(),
            path: self.hello.path.clone(),
            uid: self.uid.into(),
            user: user.to_owned(),
            record_id: self.hello.record_id.map(host::hex),
            channels: self.channels.clone(),
            findings: findings(&self.findings),
        }
    }

    /// By name; an event that several files of a program have is shown once.
    fn events(&self) -> Vec<&EventDescription> {
        let mut by_name: Vec<&EventDescription> = self.events.iter().flat_map(|list| list.iter()).collect();
        by_name.sort_by(|a, b| a.name.cmp(&b.name));
        by_name
            .dedup_by(|a, b| a.name == b.name && a.level == b.level && a.fields == b.fields && a.nowrite == b.nowrite);
        by_name
    }

    fn head_bytes(&self) -> usize {
        let channels = self.channels.iter().map(|channel| COPY_COUNT * channel.len());
        let findings = self.findings.len() * OBJECT_BYTES;
        OBJECT_BYTES + COPY_COUNT * (self.hello.name.len() + self.hello.path.len()) + channels.sum::<usize>() + findings
    }
}

fn event_bytes(event: &EventDescription) -> usize {
    let labels = |kind: &FieldKind| match kind {
        FieldKind::Enum { labels } | FieldKind::Named { labels, .. } => {
            labels.iter().map(|label| label.name.len() + LABEL_BYTES).sum()
        }
        _ => 0,
    };
    let field = |field: &Field| OBJECT_BYTES + COPY_COUNT * (field.name.len() + labels(&field.kind));
    let fields = event.all_fields().into_iter().map(|(of_event, _)| field(of_event));
    OBJECT_BYTES + COPY_COUNT * event.name.len() + fields.sum::<usize>()
}

fn event(event: &EventDescription) -> shown::Event {
    let fields = event
        .all_fields()
        .into_iter()
        .map(|(field, recorded)| shown::EventField {
            name: field.name.clone(),
            r#type: type_name(&field.kind),
            recorded: Some(recorded),
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
        FieldKind::Dynamic => "dynamic".into(),
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
