// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of analyses as HTML. Which columns are shown, and how values are written, is as in a terminal.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use piste_analysis::report::{Importance, Table};

use super::page::short;
use crate::analyze::tables::{align, bar, shown_columns, value};
use crate::columns::Align;
use crate::quantity::count;

/// Rows of a table.
const ROWS: usize = 10;

/// A table with its first rows.
pub(super) fn table(table: &Table, zone: &TimeZone) -> Markup {
    let shown = shown_columns(table);
    let class = |place: usize| {
        let column = &table.columns[place];
        match (align(column), column.importance) {
            (Align::Right, Importance::Minor) => Some("number minor"),
            (Align::Right, _) => Some("number"),
            (Align::Left, Importance::Minor) => Some("minor"),
            (Align::Left, _) => None,
        }
    };
    html! {
        div class="scroll" {
            table {
                caption { (table.title) }
                thead {
                    tr {
                        @for place in &shown {
                            th scope="col" class=[class(*place)] { (table.columns[*place].heading) }
                            @if table.columns[*place].has_bar { td {} }
                        }
                    }
                }
                tbody {
                    @for row in table.rows.iter().take(ROWS) {
                        tr {
                            @for place in &shown {
                                td class=[class(*place)] { (short(&value(&table.columns[*place], &row[*place], zone))) }
                                @if table.columns[*place].has_bar {
                                    td {
                                        svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                                            rect class="bar" width=(format!("{:.1}", 100.0 * bar(table, row, *place))) height="8" {}
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if table.rows.len() > ROWS {
                p class="more" { "The first " (ROWS) " of " (count(table.rows.len() as i64)) " rows." }
            }
        }
    }
}
