// SPDX-License-Identifier: MIT OR Apache-2.0
//! The highest rate at which a tracer loses no event, by bisection. The searches of all tracers take turns, so that whatever slows the machine slows
//! all of them.
//!
//! A rate counts as one that loses events only if it does so twice in a row: something else may have kept the consumer from its work once.

use super::looper::{Measure, Turns};
use super::{Error, Part, Plan, Step, Traced, Tracers, is_set, recorders};

/// The two rates that a search ends with are closer than this.
pub const RESOLUTION: f64 = 0.01;
/// No lower rate is tried, in events a second.
const RATE_MIN_HZ: f64 = 100.0;

/// Whether a rate loses events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The rate that was asked for; absent: as many events as the loop can reach.
    pub asked_hz: Option<u64>,
    /// The rate that the loop reached.
    pub rate_hz: f64,
    /// How many events that were.
    pub events: u64,
    /// Of these, those that the tracer had no space for.
    pub lost: u64,
    /// Events of the kernel that the tracer had no space for. They do not decide.
    pub kernel_lost: u64,
}

/// What is known of a tracer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The tracer.
    pub traced: Traced,
    /// All trials, in their order.
    pub trials: Vec<Trial>,
    /// The rate that the loop reaches if nothing limits it.
    pub reachable_hz: Option<f64>,
    /// The highest rate without losses; absent: none is known.
    pub loss_free: Option<Trial>,
    /// The lowest rate with losses; absent: none is known.
    pub lossy: Option<Trial>,
    /// Whether the search has come to its end.
    pub is_complete: bool,
}

/// The searches of all tracers.
#[derive(Debug)]
pub struct Rates {
    /// Of each tracer.
    pub found: Vec<Found>,
    /// What could not be prepared.
    pub notes: Vec<String>,
    /// Ctrl-C came before the end.
    pub was_interrupted: bool,
}

/// Searches for the rates of all tracers. `tell` is called before each step.
///
/// # Errors
/// A tracer is not there, or failed; or Ctrl-C came before there was a trial.
pub fn find(plan: &Plan, tell: &mut dyn FnMut(Step)) -> Result<Rates, Error> {
    let recorders = recorders(plan)?;
    let tracers = Tracers::find(plan, &recorders, tell)?;
    let mut searches: Vec<(Traced, Search)> = plan.traced.iter().map(|one| (*one, Search::default())).collect();
    let mut notes = Vec::new();
    let has_trial = |searches: &[(Traced, Search)]| searches.iter().any(|(_, search)| !search.trials.is_empty());
    while !is_set(&plan.interrupted) && searches.iter().any(|(_, search)| search.next().is_some()) {
        for place in 0..searches.len() {
            let (traced, search) = &searches[place];
            let (traced, number) = (*traced, search.trials.len() + 1);
            let Some(Ask(rate_hz)) = search.next().filter(|_| !is_set(&plan.interrupted)) else {
                continue;
            };
            tell(Step::Trial {
                number,
                traced,
                rate_hz,
            });
            let part = Part {
                duration: plan.duration,
                loops: None,
                max_rate_hz: rate_hz,
                explains: false,
                measure: Measure::Turns,
            };
            let (turns, kept) = match tracers.measure::<Turns>(traced, &part, &mut |_| Ok(())) {
                Ok(measured) => measured,
                Err(error) if error.is_interruption() && has_trial(&searches) => break,
                Err(error) => return Err(error),
            };
            notes.extend(turns.notes);
            // A trial that ended early may not have had the time to lose anything.
            if !is_set(&plan.interrupted) || kept.lost > 0 {
                searches[place].1.add(Trial {
                    asked_hz: rate_hz,
                    rate_hz: turns.events as f64 / turns.duration.as_secs_f64().max(f64::MIN_POSITIVE),
                    events: turns.events,
                    lost: kept.lost,
                    kernel_lost: kept.kernel_lost,
                });
            }
        }
    }
    notes.sort();
    notes.dedup();
    Ok(Rates {
        found: searches
            .into_iter()
            .map(|(traced, search)| search.found(traced))
            .collect(),
        notes,
        was_interrupted: is_set(&plan.interrupted),
    })
}

/// A rate to try; absent: the highest that the loop can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ask(Option<u64>);

/// A search.
#[derive(Debug, Default)]
struct Search {
    trials: Vec<Trial>,
    reachable_hz: Option<f64>,
    loss_free: Option<Trial>,
    lossy: Option<Trial>,
    /// The last trial lost events, and is repeated.
    is_doubted: bool,
}

