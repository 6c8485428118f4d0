// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events a selection means: by fields, and by who they are of.

use std::path::Path;

use piste_trace::Span;
use piste_trace::rows::Column;
use piste_trace::select::{Filter, Selection, absent};

use crate::notation;
use crate::test_trace::{Packet, TestTrace};

/// Fields of each kind. The time of an event is its number.
const FIELDS: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 8; align = 8; } := uint8_t;
stream {
	packet.context := struct { clock_t timestamp_begin; clock_t timestamp_end; uint32_t content_size; uint32_t packet_size; uint32_t cpu_id; };
	event.header := struct { clock_t timestamp; uint8_t id; };
	event.context := struct { int32_t vtid; };
};
event {
	id = 0; name = \"shop:order\";
	fields := struct {
		int32_t ret;
		string file;
		enum : uint8_t { tea = 1, coffee = 2, hot = 1 ... 2 } kind;
		struct { uint32_t x; struct { uint8_t z; } y; } inner;
		uint8_t list[3];
		variant <kind> { int32_t tea; struct { uint8_t sugar; } coffee; } extra;
	};
};
event { id = 1; name = \"shop:close\"; fields := struct { floating_point { exp_dig = 11; mant_dig = 53; align = 8; } total; uint32_t name; uint32_t vtid; }; };
--- stream s
u32:0xc1fc1fc1 u64:1 u64:4 u32:$content u32:$packet u32:3
u64:1 u8:0 i32:100  i32:-2 \"/etc/passwd\\0\" u8:1 u32:7 u8:9 u8:1 u8:2 u8:3 i32:-5
u64:2 u8:0 i32:100  i32:0 \"/tmp/x\\0\" u8:2 u32:4096 u8:1 u8:4 u8:5 u8:6 u8:2
u64:3 u8:1 i32:101  f64:2.5 u32:11 u32:100
u64:4 u8:0 i32:102  i32:5 \"\\0\" u8:1 u32:0 u8:0 u8:0 u8:0 u8:0 i32:6
";

fn place(text: &str) -> TestTrace {
    TestTrace::of(&notation::Trace::parse(text, Path::new("")).expect("a trace"))
}

/// The times of the wanted events, in nanoseconds.
pub fn times(place: &TestTrace, selection: &Selection) -> Vec<i64> {
    let (traces, _) = place.open();
    let mut merge = selection.merge(&traces).expect("its files are there");
    let mut matcher = selection.matcher(&traces);
    let mut times = vec![];
    while let Some(merged) = merge.next() {
        if matcher.wants(&mut merge, &merged) {
            times.extend(merge.stream(merged.stream).ns(&merged.event));
        }
    }
    times
}

fn filtered(filter: &str) -> Selection {
    Selection {
        filter: Some(Filter::parse(filter).expect(filter)),
        ..Selection::default()
    }
}

#[test]
fn filters_look_at_fields_of_every_kind() {
    let place = place(FIELDS);
    for (filter, expected) in [
        ("ret < 0", &[1][..]),
        ("ret <= 0 && ret != -2", &[2]),
        ("!(ret < 0)", &[2, 3, 4]),
        ("ret != 0", &[1, 4]),
        ("ret & 4", &[1, 4]),
        ("0 < ret", &[4]),
        ("file == \"/tmp/x\"", &[2]),
        ("file =~ \"/etc/*\"", &[1]),
        ("file !~ \"/*\"", &[4]),
        ("file < \"/etc/z\"", &[1, 4]),
        ("file == 3", &[]),
        ("kind == \"tea\"", &[1, 4]),
        ("kind == \"hot\"", &[1, 2, 4]),
        ("kind != \"coffee\"", &[1, 4]),
        ("kind =~ \"c*\"", &[2]),
        ("kind == 2", &[2]),
        ("inner.x == 4K", &[2]),
        ("inner.y.z == 9", &[1]),
        ("list[2] == 3 || list[0] == 4", &[1, 2]),
        ("list[3] == 3", &[]),
        ("exists(list)", &[1, 2, 4]),
        ("extra == -5", &[1]),
        ("extra.tea > 0", &[4]),
        ("extra.sugar == 2", &[2]),
        ("extra.coffee.sugar == 2", &[2]),
        ("exists(extra.coffee)", &[2]),
        ("total > 2 && total < 3", &[3]),
        ("total == 2.5", &[3]),
        ("name == \"shop:close\"", &[3]),
        ("$payload.name == 11", &[3]),
        ("name =~ \"shop:o*\" && ret > 0", &[4]),
        ("vtid == 100", &[1, 2, 3]),
        ("$ctx.vtid == 100", &[1, 2]),
        ("$event_context.vtid == $payload.vtid", &[]),
        ("$tid == 101 || $tid == 102", &[3, 4]),
        ("$cpu == 3 && $time >= 3ns", &[3, 4]),
        ("$cpu == 2", &[]),
        ("$packet_context.cpu_id == 3", &[1, 2, 3, 4]),
        ("$event_header.id == 1", &[3]),
        ("nothing == 1 || !(nothing == 1)", &[1, 2, 3, 4]),
        ("nothing != 1", &[]),
        ("$pid == 1", &[]),
        ("$pid != 1", &[]),
    ] {
        assert_eq!(times(&place, &filtered(filter)), expected, "{filter}");
    }
}

#[test]
fn everything_in_a_selection_must_be_true() {
    let place = place(FIELDS);
    let selection = Selection {
        events: vec!["nothing".into(), "shop:o*".into()],
        tids: vec![100, 102],
        cpus: vec![3],
        span: Span { begin_ns: 2, end_ns: 4 },
        ..filtered("kind == \"hot\"")
    };
    assert_eq!(times(&place, &selection), [2, 4]);
    let cpus = vec![0];
    assert_eq!(
        times(
            &place,
            &Selection {
                cpus,
                ..selection.clone()
            }
        ),
        [0; 0]
    );
    let pids = vec![100];
    assert_eq!(times(&place, &Selection { pids, ..selection }), [0; 0]);
}

/// The kernel on two CPUs, without contexts. `w` is what threads do.
const SWITCHES: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 8; align = 8; } := uint8_t;
stream {
	packet.context := struct { clock_t timestamp_begin; clock_t timestamp_end; uint32_t content_size; uint32_t packet_size; uint32_t cpu_id; uint32_t events_discarded; };
	event.header := struct { clock_t timestamp; uint8_t id; };
};
event { id = 0; name = w; };
event { id = 1; name = sched_switch; fields := struct { string prev_comm; int32_t prev_tid; string next_comm; int32_t next_tid; }; };
event { id = 2; name = sched_process_fork; fields := struct { string child_comm; int32_t child_tid; int32_t child_pid; }; };
event { id = 3; name = sched_process_exec; fields := struct { string filename; int32_t tid; int32_t old_tid; }; };
event { id = 4; name = lttng_statedump_process_state; fields := struct { int32_t tid; int32_t pid; string name; }; };
--- stream cpu0
u32:0xc1fc1fc1 u64:10 u64:35 u32:$content u32:$packet u32:0 u32:0
u64:10 u8:0
u64:11 u8:4 i32:7 i32:7 \"shell\\0\"
u64:12 u8:4 i32:8 i32:7 \"helper\\0\"
u64:13 u8:0
u64:14 u8:1 \"swapper/0\\0\" i32:0 \"shell\\0\" i32:7
u64:15 u8:0
u64:16 u8:2 \"shell\\0\" i32:9 i32:9
u64:17 u8:1 \"shell\\0\" i32:7 \"helper\\0\" i32:8
u64:18 u8:0
u64:35 u8:1 \"helper\\0\" i32:8 \"swapper/0\\0\" i32:0
packet
u32:0xc1fc1fc1 u64:50 u64:55 u32:$content u32:$packet u32:0 u32:3
u64:50 u8:0
u64:52 u8:1 \"x\\0\" i32:77 \"shell\\0\" i32:7
u64:54 u8:0
--- stream cpu1
u32:0xc1fc1fc1 u64:20 u64:60 u32:$content u32:$packet u32:1 u32:0
u64:20 u8:1 \"swapper/1\\0\" i32:0 \"shell\\0\" i32:9
u64:21 u8:3 \"/usr/bin/a-very-long-name\\0\" i32:9 i32:9
u64:22 u8:0
u64:23 u8:1 \"a-very-long-nam\\0\" i32:9 \"swapper/1\\0\" i32:0
u64:24 u8:0
u64:25 u8:1 \"other\\0\" i32:66 \"shell\\0\" i32:7
u64:26 u8:0
";

