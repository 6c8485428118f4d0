// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded trace, damaged in one way after the other: `piste stats` counts the events that can be read and says what is wrong and where;
//! `piste view` shows as many.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_support::build_tree::binary;
use piste_support::{Workplace, process};
use serde_json::Value;

/// A trace with one stream file of packets of 4 KiB, and what an undamaged one is.
struct Recorded {
    place: Workplace,
    /// Of `metadata` and the stream.
    trace: PathBuf,
    stream: PathBuf,
    /// Of the tracer, of the stream.
    index: PathBuf,
    /// Behind the last packet.
    bytes: u64,
    events: u64,
}

const PACKET_BYTES: u64 = 4096;

impl Recorded {
    /// One thread on one CPU writes 2000 events, in packets of one size.
    fn new() -> Recorded {
        let place = Workplace::new();
        let options = [
            "-u",
            "count:*",
            "--block",
            "forever",
            "--subbuf-size",
            "4K",
            "--num-subbuf",
            "8",
        ];
        // On two CPUs it would write two streams.
        let program = place.program("count.c");
        let cpu = rustix::thread::sched_getcpu().to_string();
        let arguments = ["-c", &cpu, program.to_str().expect("UTF-8"), "1", "2000"];
        let recording = place.record(&options, "taskset", &arguments);
        recording.expect_whole();
        let original = recording.trace().path().to_owned();
        // Without its index files, as other tracers leave it.
        let trace = place.path("damaged");
        fs::create_dir(&trace).expect("a folder is made");
        let mut streams = Vec::new();
        for file in files(&original) {
            let name = file.file_name().expect("it has a name");
            fs::copy(&file, trace.join(name)).expect("it is copied");
            if name != "metadata" && fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0) {
                let mut index = name.to_owned();
                index.push(".idx");
                streams.push((trace.join(name), file.with_file_name("index").join(index)));
            }
        }
        streams.sort_by_key(|(path, _)| fs::metadata(path).map_or(0, |metadata| metadata.len()));
        let (stream, index) = streams.pop().expect("a stream with events");
        let mut recorded = Recorded {
            bytes: fs::metadata(&stream).expect("it is there").len(),
            place,
            trace,
            stream,
            index,
            events: recording.events(),
        };
        assert!(recorded.bytes > 4 * PACKET_BYTES, "{} bytes", recorded.bytes);
        let (events, findings) = recorded.read();
        assert_eq!((events, findings), (recorded.events, vec![]));
        recorded.events = events;
        recorded
    }

    fn stats(&self) -> Value {
        let folder = self.trace.to_str().expect("UTF-8");
        self.place.piste_json(&["stats", folder])
    }

    /// How many events can be read, and kinds, counts and places of what was found.
    fn read(&self) -> (u64, Vec<(String, u64, u64)>) {
        let stats = self.stats();
        let events = stats["events"].as_u64().expect("a number");
        let mut view = self.place.command(binary("piste"));
        let shown = process::run(view.arg("view").arg(&self.trace));
        shown.expect_success();
        assert_eq!(shown.stdout.lines().count() as u64, events, "{}", shown.stderr);
        let findings = stats["findings"].as_array().expect("an array").iter();
        let findings = findings.map(|finding| {
            let number = |key: &str| finding[key].as_u64().expect("a number");
            let kind = finding["kind"].as_str().expect("a text");
            (kind.to_owned(), number("count"), number("offset_bytes"))
        });
        (events, findings.collect())
    }

    /// Kinds alone, with the number of events that are missing.
    fn kinds(&self) -> (u64, Vec<String>) {
        let (events, findings) = self.read();
        assert!(events < self.events, "nothing is missing");
        (
            self.events - events,
            findings.into_iter().map(|(kind, ..)| kind).collect(),
        )
    }

    fn damage(&self, file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(file).expect("it can be read");
        change(&mut bytes);
        fs::write(file, bytes).expect("it can be written");
    }

    fn restore(&self, stream: &[u8]) {
        fs::write(&self.stream, stream).expect("it can be written");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it can be listed") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true if path.ends_with("index") => {}
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Where the size of the content and of the packet stand, in bytes (docs/reference/trace-format.md).
fn packets(bytes: &[u8]) -> Vec<usize> {
    let magic = 0xc1fc_1fc1_u32.to_le_bytes();
    let starts = bytes.windows(4).enumerate().filter(|(_, word)| *word == magic);
    starts.map(|(at, _)| at).collect()
}

#[test]
fn damaged_packets_cost_what_is_in_them() {
    let recorded = Recorded::new();
    let whole = fs::read(&recorded.stream).expect("it can be read");
    let starts = packets(&whole);
    let second = starts[1];

    recorded.damage(&recorded.stream, |bytes| bytes[second] ^= 0xff);
    let (events, findings) = recorded.read();
    assert!(events < recorded.events && events > recorded.events / 2, "{events}");
    assert!(
        findings.contains(&("damaged_packet".into(), 1, second as u64)),
        "{findings:?}"
    );
    assert!(
        findings
            .iter()
            .any(|(kind, count, _)| kind == "lost_packets" && *count == 1),
        "{findings:?}"
    );

    // Zeros, as a file system leaves them after a crash.
    recorded.restore(&whole);
    recorded.damage(&recorded.stream, |bytes| bytes[second..second + 4096].fill(0));
    let (_, kinds) = recorded.kinds();
    assert!(kinds.contains(&"damaged_packet".into()), "{kinds:?}");

    // Something that is no event, in the middle of a packet.
    recorded.restore(&whole);
    recorded.damage(&recorded.stream, |bytes| bytes[second + 2048..second + 2112].fill(0xff));
    let (_, findings) = recorded.read();
    let place = |(_, _, offset): &(String, u64, u64)| (second as u64..second as u64 + PACKET_BYTES).contains(offset);
    assert!(!findings.is_empty() && findings.iter().any(place), "{findings:?}");

    // The packets of two places changed: nothing is lost, and time goes back.
    recorded.restore(&whole);
    let third = starts[2];
    assert_eq!(third - second, starts[3] - third, "packets are of one size");
    recorded.damage(&recorded.stream, |bytes| {
        let (left, right) = bytes.split_at_mut(third);
        left[second..].swap_with_slice(&mut right[..third - second]);
    });
    let (events, findings) = recorded.read();
    assert_eq!(events, recorded.events);
    assert!(
        findings.iter().any(|(kind, ..)| kind == "time_goes_back"),
        "{findings:?}"
    );
}

#[test]
fn files_that_are_cut_give_what_is_before() {
    let recorded = Recorded::new();
    let whole = fs::read(&recorded.stream).expect("it can be read");
    let third = packets(&whole)[2];
    let mut before = 0;
    for cut in [third, third + 2, third + 60, third + 2000] {
        recorded.restore(&whole[..cut]);
        let (events, findings) = recorded.read();
        assert!(events >= before && events < recorded.events, "{events} of {cut} bytes");
        before = events;
        match cut == third {
            true => assert_eq!(findings, []),
            false => assert_eq!(findings, [("cut_file".into(), 1, third as u64)], "{cut}"),
        }
    }
    recorded.restore(&[]);
    assert_eq!(recorded.read(), (0, vec![]));
}

/// Cut at the end of a packet, a file looks whole.
#[test]
fn packets_that_a_file_has_lost_are_known_from_its_index() {
    let recorded = Recorded::new();
    let folder = recorded.trace.join("index");
    fs::create_dir(&folder).expect("a folder is made");
    let index = folder.join(recorded.index.file_name().expect("a name"));
    fs::copy(&recorded.index, index).expect("it is copied");
    assert_eq!(recorded.read(), (recorded.events, vec![]));
    let whole = fs::read(&recorded.stream).expect("it can be read");
    let starts = packets(&whole);
    let missing = |count: usize, offset: usize| ("missing_packets".to_owned(), count as u64, offset as u64);
    for left in [starts.len() - 1, 2, 0] {
        recorded.restore(&whole[..starts[left]]);
        let (events, findings) = recorded.read();
        assert!(events < recorded.events, "{events}");
        assert_eq!(findings, [missing(starts.len() - left, starts[left])]);
    }
    recorded.restore(&whole[..starts[2]]);
    let view = recorded.place.piste(&["view", recorded.trace.to_str().expect("UTF-8")]);
    let sentence = format!(
        "the last {} packets that the index lists are missing from the file, at byte",
        starts.len() - 2
    );
    assert!(view.stderr.contains(&sentence), "{}", view.stderr);
}

/// Every verb that reads a trace, with the status that it has to end with where nothing can be read.
const VERBS: [&[&str]; 5] = [
    &["view"],
    &["stats"],
    &["info"],
    &["query", "SELECT count(*) FROM events"],
    &["export", "--format", "json", "-o", "exported"],
];

/// Reads a damaged trace in every way: all say what is wrong, and nobody that nothing is lost.
fn expect_said(place: &Workplace, trace: &Path, what: &str, status: i32) {
    for verb in VERBS {
        let _ = fs::remove_file(place.path("exported"));
        let (name, options) = verb.split_first().expect("a verb");
        let finished = place.piste(&[&[name, trace.to_str().expect("UTF-8")], options].concat());
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert!(said.contains(what), "{verb:?}: {finished}");
        assert!(
            !said.contains("nothing lost") && !said.contains("panicked"),
            "{verb:?}: {finished}"
        );
        assert_eq!(finished.status, status, "{verb:?}: {finished}");
    }
}

/// A recording with everything that Piste writes, beside another trace.
fn two_traces() -> (Workplace, PathBuf) {
    let place = Workplace::new();
    let program = place.program("count.c");
    let both = place.path("both");
    fs::create_dir(&both).expect("a folder is made");
    for name in ["one", "two"] {
        let options = ["-u", "count:*", "--subbuf-size", "4K", "--num-subbuf", "64"];
        let recording = place.record(&options, &program, &["1", "2000"]);
        recording.expect_whole();
        fs::rename(recording.trace().path(), both.join(name)).expect("it is moved");
    }
    (place, both)
}

fn only_stream(folder: &Path) -> PathBuf {
    let files = files(folder).into_iter();
    let mut streams: Vec<PathBuf> = files
        .filter(|file| file.file_name().is_some_and(|name| name != "metadata"))
        .collect();
    streams.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).map_or(0, |metadata| metadata.len())));
    streams.swap_remove(0)
}

