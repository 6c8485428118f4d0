// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency`: measures on this machine with the loops of `piste_latency`, and shows what they found.
//!
//! - here: from arguments to a plan, waiting for the loops, Ctrl-C, exit status
//! - [`report`]: results as text; [`answer`]: as JSON; [`settings`]: the preflight as text
//! - [`plots`]: as SVG; [`html`]: as a page
//! - [`live`]: the figures on a terminal while they are measured
//! - [`load`]: what keeps the machine busy meanwhile
//! - [`guardian`]: prepares the machine, and restores it whatever happens to piste
//! - [`program`]: a program as the loop
//! - [`traced`]: a loop whose events tracers record
//! - [`worst`]: values that are too long; [`flight`]: a flight recorder of the kernel; [`cause`]: what it says of them

mod answer;
mod cause;
mod flight;
mod guardian;
mod html;
mod live;
mod load;
mod plots;
mod program;
mod report;
mod settings;
mod traced;
mod worst;

use std::ffi::OsString;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use piste_control::Places;
use piste_latency::layout::{cyclictest, hdr_log, hgrm};
use piste_latency::preflight::{Check, check};
use piste_latency::tally::Snapshot;
use piste_latency::{Clock, ClockChoice, Limit, Loop, Measured, Plan, Policy, Running, Summary, cpus};
use piste_reason::reason;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use self::cause::Explained;
use self::flight::Flight;
use self::guardian::Prepared;
pub(crate) use self::guardian::guard;
use self::live::Live;
pub(crate) use self::load::generate as generate_load;
use self::load::{Busy, Loads};
pub(crate) use self::traced::run_loop;
use self::worst::Worst;
use crate::arguments::{ClockOption, Latency, LoadChoice, LoopKind, PolicyChoice};
use crate::child::not_ignored;
use crate::failure::{Failure, INTERRUPTED, LATE, USAGE};
use crate::folder::TraceFolder;
use crate::page::Page;
use crate::screen::{show, tell_sentence};
use crate::unfinished::ResultFile;

/// Where /proc and /sys are.
const ROOT: &str = "/";
/// How long it measures unless something else is asked for.
const DURATION: Duration = Duration::from_secs(10);
/// As npt does.
const WARM_UP: u32 = 5;
const INTERVAL: Duration = Duration::from_millis(1);
/// The woken threads of the loop `wakeup`; those that wake them are one below.
const WAKEUP_POLICY: Policy = Policy::Fifo(80);
const THRESHOLD: Duration = Duration::from_micros(10);
/// The budget of a loop that never sleeps.
const ALWAYS: Duration = Duration::from_millis(10);
/// Between two looks for Ctrl-C, and two pictures on a terminal: seldom, because each look may disturb a loop.
const LOOK: Duration = Duration::from_millis(250);

/// What was measured, with all that a report says about it.
struct Results {
    plan: Plan,
    measured: Vec<Measured>,
    /// The values of all CPUs.
    all: Snapshot,
    checks: Vec<Check>,
    notes: Vec<String>,
    /// Ctrl-C came before the end.
    was_interrupted: bool,
    /// What kept the machine busy meanwhile.
    load: Option<Busy>,
    /// The machine was to be prepared.
    is_prepared: bool,
    /// How it was.
    prepared: Vec<String>,
    /// Values as long as the limit.
    crossing_count: u64,
    /// The one that ended the measurement, or the longest.
    explained: Vec<Explained>,
    fail_above: Option<Duration>,
}

impl Results {
    fn summary(&self, values: &Snapshot) -> Summary {
        Summary::of(values, &self.plan.clock)
    }

    /// A value as long as the limit has ended all loops, whether or not they had counted anything.
    fn was_stopped(&self) -> bool {
        self.plan.limit.is_some_and(|limit| limit.stops) && self.crossing_count > 0
    }

    /// A CPU whose loop counted nothing: no limit is kept there.
    fn unmeasured(&self) -> Option<u32> {
        let has_none = |measured: &&Measured| self.summary(&measured.values).count == 0;
        self.measured.iter().find(has_none).map(|measured| measured.cpu)
    }

    /// A value above the limit, and the CPU where it was measured.
    fn above_limit(&self) -> Option<(f64, u32)> {
        let limit_ns = self.fail_above?.as_nanos() as f64;
        let worst = |measured: &Measured| (self.summary(&measured.values).max_ns, measured.cpu);
        let worst = self.measured.iter().map(worst);
        worst
            .filter(|(max_ns, _)| *max_ns > limit_ns)
            .max_by(|one, other| one.0.total_cmp(&other.0))
    }
}

