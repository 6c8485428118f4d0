// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata of a trace: CTF 1.8 TSDL text, in the layout that readers of Linux traces expect.
//!
//! [`opening`], then [`stream_class`] for each channel, then [`event_class`] for each event, concatenated, are the metadata file;
//! classes may be appended while the trace grows. Everything inside a record is packed, only its start is aligned. Names come
//! from traced programs and may be anything; `names` makes identifiers and quoted texts of them.

pub(crate) mod names;

use std::fmt::Write;

use crate::description::{
    Base, Clock, Element, EnvironmentValue, EventClass, Field, FieldKind, Label, Member, StreamClass, Trace,
};
use names::{FieldNames, identifier, quoted};

/// In what the traces of the domains differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Packets say which ring and process they are from; records start at multiples of eight bytes.
    Program,
    /// Packets say which CPU they are from; records lie one behind the other, and most of them have the id of one of many classes.
    Kernel,
}

impl Form {
    /// The end of the packet context: where the packet's events are from.
    fn packet_place(self) -> &'static str {
        match self {
            Form::Program => "\tuint32_t ring_index;\n\tint32_t  vpid;\n\tint32_t  pid;\n\tuint32_t uid;\n",
            Form::Kernel => "\tuint32_t cpu_id;\n",
        }
    }

    /// The forms of a record's header.
    fn header_forms(self) -> &'static str {
        match self {
            Form::Program => "compact = 0 ... 30, extended = 31",
            Form::Kernel => "compact = 0 ... 29, medium = 30, extended = 31",
        }
    }

    /// One that has an id of its own and the time of the compact form.
    fn medium_header(self) -> &'static str {
        match self {
            Form::Program => "",
            // Numbers of other alignments would move the time to the next byte.
            Form::Kernel => {
                "\t\tstruct {\n\t\t\tuint27_clock_t timestamp;\n\
                 \t\t\tinteger { size = 16; align = 1; signed = false; } id;\n\t\t} medium;\n"
            }
        }
    }

    /// Records start at multiples of this many bits.
    fn record_bits(self) -> u32 {
        match self {
            Form::Program => 64,
            Form::Kernel => 8,
        }
    }
}

/// A line of the environment, with its indent and its end.
pub fn environment_line(key: &str, value: &EnvironmentValue) -> String {
    match value {
        EnvironmentValue::Integer(number) => format!("\t{} = {number};\n", identifier(key)),
        EnvironmentValue::Text(text) => format!("\t{} = {};\n", identifier(key), quoted(text)),
    }
}

/// The start of the metadata file: types, trace, environment, clock, and what all streams have in common.
pub fn opening(trace: &Trace, form: Form) -> String {
    let Clock {
        name,
        uuid,
        frequency_hz,
        offset_seconds,
        offset_ticks,
        description,
    } = &trace.clock;
    let clock = identifier(name);
    let environment: String = trace
        .environment
        .iter()
        .map(|(key, value)| environment_line(key, value))
        .collect();
    format!(
        r#"/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
typealias integer {{ size = 32; align = 8; signed = true; }} := int32_t;
typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;

trace {{
	major = 1;
	minor = 8;
	uuid = "{trace_uuid}";
	byte_order = le;
	packet.header := struct {{
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	}};
}};

env {{
{environment}}};

clock {{
	name = "{clock}";
	uuid = "{clock_uuid}";
	description = {description};
	freq = {frequency_hz};
	offset_s = {offset_seconds};
	offset = {offset_ticks};
	absolute = false;
}};

typealias integer {{ size = 27; align = 1; signed = false; map = clock.{clock}.value; }} := uint27_clock_t;
typealias integer {{ size = 32; align = 8; signed = false; map = clock.{clock}.value; }} := uint32_clock_t;
typealias integer {{ size = 64; align = 8; signed = false; map = clock.{clock}.value; }} := uint64_clock_t;

struct packet_context {{
	uint64_clock_t timestamp_begin;
	uint64_clock_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	uint64_t events_discarded;
{packet_place}}};

struct event_header_compact {{
	enum : uint5_t {{ {header_forms} }} id;
	variant <id> {{
		struct {{
			uint27_clock_t timestamp;
		}} compact;
{medium_header}		struct {{
			uint32_t id;
			uint64_clock_t timestamp;
		}} extended;
	}} v;
}} align({record_bits});

"#,
        trace_uuid = uuid_text(&trace.uuid),
        clock_uuid = uuid_text(uuid),
        description = quoted(description),
        header_forms = form.header_forms(),
        medium_header = form.medium_header(),
        packet_place = form.packet_place(),
        record_bits = form.record_bits(),
    )
}

