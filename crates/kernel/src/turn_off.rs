// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turning events of an instance off, however many and whoever else records them.
//!
//! The kernel keeps for each tracepoint the list of who records it, the earliest first. When the earlier of two leaves, the kernel waits for
//! a grace period (some 15 ms) with the lock of all events held; for every event that a kernel has, that is half a minute in which
//! nobody begins or ends a trace. Neither the earliest of three makes it wait, nor the later of two. So when turning off turns out to be slow, two
//! stand-ins join: instances that record nothing, later than the others. This one leaves, and then they do, the last one first.
//!
//! ```text
//!   this, other                 this leaves: waits, for each event
//!   this, other, two stand-ins  this leaves, then they: one wait for all events
//!   this, two stand-ins         likewise, for the events that no other records
//! ```

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use crate::catalog::PROBE_GROUPS;
use crate::instance::Instance;
use crate::instance_name::InstanceName;

/// Group and name of an event in tracefs.
pub(crate) type EventName = (String, String);

/// What is slower has waited, unless the machine is busy.
const WAIT: Duration = Duration::from_millis(4);
/// What the stand-ins take for an event, about.
const STAND_IN_TIME: Duration = Duration::from_micros(500);

/// Turns events off. Returns what could not be, as sentences.
pub(crate) fn turn_off<'e>(instance: &Instance, events: impl IntoIterator<Item = &'e EventName>) -> Vec<String> {
    let mut findings = Vec::new();
    // Probes are no tracepoints: they wait for programs, and nobody has to stand in for them.
    let (probes, tracepoints): (Vec<&EventName>, _) = events
        .into_iter()
        .partition(|(system, _)| system.starts_with(PROBE_GROUPS));
    let mut write = |(system, name): &EventName| {
        if let Err(error) = instance.write(enable_file(system, name), "0") {
            findings.push(format!("{system}:{name}: {error}"));
        }
    };
    probes.into_iter().for_each(&mut write);
    let (mut stand_ins, mut waited) = (None, Duration::ZERO);
    for (index, event) in tracepoints.iter().enumerate() {
        let left: &[&EventName] = &tracepoints[index..];
        if stand_ins.is_none() && waited > STAND_IN_TIME * u32::try_from(left.len()).unwrap_or(u32::MAX) {
            stand_ins = Some(StandIn::join_both(instance, left));
        }
        let begun = Instant::now();
        write(event);
        waited += Some(begun.elapsed()).filter(|time| *time >= WAIT).unwrap_or_default();
    }
    findings
}

fn enable_file(system: &str, name: &str) -> String {
    format!("events/{system}/{name}/enable")
}

/// Another instance of the same owner, with events on and no records. Gone when it is dropped.
struct StandIn(Instance);

impl StandIn {
    /// None where there can be none: the kernel waits then. One alone would make it wait for what no other records.
    fn join_both(instance: &Instance, events: &[&EventName]) -> Option<[Self; 2]> {
        let first = Self::join(instance, 1, events)?;
        let second = Self::join(instance, 2, events)?;
        // They are dropped in this order.
        Some([second, first])
    }

    fn join(instance: &Instance, number: u32, events: &[&EventName]) -> Option<Self> {
        let name = instance.folder().file_name()?.to_str()?;
        let stand_in = Self(instance.beside(&name_of_stand_in(name, number)?));
        match fs::create_dir(stand_in.0.folder()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
            // One that is there was left after an accident.
            _ => stand_in.0.set_on(false).ok()?,
        }
        // The kernel makes its rings with the first event, large ones unless a size is said.
        stand_in.0.write("buffer_size_kb", "1").ok()?;
        for (system, name) in events {
            // Without it, its event waits.
            let _ = stand_in.0.write(enable_file(system, name), "1");
        }
        Some(stand_in)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // What stays is the owner's, and removed with what else it leaves.
        let _ = self.0.write("events/enable", "0").and_then(|()| self.0.remove_folder());
    }
}

/// No channel's name begins with a dot.
fn name_of_stand_in(name: &str, number: u32) -> Option<String> {
    let named = InstanceName::parse(name)?;
    let channel = format!(".{number}.{}", named.channel);
    let channel = &*channel;
    InstanceName { channel, ..named }.text().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_has_its_owner_and_no_name_of_a_channel() {
        let name = "piste-0123456789abcdef-7-a-b";
        assert_eq!(
            name_of_stand_in(name, 2).as_deref(),
            Some("piste-0123456789abcdef-7-.2.a-b")
        );
        assert_eq!(name_of_stand_in("trace-cmd", 1), None);
    }
}
