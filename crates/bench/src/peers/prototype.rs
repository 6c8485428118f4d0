// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring with several writers that does no more than it has to: what a safe tracer takes at least.

use super::{Found, PAYLOAD_BYTES, Peer, RowKind, Untraced};
use crate::report::Group;
use crate::workshop::C_LIBRARY;

pub(super) const PEER: Peer = Peer {
    name: "prototype",
    about: "a ring with several writers and nothing else",
    group: Group::Events,
    rows: &[RowKind::unrecorded("prototype", "prototype ring", "plain")],
    find: |workshop| {
        let program = workshop.compile("prototype", &["prototype.c"], &[], C_LIBRARY)?;
        let programs = [(PAYLOAD_BYTES, program)].into();
        Ok(Found::Events(Box::new(Untraced { programs })))
    },
};
