// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that stream: everything is written, once, whoever dies.

use std::fs;
use std::time::Duration;

use super::super::attention::LOOK_AT_ALL;
use super::super::stage::Again;
use super::rig::{NUMBER, Read, Rig};
use crate::link::{Loss, ToControl};

fn numbers(numbers: impl IntoIterator<Item = u64>) -> Read {
    Read {
        numbers: numbers.into_iter().collect(),
        ..Read::default()
    }
}

#[test]
fn recorded_events_are_in_the_trace_in_order() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    for round in 0..10 {
        rig.record(1, 1000 * round..1000 * round + 300);
        rig.record(2, 1000 * round + 300..1000 * round + 500);
        assert_eq!(rig.work(), Again::AtPace);
    }
    let totals = rig.close();
    assert_eq!(
        rig.read(),
        numbers((0..10).flat_map(|round| 1000 * round..1000 * round + 500))
    );
    assert_eq!(
        (totals.events, totals.lost_packets, totals.findings.len()),
        (5000, 0, 0)
    );
    let stream = |name: &str| fs::metadata(rig.output().join("user").join(name)).unwrap().len();
    assert_eq!(totals.bytes, stream("default_100") + stream("default_200"));
}

#[test]
fn stopped_session_has_everything_and_goes_on_when_started_again() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..10);
    assert_eq!(rig.stop().events, 10);
    assert_eq!(rig.read(), numbers(0..10));
    assert_eq!(rig.work(), Again::Never, "no timer while nothing records");
    rig.messages.clear();
    rig.start();
    rig.record(1, 10..20);
    assert_eq!(rig.stop().events, 20);
    assert_eq!(rig.close().packets, 2);
    assert_eq!(rig.read(), numbers(0..20));
}

#[test]
fn a_silent_program_is_looked_at_when_it_rings_and_once_a_second() {
    let mut rig = Rig::new(Loss::Discard);
    rig.audible_program(1);
    let rest = |rig: &mut Rig| {
        let looks = (0..1000).take_while(|_| rig.work() == Again::AtPace);
        assert!(looks.count() < 1000, "it is looked at for ever");
        assert_eq!(rig.work(), Again::After(LOOK_AT_ALL));
    };
    // A little more than a sub-buffer each time, of which the rest stays open.
    let mut recorded = 0;
    let mut record = |rig: &Rig| {
        assert_eq!(rig.record(1, recorded..recorded + 300), 300);
        recorded += 300;
    };
    rest(&mut rig);
    record(&rig);
    rest(&mut rig);
    assert_eq!(rig.read(), numbers([]), "nobody has looked");
    rig.ring(1);
    assert_eq!(rig.work(), Again::AtPace);
    let heard = rig.read().numbers.len();
    assert!(heard > 0);
    rest(&mut rig);
    record(&rig);
    rest(&mut rig);
    assert_eq!(rig.read().numbers.len(), heard);
    rig.pass(LOOK_AT_ALL);
    rig.work();
    let seen = rig.read().numbers.len();
    assert!(seen > heard);
    rest(&mut rig);
    assert_eq!(rig.flush(), Ok(vec![]));
    assert_eq!(rig.read(), numbers(0..600));
    record(&rig);
    assert_eq!(rig.close().events, 900);
}

#[test]
fn session_without_events_is_a_trace() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    assert_eq!(rig.close().events, 0);
    assert!(rig.output().join("user/metadata").exists());
    assert!(!rig.output().join("user/default_100").exists());
}

#[test]
fn consumer_killed_between_any_two_looks_loses_nothing_and_writes_nothing_twice() {
    for killed_at in 0..6 {
        let mut rig = Rig::new(Loss::Discard);
        rig.program(1);
        for round in 0..6 {
            rig.record(1, 300 * round..300 * (round + 1));
            rig.work();
            if round == killed_at {
                rig.kill();
            }
        }
        let totals = rig.close();
        assert_eq!(rig.read(), numbers(0..1800), "killed after look {killed_at}");
        assert_eq!(
            (totals.events, totals.lost_packets),
            (1800, 0),
            "the events of the dead consumer are counted"
        );
    }
}

#[test]
fn packets_that_a_killed_consumer_wrote_and_somebody_removed_are_missed() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    for round in 0..6 {
        rig.record(1, 300 * round..300 * (round + 1));
        rig.record(2, 300 * round..300 * (round + 1));
        rig.work();
    }
    rig.gone(2);
    rig.work();
    rig.forget(2);
    let before = rig.stop();
    assert_eq!(before.events, 6 * 600);
    rig.start();
    rig.kill();
    fs::remove_dir_all(rig.output().join("user")).unwrap();
    rig.record(1, 1800..1900);
    let totals = rig.close();
    assert_eq!((totals.events, totals.lost_packets), (100, before.packets));
    assert!(
        totals
            .findings
            .iter()
            .any(|finding| finding.what == piste_control::FILES_GONE),
        "{totals:?}"
    );
    let read = rig.read();
    assert_eq!(read.numbers, (1800..1900).collect::<Vec<_>>());
    assert!(read.lost_packets > 0, "the trace says it too");
}