/// `piste latency`; the status says whether something was above the limit.
pub(crate) fn latency(arguments: &Latency, json: bool) -> Result<(), Failure> {
    check_options(arguments, json)?;
    if arguments.restore {
        return guardian::restore(json);
    }
    if arguments.kind == LoopKind::Program && !arguments.preflight {
        return program::program(arguments, json);
    }
    if traced::is_wanted(arguments) && !arguments.preflight {
        return traced::measure(arguments, json);
    }
    let allowed = cpus::allowed()
        .map_err(|error| Failure::new(format!("cannot find out which CPUs piste may use: {}", reason(&error))))?;
    let cpus = arguments
        .cpus
        .as_ref()
        .map_or_else(|| allowed.clone(), |list| list.0.clone());
    if arguments.preflight {
        let checks = check(Path::new(ROOT), &cpus);
        let page = Page::new(&arguments.page);
        return match json {
            true => page.show_json(&answer::preflight(&checks)),
            false => page.show(&settings::text(&checks, page.width())),
        };
    }
    // So that nothing is measured in vain.
    let files = Files::new(arguments)?;
    let interrupted = interruption()?;
    let mut notes = Vec::new();
    let mut plan = plan(arguments, cpus, &mut notes)?;
    // Preparing may leave piste itself fewer CPUs than they use.
    let loads = Loads::start(&loads_of(arguments), &load_cpus(arguments, &plan, allowed))?;
    notes.extend(loads.iter().flat_map(Loads::notes).cloned());
    let prepared = match arguments.prepare {
        true => Some(prepare(&mut plan, &mut notes)?),
        false => {
            notes.extend(guardian::restore_before());
            None
        }
    };
    plan.policy = match arguments.policy {
        Some(choice) => policy(choice, plan.kind),
        None => default_policy(&plan, &mut notes),
    };
    // As they are while it measures.
    let checks = check(Path::new(ROOT), &plan.cpus);
    let mut worst = plan.limit.map(|limit| worst(arguments, limit)).transpose()?;
    if let Some(why) = worst.as_ref().and_then(Worst::why_no_recorder) {
        notes.push(format!(
            "no flight recorder runs, so only the kernel's counters can explain a long value: {why}"
        ));
    }
    let mut running = Running::start(plan).map_err(Failure::new)?;
    notes.extend_from_slice(running.notes());
    if !json {
        notes.iter().for_each(|note| tell_sentence(note));
    }
    let is_live = !json && arguments.histogram.is_none() && stdout().is_terminal();
    let mut live = is_live.then(Live::new);
    let mut has_ended = false;
    while !has_ended {
        has_ended = running.wait(LOOK);
        if let Some(worst) = &mut worst {
            worst.add(running.crossings());
        }
        // Relaxed: nothing else is said by it.
        if interrupted.load(Ordering::Relaxed) {
            running.stop();
        }
        if let Some(live) = live.as_mut().filter(|_| !has_ended) {
            live.show(&running)?;
        }
    }
    if let Some(live) = live {
        live.clear()?;
    }
    let plan = running.plan().clone();
    let crossings_left_out = running.crossings_left_out();
    let measured = running.finish().map_err(Failure::new)?;
    let mut problems = Vec::new();
    let load = loads.map(|loads| {
        let (busy, failed) = loads.finish();
        problems.extend(failed);
        busy
    });
    let is_prepared = prepared.is_some();
    let mut steps = Vec::new();
    if let Some(prepared) = prepared {
        steps = prepared
            .preparation()
            .map(|preparation| preparation.taken().to_vec())
            .unwrap_or_default();
        problems.extend(prepared.restore());
    }
    if !json {
        problems.iter().for_each(|problem| tell_sentence(problem));
    }
    notes.extend(problems);
    let (kept_crossings, explained) = worst.map(|worst| worst.explained(&measured)).unwrap_or_default();
    let mut all = Snapshot::default();
    measured.iter().for_each(|one| all.merge(&one.values));
    let results = Results {
        plan,
        measured,
        all,
        checks,
        notes,
        was_interrupted: interrupted.load(Ordering::Relaxed),
        load,
        is_prepared,
        prepared: steps,
        crossing_count: kept_crossings + crossings_left_out,
        explained,
        fail_above: arguments.fail_above,
    };
    show_results(&results, arguments, json)?;
    files.write(&results)?;
    if let Some(cpu) = results.unmeasured().filter(|_| !results.was_stopped()) {
        return Err(Failure::new(format!(
            "nothing was measured on CPU {cpu}: the loop did not complete a turn; choose a longer --duration, or a real-time --policy if other threads keep the CPU"
        )));
    }
    match results.above_limit() {
        None => Ok(()),
        Some((max_ns, cpu)) => Err(Failure::with_status(
            format!(
                "{} on CPU {cpu} is above the limit of {}",
                report::time(max_ns),
                report::time(arguments.fail_above.unwrap_or_default().as_nanos() as f64)
            ),
            LATE,
        )),
    }
}

