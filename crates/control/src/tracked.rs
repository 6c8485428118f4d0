// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session tracks.

use crate::interface::Tracked;

impl Default for Tracked {
    /// No set at all: everything is recorded.
    fn default() -> Tracked {
        Tracked {
            pids: None,
            follow_children: false,
            uids: None,
            gids: None,
            executables: None,
            control_groups: None,
            process_groups: None,
            process_sessions: None,
            cpus: None,
        }
    }
}
