// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in the kernel: whether it has probes at all, and the function that a place names.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::error::ProbeError;
use super::place::split;
use piste_patterns::nearest;

const SYMBOLS: &str = "/proc/kallsyms";

/// Refuses a place that is no `SYMBOL` or `SYMBOL+OFFSET` of the running kernel.
pub(super) fn check(place: &str, is_return: bool) -> Result<(), ProbeError> {
    if !Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        return Err(ProbeError::Unsupported {
            kind: "kprobes",
            option: "CONFIG_KPROBE_EVENTS",
        });
    }
    let refused = |reason: &str| {
        Err(ProbeError::Place {
            place: place.into(),
            reason: reason.into(),
        })
    };
    let (name, plus) = split(place);
    if name.is_empty() || name.contains(|character: char| !character.is_ascii_graphic() || character == '#') {
        return refused("write SYMBOL or SYMBOL+OFFSET");
    }
    if is_return && plus != 0 {
        return refused("returns are probed at the beginning of a function; omit the offset");
    }
    // A symbol of a module may have its name before it, MODULE:SYMBOL.
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    let names = names();
    if names.is_empty() || names.iter().any(|known| known == name) {
        return Ok(());
    }
    Err(ProbeError::NoPlace {
        binary: "the kernel".into(),
        wanted: format!("function \"{name}\""),
        nearest: nearest(name, names.iter().map(String::as_str), 3),
    })
}

/// The kernel's functions; none when it does not tell.
fn names() -> Vec<String> {
    let Ok(file) = fs::File::open(SYMBOLS) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let mut words = line.split_ascii_whitespace();
        if let (Some(_), Some("t" | "T"), Some(name)) = (words.next(), words.next(), words.next()) {
            names.push(name.to_owned());
        }
    }
    names
}
