// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a trigger's session. They match, or they would not have been recorded: instead of being written to a trace, they are read here
//! and told to control, which knows what they lead to.
//!
//! A packet comes as it would be written to a stream file, with the metadata that it would have, so one reader serves both domains. Few
//! matches lead to anything when many come (triggers have a limit), so only a few times as many are read as control acts on; the others are counted.
//!
//! A trigger that waits for durations compares all events: beginnings with ends (lapses.rs).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use piste_ctf::read::clock::ClockScale;
use piste_ctf::read::json_value::JsonValue;
use piste_ctf::read::metadata;
use piste_ctf::read::packet::{Event, Next, StreamReader};
use piste_ctf::read::plan::{IntegerNode, Plan};
use piste_ctf::read::schema::{Encoding, Scope};
use piste_ctf::read::walk::Visitor;

use super::lapses::{Lapses, Pair};
use super::outbox::{Outbox, lock};
use super::stream::{Identity, Origin};
use crate::link::{Match, Purpose, SessionId, ToControl};

/// Of the matches in one message, which is one datagram.
const MESSAGE_BYTES_MAX: usize = 96 << 10;
/// Of a match in a message, beside its texts.
const MATCH_BYTES: usize = 192;
/// How long control is not told of matches that are only counted.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// In so much time, only so many matches are read.
const READ_WINDOW: Duration = Duration::from_millis(250);
/// As many as control acts on in that time on average. If that is few, some more: control may be busy with the first of them.
const READ_LEAST: usize = 25;
/// Of one match. A larger one is told without its fields.
const MATCH_BYTES_MAX: usize = 16 << 10;
/// Of a text; what follows is cut off.
const TEXT_BYTES_MAX: usize = 1024;
/// Of an array; what follows is cut off.
const ELEMENT_COUNT_MAX: u64 = 64;

const CUT: &[u8] = b"...";

/// What a session's streams have found, and what control was not told yet.
#[derive(Debug, Clone)]
pub(crate) struct Matches(Arc<Mutex<Found>>);

#[derive(Debug, Default)]
struct Found {
    /// Of the metadata that was given last.
    plan: Option<Plan>,
    matches: Vec<Match>,
    bytes: usize,
    /// With those that were not read.
    count: u64,
    /// What people should know.
    findings: Vec<String>,
    /// Of matches that control could not be told of, and of events that nobody looked at.
    missed: u64,
    /// Matches that are worth reading in a window.
    per_window: usize,
    /// When matches were read, in the last window at least.
    read_at: VecDeque<Instant>,
    told_at: Option<Instant>,
    /// Of a trigger that waits for durations.
    lapses: Option<Lapses>,
}

/// Whether a channel of a trigger's session has ends of durations.
pub(crate) fn is_of_ends(stream_id: u32) -> bool {
    Pair::of(stream_id) == Pair::End
}

/// Ends of durations that nobody will see, because the rings had no space or the like.
pub(crate) struct Unseen {
    /// Since the session began.
    count: u64,
    /// A time after they were counted.
    until_ticks: u64,
}

impl Unseen {
    /// The sum of some counts.
    pub(crate) fn count(counts: impl Iterator<Item = u64>, now_ticks: impl FnOnce() -> u64) -> Unseen {
        let count = counts.fold(0, u64::saturating_add);
        // Not before: all that were counted were lost until then.
        let until_ticks = now_ticks();
        Unseen { count, until_ticks }
    }
}

impl Matches {
    /// Those of a session, if it is a trigger's.
    pub(crate) fn of(purpose: Purpose) -> Option<Matches> {
        let Purpose::Trigger { per_second, lapse } = purpose else {
            return None;
        };
        let found = Found {
            per_window: (per_second as usize / 4).max(READ_LEAST.min(per_second as usize)),
            lapses: lapse.map(Lapses::new),
            ..Found::default()
        };
        Some(Matches(Arc::new(Mutex::new(found))))
    }

    /// Packets are described by this metadata from now on.
    pub(crate) fn describe(&self, metadata: &str) {
        let plan = metadata::parse(metadata.as_bytes())
            .map_err(|error| error.to_string())
            .and_then(|schema| Plan::new(schema).map_err(|error| error.to_string()));
        debug_assert!(plan.is_ok(), "what is written here can be read: {plan:?}");
        let found = &mut *lock(&self.0);
        if let Err(error) = &plan {
            found.findings.push(format!("its events cannot be read: {error}"));
        }
        found.plan = plan.ok();
    }

