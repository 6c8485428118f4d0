// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste record` left behind: its summary and the trace.

use std::path::PathBuf;

use serde_json::Value;

use crate::process::Finished;
use crate::trace::Trace;

/// An ended recording.
pub struct Recording {
    /// How `piste` ended, with the output of the program.
    pub finished: Finished,
    summary: Value,
}

impl Recording {
    pub(crate) fn new(finished: Finished, summary: &str) -> Recording {
        let summary = serde_json::from_str(summary).unwrap_or(Value::Null);
        Recording { finished, summary }
    }

    /// The summary.
    ///
    /// # Panics
    /// There is none.
    pub fn summary(&self) -> &Value {
        assert!(self.summary.is_object(), "no summary: {}", self.finished);
        &self.summary
    }

    /// A number at the top of the summary.
    pub fn number(&self, key: &str) -> u64 {
        let summary = self.summary();
        summary[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{key} is no count: {summary}"))
    }

    /// Events that the summary says are in the trace.
    pub fn events(&self) -> u64 {
        self.number("events")
    }

    /// Events that the summary says are missing.
    pub fn discarded(&self) -> u64 {
        self.number("discarded_events")
    }

    /// Sum of one of the reasons of losses, over the channels.
    pub fn losses(&self, reason: &str) -> u64 {
        let channels = self.summary()["channels"].as_array().expect("an array of channels");
        let count = |channel: &Value| {
            let count = &channel["losses"][reason];
            count
                .as_u64()
                .unwrap_or_else(|| panic!("{reason} is no count: {channel}"))
        };
        channels.iter().map(count).sum()
    }

    /// The trace.
    pub fn trace(&self) -> Trace {
        Trace::at(PathBuf::from(self.summary()["trace"].as_str().expect("a path")))
    }

    /// Itself, when the program succeeded, nothing was lost and nothing was found wrong.
    ///
    /// # Panics
    /// Something was.
    pub fn expect_whole(&self) -> &Recording {
        self.finished.expect_success();
        let summary = self.summary();
        assert_eq!((self.discarded(), self.number("lost_packets")), (0, 0), "{summary:#}");
        assert_eq!(summary["findings"].as_array().map(Vec::len), Some(0), "{summary:#}");
        self
    }
}