#[test]
fn what_somebody_took_from_a_trace_is_said_by_whoever_reads_it() {
    let (place, both) = two_traces();
    let folder = both.join("one/user");
    let kept = place.path("kept");
    let stream = only_stream(&folder);
    let name = stream.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    let index = folder.join("index").join(format!("{name}.idx"));
    let damage = |what: &str, alone: i32, damaged: &dyn Fn()| {
        place
            .run(
                "cp",
                &["-a", both.to_str().expect("UTF-8"), kept.to_str().expect("UTF-8")],
            )
            .expect_success();
        damaged();
        expect_said(&place, &both, what, 0);
        expect_said(&place, &folder, what, alone);
        fs::remove_dir_all(&both).expect("it is there");
        fs::rename(&kept, &both).expect("it is there");
    };
    let metadata = folder.join("metadata");
    damage("its file `metadata` is missing", 1, &|| {
        fs::remove_file(&metadata).expect("it is there")
    });
    damage("the metadata is empty", 1, &|| {
        fs::write(&metadata, "").expect("it can be written")
    });
    damage("line 1, column ", 1, &|| {
        fs::write(&metadata, [0xa5; 3000]).expect("it can be written")
    });
    damage("metadata: ", 1, &|| {
        let text = fs::read(&metadata).expect("it is there");
        fs::write(&metadata, &text[..text.len() / 2]).expect("it can be written");
    });
    damage("the file is missing, with the ", 0, &|| {
        fs::remove_file(&stream).expect("it is there")
    });
    damage("its index is missing", 0, &|| {
        fs::remove_file(&index).expect("it is there")
    });
    damage("its index is truncated: it lists 1 of ", 0, &|| {
        let bytes = fs::read(&index).expect("it is there");
        fs::write(&index, &bytes[..100]).expect("it can be written");
    });
    damage("its index is damaged", 0, &|| {
        fs::write(&index, [0xa5; 400]).expect("it can be written")
    });
}

