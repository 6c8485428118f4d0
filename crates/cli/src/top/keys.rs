// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keys change: which interval is shown, how threads are sorted and filtered. No terminal here.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Flow;
use super::tables::Order;
use crate::arguments::Sort;

/// The keys and what they do, for the help.
pub(super) const HELP: [(&str, &str); 13] = [
    ("q, Ctrl-C", "quit"),
    ("p, Space", "session: pause, or follow again; trace: play, or stop"),
    ("← →", "previous or next interval"),
    ("Home, End", "first or last interval"),
    ("w", "trace: the whole trace"),
    ("< >", "sort threads by the column to the left or right"),
    (
        "c l x b",
        "sort by CPU share, wait for a CPU, longest wait, time blocked",
    ),
    ("s i o", "sort by system calls, bytes read, bytes written"),
    ("t n", "sort by thread ID, name"),
    ("r", "reverse the order"),
    (
        "/",
        "show only threads whose name contains a text; Enter accepts, Esc clears",
    ),
    ("↑ ↓ PgUp PgDn", "scroll the threads"),
    ("?", "close this help"),
];

/// From left to right, as `<` and `>` go through them.
const COLUMNS: [Sort; 9] = [
    Sort::Tid,
    Sort::Name,
    Sort::Cpu,
    Sort::Waited,
    Sort::Worst,
    Sort::Blocked,
    Sort::Calls,
    Sort::Read,
    Sort::Written,
];

/// How far `PgUp` and `PgDn` go.
const PAGE_ROWS: usize = 10;

/// Which interval is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// All of the trace.
    Whole,
    /// The latest, also when there is a later one.
    Latest,
    /// This one, counted from the first.
    At(usize),
}

/// Which intervals there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) first: usize,
    /// Behind the last one.
    pub(super) end: usize,
    pub(super) is_live: bool,
    /// All of the trace can be shown.
    pub(super) has_whole: bool,
}

/// What the person has chosen.
#[derive(Debug)]
pub(super) struct Controls {
    pub(super) place: Place,
    pub(super) order: Order,
    pub(super) filter: String,
    /// A filter is being typed.
    pub(super) is_typing: bool,
    pub(super) shows_help: bool,
    /// One interval after the other is shown.
    pub(super) is_playing: bool,
    /// Threads above the first one that is shown.
    pub(super) skipped: usize,
}

