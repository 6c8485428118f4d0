// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times as SVG, on a logarithmic scale, because tracers differ by a factor of ten thousand; the parts of one time on a linear one.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use piste_bench::report::Row;

use super::report::{events_of_steps, ns, percentile, wide_title};

const WIDTH: f64 = 960.0;
const NAMES: f64 = 250.0;
/// Right of the scale, for the number at the end of a bar.
const NUMBERS: f64 = 70.0;
const AXIS: f64 = 22.0;
const LANE: f64 = 19.0;
const BAR: f64 = 11.0;
/// Of a bar with numbers in it, and the room that a number takes.
const THICK_LANE: f64 = 30.0;
const LABEL_ROOM: f64 = 34.0;
/// Of a plot: its height, what is left of it for times, and the distance of two names.
const PLOT: f64 = 300.0;
const AXIS_NAMES: f64 = 70.0;
const LETTERS: f64 = 15.0;

/// From nanoseconds to places.
struct Scale {
    /// Powers of ten.
    low: f64,
    high: f64,
}

impl Scale {
    /// Whole decades around all values.
    fn around(values: impl Iterator<Item = f64>) -> Scale {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        match low.is_finite() && high.is_finite() {
            true => Scale {
                low,
                high: high.max(low + 1.0),
            },
            false => Scale { low: 0.0, high: 1.0 },
        }
    }

    fn share(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).log10() - self.low) / (self.high - self.low);
        share.clamp(0.0, 1.0)
    }

    fn place(&self, value: f64) -> f64 {
        NAMES + self.share(value) * (WIDTH - NAMES - NUMBERS)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|power| 10f64.powi(power))
    }
}

/// A bar for each row, with its interval.
pub(super) fn bars(rows: &[&Row]) -> Markup {
    let scale = Scale::around(rows.iter().map(|row| row.time_ns.value));
    drawing(rows, &scale, "Time of an event", |row, top| {
        let end = scale.place(row.time_ns.value);
        let middle = number(top + LANE / 2.0);
        html! {
            rect class="bar" x=(number(NAMES)) y=(number(top + (LANE - BAR) / 2.0)) width=(number(end - NAMES)) height=(number(BAR)) {}
            @if let (Some(low), Some(high)) = (row.time_ns.low, row.time_ns.high) {
                line class="edge" stroke-width="2" x1=(number(scale.place(low))) x2=(number(scale.place(high))) y1=(middle) y2=(middle) {}
            }
            text x=(number(end.max(scale.place(row.time_ns.high.unwrap_or(0.0))) + 6.0)) y=(number(top + LANE / 2.0 + 4.0)) { (ns(row.time_ns.value)) }
        }
    })
}

/// The distribution of single events of each row.
pub(super) fn samples(rows: &[&Row]) -> Markup {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.samples.is_some()).collect();
    let all = rows.iter().filter_map(|row| row.samples.as_ref());
    let scale = Scale::around(all.flat_map(|samples| [samples.min_ns, samples.max_ns]));
    drawing(&rows, &scale, "Times of single events", |row, top| {
        let Some(samples) = &row.samples else {
            return html! {};
        };
        let place = |percent| scale.place(percentile(samples, percent));
        let middle = number(top + LANE / 2.0);
        let (above, below) = (number(top + (LANE - BAR) / 2.0), number(top + (LANE + BAR) / 2.0));
        html! {
            line class="edge" x1=(number(scale.place(samples.min_ns))) x2=(number(place(99.0))) y1=(middle) y2=(middle) {}
            rect class="bar" x=(number(place(25.0))) y=(above) width=(number((place(75.0) - place(25.0)).max(2.0))) height=(number(BAR)) {}
            line stroke="currentColor" stroke-width="2" x1=(number(place(50.0))) x2=(number(place(50.0))) y1=(above) y2=(below) {}
            circle class="mark" r="2.5" cx=(number(scale.place(samples.max_ns))) cy=(middle) {}
        }
    })
}

/// A bar for each event that was measured by its steps, of which each takes a part.
pub(super) fn stacks(rows: &[&Row]) -> Markup {
    let events = events_of_steps(rows);
    let parts = events.iter().map(|steps| {
        // A step that adds less than nothing gets no width.
        steps.iter().scan(0.0_f64, |end, part| {
            let begin = *end;
            *end = begin.max(part.row.time_ns.value);
            Some((begin, *end))
        })
    });
    let parts: Vec<Vec<(f64, f64)>> = parts.map(Iterator::collect).collect();
    let longest = parts
        .iter()
        .filter_map(|parts| parts.last())
        .map(|(_, end)| *end)
        .fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| NAMES + value / longest * (WIDTH - NAMES - NUMBERS);
    let top = |place: usize| THICK_LANE * place as f64;
    html! {
        figure {
            svg viewBox=(format!("0 0 {WIDTH} {}", number(top(events.len())))) role="img" aria-label="Time of an event by its steps" {
                @for (place, (steps, parts)) in events.iter().zip(&parts).enumerate() {
                    @let text_y = number(top(place) + THICK_LANE / 2.0 + 4.0);
                    @if let Some(whole) = steps.last() {
                        text class="end" x=(number(NAMES - 8.0)) y=(text_y) { "Piste" (whole.load()) }
                        text x=(number(x(parts.last().map_or(0.0, |(_, end)| *end)) + 6.0)) y=(text_y) { (ns(whole.row.time_ns.value)) }
                    }
                    @for (index, (part, (begin, end))) in steps.iter().zip(parts).enumerate() {
                        @let width = x(*end) - x(*begin);
                        rect class=(format!("n{index}")) x=(number(x(*begin))) y=(number(top(place) + 2.0)) width=(number(width)) height=(number(THICK_LANE - 4.0)) {
                            title { (part.step.name) ": " (ns(part.step.added_ns.value)) " ns" }
                        }
                        @if width >= LABEL_ROOM {
                            text class="on-colour" text-anchor="middle" x=(number(x(*begin) + width / 2.0)) y=(text_y) { (ns(part.step.added_ns.value)) }
                        }
                    }
                }
            }
            figcaption {
                @for (index, part) in events.first().into_iter().flatten().enumerate() {
                    span class="key" { svg { rect class=(format!("n{index}")) width="12" height="12" {} } (part.step.name) }
                }
            }
        }
    }
}

