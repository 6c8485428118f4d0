// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text that fits into a width. Widths are what a terminal shows: an ideograph takes two characters.

use anstream::adapter::strip_str;
use textwrap::core::Word;
use textwrap::{WordSeparator, WordSplitter};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const ELLIPSIS: char = '…';

/// A text that is at most `width` wide, with an ellipsis for what is left out: the middle of a path, which says most at its ends, and
/// otherwise the end.
pub fn shortened(text: &str, width: usize) -> String {
    let is_path = text.contains('/') && !text.contains(char::is_whitespace);
    match is_path {
        _ if text.width() <= width => text.to_owned(),
        true => without_middle(text, width),
        false => start(text, width),
    }
}

/// The start of a text, at most `width` wide, with an ellipsis if there is more.
pub fn start(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else {
        return String::new();
    };
    let mut kept: String = within(text.chars(), room).collect();
    kept.truncate(kept.trim_end().len());
    kept.push(ELLIPSIS);
    kept
}

/// The end of a path says which file it is, so more of it is kept.
fn without_middle(text: &str, width: usize) -> String {
    let Some(room) = width.checked_sub(1) else {
        return String::new();
    };
    let last: Vec<char> = within(text.chars().rev(), room - room / 3).collect();
    let first = within(text.chars(), room / 3);
    first.chain([ELLIPSIS]).chain(last.into_iter().rev()).collect()
}

/// As many characters as `room` is wide.
fn within(chars: impl Iterator<Item = char>, room: usize) -> impl Iterator<Item = char> {
    let mut used = 0;
    chars.take_while(move |c| {
        used += c.width().unwrap_or(0);
        used <= room
    })
}

/// Narrows the widest columns until all together are at most `room` wide, but none below its floor. Columns that are narrower than their floor
/// stay as they are.
pub fn narrow(widths: &mut [usize], floors: &[usize], room: usize) {
    loop {
        let excess = widths.iter().sum::<usize>().saturating_sub(room);
        let can_give = |place: &usize| widths[*place] > floors[*place];
        let Some(widest) = (0..widths.len()).filter(can_give).max_by_key(|place| widths[*place]) else {
            return;
        };
        if excess == 0 {
            return;
        }
        // At once down to the next widest one, or as far as is needed.
        let next = (0..widths.len())
            .filter(|place| can_give(place) && widths[*place] < widths[widest])
            .map(|place| widths[place])
            .max();
        let target = next.unwrap_or(0).max(floors[widest]);
        let alike: Vec<usize> = (0..widths.len())
            .filter(|place| can_give(place) && widths[*place] == widths[widest])
            .collect();
        let share = excess.div_ceil(alike.len()).min(widths[widest] - target).max(1);
        widths[widest] -= share;
    }
}

/// What is said of columns that are left out: `not shown: PID, MIN and 3 more (--wide shows all)`, with as many names as there is room for.
pub fn not_shown(names: &[&str], room: Option<usize>) -> String {
    let sentence = |named: usize| {
        let more = match names.len() - named {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("not shown: {}{more} (--wide shows all)", names[..named].join(", "))
    };
    let fits = |named: &usize| room.is_none_or(|room| sentence(*named).width() <= room);
    sentence((1..=names.len()).rev().find(fits).unwrap_or(1))
}

/// Breaks lines that are wider than `columns` between words. What follows is indented: below the text of a line with a label
/// (`  found  a text`), else by two spaces. A command stays in one piece, so that it can be copied: in backticks, or after a label.
pub fn wrapped(text: &str, columns: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.split_at(line.trim_end_matches('\n').len());
        let seen = strip_str(line).to_string();
        let label = label_width(&seen);
        let is_command = label > 0 && seen[label..].starts_with("piste ");
        if is_command || seen.width() <= columns {
            wrapped += line;
        } else {
            let indent = " ".repeat(if label > 0 { label } else { 2 });
            let options = between_words(columns, WordSeparator::Custom(words));
            wrapped += &textwrap::fill(line, options.subsequent_indent(&indent));
        }
        wrapped += end;
    }
    wrapped
}

/// `lead` with `text` after it, broken between words into lines of at most `columns`; further lines begin below the start of `text`. Commands in
/// backticks stay in one piece, unless one of them is too long for a line.
pub fn hanging(lead: &str, text: &str, columns: usize) -> String {
    let indent = strip_str(lead).to_string().width();
    let room = columns.saturating_sub(indent);
    if text.width() <= room {
        return format!("{lead}{text}");
    }
    let separator = match words(text).all(|word| word.word.width() <= room) {
        true => WordSeparator::Custom(words),
        false => WordSeparator::AsciiSpace,
    };
    let indent = " ".repeat(indent);
    let options = between_words(columns, separator);
    textwrap::fill(text, options.initial_indent(lead).subsequent_indent(&indent))
}

