// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of a timeline as SVG: an axis, and a line for each lane. A lane with few pieces shows each, the wide ones with their names; one with
//! many shows columns, which are filled by as much of each state as there was. So a picture has at most so many shapes, whatever the trace has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use maud::{Markup, html};
use piste_terminal::fit::start;
use piste_terminal::printable;
use piste_timeline::{Class, Failure, Piece, Subject, Summary};

use super::colours::{STATES, name_of, number_of, style_of};
use super::lanes::{Lanes, Row};
use crate::quantity::duration;

/// In units of the picture, of which a screen of 1280 pixels shows a little more than one pixel each.
const WIDTH: f64 = 960.0;
const NAMES: f64 = 190.0;
const AXIS: f64 = 22.0;
const LANE: f64 = 17.0;
const CPU: f64 = 20.0;
const GAP: f64 = 3.0;
/// A line with the name of what matters.
const FOCUS: f64 = 16.0;
/// A line with the range of an insight, in the map of all.
const MARK: f64 = 14.0;
/// Width of a character, on average.
const CHARACTER: f64 = 6.1;
const NAMES_CHARACTERS: usize = 30;
/// A wide piece has its name in it, if at least so much of it fits.
const LABEL_MIN: f64 = 34.0;
/// A column is two units wide.
const COLUMNS: usize = 385;
/// A lane with more pieces is shown in columns.
const PIECES_MAX: usize = 250;
/// What programs recorded has its colours in the legend, as far as these names go.
const NAMES_MAX: usize = 12;
const NAMES_LOOKED_AT_MAX: usize = 1000;
/// What takes no time is that wide.
const NARROW: f64 = 1.2;
/// Between marks of the axis.
const STEP_MIN: f64 = 110.0;

/// From the bottom to the top of a column.
const STACK: [Class; 10] = [
    Class::Kernel,
    Class::User,
    Class::Running,
    Class::Other,
    Class::Interrupted,
    Class::Runnable,
    Class::Blocked,
    Class::Stopped,
    Class::Idle,
    Class::Unknown,
];

/// What is shown.
pub(super) struct Scene<'s> {
    pub(super) lanes: &'s Lanes<'s>,
    /// When the trace begins: times are shown from there.
    pub(super) origin_ns: i64,
    pub(super) view_ns: (i64, i64),
    pub(super) rows: &'s [Row],
    /// A part of it that matters, and what it is.
    pub(super) focus: Option<((i64, i64), String)>,
    /// Parts of time with their numbers and names, above the lanes.
    pub(super) marks: &'s [Mark],
    /// What the picture shows, for those who cannot see it.
    pub(super) label: &'s str,
}

/// A part of time that an insight is about.
pub(super) struct Mark {
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) span_ns: (i64, i64),
}

/// Shapes of one colour: `M10 0h5v17h-5z...`, by the classes of report.css.
type Paths = BTreeMap<String, String>;

/// A piece that is wide enough to have its name in it.
struct Wide {
    style: String,
    x: f64,
    width: f64,
    text: String,
    title: String,
}

/// What is drawn of a lane.
#[derive(Default)]
struct Drawn {
    /// Where nobody knows what was, unless something is drawn over it.
    base: String,
    paths: Paths,
    wide: Vec<Wide>,
    states: BTreeSet<Class>,
    /// What programs recorded, with the colours.
    names: BTreeMap<String, String>,
}

