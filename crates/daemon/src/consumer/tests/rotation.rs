// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rotations: each event and each loss is in one chunk, whoever dies at which step.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::super::ring::GIVE_UP_AFTER;
use super::super::stage::Again;
use super::rig::{NUMBER, ROTATE, Read, Rig, read};
use super::writer::Reserved;
use crate::link::{Failure, Loss};

fn numbers(numbers: std::ops::Range<u64>) -> Read {
    Read {
        numbers: numbers.collect(),
        ..Read::default()
    }
}

fn current(rig: &Rig) -> Read {
    read(&rig.output().join("user"))
}

#[test]
fn each_chunk_is_a_trace_of_its_own_and_all_together_are_the_whole() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    for chunk in 1..=3 {
        let first = 1000 * u64::from(chunk);
        rig.record(1, first..first + 300);
        rig.work();
        rig.record(2, first + 300..first + 500);
        let has = rig.rotate();
        assert_eq!(has.events, 500, "chunk {chunk}");
        assert_eq!(read(&rig.chunk(chunk)), numbers(first..first + 500));
        let stream = |name: &str| fs::metadata(rig.chunk(chunk).join("user").join(name)).unwrap().len();
        assert_eq!(has.bytes, stream("default_100") + stream("default_200"));
    }
    assert_eq!(rig.work(), Again::AtPace);
    rig.record(1, 4000..4010);
    let totals = rig.close();
    assert_eq!(
        (totals.events, totals.lost_packets, totals.discarded_full),
        (1510, 0, 0)
    );
    assert_eq!(current(&rig), numbers(4000..4010));
    let all = (1..=3)
        .flat_map(|chunk| 1000 * chunk..1000 * chunk + 500)
        .chain(4000..4010);
    assert_eq!(rig.read().numbers, all.collect::<Vec<_>>());
}

#[test]
fn stopped_session_is_rotated_and_a_quiet_program_has_no_part_in_a_chunk() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..10);
    rig.stop();
    assert_eq!(rig.rotate().events, 10);
    assert_eq!(rig.work(), Again::Never, "no timer while nothing records");
    rig.start();
    assert_eq!(rig.rotate().events, 0);
    assert!(!rig.chunk(2).join("user/default_100").exists());
    // Nothing but `.continued` says where the ring goes on.
    rig.kill();
    assert_eq!(rig.rotate().events, 0);
    rig.begin_rotation();
    rig.work();
    rig.kill();
    rig.ask_to_rotate();
    rig.end_rotation();
    rig.kill();
    rig.record(1, 10..20);
    assert_eq!(rig.close().events, 20);
    assert_eq!(current(&rig), numbers(10..20));
    assert_eq!(rig.read(), numbers(0..20));
}

#[test]
fn what_a_program_has_not_finished_is_the_next_chunks() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    rig.record(1, 0..10);
    rig.work();
    let unfinished = rig.writer(1, 0).reserve(10, NUMBER, &10_u64.to_ne_bytes()).unwrap();
    rig.begin_rotation();
    rig.work();
    // Others do not wait.
    rig.record(2, 20..400);
    rig.work();
    assert!(rig.answer(ROTATE).is_none());
    assert_eq!(current(&rig).numbers.first(), Some(&20));
    rig.pass(GIVE_UP_AFTER - Duration::from_millis(1));
    rig.work();
    assert!(rig.answer(ROTATE).is_none());
    rig.pass(Duration::from_millis(1));
    rig.writer(1, 0).commit(&unfinished);
    rig.end_rotation();
    rig.close();
    assert_eq!(rig.read().numbers, (0..11).chain(20..400).collect::<Vec<_>>());
}

/// Where a consumer is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// It was asked, and did nothing.
    Asked,
    /// The next chunk's folder is being made.
    Preparing,
    /// The next chunk's folder has been made.
    Prepared,
    /// The old chunk's folder is away, the next one's is not in its place.
    Between,
    /// No ring has moved on.
    Begun,
    /// One ring has.
    OneMoved,
    /// All have.
    AllMoved,
    /// And it has said so.
    Answered,
}

#[test]
fn consumer_killed_at_any_step_loses_nothing_and_writes_nothing_twice() {
    use Step::*;
    for step in [Asked, Preparing, Prepared, Between, Begun, OneMoved, AllMoved, Answered] {
        for again in [false, true] {
            check_kill(step, again);
        }
    }
}

