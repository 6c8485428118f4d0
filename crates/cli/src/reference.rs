// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/reference/cli.md says of options what the command line has: which there are, their values and their defaults.
//!
//! A table of options has them in its first column: `` `--color auto` (default), `always`, `never` ``. Where that has a placeholder for the
//! values, in capitals, they are in the second column. `(default)` stands behind the value that clap takes when none is given.

use std::collections::BTreeSet;

use clap::{Arg, Command, CommandFactory, ValueEnum};
use piste_control::level::LEVELS;

use crate::arguments::Arguments;
use crate::{preload, preset};

const PAGE: &str = include_str!("../../../docs/reference/cli.md");

/// The heading above a table of options, the table's first cell, and the commands that have them.
const TABLES: [(&str, &str, &[&str]); 9] = [
    ("Reading traces", "option", &["view", "stats", "trim", "export"]),
    ("Reading traces", "option of `view`", &["view"]),
    ("Channel options", "option", &["enable-channel"]),
    ("Kernel events", "option", &["enable-event"]),
    ("`piste record`", "option", &["record"]),
    ("`piste strace`", "option", &["strace"]),
    ("`piste top`", "option", &["top"]),
    ("`piste latency`", "option", &["latency"]),
    ("`piste bench`", "option", &["bench"]),
];

/// What has its values elsewhere: in the line of the command, and in docs/reference/query.md.
const ELSEWHERE: [&str; 2] = ["export --format", "query --format"];

#[test]
fn options_have_the_values_and_defaults_that_the_tables_list() {
    let mut command = Arguments::command();
    command.build();
    let mut compared = BTreeSet::new();
    for (heading, first, names) in TABLES {
        let rows = table(heading, first);
        assert!(!rows.is_empty(), "no table of {first} under {heading}");
        for (row, name) in rows.iter().flat_map(|row| names.iter().map(move |name| (row, name))) {
            for option in options(&row[0]) {
                let argument = argument(&command, &[*name], &option.name);
                if argument.get_possible_values().is_empty() {
                    continue;
                }
                let listed = match option.values.is_empty() {
                    true => spans(&row[1]).flat_map(|(span, _)| values(span)).collect(),
                    false => option.values,
                };
                let what = format!("{name} --{}", argument.get_long().unwrap_or_default());
                assert_eq!(set(listed), possible(argument), "values of {what}");
                assert_eq!(option.defaults, defaults(argument), "defaults of {what}");
                compared.insert(what);
            }
        }
    }
    let mut all = BTreeSet::new();
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let with_values = command.get_arguments();
        let with_values = with_values.filter(|argument| !argument.get_possible_values().is_empty());
        let names = with_values.filter_map(Arg::get_long);
        all.extend(names.map(|name| format!("{} --{name}", command.get_name())));
    }
    all.retain(|what| !ELSEWHERE.contains(&what.as_str()));
    assert_eq!(
        compared, all,
        "options whose values the tables list, and those that have values"
    );
}

#[test]
fn commands_have_the_options_and_values_of_their_lines() {
    let mut command = Arguments::command();
    command.build();
    let rows = table("The `piste` command", "command");
    let mut compared = BTreeSet::new();
    for (line, _) in rows.iter().flat_map(|row| spans(&row[0])) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut within = &command;
        let mut path = Vec::new();
        for word in &words {
            let Some(subcommand) = within.find_subcommand(word) else {
                break;
            };
            within = subcommand;
            path.push(*word);
        }
        let words: Vec<&str> = words.iter().map(|word| word.trim_matches(['[', ']'])).collect();
        for (place, word) in words.iter().enumerate() {
            if !word.starts_with('-') || *word == "--" {
                continue;
            }
            let argument = argument(&command, &path, word);
            let listed = words.get(place + 1).map(|next| values(next)).unwrap_or_default();
            if !listed.is_empty() && !argument.get_possible_values().is_empty() {
                assert_eq!(set(listed), possible(argument), "values of {word} in `{line}`");
                compared.insert(format!("{} {word}", path.join(" ")));
            }
        }
    }
    assert_eq!(compared, set(["export --format", "view --format"].map(str::to_owned)));

    let shells = rows
        .iter()
        .find(|row| row[0] == "`completions SHELL`")
        .expect("its row");
    let words: BTreeSet<&str> = shells[1].split([' ', ',', '.']).collect();
    for shell in clap_complete::Shell::value_variants() {
        let shell = shell.to_string();
        assert!(words.contains(&*shell), "{shell}: {}", shells[1]);
    }
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    let lines: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| spans(&row[0]))
        .filter_map(|(line, _)| line.split_whitespace().next())
        .collect();
    assert_eq!(lines, visible.map(Command::get_name).collect());
}