    /// A packet came, with so many events.
    pub(super) fn take(&self, packet: &[u8], events: u64, identity: &Identity) {
        let found = &mut *lock(&self.0);
        if found.lapses.is_none() {
            found.count += events;
        }
        let Some(plan) = &found.plan else { return };
        let mut reader = StreamReader::new(plan);
        if reader.packet(packet).is_err() {
            return;
        }
        let scale = plan.schema.clocks.first().map(ClockScale::new);
        let time_ns = |ticks| scale.and_then(|scale| scale.nanoseconds(ticks)).unwrap_or(0);
        let process = Process::of(identity);
        let now = Instant::now();
        while (found.lapses.is_some() || may_read(&mut found.read_at, found.per_window, found.bytes, now))
            && let Next::Event(event) = reader.next(packet, 0)
        {
            let event = Read {
                event,
                time_ns: time_ns(event.ticks),
                process,
                packet,
            };
            match &mut found.lapses {
                Some(lapses) => lapses.take(Pair::of(identity.stream_id), &event, &mut reader),
                None => {
                    let found_match = event.as_match(&mut reader);
                    found.read_at.push_back(now);
                    found.bytes += found_match.bytes();
                    found.matches.push(found_match);
                }
            }
        }
    }

    /// Whether there are events that the next call of `tell` needs, although no more may come.
    pub(crate) fn are_untold(&self) -> bool {
        let found = lock(&self.0);
        found.count > 0 || found.lapses.as_ref().is_some_and(Lapses::are_waiting)
    }

    /// Whether the time until which all events have been taken matters.
    pub(super) fn has_lapses(&self) -> bool {
        lock(&self.0).lapses.is_some()
    }

    /// In what time something will have taken too long, at the earliest; zero: it has.
    pub(crate) fn due_in(&self, now_ticks: u64) -> Option<Duration> {
        let found = &mut *lock(&self.0);
        let due_ns = found.lapses.as_mut()?.due_ns()?;
        let now_ns = ClockScale::new(found.plan.as_ref()?.schema.clocks.first()?).nanoseconds(now_ticks)?;
        let left_ns = u64::try_from(i128::from(due_ns) - i128::from(now_ns)).unwrap_or(0);
        Some(Duration::from_nanos(left_ns))
    }

    /// A process is gone, and what it began ends no more.
    pub(super) fn forget_process(&self, pid: i32) {
        if let Some(lapses) = &mut lock(&self.0).lapses {
            lapses.forget(Process::Pid(pid), Instant::now());
        }
    }

    /// Tells control what was found since the last call, the earliest first. All events until a time have been taken. `unseen` counts ends.
    pub(crate) fn tell(&self, until_ticks: u64, unseen: impl FnOnce() -> Unseen, session: SessionId, outbox: &Outbox) {
        let found = &mut *lock(&self.0);
        let now = Instant::now();
        let mut findings = std::mem::take(&mut found.findings);
        if let Some(lapses) = &mut found.lapses {
            let scale = found
                .plan
                .as_ref()
                .and_then(|plan| plan.schema.clocks.first())
                .map(ClockScale::new);
            let nanoseconds = |ticks| scale.and_then(|scale| scale.nanoseconds(ticks)).unwrap_or(i64::MAX);
            let until_ns = nanoseconds(until_ticks);
            // Without a scale no time is known, nor was any event read.
            if lapses.waits_for_ends() && scale.is_some() {
                let Unseen { count, until_ticks } = unseen();
                lapses.note_unseen(count, nanoseconds(until_ticks));
            }
            let mut all_late = lapses.compare(until_ns, now);
            // What has not ended when its session ends is not overdue.
            if until_ticks != u64::MAX {
                all_late.extend(lapses.overdue(until_ns));
            }
            for late in all_late {
                found.count += 1;
                if may_read(&mut found.read_at, found.per_window, found.bytes, now) {
                    found.read_at.push_back(now);
                    found.bytes += late.bytes();
                    found.matches.push(late);
                }
            }
            found.missed += lapses.take_missed();
            findings.extend(lapses.take_findings());
        }
        for what in findings {
            outbox.send(&ToControl::Finding { session, what });
        }
        let is_last = until_ticks == u64::MAX;
        let is_recent = |told: Instant| now.saturating_duration_since(told) < COUNT_INTERVAL;
        let is_only_counted = found.matches.is_empty() && found.told_at.is_some_and(is_recent) && !is_last;
        if found.count == 0 && found.missed == 0 || is_only_counted {
            return;
        }
        found.bytes = 0;
        let (count, mut matches) = (std::mem::take(&mut found.count), std::mem::take(&mut found.matches));
        if !outbox.is_connected() {
            // There is no control that could act. The next one is told how much it missed.
            found.missed += count;
            return;
        }
        found.told_at = Some(now);
        let missed = std::mem::take(&mut found.missed);
        // They come from several rings.
        matches.sort_by_key(|found| found.time_ns);
        outbox.send(&ToControl::Matched {
            session,
            matches,
            count,
            missed,
        });
    }
}