#[test]
fn events_without_contexts_are_of_the_thread_that_runs() {
    let place = place(SWITCHES);
    let of = |filter: &str| times(&place, &filtered(&format!("name == \"w\" && {filter}")));
    // At 10 and 13 nobody knows yet, at 50 something is lost, at 26 a switch has contradicted the one before.
    assert_eq!(of("$tid == 7"), [15, 54]);
    assert_eq!(of("$tid == 8"), [18]);
    assert_eq!(of("$pid == 7"), [15, 18, 54]);
    assert_eq!(of("$comm == \"helper\""), [18]);
    assert_eq!(of("$comm == \"a-very-long-nam\" && $pid == 9"), [22]);
    assert_eq!(of("$tid == 0 && $pid == 0 && $comm == \"swapper/1\""), [24]);
    assert_eq!(of("!($tid >= 0)"), [10, 13, 26, 50]);
}

#[test]
fn a_switch_is_of_the_thread_that_ends_to_run() {
    let place = place(SWITCHES);
    let of = |filter: &str| times(&place, &filtered(&format!("name == \"sched_switch\" && {filter}")));
    assert_eq!(of("$tid == 7"), [17]);
    assert_eq!(of("$comm == \"helper\" && $pid == 7"), [35]);
}

#[test]
fn what_is_before_a_part_of_time_tells_who_its_events_are_of() {
    let place = place(SWITCHES);
    let selection = Selection {
        pids: vec![7],
        span: Span {
            begin_ns: 18,
            end_ns: 30,
        },
        ..filtered("name == \"w\"")
    };
    assert_eq!(times(&place, &selection), [18]);
    let comms = vec!["*very*".into()];
    let selection = Selection {
        pids: vec![],
        comms,
        ..selection
    };
    assert_eq!(times(&place, &selection), [22]);
}

