// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes out of the kernel what nobody needs any more: instances, probes and BPF programs of pisteds that died with their consumers, and of sessions
//! that ended without one. Nothing else is touched.

use std::time::Duration;

use piste_kernel::instance::Instance;
use piste_kernel::owner::{self, DeadOwner, Leftovers, Owner};
use piste_kernel::probe::{self, Plans, Probes};
use piste_kernel::tracefs::Tracefs;

use crate::kernel_consumer::remove_instance;
use crate::link::SessionId;

/// How long a pisted that was killed with its consumer has to be started again, before its rings are removed.
const DEAD_FOR: Duration = Duration::from_secs(10);

/// Removes what the sessions of this owner have that are meant. Returns what could not be removed, as sentences.
pub fn of_sessions(tracefs: &Tracefs, owner: &Owner, is_meant: impl Fn(SessionId) -> bool) -> Vec<String> {
    let instances = match owner.instances(tracefs) {
        Ok(instances) => instances,
        Err(error) => return vec![error.to_string()],
    };
    let mut findings = Vec::new();
    for (session, channel) in instances {
        if is_meant(session) {
            findings.extend(remove_channel(tracefs, owner, session, &channel));
        }
    }
    findings
}

fn remove_channel(tracefs: &Tracefs, owner: &Owner, session: SessionId, channel: &str) -> Vec<String> {
    let removed = Instance::create_or_open(tracefs, owner, session, channel).and_then(remove_instance);
    let (probes, _) = Probes::open(tracefs, owner.id(), session, channel, &[], Plans::default());
    let mut findings: Vec<String> = removed.err().map(|error| error.to_string()).into_iter().collect();
    findings.extend(probes.remove(tracefs));
    findings
}

/// Removes what owners left that have been dead for a while. Returns how long to wait before looking again, and a sentence about each thing that
/// could not be removed; it is tried again the next time.
pub fn of_dead_owners(tracefs: &Tracefs) -> (Option<Duration>, Vec<String>) {
    let Leftovers { dead, next } = match owner::leftovers(DEAD_FOR) {
        Ok(leftovers) => leftovers,
        Err(error) => return (None, vec![error.to_string()]),
    };
    let findings = dead.into_iter().flat_map(|owner| of_dead_owner(tracefs, owner));
    (next, findings.collect())
}

/// Removes what an owner left that is dead. Returns a sentence about each thing that could not be removed.
pub fn of_dead_owner(tracefs: &Tracefs, owner: DeadOwner) -> Vec<String> {
    // Its probes after its instances: the kernel empties the rings in which a removed probe was enabled.
    let mut left = owner.remove_instances(tracefs);
    left.extend(probe::leftovers(tracefs, &[owner.id()]));
    left.extend(piste_bpf::remove_all(&owner.prefix()));
    if left.is_empty()
        && let Err(error) = owner.forget()
    {
        left.push(error.to_string());
    }
    left
}
