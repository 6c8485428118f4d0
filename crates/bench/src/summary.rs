// SPDX-License-Identifier: MIT OR Apache-2.0
//! From rounds and samples to the figures of a report.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::peers::{CALL, FLOOR, PISTE, PISTE_CALL, Peer, Recorded, RowKind};
use crate::program::{About, Round, Sample};
use crate::report::{
    Absent, CONFIDENCE, Counters, Estimate, EventStep, FORMAT, Failed, Group, Machine, Method, Percentile, Report, Row,
    RowClock, SampleClock, Samples, State,
};
use crate::run::{Kept, Load, Pass, Plan, quickest_ns};
use crate::statistics::{estimate, half_of_difference, median, percentile, sorted};

/// Of single events.
const PERCENTILES: [f64; 6] = [25.0, 50.0, 75.0, 95.0, 99.0, 99.9];

/// What was measured of rows.
#[derive(Default)]
pub(crate) struct Measured {
    all: Vec<Series>,
}

/// Everything that was measured of one row with one load.
pub(crate) struct Series {
    pub(crate) peer: &'static Peer,
    pub(crate) kind: &'static RowKind,
    pub(crate) load: Load,
    pub(crate) rounds: Vec<Kept>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) recorded_events: Option<u64>,
    pub(crate) discarded_events: u64,
}

impl Measured {
    /// What was measured of a row with a load.
    pub(crate) fn series(&mut self, peer: &'static Peer, kind: &'static RowKind, load: Load) -> &mut Series {
        let is_it = |series: &Series| series.kind.name == kind.name && series.load == load;
        let place = self.all.iter().position(is_it).unwrap_or_else(|| {
            self.all.push(Series::new(peer, kind, load));
            self.all.len() - 1
        });
        &mut self.all[place]
    }

    /// Adds what was measured later of the same rows.
    pub(crate) fn add(&mut self, later: Measured) {
        for series in later.all {
            let own = self.series(series.peer, series.kind, series.load);
            own.rounds.extend(series.rounds);
            own.samples.extend(series.samples);
            if let Some(events) = series.recorded_events {
                own.add_recorded(Recorded {
                    events,
                    discarded: series.discarded_events,
                });
            }
        }
    }

    /// How many repetitions there are.
    pub(crate) fn repetitions(&self) -> u32 {
        let rounds = self.all.iter().flat_map(|series| &series.rounds);
        rounds.map(|kept| kept.when.repetition).collect::<BTreeSet<u32>>().len() as u32
    }
}

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) measured: Measured,
    pub(crate) passes: Vec<Pass>,
    pub(crate) about: About,
    /// Samples of nothing.
    pub(crate) empty_samples: Vec<Sample>,
    pub(crate) absent: Vec<Absent>,
    pub(crate) failed: Vec<Failed>,
    pub(crate) steal_ns: u64,
}

impl Outcome {
    /// A peer did not run; nothing of it is shown.
    pub(crate) fn fail(&mut self, peer: &'static Peer, reason: String) {
        let failed = Failed {
            peer: peer.name.to_owned(),
            reason,
        };
        if !self.failed.contains(&failed) {
            self.failed.push(failed);
        }
    }

    /// What a peer did, unless it failed.
    ///
    /// # Errors
    /// Ctrl-C.
    pub(crate) fn attempt<T>(&mut self, peer: &'static Peer, done: Result<T, Error>) -> Result<Option<T>, Error> {
        match done {
            Ok(value) => Ok(Some(value)),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(Error::Failed(reason)) => {
                self.fail(peer, reason);
                Ok(None)
            }
        }
    }

    pub(crate) fn has_failed(&self, peer: &Peer) -> bool {
        self.failed.iter().any(|failed| failed.peer == peer.name)
    }
}

impl Series {
    fn new(peer: &'static Peer, kind: &'static RowKind, load: Load) -> Series {
        Series {
            peer,
            kind,
            load,
            rounds: Vec::new(),
            samples: Vec::new(),
            recorded_events: None,
            discarded_events: 0,
        }
    }

