// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of addresses: in every form, in every place where an event may have an address, and nowhere else.

use std::cell::Cell;
use std::path::Path;

use piste_trace::objects::Objects;
use piste_trace::rows::{Column, Form, Rows};
use piste_trace::select::Selection;
use piste_trace::symbols::{EventSymbols, Origin, SymbolSource};
use piste_trace::{Findings, Lines, Trace, open};
use serde_json::{Value, json};

use crate::conformance::each;
use crate::notation;
use crate::test_trace::{TestTrace, times};

const NAMED: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 8; align = 8; } := uint8_t;
typealias integer { size = 64; align = 8; base = 16; } := address_t;
stream {
	event.header := struct { clock_t timestamp; };
	event.context := struct { uint8_t vpid; uint8_t tid; address_t caller; };
};
event {
	name = \"a:b\";
	fields := struct {
		address_t code;
		integer { size = 32; align = 8; base = 16; } narrow;
		integer { size = 64; align = 8; } decimal;
		integer { size = 64; align = 8; signed = true; base = 16; } negative;
		integer { size = 16; align = 8; base = 16; } half;
		uint8_t count;
		address_t stack[count];
		struct { address_t x; } inner;
	};
};
--- stream s
u32:0xc1fc1fc1
u64:5 u8:7 u8:8 u64:16 u64:17 u32:18 u64:19 i64:20 u16:21 u8:2 u64:22 u64:23 u64:24
";

/// Names even addresses by who asks, where and when.
#[derive(Debug, Default)]
struct ByOrigin(String);

impl SymbolSource for ByOrigin {
    fn symbol(&mut self, origin: &Origin, address: u64, bits: u32) -> Option<&str> {
        let Origin { ns, pid, tid, .. } = origin;
        self.0 = format!("{}:{}:{ns}:{bits}+{address:#x}", pid.unwrap_or(0), tid.unwrap_or(0));
        address.is_multiple_of(2).then_some(&self.0)
    }
}

/// Names all addresses alike, or none.
#[derive(Debug)]
struct Alike(Option<&'static str>);

impl SymbolSource for Alike {
    fn symbol(&mut self, _: &Origin, _: u64, _: u32) -> Option<&str> {
        self.0
    }
}

fn named(traces: &[Trace]) -> EventSymbols<'_> {
    EventSymbols::new(traces, Box::new(ByOrigin::default()))
}

fn all(mut next: impl FnMut(&mut Vec<u8>) -> bool) -> String {
    let mut out = vec![];
    while next(&mut out) {}
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn addresses_have_their_names_behind_them() {
    let place = TestTrace::of(&notation::Trace::parse(NAMED, Path::new("")).expect("a trace"));
    let (traces, _) = place.open();
    let selection = Selection::default();
    let mut lines = Lines::new(&traces, &selection, times()).expect("its files are there");
    lines.set_symbols(named(&traces));
    assert_eq!(
        all(|out| lines.next(out)),
        "[00:00:00.000000005] (+?.?????????) a:b: { vpid = 7, tid = 8, caller = 0x10 <7:8:5:64+0x10> }, \
         { code = 0x11, narrow = 0x12 <7:8:5:32+0x12>, decimal = 19, negative = 0x14, half = 0x15, count = 2, \
         stack = [ [0] = 0x16 <7:8:5:64+0x16>, [1] = 0x17 ], inner = { x = 0x18 <7:8:5:64+0x18> } }\n"
    );
    let mut objects = Objects::new(&traces, &selection).expect("its files are there");
    objects.set_symbols(named(&traces));
    let object: Value = serde_json::from_str(&all(|out| objects.next(out))).expect("JSON");
    let symbol = |value: u64, bits: u32| json!({ "value": value, "symbol": format!("7:8:5:{bits}+{value:#x}") });
    assert_eq!(
        (&object["event_context"]["caller"], &object["payload"]),
        (
            &symbol(16, 64),
            &json!({
                "code": 17, "narrow": symbol(18, 32), "decimal": 19, "negative": 20, "half": 21, "count": 2,
                "stack": [symbol(22, 64), 23], "inner": { "x": symbol(24, 64) }
            })
        )
    );
    let columns = ["narrow", "code", "stack[0]", "inner"].map(|text| Column::parse(text).expect("a column"));
    for (form, expected) in [
        (
            Form::Csv,
            "00:00:00.000000005,a:b,7:8:5:32+0x12,17,7:8:5:64+0x16,\"{\"\"x\"\":{\"\"value\"\":24,\"\"symbol\"\":\"\"7:8:5:64+0x18\"\"}}\"\r\n",
        ),
        (
            Form::Json,
            "{\"time_ns\":\"5\",\"name\":\"a:b\",\"narrow\":{\"value\":18,\"symbol\":\"7:8:5:32+0x12\"},\"code\":17,\
             \"stack[0]\":{\"value\":22,\"symbol\":\"7:8:5:64+0x16\"},\"inner\":{\"x\":{\"value\":24,\"symbol\":\"7:8:5:64+0x18\"}}}\n",
        ),
        (
            Form::Text,
            "[00:00:00.000000005] (+?.?????????) a:b: { narrow = 0x12 <7:8:5:32+0x12>, code = 0x11, \
             stack[0] = 0x16 <7:8:5:64+0x16>, inner = { x = 0x18 <7:8:5:64+0x18> } }\n",
        ),
    ] {
        let mut rows = Rows::new(&traces, &selection, &columns, form, times()).expect("its files are there");
        rows.set_symbols(named(&traces));
        assert_eq!(all(|out| rows.next(out)), expected);
    }
}

#[test]
fn nothing_but_addresses_is_shown_in_another_way() {
    let named_count = Cell::new(0);
    each(|name, place, _| {
        let Ok(traces) = open(&place.folder, &mut Findings::default()) else {
            return;
        };
        let selection = Selection::default();
        let lines = |symbol: Option<Option<&'static str>>| {
            let mut lines = Lines::new(&traces, &selection, times()).expect("its files are there");
            if let Some(symbol) = symbol {
                lines.set_symbols(EventSymbols::new(&traces, Box::new(Alike(symbol))));
            }
            all(|out| lines.next(out))
        };
        let plain = lines(None);
        assert_eq!(lines(Some(None)), plain, "{name}");
        let named = lines(Some(Some("here+0x4")));
        named_count.set(named_count.get() + named.matches(" <here+0x4>").count());
        assert_eq!(named.replace(" <here+0x4>", ""), plain, "{name}");
    });
    assert!(named_count.get() > 0, "some of them have addresses");
}