/// A line for each tracer: the time of a call by the length of the file name that is passed to it.
pub(super) fn by_length(rows: &[&Row]) -> Markup {
    let scale = Scale::around(rows.iter().map(|row| row.time_ns.value));
    let longest = rows.iter().map(|row| row.payload_bytes).max().unwrap_or(1);
    let right = WIDTH - NAMES;
    let x = |bytes: u32| AXIS_NAMES + f64::from(bytes) / f64::from(longest) * (right - AXIS_NAMES - 8.0);
    let y = |ns: f64| AXIS + (1.0 - scale.share(ns)) * PLOT;
    let mut lines: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    rows.iter()
        .for_each(|row| lines.entry(&row.title).or_default().push(row));
    lines
        .values_mut()
        .for_each(|line| line.sort_by_key(|row| row.payload_bytes));
    let lengths: BTreeSet<u32> = rows.iter().map(|row| row.payload_bytes).collect();
    // From the top to the bottom, as far apart as their letters need.
    let mut names: Vec<(&str, f64)> = lines
        .iter()
        .filter_map(|(title, line)| Some((*title, y(line.last()?.time_ns.value))))
        .collect();
    names.sort_by(|one, other| one.1.total_cmp(&other.1));
    for place in 1..names.len() {
        names[place].1 = names[place].1.max(names[place - 1].1 + LETTERS);
    }
    let height = names.last().map_or(0.0, |(_, y)| *y).max(AXIS + PLOT) + 2.0 * LETTERS;
    html! {
        figure {
            svg viewBox=(format!("0 0 {WIDTH} {}", number(height))) role="img" aria-label="Time of a call by the length of a file name" {
                @for decade in scale.decades() {
                    @let y = y(decade);
                    line class="grid" x1=(number(AXIS_NAMES)) x2=(number(right)) y1=(number(y)) y2=(number(y)) {}
                    text class="end" x=(number(AXIS_NAMES - 8.0)) y=(number(y + 4.0)) { (label(decade)) }
                }
                @for bytes in &lengths {
                    text class="faint" text-anchor="middle" x=(number(x(*bytes))) y=(number(AXIS + PLOT + LETTERS + 2.0)) { (bytes) }
                }
                @for line in lines.values() {
                    @let points: Vec<String> = line.iter().map(|row| format!("{},{}", number(x(row.payload_bytes)), number(y(row.time_ns.value)))).collect();
                    polyline class="edge" fill="none" points=(points.join(" ")) {}
                    @for row in line {
                        circle class="mark" r="2.5" cx=(number(x(row.payload_bytes))) cy=(number(y(row.time_ns.value))) {}
                    }
                }
                @for (title, y) in &names {
                    text x=(number(right)) y=(number(y + 4.0)) { (title) }
                }
            }
        }
    }
}

/// Names, a grid of decades, and what `lane` draws of each row.
fn drawing(rows: &[&Row], scale: &Scale, title: &str, lane: impl Fn(&Row, f64) -> Markup) -> Markup {
    let height = AXIS + LANE * rows.len() as f64;
    let top = |place: usize| AXIS + LANE * place as f64;
    html! {
        figure {
            svg viewBox=(format!("0 0 {WIDTH} {}", number(height))) role="img" aria-label=(title) {
                @for decade in scale.decades() {
                    @let x = number(scale.place(decade));
                    line class="grid" x1=(x) x2=(x) y1=(number(AXIS - 6.0)) y2=(number(height)) {}
                    text class="faint" text-anchor="middle" x=(x) y=(number(AXIS - 9.0)) { (label(decade)) }
                }
                @for (place, row) in rows.iter().enumerate() {
                    text class="end" x=(number(NAMES - 8.0)) y=(number(top(place) + LANE / 2.0 + 4.0)) { (wide_title(row)) }
                    (lane(row, top(place)))
                }
            }
        }
    }
}

fn label(decade: f64) -> String {
    match decade {
        decade if decade < 1.0 => format!("{decade} ns"),
        decade if decade < 1e3 => format!("{decade:.0} ns"),
        decade if decade < 1e6 => format!("{:.0} µs", decade / 1e3),
        decade => format!("{:.0} ms", decade / 1e6),
    }
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_whole_decades() {
        let scale = Scale::around([0.3, 12.0, 45_000.0, 0.0].into_iter());
        assert_eq!((scale.low, scale.high), (-1.0, 5.0));
        assert_eq!(scale.decades().count(), 7);
        assert_eq!((scale.place(0.1), scale.place(1e5)), (NAMES, WIDTH - NUMBERS));
        assert!(scale.place(10.0) > scale.place(9.0));
        assert_eq!(
            [0.1, 1.0, 100.0, 1e4, 1e7].map(label),
            ["0.1 ns", "1 ns", "100 ns", "10 µs", "10 ms"]
        );
        let nothing = Scale::around([0.0].into_iter());
        assert_eq!((nothing.low, nothing.high), (0.0, 1.0));
    }
}