impl Scene<'_> {
    /// The picture, with a legend.
    pub(super) fn draw(&self) -> Result<Markup, Failure> {
        let mut tops = Vec::new();
        let mut bottom = AXIS + self.marks.len() as f64 * MARK;
        if !self.marks.is_empty() {
            bottom += GAP;
        }
        if self.focus.is_some() {
            bottom += FOCUS;
        }
        let mut drawn = Vec::new();
        for row in self.rows {
            drawn.push(self.lane(row)?);
            tops.push(bottom);
            bottom += self.height(row) + GAP;
        }
        let names = drawn.iter().flat_map(|lane| &lane.names);
        let names: BTreeMap<&String, &String> = names.take(NAMES_LOOKED_AT_MAX).collect();
        let states: BTreeSet<Class> = drawn.iter().flat_map(|lane| lane.states.iter().copied()).collect();
        Ok(html! {
            figure {
                svg viewBox=(format!("0 0 {WIDTH} {}", n(bottom))) role="img" aria-label=(self.label) {
                    (self.axis(bottom))
                    @for (place, mark) in self.marks.iter().enumerate() {
                        (self.mark(mark, AXIS + place as f64 * MARK))
                    }
                    @for ((row, lane), top) in self.rows.iter().zip(&drawn).zip(&tops) {
                        (self.line(row, lane, *top))
                    }
                    (self.focus(bottom))
                }
                figcaption { (legend(&states, &names)) }
            }
        })
    }

    fn height(&self, row: &Row) -> f64 {
        match self.lanes.subject(row.lane) {
            Some(Subject::Cpu(_)) => CPU,
            _ => LANE,
        }
    }

    /// Where a time is.
    fn x(&self, ns: i64) -> f64 {
        let (begin_ns, end_ns) = self.view_ns;
        let share = (i128::from(ns) - i128::from(begin_ns)) as f64 / (end_ns.abs_diff(begin_ns).max(1)) as f64;
        NAMES + share.clamp(0.0, 1.0) * (WIDTH - NAMES)
    }

    fn axis(&self, bottom: f64) -> Markup {
        let (begin_ns, end_ns) = self.view_ns;
        let length_ns = end_ns.abs_diff(begin_ns).max(1) as f64;
        let step_ns = nice_step(length_ns * STEP_MIN / (WIDTH - NAMES));
        let first = begin_ns.saturating_sub(self.origin_ns).div_euclid(step_ns) + 1;
        let marks = (0..).map(|number| (first + number) * step_ns + self.origin_ns);
        let marks: Vec<i64> = marks.take_while(|ns| *ns < end_ns).take(20).collect();
        html! {
            @for ns in marks {
                @let x = self.x(ns);
                line class="grid" x1=(n(x)) x2=(n(x)) y1="4" y2=(n(bottom)) {}
                // The last one has no room behind it.
                @if x < WIDTH - 80.0 {
                    text class="faint" x=(n(x + 4.0)) y="13" { (since(ns - self.origin_ns, step_ns)) }
                } @else {
                    text class="faint end" x=(n(x - 4.0)) y="13" { (since(ns - self.origin_ns, step_ns)) }
                }
            }
        }
    }

    fn mark(&self, mark: &Mark, top: f64) -> Markup {
        let (left, right) = (self.x(mark.span_ns.0), self.x(mark.span_ns.1));
        let width = (right - left).max(NARROW);
        let name = format!("{}  {}", mark.number, printable(&mark.name));
        html! {
            a href=(format!("#insight-{}", mark.number)) {
                title { (name) }
                text class="name" x="0" y=(n(top + MARK - 4.0)) { (start(&name, NAMES_CHARACTERS)) }
                rect class="mark" x=(n(left)) y=(n(top + 4.0)) width=(n(width)) height=(n(MARK - 8.0)) rx="2" {}
            }
        }
    }

    /// What matters, between two lines, with its name above the lanes.
    fn focus(&self, bottom: f64) -> Markup {
        let Some((span_ns, name)) = &self.focus else {
            return Markup::default();
        };
        let left = self.x(span_ns.0);
        let right = self.x(span_ns.1).max(left + NARROW);
        let top = AXIS + FOCUS;
        let half = name.chars().count() as f64 * CHARACTER / 2.0;
        let middle = ((left + right) / 2.0).clamp(NAMES + half, (WIDTH - half).max(NAMES + half));
        html! {
            path class="fade" d={ (rect(NAMES, top, left - NAMES, bottom - top)) (rect(right, top, WIDTH - right, bottom - top)) } {}
            path class="focus" d=(rect(left, top - 4.0, right - left, 2.0)) {}
            line class="edge" x1=(n(left)) x2=(n(left)) y1=(n(top - 4.0)) y2=(n(bottom)) {}
            line class="edge" x1=(n(right)) x2=(n(right)) y1=(n(top - 4.0)) y2=(n(bottom)) {}
            text class="middle" x=(n(middle)) y=(n(top - 7.0)) { (name) }
        }
    }

    fn line(&self, row: &Row, lane: &Drawn, top: f64) -> Markup {
        let height = self.height(row);
        let base = top + height / 2.0 + 4.0;
        let title = printable(&row.title);
        let room = NAMES_CHARACTERS.saturating_sub(row.note.chars().count() + 1);
        html! {
            text class=(if row.is_meant { "name meant" } else { "name" }) x="0" y=(n(base)) {
                @if !title.is_empty() { (start(&title, room)) " " }
                tspan class="faint" { (row.note) }
                title { (title) " " (row.note) }
            }
            g transform=(format!("translate(0 {})", n(top))) {
                @if !lane.base.is_empty() { path class="unknown" d=(lane.base) {} }
                @for (style, path) in &lane.paths { path class=(style) d=(path) {} }
                @for wide in &lane.wide {
                    g {
                        title { (wide.title) }
                        path class=(wide.style) d=(rect(wide.x, 0.0, wide.width, height)) {}
                        @if !wide.text.is_empty() {
                            text class=(text_style(&wide.style)) x=(n(wide.x + 4.0)) y=(n(height / 2.0 + 4.0)) { (wide.text) }
                        }
                    }
                }
            }
        }
    }

    fn lane(&self, row: &Row) -> Result<Drawn, Failure> {
        let mut drawn = Drawn::default();
        let height = self.height(row);
        let is_cpu = matches!(self.lanes.subject(row.lane), Some(Subject::Cpu(_)));
        if is_cpu {
            // Where there is nothing, nobody knows what the CPU did.
            drawn.base = rect(NAMES, 0.0, WIDTH - NAMES, height);
        }
        match self.lanes.timeline.pieces(row.lane, self.view_ns, PIECES_MAX)? {
            Some(pieces) => self.pieces(row, height, &pieces, &mut drawn),
            None => {
                let columns = self.lanes.timeline.columns(row.lane, self.view_ns, COLUMNS)?;
                self.columns(row, height, &columns, &mut drawn);
            }
        }
        if is_cpu && self.is_partly_unknown(row)? {
            drawn.states.insert(Class::Unknown);
        }
        Ok(drawn)
    }

    fn is_partly_unknown(&self, row: &Row) -> Result<bool, Failure> {
        let sum = self
            .lanes
            .timeline
            .columns(row.lane, self.view_ns, 1)?
            .pop()
            .unwrap_or_default();
        let known_ns: u64 = Class::ALL
            .iter()
            .filter(|class| **class != Class::Unknown)
            .map(|class| sum.of(*class))
            .sum();
        Ok(known_ns < self.view_ns.1.abs_diff(self.view_ns.0))
    }

    /// The class of report.css for a piece: names have colours of their own.
    fn style(&self, row: &Row, class: Class, what: u32) -> String {
        let is_named = match self.lanes.subject(row.lane) {
            Some(Subject::Cpu(_)) => class == Class::Running,
            Some(Subject::Spans(..) | Subject::Events(_) | Subject::Calls(_)) => class != Class::Unknown,
            _ => false,
        };
        match self.lanes.said(what).filter(|_| is_named) {
            Some(name) => format!("n{}", number_of(&name)),
            None => style_of(class).to_owned(),
        }
    }

    /// A name that a program gave is in the legend.
    fn name(&self, row: &Row, style: &str, what: u32, drawn: &mut Drawn) {
        let is_of_program = matches!(
            self.lanes.subject(row.lane),
            Some(Subject::Spans(..) | Subject::Events(_))
        );
        if is_of_program && style.starts_with('n') {
            let name = self.lanes.said(what).unwrap_or_default();
            drawn.names.insert(name, style.to_owned());
        }
    }

    fn pieces(&self, row: &Row, height: f64, pieces: &[Piece], drawn: &mut Drawn) {
        let is_cpu = matches!(self.lanes.subject(row.lane), Some(Subject::Cpu(_)));
        for piece in pieces {
            let (left, right) = (self.x(piece.begin_ns), self.x(piece.end_ns));
            let width = (right - left).max(NARROW).min(WIDTH - left);
            let style = self.style(row, piece.class, piece.what);
            self.name(row, &style, piece.what, drawn);
            // Legends explain states; what has the colour of its name has its name in it.
            if !style.starts_with('n') {
                drawn.states.insert(piece.class);
            }
            if width < LABEL_MIN || piece.class == Class::Idle {
                *drawn.paths.entry(style).or_default() += &rect(left, 0.0, width, height);
                continue;
            }
            let said = self.lanes.said(piece.what).unwrap_or_default();
            let said = printable(&said);
            let room = ((width - 8.0) / CHARACTER) as usize;
            let state = if style.starts_with('n') {
                ""
            } else {
                name_of(piece.class)
            };
            let about = [said.as_ref(), state].into_iter().filter(|part| !part.is_empty());
            let mut title = about.collect::<Vec<_>>().join(": ");
            let _ = write!(title, ", {}", duration(piece.end_ns.saturating_sub(piece.begin_ns)));
            if let Some(by) = self.lanes.said(piece.by).filter(|_| !is_cpu) {
                let _ = write!(title, ", ended by {}", printable(&by));
            }
            drawn.wide.push(Wide {
                style,
                x: left,
                width,
                text: if said.is_empty() {
                    String::new()
                } else {
                    start(&said, room)
                },
                title,
            });
        }
    }

    fn columns(&self, row: &Row, height: f64, columns: &[Summary], drawn: &mut Drawn) {
        let (begin_ns, end_ns) = self.view_ns;
        let width = (WIDTH - NAMES) / columns.len().max(1) as f64;
        let column_ns = (end_ns.abs_diff(begin_ns) as f64 / columns.len().max(1) as f64).max(1.0);
        let takes_no_time = matches!(self.lanes.subject(row.lane), Some(Subject::Events(_)));
        // A run of columns that are full of the same.
        let mut run: Option<(String, usize, usize)> = None;
        let end = |run: &mut Option<(String, usize, usize)>, paths: &mut Paths| {
            if let Some((style, first, behind)) = run.take() {
                let left = NAMES + first as f64 * width;
                *paths.entry(style).or_default() += &rect(left, 0.0, (behind - first) as f64 * width, height);
            }
        };
        for (place, column) in columns.iter().enumerate() {
            let of = |class: Class| {
                column
                    .longest
                    .filter(|longest| longest.class == class)
                    .map_or(0, |longest| longest.what)
            };
            let shares = STACK.into_iter().filter_map(|class| {
                let share = column.of(class) as f64 / column_ns;
                // Events take no time: there are some, or none.
                let share = if takes_no_time && column.count > 0 && class == Class::Other {
                    1.0
                } else {
                    share
                };
                (share > 0.02).then(|| (class, self.style(row, class, of(class)), share.min(1.0)))
            });
            let shares: Vec<(Class, String, f64)> = shares.collect();
            for (class, style, _) in &shares {
                self.name(row, style, of(*class), drawn);
            }
            drawn.states.extend(
                shares
                    .iter()
                    .filter(|(_, style, _)| !style.starts_with('n'))
                    .map(|(class, ..)| *class),
            );
            if let [(_, style, share)] = &shares[..]
                && *share > 0.98
            {
                match &mut run {
                    Some((known, _, behind)) if known == style => *behind = place + 1,
                    _ => {
                        end(&mut run, &mut drawn.paths);
                        run = Some((style.clone(), place, place + 1));
                    }
                }
                continue;
            }
            end(&mut run, &mut drawn.paths);
            let mut bottom = height;
            for (_, style, share) in shares {
                let part = (share * height).min(bottom);
                bottom -= part;
                let left = NAMES + place as f64 * width;
                *drawn.paths.entry(style).or_default() += &rect(left, bottom, width, part);
            }
        }
        end(&mut run, &mut drawn.paths);
    }
}