    /// What the tracer has at the end of a repetition.
    pub(crate) fn add_recorded(&mut self, recorded: Recorded) {
        let least = self
            .recorded_events
            .map_or(recorded.events, |least| least.min(recorded.events));
        self.recorded_events = Some(least);
        self.discarded_events += recorded.discarded;
    }
}

/// The report.
///
/// # Errors
/// Ctrl-C came before there was a figure.
pub(crate) fn summarize(
    mut outcome: Outcome,
    plan: &Plan,
    machine: Machine,
    method: Method,
    was_interrupted: bool,
) -> Result<Report, Error> {
    refuse_silent(&mut outcome);
    let figures = Figures::of(&outcome);
    if was_interrupted && figures.series.is_empty() {
        return Err(Error::Interrupted);
    }
    Ok(Report {
        format: FORMAT,
        begin_ns: plan.begin_ns.to_string(),
        command: plan.command.clone(),
        machine,
        method,
        clock: sample_clock(&outcome),
        counters: Counters {
            names: outcome.about.counters.clone(),
            lack: outcome.about.lack.clone(),
        },
        state: figures.state(&outcome),
        rows: figures.series.iter().map(|series| figures.row(series)).collect(),
        absent: outcome.absent,
        failed: outcome.failed,
        was_interrupted,
    })
}

/// A tracer whose recording is empty was not measured: it would be fast.
fn refuse_silent(outcome: &mut Outcome) {
    let silent: Vec<(&'static Peer, &'static RowKind)> = outcome
        .measured
        .all
        .iter()
        .filter(|series| series.recorded_events == Some(0))
        .map(|series| (series.peer, series.kind))
        .collect();
    for (peer, kind) in silent {
        outcome.fail(peer, format!("it recorded nothing of {}", kind.name));
    }
    let failed: Vec<String> = outcome.failed.iter().map(|failed| failed.peer.clone()).collect();
    outcome
        .measured
        .all
        .retain(|series| !failed.iter().any(|peer| peer == series.peer.name));
}

fn sample_clock(outcome: &Outcome) -> SampleClock {
    let empty: Vec<f64> = outcome.empty_samples.iter().map(|sample| sample.ns).collect();
    let ordered = sorted(&empty);
    if ordered.is_empty() {
        return SampleClock::default();
    }
    let tick_ns = 1e9 / outcome.about.tick_hz;
    SampleClock {
        tick_hz: outcome.about.tick_hz,
        // A clock may have steps that are longer than its ticks.
        resolution_ns: rounded((percentile(&ordered, 95.0) - percentile(&ordered, 5.0)).max(tick_ns)),
        cost_ns: rounded(percentile(&ordered, 50.0)),
    }
}

/// What was measured, and which passes were disturbed.
struct Figures<'o> {
    series: Vec<&'o Series>,
    disturbed: Vec<bool>,
}