/// Lines of at most `columns` that never break within a word.
fn between_words(columns: usize, separator: WordSeparator) -> textwrap::Options<'static> {
    textwrap::Options::new(columns)
        .break_words(false)
        .word_separator(separator)
        .word_splitter(WordSplitter::NoHyphenation)
}

/// Where the text of a line begins that has a label; else 0. Labels are of ASCII.
fn label_width(line: &str) -> usize {
    let Some(label) = line.strip_prefix("  ").filter(|label| !label.starts_with(' ')) else {
        return 0;
    };
    let Some(text) = label
        .find(' ')
        .and_then(|space| label[space..].find(|c| c != ' ').map(|text| space + text))
    else {
        return 0;
    };
    2 + text
}

/// The words of a line; what is in backticks is one.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let (mut begin, mut is_command) = (0, false);
    let mut ends = Vec::new();
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        if previous == ' ' && c != ' ' && at > 0 && !is_command {
            ends.push(at);
        }
        is_command ^= c == '`';
        previous = c;
    }
    ends.push(line.len());
    Box::new(
        ends.into_iter()
            .map(move |end| Word::from(&line[std::mem::replace(&mut begin, end)..end])),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_commands_stay_whole() {
        let text = "piste: events are missing, try `piste record -a` again\n  found  a file that is damaged\n  next   piste insights trace\n";
        let expected = "piste: events are\n  missing, try\n  `piste record -a`\n  again\n  found  a file that\n         is damaged\n  next   piste insights trace\n";
        assert_eq!(wrapped(text, 20), expected);
        assert_eq!(wrapped(text, 100), text);
        assert_eq!(
            wrapped("\x1b[1mpiste:\x1b[0m 0123456789 012", 18),
            "\x1b[1mpiste:\x1b[0m 0123456789\n  012"
        );
        assert_eq!(
            wrapped("averylongwordthatdoesnotfit and", 10),
            "averylongwordthatdoesnotfit\n  and"
        );
    }

    #[test]
    fn text_after_a_lead_continues_below_its_start() {
        let check = |lead, text, columns, expected| assert_eq!(hanging(lead, text, columns), expected);
        check("  fix: ", "restart pisted", 21, "  fix: restart pisted");
        check("  fix: ", "restart pisted", 20, "  fix: restart\n       pisted");
        check("\x1b[2mfix:\x1b[0m ", "日本 語", 9, "\x1b[2mfix:\x1b[0m 日本\n     語");
        // A command stays in one piece where that is possible; a word always does.
        check(
            "fix: ",
            "run `piste list` now",
            18,
            "fix: run\n     `piste list`\n     now",
        );
        check("fix: ", "run `piste list` now", 15, "fix: run `piste\n     list` now");
        check(
            "fix: ",
            "see /proc/config.gz now",
            12,
            "fix: see\n     /proc/config.gz\n     now",
        );
        check("fix: ", "", 4, "fix: ");
    }

    #[test]
    fn a_path_loses_its_middle_and_other_text_its_end() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("a longer text", 9), "a longer…");
        assert_eq!(shortened("a longer text", 10), "a longer…");
        assert_eq!(shortened("/usr/lib/x86_64-linux-gnu/libc.so.6", 16), "/usr/…/libc.so.6");
        assert_eq!(shortened("日本語の名前", 7), "日本語…");
        for text in ["a/b/c", "日本/語", "plain text"] {
            for width in 0..6 {
                assert!(shortened(text, width).width() <= width, "{text} {width}");
            }
        }
    }

    #[test]
    fn the_widest_columns_are_narrowed_and_none_below_its_floor() {
        let narrowed = |widths: &[usize], floors: &[usize], room| {
            let mut widths = widths.to_vec();
            narrow(&mut widths, floors, room);
            widths
        };
        assert_eq!(narrowed(&[10, 40, 5], &[1, 1, 1], 100), [10, 40, 5]);
        assert_eq!(narrowed(&[10, 40, 5], &[1, 1, 1], 40), [10, 25, 5]);
        assert_eq!(narrowed(&[30, 30, 5], &[1, 1, 1], 45), [20, 20, 5]);
        assert_eq!(narrowed(&[30, 40, 5], &[30, 6, 5], 20), [30, 6, 5]);
        assert_eq!(narrowed(&[3, 40], &[8, 8], 20), [3, 17]);
    }

    #[test]
    fn as_many_columns_are_named_as_there_is_room_for() {
        let said = |room| not_shown(&["PID", "MIN", "MEAN"], room);
        assert_eq!(said(None), "not shown: PID, MIN, MEAN (--wide shows all)");
        assert_eq!(said(Some(43)), "not shown: PID and 2 more (--wide shows all)");
        assert_eq!(said(Some(48)), "not shown: PID, MIN, MEAN (--wide shows all)");
    }
}