/// An event of a packet.
pub(super) struct Read<'p> {
    pub(super) event: Event<'p>,
    pub(super) time_ns: i64,
    pub(super) process: Process,
    pub(super) packet: &'p [u8],
}

impl<'p> Read<'p> {
    /// With all its values.
    pub(super) fn as_match<'r>(&self, reader: &mut StreamReader<'r>) -> Match
    where
        'p: 'r,
    {
        Match {
            event: self.event.class.name.to_string(),
            time_ns: self.time_ns,
            pid: match self.process {
                Process::Pid(pid) => pid,
                Process::Kernel { .. } => 0,
            },
            contexts: values(reader, &self.event, Scope::EventContext, self.packet),
            fields: values(reader, &self.event, Scope::Payload, self.packet),
            duration_ns: None,
        }
    }
}

impl Match {
    /// In a message, at most: texts are quoted there, which makes objects in JSON up to twice as long.
    pub(super) fn bytes(&self) -> usize {
        MATCH_BYTES + 6 * self.event.len() + 2 * (self.contexts.len() + self.fields.len())
    }
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Process {
    /// A program, in pisted's pid namespace.
    Pid(i32),
    /// Any thread in the kernel, on this CPU.
    Kernel { cpu: u32 },
}

impl Process {
    fn of(identity: &Identity) -> Process {
        match identity.origin {
            Origin::Ring { process, .. } => Process::Pid(process.pid),
            Origin::Cpu(cpu) => Process::Kernel { cpu },
        }
    }
}

/// Whether one more match is worth reading: control acts on few, and a message has no room for more.
fn may_read(read_at: &mut VecDeque<Instant>, per_window: usize, bytes: usize, now: Instant) -> bool {
    let is_over = |read: &Instant| now.saturating_duration_since(*read) >= READ_WINDOW;
    while read_at.front().is_some_and(is_over) {
        read_at.pop_front();
    }
    read_at.len() < per_window && bytes < MESSAGE_BYTES_MAX
}

/// A part of an event, as a JSON object.
fn values<'p>(reader: &mut StreamReader<'p>, event: &Event<'p>, scope: Scope, packet: &[u8]) -> String {
    let mut json = b"{".to_vec();
    let mut short = Short::new(&mut json);
    // A part that an event does not have has no values.
    let _ = reader.visit(event, scope, packet, 0, &mut short);
    json.push(b'}');
    if json.len() > MATCH_BYTES_MAX / 2 {
        return format!("{{\"...\":\"{} bytes\"}}", json.len());
    }
    String::from_utf8(json).expect("JSON is text")
}

/// Cuts texts and arrays that are long.
struct Short<'o> {
    json: JsonValue<'o>,
    /// Arrays inside the part that is cut off an array; 0: nothing is being cut off.
    muted_depth: u32,
}

impl<'o> Short<'o> {
    fn new(out: &'o mut Vec<u8>) -> Short<'o> {
        Short {
            json: JsonValue::new(out),
            muted_depth: 0,
        }
    }

    fn is_muted(&self) -> bool {
        self.muted_depth > 0
    }
}

impl Visitor for Short<'_> {
    fn field(&mut self, name: &str) {
        if !self.is_muted() {
            self.json.field(name);
        }
    }

