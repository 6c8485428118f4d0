// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a model finds out is in its timeline.

use std::io::Write;

use piste_analysis::facts::{
    Arguments, DeviceOperation, Fact, Fork, Found, Left, Packet, RequestFact, RequestStep, Switch, Woken,
};
use piste_analysis::model::{At, Circumstances, Gap, System};
use piste_analysis::spans::{Begun, Span, Track};
use piste_timeline::{
    Class, Counter, Created, Label, LaneId, Piece, ProgramThread, Recorder, Subject, Timeline, Values,
};

/// A machine with one CPU, and what happens there.
struct Machine {
    system: System,
    recorder: Recorder<Vec<u8>>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            system: System::new(Circumstances::whole(0)),
            recorder: Recorder::new(Vec::new()).expect("memory"),
        }
    }

    fn at(&mut self, ns: i64, tid: i32, fact: &Fact<'_>) {
        let at = At {
            ns,
            cpu: Some(0),
            tid: Some(tid),
        };
        self.system.apply(fact, at, &mut self.recorder);
    }

    fn switch(&mut self, ns: i64, from: (i32, &str, Left), to: (i32, &str)) {
        let switch = Switch {
            previous_tid: from.0,
            previous_name: from.1.as_bytes(),
            previous: from.2,
            previous_priority: None,
            next_tid: to.0,
            next_name: to.1.as_bytes(),
            next_priority: 20,
        };
        self.at(ns, from.0, &Fact::Switch(switch));
    }

    fn timeline(mut self, end_ns: i64) -> Timeline {
        self.system.finish(end_ns, &mut self.recorder);
        let bytes = self
            .recorder
            .finish(Some(&self.system), (0, end_ns), b"a trace")
            .expect("memory");
        opened(&bytes).expect("it is whole")
    }
}

fn opened(bytes: &[u8]) -> Result<Timeline, piste_timeline::Failure> {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("it can be written");
    Timeline::open(file)
}

fn lane(timeline: &Timeline, is_meant: impl Fn(&Subject) -> bool) -> LaneId {
    let place = timeline.directory.subjects.iter().position(is_meant);
    LaneId(place.expect("there is such a lane") as u32)
}

fn thread(timeline: &Timeline, name: &str) -> LaneId {
    lane(
        timeline,
        |subject| matches!(subject, Subject::Thread(thread) if thread.name == name),
    )
}

/// Pieces as text, with what their numbers stand for.
fn shown(timeline: &Timeline, lane: LaneId) -> Vec<String> {
    let named = |number: u32| match timeline.label(number) {
        None => String::new(),
        Some(Label::Text(text)) => format!(" {text}"),
        Some(Label::Thread(LaneId(lane))) => match &timeline.directory.subjects[*lane as usize] {
            Subject::Thread(thread) => format!(" {}", thread.name),
            other => panic!("{other:?} is no thread"),
        },
    };
    let show = |piece: Piece| {
        let by = if piece.by == 0 {
            String::new()
        } else {
            format!(" by{}", named(piece.by))
        };
        let value = match piece.class {
            Class::Value => format!(" {}", piece.value),
            _ => String::new(),
        };
        format!(
            "{}-{} {:?}{}{by}{value}",
            piece.begin_ns,
            piece.end_ns,
            piece.class,
            named(piece.what)
        )
    };
    let pieces = timeline
        .pieces(lane, (i64::MIN, i64::MAX), 1000)
        .expect("it can be read");
    pieces.expect("there are few").into_iter().map(show).collect()
}

fn machine() -> Timeline {
    let mut machine = Machine::new();
    let read = machine.system.names.keep(b"read");
    let entry = Fact::CallEntry {
        call: read,
        arguments: Arguments::default(),
    };
    let exit = Fact::CallExit {
        call: Some(read),
        result: 3,
        found: Found::default(),
    };
    machine.switch(10, (0, "swapper/0", Left::Runnable), (7, "server"));
    machine.at(20, 7, &entry);
    machine.switch(30, (7, "server", Left::Waiting), (8, "client"));
    machine.at(40, 8, &Fact::Waking(Woken { tid: 7, cpu: Some(0) }));
    machine.switch(50, (8, "client", Left::Preempted), (7, "server"));
    machine.at(60, 7, &exit);
    machine.switch(70, (7, "server", Left::Dead), (0, "swapper/0"));
    machine.timeline(100)
}

