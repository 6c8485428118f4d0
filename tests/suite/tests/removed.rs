// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of a trace that somebody removes, moves or cuts while it is recorded: their events are missing, and the status, the summary and the
//! trace itself all say so. Recording goes on in new files.

use std::fs;
use std::path::{Path, PathBuf};

use piste_support::counts::{said, sum, told};
use piste_support::process::{Running, exists, send, stop, wait_until};
use piste_support::report::text;
use piste_support::{Workplace, kernel};
use rustix::process::Signal;
use serde_json::Value;

const GONE: &str = "files of the trace were removed, moved or truncated while it was recorded";
const INDEX_GONE: &str =
    "index files of the trace were removed or truncated while it was recorded, and were written again";
const DUMP_GONE: &str = "the state dump was removed during the recording, and was written again";
const METADATA_GONE: &str = "the metadata of the trace was removed while it was recorded, and was written again";

/// A name, or what is said, and what somebody does to the folder of a trace.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

/// Streams of a trace's domain.
fn streams(folder: &Path, domain: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(domain)).expect("the folder is there");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let is_stream = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        path.is_file() && (name.starts_with("default_") || name.starts_with("kernel_"))
    };
    let mut streams: Vec<PathBuf> = files.filter(is_stream).collect();
    streams.sort();
    streams
}

fn index_of(stream: &Path) -> PathBuf {
    let name = stream.file_name().expect("a name").to_string_lossy();
    stream.with_file_name("index").join(format!("{name}.idx"))
}

/// The consumer may make a file meanwhile.
fn remove_all(folder: &Path) {
    wait_until("it is removed", || fs::remove_dir_all(folder).is_ok());
}

fn cut(path: &Path) {
    let file = fs::File::options().write(true).open(path);
    file.and_then(|file| file.set_len(50)).expect("it can be cut");
}

fn record(puppet: &mut Running, events: u64) {
    assert_eq!(puppet.ask(&format!("record {events}")), "done");
}

/// Two programs have recorded 100 and 10 events, one of them goes on.
fn after(place: &Workplace, output: &Path, damage: impl FnOnce(&Path)) -> (Value, Value) {
    let program = place.program("puppet.c");
    place.piste_succeeds(&["create", "s", "-o", text(output)]);
    place.piste_succeeds(&["enable-event", "-s", "s", "-u", "shop:order"]);
    place.piste_succeeds(&["start", "s"]);
    let mut dead = place.start(&program, &[]);
    assert_eq!(dead.ask("wait"), "done");
    record(&mut dead, 100);
    dead.finish().expect_success();
    let mut puppet = place.start(&program, &[]);
    assert_eq!(puppet.ask("wait"), "done");
    record(&mut puppet, 10);
    wait_until("it is written", || {
        sum(&place.piste_json(&["status", "s"]), "events") == 110
    });
    damage(output);
    record(&mut puppet, 5);
    let status = place.piste_json(&["status", "s"]);
    record(&mut puppet, 5);
    let ended = place.piste_json(&["destroy", "s"]);
    puppet.finish().expect_success();
    (status, ended)
}

#[test]
fn events_of_files_that_are_gone_are_missing_in_the_counts_and_in_the_trace() {
    let folder = |output: &Path| remove_all(output);
    let domain = |output: &Path| remove_all(&output.join("user"));
    let moved = |output: &Path| fs::rename(output, output.with_extension("old")).expect("it is there");
    let all = |output: &Path| {
        let streams = streams(output, "user").into_iter();
        streams.for_each(|stream| fs::remove_file(stream).expect("it is there"));
    };
    let cut = |output: &Path| streams(output, "user").iter().for_each(|stream| cut(stream));
    let damages: [Damage<'_>; 5] = [
        ("folder", &folder),
        ("domain", &domain),
        ("moved", &moved),
        ("streams", &all),
        ("cut", &cut),
    ];
    for (name, damage) in damages {
        let place = Workplace::new();
        let output = place.path("trace");
        let (status, ended) = after(&place, &output, damage);
        assert!(status.to_string().contains(GONE), "{name}: {status:#}");
        assert!(ended.to_string().contains(GONE), "{name}: {ended:#}");
        assert_eq!(said(&ended), (10, 110, 0), "{name}: {ended:#}");
        assert_eq!(told(&place, &output), (10, 110, 0), "{name}: {ended:#}");
        let stats = place.piste_succeeds(&["stats", text(&output)]);
        assert!(stats.contains("110 events lost"), "{name}: {stats}");
    }
}

#[test]
fn metadata_and_indices_that_are_gone_are_written_again() {
    let metadata = |output: &Path| fs::remove_file(output.join("user/metadata")).expect("it is there");
    let indices = |output: &Path| {
        for stream in streams(output, "user") {
            fs::remove_file(index_of(&stream)).expect("it is there");
        }
    };
    let indices_cut = |output: &Path| streams(output, "user").iter().for_each(|stream| cut(&index_of(stream)));
    let damages: [Damage<'_>; 3] = [
        (METADATA_GONE, &metadata),
        (INDEX_GONE, &indices),
        (INDEX_GONE, &indices_cut),
    ];
    for (what, damage) in damages {
        let place = Workplace::new();
        let output = place.path("trace");
        let (status, ended) = after(&place, &output, damage);
        assert!(status.to_string().contains(what), "{status:#}");
        assert_eq!(said(&ended), (120, 0, 0), "{ended:#}");
        let stats = place.piste_json(&["stats", text(&output)]);
        assert_eq!(
            (&stats["events"], &stats["findings"]),
            (&120.into(), &Value::Array(vec![])),
            "{stats:#}"
        );
    }
}

