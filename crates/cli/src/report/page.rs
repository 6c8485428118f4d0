// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page. Everything goes through maud, which escapes it; texts of any length are shortened, and pictures that would make the page too large
//! are left out.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use piste_analysis::insights::Insight;
use piste_terminal::fit::start;
use piste_terminal::printable;
use piste_timeline::Failure as TimelineFailure;
use piste_trace::{Finding, Findings, Kind};

use super::account::{Account, Chapter, Recorded};
use super::frame::{Frame, moment};
use super::lanes::Lanes;
use super::picture::{Mark, Scene, since};
use super::{BYTES_MAX, tables};
use crate::failure::Failure;
use crate::insights::evidence;
use crate::quantity::{count, counted, duration, size};
use crate::traces::{is_loss, sentence};

pub(crate) const STYLE: &str = include_str!("report.css");
/// Only this style is allowed, and nothing else: no scripts, no requests. The suite checks it (tests/suite/tests/report.rs).
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'sha256-5ZKF5r3aWHmzJVzBFWtRohaZ5lYPWgqapHT3DnLvUAI='; base-uri 'none'; form-action 'none'";

/// Longer texts are shortened.
const TEXT_MAX: usize = 160;
/// Of sentences, which name several things.
const SENTENCE_MAX: usize = 600;
/// Of lists.
const ITEMS_MAX: usize = 30;
/// Ranges that the map of all shows.
const MARKS_MAX: usize = 10;
/// As much of the page may be pictures; the rest needs less than what is left.
const PICTURES_BYTES_MAX: usize = BYTES_MAX / 2;
/// Beside what matters, so much of its length is shown,
const AROUND: f64 = 0.6;
/// and at least that.
const AROUND_NS_MIN: i64 = 20_000;

/// The whole page.
pub(super) fn page(
    account: &Account,
    title: Option<&str>,
    findings: &Findings,
    zone: &TimeZone,
) -> Result<String, Failure> {
    let lanes = Lanes::new(&account.timeline);
    let drawn =
        pictures(account, &lanes).map_err(|error| Failure::new(format!("cannot draw the timeline: {error}")))?;
    let begin = moment(account.part_ns.0, zone);
    let title = match title {
        Some(title) => printable(title).into_owned(),
        None => {
            let host = account
                .recorded
                .host
                .as_deref()
                .map(|host| format!(" of {}", short(host)));
            format!("Trace{}, {begin}", host.unwrap_or_default())
        }
    };
    let body = html! {
        (patterns())
        header {
            h1 { (title) }
            (lead(account, &begin))
        }
        main {
            (losses(findings))
            (found(account))
            h2 { "Timeline" }
            p class="more" { "Times count from the beginning of the trace, as " code { "--begin" } " does." }
            (drawn.all)
            @for (place, (insight, command)) in account.insights.iter().enumerate() {
                (told(account, place + 1, (insight, command), drawn.insights[place].as_ref(), zone))
            }
            @for chapter in &account.chapters { (chapter_of(chapter, zone)) }
            @if !account.notes.is_empty() {
                h2 { "What this trace does not show" }
                (list(account.notes.iter().map(String::as_str)))
            }
            (further(account))
        }
    };
    let frame = Frame {
        title: &title,
        policy: POLICY,
        style: STYLE,
    };
    Ok(frame.page(&body, zone).into_string())
}

/// A text of a trace as a page can show it.
pub(super) fn short(text: &str) -> String {
    start(&printable(text), TEXT_MAX)
}

/// What fills unknown time.
fn patterns() -> Markup {
    html! {
        svg class="patterns" aria-hidden="true" {
            defs {
                pattern id="unknown" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    line class="hatch" x1="1" x2="1" y1="0" y2="6" {}
                }
            }
        }
    }
}

/// What was recorded, in a sentence or two.
fn lead(account: &Account, begin: &str) -> Markup {
    let Recorded {
        host,
        system,
        tracers,
        events,
        bytes,
    } = &account.recorded;
    let (begin_ns, end_ns) = account.part_ns;
    let from = since(begin_ns.saturating_sub(account.origin_ns), 1_000_000);
    let until = since(end_ns.saturating_sub(account.origin_ns), 1_000_000);
    html! {
        dl {
            @if let Some(host) = host { dt { "Host" } dd { (short(host)) } }
            @if let Some(system) = system { dt { "Kernel" } dd { (short(system)) } }
            dt { "Time" }
            dd { (begin) ", " (duration(end_ns.saturating_sub(begin_ns))) @if account.is_part { " (" (from) " to " (until) " of the trace)" } }
            dt { "Recorded" }
            dd { (what_was_recorded(account)) ", " (counted(events.cast_signed(), "event")) ", " (size(bytes.cast_signed())) " of trace files" }
            dt { "Trace" }
            dd { code { (short(&account.named)) } }
            @if !tracers.is_empty() { dt { "Tracer" } dd { (short(&tracers.join("; "))) } }
        }
    }
}