#[test]
fn lanes_have_what_happened() {
    let timeline = machine();
    assert_eq!(timeline.directory.span_ns, (0, 100));
    assert_eq!(timeline.directory.origin, b"a trace");
    let server = thread(&timeline, "server");
    assert_eq!(
        shown(&timeline, server),
        [
            "0-10 Runnable",
            "10-20 User",
            "20-30 Kernel read",
            "30-40 Blocked read by client",
            "40-50 Runnable",
            "50-60 Kernel read",
            "60-70 User",
        ]
    );
    let cpu = lane(&timeline, |subject| *subject == Subject::Cpu(0));
    assert_eq!(
        shown(&timeline, cpu),
        [
            "0-10 Idle",
            "10-30 Running server",
            "30-50 Running client",
            "50-70 Running server",
            "70-100 Idle",
        ]
    );
    let calls = lane(&timeline, |subject| *subject == Subject::Calls(server));
    assert_eq!(shown(&timeline, calls), ["20-60 Other read"]);
}

#[test]
fn what_nobody_knows_of_a_cpu_is_unknown() {
    let mut machine = Machine::new();
    machine.switch(10, (0, "swapper/0", Left::Runnable), (7, "server"));
    machine.system.add_gap(Gap {
        cpu: Some(0),
        begin_ns: 20,
        end_ns: 60,
    });
    machine.switch(70, (7, "server", Left::Dead), (0, "swapper/0"));
    let timeline = machine.timeline(100);
    let cpu = lane(&timeline, |subject| *subject == Subject::Cpu(0));
    let pieces = shown(&timeline, cpu);
    assert_eq!(
        pieces,
        [
            "0-10 Idle",
            "10-20 Running server",
            "20-60 Unknown",
            "60-70 Running server",
            "70-100 Idle"
        ]
    );
}

#[test]
fn columns_have_shares_of_what_is_longer() {
    let timeline = machine();
    let columns = timeline
        .columns(thread(&timeline, "server"), (0, 100), 4)
        .expect("it can be read");
    let ns = |class| columns.iter().map(|column| column.of(class)).collect::<Vec<_>>();
    assert_eq!(ns(Class::Kernel), [5, 5, 10, 0]);
    assert_eq!(ns(Class::Blocked), [0, 10, 0, 0]);
    assert_eq!(
        columns.iter().map(|column| column.count).collect::<Vec<_>>(),
        [3, 2, 2, 0]
    );
    assert_eq!(
        timeline
            .columns(LaneId(99), (0, 100), 4)
            .expect("there is nothing")
            .len(),
        4
    );
}

#[test]
fn numbers_are_levels_or_amounts() {
    let mut machine = Machine::new();
    machine.switch(10, (0, "swapper/0", Left::Runnable), (7, "server"));
    machine.at(20, 7, &Fact::Frequency { cpu: 0, khz: 1000 });
    let packet = |bytes| Packet {
        interface: b"eth0",
        bytes,
    };
    machine.at(30, 7, &Fact::PacketQueued(packet(100)));
    machine.at(40, 7, &Fact::PacketQueued(packet(1500)));
    machine.at(45, 7, &Fact::PacketReceived(packet(60)));
    let request = RequestFact {
        device: 8 << 20,
        sector: 5,
        sectors: 8,
        bytes: 4096,
        operation: DeviceOperation::Read,
        tid: Some(7),
        error: 0,
    };
    machine.at(50, 7, &Fact::Request(RequestStep::Issue, request));
    machine.at(55, 7, &Fact::Request(RequestStep::Complete, request));
    machine.at(60, 7, &Fact::Frequency { cpu: 0, khz: 4000 });
    machine.system.add_gap(Gap {
        cpu: Some(0),
        begin_ns: 70,
        end_ns: 80,
    });
    machine.switch(90, (7, "server", Left::Dead), (0, "swapper/0"));
    let timeline = machine.timeline(100);
    let counter = |counter: Counter| lane(&timeline, |subject| *subject == Subject::Counter(counter.clone()));
    let frequency = counter(Counter::Frequency(0));
    assert_eq!(
        shown(&timeline, frequency),
        ["20-60 Value 1000", "60-70 Value 4000", "70-100 Unknown"]
    );
    let whole = timeline.columns(frequency, (0, 100), 1).expect("it can be read");
    let values = Values {
        amounts: 0,
        least: 1000,
        most: 4000,
        total: 40 * 1000 + 10 * 4000,
    };
    assert_eq!(whole[0].values, Some(values));
    let queued = counter(Counter::Queued("eth0".to_owned()));
    assert_eq!(
        shown(&timeline, queued),
        [
            "30-30 Value by server 100",
            "40-40 Value by server 1500",
            "70-80 Unknown"
        ]
    );
    let halves = timeline.columns(queued, (0, 80), 2).expect("it can be read");
    let totals: Vec<_> = halves
        .iter()
        .map(|half| half.values.map(|values| (values.total, values.amounts)))
        .collect();
    assert_eq!(totals, [Some((100, 1)), Some((1500, 1))]);
    assert_eq!(
        shown(&timeline, counter(Counter::Received("eth0".to_owned()))),
        ["45-45 Value by server 60", "70-80 Unknown"]
    );
    let disk = lane(&timeline, |subject| matches!(subject, Subject::Device(_)));
    assert_eq!(
        shown(&timeline, counter(Counter::Read(disk))),
        ["55-55 Value by server 4096", "70-80 Unknown"]
    );
}