/// Prepares the machine; the steps that are not possible are notes.
fn prepare(plan: &mut Plan, notes: &mut Vec<String>) -> Result<Prepared, Failure> {
    let (prepared, left) = Prepared::new(&plan.cpus)?;
    notes.extend(left);
    if let Some(preparation) = prepared.preparation() {
        notes.extend_from_slice(preparation.not_possible());
        plan.join = preparation.join().to_vec();
    }
    Ok(prepared)
}

fn loads_of(arguments: &Latency) -> Vec<LoadChoice> {
    arguments.load.iter().flat_map(|choices| choices.0.clone()).collect()
}

/// Where generators of load run. Isolated CPUs are closed to them.
fn load_cpus(arguments: &Latency, plan: &Plan, allowed: Vec<u32>) -> Vec<u32> {
    if let Some(list) = &arguments.load_cpus {
        return list.0.clone();
    }
    let others: Vec<u32> = allowed.iter().copied().filter(|cpu| !plan.cpus.contains(cpu)).collect();
    match arguments.prepare && !others.is_empty() {
        true => others,
        false => allowed,
    }
}

/// Files that results are written to, besides standard output.
struct Files {
    hdr: Option<ResultFile>,
    hdr_log: Option<ResultFile>,
    svg: Option<ResultFile>,
    html: Option<ResultFile>,
}

impl Files {
    fn new(arguments: &Latency) -> Result<Files, Failure> {
        let made = |path: &Option<PathBuf>| path.as_deref().map(ResultFile::new).transpose();
        Ok(Files {
            hdr: made(&arguments.hdr)?,
            hdr_log: made(&arguments.hdr_log)?,
            svg: made(&arguments.svg)?,
            html: made(&arguments.html)?,
        })
    }

    fn write(self, results: &Results) -> Result<(), Failure> {
        let clock = &results.plan.clock;
        let write = |file: Option<ResultFile>, text: &dyn Fn() -> String| match file {
            None => Ok(()),
            Some(file) => file.write(&text()),
        };
        write(self.hdr, &|| hgrm::text(&results.all, clock))?;
        write(self.hdr_log, &|| {
            hdr_log::text(&results.measured.iter().map(interval).collect::<Vec<_>>(), clock)
        })?;
        write(self.svg, &|| plots::file(results, "Latency", &report::subject(results)))?;
        write(self.html, &|| html::page(results, &command_line()))
    }
}

fn interval(measured: &Measured) -> hdr_log::Interval<'_> {
    hdr_log::Interval {
        cpu: measured.cpu,
        begin: measured.begin,
        duration: measured.duration,
        values: &measured.values,
    }
}

/// The command as it was typed, for a report.
fn command_line() -> String {
    let quoted = |argument: OsString| {
        let text = argument.to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+%".contains(c);
        match !text.is_empty() && text.chars().all(is_plain) {
            true => text,
            false => format!("'{}'", text.replace('\'', "'\\''")),
        }
    };
    let arguments = std::env::args_os().skip(1).map(quoted);
    std::iter::once("piste".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

/// For values that will be too long, with a flight recorder of the kernel; that there is none does not keep anybody from measuring.
fn worst(arguments: &Latency, limit: Limit) -> Result<Worst, Failure> {
    let places = Places::for_commands()?;
    let folder = TraceFolder::of_output(arguments.output.as_deref())?;
    let recorder = Flight::start(places, folder, vec![]).map_err(|error| error.to_string());
    Ok(Worst::new(recorder, limit, usize::from(arguments.worst.unwrap_or(1))))
}

fn show_results(results: &Results, arguments: &Latency, json: bool) -> Result<(), Failure> {
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&answer::results(results));
    }
    if arguments.histogram.is_some() {
        let columns: Vec<cyclictest::Column> = results.measured.iter().map(|one| column(results, one)).collect();
        return show(&cyclictest::text(&columns));
    }
    page.show_sentences(&report::text(results, page.width()))
}

fn column(results: &Results, measured: &Measured) -> cyclictest::Column {
    let summary = results.summary(&measured.values);
    let us = |ns: f64| (ns / 1000.0) as u64;
    cyclictest::Column {
        histogram: measured.histogram.clone(),
        min_us: us(summary.min_ns),
        mean_us: us(summary.mean_ns),
        max_us: us(summary.max_ns),
    }
}