fn what_was_recorded(account: &Account) -> &'static str {
    match (account.has_kernel, account.has_programs) {
        (true, true) => "The kernel and programs",
        (true, false) => "The kernel",
        (false, _) => "Programs",
    }
}

/// What is missing, and what is wrong with the trace.
fn losses(findings: &Findings) -> Markup {
    let events = findings.count(Kind::DiscardedEvents);
    let packets = findings.count(Kind::LostPackets);
    let lost: Vec<String> = [(events, "event"), (packets, "packet of events")]
        .into_iter()
        .filter(|(lost, _)| *lost > 0)
        .map(|(lost, what)| match what {
            "event" => counted(lost.cast_signed(), what),
            _ if lost == 1 => "1 packet of events".to_owned(),
            _ => format!("{} packets of events", count(lost.cast_signed())),
        })
        .collect();
    let is_damaged = findings.iter().any(|finding| finding.kind.is_damage());
    let others: Vec<String> = findings
        .iter()
        .filter(|finding| !is_loss(finding))
        .map(sentence)
        .collect();
    let where_lost: Vec<&Finding> = findings.iter().filter(|finding| is_loss(finding)).collect();
    html! {
        div class=(if lost.is_empty() && !is_damaged { "box" } else { "box bad" }) {
            @if !lost.is_empty() {
                p {
                    strong { (lost.join(" and ")) @if events + packets == 1 { " was lost." } @else { " were lost." } }
                    " What happened in these times is unknown: it is hatched in the timelines, and the numbers may be too low."
                }
                (list(where_lost.iter().map(|finding| lost_where(finding)).collect::<Vec<_>>().iter().map(String::as_str)))
            } @else if is_damaged {
                p { strong { "Parts of the trace are missing or damaged." } " The numbers may be too low." }
            } @else {
                p { strong { "Nothing was lost." } }
            }
            @if !others.is_empty() { (list(others.iter().map(String::as_str))) }
        }
    }
}

/// `1,234 events in trace/kernel/channel0_1`
fn lost_where(finding: &Finding) -> String {
    let what = match finding.kind {
        Kind::DiscardedEvents => "event",
        _ => "packet",
    };
    let file = crate::imported::shown(&finding.file);
    format!(
        "{} of {}",
        counted(finding.count.cast_signed(), what),
        file.to_string_lossy()
    )
}

/// A sentence, in which `commands` are set apart.
fn prose(text: &str) -> Markup {
    let text = start(&printable(text), SENTENCE_MAX);
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Items, as many as a person reads.
fn list<'i>(items: impl ExactSizeIterator<Item = &'i str>) -> Markup {
    let more = items.len().saturating_sub(ITEMS_MAX);
    html! {
        ul {
            @for item in items.take(ITEMS_MAX) { li { (prose(item)) } }
            @if more > 0 { li { "and " (count(more as i64)) " more" } }
        }
    }
}

/// What stands out, with links.
fn found(account: &Account) -> Markup {
    let length = duration(account.part_ns.1.saturating_sub(account.part_ns.0));
    html! {
        h2 { "What stands out" }
        @if !account.has_kernel {
            p {
                "Insights need events of the kernel, and this trace contains only events of programs. "
                code { "piste record" } ", run as root, records both."
            }
        } @else if account.insights.is_empty() {
            p { "Nothing stands out in " (length) "." }
        } @else {
            ol class="found" {
                @for (place, (insight, _)) in account.insights.iter().enumerate() {
                    li {
                        span class="number" { (place + 1) }
                        (level(insight))
                        a href=(format!("#insight-{}", place + 1)) { (start(&printable(&insight.what), SENTENCE_MAX)) }
                    }
                }
            }
        }
    }
}

fn level(insight: &Insight) -> Markup {
    html! { span class=(format!("level {}", insight.level.text())) { (insight.kind) } }
}

