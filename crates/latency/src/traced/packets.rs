// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events began a sub-buffer: those that are the first ones of their packets, as the trace says.

use std::collections::BTreeSet;
use std::path::Path;

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Scope;
use piste_ctf::read::walk::Visitor;
use piste_reason::reason;
use piste_trace::{Findings, Stream, StreamFile, open};

/// The event's, in crates/bench/src/measured.
const PROVIDER: &str = "bench:";
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
            let cannot_read = |why: &str| format!("cannot read {}: {why}", index.path.display());
            for packet in (1..index.packets.len()).filter(|packet| !index.packets[*packet].is_empty) {
                let mut stream = Stream::open(&file, packet..packet + 1, WINDOW_BYTES)
                    .map_err(|error| cannot_read(&reason(&error)))?;
                let event = stream.next(&mut findings);
                let event = event.ok_or_else(|| cannot_read("a packet is damaged"))?;
                let mut number = Number(None);
                stream
                    .visit(&event, Scope::Payload, &mut number)
                    .map_err(|fault| cannot_read(&fault.to_string()))?;
                let number = number.0.filter(|_| event.class.name.starts_with(PROVIDER));
                numbers.insert(number.ok_or_else(|| cannot_read("it contains events that do not come from the loop"))?);
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
