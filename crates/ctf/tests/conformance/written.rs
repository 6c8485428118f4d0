// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata of all traces, written again in both languages: the same streams are read as the same text.

use std::{env, fs};

use piste_ctf::read::metadata;
use piste_ctf::write;

use crate::{build, hide, reading, traces};

const REFUSED_IN_CTF2: &str = "\
clock-in-fields: payload of event 0 of stream 0, field then: \
in CTF 2, events have times only in their headers, from the one clock of the stream
clock-only-hidden: payload of event 0 of stream 0, field then: \
in CTF 2, events have times only in their headers, from the one clock of the stream
packet-without-begin: packet context of stream 0: \
in CTF 2, a packet without a begin time counts from 0, and the events have only the low bits of their times
";

#[test]
fn metadata_written_again_says_the_same() {
    let (mut differ, mut refused, mut written) = (Vec::new(), String::new(), 0);
    for (name, trace) in traces() {
        let Ok(schema) = metadata::parse(&trace.metadata) else {
            continue;
        };
        // What cannot be read cannot be written.
        let Ok(tsdl) = write::tsdl(&schema) else { continue };
        let again = metadata::parse(tsdl.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}\n{tsdl}"));
        assert_eq!(again, schema, "{name}:\n{tsdl}");
        let json = match write::json(&schema) {
            Ok(json) => json,
            Err(error) => {
                refused += &format!("{name}: {error}\n");
                continue;
            }
        };
        let from_json = metadata::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}\n{json}"));
        let back = write::tsdl(&from_json).unwrap_or_else(|error| panic!("{name}: {error}\n{json}"));
        let (place, _temporary) = build(&trace);
        let expected = hide(&reading::read(&place), &place);
        for (language, text) in [("TSDL", &tsdl), ("JSON", &json), ("TSDL of JSON", &back)] {
            fs::write(place.join("metadata"), text).expect("metadata is written");
            let read = hide(&reading::read(&place), &place);
            written += 1;
            if read != expected {
                differ.push(format!("{name} as {language}: expected\n{expected}read\n{read}"));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    let is_all = env::var_os("CASE").is_none();
    assert!(!is_all || written > 300, "only {written} texts were written");
    let is_chosen = |line: &&str| is_all || refused.contains(line);
    let expected: Vec<&str> = REFUSED_IN_CTF2.lines().filter(is_chosen).collect();
    assert_eq!(refused.lines().collect::<Vec<_>>(), expected);
}
