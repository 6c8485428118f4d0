// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumer process: reads the rings and writes traces.

use std::io;
use std::os::fd::OwnedFd;

/// Serves the control process on the listening socket until `Exit`.
///
/// # Errors
/// The listening socket's error.
pub fn run(listener: OwnedFd) -> io::Result<()> {
    drop(listener);
    Ok(())
}