impl<'o> Figures<'o> {
    fn of(outcome: &'o Outcome) -> Figures<'o> {
        let quickest = quickest_ns(&outcome.passes);
        let measured = outcome.measured.all.iter();
        Figures {
            series: measured.filter(|series| !series.rounds.is_empty()).collect(),
            disturbed: outcome.passes.iter().map(|pass| pass.is_disturbed(quickest)).collect(),
        }
    }

    fn state(&self, outcome: &Outcome) -> State {
        let references: Vec<f64> = outcome.passes.iter().map(|pass| pass.reference_ns).collect();
        let references = sorted(&references);
        State {
            passes: outcome.passes.len() as u32,
            disturbed: self.disturbed.iter().filter(|disturbed| **disturbed).count() as u32,
            reference_min_ns: precise(percentile(&references, 0.0)),
            reference_median_ns: precise(percentile(&references, 50.0)),
            reference_max_ns: precise(percentile(&references, 100.0)),
            steal_ns: outcome.steal_ns,
        }
    }

    fn is_disturbed(&self, kept: &Kept) -> bool {
        self.disturbed[kept.when.pass]
    }

    /// Whether most rounds of a row were disturbed: then that is how the machine is.
    fn uses_disturbed(&self, series: &Series) -> bool {
        let disturbed = series.rounds.iter().filter(|kept| self.is_disturbed(kept)).count();
        2 * disturbed > series.rounds.len()
    }

    /// The rounds that are in the figures of a row.
    fn kept<'s>(&'s self, series: &'s Series) -> impl Iterator<Item = &'s Kept> {
        let uses_disturbed = self.uses_disturbed(series);
        let rounds = series.rounds.iter();
        rounds.filter(move |kept| uses_disturbed || !self.is_disturbed(kept))
    }

    fn row(&self, series: &Series) -> Row {
        let times = self.times(series);
        let ordered = sorted(&times);
        let repetitions = self.repetitions(series, series.kind.clock);
        let added_ns = self.added(series);
        Row {
            name: series.kind.name.to_owned(),
            peer: series.peer.name.to_owned(),
            title: series.kind.title.to_owned(),
            group: series.peer.group,
            threads: series.load.threads,
            processes: series.load.processes,
            payload_bytes: series.load.payload_bytes,
            clock: series.kind.clock,
            time_ns: time(&repetitions),
            min_ns: rounded(percentile(&ordered, 0.0)),
            p95_ns: rounded(percentile(&ordered, 95.0)),
            cpu_ns: time(&self.repetitions(series, RowClock::Cpu)).value,
            wall_ns: time(&self.repetitions(series, RowClock::Wall)).value,
            repetitions_ns: repetitions.values().map(|ns| rounded(*ns)).collect(),
            to_floor: self.to_floor(series),
            to_piste: self.to_piste(series),
            added_ns: added_ns.map(|added| rounded(mean(&added))),
            step: self.step(series),
            events: self.kept(series).map(|kept| kept.round.events).sum(),
            preempted_rounds: self
                .kept(series)
                .filter(|kept| count(&kept.round, "preemptions") > 0.0)
                .count() as u32,
            rounds: times.len() as u32,
            uses_disturbed: self.uses_disturbed(series),
            counters: self.counters(series),
            samples: samples(&series.samples),
            recorded_events: series.recorded_events,
            discarded_events: series.discarded_events,
        }
    }

    /// Of each round.
    fn times(&self, series: &Series) -> Vec<f64> {
        self.kept(series)
            .map(|kept| time_ns(series.kind.clock, &kept.round))
            .collect()
    }

    /// The median of what `value` says of the rounds of each repetition.
    fn by_repetition(&self, series: &Series, value: impl Fn(&Kept) -> Option<f64>) -> Repetitions {
        let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for kept in self.kept(series) {
            if let Some(value) = value(kept) {
                values.entry(kept.when.repetition).or_default().push(value);
            }
        }
        values
            .into_iter()
            .map(|(repetition, values)| (repetition, median(&values)))
            .collect()
    }

    /// The median time of the rounds of each repetition.
    fn repetitions(&self, series: &Series, clock: RowClock) -> Repetitions {
        self.by_repetition(series, |kept| Some(time_ns(clock, &kept.round)))
    }

    fn named(&self, name: &str, load: Load) -> Option<&'o Series> {
        self.series
            .iter()
            .copied()
            .find(|series| series.kind.name == name && series.load == load)
    }

    /// How many times the time of another row in the same pass.
    fn times_of(&self, series: &Series, other: &Series) -> Option<Estimate> {
        let others: BTreeMap<usize, f64> = self
            .kept(other)
            .map(|kept| (kept.when.pass, time_ns(other.kind.clock, &kept.round)))
            .collect();
        let ratio = |kept: &Kept| Some(time_ns(series.kind.clock, &kept.round) / others.get(&kept.when.pass)?);
        let ratios = self.by_repetition(series, ratio);
        (!ratios.is_empty()).then(|| ratio_of(&ratios))
    }

    fn to_floor(&self, series: &Series) -> Option<Estimate> {
        match series.peer.group {
            Group::Events | Group::Steps => self.times_of(series, self.named(FLOOR, series.load)?),
            Group::Calls => {
                let calls = self.repetitions(self.named(CALL, series.load)?, RowClock::Cpu);
                quotients(&self.repetitions(series, series.kind.clock), &calls)
            }
        }
    }