#[test]
fn metadata_that_a_crash_has_cut_is_used_as_far_as_it_goes() {
    let recorded = Recorded::new();
    let metadata = recorded.trace.join("metadata");
    recorded.damage(&metadata, |bytes| bytes.extend(b"event { id = 77; stream_id = 0; na"));
    assert_eq!(
        recorded.read(),
        (recorded.events, vec![("damaged_metadata".into(), 1, 0)])
    );

    recorded.damage(&metadata, |bytes| bytes.truncate(200));
    let mut stats = recorded.place.command(binary("piste"));
    let failed = process::run(stats.arg("stats").arg(&recorded.trace));
    failed.expect_status(1);
    assert!(failed.stderr.contains("metadata"), "{}", failed.stderr);
}

/// What lies in a folder besides; none of it is waited for.
#[test]
fn special_files_and_loops_are_no_streams() {
    let recorded = Recorded::new();
    let made = process::run(recorded.place.command("mkfifo").arg(recorded.trace.join("pipe")));
    made.expect_success();
    symlink("/dev/zero", recorded.trace.join("endless")).expect("a link is made");
    symlink("loop", recorded.trace.join("loop")).expect("a link is made");
    symlink("..", recorded.trace.join("up")).expect("a link is made");
    fs::write(recorded.trace.join("empty"), "").expect("a file is made");
    assert_eq!(recorded.read(), (recorded.events, vec![]));

    // From above, where a loop of folders is on the way.
    let above = recorded.place.path("above");
    fs::create_dir(&above).expect("a folder is made");
    symlink(&above, above.join("again")).expect("a link is made");
    fs::rename(&recorded.trace, above.join("trace")).expect("it is moved");
    let stats = recorded.place.piste_json(&["stats", above.to_str().expect("UTF-8")]);
    assert_eq!(stats["events"], recorded.events);
}

