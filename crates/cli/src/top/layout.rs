// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is where on the screen: from the top, the time and losses, CPUs, threads, system calls and block devices, and keys.

use std::io::stdout;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstream::{AutoStream, ColorChoice};
use jiff::tz::TimeZone;
use piste_analysis::report::{Table, Value};
use piste_analysis::top::Interval;
use piste_terminal::fit::shortened;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::keys::{Bounds, Controls, HELP, Place};
use super::tables::{filter, lines, per_second, sort};
use super::{Progress, Scene};
use crate::analyze::tables::moment;
use crate::columns::bar;
use crate::quantity::{count, duration};
use crate::screen::printable;

/// From so many columns on, tables stand side by side.
const WIDE_COLUMNS: u16 = 110;
/// A CPU with its bar and its thread needs so many columns.
const CPU_COLUMNS: usize = 40;
const BAR_COLUMNS: usize = 14;
/// Rows of system calls and of devices, with the heading.
const LOWER_ROWS: u16 = 6;
/// Below so many rows, threads get all of them.
const ROWS_FOR_LOWER: u16 = 12;
/// An interval of a session is late if it ended so long ago.
const LATE: Duration = Duration::from_secs(5);
/// `09:41:07.123`
const TIME_CHARACTERS: usize = 12;

/// What is to be drawn.
pub(super) struct Picture<'p> {
    pub(super) name: &'p str,
    pub(super) controls: &'p Controls,
    pub(super) bounds: Bounds,
    /// Absent: nothing was recorded so far.
    pub(super) shown: Option<(&'p Interval, &'p Scene<'p>)>,
    pub(super) notes: &'p [String],
    pub(super) progress: Progress,
}

/// Draws it. How many threads were left out above the first one: no more than there are.
pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture<'_>) -> usize {
    let area = frame.area();
    let looks = Looks::of_terminal();
    if picture.controls.shows_help {
        help(frame, area, picture);
        return picture.controls.skipped;
    }
    let mut tables = Tables::of(picture);
    let width = usize::from(area.width);
    let head = head(picture, &looks, width);
    let cpus = cpus(&tables.cpus, &looks, width, usize::from(area.height / 4).max(2));
    let fixed = [head.len(), cpus.len(), 1].map(|rows| u16::try_from(rows).unwrap_or(u16::MAX));
    let left = area.height.saturating_sub(fixed.iter().sum());
    let lower = if left < ROWS_FOR_LOWER { 0 } else { LOWER_ROWS };
    let rows = [
        Constraint::Length(fixed[0]),
        Constraint::Length(fixed[1]),
        Constraint::Min(0),
        Constraint::Length(lower),
        Constraint::Length(fixed[2]),
    ];
    let [head_area, cpu_area, thread_area, lower_area, key_area] = Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(head), head_area);
    frame.render_widget(Paragraph::new(cpus), cpu_area);
    let room = usize::from(thread_area.height.saturating_sub(1));
    let skipped = picture
        .controls
        .skipped
        .min(tables.threads.rows.len().saturating_sub(room));
    let order = Some(picture.controls.order);
    let threads = lines(&tables.threads, order, (skipped, room), width);
    frame.render_widget(table(threads, "no thread did anything here", width), thread_area);
    draw_lower(frame, lower_area, &mut tables);
    frame.render_widget(
        Paragraph::new(foot(picture, &looks, tables.threads.rows.len())),
        key_area,
    );
    skipped
}

/// The tables of the interval that is shown.
struct Tables {
    cpus: Table,
    threads: Table,
    /// Absent: not recorded.
    syscalls: Option<Table>,
    /// The same.
    devices: Option<Table>,
}

impl Tables {
    fn of(picture: &Picture<'_>) -> Tables {
        let report = picture.shown.map(|(interval, scene)| {
            let mut report = interval.report(scene.system, scene.recorded);
            if picture.controls.place != Place::Whole {
                let duration_ns = interval.duration_ns();
                report
                    .tables
                    .iter_mut()
                    .for_each(|table| per_second(table, duration_ns));
            }
            report
        });
        let mut tables = report.map(|report| report.tables).unwrap_or_default();
        let mut take = |name: &str| {
            let place = tables.iter().position(|table| table.name == name)?;
            Some(tables.swap_remove(place))
        };
        let nothing = || Table::new("nothing", "", &[]);
        let mut tables = Tables {
            cpus: take("cpus").unwrap_or_else(nothing),
            threads: take("threads").unwrap_or_else(nothing),
            syscalls: take("syscalls"),
            devices: take("devices"),
        };
        filter(&mut tables.threads, &picture.controls.filter);
        sort(&mut tables.threads, picture.controls.order);
        tables
    }
}

