// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages and channels made by hand, for events of the real kernel that need not happen.

#![allow(dead_code, unreachable_pub, reason = "each test file takes what it needs")]

pub mod decode;

use piste_kernel::convert::{Fact, Threads};
use piste_kernel::page::{Page, PageLayout};
use piste_kernel::spec::{CallPart, ChannelSpec, Context, EventSource, Loss, Rule};

/// A page of records, given by time and bytes.
pub fn page<'r>(begin_ticks: u64, records: impl IntoIterator<Item = (u64, &'r [u8])>) -> Vec<u8> {
    let mut data = Vec::new();
    let mut last_ticks = begin_ticks;
    for (ticks, record) in records {
        // Length in a word of its own; it counts itself.
        data.extend((((ticks - last_ticks) as u32) << 5).to_le_bytes());
        data.extend((record.len() as u32 + 4).to_le_bytes());
        data.extend(record);
        data.resize(data.len().next_multiple_of(4), 0);
        last_ticks = ticks;
    }
    let commit = data.len() as u64;
    [&begin_ticks.to_le_bytes()[..], &commit.to_le_bytes(), &data].concat()
}

pub fn parse(page: &[u8]) -> Page<'_> {
    Page::parse(&PageLayout::USUAL, page).unwrap()
}

/// A channel that records everything.
pub fn channel(contexts: &[Context]) -> ChannelSpec {
    let pattern = || "*".to_owned();
    ChannelSpec {
        memory: None,
        stream_id: 0,
        name: "test".into(),
        loss: Loss::Discard,
        subbuf_bytes: 65536,
        subbuf_count: 64,
        contexts: contexts.to_vec(),
        added_contexts: Vec::new(),
        rules: vec![
            rule(EventSource::Tracepoint { pattern: pattern() }),
            rule(EventSource::Syscall {
                pattern: pattern(),
                part: CallPart::Both,
            }),
        ],
    }
}

/// A rule that records all of its events.
pub fn rule(source: EventSource) -> Rule {
    Rule {
        source,
        excluded: Vec::new(),
        filter: None,
        fields: Vec::new(),
        stack: None,
        enabled: true,
    }
}

/// Threads whose process has a number of a hundred more; those from 3200 to 3299 run 32-bit programs.
pub struct Numbered;

impl Threads for Numbered {
    fn process_of(&mut self, tid: i32) -> Option<i32> {
        tid.checked_add(100)
    }

    fn catch_up(&mut self) -> bool {
        true
    }

    fn is_compat(&mut self, tid: i32, _: u64) -> bool {
        (3200..3300).contains(&tid)
    }

    fn fact(&mut self, tid: i32, context: Context) -> Option<Fact> {
        match context {
            Context::Procname if tid < 1000 => Some(Fact::Name(*b"a name\0\0\0\0\0\0\0\0\0\0")),
            Context::Procname => None,
            _ => Some(Fact::Number(-1)),
        }
    }
}