/// Holes cost nothing on the disk, and may be larger than any memory: a file is read as far as it can say something.
#[test]
fn what_is_mostly_a_hole_is_not_read_whole() {
    let recorded = Recorded::new();
    let metadata = recorded.trace.join("metadata");
    let grow = |path: &Path, bytes: u64| {
        let file = fs::File::options().write(true).create(true).truncate(false).open(path);
        file.and_then(|file| file.set_len(bytes)).expect("it has a hole");
    };
    // The index that readers keep, and one that a tracer wrote.
    let kept = recorded.trace.join(".piste-index");
    let of_tracer = recorded.trace.join("index");
    fs::create_dir(&of_tracer).expect("a folder is made");
    let of_tracer = of_tracer
        .join(recorded.stream.file_name().expect("a name"))
        .with_extension("idx");
    for index in [&kept, &of_tracer] {
        grow(index, 1 << 29);
    }
    let log = recorded.place.path("reads");
    let mut traced = recorded.place.command("strace");
    let calls = [
        "-f",
        "-y",
        "-s",
        "0",
        "-e",
        "trace=read,pread64,readv,preadv,mmap",
        "-o",
    ];
    traced.args(calls).arg(&log).arg("--").arg(binary("piste"));
    process::run(traced.arg("stats").arg(&recorded.trace)).expect_success();
    let log = fs::read_to_string(log).expect("strace wrote it");
    let of_index = |line: &&str| line.contains(".piste-index>") || line.contains(".idx>");
    let read = |line: &str| line.rsplit_once("= ")?.1.trim().parse::<u64>().ok();
    let bytes: u64 = log.lines().filter(of_index).filter_map(read).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes were read");
    fs::remove_dir_all(of_tracer.parent().expect("a folder")).expect("it is there");

    // In a memory that does not hold it.
    grow(&metadata, 1 << 40);
    let mut limited = recorded.place.command("prlimit");
    limited.args(["--as=2147483648", "--"]).arg(binary("piste"));
    let stats = process::run(limited.args(["stats", "--json", "--threads", "1"]).arg(&recorded.trace));
    stats.expect_success();
    assert_eq!(
        recorded.read(),
        (recorded.events, vec![("damaged_metadata".into(), 1, 0)])
    );
    let whole = recorded.place.path("whole");
    let copied = [
        "trim",
        recorded.trace.to_str().expect("UTF-8"),
        "-o",
        whole.to_str().expect("UTF-8"),
    ];
    recorded.place.piste(&copied).expect_success();
    assert_eq!(
        recorded.place.piste_json(&["stats", "whole"])["events"],
        recorded.events
    );
}