    /// Of calls, how many times as much is added.
    fn to_piste(&self, series: &Series) -> Option<Estimate> {
        match series.peer.group {
            Group::Events | Group::Steps => self.times_of(series, self.named(PISTE, series.load)?),
            Group::Calls => quotients(&self.added(series)?, &self.added(self.named(PISTE_CALL, series.load)?)?),
        }
    }

    /// What is added to a call, in each repetition.
    fn added(&self, series: &Series) -> Option<Repetitions> {
        if series.peer.group != Group::Calls || series.kind.name == CALL {
            return None;
        }
        let call = self.named(CALL, series.load)?;
        let untraced = self.repetitions(call, series.kind.clock);
        let traced = self.repetitions(series, series.kind.clock);
        let added: Repetitions = joined(&traced, &untraced)
            .map(|(repetition, with, without)| (repetition, with - without))
            .collect();
        (!added.is_empty()).then_some(added)
    }

    /// What the last step of a row adds to the row before: the difference of their times, so that all steps add up to the whole event. The interval is
    /// that of the differences within repetitions, whose medians come from the same passes.
    fn step(&self, series: &Series) -> Option<EventStep> {
        if series.peer.group != Group::Steps {
            return None;
        }
        let rows = series.peer.rows;
        let place = rows.iter().position(|kind| kind.name == series.kind.name)?;
        let until_here = self.repetitions(series, series.kind.clock);
        let (added, time_before) = match place.checked_sub(1) {
            None => (values(&until_here), 0.0),
            Some(before) => {
                let before = self.named(rows[before].name, series.load)?;
                let until_before = self.repetitions(before, series.kind.clock);
                let added = joined(&until_here, &until_before).map(|(_, with, without)| with - without);
                (added.collect(), time(&until_before).value)
            }
        };
        if added.is_empty() {
            return None;
        }
        let value = time(&until_here).value - time_before;
        let half = half_of_difference(&added, CONFIDENCE);
        Some(EventStep {
            name: series.kind.variant.to_owned(),
            added_ns: Estimate {
                value: rounded(value),
                low: half.map(|half| rounded(value - half)),
                high: half.map(|half| rounded(value + half)),
            },
        })
    }

    /// What was counted, for each event of the rounds in which it was counted.
    fn counters(&self, series: &Series) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, (f64, u64)> = BTreeMap::new();
        for kept in self.kept(series) {
            let events = kept.round.events * u64::from(series.load.all_threads());
            for (name, count) in &kept.round.counts {
                let (sum, of) = sums.entry(name.clone()).or_default();
                *sum += count;
                *of += events;
            }
        }
        // Millionths: of most rounds, few are interrupted.
        let for_each = |(sum, events): (f64, u64)| (sum / events.max(1) as f64 * 1e6).round() / 1e6;
        sums.into_iter()
            .map(|(name, counted)| (name, for_each(counted)))
            .collect()
    }
}

/// A value for each repetition. One may be missing.
type Repetitions = BTreeMap<u32, f64>;

/// The values of the repetitions that both have.
fn joined(one: &Repetitions, other: &Repetitions) -> impl Iterator<Item = (u32, f64, f64)> {
    let both = |(repetition, value): (&u32, &f64)| Some((*repetition, *value, *other.get(repetition)?));
    one.iter().filter_map(both)
}

fn values(repetitions: &Repetitions) -> Vec<f64> {
    repetitions.values().copied().collect()
}

fn mean(repetitions: &Repetitions) -> f64 {
    values(repetitions).iter().sum::<f64>() / repetitions.len().max(1) as f64
}

fn time_ns(clock: RowClock, round: &Round) -> f64 {
    let ns = match clock {
        RowClock::Cpu => round.cpu_ns,
        RowClock::Wall => round.wall_ns,
    };
    ns as f64 / round.events.max(1) as f64
}

fn count(round: &Round, name: &str) -> f64 {
    round.counts.get(name).copied().unwrap_or(0.0)
}

