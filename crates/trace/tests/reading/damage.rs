// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is missing or damaged is found with its place, and everything else is read.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use piste_ctf::index::{Entry, file_header};
use piste_trace::Span;
use piste_trace::blind::blind;

use crate::test_trace::{Packet, TestTrace};

/// Bytes of a packet's header and context, and of an event.
const HEAD_BYTES: usize = 44;
const EVENT_BYTES: usize = 12;

fn place() -> TestTrace {
    let packet = |number, discarded, events| Packet {
        number,
        discarded,
        events,
    };
    TestTrace::new(&[(
        "a",
        &[
            packet(0, 0, &[(10, 1), (20, 2)]),
            packet(1, 0, &[(30, 3), (40, 4)]),
            packet(2, 0, &[(50, 5), (60, 6)]),
        ],
    )])
}

#[test]
fn discarded_events_and_lost_packets_are_counted() {
    let packet = |number, discarded, events| Packet {
        number,
        discarded,
        events,
    };
    let place = TestTrace::new(&[(
        "a",
        &[
            packet(0, 2, &[(10, 1)]),
            packet(1, 5, &[(20, 2)]),
            packet(4, 5, &[(30, 3)]),
            packet(5, 6, &[(40, 4)]),
        ],
    )]);
    let (values, findings) = place.read(Span::ALL);
    assert_eq!(values, "1 2 3 4");
    assert_eq!(findings, ["DiscardedEvents 6 at 0", "LostPackets 2 at 112"]);
}

/// A tracer counts what it discards behind the last event of a packet in that packet, or in the next.
#[test]
fn discarded_events_may_be_missing_up_to_the_next_packet() {
    let packet = |number, discarded, events| Packet {
        number,
        discarded,
        events,
    };
    let place = TestTrace::new(&[
        (
            "a",
            &[
                packet(0, 0, &[(10, 1), (20, 2)]),
                packet(1, 5, &[(30, 3), (40, 4)]),
                packet(2, 5, &[(50, 5), (60, 6)]),
                packet(4, 6, &[(70, 7), (80, 8)]),
            ],
        ),
        ("b", &[packet(0, 0, &[(10, 1), (90, 2)])]),
    ]);
    let (traces, _) = place.open();
    let parts = blind(&traces[0]);
    let parts: Vec<(i64, i64)> = parts.iter().map(|part| (part.begin_ns, part.end_ns)).collect();
    assert_eq!(parts, [(20, 50), (60, 90)]);
}

#[test]
fn a_file_that_is_cut_gives_the_events_before() {
    let place = place();
    let packet_bytes = HEAD_BYTES + 2 * EVENT_BYTES;
    place.damage("a", |bytes| bytes.truncate(3 * packet_bytes - 3));
    let (values, findings) = place.read(Span::ALL);
    assert_eq!(values, "1 2 3 4 5");
    assert_eq!(findings, [format!("CutFile 1 at {}", 2 * packet_bytes)]);
    place.damage("a", |bytes| bytes.truncate(2 * packet_bytes + 3));
    assert_eq!(place.read(Span::ALL).0, "1 2 3 4");
}

#[test]
fn behind_a_damaged_packet_the_next_is_read() {
    let place = place();
    let packet_bytes = HEAD_BYTES + 2 * EVENT_BYTES;
    place.damage("a", |bytes| bytes[packet_bytes] ^= 0xff);
    let (values, findings) = place.read(Span::ALL);
    assert_eq!(values, "1 2 5 6");
    assert_eq!(
        findings,
        [
            format!("LostPackets 1 at {}", 2 * packet_bytes),
            format!("DamagedPacket 1 at {packet_bytes}")
        ]
    );
}

/// The index that a tracer writes beside the only stream of a place.
fn write_index(place: &TestTrace, change: impl FnOnce(&mut Vec<Entry>)) -> PathBuf {
    let packet_bytes = (HEAD_BYTES + 2 * EVENT_BYTES) as u64;
    let entry = |number: u64| Entry {
        offset_bytes: number * packet_bytes,
        packet_bits: 8 * packet_bytes,
        content_bits: 8 * packet_bytes,
        timestamp_begin: 10 + 20 * number,
        timestamp_end: 20 + 20 * number,
        packet_seq_num: number,
        ..Entry::default()
    };
    let mut entries: Vec<Entry> = (0..3).map(entry).collect();
    change(&mut entries);
    let bytes: Vec<u8> = file_header()
        .into_iter()
        .chain(entries.iter().flat_map(Entry::encode))
        .collect();
    let folder = place.folder.join("index");
    fs::create_dir_all(&folder).expect("a folder is made");
    fs::write(folder.join("a.idx"), bytes).expect("it is written");
    folder.join("a.idx")
}

