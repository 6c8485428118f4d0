// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste bench overhead`: what recording adds to a command; and `piste time-command`, which it runs the command with.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Instant;

use piste_bench::Error;
use piste_bench::overhead::{Plan, Report, Way, WayReport, run};
use piste_reason::reason;
use rustix::param::clock_ticks_per_second;
use rustix::process::geteuid;
use serde_json::json;

use crate::arguments::{RecordOptions, TimeCommand};
use crate::columns::{Align, Cell, Columns};
use crate::failure::{Failure, KILLED};
use crate::measuring::{Progress, interruption, now_ns, own_command, own_program, without_result};
use crate::page::{Page, Width};
use crate::quantity::{count, counted, duration, size};
use crate::screen::{BAD, FAINT, STRONG, printable, styled};

/// What is measured if nothing else is asked for: what `piste record` does by itself, and for root the core events of the whole system.
const WAYS: [&[&str]; 2] = [&[], &["-a", "--no-user", "--preset", "ltt"]];
const WAYS_WITHOUT_ROOT: usize = 1;

pub(super) fn overhead(
    ways: &[RecordOptions],
    rounds: u32,
    job: &[OsString],
    page: &Page,
    json: bool,
) -> Result<(), Failure> {
    let owned = |options: &&[&str]| options.iter().map(|option| (*option).to_owned()).collect();
    let options: Vec<Vec<String>> = match ways {
        [] if geteuid().is_root() => WAYS.iter().map(owned).collect(),
        [] => WAYS[..WAYS_WITHOUT_ROOT].iter().map(owned).collect(),
        ways => ways.iter().map(|RecordOptions(options)| options.clone()).collect(),
    };
    let plan = Plan {
        piste: own_program()?,
        job: job.to_vec(),
        ways: options.into_iter().map(way).collect(),
        rounds,
        command: own_command(),
        begin_ns: now_ns(),
        interrupted: interruption()?,
    };
    let progress = Progress::new(json);
    let measured = run(&plan, &mut |step| {
        let round = match step.round {
            0 => "warming up".to_owned(),
            round => format!("round {round} of {}", step.of),
        };
        progress.say(&format!("{round}: {}", printable(step.way)));
    });
    progress.clear();
    let measured = measured.map_err(|error| match error {
        Error::Interrupted => without_result(),
        Error::Failed(sentence) => Failure::new(sentence),
    })?;
    match json {
        true => page.show_json(&measured)?,
        false => page.show_sentences(&text(&measured, page.width()))?,
    }
    match &measured.failed[..] {
        [] => Ok(()),
        failed => {
            let failed: Vec<String> = failed
                .iter()
                .map(|failed| printable(&failed.way).into_owned())
                .collect();
            let sentence = format!("not measured: {}; the report gives the reasons", failed.join(", "));
            Err(Failure::new(sentence))
        }
    }
}

fn way(options: Vec<String>) -> Way {
    let name = match options.is_empty() {
        true => "(defaults)".to_owned(),
        false => options.join(" "),
    };
    Way { name, options }
}

fn text(report: &Report, width: Width) -> String {
    let job = printable(&report.job.join(" ")).into_owned();
    let mut columns = Columns::new(&[
        ("PISTE RECORD", Align::Left),
        ("TIME WITHOUT", Align::Right),
        ("WITH", Align::Right),
        ("ADDED", Align::Right),
        ("±", Align::Right),
        ("CPU TIME", Align::Right),
        ("EVENTS/S", Align::Right),
        ("TRACE", Align::Right),
        ("LOST", Align::Right),
    ])
    .with_minor(&["EVENTS/S", "TRACE"]);
    for way in &report.ways {
        columns.row([
            Cell::from(printable(&way.name).into_owned()),
            Cell::from(duration(way.unrecorded_ns as i64)),
            Cell::from(duration(way.recorded_ns as i64)),
            Cell::from(added(way.time_ratio.value)),
            Cell::styled(FAINT, spread(way)),
            Cell::from(way.cpu_ratio.map_or("-".to_owned(), |ratio| added(ratio.value))),
            Cell::from(count(way.events_per_s as i64)),
            Cell::from(size(way.trace_bytes as i64)),
            match way.discarded_events {
                0 => Cell::styled(FAINT, "-"),
                lost => Cell::styled(BAD, count(lost.min(i64::MAX as u64) as i64)),
            },
        ]);
    }
    let rounds = report.ways.iter().map(|way| way.rounds).min().unwrap_or_default();
    let mut text = format!(
        "{}\n{}, Linux {}; {}\n\n",
        styled(STRONG, job),
        printable(&report.machine.processor),
        printable(&report.machine.kernel),
        counted(rounds.into(), "round"),
    );
    text += &columns.lines(0, width);
    text += "\nTimes are medians. ADDED and CPU TIME come from pairs of runs, one with and one without recording; ± is half of the 95 % confidence interval of ADDED.\n";
    if rounds > 1 {
        let deviation = |of: fn(&WayReport) -> f64| report.ways.iter().map(of).fold(0.0, f64::max);
        text += &format!(
            "Single runs vary by up to {:.1} % without recording and {:.1} % with it (standard deviation).\n",
            deviation(|way| way.unrecorded_deviation_percent),
            deviation(|way| way.recorded_deviation_percent)
        );
    }
    if !report.failed.is_empty() {
        text += &format!("\n{}\n", styled(BAD, "Failed"));
        for failed in &report.failed {
            text += &format!("  {}: {}\n", printable(&failed.way), printable(&failed.reason));
        }
    }
    if report.was_interrupted {
        text += "The measurement was interrupted, so there are fewer rounds than planned.\n";
    }
    text
}

fn added(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// Half of the interval.
fn spread(way: &WayReport) -> String {
    let ratio = way.time_ratio;
    let half = ratio.high.zip(ratio.low).map(|(high, low)| (high - low) / 2.0 * 100.0);
    half.map_or("-".to_owned(), |half| format!("{half:.1} %"))
}

/// `piste time-command`: runs a command, writes how long it took, and ends as it did.
pub(crate) fn time_command(arguments: &TimeCommand) -> Result<u8, Failure> {
    let (program, rest) = arguments.command.split_first().expect("clap wants one");
    let begin = Instant::now();
    let status = Command::new(program).args(rest).status().map_err(|error| {
        Failure::new(format!(
            "cannot run {}: {}",
            printable(&program.to_string_lossy()),
            reason(&error)
        ))
    })?;
    let wall_ns = begin.elapsed().as_nanos() as u64;
    let times = json!({ "wall_ns": wall_ns, "cpu_ns": cpu_ns_of_children() });
    fs::write(&arguments.output, times.to_string()).map_err(|error| {
        Failure::new(format!(
            "cannot write {}: {}",
            arguments.output.display(),
            reason(&error)
        ))
    })?;
    let signal = || status.signal().unwrap_or_default() as u8;
    Ok(status.code().map_or_else(|| KILLED + signal(), |code| code as u8))
}

/// CPU time of all children that have ended, of theirs, and so on.
fn cpu_ns_of_children() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may contain anything, the state is the first field, and cutime the 14th.
    let fields = text
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .skip(13);
    let ticks: u64 = fields.take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks * 1_000_000_000 / clock_ticks_per_second().max(1)
}
