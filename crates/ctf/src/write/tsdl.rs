// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSDL of a schema of CTF 1.8.

use std::fmt::Write;

use crate::metadata::names::quoted;
use crate::metadata::uuid_text;
use crate::read::schema::{
    Base, ByteOrder, Clock, Count, Encoding, EnvironmentValue, EventClass, Float, Integer, Label, Meaning, Reference,
    Schema, Scope, StreamClass, Structure, TextLength, Type, Width,
};

const NEVER_FAILS: &str = "a String takes all text";

pub(super) fn text(schema: &Schema) -> String {
    // An id of 0 that no packet has is not said: babeltrace2 refuses it.
    let has_stream_ids = has_field(schema.packet_header.as_deref(), "stream_id");
    let printer = Printer { clocks: &schema.clocks };
    let mut text = String::from("/* CTF 1.8 */\n\ntrace {\n\tmajor = 1;\n\tminor = 8;\n");
    if let Some(uuid) = &schema.uuid {
        writeln!(text, "\tuuid = \"{}\";", uuid_text(uuid)).expect(NEVER_FAILS);
    }
    text += "\tbyte_order = le;\n";
    if let Some(header) = &schema.packet_header {
        printer.assign(&mut text, "packet.header", header);
    }
    text += "};\n";
    if !schema.environment.is_empty() {
        text += "\nenv {\n";
        for (key, value) in &schema.environment {
            match value {
                EnvironmentValue::Integer(number) => writeln!(text, "\t{key} = {number};"),
                EnvironmentValue::Text(value) => writeln!(text, "\t{key} = {};", quoted(value)),
            }
            .expect(NEVER_FAILS);
        }
        text += "};\n";
    }
    schema.clocks.iter().for_each(|clock| text += &clock_block(clock));
    for stream in schema.streams.values() {
        printer.stream(&mut text, stream, has_stream_ids);
        stream
            .events
            .values()
            .for_each(|event| printer.event(&mut text, stream, has_stream_ids, event));
    }
    text
}

fn clock_block(clock: &Clock) -> String {
    let mut lines = vec![format!("name = {};", quoted(&clock.name))];
    lines.extend(clock.uuid.map(|uuid| format!("uuid = \"{}\";", uuid_text(&uuid))));
    if !clock.description.is_empty() {
        lines.push(format!("description = {};", quoted(&clock.description)));
    }
    lines.push(format!("freq = {};", clock.frequency_hz));
    lines.extend(clock.precision_cycles.map(|cycles| format!("precision = {cycles};")));
    lines.push(format!("offset_s = {};", clock.offset_seconds));
    lines.push(format!("offset = {};", clock.offset_cycles));
    lines.push(format!("absolute = {};", clock.is_unix_epoch));
    format!("\nclock {{\n\t{}\n}};\n", lines.join("\n\t"))
}

struct Printer<'a> {
    clocks: &'a [Clock],
}

