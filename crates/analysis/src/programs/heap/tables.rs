// SPDX-License-Identifier: MIT OR Apache-2.0
//! What heaps are shown as.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Heap, OfCaller};
use crate::analyses::{COMM, COUNT, PID};
use crate::programs::code::{Resolve, Stands};
use crate::programs::images::{ImageId, Images};
use crate::report::{Column, Table, Unit, Value, column};

const BYTES: Column = column("bytes", "BYTES", Unit::Bytes);
const LARGEST: Column = column("largest_bytes", "LARGEST", Unit::Bytes).minor();
const LIVE_COUNT: Column = column("live_count", "NOT FREED", Unit::Count);
const LIVE_BYTES: Column = column("live_bytes", "BYTES NOT FREED", Unit::Bytes);
const UNSURE_COUNT: Column = column("unsure_count", "MAYBE FREED", Unit::Count);
const UNSURE_BYTES: Column = column("unsure_bytes", "BYTES MAYBE FREED", Unit::Bytes);
const FUNCTION: Column = column("function", "CALLER", Unit::Text).major();
const LINE: Column = column("line", "LINE", Unit::Text);

impl Heap {
    pub(super) fn processes(&self, images: &Images, torn: &FxHashSet<ImageId>) -> Table {
        let columns = [
            PID,
            COMM,
            column("allocations", "ALLOCATIONS", Unit::Count),
            column("per_second", "PER SECOND", Unit::Count).minor(),
            column("allocated_bytes", "ALLOCATED", Unit::Bytes),
            LARGEST,
            column("peak_bytes", "PEAK", Unit::Bytes).major().with_bar(),
            column("peak_at_ns", "AT", Unit::Moment).minor(),
            LIVE_COUNT,
            LIVE_BYTES,
            UNSURE_COUNT,
            UNSURE_BYTES,
            column("frees", "FREES", Unit::Count).minor(),
            column("unknown_frees", "OF UNKNOWN", Unit::Count).minor(),
            column("failed", "FAILED", Unit::Count),
        ];
        let mut table = Table::new("processes", "Heaps of processes", &columns);
        let mut programs: Vec<_> = self.programs.iter().filter(|(_, own)| own.first_ns.is_some()).collect();
        programs.sort_by_key(|(image, own)| (Reverse(own.peak_bytes), **image));
        for (image, own) in programs.into_iter().take(self.limit()) {
            let peak = Some(own.peak_ns).filter(|_| !torn.contains(image));
            let image = images.get(*image);
            let live = own.live.without(own.unsure);
            let lived_ns = own.last_ns - own.first_ns.unwrap_or(own.last_ns);
            table.row([
                image.pid.into(),
                (&*image.name).into(),
                own.asked.count.into(),
                per_second(own.asked.count, lived_ns),
                own.asked.bytes.into(),
                own.largest_bytes.into(),
                peak.map_or(Value::None, |_| own.peak_bytes.into()),
                peak.flatten().into(),
                live.count.into(),
                live.bytes.into(),
                own.unsure.count.into(),
                own.unsure.bytes.into(),
                own.freed.into(),
                own.unknown_freed.into(),
                own.failed.into(),
            ]);
        }
        table
    }

    /// By the names of program, function and line; processes of one program are together.
    pub(super) fn named_callers(&self, images: &Images, resolve: &mut dyn Resolve) -> Vec<([String; 3], OfCaller)> {
        let mut ids: FxHashMap<[String; 3], usize> = FxHashMap::default();
        let mut named: Vec<([String; 3], OfCaller)> = Vec::new();
        for caller in &self.callers {
            let code = caller
                .place
                .map(|place| place.name(Stands::ForTheCall, images, resolve));
            let (function, line) = code.map_or_else(Default::default, |code| (code.function, code.line));
            let name = [images.get(caller.image).name.clone(), function, line];
            let id = *ids.entry(name.clone()).or_insert(named.len());
            if id == named.len() {
                named.push((name, OfCaller { ..*caller }));
            } else {
                let known = &mut named[id].1;
                known.asked.merge(caller.asked);
                known.live.merge(caller.live);
                known.unsure.merge(caller.unsure);
                known.largest_bytes = known.largest_bytes.max(caller.largest_bytes);
            }
        }
        named
    }

    pub(super) fn never_freed(&self, callers: &[([String; 3], OfCaller)]) -> Table {
        let columns = [
            COMM,
            LIVE_BYTES.with_bar(),
            LIVE_COUNT,
            UNSURE_BYTES,
            UNSURE_COUNT,
            FUNCTION,
            LINE,
        ];
        let mut table = Table::new("leaks", "Never freed, by caller", &columns);
        let leaks = callers.iter().filter(|(_, caller)| caller.live.count > 0);
        let mut leaks: Vec<_> = leaks
            .map(|(name, caller)| (caller.live.without(caller.unsure), caller.unsure, name))
            .collect();
        leaks.sort_by_key(|(live, unsure, name)| (Reverse((live.bytes, unsure.bytes)), *name));
        for (live, unsure, [program, function, line]) in leaks.into_iter().take(self.limit()) {
            table.row([
                (&**program).into(),
                live.bytes.into(),
                live.count.into(),
                unsure.bytes.into(),
                unsure.count.into(),
                unless_empty(function),
                unless_empty(line),
            ]);
        }
        table
    }

    pub(super) fn all_callers(&self, mut callers: Vec<([String; 3], OfCaller)>) -> Table {
        let columns = [COMM, BYTES.with_bar(), COUNT, LARGEST, FUNCTION, LINE];
        let mut table = Table::new("callers", "Allocated, by caller", &columns);
        callers
            .sort_by(|(name, one), (other_name, other)| (other.asked.bytes, name).cmp(&(one.asked.bytes, other_name)));
        for ([program, function, line], caller) in callers.iter().take(self.limit()) {
            table.row([
                (&**program).into(),
                caller.asked.bytes.into(),
                caller.asked.count.into(),
                caller.largest_bytes.into(),
                unless_empty(function),
                unless_empty(line),
            ]);
        }
        table
    }

    pub(super) fn by_size(&self) -> Table {
        let columns = [
            column("from_bytes", "FROM", Unit::Bytes),
            column("until_bytes", "UP TO", Unit::Bytes),
            COUNT.with_bar(),
        ];
        let mut table = Table::new("sizes", "Allocations by size", &columns);
        for (from, until, count) in self.sizes.octaves() {
            table.row([Value::Number(from), Value::Number(until), count.into()]);
        }
        table
    }
}

fn unless_empty(text: &str) -> Value {
    if text.is_empty() { Value::None } else { text.into() }
}

fn per_second(count: u64, ns: i64) -> Value {
    match ns {
        ..=0 => Value::None,
        ns => Value::Number((count as f64 * 1e9 / ns as f64).round() as i64),
    }
}
