// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings of the real kernel: what is written is read once, what is lost is counted, settings stay. Needs root and tracefs.
//!
//! Being killed is `killed_reader.rs`.

mod real;

use std::io::ErrorKind;

use piste_kernel::instance::{Instance, TraceClock};
use piste_kernel::page::{Lost, Page, PageLayout};
use piste_kernel::page_ring::PageRing;
use piste_kernel::ring::Ring;
use piste_kernel::shared_buffer::{RingKey, SharedBuffer};
use piste_kernel::spec::Loss;
use real::{Fixture, Marker, drain, numbers, run_on};

const CPU: u32 = 0;
/// A record with a number takes 40 bytes, with its head; one that is much later than the last takes more.
const NUMBERS_IN_4096: u64 = 4080 / 40;

/// A ring of a CPU on which this thread stays, and what writes to it.
struct Rig {
    marker: Marker,
    ring: Ring,
    layout: PageLayout,
    instance: Instance,
    place: Fixture,
}

impl Rig {
    /// `None`, once said why, where there is no ring.
    fn new(loss: Loss, subbuf_bytes: u32, subbuf_count: u32) -> Option<Self> {
        let place = Fixture::new()?;
        run_on(CPU);
        let instance = place.instance(loss, subbuf_bytes, subbuf_count);
        Some(Self {
            marker: Marker::open(&instance),
            ring: place.ring(&instance, CPU),
            layout: PageLayout::read(&place.tracefs).unwrap(),
            instance,
            place,
        })
    }
}

#[test]
fn what_is_written_is_read_in_order() {
    let Some(place) = Fixture::new() else { return };
    run_on(CPU);
    for subbuf_bytes in [4096, 65536] {
        let instance = place.instance(Loss::Discard, subbuf_bytes, 16);
        let mut ring = place.ring(&instance, CPU);
        let layout = PageLayout::read(&place.tracefs).unwrap();
        let mut marker = Marker::open(&instance);
        (0..1000).for_each(|number| marker.write(number));
        let mut last_ticks = 0;
        let read = drain(&mut ring, &layout, |page| {
            assert!(page.begin_ticks() >= last_ticks && page.lost() == Lost::None);
            for record in page.records() {
                assert!(record.ticks >= last_ticks);
                last_ticks = record.ticks;
            }
            numbers(page)
        });
        assert_eq!(read.concat(), (0..1000).collect::<Vec<_>>());
        if subbuf_bytes == 65536 && instance.subbuf_bytes().unwrap() == 65536 {
            assert_eq!(read.len(), 1, "a large sub-buffer is one page");
        }
        assert_eq!(
            (ring.newly_lost(Lost::None).unwrap(), ring.lost_at_end().unwrap()),
            (0, 0)
        );
        drop((ring, marker));
        instance.remove().unwrap();
    }
}

#[test]
fn without_flush_only_full_pages_are_read() {
    let Some(mut rig) = Rig::new(Loss::Discard, 4096, 64) else {
        return;
    };
    assert!(rig.ring.next(false).unwrap().is_none());
    (0..10).for_each(|number| rig.marker.write(number));
    assert!(rig.ring.next(false).unwrap().is_none());
    let read = drain(&mut rig.ring, &rig.layout, numbers);
    assert_eq!(read.concat(), (0..10).collect::<Vec<_>>());

    let end = 10 + 5 * NUMBERS_IN_4096;
    (10..end).for_each(|number| rig.marker.write(number));
    let mut next = 10;
    let mut pages = 0;
    while let Some(bytes) = rig.ring.next(false).unwrap() {
        let page = Page::parse(&rig.layout, bytes).unwrap();
        let read = numbers(&page);
        assert_eq!(read, (next..next + read.len() as u64).collect::<Vec<_>>());
        next += read.len() as u64;
        pages += 1;
        rig.ring.done();
    }
    // Before Linux 6.7 one more full page stays until another is.
    assert!((3..=5).contains(&pages), "{pages} pages");
    assert!(next < end, "the page that is being written stays");
    assert_eq!(
        drain(&mut rig.ring, &rig.layout, numbers).concat(),
        (next..end).collect::<Vec<_>>()
    );
}

#[test]
fn a_page_stays_until_it_is_done() {
    let Some(mut rig) = Rig::new(Loss::Discard, 4096, 8) else {
        return;
    };
    rig.marker.write(1);
    let first = rig.ring.next(true).unwrap().unwrap().to_vec();
    rig.marker.write(2);
    assert_eq!(rig.ring.next(true).unwrap().unwrap(), first);
    rig.ring.done();
    assert_ne!(rig.ring.next(true).unwrap().unwrap(), first);
    rig.ring.done();
    assert!(rig.ring.next(true).unwrap().is_none());
}