/// An insight: what it is, how much, when, what it looks like, and what looks closer.
fn told(
    account: &Account,
    number: usize,
    (insight, command): (&Insight, &str),
    picture: Option<&Markup>,
    zone: &TimeZone,
) -> Markup {
    let (begin_ns, end_ns) = insight.span_ns;
    let step_ns = (end_ns.saturating_sub(begin_ns) / 100).clamp(1_000, 1_000_000);
    let at = |ns: i64| since(ns.saturating_sub(account.origin_ns), step_ns);
    let what = start(&printable(&insight.what), SENTENCE_MAX);
    html! {
        section {
            h3 id=(format!("insight-{number}")) { (number) ". " (level(insight)) small { (insight.level.text()) } }
            p { (what) "." }
            dl {
                dt { "Measured" } dd { (start(&printable(&evidence(insight)), SENTENCE_MAX)) }
                dt { "When" } dd { (at(begin_ns)) " to " (at(end_ns)) ", beginning at " (moment(begin_ns, zone)) }
            }
            @match picture {
                Some(picture) => (picture),
                None => p class="more" { "This one has no timeline here, to keep the report small; " code { "piste web" } " shows it." },
            }
            pre { (command) }
        }
    }
}

/// Tables that answer one question.
fn chapter_of(chapter: &Chapter, zone: &TimeZone) -> Markup {
    html! {
        section {
            h2 { (chapter.heading) }
            @for table in &chapter.tables { (tables::table(table, zone)) }
            @if !chapter.notes.is_empty() { (list(chapter.notes.iter().map(String::as_str))) }
            pre { (chapter.command) }
        }
    }
}

fn further(account: &Account) -> Markup {
    html! {
        h2 { "To look further" }
        p { "All commands in this report read the trace itself. These show all of it:" }
        pre { (account.commands.join("\n")) }
    }
}

/// Pictures, as far as there is room for them.
struct Drawn {
    all: Markup,
    /// By insight.
    insights: Vec<Option<Markup>>,
}

fn pictures(account: &Account, lanes: &Lanes<'_>) -> Result<Drawn, TimelineFailure> {
    let marks = account.insights.iter().enumerate().map(|(place, (insight, _))| Mark {
        number: place + 1,
        name: insight.kind.to_owned(),
        span_ns: insight.span_ns,
    });
    let marks: Vec<Mark> = marks.take(MARKS_MAX).collect();
    let all = Scene {
        lanes,
        origin_ns: account.origin_ns,
        view_ns: account.part_ns,
        rows: &lanes.of_all(account.part_ns)?,
        focus: None,
        marks: &marks,
        label: "Timeline of the whole report: CPUs, and the threads that ran longest",
    };
    let all = all.draw()?;
    let mut bytes = all.0.len();
    let mut insights = Vec::new();
    for (insight, _) in &account.insights {
        let picture = match bytes {
            0..PICTURES_BYTES_MAX => Some(picture(account, lanes, insight)?),
            _ => None,
        };
        let picture = picture.filter(|picture| bytes + picture.0.len() <= PICTURES_BYTES_MAX);
        bytes += picture.as_ref().map_or(0, |picture| picture.0.len());
        insights.push(picture);
    }
    Ok(Drawn { all, insights })
}

/// The longest of what an insight is about, and what was around it.
fn picture(account: &Account, lanes: &Lanes<'_>, insight: &Insight) -> Result<Markup, TimelineFailure> {
    let (focus_ns, what) = match insight.longest_ns {
        Some(longest_ns) => (longest_ns, "the longest: "),
        None => (insight.span_ns, ""),
    };
    let view_ns = around(focus_ns, account.part_ns);
    let name = format!("{what}{}", duration(focus_ns.1.saturating_sub(focus_ns.0)));
    let scene = Scene {
        lanes,
        origin_ns: account.origin_ns,
        view_ns,
        rows: &lanes.around(insight, view_ns)?,
        focus: (view_ns != focus_ns).then_some((focus_ns, name)),
        marks: &[],
        label: &format!("Timeline around this: {}", insight.kind),
    };
    scene.draw()
}

/// A part of time with what is around it.
fn around((begin_ns, end_ns): (i64, i64), whole_ns: (i64, i64)) -> (i64, i64) {
    let beside_ns = ((end_ns.saturating_sub(begin_ns)) as f64 * AROUND) as i64;
    let beside_ns = beside_ns.max(AROUND_NS_MIN);
    let (begin_ns, end_ns) = (begin_ns.saturating_sub(beside_ns), end_ns.saturating_add(beside_ns));
    (begin_ns.max(whole_ns.0), end_ns.min(whole_ns.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_around_lies_within_the_whole() {
        assert_eq!(around((1_000_000, 2_000_000), (0, 10_000_000)), (400_000, 2_600_000));
        assert_eq!(around((1_000, 1_000), (0, 10_000_000)), (0, 21_000));
        assert_eq!(around((0, 10), (0, 10)), (0, 10));
    }

    #[test]
    fn texts_are_shortened_and_cannot_control_anything() {
        assert_eq!(short("a\u{1b}[2J<b>"), "a\\u{1b}[2J<b>");
        assert_eq!(short(&"x".repeat(1000)).chars().count(), TEXT_MAX);
    }
}
