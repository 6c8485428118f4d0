// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a trace's folder to text, and lets babeltrace2 do the same.
#![allow(unreachable_pub, reason = "each test includes it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use piste_ctf::read::clock::ClockScale;
use piste_ctf::read::packet::{Event, Next, PacketInfo, StreamReader};
use piste_ctf::read::plan::Plan;
use piste_ctf::read::text::{Loss, Lost, PacketText, Printer, TimeFormat, Times, WallTime, loss};
use piste_ctf::read::{metadata, schema};

/// Events in the order of their times, then losses, then faults.
pub fn read(folder: &Path) -> String {
    let text = fs::read(folder.join("metadata")).expect("metadata");
    let schema = match metadata::parse(&text) {
        Ok(schema) => schema,
        Err(error) => return format!("error: {error}\n"),
    };
    let plan = match Plan::new(schema) {
        Ok(plan) => plan,
        Err(error) => return format!("error: {error}\n"),
    };
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "metadata" && !name.starts_with('.'))
        .collect();
    names.sort();
    let mut streams: Vec<Stream<'_>> = names
        .into_iter()
        .map(|name| {
            let bytes = fs::read(folder.join(&name)).expect("a stream");
            Stream::new(&plan, folder, name, bytes)
        })
        .filter(|stream| !stream.bytes.is_empty())
        .collect();
    number(&mut streams);
    print(&plan, &mut streams)
}