#[test]
fn a_pipe_in_the_place_of_metadata_is_not_waited_for() {
    let recorded = Recorded::new();
    let above = recorded.place.path("above");
    let bad = above.join("bad");
    fs::create_dir_all(&bad).expect("folders are made");
    process::run(recorded.place.command("mkfifo").arg(bad.join("metadata"))).expect_success();
    fs::rename(&recorded.trace, above.join("trace")).expect("it is moved");
    let stats = recorded.place.piste_json(&["stats", above.to_str().expect("UTF-8")]);
    assert_eq!(stats["events"], recorded.events);
    assert_eq!(stats["findings"][0]["kind"], "unreadable_file", "{stats:#}");
    assert_eq!(stats["findings"][0]["file"], bad.to_str().expect("UTF-8"));

    let mut alone = recorded.place.command(binary("piste"));
    let failed = process::run(alone.arg("stats").arg(&bad));
    failed.expect_status(1);
    assert!(failed.stderr.contains("it is not a regular file"), "{}", failed.stderr);
}

/// Without the capabilities by which root reads what nobody may.
fn without_power(place: &Workplace) -> Command {
    if !rustix::process::geteuid().is_root() {
        return place.command(binary("piste"));
    }
    let mut command = place.command("setpriv");
    let lack = "-dac_override,-dac_read_search";
    command.args(["--inh-caps", lack, "--bounding-set", lack]);
    command.arg(binary("piste"));
    command
}

/// How many events, and kinds and files of what was found.
fn read_without_power(place: &Workplace, folder: &Path) -> (u64, Vec<(String, PathBuf)>) {
    let shown = process::run(without_power(place).args(["stats", "--json"]).arg(folder));
    shown.expect_success();
    let stats: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let findings = stats["findings"].as_array().expect("an array").iter();
    let findings = findings.map(|finding| {
        let text = |key: &str| finding[key].as_str().expect("a text").to_owned();
        (text("kind"), PathBuf::from(text("file")))
    });
    (stats["events"].as_u64().expect("a number"), findings.collect())
}