#[test]
fn a_discarding_ring_keeps_the_oldest_and_counts_the_rest() {
    let Some(mut rig) = Rig::new(Loss::Discard, 4096, 8) else {
        return;
    };
    let (mut kept, mut told) = (0, 0);
    for round in 0..5 {
        (0..2000).for_each(|number| rig.marker.write(2000 * round + number));
        // Read two pages of it, or all of it.
        let mut pages = 0;
        while pages < 2 || round == 4 {
            let Some(bytes) = rig.ring.next(true).unwrap() else {
                break;
            };
            let page = Page::parse(&rig.layout, bytes).unwrap();
            let lost = page.lost();
            kept += numbers(&page).len() as u64;
            told += rig.ring.newly_lost(lost).unwrap();
            rig.ring.done();
            pages += 1;
        }
    }
    told += rig.ring.lost_at_end().unwrap();
    let stats = rig.instance.stats(CPU).unwrap();
    assert_eq!((kept + told, told), (10_000, stats.dropped), "{stats:?}");
    assert_eq!((stats.overrun, stats.commit_overrun, stats.entries), (0, 0, 0));
    assert!(told > 5000, "{told}");
    assert_eq!(
        (
            rig.ring.lost_at_end().unwrap(),
            rig.ring.newly_lost(Lost::None).unwrap()
        ),
        (0, 0)
    );
}

/// What is missing lies where the ring was full: behind what was in it, however much is read before that.
#[test]
fn a_discarding_ring_tells_what_is_missing_where_it_is() {
    let Some(mut rig) = Rig::new(Loss::Discard, 4096, 8) else {
        return;
    };
    let (mut next, mut told, mut holes) = (0, 0, 0);
    for round in 1..=5 {
        let end = 2000 * round;
        (end - 2000..end).for_each(|number| rig.marker.write(number));
        let mut pages = 0;
        while pages < 2 || round == 5 {
            let Some(bytes) = rig.ring.next(true).unwrap() else {
                break;
            };
            let page = Page::parse(&rig.layout, bytes).unwrap();
            let (lost, read) = (page.lost(), numbers(&page));
            let newly = rig.ring.newly_lost(lost).unwrap();
            assert_eq!(read[0], next + newly, "what is missing is missing before this page");
            holes += u64::from(newly > 0);
            told += newly;
            next = read[0] + read.len() as u64;
            rig.ring.done();
            pages += 1;
        }
    }
    assert!(holes > 1, "{holes}");
    told += rig.ring.lost_at_end().unwrap();
    assert_eq!(told, rig.instance.stats(CPU).unwrap().dropped);
}

#[test]
fn an_overwriting_ring_keeps_the_newest_and_tells_where_the_rest_is_missing() {
    let Some(mut rig) = Rig::new(Loss::Overwrite, 4096, 8) else {
        return;
    };
    let (mut next, mut told) = (0, 0);
    for round in 1..=5 {
        let end = 3000 * round;
        (next.max(end - 3000)..end).for_each(|number| rig.marker.write(number));
        let mut pages = 0;
        while pages < 2 || round == 5 {
            let Some(bytes) = rig.ring.next(true).unwrap() else {
                break;
            };
            let page = Page::parse(&rig.layout, bytes).unwrap();
            let (lost, read) = (page.lost(), numbers(&page));
            let newly = rig.ring.newly_lost(lost).unwrap();
            assert_eq!(read[0], next + newly, "what is missing is missing before this page");
            assert_ne!(lost, Lost::Unknown, "records of one size leave room for the count");
            told += newly;
            next = read[0] + read.len() as u64;
            rig.ring.done();
            pages += 1;
        }
    }
    assert_eq!(next, 15_000, "the newest is kept");
    let stats = rig.instance.stats(CPU).unwrap();
    assert_eq!((rig.ring.lost_at_end().unwrap(), told), (0, stats.overrun), "{stats:?}");
    assert!(told > 5000, "{told}");
}

/// Where pages do not say how many are lost before them, the sum is right nevertheless.
#[test]
fn losses_that_no_page_counts_add_up_too() {
    let Some(mut rig) = Rig::new(Loss::Overwrite, 4096, 8) else {
        return;
    };
    let mut told = 0;
    for round in 0..4 {
        (0..2000).for_each(|number| rig.marker.write(number));
        for _ in 0..2 {
            let lost = Page::parse(&rig.layout, rig.ring.next(true).unwrap().unwrap())
                .unwrap()
                .lost();
            let lost = if round == 1 { Lost::Unknown } else { lost };
            told += rig.ring.newly_lost(lost).unwrap();
            rig.ring.done();
        }
        if round == 2 {
            drop(rig.ring);
            rig.ring = rig.place.ring(&rig.instance, CPU);
            rig.ring.set_told(told);
        }
    }
    told += drain(&mut rig.ring, &rig.layout, |page| page.lost())
        .into_iter()
        .map(|lost| rig.ring.newly_lost(lost).unwrap())
        .sum::<u64>();
    told += rig.ring.lost_at_end().unwrap();
    assert_eq!(told, rig.instance.stats(CPU).unwrap().lost());
}

