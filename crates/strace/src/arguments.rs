// SPDX-License-Identifier: MIT OR Apache-2.0
//! One argument of a call, as strace prints it: numbers by their names, and what an argument points to.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use piste_ctf::Base;
use piste_syscalls::{Argument, Names, Pointee, Syscall, What, signal_name};

use crate::descriptors::Decoder;
use crate::fields::{Fields, Value};
use crate::operations;
use crate::printer::ERRORS;

/// A call, as far as it is known.
pub(crate) struct Seen<'a> {
    pub(crate) call: &'static Syscall,
    pub(crate) entry: &'a Fields,
    /// Once it has returned.
    pub(crate) exit: Option<&'a Fields>,
    /// Texts are cut here.
    pub(crate) text_bytes: usize,
    pub(crate) decoder: Decoder<'a>,
}

/// Arguments that are addresses although the kernel declares them as numbers.
const ADDRESSES: [&str; 5] = ["addr", "brk", "new_addr", "old_addr", "start"];
/// Elements of a list that are shown.
const LIST_SHOWN: usize = 32;

/// Whether an argument is printed only when the call has returned: what is there is written by the kernel, or could not be read before.
pub(crate) fn is_late(call: &Syscall, index: usize, entry: &Fields) -> bool {
    let name = call.arguments[index].name;
    let mut pointees = call.pointees.iter().filter(|pointee| pointee.argument == index);
    let is_written = pointees.any(|pointee| !pointee.is_input || pointee.what == What::TargetVector);
    let was_unreadable = entry
        .text("incomplete")
        .is_some_and(|text| says(text, name, "unreadable"));
    is_written || was_unreadable
}

/// Whether the list of what is incomplete has this.
fn says(incomplete: &[u8], name: &str, word: &str) -> bool {
    let text = String::from_utf8_lossy(incomplete);
    text.split(", ").any(|part| part.split_once(' ') == Some((name, word)))
}