/// Colours, where they are wanted.
struct Looks {
    bad: Style,
    good: Style,
    bar: Style,
}

impl Looks {
    fn of_terminal() -> Looks {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match AutoStream::choice(&stdout()) {
            ColorChoice::Never => Looks {
                bad: bold.add_modifier(Modifier::REVERSED),
                good: Style::new(),
                bar: Style::new(),
            },
            _ => Looks {
                bad: bold.fg(Color::Red),
                good: Style::new().fg(Color::Green),
                bar: Style::new().fg(Color::Green),
            },
        }
    }
}

/// The source, the time, what is lost, and the first note.
fn head<'l>(picture: &Picture<'_>, looks: &Looks, width: usize) -> Vec<Line<'l>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let Some((interval, scene)) = picture.shown else {
        return vec![
            Line::from(vec![
                Span::styled("piste top ", bold),
                Span::raw(shortened(picture.name, width.saturating_sub(10))),
            ]),
            Line::raw("waiting for the first interval"),
        ];
    };
    let zone = TimeZone::system();
    let time = |ns| moment(ns, &zone).chars().take(TIME_CHARACTERS).collect::<String>();
    let Bounds { first, end, .. } = picture.bounds;
    let place = match picture.controls.place {
        Place::Whole => "all".to_owned(),
        Place::At(place) => format!("{} of {}", place + 1 - first.min(place), end - first),
        Place::Latest => "latest".to_owned(),
    };
    let doing = match (picture.progress, picture.controls.place) {
        (Progress::CatchingUp, _) => ", reading",
        (Progress::Alone, _) => ", cannot reach pisted",
        (Progress::Over, _) if picture.bounds.is_live => ", session ended",
        (Progress::Over, _) if picture.controls.is_playing => ", playing",
        (Progress::Following, Place::At(_)) => ", paused",
        (Progress::Following, _) if is_behind(interval.end_ns) => ", late",
        _ => "",
    };
    let times = format!(
        "  {} to {} ({})  {place}{doing}",
        time(interval.begin_ns),
        time(interval.end_ns),
        duration(interval.duration_ns())
    );
    let name_width = width.saturating_sub(times.chars().count() + "piste top ".len());
    let lost_here = scene.losses.between(interval.begin_ns, interval.end_ns);
    let lost = scene.losses.all();
    let is_whole = picture.controls.place == Place::Whole;
    let (style, text) = match lost.is_nothing() {
        true => (looks.good, "none".to_owned()),
        false if is_whole => (looks.bad, lost.text()),
        false => (looks.bad, format!("{}; in all: {}", lost_here.text(), lost.text())),
    };
    let mut head = vec![
        Line::from(vec![
            Span::styled("piste top ", bold),
            Span::raw(shortened(picture.name, name_width.max(8))),
            Span::raw(times),
        ]),
        Line::from(vec![Span::raw("lost: "), Span::styled(text, style)]),
    ];
    if let Some(note) = picture.notes.first() {
        let more = match picture.notes.len() {
            1 => String::new(),
            notes => format!(" (? shows {} more)", notes - 1),
        };
        let room = width.saturating_sub(more.chars().count());
        let text = cut(&printable(note), room) + &more;
        head.push(Line::styled(text, Style::new().add_modifier(Modifier::DIM)));
    }
    head
}

/// The interval ended long ago: more is recorded than can be read meanwhile, or nothing happens.
fn is_behind(end_ns: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = Duration::from_nanos(end_ns.max(0).cast_unsigned());
    now.saturating_sub(end) > LATE
}

