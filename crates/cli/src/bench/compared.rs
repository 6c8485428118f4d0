// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two results beside each other: `piste bench compare`, as text and as JSON (`bench_comparison` in docs/reference/schemas.json).

use piste_bench::compare::{CONFIDENCE, Compared, Comparison, Verdict};
use serde_json::{Value, json};

use super::report::{factor, load, ns};
use crate::columns::{Align, Cell, Columns};
use crate::page::Width;
use crate::screen::{BAD, FAINT, GOOD, printable, styled};

pub(super) fn text(comparison: &Comparison, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("ROW", Align::Left),
        ("BEFORE", Align::Right),
        ("AFTER", Align::Right),
        ("RATIO", Align::Right),
        ("INTERVAL", Align::Right),
        ("", Align::Left),
    ]);
    for row in &comparison.rows {
        let interval = match (row.ratio.low, row.ratio.high) {
            (Some(low), Some(high)) => format!("{}..{}", factor(low), factor(high)),
            _ => "-".into(),
        };
        columns.row([
            name(row).into(),
            ns(row.before_ns).into(),
            ns(row.after_ns).into(),
            factor(row.ratio.value).into(),
            interval.into(),
            verdict_cell(row.verdict()),
        ]);
    }
    let mut text = columns.lines(0, width);
    text += &format!(
        "\nTimes are nanoseconds for each event. A difference is significant if the interval of the ratio ({} % confidence) does not contain 1\n",
        100.0 * CONFIDENCE
    );
    if comparison.rows.iter().any(|row| row.verdict() == Verdict::Unknown) {
        text += "\"unknown\": a run had only one repetition, so the spread of its figures is unknown\n";
    }
    for remark in &comparison.remarks {
        text += &format!("note: {}\n", printable(remark));
    }
    if !comparison.unmatched.is_empty() {
        let names = comparison.unmatched.join(", ");
        text += &styled(FAINT, format!("in only one of the results: {}", printable(&names)));
        text.push('\n');
    }
    text
}

fn name(row: &Compared) -> String {
    row.name.clone() + &load(row.payload_bytes, row.threads, row.processes)
}

fn verdict_cell(verdict: Verdict) -> Cell {
    match verdict {
        Verdict::Faster => Cell::styled(GOOD, "faster"),
        Verdict::Slower => Cell::styled(BAD, "slower"),
        Verdict::Same => Cell::styled(FAINT, "no difference shown"),
        Verdict::Unknown => Cell::styled(FAINT, "unknown"),
    }
}

/// As JSON.
pub(super) fn answer(comparison: &Comparison) -> Value {
    let rows = comparison.rows.iter().map(|row| {
        let verdict = match row.verdict() {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "no_difference_shown",
            Verdict::Unknown => "unknown",
        };
        json!({
            "name": row.name,
            "threads": row.threads,
            "processes": row.processes,
            "payload_bytes": row.payload_bytes,
            "before_ns": row.before_ns,
            "after_ns": row.after_ns,
            "ratio": row.ratio,
            "verdict": verdict,
        })
    });
    json!({
        "confidence": CONFIDENCE,
        "rows": rows.collect::<Vec<_>>(),
        "unmatched": comparison.unmatched,
        "remarks": comparison.remarks,
    })
}
