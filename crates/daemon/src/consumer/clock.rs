// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of the records, read by the consumer: a record cannot be from the future, and what a trace says of the wall clock is compared
//! with that.
//!
//! A program writes the time of its records. One that lies ahead would at best confuse people and at worst overflow in the
//! reader that makes a date of it.

use piste_ctf::{Clock, EnvironmentValue};
use piste_ring::ClockSource;
use rustix::time::{ClockId, clock_gettime};

/// Counters of two CPUs may differ a little, and a counter is read ahead of what precedes it. Some ten milliseconds.
const TOLERANCE_TICKS: u64 = 1 << 25;
/// No record of the kernel takes longer to be made, with the interrupts in between. A few milliseconds: readers report CPUs that end 10 ms apart.
const SETTLING_TICKS: u64 = 1 << 22;

/// Now, in ticks.
pub(crate) fn now_ticks(clock: ClockSource) -> u64 {
    #[cfg(test)]
    if let Some(ticks) = crate::simulation::clock::ticks() {
        return ticks;
    }
    match clock {
        ClockSource::Monotonic => {
            let now = clock_gettime(ClockId::Monotonic);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        }
        ClockSource::Tsc => tsc_ticks(),
    }
}

/// The latest time that a record can have which is there already.
pub(super) fn limit_ticks(clock: ClockSource) -> u64 {
    now_ticks(clock).saturating_add(TOLERANCE_TICKS)
}

/// What has an earlier time and was recorded by the kernel is there: who makes a record may be interrupted between reading the time and being done.
pub(crate) fn settled_ticks(clock: ClockSource) -> u64 {
    now_ticks(clock).saturating_sub(SETTLING_TICKS)
}

/// How far what a trace says of its clock was from the wall clock, at most, when somebody looked. A clock's speed is known to a millionth, and
/// the wall clock is set and corrected.
#[derive(Debug)]
pub(crate) struct ClockError {
    clock: Clock,
    most_ns: u64,
}

/// What metadata calls it.
const CLOCK_ERROR: &str = "piste_clock_error_ns";
/// Of some readings of both clocks, the one counts that took the least time.
const READINGS: usize = 8;

impl ClockError {
    pub(crate) fn new(clock: Clock) -> ClockError {
        ClockError { clock, most_ns: 0 }
    }

    /// Looks at both clocks now. Whether they are further apart than ever before.
    pub(crate) fn look(&mut self) -> bool {
        let now_ns = self.now_ns();
        let is_more = now_ns > self.most_ns;
        self.most_ns = self.most_ns.max(now_ns);
        is_more
    }

    /// What the environment of the trace says of it.
    pub(crate) fn entry(&self) -> (String, EnvironmentValue) {
        let most_ns = i64::try_from(self.most_ns).unwrap_or(i64::MAX);
        (CLOCK_ERROR.to_owned(), EnvironmentValue::Integer(most_ns))
    }

    /// Goes on from what such a text says.
    pub(crate) fn take(&mut self, text: &str) {
        let said = |line: &str| {
            line.strip_prefix(&format!("\t{CLOCK_ERROR} = "))?
                .strip_suffix(';')?
                .parse()
                .ok()
        };
        self.most_ns = text.lines().find_map(said).unwrap_or(self.most_ns);
    }

    /// The text of a kernel trace's metadata with what is known now.
    pub(crate) fn put_into(&self, text: &str) -> String {
        let is_said = |line: &&str| line.starts_with(&format!("\t{CLOCK_ERROR} = "));
        let line = format!("\t{CLOCK_ERROR} = {};", self.most_ns);
        match text.lines().find(is_said) {
            Some(said) => text.replacen(said, &line, 1),
            None => text.replacen("env {\n", &format!("env {{\n{line}\n"), 1),
        }
    }

