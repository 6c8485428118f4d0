// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU goes offline and comes back: what it recorded is read, and what it records then. Needs root, tracefs and a second CPU that can go.
//!
//! One test, so that the CPU goes once.

mod real;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread;

use piste_kernel::instance::Instance;
use piste_kernel::page::PageLayout;
use piste_kernel::page_ring::PageRing;
use piste_kernel::spec::Loss;
use real::{Fixture, Marker, drain, numbers, run_on};

const CPU: u32 = 1;

#[test]
fn a_cpu_that_goes_keeps_its_records_and_one_that_comes_is_read() {
    let Some(place) = Fixture::new() else { return };
    let Some(switch) = Switch::find() else {
        return real::skipped(&format!("CPU {CPU} cannot be taken offline here"));
    };
    let layout = PageLayout::read(&place.tracefs).unwrap();
    let early = place.instance(Loss::Discard, 4096, 16);
    let mut early_ring = place.ring(&early, CPU);
    write_on(&early, 0..1000);

    let gone = switch.off();
    // Made while the CPU is away: it has no ring for it.
    let late = Instance::create_or_open(&place.tracefs, &place.owner, 2, "late").unwrap();
    late.set_ring(Loss::Discard, 4096, 16).unwrap();
    late.set_on(true).unwrap();
    assert!(early.cpus().unwrap().contains(&CPU) && late.cpus().unwrap().contains(&CPU));
    let folder = place.run.path().join("late");
    fs::create_dir(&folder).unwrap();
    let mut late_ring = real::open_ring(&folder, &late, &layout, CPU);
    let while_away = [false, true].map(|flush| late_ring.next(flush).unwrap().is_some());
    let full_pages = early_ring.next(false).unwrap().is_some();
    let kept = drain(&mut early_ring, &layout, numbers).concat();
    drop(gone);

    assert_eq!(while_away, [false; 2]);
    assert!(full_pages);
    assert_eq!(kept, (0..1000).collect::<Vec<_>>());
    for (instance, ring) in [(&early, &mut early_ring), (&late, &mut late_ring)] {
        write_on(instance, 2000..2300);
        assert_eq!(drain(ring, &layout, numbers).concat(), (2000..2300).collect::<Vec<_>>());
        assert_eq!(ring.lost_at_end().unwrap(), 0);
    }
    assert_eq!(early.stats(CPU).unwrap().read, 1300);
}

/// Writes numbers on the CPU, in a thread of its own that is not in the way when the CPU goes.
fn write_on(instance: &Instance, numbers: std::ops::Range<u64>) {
    thread::scope(|scope| {
        scope.spawn(|| {
            run_on(CPU);
            let mut marker = Marker::open(instance);
            numbers.for_each(|number| marker.write(number));
        });
    });
}

/// Takes the CPU away.
struct Switch(PathBuf);

impl Switch {
    fn find() -> Option<Self> {
        let path = PathBuf::from(format!("/sys/devices/system/cpu/cpu{CPU}/online"));
        let is_on = fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1");
        (is_on && OpenOptions::new().write(true).open(&path).is_ok()).then_some(Self(path))
    }

    fn off(&self) -> Gone<'_> {
        let gone = Gone(&self.0);
        fs::write(&self.0, "0").unwrap();
        gone
    }
}

/// Brings the CPU back, however the test ends.
struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        fs::write(self.0, "1").unwrap();
    }
}