/// Kills at a step of the second rotation, and with `again` also at the same step of the third.
fn check_kill(step: Step, again: bool) {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    rig.program(3);
    let mut next = 0;
    record(&rig, &mut next);
    rig.rotate();
    for _ in 0..if again { 2 } else { 1 } {
        record(&rig, &mut next);
        let before = next;
        rig.begin_rotation();
        let held = go_to(&mut rig, step, &mut next);
        if step == Step::Answered {
            rig.note_answer();
        }
        rig.kill();
        for (key, reserved) in held {
            rig.writer(key, 0).commit(&reserved);
        }
        if again {
            rig.work();
        }
        if step == Step::Answered {
            rig.place_chunk();
        } else {
            rig.ask_to_rotate();
            record(&rig, &mut next);
            rig.end_rotation();
        }
        let chunk = rig.chunks.count;
        let has = read(&rig.chunk(chunk)).numbers;
        assert!(has.last().is_some_and(|&last| last >= before - 1), "{step:?}: {has:?}");
    }
    rig.kill();
    record(&rig, &mut next);
    rig.work();
    rig.kill();
    record(&rig, &mut next);
    let totals = rig.close();
    assert_eq!(rig.read(), numbers(0..next), "{step:?}, again: {again}");
    assert_eq!(
        (
            totals.events,
            totals.lost_packets,
            totals.discarded_full,
            totals.findings.len()
        ),
        (next, 0, 0, 0),
        "{step:?}, again: {again}"
    );
    let mut bytes = stream_bytes(&rig.output());
    for chunk in 1..=rig.chunks.count {
        let has = read(&rig.chunk(chunk)).numbers;
        assert!(!has.is_empty(), "chunk {chunk}, {step:?}");
        bytes += stream_bytes(&rig.chunk(chunk));
    }
    assert_eq!(totals.bytes, bytes, "{step:?}, again: {again}");
}

fn stream_bytes(trace: &Path) -> u64 {
    let files = fs::read_dir(trace.join("user")).unwrap().map(Result::unwrap);
    let streams = files.filter(|file| file.file_name().to_string_lossy().starts_with("default_"));
    streams.map(|file| file.metadata().unwrap().len()).sum()
}

fn record(rig: &Rig, next: &mut u64) {
    for key in 1..=2 {
        rig.record(key, *next..*next + 150);
        *next += 150;
    }
}

/// Leads the consumer to a step. Returns records that hold up rings there.
fn go_to(rig: &mut Rig, step: Step, next: &mut u64) -> Vec<(u32, Reserved)> {
    let hidden = rig.hidden_chunk().join(".user");
    let mut held = vec![];
    match step {
        Step::Asked => {}
        Step::Preparing => {
            fs::create_dir(&hidden).unwrap();
            fs::write(hidden.join(".metadata.part"), "half of").unwrap();
        }
        Step::Prepared => copy_metadata(&rig.output().join("user"), &hidden),
        Step::Between | Step::Begun | Step::OneMoved => {
            for key in if step == Step::OneMoved { 2..=2 } else { 1..=2 } {
                let reserved = rig.writer(key, 0).reserve(*next, NUMBER, &next.to_ne_bytes());
                held.push((key, reserved.unwrap()));
                *next += 1;
            }
            rig.work();
            assert!(rig.answer(ROTATE).is_none());
            let continued = rig.output().join("user/.continued");
            assert_eq!(continued.exists(), step == Step::OneMoved);
            if step == Step::Between {
                fs::rename(rig.output().join("user"), &hidden).unwrap();
            }
        }
        Step::AllMoved | Step::Answered => {
            rig.work();
            assert!(rig.answer(ROTATE).is_some());
        }
    }
    held
}

fn copy_metadata(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::copy(from.join("metadata"), to.join("metadata")).unwrap();
}

#[test]
fn chunk_that_cannot_begin_leaves_everything_as_it_was() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..10);
    rig.begin_rotation();
    fs::remove_dir(rig.hidden_chunk()).unwrap();
    fs::write(rig.hidden_chunk(), "a file where the folder should be").unwrap();
    rig.work();
    let Some(Err(Failure::Other { what })) = rig.answer(ROTATE) else {
        panic!("{:?}", rig.messages)
    };
    assert!(what.starts_with(rig.hidden_chunk().to_str().unwrap()), "{what}");
    fs::remove_file(rig.hidden_chunk()).unwrap();
    rig.record(1, 10..20);
    assert_eq!(rig.rotate().events, 20);
    rig.record(1, 20..30);
    rig.close();
    assert_eq!(read(&rig.chunk(1)), numbers(0..20));
    assert_eq!(current(&rig), numbers(20..30));
}

#[test]
fn losses_are_told_in_the_chunk_in_which_they_were() {
    for kill in [false, true] {
        let mut rig = Rig::new(Loss::Discard);
        rig.program(1);
        rig.program(2);
        let (mut recorded, mut lost) = (0, 0);
        for chunk in 1..=3 {
            // More than the rings hold.
            let first = 10_000 * u64::from(chunk);
            let second = if chunk < 3 { 2 } else { 4 };
            for (key, first) in [(1, first), (second, first + 2000)] {
                let kept = rig.record(key, first..first + 2000);
                (recorded, lost) = (recorded + kept, lost + 2000 - kept);
            }
            rig.work();
            if kill {
                rig.kill();
            }
            // What is discarded is told by the next packet.
            recorded += rig.record(1, first + 9000..first + 9010);
            recorded += rig.record(second, first + 9010..first + 9020);
            rig.rotate();
            let read = read(&rig.chunk(chunk));
            assert_eq!(read.discarded, lost / u64::from(chunk), "chunk {chunk}, kill: {kill}");
            if chunk == 2 {
                rig.gone(2);
                rig.work();
                rig.forget(2);
                rig.program(4);
            }
        }
        if kill {
            rig.kill();
        }
        let totals = rig.close();
        assert_eq!((totals.events, totals.discarded_full), (recorded, lost), "kill: {kill}");
        assert_eq!(rig.read().discarded, lost);
    }
}
