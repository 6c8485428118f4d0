// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `strace -c`: how often each call was made, how long all of its calls took, and how many failed.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use piste_syscalls::{Architecture, Syscall};

use crate::printer::{Event, Side, call_of};

/// By what the rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The longest time first.
    #[default]
    Time,
    /// The most calls first.
    Calls,
    /// The most errors first.
    Errors,
    /// By name.
    Name,
}

/// Counts calls.
#[derive(Debug, Default)]
pub struct Summary {
    rows: BTreeMap<String, Row>,
    /// By thread: the call that it is in, and since when.
    open: HashMap<i32, (String, i64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    ns: i64,
    calls: u64,
    errors: u64,
}

impl Summary {
    /// Counts what an event says.
    pub fn event(&mut self, event: &Event<'_>) {
        let Some((side, table, name)) = call_of(event.name) else {
            return;
        };
        let call: Option<&Syscall> = Architecture::HERE.by_name(table, name);
        let name = call.map_or(name, |call| call.program_name).to_owned();
        match side {
            Side::Entry => _ = self.open.insert(event.tid, (name, event.ns)),
            Side::Exit => {
                let begun = self.open.remove(&event.tid).filter(|(begun, _)| *begun == name);
                let row = self.rows.entry(name).or_default();
                row.calls += 1;
                row.ns += begun.map_or(0, |(_, begin_ns)| event.ns - begin_ns);
                let result = event.fields.integer("ret").unwrap_or(0);
                row.errors += u64::from((-4095..0).contains(&result));
            }
        }
    }

    /// The table.
    pub fn table(&self, order: Order) -> String {
        let mut rows: Vec<(&String, &Row)> = self.rows.iter().collect();
        match order {
            Order::Time => rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.ns)),
            Order::Calls => rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.calls)),
            Order::Errors => rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.errors)),
            Order::Name => {}
        }
        let total = rows.iter().fold(Row::default(), |sum, (_, row)| Row {
            ns: sum.ns + row.ns,
            calls: sum.calls + row.calls,
            errors: sum.errors + row.errors,
        });
        let rule = "------ ----------- ----------- --------- --------- ----------------\n";
        let mut text = String::from("% time     seconds  usecs/call     calls    errors syscall\n");
        text += rule;
        for (name, row) in rows {
            line(&mut text, row, total.ns, name);
        }
        text += rule;
        line(&mut text, &total, total.ns, "total");
        text
    }
}

fn line(text: &mut String, row: &Row, total_ns: i64, name: &str) {
    let percent = row.ns as f64 * 100.0 / total_ns.max(1) as f64;
    let per_call_us = row.ns / 1000 / row.calls.max(1).cast_signed();
    let errors = if row.errors == 0 {
        String::new()
    } else {
        row.errors.to_string()
    };
    // Writing to memory does not fail.
    let _ = writeln!(
        text,
        "{percent:>6.2} {:>4}.{:06} {per_call_us:>11} {:>9} {errors:>9} {name}",
        row.ns / 1_000_000_000,
        row.ns / 1000 % 1_000_000,
        row.calls,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{Fields, Value};

    #[test]
    fn calls_are_counted() {
        let mut summary = Summary::default();
        let calls = [
            ("close", 0, 0, 3_000),
            ("close", -9, 4_000, 5_000),
            ("read", 1, 6_000, 16_000),
        ];
        for (name, result, begin_ns, end_ns) in calls {
            let mut fields = Fields::default();
            fields.push("ret", Value::Integer(result));
            for (side, ns) in [("entry", begin_ns), ("exit", end_ns)] {
                let name = format!("syscall_{side}_{name}");
                let (tid, name, fields) = (1, name.as_str(), &fields);
                summary.event(&Event { ns, tid, name, fields });
            }
        }
        let expected = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 71.43    0.000010          10         1           read
 28.57    0.000004           2         2         1 close
------ ----------- ----------- --------- --------- ----------------
100.00    0.000014           4         3         1 total
";
        assert_eq!(summary.table(Order::Time), expected);
    }
}