#[test]
fn a_recording_of_a_folder_that_is_gone_says_what_is_missing() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let script = format!(
        "{0} 1 1000; sleep 0.3; rm -r trace-*/user; {0} 1 500",
        program.display()
    );
    let recording = place.record(&["--fail-on-loss", "-u", "count:*"], "sh", &["-c", &script]);
    assert_eq!(recording.finished.status, 90, "{}", recording.finished);
    assert_eq!(
        (recording.events(), recording.discarded()),
        (500, 1000),
        "{}",
        recording.summary()
    );
    assert!(
        !recording.finished.stderr.contains("nothing lost"),
        "{}",
        recording.finished
    );
    assert!(
        recording
            .finished
            .stderr
            .contains("1,000 were removed with their files"),
        "{}",
        recording.finished
    );
}

#[test]
fn kernel_events_of_files_that_are_gone_are_missing_in_the_counts_and_in_the_trace() {
    let Some(place) = kernel::workplace() else { return };
    let load = || {
        for cpu in ["0", "1"] {
            let copy = ["-c", cpu, "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=20000"];
            place.run("taskset", &copy).expect_success();
        }
    };
    let folder = |output: &Path| remove_all(output);
    let stream = |output: &Path| fs::remove_file(output.join("kernel/kernel_0")).expect("it is there");
    let metadata = |output: &Path| fs::remove_file(output.join("kernel/metadata")).expect("it is there");
    let dump = |output: &Path| fs::remove_file(output.join("kernel/statedump_0")).expect("it is there");
    let folder_and_consumer = |output: &Path| {
        let consumer = place.kernel_consumer();
        stop(consumer);
        folder(output);
        send(consumer, Signal::KILL);
        wait_until("the kernel consumer is dead", || !exists(consumer));
        place.kernel_consumer();
    };
    let damages: [(&str, Damage<'_>); 5] = [
        ("folder", (GONE, &folder)),
        ("folder and consumer", (GONE, &folder_and_consumer)),
        ("stream", (GONE, &stream)),
        // The first event of another kind has it written again, too.
        ("metadata", ("", &metadata)),
        ("dump", (DUMP_GONE, &dump)),
    ];
    for (name, (what, damage)) in damages {
        let output = place.path(name);
        place.piste_succeeds(&["create", name, "-o", text(&output)]);
        place.piste_succeeds(&["enable-channel", "-s", name, "-k", "kernel", "--num-subbuf", "256"]);
        place.piste_succeeds(&[
            "enable-event",
            "-s",
            name,
            "-k",
            "sched_switch",
            "--syscall",
            "*",
            "-c",
            "kernel",
        ]);
        place.piste_succeeds(&["start", name]);
        load();
        wait_until("both CPUs and the state are written", || {
            place.piste(&["status", name]);
            let kernel = output.join("kernel");
            let written = ["statedump_0", "kernel_0", "kernel_1"];
            written.iter().all(|name| kernel.join(name).exists())
        });
        damage(&output);
        load();
        // While the consumer waits for the disk, the status is outdated.
        wait_until("it is told", || {
            place.piste_json(&["status", name]).to_string().contains(what)
        });
        let ended = place.piste_json(&["destroy", name]);
        let counts = said(&ended);
        assert_eq!(counts.1 > 0, what == GONE, "{name}: {ended:#}");
        assert!(counts.0 > 0 && counts.2 == 0, "{name}: {ended:#}");
        assert_eq!(told(&place, &output), counts, "{name}: {ended:#}");
        let insights = place.piste_json(&["insights", text(&output)]);
        let is_lossy = insights["insights"].to_string().contains("events are missing");
        assert_eq!(is_lossy, what == GONE, "{name}: {insights:#}");
        let stats = place.piste_json(&["stats", text(&output)]);
        assert!(
            stats["by_event"].to_string().contains("lttng_statedump_end"),
            "{name}: the state is there"
        );
    }
}

#[test]
fn a_domain_of_a_recording_that_is_gone_is_missed() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("count.c");
    let recording = place.record_with_kernel(&["-u", "count:*", "--num-subbuf", "64"], &program, &["1", "1000"]);
    recording.finished.expect_success();
    let trace = PathBuf::from(recording.summary()["trace"].as_str().expect("a path"));
    for (gone, left) in [("user", "kernel"), ("kernel", "user")] {
        let hidden = trace.with_extension("hidden");
        let findings = |path: &Path| place.piste_json(&["stats", text(path)])["findings"].to_string();
        assert!(!findings(&trace).contains("missing_trace"), "both are there");
        fs::rename(trace.join(gone), &hidden).expect("it is there");
        assert!(findings(&trace).contains("missing_trace"), "{gone} is gone");
        assert!(
            !findings(&trace.join(left)).contains("missing_trace"),
            "{left} was asked for alone"
        );
        let stats = place.piste_succeeds(&["stats", text(&trace)]);
        assert!(!stats.contains("nothing lost"), "{stats}");
        fs::rename(&hidden, trace.join(gone)).expect("it is there");
    }
}
