// SPDX-License-Identifier: MIT OR Apache-2.0
//! Large machines: a timeline is the same however many CPUs make it, and a trace with more threads than anybody can look at opens all the same.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use piste_support::Workplace;
use piste_support::build_tree::repository;
use piste_support::made_trace::{Shape, write};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

use super::{Server, browse, has_viewer, text};

/// A made trace.
fn made(place: &Workplace, shape: Shape) -> PathBuf {
    let trace = place.path("made");
    write(&trace, shape).expect("it can be written");
    trace
}

/// Events in the middle of a stream cannot be read.
fn damage(stream: &Path) {
    let file = fs::File::options().write(true).open(stream).expect("it is there");
    let middle = file.metadata().expect("it is there").len() / 2;
    file.write_all_at(&[0xff; 64], middle).expect("it can be written");
}

/// The first CPU that this process may use, and the first two, as `taskset` takes them. `None`: there is only one.
fn cpus() -> Option<[String; 2]> {
    let own = sched_getaffinity(None).expect("Linux tells");
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| own.is_set(*cpu));
    let (one, other) = (cpus.next()?, cpus.next()?);
    Some([one.to_string(), format!("{one},{other}")])
}

#[test]
fn two_cpus_make_the_timeline_that_one_makes() {
    let Some(cpus) = cpus().filter(|_| has_viewer()) else {
        println!("skipped: there is one CPU, or no viewer");
        return;
    };
    let place = Workplace::new();
    let shape = Shape {
        cpus: 5,
        threads: 300,
        events: 120_000,
    };
    let trace = made(&place, shape);
    let piste = repository().join("build/bin/piste");
    for is_damaged in [false, true] {
        if is_damaged {
            damage(&trace.join("kernel/kernel_1"));
        }
        let place_of_timeline = trace.join(".piste-timeline");
        let timelines = cpus.clone().map(|cpus| {
            let _ = fs::remove_file(&place_of_timeline);
            let server =
                Server::of(place.start("taskset", &["-c", &cpus, text(&piste), "--json", "web", text(&trace)]));
            assert_eq!(server.settle()["state"], "whole");
            server.end();
            fs::read(&place_of_timeline).expect("it is kept")
        });
        assert!(timelines[0] == timelines[1], "damaged: {is_damaged}");
        assert!(timelines[0].len() > 100_000, "{}", timelines[0].len());
        for question in [
            &["insights"][..],
            &["analyze", "schedtop"],
            &["analyze", "futex"],
            &["analyze", "syscallstats"],
        ] {
            let answers = cpus.clone().map(|cpus| {
                let arguments = [&["-c", &cpus, text(&piste), "--json"], question, &[text(&trace)]].concat();
                let answer = place.run("taskset", &arguments);
                answer.expect_success();
                answer.stdout
            });
            assert_eq!(answers[0], answers[1], "{question:?}, damaged: {is_damaged}");
        }
    }
}

#[test]
fn a_trace_with_very_many_threads_opens() {
    if !has_viewer() {
        return;
    }
    let place = Workplace::new();
    let shape = Shape {
        cpus: 4,
        threads: 30_000,
        events: 400_000,
    };
    let trace = made(&place, shape);
    let server = Server::start(&place, &[text(&trace)]);
    assert_eq!(server.settle()["state"], "whole");
    let listed = server.json("GET", "lanes", "").expect("lanes");
    let lanes = listed["lanes"].as_array().expect("a list");
    let of_kind = |kind: &'static str| lanes.iter().filter(move |lane| lane["kind"] == kind);
    assert_eq!(lanes.len(), 20_000);
    assert!(listed["left_out"].as_u64() > Some(10_000), "{}", listed["left_out"]);
    assert_eq!(of_kind("cpu").count(), 4);
    // System calls come with their thread.
    let threads: Vec<&Value> = of_kind("thread").map(|lane| &lane["id"]).collect();
    assert!(threads.len() > 9_000, "{}", threads.len());
    let without: Vec<&Value> = of_kind("calls")
        .filter(|lane| !threads.contains(&&lane["of"]))
        .collect();
    assert!(without.len() <= 1, "{without:?}");
    browse("many", &server);
    server.end();
}
