// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as one page of HTML, with pictures and everything that one needs to know to trust or repeat them. Its style and its policy are those of
//! `piste report`: no scripts, no requests.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use piste_bench::Report;
use piste_bench::report::{Group, Row};

use super::picture::{bars, by_length, samples, stacks};
use super::report::{
    Part, absence, events_of_steps, factor, half_ns, machine, method, notes, ns, parts, percentage, percentile, ratio,
    shown_counters, spread, wide_title,
};
use crate::report::frame::{Frame, moment};
use crate::report::{POLICY, STYLE};
use crate::screen::printable;

const TITLE: &str = "What an event costs";

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let zone = TimeZone::system();
    let begin = report.begin_ns.parse().unwrap_or(0);
    let body = html! {
        header {
            h1 { (TITLE) }
            p class="lead" { b { (machine(report)) } ", " (moment(begin, &zone)) ". " (method(report)) "." }
        }
        main {
            @for part in parts(report) { (shown(&part)) }
            (counters(report))
            h2 { "How sure the figures are" }
            ul { @for note in notes(report) { li { (note) } } }
            (missing(report))
            (repeat(report))
        }
    };
    let frame = Frame {
        title: TITLE,
        policy: POLICY,
        style: STYLE,
    };
    frame.page(&body, &zone).into_string()
}

fn shown(part: &Part) -> Markup {
    let rows = &part.rows;
    let is_calls = part.group == Group::Calls;
    html! {
        h2 { (part.title) }
        @if part.group == Group::Steps {
            (stacks(rows))
            p class="more" { "Nanoseconds that each step adds, measured with builds of the event that end after the step." }
            (steps_table(rows))
        } @else if part.has_names {
            (by_length(rows))
            p class="more" { "Nanoseconds, on a logarithmic scale, by the length of the file name in bytes." }
            (table(rows, is_calls))
        } @else {
            (bars(rows))
            p class="more" { "Nanoseconds, on a logarithmic scale, with a line over the 95 % interval." }
            (table(rows, is_calls))
            h3 { "Single events" }
            (samples(rows))
            p class="more" {
                "Nanoseconds, on a logarithmic scale: the box has the middle half of the events, the mark is their median, the line reaches from the \
                 shortest one to the one that 99 % do not exceed, and the dot is the longest one. All times include reading the clock."
            }
        }
    }
}

fn table(rows: &[&Row], is_calls: bool) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead {
                    tr {
                        th scope="col" { (if is_calls { "Tracer" } else { "Event" }) }
                        @for heading in ["time, ns", "± %", "CPU", "wall"] { th scope="col" class="number" { (heading) } }
                        @if is_calls { th scope="col" class="number" { "added" } }
                        th scope="col" class="number" { (if is_calls { "x call" } else { "x floor" }) }
                        @for heading in ["x Piste", "one, 50 %", "99 %", "longest"] { th scope="col" class="number" { (heading) } }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            td { (wide_title(row)) }
                            td class="number" { b { (ns(row.time_ns.value)) } }
                            td class="number" { (spread(&row.time_ns)) }
                            td class="number" { (ns(row.cpu_ns)) }
                            td class="number" { (ns(row.wall_ns)) }
                            @if is_calls { td class="number" { (row.added_ns.map(ns).unwrap_or_default()) } }
                            td class="number" { (ratio(row.to_floor)) }
                            td class="number" { (ratio(row.to_piste)) }
                            @if let Some(samples) = &row.samples {
                                td class="number" { (ns(percentile(samples, 50.0))) }
                                td class="number" { (ns(percentile(samples, 99.0))) }
                                td class="number" { (ns(samples.max_ns)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn steps_table(rows: &[&Row]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead {
                    tr {
                        th scope="col" { "Step" }
                        @for heading in ["added, ns", "± ns", "share", "so far, ns", "± %"] { th scope="col" class="number" { (heading) } }
                    }
                }
                tbody {
                    @for part in events_of_steps(rows).into_iter().flatten() {
                        tr {
                            td { (part.step.name) (part.load()) }
                            td class="number" { b { (ns(part.step.added_ns.value)) } }
                            td class="number" { (half_ns(&part.step.added_ns)) }
                            td class="number" { (percentage(part.share)) }
                            td class="number" { (ns(part.row.time_ns.value)) }
                            td class="number" { (spread(&part.row.time_ns)) }
                        }
                    }
                }
            }
        }
    }
}

/// The survey's tables of counters, where the processor counts.
fn counters(report: &Report) -> Markup {
    let shown = shown_counters(report);
    if shown.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Counted for each event" }
        div class="scroll" {
            table {
                thead {
                    tr { th scope="col" {} @for (_, heading) in &shown { th scope="col" class="number" { (heading.to_lowercase()) } } }
                }
                tbody {
                    @for row in &report.rows {
                        tr {
                            td { (wide_title(row)) }
                            @for (name, _) in &shown {
                                td class="number" { (row.counters.get(*name).copied().map(factor).unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn missing(report: &Report) -> Markup {
    html! {
        @if !report.absent.is_empty() {
            h2 { "Not on this machine" }
            ul { @for absent in &report.absent { li { (absent.peer) ": " (printable(&absence(absent))) } } }
        }
        @if !report.failed.is_empty() {
            h2 { "Failed" }
            ul { @for failed in &report.failed { li { (failed.peer) ": " (printable(&failed.reason)) } } }
        }
    }
}

/// What one needs to measure it again.
fn repeat(report: &Report) -> Markup {
    let words: Vec<String> = report.command.iter().map(|word| printable(word).into_owned()).collect();
    html! {
        h2 { "Measure it again" }
        pre { (words.join(" ")) }
        dl { @for (tool, version) in &report.machine.versions { dt { (tool) } dd { (printable(version)) } } }
    }
}