#[test]
fn a_thread_says_who_created_it_and_which_threads_are_of_its_process() {
    let mut machine = Machine::new();
    machine.switch(10, (0, "swapper/0", Left::Runnable), (7, "server"));
    for (ns, tid, pid) in [(20, 8, 7), (30, 9, 9)] {
        let fork = Fork {
            parent_tid: 7,
            parent_pid: Some(7),
            tid,
            pid: Some(pid),
            name: format!("child {tid}").leak().as_bytes(),
        };
        machine.at(ns, 7, &Fact::Fork(fork));
    }
    let timeline = machine.timeline(100);
    let of = |name: &str| match &timeline.directory.subjects[thread(&timeline, name).0 as usize] {
        Subject::Thread(thread) => thread.clone(),
        other => panic!("{other:?} is no thread"),
    };
    let by = thread(&timeline, "server");
    assert_eq!(of("server").created, None);
    assert_eq!(of("child 8").created, Some(Created { by, ns: 20 }));
    assert_eq!(of("child 9").created, Some(Created { by, ns: 30 }));
    assert_eq!(of("child 8").process, of("server").process);
    assert_ne!(of("child 9").process, of("server").process);
    assert_eq!(shown(&timeline, thread(&timeline, "child 8")), ["20-100 Runnable"]);
}

#[test]
fn more_pieces_than_are_wanted_are_not_handed_out() {
    let timeline = machine();
    let server = thread(&timeline, "server");
    assert_eq!(timeline.pieces(server, (0, 100), 6).expect("it can be read"), None);
    assert_eq!(
        timeline
            .pieces(server, (0, 100), 7)
            .expect("it can be read")
            .map(|all| all.len()),
        Some(7)
    );
}

#[test]
fn what_is_no_timeline_is_refused() {
    let mut machine = Machine::new();
    machine.switch(10, (0, "swapper/0", Left::Runnable), (7, "server"));
    machine.system.finish(20, &mut machine.recorder);
    let bytes = machine
        .recorder
        .finish(Some(&machine.system), (0, 20), b"")
        .expect("memory");
    assert!(opened(&bytes).is_ok());
    for cut in 0..bytes.len() {
        assert!(opened(&bytes[..cut]).is_err(), "{cut} bytes of {}", bytes.len());
    }
}

/// A thread of a program.
const WORKER: Track = Track {
    trace: 0,
    pid: Some(40),
    tid: Some(41),
    stream: None,
};

fn span(name: &'static str, begun: Option<(i64, i64)>, end_ns: Option<i64>) -> Span<'static, ()> {
    Span {
        track: WORKER,
        name,
        begun: begun.map(|(ns, depth)| Begun { ns, depth: Some(depth) }),
        end_ns,
        whose: (),
    }
}

#[test]
fn a_thread_of_a_program_has_lanes_of_spans_and_of_events() {
    let mut recorder = Recorder::new(Vec::new()).expect("memory");
    recorder.program_lost(None, i64::MIN, 5);
    recorder.program_lost(Some(7), 10, 30);
    recorder.program_event(WORKER, b"", "begins", 6);
    recorder.program_span(&span("part", Some((12, 1)), Some(18)), b"first name");
    recorder.program_span(&span("whole", Some((10, 0)), Some(20)), b"worker");
    recorder.program_span(&span("end", None, Some(22)), b"worker");
    recorder.program_event(WORKER, b"worker", "goes on", 25);
    recorder.programs_over(100);
    recorder.program_span(&span("open", Some((90, 0)), None), b"worker");
    let bytes = recorder.finish(None, (0, 100), b"a trace").expect("memory");
    let timeline = opened(&bytes).expect("it is whole");
    let thread = || ProgramThread {
        tid: Some(41),
        pid: Some(40),
        name: "worker".to_owned(),
    };
    let on = |subject: &Subject| shown(&timeline, lane(&timeline, |known| known == subject));
    assert_eq!(
        on(&Subject::Spans(thread(), 0)),
        [
            "0-5 Unknown",
            "10-20 Other whole",
            "22-22 Unknown end",
            "90-100 Unknown open"
        ]
    );
    assert_eq!(on(&Subject::Spans(thread(), 1)), ["12-18 Other part"]);
    assert_eq!(
        on(&Subject::Events(thread())),
        ["0-5 Unknown", "6-6 Other begins", "25-25 Other goes on"]
    );
    assert_eq!(timeline.directory.subjects.len(), 3);
}
