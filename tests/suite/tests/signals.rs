// SPDX-License-Identifier: MIT OR Apache-2.0
//! A storm of signals whose handlers record, over a main loop that records: nothing is lost, and time goes on.

use std::collections::BTreeMap;

use piste_support::Workplace;

#[test]
fn handlers_at_20_khz_over_a_recording_loop_lose_nothing_and_keep_the_order_of_time() {
    check(&[]);
}

#[test]
fn so_they_do_on_the_fast_path() {
    check(&["--no-default-contexts"]);
}

fn check(contexts: &[&str]) {
    let place = Workplace::new();
    let program = place.program("signals.c");
    let options = [&["-u", "signals:*", "--block", "forever"], contexts].concat();
    let recording = place.record(&options, program, &["2"]);
    recording.expect_whole();
    let printed: Vec<u64> = recording
        .finished
        .stdout
        .split_whitespace()
        .map(|count| count.parse().expect("a count"))
        .collect();
    let [in_loop, handled, nested] = printed[..] else {
        panic!("{}", recording.finished)
    };
    assert!(handled > 1000 && nested > 1000, "the timers hardly ran: {printed:?}");
    assert_eq!(recording.events(), in_loop + handled + nested);

    let trace = recording.trace();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for stream in trace.streams() {
        let mut last_ticks = 0;
        trace.for_each_of_stream(&stream, |event| {
            assert!(
                event.ticks >= last_ticks,
                "time goes back from {last_ticks} to {event:?} in {stream}"
            );
            last_ticks = event.ticks;
            *counts.entry(event.name.clone()).or_default() += 1;
        });
    }
    let expected = [
        ("signals:handler", handled),
        ("signals:loop", in_loop),
        ("signals:nested", nested),
    ];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
}
