// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a stream as text, a line each.

use piste_ctf::read::packet::{Next, PacketInfo, StreamReader};
use piste_ctf::read::plan::{IntegerNode, Plan};
use piste_ctf::read::schema::{Encoding, Meaning, Scope};
use piste_ctf::read::walk::Visitor;

/// Packets that say something about themselves have a line, and each event has one.
pub(crate) fn stream(plan: &Plan, bytes: &[u8]) -> String {
    let mut shown = String::new();
    let mut reader = StreamReader::new(plan);
    let mut rest = bytes;
    while !rest.is_empty() {
        let info = match reader.packet(rest) {
            Ok(info) => info.clone(),
            Err(fault) => return shown + &format!("no packet: {fault}\n"),
        };
        shown += &about(&info);
        let total = info
            .total_bits
            .map_or(rest.len(), |bits| (bits / 8) as usize)
            .min(rest.len());
        let (packet, behind) = rest.split_at(total);
        shown += &events(&mut reader, packet);
        rest = behind;
    }
    shown
}

fn about(info: &PacketInfo) -> String {
    let numbers = [
        ("stream", info.stream_id),
        ("content", info.content_bits),
        ("total", info.total_bits),
        ("begin", info.begin),
        ("end", info.end),
        ("number", info.sequence_number),
        ("discarded", info.discarded_events),
    ];
    let mut words: Vec<String> = numbers
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name} {value}")))
        .collect();
    if let Some(uuid) = info.uuid {
        words.push(format!("uuid {:032x}", u128::from_be_bytes(uuid)));
    }
    if info.stream_class_id != 0 {
        words.insert(0, format!("class {}", info.stream_class_id));
    }
    match words.is_empty() {
        true => String::new(),
        false => format!("packet: {}\n", words.join(", ")),
    }
}

fn events(reader: &mut StreamReader<'_>, packet: &[u8]) -> String {
    let mut shown = String::new();
    loop {
        match reader.next(packet, 0) {
            Next::Event(event) => {
                if reader.has_clock() {
                    shown += &format!("[{}] ", event.ticks);
                }
                shown += &event.class.name;
                shown += ":";
                for scope in [Scope::EventContext, Scope::SpecificContext, Scope::Payload] {
                    let mut values = Values::default();
                    if reader
                        .visit(&event, scope, packet, 0, &mut values)
                        .expect("it was read before")
                    {
                        shown += &format!(" {{{}}}", values.shown);
                    }
                }
                shown += "\n";
            }
            Next::End => return shown,
            // A packet that does not say how long it is ends with the stream.
            Next::Short if reader.position() == 8 * packet.len() as u64 => return shown,
            Next::Short => return shown + "cut\n",
            Next::Fault(fault) => return shown + &format!("fault: {fault}\n"),
        }
    }
}

#[derive(Default)]
struct Values {
    shown: String,
}

impl Values {
    fn separate(&mut self) {
        if !self.shown.is_empty() && !self.shown.ends_with(['{', '[', ' ']) {
            self.shown += ", ";
        }
    }
}

impl Visitor for Values {
    fn field(&mut self, name: &str) {
        self.separate();
        self.shown += &format!("{name} = ");
    }

    fn element(&mut self, _: u64) {
        self.separate();
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        // Labels are there for both languages, meanings only in CTF 2.
        let number = match integer.is_signed {
            true => value.cast_signed().to_string(),
            false => value.to_string(),
        };
        let number_or_sign = i128::from(if integer.is_signed { value.cast_signed() } else { 0 });
        let in_value = |&(first, last): &(i128, i128)| match (integer.meaning, integer.is_signed) {
            (Meaning::Bits, _) => (first..=last).any(|bit| value >> bit & 1 != 0),
            (_, true) => (first..=last).contains(&number_or_sign),
            (_, false) => (first..=last).contains(&i128::from(value)),
        };
        self.shown += &number;
        for label in integer.labels.iter() {
            if label.ranges.iter().any(in_value) {
                self.shown += &format!(" {:?}", label.name);
            }
        }
    }

    fn float(&mut self, value: f64, _: u32) {
        self.shown += &format!("{value:?}");
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        let units = |size: usize| bytes.chunks_exact(size);
        let text = match encoding {
            Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Encoding::Utf16Be => String::from_utf16_lossy(
                &units(2)
                    .map(|two| u16::from_be_bytes([two[0], two[1]]))
                    .collect::<Vec<u16>>(),
            ),
            Encoding::Utf16Le => String::from_utf16_lossy(
                &units(2)
                    .map(|two| u16::from_le_bytes([two[0], two[1]]))
                    .collect::<Vec<u16>>(),
            ),
            Encoding::Utf32Be => units(4)
                .map(|four| u32::from_be_bytes(four.try_into().expect("four")))
                .map(character)
                .collect(),
            Encoding::Utf32Le => units(4)
                .map(|four| u32::from_le_bytes(four.try_into().expect("four")))
                .map(character)
                .collect(),
        };
        self.shown += &format!("{text:?}");
    }

    fn blob(&mut self, bytes: &[u8], media_type: Option<&str>) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.shown += &format!("<{hex}>");
        if let Some(media_type) = media_type {
            self.shown += &format!(" as {media_type}");
        }
    }

    fn begin_structure(&mut self) {
        self.shown += "{";
    }

    fn end_structure(&mut self) {
        self.shown += "}";
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.shown += "[";
    }

    fn end_array(&mut self) {
        self.shown += "]";
    }

    fn nothing(&mut self) {
        self.shown += "nothing";
    }
}

fn character(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}
