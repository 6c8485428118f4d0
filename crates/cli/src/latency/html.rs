// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--html`: everything that was measured as one page, in the frame and the style of `piste report` (../report). Names come from the machine, so
//! everything goes through maud, which escapes it.

use std::fs;
use std::path::Path;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use piste_latency::preflight::Level;
use piste_latency::{Loop, PERCENTILES, Summary, cpus};

use super::report::{self, GAPS_SHOWN, figure, interrupts_not_counted, time};
use super::{Results, plots};
use crate::quantity::{count, counted, duration, size};
use crate::report::frame::{Frame, moment};
use crate::screen::printable;

const STYLE: &str = concat!(include_str!("../report/report.css"), include_str!("latency.css"));
/// Only this style is allowed, and nothing else: no scripts, no requests. The suite checks it (tests/suite/tests/latency_output.rs).
const POLICY: &str = "default-src 'none'; style-src 'sha256-iUdH4CAeSKUN0fwIgqKsA4F4J15CejZ4zn1uZIQQH/w='; base-uri 'none'; form-action 'none'";

/// The whole page.
pub(super) fn page(results: &Results, command: &str) -> String {
    let zone = TimeZone::system();
    let subject = report::subject(results);
    let host = text("/proc/sys/kernel/hostname");
    let title = match &host {
        Some(host) => format!("Latency of {host}: {subject}"),
        None => format!("Latency: {subject}"),
    };
    let title = printable(&title).into_owned();
    let body = html! {
        header {
            h1 { (title) }
            (lead(results, command, &zone))
        }
        main {
            (verdict(results))
            (notes(results))
            (figures(results))
            @for (title, body) in plots::all(results) {
                h2 { (title) }
                figure {
                    (plots::picture(title, &body))
                    figcaption { (key(results)) (caption(results, title)) }
                }
            }
            (crossings(results))
            (explained(results))
            (load(results))
            (settings(results))
        }
    };
    let frame = Frame {
        title: &title,
        policy: POLICY,
        style: STYLE,
    };
    frame.page(&body, &zone).into_string()
}