/// What the colours mean that a picture has.
fn legend(states: &BTreeSet<Class>, names: &BTreeMap<&String, &String>) -> Markup {
    html! {
        @for (name, style) in names.iter().take(NAMES_MAX) {
            (key(style, &start(&printable(name), NAMES_CHARACTERS)))
        }
        @if names.len() > NAMES_MAX { span class="key" { "and " (names.len() - NAMES_MAX) " more" } }
        @for (_, style, name) in STATES.iter().filter(|(class, ..)| states.contains(class)) { (key(style, name)) }
    }
}

fn key(style: &str, name: &str) -> Markup {
    html! {
        span class="key" {
            svg viewBox="0 0 12 12" aria-hidden="true" { path class=(style) d=(rect(0.0, 0.0, 12.0, 12.0)) {} }
            (name)
        }
    }
}

/// Of text on a colour.
fn text_style(style: &str) -> &'static str {
    match style {
        "blocked" | "unknown" | "idle" => "on-pale",
        _ => "on-colour",
    }
}

fn rect(x: f64, y: f64, width: f64, height: f64) -> String {
    if width <= 0.0 || height <= 0.0 {
        return String::new();
    }
    let (width, height) = (n(width), n(height));
    format!("M{} {}h{width}v{height}h-{width}z", n(x), n(y))
}