impl Controls {
    pub(super) fn new(sort: Sort) -> Controls {
        Controls {
            place: Place::Latest,
            order: Order {
                key: sort.key(),
                is_reversed: false,
            },
            filter: String::new(),
            is_typing: false,
            shows_help: false,
            is_playing: false,
            skipped: 0,
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent, bounds: Bounds) -> Flow {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Flow::Stop,
                _ => Flow::GoOn,
            };
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Flow::GoOn;
        }
        match key.code {
            KeyCode::Char('q') => return Flow::Stop,
            KeyCode::Char('?') => self.shows_help = !self.shows_help,
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('p' | ' ') if bounds.is_live => self.pause(bounds),
            KeyCode::Char('p' | ' ') => self.play(bounds),
            KeyCode::Left => self.step(bounds, false),
            KeyCode::Right => self.step(bounds, true),
            KeyCode::Home => self.go_to(bounds, bounds.first),
            KeyCode::End if bounds.is_live => self.place = Place::Latest,
            KeyCode::End => self.go_to(bounds, bounds.end.saturating_sub(1)),
            KeyCode::Char('w') if bounds.has_whole => (self.place, self.is_playing) = (Place::Whole, false),
            KeyCode::Char('<') => self.move_sort(false),
            KeyCode::Char('>') => self.move_sort(true),
            KeyCode::Char('r') => self.order.is_reversed = !self.order.is_reversed,
            KeyCode::Up => self.skipped = self.skipped.saturating_sub(1),
            KeyCode::Down => self.skipped += 1,
            KeyCode::PageUp => self.skipped = self.skipped.saturating_sub(PAGE_ROWS),
            KeyCode::PageDown => self.skipped += PAGE_ROWS,
            KeyCode::Char(letter) => self.sort_by_letter(letter),
            _ => {}
        }
        Flow::GoOn
    }

    /// Shows the next interval while intervals are played; stops at the last.
    pub(super) fn advance(&mut self, bounds: Bounds) {
        match self.place {
            Place::At(place) if place + 1 < bounds.end => self.place = Place::At(place + 1),
            _ => self.is_playing = false,
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.skipped = 0;
    }

    fn pause(&mut self, bounds: Bounds) {
        self.place = match self.place {
            Place::Latest if bounds.end > bounds.first => Place::At(bounds.end - 1),
            _ => Place::Latest,
        };
    }

    fn play(&mut self, bounds: Bounds) {
        self.is_playing = !self.is_playing;
        let is_at_end = self.place == Place::At(bounds.end.saturating_sub(1));
        if self.is_playing && (is_at_end || !matches!(self.place, Place::At(_))) {
            self.go_to(bounds, bounds.first);
            self.is_playing = true;
        }
    }

    fn step(&mut self, bounds: Bounds, is_forward: bool) {
        let last = bounds.end.saturating_sub(1);
        match (self.place, is_forward) {
            (Place::Whole, true) => self.go_to(bounds, bounds.first),
            (Place::Whole, false) => self.go_to(bounds, last),
            (Place::Latest, true) => {}
            (Place::Latest, false) => self.go_to(bounds, last.saturating_sub(1)),
            (Place::At(place), true) if place >= last && bounds.is_live => self.place = Place::Latest,
            (Place::At(place), true) => self.go_to(bounds, place + 1),
            (Place::At(place), false) => self.go_to(bounds, place.saturating_sub(1)),
        }
    }

    fn go_to(&mut self, bounds: Bounds, place: usize) {
        if bounds.end > bounds.first {
            self.place = Place::At(place.clamp(bounds.first, bounds.end - 1));
        }
        self.is_playing = false;
    }

    fn move_sort(&mut self, is_right: bool) {
        let place = COLUMNS.iter().position(|column| column.key() == self.order.key);
        let place = place.unwrap_or(0);
        let next = if is_right { place + 1 } else { place.wrapping_sub(1) };
        if let Some(column) = COLUMNS.get(next) {
            self.sort_by(*column);
        }
    }

    fn sort_by_letter(&mut self, letter: char) {
        let column = match letter {
            'c' => Sort::Cpu,
            'l' => Sort::Waited,
            'x' => Sort::Worst,
            'b' => Sort::Blocked,
            's' => Sort::Calls,
            'i' => Sort::Read,
            'o' => Sort::Written,
            't' => Sort::Tid,
            'n' => Sort::Name,
            _ => return,
        };
        self.sort_by(column);
    }

    fn sort_by(&mut self, column: Sort) {
        self.order = Order {
            key: column.key(),
            is_reversed: false,
        };
        self.skipped = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: Bounds = Bounds {
        first: 0,
        end: 3,
        is_live: false,
        has_whole: true,
    };
    const SESSION: Bounds = Bounds {
        first: 5,
        end: 9,
        is_live: true,
        has_whole: false,
    };

    fn press(controls: &mut Controls, bounds: Bounds, codes: &[KeyCode]) {
        for code in codes {
            assert_eq!(controls.key((*code).into(), bounds), Flow::GoOn, "{code}");
        }
    }

    #[test]
    fn arrows_go_through_a_trace_and_stop_at_its_ends() {
        let mut controls = Controls::new(Sort::Cpu);
        controls.place = Place::Whole;
        for (code, place) in [
            (KeyCode::Right, Place::At(0)),
            (KeyCode::Left, Place::At(0)),
            (KeyCode::Right, Place::At(1)),
            (KeyCode::End, Place::At(2)),
            (KeyCode::Right, Place::At(2)),
            (KeyCode::Char('w'), Place::Whole),
        ] {
            press(&mut controls, TRACE, &[code]);
            assert_eq!(controls.place, place, "{code}");
        }
    }

    #[test]
    fn a_trace_is_played_up_to_its_end() {
        let mut controls = Controls::new(Sort::Cpu);
        press(&mut controls, TRACE, &[KeyCode::Char(' ')]);
        assert_eq!((controls.place, controls.is_playing), (Place::At(0), true));
        (0..3).for_each(|_| controls.advance(TRACE));
        assert_eq!((controls.place, controls.is_playing), (Place::At(2), false));
    }

    #[test]
    fn a_session_is_paused_and_followed_again() {
        let mut controls = Controls::new(Sort::Cpu);
        for (code, place) in [
            (KeyCode::Char('p'), Place::At(8)),
            (KeyCode::Char('p'), Place::Latest),
            (KeyCode::Left, Place::At(7)),
            (KeyCode::Home, Place::At(5)),
            (KeyCode::Left, Place::At(5)),
            (KeyCode::End, Place::Latest),
        ] {
            press(&mut controls, SESSION, &[code]);
            assert_eq!(controls.place, place, "{code}");
        }
    }

    #[test]
    fn letters_are_text_while_a_filter_is_typed() {
        let mut controls = Controls::new(Sort::Cpu);
        let keys = ['/', 'q', 'r', 'x'].map(KeyCode::Char);
        press(&mut controls, TRACE, &keys);
        press(&mut controls, TRACE, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((&*controls.filter, controls.is_typing), ("qr", false));
        assert!(!controls.order.is_reversed);
        press(&mut controls, TRACE, &[KeyCode::Esc]);
        assert_eq!(controls.filter, "");
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(controls.key(interrupt, TRACE), Flow::Stop);
    }

    #[test]
    fn sorting_moves_between_columns() {
        let mut controls = Controls::new(Sort::Cpu);
        press(&mut controls, TRACE, &[KeyCode::Char('>'), KeyCode::Char('r')]);
        assert_eq!((controls.order.key, controls.order.is_reversed), ("waited_ns", true));
        press(&mut controls, TRACE, &[KeyCode::Char('t'), KeyCode::Char('<')]);
        assert_eq!((controls.order.key, controls.order.is_reversed), ("tid", false));
    }
}