impl Seen<'_> {
    /// The argument with this index.
    pub(crate) fn argument(&self, index: usize) -> String {
        let argument = &self.call.arguments[index];
        let name = argument.name;
        let is_unreadable = |fields: &Fields| {
            fields
                .text("incomplete")
                .is_some_and(|text| says(text, name, "unreadable"))
        };
        // What was not in memory at the entry comes with the exit.
        let late = self
            .exit
            .filter(|exit| is_unreadable(self.entry) && !is_unreadable(exit));
        let fields = late.filter(|exit| exit.get(name).is_some()).unwrap_or(self.entry);
        let is_said = |word: &str| fields.text("incomplete").is_some_and(|text| says(text, name, word));
        match fields.get(name) {
            Some(Value::Text(_) | Value::List(_)) if is_said("null") => "NULL".to_owned(),
            Some(Value::Text(_) | Value::List(_)) if is_said("unreadable") => "/* unreadable */".to_owned(),
            Some(Value::Text(text)) => {
                let is_path = self.pointee(index).is_some_and(|pointee| pointee.what == What::Path);
                let bytes_max = if is_path { usize::MAX } else { self.text_bytes };
                quoted(text, bytes_max, is_said("cut"))
            }
            Some(Value::List(texts)) => self.texts(texts, is_said("cut")),
            Some(Value::Integer(number)) => {
                operations::number(self.call, self.entry, name, unsigned(argument, *number))
                    .or_else(|| self.pointed(self.pointee(index)?, *number))
                    .unwrap_or_else(|| match self.call.takes_descriptor(index) {
                        true => self.decoder.decoded(*number),
                        false => self.number(argument, *number),
                    })
            }
            Some(Value::Structure(_)) | None => "?".to_owned(),
        }
    }

    fn pointee(&self, index: usize) -> Option<&'static Pointee> {
        self.call.pointees.iter().find(|pointee| pointee.argument == index)
    }

    /// What an argument points to; the address alone of what the kernel has not written.
    fn pointed(&self, pointee: &Pointee, number: i128) -> Option<String> {
        let result = self.exit.and_then(|exit| exit.integer("ret")).unwrap_or(0);
        let is_unwritten = !pointee.is_input && (1 - ERRORS..0).contains(&result);
        match number == 0 || is_unwritten {
            true => Some(address(number)),
            false => self.memory(pointee, self.call.arguments[pointee.argument].name),
        }
    }

    /// What an argument points to, if it was recorded. What the kernel wrote is that at the exit.
    fn memory(&self, pointee: &Pointee, name: &str) -> Option<String> {
        let exit = self
            .exit
            .filter(|_| pointee.is_output || pointee.what == What::TargetVector);
        let at_exit = exit.and_then(|fields| self.memory_in(fields, pointee, name));
        at_exit.or_else(|| self.memory_in(self.entry, pointee, name).filter(|_| pointee.is_input))
    }

    fn memory_in(&self, fields: &Fields, pointee: &Pointee, name: &str) -> Option<String> {
        match pointee.what {
            What::Address => socket_address(fields),
            What::Message | What::Messages => self.message(fields),
            What::Bytes => {
                let bytes = fields.text(&format!("{name}_bytes"))?;
                let is_cut = fields.text("incomplete").is_some_and(|text| says(text, name, "cut"));
                Some(self.quoted(bytes, is_cut))
            }
            What::Text => {
                let is_cut = fields.text("incomplete").is_some_and(|text| says(text, name, "cut"));
                Some(quoted(fields.text(name)?, usize::MAX, is_cut))
            }
            What::Target => Some(self.quoted(fields.text("target")?, false)),
            What::IntPair => {
                let pair = fields.list(name)?;
                let numbers: Vec<String> = pair.iter().map(|end| self.decoder.decoded(number(end))).collect();
                Some(format!("[{}]", numbers.join(", ")))
            }
            What::FdSet => {
                let set = match name {
                    "inp" => "readfds",
                    "outp" => "writefds",
                    _ => "exceptfds",
                };
                Some(self.descriptor_set(fields.list(set)?))
            }
            What::SignalSet => Some(signal_set(fields.integer(&format!("{name}_set"))?)),
            What::PollFd | What::EpollEvent { .. } if fields.list("fds").is_some() => {
                self.structures(fields.list("fds")?, None)
            }
            What::SourceVector | What::TargetVector => {
                let contents = fields.text(&format!("{name}_bytes"));
                let vector = self.entry.list(&format!("{name}_list"))?;
                self.structures(vector, contents)
            }
            _ => match fields.list(&format!("{name}_list")) {
                Some(list) => self.structures(list, None),
                None => structure(fields, name),
            },
        }
    }

    /// The parts of a message that are recorded.
    fn message(&self, fields: &Fields) -> Option<String> {
        let name = socket_address(fields).unwrap_or_else(|| "NULL".to_owned());
        let vector = self.structures(self.entry.list("iov_list")?, fields.text("iov_bytes"))?;
        Some(format!("{{msg_name={name}, msg_iov={vector}}}"))
    }

    /// A list of structures; of a vector, with what its elements point to.
    fn structures(&self, list: &[Value], mut contents: Option<&[u8]>) -> Option<String> {
        let shown = list.iter().take(LIST_SHOWN).map(|value| {
            let Value::Structure(members) = value else {
                return "?".to_owned();
            };
            let length = members
                .integer("iov_len")
                .and_then(|length| usize::try_from(length).ok());
            let content = contents.take().map(|bytes| {
                let (own, rest) = bytes.split_at(length.unwrap_or(0).min(bytes.len()));
                contents = Some(rest);
                self.quoted(own, length.is_some_and(|length| length > own.len()))
            });
            let meant = members.iter().filter(|(member, _)| *member != "padding");
            let members = meant.map(|(member, value)| {
                let text = match (&content, member) {
                    (Some(content), "iov_base") => content.clone(),
                    (None, "iov_base") => address(number(value)),
                    (_, "fd") => self.decoder.decoded(number(value)),
                    _ if member.starts_with("raw_") => hex(number(value) as u64),
                    _ => number_of(value),
                };
                format!("{}={text}", member.strip_prefix("raw_").unwrap_or(member))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        });
        let mut shown: Vec<String> = shown.collect();
        if list.len() > LIST_SHOWN {
            shown.push("...".to_owned());
        }
        Some(format!("[{}]", shown.join(", ")))
    }

    fn texts(&self, texts: &[Value], is_cut: bool) -> String {
        let shown = texts.iter().take(LIST_SHOWN).map(|text| match text {
            Value::Text(text) => self.quoted(text, false),
            _ => "?".to_owned(),
        });
        let mut shown: Vec<String> = shown.collect();
        if is_cut || texts.len() > LIST_SHOWN {
            shown.push("...".to_owned());
        }
        format!("[{}]", shown.join(", "))
    }

    /// `[3 5]`
    fn descriptor_set(&self, bytes: &[Value]) -> String {
        let all = bytes.iter().zip(0..).flat_map(|(byte, index)| {
            let byte = number(byte);
            (0..8)
                .filter(move |bit| byte >> bit & 1 != 0)
                .map(move |bit| 8 * index + bit)
        });
        let all: Vec<String> = all.map(|descriptor| self.decoder.decoded(descriptor)).collect();
        format!("[{}]", all.join(" "))
    }

    /// In quotes, with what cannot be printed as in C.
    fn quoted(&self, bytes: &[u8], is_cut: bool) -> String {
        quoted(bytes, self.text_bytes, is_cut)
    }

    /// A number that is what it is.
    fn number(&self, argument: &Argument, value: i128) -> String {
        let name = argument.name;
        let unsigned = unsigned(argument, value);
        if argument.base == Base::Octal || self.call.program_name == "umask" {
            return mode(unsigned);
        }
        let family = self.entry.integer("family");
        if self.call.program_name == "socket" && name == "protocol" && value == 0 && matches!(family, Some(2 | 10)) {
            return "IPPROTO_IP".to_owned();
        }
        if let Some(names) = Names::of(self.call.program_name, name, std::env::consts::ARCH) {
            return names.written(unsigned);
        }
        if matches!(name, "sig" | "signum") && value > 0 {
            return signal(value);
        }
        match argument.base {
            Base::Hex if argument.type_text.ends_with('*') || ADDRESSES.contains(&name) => address(value),
            Base::Hex => hex(unsigned),
            _ => value.to_string(),
        }
    }
}

/// The bits of an argument.
fn unsigned(argument: &Argument, value: i128) -> u64 {
    let bits = 8 * argument.element.bytes();
    (value as u128 & ((1 << bits) - 1)) as u64
}

/// A mode of files: `0644`.
fn mode(value: u64) -> String {
    match value {
        0 => "000".to_owned(),
        _ => format!("0{value:o}"),
    }
}

pub(crate) fn signal(number: i128) -> String {
    let name = u32::try_from(number).ok().and_then(signal_name);
    name.map_or_else(|| number.to_string(), str::to_owned)
}

pub(crate) fn address(value: i128) -> String {
    match value {
        0 => "NULL".to_owned(),
        _ => format!("{:#x}", value as u64),
    }
}

/// As `%#lx` in C.
pub(crate) fn hex(value: u64) -> String {
    match value {
        0 => "0".to_owned(),
        _ => format!("{value:#x}"),
    }
}

fn number(value: &Value) -> i128 {
    match value {
        Value::Integer(value) => *value,
        _ => 0,
    }
}

fn number_of(value: &Value) -> String {
    number(value).to_string()
}

/// The members that a structure has among the fields: `{tv_sec=1, tv_nsec=0}`; a single number in brackets.
fn structure(fields: &Fields, name: &str) -> Option<String> {
    let member = |(field, value): (&str, &Value)| {
        let member = field.strip_prefix(name)?.strip_prefix('_')?;
        Some(match (member, member.strip_prefix("raw_")) {
            ("rlim_cur" | "rlim_max", _) => (member.to_owned(), limit(number(value) as u64)),
            (_, Some(bits)) => (bits.to_owned(), hex(number(value) as u64)),
            (_, None) => (member.to_owned(), number_of(value)),
        })
    };
    let members: Vec<(String, String)> = fields.iter().filter_map(member).collect();
    match members.as_slice() {
        [] => None,
        [(only, value)] if only == "value" => Some(format!("[{value}]")),
        members => {
            let members: Vec<String> = members
                .iter()
                .map(|(member, value)| format!("{member}={value}"))
                .collect();
            Some(format!("{{{}}}", members.join(", ")))
        }
    }
}

/// `8192*1024`
fn limit(value: u64) -> String {
    match value {
        u64::MAX => "RLIM64_INFINITY".to_owned(),
        _ if value > 1024 && value.is_multiple_of(1024) => format!("{}*1024", value / 1024),
        _ => value.to_string(),
    }
}

/// `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}`
fn socket_address(fields: &Fields) -> Option<String> {
    let family = fields.integer("family")?;
    let port = fields.integer("dport").or_else(|| fields.integer("sport")).unwrap_or(0);
    let bytes = |name: &str| -> Vec<i128> { fields.list(name).unwrap_or_default().iter().map(number).collect() };
    let names = Names::of("socket", "family", std::env::consts::ARCH);
    let family = match names {
        Some(names) if family != 0 => names.written(family as u64),
        _ => "AF_UNSPEC".to_owned(),
    };
    let mut text = format!("{{sa_family={family}");
    let (v4, v6, path) = (
        bytes("v4addr"),
        bytes("v6addr"),
        fields.text("sun_path").unwrap_or_default(),
    );
    // Writing to memory does not fail.
    let _ = match (v4.as_slice(), v6.as_slice(), path) {
        (&[a, b, c, d], ..) => {
            let address = Ipv4Addr::from([a, b, c, d].map(|byte| byte as u8));
            write!(text, ", sin_port=htons({port}), sin_addr=inet_addr(\"{address}\")")
        }
        (_, groups, _) if groups.len() == 8 => {
            let mut segments = [0; 8];
            groups
                .iter()
                .zip(&mut segments)
                .for_each(|(group, to)| *to = *group as u16);
            let address = Ipv6Addr::from(segments);
            write!(
                text,
                ", sin6_port=htons({port}), inet_pton(AF_INET6, \"{address}\", &sin6_addr)"
            )
        }
        (.., [b'@', name @ ..]) => write!(text, ", sun_path=@{}", quoted(name, usize::MAX, false)),
        (.., path) if !path.is_empty() => write!(text, ", sun_path={}", quoted(path, usize::MAX, false)),
        _ => Ok(()),
    };
    text.push('}');
    Some(text)
}

/// `[INT CHLD]`; of more than half of all signals, those that are not in it: `~[KILL]`.
fn signal_set(bits: i128) -> String {
    const ALL: u64 = u64::MAX;
    let bits = bits as u64;
    let is_inverted = bits.count_ones() > 32;
    let shown = if is_inverted { ALL & !bits } else { bits };
    let names = (1..=64).filter(|number| shown >> (number - 1) & 1 != 0);
    let names: Vec<String> = names
        .map(|number| match signal_name(number) {
            Some(name) => name.trim_start_matches("SIG").to_owned(),
            None => format!("RT_{}", number - 32),
        })
        .collect();
    format!("{}[{}]", if is_inverted { "~" } else { "" }, names.join(" "))
}

fn quoted(bytes: &[u8], bytes_max: usize, is_cut: bool) -> String {
    let shown = &bytes[..bytes.len().min(bytes_max)];
    let dots = if is_cut || shown.len() < bytes.len() { "..." } else { "" };
    format!("\"{}\"{dots}", escaped(shown, ""))
}

/// What cannot be printed, and these letters, as in C.
pub(crate) fn escaped(bytes: &[u8], others: &str) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        let _ = match byte {
            b'"' => write!(text, "\\\""),
            b'\\' => write!(text, "\\\\"),
            b'\n' => write!(text, "\\n"),
            b'\r' => write!(text, "\\r"),
            b'\t' => write!(text, "\\t"),
            0x0b => write!(text, "\\v"),
            0x0c => write!(text, "\\f"),
            b' '..=b'~' if !others.as_bytes().contains(byte) => write!(text, "{}", char::from(*byte)),
            // A digit behind it would be a part of it.
            _ if bytes.get(index + 1).is_some_and(u8::is_ascii_digit) => write!(text, "\\{byte:03o}"),
            _ => write!(text, "\\{byte:o}"),
        };
    }
    text
}