#[test]
fn a_state_dump_tells_who_was_there_before_it() {
    let text = SWITCHES.replace(
        "event { id = 4;",
        "event { id = 5; name = lttng_statedump_end; };\nevent { id = 4;",
    );
    let text = text
        .replace("u64:11 u8:4 i32:7 i32:7 \"shell\\0\"\n", "")
        .replace("u64:12 u8:4 i32:8 i32:7 \"helper\\0\"\n", "")
        .replace(
            "u64:54 u8:0\n",
            "u64:54 u8:0\nu64:55 u8:4 i32:7 i32:7 \"shell\\0\"\nu64:55 u8:4 i32:9 i32:9 \"child\\0\"\nu64:55 u8:5\n",
        );
    let place = place(&text);
    let of = |filter: &str| times(&place, &filtered(&format!("name == \"w\" && {filter}")));
    assert_eq!(of("$pid == 7"), [15, 54]);
    assert_eq!(of("$pid == 9"), [22]);
    // Its name then may have been another before.
    assert_eq!(of("$comm == \"child\""), [0; 0]);
}

#[test]
fn a_later_state_dump_renews_names() {
    let text = SWITCHES
        .replace(
            "event.header := struct",
            "event.context := struct { int32_t tid; };\n\tevent.header := struct",
        )
        .replace(
            "event { id = 4;",
            "event { id = 5; name = lttng_statedump_start; };\nevent { id = 4;",
        );
    let (metadata, _) = text.split_once("--- stream cpu0").expect("it is there");
    let stream = "--- stream cpu0
u32:0xc1fc1fc1 u64:10 u64:22 u32:$content u32:$packet u32:0 u32:0
u64:10 u8:5 i32:1
u64:11 u8:4 i32:1 i32:7 i32:7 \"shell\\0\"
u64:12 u8:0 i32:7
u64:20 u8:5 i32:1
u64:21 u8:4 i32:1 i32:7 i32:7 \"renamed\\0\"
u64:22 u8:0 i32:7
";
    let place = place(&format!("{metadata}{stream}"));
    let of = |filter: &str| times(&place, &filtered(&format!("name == \"w\" && {filter}")));
    assert_eq!(of("$comm == \"shell\""), [12]);
    assert_eq!(of("$comm == \"renamed\""), [22]);
}