/// A number with as many digits as can be seen.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A step between marks of an axis: 1, 2 or 5 times a power of ten, not smaller than `least`.
fn nice_step(least: f64) -> i64 {
    let mut power = 1_i64;
    while (power as f64) * 10.0 <= least && power < i64::MAX / 100 {
        power *= 10;
    }
    [1, 2, 5, 10]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step as f64 >= least)
        .unwrap_or(10 * power)
}

/// `+1.2345 s`, with as many digits as a step needs.
pub(super) fn since(ns: i64, step_ns: i64) -> String {
    let digits = (0..9).find(|digits| step_ns >= 10_i64.pow(9 - digits)).unwrap_or(9) as usize;
    let sign = if ns < 0 { "-" } else { "+" };
    format!("{sign}{:.digits$} s", ns.unsigned_abs() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_times_have_their_digits() {
        assert_eq!(
            [0.3, 1.0, 3.0, 7.0, 150.0, 2e9].map(nice_step),
            [1, 1, 5, 10, 200, 2_000_000_000]
        );
        assert_eq!(since(1_500_000_000, 500_000_000), "+1.5 s");
        assert_eq!(since(1_000_000_000, 1_000_000_000), "+1 s");
        assert_eq!(since(123_456_000, 1_000), "+0.123456 s");
    }

    #[test]
    fn shapes_without_a_size_are_left_out() {
        assert_eq!(rect(1.04, 0.0, 2.5, 17.0), "M1 0h2.5v17h-2.5z");
        assert_eq!(rect(1.0, 0.0, 0.0, 17.0), "");
    }
}
