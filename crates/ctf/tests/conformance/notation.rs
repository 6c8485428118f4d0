// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as text.
//!
//! ```text
//! # What it shows.
//! #! not babeltrace2: why
//! --- metadata                  or: --- metadata packets le, --- metadata packets be
//! @include types.tsdl           a file beside this one
//! ...
//! --- stream NAME               a stream file, of packets:
//! be                            byte order of the numbers that follow; at first le
//! packet                        a packet begins; alignment counts from here
//! c1 fc 1f c1                   bytes
//! u32:5 i5:-3 f64:0.1 b4:0110   numbers, of so many bits, and bits from the most significant
//! align:32                      zeros to a multiple of 32 bits
//! "text\0"                      bytes of a text
//! u64:$content u64:$packet      bits of the packet's content, and in all
//! end                           the content ends here, what follows is padding; else it ends with the packet
//! pad:64                        zeros to 64 bytes from the packet's start
//! cut:3                         the file ends three bytes earlier
//! ```
//! Behind `#`, to the end of a line, is a comment.

#![allow(unreachable_pub, reason = "it is a part of a test")]

use std::path::Path;

/// What is written to a folder.
pub struct Trace {
    pub metadata: Vec<u8>,
    pub streams: Vec<(String, Vec<u8>)>,
    pub not_babeltrace2: bool,
}

impl Trace {
    pub fn parse(text: &str, folder: &Path) -> Result<Trace, String> {
        let mut trace = Trace {
            metadata: Vec::new(),
            streams: Vec::new(),
            not_babeltrace2: text.lines().any(|line| line.starts_with("#! not babeltrace2: ")),
        };
        let mut sections = text.split("\n--- ");
        sections.next();
        for section in sections {
            let (title, body) = section.split_once('\n').unwrap_or((section, ""));
            let words: Vec<&str> = title.split_whitespace().collect();
            match words[..] {
                ["metadata"] => trace.metadata = metadata(body, folder)?.into_bytes(),
                ["metadata", "packets", order] => trace.metadata = packed(&metadata(body, folder)?, order == "be"),
                ["stream", name] => trace.streams.push((name.to_owned(), stream(body)?)),
                _ => return Err(format!("`--- {title}` means nothing")),
            }
        }
        Ok(trace)
    }
}

fn metadata(body: &str, folder: &Path) -> Result<String, String> {
    let mut text = String::new();
    for line in body.lines() {
        match line.strip_prefix("@include ") {
            Some(name) => {
                let included = std::fs::read_to_string(folder.join(name));
                text += &included.map_err(|error| format!("{name}: {error}"))?;
            }
            None => text += &format!("{line}\n"),
        }
    }
    Ok(text)
}

/// In two packets, the first with padding.
fn packed(text: &str, is_big: bool) -> Vec<u8> {
    let word = |value: u32| match is_big {
        true => value.to_be_bytes(),
        false => value.to_le_bytes(),
    };
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    let mut bytes = Vec::new();
    for (part, padding_bytes) in [(first, 11), (second, 0)] {
        let content_bits = 8 * (37 + part.len() as u32);
        bytes.extend(word(0x75d1_1d57));
        bytes.extend([0; 16]);
        bytes.extend(word(0));
        bytes.extend(word(content_bits));
        bytes.extend(word(content_bits + 8 * padding_bytes));
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(part);
        bytes.extend(vec![0; padding_bytes as usize]);
    }
    bytes
}

fn stream(body: &str) -> Result<Vec<u8>, String> {
    let mut writer = Writer::default();
    for (number, line) in body.lines().enumerate() {
        for token in tokens(line) {
            writer
                .token(&token)
                .ok_or_else(|| format!("line {number} of a stream: `{token}` means nothing"))?;
        }
    }
    writer.end_packet();
    let keep = writer.bytes.len() - writer.cut_bytes;
    writer.bytes.truncate(keep);
    Ok(writer.bytes)
}

/// Words, and texts in quotes as they stand.
fn tokens(line: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map_or(rest.len(), |end| end + 2),
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        tokens.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    tokens
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    /// Behind the packet's start, in bits.
    position: usize,
    packet_at: usize,
    content_bits: Option<usize>,
    is_big: bool,
    /// Places of sizes that are known when the packet ends: position, bits, byte order, whether it is of the content.
    sizes: Vec<(usize, u32, bool, bool)>,
    cut_bytes: usize,
}