/// Of times; nothing of them is 0, unless the clock does not tell.
fn time(repetitions: &Repetitions) -> Estimate {
    let positive: Vec<f64> = repetitions.values().map(|ns| ns.max(1e-3)).collect();
    let estimate = estimate(&positive, CONFIDENCE);
    Estimate {
        value: rounded(estimate.value),
        low: estimate.low.map(rounded),
        high: estimate.high.map(rounded),
    }
}

fn ratio_of(ratios: &Repetitions) -> Estimate {
    let estimate = estimate(&values(ratios), CONFIDENCE);
    Estimate {
        value: precise(estimate.value),
        low: estimate.low.map(precise),
        high: estimate.high.map(precise),
    }
}

/// Of values in the same repetitions; `None` if one of them is not positive, as it is between two that differ by less than they vary.
fn quotients(above: &Repetitions, below: &Repetitions) -> Option<Estimate> {
    let is_positive = above.values().chain(below.values()).all(|value| *value > 0.0);
    let ratios: Repetitions = joined(above, below)
        .map(|(repetition, above, below)| (repetition, above / below))
        .collect();
    (is_positive && !ratios.is_empty()).then(|| ratio_of(&ratios))
}

fn samples(samples: &[Sample]) -> Option<Samples> {
    if samples.is_empty() {
        return None;
    }
    let all: Vec<f64> = samples.iter().map(|sample| sample.ns).collect();
    let ordered = sorted(&all);
    Some(Samples {
        count: samples.len() as u64,
        interrupted: samples.iter().filter(|sample| sample.is_interrupted).count() as u64,
        min_ns: rounded(percentile(&ordered, 0.0)),
        percentiles: PERCENTILES
            .map(|percent| Percentile {
                percent,
                ns: rounded(percentile(&ordered, percent)),
            })
            .to_vec(),
        max_ns: rounded(percentile(&ordered, 100.0)),
    })
}

/// Thousandths are more than anything here tells apart.
fn rounded(ns: f64) -> f64 {
    (ns * 1e3).round() / 1e3
}

