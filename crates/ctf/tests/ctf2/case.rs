// SPDX-License-Identifier: MIT OR Apache-2.0
//! The notation of a case:
//!
//! ```text
//! What it shows, in a line or some.
//!
//! ctf2 fields:
//! name = { field class, in one or several lines }
//! ctf1 fields:
//! members of a structure in TSDL
//! stream:
//! 01 02 "text" 03        # a comment
//! expected:
//! event: { name = 1 }
//! ```
//!
//! `written in ctf1:` may follow, for what CTF 1.8 says in another way.
//!
//! Instead of the fields of one event there may be all of the metadata, as `ctf2:` with a fragment behind each empty line, and as `ctf1:`.

use std::path::Path;

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) ctf2: Vec<u8>,
    /// The same in TSDL.
    pub(crate) ctf1: Option<Vec<u8>>,
    pub(crate) stream: Vec<u8>,
    pub(crate) expected: String,
    /// What is seen of it when CTF 2 was written as CTF 1.8, where that is something else.
    pub(crate) written_in_ctf1: Option<String>,
}

impl Case {
    pub(crate) fn read(path: &Path) -> Case {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).expect("it is text");
        let section = |heading: &str| section(&text, heading);
        let ctf2 = match (section("ctf2"), section("ctf2 fields")) {
            (Some(all), None) => fragments(&all),
            (None, Some(fields)) => fragments(&around_ctf2(&fields)),
            _ => panic!("{name}: one of `ctf2:` and `ctf2 fields:` is needed"),
        };
        let ctf1 = section("ctf1").or_else(|| section("ctf1 fields").map(|fields| around_ctf1(&fields)));
        Case {
            ctf2,
            ctf1: ctf1.map(String::into_bytes),
            stream: bytes(&section("stream").unwrap_or_default(), &name),
            written_in_ctf1: section("written in ctf1"),
            expected: section("expected")
                .unwrap_or_else(|| panic!("{name}: `expected:` is needed"))
                .trim_start_matches('\n')
                .to_owned(),
            name,
        }
    }
}

const HEADINGS: [&str; 7] = [
    "ctf2",
    "ctf2 fields",
    "ctf1",
    "ctf1 fields",
    "stream",
    "expected",
    "written in ctf1",
];

fn section(text: &str, heading: &str) -> Option<String> {
    let is_heading = |line: &str| line.strip_suffix(':').is_some_and(|name| HEADINGS.contains(&name));
    let mut lines = text.lines().skip_while(|line| line.strip_suffix(':') != Some(heading));
    lines.next()?;
    let body = lines.take_while(|line| !is_heading(line));
    Some(body.fold(String::new(), |body, line| body + line + "\n"))
}

fn fragments(text: &str) -> Vec<u8> {
    let fragments = text.trim().split("\n\n").map(str::trim);
    fragments
        .flat_map(|fragment| format!("\u{1e}{fragment}\n").into_bytes())
        .collect()
}

/// Metadata of one event, `event`, with these fields.
fn around_ctf2(fields: &str) -> String {
    let mut members: Vec<String> = vec![];
    for line in fields.lines().filter(|line| !line.is_empty()) {
        match line.split_once(" = ").filter(|(name, _)| !name.contains(['"', ' '])) {
            Some((name, class)) => members.push(format!("{{\"name\": \"{name}\", \"field-class\": {class}")),
            None => *members.last_mut().expect("a field") += line,
        }
    }
    let members: Vec<String> = members.into_iter().map(|member| member + "}").collect();
    let members = members.join(", ");
    format!(
        "{{\"type\": \"preamble\", \"version\": 2}}\n\n{{\"type\": \"data-stream-class\"}}\n\n\
         {{\"type\": \"event-record-class\", \"name\": \"event\", \"payload-field-class\": \
         {{\"type\": \"structure\", \"member-classes\": [{members}]}}}}"
    )
}

fn around_ctf1(fields: &str) -> String {
    format!(
        "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; }};\nstream {{ }};\n\
         event {{ name = \"event\"; fields := struct {{\n{fields}}}; }};\n"
    )
}

/// `01 02 "text" # comment`
fn bytes(text: &str, name: &str) -> Vec<u8> {
    let mut bytes = vec![];
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() && !rest.starts_with('#') {
            if let Some(quoted) = rest.strip_prefix('"') {
                let (text, behind) = quoted.split_once('"').expect("the text ends");
                bytes.extend(text.bytes());
                rest = behind.trim_start();
                continue;
            }
            let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
            for index in (0..word.len()).step_by(2) {
                let byte = word
                    .get(index..index + 2)
                    .and_then(|byte| u8::from_str_radix(byte, 16).ok());
                bytes.push(byte.unwrap_or_else(|| panic!("{name}: {word:?} is no bytes")));
            }
            rest = behind.trim_start();
        }
    }
    bytes
}
