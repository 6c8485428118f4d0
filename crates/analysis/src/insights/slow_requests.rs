// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that a device took long for, longer than it does mostly.

use rustc_hash::FxHashMap;

use super::occurrences::{LONGEST, Occurrences};
use super::{Closer, Detector, Insight, Level};
use crate::measure::Distribution;
use crate::model::{Listen, Request, System};
use crate::report::{Unit, Value, column};

/// A disk that turns finds a place in a hundredth of a second; what takes five times as long has waited in the device, or was tried again.
const SLOW_NS: i64 = 50_000_000;
/// So much longer than the one in the middle: a device that is always slow is no surprise.
const TIMES: i64 = 10;
/// Of fewer nobody knows what is usual.
const ENOUGH: u64 = 50;

#[derive(Default)]
pub(super) struct SlowRequests {
    devices: FxHashMap<u32, OfDevice>,
}

#[derive(Default)]
struct OfDevice {
    all: Distribution,
    slow: Occurrences,
}

impl Listen for SlowRequests {
    fn request(&mut self, _: &System, request: &Request) {
        let (Some(ns), Some(completed_ns)) = (request.device_ns(), request.completed_ns) else {
            return;
        };
        let own = self.devices.entry(request.device).or_default();
        own.all.add(ns);
        if ns >= SLOW_NS {
            own.slow.add((request.issued_ns, completed_ns), ns);
        }
    }
}

impl Detector for SlowRequests {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let mut found = Vec::new();
        for (device, own) in self.devices.iter().filter(|(_, own)| own.all.times.count >= ENOUGH) {
            let median = own.all.percentile(50.0);
            let is_unusual = matches!(median, Value::Number(ns) if own.slow.times.max_ns >= TIMES * ns);
            if !is_unusual || own.slow.times.count == 0 {
                continue;
            }
            let mut evidence = own.slow.evidence();
            evidence.truncate(2);
            evidence.extend([
                (LONGEST, Value::Number(own.slow.times.max_ns)),
                (column("p50_ns", "usually", Unit::Nanoseconds), median),
                (column("requests", "request", Unit::Count), own.all.times.count.into()),
            ]);
            found.push(Insight {
                kind: "slow request",
                level: Level::Notable,
                what: format!(
                    "{} took unusually long to complete requests",
                    system.device_name(*device)
                ),
                span_ns: own.slow.span_ns,
                longest_ns: Some(own.slow.longest_ns),
                cost_ns: own.slow.times.total_ns,
                evidence,
                closer: Closer::new("iolog")
                    .with("--min", format!("{}ms", SLOW_NS / 1_000_000))
                    .during(own.slow.longest_ns),
            });
        }
        found
    }
}
