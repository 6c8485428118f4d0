// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lttng-memtop` and `piste analyze memtop`.

use std::collections::BTreeMap;

use piste_support::report::{number, rows};

use crate::Compared;
use crate::events::{Event, Whose, attributed};
use crate::lttng::Answer;

/// By thread; what is nobody's under 0.
type Counts = BTreeMap<i64, i64>;

/// Blocks of pages, as lttng-analyses counts them: each is 1, and none is given back while none is known to be taken.
#[derive(Default)]
struct Blocks {
    taken: Counts,
    given: Counts,
}

fn blocks(events: &[Event]) -> Blocks {
    let (mut blocks, mut alive) = (Blocks::default(), 0);
    for (event, thread) in attributed(events, Whose::LastSwitch) {
        let counts = match event.name.as_str() {
            "kmem_mm_page_alloc" => {
                alive += 1;
                &mut blocks.taken
            }
            "kmem_mm_page_free" if alive > 0 => {
                alive -= 1;
                &mut blocks.given
            }
            _ => continue,
        };
        if let Some(thread) = thread {
            *counts.entry(thread).or_default() += 1;
        }
    }
    blocks
}

/// Pages of blocks of whatever size, by the events' contexts.
fn pages(events: &[Event], name: &str) -> Counts {
    let mut pages = Counts::new();
    for event in events.iter().filter(|event| event.is(name)) {
        *pages.entry(event.thread.unwrap_or(0)).or_default() += 1 << event.number("order");
    }
    pages
}

fn of_theirs(answer: &Answer, class: &str) -> Counts {
    let listed = answer.rows(class, "");
    let counts: Vec<(i64, i64)> = listed
        .iter()
        .map(|row| (row.number(0, "tid"), row.number(1, "value")))
        .collect();
    assert!(counts.is_sorted_by_key(|(_, count)| -count), "{counts:?}");
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn check(compared: &Compared) {
    let answer = compared.lttng_all("memtop:run_mi");
    let rule = blocks(&compared.events);
    assert_eq!(of_theirs(&answer, "allocd"), rule.taken);
    assert_eq!(of_theirs(&answer, "freed"), rule.given);

    let report = compared.piste("memtop");
    for (event, key) in [
        ("kmem_mm_page_alloc", "allocated_pages"),
        ("kmem_mm_page_free", "freed_pages"),
    ] {
        let pages = pages(&compared.events, event);
        let all: i64 = rows(&report, "all").iter().map(|row| number(&row[key])).sum();
        assert_eq!(all, pages.values().sum::<i64>(), "{report:#}");
        // What interrupts took and gave back is not the thread's on top of which they came.
        let mut of_threads = 0;
        for row in rows(&report, "threads") {
            let own = number(&row[key]);
            assert!(own <= pages.get(&number(&row["tid"])).copied().unwrap_or(0), "{row:#}");
            of_threads += own;
        }
        let threads = rows(&report, "all").iter().find(|row| row["by"] == "threads");
        assert_eq!(threads.map(|row| number(&row[key])), Some(of_threads), "{report:#}");
    }
    let pages: i64 = pages(&compared.events, "kmem_mm_page_alloc").values().sum();
    let blocks: i64 = rule.taken.values().sum();
    assert!(pages > 100 && blocks <= pages, "{pages} pages, {blocks} blocks");
}