fn precise(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::PEERS;
    use crate::run::When;

    fn peer_of(row: &str) -> (&'static Peer, &'static RowKind) {
        let mut rows = PEERS
            .iter()
            .flat_map(|peer| peer.rows.iter().map(move |kind| (peer, kind)));
        rows.find(|(_, kind)| kind.name == row).expect("a row")
    }

    /// Passes as fast as that, three in each repetition.
    fn outcome(references_ns: &[f64]) -> Outcome {
        let pass = |reference_ns: &f64| Pass {
            reference_ns: *reference_ns,
            stolen: 0.0,
        };
        Outcome {
            passes: references_ns.iter().map(pass).collect(),
            ..Outcome::default()
        }
    }

    /// A round of 100 events in each pass, which take so long each.
    fn add(outcome: &mut Outcome, row: &str, times_ns: &[u64]) {
        let (peer, kind) = peer_of(row);
        for (pass, ns) in times_ns.iter().enumerate() {
            let when = When {
                repetition: pass as u32 / 3,
                pass,
            };
            let round = Round {
                events: 100,
                cpu_ns: 100 * ns,
                wall_ns: 200 * ns,
                counts: [
                    ("cycles".to_owned(), 300.0),
                    ("preemptions".to_owned(), f64::from(u8::from(pass == 0))),
                ]
                .into(),
            };
            outcome
                .measured
                .series(peer, kind, Load::ONE)
                .rounds
                .push(Kept { when, round });
        }
    }

    fn row_of(outcome: &Outcome, name: &str) -> Row {
        let figures = Figures::of(outcome);
        let series = figures.named(name, Load::ONE).expect("it was measured");
        figures.row(series)
    }

    #[test]
    fn a_row_has_the_mean_of_its_repetitions_and_of_ratios_in_the_same_pass() {
        let mut outcome = outcome(&[1.0; 6]);
        // The machine is half as fast in the second repetition.
        add(&mut outcome, "floor", &[10, 10, 11, 20, 20, 22]);
        add(&mut outcome, "piste", &[12, 12, 20, 24, 24, 40]);
        let piste = row_of(&outcome, "piste");
        // The geometric mean of 12 and 24.
        assert_eq!(
            (piste.time_ns.value, piste.min_ns, piste.rounds, piste.events),
            (16.971, 12.0, 6, 600)
        );
        assert!(piste.time_ns.low < Some(16.0) && piste.time_ns.high > Some(18.0));
        assert_eq!(piste.repetitions_ns, [12.0, 24.0]);
        assert_eq!((piste.cpu_ns, piste.wall_ns), (16.971, 33.941));
        let ratio = piste.to_floor.expect("floor was measured");
        assert_eq!((ratio.value, ratio.low, ratio.high), (1.2, Some(1.2), Some(1.2)));
        assert_eq!(piste.to_piste.map(|ratio| ratio.value), Some(1.0));
        assert_eq!((piste.counters["cycles"], piste.preempted_rounds), (3.0, 1));
        assert!(piste.samples.is_none() && piste.added_ns.is_none());
    }

    #[test]
    fn passes_on_a_slow_cpu_are_left_out_of_rows_most_of_whose_passes_were_not() {
        let times = [10, 30, 10];
        let mut few = outcome(&[1.0, 1.5, 1.0]);
        add(&mut few, "floor", &times);
        assert_eq!((row_of(&few, "floor").rounds, row_of(&few, "floor").p95_ns), (2, 10.0));
        let state = Figures::of(&few).state(&few);
        assert_eq!((state.passes, state.disturbed), (3, 1));
        assert!(!row_of(&few, "floor").uses_disturbed);
        let mut most = outcome(&[1.0, 1.5, 1.5]);
        add(&mut most, "floor", &times);
        assert!((row_of(&most, "floor").rounds, row_of(&most, "floor").uses_disturbed) == (3, true));
        // One row without a good round does not decide for the others.
        let mut one = outcome(&[1.0, 1.5, 1.0]);
        add(&mut one, "floor", &times);
        add(&mut one, "call", &times);
        one.measured.all[1].rounds.retain(|kept| kept.when.pass == 1);
        assert!((row_of(&one, "call").rounds, row_of(&one, "call").uses_disturbed) == (1, true));
        assert!((row_of(&one, "floor").rounds, row_of(&one, "floor").uses_disturbed) == (2, false));
    }

    #[test]
    fn repetitions_are_compared_with_the_same_ones() {
        // All of the first repetition of piste-call was disturbed.
        let mut outcome = outcome(&[1.5, 1.5, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        outcome.passes.extend(
            [Pass {
                reference_ns: 1.0,
                stolen: 0.0,
            }; 3],
        );
        add(&mut outcome, "call", &[100; 9]);
        add(
            &mut outcome,
            "piste-call",
            &[900, 900, 900, 300, 300, 300, 400, 400, 400],
        );
        let call = &mut outcome.measured.all[0];
        call.rounds
            .iter_mut()
            .filter(|kept| kept.when.pass < 3)
            .for_each(|kept| kept.when.pass += 9);
        let piste = row_of(&outcome, "piste-call");
        assert_eq!((piste.rounds, piste.repetitions_ns), (6, vec![300.0, 400.0]));
        assert_eq!(row_of(&outcome, "call").repetitions_ns, [100.0; 3]);
        // 3 and 4 times a call, which took 100 in each repetition.
        assert_eq!(piste.to_floor.map(|ratio| ratio.value), Some(3.4641));
        assert_eq!(piste.added_ns, Some(250.0));
    }

    #[test]
    fn a_counter_is_divided_by_the_events_that_it_counted() {
        let mut outcome = outcome(&[1.0; 3]);
        add(&mut outcome, "floor", &[10, 10, 10]);
        let rounds = &mut outcome.measured.all[0].rounds;
        rounds[0].round.counts.remove("cycles");
        assert_eq!(row_of(&outcome, "floor").counters["cycles"], 3.0);
    }

    #[test]
    fn what_is_added_to_a_call_is_compared() {
        let mut outcome = outcome(&[1.0; 3]);
        add(&mut outcome, "call", &[100, 110, 100]);
        add(&mut outcome, "piste-call", &[300, 300, 300]);
        add(&mut outcome, "perf", &[700, 700, 700]);
        add(&mut outcome, "strace", &[9000, 9000, 9000]);
        let perf = row_of(&outcome, "perf");
        assert_eq!(
            (perf.added_ns, perf.to_piste.map(|ratio| ratio.value)),
            (Some(600.0), Some(3.0))
        );
        assert_eq!(perf.to_floor.map(|ratio| ratio.value), Some(7.0));
        // By the wall clock, which the calls have, too.
        assert_eq!(row_of(&outcome, "strace").added_ns, Some(2.0 * 9000.0 - 200.0));
        assert_eq!(row_of(&outcome, "call").added_ns, None);
    }

    #[test]
    fn steps_add_up_to_the_whole_event() {
        let mut outcome = outcome(&[1.0; 6]);
        // Two repetitions; in the second one, the third step seems to take less than nothing.
        add(&mut outcome, "piste-callback", &[2, 1, 1, 1, 2, 2]);
        add(&mut outcome, "piste-lookup", &[3, 3, 3, 4, 4, 4]);
        add(&mut outcome, "piste-clock", &[9, 9, 99, 3, 3, 3]);
        let step = |row: &str| row_of(&outcome, row).step.expect("it is one");
        let added = ["piste-callback", "piste-lookup", "piste-clock"].map(|row| step(row).added_ns.value);
        let times = ["piste-callback", "piste-lookup", "piste-clock"].map(|row| row_of(&outcome, row).time_ns.value);
        // The geometric means of 1 and 2, 3 and 4, 9 and 3.
        assert_eq!(times, [1.414, 3.464, 5.196]);
        assert_eq!(added, [1.414, 2.05, 1.732]);
        assert_eq!(step("piste-clock").name, "clock");
        assert!(step("piste-clock").added_ns.low < Some(0.0));
        // The row before was not measured.
        add(&mut outcome, "piste-write", &[9; 6]);
        add(&mut outcome, "floor", &[9; 6]);
        assert!(row_of(&outcome, "piste-write").step.is_none() && row_of(&outcome, "floor").step.is_none());
    }

    #[test]
    fn a_tracer_that_recorded_nothing_is_not_shown() {
        let mut outcome = outcome(&[1.0; 3]);
        for row in ["floor", "lttng", "tracef", "uprobe"] {
            add(&mut outcome, row, &[10, 10, 10]);
        }
        let recorded = |events| Recorded { events, discarded: 2 };
        for (row, events) in [("lttng", 5), ("tracef", 7), ("tracef", 0), ("uprobe", 9), ("uprobe", 4)] {
            let (peer, kind) = peer_of(row);
            outcome
                .measured
                .series(peer, kind, Load::ONE)
                .add_recorded(recorded(events));
        }
        refuse_silent(&mut outcome);
        let shown: Vec<&str> = outcome.measured.all.iter().map(|series| series.kind.name).collect();
        assert_eq!(shown, ["floor", "uprobe"]);
        assert_eq!(outcome.failed.len(), 1);
        assert_eq!(outcome.failed[0].reason, "it recorded nothing of tracef");
        let uprobe = row_of(&outcome, "uprobe");
        assert_eq!((uprobe.recorded_events, uprobe.discarded_events), (Some(4), 4));
    }

    #[test]
    fn interrupted_samples_are_counted_and_kept() {
        let sample = |ns, is_interrupted| Sample { ns, is_interrupted };
        let all = [
            sample(40.0, false),
            sample(30.0, false),
            sample(9000.0, true),
            sample(50.0, false),
        ];
        let samples = samples(&all).expect("there are some");
        assert_eq!((samples.count, samples.interrupted), (4, 1));
        assert_eq!((samples.min_ns, samples.max_ns), (30.0, 9000.0));
        assert_eq!(
            (samples.percentiles[1].percent, samples.percentiles[1].ns),
            (50.0, 45.0)
        );
    }
}