    fn element(&mut self, index: u64) {
        if self.is_muted() {
            return;
        }
        if index <= ELEMENT_COUNT_MAX {
            self.json.element(index);
        }
        if index == ELEMENT_COUNT_MAX {
            self.json.text(CUT, Encoding::Utf8);
            self.muted_depth = 1;
        }
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        if !self.is_muted() {
            self.json.integer(integer, value);
        }
    }

    fn float(&mut self, value: f64, bits: u32) {
        if !self.is_muted() {
            self.json.float(value, bits);
        }
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        if self.is_muted() {
            return;
        }
        match bytes.get(..TEXT_BYTES_MAX) {
            Some(begin) if bytes.len() > TEXT_BYTES_MAX => self.json.text(&[begin, CUT].concat(), encoding),
            _ => self.json.text(bytes, encoding),
        }
    }

    fn counted_text(&mut self, text: &[u8], whole: &[u8], encoding: Encoding) {
        if !self.is_muted() && whole.len() <= TEXT_BYTES_MAX {
            self.json.counted_text(text, whole, encoding);
        } else {
            self.text(whole, encoding);
        }
    }

    fn blob(&mut self, bytes: &[u8], media_type: Option<&str>) {
        if !self.is_muted() {
            self.json.blob(&bytes[..bytes.len().min(TEXT_BYTES_MAX)], media_type);
        }
    }

    fn begin_structure(&mut self) {
        if !self.is_muted() {
            self.json.begin_structure();
        }
    }

    fn end_structure(&mut self) {
        if !self.is_muted() {
            self.json.end_structure();
        }
    }

    fn begin_array(&mut self, count: u64, is_sequence: bool) {
        if self.is_muted() {
            self.muted_depth += 1;
        } else {
            self.json.begin_array(count, is_sequence);
        }
    }

    fn end_array(&mut self) {
        self.muted_depth = self.muted_depth.saturating_sub(1);
        if !self.is_muted() {
            self.json.end_array();
        }
    }

    fn begin_variant(&mut self, option: &str) {
        if !self.is_muted() {
            self.json.begin_variant(option);
        }
    }

    fn end_variant(&mut self) {
        if !self.is_muted() {
            self.json.end_variant();
        }
    }

    fn nothing(&mut self) {
        if !self.is_muted() {
            self.json.nothing();
        }
    }
}

#[cfg(test)]
mod tests {
    use piste_ctf::metadata::{self, Form};
    use piste_ctf::packet::{HEADER_BYTES, Header};
    use piste_ctf::{Base, Clock, Element, EventClass, Field, FieldKind, StreamClass, Trace};

    use super::*;
    use crate::consumer::stream::ProcessIds;

    /// A packet with records of class 0 of a channel without contexts, as a consumer writes it.
    fn packet(records: &[&[u8]]) -> Vec<u8> {
        let mut packet = vec![0; HEADER_BYTES];
        for record in records {
            packet.extend((1000_u32 << 5).to_le_bytes());
            packet.extend(*record);
            packet.resize(packet.len().next_multiple_of(8), 0);
        }
        let bits = 8 * packet.len() as u64;
        let header = Header {
            timestamp_begin: 1000,
            timestamp_end: 1000,
            content_bits: bits,
            packet_bits: bits,
            ..Header::default()
        };
        packet[..HEADER_BYTES].copy_from_slice(&header.encode());
        packet
    }

    fn matches_of(kind: FieldKind) -> Matches {
        let trace = Trace {
            uuid: [0; 16],
            clock: Clock {
                name: "monotonic".into(),
                uuid: [0; 16],
                frequency_hz: 1_000_000_000,
                offset_seconds: 0,
                offset_ticks: 0,
                description: String::new(),
            },
            environment: vec![],
        };
        let stream = StreamClass {
            id: 0,
            channel: "trigger".into(),
            contexts: vec![],
        };
        let class = EventClass {
            id: 0,
            name: "shop:late".into(),
            level: 13,
            contexts: vec![],
            fields: vec![Field {
                name: "value".into(),
                kind,
            }],
        };
        let text = metadata::opening(&trace, Form::Program)
            + &metadata::stream_class(&stream)
            + &metadata::event_class(0, &class);
        let matches = Matches::of(Purpose::Trigger {
            per_second: 1000,
            lapse: None,
        });
        let matches = matches.unwrap();
        matches.describe(&text);
        matches
    }

