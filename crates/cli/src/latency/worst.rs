// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as long as the limit: the first one, which ends the loops, or the longest of all, while the loops go on. Each is kept with a snapshot
//! that the flight recorder wrote soon after it.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use piste_latency::{Crossing, Limit, Measured};

use super::cause::Explained;
use super::flight::Flight;

/// Keeps them.
pub(super) struct Worst {
    /// Or why there is none.
    recorder: Result<Flight, String>,
    stops: bool,
    kept_max: usize,
    kept: Vec<Kept>,
    /// Also those that are not kept.
    count: u64,
}

struct Kept {
    crossing: Crossing,
    snapshot: Result<PathBuf, String>,
}

impl Worst {
    /// None so far.
    pub(super) fn new(recorder: Result<Flight, String>, limit: Limit, kept_max: usize) -> Worst {
        Worst {
            recorder,
            stops: limit.stops,
            kept_max,
            kept: Vec::new(),
            count: 0,
        }
    }

    /// Why nothing records what happens.
    pub(super) fn why_no_recorder(&self) -> Option<&str> {
        self.recorder.as_ref().err().map(String::as_str)
    }

    /// These have come since the last time. If one of them is kept, a snapshot is taken now, which has all of them.
    pub(super) fn add(&mut self, mut crossings: Vec<Crossing>) {
        self.count += crossings.len() as u64;
        if self.stops {
            // Others may have come before their loops ended.
            crossings.sort_by_key(|crossing| crossing.end_monotonic_ns);
            crossings.truncate(self.kept_max - self.kept.len());
        }
        crossings.sort_by_key(|crossing| Reverse(crossing.duration));
        crossings.truncate(self.kept_max);
        crossings.retain(|crossing| self.is_wanted(crossing));
        if crossings.is_empty() {
            return;
        }
        let snapshot = match &mut self.recorder {
            Ok(recorder) => recorder.snapshot().map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        self.kept.extend(crossings.into_iter().map(|crossing| Kept {
            crossing,
            snapshot: snapshot.clone(),
        }));
        self.kept.sort_by_key(|kept| Reverse(kept.crossing.duration));
        for gone in self.kept.split_off(self.kept_max.min(self.kept.len())) {
            let is_needed = |path: &Path| self.kept.iter().any(|kept| kept.snapshot.as_deref() == Ok(path));
            if let Ok(path) = gone.snapshot
                && !is_needed(&path)
            {
                // What stays there takes room, and no more.
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    fn is_wanted(&self, crossing: &Crossing) -> bool {
        match self.kept.last() {
            Some(shortest) if self.kept.len() == self.kept_max => crossing.duration > shortest.crossing.duration,
            _ => true,
        }
    }

    /// The flight recorder ends. How many there were, and what those that are kept were due to, the longest first.
    pub(super) fn explained(self, measured: &[Measured]) -> (u64, Vec<Explained>) {
        drop(self.recorder);
        let explained = self.kept.iter().filter_map(|kept| {
            let measured = measured.iter().find(|one| one.cpu == kept.crossing.cpu)?;
            let snapshot = kept.snapshot.as_deref().map_err(String::clone);
            Some(Explained::of_loop(measured, kept.crossing, snapshot))
        });
        (self.count, explained.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn crossing(us: u64, end_us: u64) -> Crossing {
        Crossing {
            cpu: 0,
            tid: 1,
            duration: Duration::from_micros(us),
            end_monotonic_ns: end_us * 1000,
            end_tsc: None,
            seen: None,
        }
    }

    fn worst(stops: bool, kept_max: usize) -> Worst {
        let limit = Limit {
            from: Duration::ZERO,
            stops,
        };
        Worst::new(Err("none".into()), limit, kept_max)
    }

    fn kept(worst: &Worst) -> Vec<u128> {
        worst
            .kept
            .iter()
            .map(|kept| kept.crossing.duration.as_micros())
            .collect()
    }

    #[test]
    fn the_longest_are_kept() {
        let mut worst = worst(false, 2);
        worst.add(vec![]);
        worst.add(vec![crossing(5, 10)]);
        worst.add(vec![crossing(3, 20), crossing(9, 30), crossing(4, 40)]);
        assert_eq!(kept(&worst), [9, 5]);
        worst.add(vec![crossing(5, 50), crossing(6, 60)]);
        assert_eq!(kept(&worst), [9, 6]);
        assert_eq!(worst.count, 6);
    }

    #[test]
    fn the_first_one_ends_the_loops() {
        let mut worst = worst(true, 1);
        worst.add(vec![crossing(9, 20), crossing(5, 10)]);
        worst.add(vec![crossing(99, 30)]);
        assert_eq!(kept(&worst), [5]);
    }
}
