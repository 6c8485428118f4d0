// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as JSON and as rows: of every kind of field that there is, and each value exactly.

use std::path::Path;

use piste_ctf::read::text::{TimeFormat, Times, WallTime};
use piste_trace::objects::Objects;
use piste_trace::rows::{Column, Form, Rows};
use piste_trace::select::Selection;
use piste_trace::{Findings, Lines, open};
use serde_json::{Value, json};

use crate::conformance::each;
use crate::notation;
use crate::test_trace::{TestTrace, times};

fn all(mut next: impl FnMut(&mut Vec<u8>) -> bool) -> String {
    let mut out = vec![];
    while next(&mut out) {}
    String::from_utf8(out).expect("it is UTF-8 whatever the trace holds")
}

fn objects(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parse).collect()
}

#[test]
fn every_event_of_every_trace_is_an_object_and_a_row() {
    each(|name, place, _| {
        let Ok(traces) = open(&place.folder, &mut Findings::default()) else {
            return;
        };
        let selection = Selection::default();
        let mut lines = Lines::new(&traces, &selection, times()).expect("its files are there");
        let mut count = 0;
        while lines.next(&mut vec![]) {
            count += 1;
        }
        let mut of_json = Objects::new(&traces, &selection).expect("its files are there");
        // An event that cannot be shown as a line has thousands of elements without a size.
        let objects = objects(&all(|out| of_json.next(out)));
        assert!(objects.len() >= count, "{name}");
        let columns = Column::all(&traces, &selection);
        for form in [Form::Csv, Form::Json, Form::Text] {
            let mut rows = Rows::new(&traces, &selection, &columns, form, times()).expect("its files are there");
            let mut shown = 0;
            let mut out = vec![];
            while rows.next(&mut out) {
                shown += 1;
                if form == Form::Json {
                    let row: Value = serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert_eq!(row["name"], objects[shown - 1]["name"], "{name}");
                }
                out.clear();
            }
            assert_eq!(shown, objects.len(), "{name}");
        }
    });
}

const VALUES: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
clock { name = c; freq = 1000000000; offset_s = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 8; align = 8; } := uint8_t;
stream { event.header := struct { clock_t timestamp; }; event.context := struct { uint8_t cpu_id; }; };
event {
	name = \"a:b\";
	fields := struct {
		integer { size = 64; align = 8; } most;
		integer { size = 64; align = 8; signed = true; } least;
		integer { size = 8; align = 8; base = 16; } hex;
		floating_point { exp_dig = 11; mant_dig = 53; align = 8; } real;
		floating_point { exp_dig = 8; mant_dig = 24; align = 8; } small;
		floating_point { exp_dig = 8; mant_dig = 24; align = 8; } nan;
		string text;
		enum : uint8_t { tea = 1, hot = 1 ... 2 } kind;
		uint8_t time;
		struct { uint8_t x; uint8_t y[2]; } inner;
		uint8_t count;
		string texts[count];
		variant <kind> { uint8_t tea; string hot; } extra;
	};
};
--- stream s
u32:0xc1fc1fc1
u64:5 u8:3 u64:18446744073709551615 i64:-9223372036854775808 u8:255 f64:0.1 f32:0.1 00 00 c0 7f 73 61 79 20 22 61 2c 20 62 22 00 u8:1 u8:9 u8:1 u8:2 u8:3 u8:2 \"p\\0\" \"q\\0\" u8:7
";

fn values() -> TestTrace {
    TestTrace::of(&notation::Trace::parse(VALUES, Path::new("")).expect("a trace"))
}

#[test]
fn json_keeps_every_value() {
    let place = values();
    let (traces, _) = place.open();
    let mut of_json = Objects::new(&traces, &Selection::default()).expect("its files are there");
    let text = all(|out| of_json.next(out));
    assert!(
        text.contains("\"most\":\"18446744073709551615\",\"least\":\"-9223372036854775808\","),
        "{text}"
    );
    assert_eq!(
        objects(&text)[0],
        json!({
            "time_ns": "1000000000000000005", "time": "2001-09-09T01:46:40.000000005Z", "name": "a:b", "cpu": 3,
            "trace": "", "stream": "s", "event_context": { "cpu_id": 3 },
            "payload": {
                "most": u64::MAX.to_string(), "least": i64::MIN.to_string(), "hex": 255, "real": 0.1, "small": 0.1, "nan": "NaN", "text": "say \"a, b\"",
                "kind": { "value": 1, "labels": ["tea", "hot"] }, "time": 9, "inner": { "x": 1, "y": [2, 3] },
                "count": 2, "texts": ["p", "q"], "extra": 7
            }
        })
    );
}

#[test]
fn rows_have_what_was_asked_for() {
    let place = values();
    let (traces, _) = place.open();
    let selection = Selection::default();
    let columns = [
        "text",
        "kind",
        "inner",
        "inner.y[1]",
        "texts[0]",
        "nan",
        "extra",
        "$cpu",
        "$tid",
        "none",
        "$payload.time",
    ];
    let columns: Vec<Column> = columns
        .iter()
        .map(|text| Column::parse(text).expect("a column"))
        .collect();
    let seconds = || Times::new(TimeFormat::Seconds, |seconds| Some(WallTime::utc(seconds)));
    let shown = |form| {
        let mut rows = Rows::new(&traces, &selection, &columns, form, seconds()).expect("its files are there");
        let mut out = vec![];
        rows.heading(&mut out);
        String::from_utf8(out).expect("UTF-8") + &all(|out| rows.next(out))
    };
    assert_eq!(
        shown(Form::Csv),
        "time,name,text,kind,inner,inner.y[1],texts[0],nan,extra,$cpu,$tid,none,$payload.time\r\n\
         1000000000.000000005,a:b,\"say \"\"a, b\"\"\",tea,\"{\"\"x\"\":1,\"\"y\"\":[2,3]}\",3,p,NaN,7,3,,,9\r\n"
    );
    assert_eq!(
        shown(Form::Json),
        "{\"time_ns\":\"1000000000000000005\",\"name\":\"a:b\",\"text\":\"say \\\"a, b\\\"\",\"kind\":{\"value\":1,\"labels\":[\"tea\",\"hot\"]},\
         \"inner\":{\"x\":1,\"y\":[2,3]},\"inner.y[1]\":3,\"texts[0]\":\"p\",\"nan\":\"NaN\",\"extra\":7,\"$cpu\":3,\"$payload.time\":9}\n"
    );
    assert_eq!(
        shown(Form::Text),
        "[1000000000.000000005] (+?.?????????) a:b: { text = \"say \\\"a, b\\\"\", kind = ( \"tea\", \"hot\" : container = 1 ), \
         inner = { x = 1, y = [ [0] = 2, [1] = 3 ] }, inner.y[1] = 3, texts[0] = \"p\", nan = nan, extra = 7, $cpu = 3, $payload.time = 9 }\n"
    );
    let all = Column::all(&traces, &selection);
    let headings: Vec<&str> = all.iter().map(Column::heading).collect();
    assert_eq!(
        headings.join(" "),
        "cpu cpu_id most least hex real small nan text kind $payload.time inner count texts extra"
    );
}
