// SPDX-License-Identifier: MIT OR Apache-2.0
//! A static probe (USDT) of a program, with its argument, recorded by a tracefs instance.

use piste_kernel::probe::{ProbePlaceKind, places};

use super::uprobe::Probed;
use super::{Found, Peer, RowKind};
use crate::error::Absence;
use crate::report::Group;

pub(super) const PEER: Peer = Peer {
    name: "usdt",
    about: "a static probe, through tracefs",
    group: Group::Events,
    rows: &[RowKind::recorded("usdt", "USDT, through tracefs", "probe")],
    find: |workshop| {
        let tracefs = workshop.tracefs()?;
        if !workshop.has_header("sys/sdt.h", &[])? {
            return Err(Absence::new(
                "there is no header sys/sdt.h",
                "install it (Debian: apt install systemtap-sdt-dev)",
            ));
        }
        let program = workshop.compile("static_probe", &["static_probe.c"], &[], "systemtap-sdt-dev")?;
        let found = places(&program, ProbePlaceKind::Usdt, None).unwrap_or_default();
        let [place] = &found[..] else {
            return Err(Absence::for_good("the compiled program has no static probe"));
        };
        Ok(Found::Events(Box::new(Probed {
            tracefs,
            program,
            name: "static_probe",
            offset: place.offset,
            arguments: place.arguments.join(" "),
        })))
    },
};
