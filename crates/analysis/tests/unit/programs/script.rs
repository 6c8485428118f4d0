// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs for tests, as text: lines `TIME THREAD WHAT ...` of a process with the number 7. Numbers are hexadecimal, but times.

use super::code::{Code, File, Resolve};
use super::images::Images;
use super::{Description, Event, Outcome};
use crate::analysis::Options;
use crate::facts::{Caller, Left, ProgramFact, Switch};
use crate::process_gaps::Lost;
use crate::report::{Table, Value};

/// Names code after where it lies, in pieces of 16 bytes: `shop:2` is what lies there from 0x20 to 0x2f.
struct Pieces;

impl Resolve for Pieces {
    fn in_file(&mut self, file: &File, offset: u64) -> Option<Code> {
        Some(Code {
            function: format!("{}:{:x}", file.path, offset / 16),
            line: String::new(),
        })
    }

    fn function_at(&mut self, _: &File, offset: u64) -> Option<u64> {
        Some(offset / 16 * 16)
    }

    fn in_kernel(&mut self, address: u64) -> Option<String> {
        Some(format!("kernel:{:x}", address / 16))
    }
}

/// What an analysis finds out of `malloc ADDRESS BYTES [CALLER]`, `realloc FROM ADDRESS BYTES [CALLER]`, `free ADDRESS`, `enter FUNCTION [CALL_SITE]`,
/// `leave [FUNCTION]`, `switch PREVIOUS NEXT FRAMES...`, `die` likewise, `event NAME FRAMES...`. `lost END PROCESS` is not an event: some are missing up to
/// `END` (both numbers decimal), of the kernel and all processes when it is `-`. Threads from 100 on are of process 8, of which nothing tells what is
/// loaded. Of the time up to `from_ns` nothing is meant.
pub(super) fn run(description: &Description, options: &Options, from_ns: i64, lines: &str) -> Result<Outcome, String> {
    let mut analysis = (description.begin)(options);
    let mut images = Images::default();
    let loaded = ProgramFact::Loaded {
        base: 0x1000,
        bytes: 0x1000,
        path: b"shop",
    };
    for fact in [ProgramFact::DumpBegin, ProgramFact::Named { name: b"shop" }, loaded] {
        images.apply(Some(7), &fact);
    }
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        let ns = words[0].parse().expect("a time");
        if words[2] == "lost" {
            analysis.lose(&Lost {
                classes: match words[4] {
                    "-" => &["sched_switch"],
                    _ => &["lttng_ust_cyg_profile:func_entry", "lttng_ust_libc:free"],
                },
                pid: words[4].parse().ok(),
                begin_ns: ns,
                end_ns: words[3].parse().expect("a time"),
            });
            continue;
        }
        let number = |word: &str| u64::from_str_radix(word, 16).unwrap_or_else(|_| panic!("{line}"));
        let numbers: Vec<u64> = match words[2] {
            "event" => words[4..].iter().map(|word| number(word)).collect(),
            _ => words[3..].iter().map(|word| number(word)).collect(),
        };
        let (values, address) = match words[2] {
            "malloc" => (2, numbers.get(2)),
            "realloc" => (3, numbers.get(3)),
            "switch" | "die" => (2, None),
            "event" => (0, None),
            "enter" | "leave" => (numbers.len(), None),
            _ => (1, None),
        };
        // Of the program are low addresses, of the kernel high ones; the innermost frame is first.
        let (kernel, user): (Vec<u64>, Vec<u64>) = numbers[values..].iter().partition(|frame| **frame >= 0x8000);
        let tid: Option<i64> = words[1].parse().ok();
        let pid = Some(if tid >= Some(100) { 8 } else { 7 });
        let event = Event {
            name: words.get(3).copied().unwrap_or_default(),
            ns,
            pid,
            tid,
            comm: b"thread",
            image: images.current(pid),
            caller: Some(Caller {
                address: address.copied(),
                kernel: &kernel,
                user: &user,
            }),
            is_meant: ns >= from_ns,
            asked_from_ns: from_ns,
        };
        let fact = match words[2] {
            "malloc" => ProgramFact::Allocated {
                address: numbers[0],
                bytes: numbers[1],
            },
            "realloc" => ProgramFact::Reallocated {
                from: numbers[0],
                address: numbers[1],
                bytes: numbers[2],
            },
            "free" => ProgramFact::Freed { address: numbers[0] },
            "enter" => ProgramFact::Entered {
                function: numbers[0],
                call_site: numbers.get(1).copied(),
            },
            "leave" => ProgramFact::Left {
                function: numbers.first().copied(),
            },
            "switch" | "die" => {
                let switch = Switch {
                    previous_tid: numbers[0] as i32,
                    previous_name: event.comm,
                    previous: match words[2] {
                        "die" => Left::Dead,
                        _ => Left::Waiting,
                    },
                    previous_priority: None,
                    next_tid: numbers[1] as i32,
                    next_name: b"",
                    next_priority: 20,
                };
                analysis.switch(&switch, &event, &images);
                continue;
            }
            _ => {
                analysis.called(&event, &images);
                continue;
            }
        };
        analysis.fact(&fact, &event, &images, &mut Pieces);
    }
    analysis.report(&images, &mut Pieces)
}

/// The values of some columns of each row, with spaces between.
pub(super) fn shown(table: &Table, keys: &[&str]) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::None => "-".to_owned(),
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Percent(percent) => format!("{percent:.1}"),
        Value::Durations(_) => value.csv(),
    };
    let place = |key: &&str| {
        table
            .columns
            .iter()
            .position(|column| column.key == *key)
            .expect("a column")
    };
    let row = |row: &Vec<Value>| {
        keys.iter()
            .map(|key| table.indent(row, place(key)) + &text(&row[place(key)]))
            .collect::<Vec<_>>()
            .join(" ")
    };
    table.rows.iter().map(row).collect()
}

/// The table with that name.
pub(super) fn table<'o>(outcome: &'o Outcome, name: &str) -> &'o Table {
    let mut tables = outcome.report.tables.iter();
    tables
        .find(|table| table.name == name)
        .unwrap_or_else(|| panic!("{name}"))
}