/// Streams that have no number get one in the order of their files, as do those whose packets have no begin.
fn number(streams: &mut [Stream<'_>]) {
    let mut next = 0;
    for stream in streams {
        let packet = stream.reader.packet(&stream.bytes);
        let own = packet
            .ok()
            .filter(|info| info.begin.is_some())
            .and_then(|info| info.stream_id);
        stream.id = own.unwrap_or(next);
        next += u64::from(own.is_none());
        stream.reader = StreamReader::new(stream.plan);
    }
}

fn print<'p>(plan: &'p Plan, streams: &mut [Stream<'p>]) -> String {
    let mut printer = Printer::new(plan);
    let mut times = Times::new(TimeFormat::TimeOfDay, |seconds| Some(WallTime::utc(seconds)));
    let (mut out, mut losses, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for stream in &mut *streams {
        stream.advance(&printer);
    }
    let mut last = i64::MIN;
    while let Some(stream) = streams
        .iter_mut()
        .filter(|stream| stream.event.is_some())
        .min_by_key(|stream| stream.order(last))
    {
        let event = stream.event.expect("it has one");
        let at = stream.time(event.ticks).unwrap_or(last);
        if at < last {
            faults.push(format!("fault: {}: time goes back from {last} to {at}\n", stream.name));
        }
        last = at;
        let packet = &stream.bytes[stream.packet_at..stream.packet_at + stream.packet_bytes];
        let (text, reader) = (&mut stream.text, &mut stream.reader);
        if let Err(fault) = printer.event(&mut out, &mut times, text, reader, &event, (packet, 0)) {
            faults.push(format!("fault: {}: {fault}\n", stream.name));
        }
        stream.advance(&printer);
    }
    let mut losses_found: Vec<_> = streams.iter().flat_map(|stream| &stream.losses).collect();
    losses_found.sort_by_key(|found| found.order);
    for found in losses_found {
        loss(
            &mut losses,
            &mut times,
            &Loss {
                what: found.what,
                count: found.count,
                between: found.between,
                trace_name: &found.trace_name,
                trace_uuid: plan.schema.uuid,
                stream_name: &found.stream_name,
                stream_class_id: found.stream_class_id,
                stream_id: found.stream_id,
            },
        );
    }
    out.extend(losses);
    faults.extend(streams.iter_mut().flat_map(|stream| stream.faults.drain(..)));
    String::from_utf8_lossy(&out).into_owned() + &faults.concat()
}

struct Stream<'p> {
    plan: &'p Plan,
    name: String,
    path: String,
    id: u64,
    trace_name: String,
    bytes: Vec<u8>,
    reader: StreamReader<'p>,
    text: PacketText,
    packet_at: usize,
    packet_bytes: usize,
    packet_number: u32,
    scale: Option<ClockScale>,
    event: Option<Event<'p>>,
    before: Option<PacketInfo>,
    losses: Vec<Found>,
    faults: Vec<String>,
}

struct Found {
    order: Option<i64>,
    what: Lost,
    count: Option<u64>,
    between: Option<[Option<i64>; 2]>,
    trace_name: String,
    stream_name: String,
    stream_class_id: u64,
    stream_id: Option<u64>,
}

impl<'p> Stream<'p> {
    fn new(plan: &'p Plan, folder: &Path, name: String, bytes: Vec<u8>) -> Stream<'p> {
        let environment: BTreeMap<_, _> = plan.schema.environment.iter().cloned().collect();
        let trace_name = match environment.get("hostname") {
            Some(schema::EnvironmentValue::Text(host)) => host.clone(),
            _ => String::new(),
        };
        Stream {
            plan,
            path: folder.join(&name).to_string_lossy().into_owned(),
            name,
            id: 0,
            trace_name,
            bytes,
            reader: StreamReader::new(plan),
            text: PacketText::default(),
            packet_at: 0,
            packet_bytes: 0,
            packet_number: 0,
            scale: None,
            event: None,
            before: None,
            losses: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn time(&self, ticks: u64) -> Option<i64> {
        self.scale.and_then(|scale| scale.nanoseconds(ticks))
    }

    fn order(&self, last: i64) -> (i64, u64, u64) {
        let info = self.reader.info();
        let ticks = self.event.expect("it has one").ticks;
        (self.time(ticks).unwrap_or(last), info.stream_class_id, self.id)
    }

    /// To the next event.
    fn advance(&mut self, printer: &Printer<'p>) {
        self.event = None;
        loop {
            let packet = &self.bytes[self.packet_at..self.packet_at + self.packet_bytes];
            let next = match self.packet_bytes {
                0 => Next::End,
                _ => self.reader.next(packet, 0),
            };
            match next {
                Next::Event(event) => {
                    self.event = Some(event);
                    return;
                }
                Next::End => {}
                Next::Short => self.fault("the file ends inside of the packet"),
                Next::Fault(fault) => self.fault(&fault.to_string()),
            }
            self.packet_at += self.packet_bytes;
            if self.packet_at >= self.bytes.len() || !self.packet(printer) {
                return;
            }
        }
    }

    /// Begins a packet; false when there is none.
    fn packet(&mut self, printer: &Printer<'p>) -> bool {
        self.packet_number += 1;
        self.packet_bytes = 0;
        let rest = &self.bytes[self.packet_at..];
        let info = match self.reader.packet(rest) {
            Ok(info) => info.clone(),
            Err(fault) => {
                self.fault(&format!("it is no packet: {fault}"));
                self.packet_at = self.bytes.len();
                return false;
            }
        };
        if info.content_bits.is_none() {
            self.reader.end_at(8 * rest.len() as u64);
        }
        let total_bytes = info.total_bits.map_or(rest.len() as u64, |bits| bits / 8);
        self.packet_bytes = rest.len().min(total_bytes as usize);
        let stream = &self.plan.schema.streams[&info.stream_class_id];
        self.scale = stream
            .clock
            .map(|clock| ClockScale::new(&self.plan.schema.clocks[clock]));
        let packet = &self.bytes[self.packet_at..self.packet_at + self.packet_bytes];
        printer
            .packet(&mut self.text, &mut self.reader, packet)
            .expect("the packet was read before");
        self.note_losses(&info);
        self.before = Some(info);
        true
    }

    fn note_losses(&mut self, info: &PacketInfo) {
        let before = self.before.take().unwrap_or_default();
        let is_first = self.packet_number == 1;
        let span = |begin: Option<u64>, end: Option<u64>| match (info.begin, info.end) {
            (Some(_), Some(_)) => Some([begin?, end?]),
            _ => None,
        };
        let events = match (before.discarded_events, info.discarded_events) {
            (None, Some(1..)) if is_first => Some((None, span(info.begin, info.end))),
            (Some(before_count), Some(count)) if count != before_count => {
                Some((Some(count.wrapping_sub(before_count)), span(before.end, info.end)))
            }
            _ => None,
        };
        let packets = match (before.sequence_number, info.sequence_number) {
            (Some(before_number), Some(number)) if number.wrapping_sub(before_number) > 1 => Some((
                Some(number.wrapping_sub(before_number) - 1),
                span(before.end, info.begin),
            )),
            _ => None,
        };
        for (what, found) in [(Lost::Events, events), (Lost::Packets, packets)] {
            if let Some((count, between)) = found {
                let between = between.map(|[begin, end]| [self.time(begin), self.time(end)]);
                self.losses.push(Found {
                    order: between.and_then(|[begin, _]| begin),
                    what,
                    count,
                    between,
                    trace_name: self.trace_name.clone(),
                    stream_name: self.path.clone(),
                    stream_class_id: info.stream_class_id,
                    stream_id: Some(self.id),
                });
            }
        }
    }

    fn fault(&mut self, what: &str) {
        let (name, number) = (&self.name, self.packet_number);
        self.faults.push(format!("fault: {name}: packet {number}: {what}\n"));
    }
}

pub fn has_babeltrace2() -> bool {
    Command::new("babeltrace2").arg("--version").output().is_ok()
}

/// Its default text, then what it says of losses, and why it failed if so.
pub fn babeltrace2(folder: &Path) -> String {
    let output = Command::new("babeltrace2")
        .arg(folder)
        .env("TZ", "UTC")
        .env("BABELTRACE_TERM_COLOR", "never")
        .output()
        .expect("babeltrace2 runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stderr);
    let is_loss = |line: &&str| line.starts_with("WARNING: ");
    let losses: String = said.lines().filter(is_loss).map(|line| format!("{line}\n")).collect();
    let reason = match output.status.success() {
        true => String::new(),
        false => format!(
            "babeltrace2 failed: {}\n",
            said.rsplit("CAUSED BY").next().unwrap_or_default().trim()
        ),
    };
    text(&output.stdout) + &losses + &reason
}
