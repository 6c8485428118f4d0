// SPDX-License-Identifier: MIT OR Apache-2.0
//! What babeltrace2 reads out of the bytes and the text that this crate makes. Needs babeltrace2 (Debian: apt install babeltrace2).

mod fields;
mod kernel;
mod names;
mod packets;
#[path = "../writer/mod.rs"]
mod writer;

use std::fs;
use std::path::Path;
use std::process::Command;

use piste_ctf::metadata::Form;
use piste_ctf::packet::Header;
use piste_ctf::{EventClass, Field, StreamClass, index, metadata};
use writer::{Writer, stream, trace};

const NONE: &[Field] = &[];

/// Writes a trace of stream files, each with its packets one after the other, and returns babeltrace2's text and complaints.
fn read(classes: &[(StreamClass, Vec<EventClass>)], streams: &[Vec<u8>]) -> (String, String) {
    let folder = write(classes, streams);
    let arguments = ["--clock-seconds", "--no-delta", "--fields=loglevel"];
    babeltrace2(&arguments, folder.path())
}

fn write(classes: &[(StreamClass, Vec<EventClass>)], streams: &[Vec<u8>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = metadata::opening(&trace(), Form::Program);
    for (stream, events) in classes {
        text += &metadata::stream_class(stream);
        text.extend(events.iter().map(|event| metadata::event_class(stream.id, event)));
    }
    fs::write(folder.path().join("metadata"), text).expect("metadata is written");
    fs::create_dir(folder.path().join("index")).expect("a folder is made");
    for (number, bytes) in streams.iter().enumerate() {
        let name = format!("channel_{number}");
        fs::write(folder.path().join(&name), bytes).expect("a stream is written");
        fs::write(folder.path().join("index").join(name + ".idx"), index_of(bytes)).expect("an index is written");
    }
    folder
}

fn index_of(stream: &[u8]) -> Vec<u8> {
    let mut file = index::file_header().to_vec();
    let mut offset = 0;
    while let Some(header) = Header::decode(&stream[offset..]) {
        file.extend(index::Entry::of(&header, offset as u64).encode());
        offset += header.packet_bits as usize / 8;
    }
    assert_eq!(offset, stream.len());
    file
}

fn babeltrace2(arguments: &[&str], folder: &Path) -> (String, String) {
    let output = Command::new("babeltrace2")
        .arg(folder)
        .args(arguments)
        .output()
        .expect("babeltrace2 is needed (Debian: apt install babeltrace2)");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Reads one packet of one event in a stream without contexts; returns what stands between the braces of the fields.
fn fields(class: EventClass, bytes: &[u8]) -> String {
    let mut w = Writer::new(NONE, 1);
    w.compact(class.id, 1, bytes);
    let (text, complaints) = read(&[(stream(0, NONE), vec![class])], &[w.finish(0, 0, 0)]);
    assert_eq!(complaints, "");
    let (_, fields) = text
        .split_once("vpid = 4321, pid = 54321, uid = 1000 }, ")
        .expect("the packet context is shown");
    fields.trim_end_matches('\n').to_owned()
}

/// A line of babeltrace2's text. The clock's offset is 5 ticks, a tick is a nanosecond.
fn line(ticks: u64, event: &str, rest: &str) -> String {
    let (seconds, nanoseconds) = (1_700_000_000 + (ticks + 5) / 1_000_000_000, (ticks + 5) % 1_000_000_000);
    format!(
        "[{seconds}.{nanoseconds:09}] {event}: {{ ring_index = 0, vpid = 4321, pid = 54321, uid = 1000 }}, {rest}\n"
    )
}