/// These have no definition of clap's: pisted decides, and the help says so.
#[test]
fn the_defaults_of_channels_are_those_that_the_help_says() {
    let mut command = Arguments::command();
    command.build();
    let mut sizes = 0;
    for row in table("Channel options", "option") {
        for option in options(&row[0]) {
            let help = help(argument(&command, &["enable-channel"], &option.name));
            let default = help.split_once("[default: ").map_or("", |(_, default)| default);
            assert_eq!(numbers(&row[2]), numbers(default), "{}: {help}", option.name);
            sizes += numbers(default).len();
            let is_said = help.contains("default)");
            assert_eq!(row[2] == "yes", is_said, "{}: {help}", option.name);
        }
    }
    assert_eq!(sizes, 4, "sizes and numbers of sub-buffers");
}

#[test]
fn what_else_is_listed_is_what_there_is() {
    let mut command = Arguments::command();
    command.build();
    let record = |option: &str| help(argument(&command, &["record"], option));

    let helpers = table("`piste record`", "helper");
    let helpers = helpers.iter().flat_map(|row| spans(&row[0]));
    let helpers: Vec<&str> = helpers.map(|(span, _)| span).collect();
    assert_eq!(helpers, preload::HELPERS);
    let help = record("--preload");
    assert!(preload::HELPERS.iter().all(|helper| help.contains(helper)), "{help}");

    let default = preset::DEFAULT.join(",");
    let presets = table("`piste record`", "option");
    let presets = presets
        .iter()
        .find(|row| row[0].starts_with("`--preset "))
        .expect("its row");
    assert!(
        presets[1].contains(&format!("the default is `{default}`")),
        "{}",
        presets[1]
    );
    assert!(record("--preset").contains(&default));

    let levels = PAGE
        .split("\n\n")
        .find(|part| part.starts_with("The levels, "))
        .expect("a paragraph");
    let listed = spans(levels)
        .map(|(span, _)| span)
        .filter(|span| !span.starts_with('-'));
    let listed: Vec<&str> = listed.collect();
    assert_eq!(listed, LEVELS.map(|(_, name)| name));
}

/// An option that a cell lists.
struct Listed {
    /// With its dashes.
    name: String,
    values: Vec<String>,
    defaults: Vec<String>,
}

/// The options of a cell, with the values behind each.
fn options(cell: &str) -> Vec<Listed> {
    let mut options: Vec<Listed> = Vec::new();
    for (span, behind) in spans(cell) {
        let mut listed = span;
        if span.starts_with('-') {
            let (name, rest) = span.split_once(' ').unwrap_or((span, ""));
            listed = rest;
            options.push(Listed {
                name: name.to_owned(),
                values: Vec::new(),
                defaults: Vec::new(),
            });
        }
        let option = options.last_mut().unwrap_or_else(|| panic!("no option in {cell}"));
        option.values.extend(values(listed));
        if behind.starts_with(" (default)") {
            option.defaults.extend(values(listed));
        }
    }
    options
}

/// `text|ndjson` or `SIGUSR1,exit`; none in an option's name or where a placeholder stands: `NAME`, `C,...`.
fn values(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split([',', '|', ' ']).filter(|word| !word.is_empty()).collect();
    let is_placeholder = |word: &&str| !word.contains(|c: char| c.is_ascii_lowercase());
    if text.starts_with('-') || text.contains("...") || words.iter().all(is_placeholder) {
        return Vec::new();
    }
    words.into_iter().map(str::to_owned).collect()
}

/// What stands in backticks, and what follows up to the next.
fn spans(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pieces: Vec<&str> = text.split('`').collect();
    let count = pieces.len() / 2;
    (0..count).map(move |index| (pieces[2 * index + 1], pieces[2 * index + 2]))
}

/// The rows of a table below its head, cell by cell.
fn table(heading: &str, first: &str) -> Vec<Vec<String>> {
    let is_heading = |line: &&str| line.trim_start_matches('#').trim() == heading && line.starts_with('#');
    let section = PAGE.lines().skip_while(|line| !is_heading(line)).skip(1);
    let section = section.take_while(|line| !line.starts_with('#'));
    let head = format!("| {first} |");
    let rows = section.skip_while(|line| !line.starts_with(&head)).skip(2);
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

fn cells(row: &str) -> Vec<String> {
    // A bar in a cell has a backslash before it.
    let row = row.replace("\\|", "\0");
    let cells = row.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().replace('\0', "|")).collect()
}

fn argument<'c>(command: &'c Command, path: &[&str], name: &str) -> &'c Arg {
    let of_path = path
        .iter()
        .try_fold(command, |command, name| command.find_subcommand(name));
    let command = of_path.unwrap_or_else(|| panic!("there is no command {path:?}"));
    let has_name = |argument: &&Arg| match name.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| name == format!("-{short}")),
    };
    let mut arguments = command.get_arguments();
    arguments
        .find(has_name)
        .unwrap_or_else(|| panic!("{path:?} has no option {name}"))
}

fn possible(argument: &Arg) -> BTreeSet<String> {
    let values = argument.get_possible_values();
    values.iter().map(|value| value.get_name().to_owned()).collect()
}

fn defaults(argument: &Arg) -> Vec<String> {
    let values = argument.get_default_values().iter();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

fn help(argument: &Arg) -> String {
    argument.get_help().map(ToString::to_string).unwrap_or_default()
}

/// The words of a text that begin with a digit.
fn numbers(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

fn set(words: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    words.into_iter().collect()
}