    /// With the time that the reading took: the wall clock was read at some moment within it.
    fn now_ns(&self) -> u64 {
        let source = match &*self.clock.name {
            "x86-tsc" => ClockSource::Tsc,
            _ => ClockSource::Monotonic,
        };
        let reading = |_| {
            let before = now_ticks(source);
            let wall_ns = wall_ns();
            let took = now_ticks(source).saturating_sub(before);
            (took, before, wall_ns)
        };
        let readings = (0..READINGS).map(reading);
        let (took, before, wall_ns) = readings.min_by_key(|(took, ..)| *took).expect("there are some");
        let ns = |ticks: u64| i128::from(ticks) * NS_PER_S / i128::from(self.clock.frequency_hz.max(1));
        let said_ns =
            i128::from(self.clock.offset_seconds) * NS_PER_S + ns(self.clock.offset_ticks) + ns(before + took / 2);
        let error_ns = (wall_ns - said_ns).unsigned_abs() + ns(took.div_ceil(2)).unsigned_abs();
        u64::try_from(error_ns).unwrap_or(u64::MAX)
    }
}

const NS_PER_S: i128 = 1_000_000_000;

/// The wall clock now.
fn wall_ns() -> i128 {
    #[cfg(test)]
    if let Some(ticks) = crate::simulation::clock::ticks() {
        return ticks.into();
    }
    let wall = clock_gettime(ClockId::Realtime);
    i128::from(wall.tv_sec) * NS_PER_S + i128::from(wall.tv_nsec)
}

#[cfg(target_arch = "x86_64")]
fn tsc_ticks() -> u64 {
    tick_counter::x86_64_tick_counter()
}

/// Nobody records with this clock here.
#[cfg(not(target_arch = "x86_64"))]
fn tsc_ticks() -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monotonic(frequency_hz: u64, behind_ns: i128) -> Clock {
        let ns = |clock| {
            let time = clock_gettime(clock);
            i128::from(time.tv_sec) * NS_PER_S + i128::from(time.tv_nsec)
        };
        let offset_ns =
            ns(ClockId::Realtime) - behind_ns - ns(ClockId::Monotonic) * NS_PER_S / i128::from(frequency_hz);
        Clock {
            name: "monotonic".into(),
            uuid: [0; 16],
            frequency_hz,
            offset_seconds: offset_ns.div_euclid(NS_PER_S) as i64,
            offset_ticks: (offset_ns.rem_euclid(NS_PER_S) * i128::from(frequency_hz) / NS_PER_S) as u64,
            description: String::new(),
        }
    }

    #[test]
    fn distance_of_a_trace_from_the_wall_clock_is_what_it_is_and_its_largest_stays() {
        let mut near = ClockError::new(monotonic(1_000_000_000, 0));
        assert!(near.look());
        assert!(near.most_ns < 50_000_000, "{near:?}");
        let mut far = ClockError::new(monotonic(1_000_000_000, -3_000_000_000));
        far.look();
        assert!((2_900_000_000..3_100_000_000).contains(&far.most_ns), "{far:?}");
        // One that runs too fast by a millionth goes away from the wall clock.
        let mut fast = ClockError::new(monotonic(999_999_000, 0));
        fast.look();
        let first_ns = fast.most_ns;
        std::thread::sleep(std::time::Duration::from_millis(200));
        fast.look();
        assert!(fast.most_ns >= first_ns);
        far.clock = monotonic(1_000_000_000, 0);
        assert!(!far.look());
        assert!(far.most_ns > 2_900_000_000);
    }

    #[test]
    fn metadata_says_it_once() {
        let mut error = ClockError::new(monotonic(1_000_000_000, 0));
        let text = "env {\n\tdomain = \"kernel\";\n};\n";
        error.most_ns = 5;
        let first = error.put_into(text);
        assert_eq!(
            first,
            "env {\n\tpiste_clock_error_ns = 5;\n\tdomain = \"kernel\";\n};\n"
        );
        error.most_ns = 71;
        let later = error.put_into(&first);
        assert_eq!(later, first.replace("= 5;", "= 71;"));
        let mut of_successor = ClockError::new(monotonic(1_000_000_000, 0));
        of_successor.take(&later);
        assert_eq!(of_successor.most_ns, 71);
    }

    #[test]
    fn present_is_possible_and_the_future_is_not() {
        for clock in [ClockSource::Monotonic, ClockSource::Tsc] {
            let before = now_ticks(clock);
            let limit = limit_ticks(clock);
            assert!(before > 0 && before <= limit && limit < before.saturating_mul(2).saturating_add(1 << 30));
        }
    }
}