/// Options that do not go together.
fn check_options(arguments: &Latency, json: bool) -> Result<(), Failure> {
    let only = |option: &str, kind: &str| {
        Err(Failure::with_status(
            format!("{option} works only with the loop {kind}"),
            USAGE,
        ))
    };
    let has_interval = matches!(arguments.kind, LoopKind::Timer | LoopKind::Wakeup | LoopKind::Timerlat);
    if arguments.interval.is_some() && !has_interval {
        return only("--interval", "timer, wakeup or timerlat");
    }
    let is_traced = matches!(arguments.kind, LoopKind::Timerlat | LoopKind::Osnoise);
    if arguments.policy.is_some() && is_traced {
        return only(
            "--policy",
            "npt, event, timer, gaps or wakeup; the kernel chooses the policy of its own threads",
        );
    }
    if arguments.prepare && is_traced {
        return only(
            "--prepare",
            "npt, event, timer, gaps or wakeup; threads of the kernel cannot be isolated",
        );
    }
    if arguments.from.is_some() && arguments.kind != LoopKind::Wakeup {
        return only("--from", "wakeup");
    }
    let rings = [
        ("--reader", !arguments.reader.is_empty()),
        ("--subbuf-size", arguments.subbuf_size.is_some()),
        ("--num-subbuf", arguments.num_subbuf.is_some()),
    ];
    let with_tracers = [
        ("--max-rate", arguments.max_rate.is_some()),
        ("--tracer", !arguments.tracer.is_empty()),
    ];
    let with_tracers = [&with_tracers[..], &rings].concat();
    if let Some((option, _)) = with_tracers
        .iter()
        .find(|(_, is_given)| *is_given && !matches!(arguments.kind, LoopKind::Npt | LoopKind::Event))
    {
        return only(option, "npt or event");
    }
    if let Some((option, _)) = rings
        .iter()
        .find(|(_, is_given)| *is_given && arguments.kind == LoopKind::Npt && arguments.tracer.is_empty())
    {
        let sentence = format!("{option} needs a tracer whose events are recorded: name one with --tracer");
        return Err(Failure::with_status(sentence, USAGE));
    }
    let of_programs = [
        ("--event", arguments.event.is_some()),
        ("--end-event", arguments.end_event.is_some()),
    ];
    let of_loops = [
        ("--cpus", arguments.cpus.is_some()),
        ("--policy", arguments.policy.is_some()),
        ("--loops", arguments.loops.is_some()),
        ("--warm-up", arguments.warm_up.is_some()),
        ("--clock", arguments.clock != ClockOption::Auto),
        ("--fail-above", arguments.fail_above.is_some()),
        ("--histogram", arguments.histogram.is_some()),
        ("--hdr", arguments.hdr.is_some()),
        ("--hdr-log", arguments.hdr_log.is_some()),
        ("--svg", arguments.svg.is_some()),
        ("--html", arguments.html.is_some()),
        ("--load", !arguments.load.is_empty()),
        ("--prepare", arguments.prepare),
    ];
    let given =
        |options: &[(&'static str, bool)]| options.iter().find(|(_, is_given)| *is_given).map(|(name, _)| *name);
    match arguments.kind {
        LoopKind::Program => {
            if let Some(option) = given(&of_loops) {
                let sentence = format!("{option} does not work with program, because piste then runs no loop");
                return Err(Failure::with_status(sentence, USAGE));
            }
        }
        _ => {
            if let Some(option) = given(&of_programs) {
                return only(option, "program");
            }
        }
    }
    if arguments.threshold.is_some() && is_traced {
        return only("--threshold", "npt, timer, wakeup, gaps or program");
    }
    if arguments.worst.is_some() && matches!(arguments.kind, LoopKind::Gaps | LoopKind::Program) {
        return only("--worst", "npt, timer or wakeup");
    }
    if arguments.output.is_some() && (arguments.threshold.is_none() || arguments.kind == LoopKind::Gaps) {
        let sentence = "--output is the folder for the flight recorder's snapshots; it works only with --threshold, and not with the loop gaps";
        return Err(Failure::with_status(sentence, USAGE));
    }
    if arguments.clock != ClockOption::Auto && (arguments.kind == LoopKind::Timer || is_traced) {
        return only("--clock", "npt, event, gaps or wakeup; the others read CLOCK_MONOTONIC");
    }
    if json && arguments.histogram.is_some() {
        let sentence =
            "--histogram prints text, and the JSON contains a histogram anyway; leave out --json or --histogram";
        return Err(Failure::with_status(sentence, USAGE));
    }
    Ok(())
}

/// What is measured. What cannot be as it was asked for is a note.
fn plan(arguments: &Latency, cpus: Vec<u32>, notes: &mut Vec<String>) -> Result<Plan, Failure> {
    let root = Path::new(ROOT);
    let choice = match arguments.clock {
        ClockOption::Auto => ClockChoice::Auto,
        ClockOption::Tsc => ClockChoice::Tsc,
        ClockOption::Monotonic => ClockChoice::Monotonic,
    };
    let (kind, clock) = match arguments.kind {
        LoopKind::Timer => {
            let interval = arguments.interval.unwrap_or(INTERVAL);
            (Loop::Timer { interval }, Clock::MONOTONIC)
        }
        LoopKind::Timerlat => {
            let interval = arguments.interval.unwrap_or(INTERVAL);
            (Loop::Timerlat { interval }, Clock::MONOTONIC)
        }
        LoopKind::Osnoise => (Loop::Osnoise, Clock::MONOTONIC),
        LoopKind::Npt | LoopKind::Event => (Loop::Npt, Clock::choose(choice, root).map_err(Failure::new)?),
        LoopKind::Gaps => {
            let threshold = arguments.threshold.unwrap_or(THRESHOLD);
            (
                Loop::Gaps { threshold },
                Clock::choose(choice, root).map_err(Failure::new)?,
            )
        }
        LoopKind::Wakeup => {
            let interval = arguments.interval.unwrap_or(INTERVAL);
            let from = arguments.from;
            (
                Loop::Wakeup { interval, from },
                Clock::choose(choice, root).map_err(Failure::new)?,
            )
        }
        LoopKind::Program => unreachable!("piste runs no loop"),
    };
    notes.extend(
        clock
            .why_not_tsc
            .iter()
            .map(|why| format!("{why}; the loop reads CLOCK_MONOTONIC")),
    );
    let limit = arguments.threshold.filter(|_| arguments.kind != LoopKind::Gaps);
    let limit = limit.map(|from| Limit {
        from,
        stops: arguments.worst.is_none(),
    });
    let has_no_end = arguments.loops.is_none() && !limit.is_some_and(|limit| limit.stops);
    Ok(Plan {
        // Which one is known when the machine is prepared.
        policy: Policy::Other,
        kind,
        cpus,
        clock,
        duration: arguments.duration.or(has_no_end.then_some(DURATION)),
        loops: arguments.loops,
        warm_up: arguments.warm_up.unwrap_or(WARM_UP),
        event: None,
        max_rate_hz: arguments.max_rate,
        explains: true,
        limit,
        histogram_us: arguments.histogram.unwrap_or(0) as usize,
        join: Vec::new(),
        root: root.to_owned(),
    })
}

/// The policy if none is asked for. Only priorities decide which of two threads runs first.
fn default_policy(plan: &Plan, notes: &mut Vec<String>) -> Policy {
    if !matches!(plan.kind, Loop::Wakeup { .. }) {
        return Policy::Other;
    }
    match WAKEUP_POLICY.refusal(&plan.join) {
        None => WAKEUP_POLICY,
        Some(why) => {
            notes.push(format!(
                "{WAKEUP_POLICY} is not possible, so both threads have the policy other, and neither has precedence: {why}"
            ));
            Policy::Other
        }
    }
}

fn policy(choice: PolicyChoice, kind: Loop) -> Policy {
    match (choice, kind) {
        (PolicyChoice::Other, _) => Policy::Other,
        (PolicyChoice::Fifo(priority), _) => Policy::Fifo(priority),
        (PolicyChoice::RoundRobin(priority), _) => Policy::RoundRobin(priority),
        (PolicyChoice::Deadline(Some((runtime, period))), _) => Policy::Deadline { runtime, period },
        // Half of the time is more than the loop needs, and leaves the rest to other threads.
        (PolicyChoice::Deadline(None), Loop::Timer { interval } | Loop::Wakeup { interval, .. }) => Policy::Deadline {
            runtime: interval / 2,
            period: interval,
        },
        (PolicyChoice::Deadline(None), _) => Policy::Deadline {
            runtime: ALWAYS,
            period: ALWAYS,
        },
    }
}

/// From now on, the first Ctrl-C or SIGTERM only sets what is returned; the second one ends piste.
fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let register = || {
        for signal in not_ignored([SIGINT, SIGTERM])? {
            flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&interrupted))?;
            flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(())
    };
    register().map_err(|error| Failure::new(format!("cannot handle signals: {}", reason(&error))))?;
    Ok(interrupted)
}