impl Search {
    /// What is tried next; `None` at the end.
    fn next(&self) -> Option<Ask> {
        if self.is_doubted {
            return self.trials.last().map(|trial| Ask(trial.asked_hz));
        }
        // The loop alone reaches what nothing asked for.
        let asked = |trial: &Trial| trial.asked_hz.map_or(trial.rate_hz, |rate_hz| rate_hz as f64);
        let rate_hz = match (self.loss_free.as_ref().map(asked), self.lossy.as_ref().map(asked)) {
            (None, None) => return Some(Ask(None)),
            (Some(_), None) => return None,
            (None, Some(lossy)) if lossy <= RATE_MIN_HZ => return None,
            (None, Some(lossy)) => (lossy / 2.0).max(RATE_MIN_HZ),
            (Some(free), Some(lossy)) if lossy <= free * (1.0 + RESOLUTION) => return None,
            (Some(free), Some(lossy)) => (free * lossy).sqrt(),
        };
        Some(Ask(Some(rate_hz.round() as u64)))
    }

    fn add(&mut self, trial: Trial) {
        if trial.asked_hz.is_none() {
            self.reachable_hz = Some(self.reachable_hz.unwrap_or(0.0).max(trial.rate_hz));
        }
        self.trials.push(trial);
        match (trial.lost > 0, self.is_doubted) {
            (false, _) => self.loss_free = Some(trial),
            (true, true) => self.lossy = Some(trial),
            (true, false) => {
                self.is_doubted = true;
                return;
            }
        }
        self.is_doubted = false;
    }

    fn found(self, traced: Traced) -> Found {
        Found {
            traced,
            is_complete: self.next().is_none(),
            trials: self.trials,
            reachable_hz: self.reachable_hz,
            loss_free: self.loss_free,
            lossy: self.lossy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a loop that reaches `reachable_hz` and a tracer that loses events above `limit_hz`, and by chance in the trials of these numbers.
    fn search(reachable_hz: f64, limit_hz: f64, by_chance: &[usize]) -> Search {
        let mut search = Search::default();
        while let Some(Ask(asked_hz)) = search.next() {
            let rate_hz = asked_hz.map_or(reachable_hz, |rate_hz| reachable_hz.min(rate_hz as f64));
            let is_lossy = rate_hz > limit_hz || by_chance.contains(&search.trials.len());
            search.add(Trial {
                asked_hz,
                rate_hz,
                events: 1000,
                lost: u64::from(is_lossy),
                kernel_lost: 0,
            });
            assert!(search.trials.len() < 60, "{search:?}");
        }
        search
    }

    #[test]
    fn the_limit_lies_between_two_rates_that_are_close() {
        for limit_hz in [150.0, 40_000.0, 4_321_000.0, 9_999_999.0] {
            let search = search(10e6, limit_hz, &[]);
            let (free, lossy) = (search.loss_free.expect("known"), search.lossy.expect("known"));
            assert!(
                free.rate_hz <= limit_hz && limit_hz < lossy.rate_hz,
                "{free:?} {lossy:?}"
            );
            assert!(lossy.rate_hz <= free.rate_hz * 1.011, "{free:?} {lossy:?}");
            assert_eq!(search.reachable_hz, Some(10e6));
        }
    }

    #[test]
    fn a_tracer_may_be_faster_than_the_loop_or_lose_always() {
        let fast = search(10e6, f64::INFINITY, &[]);
        assert_eq!((fast.trials.len(), fast.lossy), (1, None));
        assert_eq!(fast.loss_free.expect("known").rate_hz, 10e6);
        let slow = search(10e6, 0.0, &[]);
        assert_eq!(slow.loss_free, None);
        assert_eq!(slow.lossy.expect("known").rate_hz, RATE_MIN_HZ);
    }

    #[test]
    fn one_loss_may_be_by_chance() {
        let quiet = search(10e6, 2e6, &[]);
        // Number 6 is the first one below the limit, here and without chance.
        let disturbed = search(10e6, 2e6, &[6, 9]);
        let rates = |search: &Search| {
            (
                search.loss_free.map(|trial| trial.asked_hz),
                search.lossy.map(|trial| trial.asked_hz),
            )
        };
        assert_eq!(rates(&quiet), rates(&disturbed));
        assert!(disturbed.trials.len() > quiet.trials.len());
    }
}