#[test]
fn what_may_not_be_read_is_found_and_the_rest_is_read() {
    let place = Workplace::new();
    let above = place.path("above");
    for (trace, streams) in [("open", 2), ("closed", 1), ("blind", 1)] {
        let folder = above.join(trace);
        fs::create_dir_all(&folder).expect("a folder is made");
        write_small_trace(&folder, (0..streams).map(|number| (number, vec![1, 2, 3])));
    }
    let all = fs::Permissions::from_mode;
    assert_eq!(read_without_power(&place, &above), (12, vec![]));

    let unreadable = |path: PathBuf| ("unreadable_file".to_owned(), path);
    // A stream; a folder that cannot be listed; one that can be listed, and nothing else.
    let places = [above.join("open/s1"), above.join("closed"), above.join("blind")];
    fs::set_permissions(&places[0], all(0o000)).expect("it is ours");
    fs::set_permissions(&places[1], all(0o000)).expect("it is ours");
    fs::set_permissions(&places[2], all(0o400)).expect("it is ours");
    let (events, mut found) = read_without_power(&place, &above);
    found.sort();
    let mut expected = places.clone().map(unreadable);
    expected.sort();
    assert_eq!((events, found), (3, expected.to_vec()));

    // Alone, it is all that was asked for.
    let failed = process::run(without_power(&place).arg("stats").arg(&places[1]));
    failed.expect_status(1);
    assert!(failed.stderr.contains("cannot read"), "{}", failed.stderr);
    for place in &places[1..] {
        fs::set_permissions(place, all(0o700)).expect("it is ours");
    }
}

/// Streams of events with a time and a number, both the same.
fn write_small_trace(folder: &Path, streams: impl IntoIterator<Item = (u32, Vec<u32>)>) {
    let metadata = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\n\
        clock { name = c; };\nstream { event.header := struct { integer { size = 32; map = clock.c.value; } t; }; };\n\
        event { name = e; fields := struct { integer { size = 32; } n; }; };\n";
    fs::write(folder.join("metadata"), metadata).expect("metadata is written");
    for (number, times) in streams {
        let events: Vec<u8> = times
            .iter()
            .flat_map(|time| [time.to_le_bytes(), time.to_le_bytes()].concat())
            .collect();
        fs::write(folder.join(format!("s{number}")), events).expect("a stream is written");
    }
}

#[test]
fn more_streams_than_files_may_be_open_are_read() {
    let place = Workplace::new();
    let trace = place.path("many");
    fs::create_dir(&trace).expect("a folder is made");
    let count = 5000;
    // Each has an early and a late event.
    write_small_trace(
        &trace,
        (0..count).map(|number| (number, vec![number, 2 * count - 1 - number])),
    );
    let limited = |arguments: &[&str]| {
        let mut limited = place.command("prlimit");
        limited.args(["--nofile=256:256", "--"]).arg(binary("piste"));
        let finished = process::run(limited.args(arguments));
        finished.expect_success();
        finished
    };
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&limited(arguments).stdout).expect("JSON") };
    let numbers = |trace: &str| -> Vec<u32> {
        let shown = limited(&["view", trace]);
        shown.expect_silent_success();
        let lines = shown.stdout.lines();
        lines
            .filter_map(|line| line.split("n = ").nth(1)?.trim_end_matches(" }").parse().ok())
            .collect()
    };
    let all: Vec<u32> = (0..2 * count).collect();
    assert_eq!(numbers("many"), all);
    for options in [&[][..], &["--filter", "n >= 0"]] {
        let stats = json(&[&["stats", "--json", "many"], options].concat());
        assert_eq!(stats["events"], 2 * count, "{options:?}");
    }
    let sql = "SELECT count(*) AS events, sum(n) AS sum FROM events";
    let sum: u64 = all.iter().copied().map(u64::from).sum();
    assert_eq!(
        json(&["query", "--format", "json", "many", sql]),
        serde_json::json!([{ "events": 2 * count, "sum": sum }])
    );
    for format in ["chrome", "perfetto", "json"] {
        let exported = json(&["export", "many", "--format", format, "-o", format, "--json"]);
        assert_eq!(exported["events"], 2 * count, "{format}");
    }
    limited(&["export", "many", "--format", "parquet", "-o", "parquet"]);

    // Traces of nearly every stream.
    limited(&["trim", "many", "-o", "whole"]);
    assert_eq!(numbers("whole"), all);
    limited(&["trim", "many", "--filter", "n & 1 && n > 10", "-o", "part"]);
    let odd: Vec<u32> = (11..2 * count).step_by(2).collect();
    assert_eq!(numbers("part"), odd);
}