#[test]
fn packets_that_a_file_has_lost_at_its_end_are_told_by_its_index() {
    let place = place();
    let packet_bytes = HEAD_BYTES + 2 * EVENT_BYTES;
    let index = write_index(&place, |_| {});
    assert_eq!(place.read(Span::ALL).1, Vec::<String>::new());
    // One of those that are missing is there in part.
    place.damage("a", |bytes| bytes.truncate(packet_bytes + 50));
    assert_eq!(
        place.read(Span::ALL).1,
        [
            format!("CutFile 1 at {packet_bytes}"),
            format!("MissingPackets 1 at {}", packet_bytes + 50)
        ]
    );
    place.damage("a", |bytes| bytes.truncate(packet_bytes));
    let (values, findings) = place.read(Span::ALL);
    assert_eq!(values, "1 2");
    assert_eq!(findings, [format!("MissingPackets 2 at {packet_bytes}")]);
    let (traces, _) = place.open();
    let parts = blind(&traces[0]);
    assert_eq!((parts.len(), parts[0].begin_ns), (1, 20));
    // An entry that is being written.
    fs::File::options()
        .append(true)
        .open(&index)
        .and_then(|mut file| file.write_all(&[7; 71]))
        .expect("it is written");
    assert_eq!(place.read(Span::ALL).1, [format!("MissingPackets 2 at {packet_bytes}")]);
}

#[test]
fn an_index_is_believed_only_where_nothing_speaks_against_it() {
    let place = place();
    let packet_bytes = HEAD_BYTES + 2 * EVENT_BYTES;
    place.damage("a", |bytes| bytes.truncate(packet_bytes));
    let changes: [fn(&mut Vec<Entry>); 8] = [
        |entries| entries.truncate(1),
        |entries| entries.clear(),
        |entries| entries[0].timestamp_begin += 1,
        |entries| entries[1].offset_bytes += 8,
        |entries| entries[1].stream_id += 1,
        |entries| entries[2].stream_instance_id += 1,
        |entries| entries[2].timestamp_end = 0,
        |entries| entries[2].packet_bits = 0,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        write_index(&place, change);
        assert_eq!(place.read(Span::ALL).1, Vec::<String>::new(), "change {number}");
    }
    let index = write_index(&place, |_| {});
    let whole = fs::read(&index).expect("it is there");
    for damage in [&whole[..15], &whole[1..], &[]] {
        fs::write(&index, damage).expect("it is written");
        assert_eq!(place.read(Span::ALL).1, Vec::<String>::new());
    }
    fs::write(&index, &whole).expect("it is written");
    let file = fs::File::options().write(true).open(&index).expect("it is there");
    file.set_len(1 << 40).expect("it has a hole");
    assert_eq!(place.read(Span::ALL).1, Vec::<String>::new());
}

#[test]
fn a_file_without_any_packet_has_lost_them_where_piste_wrote_it() {
    let place = place();
    write_index(&place, |_| {});
    place.damage("a", Vec::clear);
    assert_eq!(place.read(Span::ALL), (String::new(), vec![]));
    let metadata = place.folder.join("metadata");
    let text = fs::read_to_string(&metadata).expect("metadata");
    fs::write(&metadata, text + "env { piste_version = \"0.1.0\"; };\n").expect("it is written");
    assert_eq!(place.read(Span::ALL).1, ["MissingPackets 3 at 0"]);
}

#[test]
fn behind_a_hole_the_next_packet_is_read() {
    let place = place();
    let packet_bytes = HEAD_BYTES + 2 * EVENT_BYTES;
    let path = place.folder.join("a");
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .expect("a stream");
    let mut last = vec![0; packet_bytes];
    file.read_exact_at(&mut last, 2 * packet_bytes as u64)
        .expect("it has three");
    file.set_len(2 * packet_bytes as u64).expect("it is cut");
    file.write_all_at(&last, 8 << 30).expect("it is moved");
    let (values, findings) = place.read(Span::ALL);
    assert_eq!(values, "1 2 3 4 5 6");
    assert_eq!(findings, [format!("DamagedPacket 1 at {}", 2 * packet_bytes)]);
}

#[test]
fn a_packet_that_ends_within_an_event_gives_those_before() {
    let place = place();
    // Its content is said to be three bytes shorter.
    place.damage("a", |bytes| bytes[28] -= 3 * 8);
    let (values, findings) = place.read(Span::ALL);
    assert_eq!(values, "1 3 4 5 6");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].starts_with("DamagedEvent 1 at "), "{findings:?}");
}

