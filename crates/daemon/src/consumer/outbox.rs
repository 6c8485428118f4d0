// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the consumer tells the control process, whether or not one is there to hear it.
//!
//! Nothing is kept for a control process that is away: a new one asks for everything (`Adopt`), repeats the requests that had no
//! answer, and finds findings in the totals.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::link::{Link, ToControl};

/// The connection to the control process, while there is one.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) link: Option<Link>,
}

impl Outbox {
    /// A newer connection replaces an older one.
    pub(crate) fn connect(&mut self, link: Link) {
        self.link = Some(link);
    }

    /// The control process is gone.
    pub(crate) fn disconnect(&mut self) {
        self.link = None;
    }

    /// Sends at once, as far as the control process keeps up. When this returns, the message survives this process.
    pub(crate) fn send(&mut self, message: &ToControl) {
        self.send_with(message, None);
    }

    /// As `send`, with a descriptor.
    pub(crate) fn send_with(&mut self, message: &ToControl, descriptor: Option<Arc<OwnedFd>>) {
        if let Some(link) = &mut self.link
            && link.send(message, descriptor).is_err()
        {
            self.disconnect();
        }
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) {
        if let Some(link) = &mut self.link
            && link.flush().is_err()
        {
            self.disconnect();
        }
    }
}
