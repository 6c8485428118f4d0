// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots as SVG, in the colours of latency.css: the histogram and the percentiles, with logarithmic axes because the values that matter are rare and
//! large, and the largest values over time. A curve has at most a few hundred points, whatever was measured.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};
use piste_latency::tally::Snapshot;
use piste_latency::{Clock, Measured, Stretch};

use super::Results;

/// Units of a picture, of which a screen shows about one pixel each.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Columns of the histogram.
const COLUMNS: usize = 220;
/// Curves with colours of their own.
pub(super) const CURVES_MAX: usize = 6;
/// Width of a character, on average.
const CHARACTER: f64 = 7.0;
/// Between labels of an axis.
const LABEL_X_MIN: f64 = 62.0;
const LABEL_Y_MIN: f64 = 22.0;
/// A title and the space around it, in a file with several plots.
const TITLE: f64 = 34.0;
/// The line with the names of the curves.
const KEY: f64 = 30.0;

/// A curve: a CPU, or all together.
pub(super) struct Series<'r> {
    pub(super) name: String,
    /// A class of latency.css.
    pub(super) class: String,
    values: &'r Snapshot,
    stretches: &'r [Stretch],
}

/// The CPUs of some results, as many as have colours: those with the largest values. All together come first if there are several.
pub(super) fn series(results: &Results) -> Vec<Series<'_>> {
    let mut shown: Vec<&Measured> = results.measured.iter().collect();
    let largest = |measured: &&Measured| std::cmp::Reverse(results.summary(&measured.values).max_ns as u64);
    shown.sort_by_key(largest);
    shown.truncate(CURVES_MAX);
    shown.sort_by_key(|measured| measured.cpu);
    let mut series = Vec::new();
    if results.measured.len() > CURVES_MAX {
        series.push(Series {
            name: format!("all {} CPUs", results.measured.len()),
            class: "all".into(),
            values: &results.all,
            stretches: &[],
        });
    }
    for (place, measured) in shown.into_iter().enumerate() {
        series.push(Series {
            name: format!("CPU {}", measured.cpu),
            class: format!("c{place}"),
            values: &measured.values,
            stretches: &measured.stretches,
        });
    }
    series
}

/// A logarithmic axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    min: f64,
    max: f64,
    /// Where these are.
    begin: f64,
    end: f64,
}

impl Axis {
    /// An axis for values of this range, with a little room beside them.
    fn around(min: f64, max: f64, (begin, end): (f64, f64)) -> Axis {
        let min = min.max(1e-3);
        let max = max.max(min * 1.5);
        let room = (max / min).powf(0.03).max(1.06);
        Axis {
            min: min / room,
            max: max * room,
            begin,
            end,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.max(self.min) / self.min).ln() / (self.max / self.min).ln();
        self.begin + part.min(1.0) * (self.end - self.begin)
    }

    /// Where lines stand, and which of them have room for a label.
    fn ticks(&self, label_min: f64) -> Vec<(f64, bool)> {
        let (first, last) = (self.min.log10().floor() as i32, self.max.log10().ceil() as i32);
        let per_decade = (self.end - self.begin).abs() / (self.max / self.min).log10();
        // As many of a decade as have room.
        let steps: &[f64] = match per_decade {
            // By the logarithm of the smallest factor between two of them.
            room if room * 0.096 >= label_min => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            room if room * 0.3 >= label_min => &[1.0, 2.0, 5.0],
            room if room * 0.47 >= label_min => &[1.0, 3.0],
            _ => &[1.0],
        };
        // Or only each second or third decade.
        let every = (label_min / per_decade).ceil().max(1.0) as i32;
        let mut ticks = Vec::new();
        for decade in first..=last {
            for step in steps {
                let value = step * 10_f64.powi(decade);
                if value >= self.min && value <= self.max {
                    ticks.push((value, decade.rem_euclid(every) == 0));
                }
            }
        }
        ticks
    }
}