impl Writer {
    fn token(&mut self, token: &str) -> Option<()> {
        if let Some(text) = token.strip_prefix('"') {
            self.text(text.strip_suffix('"')?);
            return Some(());
        }
        match token {
            "le" => self.is_big = false,
            "be" => self.is_big = true,
            "packet" => self.end_packet(),
            "end" => self.content_bits = Some(self.position),
            _ => match token.split_once(':') {
                Some((kind, value)) => self.number(kind, value)?,
                None => self.bits(
                    u8::from_str_radix(token, 16).ok().filter(|_| token.len() == 2)?.into(),
                    8,
                ),
            },
        }
        Some(())
    }

    fn number(&mut self, kind: &str, value: &str) -> Option<()> {
        let count = value.parse::<usize>();
        match kind {
            "align" => self.zeros(self.position.next_multiple_of(count.ok()?)),
            "pad" => self.zeros(8 * count.ok()?),
            "cut" => self.cut_bytes = count.ok()?,
            "f32" => self.bits(value.parse::<f32>().ok()?.to_bits().into(), 32),
            "f64" => self.bits(value.parse::<f64>().ok()?.to_bits(), 64),
            _ => {
                let bits: u32 = kind[1..].parse().ok()?;
                match (&kind[..1], value) {
                    ("u", "$content" | "$packet") => {
                        self.sizes.push((self.position, bits, self.is_big, value == "$content"));
                        self.bits(0, bits);
                    }
                    ("u", _) => self.bits(unsigned(value)?, bits),
                    ("i", _) => self.bits(value.parse::<i64>().ok()?.cast_unsigned(), bits),
                    ("b", _) => self.bits(u64::from_str_radix(value, 2).ok()?, bits),
                    _ => return None,
                }
            }
        }
        Some(())
    }

    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            self.plain(&rest[..at]);
            let mut characters = rest[at + 1..].chars();
            let code = match characters.next() {
                Some('x') => {
                    let digits: String = characters.by_ref().take(2).collect();
                    u64::from_str_radix(&digits, 16).expect("two digits")
                }
                Some('0') => 0,
                Some('n') => 10,
                Some('t') => 9,
                Some('q') => b'"'.into(),
                Some(other) => u64::from(u32::from(other)),
                None => b'\\'.into(),
            };
            self.bits(code, 8);
            rest = characters.as_str();
        }
        self.plain(rest);
    }

    /// A text without escapes. Where bytes begin, they are copied at once: some texts are long.
    fn plain(&mut self, text: &str) {
        if self.position.is_multiple_of(8) && self.packet_at + self.position / 8 == self.bytes.len() {
            self.bytes.extend_from_slice(text.as_bytes());
            self.position += 8 * text.len();
        } else {
            text.bytes().for_each(|byte| self.bits(byte.into(), 8));
        }
    }

    fn zeros(&mut self, position: usize) {
        while self.position < position {
            self.bits(0, 1);
        }
    }

    fn bits(&mut self, value: u64, bits: u32) {
        self.put(self.position, value, bits, self.is_big);
        self.position += bits as usize;
    }

    fn put(&mut self, position: usize, value: u64, bits: u32, is_big: bool) {
        let end = self.packet_at + (position + bits as usize).div_ceil(8);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        for bit in 0..bits {
            let place = position + bit as usize;
            let byte = &mut self.bytes[self.packet_at + place / 8];
            let (from, to) = match is_big {
                true => (bits - 1 - bit, 7 - place % 8),
                false => (bit, place % 8),
            };
            *byte |= ((value >> from & 1) as u8) << to;
        }
    }

    fn end_packet(&mut self) {
        let packet_bits = self.position.next_multiple_of(8);
        let content_bits = self.content_bits.take().unwrap_or(self.position);
        for (position, bits, is_big, is_content) in std::mem::take(&mut self.sizes) {
            let size = if is_content { content_bits } else { packet_bits };
            self.put(position, size as u64, bits, is_big);
        }
        self.packet_at = self.bytes.len();
        self.position = 0;
    }
}

fn unsigned(value: &str) -> Option<u64> {
    match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}
