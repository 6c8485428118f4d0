// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of traces as lines of text, in the order of time: the lines that babeltrace2 prints when it is told nothing but the traces.

use std::io;

use piste_ctf::read::packet::Event;
use piste_ctf::read::text::{PacketText, Printer, Times};

use crate::finding::{Finding, Kind};
use crate::folder::Trace;
use crate::merge::{Merge, Merged};
use crate::select::{Matcher, Selection};
use crate::symbols::EventSymbols;

/// Writes one line after the other.
pub struct Lines<'t> {
    /// What was not as it should be is in its findings.
    pub merge: Merge<'t>,
    times: Times,
    /// One for each trace.
    printers: Vec<Printer<'t>>,
    /// One for each stream: what its packet's events have in common, and which packet that is.
    packets: Vec<(PacketText, u64)>,
    /// Absent: all are shown.
    matcher: Option<Matcher<'t>>,
    /// Absent: addresses are shown without names.
    symbols: Option<EventSymbols<'t>>,
}

impl<'t> Lines<'t> {
    /// Of the events that are wanted.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn new(traces: &'t [Trace], selection: &Selection, times: Times) -> io::Result<Lines<'t>> {
        Ok(Lines::of(selection.merge(traces)?, traces, selection, times))
    }

    /// The same of events that somebody else found.
    pub fn of(merge: Merge<'t>, traces: &'t [Trace], selection: &Selection, times: Times) -> Lines<'t> {
        Lines {
            merge,
            times,
            printers: traces.iter().map(|trace| Printer::new(&trace.plan)).collect(),
            packets: Vec::new(),
            matcher: (!selection.is_any()).then(|| selection.matcher(traces)),
            symbols: None,
        }
    }

    /// Shows addresses with their names from now on.
    pub fn set_symbols(&mut self, symbols: EventSymbols<'t>) {
        self.symbols = Some(symbols);
    }

    /// Appends the line of the next event; false when there is none.
    pub fn next(&mut self, out: &mut Vec<u8>) -> bool {
        loop {
            // Two calls, so that the events of the first are in registers.
            let is_written = if let Some(merged) = self.merge.usual() {
                self.write_wanted(out, &merged)
            } else if let Some(merged) = self.merge.next() {
                self.write_wanted(out, &merged)
            } else {
                return false;
            };
            if is_written {
                return true;
            }
        }
    }

    #[inline]
    fn write_wanted(&mut self, out: &mut Vec<u8>, merged: &Merged<'t>) -> bool {
        let merge = &mut self.merge;
        let is_wanted = self.matcher.as_mut().is_none_or(|matcher| matcher.wants(merge, merged));
        is_wanted && self.write(out, merged.stream, &merged.event)
    }

    /// Ends, and gives the times back for others.
    pub fn into_times(self) -> Times {
        self.times
    }

    /// For what is said besides, in the same form.
    pub fn times(&mut self) -> &mut Times {
        &mut self.times
    }

    fn write(&mut self, out: &mut Vec<u8>, number: usize, event: &Event<'t>) -> bool {
        let trace = self.merge.trace_of(number);
        let printer = &mut self.printers[trace];
        let stream = self.merge.stream(number);
        let symbols = match &mut self.symbols {
            Some(symbols) => symbols.of(trace, stream, event),
            None => None,
        };
        if self.packets.len() <= number {
            self.packets.resize_with(number + 1, Default::default);
        }
        let (packet, of_packet) = &mut self.packets[number];
        let count = stream.packet_count();
        let (reader, window, base, head) = stream.parts();
        let mut written = Ok(());
        if *of_packet != count {
            written = printer.packet(packet, reader, head);
            *of_packet = count;
        }
        let times = &mut self.times;
        let written = written.and_then(|()| match symbols {
            None => printer.event(out, times, packet, reader, event, (window, base)),
            Some(mut symbols) => {
                printer.event_with_symbols(out, times, packet, reader, event, (window, base), &mut symbols)
            }
        });
        let Err(fault) = written else { return true };
        let finding = Finding {
            kind: Kind::DamagedEvent,
            file: stream.index.path.clone(),
            count: 1,
            offset: stream.offset(event),
            what: format!("cannot show an event: {fault}"),
        };
        self.merge.findings.add(finding);
        false
    }
}
