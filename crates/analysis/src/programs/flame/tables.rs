// SPDX-License-Identifier: MIT OR Apache-2.0
//! What call paths are shown as: trees, and functions.

use rustc_hash::FxHashMap;

use crate::programs::paths::Paths;
use crate::report::{Column, Table, Unit, Value, column};

/// Rows of a tree, unless another number is asked for.
pub(super) const TREE_LIMIT: usize = 50;

const CALLS: Column = column("calls", "CALLS", Unit::Count);
const DEPTH: Column = column("depth", "DEPTH", Unit::Id).minor();
const SHARE: Column = column("share_percent", "SHARE %", Unit::Percent);
const FUNCTION: Column = column("function", "FUNCTION", Unit::Text).major();
const TOTAL_NS: Column = column("total_ns", "TOTAL", Unit::Nanoseconds);
const OWN_NS: Column = column("self_ns", "SELF", Unit::Nanoseconds);

/// What paths of a kind are shown as.
pub(super) struct Kind {
    pub(super) name: &'static str,
    title: &'static str,
    total: Column,
    own: Column,
    /// Absent where it would be the same once more.
    calls: Option<Column>,
}

pub(super) const KINDS: [Kind; 3] = [
    Kind {
        name: "calls",
        title: "Time by call path",
        total: TOTAL_NS,
        own: OWN_NS,
        calls: Some(CALLS),
    },
    Kind {
        name: "off_cpu",
        title: "Off-CPU time by call path",
        total: TOTAL_NS,
        own: OWN_NS,
        calls: Some(column("times", "TIMES", Unit::Count)),
    },
    Kind {
        name: "events",
        title: "Events by call path",
        total: column("total", "TOTAL", Unit::Count),
        own: column("self", "SELF", Unit::Count),
        calls: None,
    },
];

impl Kind {
    pub(super) fn tree(&self, paths: &Paths, least: Option<i64>, limit: usize) -> Table {
        let mut columns = vec![self.total.with_bar(), SHARE, self.own];
        columns.extend(self.calls);
        columns.extend([DEPTH, FUNCTION.as_tree(DEPTH.key)]);
        let mut table = Table::new(self.name, self.title, &columns);
        let all = paths.totals()[0];
        for line in paths.lines(least, limit) {
            let mut row = vec![
                Value::Number(line.total),
                Value::share(line.total, all),
                Value::Number(line.own),
            ];
            row.extend(self.calls.map(|_| line.calls.into()));
            row.extend([(line.depth as u64).into(), line.frame.into()]);
            table.row(row);
        }
        table
    }
}

pub(super) fn functions(paths: &Paths, lines: &FxHashMap<String, String>, limit: usize) -> Table {
    let columns = [
        OWN_NS.with_bar(),
        SHARE,
        TOTAL_NS,
        CALLS,
        FUNCTION,
        column("line", "LINE", Unit::Text),
    ];
    let mut table = Table::new("functions", "Functions", &columns);
    let all = paths.totals()[0];
    for line in paths
        .functions()
        .into_iter()
        .filter(|line| line.calls > 0 || line.own > 0)
        .take(limit)
    {
        table.row([
            Value::Number(line.own),
            Value::share(line.own, all),
            Value::Number(line.total),
            line.calls.into(),
            line.frame.into(),
            lines.get(line.frame).map_or(Value::None, |line| line.as_str().into()),
        ]);
    }
    table
}

/// What functions cost with all that they called, of a kind of paths.
pub(in crate::programs) fn by_function(name: &str, paths: &Paths) -> Table {
    let kind = KINDS.iter().find(|kind| kind.name == name).expect("all are there");
    let mut table = Table::new(kind.name, kind.title, &[kind.total, FUNCTION]);
    for line in paths.functions() {
        table.row([Value::Number(line.total), line.frame.into()]);
    }
    table
}