#[test]
fn places_that_look_like_packets_cost_little() {
    let header = "packet.header := struct { integer { size = 32; align = 8; } magic; string text; };";
    let text = format!(
        "\n--- metadata\ntrace {{ major = 1; minor = 8; byte_order = le; {header} }};\n\
         stream {{ }};\nevent {{ name = e; fields := struct {{ string s; }}; }};\n--- stream a\n\"x\"\n"
    );
    let place = TestTrace::of(&crate::notation::Trace::parse(&text, std::path::Path::new("")).expect("a trace"));
    // Each is a start, of a text that does not end.
    place.damage("a", |bytes| bytes.extend([0xc1, 0x1f, 0xfc, 0xc1].repeat(100_000)));
    let began = Instant::now();
    let (_, findings) = place.read(Span::ALL);
    assert!(!findings.is_empty());
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// One class of events, then another; each ends its own line.
fn two_classes(events: &str) -> String {
    format!(
        "\n--- metadata\ntrace {{ major = 1; minor = 8; byte_order = le; }};\n\
         stream {{ event.header := struct {{ integer {{ size = 8; }} id; }}; }};\n\
         event {{ id = 0; name = whole; fields := struct {{ integer {{ size = 8; }} a; }}; }};\n{events}\
         \n--- stream s\n00 01 00 02\n"
    )
}

fn place_of(text: &str) -> TestTrace {
    TestTrace::of(&crate::notation::Trace::parse(text, std::path::Path::new("")).expect("a trace"))
}

#[test]
fn metadata_that_is_cut_anywhere_gives_the_events_of_whole_classes() {
    let text = two_classes("event { id = 1; name = other; fields := struct { string b; }; };");
    let metadata_bytes = {
        let place = place_of(&text);
        std::fs::read(place.folder.join("metadata")).expect("metadata")
    };
    let first = "a; }; };\n";
    let whole = metadata_bytes
        .windows(first.len())
        .position(|part| part == first.as_bytes())
        .expect("the first class ends")
        + first.len();
    for cut in whole..metadata_bytes.len() {
        let place = place_of(&text);
        place.damage("metadata", |bytes| bytes.truncate(cut));
        let (values, findings) = place.read(Span::ALL);
        assert_eq!(values, "1 2", "cut at {cut}");
        // What is behind the last brace may be cut without a loss.
        let is_whole = metadata_bytes[cut..].iter().all(|byte| b"}; \n".contains(byte)) || cut == whole;
        assert!(
            is_whole || findings == ["DamagedMetadata 1 at 0"],
            "cut at {cut}: {findings:?}"
        );
    }
}

#[test]
fn a_fragment_that_is_cut_anywhere_costs_its_own_events() {
    let place = place_of(&two_classes(
        "event { id = 1; name = other; fields := struct { string b; }; };",
    ));
    let metadata = std::fs::read(place.folder.join("metadata")).expect("metadata");
    let schema = piste_ctf::read::metadata::parse(&metadata).expect("it is whole");
    let fragments = piste_ctf::write::json(&schema).expect("CTF 2 has all of it");
    assert_eq!(place.read(Span::ALL), ("1 2".into(), vec![]));
    place.damage("metadata", |bytes| *bytes = fragments.clone().into_bytes());
    assert_eq!(place.read(Span::ALL), ("1 2".into(), vec![]));
    let last = fragments.rfind('\u{1e}').expect("fragments begin with it");
    let end = fragments.trim_end().len();
    for cut in last + 2..end {
        place.damage("metadata", |bytes| *bytes = fragments.as_bytes()[..cut].to_vec());
        assert_eq!(
            place.read(Span::ALL),
            ("1 2".into(), vec!["DamagedMetadata 1 at 0".into()]),
            "cut at {cut}"
        );
    }
}

#[test]
fn a_class_that_is_wrong_costs_its_own_events() {
    for wrong in [
        "event { id = 1; name = other; fields := struct { no_type b; }; };\n",
        "event { id = 1; name = other; fields := struct { integer { size = 8; } b[no_length]; }; };\n",
        "event { id = 1; stream_id = 7; name = other; };\n",
    ] {
        let place = place_of(&two_classes(wrong));
        assert_eq!(
            place.read(Span::ALL),
            ("1 2".into(), vec!["DamagedMetadata 1 at 0".into()]),
            "{wrong}"
        );
    }
}

#[test]
fn a_packet_with_the_uuid_of_another_trace_is_read_and_found() {
    let header = "packet.header := struct { integer { size = 8; } uuid[16]; };";
    let text = format!(
        "\n--- metadata\ntrace {{ major = 1; minor = 8; byte_order = le; uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; {header} }};\n\
         stream {{ }};\nevent {{ name = e; fields := struct {{ integer {{ size = 8; }} a; }}; }};\n\
         --- stream s\n00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee fe 07\n"
    );
    assert_eq!(
        place_of(&text).read(Span::ALL),
        ("7".into(), vec!["OtherTrace 1 at 0".into()])
    );
}

#[test]
fn fields_without_a_size_do_not_fill_the_memory() {
    let twice = |number: u32| {
        format!(
            "struct s{} {{ struct s{number} a; struct s{number} b; }};\n",
            number + 1
        )
    };
    let structs: String = (0..14).map(twice).collect();
    let text = format!(
        "\n--- metadata\ntrace {{ major = 1; minor = 8; byte_order = le; }};\nstruct s0 {{ }};\n{structs}stream {{ }};\n\
         event {{ name = e; fields := struct {{ integer {{ size = 8; }} a; struct s14 x[4000]; }}; }};\n--- stream s\n01 02\n"
    );
    let (values, findings) = place_of(&text).read(Span::ALL);
    assert_eq!(values, "");
    assert_eq!(findings, ["DamagedEvent 2 at 0"]);
}
