// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of system calls: `data/x86_64.tsv` and `data/i386.tsv`, `data/arm64.tsv` and `data/arm.tsv`, `data/riscv64.tsv`. Other processors
//! have other numbers, which no table here knows.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::{Architecture, Syscall, Table, argument, pointees};

/// A table with the ways to look into it. An index behind the last call stands for none.
pub(crate) struct Calls {
    pub(crate) all: Vec<Syscall>,
    pub(crate) by_number: Vec<u16>,
    pub(crate) by_name: HashMap<&'static str, u16>,
}

/// A table's text, and how it is read.
struct Source {
    text: &'static str,
    table: Table,
    /// Tables with the arguments of the calls that have none in `text`. The first one that has the call decides.
    others: &'static [&'static str],
    /// Nothing is between the members of `struct epoll_event`.
    packs_epoll_events: bool,
}

const X86_64: Source = Source {
    text: include_str!("../data/x86_64.tsv"),
    table: Table::Native,
    others: &[],
    packs_epoll_events: true,
};
const I386: Source = Source {
    text: include_str!("../data/i386.tsv"),
    table: Table::Compat,
    ..X86_64
};
const ARM64: Source = Source {
    text: include_str!("../data/arm64.tsv"),
    table: Table::Native,
    others: &[X86_64.text],
    packs_epoll_events: false,
};
const ARM: Source = Source {
    text: include_str!("../data/arm.tsv"),
    table: Table::Compat,
    others: &[I386.text, X86_64.text],
    packs_epoll_events: false,
};
const RISCV64: Source = Source {
    text: include_str!("../data/riscv64.tsv"),
    ..ARM64
};

/// A table of an architecture; `None` if there is none here.
pub(crate) fn calls(architecture: Architecture, table: Table) -> Option<&'static LazyLock<Calls>> {
    static OF_X86_64: LazyLock<Calls> = LazyLock::new(|| Calls::of(&X86_64));
    static OF_I386: LazyLock<Calls> = LazyLock::new(|| Calls::of(&I386));
    static OF_ARM64: LazyLock<Calls> = LazyLock::new(|| Calls::of(&ARM64));
    static OF_ARM: LazyLock<Calls> = LazyLock::new(|| Calls::of(&ARM));
    static OF_RISCV64: LazyLock<Calls> = LazyLock::new(|| Calls::of(&RISCV64));
    match (architecture.name(), table) {
        ("x86_64", Table::Native) => Some(&OF_X86_64),
        ("x86_64", Table::Compat) => Some(&OF_I386),
        ("aarch64", Table::Native) => Some(&OF_ARM64),
        ("aarch64", Table::Compat) => Some(&OF_ARM),
        ("riscv64", Table::Native) => Some(&OF_RISCV64),
        _ => None,
    }
}