    fn identity() -> Identity {
        let process = ProcessIds {
            vpid: 5,
            pid: 99,
            uid: 0,
        };
        Identity {
            trace_uuid: [0; 16],
            stream_id: 0,
            stream_instance_id: 0,
            origin: Origin::Ring { ring_index: 0, process },
        }
    }

    fn fields(matches: &Matches) -> Vec<String> {
        let found = lock(&matches.0);
        found.matches.iter().map(|found| found.fields.clone()).collect()
    }

    #[test]
    fn events_are_read_with_their_values() {
        let matches = matches_of(FieldKind::Scalar {
            element: Element::Int32,
            base: Base::Decimal,
        });
        matches.take(
            &packet(&[&42_i32.to_le_bytes(), &(-7_i32).to_le_bytes()]),
            2,
            &identity(),
        );
        assert_eq!(fields(&matches), [r#"{"value":42}"#, r#"{"value":-7}"#]);
        let found = lock(&matches.0);
        assert_eq!(
            (found.count, found.matches[0].pid, found.matches[0].time_ns),
            (2, 99, 1000)
        );
        assert_eq!(found.matches[0].event, "shop:late");
    }

    #[test]
    fn long_values_are_cut() {
        let texts = matches_of(FieldKind::String);
        texts.take(&packet(&[&[&[b'x'; 3000][..], b"\0"].concat()]), 1, &identity());
        assert_eq!(
            fields(&texts),
            [format!("{{\"value\":\"{}...\"}}", "x".repeat(TEXT_BYTES_MAX))]
        );
        let numbers = matches_of(FieldKind::Array {
            element: Element::Uint8,
            count: 100,
            base: Base::Decimal,
        });
        numbers.take(&packet(&[&[1; 100]]), 1, &identity());
        let ones = "1,".repeat(ELEMENT_COUNT_MAX as usize);
        assert_eq!(fields(&numbers), [format!("{{\"value\":[{ones}\"...\"]}}")]);
    }

    #[test]
    fn no_more_are_read_than_a_message_holds() {
        let matches = matches_of(FieldKind::String);
        let text = [&[b'x'; 900][..], b"\0"].concat();
        let packet = packet(&[&*text; 40]);
        (0..10).for_each(|_| matches.take(&packet, 40, &identity()));
        let found = lock(&matches.0);
        assert_eq!(found.count, 400);
        assert!((40..60).contains(&found.matches.len()), "{}", found.matches.len());
    }

    #[test]
    fn a_message_with_as_many_matches_as_it_holds_is_one_datagram() {
        for (text, count) in [
            ("", 5000),
            ("\u{1}\"", 5000),
            ("\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}", 900),
        ] {
            let matches = matches_of(FieldKind::String);
            lock(&matches.0).per_window = usize::MAX;
            let text = [text.as_bytes(), b"\0"].concat();
            let packet = packet(&vec![&*text; 500]);
            (0..10).for_each(|_| matches.take(&packet, 500, &identity()));
            let found = lock(&matches.0);
            assert!(
                found.matches.len() < count,
                "the message is full: {}",
                found.matches.len()
            );
            let message = ToControl::Matched {
                session: u64::MAX,
                matches: found.matches.clone(),
                count: found.count,
                missed: 0,
            };
            let bytes = serde_json::to_vec(&message).unwrap().len();
            assert!(bytes <= crate::link::MESSAGE_BYTES_MAX, "{bytes} bytes");
        }
    }

    #[test]
    fn no_more_are_read_than_control_acts_on() {
        let matches = matches_of(FieldKind::String);
        lock(&matches.0).per_window = 3;
        let packet = packet(&[&b"a\0"[..]; 40]);
        (0..10).for_each(|_| matches.take(&packet, 40, &identity()));
        let found = lock(&matches.0);
        assert_eq!((found.count, found.matches.len()), (400, 3));
    }
}