/// A file of the machine, in one line.
fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(path)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn processor() -> Option<String> {
    let text = text("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Machine, time, settings and command.
fn lead(results: &Results, command: &str, zone: &TimeZone) -> Markup {
    let kernel = [text("/proc/sys/kernel/osrelease"), text("/proc/sys/kernel/version")];
    let kernel = kernel.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let begin = results.measured.iter().map(|one| one.begin).min();
    let begin_ns = begin
        .and_then(|begin| begin.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_nanos() as i64);
    let facts = [
        ("Kernel", Some(kernel)),
        ("Processor", processor()),
        (
            "Time",
            Some(format!("{}, for {}", moment(begin_ns, zone), report::length(results))),
        ),
        ("Policy", Some(results.plan.policy.to_string())),
        ("Clock", Some(report::clock(&results.plan.clock))),
        (
            "Prepared",
            Some(results.prepared.join("; ")).filter(|all| !all.is_empty()),
        ),
    ];
    html! {
        dl {
            @for (name, value) in facts {
                @if let Some(value) = value { dt { (name) } dd { (printable(&value)) } }
            }
            dt { "Command" } dd { code { (printable(command)) } }
        }
    }
}

/// The largest value, and whether it is above the limit.
fn verdict(results: &Results) -> Markup {
    let worst = results
        .measured
        .iter()
        .map(|one| (results.summary(&one.values), one.cpu));
    let worst = worst.max_by(|one, other| one.0.max_ns.total_cmp(&other.0.max_ns));
    let above = results.above_limit();
    html! {
        div class=(if above.is_some() { "box bad" } else { "box" }) {
            @if let Some((summary, cpu)) = worst {
                p {
                    strong { "The largest latency was " (figure(&summary, summary.max_ns)) } " on CPU " (cpu)
                    ", and 99.9 % of " (counted(results.summary(&results.all).count.cast_signed(), "value")) " were at most "
                    (figure(&results.summary(&results.all), results.summary(&results.all).percentile_ns(99.9))) "."
                    @if results.was_interrupted { " The measurement was stopped early." }
                }
            }
            @if let Some(limit) = results.fail_above {
                p {
                    @if above.is_some() { "That is above the limit of " } @else { "Nothing was above the limit of " }
                    (duration(limit.as_nanos() as i64)) "."
                }
            }
        }
    }
}

fn notes(results: &Results) -> Markup {
    html! {
        @if !results.notes.is_empty() {
            h2 { "What could not be prepared" }
            ul { @for note in &results.notes { li { (prose(note)) } } }
        }
    }
}

/// A sentence, in which `commands` are set apart.
fn prose(text: &str) -> Markup {
    let text = printable(text);
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A row for each CPU.
fn figures(results: &Results) -> Markup {
    let row = |name: &str, summary: &Summary| {
        html! {
            tr {
                td class="number" { (name) }
                td class="number" { (count(summary.count.cast_signed())) }
                td class="number" { (figure(summary, summary.min_ns)) }
                td class="number" { (figure(summary, summary.mean_ns)) }
                @for ns in summary.percentiles_ns { td class="number" { (figure(summary, ns)) } }
                td class="number" { strong { (figure(summary, summary.max_ns)) } }
                td class="number" { (figure(summary, summary.standard_deviation_ns)) }
            }
        }
    };
    html! {
        h2 { "Figures" }
        div class="scroll" {
            table {
                thead {
                    tr {
                        th class="number" scope="col" { "CPU" }
                        th class="number" scope="col" { "Loops" }
                        th class="number" scope="col" { "Min" }
                        th class="number" scope="col" { "Mean" }
                        @for percentile in PERCENTILES { th class="number" scope="col" { (percentile) " %" } }
                        th class="number" scope="col" { "Max" }
                        th class="number" scope="col" { "Deviation" }
                    }
                }
                tbody {
                    @for one in &results.measured { (row(&one.cpu.to_string(), &results.summary(&one.values))) }
                    @if results.measured.len() > 1 { (row("all", &results.summary(&results.all))) }
                }
            }
        }
        @for sentence in report::wake_ups(results) { p { (begun(&sentence)) "." } }
    }
}

/// A sentence with its first letter as a capital.
fn begun(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The colours of the curves.
fn key(results: &Results) -> Markup {
    html! {
        @for one in plots::series(results) {
            span class="key" {
                svg viewBox="0 0 12 12" aria-hidden="true" { rect class=(one.class) width="12" height="12" {} }
                (one.name)
            }
        }
        @if results.measured.len() > plots::CURVES_MAX {
            span { "Only the CPUs with the largest values have their own curves." }
        }
    }
}

fn caption(results: &Results, title: &str) -> Markup {
    let spins = matches!(results.plan.kind, Loop::Npt | Loop::Gaps { .. });
    html! {
        @if title == plots::TITLES[0] { span { "Both axes are logarithmic: a single value is visible beside millions." } }
        @else if title == plots::TITLES[1] { span { "The share of the values that are at most this long. With each grid line to the right, a tenth as many values are longer." } }
        @else if spins { span { "The longest gap in each time interval. Gaps below " (report::looked_from(results)) " are not shown." } }
        @else { span { "The largest value in each time interval." } }
    }
}

/// What explains the gaps.
fn explained(results: &Results) -> Markup {
    let spins = matches!(results.plan.kind, Loop::Npt | Loop::Gaps { .. });
    let clock = &results.plan.clock;
    let longest = report::longest(results);
    html! {
        @if spins {
            h2 { "What happened in long gaps" }
            @let sums = report::sums_of_causes(results);
            @if sums.is_empty() {
                p { "No gap was " (report::looked_from(results)) " or longer." }
            } @else {
                div class="scroll" {
                    table {
                        caption { "Gaps of " (report::looked_from(results)) " or longer" }
                        thead {
                            tr {
                                th scope="col" { "Meanwhile" }
                                th class="number" scope="col" { "Gaps" }
                                th class="number" scope="col" { "Total" }
                                th class="number" scope="col" { "Longest" }
                            }
                        }
                        tbody {
                            @for (cause, gaps) in sums {
                                tr {
                                    td { (report::name(cause)) }
                                    td class="number" { (count(gaps.count.cast_signed())) }
                                    td class="number" { (time(clock.ns(gaps.ticks as f64))) }
                                    td class="number" { (time(clock.ns(gaps.max as f64))) }
                                }
                            }
                        }
                    }
                }
            }
            @if interrupts_not_counted(results) {
                p class="more" { "Interrupts were not counted: /proc/interrupts cannot be read, or takes too long to read." }
            }
        }
        @if !longest.is_empty() {
            div class="scroll" {
                table {
                    caption { "The longest gaps, at most " (GAPS_SHOWN) }
                    thead {
                        tr {
                            th class="number" scope="col" { "After" }
                            th class="number" scope="col" { "CPU" }
                            th class="number" scope="col" { "Gap" }
                            th scope="col" { "Meanwhile" }
                        }
                    }
                    tbody {
                        @for (measured, gap) in longest {
                            tr {
                                td class="number" { (format!("{:.6} s", clock.ns(gap.begin as f64) / 1e9)) }
                                td class="number" { (measured.cpu) }
                                td class="number" { strong { (time(clock.ns(gap.ticks as f64))) } }
                                td { (printable(&report::meanwhile(measured, &gap.seen))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Values as long as the limit, and what they were due to.
fn crossings(results: &Results) -> Markup {
    html! {
        @if let Some(heading) = report::crossings_heading(results) {
            h2 { "The longest values" }
            p { (heading) "." }
            @for one in &results.explained { (one.markup()) }
        }
    }
}

/// What kept the machine busy.
fn load(results: &Results) -> Markup {
    html! {
        @if let Some(busy) = &results.load {
            h2 { "Load" }
            div class="scroll" {
                table {
                    caption { "What kept " (cpus::named(&busy.cpus)) " busy meanwhile" }
                    thead {
                        tr {
                            th scope="col" { "Load" }
                            th class="number" scope="col" { "Processes" }
                            th class="number" scope="col" { "Loops" }
                            th class="number" scope="col" { "Data" }
                        }
                    }
                    tbody {
                        @for done in &busy.done {
                            tr {
                                td { (printable(&done.name)) }
                                td class="number" { @if done.processes > 0 { (count(done.processes.cast_signed())) } }
                                td class="number" { (count(done.work.loops.cast_signed())) }
                                td class="number" { @if done.work.bytes > 0 { (size(done.work.bytes.cast_signed())) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The preflight.
fn settings(results: &Results) -> Markup {
    html! {
        h2 { "Settings that add latency" }
        div class="scroll" {
            table {
                thead {
                    tr {
                        th scope="col" { "Setting" }
                        th scope="col" { "Value" }
                        th scope="col" { "Effect" }
                        th scope="col" { "Fix" }
                    }
                }
                tbody {
                    @for check in &results.checks {
                        tr {
                            td {
                                @match check.level {
                                    Level::Ok => { (check.name) }
                                    Level::Wrong => span class="level serious" { (check.name) },
                                    Level::Unknown => span class="level information" { (check.name) },
                                }
                            }
                            td { @if check.level == Level::Unknown { "unknown: " } (printable(&check.value)) }
                            td { @if let Some(cost) = &check.cost { (printable(cost)) } }
                            td { @if let Some(fix) = &check.fix { (fixed(fix)) } }
                        }
                    }
                }
            }
        }
    }
}

/// A command, or what else helps.
fn fixed(fix: &str) -> Markup {
    let is_command = ["sudo ", "echo ", "for "].iter().any(|begin| fix.starts_with(begin));
    html! {
        @if is_command { code { (printable(fix)) } } @else { (prose(fix)) }
    }
}
