// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events began a sub-buffer: those that are the first ones of their packets, as the trace says.

use std::collections::BTreeSet;
use std::path::Path;

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Scope;
use piste_ctf::read::walk::Visitor;
use piste_reason::reason;
use piste_trace::{Findings, Stream, StreamFile, open};

/// Enough for the first event of a packet.
const WINDOW_BYTES: usize = 4 << 10;

/// The numbers that these events have as their field. The first packet of a stream is left out: its sub-buffer was entered when the ring was made.
///
/// # Errors
/// Why the trace cannot be read, as a sentence without its end.
pub(super) fn first_events(trace: &Path) -> Result<BTreeSet<u32>, String> {
    let mut findings = Findings::default();
    let traces = open(trace, &mut findings).map_err(|error| error.to_string())?;
    let mut numbers = BTreeSet::new();
    for trace in &traces {
        for index in &trace.streams {
            let file = StreamFile {
                plan: &trace.plan,
                index,
            };
            for packet in 1..index.packets.len() {
                let mut stream = Stream::open(&file, packet..packet + 1, WINDOW_BYTES)
                    .map_err(|error| format!("cannot read {}: {}", index.path.display(), reason(&error)))?;
                let Some(event) = stream.next(&mut findings) else {
                    continue;
                };
                let mut number = Number(None);
                let is_read = stream.visit(&event, Scope::Payload, &mut number);
                numbers.extend(is_read.ok().and(number.0));
            }
        }
    }
    Ok(numbers)
}

/// Takes the only field.
struct Number(Option<u32>);

impl Visitor for Number {
    fn integer(&mut self, _: &IntegerNode, value: u64) {
        // It is a number of 32 bits, extended by its sign.
        self.0 = Some(value as u32);
    }
}