/// `10 µs`, `1.5 ms`: a time on an axis.
fn time_label(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

/// `1`, `10 k`, `1 M`
fn count_label(count: f64) -> String {
    match count {
        count if count < 999.5 => format!("{count}"),
        count if count < 999.5e3 => format!("{} k", count / 1e3),
        count if count < 999.5e6 => format!("{} M", count / 1e6),
        count => format!("{} G", count / 1e9),
    }
}

/// Where the curves are.
const AREA_X: (f64, f64) = (LEFT, WIDTH - RIGHT);
const AREA_Y: (f64, f64) = (HEIGHT - BOTTOM, TOP);

/// The pieces of a plot behind its curves: lines with labels, and what the axes show.
struct Ground {
    grid: String,
    labels: Vec<(f64, f64, &'static str, String)>,
    names: [&'static str; 2],
}

impl Ground {
    fn new(horizontal: &'static str, vertical: &'static str) -> Ground {
        Ground {
            grid: String::new(),
            labels: Vec::new(),
            names: [horizontal, vertical],
        }
    }

    fn vertical_line(&mut self, x: f64, label: Option<String>) {
        let _ = write!(self.grid, "M{x:.1} {:.1}V{:.1}", AREA_Y.0, AREA_Y.1);
        if let Some(label) = label {
            // At the right edge, half of the label would be cut off.
            let half = label.chars().count() as f64 * CHARACTER / 2.0;
            let x = x.min(WIDTH - half - 2.0);
            self.labels.push((x, AREA_Y.0 + 17.0, "middle", label));
        }
    }

    fn horizontal_line(&mut self, y: f64, label: Option<String>) {
        let _ = write!(self.grid, "M{:.1} {y:.1}H{:.1}", AREA_X.0, AREA_X.1);
        if let Some(label) = label {
            self.labels.push((AREA_X.0 - 8.0, y + 4.0, "end", label));
        }
    }

    fn horizontal_times(&mut self, axis: &Axis) {
        for (ns, has_label) in axis.ticks(LABEL_X_MIN) {
            self.vertical_line(axis.at(ns), has_label.then(|| time_label(ns)));
        }
    }

    fn vertical_times(&mut self, axis: &Axis) {
        for (ns, has_label) in axis.ticks(LABEL_Y_MIN) {
            self.horizontal_line(axis.at(ns), has_label.then(|| time_label(ns)));
        }
    }

    fn draw(&self) -> Markup {
        html! {
            path class="grid" d=(self.grid) {}
            path class="axis" d=(format!("M{:.1} {:.1}H{:.1}", AREA_X.0, AREA_Y.0, AREA_X.1)) {}
            @for (x, y, class, label) in &self.labels {
                text class=(class) x=(format!("{x:.1}")) y=(format!("{y:.1}")) { (label) }
            }
            text class="middle" x=(format!("{:.1}", f64::midpoint(AREA_X.0, AREA_X.1))) y=(format!("{:.1}", HEIGHT - 8.0)) { (self.names[0]) }
            text class="middle" transform=(format!("translate(14 {:.1}) rotate(-90)", f64::midpoint(AREA_Y.0, AREA_Y.1))) { (self.names[1]) }
        }
    }
}

/// The smallest and the largest value of all.
fn range(results: &Results) -> (f64, f64) {
    let summary = results.summary(&results.all);
    // Of an undisturbed loop, less than a tick may be left.
    (summary.min_ns.max(1.0), summary.max_ns.max(2.0))
}

fn svg(label: &str, body: &Markup) -> Markup {
    html! {
        svg class="plot" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) { (body) }
    }
}

pub(super) const TITLES: [&str; 3] = ["Histogram", "Percentiles", "Largest values over time"];

/// All plots, in the order of [`TITLES`]; the last one is absent if nothing was noted over time.
pub(super) fn all(results: &Results) -> Vec<(&'static str, Markup)> {
    let series = series(results);
    let bodies = [
        Some(histogram(results, &series)),
        Some(percentiles(results, &series)),
        over_time(results, &series),
    ];
    let plots = TITLES.into_iter().zip(bodies);
    plots.filter_map(|(title, body)| Some((title, body?))).collect()
}

/// A plot as a picture of its own.
pub(super) fn picture(title: &str, body: &Markup) -> Markup {
    svg(title, body)
}

/// Counts of values by their length.
fn histogram(results: &Results, series: &[Series<'_>]) -> Markup {
    let clock = &results.plan.clock;
    let (min, max) = range(results);
    let across = Axis::around(min, max, AREA_X);
    let columns: Vec<Vec<f64>> = series.iter().map(|one| columns(one.values, clock, &across)).collect();
    let most = columns.iter().flatten().copied().fold(1.0, f64::max);
    // One value is visible, and none is the axis.
    let up = Axis {
        min: 0.5,
        max: most * 1.6,
        begin: AREA_Y.0,
        end: AREA_Y.1,
    };
    let mut ground = Ground::new("latency", "values");
    ground.horizontal_times(&across);
    for (count, has_label) in up
        .ticks(LABEL_Y_MIN)
        .into_iter()
        .filter(|(count, _)| count.fract() == 0.0)
    {
        ground.horizontal_line(up.at(count), has_label.then(|| count_label(count)));
    }
    let column_width = (AREA_X.1 - AREA_X.0) / COLUMNS as f64;
    let outline = |counts: &[f64]| {
        let mut path = format!("M{:.1} {:.1}", AREA_X.0, AREA_Y.0);
        let mut last = AREA_Y.0;
        for (place, count) in counts.iter().enumerate() {
            let y = if *count == 0.0 { AREA_Y.0 } else { up.at(*count) };
            if (y - last).abs() > 0.05 {
                let _ = write!(path, "H{:.1}V{y:.1}", AREA_X.0 + place as f64 * column_width);
                last = y;
            }
        }
        let _ = write!(path, "H{:.1}V{:.1}", AREA_X.1, AREA_Y.0);
        path
    };
    html! {
        (ground.draw())
        @for (one, counts) in series.iter().zip(&columns) {
            path class=(format!("area {}", one.class)) d=(outline(counts)) {}
        }
        @for (one, counts) in series.iter().zip(&columns) {
            path class=(format!("{} line", one.class)) d=(outline(counts)) {}
        }
        (limit_across(results, &across))
    }
}

/// How many values each column has. A bucket that is wider than a column gives each a part of its count.
fn columns(values: &Snapshot, clock: &Clock, across: &Axis) -> Vec<f64> {
    let mut counts = vec![0.0; COLUMNS];
    let column = |ns: f64| {
        let part = (across.at(ns) - AREA_X.0) / (AREA_X.1 - AREA_X.0);
        ((part * COLUMNS as f64) as usize).min(COLUMNS - 1)
    };
    for bucket in values.buckets() {
        let (first, last) = (
            column(clock.ns(bucket.low as f64)),
            column(clock.ns(bucket.high as f64)),
        );
        // A count is never less than one value, or a rare one would vanish in a wide bucket.
        let part = (bucket.count as f64 / (last - first + 1) as f64).max(1.0);
        counts[first..=last].iter_mut().for_each(|count| *count += part);
    }
    counts
}

/// The value that each part of all values does not exceed: the part's distance from all, on a logarithmic axis.
fn percentiles(results: &Results, series: &[Series<'_>]) -> Markup {
    let clock = &results.plan.clock;
    let (min, max) = range(results);
    let most = series
        .iter()
        .map(|one| results.summary(one.values).count)
        .max()
        .unwrap_or(0)
        .max(10) as f64;
    // A value of 1 is the beginning, 10 is 90 %, 100 is 99 %.
    let across = Axis {
        min: 1.0,
        max: most * 1.3,
        begin: AREA_X.0,
        end: AREA_X.1,
    };
    let up = Axis::around(min, max, AREA_Y);
    let mut ground = Ground::new("percentile", "latency");
    let nines = most.log10().floor() as usize;
    let every = nines.div_ceil(10).max(1);
    for nine in 0..=nines {
        let label = match nine {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            _ => format!("99.{} %", "9".repeat(nine - 2)),
        };
        ground.vertical_line(
            across.at(10_f64.powi(nine as i32)),
            (nine % every == 0).then_some(label),
        );
    }
    ground.vertical_times(&up);
    let curve = |one: &Series<'_>| {
        let summary = results.summary(one.values);
        let mut path = String::new();
        let (mut passed, mut last_x) = (0, f64::MIN);
        for bucket in one.values.buckets() {
            let x = across.at(summary.count as f64 / (summary.count - passed) as f64);
            passed += bucket.count;
            let ns = clock.ns(bucket.high as f64).min(summary.max_ns);
            if x - last_x >= 0.7 || passed == summary.count {
                let command = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{command}{x:.1} {:.1}", up.at(ns));
                last_x = x;
            }
        }
        // The largest value is all that is left.
        let _ = match path.is_empty() {
            true => Ok(()),
            false => write!(path, "H{:.1}", across.at(summary.count as f64)),
        };
        path
    };
    html! {
        (ground.draw())
        @for one in series {
            path class=(format!("{} line", one.class)) d=(curve(one)) {}
        }
        (limit_up(results, &up))
    }
}

/// The largest value of each stretch of time.
fn over_time(results: &Results, series: &[Series<'_>]) -> Option<Markup> {
    let clock = &results.plan.clock;
    let stretches = || series.iter().flat_map(|one| one.stretches);
    let noted = || stretches().filter(|stretch| stretch.largest > 0);
    let min = noted().map(|stretch| stretch.largest).min()?;
    let max = noted().map(|stretch| stretch.largest).max()?;
    let end_s = clock.ns(stretches().map(|stretch| stretch.end).max()? as f64) / 1e9;
    let up = Axis::around(clock.ns(min as f64), clock.ns(max as f64), AREA_Y);
    let x = |ticks: u64| AREA_X.0 + clock.ns(ticks as f64) / 1e9 / end_s * (AREA_X.1 - AREA_X.0);
    let mut ground = Ground::new("time", "largest latency");
    ground.vertical_times(&up);
    let step_s = time_step(end_s);
    for number in 0..=(end_s / step_s) as usize {
        let at_s = number as f64 * step_s;
        let label = if at_s == 0.0 { "0".to_owned() } else { span_label(at_s) };
        ground.vertical_line(AREA_X.0 + at_s / end_s * (AREA_X.1 - AREA_X.0), Some(label));
    }
    let curve = |one: &Series<'_>| {
        let mut path = String::new();
        let mut is_drawn = false;
        // Two stretches that share a pixel are one.
        let together = one.stretches.len().div_ceil((AREA_X.1 - AREA_X.0) as usize).max(1);
        for stretches in one.stretches.chunks(together) {
            let largest = stretches.iter().map(|stretch| stretch.largest).max().unwrap_or(0);
            if largest == 0 {
                is_drawn = false;
                continue;
            }
            let (begin, end) = (x(stretches[0].begin), x(stretches[stretches.len() - 1].end));
            let y = up.at(clock.ns(largest as f64));
            let _ = match is_drawn {
                true => write!(path, "V{y:.1}H{end:.1}"),
                false => write!(path, "M{begin:.1} {y:.1}H{end:.1}"),
            };
            is_drawn = true;
        }
        path
    };
    Some(html! {
        (ground.draw())
        @for one in series.iter().filter(|one| !one.stretches.is_empty()) {
            path class=(format!("{} line", one.class)) d=(curve(one)) {}
        }
        (limit_up(results, &up))
    })
}

/// Seconds between lines: about ten of them.
fn time_step(end_s: f64) -> f64 {
    const STEPS_S: [f64; 18] = [
        1e-3, 5e-3, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 21_600.0,
    ];
    let fits = STEPS_S.into_iter().find(|step_s| end_s / step_s <= 12.0);
    fits.unwrap_or_else(|| 86_400.0 * (end_s / 86_400.0 / 12.0).ceil())
}

/// `0.5 s`, `90 s`, `5 min`, `2 h`
fn span_label(seconds: f64) -> String {
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    match seconds {
        seconds if seconds < 60.0 || seconds % 60.0 != 0.0 => format!("{} s", rounded(seconds)),
        seconds if seconds < 3600.0 || seconds % 3600.0 != 0.0 => format!("{} min", rounded(seconds / 60.0)),
        seconds => format!("{} h", rounded(seconds / 3600.0)),
    }
}

/// The limit of --fail-above, if it is in the picture.
fn limit_ns(results: &Results, axis: &Axis) -> Option<f64> {
    let ns = results.fail_above?.as_nanos() as f64;
    (ns >= axis.min && ns <= axis.max).then_some(ns)
}

fn limit_across(results: &Results, across: &Axis) -> Markup {
    html! {
        @if let Some(ns) = limit_ns(results, across) {
            @let x = across.at(ns);
            path class="limit" d=(format!("M{x:.1} {:.1}V{:.1}", AREA_Y.0, AREA_Y.1)) {}
            text class="limit-name" x=(format!("{:.1}", x + 5.0)) y=(format!("{:.1}", AREA_Y.1 + 11.0)) { "limit " (time_label(ns)) }
        }
    }
}

fn limit_up(results: &Results, up: &Axis) -> Markup {
    html! {
        @if let Some(ns) = limit_ns(results, up) {
            @let y = up.at(ns);
            path class="limit" d=(format!("M{:.1} {y:.1}H{:.1}", AREA_X.0, AREA_X.1)) {}
            text class="limit-name" x=(format!("{:.1}", AREA_X.0 + 6.0)) y=(format!("{:.1}", y - 5.0)) { "limit " (time_label(ns)) }
        }
    }
}

/// Style of a file that stands alone: the colours of pages, and those of plots.
const COLOURS: &str = ":root { --background: #ffffff; --text: #1c2024; --faint: #60646c; --line: #dfe3e8; }
@media screen and (prefers-color-scheme: dark) { :root { --background: #18191b; --text: #edeef0; --faint: #a0a4ab; --line: #363a3f; } }
.background { fill: var(--background); }
svg.plot .heading { font-size: 17px; font-weight: 600; fill: var(--text); }
svg.plot .end { text-anchor: end; }
";
const STYLE: &str = include_str!("latency.css");

/// All plots below each other, as a file. `heading` and `subject` say what was measured.
pub(super) fn file(results: &Results, heading: &str, subject: &str) -> String {
    let plots = all(results);
    let begin = 64.0 + KEY;
    let height = begin + plots.len() as f64 * (TITLE + HEIGHT) + 8.0;
    let key = series(results);
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="plot" width=(WIDTH) height=(height)
            viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(format!("{heading}: {subject}"))
        {
            style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) }
            rect class="background" width=(WIDTH) height=(height) {}
            text class="heading" x="20" y="34" { (heading) }
            text x="20" y="56" { (subject) }
            @for (place, one) in key.iter().enumerate() {
                @let x = 20.0 + place as f64 * 110.0;
                path class=(format!("{} line", one.class)) d=(format!("M{x:.1} 78h18")) {}
                text x=(format!("{:.1}", x + 24.0)) y="82" { (one.name) }
            }
            @for (place, (title, body)) in plots.iter().enumerate() {
                @let top = begin + place as f64 * (TITLE + HEIGHT);
                text class="title" x="20" y=(format!("{:.1}", top + 24.0)) { (title) }
                g transform=(format!("translate(0 {:.1})", top + TITLE)) { (body) }
            }
        }
    };
    picture.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_labels_where_there_is_room() {
        let axis = Axis::around(9.0, 2e6, AREA_X);
        let labels: Vec<String> = axis
            .ticks(LABEL_X_MIN)
            .into_iter()
            .map(|(ns, _)| time_label(ns))
            .collect();
        assert!(
            labels.contains(&"10 ns".into()) && labels.contains(&"1 ms".into()),
            "{labels:?}"
        );
        assert!(labels.len() <= 14, "{labels:?}");
        let narrow = Axis::around(1000.0, 1100.0, AREA_X);
        assert!(narrow.ticks(LABEL_X_MIN).len() >= 2);
        assert!(axis.at(9.0) > AREA_X.0 && axis.at(2e6) < AREA_X.1);
        assert_eq!(axis.at(1e12), AREA_X.1);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(
            [10.0, 1500.0, 2e6, 1e9].map(time_label),
            ["10 ns", "1.5 µs", "2 ms", "1 s"]
        );
        assert_eq!([1.0, 1e4, 1e6, 2e9].map(count_label), ["1", "10 k", "1 M", "2 G"]);
        assert_eq!(
            [0.5, 30.0, 90.0, 300.0, 7200.0].map(span_label),
            ["0.5 s", "30 s", "90 s", "5 min", "2 h"]
        );
        for end_s in [0.01, 1.0, 10.0, 601.0, 90_000.0, 1e7] {
            let lines = end_s / time_step(end_s);
            assert!((1.0..=12.0).contains(&lines), "{end_s}: {lines}");
        }
    }
}
