// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a tracing session stands, and when to look at it again.
//!
//! ```text
//!              start                 stop, close              everything is written
//!   Stopped  -------->  Started  ------------------>  Ending  ----------------------->  Stopped, or closed
//!      |                   ^                            ^
//!      +---- start again --+        close of a stopped -+
//! ```

use std::time::{Duration, Instant};

use crate::link::RequestId;

#[derive(Debug)]
pub(crate) enum Stage {
    Stopped,
    Started,
    Ending(Ending),
}

#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) since: Instant,
    /// To be answered when everything is written.
    pub(crate) requests: Vec<RequestId>,
    /// The session is dropped then.
    pub(crate) close: bool,
}

impl Stage {
    pub(crate) fn is_started(&self) -> bool {
        matches!(self, Stage::Started)
    }

    /// Whether the session is dropped once it has ended.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self, Stage::Ending(ending) if ending.close)
    }

    /// Records from now on. Returns the requests to end that this overtakes: they are answered now.
    pub(crate) fn start(&mut self) -> Vec<RequestId> {
        match std::mem::replace(self, Stage::Started) {
            Stage::Ending(ending) => ending.requests,
            Stage::Stopped | Stage::Started => vec![],
        }
    }

    /// Records no more; `request` waits until everything is written.
    pub(crate) fn end(&mut self, request: RequestId, close: bool, now: Instant) {
        if let Stage::Ending(ending) = self {
            ending.close |= close;
            ending.requests.push(request);
        } else {
            *self = Stage::Ending(Ending {
                since: now,
                requests: vec![request],
                close,
            });
        }
    }

    /// Everything is written. Returns how it ended, if it was about to.
    pub(crate) fn ended(&mut self) -> Option<Ending> {
        match std::mem::replace(self, Stage::Stopped) {
            Stage::Ending(ending) => Some(ending),
            Stage::Stopped | Stage::Started => None,
        }
    }
}

/// When the loop has to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// When control says something.
    Never,
    /// At the pace of the rings.
    AtPace,
    /// After this time.
    After(Duration),
    /// The session is closed and can be dropped.
    Closed,
}

impl Again {
    /// The sooner of two; `pace` is what [`Again::AtPace`] means.
    pub(crate) fn sooner(self, other: Again, pace: Option<Duration>) -> Again {
        let after = |again| match again {
            Again::Never | Again::Closed => Duration::MAX,
            Again::AtPace => pace.unwrap_or(Duration::MAX),
            Again::After(duration) => duration,
        };
        if after(other) < after(self) { other } else { self }
    }
}