#[test]
fn consumer_killed_inside_a_write_loses_nothing_and_writes_nothing_twice() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..600);
    let before = rig.save_memory(1);
    rig.work();
    let (data_path, index_path) = (
        rig.output().join("user/default_100"),
        rig.output().join("user/index/default_100.idx"),
    );
    let (data, index) = (fs::read(&data_path).unwrap(), fs::read(&index_path).unwrap());

    // What the files have when the kill comes: bytes of the stream, bytes of the index. The ring has everything still.
    for (data_bytes, index_bytes) in [
        (0, 0),
        (1, 0),
        (4096, 0),
        (4096, 16),
        (4096, 87),
        (4096, 96),
        (5000, 96),
        (data.len(), index.len()),
    ] {
        rig.restore_memory(1, &before);
        fs::write(&data_path, &data[..data_bytes]).unwrap();
        fs::write(&index_path, &index[..index_bytes]).unwrap();
        rig.kill();
        rig.record(1, 600..700);
        rig.work();
        rig.messages.clear();
        assert_eq!(rig.stop().events, 700);
        assert_eq!(
            rig.read(),
            numbers(0..700),
            "killed with {data_bytes} and {index_bytes} bytes on disk"
        );
    }
}

#[test]
fn streams_of_programs_that_ended_before_the_kill_are_counted() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    rig.record(1, 0..100);
    rig.record(2, 100..1000);
    rig.gone(1);
    rig.work();
    assert!(rig.messages.contains(&ToControl::RingSetDone { key: 1 }));
    rig.forget(1);
    rig.kill();
    let totals = rig.close();
    let read = rig.read();
    assert_eq!(totals.events, read.numbers.len() as u64);
    assert_eq!(totals.discarded_full, read.discarded);
    assert_eq!(totals.events + totals.discarded_full, 1000);
}

#[test]
fn full_ring_discards_and_the_trace_tells_how_many() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    let mut recorded = rig.record(1, 0..2000);
    assert!(recorded < 2000);
    rig.work();
    recorded += rig.record(1, 2000..2100);
    rig.work();
    recorded += rig.record(1, 2100..5000);
    let totals = rig.close();
    let read = rig.read();
    assert_eq!((totals.events, totals.discarded_full), (recorded, 5000 - recorded));
    assert_eq!((read.numbers.len() as u64, read.discarded), (recorded, 5000 - recorded));
}

#[test]
fn overwritten_packets_and_events_are_told() {
    let mut rig = Rig::new(Loss::Overwrite);
    rig.program(1);
    rig.record(1, 0..300);
    rig.work();
    assert_eq!(rig.record(1, 300..5000), 4700);
    let totals = rig.close();
    let read = rig.read();
    assert_eq!(totals.events + totals.overwritten_events, 5000);
    assert!(totals.lost_packets > 0);
    assert_eq!(read.numbers.len() as u64, totals.events);
    assert_eq!(
        (read.discarded, read.lost_packets),
        (totals.overwritten_events, totals.lost_packets)
    );
    assert_eq!(read.numbers.last(), Some(&4999), "the newest are there");
}

#[test]
fn events_of_a_killed_program_are_written_but_for_the_one_it_was_writing() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..300);
    rig.writer(1, 0).reserve(300, NUMBER, &300_u64.to_ne_bytes()).unwrap();
    rig.record(1, 301..350);
    rig.gone(1);
    rig.work();
    assert!(rig.messages.contains(&ToControl::RingSetDone { key: 1 }));
    let totals = rig.close();
    assert_eq!(rig.read(), numbers((0..300).chain(301..350)));
    assert_eq!((totals.events, totals.discarded_full + totals.discarded_late), (349, 0));
    assert!(
        totals.findings[0].what.starts_with("1 unfinished record of process "),
        "{:?}",
        totals.findings
    );
}

#[test]
fn record_that_a_living_program_never_finishes_is_given_up_and_its_memory_replaced() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..10);
    let unfinished = rig.writer(1, 0).reserve(10, NUMBER, &10_u64.to_ne_bytes()).unwrap();
    rig.record(1, 11..300);
    rig.work();
    rig.pass(Duration::from_millis(400));
    rig.work();
    assert_eq!(rig.messages, [], "it may be slow");
    rig.pass(Duration::from_millis(200));
    rig.work();
    assert!(rig.messages.contains(&ToControl::RingRecovered { key: 1 }));
    rig.program(2);
    // The program has other memory whenever it comes to that.
    for begin in (300..800).step_by(50) {
        assert_eq!(rig.record(1, begin..begin + 50), 50);
        rig.pass(Duration::from_secs(1));
        rig.work();
    }
    rig.writer(1, 0).commit(&unfinished);
    let begun = rig.writer(1, 0).reserve(800, NUMBER, &800_u64.to_ne_bytes()).unwrap();
    rig.retire(1);
    rig.record(2, 801..850);
    rig.work();
    let done = ToControl::RingSetDone { key: 1 };
    assert!(!rig.messages.contains(&done), "a call still uses its memory");
    rig.writer(1, 0).commit(&begun);
    rig.work();
    assert!(rig.messages.contains(&done));
    let totals = rig.close();
    let read = rig.read();
    assert_eq!(read.numbers, (0..10).chain(11..850).collect::<Vec<_>>());
    assert_eq!(
        (totals.discarded_late, read.discarded),
        (1, 1),
        "its call may have returned by now"
    );
}

#[test]
fn slow_record_of_a_living_program_is_waited_for() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    let slow = rig.writer(1, 0).reserve(0, NUMBER, &0_u64.to_ne_bytes()).unwrap();
    rig.record(1, 1..300);
    rig.work();
    rig.pass(Duration::from_millis(499));
    rig.work();
    rig.writer(1, 0).commit(&slow);
    rig.pass(Duration::from_millis(499));
    assert_eq!(rig.close().events, 300);
    assert_eq!(rig.read(), numbers(0..300));
    assert_eq!(rig.findings(), [""; 0]);
}