impl Printer<'_> {
    fn stream(&self, text: &mut String, class: &StreamClass, has_id: bool) {
        *text += "\nstream {\n";
        if has_id || class.id != 0 {
            writeln!(text, "\tid = {};", class.id).expect(NEVER_FAILS);
        }
        if let Some(name) = &class.name {
            writeln!(text, "\tname = {};", quoted(name)).expect(NEVER_FAILS);
        }
        for (name, of_type) in [
            ("packet.context", &class.packet_context),
            ("event.header", &class.event_header),
            ("event.context", &class.event_context),
        ] {
            if let Some(of_type) = of_type {
                self.assign(text, name, of_type);
            }
        }
        *text += "};\n";
    }

    fn event(&self, text: &mut String, stream: &StreamClass, has_stream_id: bool, class: &EventClass) {
        write!(text, "\nevent {{\n\tname = {};\n", quoted(&class.name)).expect(NEVER_FAILS);
        if has_field(stream.event_header.as_deref(), "id") || class.id != 0 {
            writeln!(text, "\tid = {};", class.id).expect(NEVER_FAILS);
        }
        if has_stream_id || stream.id != 0 {
            writeln!(text, "\tstream_id = {};", stream.id).expect(NEVER_FAILS);
        }
        if let Some(level) = class.log_level {
            writeln!(text, "\tloglevel = {level};").expect(NEVER_FAILS);
        }
        if let Some(uri) = &class.emf_uri {
            writeln!(text, "\tmodel.emf.uri = {};", quoted(uri)).expect(NEVER_FAILS);
        }
        for (name, of_type) in [("context", &class.specific_context), ("fields", &class.payload)] {
            if let Some(of_type) = of_type {
                self.assign(text, name, of_type);
            }
        }
        *text += "};\n";
    }

    fn assign(&self, text: &mut String, name: &str, of_type: &Type) {
        writeln!(text, "\t{name} := {};", self.of_type(of_type, 1)).expect(NEVER_FAILS);
    }

    /// The type as it stands before a name; what stands behind a name is in [`dimensions`].
    fn of_type(&self, of_type: &Type, depth: usize) -> String {
        match of_type {
            Type::Integer(integer) => self.integer(integer),
            Type::Enumeration(enumeration) => {
                let integer = self.integer(&enumeration.integer);
                format!("enum : {integer} {{ {} }}", enumerators(&enumeration.labels))
            }
            Type::Float(number) => float(number),
            Type::Text(text) => match text.length {
                TextLength::Terminated => "string { encoding = UTF8; }".into(),
                _ => "integer { size = 8; align = 8; signed = false; encoding = UTF8; }".into(),
            },
            Type::Structure(structure) => self.structure(structure, depth),
            Type::Array(array) => self.of_type(&array.element, depth),
            Type::Variant(variant) => {
                let options = variant
                    .options
                    .iter()
                    .map(|option| (option.name.as_deref().unwrap_or_default(), &*option.of_type));
                let members = self.members(options, depth);
                format!("variant <{}> {members}", path(&variant.selector))
            }
            Type::Optional(_) | Type::Blob(_) => unreachable!("no schema of CTF 1.8 has them"),
        }
    }

    fn structure(&self, structure: &Structure, depth: usize) -> String {
        let members = self.members(structure.fields.iter().map(|(name, field)| (&**name, &**field)), depth);
        match structure.alignment {
            0 | 1 => format!("struct {members}"),
            bits => format!("struct {members} align({bits})"),
        }
    }

    fn members<'t>(&self, members: impl Iterator<Item = (&'t str, &'t Type)>, depth: usize) -> String {
        let indent = "\t".repeat(depth);
        let mut text = String::from("{\n");
        for (name, of_type) in members {
            let (before, behind) = (self.of_type(of_type, depth + 1), dimensions(of_type));
            writeln!(text, "{indent}\t{before} {name}{behind};").expect(NEVER_FAILS);
        }
        text + &indent + "}"
    }

    fn integer(&self, integer: &Integer) -> String {
        let Width::Bits(bits) = integer.width else {
            unreachable!("no schema of CTF 1.8 has integers of variable length")
        };
        let mut text = format!(
            "integer {{ size = {bits}; align = {}; signed = {};",
            integer.alignment, integer.is_signed
        );
        text += order(integer.byte_order);
        text += match integer.base {
            Base::Binary => " base = 2;",
            Base::Octal => " base = 8;",
            Base::Decimal => "",
            Base::Hexadecimal => " base = 16;",
        };
        if integer.meaning == Meaning::Character {
            text += " encoding = UTF8;";
        }
        if let Some(clock) = integer.clock.and_then(|clock| self.clocks.get(clock)) {
            write!(text, " map = clock.{}.value;", clock.name).expect(NEVER_FAILS);
        }
        text + " }"
    }
}

fn has_field(of_type: Option<&Type>, name: &str) -> bool {
    matches!(of_type, Some(Type::Structure(structure)) if structure.field(name).is_some())
}

/// `[2][length]`
fn dimensions(of_type: &Type) -> String {
    match of_type {
        Type::Array(array) => {
            let count = match &array.count {
                Count::Fixed(count) => format!("[{count}]"),
                Count::From(reference) => format!("[{}]", path(reference)),
            };
            count + &dimensions(&array.element)
        }
        Type::Text(text) => {
            debug_assert_eq!(text.encoding, Encoding::Utf8);
            match &text.length {
                TextLength::Terminated => String::new(),
                TextLength::Bytes(bytes) => format!("[{bytes}]"),
                TextLength::From(reference) => format!("[{}]", path(reference)),
            }
        }
        _ => String::new(),
    }
}

fn enumerators(labels: &[Label]) -> String {
    let mut texts = vec![];
    for label in labels {
        let name = quoted(&label.name);
        for &(first, last) in &label.ranges {
            texts.push(match first == last {
                true => format!("{name} = {first}"),
                false => format!("{name} = {first} ... {last}"),
            });
        }
    }
    texts.join(", ")
}

fn float(float: &Float) -> String {
    let (exponent, mantissa) = match float.bits {
        16 => (5, 11),
        32 => (8, 24),
        64 => (11, 53),
        _ => (15, 113),
    };
    let order = order(float.byte_order);
    format!(
        "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = {};{order} }}",
        float.alignment
    )
}

/// The trace's is little-endian.
fn order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "",
        ByteOrder::Big => " byte_order = be;",
    }
}

fn path(reference: &Reference) -> String {
    let scope = reference.origin.map(|scope| match scope {
        Scope::PacketHeader => "trace.packet.header",
        Scope::PacketContext => "stream.packet.context",
        Scope::EventHeader => "stream.event.header",
        Scope::EventContext => "stream.event.context",
        Scope::SpecificContext => "event.context",
        Scope::Payload => "event.fields",
    });
    let names = reference.path.iter().flatten().map(String::as_str);
    scope.into_iter().chain(names).collect::<Vec<&str>>().join(".")
}
