// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session says that its trace has and lacks, and what the trace itself tells.

use std::path::Path;

use serde_json::Value;

use crate::Workplace;
use crate::report::text;

/// Recorded events, discarded events and lost packets.
pub type Counts = (u64, u64, u64);

/// A sum over the channels of a session's status.
///
/// # Panics
/// It is no status.
pub fn sum(status: &Value, key: &str) -> u64 {
    let channels = status["channels"].as_array().expect("channels");
    channels
        .iter()
        .map(|channel| channel[key].as_u64().expect("a number"))
        .sum()
}

/// What the session said at the end.
///
/// # Panics
/// It is no status.
pub fn said(ended: &Value) -> Counts {
    (
        sum(ended, "events"),
        sum(ended, "discarded_events"),
        sum(ended, "lost_packets"),
    )
}

/// What the trace tells, the state dump apart.
///
/// # Panics
/// It cannot be read.
pub fn told(place: &Workplace, trace: &Path) -> Counts {
    let stats = place.piste_json(&["stats", text(trace)]);
    let sum = |key: &str| {
        let streams = stats["streams"].as_array().expect("streams").iter();
        let recorded = streams.filter(|stream| !stream["file"].as_str().expect("a path").contains("statedump"));
        recorded.map(|stream| stream[key].as_u64().expect("a number")).sum()
    };
    (sum("events"), sum("discarded_events"), sum("lost_packets"))
}
