// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be measured. Each peer is a file here: it finds the tracer, prepares it, and removes everything afterwards.
//!
//! There are three groups. *Events* of programs: each peer has a program of its own, whose tracer runs all the time, so that rounds of all peers take
//! turns. *Steps* of an event are measured in the same way. *Calls*: one program calls the kernel, and each peer in turn records its calls for a few
//! rounds, because tracing system calls slows down those of all programs.

mod attached;
mod bpftrace;
mod floor;
mod lttng;
mod lttng_kernel;
mod marker;
mod perf;
mod perf_probe;
mod piste;
mod piste_calls;
mod piste_steps;
mod preload;
mod prototype;
mod static_probe;
mod strace;
mod sysdig;
mod systemtap;
mod tracefs;
mod untraced_calls;
mod uprobe;
mod user_events;

pub(crate) use self::uprobe::ARGUMENT as PROBED_ARGUMENT;

use std::process::Command;

use rustix::process::geteuid;

use crate::error::{Absence, Error};
use crate::report::{Group, RowClock};
use crate::workshop::{Sized, Workshop};

/// All of them, in the order of the tables.
pub static PEERS: [Peer; 20] = [
    floor::PEER,
    prototype::PEER,
    piste::PEER,
    lttng::PEER,
    marker::PEER,
    user_events::PEER,
    static_probe::PEER,
    uprobe::PEER,
    perf_probe::PEER,
    preload::PEER,
    piste_steps::PEER,
    untraced_calls::PEER,
    tracefs::PEER,
    piste_calls::PEER,
    lttng_kernel::PEER,
    perf::PEER,
    bpftrace::PEER,
    sysdig::PEER,
    systemtap::PEER,
    strace::PEER,
];

/// The row that others are compared with, as what recording takes at least.
pub const FLOOR: &str = "floor";
/// The row that others are compared with, as ours.
pub const PISTE: &str = "piste";
/// Rings that are overwritten have so much for each CPU, so that all of them fit into the same caches.
pub(crate) const RING_KIB: u64 = 1024;
/// The same as options of `piste` and `lttng`.
const RING: [&str; 2] = ["--subbuf-size=256K", "--num-subbuf=4"];
/// What an event contains, unless other sizes are asked for.
pub const PAYLOAD_BYTES: u32 = 4;
/// What measured programs call the event that has as many bytes as they were compiled for.
pub(crate) const PAYLOAD_VARIANT: &str = "payload";
/// An untraced system call.
pub const CALL: &str = "call";
/// The same, recorded by Piste.
pub const PISTE_CALL: &str = "piste-call";

/// A tracer, or what tracers are compared with.
pub struct Peer {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What it records.
    pub group: Group,
    /// The ways of recording that are measured.
    pub rows: &'static [RowKind],
    pub(crate) find: fn(&Workshop) -> Result<Found, Absence>,
}

/// One way of recording.
#[derive(Clone, Copy, Debug)]
pub struct RowKind {
    /// Its name, by which it can be chosen.
    pub name: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// What the measured program calls it.
    pub(crate) variant: &'static str,
    pub(crate) clock: RowClock,
    /// Whether there must be events in the recording afterwards.
    pub(crate) records: bool,
    /// No more events than the rings have room for.
    pub(crate) events_max: u64,
    /// Whether it is measured with other payloads, too, or with file names.
    pub(crate) has_payloads: bool,
}

impl RowKind {
    /// A row whose events are recorded in rings that are overwritten.
    const fn recorded(name: &'static str, title: &'static str, variant: &'static str) -> RowKind {
        RowKind {
            name,
            title,
            variant,
            clock: RowClock::Cpu,
            records: true,
            events_max: u64::MAX,
            has_payloads: false,
        }
    }

    /// A row of which nothing is recorded.
    const fn unrecorded(name: &'static str, title: &'static str, variant: &'static str) -> RowKind {
        RowKind {
            records: false,
            ..RowKind::recorded(name, title, variant)
        }
    }

    /// The row, to be measured with other payloads, too.
    const fn with_payloads(self) -> RowKind {
        RowKind {
            has_payloads: true,
            ..self
        }
    }

    /// What the program calls it whose events have so many bytes; absent if there is none.
    pub(crate) fn variant_with(&self, payload_bytes: u32) -> Option<&'static str> {
        match payload_bytes {
            PAYLOAD_BYTES => Some(self.variant),
            _ => self.has_payloads.then_some(PAYLOAD_VARIANT),
        }
    }
}

/// A peer that this machine has.
pub(crate) enum Found {
    Events(Box<dyn EventTracer>),
    Calls(Box<dyn CallTracer>),
}

/// Records the events of a program of its own.
pub(crate) trait EventTracer {
    /// Starts recording, for a repetition of all rounds. What is returned removes everything when it is dropped.
    fn start<'w>(&self, workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error>;
}

/// A tracer that records.
pub(crate) trait EventSession {
    /// The measured program whose events have so many bytes, as it has to be started; absent if there is none.
    fn program(&self, payload_bytes: u32) -> Option<Command>;
    /// What was recorded by now of an event, by what measured programs call it. Asked at the end.
    fn recorded(&mut self, variant: &str) -> Result<Recorded, Error>;
}

/// What a tracer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Of the row, as far as they are still in the rings.
    pub(crate) events: u64,
    /// Those that it says it had no space for.
    pub(crate) discarded: u64,
}

impl Recorded {
    fn events(events: u64) -> Recorded {
        Recorded { events, discarded: 0 }
    }
}

/// Records the system calls of a process that runs.
pub(crate) trait CallTracer {
    /// Begins to record the calls of a process. What is returned removes everything when it is dropped.
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error>;
}

/// A tracer that is attached.
pub(crate) trait CallSession {
    /// Ends recording, and says what was recorded.
    fn detach(self: Box<Self>) -> Result<Recorded, Error>;
}

/// Whether we may record the kernel.
fn is_root() -> Result<(), Absence> {
    match geteuid().is_root() {
        true => Ok(()),
        false => Err(Absence::new(
            "recording the kernel needs root",
            "run `piste bench` as root",
        )),
    }
}

/// A program that nobody traces.
#[derive(Clone)]
struct Untraced {
    programs: Sized,
}

impl EventTracer for Untraced {
    fn start<'w>(&self, _workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl EventSession for Untraced {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        self.programs.get(&payload_bytes).map(Command::new)
    }

    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        Ok(Recorded::default())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rings_are_alike() {
        let sizes = RING.map(|option| {
            let digits = |c: char| c.is_ascii_digit();
            let number: String = option.chars().filter(|c| digits(*c)).collect();
            number.parse::<u64>().expect("a number")
        });
        assert_eq!(sizes[0] * sizes[1], RING_KIB);
    }

    #[test]
    fn names_are_unique_and_fit() {
        let mut names = BTreeSet::new();
        for row in PEERS.iter().flat_map(|peer| peer.rows) {
            assert!(names.insert(row.name), "{}", row.name);
            assert!(row.title.chars().count() <= 38, "{}", row.title);
        }
        for name in [FLOOR, PISTE, CALL, PISTE_CALL] {
            assert!(names.contains(name), "{name}");
        }
    }
}
