// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loops without a tracer: nothing, the clock, the least that recording takes, and fprintf.

use super::{Found, Peer, RowKind, Untraced};
use crate::report::Group;
use crate::workshop::C_LIBRARY;

pub(super) const PEER: Peer = Peer {
    name: "floor",
    about: "no tracer: an empty loop, the clock, the least that recording takes, fprintf",
    group: Group::Events,
    rows: &[
        RowKind::unrecorded("none", "no event (empty loop)", "none"),
        RowKind::unrecorded("clock", "clock read alone", "clock"),
        RowKind::unrecorded("floor", "floor: clock and store, unsafe", "floor").with_payloads(),
        RowKind::unrecorded("survey", "clock_gettime and copy (survey)", "survey"),
        RowKind::unrecorded("fprintf", "fprintf to /dev/null", "fprintf"),
    ],
    find: |workshop| {
        let programs = workshop.compile_sized("floor", &["floor.c"], &[], C_LIBRARY, &workshop.payloads)?;
        Ok(Found::Events(Box::new(Untraced { programs })))
    },
};