#[test]
fn a_state_dump_does_not_take_back_what_events_have_said() {
    // It looked at the thread before that executed a program, and comes after that.
    let text = SWITCHES.replace(
        "event.header := struct",
        "event.context := struct { int32_t tid; };\n\tevent.header := struct",
    );
    let (metadata, _) = text.split_once("--- stream cpu0").expect("it is there");
    let stream = "--- stream cpu0
u32:0xc1fc1fc1 u64:10 u64:16 u32:$content u32:$packet u32:0 u32:0
u64:10 u8:2 i32:7 \"shell\\0\" i32:9 i32:9
u64:11 u8:3 i32:9 \"/bin/dd\\0\" i32:9 i32:9
u64:12 u8:0 i32:9
u64:13 u8:4 i32:1 i32:9 i32:9 \"shell\\0\"
u64:14 u8:0 i32:9
u64:15 u8:4 i32:1 i32:8 i32:8 \"other\\0\"
u64:16 u8:0 i32:8
";
    let place = place(&format!("{metadata}{stream}"));
    let of = |filter: &str| times(&place, &filtered(&format!("name == \"w\" && {filter}")));
    assert_eq!(of("$comm == \"dd\" && $pid == 9"), [12, 14]);
    assert_eq!(of("$comm == \"other\" && $pid == 8"), [16]);
}

#[test]
fn names_that_no_event_has_are_said() {
    let packet = Packet {
        number: 0,
        discarded: 0,
        events: &[(10, 1)],
    };
    let place = TestTrace::new(&[("s", &[packet])]);
    let (traces, _) = place.open();
    let said = |events: &[&str], filter: &str, fields: &[&str]| {
        let selection = Selection {
            events: events.iter().map(ToString::to_string).collect(),
            filter: Some(Filter::parse(filter).expect("a filter")),
            ..Selection::default()
        };
        let columns: Vec<Column> = fields
            .iter()
            .map(|text| Column::parse(text).expect("a field"))
            .collect();
        absent(&traces, &selection, &columns).join("\n")
    };
    assert_eq!(
        said(&["e", "*"], "a == 1 && $pid == 7 && $payload.a == 1", &["a", "$cpu"]),
        ""
    );
    assert_eq!(
        said(
            &["e", "ee", "x*"],
            "aa == 1 || !($ctx.none[2].x == 1) || aa > 7",
            &["a.b"]
        ),
        "no event in the trace has a name that matches ee; did you mean e?\n\
         no event in the trace has a name that matches x*\n\
         no event in the trace has a field aa; did you mean a?\n\
         no event in the trace has a field none[2].x\n\
         no event in the trace has a field a.b"
    );
    assert_eq!(
        said(&[], "name == \"ee\" || !(\"x\" != name && name =~ \"e*\")", &[]),
        "no event in the trace has a name that matches ee; did you mean e?\n\
         no event in the trace has a name that matches x"
    );
}