impl Calls {
    fn of(source: &Source) -> Calls {
        let stated: HashMap<_, _> = source.others.iter().rev().flat_map(|text| stated(text)).collect();
        let all: Vec<Syscall> = lines(source.text)
            .map(|line| {
                syscall(line, source, &stated).expect("a line of a table has a number, two names and arguments")
            })
            .collect();
        let number_count = all.last().map_or(0, |last| last.number as usize + 1);
        let mut by_number = vec![u16::MAX; number_count];
        let mut by_name = HashMap::new();
        for (index, call) in all.iter().enumerate() {
            by_number[call.number as usize] = index as u16;
            by_name.entry(call.program_name).or_insert(index as u16);
        }
        // Where one call is called what another is, the kernel's name decides.
        by_name.extend(all.iter().enumerate().map(|(index, call)| (call.name, index as u16)));
        Calls {
            all,
            by_number,
            by_name,
        }
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// The arguments in a table, by the names of calls.
fn stated(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(text).filter_map(|line| {
        let mut columns = line.split('\t').skip(1);
        Some((columns.next()?, columns.nth(1)?))
    })
}

fn syscall(line: &'static str, source: &Source, stated: &HashMap<&str, &'static str>) -> Option<Syscall> {
    let mut columns = line.split('\t');
    let number = columns.next()?.parse().ok()?;
    let [name, program_name] = [columns.next()?, columns.next()?];
    let arguments = columns.next().or_else(|| stated.get(name).copied())?;
    let arguments = arguments.split(", ").filter(|text| !text.is_empty());
    let arguments = arguments
        .map(|text| argument(text, source.table))
        .collect::<Option<Vec<_>>>()?;
    let names: Vec<&str> = arguments.iter().map(|argument| argument.name).collect();
    Some(Syscall {
        name,
        program_name,
        number,
        pointees: pointees::of(program_name, &names, source.packs_epoll_events),
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Count, Pointee, What};

    const X86_64: Architecture = Architecture::named("x86_64");
    const ARM64: Architecture = Architecture::named("aarch64");
    const RISCV64: Architecture = Architecture::named("riscv64");
    const TABLES: [(Architecture, Table); 5] = [
        (X86_64, Table::Native),
        (X86_64, Table::Compat),
        (ARM64, Table::Native),
        (ARM64, Table::Compat),
        (RISCV64, Table::Native),
    ];

    #[test]
    fn tables_are_in_order_and_no_call_has_more_arguments_than_there_are_words() {
        for (architecture, table) in TABLES {
            let calls: Vec<_> = architecture.all(table).collect();
            assert!(calls.len() > 320, "{} calls", calls.len());
            assert!(calls.is_sorted_by(|a, b| a.number < b.number));
            assert!(calls.iter().all(|call| call.arguments.len() <= 6));
        }
    }

    /// Since Linux 5.1, new calls have one number everywhere.
    #[test]
    fn new_calls_have_the_same_numbers_and_arguments_everywhere() {
        for (architecture, table) in TABLES {
            for call in architecture.all(table).filter(|call| call.number >= 424) {
                let known = X86_64
                    .by_number(Table::Native, call.number)
                    .map(|known| (known.name, names(known)));
                assert_eq!(known, Some((call.name, names(call))), "{architecture:?} {table:?}");
            }
            // memfd_secret is not everywhere.
            let count = architecture.all(table).filter(|call| call.number >= 424).count();
            assert!(count >= 45, "{architecture:?} {table:?}: {count}");
        }
    }

    #[test]
    fn arguments_of_64_bit_programs_are_the_same_everywhere() {
        for (architecture, own) in [
            (ARM64, &["clone"][..]),
            (RISCV64, &["clone", "riscv_hwprobe", "riscv_flush_icache"]),
        ] {
            let known = |call: &Syscall| {
                let known = X86_64.by_name(Table::Native, call.program_name);
                known.is_some_and(|known| names(known) == names(call))
            };
            let others = architecture.all(Table::Native).filter(|call| !known(call));
            assert_eq!(others.map(|call| call.name).collect::<Vec<_>>(), own);
        }
    }

    /// Arguments are pointers to the same, by whatever number the call is known.
    #[test]
    fn arguments_point_to_the_same_everywhere() {
        /// `openat: filename`, and what it points to; what counts it is named, too.
        fn pointees(call: &Syscall) -> BTreeMap<&str, String> {
            let said = |pointee: &Pointee| {
                let count = match pointee.count {
                    Count::One => "one".to_owned(),
                    Count::Argument(index) | Count::AtArgument(index) => call.arguments[index].name.to_owned(),
                };
                let what = match pointee.what {
                    What::EpollEvent { .. } => "events".to_owned(),
                    what => format!("{what:?}"),
                };
                let name = call.arguments[pointee.argument].name;
                (
                    name,
                    format!("{what} {count} {} {}", pointee.is_input, pointee.is_output),
                )
            };
            call.pointees.iter().map(said).collect()
        }
        let mut compared = 0;
        for (architecture, table) in TABLES {
            for call in architecture.all(table) {
                let known = [table, Table::Native].into_iter();
                let known = known
                    .filter_map(|table| X86_64.by_name(table, call.program_name))
                    .next();
                if let Some(known) = known {
                    assert_eq!(
                        pointees(call),
                        pointees(known),
                        "{architecture:?} {table:?} {}",
                        call.name
                    );
                    compared += usize::from(!call.pointees.is_empty());
                }
            }
        }
        assert!(compared > 600, "{compared}");
        let received = ARM64.by_name(Table::Compat, "recv").expect("32-bit programs have it");
        assert_eq!(
            pointees(received),
            [("ubuf", "Bytes size false true".to_owned())].into()
        );
    }

    #[test]
    fn events_of_epoll_are_packed_on_x86_only() {
        for (architecture, table) in TABLES {
            let call = architecture.by_name(table, "epoll_ctl").expect("it is everywhere");
            let is_packed = architecture == X86_64;
            assert_eq!(call.pointees[0].what, What::EpollEvent { is_packed });
        }
    }

    /// What is 64 bits long is in two registers, the first of which has an even number. `preadv` and its like have two arguments instead.
    #[test]
    fn halves_of_arguments_of_32_bit_arm_programs_begin_at_even_words() {
        let mut count = 0;
        for call in ARM64.all(Table::Compat) {
            let low = call
                .arguments
                .iter()
                .position(|argument| argument.name.ends_with("_low"));
            let has_own = call.name.starts_with("preadv") || call.name.starts_with("pwritev") || call.name == "_llseek";
            if let (Some(low), false) = (low, has_own) {
                assert_eq!(low % 2, 0, "{}", call.name);
                count += 1;
            }
        }
        assert_eq!(count, 10);
    }

    fn names(call: &Syscall) -> Vec<&str> {
        call.arguments.iter().map(|argument| argument.name).collect()
    }
}