#[test]
fn the_same_settings_again_change_nothing() {
    let Some(place) = Fixture::new() else { return };
    run_on(CPU);
    let instance = place.instance(Loss::Overwrite, 65536, 5);
    assert!(instance.is_new());
    Marker::open(&instance).write(7);
    drop(instance);

    let again = Instance::create_or_open(&place.tracefs, &place.owner, 1, "test").unwrap();
    assert!(!again.is_new());
    again.set_ring(Loss::Overwrite, 65536, 5).unwrap();
    again.set_clock(TraceClock::Monotonic).unwrap();
    assert_eq!(
        again.stats(CPU).unwrap().entries,
        1,
        "rings are emptied by settings that differ only"
    );
    assert_eq!(again.read("tracing_on").unwrap().trim(), "1");
    again.set_clock(TraceClock::Tsc).unwrap();
    assert_eq!(again.stats(CPU).unwrap().entries, 0);
}

#[test]
fn a_ring_has_as_many_sub_buffers_as_asked() {
    let Some(place) = Fixture::new() else { return };
    run_on(CPU);
    for (subbuf_bytes, subbuf_count) in [
        (4096, 2),
        (4096, 7),
        (4096, 64),
        (16384, 9),
        (65536, 4),
        (65536, 64),
        (524_288, 3),
    ] {
        let instance = place.instance(Loss::Discard, subbuf_bytes, subbuf_count);
        let given_bytes = instance.subbuf_bytes().unwrap();
        let bytes =
            u64::from(given_bytes - 16) * u64::from(subbuf_bytes) * u64::from(subbuf_count) / u64::from(given_bytes);
        let kib: u64 = instance.read("buffer_size_kb").unwrap().trim().parse().unwrap();
        assert!(
            kib <= bytes / 1024 && kib + 1 >= bytes / 1024,
            "{subbuf_bytes} * {subbuf_count}: {kib} KiB"
        );
        assert_eq!(instance.cpus().unwrap()[0], 0);
        let mut ring = place.ring(&instance, CPU);
        Marker::open(&instance).write(1);
        assert!(ring.next(true).unwrap().is_some());
    }
}

#[test]
fn a_size_that_the_kernel_does_not_have_is_a_finding() {
    let Some(place) = Fixture::new() else { return };
    run_on(CPU);
    let instance = place.instance(Loss::Discard, 4096, 4);
    let findings = instance.set_ring(Loss::Discard, 1 << 20, 2).unwrap();
    assert_eq!(
        findings,
        [
            "the kernel's sub-buffers have 4096 bytes instead of 1048576 (only Linux 6.8 and later allows 4 to 512 KiB); \
          each ring has 512 of them"
        ]
    );
    assert_eq!(instance.read("buffer_size_kb").unwrap().trim(), "2040");
}

#[test]
fn the_readable_poll_means_a_full_page() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(place) = Fixture::new() else { return };
    run_on(CPU);
    let instance = place.instance(Loss::Discard, 4096, 64);
    let ring = place.ring(&instance, CPU);
    let mut marker = Marker::open(&instance);
    let is_readable = || poll(&mut [PollFd::new(&ring, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1;
    assert!(!is_readable());
    marker.write(0);
    let poll_says_any_record = is_readable();
    (0..3 * NUMBERS_IN_4096).for_each(|number| marker.write(number));
    assert!(is_readable());
    if poll_says_any_record {
        eprintln!("this kernel's poll does not wait for full pages (before Linux 6.1)");
    }
}

#[test]
fn a_buffer_of_another_size_is_refused() {
    let Some(place) = Fixture::new() else { return };
    let instance = place.instance(Loss::Discard, 4096, 4);
    let key = RingKey {
        session: 1,
        stream_id: 0,
        cpu: CPU,
    };
    let buffer = SharedBuffer::open(&place.run.path().join("other"), key, 8192).unwrap();
    let error = Ring::open(&instance, &PageLayout::USUAL, CPU, buffer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CPU 0: a sub-buffer has 4096 bytes, but its buffer has 8192"
    );
}

#[test]
fn two_readers_do_not_share_a_buffer() {
    let Some(place) = Fixture::new() else { return };
    let instance = place.instance(Loss::Discard, 4096, 4);
    let _ring = place.ring(&instance, CPU);
    let key = RingKey {
        session: 1,
        stream_id: 0,
        cpu: CPU,
    };
    let error = SharedBuffer::open(&place.run.path().join("buffer_0"), key, 4096).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
}
