// SPDX-License-Identifier: MIT OR Apache-2.0
//! LTTng-UST, with a session daemon of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kept, KernelEvents, READ_TIMER, Reader, Recorders, Session, SettingUp, Setup, Tracer};
use crate::error::{Absence, Error};
use crate::pisted::events_in;
use crate::processes::Patience;
use crate::sessiond::{Domain, LIBRARIES, Sessiond};
use crate::workshop::Workshop;

const SESSION: &str = "turns";
const CHANNEL: &str = "turns";
/// In what `lttng list` prints for programs (--mi xml).
const LOST: (&str, &str) = ("<discarded_events>", "</discarded_events>");

pub(super) fn library(recorders: &Recorders) -> Result<PathBuf, Absence> {
    Sessiond::find(&recorders.workshop)?;
    recorders.compile(
        Tracer::Lttng,
        "turn-lttng.c",
        &LIBRARIES.map(str::to_owned),
        "liblttng-ust-dev",
    )
}

pub(super) struct Lttng {
    event: &'static str,
}

impl Lttng {
    pub(super) fn new(recorders: &Recorders) -> Lttng {
        Lttng {
            event: recorders.event(),
        }
    }
}

impl SettingUp for Lttng {
    fn lacks(&self, setup: &Setup) -> Option<Absence> {
        (setup.kernel != KernelEvents::None).then(|| {
            Absence::for_good(
                "LTTng records the kernel only with kernel modules of its own (lttng-modules), which piste does not load",
            )
        })
    }

    fn start<'w>(&self, workshop: &'w Workshop, folder: &Path, setup: &Setup) -> Result<Box<dyn Session + 'w>, Error> {
        let sessiond = Sessiond::start(workshop, folder.join("home"), Domain::Programs)?;
        let lttng = |arguments: &[&str]| sessiond.lttng(arguments).map(drop);
        let output = format!("--output={}", sessiond.trace().display());
        lttng(&["create", SESSION, &output])?;
        // Without a timer, the writer wakes the consumer.
        let read_timer_us = match setup.reader {
            Reader::Timer => READ_TIMER.as_micros(),
            Reader::Wake => 0,
        };
        let options = [
            format!("--subbuf-size={}", setup.rings.subbuf_bytes),
            format!("--num-subbuf={}", setup.rings.subbuf_count),
            format!("--read-timer={read_timer_us}"),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        lttng(&[&["enable-channel", "-u", CHANNEL, "--discard"], &options[..]].concat())?;
        lttng(&["enable-event", "-u", "-c", CHANNEL, self.event])?;
        lttng(&["start"])?;
        Ok(Box::new(Recording {
            sessiond,
            workshop,
            event: self.event,
        }))
    }
}

struct Recording<'w> {
    sessiond: Sessiond,
    workshop: &'w Workshop,
    event: &'static str,
}

impl Session for Recording<'_> {
    fn command(&self, program: &Path) -> Command {
        self.sessiond.beside(program)
    }

    fn stop(&mut self, counts_events: bool) -> Result<Kept, Error> {
        self.sessiond.ignore_ctrl_c();
        self.sessiond.lttng(&["stop"])?;
        let listed = self.sessiond.lttng(&["--mi", "xml", "list", SESSION])?;
        let events = match counts_events {
            true => Some(events_in(
                self.workshop,
                &Patience::for_the_end(),
                &self.sessiond.trace(),
            )?),
            false => None,
        };
        Ok(Kept {
            recorded: events.map(|events| events.get(self.event).copied().unwrap_or(0)),
            lost: lost(&listed)
                .ok_or_else(|| Error::new("`lttng list` does not say how many events were discarded"))?,
            kernel_lost: 0,
        })
    }

    fn trace(&self) -> Option<PathBuf> {
        Some(self.sessiond.trace())
    }
}

/// Events that all channels of a session discarded.
fn lost(listed: &str) -> Option<u64> {
    let counts = listed.split(LOST.0).skip(1);
    let counts = counts.map(|rest| rest.split_once(LOST.1)?.0.trim().parse::<u64>().ok());
    let counts = counts.collect::<Option<Vec<u64>>>()?;
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_are_read_from_what_lttng_lists() {
        let listed = "<channel><name>turns</name><discarded_events>1200</discarded_events><lost_packets>0</lost_packets></channel>";
        assert_eq!(lost(listed), Some(1200));
        for wrong in ["", "<discarded_events>", "<discarded_events>x</discarded_events>"] {
            assert_eq!(lost(wrong), None, "{wrong}");
        }
    }
}