/// The streams of a channel.
pub fn stream_class(class: &StreamClass) -> String {
    let id = class.id;
    let contexts = match &*class.contexts {
        [] => String::new(),
        fields => format!("\tevent.context := struct {{\n{}\t}};\n", fields_text(fields)),
    };
    format!(
        "stream {{\n\tid = {id};\n\tevent.header := struct event_header_compact;\n\tpacket.context := struct packet_context;\n\
         {contexts}}};\n\n"
    )
}

/// An event of the stream class with the id `stream_id`.
pub fn event_class(stream_id: u32, class: &EventClass) -> String {
    let mut text = format!(
        "event {{\n\tname = {};\n\tid = {};\n\tstream_id = {stream_id};\n",
        quoted(&class.name),
        class.id,
    );
    if class.level <= LEVEL_MAX {
        writeln!(text, "\tloglevel = {};", class.level).expect("a String takes all text");
    }
    for (scope, fields) in [("context", &class.contexts), ("fields", &class.fields)] {
        if scope == "fields" || !fields.is_empty() {
            write!(text, "\t{scope} := struct {{\n{}\t}};\n", fields_text(fields)).expect("a String takes all text");
        }
    }
    text += "};\n\n";
    text
}

/// Tells event classes apart that differ in more than their ids, by the text of [`event_class`]; more text may follow. It is the same in
/// every version.
pub fn class_fingerprint(text: &str) -> u64 {
    let of_class = text.split('\n').take_while(|line| *line != "};");
    let told = of_class.filter(|line| !line.starts_with("\tid = ") && !line.starts_with("\tstream_id = "));
    let bytes = told.flat_map(|line| line.bytes().chain([b'\n']));
    // FNV-1a.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The highest log level that has a name.
const LEVEL_MAX: u8 = 14;

fn fields_text(fields: &[Field]) -> String {
    let mut names = FieldNames::default();
    fields.iter().map(|field| field_text(field, &mut names)).collect()
}

fn field_text(field: &Field, names: &mut FieldNames) -> String {
    match &field.kind {
        FieldKind::Scalar { element, base } => member(&element_text(*element, *base), &names.one(&field.name)),
        FieldKind::Enum { labels } => {
            let text = enum_text(Element::Int32, Base::Decimal, labels);
            member(&text, &names.one(&field.name))
        }
        FieldKind::Named { element, base, labels } => {
            member(&enum_text(*element, *base, labels), &names.one(&field.name))
        }
        FieldKind::Array { element, base, count } => member(
            &element_text(*element, *base),
            &format!("{}[{count}]", names.one(&field.name)),
        ),
        FieldKind::Sequence { element, base } => counted(&element_text(*element, *base), field, names),
        FieldKind::Structures { members } => counted(&structure_text(members), field, names),
        FieldKind::Text => counted(CHARACTER, field, names),
        FieldKind::FixedText { bytes } => member(CHARACTER, &format!("{}[{bytes}]", names.one(&field.name))),
        FieldKind::String => member(STRING, &names.one(&field.name)),
        FieldKind::Strings => counted(STRING, field, names),
        FieldKind::Dynamic => dynamic(field, names),
    }
}

fn member(of_type: &str, declarator: &str) -> String {
    format!("\t\t{of_type} {declarator};\n")
}

/// A number of elements, then the elements.
fn counted(of_type: &str, field: &Field, names: &mut FieldNames) -> String {
    let (name, length) = names.with_length(&field.name);
    let count_type = element_text(Element::Uint32, Base::Decimal);
    member(&count_type, &length) + &member(of_type, &format!("{name}[ {length} ]"))
}

/// A type, then a value of it.
fn dynamic(field: &Field, names: &mut FieldNames) -> String {
    let (name, tag) = names.with_tag(&field.name);
    let labels = (0..).zip(DYNAMIC_TYPES);
    let labels = labels.map(|(value, (name, ..))| Label {
        name: name.to_owned(),
        value,
    });
    let labels: Vec<Label> = labels.collect();
    let options: Vec<String> = DYNAMIC_TYPES
        .iter()
        .map(|(name, _, text)| format!("{text} {name};"))
        .collect();
    member(&enum_text(Element::Uint8, Base::Decimal, &labels), &tag)
        + &member(&format!("variant <{tag}> {{ {} }}", options.join(" ")), &name)
}

/// The types of a [`FieldKind::Dynamic`], by their numbers: the name, the bytes of a value unless it is a string, and the type. The names are as
/// LTTng has them.
pub(crate) const DYNAMIC_TYPES: [(&str, Option<u64>, &str); 5] = [
    ("_none", Some(0), "struct { }"),
    (
        "_int64",
        Some(8),
        "integer { size = 64; align = 8; signed = true; encoding = none; base = 10; }",
    ),
    (
        "_uint64",
        Some(8),
        "integer { size = 64; align = 8; signed = false; encoding = none; base = 10; }",
    ),
    (
        "_double",
        Some(8),
        "floating_point { exp_dig = 11; mant_dig = 53; align = 8; }",
    ),
    ("_string", None, STRING),
];

fn structure_text(members: &[Member]) -> String {
    let mut names = FieldNames::default();
    let members = members.iter().map(|member| {
        format!(
            "{} {};",
            element_text(member.element, member.base),
            names.one(&member.name)
        )
    });
    let members: Vec<String> = members.collect();
    format!("struct {{ {} }} align(8)", members.join(" "))
}

const STRING: &str = "string { encoding = UTF8; }";
const CHARACTER: &str = "integer { size = 8; align = 8; signed = false; encoding = UTF8; base = 10; }";

fn element_text(element: Element, base: Base) -> String {
    let signed = match element {
        Element::Float32 => return "floating_point { exp_dig = 8; mant_dig = 24; align = 8; }".to_owned(),
        Element::Float64 => return "floating_point { exp_dig = 11; mant_dig = 53; align = 8; }".to_owned(),
        Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64 => true,
        Element::Uint8 | Element::Uint16 | Element::Uint32 | Element::Uint64 => false,
    };
    let base = match base {
        Base::Decimal => 10,
        Base::Hex => 16,
        Base::Octal => 8,
    };
    let bits = 8 * element.bytes();
    format!("integer {{ size = {bits}; align = 8; signed = {signed}; encoding = none; base = {base}; }}")
}

fn enum_text(element: Element, base: Base, labels: &[Label]) -> String {
    let integer = element_text(element, base);
    if labels.is_empty() {
        return integer; // TSDL has no enumeration without labels.
    }
    let labels: Vec<_> = labels
        .iter()
        .map(|label| format!("{} = {}", quoted(&label.name), kept(element, label.value)))
        .collect();
    format!("enum : {integer} {{ {} }}", labels.join(", "))
}

/// What a record that holds `value` in an `element` says: the low bits, and so must its label.
fn kept(element: Element, value: i64) -> i128 {
    match element {
        Element::Int8 => (value as i8).into(),
        Element::Int16 => (value as i16).into(),
        Element::Int32 => (value as i32).into(),
        Element::Uint8 => (value as u8).into(),
        Element::Uint16 => (value as u16).into(),
        Element::Uint32 => (value as u32).into(),
        Element::Uint64 => (value as u64).into(),
        Element::Int64 | Element::Float32 | Element::Float64 => value.into(),
    }
}

/// A uuid as metadata has it.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a String takes all text");
    }
    text
}