/// The CPUs, beside each other where one column has too little room.
fn cpus<'l>(table: &Table, looks: &Looks, width: usize, rows_max: usize) -> Vec<Line<'l>> {
    let count = table.rows.len();
    let across = count.div_ceil(rows_max).clamp(1, (width / CPU_COLUMNS).max(1));
    let rows = count.div_ceil(across).min(rows_max);
    let cell_width = width / across;
    let mut drawn: Vec<Line<'_>> = (0..rows)
        .map(|row| {
            let places = (0..across).map(|column| column * rows + row);
            let cells = places.filter_map(|place| table.rows.get(place));
            Line::from(
                cells
                    .flat_map(|cells| cpu(cells, looks, cell_width))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let hidden = count.saturating_sub(rows * across);
    if hidden > 0 {
        drawn.push(Line::raw(format!("{hidden} more CPUs: `piste top -n 1` lists all")));
    }
    drawn
}

/// `  0 ███████▌       52.1%  cc1 (4711)`
fn cpu<'l>(cells: &[Value], looks: &Looks, width: usize) -> Vec<Span<'l>> {
    let number = match &cells[0] {
        Value::Number(number) => *number,
        _ => 0,
    };
    let (drawn, percent) = match &cells[1] {
        Value::Percent(percent) => (bar(percent / 100.0, BAR_COLUMNS), format!("{percent:>5.1}%")),
        _ => (String::new(), "     ?".to_owned()),
    };
    let current = match cells.last() {
        Some(Value::Text(text)) => printable(text).into_owned(),
        _ => "unknown".to_owned(),
    };
    let room = width.saturating_sub(BAR_COLUMNS + 14);
    let current = shortened(&current, room);
    let padding = room.saturating_sub(current.chars().count());
    vec![
        Span::raw(format!("{number:>3} ")),
        Span::styled(format!("{drawn:<BAR_COLUMNS$}"), looks.bar),
        Span::raw(format!(" {percent}  {current}{}", " ".repeat(padding + 1))),
    ]
}

/// System calls and block devices.
fn draw_lower(frame: &mut Frame<'_>, area: Rect, tables: &mut Tables) {
    if area.height == 0 {
        return;
    }
    let has_devices = tables.devices.as_ref().is_some_and(|devices| !devices.rows.is_empty());
    let halves = match (area.width >= WIDE_COLUMNS, has_devices) {
        (true, _) => Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(area),
        (false, true) => Layout::vertical([Constraint::Min(0), Constraint::Length(2)]).areas(area),
        (false, false) => [area, Rect::default()],
    };
    tables.devices.iter_mut().for_each(sort_devices);
    let parts = [
        (
            &tables.syscalls,
            halves[0],
            "no system call ended here",
            "system calls were not recorded",
        ),
        (
            &tables.devices,
            halves[1],
            "no request to a block device ended here",
            "requests to block devices were not recorded",
        ),
    ];
    for (shown, area, none, unknown) in parts {
        let width = usize::from(area.width.saturating_sub(1));
        let room = usize::from(area.height.saturating_sub(1));
        let shown = match shown {
            Some(shown) => table(lines(shown, None, (0, room), width), none, width),
            None => table(Vec::new(), unknown, width),
        };
        frame.render_widget(shown, area);
    }
}

/// The one with the most requests first: there may be room for no other.
fn sort_devices(table: &mut Table) {
    let order = super::tables::Order {
        key: "requests",
        is_reversed: false,
    };
    sort(table, order);
}

/// Lines of a table, the heading apart from the rest; `none` where it has no rows.
fn table<'l>(lines: Vec<String>, none: &str, width: usize) -> Paragraph<'l> {
    let heading = Style::new().add_modifier(Modifier::REVERSED);
    let mut lines = lines.into_iter();
    let Some(first) = lines.next() else {
        return Paragraph::new(Line::styled(none.to_owned(), Style::new().add_modifier(Modifier::DIM)));
    };
    let mut shown = vec![Line::styled(format!("{first:<width$}"), heading)];
    shown.extend(lines.map(Line::raw));
    Paragraph::new(shown)
}

/// The filter while it is typed, or the most important keys.
fn foot<'l>(picture: &Picture<'_>, looks: &Looks, threads: usize) -> Line<'l> {
    let Controls { filter, is_typing, .. } = picture.controls;
    let filter = printable(filter).into_owned();
    if *is_typing {
        return Line::from(vec![
            Span::raw(format!("name contains: {filter}")),
            Span::styled("█", looks.bar),
        ]);
    }
    let play = if picture.bounds.is_live {
        "p pause"
    } else {
        "space play"
    };
    let threads = count(i64::try_from(threads).unwrap_or(i64::MAX));
    let chosen = match filter.is_empty() {
        true => format!("{threads} threads"),
        false => format!("{threads} threads with \"{filter}\""),
    };
    let text = format!("{chosen}   q quit  ? help  {play}  ←→ interval  <> sort  / filter  r reverse");
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

fn help(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut shown = vec![Line::styled("Keys", bold)];
    shown.extend(HELP.map(|(keys, does)| Line::raw(format!("  {keys:<15}{does}"))));
    if !picture.notes.is_empty() {
        shown.extend([Line::raw(""), Line::styled("What is unknown here", bold)]);
        shown.extend(
            picture
                .notes
                .iter()
                .map(|note| Line::raw(format!("  {}", printable(note)))),
        );
    }
    let wrap = ratatui::widgets::Wrap { trim: false };
    frame.render_widget(Paragraph::new(shown).wrap(wrap), area);
}

/// The beginning of a sentence that is too long.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() <= width {
        true => text.to_owned(),
        false => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}
